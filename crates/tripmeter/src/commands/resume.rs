//! `tripmeter run --resume`: measures what is missing in a results folder, of any command that measures a plan once.

use super::run::{Prepared, finish, quoted};
use super::show;
use crate::args::{HostsArgs, RunArgs};
use crate::error::CliError;
use crate::output;
use crate::progress::ProgressView;
use crate::sample_files;
use indicatif::HumanDuration;
use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;
use tripmeter_engine::registry::Registry;
use tripmeter_engine::resolve::check_plan;
use tripmeter_engine::{Begun, Followers, LockedFolder, RunError};
use tripmeter_model::folder::MANIFEST;
use tripmeter_model::manifest::{Manifest, RunStatus};
use tripmeter_model::plan::{Plan, SubExperiment};
use tripmeter_model::{exit, printable};

/// Measures the rest of the run in `folder`, prints its tables, and returns the exit code.
pub fn resume(folder: &Path, args: &RunArgs, followers: Followers) -> Result<u8, CliError> {
    let running = &args.running;
    running.output.sorting.refuse_with_json(running.output.json)?;
    // What is no results folder is not written to.
    let manifest = show::read_exact(folder).map_err(|error| {
        let is_missing = folder.is_dir() && folder.join(MANIFEST).symlink_metadata().is_err();
        let begin = "nothing was measured yet; give the command again";
        if is_missing { CliError::new(error.code, format!("{error}; {begin}")) } else { error }
    })?;
    let hosts = &args.measuring.hosts;
    check(folder, &manifest, hosts)?;
    let folder = folder.canonicalize().map_err(|error| {
        let text = format!("results folder '{}' cannot be used: {error}", folder.display());
        CliError::new(exit::NO_INPUT, text)
    })?;
    let place = folder.clone();
    let folder = LockedFolder::take(folder).map_err(RunError::from)?;
    // The run may have ended since, with more than was there then.
    let manifest = show::read_exact(folder.folder())?;
    check(&place, &manifest, hosts)?;
    let tables = show::usual(&manifest);
    let finished = manifest.clone();
    let begun = Begun::finished_payloads(folder, manifest);
    let plan = Plan { tables, for_ns: begun.left_ns(), ..begun.plan().clone() };
    let prepared = Prepared::again(plan, args)?;
    check_systems(&begun, &prepared.registry)?;
    if !running.output.quiet {
        let (rest, all) = (begun.rest().len(), begun.plan().sub_experiments.len() * begun.plan().rounds as usize);
        output::say(&format!("going on: {rest} of {all} sub-experiments are not whole"));
        time_left(&begun).iter().for_each(|line| output::say(line));
    }
    // Nothing is to be measured, so nothing changes.
    if finished.status == RunStatus::Complete && begun.rest().is_empty() {
        // Tables need no samples: a folder may have been copied without them.
        if sample_files::are_there(&place, &finished) {
            begun.check_files()?;
        }
        return finish(&prepared, &finished, &place, &running.output, running.shown);
    }
    let shown = ProgressView::of(running.output.quiet, running.live);
    let (manifest, folder) = prepared.go_on(begun, followers, shown)?;
    finish(&prepared, &manifest, &folder, &running.output, running.shown)
}

/// How long rounds will be repeated, of a run that ends by time.
fn time_left(begun: &Begun) -> Option<String> {
    let words = |ns: u64| HumanDuration(Duration::from_nanos(ns)).to_string();
    let asked = words(begun.plan().for_ns?);
    let Some(left) = begun.left_ns() else {
        return Some(format!("its time (--for {asked}) was over: no further round is measured"));
    };
    Some(match begun.rounds() {
        0 => format!("no round is whole: rounds are repeated for {asked} again (--for); Ctrl-C ends the run"),
        1 => format!("1 round is whole: rounds are repeated for {} more (--for {asked})", words(left)),
        rounds => format!("{rounds} rounds are whole: rounds are repeated for {} more (--for {asked})", words(left)),
    })
}

/// Fails if what is in the folder cannot be resumed by this program, is another command's, or was measured with other hosts.
fn check(folder: &Path, manifest: &Manifest, hosts: &HostsArgs) -> Result<(), CliError> {
    let (folder, source, version) = (folder.display(), manifest.plan.source.as_str(), env!("CARGO_PKG_VERSION"));
    let refused = |why: String| Err(CliError::new(exit::DATA, format!("'{folder}' cannot be resumed: {why}")));
    if source == super::ab::SOURCE {
        return refused("it is of `tripmeter ab`, which goes on by itself: give the same command again".to_owned());
    }
    if manifest.plan.sub_experiments.iter().any(SubExperiment::is_disturbed) {
        return refused("it is of `tripmeter explain`; give that command again, with another folder (-o)".to_owned());
    }
    if manifest.tripmeter_version != version {
        let before = &manifest.tripmeter_version;
        return refused(format!("it was measured by tripmeter {before}, and this is {version}; use that one"));
    }
    let is_bounded = check_plan(&manifest.plan);
    is_bounded.or_else(|error| refused(format!("in its {MANIFEST}, {error}")))?;
    check_hosts(&manifest.plan, hosts)
}

/// Fails if a system that is to be measured is not known: a plugin's file is not kept in the folder, which would have it run.
/// One that is known and not installed fails by itself.
fn check_systems(begun: &Begun, registry: &Registry) -> Result<(), CliError> {
    let rest: HashSet<String> = begun.rest().into_iter().map(|(name, _)| name).collect();
    let systems = begun.plan().sub_experiments.iter().filter(|one| rest.contains(&one.name));
    let mut systems = systems.map(|one| &one.transport.system);
    let Some(system) = systems.find(|system| registry.find(system).is_none()) else { return Ok(()) };
    let text = format!(
        "these results are of transport '{system}', which is not known here; if it is of a plugin that you named, name it \
         again (--plugin FILE)"
    );
    Err(CliError::new(exit::USAGE, printable::line(&text)))
}

/// Fails unless the user names the hosts of the plan: whoever made the folder may have named any, which ssh would log in to.
fn check_hosts(plan: &Plan, given: &HostsArgs) -> Result<(), CliError> {
    let mut planned: Vec<&str> = plan.hosts.iter().map(|host| host.to.as_str()).collect();
    let mut named: Vec<&str> = given.to.iter().map(String::as_str).collect();
    planned.sort_unstable();
    named.sort_unstable();
    // Without hosts nothing is copied.
    if planned == named && (planned.is_empty() || plan.push == given.push) {
        return Ok(());
    }
    if planned.is_empty() {
        return Err(CliError::new(exit::USAGE, "--to: these results are of this host only; leave it out"));
    }
    let flags = plan.hosts.iter().map(|host| format!("--to {}", quoted(&host.to)));
    let flags: Vec<String> = flags.chain(plan.push.then(|| "--push".to_owned())).collect();
    let copied = if plan.push { ", and this program copied there" } else { "" };
    let text = format!(
        "these results are of other hosts, which would be logged in to{copied}; if you trust these, name them again: {}",
        flags.join(" ")
    );
    // One that names none is incomplete.
    let code = if named.is_empty() { exit::USAGE } else { exit::DATA };
    Err(CliError::new(code, printable::line(&text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_a_plan_are_named_again() {
        let check = |planned: &[&str], pushed: bool, to: &[&str], push: bool| {
            let hosts: Vec<_> = planned.iter().map(|to| serde_json::json!({ "to": to })).collect();
            let plan = serde_json::json!({
                "source": "", "sub_experiments": [], "rounds": 1, "seed": 1, "raw": ["samples"], "daemons": "start",
                "loss_timeout_ns": 1, "leader_cpu": null, "follower_cpu": null, "left_out": [], "hosts": hosts,
                "push": pushed,
            });
            let to = to.iter().map(|&to| to.to_owned()).collect();
            check_hosts(&serde_json::from_value(plan).unwrap(), &HostsArgs { to, push, ..HostsArgs::default() })
        };
        for (planned, push) in [(&[][..], false), (&["a@b", "c"], false), (&["c"], true)] {
            assert!(check(planned, push, planned, push).is_ok());
        }
        assert!(check(&["a", "b"], false, &["b", "a"], false).is_ok(), "the plan has the order");
        let refused = |planned: &[&str], pushed, to: &[&str], push| {
            let error = check(planned, pushed, to, push).unwrap_err();
            (error.code, error.to_string())
        };
        let (code, text) = refused(&["a b", "c"], true, &[], false);
        assert!(code == exit::USAGE && text.ends_with("--to 'a b' --to c --push") && text.contains("copied"), "{text}");
        assert_eq!(refused(&[], false, &["c"], false).0, exit::USAGE);
        for (to, push) in [(&["a"][..], true), (&["c"], false), (&["c", "c"], true)] {
            assert_eq!(refused(&["c"], true, to, push).0, exit::DATA);
        }
    }
}

//! `tripmeter run --resume`: measures what is missing in the results folder of any command that measures one plan.

use super::show;
use crate::ab_json;
use crate::args::{HostsArgs, RunArgs};
use crate::error::CliError;
use crate::experiment;
use crate::measurement::{Prepared, finish, quoted};
use crate::output;
use crate::progress::ProgressView;
use crate::sample_files;
use indicatif::HumanDuration;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;
use tripmeter_engine::registry::{Registry, RegistryError};
use tripmeter_engine::resolve::check_plan;
use tripmeter_engine::{Begun, Followers, LockedFolder, RunError, unfinished};
use tripmeter_model::folder::MANIFEST;
use tripmeter_model::manifest::{Manifest, RunStatus};
use tripmeter_model::plan::{Plan, SubExperiment};
use tripmeter_model::transport::Transport;
use tripmeter_model::{exit, printable};

/// Measures the rest of the run in `folder`, prints its tables, and returns the exit code.
pub fn resume(folder: &Path, args: &RunArgs, followers: Followers) -> Result<u8, CliError> {
    let running = &args.running;
    running.output.sorting.refuse_with_json(running.output.json)?;
    // A folder without results is not written to.
    let manifest = show::read_exact(folder).map_err(|error| {
        let is_missing = folder.is_dir() && folder.join(MANIFEST).symlink_metadata().is_err();
        let begin = "nothing was measured yet; repeat the original command";
        if is_missing { CliError::new(error.code, format!("{error}; {begin}")) } else { error }
    })?;
    let registry = experiment::registry(&running.output.plugins, &experiment::program()?)?;
    check(folder, &manifest, args, &registry)?;
    let folder = folder.canonicalize().map_err(|error| {
        let text = format!("results folder '{}' cannot be used: {error}", folder.display());
        CliError::new(exit::NO_INPUT, text)
    })?;
    let folder = LockedFolder::take(&folder).map_err(RunError::from)?;
    // Another process may have continued the run since the first check.
    let place = folder.folder().clone();
    let manifest = show::read_exact(place.path())?;
    check(place.path(), &manifest, args, &registry)?;
    let tables = show::usual(&manifest);
    let finished = manifest.clone();
    let begun = Begun::finished_payloads(folder, manifest);
    let plan = Plan { tables, for_ns: begun.left_ns(), ..begun.plan().clone() };
    let prepared = Prepared::again(plan, args, registry)?;
    if !running.output.quiet {
        let (rest, all) = (begun.rest().len(), begun.plan().sub_experiments.len() * begun.plan().rounds as usize);
        output::say(&format!("continuing: {rest} of {all} sub-experiments are incomplete"));
    }
    // Printed even with `--quiet`: the rest may take an hour.
    time_left(&begun).iter().for_each(|line| output::say(line));
    // Nothing is left to measure, so the folder stays unchanged.
    if finished.status == RunStatus::Complete && begun.rest().is_empty() {
        // Tables need no samples, and a folder may have been copied without them.
        if sample_files::are_there(place.path(), &finished) {
            begun.check_files()?;
        }
        return finish(&prepared, &finished, &place, &running.output, running.shown);
    }
    let shown = ProgressView::from_flags(running.output.quiet, running.live);
    let (manifest, folder) = prepared.go_on(begun, followers, shown)?;
    finish(&prepared, &manifest, &folder, &running.output, running.shown)
}

/// Note on how much longer a run with `--for` repeats rounds.
fn time_left(begun: &Begun) -> Option<String> {
    let words = |ns: u64| HumanDuration(Duration::from_nanos(ns)).to_string();
    let asked = words(begun.plan().for_ns?);
    let Some(left) = begun.left_ns() else {
        return Some(format!("the time of the run (--for {asked}) is over, so no further round is measured"));
    };
    Some(match begun.rounds() {
        0 => format!("no round is complete; rounds are repeated for {asked} (--for); Ctrl-C stops the run"),
        1 => format!("1 round is complete; rounds are repeated for another {} (--for {asked})", words(left)),
        rounds => {
            format!("{rounds} rounds are complete; rounds are repeated for another {} (--for {asked})", words(left))
        }
    })
}

/// Fails if this program cannot resume the folder, if another command made it, or if the flags differ from its plan.
fn check(folder: &Path, manifest: &Manifest, args: &RunArgs, registry: &Registry) -> Result<(), CliError> {
    let (folder, source, version) = (folder.display(), manifest.plan.source.as_str(), env!("CARGO_PKG_VERSION"));
    let refused = |why: String| Err(CliError::new(exit::DATA, format!("'{folder}' cannot be resumed: {why}")));
    if source == ab_json::SOURCE {
        return refused("it was made by `tripmeter ab`; repeat that command to continue it".to_owned());
    }
    if manifest.plan.sub_experiments.iter().any(SubExperiment::is_disturbed) {
        return refused("it was made by `tripmeter explain`; repeat that command with another folder (-o)".to_owned());
    }
    if manifest.tripmeter_version != version {
        let before = &manifest.tripmeter_version;
        return refused(format!("it was made by tripmeter {before}, but this is {version}; use tripmeter {before}"));
    }
    let is_bounded = check_plan(&manifest.plan);
    is_bounded.or_else(|error| refused(format!("in its {MANIFEST}, {error}")))?;
    check_hosts(&manifest.plan, &args.measuring.hosts)?;
    let rest = unfinished(manifest);
    let rest = manifest.plan.sub_experiments.iter().filter(|one| rest.contains(&one.name)).map(|one| &one.transport);
    check_systems(rest.clone(), registry)?;
    check_settings(rest, registry, &args.setting)
}

/// Fails if a system to be measured is unknown. The folder does not record paths of plugins, because whoever made it
/// could then have any code run. A known system that is not installed fails later.
fn check_systems<'a>(transports: impl Iterator<Item = &'a Transport>, registry: &Registry) -> Result<(), CliError> {
    let mut systems = transports.map(|transport| &transport.system);
    let Some(system) = systems.find(|system| registry.find(system).is_none()) else { return Ok(()) };
    let text = format!(
        "these results need transport '{system}', which is unknown here; if it is your plugin, name it (--plugin FILE)"
    );
    Err(CliError::new(exit::USAGE, printable::line(&text)))
}

/// Fails unless the user repeats the plan's settings that may name files or hosts. Otherwise, whoever made the folder
/// could choose what the processes read or connect to.
fn check_settings<'a>(
    transports: impl Iterator<Item = &'a Transport>,
    registry: &Registry,
    given: &[String],
) -> Result<(), CliError> {
    let mut planned = BTreeSet::new();
    for Transport { system, settings, .. } in transports {
        let description = match registry.get(system).map_err(CliError::from)?.describe() {
            Ok(description) => description,
            // Without the plugin, no process can use the setting.
            Err(RegistryError::Missing { .. } | RegistryError::MissingLibrary { .. }) => continue,
            Err(error) => return Err(error.clone().into()),
        };
        for (name, value) in settings {
            let Some(setting) = description.setting(name) else {
                let text = format!("these results have the setting '{name}', which transport '{system}' lacks");
                return Err(CliError::new(exit::DATA, printable::line(&text)));
            };
            if setting.reaches_out(value) {
                planned.insert(format!("{system}?{name}={value}"));
            }
        }
    }
    let named: BTreeSet<String> = given.iter().cloned().collect();
    if planned == named {
        return Ok(());
    }
    if planned.is_empty() {
        let text = "--setting: no unfinished sub-experiment has a setting that names a file or a host; leave it out";
        return Err(CliError::new(exit::USAGE, text));
    }
    let flags: Vec<String> = planned.iter().map(|setting| format!("--setting {}", quoted(setting))).collect();
    let text = format!(
        "settings of these results may open files or connect to hosts; if you trust them, repeat them: {}",
        flags.join(" ")
    );
    Err(CliError::new(code_of(named.is_empty()), printable::line(&text)))
}

/// Exit code if the flags differ from the folder: a usage error if they are missing, else a data error.
fn code_of(names_nothing: bool) -> u8 {
    if names_nothing { exit::USAGE } else { exit::DATA }
}

/// Fails unless the user repeats the hosts of the plan. Otherwise, whoever made the folder could choose the hosts to
/// which ssh logs in.
fn check_hosts(plan: &Plan, given: &HostsArgs) -> Result<(), CliError> {
    let mut planned: Vec<(&str, Option<&str>)> =
        plan.hosts.iter().map(|host| (host.to.as_str(), host.interface.as_deref())).collect();
    let of_host = |at: usize| given.to_interface.get(at).or(given.to_interface.first()).map(String::as_str);
    let mut named: Vec<_> = given.to.iter().enumerate().map(|(at, to)| (to.as_str(), of_host(at))).collect();
    let is_each = given.to_interface.len() <= 1 || given.to_interface.len() == given.to.len();
    planned.sort_unstable();
    named.sort_unstable();
    let is_all = planned == named && is_each && plan.push == given.push && plan.interface == given.interface;
    // Without hosts, the other flags have no effect: nothing is copied, and processes listen on the loopback only.
    if is_all || (planned.is_empty() && named.is_empty()) {
        return Ok(());
    }
    if planned.is_empty() {
        return Err(CliError::new(exit::USAGE, "--to: these results were measured on this host only; leave it out"));
    }
    let flag = |name: &str, value: &String| format!("--{name} {}", quoted(value));
    let interfaces = plan.hosts.iter().filter_map(|host| host.interface.as_ref());
    let flags = plan.hosts.iter().map(|host| flag("to", &host.to));
    let flags = flags.chain(plan.interface.iter().map(|interface| flag("interface", interface)));
    let flags = flags.chain(interfaces.map(|interface| flag("to-interface", interface)));
    let flags: Vec<String> = flags.chain(plan.push.then(|| "--push".to_owned())).collect();
    let copied = if plan.push { ", and copy this program there" } else { "" };
    let text = format!(
        "continuing these results would log in to other hosts{copied}; if you trust them, repeat: {}",
        flags.join(" ")
    );
    Err(CliError::new(code_of(named.is_empty()), printable::line(&text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The user must also choose the listening addresses.
    #[test]
    fn interfaces_of_a_plan_are_named_again() {
        let check = |planned: &[(&str, &str)], to: &[&str], interface: Option<&str>, to_interface: &[&str]| {
            let host = |(to, there): &(&str, &str)| serde_json::json!({ "to": to, "interface": there });
            let plan = serde_json::json!({
                "source": "", "sub_experiments": [], "rounds": 1, "seed": 1, "raw": ["samples"], "daemons": "start",
                "loss_timeout_ns": 1, "leader_cpu": null, "follower_cpu": null, "left_out": [], "interface": "lab",
                "hosts": planned.iter().map(host).collect::<Vec<_>>(),
            });
            let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
            let (to, to_interface, interface) = (owned(to), owned(to_interface), interface.map(str::to_owned));
            let given = HostsArgs { to, interface, to_interface, ..HostsArgs::default() };
            check_hosts(&serde_json::from_value(plan).unwrap(), &given)
        };
        let (one, two) = (&[("a", "eth0")][..], &[("a", "eth0"), ("b", "eth1")][..]);
        assert!(check(one, &["a"], Some("lab"), &["eth0"]).is_ok());
        assert!(check(two, &["b", "a"], Some("lab"), &["eth1", "eth0"]).is_ok(), "each with its own");
        for (to, here, there) in [
            (&["a", "b"][..], Some("lab"), &["eth1", "eth0"][..]),
            (&["a", "b"], Some("lab"), &["eth0"]),
            (&["a", "b"], Some("lab"), &[]),
            (&["a", "b"], Some("wan"), &["eth0", "eth1"]),
            (&["a", "b"], None, &["eth0", "eth1"]),
        ] {
            let error = check(two, to, here, there).unwrap_err();
            let again = "--to a --to b --interface lab --to-interface eth0 --to-interface eth1";
            assert!(error.code == exit::DATA && error.to_string().ends_with(again), "{error}");
        }
    }

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
        assert!(
            code == exit::USAGE && text.ends_with("--to 'a b' --to c --push") && text.contains("copy this program"),
            "{text}"
        );
        assert_eq!(refused(&[], false, &["c"], false).0, exit::USAGE);
        for (to, push) in [(&["a"][..], true), (&["c"], false), (&["c", "c"], true)] {
            assert_eq!(refused(&["c"], true, to, push).0, exit::DATA);
        }
    }
}

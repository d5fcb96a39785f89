//! Preparation, run, output and exit code, for every command that measures a plan.

use crate::args::{AllowedArgs, ExperimentArgs, OutputArgs, PluginArgs, RunArgs, ShownArgs};
use crate::commands::{export, report, show};
use crate::error::CliError;
use crate::progress::{Progress, ProgressView};
use crate::recording::{self, Opened};
use crate::repeat::rounds_wanted;
use crate::results::is_results;
use crate::signals::stop_on_signals;
use crate::{experiment, output};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tripmeter_engine::registry::Registry;
use tripmeter_engine::{Begun, Event, Followers, OutputFolder, RunOptions, system_calls};
use tripmeter_model::experiment::TableKind;
use tripmeter_model::folder::LOGS;
use tripmeter_model::folder_handle::FolderHandle;
use tripmeter_model::manifest::{Manifest, RunStatus, SubExperimentResult, Verdict, has_several_sizes};
use tripmeter_model::pattern::DEFAULT_PATTERN;
use tripmeter_model::payload::ALL_TOPICS;
use tripmeter_model::plan::{Plan, SubExperiment};
use tripmeter_model::{exit, printable};
use tripmeter_report::{FLOOR, counted};

/// Maximum time without a heartbeat of a measuring process, which sends one per second.
pub const WATCHDOG: Duration = Duration::from_secs(20);

pub struct Measurement<'a> {
    pub experiment: &'a ExperimentArgs,
    pub output: &'a OutputArgs,
    pub is_live: bool,
    pub shown: ShownArgs,
    pub followers: Followers,
    /// True if nothing is measured when the audit of the machine warns or fails.
    pub is_strict: bool,
}

pub fn measure(asked: &Measurement<'_>) -> Result<u8, CliError> {
    let (output, followers) = (asked.output, &asked.followers);
    output.sorting.refuse_with_json(output.json)?;
    if let Some(folder) = output.folder.as_deref().filter(|folder| is_results(folder)) {
        // For results of an old version, the error names the version rather than the existing folder.
        show::read_exact(folder)?;
    }
    let prepared =
        Prepared { strict: asked.is_strict, ..Prepared::new(asked.experiment, &output.plugins, output.quiet)? };
    if matches!(followers, Followers::ByHand { .. })
        && let Some(several) = prepared.plan.sub_experiments.iter().find(|one| one.workload.is_fan_out())
    {
        let (transport, count) = (&several.transport, several.workload.followers());
        let text = format!(
            "transport '{transport}': {count} followers, but only 1 can be started by hand; use --followers 1, or \
             leave --rendezvous out"
        );
        return Err(CliError::new(exit::USAGE, text));
    }
    let (manifest, folder) = prepared.run_into(
        output.folder.as_deref().into(),
        followers.clone(),
        ProgressView::from_flags(output.quiet, asked.is_live),
    )?;
    finish(&prepared, &manifest, &folder, output, asked.shown)
}

/// Prints the tables of a run, writes its page, and returns the exit code.
pub fn finish(
    prepared: &Prepared,
    manifest: &Manifest,
    folder: &FolderHandle,
    output: &OutputArgs,
    shown: ShownArgs,
) -> Result<u8, CliError> {
    let tables = &prepared.plan.tables;
    if output.json {
        output::print(&format!("{:#}\n", manifest.whole()))?;
    } else {
        show::print(&show::printable(manifest), tables, shown, &output.sorting)?;
    }
    if !output.no_report {
        report::of_run(manifest, folder, output.quiet)?;
    }
    let is_screen = tables.contains(&TableKind::Screen) && !shown.wide;
    if is_screen && !output.json && !output.quiet {
        say_next(&show::printable(manifest), folder.path(), &output.plugins.plugin);
    }
    if tables.contains(&TableKind::Aimrt) {
        export::plots_of_run(manifest, folder, output.quiet)?;
    }
    output::print_folder(output, folder.path())?;
    Ok(exit_code(manifest, prepared.allowed))
}

/// Prints commands to run next.
fn say_next(manifest: &Manifest, folder: &Path, plugins: &[PathBuf]) {
    next(manifest, folder, plugins).iter().for_each(|line| output::say(line));
}

fn next(manifest: &Manifest, folder: &Path, plugins: &[PathBuf]) -> Vec<String> {
    let is_measured = |one: &&SubExperiment| {
        manifest.sub_experiments.iter().any(|result| result.name == one.name && !result.cells.is_empty())
    };
    let measured = || manifest.plan.sub_experiments.iter().filter(is_measured);
    let Some(first) = measured().next() else { return Vec::new() };
    let folder = quoted(&folder.display().to_string());
    let pattern = measured().find(|one| !one.added_as_floor).unwrap_or(first).pattern;
    let command = if pattern == DEFAULT_PATTERN { String::new() } else { format!(" --pattern {pattern}") };
    let is_meant = |one: &&SubExperiment| !one.added_as_floor && one.pattern == pattern && !one.workload.is_recorded();
    let meant: Vec<&SubExperiment> = measured().filter(is_meant).collect();
    let is_other = |one: &&&SubExperiment| one.transport.system != FLOOR;
    // The floor is not compared with others.
    let without_floor = meant.iter().filter(is_other).count() > 1;
    let meant = meant.iter().filter(|one| !without_floor || is_other(one));
    let transports: BTreeSet<String> = meant.map(|one| one.transport.to_string()).collect();
    let mut transports = transports.iter();
    let second = match (transports.next(), transports.next()) {
        (Some(a), Some(b)) => {
            let plugin = |file: &PathBuf| format!(" --plugin {}", quoted(&file.display().to_string()));
            let plugins: String = plugins.iter().map(plugin).collect();
            format!("tripmeter ab {} {}{command}{}{plugins}", quoted(a), quoted(b), between_hosts(&manifest.plan))
        }
        _ => format!("tripmeter export {folder} --format csv"),
    };
    vec![format!("next: tripmeter show {folder} --wide"), format!("      {second}")]
}

/// Flags for the hosts and interfaces of a plan.
fn between_hosts(plan: &Plan) -> String {
    let own = plan.interface.iter().map(|interface| ("--interface", interface));
    let theirs = plan.hosts.iter().filter_map(|host| host.interface.as_ref()).map(|one| ("--to-interface", one));
    let flags = plan.hosts.iter().map(|host| ("--to", &host.to)).chain(own).chain(theirs);
    flags.map(|(flag, value)| format!(" {flag} {}", quoted(value))).collect()
}

/// Quotes a word for a shell.
pub fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-=@:".contains(letter);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

/// A resolved experiment, which can be run more than once.
pub struct Prepared {
    pub plan: Plan,
    pub registry: Registry,
    program: PathBuf,
    stop: Arc<AtomicBool>,
    /// True if nothing is measured when the audit of the machine warns or fails.
    strict: bool,
    spin: bool,
    parquet: Option<PathBuf>,
    /// Losses and damage that do not change the exit code.
    pub allowed: AllowedArgs,
    /// Keeps the schedule file that the plan refers to.
    _recording: Option<Opened>,
}

impl Prepared {
    /// Finds the systems and resolves the experiment. Prints the transports left out; if `quiet`, only those that the
    /// user named.
    pub fn new(args: &ExperimentArgs, plugins: &PluginArgs, quiet: bool) -> Result<Self, CliError> {
        let stop = stop_on_signals()?;
        let program = experiment::program()?;
        let registry = experiment::registry(plugins, &program)?;
        let mut opened = None;
        let mut plan = experiment::plan(args, &registry, |asked| {
            let read = recording::open(asked, &stop, quiet)?;
            Ok(opened.insert(read).recording.clone())
        })?;
        plan.push = args.measuring.hosts.push;
        // A named transport that is missing decides the exit code, so it is always printed.
        let said = if quiet { &plan.missing } else { &plan.left_out };
        said.iter().for_each(|line| output::say(&format!("left out: {line}")));
        let allowed = args.allowed;
        let parquet = experiment::parquet(&plan, &program)?;
        Ok(Self {
            plan,
            registry,
            program,
            parquet,
            stop,
            strict: false,
            spin: !args.measuring.no_spin,
            allowed,
            _recording: opened,
        })
    }

    /// Prepares a plan to be resumed, and opens its recording.
    pub fn again(mut plan: Plan, args: &RunArgs, registry: Registry) -> Result<Self, CliError> {
        let (stop, program, running) = (stop_on_signals()?, experiment::program()?, &args.running);
        let parquet = experiment::parquet(&plan, &program)?;
        let usage = |text: &str| Err(CliError::new(exit::USAGE, text));
        let opened = match (plan.recording.as_ref().filter(|before| before.has_file()), &args.recording[..]) {
            (None, []) => plan.recording.clone().map(recording::of_topics).transpose()?,
            (None, _) => return usage("--recording: these results were not made from a recording; leave it out"),
            (Some(before), []) => {
                let several = if before.files.is_empty() { "" } else { "; once for each file" };
                let text =
                    format!("these results were made from a recording; name its file (--recording FILE{several})");
                return usage(&text);
            }
            (Some(before), files) => {
                let opened = recording::of_files(&recording::again(before, files), &stop, running.output.quiet)?;
                if !recording::is_same(&opened.recording, before) {
                    let (file, before) = (files[0].display(), &before.file);
                    let text = format!("'{file}' differs from '{before}', the recording of these results");
                    return Err(CliError::new(exit::DATA, printable::line(&text)));
                }
                Some(opened)
            }
        };
        plan.recording = opened.as_ref().map(|opened| opened.recording.clone());
        plan.missing.iter().for_each(|line| {
            output::say(&format!("left out, not in these results: {line}; a new run can measure it"));
        });
        let (strict, allowed) = (running.strict, running.allowed);
        Ok(Self {
            plan,
            registry,
            program,
            stop,
            strict,
            spin: !args.measuring.no_spin,
            parquet,
            allowed,
            _recording: opened,
        })
    }

    pub fn go_on(
        &self,
        begun: Begun,
        followers: Followers,
        shown: ProgressView,
    ) -> Result<(Manifest, FolderHandle), CliError> {
        let options = RunOptions { begun: Some(begun), ..self.options(OutputFolder::Dated, followers) };
        self.run_with(&options, shown, &mut rounds_wanted(&self.plan, self.stop.clone()))
    }

    fn options(&self, output: OutputFolder, followers: Followers) -> RunOptions {
        RunOptions {
            output,
            begun: None,
            followers,
            stop: self.stop.clone(),
            tripmeter: self.program.clone(),
            watchdog: WATCHDOG,
            strict: self.strict,
            spin: self.spin,
            parquet: self.parquet.clone(),
        }
    }

    /// Runs the plan, with progress unless `quiet`; into a dated folder if `output` is `None`.
    pub fn run(&self, output: Option<&Path>, followers: Followers, quiet: bool) -> Result<Manifest, CliError> {
        self.run_into(output.into(), followers, ProgressView::from_flags(quiet, false)).map(|(manifest, _)| manifest)
    }

    /// Runs the plan; also returns the results folder.
    pub fn run_into(
        &self,
        output: OutputFolder,
        followers: Followers,
        shown: ProgressView,
    ) -> Result<(Manifest, FolderHandle), CliError> {
        self.run_while(output, followers, shown, &mut rounds_wanted(&self.plan, self.stop.clone()))
    }

    /// Runs the plan. `rounds_wanted` returns the number of rounds, before the first round and after each.
    pub fn run_while(
        &self,
        output: OutputFolder,
        followers: Followers,
        shown: ProgressView,
        rounds_wanted: &mut dyn FnMut(&Manifest) -> u32,
    ) -> Result<(Manifest, FolderHandle), CliError> {
        self.run_with(&self.options(output, followers), shown, rounds_wanted)
    }

    fn run_with(
        &self,
        options: &RunOptions,
        shown: ProgressView,
        rounds_wanted: &mut dyn FnMut(&Manifest) -> u32,
    ) -> Result<(Manifest, FolderHandle), CliError> {
        let mut progress = Progress::new(&self.plan, shown, &self.stop);
        options.begun.iter().for_each(|begun| progress.resume(&begun.rest()));
        let mut folder = None;
        let mut watch = |event: &Event<'_>| {
            if let Event::Results(place) = event {
                folder = Some(place.clone());
            }
            progress.watch(event);
        };
        let registry_of = |_: &str| &self.registry;
        let outcome = tripmeter_engine::run_while(&self.plan, &registry_of, options, &mut watch, rounds_wanted);
        progress.end();
        if let (Err(_), Some(Ok(logs))) = (&outcome, folder.as_ref().map(|folder| folder.inside(LOGS))) {
            system_calls::remove_traces(&self.plan, &logs);
        }
        Ok((outcome?, folder.expect("a run that ended has told its results folder")))
    }
}

/// Exit code of a finished run; prints lines on damaged or missing messages.
pub fn exit_code(manifest: &Manifest, allowed: AllowedArgs) -> u8 {
    if manifest.status == RunStatus::Interrupted {
        return exit::INTERRUPTED;
    }
    let mut bad = bad_messages(manifest, allowed);
    bad.extend(unmeasured(manifest));
    bad.iter().for_each(|line| output::say(&format!("tripmeter: {line}")));
    let failed = manifest.sub_experiments.iter().any(|result| {
        let proof_failed = result.path_proof.as_ref().is_some_and(|proof| proof.verdict == Verdict::Failed);
        result.status != RunStatus::Complete || proof_failed
    });
    if failed || !bad.is_empty() || !manifest.plan.missing.is_empty() { exit::PARTIAL } else { exit::GOOD }
}

/// Lines on payloads and loads without a message although their sub-experiment completed.
fn unmeasured(manifest: &Manifest) -> Vec<String> {
    let planned = |result: &SubExperimentResult| {
        manifest.plan.sub_experiments.iter().find(|plan| plan.name == result.name && !plan.is_disturbed())
    };
    let results = manifest.sub_experiments.iter().filter_map(|result| Some((result, planned(result)?)));
    let lines = results.flat_map(|(result, plan)| {
        result.unmeasured(plan).map(|one| format!("{}: {one}; raise --time-cap", result.name))
    });
    lines.collect()
}

/// Lines on path proofs and payloads with damaged messages, and on payloads that lost all messages.
fn bad_messages(manifest: &Manifest, allowed: AllowedArgs) -> Vec<String> {
    let mut lines = Vec::new();
    let proofs = manifest.sub_experiments.iter().filter_map(|result| Some((result, result.path_proof.as_ref()?)));
    for (result, proof) in proofs.filter(|(_, proof)| proof.damaged > 0 && !allowed.allow_damage) {
        let (name, damaged) = (&result.name, counted(proof.damaged as usize, "message"));
        lines.push(format!("{name}: {damaged} of its path proof came damaged; --allow-damage accepts this"));
    }
    let cells = manifest.sub_experiments.iter().flat_map(|result| result.cells.iter().map(move |cell| (result, cell)));
    for (result, cell) in cells {
        let plan = manifest.plan.sub_experiments.iter().find(|plan| plan.name == result.name);
        let place = match plan.is_some_and(|plan| has_several_sizes(plan, [cell])) {
            true => format!("{} on {ALL_TOPICS}", result.name),
            false => format!("{} at {} bytes", result.name, cell.payload_bytes),
        };
        let [noun, damaged, lost] = match cell.is_of_calls() {
            true => ["call", "failed", "no call succeeded"],
            false => ["message", "came damaged", "no message arrived intact and in time"],
        };
        if cell.is_damaged() && !allowed.allow_damage {
            let attempts = cell.earlier_attempts.iter().chain([cell]);
            let sent = attempts.map(|one| one.counts().sent.saturating_add(one.warmup_damaged));
            let sent = sent.fold(0, u64::saturating_add);
            let of = format!("{} of {} {damaged}", cell.damaged(), counted(sent as usize, noun));
            lines.push(format!("{place}: {of}; --allow-damage accepts this"));
        }
        if cell.is_all_lost() && !allowed.allow_loss {
            lines.push(format!("{place}: {lost}; --allow-loss accepts this"));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_named_for_what_was_measured_only() {
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results/quick");
        let mut manifest = show::read(&kept).unwrap();
        let ab = |manifest: &Manifest| {
            next(manifest, Path::new("r"), &["my plugin.so".into()]).last().cloned().unwrap_or_default()
        };
        let line = ab(&manifest);
        assert!(line.contains("tripmeter ab ") && line.ends_with(" --plugin 'my plugin.so'"), "{line}");
        // If only one transport besides the floor has figures, there is nothing to compare.
        manifest.sub_experiments.iter_mut().filter(|one| one.name != "mq_queue_poll").for_each(|one| one.cells.clear());
        assert_eq!(ab(&manifest), "      tripmeter export r --format csv");
        manifest.sub_experiments.iter_mut().for_each(|one| one.cells.clear());
        assert_eq!(next(&manifest, Path::new("r"), &[]), Vec::<String>::new());
    }
}

//! `tripmeter ab`: measures two sides in random pairs until it is known whether the second is slower.

mod asked;
mod found;
mod pace;
mod resume;

use super::report;
use crate::ab_json::SOURCE;
use crate::args::{AbArgs, AbCommand, ExperimentArgs};
use crate::error::CliError;
use crate::lock::lock;
use crate::measurement::WATCHDOG;
use crate::output;
use crate::progress::{Progress, ProgressView};
use crate::recording::Opened;
use crate::signals::stop_on_signals;
use crate::{experiment, recording, verdicts};
pub use asked::this_build;
use asked::{Asked, HashedPlugin, question};
use found::{Found, SIDES};
use pace::{MOST_PAIRS, Pace};
use resume::Unfinished;
use serde_json::Value;
use std::cell::OnceCell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tripmeter_engine::registry::{Prober, Registry};
use tripmeter_engine::resolve::check_rounds;
use tripmeter_engine::{Event, Followers, RunOptions};
use tripmeter_model::exit;
use tripmeter_model::experiment::Experiment;
use tripmeter_model::folder_handle::FolderHandle;
use tripmeter_model::manifest::{Manifest, RunStatus};
use tripmeter_model::pattern::TrialEnd;
use tripmeter_model::plan::{Plan, SubExperiment};
use tripmeter_stats::shift::fewest_pairs;

/// Default payloads; few, because each additional comparison raises the evidence that every verdict needs.
const DEFAULT_PAYLOADS: &str = "1k,64k";
/// Least number of rounds, which shows how much figures vary from run to run; many comparisons need more.
const FIRST_ROUNDS: u64 = 10;

pub struct AbReport {
    /// Contents of `ab.json`.
    pub json: Value,
    text: String,
    code: u8,
    manifest: Manifest,
    pub folder: FolderHandle,
}

pub fn ab(args: &AbArgs) -> Result<u8, CliError> {
    args.output.sorting.refuse_with_json(args.output.json)?;
    args.refuse_secrets()?;
    let judged = judge(args, stop_on_signals()?, |_| {})?;
    output::print(&match args.output.json {
        true => serde_json::to_string_pretty(&judged.json).expect("it is plain data") + "\n",
        false => judged.text,
    })?;
    if !args.output.no_report {
        report::of_run(&judged.manifest, &judged.folder, args.output.quiet)?;
    }
    output::print_folder(&args.output, judged.folder.path())?;
    Ok(judged.code)
}

/// Measures both sides and judges them; `adjust` may change the plan before anything is measured.
pub fn judge(args: &AbArgs, stop: Arc<AtomicBool>, adjust: impl FnOnce(&mut Plan)) -> Result<AbReport, CliError> {
    let question = question(args)?;
    let program = experiment::program()?;
    let registries = [registry(args, 0, &program)?, registry(args, 1, &program)?];
    let unfinished = Unfinished::find(args.output.folder.as_deref())?;
    let selection = asked::selection(args)?;
    let opened = recording(args, &stop)?;
    let mut plan = plan(args, &registries, opened.as_ref())?;
    // The seed of the unfinished run keeps its random order.
    let before = unfinished.as_ref().map(Unfinished::seed).filter(|_| args.measuring.seed.is_none());
    plan.seed = before.unwrap_or(plan.seed);
    let first = &plan.sub_experiments[0];
    let figures = selection.most(usual_figures(first));
    let comparisons = (first.payloads.len() * first.workload.loads.len().max(1) * figures) as u64;
    plan.rounds = first_rounds(args, comparisons)?;
    plan.push = args.measuring.hosts.push;
    adjust(&mut plan);
    check_rounds(&plan)?;
    let plugin = |side: usize| plugin(&registries[side], &plan.sub_experiments[side]).transpose();
    let asked = Asked::new(args, question, [plugin(0)?, plugin(1)?])?;
    let begun = unfinished.as_ref().map(|unfinished| unfinished.begun(&plan, &asked)).transpose()?;
    let mut pace = Pace::new(args, &plan, unfinished.as_ref().map_or(Duration::ZERO, Unfinished::spent));
    let parquet = experiment::parquet(&plan, &program)?;
    let options = RunOptions {
        output: args.output.folder.as_deref().into(),
        begun,
        followers: Followers::Local,
        stop,
        tripmeter: program,
        watchdog: WATCHDOG,
        strict: false,
        spin: !args.measuring.no_spin,
        parquet,
    };
    let (manifest, folder) = measure(&plan, &registries, &options, &asked, &mut pace)?;
    let found = Found::from_manifest(&manifest, &asked)?;
    pace.needed = found.needed(&asked.question, args.effect.0);
    let made = found.json(&asked, &pace.so_far());
    found.write(&folder, &made)?;
    if manifest.status == RunStatus::Interrupted && !args.output.quiet {
        output::say(&format!("stopped; repeat the command with -o '{}' to continue", folder.path().display()));
    }
    for why in found.missed_rates() {
        output::say(&format!("tripmeter: {why}"));
    }
    let (text, code) = (found.text(&asked, pace.stopped), found.exit_code());
    Ok(AbReport { json: made, text, code, manifest, folder })
}

/// Runs the missing rounds of the plan and judges after each; returns manifest and results folder.
fn measure(
    plan: &Plan,
    registries: &[Registry; 2],
    options: &RunOptions,
    asked: &Asked<'_>,
    pace: &mut Pace,
) -> Result<(Manifest, FolderHandle), CliError> {
    let quiet = asked.args.output.quiet;
    let (folder, locked) = (OnceCell::new(), OnceCell::new());
    if let Some(begun) = options.begun.as_ref().filter(|_| !quiet) {
        output::say(&format!("continuing after {} rounds that were measured before", begun.rounds()));
    }
    let mut progress = Progress::new(plan, ProgressView::from_flags(quiet, asked.args.live), &options.stop);
    let mut watch = |event: &Event<'_>| {
        if let Event::Results(results) = event {
            folder.get_or_init(|| results.clone());
            if options.begun.is_none() {
                let lock = lock(results, "ab", "-o");
                locked.get_or_init(|| lock.inspect_err(|error| output::say(&format!("note: {error}"))).ok());
            }
        }
        progress.watch(event);
    };
    let registry_of = |name: &str| &registries[usize::from(name == SIDES[1])];
    let mut rounds_wanted = |manifest: &Manifest| {
        let found = Found::from_manifest(manifest, asked);
        if let (Some(folder), Ok(found)) = (folder.get(), &found)
            && let Err(error) = found.write(folder, &found.json(asked, &pace.so_far()))
        {
            output::say(&format!("note: {error}"));
        }
        found.map_or(manifest.plan.rounds, |found| pace.rounds_wanted(&found, &asked.question))
    };
    let outcome = tripmeter_engine::run_while(plan, &registry_of, options, &mut watch, &mut rounds_wanted);
    progress.end();
    Ok((outcome?, folder.into_inner().expect("a finished run has reported its results folder")))
}

fn registry(args: &AbArgs, side: usize, program: &Path) -> Result<Registry, CliError> {
    let folder = [&args.sides.transports_a, &args.sides.transports_b][side];
    let first = folder.iter().map(|folder| {
        folder.canonicalize().map_err(|error| {
            let text = format!("plugin folder '{}' cannot be read: {error}", folder.display());
            CliError::new(exit::NO_INPUT, text)
        })
    });
    let environment = [&args.sides.env_a, &args.sides.env_b][side].iter().cloned().collect();
    let prober = Prober { program: program.to_path_buf(), environment };
    experiment::registry_with(&first.collect::<Result<Vec<_>, _>>()?, &args.output.plugins.plugin, prober)
}

fn plugin(registry: &Registry, side: &SubExperiment) -> Option<Result<HashedPlugin, CliError>> {
    registry.plugin_file(&side.transport.system).map(HashedPlugin::read)
}

/// Plan with both sides as its two sub-experiments.
fn plan(args: &AbArgs, registries: &[Registry; 2], opened: Option<&Opened>) -> Result<Plan, CliError> {
    let (mut plan, mut sides) = (None, Vec::new());
    for side in [0, 1] {
        let written = [Some(&args.sides.a), args.sides.b.as_ref()][side].unwrap_or(&args.sides.a);
        let mut experiment = ExperimentArgs {
            transports: vec![written.clone()],
            workload: args.workload.workload(),
            recording: args.workload.recording(),
            measuring: args.measuring.clone(),
            no_floor: true,
            // Any number above 1 will do: the number of rounds is decided later.
            rounds: Some(FIRST_ROUNDS as u32),
            ..ExperimentArgs::default()
        };
        if opened.is_none() {
            experiment.measuring.payloads.get_or_insert_with(|| DEFAULT_PAYLOADS.to_owned());
        }
        let mut made = experiment::plan(&experiment, &registries[side], |_| {
            Ok(opened.expect("what both sides play was opened").recording.clone())
        })?;
        let mut found = made.sub_experiments.drain(..);
        let (Some(mut sub), None) = (found.next(), found.next()) else {
            let text = format!(
                "'{written}' matches several transports or loads, but a side is exactly one; name a variant, and give \
                 --background once"
            );
            return Err(CliError::new(exit::USAGE, text));
        };
        drop(found);
        in_its_folder(args, side, &sub, &registries[side])?;
        sub.name = SIDES[side].to_owned();
        sub.environment = [&args.sides.env_a, &args.sides.env_b][side].iter().cloned().collect();
        sides.push(sub);
        plan.get_or_insert(made);
    }
    if sides[0].wait != sides[1].wait && !args.output.quiet {
        let (a, b) = (sides[0].wait, sides[1].wait);
        output::say(&format!("note: A waits by {a}, but B by {b}; use --wait to set both"));
    }
    let mut plan = plan.expect("both sides were planned");
    plan.source = SOURCE.to_owned();
    plan.sub_experiments = sides;
    Ok(plan)
}

/// Default number of figures judged per row: the rate if bounds end a trial, else two of the latency.
fn usual_figures(side: &SubExperiment) -> usize {
    if side.trial_end() == Some(TrialEnd::Bounds) { 1 } else { 2 }
}

/// Recording that both sides play, if any.
fn recording(args: &AbArgs, stop: &AtomicBool) -> Result<Option<Opened>, CliError> {
    let experiment = Experiment {
        written_recording: args.workload.recording(),
        written_topics: args.workload.flags.topics.clone(),
        duration_s: args.workload.flags.common.duration_s,
        ..Experiment::default()
    };
    let has_file = experiment.written_recording.is_some();
    let usage = |text| Err(CliError::new(exit::USAGE, text));
    let command = args.workload.command;
    match (command == Some(AbCommand::Replay), has_file) {
        (true, false) => usage("--pattern replay needs a recording (--recording FILE)"),
        (false, true) => usage("--recording requires --pattern replay"),
        _ if !experiment.is_recorded() => Ok(None),
        _ if command.is_some_and(AbCommand::plays_topics) => {
            recording::open(&experiment, stop, args.output.quiet).map(Some)
        }
        _ => usage("--topic requires --pattern publish"),
    }
}

/// Refuses a side that has its own plugin folder but takes its plugin from elsewhere.
fn in_its_folder(args: &AbArgs, side: usize, sub: &SubExperiment, registry: &Registry) -> Result<(), CliError> {
    let Some(folder) = [&args.sides.transports_a, &args.sides.transports_b][side] else { return Ok(()) };
    let canonical = |path: &Path| path.canonicalize().ok();
    let is_in = |file: &Path| file.parent().is_some_and(|parent| canonical(parent) == canonical(folder));
    if registry.plugin_file(&sub.transport.system).is_some_and(is_in) {
        return Ok(());
    }
    let (system, folder, flag) = (&sub.transport.system, folder.display(), ["-a", "-b"][side]);
    let text = format!(
        "'{folder}' has no plugin 'tripmeter_{system}.so', so {} would use another; name its folder \
         (--transports{flag})",
        SIDES[side].to_uppercase()
    );
    Err(CliError::new(exit::NO_INPUT, text))
}

/// Requested number of rounds, or enough for the spread of the figures and for confidence intervals.
fn first_rounds(args: &AbArgs, comparisons: u64) -> Result<u32, CliError> {
    let fewest = fewest_pairs(verdicts::RATE);
    // Enough to detect a single change among all comparisons.
    let fewest_of_all = fewest_pairs(verdicts::RATE / comparisons as f64);
    let Some(rounds) = args.rounds else { return Ok(fewest_of_all.max(FIRST_ROUNDS) as u32) };
    if !(fewest..=MOST_PAIRS).contains(&rounds.into()) {
        let text = format!(
            "--rounds {rounds} is outside {fewest} to {MOST_PAIRS}; a 95 % confidence interval needs {fewest} pairs"
        );
        return Err(CliError::new(exit::USAGE, text));
    }
    if u64::from(rounds) < fewest_of_all && !args.output.quiet {
        output::say(&format!(
            "note: to detect a single change in {comparisons} comparisons, at least {fewest_of_all} rounds are needed; \
             use more rounds, or fewer payloads"
        ));
    }
    Ok(rounds)
}

//! `tripmeter ab`: two sides, measured in random pairs until it can be told whether the second is slower.

use super::run::{WATCHDOG, stop_on_signals};
use crate::args::{AbArgs, ExperimentArgs};
use crate::error::CliError;
use crate::output;
use crate::progress::Progress;
use crate::{experiment, verdicts};
use serde_json::{Value, json};
use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tripmeter_engine::registry::{Prober, Registry};
use tripmeter_engine::{Event, Followers, RunOptions};
use tripmeter_model::exit;
use tripmeter_model::file::write_whole;
use tripmeter_model::manifest::{Manifest, Status};
use tripmeter_model::plan::{Plan, SubExperiment};
use tripmeter_report::Ab;
use tripmeter_stats::change::Verdict;
use tripmeter_stats::pairs::{Failure, Pair, Pairs};
use tripmeter_stats::power::Layout;
use tripmeter_stats::runs::{Comparison, Figure, Question, compare, runs_needed};
use tripmeter_stats::shift::fewest_pairs;

/// What comes of it, beside the manifest.
const FILE: &str = "ab.json";
const SCHEMA_VERSION: u32 = 1;
/// Names of the sub-experiments.
const SIDES: [&str; 2] = ["a", "b"];
/// Payloads if none are asked for: every one more makes all verdicts harder.
const DEFAULT_PAYLOADS: &str = "1k,64k";
/// Rounds that show how much figures differ from run to run, if the level does not need more.
const FIRST_ROUNDS: u64 = 10;
const MOST_ROUNDS: u64 = 1000;

/// What came of both sides.
pub struct Judged {
    /// `ab.json`
    pub json: Value,
    text: String,
    code: u8,
}

/// `tripmeter ab`
pub fn ab(args: &AbArgs) -> Result<u8, CliError> {
    let judged = judge(args, stop_on_signals()?, |_| {})?;
    output::print(&match args.json {
        true => serde_json::to_string_pretty(&judged.json).expect("it is plain data") + "\n",
        false => judged.text,
    })?;
    Ok(judged.code)
}

/// Measures both sides, and judges; `adjust` may change the plan before anything is measured.
pub fn judge(args: &AbArgs, stop: Arc<AtomicBool>, adjust: impl FnOnce(&mut Plan)) -> Result<Judged, CliError> {
    let question = question(args)?;
    let program = experiment::program()?;
    let registries = [registry(args, 0, &program)?, registry(args, 1, &program)?];
    let mut plan = plan(args, &registries)?;
    let comparisons = (plan.sub_experiments[0].payloads.len() * Figure::ALL.len()) as u64;
    plan.rounds = first_rounds(args, comparisons)?;
    adjust(&mut plan);
    let options = RunOptions {
        output: args.output.clone(),
        followers: Followers::Local,
        stop,
        tripmeter: program,
        watchdog: WATCHDOG,
        strict: false,
    };
    let plugins = [0, 1].map(|side| plugin(&registries[side], &plan.sub_experiments[side]));
    let folder = OnceCell::new();
    let mut pace = Pace::new(args, plan.rounds);
    let mut progress = Progress::new(&plan, args.quiet);
    let mut watch = |event: &Event| {
        if let Event::Results(results) = event {
            folder.get_or_init(|| results.clone());
        }
        progress.watch(event);
    };
    let registry_of = |name: &str| &registries[usize::from(name == SIDES[1])];
    let mut rounds_wanted = |manifest: &Manifest| {
        let found = Found::of(manifest, &question);
        if let (Some(folder), Ok(found)) = (folder.get(), &found)
            && let Err(error) = found.write(folder, &as_json(found, args, &question, &plugins, &pace))
        {
            output::say(&format!("note: {error}"));
        }
        found.map_or(manifest.plan.rounds, |found| pace.rounds_wanted(&found, &question))
    };
    let outcome = tripmeter_engine::run_while(&plan, &registry_of, &options, &mut watch, &mut rounds_wanted);
    progress.end();
    let manifest = outcome?;
    let found = Found::of(&manifest, &question)?;
    pace.needed = found.needed(&question, args.effect.0);
    let made = as_json(&found, args, &question, &plugins, &pace);
    let folder = folder.get().expect("a run that ended has told its results folder");
    found.write(folder, &made)?;
    let (text, code) = (found.text(args, &question, &plugins, &pace), found.exit_code());
    Ok(Judged { json: made, text, code })
}

/// What is asked; everything that can be wrong with it is told before anything is looked for.
fn question(args: &AbArgs) -> Result<Question, CliError> {
    let (margin, effect, power) = (args.margin.0, args.effect.0, args.power.0);
    let wrong = |text: String| Err(CliError::new(exit::USAGE, text));
    if effect <= margin {
        let [effect, margin] = [effect, margin].map(tripmeter_report::percent);
        return wrong(format!("an effect of {effect} is within the margin of {margin}; make it larger (--effect)"));
    }
    if power < 0.5 {
        let power = tripmeter_report::percent(power);
        return wrong(format!("a probability of {power} is below 50 %; ask for more (--power)"));
    }
    if !(args.budget > 0.0 && args.budget <= 1e7) {
        let budget = args.budget;
        return wrong(format!("a budget of {budget} s is not above 0 and up to 10000000 s (--budget)"));
    }
    Ok(Question { layout: Layout::Paired, margin, control: verdicts::CONTROL, power })
}

/// The systems as one side finds them.
fn registry(args: &AbArgs, side: usize, program: &Path) -> Result<Registry, CliError> {
    let folder = [&args.transports_a, &args.transports_b][side];
    let first = folder.iter().map(|folder| {
        folder.canonicalize().map_err(|error| {
            let text = format!("folder '{}' of plugins cannot be read: {error}", folder.display());
            CliError::new(exit::NO_INPUT, text)
        })
    });
    let environment = [&args.env_a, &args.env_b][side].iter().cloned().collect();
    let prober = Prober { program: program.to_path_buf(), environment };
    experiment::registry_with(&first.collect::<Result<Vec<_>, _>>()?, &args.plugins.plugin, prober)
}

fn plugin(registry: &Registry, side: &SubExperiment) -> Option<PathBuf> {
    registry.plugin_file(&side.transport.system).map(Path::to_path_buf)
}

/// Both sides as the two sub-experiments of one plan.
fn plan(args: &AbArgs, registries: &[Registry; 2]) -> Result<Plan, CliError> {
    let (mut plan, mut sides) = (None, Vec::new());
    for side in [0, 1] {
        let written = [Some(&args.a), args.b.as_ref()][side].unwrap_or(&args.a);
        let mut experiment = ExperimentArgs {
            transports: vec![written.clone()],
            measuring: args.measuring.clone(),
            no_floor: true,
            ..ExperimentArgs::default()
        };
        experiment.measuring.payloads.get_or_insert_with(|| DEFAULT_PAYLOADS.to_owned());
        let mut made =
            experiment::plan(&experiment, &registries[side], |_| unreachable!("`ab` has no flag for a recording"))?;
        let mut found = made.sub_experiments.drain(..);
        let (Some(mut sub), None) = (found.next(), found.next()) else {
            let text = format!("'{written}' stands for several transports, and a side is one; name its variant");
            return Err(CliError::new(exit::USAGE, text));
        };
        drop(found);
        in_its_folder(args, side, &sub, &registries[side])?;
        sub.name = SIDES[side].to_owned();
        sub.environment = [&args.env_a, &args.env_b][side].iter().cloned().collect();
        sides.push(sub);
        plan.get_or_insert(made);
    }
    if sides[0].wait != sides[1].wait && !args.quiet {
        output::say(&format!("note: A waits by {}, B by {}; --wait sets both", sides[0].wait, sides[1].wait));
    }
    let mut plan = plan.expect("both sides were planned");
    plan.source = "ab".to_owned();
    plan.sub_experiments = sides;
    Ok(plan)
}

/// A side whose plugins are in a folder of their own must not silently come from elsewhere.
fn in_its_folder(args: &AbArgs, side: usize, sub: &SubExperiment, registry: &Registry) -> Result<(), CliError> {
    let Some(folder) = [&args.transports_a, &args.transports_b][side] else { return Ok(()) };
    let canonical = |path: &Path| path.canonicalize().ok();
    let is_in = |file: &Path| file.parent().is_some_and(|parent| canonical(parent) == canonical(folder));
    if registry.plugin_file(&sub.transport.system).is_some_and(is_in) {
        return Ok(());
    }
    let (system, folder, flag) = (&sub.transport.system, folder.display(), ["-a", "-b"][side]);
    let text = format!(
        "'{folder}' has no plugin 'tripmeter_{system}.so', so {} would be another; name its folder (--transports{flag})",
        SIDES[side].to_uppercase()
    );
    Err(CliError::new(exit::NO_INPUT, text))
}

/// As many as are asked for, or as many as show how much the figures differ; at least what an interval needs.
fn first_rounds(args: &AbArgs, comparisons: u64) -> Result<u32, CliError> {
    let fewest = fewest_pairs(verdicts::RATE);
    // What a single change among all comparisons needs.
    let fewest_of_all = fewest_pairs(verdicts::RATE / comparisons as f64);
    let Some(rounds) = args.rounds else { return Ok(fewest_of_all.max(FIRST_ROUNDS) as u32) };
    if !(fewest..=MOST_ROUNDS).contains(&rounds.into()) {
        let text = format!(
            "--rounds {rounds} is not {fewest} to {MOST_ROUNDS}: fewer than {fewest} pairs have no interval at 95 %"
        );
        return Err(CliError::new(exit::USAGE, text));
    }
    if u64::from(rounds) < fewest_of_all && !args.quiet {
        output::say(&format!(
            "note: a single change among {comparisons} comparisons is seen from {fewest_of_all} rounds on; name more, or \
             fewer payloads"
        ));
    }
    Ok(rounds)
}

/// How long to go on.
struct Pace {
    fixed: bool,
    effect: f64,
    /// Rounds that are made whatever the budget.
    first: u32,
    budget: Duration,
    begin: Instant,
    /// Pairs that show the effect in every figure, as far as is known.
    needed: Option<u64>,
    /// Why there are not more rounds; empty if as many were asked for.
    stopped: &'static str,
}

impl Pace {
    fn new(args: &AbArgs, first: u32) -> Self {
        Self {
            fixed: args.rounds.is_some(),
            effect: args.effect.0,
            first,
            budget: Duration::from_secs_f64(args.budget),
            begin: Instant::now(),
            needed: None,
            stopped: "",
        }
    }

    /// After a round: how many there are to be in all. It looks at how much figures differ from run to run and not at the
    /// ratio, and seldom, so that going on hardly favours a verdict; see docs/method.md.
    fn rounds_wanted(&mut self, found: &Found<'_>, question: &Question) -> u32 {
        let (round, planned) = (found.rounds(), found.manifest.plan.rounds);
        if self.fixed || round < self.first {
            return planned;
        }
        if self.begin.elapsed() + self.begin.elapsed() / round > self.budget {
            self.stopped = "the budget is spent";
            return round;
        }
        if round < planned {
            return planned;
        }
        if found.comparisons.is_empty() {
            self.stopped = "no pair was measured";
            return round;
        }
        self.needed = found.needed(question, self.effect);
        let missing = self.needed.map_or(MOST_ROUNDS, |needed| needed.saturating_sub(found.fewest_pairs()));
        let more = missing.min(round.into()).min(MOST_ROUNDS.saturating_sub(round.into()));
        if more == 0 {
            self.stopped = if missing == 0 { "enough for the effect" } else { "no more are made" };
        }
        round + more as u32
    }
}

/// What there is so far.
struct Found<'a> {
    manifest: &'a Manifest,
    pairs: Pairs<'a>,
    comparisons: Vec<Comparison>,
}

impl<'a> Found<'a> {
    fn of(manifest: &'a Manifest, question: &Question) -> Result<Self, CliError> {
        let pairs = Pairs::of(manifest, SIDES);
        let comparisons = compare(&pairs.runs(&manifest.plan.sub_experiments[0].payloads), question)
            .map_err(|error| CliError::new(exit::DATA, format!("the pairs cannot be compared: {error}")))?;
        Ok(Self { manifest, pairs, comparisons })
    }

    /// Rounds begun.
    fn rounds(&self) -> u32 {
        self.manifest.sub_experiments.iter().map(|result| result.round).max().unwrap_or(0)
    }

    fn fewest_pairs(&self) -> u64 {
        self.comparisons.iter().map(|one| one.runs[0] as u64).min().unwrap_or(0)
    }

    fn needed(&self, question: &Question, effect: f64) -> Option<u64> {
        runs_needed(&self.comparisons, question, effect)?.1
    }

    fn write(&self, folder: &Path, made: &Value) -> Result<(), CliError> {
        let text = serde_json::to_string_pretty(made).expect("it is plain data") + "\n";
        Ok(write_whole(&folder.join(FILE), text.as_bytes())?)
    }

    fn text(&self, args: &AbArgs, question: &Question, plugins: &[Option<PathBuf>; 2], pace: &Pace) -> String {
        let plugins = plugins.each_ref().map(|file| file.as_deref().and_then(Path::to_str));
        tripmeter_report::ab(&Ab {
            manifest: self.manifest,
            plugins,
            pairs: &self.pairs,
            question,
            effect: args.effect.0,
            comparisons: &self.comparisons,
            stopped: pace.stopped,
        })
    }

    fn exit_code(&self) -> u8 {
        let regressed = self.comparisons.iter().any(|one| one.judged.verdict == Verdict::Regressed);
        match self.manifest.status {
            Status::Interrupted => exit::INTERRUPTED,
            _ if !self.pairs.failures.is_empty() => exit::PARTIAL,
            _ if regressed => exit::FINDING,
            _ => exit::GOOD,
        }
    }
}

/// `ab.json`; docs/formats.md has its fields.
fn as_json(
    found: &Found<'_>,
    args: &AbArgs,
    question: &Question,
    plugins: &[Option<PathBuf>; 2],
    pace: &Pace,
) -> Value {
    let (manifest, plan) = (found.manifest, &found.manifest.plan);
    let sides: Vec<Value> = plan
        .sub_experiments
        .iter()
        .zip(plugins)
        .map(|(side, plugin)| {
            let opened =
                manifest.sub_experiments.iter().find(|one| one.name == side.name && !one.system_version.is_empty());
            json!({
                "transport": side.transport.to_string(),
                "wait": side.wait.as_str(),
                "touch": side.touch.to_string(),
                "transport_version": opened.map(|one| &one.transport_version),
                "system_version": opened.map(|one| &one.system_version),
                "plugin": plugin,
                "environment": side.environment,
            })
        })
        .collect();
    json!({
        "schema_version": SCHEMA_VERSION,
        "tripmeter_version": env!("CARGO_PKG_VERSION"),
        "status": manifest.status,
        "latency": "rtt_half",
        "a": sides[0],
        "b": sides[1],
        "seed": plan.seed,
        "rounds": found.rounds(),
        "rounds_planned": plan.rounds,
        "rounds_needed": pace.needed,
        "stopped": pace.stopped,
        "effect": args.effect.0,
        "question": verdicts::question_json(question),
        "comparisons": found.comparisons.iter().map(verdicts::comparison_json).collect::<Vec<_>>(),
        "failures": found.pairs.failures.iter().map(failure_json).collect::<Vec<_>>(),
        "pairs": found.pairs.pairs.iter().map(pair_json).collect::<Vec<_>>(),
    })
}

fn pair_json(pair: &Pair<'_>) -> Value {
    let side = |side: usize| {
        let (cell, figures) = (pair.cells[side], &pair.figures[side]);
        json!({
            "samples": cell.samples,
            "lost": cell.counts.lost,
            "median_ns": figures.median,
            "p99_ns": figures.p99,
        })
    };
    let log_ratio = |figure: Figure| (figure.of(&pair.figures[1]) / figure.of(&pair.figures[0])).ln();
    json!({
        "round": pair.round,
        "first": SIDES[pair.first],
        "payload_bytes": pair.cells[0].payload_bytes,
        "a": side(0),
        "b": side(1),
        "log_ratio_median": log_ratio(Figure::Median),
        "log_ratio_p99": log_ratio(Figure::P99),
    })
}

fn failure_json(failure: &Failure) -> Value {
    json!({
        "round": failure.round,
        "side": SIDES[failure.side],
        "payload_bytes": failure.payload_bytes,
        "why": failure.why,
    })
}

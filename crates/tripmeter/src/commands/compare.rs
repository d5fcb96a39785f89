//! `tripmeter compare`: an experiment against a reference.

use super::check::{payload_json, thousandths};
use super::{compare_runs, show};
use crate::args::{CompareArgs, Method};
use crate::database::last_part;
use crate::error::CliError;
use crate::output;
use crate::plotting::{PictureJob, create_folder, draw_all};
use crate::summaries::{ExperimentFolder, kind_of, other_kind};
use serde_json::{Value, json};
use std::path::Path;
use tripmeter_model::Pattern;
use tripmeter_model::exit;
use tripmeter_model::file::write_whole;
use tripmeter_model::plan::SubExperiment;
use tripmeter_report::document::{Block, Document};
use tripmeter_report::plots::latency::{self, COMPARED, LatencyKind, Named};
use tripmeter_report::{ExperimentComparison, SubExperimentComparison, comparison, comparison_csv, side_by_side};
use tripmeter_stats::comparison::{Compared, Outcome, by_threshold};
use tripmeter_stats::timed::sub_experiment;
use tripmeter_stats::verdict::Measured;

/// Found differences.
pub const DIFFERENT: u8 = 1;
/// How much more is let pass if nothing is said.
const THRESHOLD: f64 = 0.1;

/// One of the two experiments.
struct Side {
    folder: ExperimentFolder,
    measured: Vec<Measured>,
    /// How it is called in files and pictures.
    name: String,
}

impl Side {
    fn read(path: &Path, allows_damage: bool) -> Result<Self, CliError> {
        let mut folder = ExperimentFolder::open(path)?;
        folder.allows_damage = allows_damage;
        folder.summarise(false)?;
        Ok(Self { measured: folder.measured()?, folder, name: last_part(path) })
    }

    fn of(&self, name: &str) -> Option<&Measured> {
        self.measured.iter().find(|one| one.name == name)
    }
}

/// `tripmeter compare`
pub fn compare(args: &CompareArgs) -> Result<u8, CliError> {
    match args.method {
        Some(Method::Runs) => compare_runs::compare_runs(args),
        None if has_rounds(&args.reference) && has_rounds(&args.results) => compare_runs::compare_runs(args),
        Some(Method::Threshold) | None => by_one_run(args),
    }
}

/// Whether a folder has a manifest of several rounds.
fn has_rounds(folder: &Path) -> bool {
    show::read(folder).is_ok_and(|manifest| manifest.plan.rounds > 1)
}

fn by_one_run(args: &CompareArgs) -> Result<u8, CliError> {
    if args.margin.is_some() {
        let text = "--margin is of method runs, for folders with several rounds; name a threshold (--fail-threshold)";
        return Err(CliError::new(exit::USAGE, text));
    }
    let threshold = args.fail_threshold.unwrap_or(THRESHOLD);
    if !(threshold >= 0.0 && threshold.is_finite()) {
        let text = format!("threshold {threshold} is not 0 or more; 0.1 lets 10 % pass");
        return Err(CliError::new(exit::USAGE, text));
    }
    let sides = [Side::read(&args.reference, args.allow_damage)?, Side::read(&args.results, args.allow_damage)?];
    let made = compared(&sides, args, threshold)?;
    let files = match &args.plots_directory {
        Some(folder) => write(&sides, &made, folder, args)?,
        None => Vec::new(),
    };
    if args.json {
        output::print(
            &(serde_json::to_string_pretty(&as_json(&made, args, threshold)).expect("it is plain data") + "\n"),
        )?;
    } else {
        if args.print_summaries || args.debug {
            output::print_document(&summaries(&sides, &made))?;
            output::print("\n")?;
        }
        output::print_document(&comparison(&made, threshold, args.debug, args.strict))?;
    }
    if args.debug {
        files.iter().for_each(|file| output::say(&format!("wrote {file}")));
    }
    Ok(if made.passed(args.strict) { exit::GOOD } else { DIFFERENT })
}

/// Compares what both sides have, and tells apart what only one has.
fn compared(sides: &[Side; 2], args: &CompareArgs, threshold: f64) -> Result<ExperimentComparison, CliError> {
    let [reference, results] = sides;
    same_kinds(sides, args)?;
    let mut made = ExperimentComparison::default();
    for one in &reference.measured {
        let name = one.name.clone();
        let Some(other) = results.of(&name) else {
            made.missing.push(name);
            continue;
        };
        let is_first = !made.both.iter().any(|known| sub_experiment(&known.name) == sub_experiment(&name));
        if let [Some(one), Some(other)] = [&reference.folder, &results.folder].map(|folder| folder.plan(&name))
            && is_first
        {
            same_kind([one, other], args)?;
        }
        let compared = by_threshold(&one.summary, &other.summary, threshold);
        // What the results lack is a failure of its own.
        let of_reference = one.distrust.clone().or_else(|| reference.folder.unfinished(&name));
        let distrust = other.distrust.clone().or_else(|| of_reference.map(|why| format!("in the reference, {why}")));
        made.both.push(SubExperimentComparison { name, compared, distrust });
    }
    let is_new = |one: &&Measured| reference.of(&one.name).is_none();
    made.new = results.measured.iter().filter(is_new).map(|one| one.name.clone()).collect();
    let is_compared = |one: &Compared| one.outcome != Outcome::New;
    if !made.both.iter().flat_map(|one| &one.compared).any(is_compared) {
        let why = match made.both.first() {
            Some(one) if reference.folder.plan(&one.name).is_some_and(is_unread) => unread(&one.name),
            Some(one) => format!("there are no figures in '{}'", reference.folder.file(&one.name).display()),
            None => format!(
                "'{}' and '{}' have no sub-experiment in common",
                args.reference.display(),
                args.results.display()
            ),
        };
        return Err(CliError::new(exit::DATA, format!("nothing to compare: {why}")));
    }
    for one in made.both.iter().filter(|one| reference.folder.plan(&one.name).is_some_and(is_unread)) {
        output::say(&format!("note: {}", unread(&one.name)));
    }
    Ok(made)
}

/// Whether a sub-experiment has no figures that `compare` reads.
pub fn is_unread(plan: &SubExperiment) -> bool {
    plan.pattern == Pattern::Throughput
}

/// Note on such a sub-experiment.
pub fn unread(name: &str) -> String {
    format!(
        "'{name}' is of pattern throughput, and compare reads the latencies of patterns pingpong, channel, rpc and log; its \
         figures are in trials.jsonl"
    )
}

/// Refuses sides that have a sub-experiment with latencies of different kinds only.
fn same_kinds(sides: &[Side; 2], args: &CompareArgs) -> Result<(), CliError> {
    let [reference, results] = sides;
    for one in &reference.measured {
        let plans = [&reference.folder, &results.folder].map(|folder| folder.plan(&one.name));
        if let [Some(one), Some(other)] = plans {
            same_pattern([one, other], args)?;
        }
    }
    let names = |side: &Side| side.measured.iter().map(|one| one.name.clone()).collect::<Vec<_>>();
    let [of_reference, of_results] = [names(reference), names(results)];
    let others = || of_results.iter().map(String::as_str);
    let Some((name, other)) = other_kind(of_reference.iter().map(String::as_str), others) else { return Ok(()) };
    let kind = |side: &Side, name: &str| side.folder.kind(name).map_or("latencies of no known kind", LatencyKind::name);
    let text = format!(
        "'{name}' cannot be compared: '{}' measured {}, '{}' only {} ('{other}')",
        args.reference.display(),
        kind(reference, name),
        args.results.display(),
        kind(results, other)
    );
    Err(CliError::new(exit::DATA, text))
}

/// Refuses latencies of different kinds, and says what else the manifests tell to be different.
pub fn same_kind([reference, result]: [&SubExperiment; 2], args: &CompareArgs) -> Result<(), CliError> {
    same_pattern([reference, result], args)?;
    let name = &reference.name;
    let [one, other] = [reference, result].map(|plan| plan.workload.topology);
    let factors = [
        ("transport", reference.transport.to_string(), result.transport.to_string()),
        ("wait", reference.wait.to_string(), result.wait.to_string()),
        ("touch", reference.touch.to_string(), result.touch.to_string()),
        ("followers", one.followers.to_string(), other.followers.to_string()),
        ("topics", one.topics.to_string(), other.topics.to_string()),
        ("publishers", one.publishers.to_string(), other.publishers.to_string()),
        ("clients", one.clients.to_string(), other.clients.to_string()),
    ];
    for (factor, reference, result) in factors.iter().filter(|(_, reference, result)| reference != result) {
        output::say(&format!(
            "note: '{name}' was measured with {factor} {reference} in the reference, {result} in the results"
        ));
    }
    Ok(())
}

/// Refuses different patterns, and calls of different modes: a closed loop keeps processors awake, and a rate does not.
fn same_pattern([reference, result]: [&SubExperiment; 2], args: &CompareArgs) -> Result<(), CliError> {
    let name = &reference.name;
    if reference.pattern != result.pattern {
        let kinds = [reference, result].map(|plan| kind_of(plan).map_or("no latency", LatencyKind::name));
        let text = format!(
            "'{name}' cannot be compared: '{}' measured {} (pattern {}), '{}' {} (pattern {})",
            args.reference.display(),
            kinds[0],
            reference.pattern,
            args.results.display(),
            kinds[1],
            result.pattern
        );
        return Err(CliError::new(exit::DATA, text));
    }
    let (one, other) = (&reference.workload, &result.workload);
    if one.is_call() && other.is_call() && one.mode() != other.mode() {
        let text = format!(
            "'{name}' cannot be compared: its calls were made by mode {} in '{}', {} in '{}'; measure the same (--mode)",
            one.mode(),
            args.reference.display(),
            other.mode(),
            args.results.display()
        );
        return Err(CliError::new(exit::DATA, text));
    }
    Ok(())
}

/// Writes comparison files and pictures; returns their paths.
fn write(
    sides: &[Side; 2],
    made: &ExperimentComparison,
    folder: &Path,
    args: &CompareArgs,
) -> Result<Vec<String>, CliError> {
    create_folder(folder)?;
    let options = args.plotting.options();
    let mut files = Vec::new();
    let mut jobs: Vec<PictureJob> = Vec::new();
    for one in &made.both {
        let Some((reference, result)) = sides[0].of(&one.name).zip(sides[1].of(&one.name)) else { continue };
        let labels = [format!("Reference: {}", sides[0].name), format!("Result: {}", sides[1].name)];
        let text = comparison_csv([(&labels[0], &reference.summary), (&labels[1], &result.summary)]);
        let file = folder.join(format!("{}_comparison.csv", one.name));
        write_whole(&file, &text)?;
        files.push(file.display().to_string());
        let kind = sides.iter().find_map(|side| side.folder.kind(&one.name));
        let named = [
            Named { name: &sides[0].name, summary: &reference.summary },
            Named { name: &sides[1].name, summary: &result.summary },
        ];
        for pair in COMPARED {
            jobs.push(Box::new(move || latency::experiment_comparison(&one.name, pair, named, kind, &options)));
        }
    }
    let pictures = draw_all(folder, jobs)?;
    files.extend(pictures.iter().map(|picture| picture.display().to_string()));
    Ok(files)
}

/// The summaries of both sides, one below the other.
fn summaries(sides: &[Side; 2], made: &ExperimentComparison) -> Document {
    let tables = made.both.iter().filter_map(|one| {
        let (reference, result) = sides[0].of(&one.name).zip(sides[1].of(&one.name))?;
        let sides = [("reference", &reference.summary), ("result", &result.summary)];
        Some(Block::Table(side_by_side(&one.name, sides)))
    });
    Document { blocks: tables.collect() }
}

/// Everything, for programs.
fn as_json(made: &ExperimentComparison, args: &CompareArgs, threshold: f64) -> Value {
    let row = |one: &Compared| {
        // What is no time has no unit in its names, but beside them.
        let names = if one.figure.is_latency() { ["reference_us", "result_us"] } else { ["reference", "result"] };
        let mut value = json!({
            "figure": one.figure.column(),
            "payload_bytes": payload_json(&one.bytes),
            "unit": one.figure.unit(),
            "increase_percent": one.percent().map(thousandths),
            "outcome": one.outcome.name(),
        });
        value[names[0]] = json!(one.reference);
        value[names[1]] = json!(one.result);
        value
    };
    let subs = made.both.iter().map(|one| {
        json!({
            "name": one.name,
            "passed": one.passed(args.strict),
            "distrust": one.distrust,
            "comparisons": one.compared.iter().map(row).collect::<Vec<_>>(),
        })
    });
    json!({
        "passed": made.passed(args.strict),
        "method": "threshold",
        "fail_threshold": threshold,
        "sub_experiments": subs.collect::<Vec<_>>(),
        "missing_in_results": made.missing,
        "only_in_results": made.new,
    })
}

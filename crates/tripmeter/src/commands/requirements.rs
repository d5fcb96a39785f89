//! `tripmeter requirements`: limits from many runs, which it makes itself if asked to.

use crate::args::RequirementsArgs;
use crate::error::CliError;
use crate::many_runs::{RunsOutcome, make};
use crate::summaries::{ExperimentFolder, RunFolder, Source, listed, read, runs, threads};
use crate::{output, progress};
use indicatif::ProgressBar;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use tripmeter_eprosima::raw::Reader;
use tripmeter_model::exit;
use tripmeter_model::requirements::Requirement;
use tripmeter_report::counted;
use tripmeter_report::plots::latency::LatencyKind;
use tripmeter_stats::limits::{BrokenLimit, Derived, Gap, RunSummary, broken, fewest_runs, limits};

/// How many runs the specification asks for; with much fewer, a 99th percentile is no more than the largest.
const ENOUGH_RUNS: usize = 100;

/// `tripmeter requirements`
pub fn requirements(args: &RequirementsArgs) -> Result<u8, CliError> {
    if !(0.0..=100.0).contains(&args.percentile) {
        return Err(CliError::new(exit::USAGE, format!("percentile {} is not between 0 and 100", args.percentile)));
    }
    let (runs, code) = match (&args.experiments_results, args.runs) {
        (Some(folder), _) => (runs_in(folder, args)?, exit::GOOD),
        (None, number) => match make(args, number.unwrap_or_default())? {
            RunsOutcome::All { runs, code } => (runs, code),
            RunsOutcome::Interrupted => return Ok(exit::INTERRUPTED),
        },
    };
    let derived = derived(runs, args)?;
    derived.requirements.write(&args.output_file)?;
    output::print(&told(&derived, args))?;
    Ok(code)
}

/// The runs in a folder. What would be run does not matter then, and must not be given.
fn runs_in(folder: &Path, args: &RequirementsArgs) -> Result<Vec<RunFolder>, CliError> {
    let is_given = args.of.is_some() || args.measuring.payloads.is_some() || args.measuring.samples.is_some();
    match is_given {
        true => {
            Err(CliError::new(exit::USAGE, "an experiment is given but nothing is run; add --runs N, or leave it out"))
        }
        false => runs(folder),
    }
}

/// Reads all runs and makes requirements of them.
fn derived(runs: Vec<RunFolder>, args: &RequirementsArgs) -> Result<Derived, CliError> {
    let sources = sources(&runs, args.experiment().allowed.allow_damage)?;
    let summaries = read_all(&sources, args.quiet)?;
    let counting = sources.iter().map(|source| source.run.as_str()).collect::<BTreeSet<_>>().len();
    if counting < ENOUGH_RUNS {
        output::say(&format!("note: from {} only; the specification asks for 200", counted(counting, "run")));
    }
    let names: Vec<String> = runs.into_iter().map(|run| run.name).collect();
    let derived = limits(&names, &summaries, args.percentile / 100.0).map_err(|why| CliError::new(exit::DATA, why))?;
    if derived.requirements.rows.is_empty() {
        return Err(CliError::new(exit::DATA, format!("no figures in any of {} runs", names.len())));
    }
    derived.gaps.iter().for_each(|gap| output::say(&missing(gap, names.len())));
    if let Some(note) = too_few(&derived, &summaries, names.len(), args.percentile) {
        output::say(&note);
    }
    Ok(derived)
}

/// One line if runs fail the limits that were made from them because there are too few for the percentile.
fn too_few(derived: &Derived, summaries: &[RunSummary], runs: usize, percentile: f64) -> Option<String> {
    let fewest = fewest_runs(percentile).filter(|fewest| (runs as u64) < *fewest)?;
    let broken = broken(&derived.requirements, summaries);
    let BrokenLimit { run, sub_experiment, row } = broken.first()?;
    let mut failing: Vec<&str> = broken.iter().map(|one| one.run).collect();
    failing.sort_unstable();
    failing.dedup();
    Some(format!(
        "note: {} of the {} fail these limits, first '{run}': {} of '{sub_experiment}' at {} bytes is {:.3}, the limit \
         {:.3}: percentile {percentile} of fewer than {fewest} runs lies between the largest two; make {fewest} or more, \
         or use --percentile 100",
        failing.len(),
        counted(runs, "run"),
        row.check.name(),
        row.bytes,
        row.experiment.unwrap_or(f64::NAN),
        row.requirement,
    ))
}

/// A file of a run.
struct RunSource {
    run: String,
    source: Source,
    bytes: u64,
    kind: Option<LatencyKind>,
}

/// Refuses runs whose figures of the same name are of another kind.
fn same_kind(found: &[RunSource], name: &str, kind: Option<LatencyKind>, run: &str) -> Result<(), CliError> {
    let known = found.iter().filter(|one| one.source.name == name).find_map(|one| Some((&one.run, one.kind?)));
    match (known, kind) {
        (Some((first, known)), Some(kind)) if known != kind => {
            let text = format!(
                "'{name}' has no common limits: run '{first}' measured {}, run '{run}' {}; keep runs of different \
                 patterns in different folders",
                known.name(),
                kind.name()
            );
            Err(CliError::new(exit::DATA, text))
        }
        _ => Ok(()),
    }
}

/// Every file to read, in the order of runs and names. What is not what its name says is left out.
fn sources(runs: &[RunFolder], allows_damage: bool) -> Result<Vec<RunSource>, CliError> {
    let mut found = Vec::new();
    for run in runs {
        let mut folder = ExperimentFolder::open(&run.path)?;
        folder.allows_damage = allows_damage;
        if folder.is_running() {
            output::say(&format!("note: left out: run '{}' is being measured, or was killed", run.name));
            continue;
        }
        for source in &folder.sources {
            if let Some(why) = folder.distrust(&source.name) {
                output::say(&format!("note: left out: '{}' of run '{}': {why}", source.name, run.name));
                continue;
            }
            let kind = folder.kind(&source.name);
            same_kind(&found, &source.name, kind, &run.name)?;
            found.push(RunSource { run: run.name.clone(), source: source.clone(), bytes: source.bytes(), kind });
        }
    }
    Ok(found)
}

/// Reads all files, one on each processor.
fn read_all(sources: &[RunSource], quiet: bool) -> Result<Vec<RunSummary>, CliError> {
    let bar = progress::of_bytes(sources.iter().map(|one| one.bytes).sum(), quiet);
    let (reader, next) = (Reader::new(threads()), AtomicUsize::new(0));
    let work = || -> Result<Vec<(usize, RunSummary)>, CliError> {
        let mut found = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(one) = sources.get(index) else { return Ok(found) };
            let read = read_one(&reader, one, &bar);
            // The others need not go on.
            let summary = read.inspect_err(|_| next.store(sources.len(), Ordering::Relaxed))?;
            found.push((index, summary));
        }
    };
    let outcome: Result<Vec<_>, CliError> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads()).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("reading does not panic")).collect()
    });
    bar.finish_and_clear();
    let mut summaries: Vec<_> = outcome?.into_iter().flatten().collect();
    summaries.sort_by_key(|(index, _)| *index);
    // Of what has no figures, the whole sub-experiment is missing in that run.
    Ok(summaries.into_iter().map(|(_, summary)| summary).filter(|one| !one.summary.rows.is_empty()).collect())
}

fn read_one(reader: &Reader, one: &RunSource, bar: &ProgressBar) -> Result<RunSummary, CliError> {
    let mut summary = read(reader, &one.source, 1)?;
    if one.source.is_samples() {
        // Of which a summary is written before they are checked.
        summary = summary.as_in_file();
    }
    bar.inc(one.bytes);
    Ok(RunSummary { run: one.run.clone(), sub_experiment: one.source.name.clone(), summary })
}

/// One line about what some runs lack.
fn missing(gap: &Gap, runs: usize) -> String {
    let payload = gap.bytes.as_ref().map(|bytes| format!(" at {bytes} bytes")).unwrap_or_default();
    let (name, count) = (&gap.sub_experiment, gap.missing_in.len());
    format!("note: '{name}'{payload} is missing in {count} of {runs} runs: {}", listed(&gap.missing_in))
}

/// The requirements as a table, and where they are.
fn told(derived: &Derived, args: &RequirementsArgs) -> String {
    let rows: &[Requirement] = &derived.requirements.rows;
    let table = output::text(&tripmeter_report::requirements(rows));
    format!("{table}\nwrote '{}': percentile {} over the runs\n", args.output_file.display(), args.percentile)
}

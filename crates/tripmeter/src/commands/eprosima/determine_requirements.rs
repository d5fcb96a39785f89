//! `tripmeter eprosima determine-requirements`: derives requirements from many runs.

use super::folder::{ExperimentFolder, Source, runs, threads};
use crate::args::DetermineRequirementsArgs;
use crate::error::CliError;
use crate::output;
use crate::results::listed;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use tripmeter_eprosima::limits::{BrokenLimit, Derived, FEWEST_RUNS, Gap, RunSummary, broken, limits};
use tripmeter_eprosima::raw::Reader;
use tripmeter_model::exit;
use tripmeter_report::counted;
use tripmeter_report::eprosima::requirements;

struct RunSource {
    run: String,
    source: Source,
}

pub fn determine_requirements(args: &DetermineRequirementsArgs) -> Result<u8, CliError> {
    let runs: Vec<_> = runs(&args.experiments_results)?;
    let mut sources = Vec::new();
    for run in &runs {
        let folder = ExperimentFolder::open(&run.path)?;
        if folder.is_running() {
            output::say(&format!("note: left out: run '{}' is in progress or was killed", run.name));
            continue;
        }
        for source in &folder.sources {
            match folder.distrust(&source.name) {
                Some(why) => {
                    output::say(&format!("note: left out: '{}' of run '{}': {why}", source.name, run.name));
                }
                None => sources.push(RunSource { run: run.name.clone(), source: source.clone() }),
            }
        }
    }
    let names: Vec<String> = runs.into_iter().map(|run| run.name).collect();
    let derived = derived(&names, &sources)?;
    derived.requirements.write(&args.output_file)?;
    let table = output::text(&requirements(&derived.requirements.rows));
    output::print(&format!("{table}\nwrote '{}': percentile 99 over the runs\n", args.output_file.display()))?;
    Ok(exit::GOOD)
}

/// Derives requirements from all files, and notes what some runs lack.
fn derived(names: &[String], sources: &[RunSource]) -> Result<Derived, CliError> {
    let summaries = read_all(sources)?;
    let counting = sources.iter().map(|source| source.run.as_str()).collect::<BTreeSet<_>>().len();
    if counting < FEWEST_RUNS {
        output::say(&format!("note: made from only {}; the specification asks for 200", counted(counting, "run")));
    }
    let derived = limits(names, &summaries).map_err(|why| CliError::new(exit::DATA, why))?;
    if derived.requirements.rows.is_empty() {
        return Err(CliError::new(exit::DATA, format!("no figures in any of {} runs", names.len())));
    }
    derived.gaps.iter().for_each(|gap| output::say(&missing(gap, names.len())));
    if let Some(note) = too_few(&derived, &summaries, names.len()) {
        output::say(&note);
    }
    Ok(derived)
}

/// Note if some runs exceed the limits derived from them, because there are too few runs for the percentile.
fn too_few(derived: &Derived, summaries: &[RunSummary], runs: usize) -> Option<String> {
    let broken = broken(&derived.requirements, summaries);
    let BrokenLimit { run, sub_experiment, row } = broken.first().filter(|_| runs < FEWEST_RUNS)?;
    let failing = broken.iter().map(|one| one.run).collect::<BTreeSet<_>>().len();
    Some(format!(
        "note: {failing} of the {} fail these limits, first '{run}': {} of '{sub_experiment}' at {} bytes is {:.3}, \
         limit {:.3}. With fewer than {FEWEST_RUNS} runs, percentile 99 is below the largest value; make {FEWEST_RUNS} \
         or more",
        counted(runs, "run"),
        row.check.column(),
        row.bytes,
        row.experiment.unwrap_or(f64::NAN),
        row.requirement,
    ))
}

/// Reads all files in parallel, with one thread per CPU.
fn read_all(sources: &[RunSource]) -> Result<Vec<RunSummary>, CliError> {
    let (reader, next) = (Reader::new(threads()), AtomicUsize::new(0));
    let work = || -> Result<Vec<(usize, RunSummary)>, CliError> {
        let mut found = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(one) = sources.get(index) else { return Ok(found) };
            // The other threads stop after an error.
            let summary = one.source.read(&reader, 1).inspect_err(|_| next.store(sources.len(), Ordering::Relaxed))?;
            // A summary made of samples is rounded like one read from a file.
            let summary = summary.as_in_file();
            found.push((index, RunSummary { run: one.run.clone(), sub_experiment: one.source.name.clone(), summary }));
        }
    };
    let outcome: Result<Vec<_>, CliError> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads()).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("reading does not panic")).collect()
    });
    let mut summaries: Vec<_> = outcome?.into_iter().flatten().collect();
    summaries.sort_by_key(|(index, _)| *index);
    // A summary without rows counts as a missing sub-experiment of that run.
    Ok(summaries.into_iter().map(|(_, summary)| summary).filter(|one| !one.summary.rows.is_empty()).collect())
}

/// Note on a sub-experiment or payload that some runs lack.
fn missing(gap: &Gap, runs: usize) -> String {
    let payload = gap.bytes.as_ref().map(|bytes| format!(" at {bytes} bytes")).unwrap_or_default();
    let (name, count) = (&gap.sub_experiment, gap.missing_in.len());
    format!("note: '{name}'{payload} is missing in {count} of {runs} runs: {}", listed(&gap.missing_in))
}

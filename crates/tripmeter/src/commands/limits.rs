//! `tripmeter limits`: derives limits from many runs, which it can make itself.

use crate::args::LimitsArgs;
use crate::error::CliError;
use crate::many_runs::{ManyRuns, RunsOutcome};
use crate::measurement::Prepared;
use crate::output;
use crate::results::{NamedFolder, folders_in, listed, note_left_out, open_finished, selection};
use tripmeter_analysis::JudgedResults;
use tripmeter_analysis::limits::{DerivedLimits, LimitRun, RunGap, refuse_other_workloads};
use tripmeter_model::exit;
use tripmeter_report::counted;
use tripmeter_stats::conformal::fewest_for_percentile;

/// Recommended number of runs: with far fewer, the 99th percentile is close to the maximum.
const ENOUGH_RUNS: usize = 100;

pub fn limits(args: &LimitsArgs) -> Result<u8, CliError> {
    if !(0.0..=100.0).contains(&args.percentile) {
        return Err(CliError::new(exit::USAGE, format!("percentile {} is not between 0 and 100", args.percentile)));
    }
    let (folders, code) = match args.runs {
        None => (folders_in(&args.folders)?, exit::GOOD),
        Some(number) => {
            let prepared = Prepared::new(&args.experiment(), &args.plugins, args.quiet)?;
            let (runs_dir, output) = (args.runs_dir.as_deref(), &args.output);
            match (ManyRuns { prepared, number, folder: runs_dir, output, flag: "--runs-dir", quiet: args.quiet })
                .make()?
            {
                RunsOutcome::All { folders, code } => (folders, code),
                RunsOutcome::Interrupted => return Ok(exit::INTERRUPTED),
            }
        }
    };
    let runs = runs(&folders, args)?;
    let derived =
        DerivedLimits::from_runs(&runs, args.percentile / 100.0).map_err(|why| CliError::new(exit::DATA, why))?;
    if runs.is_empty() {
        return Err(CliError::new(exit::DATA, "no figures: all folders were left out"));
    }
    if derived.limits.rows.is_empty() {
        return Err(CliError::new(exit::DATA, format!("no figures in any of {} runs", runs.len())));
    }
    if runs.len() < ENOUGH_RUNS {
        output::say(&format!(
            "note: the limits are made from only {}; {ENOUGH_RUNS} or more give steadier percentiles",
            counted(runs.len(), "run")
        ));
    }
    derived.gaps.iter().for_each(|gap| output::say(&missing(gap, runs.len())));
    too_few_samples(&runs).iter().for_each(|note| output::say(note));
    if let Some(note) = too_few(&derived, &runs, args.percentile) {
        output::say(&note);
    }
    output::write_file(&args.output, &derived.limits.to_csv())?;
    if output::is_stdout(&args.output) {
        return Ok(code);
    }
    let mut document = tripmeter_report::limits(&derived.limits);
    // An unknown column is only noted, because the limits are already written.
    args.sorting.apply_or_say([&mut document]);
    output::print(&output::text(&document))?;
    output::print(&format!("\nwrote '{}': percentile {} over the runs\n", args.output.display(), args.percentile))?;
    Ok(code)
}

/// Figures of each run; a run is a round of a results folder.
fn runs(folders: &[NamedFolder], args: &LimitsArgs) -> Result<Vec<LimitRun>, CliError> {
    let mut all: Vec<(&NamedFolder, JudgedResults)> = Vec::new();
    for folder in folders {
        if let Some(results) = open_finished(folder, args.allow_damage)? {
            note_left_out(&folder.name, &results);
            if let Some((first, known)) = all.first() {
                let sides = [(first.name.as_str(), known), (folder.name.as_str(), &results)];
                refuse_other_workloads(sides).map_err(|why| CliError::new(exit::DATA, why))?;
            }
            all.push((folder, results));
        }
    }
    let selection = selection(&args.figures.figures, &all.iter().map(|(_, results)| results).collect::<Vec<_>>())?;
    Ok(all.iter().flat_map(|(folder, results)| LimitRun::from_results(&folder.name, results, &selection)).collect())
}

/// Note if some figures are percentiles of too few samples, so that `check` can only find them inconclusive.
fn too_few_samples(runs: &[LimitRun]) -> Option<String> {
    let mut needed = runs.iter().flat_map(|run| &run.figures).filter_map(|one| Some((&one.address, one.needs?)));
    let (first, needs) = needed.next()?;
    Some(format!(
        "note: the runs have too few samples for a limit of {first}: `check` finds it inconclusive below {needs} \
         samples; raise -n"
    ))
}

/// Note if some runs exceed the limits derived from them, because there are too few runs for the percentile.
fn too_few(derived: &DerivedLimits, runs: &[LimitRun], percentile: f64) -> Option<String> {
    let fewest = fewest_for_percentile(percentile).filter(|fewest| (runs.len() as u64) < *fewest)?;
    let broken = derived.broken(runs);
    let (run, row) = broken.first()?;
    let mut failing: Vec<&str> = broken.iter().map(|(run, _)| *run).collect();
    failing.sort_unstable();
    failing.dedup();
    Some(format!(
        "note: {} of the {} fail these limits, first '{run}': {} is {}, limit {}. Percentile {percentile} is below the \
         largest value unless there are {fewest} runs; measure more, or use --percentile 100",
        failing.len(),
        counted(runs.len(), "run"),
        row.limit.address,
        row.value.unwrap_or(f64::NAN),
        row.limit.limit,
    ))
}

/// Note on a sub-experiment, payload or figure that some runs lack.
fn missing(gap: &RunGap, runs: usize) -> String {
    format!("note: '{}' is missing in {} of {runs} runs: {}", gap.what, gap.missing_in.len(), listed(&gap.missing_in))
}

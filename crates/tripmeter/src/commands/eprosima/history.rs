//! `tripmeter eprosima history`: plots experiments over time.

use super::check::requirements;
use super::folder::{ExperimentFolder, runs};
use crate::args::EprosimaHistoryArgs;
use crate::error::CliError;
use crate::output;
use crate::plotting::{PictureJob, draw_all};
use std::path::Path;
use tripmeter_eprosima::bytes::Bytes;
use tripmeter_eprosima::requirements::Requirements;
use tripmeter_eprosima::summary::{Magnitude, Summary};
use tripmeter_model::exit;
use tripmeter_model::group::by_key;
use tripmeter_report::counted;
use tripmeter_report::plots::Options;
use tripmeter_report::plots::eprosima::{self as pictures, Named};

/// Summaries of a sub-experiment from all experiments that have it, oldest first.
struct Past {
    name: String,
    experiments: Vec<(String, Summary)>,
}

pub fn history(args: &EprosimaHistoryArgs) -> Result<u8, CliError> {
    let limits = args.requirements.as_deref().map(requirements).transpose()?;
    let options = args.plotting.options();
    output::print(&draw(&args.experiments_results, limits.as_ref(), &args.plots_directory, options)?)?;
    Ok(exit::GOOD)
}

/// Plots the history of every sub-experiment in a database; returns a line for each, and one with the folder.
pub fn draw(
    database: &Path,
    limits: Option<&Requirements>,
    folder: &Path,
    options: Options,
) -> Result<String, CliError> {
    let mut drawn = String::new();
    for past in &pasts(database)? {
        let count = draw_all(folder, jobs(past, limits, options))?.len();
        let Past { name, experiments } = past;
        let without = match limits {
            Some(limits) if limits.for_sub_experiment(name).next().is_none() => ", without requirements",
            _ => "",
        };
        let experiments = counted(experiments.len(), "experiment");
        drawn += &format!("{name}: {count} plots of {experiments}{without}\n");
    }
    Ok(drawn + &format!("plots are in '{}'\n", folder.display()))
}

fn payloads(past: &Past) -> Vec<&Bytes> {
    let rows = past.experiments.iter().flat_map(|(_, summary)| &summary.rows);
    let mut payloads: Vec<_> = rows.map(|row| &row.bytes).collect();
    payloads.sort();
    payloads.dedup();
    payloads
}

/// Sub-experiments of a database, in order of first appearance.
fn pasts(database: &Path) -> Result<Vec<Past>, CliError> {
    let mut found = Vec::new();
    for run in runs(database)? {
        let mut folder = ExperimentFolder::open(&run.path)?;
        if folder.is_running() {
            output::say(&format!("note: left out of the history: '{}' is in progress or was killed", run.name));
            continue;
        }
        folder.summarise()?;
        for measured in folder.measured()?.into_iter().filter(|measured| !measured.summary.rows.is_empty()) {
            if let Some(why) = measured.distrust {
                output::say(&format!("note: left out of the history: '{}' of '{}': {why}", measured.name, run.name));
                continue;
            }
            found.push((measured.name, (run.name.clone(), measured.summary)));
        }
    }
    if found.is_empty() {
        let text = format!("nothing to plot: no summary in '{}' has figures", database.display());
        return Err(CliError::new(exit::DATA, text));
    }
    Ok(by_key(found).into_iter().map(|(name, experiments)| Past { name, experiments }).collect())
}

fn jobs<'a>(past: &'a Past, limits: Option<&'a Requirements>, options: Options) -> Vec<PictureJob<'a>> {
    let Past { name, experiments } = past;
    let named = || -> Vec<Named> { experiments.iter().map(|(name, summary)| Named { name, summary }).collect() };
    let mut jobs: Vec<PictureJob> = Vec::new();
    for magnitude in Magnitude::ALL {
        jobs.push(Box::new(move || pictures::history_magnitude(name, magnitude, &named(), &options)));
        jobs.push(Box::new(move || pictures::history_by_date(name, magnitude, &named(), &options)));
    }
    for bytes in payloads(past) {
        let limit = limits.and_then(|limits| limits.for_sub_experiment(name).find(|limit| limit.bytes == *bytes));
        for magnitude in Magnitude::CHECKED {
            let limit = limit.map(|limit| limit.limit(magnitude));
            jobs.push(Box::new(move || pictures::history_payload(name, bytes, magnitude, &named(), limit, &options)));
        }
    }
    jobs
}

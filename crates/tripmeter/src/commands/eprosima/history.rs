//! `tripmeter eprosima history`: how experiments developed over time, as plots, and by steps and slow drifts.

use super::check::requirements;
use crate::args::HistoryArgs;
use crate::error::CliError;
use crate::output;
use crate::plotting::{PictureJob, draw_all};
use crate::summaries::{ExperimentFolder, MachineFacts, runs};
use std::path::Path;
use tripmeter_model::bytes::Bytes;
use tripmeter_model::check::Check;
use tripmeter_model::exit;
use tripmeter_model::magnitude::Magnitude;
use tripmeter_model::requirements::Requirements;
use tripmeter_model::summary::Summary;
use tripmeter_report::counted;
use tripmeter_report::plots::Options;
use tripmeter_report::plots::latency::{self, LatencyKind, Named};

/// One sub-experiment in every experiment that has it, oldest first.
struct Past {
    name: String,
    kind: Option<LatencyKind>,
    experiments: Vec<(String, Summary)>,
    /// What each experiment was measured on, as far as it is known.
    machines: Vec<Option<MachineFacts>>,
}

/// `tripmeter eprosima history`
pub fn history(args: &HistoryArgs) -> Result<u8, CliError> {
    let limits = args.requirements.as_deref().map(requirements).transpose()?;
    let pasts = pasts(&args.experiments_results, args.allow_damage)?;
    if let Some(folder) = &args.plots_directory {
        output::print(&draw_all_of(&pasts, limits.as_ref(), folder, args.plotting.options())?)?;
    }
    Ok(exit::GOOD)
}

/// The figures that there are.
fn figures(past: &Past) -> Vec<Magnitude> {
    Magnitude::of_summaries(&past.experiments.iter().map(|(_, summary)| summary).collect::<Vec<_>>())
}

/// Every payload that an experiment has, ascending.
fn payloads(past: &Past) -> Vec<&Bytes> {
    let rows = past.experiments.iter().flat_map(|(_, summary)| &summary.rows);
    let mut payloads: Vec<_> = rows.map(|row| &row.bytes).collect();
    payloads.sort();
    payloads.dedup();
    payloads
}

/// Draws all histories; returns what was drawn, in lines.
pub fn draw(
    database: &Path,
    limits: Option<&Requirements>,
    folder: &Path,
    options: Options,
    allows_damage: bool,
) -> Result<String, CliError> {
    draw_all_of(&pasts(database, allows_damage)?, limits, folder, options)
}

fn draw_all_of(
    pasts: &[Past],
    limits: Option<&Requirements>,
    folder: &Path,
    options: Options,
) -> Result<String, CliError> {
    let mut told = String::new();
    for past in pasts {
        let jobs = jobs(past, limits, options);
        let count = draw_all(folder, jobs)?.len();
        let Past { name, experiments, .. } = past;
        let without = match limits {
            Some(limits) if limits.of(name).next().is_none() => ", without requirements",
            _ => "",
        };
        let experiments = counted(experiments.len(), "experiment");
        told += &format!("{name}: {count} plots of {experiments}{without}\n");
    }
    Ok(told + &format!("plots are in '{}'\n", folder.display()))
}

/// Every sub-experiment in a database, in the order of first appearance.
fn pasts(database: &Path, allows_damage: bool) -> Result<Vec<Past>, CliError> {
    let mut pasts: Vec<Past> = Vec::new();
    for run in runs(database)? {
        let mut folder = ExperimentFolder::open(&run.path)?;
        folder.allows_damage = allows_damage;
        if folder.is_running() {
            output::say(&format!("note: left out of the history: '{}' is being measured, or was killed", run.name));
            continue;
        }
        folder.summarise(false)?;
        for measured in folder.measured()?.into_iter().filter(|measured| !measured.summary.rows.is_empty()) {
            if let Some(why) = folder.distrust(&measured.name) {
                output::say(&format!("note: left out of the history: '{}' of '{}': {why}", measured.name, run.name));
                continue;
            }
            let experiment = (run.name.clone(), measured.summary);
            match pasts.iter_mut().find(|past| past.name == measured.name) {
                Some(past) => {
                    same_kind(past, folder.kind(&past.name), &run.name)?;
                    past.experiments.push(experiment);
                    past.machines.push(folder.machine());
                }
                None => {
                    let (kind, machines) = (folder.kind(&measured.name), vec![folder.machine()]);
                    pasts.push(Past { name: measured.name, kind, experiments: vec![experiment], machines });
                }
            }
        }
    }
    match pasts.is_empty() {
        true => Err(CliError::new(
            exit::DATA,
            format!("nothing to plot: no summary in '{}' has figures", database.display()),
        )),
        false => Ok(pasts),
    }
}

/// Refuses figures of another kind under the same name.
fn same_kind(past: &Past, kind: Option<LatencyKind>, run: &str) -> Result<(), CliError> {
    let (Some(known), Some(kind)) = (past.kind, kind) else { return Ok(()) };
    if known == kind {
        return Ok(());
    }
    let (name, first) = (&past.name, past.experiments.first().map_or("", |(name, _)| name));
    let text = format!(
        "'{name}' cannot be compared over time: '{first}' measured {}, '{run}' {}; keep experiments of different \
         patterns in different folders",
        known.name(),
        kind.name()
    );
    Err(CliError::new(exit::DATA, text))
}

fn jobs<'a>(past: &'a Past, limits: Option<&'a Requirements>, options: Options) -> Vec<PictureJob<'a>> {
    let Past { name, kind, experiments, .. } = past;
    let named = || -> Vec<Named> { experiments.iter().map(|(name, summary)| Named { name, summary }).collect() };
    let mut jobs: Vec<PictureJob> = Vec::new();
    for magnitude in figures(past) {
        jobs.push(Box::new(move || latency::history_magnitude(name, magnitude, &named(), *kind, &options)));
        jobs.push(Box::new(move || latency::history_by_date(name, magnitude, &named(), *kind, &options)));
    }
    let has = figures(past);
    let checks = || [Check::Median, Check::Max, Check::P99].into_iter().chain(Check::MORE);
    for bytes in payloads(past) {
        let limit = limits.and_then(|limits| limits.of(name).find(|limit| limit.bytes == *bytes));
        for check in checks().filter(|check| has.contains(&check.magnitude())) {
            let magnitude = check.magnitude();
            let limit = limit.and_then(|limit| limit.limit(check));
            let job = move || latency::history_payload(name, bytes, magnitude, &named(), limit, *kind, &options);
            jobs.push(Box::new(job));
        }
    }
    jobs
}

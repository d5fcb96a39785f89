//! `tripmeter eprosima history`: how experiments developed over time, as plots, and by steps and slow drifts.

use super::check::requirements;
use crate::args::HistoryArgs;
use crate::error::CliError;
use crate::output;
use crate::plotting::{PictureJob, draw_all};
use crate::summaries::{ExperimentFolder, MachineFacts, differences, runs};
use std::path::Path;
use tripmeter_model::bytes::Bytes;
use tripmeter_model::check::Check;
use tripmeter_model::exit;
use tripmeter_model::magnitude::Magnitude;
use tripmeter_model::requirements::Requirements;
use tripmeter_model::summary::Summary;
use tripmeter_report::plots::Options;
use tripmeter_report::plots::latency::{self, LatencyKind, Named};
use tripmeter_report::{Change, changes, counted};
use tripmeter_stats::change_points::StepOptions;
use tripmeter_stats::{median, slow_drift};

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
    if !args.fail_on_change {
        return Ok(exit::GOOD);
    }
    let (found, series) = changes_of(&pasts, args)?;
    output::print(&format!("{}{}", output::text(&changes(&found, series)), changes_of_environment(&pasts)))?;
    Ok(if found.iter().all(|change| change.is_known) { exit::GOOD } else { exit::FINDING })
}

/// The steps and slow drifts of every figure, and in how many series they were looked for.
fn changes_of(pasts: &[Past], args: &HistoryArgs) -> Result<(Vec<Change>, usize), CliError> {
    let marks: Vec<KnownMark> = args.known.iter().map(|name| KnownMark::of(name, false)).collect();
    let drift_marks: Vec<KnownMark> = args.known_drift.iter().map(|name| KnownMark::of(name, true)).collect();
    for mark in marks.iter().chain(&drift_marks) {
        mark.check(pasts)?;
    }
    let options = StepOptions { min_change: args.min_change.0, ..StepOptions::default() };
    let (mut found, mut series) = (Vec::new(), 0);
    for past in pasts {
        for bytes in payloads(past) {
            for figure in watched(past) {
                let points = points_of(past, bytes, figure);
                let places =
                    |is_one: &dyn Fn(usize) -> bool| (1..points.len()).filter(|&at| is_one(at)).collect::<Vec<_>>();
                let breaks = places(&|at| is_other(points[at - 1].machine, points[at].machine));
                let known = places(&|at| marks.iter().any(|mark| mark.first(past, &points) == Some(at)));
                let values: Vec<f64> = points.iter().map(|point| point.value).collect();
                if values.is_empty() {
                    continue;
                }
                let changed = slow_drift::changes(&values, &breaks, &known, &options)
                    .map_err(|error| CliError::new(exit::DATA, format!("'{}': {error}", past.name)))?;
                series += 1;
                let change = |since: usize, until: Option<usize>, [before, after, p]: [f64; 3], is_known| Change {
                    name: past.name.clone(),
                    bytes: bytes.text().to_owned(),
                    figure: figure.column().to_owned() + if figure.is_latency() { " [µs]" } else { "" },
                    kind: past.kind.filter(|_| figure.is_latency()).map(LatencyKind::name),
                    since: points[since].experiment.to_owned(),
                    until: until.map(|at| points[at].experiment.to_owned()),
                    before,
                    after,
                    p,
                    is_known,
                };
                let steps = changed.steps.iter();
                found.extend(steps.map(|one| change(one.index, None, [one.before, one.after, one.p], one.is_known)));
                let known_up_to = drift_marks.iter().filter_map(|mark| mark.last(past, &points)).max();
                found.extend(changed.drifts.iter().map(|one| {
                    let is_known = known_up_to.is_some_and(|last| one.last <= last);
                    change(one.first, Some(one.last), [one.begin, one.end, one.p], is_known)
                }));
            }
        }
    }
    Ok((found, series))
}

/// What people have marked as known: an experiment, of all sub-experiments or of one.
struct KnownMark<'a> {
    experiment: &'a str,
    sub_experiment: Option<&'a str>,
    flag: &'static str,
}

impl<'a> KnownMark<'a> {
    fn of(text: &'a str, is_drift: bool) -> Self {
        let (experiment, sub_experiment) = text.split_once(':').map_or((text, None), |(one, sub)| (one, Some(sub)));
        Self { experiment, sub_experiment, flag: if is_drift { "--known-drift" } else { "--known" } }
    }

    fn is_of(&self, past: &Past) -> bool {
        self.sub_experiment.is_none_or(|name| name == past.name)
    }

    /// That there is such an experiment.
    fn check(&self, pasts: &[Past]) -> Result<(), CliError> {
        let Self { experiment, sub_experiment, flag } = self;
        let mut names = pasts.iter().filter(|past| self.is_of(past)).flat_map(|past| &past.experiments);
        if names.any(|(name, _)| is_of(name, experiment)) {
            return Ok(());
        }
        let of = sub_experiment.map_or(String::new(), |name| format!(" of '{name}'"));
        let text = format!(
            "there is no experiment '{experiment}' with figures{of}; name one as its folder is called ({flag})"
        );
        Err(CliError::new(exit::USAGE, text))
    }

    /// Its place among the points of a figure.
    fn first(&self, past: &Past, points: &[HistoryPoint<'_>]) -> Option<usize> {
        points.iter().position(|point| self.is_of(past) && is_of(point.experiment, self.experiment))
    }

    /// The place of its last round.
    fn last(&self, past: &Past, points: &[HistoryPoint<'_>]) -> Option<usize> {
        points.iter().rposition(|point| self.is_of(past) && is_of(point.experiment, self.experiment))
    }
}

/// A figure of one experiment.
struct HistoryPoint<'a> {
    experiment: &'a str,
    machine: Option<&'a MachineFacts>,
    /// Of several rounds the median: what differs from one experiment to the next is the same for all rounds of one, so
    /// that they are no runs of their own.
    value: f64,
}

/// One figure of every experiment that has it, oldest first.
fn points_of<'a>(past: &'a Past, bytes: &Bytes, figure: Magnitude) -> Vec<HistoryPoint<'a>> {
    let runs: Vec<_> = past
        .experiments
        .iter()
        .zip(&past.machines)
        .filter_map(|((run, summary), machine)| {
            let value = figure.of(summary.row(bytes)?);
            (value > 0.0 && value.is_finite()).then_some((experiment_of(run), machine.as_ref(), value))
        })
        .collect();
    runs.chunk_by(|one, next| one.0 == next.0)
        .filter_map(|rounds| {
            let values: Vec<f64> = rounds.iter().map(|round| round.2).collect();
            let (experiment, machine, _) = *rounds.first()?;
            Some(HistoryPoint { experiment, machine, value: median(&values)? })
        })
        .collect()
}

/// The experiment that a run is, or is a round of.
fn experiment_of(run: &str) -> &str {
    run.rsplit_once('/').map_or(run, |(experiment, _)| experiment)
}

/// Whether figures of two experiments cannot be compared: something is known to differ, or nothing is known of one.
fn is_other(one: Option<&MachineFacts>, other: Option<&MachineFacts>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => differences(one, other).next().is_some(),
        _ => one.is_some() != other.is_some(),
    }
}

/// A line for each experiment from which on another environment was measured in.
fn changes_of_environment(pasts: &[Past]) -> String {
    let mut told: Vec<String> = Vec::new();
    for past in pasts {
        for (at, pair) in past.machines.windows(2).enumerate() {
            let [one, other] = [pair[0].as_ref(), pair[1].as_ref()];
            if !is_other(one, other) {
                continue;
            }
            let what = match one.zip(other) {
                Some((one, other)) => {
                    let changed = differences(one, other).map(|[name, one, other]| format!("{name} {one} -> {other}"));
                    changed.collect::<Vec<_>>().join("; ")
                }
                None => "of one side it is not known".to_owned(),
            };
            let since = past.experiments.get(at + 1).map_or("", |(run, _)| experiment_of(run));
            told.push(format!("another environment since '{since}', across which no changes are looked for: {what}\n"));
        }
    }
    told.sort();
    told.dedup();
    told.concat()
}

/// The figures that changes are looked for in. Losses are mostly 0, and what is 0 has no ratio.
fn watched(past: &Past) -> Vec<Magnitude> {
    let figures = figures(past).into_iter();
    figures.filter(|figure| !matches!(figure, Magnitude::Min | Magnitude::Max | Magnitude::Loss)).collect()
}

/// The figures that there are.
fn figures(past: &Past) -> Vec<Magnitude> {
    Magnitude::of_summaries(&past.experiments.iter().map(|(_, summary)| summary).collect::<Vec<_>>())
}

/// Whether a run is that experiment, or a round of it.
fn is_of(run: &str, experiment: &str) -> bool {
    run.strip_prefix(experiment).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
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

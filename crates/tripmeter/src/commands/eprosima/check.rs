//! `tripmeter eprosima check`: an experiment against its requirements.

use crate::args::CheckArgs;
use crate::error::CliError;
use crate::output;
use crate::plotting::{PictureJob, create_folder, draw_all};
use crate::summaries::{ExperimentFolder, kind_of, kind_of_name, other_kind, runs};
use crate::verdicts::RATE;
use serde_json::{Value, json};
use std::path::Path;
use tripmeter_model::bytes::Bytes;
use tripmeter_model::check::{Check, CheckRow};
use tripmeter_model::exit;
use tripmeter_model::plan::{Plan, SubExperiment};
use tripmeter_model::requirements::Requirements;
use tripmeter_model::summary::Summary;
use tripmeter_report::plots::{self, latency};
use tripmeter_stats::family::{Factors, factors, fewest_runs, is_added, kinds};
use tripmeter_stats::timed;
use tripmeter_stats::verdict::{ExperimentCheck, Measured};

/// `tripmeter eprosima check`
pub fn check(args: &CheckArgs) -> Result<u8, CliError> {
    let mut requirements = requirements(&args.requirements)?;
    if let Some(folder) = &args.family_wise {
        requirements = loosened(&requirements, folder, args.allow_damage)?;
    }
    let options = args.plots_directory.as_deref().map(|folder| (folder, args.plotting.options()));
    let mut experiment = ExperimentFolder::open(&args.experiment_directory)?;
    experiment.allows_damage = args.allow_damage;
    let checked = checked(&requirements, &args.requirements, experiment, options)?;
    output::print(&match args.json {
        true => serde_json::to_string_pretty(&as_json(&checked, args.strict)).expect("it is plain data") + "\n",
        false => output::text(&tripmeter_report::checks(&checked, args.print_summaries, args.strict)),
    })?;
    Ok(exit_code(&checked, args.strict))
}

/// The limits of which runs like those in a folder break one with a small probability; says by how much they are larger.
fn loosened(requirements: &Requirements, folder: &Path, allows_damage: bool) -> Result<Requirements, CliError> {
    let mut checks = Vec::new();
    for run in runs(folder)? {
        let mut experiment = ExperimentFolder::open(&run.path)?;
        experiment.allows_damage = allows_damage;
        if experiment.is_running() {
            output::say(&format!("note: left out: run '{}' is being measured, or was killed", run.name));
            continue;
        }
        experiment.summarise(true)?;
        let measured = experiment.measured()?;
        if let Some(one) = measured.iter().find(|one| one.distrust.is_some()) {
            let why = one.distrust.as_deref().unwrap_or_default();
            output::say(&format!("note: left out: run '{}': '{}': {why}", run.name, one.name));
            continue;
        }
        let check = ExperimentCheck::new(requirements, &measured);
        let is_whole = check.checked.iter().all(|one| one.report.rows.iter().all(|row| row.experiment.is_some()));
        match is_whole && check.not_measured.is_empty() {
            true => checks.push(check),
            false => {
                output::say(&format!("note: left out: run '{}' has not all that there are requirements for", run.name))
            }
        }
    }
    let kinds = kinds(requirements);
    let Some(factors) = factors(&checks, &kinds, RATE) else {
        let (count, fewest) = (checks.len(), fewest_runs(RATE, kinds.len()));
        let text =
            format!("'{}' has {count} whole runs, and --family-wise needs {fewest}; make more", folder.display());
        return Err(CliError::new(exit::DATA, text));
    };
    output::say(&format!(
        "note: limits {}: a run like the {} in '{}' fails anywhere with a probability of at most 5 %",
        loosenings(&factors),
        checks.len(),
        folder.display()
    ));
    Ok(factors.applied(requirements))
}

/// By how much limits are larger, or those of rates smaller.
fn loosenings(factors: &Factors) -> String {
    let listed = |is_one: fn(Check) -> bool| {
        let own = factors.0.iter().filter(|(check, _)| is_one(*check));
        own.map(|(check, factor)| format!("{factor:.3} ({})", check.name())).collect::<Vec<_>>().join(", ")
    };
    let parts = [
        ("times", listed(|check| !is_added(check) && !check.is_lower_limit())),
        ("plus", listed(is_added)),
        ("divided by", listed(Check::is_lower_limit)),
    ];
    let parts = parts.iter().filter(|(_, list)| !list.is_empty()).map(|(word, list)| format!("{word} {list}"));
    parts.collect::<Vec<_>>().join(", ")
}

/// The number of sub-experiments that fail, as an exit code.
pub fn exit_code(checked: &ExperimentCheck, strict: bool) -> u8 {
    const MOST: u8 = 63;
    u8::try_from(checked.failing(strict)).unwrap_or(MOST).min(MOST)
}

/// Reads requirements, of which there must be some.
pub fn requirements(file: &Path) -> Result<Requirements, CliError> {
    let requirements = Requirements::read(file)?;
    match requirements.rows.is_empty() {
        true => Err(CliError::new(exit::DATA, format!("'{}' holds no requirements, only a header", file.display()))),
        false => Ok(requirements),
    }
}

/// Checks an experiment, writes a report of each sub-experiment into its folder, and plots into a folder if one is given.
pub fn checked(
    requirements: &Requirements,
    file: &Path,
    mut experiment: ExperimentFolder,
    plots: Option<(&Path, plots::Options)>,
) -> Result<ExperimentCheck, CliError> {
    experiment.summarise(false)?;
    let measured = experiment.measured()?;
    let names: Vec<&str> = experiment.sources.iter().map(|source| source.name.as_str()).collect();
    let place = format!("'{}'", experiment.path().display());
    same_kinds(requirements, file, &names, |name| experiment.kind(name), &place)?;
    let checked = ExperimentCheck::new(requirements, &measured);
    if checked.checked.is_empty() {
        return Err(nothing_to_check(file, &place, &checked));
    }
    plots.map_or(Ok(()), |(folder, _)| create_folder(folder))?;
    for one in &checked.checked {
        one.report.write(&experiment.join(&format!("checks_{}.csv", one.name)))?;
    }
    if let Some((folder, options)) = plots {
        draw_all(folder, jobs(&experiment, &checked, &measured, &options))?;
    }
    Ok(checked)
}

/// Checks that a plan can meet requirements, before it is measured.
///
/// # Errors
/// If no sub-experiment of the plan has requirements, or one whose latencies are of another kind, or of a payload that is
/// not in the plan; if `strict`, also if a sub-experiment is on one side only.
pub fn fits(requirements: &Requirements, file: &Path, plan: &Plan, strict: bool) -> Result<(), CliError> {
    const PLACE: &str = "the experiment";
    let planned: Vec<(String, &SubExperiment)> = plan.sub_experiments.iter().flat_map(names_of).collect();
    let names: Vec<&str> = planned.iter().map(|(name, _)| name.as_str()).collect();
    let of = |name: &str| planned.iter().find(|(planned, _)| planned == name).map(|(_, plan)| *plan);
    same_kinds(requirements, file, &names, |name| kind_of_name(name).or_else(|| kind_of(of(name)?)), PLACE)?;
    let empty =
        |name: &&str| Measured { name: (*name).to_owned(), summary: Summary { rows: Vec::new() }, distrust: None };
    let sides = ExperimentCheck::new(requirements, &names.iter().map(empty).collect::<Vec<_>>());
    if sides.checked.is_empty() {
        return Err(nothing_to_check(file, PLACE, &sides));
    }
    let refused = |what: String| Err(CliError::new(exit::DATA, format!("'{}' has {what}", file.display())));
    for row in &requirements.rows {
        let Some(plan) = of(&row.sub_experiment) else { continue };
        if !plan.payloads.iter().any(|bytes| Bytes::from(*bytes) == row.bytes) {
            let payloads = plan.payloads.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
            return refused(format!(
                "limits of '{}' at {} bytes, which {PLACE} does not measure, only {payloads}; add the payload \
                 (--payloads), or leave the limits out",
                row.sub_experiment, row.bytes
            ));
        }
    }
    let (without, gone) = (sides.without_requirements, sides.not_measured);
    match strict {
        true if !gone.is_empty() => refused(format!(
            "limits of {}, which {PLACE} does not measure; leave them out, or leave --strict out",
            gone.join(", ")
        )),
        true if !without.is_empty() => refused(format!(
            "no limits of {}, which {PLACE} measures; add them, or leave --strict out",
            without.join(", ")
        )),
        _ => Ok(()),
    }
}

/// The names that the figures of a sub-experiment will have.
fn names_of(plan: &SubExperiment) -> Vec<(String, &SubExperiment)> {
    let names = match timed::is_of(plan) {
        true => timed::summaries(plan, None).into_iter().map(|(name, _)| name).collect(),
        false => vec![plan.name.clone()],
    };
    names.into_iter().map(|name| (name, plan)).collect()
}

/// None of the sub-experiments has requirements.
fn nothing_to_check(file: &Path, place: &str, checked: &ExperimentCheck) -> CliError {
    let text = format!(
        "nothing to check: '{}' has no requirements for any sub-experiment in {place}: {}",
        file.display(),
        checked.without_requirements.join(", ")
    );
    CliError::new(exit::DATA, text)
}

/// Refuses limits of another kind of latency than their sub-experiment has among `names`.
fn same_kinds(
    requirements: &Requirements,
    file: &Path,
    names: &[&str],
    kind_of: impl Fn(&str) -> Option<latency::LatencyKind>,
    place: &str,
) -> Result<(), CliError> {
    let limited = requirements.rows.iter().map(|row| row.sub_experiment.as_str());
    let Some((limit, measured)) = other_kind(limited, || names.iter().copied()) else { return Ok(()) };
    let kind = |name: &str| kind_of_name(name).or_else(|| kind_of(name).filter(|_| name == measured));
    let text = format!(
        "'{}' has limits of '{limit}' ({}), but {place} has '{measured}' ({}): latencies of different kinds are not \
         checked; make limits of the same kind, as `tripmeter eprosima determine-requirements` does",
        file.display(),
        kind(limit).map_or("rtt_half, or what its samples are", latency::LatencyKind::name),
        kind(measured).map_or("rtt_half, or what its samples are", latency::LatencyKind::name),
    );
    Err(CliError::new(exit::DATA, text))
}

/// Pictures of each sub-experiment, one for each figure that there are limits of.
fn jobs<'a>(
    experiment: &'a ExperimentFolder,
    checked: &'a ExperimentCheck,
    measured: &'a [Measured],
    options: &'a plots::Options,
) -> Vec<PictureJob<'a>> {
    let mut jobs: Vec<PictureJob> = Vec::new();
    for one in &checked.checked {
        let Some(Measured { name, summary, .. }) = measured.iter().find(|other| other.name == one.name) else {
            continue;
        };
        let kind = experiment.kind(name);
        let has = |check: &Check| one.report.rows.iter().any(|row| row.check == *check);
        for check in Check::ALL.into_iter().chain(Check::MORE).filter(has) {
            let named = latency::Named { name, summary };
            jobs.push(Box::new(move || latency::check(&named, &one.report, check, kind, options)));
        }
    }
    jobs
}

/// Everything, for programs.
pub fn as_json(checked: &ExperimentCheck, strict: bool) -> Value {
    let row = |row: &CheckRow| {
        let unit = row.check.magnitude().unit();
        // What is no time has no unit in its names, but beside them.
        let key = |name: &str| if unit == "us" { format!("{name}_us") } else { name.to_owned() };
        let mut value = json!({
            "check": row.check.name(),
            "payload_bytes": payload_json(&row.bytes),
            "unit": unit,
            "percentage_over_requirement": row.percentage_over_requirement().map(thousandths),
            "status": if row.passed() { "passed" } else { "failed" },
        });
        value[key("requirement")] = json!(row.requirement);
        value[key("experiment")] = json!(row.experiment);
        value[key("difference")] = json!(row.difference().map(thousandths));
        value
    };
    let subs = checked.checked.iter().map(|one| {
        json!({
            "name": one.name,
            "passed": one.passed(),
            "distrust": one.distrust,
            "checks": one.report.rows.iter().map(row).collect::<Vec<_>>(),
        })
    });
    let (passed, all) = checked.counts();
    json!({
        "passed": checked.failing(strict) == 0,
        "failing": checked.failing(strict),
        "checks_passed": passed,
        "checks": all,
        "sub_experiments": subs.collect::<Vec<_>>(),
        "without_requirements": checked.without_requirements,
        "not_measured": checked.not_measured,
    })
}

/// Without the noise of binary fractions.
pub fn thousandths(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// A payload as a whole number, if it is one.
pub fn payload_json(bytes: &Bytes) -> Value {
    let value = bytes.value();
    if value.fract() == 0.0 && value < u64::MAX as f64 { json!(value as u64) } else { json!(value) }
}

//! `tripmeter eprosima check`: checks an experiment against requirements.

use super::folder::ExperimentFolder;
use crate::args::EprosimaCheckArgs;
use crate::error::CliError;
use crate::output;
use crate::plotting::{PictureJob, create_folder, draw_all};
use std::collections::BTreeSet;
use std::path::Path;
use tripmeter_eprosima::bytes::Bytes;
use tripmeter_eprosima::requirements::Requirements;
use tripmeter_eprosima::summary::Magnitude;
use tripmeter_eprosima::verdict::{ExperimentCheck, Measured};
use tripmeter_model::exit;
use tripmeter_model::plan::Plan;
use tripmeter_report::eprosima::checks;
use tripmeter_report::plots::{self, eprosima as pictures};

pub fn check(args: &EprosimaCheckArgs) -> Result<u8, CliError> {
    let requirements = requirements(&args.requirements)?;
    let options = args.plots_directory.as_deref().map(|folder| (folder, args.plotting.options()));
    let experiment = ExperimentFolder::open(&args.experiment_directory)?;
    let checked = checked(&requirements, &args.requirements, experiment, options)?;
    output::print_document(&checks(&checked, args.print_summaries))?;
    Ok(exit_code(&checked))
}

pub fn exit_code(checked: &ExperimentCheck) -> u8 {
    const MOST: u8 = 63;
    u8::try_from(checked.failing()).unwrap_or(MOST).min(MOST)
}

/// Reads requirements; fails if there are none.
pub fn requirements(file: &Path) -> Result<Requirements, CliError> {
    let requirements = Requirements::read(file)?;
    match requirements.rows.is_empty() {
        true => Err(CliError::new(exit::DATA, format!("'{}' has a header, but no requirements", file.display()))),
        false => Ok(requirements),
    }
}

/// Checks an experiment, writes a report of each sub-experiment into its folder, and plots into `plots` if given.
pub fn checked(
    requirements: &Requirements,
    file: &Path,
    mut experiment: ExperimentFolder,
    plots: Option<(&Path, plots::Options)>,
) -> Result<ExperimentCheck, CliError> {
    experiment.summarise()?;
    let measured = experiment.measured()?;
    let checked = ExperimentCheck::new(requirements, &measured);
    if checked.checked.is_empty() {
        let place = format!("'{}'", experiment.path().display());
        return Err(nothing_to_check(file, &place, &checked));
    }
    plots.map_or(Ok(()), |(folder, _)| create_folder(folder))?;
    for one in &checked.checked {
        experiment.handle.write(&format!("checks_{}.csv", one.name), &one.report.to_csv())?;
    }
    if let Some((folder, options)) = plots {
        draw_all(folder, jobs(&checked, &measured, &options))?;
    }
    Ok(checked)
}

/// Checks, before measuring, that a plan can meet requirements. Fails if no round-trip sub-experiment has requirements,
/// or one has requirements for a payload that is not planned.
pub fn fits(requirements: &Requirements, file: &Path, plan: &Plan) -> Result<(), CliError> {
    let planned: Vec<_> = plan.sub_experiments.iter().filter(|sub| sub.are_round_trips()).collect();
    let empty = |name: &str| Measured { name: name.to_owned(), summary: Default::default(), distrust: None };
    let measured: Vec<Measured> = planned.iter().map(|sub| empty(&sub.name)).collect();
    let sides = ExperimentCheck::new(requirements, &measured);
    if sides.checked.is_empty() {
        return Err(nothing_to_check(file, "the experiment", &sides));
    }
    for row in &requirements.rows {
        let Some(plan) = planned.iter().find(|sub| sub.name == row.sub_experiment) else { continue };
        if !plan.payloads.iter().any(|bytes| Bytes::from(*bytes) == row.bytes) {
            let payloads: BTreeSet<u64> = plan.payloads.iter().copied().collect();
            let payloads = payloads.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
            let text = format!(
                "'{}' has limits for '{}' at {} bytes, but the experiment measures only {payloads}; add the payload to \
                 it, or leave the limits out",
                file.display(),
                row.sub_experiment,
                row.bytes
            );
            return Err(CliError::new(exit::DATA, text));
        }
    }
    Ok(())
}

fn nothing_to_check(file: &Path, place: &str, checked: &ExperimentCheck) -> CliError {
    let text = format!(
        "nothing to check: '{}' has no requirements for the sub-experiments in {place}: {}",
        file.display(),
        checked.without_requirements.join(", ")
    );
    CliError::new(exit::DATA, text)
}

fn jobs<'a>(
    checked: &'a ExperimentCheck,
    measured: &'a [Measured],
    options: &'a plots::Options,
) -> Vec<PictureJob<'a>> {
    let mut jobs: Vec<PictureJob> = Vec::new();
    for one in &checked.checked {
        let Some(Measured { name, summary, .. }) = measured.iter().find(|other| other.name == one.name) else {
            continue;
        };
        for magnitude in Magnitude::CHECKED {
            let named = pictures::Named { name, summary };
            jobs.push(Box::new(move || pictures::check(&named, &one.report, magnitude, options)));
        }
    }
    jobs
}

//! `tripmeter eprosima job`: run, process, check and history, one after the other, in a results database.

use super::folder::{ExperimentFolder, Source};
use super::{check, history, process, prune};
use crate::args::{ExperimentArgs, JobArgs, KeptArgs, MeasuringArgs};
use crate::database::last_part;
use crate::error::CliError;
use crate::measurement::{Prepared, exit_code};
use crate::output;
use crate::plotting::{PictureJob, draw_all, no_link};
use crate::progress::ProgressView;
use crate::signals::signals_end_us;
use std::path::{Path, PathBuf};
use tripmeter_engine::results::dated;
use tripmeter_engine::{Followers, RunError};
use tripmeter_eprosima::summary::Magnitude;
use tripmeter_model::exit;
use tripmeter_model::folder_handle::FolderHandle;
use tripmeter_model::manifest::RunStatus;
use tripmeter_model::plan::Raw;
use tripmeter_report::eprosima::checks;
use tripmeter_report::plots::{Options, eprosima as pictures};

/// Runs the steps of eProsima's `latency_job.bash`, in its order and with its database layout.
pub fn job(args: &JobArgs) -> Result<u8, CliError> {
    let limits = check::requirements(&args.requirements)?;
    let results = args.database.join("experiments_results");
    let place = args.label.as_deref().map(|label| named(&results, label)).transpose()?;
    let kept = KeptArgs { raw: Some(Raw { eprosima: true, ..Raw::NONE }), ..KeptArgs::default() };
    let measuring = MeasuringArgs { kept, ..MeasuringArgs::default() };
    let experiment = ExperimentArgs::written(&args.experiment, &measuring);
    let prepared = Prepared::new(&experiment, &args.plugins, args.quiet)?;
    if prepared.plan.rounds > 1 {
        return Err(CliError::new(exit::USAGE, "a job checks a single round; remove `rounds` from the experiment"));
    }
    check::fits(&limits, &args.requirements, &prepared.plan)?;
    let place = match place {
        Some(place) => place,
        None => dated(&results).map_err(RunError::from)?,
    };
    let shown = ProgressView::from_flags(args.quiet, false);
    let (manifest, measured) = prepared.run_into(Some(&*place).into(), Followers::Local, shown)?;
    if manifest.status == RunStatus::Interrupted {
        return Ok(exit::INTERRUPTED);
    }
    let allowed = prepared.allowed;
    // Removes its temporary files.
    drop(prepared);
    signals_end_us();
    let (plots, options) = (measured.at("plots")?, args.plotting.options());
    let shown = |error: CliError| CliError::new(error.code, measured.shown(&error.to_string()));
    let code = summarise(&measured, &plots, options).map_err(shown)?;
    if code != exit::GOOD {
        return Ok(code);
    }
    let experiment = ExperimentFolder::from_handle(&measured)?;
    let checked = check::checked(&limits, &args.requirements, experiment, Some((&plots, options))).map_err(shown)?;
    output::print_document(&checks(&checked, true))?;
    if let Some(depth) = args.depth {
        // The new experiment is kept by name, so that a clock set back cannot remove it.
        say(args, &prune::remove_old(&results, depth, &[last_part(&place)], false)?);
    }
    let history_plots = args.database.join("history_plots");
    no_link(&history_plots)?;
    let drawn = history::draw(&results, Some(&limits), &history_plots, options);
    drawn.iter().for_each(|text| say(args, text));
    measured.check()?;
    say(args, &format!("results in '{}'\n", place.display()));
    let code = match check::exit_code(&checked) {
        exit::GOOD => exit_code(&manifest, allowed),
        failing => failing,
    };
    match drawn {
        // The result of this run matters more than a plot of earlier ones.
        Err(error) if code != exit::GOOD => output::say(&format!("note: no history: {error}")),
        drawn => drop(drawn?),
    }
    Ok(code)
}

fn say(args: &JobArgs, text: &str) {
    if !args.quiet {
        text.lines().for_each(output::say);
    }
}

/// Results folder of an experiment with a label.
fn named(results: &Path, label: &str) -> Result<PathBuf, CliError> {
    let plain = |c: char| c.is_alphanumeric() || "._=-+".contains(c);
    if label.is_empty() || label.len() > 100 || !label.chars().all(plain) || label.starts_with(['.', '-']) {
        let text = format!(
            "label '{label}' must have 1 to 100 letters, digits or '._=-+', and must not begin with '.' or '-'"
        );
        return Err(CliError::new(exit::USAGE, text));
    }
    Ok(results.join(label))
}

/// Writes summaries of all sub-experiments, plots of their samples, and comparison plots. If the exit code is not good,
/// the errors have been printed.
fn summarise(place: &FolderHandle, plots: &Path, options: Options) -> Result<u8, CliError> {
    let mut folder = ExperimentFolder::from_handle(place)?;
    if folder.sources.iter().any(Source::is_samples) {
        let code = process::folder(place, (plots, options))?;
        if code != exit::GOOD {
            return Ok(code);
        }
        folder = ExperimentFolder::from_handle(place)?;
    }
    let measured = folder.measured()?;
    let with_rows = measured.iter().filter(|one| !one.summary.rows.is_empty());
    let named: Vec<_> = with_rows.map(|one| pictures::Named { name: &one.name, summary: &one.summary }).collect();
    if named.is_empty() {
        return Ok(exit::GOOD);
    }
    let named = &named;
    let jobs = Magnitude::ALL.map(|magnitude| -> PictureJob<'_> {
        Box::new(move || pictures::subexperiment_comparison(magnitude, named, &options))
    });
    draw_all(plots, jobs.into())?;
    Ok(exit::GOOD)
}

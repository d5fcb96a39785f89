//! `tripmeter run --resume`: measures what is missing in a results folder, of any command that measures a plan once.

use super::run::{Prepared, finish};
use super::show;
use crate::args::RunArgs;
use crate::error::CliError;
use crate::output;
use crate::progress::ProgressView;
use std::path::Path;
use tripmeter_engine::resolve::check_plan;
use tripmeter_engine::{Begun, Followers, LockedFolder, RunError};
use tripmeter_model::exit;
use tripmeter_model::folder::MANIFEST;
use tripmeter_model::manifest::{Manifest, RunStatus};
use tripmeter_model::plan::SubExperiment;

/// Measures the rest of the run in `folder`, prints its tables, and returns the exit code.
pub fn resume(folder: &Path, args: &RunArgs, followers: Followers) -> Result<u8, CliError> {
    let running = &args.running;
    running.output.sorting.refuse_with_json(running.output.json)?;
    // What is no results folder is not written to.
    let manifest = show::read_exact(folder).map_err(|error| {
        let is_missing = folder.is_dir() && folder.join(MANIFEST).symlink_metadata().is_err();
        let begin = "nothing was measured yet; give the command again";
        if is_missing { CliError::new(error.code, format!("{error}; {begin}")) } else { error }
    })?;
    check(folder, &manifest)?;
    let folder = folder.canonicalize().map_err(|error| {
        let text = format!("results folder '{}' cannot be used: {error}", folder.display());
        CliError::new(exit::NO_INPUT, text)
    })?;
    let place = folder.clone();
    let folder = LockedFolder::take(folder).map_err(RunError::from)?;
    // The run may have ended since, with more than was there then.
    let manifest = show::read_exact(folder.folder())?;
    check(&place, &manifest)?;
    let tables = show::usual(&manifest);
    let finished = manifest.clone();
    let begun = Begun::finished_payloads(folder, manifest);
    let plan = tripmeter_model::plan::Plan { tables, ..begun.plan().clone() };
    let prepared = Prepared::again(plan, args)?;
    if !running.output.quiet {
        let (rest, all) = (begun.rest().len(), begun.plan().sub_experiments.len() * begun.plan().rounds as usize);
        output::say(&format!("going on: {rest} of {all} sub-experiments are not whole"));
    }
    // Nothing is to be measured, so nothing changes.
    if finished.status == RunStatus::Complete && begun.rest().is_empty() {
        return finish(&prepared, &finished, &place, &running.output, running.shown);
    }
    let shown = ProgressView::of(running.output.quiet, running.live);
    let (manifest, folder) = prepared.go_on(begun, followers, shown)?;
    finish(&prepared, &manifest, &folder, &running.output, running.shown)
}

/// Fails if what is in the folder cannot be resumed by this program, or is another command's.
fn check(folder: &Path, manifest: &Manifest) -> Result<(), CliError> {
    let (folder, source, version) = (folder.display(), manifest.plan.source.as_str(), env!("CARGO_PKG_VERSION"));
    let refused = |why: String| Err(CliError::new(exit::DATA, format!("'{folder}' cannot be resumed: {why}")));
    if source == super::ab::SOURCE {
        return refused("it is of `tripmeter ab`, which goes on by itself: give the same command again".to_owned());
    }
    if manifest.plan.sub_experiments.iter().any(SubExperiment::is_disturbed) {
        return refused("it is of `tripmeter explain`; give that command again, with another folder (-o)".to_owned());
    }
    if manifest.tripmeter_version != version {
        let before = &manifest.tripmeter_version;
        return refused(format!("it was measured by tripmeter {before}, and this is {version}; use that one"));
    }
    let is_bounded = check_plan(&manifest.plan);
    is_bounded.or_else(|error| refused(format!("in its {MANIFEST}, {error}")))
}

//! Files of samples that results have by their manifest, wherever a folder was copied to.

use crate::error::CliError;
use crate::output;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use tripmeter_engine::files::whole;
use tripmeter_model::exit;
use tripmeter_model::expected::ExpectedRows;
use tripmeter_model::manifest::{Manifest, SubExperimentResult};
use tripmeter_model::samples::{SAMPLES, SampleReader};

/// The file of a sub-experiment in a round.
pub enum SampleFile {
    /// The rows are read of this one if both are there.
    Csv(PathBuf),
    Parquet(PathBuf),
    /// None was kept.
    None,
}

/// The folder of a round, relative to that of the results.
pub fn round_folder(manifest: &Manifest, round: u32) -> String {
    if manifest.plan.has_round_folders() { format!("round-{round:02}") } else { String::new() }
}

/// Finds it.
///
/// # Errors
/// If it should be there and is not.
pub fn find(folder: &Path, manifest: &Manifest, result: &SubExperimentResult) -> Result<SampleFile, CliError> {
    let round = folder.join(round_folder(manifest, result.round));
    let csv = round.join(SAMPLES).join(format!("{}.csv", result.name));
    if !fs::symlink_metadata(&csv).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        return Ok(SampleFile::Csv(csv));
    }
    if whole::has_parquet(&round, &result.name)? {
        return Ok(SampleFile::Parquet(csv.with_extension("parquet")));
    }
    if are_kept(manifest, result) {
        ExpectedRows::of_result(result).check(&csv)?;
    }
    Ok(SampleFile::None)
}

fn are_kept(manifest: &Manifest, result: &SubExperimentResult) -> bool {
    let plan = &manifest.plan;
    let mut without = plan.sub_experiments.iter().filter(|sub| !plan.raw_of(sub).has_rows());
    plan.raw.has_rows()
        && result.round >= manifest.first_round_with_samples()
        && without.all(|sub| sub.name != result.name)
}

/// Whether results have any folder of samples, or none was to be written. They may have been copied without samples, as
/// their figures do not need them; what is drawn of samples is left out then, and a note says so.
pub fn are_there(folder: &Path, manifest: &Manifest) -> bool {
    let mut kept = manifest
        .sub_experiments
        .iter()
        .filter(|result| are_kept(manifest, result) && !ExpectedRows::of_result(result).are_there());
    let is_folder = |round: u32| folder.join(round_folder(manifest, round)).join(SAMPLES).symlink_metadata().is_ok();
    match kept.next() {
        None => true,
        Some(first) => is_folder(first.round) || kept.any(|result| is_folder(result.round)),
    }
}

/// Notes folders that were copied without their samples.
pub fn note_absent<'a>(results: impl Iterator<Item = (&'a PathBuf, &'a Manifest)>) {
    for (folder, _) in results.filter(|(folder, manifest)| !are_there(folder, manifest)) {
        output::say(&format!("note: '{}' has no samples; charts of samples are left out", folder.display()));
    }
}

/// Reads a whole CSV: whether it has rows of trials that do not count.
///
/// # Errors
/// If rows are missing or damaged.
pub fn has_others(csv: &Path, result: &SubExperimentResult) -> Result<bool, CliError> {
    if !fs::symlink_metadata(csv).is_ok_and(|found| found.is_file()) {
        return Err(CliError::new(exit::NO_INPUT, format!("'{}' is no file of samples", csv.display())));
    }
    let (mut expected, mut has_others) = (ExpectedRows::of_result(result), false);
    let mut rows = SampleReader::open(csv)?;
    for row in &mut rows {
        has_others |= !expected.add(&row?);
    }
    rows.check_end(|trial| expected.has(trial))?;
    expected.check(csv)?;
    Ok(has_others)
}

//! Sample files of results, found from the manifest, even if the folder was copied elsewhere.

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

/// Sample file of a sub-experiment in a round.
pub enum SampleFile {
    /// CSV file, which is preferred if both exist.
    Csv(PathBuf),
    Parquet(PathBuf),
    /// No samples were kept.
    None,
}

/// Folder of a round, relative to the results folder.
pub fn round_folder(manifest: &Manifest, round: u32) -> String {
    if manifest.plan.has_round_folders() { format!("round-{round:02}") } else { String::new() }
}

/// Finds the sample file. Fails if it is missing although it should exist.
pub fn find(folder: &Path, manifest: &Manifest, result: &SubExperimentResult) -> Result<SampleFile, CliError> {
    let round = folder.join(round_folder(manifest, result.round));
    let name = manifest.written_name(&result.name);
    let csv = round.join(SAMPLES).join(format!("{name}.csv"));
    if !fs::symlink_metadata(&csv).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        return Ok(SampleFile::Csv(csv));
    }
    if whole::has_parquet(&round, name)? {
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

/// True if results have a folder of samples, or were measured without one. Results may have been copied without their
/// samples; see [`note_absent`].
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

/// Prints a note for each folder that was copied without its samples.
pub fn note_absent<'a>(results: impl Iterator<Item = (&'a PathBuf, &'a Manifest)>) {
    for (folder, _) in results.filter(|(folder, manifest)| !are_there(folder, manifest)) {
        output::say(&format!("note: '{}' has no samples; charts of samples are left out", folder.display()));
    }
}

/// Reads a whole CSV file; true if it has rows of trials that do not count. Fails if rows are missing or damaged.
pub fn has_others(csv: &Path, result: &SubExperimentResult) -> Result<bool, CliError> {
    if !fs::symlink_metadata(csv).is_ok_and(|found| found.is_file()) {
        return Err(CliError::new(exit::NO_INPUT, format!("'{}' is not a sample file", csv.display())));
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

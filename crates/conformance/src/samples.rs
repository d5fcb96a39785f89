//! Rows of sample files.

use std::collections::BTreeSet;
use std::path::Path;
use tripmeter_model::folder;
use tripmeter_model::samples::{SampleReader, SampleRow};

/// All rows of a sub-experiment, with discarded attempts.
pub fn all_samples(results: &Path, name: &str) -> Result<Vec<SampleRow>, String> {
    let file = results.join("samples").join(format!("{name}.csv"));
    let rows = SampleReader::open(&file).and_then(Iterator::collect::<Result<_, _>>);
    rows.map_err(|error| error.to_string())
}

/// Rows of a sub-experiment without discarded attempts.
pub fn sample_rows(results: &Path, name: &str) -> Result<Vec<SampleRow>, String> {
    let manifest = folder::read(results, |text| text.into()).map_err(|error| error.to_string())?;
    let cells = manifest.sub_experiments.iter().filter(|result| result.name == name).flat_map(|result| &result.cells);
    let earlier = cells.flat_map(|cell| &cell.earlier_attempts).flat_map(|cell| &cell.trials);
    let set_aside: BTreeSet<u32> = earlier.map(|trial| trial.number).collect();
    let rows = all_samples(results, name)?.into_iter();
    Ok(rows.filter(|row| !set_aside.contains(&row.trial)).collect())
}

/// Receive time in nanoseconds since the start of the trial; `None` also if it is negative.
pub(crate) fn received_ns(row: &SampleRow) -> Option<u64> {
    row.received_ns.and_then(|ns| u64::try_from(ns).ok())
}

//! Rows of files of samples, as tests look at them.

use super::manifest;
use std::collections::BTreeSet;
use std::path::Path;
use tripmeter_model::samples::{SampleReader, SampleRow};

/// All rows of a sub-experiment, with the attempts that were set aside.
pub fn all_samples(results: &Path, name: &str) -> Vec<SampleRow> {
    let file = results.join("samples").join(format!("{name}.csv"));
    let rows = SampleReader::open(&file).and_then(Iterator::collect::<Result<_, _>>);
    rows.unwrap_or_else(|error| panic!("{error}"))
}

/// The rows of a sub-experiment without the attempts that were set aside.
pub fn sample_rows(results: &Path, name: &str) -> Vec<SampleRow> {
    let manifest = manifest(results);
    let cells = manifest.sub_experiments.iter().filter(|result| result.name == name).flat_map(|result| &result.cells);
    let earlier = cells.flat_map(|cell| &cell.earlier_attempts).flat_map(|cell| &cell.trials);
    let set_aside: BTreeSet<u32> = earlier.map(|trial| trial.number).collect();
    let rows = all_samples(results, name).into_iter();
    rows.filter(|row| !set_aside.contains(&row.trial)).collect()
}

/// When the follower had it, by the one clock of this machine.
pub fn received_ns(row: &SampleRow) -> Option<u64> {
    row.received_ns.map(|ns| u64::try_from(ns).unwrap_or_else(|_| panic!("before the trial began: {row:?}")))
}

/// Payload sizes of those rows.
pub fn sample_payloads(results: &Path, name: &str) -> Vec<u64> {
    sample_rows(results, name).iter().map(|row| row.payload_bytes).collect()
}

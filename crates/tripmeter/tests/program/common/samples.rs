//! Rows of files of samples, as tests look at them.

use std::path::Path;
use tripmeter_conformance::samples;
use tripmeter_model::samples::SampleRow;

/// All rows of a sub-experiment, with the attempts that were set aside.
pub fn all_samples(results: &Path, name: &str) -> Vec<SampleRow> {
    samples::all_samples(results, name).unwrap_or_else(|error| panic!("{error}"))
}

/// The rows of a sub-experiment without the attempts that were set aside.
pub fn sample_rows(results: &Path, name: &str) -> Vec<SampleRow> {
    samples::sample_rows(results, name).unwrap_or_else(|error| panic!("{error}"))
}

/// When the follower had it, by the one clock of this machine.
pub fn received_ns(row: &SampleRow) -> Option<u64> {
    row.received_ns.map(|ns| u64::try_from(ns).unwrap_or_else(|_| panic!("before the trial began: {row:?}")))
}

/// Payload sizes of those rows.
pub fn sample_payloads(results: &Path, name: &str) -> Vec<u64> {
    sample_rows(results, name).iter().map(|row| row.payload_bytes).collect()
}

//! Rows of sample files.

use std::path::Path;
use tripmeter_conformance::samples;
use tripmeter_model::samples::SampleRow;

/// All rows of a sub-experiment, with discarded attempts.
pub fn all_samples(results: &Path, name: &str) -> Vec<SampleRow> {
    samples::all_samples(results, name).unwrap_or_else(|error| panic!("{error}"))
}

/// Rows of a sub-experiment without discarded attempts.
pub fn sample_rows(results: &Path, name: &str) -> Vec<SampleRow> {
    samples::sample_rows(results, name).unwrap_or_else(|error| panic!("{error}"))
}

/// Receive time of the follower, on the host's clock.
pub fn received_ns(row: &SampleRow) -> Option<u64> {
    row.received_ns.map(|ns| u64::try_from(ns).unwrap_or_else(|_| panic!("before the trial began: {row:?}")))
}

pub fn sample_payloads(results: &Path, name: &str) -> Vec<u64> {
    sample_rows(results, name).iter().map(|row| row.payload_bytes).collect()
}

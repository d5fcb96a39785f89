//! Files and figures of eProsima's latency scripts, identical to the byte.
//!
//! | Module | Holds |
//! |---|---|
//! | [`raw`] | `measurements_<name>.csv`: every sample |
//! | [`measurements`] | writer of that file |
//! | [`summary`] | `…_summary.csv`: the figures of a sub-experiment |
//! | [`requirements`] | upper limits |
//! | [`check`] | `checks_<name>.csv`: figures against limits |
//! | [`verdict`] | an experiment against its requirements |
//! | [`comparison`] | an experiment against a reference, and `<name>_comparison.csv` |
//! | [`limits`] | requirements from many runs |
//! | [`table`] | small CSV files |
//! | [`bytes`] | payload size as written in a CSV file |
//!
//! Latencies are microseconds.
//!
//! # Source
//! The latency test specification of eProsima's Fast RTPS, and the scripts of `eProsima/benchmarking`.

#![forbid(unsafe_code)]

pub mod bytes;
pub mod check;
pub mod comparison;
#[cfg(test)]
mod fixture;
mod latency;
mod legacy;
pub mod limits;
pub mod measurements;
mod pairwise;
pub mod raw;
pub mod requirements;
mod select;
pub mod summary;
pub mod table;
pub mod verdict;

pub use latency::summary_row;

//! Views of results: pure functions from a manifest to text. Nothing is measured, read or written here.
//!
//! | View | Shows |
//! |---|---|
//! | [`iceperf()`] | iceperf's two columns for each sub-experiment |
//! | [`all()`] | one table of everything |
//!
//! Both end with a line break.
#![forbid(unsafe_code)]

mod all;
#[cfg(test)]
mod fixture;
mod iceperf;
mod merged;
mod notes;
mod number;

pub use all::all;
pub use iceperf::iceperf;
pub use number::two_digits;

/// The system whose transport is the floor: the distance of all others is shown against it.
pub const FLOOR: &str = "shm";

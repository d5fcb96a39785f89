//! Counts in files of results, up to what no measurement exceeds, so that sums of a few of them are no overflow.

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::fmt::Display;

/// The largest count in a file: 2^53, below which every whole number is exact as a float.
pub const MOST_COUNT: u64 = 1 << 53;

/// What is wrong with a count above [`MOST_COUNT`].
pub(crate) fn too_large(count: impl Display) -> String {
    format!("found {count}, and the most is {MOST_COUNT}")
}

/// Reads a count of at most [`MOST_COUNT`].
pub(crate) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let count = u64::deserialize(deserializer)?;
    if count <= MOST_COUNT { Ok(count) } else { Err(D::Error::custom(too_large(count))) }
}

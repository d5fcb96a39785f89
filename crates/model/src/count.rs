//! Counts in results files, bounded so that the sum of a few does not overflow.

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::fmt::Display;

/// Largest count in a file: 2^53, below which every whole number is exact as a float.
pub const MOST_COUNT: u64 = 1 << 53;

pub(crate) fn too_large(count: impl Display) -> String {
    format!("found {count}, above the limit of {MOST_COUNT}")
}

pub(crate) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let count = u64::deserialize(deserializer)?;
    if count <= MOST_COUNT { Ok(count) } else { Err(D::Error::custom(too_large(count))) }
}

pub(crate) fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Sum that saturates: counts from another side may be any number.
pub fn saturating_sum(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::ProcessActivity;

    #[test]
    fn counts_of_a_process_are_bounded_and_sums_are_no_overflow() {
        let read = |count: u64| {
            let mut text = serde_json::to_value(ProcessActivity::default()).unwrap();
            text["voluntary_switches"] = count.into();
            serde_json::from_value::<ProcessActivity>(text).map_err(|error| error.to_string())
        };
        assert_eq!(read(MOST_COUNT).unwrap().voluntary_switches, MOST_COUNT);
        assert!(read(MOST_COUNT + 1).unwrap_err().contains("above the limit of 9007199254740992"));
        assert_eq!([saturating_sum([2, 3].into_iter()), saturating_sum([u64::MAX, 3].into_iter())], [5, u64::MAX]);
    }
}

//! Memory for many samples: too little of it is an error, and not the end of the process.

use thiserror::Error;

/// There is too little memory.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("memory for {what}: {bytes} bytes cannot be had; ask for fewer (-n), or allow more memory")]
pub struct OutOfMemory {
    /// What it is for.
    what: String,
    bytes: u64,
}

impl OutOfMemory {
    /// So many values of that type, for that.
    pub fn of<T>(count: u64, what: &str) -> Self {
        Self { what: format!("{count} {what}"), bytes: count.saturating_mul(size_of::<T>() as u64) }
    }
}

/// Room for so many values, which nothing is written to.
///
/// # Errors
/// If there is too little memory.
pub fn reserved<T>(count: u64, what: &str) -> Result<Vec<T>, OutOfMemory> {
    let mut values = Vec::new();
    let is_there = usize::try_from(count).is_ok_and(|count| values.try_reserve_exact(count).is_ok());
    if is_there { Ok(values) } else { Err(OutOfMemory::of::<T>(count, what)) }
}

/// So many copies of a value: the memory is written, so that no page fault falls into the measured window.
///
/// # Errors
/// If there is too little memory.
pub fn filled<T: Clone>(value: T, count: u64, what: &str) -> Result<Vec<T>, OutOfMemory> {
    let mut values = reserved(count, what)?;
    values.resize(count as usize, value);
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_memory_is_an_error_that_says_how_much() {
        assert_eq!(filled(7_u8, 3, "samples").unwrap(), [7, 7, 7]);
        let told = filled(0_u64, 1 << 60, "samples").unwrap_err().to_string();
        assert!(told.contains("1152921504606846976 samples: 9223372036854775808 bytes cannot be had"), "{told}");
        assert!(reserved::<u64>(u64::MAX, "samples").is_err());
    }
}

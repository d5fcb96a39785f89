//! Allocations for many samples. Too little memory is an error, but does not end the process.

use thiserror::Error;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("cannot allocate {bytes} bytes for {what}; use fewer samples (-n), or allow more memory")]
pub struct OutOfMemory {
    what: String,
    bytes: u64,
}

impl OutOfMemory {
    pub fn new<T>(count: u64, what: &str) -> Self {
        Self { what: format!("{count} {what}"), bytes: count.saturating_mul(size_of::<T>() as u64) }
    }
}

/// Allocates room for `count` values without writing to it.
pub fn reserved<T>(count: u64, what: &str) -> Result<Vec<T>, OutOfMemory> {
    let mut values = Vec::new();
    let is_there = usize::try_from(count).is_ok_and(|count| values.try_reserve_exact(count).is_ok());
    if is_there { Ok(values) } else { Err(OutOfMemory::new::<T>(count, what)) }
}

/// Allocates `count` copies of a value. Writing them keeps page faults out of the measured window.
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
        assert!(told.contains("cannot allocate 9223372036854775808 bytes for 1152921504606846976 samples"), "{told}");
        assert!(reserved::<u64>(u64::MAX, "samples").is_err());
    }
}

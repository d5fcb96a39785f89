//! Payload sizes as users write them: `1k,64k,4M`, `1k..4M`.

use std::collections::BTreeSet;
use thiserror::Error;

/// Bytes of our header, which every message carries: the smallest payload.
pub const HEADER_BYTES: u64 = 16;
/// Largest payload that can be requested: 1 GiB.
pub const LARGEST_BYTES: u64 = 1 << 30;

/// Error in a list of payloads.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum PayloadError {
    /// Not a number with an optional unit.
    #[error(
        "payload '{0}' is not a size; write bytes or a whole number with k, M or G (1k = 1024), e.g. 1k,64k,4M or 1k..4M"
    )]
    NotASize(String),
    /// Too small to carry our header.
    #[error(
        "payload of {0} bytes is smaller than the header of {HEADER_BYTES} bytes that every message carries; use {HEADER_BYTES} or more"
    )]
    TooSmall(u64),
    /// Larger than the limit.
    #[error("payload of {0} bytes is larger than {LARGEST_BYTES} bytes, the largest payload allowed")]
    TooLarge(u64),
    /// A range that runs backwards.
    #[error("payload range '{0}' runs backwards; write the smaller size first")]
    Backwards(String),
    /// A size listed twice.
    #[error("payload of {0} bytes is listed twice")]
    Twice(u64),
}

/// Progress through the planned payloads: `1 of 4 payloads finished; 64k was cut off; missing: 1M, 4M`.
pub fn finished_text(planned: &[u64], finished: &[u64], cut_off: Option<u64>) -> String {
    let is_missing = |bytes: &&u64| !finished.contains(*bytes) && cut_off != Some(**bytes);
    let missing: Vec<String> = planned.iter().filter(is_missing).map(|&bytes| display_size(bytes)).collect();
    let count = planned.iter().filter(|bytes| finished.contains(bytes)).count();
    let cut_off = cut_off.map_or(String::new(), |bytes| format!("; {} was cut off", display_size(bytes)));
    let text = format!("{count} of {} payloads finished{cut_off}", planned.len());
    if missing.is_empty() { text } else { format!("{text}; missing: {}", missing.join(", ")) }
}

/// Text in place of the payload, in figures over all topics whose messages have several sizes.
pub const ALL_TOPICS: &str = "all topics";

/// Payload in figures: `64k`, or [`ALL_TOPICS`] if it is the largest of several sizes.
pub fn size_text(bytes: u64, has_several_sizes: bool) -> String {
    if has_several_sizes { ALL_TOPICS.to_owned() } else { display_size(bytes) }
}

/// [`size_text`] within a sentence: `at 64k`, `on all topics`.
pub fn at_text(bytes: u64, has_several_sizes: bool) -> String {
    let word = if has_several_sizes { "on" } else { "at" };
    format!("{word} {}", size_text(bytes, has_several_sizes))
}

/// [`size_text`] for names of charts and columns: `65536`, `all_topics`.
pub fn size_key(bytes: u64, has_several_sizes: bool) -> String {
    if has_several_sizes { ALL_TOPICS.replace(' ', "_") } else { bytes.to_string() }
}

/// Parses one size in bytes: `512`, `1k`, `4M`, `1G`; k = 1024.
///
/// # Errors
/// If it is not a size, or outside [`HEADER_BYTES`] to [`LARGEST_BYTES`].
pub fn parse_size(text: &str) -> Result<u64, PayloadError> {
    let not_a_size = || PayloadError::NotASize(text.to_owned());
    let trimmed = text.trim();
    let (digits, unit) = match trimmed.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&trimmed[..at], 1 << 10),
        Some((at, 'm' | 'M')) => (&trimmed[..at], 1 << 20),
        Some((at, 'g' | 'G')) => (&trimmed[..at], 1 << 30),
        _ => (trimmed, 1),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(not_a_size());
    }
    let count: u64 = digits.parse().map_err(|_| not_a_size())?;
    let bytes = count.checked_mul(unit).ok_or_else(not_a_size)?;
    check_size(bytes).map(|()| bytes)
}

fn check_size(bytes: u64) -> Result<(), PayloadError> {
    match bytes {
        0..HEADER_BYTES => Err(PayloadError::TooSmall(bytes)),
        HEADER_BYTES..=LARGEST_BYTES => Ok(()),
        _ => Err(PayloadError::TooLarge(bytes)),
    }
}

/// Checks a list of sizes in bytes as [`parse_list`] does.
///
/// # Errors
/// If it is empty, or if a size is too small, too large or listed twice; names the first such size.
pub fn check_list(sizes: &[u64]) -> Result<(), PayloadError> {
    if sizes.is_empty() {
        return Err(PayloadError::NotASize(String::new()));
    }
    let mut seen = BTreeSet::new();
    sizes.iter().try_for_each(|size| {
        check_size(*size)?;
        if seen.insert(*size) { Ok(()) } else { Err(PayloadError::Twice(*size)) }
    })
}

/// Parses a list of sizes and doubling ranges, in the order written: `16,1k..4M`.
///
/// # Errors
/// As [`parse_size`]; if a range runs backwards, a size is listed twice, or the list is empty.
pub fn parse_list(text: &str) -> Result<Vec<u64>, PayloadError> {
    let mut sizes = Vec::new();
    for item in text.split(',') {
        let (first, last) = match item.split_once("..") {
            Some((first, last)) => (parse_size(first)?, parse_size(last)?),
            None => (parse_size(item)?, parse_size(item)?),
        };
        if first > last {
            return Err(PayloadError::Backwards(item.to_owned()));
        }
        sizes.extend(std::iter::successors(Some(first), |size| Some(size * 2)).take_while(|size| *size <= last));
    }
    check_list(&sizes)?;
    Ok(sizes)
}

/// Size with the largest unit that divides it: `1024` → `1k`, `1500` → `1500`.
pub fn display_size(bytes: u64) -> String {
    for (unit, letter) in [(1 << 30, "G"), (1 << 20, "M"), (1 << 10, "k")] {
        if bytes >= unit && bytes.is_multiple_of(unit) {
            return format!("{}{letter}", bytes / unit);
        }
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_ranges_are_read_in_the_order_written() {
        assert_eq!(parse_list("1k,64k,4M").unwrap(), [1024, 65536, 4 << 20]);
        assert_eq!(parse_list("4M,16").unwrap(), [4 << 20, 16]);
        let iceperf: Vec<u64> = (0..13).map(|power| 1024 << power).collect();
        assert_eq!(parse_list("1k..4M").unwrap(), iceperf);
        assert_eq!(parse_list("1000..3000").unwrap(), [1000, 2000]);
    }

    #[test]
    fn what_is_no_payload_is_refused_with_its_reason() {
        for text in ["", "k", "1x", "-1", "1.5k", "1k,,2k", "1 k", "1k...2k", "99999999999999999999"] {
            assert!(matches!(parse_list(text), Err(PayloadError::NotASize(_))), "{text}");
        }
        assert_eq!(parse_list("0"), Err(PayloadError::TooSmall(0)));
        assert_eq!(parse_list("15"), Err(PayloadError::TooSmall(15)));
        assert_eq!(parse_list("2G"), Err(PayloadError::TooLarge(2 << 30)));
        assert_eq!(parse_list("4k..1k"), Err(PayloadError::Backwards("4k..1k".to_owned())));
        assert_eq!(parse_list("1k..4k,2k"), Err(PayloadError::Twice(2048)));
    }

    #[test]
    fn displayed_sizes_are_read_back() {
        for bytes in [16, 1000, 1024, 1536, 65536, 4 << 20, 1 << 30] {
            assert_eq!(parse_size(&display_size(bytes)), Ok(bytes));
        }
    }
}

//! Payload size as written in a CSV file.

use std::cmp::Ordering;
use std::fmt;

/// Payload size in bytes, with its text: `16` and `16.0` are equal.
#[derive(Clone, Debug)]
pub struct Bytes {
    text: String,
    value: f64,
}

impl Bytes {
    /// Reads a finite number that is not negative; surrounding spaces are ignored.
    ///
    /// ```
    /// use tripmeter_eprosima::bytes::Bytes;
    /// assert_eq!(Bytes::parse("16.0").unwrap().to_string(), "16.0");
    /// assert_eq!(Bytes::parse("16.0"), Bytes::parse("16"));
    /// assert!(Bytes::parse("-1").is_none() && Bytes::parse("nan").is_none());
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let value: f64 = text.parse().ok()?;
        (value.is_finite() && !text.starts_with('-')).then(|| Self { text: text.to_owned(), value })
    }

    pub fn value(&self) -> f64 {
        self.value
    }

    /// Key for maps; equal sizes have equal keys.
    pub fn key(&self) -> u64 {
        self.value.to_bits()
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// True if the text has neither a fraction nor an exponent.
    pub fn is_integer(&self) -> bool {
        self.text.bytes().all(|byte| byte.is_ascii_digit())
    }

    /// Size with a fraction, as programs write it that read the column as floating point: `16.0`.
    pub fn as_float(&self) -> Self {
        Self { text: format!("{:?}", self.value), value: self.value }
    }
}

impl From<u64> for Bytes {
    fn from(bytes: u64) -> Self {
        Self { text: bytes.to_string(), value: bytes as f64 }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl PartialEq for Bytes {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Bytes {}

impl PartialOrd for Bytes {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Bytes {
    fn cmp(&self, other: &Self) -> Ordering {
        self.value.total_cmp(&other.value)
    }
}

//! A payload size as a CSV file has it.

use std::cmp::Ordering;
use std::fmt;

/// A payload size in bytes, with its text: `16` and `16.0` are the same size, written differently.
#[derive(Clone, Debug)]
pub struct Bytes {
    text: String,
    value: f64,
}

impl Bytes {
    /// Reads a finite number that is not negative; spaces around it do not count.
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

    /// The size as a number.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// The same for equal sizes, and for no others.
    pub fn key(&self) -> u64 {
        self.value.to_bits()
    }

    /// The size as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it is written without a fraction or exponent.
    pub fn is_integer(&self) -> bool {
        self.text.bytes().all(|byte| byte.is_ascii_digit())
    }

    /// The same size written with a fraction, as programs write it that read a column as floating point: `16.0`.
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
    /// By size.
    fn cmp(&self, other: &Self) -> Ordering {
        self.value.total_cmp(&other.value)
    }
}

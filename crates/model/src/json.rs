//! Reads JSON with errors that name the key.

use crate::plain_words::{in_plain_words, shortened, with_key};
use serde::Deserialize;
use std::fmt;

/// Error while reading JSON: key, value found, and value expected.
pub struct JsonError {
    pub line: usize,
    pub column: usize,
    pub what: String,
}

impl fmt::Display for JsonError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, column, what } = self;
        write!(formatter, "line {line}, column {column}: {what}")
    }
}

/// True if a text begins with an object. Serde would also accept a list for any struct.
pub fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

fn value_at(text: &str, path: &serde_path_to_error::Path) -> Option<String> {
    use serde_path_to_error::Segment;
    let whole: serde_json::Value = serde_json::from_str(text).ok()?;
    let found = path.iter().try_fold(&whole, |value, segment| match segment {
        Segment::Seq { index } => value.get(index),
        Segment::Map { key } => value.get(key),
        Segment::Enum { .. } | Segment::Unknown => Some(value),
    });
    found.map(ToString::to_string)
}

/// Reads an object; an error names the key that is wrong.
pub fn from_json<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, JsonError> {
    if !is_object(text) && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() {
        let what = format!("found {}, expected an object", shortened(text.trim()).replace(char::is_control, " "));
        return Err(JsonError { line: 1, column: 1, what });
    }
    // Keys are only followed after an error: it takes time, and most texts are valid.
    serde_json::from_str(text).or_else(|_| {
        let mut reader = serde_json::Deserializer::from_str(text);
        serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            let key = error.path().to_string();
            let found = value_at(text, error.path());
            let error = error.into_inner();
            let (line, column) = (error.line(), error.column());
            let told = error.to_string();
            let what = told.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&told);
            let what = in_plain_words(what, "an object", found.as_deref());
            let what = with_key(&key, what);
            JsonError { line, column, what }
        })
    })
}

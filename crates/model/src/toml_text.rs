//! Reads TOML with errors that name the key.

use crate::plain_words::{in_plain_words, with_key};
use serde::de::DeserializeOwned;

/// Parses the text of a TOML file.
///
/// # Errors
/// Cause and place: line, column and the quoted line, as shown by the TOML library.
pub fn from_toml<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    toml::from_str(text).or_else(|_| {
        // Keys are only followed after an error, because it takes time.
        let failed = |key: &str, error: toml::de::Error| {
            let what = in_plain_words(error.message(), "a table", None);
            let what = with_key(key, what);
            error.to_string().replacen(error.message(), &what, 1)
        };
        let reader = toml::Deserializer::parse(text).map_err(|error| error.to_string())?;
        serde_path_to_error::deserialize(reader).map_err(|error| {
            let key = error.path().to_string();
            failed(&key, error.into_inner())
        })
    })
}

/// TOML error without the quoted line: `line 2, column 8: unknown field …`.
pub fn one_line(error: &str) -> String {
    let mut parts = error.lines().map(str::trim).filter(|line| !line.is_empty());
    let place = parts.next().unwrap_or_default();
    let place = place.strip_prefix("TOML parse error at ").unwrap_or(place);
    let is_drawing = |line: &&str| line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ').starts_with('|');
    let reasons: Vec<&str> = parts.filter(|line| !is_drawing(line)).collect();
    if reasons.is_empty() { place.to_owned() } else { format!("{place}: {}", reasons.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;

    #[test]
    fn an_error_becomes_one_line() {
        let error = Experiment::parse("samples = 1\nwait = \"often\"\n").unwrap_err();
        let line = one_line(&error);
        assert!(line.starts_with("line 2, column 8: ") && !line.contains('\n') && line.contains("often"), "{line}");
    }
}

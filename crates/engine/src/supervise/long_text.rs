//! Search for texts from outside that are too long for a manifest, before anything is measured.

use serde::Serialize;
use serde_json::Value;
use tripmeter_model::bounds::{MOST_TEXT_BYTES, json_bytes};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{place} is a text of {bytes} bytes, \"{begin}…\", above the limit of {most}; shorten it",
    most = MOST_TEXT_BYTES
)]
pub struct LongText {
    /// Path, such as `sub_experiments[0].title`.
    place: String,
    /// Length in bytes as JSON, with escapes.
    bytes: usize,
    begin: String,
}

impl LongText {
    /// First text that is too long, in data that a manifest will contain.
    pub fn find(part: &impl Serialize) -> Option<Self> {
        Self::inside("", &serde_json::to_value(part).ok()?)
    }

    fn inside(place: &str, value: &Value) -> Option<Self> {
        let of = |text: &str, place: String| {
            let bytes = json_bytes(text);
            let begin = || tripmeter_model::printable::line(&text.chars().take(40).collect::<String>()).into_owned();
            (bytes > MOST_TEXT_BYTES).then(|| Self { place, bytes, begin: begin() })
        };
        match value {
            Value::String(text) => of(text, place.to_owned()),
            Value::Array(values) => {
                values.iter().enumerate().find_map(|(at, value)| Self::inside(&format!("{place}[{at}]"), value))
            }
            Value::Object(values) => values.iter().find_map(|(name, value)| {
                let inner = || if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
                of(name, format!("a name in {place}")).or_else(|| Self::inside(&inner(), value))
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_names_are_found_with_their_place_and_their_length_in_json() {
        let of = |value: Value| LongText::find(&value).map(|found| (found.place, found.bytes));
        let at_most = "x".repeat(MOST_TEXT_BYTES);
        assert_eq!(of(serde_json::json!({"a": [at_most]})), None);
        assert_eq!(of(serde_json::json!({"a": [1, at_most.clone() + "x"]})), Some(("a[1]".to_owned(), 65_537)));
        assert_eq!(of(serde_json::json!({"a": {"b": "\n".repeat(40_000)}})), Some(("a.b".to_owned(), 80_000)));
        assert_eq!(of(serde_json::json!({"a": {at_most + "x": 1}})), Some(("a name in a".to_owned(), 65_537)));
    }
}

//! Texts of results, as the program escapes them.

use std::borrow::Cow;

/// As the program escapes the texts of results.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    Cow::Owned(tripmeter_model::printable::json(text))
}

//! Messages of other processes and hosts, checked on receipt.

use serde::de::DeserializeOwned;
use tripmeter_model::bounds::cut;

/// Message that is checked on receipt by [`crate::channel`], so that it can be stored and shown.
pub trait BoundedMessage: DeserializeOwned {
    /// Returns the message with its parts within [`tripmeter_model::bounds`]; the error has value and limit.
    fn within_bounds(self) -> Result<Self, String> {
        Ok(self)
    }
}

pub(crate) fn cut_text(text: String) -> String {
    cut(&text).into_owned()
}

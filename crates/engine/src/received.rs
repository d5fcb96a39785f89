//! Messages of other processes and hosts, within bounds from where they are received.

use serde::de::DeserializeOwned;
use tripmeter_model::bounds::cut;

/// What is received. All of it is read by [`crate::channel`], so what is kept of it can be stored and shown.
pub trait BoundedMessage: DeserializeOwned {
    /// The message with what is kept of it within [`tripmeter_model::bounds`].
    ///
    /// # Errors
    /// What is over its limit: value and limit.
    fn within_bounds(self) -> Result<Self, String> {
        Ok(self)
    }
}

/// Cuts a text that the other side says.
pub(crate) fn cut_text(text: String) -> String {
    cut(&text).into_owned()
}

//! Outcome of one message or call.

use strum::IntoStaticStr;

/// Status of a message or call in a file of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum DeliveryStatus {
    /// Arrived in time and intact.
    Ok,
    /// Arrived in time and intact, after a later message.
    Reordered,
    /// Arrived in time and intact, more than once.
    Duplicated,
    /// Arrived after the loss time-out.
    Late,
    /// Arrived with a touched payload that differs from what was written.
    Damaged,
    /// Never arrived, or with an unreadable header.
    Lost,
}

impl DeliveryStatus {
    /// Statuses of messages that arrived in time and intact, so that their latencies count.
    pub const RECEIVED: [Self; 3] = [Self::Ok, Self::Reordered, Self::Duplicated];

    /// Name for calls in the file of samples: `failed` if damaged, `timed_out` if lost or late.
    pub fn of_call(self) -> &'static str {
        match self {
            DeliveryStatus::Damaged => "failed",
            DeliveryStatus::Lost | DeliveryStatus::Late => "timed_out",
            other => other.into(),
        }
    }

    /// True if it arrived in time and intact, so that its latencies count.
    pub fn is_received(self) -> bool {
        Self::RECEIVED.contains(&self)
    }
}

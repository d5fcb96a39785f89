//! What happened to one message or call.

/// Status of a message or call in a file of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryStatus {
    /// Came in time and intact.
    Ok,
    /// Came in time and intact, after a later message.
    Reordered,
    /// Came in time and intact, and then again.
    Duplicated,
    /// Came later than the loss time-out after it was sent.
    Late,
    /// Its touched payload was not what was written.
    Damaged,
    /// Never came, or with a header that nobody can read.
    Lost,
}

impl DeliveryStatus {
    /// Came in time and intact, so that their latencies count.
    pub const RECEIVED: [Self; 3] = [Self::Ok, Self::Reordered, Self::Duplicated];

    /// The word in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            DeliveryStatus::Ok => "ok",
            DeliveryStatus::Reordered => "reordered",
            DeliveryStatus::Duplicated => "duplicated",
            DeliveryStatus::Late => "late",
            DeliveryStatus::Damaged => "damaged",
            DeliveryStatus::Lost => "lost",
        }
    }

    /// The word in the file of calls, which fail where messages come damaged, and time out where messages get lost.
    pub fn of_call(self) -> &'static str {
        match self {
            DeliveryStatus::Damaged => "failed",
            DeliveryStatus::Lost | DeliveryStatus::Late => "timed_out",
            other => other.as_str(),
        }
    }

    /// It came in time and intact, so that its latencies count.
    pub fn is_received(self) -> bool {
        Self::RECEIVED.contains(&self)
    }
}

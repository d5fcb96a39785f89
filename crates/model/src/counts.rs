use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Messages of a trial or a payload by their outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Sent by the leader.
    pub sent: u64,
    /// Answered in time and intact.
    pub received: u64,
    /// Never answered.
    pub lost: u64,
    /// Answered after the time-out; not among the samples, and not lost.
    pub late: u64,
    /// Answers, or one-way messages, that came again.
    pub duplicated: u64,
    /// Answers that came after the answer to a later message, or one-way messages that came after a later one.
    pub reordered: u64,
    /// Answers, or messages at the follower, whose header or touched payload was not what was written.
    pub damaged: u64,
}

impl Counts {
    /// True if messages were sent, and none arrived in time and intact.
    pub fn is_all_lost(&self) -> bool {
        self.sent > 0 && self.received == 0
    }
}

impl std::ops::Add for Counts {
    type Output = Counts;

    fn add(self, other: Counts) -> Counts {
        Counts {
            sent: self.sent.saturating_add(other.sent),
            received: self.received.saturating_add(other.received),
            lost: self.lost.saturating_add(other.lost),
            late: self.late.saturating_add(other.late),
            duplicated: self.duplicated.saturating_add(other.duplicated),
            reordered: self.reordered.saturating_add(other.reordered),
            damaged: self.damaged.saturating_add(other.damaged),
        }
    }
}

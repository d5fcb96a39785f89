use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Number of messages of a trial or a payload, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Messages sent by the leader.
    pub sent: u64,
    /// Messages answered in time and intact.
    pub received: u64,
    /// Messages never answered.
    pub lost: u64,
    /// Messages answered after the time-out; neither samples nor lost.
    pub late: u64,
    /// Answers or one-way messages that arrived again.
    pub duplicated: u64,
    /// Answers that arrived after the answer to a later message, or one-way messages that arrived after a later one.
    pub reordered: u64,
    /// Answers, or messages at the follower, whose header or touched payload differs from what was written.
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

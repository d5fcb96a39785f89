//! Round trips between two batches.

use crate::measure::Tracker;
use crate::measure::answers::Answers;
use crate::measure::several_followers::SeveralFollowers;
use crate::measure::stamps::TripRow;
use crate::measure::trips::PausedTrips;

/// Round trips between two batches.
pub enum RoundTrips {
    /// With one follower.
    One(PausedTrips<Tracker>),
    /// With several.
    Several(PausedTrips<SeveralFollowers>),
}

impl RoundTrips {
    /// None yet: messages of `length` bytes, numbered from `sequence` + 1 on, to so many followers. If `only` names one of
    /// these, it alone is to answer.
    pub fn new(followers: u32, only: Option<u32>, sequence: u64, length: usize) -> Self {
        match only {
            _ if followers == 1 => RoundTrips::One(PausedTrips::begin(Tracker::default(), sequence, length)),
            None => RoundTrips::Several(PausedTrips::begin(SeveralFollowers::new(followers), sequence, length)),
            Some(only) => {
                RoundTrips::Several(PausedTrips::begin(SeveralFollowers::only(followers, only), sequence, length))
            }
        }
    }

    /// Number of the latest message sent.
    pub fn sequence(&self) -> u64 {
        match self {
            RoundTrips::One(trips) => trips.sequence,
            RoundTrips::Several(trips) => trips.sequence,
        }
    }

    /// Where the samples of the latest batch begin, and go on after a message that was not answered.
    pub fn rows(&self) -> &[TripRow] {
        match self {
            RoundTrips::One(trips) => &trips.rows,
            RoundTrips::Several(trips) => &trips.rows,
        }
    }

    /// This message of an earlier cell counts for nothing, whenever its answer comes.
    pub fn abandon(&mut self, sequence: u64) {
        match self {
            RoundTrips::One(trips) => trips.answers.abandon(sequence),
            RoundTrips::Several(trips) => trips.answers.abandon(sequence),
        }
    }

    /// What became of the messages.
    pub fn answers(&self) -> &dyn Answers {
        match self {
            RoundTrips::One(trips) => &trips.answers,
            RoundTrips::Several(trips) => &trips.answers,
        }
    }
}

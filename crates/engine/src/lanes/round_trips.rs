//! State of round trips between two batches.

use crate::measure::Tracker;
use crate::measure::answers::Answers;
use crate::measure::several_followers::SeveralFollowers;
use crate::measure::stamps::TripRow;
use crate::measure::trips::TripState;

pub enum RoundTrips {
    One(TripState<Tracker>),
    Several(TripState<SeveralFollowers>),
}

impl RoundTrips {
    /// Round trips of `length` bytes, numbered from `sequence` + 1 on, with none made yet. If `only` names a follower, it
    /// alone answers.
    pub fn new(followers: u32, only: Option<u32>, sequence: u64, length: usize) -> Self {
        match only {
            _ if followers == 1 => RoundTrips::One(TripState::begin(Tracker::default(), sequence, length)),
            None => RoundTrips::Several(TripState::begin(SeveralFollowers::new(followers), sequence, length)),
            Some(only) => {
                RoundTrips::Several(TripState::begin(SeveralFollowers::only(followers, only), sequence, length))
            }
        }
    }

    pub fn sequence(&self) -> u64 {
        match self {
            RoundTrips::One(trips) => trips.sequence,
            RoundTrips::Several(trips) => trips.sequence,
        }
    }

    /// Rows of the latest batch: one from its start, and one after each unanswered message.
    pub fn rows(&self) -> &[TripRow] {
        match self {
            RoundTrips::One(trips) => &trips.rows,
            RoundTrips::Several(trips) => &trips.rows,
        }
    }

    /// Excludes this message of an earlier cell from the counts, whenever its answer comes.
    pub fn abandon(&mut self, sequence: u64) {
        match self {
            RoundTrips::One(trips) => trips.answers.abandon(sequence),
            RoundTrips::Several(trips) => trips.answers.abandon(sequence),
        }
    }

    pub fn answers(&self) -> &dyn Answers {
        match self {
            RoundTrips::One(trips) => &trips.answers,
            RoundTrips::Several(trips) => &trips.answers,
        }
    }
}

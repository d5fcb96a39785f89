//! What is published on many topics at once, and what came of it.

use crate::clock::Timebase;
use crate::measure::End;
use crate::measure::arrivals::Arrived;
use crate::measure::publish::Timetable;
use crate::passage::Topic;
use tripmeter_model::channel::Used;

/// What is sent in one piece on every topic.
pub(super) trait Programme: Copy + Send + Sync {
    /// When messages of a topic are due.
    type Times: Timetable + Copy + Send;

    /// Of one of so many topics, if the first message of all is due at `begin`.
    fn times(&self, begin: u64, topic: usize, topics: usize) -> Self::Times;

    /// Messages of a topic.
    fn messages(&self, topic: usize) -> u64;

    /// Bytes of a topic's messages, or of the largest of them.
    fn length(&self, topic: usize) -> usize;

    /// When the time of the payload is over, in ticks.
    fn capped(&self) -> u64;
}

/// What came of it.
pub(super) struct Sent<S> {
    pub topics: Vec<Topic<S>>,
    pub arrived: Vec<Arrived>,
    pub refused: u64,
    pub end: End,
    /// When the first message was due, in ticks.
    pub begin: u64,
    pub publisher: Used,
    pub subscriber: Used,
}

impl<S> Sent<S> {
    /// From when the first message was due until the last was sent, in nanoseconds.
    pub(super) fn duration_ns(&self, base: Timebase) -> u64 {
        let last = self.topics.iter().filter_map(|topic| topic.sent.last()).max();
        base.to_ns(last.map_or(0, |last| last.saturating_sub(self.begin)))
    }
}

/// Why a trial ended before all messages were sent, if so.
pub(super) fn cut_short(end: End) -> Option<String> {
    match end {
        End::Full => None,
        End::Stopped => Some("interrupted".to_owned()),
        End::Deadline => Some("time cap".to_owned()),
    }
}

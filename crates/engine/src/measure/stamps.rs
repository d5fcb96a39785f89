//! Arrivals at the follower: with the leader's stamps they give one-way latency.
//!
//! On one machine both sides read one clock. The leader sends no time stamps: each trip begins where the previous one
//! ended, so its samples give the send times.

use super::notes::{ArrivalLog, NEVER};
use crate::clock::Clock;

/// Stamps of requests as they arrive at the follower.
pub trait Stamps {
    /// True if an answer names its request to the transport, as under `call`.
    const REPLIES: bool = false;

    /// Type of a time stamp; `()` if none is kept.
    type At: Copy;

    /// Reads the clock, before anything is done with a message.
    fn stamp(&self) -> Self::At;

    /// Notes that the message with this number came at `at`, with an intact header.
    fn arrived(&mut self, sequence: u64, at: Self::At);

    /// Index that the follower puts into its answers; `None` if it is the only follower.
    #[inline(always)]
    fn follower(&self) -> Option<u32> {
        None
    }
}

pub struct Numbered<S> {
    pub follower: u32,
    pub stamps: S,
}

impl<S: Stamps> Stamps for Numbered<S> {
    type At = S::At;

    #[inline(always)]
    fn stamp(&self) -> S::At {
        self.stamps.stamp()
    }

    #[inline(always)]
    fn arrived(&mut self, sequence: u64, at: S::At) {
        self.stamps.arrived(sequence, at);
    }

    #[inline(always)]
    fn follower(&self) -> Option<u32> {
        Some(self.follower)
    }
}

pub struct NoStamps;

impl Stamps for NoStamps {
    type At = ();

    #[inline(always)]
    fn stamp(&self) {}

    #[inline(always)]
    fn arrived(&mut self, _: u64, (): ()) {}
}

/// Stamps of a follower whose answers name their requests, under `call`.
pub struct Requests<S>(pub S);

impl<S: Stamps> Stamps for Requests<S> {
    const REPLIES: bool = true;
    type At = S::At;

    #[inline(always)]
    fn stamp(&self) -> S::At {
        self.0.stamp()
    }

    #[inline(always)]
    fn arrived(&mut self, sequence: u64, at: S::At) {
        self.0.arrived(sequence, at);
    }
}

/// Stamps of the first arrival of each message, in memory that was written before.
pub struct Kept<'a, C> {
    pub clock: C,
    /// Number of the first message of the log.
    pub first: u64,
    pub log: ArrivalLog<'a>,
}

impl<C: Clock> Stamps for Kept<'_, C> {
    type At = u64;

    /// Reads the clock before the log is touched, so that a cache miss there is not part of the latency.
    #[inline(always)]
    fn stamp(&self) -> u64 {
        self.clock.now()
    }

    #[inline(always)]
    fn arrived(&mut self, sequence: u64, now: u64) {
        let place = sequence.wrapping_sub(self.first) as usize;
        if let Some(ticks) = self.log.ticks.get_mut(place)
            && *ticks == NEVER
        {
            *ticks = now;
        }
    }
}

/// Consecutive trips without a pause, each with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TripRow {
    /// Index of its first sample, from 0.
    pub first_sample: usize,
    /// Sequence number of that sample's message.
    pub sequence: u64,
    /// Tick at which that message was sent.
    pub began: u64,
}

/// One-way latency of a sample whose arrival was not noted.
pub const MISSING: i64 = i64::MAX;

/// Ticks from sending to arrival. If that is negative, `None` with one clock, and the value with `two_clocks`.
pub fn latency(sent: u64, arrived: u64, two_clocks: bool) -> Option<i64> {
    let ticks = arrived.wrapping_sub(sent) as i64;
    (ticks >= 0 || two_clocks).then_some(ticks)
}

/// One-way latency of each sample in ticks, or [`MISSING`]. `trips` has the ticks of the round trips. `arrived` has the
/// arrival ticks of messages from number `first` on, or [`NEVER`]. [`latency`] handles arrivals before the sending.
pub fn one_way(rows: &[TripRow], trips: &[u64], first: u64, arrived: &[u64], two_clocks: bool) -> Vec<i64> {
    let mut latencies = Vec::with_capacity(trips.len());
    for (index, row) in rows.iter().enumerate() {
        let end = rows.get(index + 1).map_or(trips.len(), |next| next.first_sample);
        let mut sent = row.began;
        for (trip, sequence) in trips[row.first_sample..end].iter().zip(row.sequence..) {
            let arrival = arrived.get(sequence.wrapping_sub(first) as usize).filter(|arrival| **arrival != NEVER);
            latencies.push(arrival.and_then(|arrival| latency(sent, *arrival, two_clocks)).unwrap_or(MISSING));
            sent += trip;
        }
    }
    latencies
}

/// Message number of each sample, and tick at which its trip ended.
pub fn ends<'a>(rows: &'a [TripRow], trips: &'a [u64]) -> impl Iterator<Item = (u64, u64)> + 'a {
    rows.iter().enumerate().flat_map(move |(index, row)| {
        let end = rows.get(index + 1).map_or(trips.len(), |next| next.first_sample);
        let ends = trips[row.first_sample..end].iter().scan(row.began, |at, trip| {
            *at += trip;
            Some(*at)
        });
        (row.sequence..).zip(ends)
    })
}

/// Latency of each sample at the follower that received it last; [`MISSING`] if any follower has none.
pub fn last(each: &[Vec<i64>]) -> Vec<i64> {
    let count = each.iter().map(Vec::len).min().unwrap_or(0);
    (0..count).map(|index| each.iter().map(|latencies| latencies[index]).max().unwrap_or(MISSING)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    struct Ticking(Cell<u64>);

    impl Clock for Ticking {
        fn now(&self) -> u64 {
            self.0.set(self.0.get() + 10);
            self.0.get()
        }
    }

    #[test]
    fn first_arrivals_are_noted_by_their_numbers_and_others_are_not() {
        let (mut ticks, mut marks) = ([NEVER; 3], [0; 3]);
        let log = ArrivalLog { ticks: &mut ticks, marks: &mut marks };
        let mut kept = Kept { clock: Ticking(Cell::new(0)), first: 7, log };
        [8, 6, 10, 7, 8].into_iter().for_each(|sequence| {
            let at = kept.stamp();
            kept.arrived(sequence, at);
        });
        assert_eq!(ticks, [40, 10, NEVER]);
    }

    #[test]
    fn a_trip_begins_where_the_one_before_ended() {
        let row = |first_sample, sequence, began| TripRow { first_sample, sequence, began };
        let rows = [row(0, 7, 100), row(2, 9, 500)];
        let latencies = |arrived: &[u64]| one_way(&rows, &[10, 20, 30], 7, arrived, false);
        assert_eq!(latencies(&[103, 114, 505]), [3, 4, 5]);
        assert_eq!(latencies(&[103, NEVER, 505]), [3, MISSING, 5], "did not arrive");
        assert_eq!(latencies(&[103, 109, 505]), [3, MISSING, 5], "before it was sent");
        assert_eq!(latencies(&[103, 114]), [3, 4, MISSING], "too few");
        // Messages 7, 9 and 10 were not answered.
        let rows = [row(0, 6, 90), row(0, 8, 100), row(1, 11, 500), row(2, 12, 700)];
        assert_eq!(one_way(&rows, &[10, 20], 6, &[1, 2, 103, 104, 105, 507], false), [3, 7]);
        assert_eq!(one_way(&rows, &[10, 20], 6, &[1, 2, 103, 104, 105, 497], true), [3, -3], "by two clocks");
    }

    #[test]
    fn the_last_is_another_one_for_each_message() {
        assert_eq!(last(&[vec![1, 5, 3, 9], vec![2, 4, 3, MISSING]]), [2, 5, 3, MISSING]);
    }
}

//! When messages came to the follower: with the leader's own stamps, latency one way.
//!
//! Both sides read one clock, that of the machine. The leader's stamps need no message: a trip begins where the one before
//! ended, so they follow from its samples.

use crate::clock::Clock;
use crate::memory::{OutOfMemory, filled};

/// Told of every message at the moment it is there, before anything is done with it.
pub trait Stamps {
    /// Whether an answer names its request to the transport, as under `rpc`.
    const REPLIES: bool = false;

    /// The message with this number has come.
    fn arrived(&mut self, sequence: u64);

    /// Index of the follower, if it is one of several: its answers say so.
    #[inline(always)]
    fn follower(&self) -> Option<u32> {
        None
    }
}

/// The stamps of one of several followers.
pub struct Numbered<S> {
    /// The follower's index.
    pub follower: u32,
    /// Its stamps.
    pub stamps: S,
}

impl<S: Stamps> Stamps for Numbered<S> {
    #[inline(always)]
    fn arrived(&mut self, sequence: u64) {
        self.stamps.arrived(sequence);
    }

    #[inline(always)]
    fn follower(&self) -> Option<u32> {
        Some(self.follower)
    }
}

/// Nobody wants to know; costs nothing.
pub struct NoStamps;

impl Stamps for NoStamps {
    #[inline(always)]
    fn arrived(&mut self, _sequence: u64) {}
}

/// The same where answers name their requests, under `rpc`.
pub struct Requests;

impl Stamps for Requests {
    const REPLIES: bool = true;

    #[inline(always)]
    fn arrived(&mut self, _sequence: u64) {}
}

/// Reads the clock for each of a row of messages, in memory that is written before.
pub struct Arrived<C> {
    clock: C,
    first: u64,
    ticks: Vec<u64>,
}

impl<C: Clock> Arrived<C> {
    /// Of `count` messages that begin with number `first`.
    ///
    /// # Errors
    /// If there is too little memory.
    pub fn new(clock: C, first: u64, count: u64) -> Result<Self, OutOfMemory> {
        Ok(Self { clock, first, ticks: filled(0, count, "arrivals")? })
    }

    /// The clock at each arrival, in the order of the numbers; 0 if it did not come.
    pub fn ticks(&self) -> &[u64] {
        &self.ticks
    }
}

impl<C: Clock> Stamps for Arrived<C> {
    #[inline(always)]
    fn arrived(&mut self, sequence: u64) {
        let place = sequence.wrapping_sub(self.first) as usize;
        if let Some(ticks) = self.ticks.get_mut(place) {
            *ticks = self.clock.now();
        }
    }
}

/// A row of trips without a pause: number of its first sample, and the clock when that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Counts from 0.
    pub first_sample: usize,
    /// In ticks.
    pub began: u64,
}

/// Ticks from sending to arrival of each sample. `trips` are the ticks of the round trips, `arrived` the clock at the
/// arrival of the same messages.
///
/// `None` if a message did not arrive, or arrived before it was sent, which one clock cannot show.
pub fn one_way(rows: &[Row], trips: &[u64], arrived: &[u64]) -> Option<Vec<u64>> {
    let mut latencies = Vec::with_capacity(trips.len());
    for (index, row) in rows.iter().enumerate() {
        let end = rows.get(index + 1).map_or(trips.len(), |next| next.first_sample);
        let mut sent = row.began;
        let range = row.first_sample..end;
        for (trip, arrival) in trips.get(range.clone())?.iter().zip(arrived.get(range)?) {
            // 0: it did not come.
            latencies.push(arrival.checked_sub(sent)?);
            sent += trip;
        }
    }
    Some(latencies)
}

/// Of each message the latency to the last follower, from those to each.
pub fn last(each: &[Vec<u64>]) -> Vec<u64> {
    let count = each.iter().map(Vec::len).min().unwrap_or(0);
    (0..count).map(|index| each.iter().map(|latencies| latencies[index]).max().unwrap_or(0)).collect()
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
    fn arrivals_are_noted_by_their_numbers_and_others_are_not() {
        let mut arrived = Arrived::new(Ticking(Cell::new(0)), 7, 3).unwrap();
        [8, 6, 10, 7].into_iter().for_each(|sequence| arrived.arrived(sequence));
        assert_eq!(arrived.ticks(), [20, 10, 0]);
    }

    #[test]
    fn a_trip_begins_where_the_one_before_ended() {
        let rows = [Row { first_sample: 0, began: 100 }, Row { first_sample: 2, began: 500 }];
        let latencies = one_way(&rows, &[10, 20, 30], &[103, 114, 505]);
        assert_eq!(latencies, Some(vec![3, 4, 5]));
        assert_eq!(one_way(&rows, &[10, 20, 30], &[103, 0, 505]), None, "did not arrive");
        assert_eq!(one_way(&rows, &[10, 20, 30], &[103, 109, 505]), None, "before it was sent");
        assert_eq!(one_way(&rows, &[10, 20, 30], &[103, 114]), None, "too few");
    }

    #[test]
    fn the_last_is_another_one_for_each_message() {
        assert_eq!(last(&[vec![1, 5, 3], vec![2, 4, 3]]), [2, 5, 3]);
    }
}

//! Which messages of a stream are timed one way where nobody knows before how many there will be: memory is bounded, and both
//! sides find the place of a message by its number alone.
//!
//! The first [`MOST_SAMPLES`] have a place each; of as many more every second, of twice as many more every fourth, and so on.
//! Afterwards every k-th counts, with the least power of two of which no more than [`MOST_SAMPLES`] come out: all of these
//! have a place.

use super::notes::{NEVER, Places};
use crate::clock::Clock;
use crate::memory::{OutOfMemory, filled};

/// Most samples of a trial.
pub const MOST_SAMPLES: u64 = 1 << BITS;
const BITS: u32 = 18;

/// Of a message's index, from 0: the power of two of which it must be a multiple.
#[inline(always)]
fn level(index: u64) -> u32 {
    u64::BITS - (index >> BITS).leading_zeros()
}

/// Place of a message by its index, from 0; `None` if it has none.
#[inline(always)]
pub fn place(index: u64) -> Option<usize> {
    let level = level(index);
    (index & ((1 << level) - 1) == 0).then(|| last_place(index, level) as usize)
}

/// Those that have a place.
pub struct Sampled;

impl Places for Sampled {
    #[inline(always)]
    fn of(index: u64) -> Option<usize> {
        place(index)
    }
}

/// Of the message of that level with that index, or the last before it.
#[inline(always)]
fn last_place(index: u64, level: u32) -> u64 {
    u64::from(level) * (MOST_SAMPLES / 2) + (index >> level)
}

/// Places that so many messages need.
pub fn places(messages: u64) -> u64 {
    messages.checked_sub(1).map_or(0, |last| last_place(last, level(last)) + 1)
}

/// Of so many messages, every so many-th counts.
pub fn stride(messages: u64) -> u64 {
    1 << level(messages.saturating_sub(1))
}

/// Told of every message of a stream before it is sent.
pub trait SendTimes {
    /// The message with this number is to be sent now.
    fn sending(&mut self, sequence: u64, clock: &impl Clock);
}

/// Nobody wants to know; costs nothing.
pub struct NoTimes;

impl SendTimes for NoTimes {
    #[inline(always)]
    fn sending(&mut self, _: u64, _: &impl Clock) {}
}

/// Keeps the clock when each message was sent that has a place, in memory that is written before. The clock is read for the
/// others, too, so that all are sent alike.
#[derive(Debug)]
pub struct SampledTimes {
    first: u64,
    ticks: Vec<u64>,
}

impl SampledTimes {
    /// Of messages from number `first` on, in so many places.
    ///
    /// # Errors
    /// If there is too little memory.
    pub fn new(first: u64, places: u64) -> Result<Self, OutOfMemory> {
        Ok(Self { first, ticks: filled(NEVER, places, "times of sending")? })
    }

    /// Ticks from sending to arrival of each message that counts of the first `sent` ones and has come, by the arrivals in
    /// their places.
    ///
    /// One that arrived before it was sent, which one clock cannot show, is left out.
    pub fn one_way<'a>(&'a self, arrived: &'a [u64], sent: u64) -> impl Iterator<Item = u64> + 'a {
        let counted = (0..sent).step_by(stride(sent) as usize).filter_map(place);
        counted.filter_map(|place| {
            let arrival = arrived.get(place).filter(|arrival| **arrival != NEVER)?;
            arrival.checked_sub(*self.ticks.get(place)?)
        })
    }
}

impl SendTimes for SampledTimes {
    #[inline(always)]
    fn sending(&mut self, sequence: u64, clock: &impl Clock) {
        let now = clock.now();
        if let Some(ticks) = place(sequence.wrapping_sub(self.first)).and_then(|place| self.ticks.get_mut(place)) {
            *ticks = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_message_that_counts_has_a_place_of_its_own() {
        const M: u64 = MOST_SAMPLES;
        for (sent, every) in
            [(0, 1), (1, 1), (1000, 1), (M, 1), (M + 1, 2), (2 * M, 2), (2 * M + 1, 4), (5 * M + 77, 8), (64 * M, 64)]
        {
            assert_eq!(stride(sent), every, "{sent}");
            let places: Vec<usize> = (0..sent).step_by(every as usize).map(|index| place(index).unwrap()).collect();
            let own: HashSet<_> = places.iter().collect();
            let count = places.len() as u64;
            assert!(own.len() == places.len() && count == sent.div_ceil(every) && count <= M, "{sent}");
            assert!(every == 1 || count > M / 2, "{sent}: {count}");
            assert!(places.iter().all(|place| (*place as u64) < super::places(sent)), "{sent}");
        }
        let all: Vec<usize> = (0..8 * M).filter_map(place).collect();
        assert!(all.windows(2).all(|pair| pair[0] + 1 == pair[1]) && all.len() as u64 == places(8 * M));
        // A day at a message a nanosecond.
        assert!(places(86_400_000_000_000) < 16 * M && places(u64::MAX) < 32 * M && place(u64::MAX).is_none());
    }

    struct Ticking(std::cell::Cell<u64>);

    impl Clock for Ticking {
        fn now(&self) -> u64 {
            self.0.set(self.0.get() + 10);
            self.0.get()
        }
    }

    #[test]
    fn what_did_not_come_or_came_before_it_was_sent_has_no_latency() {
        let mut times = SampledTimes::new(7, 4).unwrap();
        let clock = Ticking(std::cell::Cell::new(0));
        (7..13).for_each(|sequence| times.sending(sequence, &clock));
        assert_eq!(times.ticks, [10, 20, 30, 40]);
        let one_way: Vec<u64> = times.one_way(&[15, NEVER, 29, 47], 6).collect();
        assert_eq!(one_way, [5, 7]);
        assert_eq!(times.one_way(&[15, NEVER, 29, 47], 1).collect::<Vec<_>>(), [5]);
    }

    #[test]
    fn of_many_messages_every_so_many_th_counts() {
        let sent = 3 * MOST_SAMPLES;
        let mut times = SampledTimes::new(1, places(sent)).unwrap();
        let clock = Ticking(std::cell::Cell::new(0));
        (1..=sent).for_each(|sequence| times.sending(sequence, &clock));
        // Each comes as many ticks after it was sent as its index says.
        let mut arrived = vec![NEVER; places(sent) as usize];
        (0..sent).for_each(|index| {
            if let Some(place) = place(index) {
                arrived[place] = 10 * (index + 1) + index;
            }
        });
        let expected: Vec<u64> = (0..sent).step_by(4).collect();
        assert_eq!(times.one_way(&arrived, sent).collect::<Vec<_>>(), expected);
    }
}

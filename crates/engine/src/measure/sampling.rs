//! Choice of the one-way messages that are timed, for streams whose length is not known in advance. Memory is bounded,
//! and both sides find the place of a sample by its message number alone.
//!
//! Each of the first [`MOST_SAMPLES`] messages is a sample. Among as many more, one of each block of 2 messages is a
//! sample. Among twice as many more, it is one of each block of 4, and so on. The choice is pseudo-random: samples at a
//! fixed distance would all be at the same place of their burst. Blocks are nested: the sample of a block is also the
//! sample of one of its halves. So when blocks double, every second sample is dropped, and no new one is needed.
//!
//! A trial evaluates one sample per block, whose size is the smallest power of two for [`MOST_SAMPLES`] at most.

use super::notes::{NEVER, Places};
use crate::clock::Clock;
use crate::measure::stamps::latency;
use crate::memory::{OutOfMemory, filled};

pub const MOST_SAMPLES: u64 = 1 << BITS;
const BITS: u32 = 18;

/// Binary logarithm of the block size at an index, from 0.
#[inline(always)]
fn level(index: u64) -> u32 {
    u64::BITS - (index >> BITS).leading_zeros()
}

/// Half of a block that contains its sample, 0 or 1: a bit of the SplitMix64 sequence that is seeded with the level.
///
/// # Source
/// Steele, Lea and Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014.
#[inline(always)]
fn half(block: u64, level: u32) -> u64 {
    let state = u64::from(level).wrapping_add((block + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (mixed ^ (mixed >> 31)) & 1
}

/// Index of the sample of a block of `2^level` messages.
fn sample(block: u64, level: u32) -> u64 {
    (1..=level).rev().fold(block, |block, level| 2 * block + half(block, level))
}

/// Index of the first sample at or after this index.
fn sample_from(index: u64) -> u64 {
    let block = index >> level(index);
    let found = sample(block, level(index));
    if found >= index {
        return found;
    }
    let begin = (block + 1) << level(index);
    sample(begin >> level(begin), level(begin))
}

/// Place of a message by its index, from 0; `None` if it is not a sample.
pub fn place(index: u64) -> Option<usize> {
    let level = level(index);
    let is_sample = (1..=level).all(|level| (index >> (level - 1)) & 1 == half(index >> level, level));
    is_sample.then(|| place_of_block(index, level))
}

/// Place of the sample in the block of this index.
#[inline(always)]
fn place_of_block(index: u64, level: u32) -> usize {
    (u64::from(level) * (MOST_SAMPLES / 2) + (index >> level)) as usize
}

/// Finder of the samples among messages whose numbers rise. A message that is not a sample costs one comparison.
#[derive(Debug, Default)]
pub struct Sampled {
    /// Index before which no message is a sample.
    due: u64,
    /// Index of the latest sample found.
    sample: u64,
}

impl Sampled {
    /// Finds the next sample at the message after the previous sample, so that no sample's time includes the hashing.
    #[inline(never)]
    fn find(&mut self, index: u64) -> Option<usize> {
        if self.sample < index {
            self.sample = sample_from(index);
        }
        let is_sample = self.sample == index;
        self.due = if is_sample { index.saturating_add(1) } else { self.sample };
        is_sample.then(|| place_of_block(index, level(index)))
    }
}

impl Places for Sampled {
    #[inline(always)]
    fn place(index: u64) -> Option<usize> {
        place(index)
    }

    #[inline(always)]
    fn rising(&mut self, index: u64) -> Option<usize> {
        if index < self.due { None } else { self.find(index) }
    }
}

/// Number of places that these messages need.
pub fn places(messages: u64) -> u64 {
    messages.checked_sub(1).map_or(0, |last| place_of_block(last, level(last)) as u64 + 1)
}

/// Indices of the samples that a trial evaluates. The last block may end before its sample, and then has none.
pub fn samples(messages: u64) -> impl Iterator<Item = u64> {
    let level = level(messages.saturating_sub(1));
    let blocks = messages.div_ceil(1 << level);
    (0..blocks).map(move |block| sample(block, level)).filter(move |index| *index < messages)
}

pub trait SendTimes {
    /// Stamps the message with this number, before the first try to send it.
    fn sending(&mut self, sequence: u64, clock: &impl Clock);
}

/// Keeps nothing, at no cost.
pub struct NoTimes;

impl SendTimes for NoTimes {
    #[inline(always)]
    fn sending(&mut self, _: u64, _: &impl Clock) {}
}

/// Send times of messages that have a place, in memory that was written before. The clock is read for all messages, so
/// that sending takes equally long for each.
#[derive(Debug)]
pub struct SampledTimes {
    first: u64,
    sampled: Sampled,
    ticks: Vec<u64>,
}

impl SampledTimes {
    pub fn new(first: u64, places: u64) -> Result<Self, OutOfMemory> {
        Ok(Self { first, sampled: Sampled::default(), ticks: filled(NEVER, places, "times of sending")? })
    }

    /// Ticks from sending to arrival of all samples that arrived, of `sent` messages; `arrived` is by place.
    ///
    /// With one clock, an arrival before the sending is left out.
    pub fn one_way<'a>(&'a self, arrived: &'a [u64], sent: u64, two_clocks: bool) -> impl Iterator<Item = i64> + 'a {
        self.stamps(arrived, sent).filter_map(move |(_, began, arrival)| latency(began, arrival?, two_clocks))
    }

    /// Index, send tick and, if it arrived, arrival tick of each sample among `sent` messages.
    pub fn stamps<'a>(&'a self, arrived: &'a [u64], sent: u64) -> impl Iterator<Item = (u64, u64, Option<u64>)> + 'a {
        samples(sent).filter_map(|index| {
            let place = place_of_block(index, level(index));
            let arrival = arrived.get(place).copied().filter(|arrival| *arrival != NEVER);
            Some((index, *self.ticks.get(place)?, arrival))
        })
    }
}

impl SendTimes for SampledTimes {
    #[inline(always)]
    fn sending(&mut self, sequence: u64, clock: &impl Clock) {
        let place = self.sampled.rising(sequence.wrapping_sub(self.first));
        let now = clock.now();
        if let Some(ticks) = place.and_then(|place| self.ticks.get_mut(place)) {
            *ticks = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::arrivals::Came;
    use crate::measure::notes::{Arrival, ArrivalLog, Notes};
    use std::collections::HashSet;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    const M: u64 = MOST_SAMPLES;

    /// Messages per sample.
    fn block_size(messages: u64) -> u64 {
        1 << level(messages.saturating_sub(1))
    }

    #[test]
    fn every_message_that_counts_has_a_place_of_its_own() {
        for (sent, size) in
            [(0, 1), (1, 1), (1000, 1), (M, 1), (M + 1, 2), (2 * M, 2), (2 * M + 1, 4), (5 * M + 77, 8), (64 * M, 64)]
        {
            assert_eq!(block_size(sent), size, "{sent}");
            let places: Vec<usize> = samples(sent).map(|index| place(index).unwrap()).collect();
            let own: HashSet<_> = places.iter().collect();
            let count = places.len() as u64;
            assert!(own.len() == places.len() && (sent / size..=sent.div_ceil(size)).contains(&count), "{sent}");
            assert!(count <= M && (size == 1 || count >= M / 2), "{sent}: {count}");
            assert!(samples(sent).zip(0..).all(|(index, block)| index / size == block && index < sent), "{sent}");
            assert!(places.iter().all(|place| (*place as u64) < super::places(sent)), "{sent}");
        }
        let all: Vec<usize> = (0..8 * M).filter_map(place).collect();
        assert!(all.windows(2).all(|pair| pair[0] + 1 == pair[1]) && all.len() as u64 == places(8 * M));
        // A day at one message per nanosecond.
        assert!(places(86_400_000_000_000) < 16 * M && places(u64::MAX) < 32 * M && place(u64::MAX).is_none());
    }

    /// Pearson's statistic of counts that should be equal; its mean is the number of counts minus 1.
    fn chi_square(counts: &[u64]) -> f64 {
        let mean = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
        counts.iter().map(|count| (*count as f64 - mean).powi(2) / mean).sum()
    }

    #[test]
    fn every_place_of_a_burst_is_sampled_as_often_as_any_other() {
        for (burst, size) in [(2, 2), (8, 8), (32, 2), (32, 8), (32, 32), (100, 16)] {
            let sent = M * size;
            assert_eq!(block_size(sent), size);
            let mut counts = vec![0; burst as usize];
            samples(sent).for_each(|index| counts[(index % burst) as usize] += 1);
            let (found, freedom) = (chi_square(&counts), (burst - 1) as f64);
            assert!(found < freedom + 4.0 * (2.0 * freedom).sqrt(), "{burst} {size}: {found} {counts:?}");
            // The place of a sample must not predict that of the next one.
            let mut pairs = vec![0; (size * size) as usize];
            let places: Vec<u64> = samples(sent).map(|index| index % size).collect();
            places.windows(2).for_each(|pair| pairs[(pair[0] * size + pair[1]) as usize] += 1);
            let (found, freedom) = (chi_square(&pairs), (pairs.len() - 1) as f64);
            assert!(found < freedom + 4.0 * (2.0 * freedom).sqrt(), "{burst} {size}: {found}");
        }
    }

    #[test]
    fn rising_numbers_find_the_places_that_each_number_has() {
        for (begin, step) in [(0, 1), (5, 9), (M - 99, 1), (4 * M - 99, 1), (7 * M, 17), (1 << 40, 1 << 19)] {
            let mut sampled = Sampled::default();
            let indices = (0..M / 4).map(|count| begin + count * step);
            let differs = |index: &u64| sampled.rising(*index) != place(*index);
            assert_eq!({ indices }.find(differs), None, "{begin} {step}");
        }
        let mut sampled = Sampled::default();
        assert!([u64::MAX - 1, u64::MAX].map(|index| sampled.rising(index)) == [None; 2]);
    }

    #[test]
    fn both_sides_keep_the_same_messages_whatever_is_lost_or_overtaken() {
        let (first, sent) = (9, 5 * M + 77);
        let mut times = SampledTimes::new(first, places(sent)).unwrap();
        let clock = Ticking::default();
        (first..first + sent).for_each(|sequence| times.sending(sequence, &clock));
        let (mut ticks, mut marks) = (vec![NEVER; places(sent) as usize], vec![0; places(sent) as usize]);
        let log = ArrivalLog { ticks: &mut ticks, marks: &mut marks };
        let mut follower = Arrival::<_, Sampled>::in_places(clock.clone(), first, log);
        let mut random =
            (1..).map(|count| half(count, 1) + 2 * half(count, 2) + 4 * half(count, 3) + 8 * half(count, 4));
        // Of 16 messages, one is lost, and one comes before its predecessor.
        let mut arrivals = Vec::new();
        for index in 0..sent {
            match random.next().unwrap() {
                0 => {}
                1 => arrivals.insert(arrivals.len().saturating_sub(1), index),
                _ => arrivals.push(index),
            }
        }
        let mut trips = vec![None; sent as usize];
        let mut latest = None;
        for index in arrivals {
            follower.arrived();
            trips[index as usize] = Some(clock.0.load(Relaxed) - 10 * (index + 1));
            let in_order = latest < Some(index);
            follower.counted(if in_order { Came::InOrder(first + index) } else { Came::Overtaken(first + index) });
            latest = latest.max(Some(index));
        }
        // Numbers of messages around each doubling of the block size.
        for sent in [1000, M, M + 1, 2 * M, 2 * M + 1, 4 * M + 3, sent] {
            let expected: Vec<u64> = samples(sent).filter_map(|index| trips[index as usize]).collect();
            let found: Vec<u64> = times.one_way(&ticks, sent, false).map(|ticks| ticks as u64).collect();
            assert!(found == expected && found.len() as u64 > sent.div_ceil(block_size(sent)) * 9 / 10, "{sent}");
        }
    }

    #[derive(Clone, Default)]
    struct Ticking(Arc<AtomicU64>);

    impl Clock for Ticking {
        fn now(&self) -> u64 {
            self.0.fetch_add(10, Relaxed) + 10
        }
    }

    #[test]
    fn what_did_not_come_or_came_before_it_was_sent_has_no_latency() {
        let mut times = SampledTimes::new(7, 4).unwrap();
        let clock = Ticking::default();
        (7..13).for_each(|sequence| times.sending(sequence, &clock));
        assert_eq!(times.ticks, [10, 20, 30, 40]);
        let one_way: Vec<i64> = times.one_way(&[15, NEVER, 29, 47], 6, false).collect();
        assert_eq!(one_way, [5, 7]);
        assert_eq!(times.one_way(&[15, NEVER, 29, 47], 1, false).collect::<Vec<_>>(), [5]);
    }

    #[test]
    fn of_many_messages_one_of_each_block_counts() {
        let sent = 3 * MOST_SAMPLES;
        let mut times = SampledTimes::new(1, places(sent)).unwrap();
        let clock = Ticking::default();
        (1..=sent).for_each(|sequence| times.sending(sequence, &clock));
        // The latency of each message in ticks is its index.
        let mut arrived = vec![NEVER; places(sent) as usize];
        (0..sent).for_each(|index| {
            if let Some(place) = place(index) {
                arrived[place] = 10 * (index + 1) + index;
            }
        });
        assert!(times.one_way(&arrived, sent, false).eq(samples(sent).map(|ticks| ticks as i64)));
    }
}

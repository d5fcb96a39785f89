//! Log of a stream's arrivals: when each message came and what happened to it.

use super::arrivals::Came;
use crate::clock::Clock;
use crate::memory::OutOfMemory;
use crate::os::{MemoryFile, PAGE, SharedMemory};
use crate::wire::Arrived;
use std::io;

pub trait Notes {
    /// True if arrivals are stamped.
    const STAMPS: bool = true;

    /// Notes that a message has arrived, before anything is done with it.
    fn arrived(&mut self);

    /// Sets the arrival tick of the message that is counted next.
    #[inline(always)]
    fn came_at(&mut self, _: u64) {}

    /// Notes the class of the message that has arrived.
    fn counted(&mut self, came: Came);
}

/// Notes nothing, at no cost.
pub struct NoNotes;

impl Notes for NoNotes {
    const STAMPS: bool = false;

    #[inline(always)]
    fn arrived(&mut self) {}

    #[inline(always)]
    fn counted(&mut self, _: Came) {}
}

/// Stamp of a message that did not come intact.
pub const NEVER: u64 = u64::MAX;
/// Stamp of a message that came at an unknown time.
pub const SOMETIME: u64 = 0;
/// Mark of a message that came after a later one.
pub const OVERTAKEN: u8 = 1;
pub const AGAIN: u8 = 2;
pub const DAMAGED: u8 = 4;

/// Arrivals of a stream's messages, in the order of their numbers.
#[derive(Debug, PartialEq, Eq)]
pub struct ArrivalLog<'m> {
    /// Tick of each arrival; [`NEVER`] if the message did not come.
    pub ticks: &'m mut [u64],
    /// Marks of each message, combined.
    pub marks: &'m mut [u8],
}

impl ArrivalLog<'_> {
    pub fn arrived(&self) -> Arrived {
        arrived(self.ticks, self.marks)
    }
}

/// Counts from a log. The follower may count more: repeated duplicates and unreadable messages are in no log.
pub fn arrived(ticks: &[u64], marks: &[u8]) -> Arrived {
    let marked = |mark| marks.iter().filter(|marks| **marks & mark != 0).count() as u64;
    let came = || ticks.iter().copied().filter(|ticks| *ticks != NEVER);
    Arrived {
        received: came().count() as u64,
        duplicated: marked(AGAIN),
        reordered: marked(OVERTAKEN),
        damaged: marked(DAMAGED),
        earlier: 0,
        latest: came().max(),
    }
}

/// Arrivals of every stream at each follower, in memory shared with the leader: the log survives a killed follower.
#[derive(Debug)]
pub struct ArrivalMemory {
    memory: SharedMemory,
    counts: Vec<u64>,
}

/// Bytes of one message: its arrival tick and its marks.
const NOTE_BYTES: u64 = size_of::<u64>() as u64 + 1;

/// Bytes of one follower's part, in whole pages.
fn part_bytes(counts: &[u64]) -> Option<u64> {
    let messages = counts.iter().try_fold(0, |sum: u64, count| sum.checked_add(*count))?;
    messages.checked_mul(NOTE_BYTES)?.checked_next_multiple_of(PAGE as u64)
}

impl ArrivalMemory {
    /// Creates memory at the leader for `counts` messages of each stream per follower, with no arrival noted.
    pub fn create(counts: Vec<u64>, followers: u32) -> Result<Self, OutOfMemory> {
        let messages = counts.iter().sum::<u64>().saturating_mul(u64::from(followers));
        let bytes = part_bytes(&counts).and_then(|bytes| bytes.checked_mul(u64::from(followers)));
        let memory = bytes.and_then(|bytes| SharedMemory::create(bytes).ok());
        let memory = memory.ok_or_else(|| OutOfMemory::new::<[u8; NOTE_BYTES as usize]>(messages, "arrivals"))?;
        let mut created = Self { memory, counts };
        for follower in 0..followers {
            created.logs(follower).into_iter().for_each(|log| log.ticks.fill(NEVER));
        }
        Ok(created)
    }

    /// Handle with which the followers open the memory.
    pub fn place(&self) -> MemoryFile {
        self.memory.place()
    }

    pub fn part_bytes(&self) -> usize {
        part_bytes(&self.counts).unwrap_or(0) as usize
    }

    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Opens a follower's own part. Fails if the leader has gone, or there is too little memory.
    pub fn open(place: MemoryFile, counts: Vec<u64>, follower: u32) -> io::Result<Self> {
        let too_large = || io::Error::from(io::ErrorKind::InvalidInput);
        let bytes = part_bytes(&counts).ok_or_else(too_large)?;
        let begin = bytes.checked_mul(u64::from(follower)).ok_or_else(too_large)?;
        let end = begin.checked_add(bytes).ok_or_else(too_large)?;
        Ok(Self { memory: SharedMemory::open(place, begin..end)?, counts })
    }

    /// Log of each stream. The leader gives the index of a follower; a follower gives 0, for its own log.
    pub fn logs(&mut self, follower: u32) -> Vec<ArrivalLog<'_>> {
        let part = self.part_bytes();
        let messages = self.counts.iter().sum::<u64>() as usize;
        let bytes = &mut self.memory.bytes()[part * follower as usize..];
        let (ticks, rest) = bytes.split_at_mut(messages * size_of::<u64>());
        let mut ticks: &mut [u64] = bytemuck::cast_slice_mut(ticks);
        let mut marks = &mut rest[..messages];
        let streams = self.counts.iter().map(|&count| {
            let (log_ticks, log_marks);
            (log_ticks, ticks) = std::mem::take(&mut ticks).split_at_mut(count as usize);
            (log_marks, marks) = std::mem::take(&mut marks).split_at_mut(count as usize);
            ArrivalLog { ticks: log_ticks, marks: log_marks }
        });
        streams.collect()
    }
}

impl ArrivalMemory {
    /// All bytes of a follower's part, to send between hosts. A follower gives 0, for its own part.
    pub fn part(&mut self, follower: u32) -> &mut [u8] {
        let part = self.part_bytes();
        &mut self.memory.bytes()[part * follower as usize..][..part]
    }
}

/// Choice of the messages of a stream that have a place in a log.
pub trait Places: Default {
    /// Place of a message by its index, from 0.
    fn place(index: u64) -> Option<usize>;

    /// Place of a message by its index, which rises from call to call.
    #[inline(always)]
    fn rising(&mut self, index: u64) -> Option<usize> {
        Self::place(index)
    }
}

#[derive(Default)]
pub struct EveryMessage;

impl Places for EveryMessage {
    #[inline(always)]
    fn place(index: u64) -> Option<usize> {
        Some(index as usize)
    }
}

/// Notes the first intact arrival of each chosen message, in memory written once before (no page faults).
pub struct Arrival<'m, C, P = EveryMessage> {
    clock: C,
    now: u64,
    first: u64,
    places: P,
    pub log: ArrivalLog<'m>,
}

impl<'m, C: Clock> Arrival<'m, C> {
    pub fn new(clock: C, first: u64, log: ArrivalLog<'m>) -> Self {
        Self::in_places(clock, first, log)
    }
}

impl<'m, C: Clock, P: Places> Arrival<'m, C, P> {
    /// Stamps only messages that have a place, from number `first` on.
    pub fn in_places(clock: C, first: u64, log: ArrivalLog<'m>) -> Self {
        Self { clock, now: 0, first, places: P::default(), log }
    }

    fn mark(&mut self, sequence: u64, mark: u8) {
        let place = P::place(sequence.wrapping_sub(self.first));
        if let Some(marks) = place.and_then(|place| self.log.marks.get_mut(place)) {
            *marks |= mark;
        }
    }

    #[inline(always)]
    fn stamp(&mut self, place: Option<usize>) {
        if let Some(ticks) = place.and_then(|place| self.log.ticks.get_mut(place)) {
            *ticks = self.now;
        }
    }
}

impl<C: Clock, P: Places> Notes for Arrival<'_, C, P> {
    #[inline(always)]
    fn arrived(&mut self) {
        self.now = self.clock.now();
    }

    #[inline(always)]
    fn came_at(&mut self, ticks: u64) {
        self.now = ticks;
    }

    #[inline(always)]
    fn counted(&mut self, came: Came) {
        match came {
            Came::InOrder(sequence) => {
                let place = self.places.rising(sequence.wrapping_sub(self.first));
                self.stamp(place);
            }
            Came::Overtaken(sequence) => {
                self.stamp(P::place(sequence.wrapping_sub(self.first)));
                self.mark(sequence, OVERTAKEN);
            }
            Came::Again(sequence) => self.mark(sequence, AGAIN),
            Came::Damaged(sequence) => self.mark(sequence, DAMAGED),
            Came::Unreadable | Came::Earlier => {}
        }
    }
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
    fn the_first_intact_arrival_is_noted_and_the_leader_sees_it() {
        let mut leader = ArrivalMemory::create(vec![2, 4], 3).unwrap();
        let mut follower = ArrivalMemory::open(leader.place(), vec![2, 4], 1).unwrap();
        let mut arrival = Arrival::new(Ticking(Cell::new(0)), 7, follower.logs(0).pop().unwrap());
        let came = [Came::InOrder(8), Came::Overtaken(7), Came::Again(8), Came::Damaged(9), Came::InOrder(11)];
        for came in came.into_iter().chain([Came::Unreadable, Came::Earlier]) {
            arrival.arrived();
            arrival.counted(came);
        }
        let (mut ticks, mut marks) = ([20, 10, NEVER, NEVER], [OVERTAKEN, AGAIN, DAMAGED, 0]);
        let expected = ArrivalLog { ticks: &mut ticks, marks: &mut marks };
        assert_eq!(arrival.log, expected);
        // As if the follower had been killed.
        drop(follower);
        let logs = leader.logs(1);
        assert_eq!(logs[1], expected);
        let counts = Arrived { received: 2, duplicated: 1, reordered: 1, damaged: 1, earlier: 0, latest: Some(20) };
        assert_eq!((logs[0].arrived(), logs[1].arrived()), (Arrived::default(), counts));
        let nothing = |log: &ArrivalLog<'_>| log.arrived() == Arrived::default();
        assert!(leader.logs(0).iter().all(nothing) && leader.logs(2).iter().all(nothing));
    }

    #[test]
    fn no_message_needs_no_memory_and_too_many_are_an_error() {
        assert!(ArrivalMemory::create(Vec::new(), 1).unwrap().logs(0).is_empty());
        assert_eq!(ArrivalMemory::create(vec![0], 2).unwrap().logs(1)[0].ticks.len(), 0);
        for count in [u64::MAX, 1 << 55] {
            let told = ArrivalMemory::create(vec![count], 1).unwrap_err().to_string();
            assert!(told.contains(&format!("{count} arrivals")), "{told}");
        }
        let leader = ArrivalMemory::create(vec![1000], 1).unwrap();
        assert!(ArrivalMemory::open(leader.place(), vec![1000], 1).is_err(), "a part that is not there");
    }
}

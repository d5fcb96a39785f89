//! When each message of a stream came, and what became of it, for what is found out afterwards.

use super::arrivals::Came;
use crate::clock::Clock;
use crate::memory::{OutOfMemory, filled};

/// Told of every message of a stream.
pub trait Notes {
    /// A message is there, before anything is done with it.
    fn arrived(&mut self);

    /// What it is.
    fn counted(&mut self, came: Came);
}

/// Nobody wants to know; costs nothing.
pub struct NoNotes;

impl Notes for NoNotes {
    #[inline(always)]
    fn arrived(&mut self) {}

    #[inline(always)]
    fn counted(&mut self, _: Came) {}
}

/// The stamp of a message that did not come intact.
pub const NEVER: u64 = u64::MAX;
/// It came after a later one.
pub const OVERTAKEN: u8 = 1;
/// It came again.
pub const AGAIN: u8 = 2;
/// It came damaged.
pub const DAMAGED: u8 = 4;

/// The arrivals of a stream's messages, in the order of their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrivalLog {
    /// The clock at each arrival, in ticks; [`NEVER`] if it did not come.
    pub ticks: Vec<u64>,
    /// What else happened to each.
    pub marks: Vec<u8>,
}

/// Notes the first intact arrival of each message of a stream, in memory that is written before.
pub struct Arrival<C> {
    clock: C,
    now: u64,
    first: u64,
    /// The notes.
    pub log: ArrivalLog,
}

/// Bytes of a message in what [`ArrivalLog::write_to`] makes.
const NOTE_BYTES: usize = size_of::<u64>() + 1;

impl ArrivalLog {
    /// Room for so many messages, of which none has come.
    ///
    /// # Errors
    /// If there is too little memory.
    pub fn new(count: u64) -> Result<Self, OutOfMemory> {
        Ok(Self { ticks: filled(NEVER, count, "arrivals")?, marks: filled(0, count, "marks of arrivals")? })
    }

    /// For [`from_bytes`], behind what is there.
    pub fn write_to(&self, bytes: &mut Vec<u8>) {
        bytes.reserve(self.ticks.len() * NOTE_BYTES);
        self.ticks.iter().for_each(|ticks| bytes.extend_from_slice(&ticks.to_le_bytes()));
        bytes.extend_from_slice(&self.marks);
    }
}

impl<C: Clock> Arrival<C> {
    /// Of messages that begin with number `first`.
    pub fn new(clock: C, first: u64, log: ArrivalLog) -> Self {
        Self { clock, now: 0, first, log }
    }

    /// What is counted next came at that tick.
    #[inline(always)]
    pub fn came_at(&mut self, ticks: u64) {
        self.now = ticks;
    }

    fn mark(&mut self, sequence: u64, mark: u8) {
        if let Some(marks) = self.log.marks.get_mut(sequence.wrapping_sub(self.first) as usize) {
            *marks |= mark;
        }
    }

    fn stamp(&mut self, sequence: u64) {
        if let Some(ticks) = self.log.ticks.get_mut(sequence.wrapping_sub(self.first) as usize) {
            *ticks = self.now;
        }
    }
}

impl<C: Clock> Notes for Arrival<C> {
    #[inline(always)]
    fn arrived(&mut self) {
        self.now = self.clock.now();
    }

    #[inline(always)]
    fn counted(&mut self, came: Came) {
        match came {
            Came::InOrder(sequence) => self.stamp(sequence),
            Came::Overtaken(sequence) => {
                self.stamp(sequence);
                self.mark(sequence, OVERTAKEN);
            }
            Came::Again(sequence) => self.mark(sequence, AGAIN),
            Came::Damaged(sequence) => self.mark(sequence, DAMAGED),
            Came::Unreadable | Came::Earlier => {}
        }
    }
}

/// The log of each stream, which have so many messages; `None` if the bytes are not of so many.
pub fn from_bytes(mut bytes: &[u8], counts: &[u64]) -> Option<Vec<ArrivalLog>> {
    if bytes.len() as u64 != counts.iter().sum::<u64>() * NOTE_BYTES as u64 {
        return None;
    }
    let streams = counts.iter().map(|&count| {
        let count = count as usize;
        let (stream, rest) = bytes.split_at(count * NOTE_BYTES);
        bytes = rest;
        let (ticks, marks) = stream.split_at(count * size_of::<u64>());
        let ticks = ticks.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        ArrivalLog { ticks, marks: marks.to_vec() }
    });
    Some(streams.collect())
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
    fn the_first_intact_arrival_is_noted_and_read_back() {
        let mut arrival = Arrival::new(Ticking(Cell::new(0)), 7, ArrivalLog::new(4).unwrap());
        let came = [Came::InOrder(8), Came::Overtaken(7), Came::Again(8), Came::Damaged(9), Came::InOrder(11)];
        for came in came.into_iter().chain([Came::Unreadable, Came::Earlier]) {
            arrival.arrived();
            arrival.counted(came);
        }
        let (ticks, marks) = (vec![20, 10, NEVER, NEVER], vec![OVERTAKEN, AGAIN, DAMAGED, 0]);
        let expected = ArrivalLog { ticks, marks };
        assert_eq!(arrival.log, expected);
        let mut bytes = Vec::new();
        arrival.log.write_to(&mut bytes);
        assert_eq!(from_bytes(&bytes, &[4]), Some(vec![expected]));
        let streams = from_bytes(&[bytes.clone(), bytes.clone()].concat(), &[4, 0, 4]).unwrap();
        assert_eq!((&streams[0], streams[1].ticks.len()), (&streams[2], 0));
        assert_eq!((from_bytes(&bytes, &[3]), from_bytes(&[], &[])), (None, Some(Vec::new())));
    }
}

//! Leader's loop under `pingpong`, by `poll` or `block`; calls of `rpc` are trips too.

use super::answers::{Answers, TripStep};
use super::stamps::TripRow;
use super::{Failure, LoopEnd, MOST_SILENT, Shared, TAKE_TIMEOUT_NS, Tap};
use crate::clock::Clock;
use crate::message::{self, Header, Kind, TouchLimit};
use std::sync::atomic::Ordering::Relaxed;
use tripmeter_abi::Link;

pub struct Trips<'a, L, C, A, const ON: bool> {
    pub link: Tap<'a, L, ON>,
    pub clock: C,
    pub length: usize,
    pub touch: TouchLimit,
    pub sequence: u64,
    pub answers: A,
    pub shared: &'a Shared,
    /// Longest wait for an answer.
    pub loss_timeout_ns: u64,
    pub loss_timeout_ticks: u64,
    /// Mask of receive tries without a message: one whose number has none of these bits leads to a clock reading.
    pub idle_mask: u32,
    /// Rows of the latest [`Trips::run`]: one from its start, and one after each unanswered message.
    pub rows: Vec<TripRow>,
    damaged: Damaged,
}

/// Round trips over a link between two batches; fields as in [`Trips`].
#[derive(Debug, Default)]
pub struct PausedTrips<A> {
    pub length: usize,
    pub sequence: u64,
    pub answers: A,
    pub rows: Vec<TripRow>,
    damaged: Damaged,
}

/// Consecutive messages that came back damaged, and the last of them.
#[derive(Debug, Default)]
struct Damaged {
    count: u32,
    sequence: u64,
}

/// Samples stored, and the reason why no more were.
pub type StoredSamples = (usize, Result<LoopEnd, Failure>);

/// Receive tries between two clock readings under `poll`; a reading costs as much as a few tries.
pub const POLL_IDLE_MASK: u32 = 0x3ff;

pub(super) enum Trip {
    Answered,
    Unanswered,
    Damaged,
    Stopped,
}

impl<A: Answers> PausedTrips<A> {
    /// Round trips of `length` bytes with none made; the latest message so far has number `sequence`.
    pub fn begin(mut answers: A, sequence: u64, length: usize) -> Self {
        answers.begin(sequence);
        Self { length, sequence, answers, rows: Vec::new(), damaged: Damaged::default() }
    }
}

impl<'a, L: Link, C: Clock, A: Answers, const ON: bool> Trips<'a, L, C, A, ON> {
    /// Trips with no message sent and only headers touched. The loss time-out is in nanoseconds and in ticks of `clock`.
    pub fn new(
        link: Tap<'a, L, ON>,
        clock: C,
        answers: A,
        shared: &'a Shared,
        loss_timeout: (u64, u64),
        idle_mask: u32,
    ) -> Self {
        let (loss_timeout_ns, loss_timeout_ticks) = loss_timeout;
        Self {
            link,
            clock,
            length: 0,
            touch: TouchLimit::NONE,
            sequence: 0,
            answers,
            shared,
            loss_timeout_ns,
            loss_timeout_ticks,
            idle_mask,
            rows: Vec::new(),
            damaged: Damaged::default(),
        }
    }

    pub fn resume(mut self, paused: PausedTrips<A>) -> Self {
        (self.length, self.sequence, self.answers) = (paused.length, paused.sequence, paused.answers);
        (self.rows, self.damaged) = (paused.rows, paused.damaged);
        self
    }

    pub fn pause(self) -> PausedTrips<A> {
        let Self { length, sequence, answers, rows, damaged, .. } = self;
        PausedTrips { length, sequence, answers, rows, damaged }
    }

    /// Begins a row of samples with the next message. Returns the tick at which that is sent.
    #[cold]
    pub(super) fn begin_row(&mut self, first_sample: usize) -> u64 {
        self.rows.push(TripRow { first_sample, sequence: self.sequence + 1, began: 0 });
        let now = self.clock.now();
        if let Some(row) = self.rows.last_mut() {
            row.began = now;
        }
        now
    }

    /// Makes round trips and stores the ticks of each, until `samples` is full or the clock passes `deadline`.
    ///
    /// Returns the number of samples, and the end. It fails if the transport fails, the other side has gone, or
    /// [`MOST_SILENT`] messages in a row got no answer.
    #[inline(never)]
    pub fn run(&mut self, samples: &mut [u64], deadline: u64) -> StoredSamples {
        let mut stored = 0;
        self.rows.clear();
        let mut previous = self.begin_row(stored);
        while stored < samples.len() {
            let trip = match self.trip(previous) {
                Ok(trip) => trip,
                Err(failure) => return (stored, Err(failure)),
            };
            let mut stamp = self.clock.now();
            match trip {
                Trip::Answered => {
                    samples[stored] = stamp - previous;
                    stored += 1;
                }
                Trip::Unanswered | Trip::Damaged => stamp = self.begin_row(stored),
                Trip::Stopped => {
                    self.answers.abandon(self.sequence);
                    return (stored, Ok(self.shared.early_end()));
                }
            }
            previous = stamp;
            if stamp >= deadline {
                return (stored, Ok(LoopEnd::Deadline));
            }
        }
        (stored, Ok(LoopEnd::Full))
    }

    #[inline(always)]
    pub(super) fn trip(&mut self, begun: u64) -> Result<Trip, Failure> {
        if self.send()? { self.receive(begun) } else { self.unsent() }
    }

    #[inline(always)]
    pub(super) fn send(&mut self) -> Result<bool, Failure> {
        self.sequence += 1;
        self.shared.sequence.store(self.sequence, Relaxed);
        self.answers.sent();
        let loan = self.link.loan(self.length, None)?;
        message::write(&loan, Header::new(self.sequence, Kind::Ping, self.length), self.touch);
        Ok(self.link.publish(loan, self.loss_timeout_ns)?)
    }

    #[inline(always)]
    pub(super) fn receive(&mut self, previous: u64) -> Result<Trip, Failure> {
        let mut idle = 0_u32;
        let timeout_ns = self.loss_timeout_ns.min(TAKE_TIMEOUT_NS);
        loop {
            if let Some(message) = self.link.take(timeout_ns)? {
                let bytes = message.length;
                let step = self.answers.step(&message, self.sequence, self.length, self.touch);
                self.link.release(message);
                match step {
                    TripStep::Answered => return Ok(Trip::Answered),
                    TripStep::Over => return self.damaged(bytes),
                    TripStep::On => {}
                }
            } else {
                idle = idle.wrapping_add(1);
                if idle & self.idle_mask == 0
                    && let Some(trip) = self.idle(previous)?
                {
                    return Ok(trip);
                }
            }
        }
    }

    #[cold]
    fn idle(&mut self, previous: u64) -> Result<Option<Trip>, Failure> {
        if self.shared.stop.load(Relaxed) {
            return Ok(Some(Trip::Stopped));
        }
        if self.shared.peer_gone.load(Relaxed) {
            return Err(Failure::PeerGone);
        }
        let now = self.clock.now();
        if self.shared.is_capped(now) {
            return Ok(Some(Trip::Stopped));
        }
        if now.saturating_sub(previous) < self.loss_timeout_ticks {
            return Ok(None);
        }
        self.give_up()?;
        Ok(Some(Trip::Unanswered))
    }

    #[cold]
    pub(super) fn unsent(&mut self) -> Result<Trip, Failure> {
        if self.shared.peer_gone.load(Relaxed) {
            return Err(Failure::PeerGone);
        }
        if self.shared.stop.load(Relaxed) {
            return Ok(Trip::Stopped);
        }
        self.give_up()?;
        Ok(Trip::Unanswered)
    }

    /// Counts a damaged answer of `bytes` bytes to the message in flight.
    #[cold]
    pub(super) fn damaged(&mut self, bytes: usize) -> Result<Trip, Failure> {
        let count = if self.damaged.sequence + 1 == self.sequence { self.damaged.count + 1 } else { 1 };
        self.damaged = Damaged { count, sequence: self.sequence };
        if count < MOST_SILENT {
            return Ok(Trip::Damaged);
        }
        Err(Failure::Damaged { count, bytes, expected: self.length })
    }

    /// Counts the message in flight as lost.
    #[cold]
    pub(super) fn give_up(&mut self) -> Result<(), Failure> {
        let count = self.answers.give_up(self.sequence);
        if count < MOST_SILENT {
            return Ok(());
        }
        let (follower, timeout_ms) = (self.answers.silent(), self.loss_timeout_ns / 1_000_000);
        Err(Failure::Silent { follower, count, timeout_ms })
    }

    /// Begins a cell of messages of `length` bytes, with zero counts.
    pub fn begin(&mut self, length: usize) {
        self.length = length;
        self.answers.begin(self.sequence);
    }

    /// Takes duplicates and answers that were given up, until none has come for 2 ms, or for the loss time-out at most.
    pub fn drain(&mut self) -> Result<(), Failure> {
        const QUIET_NS: u64 = 2_000_000;
        let begin = crate::clock::monotonic_ns();
        let mut last = begin;
        while crate::clock::monotonic_ns() - last < QUIET_NS && last - begin < self.loss_timeout_ns {
            if let Some(message) = self.link.take(QUIET_NS)? {
                self.answers.step(&message, self.sequence + 1, self.length, self.touch);
                self.link.release(message);
                last = crate::clock::monotonic_ns();
            }
        }
        Ok(())
    }
}

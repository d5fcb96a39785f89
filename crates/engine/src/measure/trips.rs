//! Leader's loop under `ping`, with wait `poll` or `block`. Pattern `call` uses its trips too.

use super::answers::{Answers, TripStep};
use super::setting::LoopSetting;
use super::stamps::TripRow;
use super::{Failure, LoopEnd, MOST_SILENT, TAKE_TIMEOUT_NS, Tap};
use crate::clock::Clock;
use crate::message::{self, Header, Kind};
use std::sync::atomic::Ordering::Relaxed;
use tripmeter_abi::{Link, Wait};

pub struct Trips<'a, L, C, A, const ON: bool> {
    pub link: Tap<'a, L, ON>,
    pub clock: C,
    pub setting: LoopSetting<'a>,
    pub loss_timeout_ticks: u64,
    /// Mask: a receive attempt without a message reads the clock if its number has none of these bits.
    pub idle_mask: u32,
    /// Moved into the loop for a batch: a pointer would cost more loads in the measured window.
    pub state: TripState<A>,
}

/// State of round trips between two batches.
#[derive(Debug, Default)]
pub struct TripState<A> {
    pub length: usize,
    pub sequence: u64,
    pub answers: A,
    /// Rows of the latest [`Trips::run`]: one from its start, and one after each unanswered or damaged message.
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

/// Mask for a clock reading every 1024 receive attempts under `poll`; a reading costs as much as a few attempts.
const POLL_IDLE_MASK: u32 = 0x3ff;

pub(super) enum Trip {
    Answered,
    Unanswered,
    Damaged,
    Stopped,
}

impl<A: Answers> TripState<A> {
    /// State before the first trip, for messages of `length` bytes; `sequence` is the latest number used so far.
    pub fn begin(mut answers: A, sequence: u64, length: usize) -> Self {
        answers.begin(sequence);
        Self { length, sequence, answers, rows: Vec::new(), damaged: Damaged::default() }
    }
}

impl<'a, L: Link, C: Clock, A: Answers, const ON: bool> Trips<'a, L, C, A, ON> {
    pub fn new(link: Tap<'a, L, ON>, clock: C, setting: LoopSetting<'a>, state: TripState<A>) -> Self {
        let loss_timeout_ticks = setting.timebase.to_ticks(setting.loss_timeout_ns);
        let idle_mask = if setting.wait == Wait::Poll { POLL_IDLE_MASK } else { 0 };
        Self { link, clock, setting, loss_timeout_ticks, idle_mask, state }
    }

    /// Begins a row of samples with the next message. Returns the tick at which that message is sent.
    #[cold]
    pub(super) fn begin_row(&mut self, first_sample: usize) -> u64 {
        self.state.rows.push(TripRow { first_sample, sequence: self.state.sequence + 1, began: 0 });
        let now = self.clock.now();
        if let Some(row) = self.state.rows.last_mut() {
            row.began = now;
        }
        now
    }

    /// Makes round trips and stores the ticks of each, until `samples` is full or the clock passes `deadline`.
    ///
    /// Returns the number of samples, and the reason for the end. It fails if the transport fails, the other side has
    /// gone, or [`MOST_SILENT`] messages in a row got no answer.
    #[inline(never)]
    pub fn run(&mut self, samples: &mut [u64], deadline: u64) -> StoredSamples {
        let mut stored = 0;
        self.state.rows.clear();
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
                    self.state.answers.abandon(self.state.sequence);
                    return (stored, Ok(self.setting.shared.early_end()));
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
        self.state.sequence += 1;
        self.setting.shared.sequence.store(self.state.sequence, Relaxed);
        self.state.answers.sent();
        let loan = self.link.loan(self.state.length, None)?;
        message::write(&loan, Header::new(self.state.sequence, Kind::Ping, self.state.length), self.setting.touch);
        Ok(self.link.publish(loan, self.setting.loss_timeout_ns)?)
    }

    #[inline(always)]
    pub(super) fn receive(&mut self, previous: u64) -> Result<Trip, Failure> {
        let mut idle = 0_u32;
        let timeout_ns = self.setting.loss_timeout_ns.min(TAKE_TIMEOUT_NS);
        loop {
            if let Some(message) = self.link.take(timeout_ns)? {
                let bytes = message.length;
                let step =
                    self.state.answers.step(&message, self.state.sequence, self.state.length, self.setting.touch);
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
        if self.setting.shared.stop.load(Relaxed) {
            return Ok(Some(Trip::Stopped));
        }
        if self.setting.shared.peer_gone.load(Relaxed) {
            return Err(Failure::PeerGone);
        }
        let now = self.clock.now();
        if self.setting.shared.is_capped(now) {
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
        if self.setting.shared.peer_gone.load(Relaxed) {
            return Err(Failure::PeerGone);
        }
        if self.setting.shared.stop.load(Relaxed) {
            return Ok(Trip::Stopped);
        }
        self.give_up()?;
        Ok(Trip::Unanswered)
    }

    /// Counts a damaged answer of `bytes` bytes to the message in flight.
    #[cold]
    pub(super) fn damaged(&mut self, bytes: usize) -> Result<Trip, Failure> {
        let count =
            if self.state.damaged.sequence + 1 == self.state.sequence { self.state.damaged.count + 1 } else { 1 };
        self.state.damaged = Damaged { count, sequence: self.state.sequence };
        if count < MOST_SILENT {
            return Ok(Trip::Damaged);
        }
        Err(Failure::Damaged { count, bytes, expected: self.state.length })
    }

    /// Counts the message in flight as lost.
    #[cold]
    pub(super) fn give_up(&mut self) -> Result<(), Failure> {
        let count = self.state.answers.give_up(self.state.sequence);
        if count < MOST_SILENT {
            return Ok(());
        }
        let (follower, timeout_ms) = (self.state.answers.silent(), self.setting.loss_timeout_ns / 1_000_000);
        Err(Failure::Silent { follower, count, timeout_ms })
    }

    /// Takes duplicates and late answers until none has come for 2 ms, but at most for the loss time-out.
    pub fn drain(&mut self) -> Result<(), Failure> {
        const QUIET_NS: u64 = 2_000_000;
        let begin = crate::clock::monotonic_ns();
        let mut last = begin;
        while crate::clock::monotonic_ns() - last < QUIET_NS && last - begin < self.setting.loss_timeout_ns {
            if let Some(message) = self.link.take(QUIET_NS)? {
                self.state.answers.step(&message, self.state.sequence + 1, self.state.length, self.setting.touch);
                self.link.release(message);
                last = crate::clock::monotonic_ns();
            }
        }
        Ok(())
    }
}

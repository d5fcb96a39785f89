//! The leader's loop of one topic under pattern `channel`: it sleeps until a message is due, stamps, and publishes.
//! When messages are due, and how long they are, is a type of the loop, so that it asks nothing per message.

use super::{Failure, LoopEnd, Shared, Tap};
use crate::clock::{Clock, monotonic_ns};
use crate::message::{self, Header, Kind, TouchLimit};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use tripmeter_abi::Link;

/// When the messages of a topic are to be sent, and how long they are.
pub trait Timetable {
    /// Each message has a length of its own; else all have the usual one.
    const HAS_LENGTHS: bool = false;

    /// When the message of that index is due, in ticks.
    fn due(&self, index: usize) -> u64;

    /// Bytes of the message of that index; `usual` is what the topic's messages have if they are all alike.
    #[inline(always)]
    fn length(&self, _index: usize, usual: usize) -> usize {
        usual
    }

    /// Mean time between two messages, in ticks.
    fn period(&self) -> f64;

    /// From when a message is due until the next may be, in ticks: one sent later than that is behind.
    fn gap(&self) -> f64 {
        self.period()
    }

    /// Ticks that so many messages take, the last of which was sent or due `last` ticks after the first was due: until the
    /// one after them would be due.
    fn elapsed(&self, _messages: usize, last: u64) -> f64 {
        last as f64 + self.period()
    }
}

/// When messages are to be sent: at whole multiples of a period, whatever was late.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// When the first message is due, in ticks.
    pub first: u64,
    /// In ticks.
    pub period: f64,
}

impl Schedule {
    /// When the message of that index is due, in ticks.
    #[inline(always)]
    pub fn due(&self, index: usize) -> u64 {
        self.first + (index as f64 * self.period) as u64
    }
}

impl Timetable for Schedule {
    #[inline(always)]
    fn due(&self, index: usize) -> u64 {
        Schedule::due(self, index)
    }

    fn period(&self) -> f64 {
        self.period
    }
}

/// When messages are to be sent: so many of them at whole multiples of a gap, whatever was late.
#[derive(Clone, Copy, Debug)]
pub struct Bursts {
    /// When the first burst is due, in ticks.
    pub first: u64,
    /// Messages of each.
    pub size: u64,
    /// From the begin of one to the begin of the next, in ticks.
    pub gap: f64,
}

impl Timetable for Bursts {
    #[inline(always)]
    fn due(&self, index: usize) -> u64 {
        self.first + ((index as u64 / self.size) as f64 * self.gap) as u64
    }

    fn period(&self) -> f64 {
        self.gap / self.size as f64
    }

    fn gap(&self) -> f64 {
        self.gap
    }

    /// The messages of a burst have until the next one begins.
    fn elapsed(&self, messages: usize, last: u64) -> f64 {
        (messages as f64 * self.period()).max(last as f64)
    }
}

/// How a thread rests until its next message is due.
pub trait Rest {
    /// Rests for no longer than so many ticks, and may do so for less.
    fn rest(&self, ticks: u64);
}

/// Sleeps by `clock_nanosleep` until a point in time.
#[derive(Clone, Copy, Debug)]
pub struct Sleep {
    /// Of the measuring clock.
    pub ticks_per_ns: f64,
    /// Longest sleep: flags are looked at in between. 0: it spins, and keeps its CPU.
    pub longest_ns: u64,
}

impl Rest for Sleep {
    #[inline]
    fn rest(&self, ticks: u64) {
        if self.longest_ns == 0 {
            return std::hint::spin_loop();
        }
        let left_ns = (ticks as f64 / self.ticks_per_ns).ceil() as u64;
        crate::os::sleep_until(monotonic_ns() + left_ns.min(self.longest_ns));
    }
}

/// What a thread shows to those who watch it: the number of its latest message or call, and whether that is under way. On a
/// cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Sending(AtomicU64);

/// What a [`Sending`] shows at a moment: twice the number, and 1 more while it is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown(u64);

impl Sending {
    const DRAINING: Shown = Shown(u64::MAX);

    /// One for each of so many threads.
    pub fn of(threads: usize) -> Vec<Self> {
        (0..threads).map(|_| Self::default()).collect()
    }

    /// The message or call of that number is under way.
    #[inline(always)]
    pub fn begin(&self, number: u64) {
        self.0.store(number << 1 | 1, Relaxed);
    }

    /// It is over.
    #[inline(always)]
    pub fn end(&self, number: u64) {
        self.0.store(number << 1, Relaxed);
    }

    /// The thread only listens for what still comes.
    pub fn drain(&self) {
        self.0.store(Self::DRAINING.0, Relaxed);
    }

    /// The thread has ended, whatever it was at.
    pub fn rest(&self) {
        self.0.fetch_and(!1, Relaxed);
    }

    /// What it shows now.
    pub fn shown(&self) -> Shown {
        Shown(self.0.load(Relaxed))
    }
}

impl Shown {
    /// The thread only listens for what still comes.
    pub fn is_draining(self) -> bool {
        self == Sending::DRAINING
    }

    /// A message or call is under way.
    pub fn is_sending(self) -> bool {
        self.0 & 1 == 1 && !self.is_draining()
    }

    /// The thread is not resting.
    pub fn is_busy(self) -> bool {
        self.0 & 1 == 1
    }

    /// The number.
    pub fn number(self) -> u64 {
        self.0 >> 1
    }
}

/// Rests until that tick; false if the user has asked to stop.
///
/// # Errors
/// If the other side has gone.
#[inline(always)]
pub fn await_due(due: u64, clock: &impl Clock, rest: &impl Rest, shared: &Shared) -> Result<bool, Failure> {
    loop {
        if shared.stop.load(Relaxed) {
            return Ok(false);
        }
        if shared.peer_gone.load(Relaxed) {
            return Err(Failure::PeerGone);
        }
        let now = clock.now();
        if now >= due {
            return Ok(true);
        }
        rest.rest(due - now);
    }
}

/// The leader's side of one topic, or of one of its publishers.
pub struct Publisher<'a, 'w, L, C, R, const ON: bool, S = Schedule> {
    /// The link, used by this loop alone.
    pub link: &'a mut Tap<'w, L, ON>,
    /// Where stamps come from.
    pub clock: C,
    /// How it waits.
    pub rest: R,
    /// When messages are due.
    pub schedule: S,
    /// Bytes of every message, unless the schedule says how long each is.
    pub length: usize,
    /// Number of the latest message sent.
    pub sequence: u64,
    /// Which of several publishers of one topic it is; else 0.
    pub publisher: u32,
    /// What of each message is written.
    pub touch: TouchLimit,
    /// What may end it.
    pub shared: &'a Shared,
    /// What watchers see.
    pub sending: &'a Sending,
    /// How long a message may be kept waiting by a transport that is full.
    pub timeout_ns: u64,
    /// Times that the transport refused a message.
    pub refused: u64,
}

impl<L: Link, C: Clock, R: Rest, S: Timetable, const ON: bool> Publisher<'_, '_, L, C, R, ON, S> {
    /// Publishes a message for each place of `sent`, when it is due, and notes there when it was sent. Ends early once one
    /// is due at the deadline or later, or if the user has asked to stop. Returns how many were sent.
    ///
    /// # Errors
    /// If the transport fails, or takes no messages any more.
    #[inline(never)]
    pub fn run(&mut self, sent: &mut [u64], deadline: u64) -> Result<(usize, LoopEnd), Failure> {
        for (index, stamp) in sent.iter_mut().enumerate() {
            let due = self.schedule.due(index);
            if due >= deadline {
                return Ok((index, LoopEnd::Deadline));
            }
            if !await_due(due, &self.clock, &self.rest, self.shared)? {
                return Ok((index, LoopEnd::Stopped));
            }
            let number = self.sequence + 1;
            self.sending.begin(number);
            *stamp = self.clock.now();
            let is_sent = self.send(self.schedule.length(index, self.length))?;
            self.sending.end(number);
            if !is_sent {
                return Ok((index, LoopEnd::Stopped));
            }
        }
        Ok((sent.len(), LoopEnd::Full))
    }

    #[inline(always)]
    fn send(&mut self, length: usize) -> Result<bool, Failure> {
        let header = Header::of(self.sequence + 1, Kind::Ping, length, self.publisher);
        let mut silent = 0;
        loop {
            let loan = self.link.loan(length, None)?;
            message::write(&loan, header, self.touch);
            if self.link.publish(loan, self.timeout_ns)? {
                self.sequence += 1;
                return Ok(true);
            }
            silent += 1;
            if !self.go_on(silent)? {
                return Ok(false);
            }
        }
    }

    /// A message was refused.
    #[cold]
    fn go_on(&mut self, silent: u32) -> Result<bool, Failure> {
        self.refused += 1;
        // The transport has come back: a sign of life.
        self.shared.sequence.fetch_add(1, Relaxed);
        self.shared.after_refusal(silent, self.timeout_ns, self.clock.now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_has_ended_is_not_busy_whatever_it_was_at() {
        let sending = Sending::default();
        sending.begin(7);
        assert!(sending.shown().is_busy() && sending.shown().is_sending());
        sending.rest();
        assert!(!sending.shown().is_busy() && sending.shown().number() == 7);
        sending.drain();
        assert!(sending.shown().is_busy());
        sending.rest();
        assert!(!sending.shown().is_busy() && !sending.shown().is_draining());
    }
}

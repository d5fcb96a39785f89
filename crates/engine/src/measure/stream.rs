//! Leader's loop under one-way patterns: bursts of messages at due times.

use super::sampling::{NoTimes, SendTimes};
use super::{Failure, LoopEnd, Shared, Tap};
use crate::clock::Clock;
use crate::message::{self, Header, Kind, TouchLimit};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tripmeter_abi::Link;

/// Spacing of bursts. The loop is compiled for each kind.
pub trait Spacing {
    /// Messages of a burst until the next clock reading.
    #[inline(always)]
    fn part(&self, burst: u64) -> u64 {
        burst
    }

    /// Tick at which the next burst is due, after one that began at `begun`; 0: at once.
    fn next(&mut self, begun: u64) -> u64;

    /// Messages that were sent more than a whole spacing late.
    fn behind(&self) -> u64 {
        0
    }
}

pub struct Unspaced;

impl Spacing for Unspaced {
    #[inline(always)]
    fn next(&mut self, _: u64) -> u64 {
        0
    }
}

/// Spacing at whole multiples of a period after the first burst, even if earlier bursts were late.
pub struct Even {
    period: f64,
    count: u64,
    first: u64,
    due: u64,
    behind: u64,
}

impl Even {
    /// Spacing with a period in ticks.
    pub fn new(period: f64) -> Self {
        Self { period, count: 0, first: 0, due: u64::MAX, behind: 0 }
    }
}

impl Spacing for Even {
    #[inline(always)]
    fn next(&mut self, begun: u64) -> u64 {
        if self.count == 0 {
            (self.first, self.due) = (begun, begun);
        }
        self.behind += u64::from(begun.saturating_sub(self.due) as f64 > self.period);
        self.count += 1;
        self.due = self.first + (self.count as f64 * self.period) as u64;
        self.due
    }

    fn behind(&self) -> u64 {
        self.behind
    }
}

/// Spacing of a period after the start of the previous burst, so that a late burst delays all later ones. A large burst
/// is sent in parts, with clock readings between them: a deadline can interrupt it, and a later run continues it.
pub struct Paused {
    /// Ticks from the start of one burst to the start of the next.
    period: u64,
    /// Messages per burst.
    size: u64,
    part: u64,
    /// Messages of the burst that are still to be sent.
    left: u64,
    /// Tick at which the burst began.
    begun: u64,
}

impl Paused {
    /// Bursts of `size` messages, sent in parts of `part`, with `period` ticks from start to start.
    pub fn new(size: u64, part: u64, period: u64) -> Self {
        Self { period, size, part, left: size, begun: 0 }
    }
}

impl Spacing for Paused {
    #[inline(always)]
    fn part(&self, _: u64) -> u64 {
        self.part.min(self.left)
    }

    #[inline(always)]
    fn next(&mut self, begun: u64) -> u64 {
        if self.left == self.size {
            self.begun = begun;
        }
        self.left -= self.part.min(self.left);
        if self.left > 0 {
            return 0;
        }
        self.left = self.size;
        self.begun + self.period
    }
}

/// Amount to send: the limit reached first ends it.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    pub burst: u64,
    /// Number of the last message.
    pub last: u64,
    /// Tick at which sending ends.
    pub deadline: u64,
}

pub struct StreamSender<'a, L, C, const ON: bool> {
    pub link: Tap<'a, L, ON>,
    pub clock: C,
    pub length: usize,
    pub touch: TouchLimit,
    /// Index among several publishers of one topic; else 0.
    pub publisher: u32,
    pub sequence: u64,
    pub shared: &'a Shared,
    /// Longest time that a full transport may delay a message.
    pub timeout_ns: u64,
    /// Shortest pause, in ticks, during which the sender sleeps instead of spinning.
    pub nap: u64,
    pub ticks_per_ns: f64,
    pub refused: u64,
    /// Tick at which the next burst is due.
    pub due: u64,
    /// Tick after the last message.
    pub ended: u64,
    silent: u32,
}

/// Time before the next burst that is not slept, as a sleep may take longer than requested.
const WAKING_NS: f64 = 100_000.0;

impl<'a, L: Link, C: Clock, const ON: bool> StreamSender<'a, L, C, ON> {
    /// Sender of messages of `length` bytes, numbered from `sequence + 1` on. It writes nothing behind their headers.
    pub fn new(link: Tap<'a, L, ON>, clock: C, shared: &'a Shared, length: usize, sequence: u64) -> Self {
        let (touch, timeout_ns, nap, ticks_per_ns) = (TouchLimit::NONE, 1_000_000_000, u64::MAX, 1.0);
        let (refused, due, ended, silent) = (0, 0, 0, 0);
        Self {
            link,
            clock,
            length,
            touch,
            publisher: 0,
            sequence,
            shared,
            timeout_ns,
            nap,
            ticks_per_ns,
            refused,
            due,
            ended,
            silent,
        }
    }

    /// Sends bursts until message `extent.last` is sent, the deadline has passed, or the user has asked to stop. Can be
    /// called again, to continue.
    /// Fails if the transport fails or was full for [`super::MOST_SILENT`] time-outs, or a follower has gone.
    pub fn run<S: Spacing>(&mut self, spacing: &mut S, extent: Extent) -> Result<LoopEnd, Failure> {
        self.run_timed::<S, NoTimes>(spacing, extent, &mut NoTimes)
    }

    /// Sends as [`StreamSender::run`] does; `times` gets the number of each message before the first try to send it.
    #[inline(never)]
    pub fn run_timed<S: Spacing, M: SendTimes>(
        &mut self,
        spacing: &mut S,
        extent: Extent,
        times: &mut M,
    ) -> Result<LoopEnd, Failure> {
        loop {
            let mut now = self.clock.now();
            while now < self.due && now < extent.deadline {
                self.relax(self.due.min(extent.deadline) - now);
                if self.shared.stop.load(Relaxed) {
                    return Ok(LoopEnd::Stopped);
                }
                now = self.clock.now();
            }
            if now >= extent.deadline {
                return Ok(LoopEnd::Deadline);
            }
            for _ in 0..spacing.part(extent.burst).min(extent.last - self.sequence) {
                times.sending(self.sequence + 1, &self.clock);
                if !self.send()? {
                    return Ok(self.shared.early_end());
                }
            }
            self.due = spacing.next(now);
            self.ended = self.clock.now();
            if self.sequence == extent.last {
                return Ok(LoopEnd::Full);
            }
            if self.shared.stop.load(Relaxed) {
                return Ok(LoopEnd::Stopped);
            }
            if self.shared.peer_gone.load(Relaxed) {
                return Err(Failure::PeerGone);
            }
        }
    }

    /// Sends the next message; false if the user has asked to stop, or the time is over.
    #[inline(always)]
    fn send(&mut self) -> Result<bool, Failure> {
        let header = Header::from_sender(self.sequence + 1, Kind::Ping, self.length, self.publisher);
        loop {
            let loan = self.link.loan(self.length, None)?;
            message::write(&loan, header, self.touch);
            if self.link.publish(loan, self.timeout_ns)? {
                break;
            }
            if !self.refused()? {
                return Ok(false);
            }
        }
        self.sequence += 1;
        self.silent = 0;
        self.shared.sequence.store(self.sequence, Relaxed);
        Ok(true)
    }

    #[cold]
    fn refused(&mut self) -> Result<bool, Failure> {
        self.refused += 1;
        self.silent += 1;
        self.shared.after_refusal(self.silent, self.timeout_ns, self.clock.now())
    }

    #[inline(always)]
    fn relax(&self, left: u64) {
        if left < self.nap {
            std::hint::spin_loop();
        } else {
            let ns = (left as f64 / self.ticks_per_ns - WAKING_NS).clamp(0.0, 50_000_000.0) as u64;
            if ns == 0 {
                return std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_nanos(ns));
        }
    }
}

//! Leader's loop under one-way patterns: bursts of messages at due times.

use super::sampling::{SampledTimes, SendTimes};
use super::{Failure, LoopEnd, LoopSetting, Tap};
use crate::clock::Clock;
use crate::message::{self, Header, Kind};
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

/// Spacing at whole multiples of a period since the first burst, whatever was late.
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

/// Spacing of a period after the start of the last burst, so that lateness is not made up for. A burst of many messages
/// goes out in parts, with clock readings between: it ends at a deadline, and goes on after one.
pub struct Paused {
    /// In ticks.
    period: u64,
    /// Messages of a burst.
    size: u64,
    part: u64,
    /// Messages of the burst that are still to be sent.
    left: u64,
    /// Tick at which the burst began.
    begun: u64,
}

impl Paused {
    /// Bursts of `size` messages in parts of `part`, and ticks from the start of one to the start of the next.
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
    /// In ticks.
    pub deadline: u64,
}

/// Spacing of the bursts of a stream.
pub enum Spaced {
    Unspaced,
    Even(Even),
    Paused(Paused),
}

/// State of a stream between two batches.
pub struct Flow {
    pub spaced: Spaced,
    /// Bytes of each message.
    pub length: usize,
    pub sequence: u64,
    /// Shortest pause that is slept through, but for its end, in ticks.
    pub nap: u64,
    /// Tick at which the next burst is due.
    pub due: u64,
    /// Tick at which the latest burst ended.
    pub ended: u64,
    pub refused: u64,
    pub times: Option<SampledTimes>,
}

impl Flow {
    /// Stream that has sent nothing and does not sleep.
    pub fn new(spaced: Spaced, length: usize, sequence: u64) -> Self {
        Self { spaced, length, sequence, nap: u64::MAX, due: 0, ended: 0, refused: 0, times: None }
    }
}

pub struct StreamSender<'a, L, C, const ON: bool> {
    pub link: Tap<'a, L, ON>,
    pub clock: C,
    pub setting: LoopSetting<'a>,
    pub flow: &'a mut Flow,
    silent: u32,
}

/// Time left at the end of a nap, as a sleep takes longer than asked for.
const WAKING_NS: f64 = 100_000.0;

impl<'a, L: Link, C: Clock, const ON: bool> StreamSender<'a, L, C, ON> {
    pub fn new(link: Tap<'a, L, ON>, clock: C, setting: LoopSetting<'a>, flow: &'a mut Flow) -> Self {
        Self { link, clock, setting, flow, silent: 0 }
    }

    /// Sends bursts until message `extent.last` is out, the deadline has passed, or the user has asked to stop. May be called
    /// again to go on. `times` gets the number of each message before the first try to send it.
    /// Fails if the transport fails, a follower has gone, or it has taken no message for [`super::MOST_SILENT`] time-outs.
    #[inline(never)]
    pub fn run<S: Spacing, M: SendTimes>(
        &mut self,
        spacing: &mut S,
        extent: Extent,
        times: &mut M,
    ) -> Result<LoopEnd, Failure> {
        // Behind the flow's pointer it would cost loads more per message.
        let mut sequence = self.flow.sequence;
        let end = self.send_bursts(spacing, extent, times, &mut sequence);
        self.flow.sequence = sequence;
        end
    }

    #[inline(always)]
    fn send_bursts<S: Spacing, M: SendTimes>(
        &mut self,
        spacing: &mut S,
        extent: Extent,
        times: &mut M,
        sequence: &mut u64,
    ) -> Result<LoopEnd, Failure> {
        let (length, shared) = (self.flow.length, self.setting.shared);
        loop {
            let mut now = self.clock.now();
            while now < self.flow.due && now < extent.deadline {
                self.relax(self.flow.due.min(extent.deadline) - now);
                if shared.stop.load(Relaxed) {
                    return Ok(LoopEnd::Stopped);
                }
                now = self.clock.now();
            }
            if now >= extent.deadline {
                return Ok(LoopEnd::Deadline);
            }
            for _ in 0..spacing.part(extent.burst).min(extent.last - *sequence) {
                times.sending(*sequence + 1, &self.clock);
                if !self.send(*sequence + 1, length)? {
                    return Ok(shared.early_end());
                }
                *sequence += 1;
            }
            self.flow.due = spacing.next(now);
            self.flow.ended = self.clock.now();
            if *sequence == extent.last {
                return Ok(LoopEnd::Full);
            }
            if shared.stop.load(Relaxed) {
                return Ok(LoopEnd::Stopped);
            }
            if shared.peer_gone.load(Relaxed) {
                return Err(Failure::PeerGone);
            }
        }
    }

    /// Sends a message; false if the user has asked to stop, or the time is over.
    #[inline(always)]
    fn send(&mut self, sequence: u64, length: usize) -> Result<bool, Failure> {
        let header = Header::new(sequence, Kind::Ping, length);
        loop {
            let loan = self.link.loan(length, None)?;
            message::write(&loan, header, self.setting.touch);
            if self.link.publish(loan, self.setting.loss_timeout_ns)? {
                break;
            }
            if !self.refused()? {
                return Ok(false);
            }
        }
        self.silent = 0;
        self.setting.shared.sequence.store(sequence, Relaxed);
        Ok(true)
    }

    #[cold]
    fn refused(&mut self) -> Result<bool, Failure> {
        self.flow.refused += 1;
        self.silent += 1;
        self.setting.shared.after_refusal(self.silent, self.setting.loss_timeout_ns, self.clock.now())
    }

    #[inline(always)]
    fn relax(&self, left: u64) {
        if left < self.flow.nap {
            std::hint::spin_loop();
        } else {
            let ns = left as f64 / self.setting.timebase.ticks_per_ns() - WAKING_NS;
            std::thread::sleep(Duration::from_nanos(ns.clamp(0.0, 50_000_000.0) as u64));
        }
    }
}

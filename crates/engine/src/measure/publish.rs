//! Leader's loop of one topic under pattern `publish`: it sleeps until a message is due, stamps, and publishes.
//! The timetable is a type parameter of the loop, so that at an even rate nothing is decided per message.

use super::setting::LoopSetting;
use super::{Failure, LoopEnd, Shared};
use crate::clock::{Clock, monotonic_ns};
use crate::message::{self, Header, Kind};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use tripmeter_abi::Link;

/// Due times and lengths of a topic's messages.
pub trait Timetable {
    /// True if each message has a length of its own; else all have the usual one.
    const HAS_LENGTHS: bool = false;

    /// Tick at which a message is due, by its index.
    fn due(&self, index: usize) -> u64;

    /// Length of a message in bytes, by its index; `usual` if all have the same length.
    #[inline(always)]
    fn length(&self, _index: usize, usual: usize) -> usize {
        usual
    }

    /// Mean time between two messages, in ticks.
    fn period(&self) -> f64;

    /// Ticks between the due time of a message and the next due time. A message sent later than that counts as behind.
    fn gap(&self) -> f64 {
        self.period()
    }

    /// Ticks from the first message until one after the last would be due. The last message was sent or due `last`
    /// ticks after the first.
    fn elapsed(&self, _messages: usize, last: u64) -> f64 {
        last as f64 + self.period()
    }
}

/// Timetable at whole multiples of a period, even if earlier messages were late.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// Tick at which the first message is due.
    pub first: u64,
    /// Time between two messages, in ticks.
    pub period: f64,
}

impl Schedule {
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

/// Timetable of bursts at whole multiples of a gap, even if earlier bursts were late.
#[derive(Clone, Copy, Debug)]
pub struct Bursts {
    /// Tick at which the first burst is due.
    pub first: u64,
    pub size: u64,
    /// Ticks from the start of one burst to the start of the next.
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

    /// Includes the gap after the last burst, as each burst is followed by one.
    fn elapsed(&self, messages: usize, last: u64) -> f64 {
        (messages as f64 * self.period()).max(last as f64)
    }
}

pub trait Rest {
    /// Idles for at most this many ticks, possibly for less.
    fn rest(&self, ticks: u64);
}

/// Sleep by `clock_nanosleep` until a point in time.
#[derive(Clone, Copy, Debug)]
pub struct Sleep {
    pub ticks_per_ns: f64,
    /// Longest sleep before the flags are checked. With 0, it spins and keeps its CPU.
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

/// Progress of a thread, for its watchers: the number of its latest message or call, and if that is under way. It has a
/// cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Sending(AtomicU64);

/// Snapshot of a [`Sending`]: twice the number, plus 1 while the message or call is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown(u64);

impl Sending {
    const DRAINING: Shown = Shown(u64::MAX);

    pub fn for_threads(threads: usize) -> Vec<Self> {
        (0..threads).map(|_| Self::default()).collect()
    }

    /// Shows that this message or call is under way.
    #[inline(always)]
    pub fn begin(&self, number: u64) {
        self.0.store(number << 1 | 1, Relaxed);
    }

    #[inline(always)]
    pub fn end(&self, number: u64) {
        self.0.store(number << 1, Relaxed);
    }

    /// Shows that the thread only listens for late messages.
    pub fn drain(&self) {
        self.0.store(Self::DRAINING.0, Relaxed);
    }

    /// Shows that the thread has ended, even during a message, a call or a drain.
    pub fn rest(&self) {
        self.0.fetch_and(!1, Relaxed);
    }

    pub fn shown(&self) -> Shown {
        Shown(self.0.load(Relaxed))
    }
}

impl Shown {
    /// True if the thread only listens for late messages.
    pub fn is_draining(self) -> bool {
        self == Sending::DRAINING
    }

    /// True if a message or call is under way.
    pub fn is_sending(self) -> bool {
        self.0 & 1 == 1 && !self.is_draining()
    }

    /// True if the thread is sending, calling or draining.
    pub fn is_busy(self) -> bool {
        self.0 & 1 == 1
    }

    pub fn number(self) -> u64 {
        self.0 >> 1
    }
}

/// Idles until tick `due`; false if the user has asked to stop. Fails if the other side has gone.
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

/// Messages that one topic or publisher has to send.
#[derive(Clone, Copy)]
pub struct PublicationPlan<'a, T, R> {
    /// Due time and length of each message.
    pub times: T,
    pub rest: R,
    /// Bytes of each message, unless `times` has lengths.
    pub length: usize,
    /// Sequence number of the latest message.
    pub sequence: u64,
    /// Index among several publishers of one topic; else 0.
    pub publisher: u32,
    /// A message that is due at this tick or later is not sent.
    pub deadline: u64,
    pub sending: &'a Sending,
}

impl<'a, T, R> PublicationPlan<'a, T, R> {
    /// Replaces the times by a timetable type, for which the loop is compiled.
    pub fn at<S>(self, times: S) -> PublicationPlan<'a, S, R> {
        let Self { rest, length, sequence, publisher, deadline, sending, .. } = self;
        PublicationPlan { times, rest, length, sequence, publisher, deadline, sending }
    }
}

pub struct Publisher<'a, L, C, T, R> {
    pub link: &'a mut L,
    pub clock: C,
    pub setting: LoopSetting<'a>,
    pub plan: PublicationPlan<'a, T, R>,
    pub refused: u64,
}

impl<L: Link, C: Clock, T: Timetable, R: Rest> Publisher<'_, L, C, T, R> {
    /// Publishes one message per place in `sent`, each when it is due, and stores its send time there. Ends early at
    /// the deadline, or if the user has asked to stop. Returns the number of messages sent.
    /// Fails if the transport fails, or takes no more messages.
    #[inline(never)]
    pub fn run(&mut self, sent: &mut [u64]) -> Result<(usize, LoopEnd), Failure> {
        for (index, stamp) in sent.iter_mut().enumerate() {
            let due = self.plan.times.due(index);
            if due >= self.plan.deadline {
                return Ok((index, LoopEnd::Deadline));
            }
            if !await_due(due, &self.clock, &self.plan.rest, self.setting.shared)? {
                return Ok((index, LoopEnd::Stopped));
            }
            let number = self.plan.sequence + 1;
            self.plan.sending.begin(number);
            *stamp = self.clock.now();
            let is_sent = self.send(self.plan.times.length(index, self.plan.length))?;
            self.plan.sending.end(number);
            if !is_sent {
                return Ok((index, LoopEnd::Stopped));
            }
        }
        Ok((sent.len(), LoopEnd::Full))
    }

    #[inline(always)]
    fn send(&mut self, length: usize) -> Result<bool, Failure> {
        let header = Header::from_sender(self.plan.sequence + 1, Kind::Ping, length, self.plan.publisher);
        let mut silent = 0;
        loop {
            let loan = self.link.loan(length, None)?;
            message::write(&loan, header, self.setting.touch);
            if self.link.publish(loan, self.setting.loss_timeout_ns)? {
                self.plan.sequence += 1;
                return Ok(true);
            }
            silent += 1;
            if !self.go_on(silent)? {
                return Ok(false);
            }
        }
    }

    /// Counts a refusal; true if the message must be retried.
    #[cold]
    fn go_on(&mut self, silent: u32) -> Result<bool, Failure> {
        self.refused += 1;
        // A call that has returned is a sign of life.
        self.setting.shared.sequence.fetch_add(1, Relaxed);
        self.setting.shared.after_refusal(silent, self.setting.loss_timeout_ns, self.clock.now())
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

//! The follower's loop under one-way patterns: it counts what comes.

use super::callback::Inbox;
use super::ledger::{Ledger, Single};
use super::notes::NoNotes;
use super::{Failure, Shared, TAKE_TIMEOUT_NS, Tap};
use crate::clock::Clock;
use crate::message::TouchLimit;
use crate::wire::Arrived;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Duration;
use tripmeter_abi::{Link, Message};

/// Once the last message has come, others that it has overtaken are waited for so long.
const OVERTAKEN_NS: u64 = 50_000_000;

/// The follower's side of a link during one trial.
pub struct Sink<'a, 'w, L, C, B, const ON: bool> {
    /// The link, used by this loop alone.
    pub link: &'a mut Tap<'w, L, ON>,
    /// Where stamps come from.
    pub clock: C,
    /// What watchers see, and what ends the loop.
    pub shared: &'a Shared,
    /// How long messages that were sent are waited for, in nanoseconds.
    pub loss_timeout_ns: u64,
    /// How long one receive may sleep before it looks around, in nanoseconds.
    pub take_timeout_ns: u64,
    /// Ticks per nanosecond.
    pub ticks_per_ns: f64,
    /// What of each message is verified.
    pub touch: TouchLimit,
    /// Keeps what comes.
    pub ledger: B,
    /// When it was heard how many messages there are, in ticks.
    told: Option<u64>,
}

impl<'a, 'w, L: Link, C: Clock, const ON: bool> Sink<'a, 'w, L, C, Single<'a, NoNotes>, ON> {
    /// Nothing has come of the stream that begins with message `first`.
    pub fn new(link: &'a mut Tap<'w, L, ON>, clock: C, shared: &'a Shared, first: u64) -> Self {
        Self::keeping(link, clock, shared, Single::new(first, shared, NoNotes))
    }
}

impl<'a, 'w, L: Link, C: Clock, B: Ledger, const ON: bool> Sink<'a, 'w, L, C, B, ON> {
    /// What comes is kept in that ledger; nothing behind the headers is verified.
    pub fn keeping(link: &'a mut Tap<'w, L, ON>, clock: C, shared: &'a Shared, ledger: B) -> Self {
        let (loss_timeout_ns, take_timeout_ns, touch) = (1_000_000_000, TAKE_TIMEOUT_NS, TouchLimit::NONE);
        Self { link, clock, shared, loss_timeout_ns, take_timeout_ns, ticks_per_ns: 1.0, touch, ledger, told: None }
    }

    /// Takes messages, by `poll` or `block`, until all that the leader has sent have come, or nothing more does.
    ///
    /// # Errors
    /// If the transport fails.
    #[inline(never)]
    pub fn run(&mut self) -> Result<Arrived, Failure> {
        while !self.step()? {}
        Ok(self.ledger.counts())
    }

    /// Takes the next message; true if there is none, and nothing more is waited for.
    ///
    /// # Errors
    /// If the transport fails.
    #[inline(always)]
    pub fn step(&mut self) -> Result<bool, Failure> {
        let Some(message) = self.link.take(self.take_timeout_ns.min(self.loss_timeout_ns))? else {
            return Ok(self.is_over());
        };
        self.ledger.arrived();
        self.ledger.count(&{ message }, self.touch, || self.clock.now());
        self.link.release(message);
        Ok(false)
    }

    /// The same as [`Sink::run`] under wait `callback`; calls `listening` once no message can get lost any more.
    ///
    /// # Errors
    /// If the transport hands over what is no message.
    pub fn run_called_back(&mut self, inbox: &Inbox, listening: impl FnOnce()) -> Result<Arrived, Failure> {
        let handle = |sink: &mut Self, message: &Message| {
            sink.ledger.arrived();
            sink.link.seen(message);
            sink.ledger.count(message, sink.touch, || sink.clock.now());
        };
        let shared = self.shared;
        let pause = Duration::from_nanos(2 * self.take_timeout_ns);
        inbox.serve(self, handle, |turns| {
            listening();
            loop {
                turns.check()?;
                let ends = shared.stop.load(Relaxed) || shared.peer_gone.load(Relaxed);
                if ends && let Some(arrived) = turns.with(|sink| sink.is_over().then(|| sink.ledger.counts())) {
                    return Ok(arrived);
                }
                // The word of the end unparks this thread.
                std::thread::park_timeout(if ends { Duration::from_millis(1) } else { pause });
            }
        })
    }

    /// Nothing is there just now: will anything more come?
    #[inline(always)]
    fn is_over(&mut self) -> bool {
        if self.shared.peer_gone.load(Relaxed) {
            return true;
        }
        self.shared.stop.load(Acquire) && self.is_quiet()
    }

    #[cold]
    fn is_quiet(&mut self) -> bool {
        if self.ledger.is_complete() {
            return true;
        }
        let now = self.clock.now();
        let since = (*self.told.get_or_insert(now)).max(self.ledger.counts().latest.unwrap_or(0));
        let patience = if self.ledger.is_past() { OVERTAKEN_NS } else { self.loss_timeout_ns };
        now.saturating_sub(since) as f64 >= patience as f64 * self.ticks_per_ns
    }
}

/// Takes the messages of several links in turns, by `poll`, until of all of them nothing more is waited for.
///
/// # Errors
/// If the transport fails.
#[inline(never)]
pub fn take_turns<L: Link, C: Clock, B: Ledger, const ON: bool>(
    sinks: &mut [Sink<'_, '_, L, C, B, ON>],
) -> Result<(), Failure> {
    let mut left: Vec<_> = sinks.iter_mut().collect();
    while !left.is_empty() {
        let mut index = 0;
        while index < left.len() {
            if left[index].step()? {
                left.swap_remove(index);
            } else {
                index += 1;
            }
        }
    }
    Ok(())
}

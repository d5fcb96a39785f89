//! Follower's loop under one-way patterns: it counts messages.

use super::ledger::Ledger;
use super::setting::LoopSetting;
use super::{Failure, TAKE_TIMEOUT_NS, Tap};
use crate::clock::Clock;
use crate::wire::Arrived;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Duration;
use tripmeter_abi::{Link, Message, Wait};

/// Time to wait for overtaken messages once the last message has come.
const OVERTAKEN_NS: u64 = 50_000_000;

pub struct Sink<'a, L, C, B, const ON: bool> {
    pub link: Tap<'a, L, ON>,
    pub clock: C,
    pub setting: LoopSetting<'a>,
    /// Longest sleep of one receive before it checks the flags.
    pub take_timeout_ns: u64,
    pub ledger: B,
    /// Tick at which the number of messages became known.
    told: Option<u64>,
}

impl<'a, L: Link, C: Clock, B: Ledger, const ON: bool> Sink<'a, L, C, B, ON> {
    pub fn new(link: Tap<'a, L, ON>, clock: C, setting: LoopSetting<'a>, ledger: B) -> Self {
        Self { link, clock, setting, take_timeout_ns: TAKE_TIMEOUT_NS, ledger, told: None }
    }

    /// Takes messages until all that the leader has sent have come, or no more come. Calls `listening` once no message
    /// can get lost.
    /// Fails if the transport fails.
    pub fn receive(&mut self, listening: impl FnOnce()) -> Result<Arrived, Failure> {
        if self.setting.wait == Wait::Callback {
            return self.run_called_back(listening);
        }
        listening();
        self.run()
    }

    #[inline(never)]
    fn run(&mut self) -> Result<Arrived, Failure> {
        while !self.step()? {}
        Ok(self.ledger.counts())
    }

    /// Takes the next message. True if there is none and the stream is over.
    #[inline(always)]
    pub fn step(&mut self) -> Result<bool, Failure> {
        let Some(message) = self.link.take(self.take_timeout_ns.min(self.setting.loss_timeout_ns))? else {
            return Ok(self.is_over());
        };
        self.ledger.arrived();
        self.ledger.count(&{ message }, self.setting.touch, || self.clock.now());
        self.link.release(message);
        Ok(false)
    }

    fn run_called_back(&mut self, listening: impl FnOnce()) -> Result<Arrived, Failure> {
        let handle = |sink: &mut Self, message: &Message| {
            sink.ledger.arrived();
            sink.link.seen(message);
            sink.ledger.count(message, sink.setting.touch, || sink.clock.now());
        };
        let LoopSetting { shared, inbox, .. } = self.setting;
        let pause = Duration::from_nanos(2 * self.take_timeout_ns);
        inbox.serve(self, handle, |turns| {
            listening();
            loop {
                turns.check()?;
                let ends = shared.stop.load(Relaxed) || shared.peer_gone.load(Relaxed);
                if ends && let Some(arrived) = turns.with(|sink| sink.is_over().then(|| sink.ledger.counts())) {
                    return Ok(arrived);
                }
                // The leader's end message unparks this thread.
                std::thread::park_timeout(if ends { Duration::from_millis(1) } else { pause });
            }
        })
    }

    /// True if the stream is over. Called when no message is waiting.
    #[inline(always)]
    fn is_over(&mut self) -> bool {
        if self.setting.shared.peer_gone.load(Relaxed) {
            return true;
        }
        self.setting.shared.stop.load(Acquire) && self.is_quiet()
    }

    #[cold]
    fn is_quiet(&mut self) -> bool {
        if self.ledger.is_complete() {
            return true;
        }
        let now = self.clock.now();
        let since = (*self.told.get_or_insert(now)).max(self.ledger.counts().latest.unwrap_or(0));
        let patience = if self.ledger.is_past() { OVERTAKEN_NS } else { self.setting.loss_timeout_ns };
        now.saturating_sub(since) as f64 >= patience as f64 * self.setting.timebase.ticks_per_ns()
    }
}

/// Takes the messages of several links in turns, by `poll`, until all of their streams are over.
#[inline(never)]
pub fn take_turns<L: Link, C: Clock, B: Ledger, const ON: bool>(
    sinks: &mut [Sink<'_, L, C, B, ON>],
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

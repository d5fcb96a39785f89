//! Loops of both sides under wait `callback`: the system's own thread handles messages.

use super::answers::{Answers, TripStep};
use super::echo;
pub use super::inbox::Inbox;
use super::setting::LoopSetting;
use super::stamps::Stamps;
use super::trips::{StoredSamples, Trips};
use super::{Failure, LoopEnd, Shared, Tap};
use crate::clock::Clock;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tripmeter_abi::{Link, Message};

/// Longest interval between checks by the main thread, however long an answer is awaited.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Leader's loop: the system's thread receives an answer, stamps it, and sends the next message.
struct Chain<'t, 'a, L, C, A, const ON: bool> {
    trips: &'t mut Trips<'a, L, C, A, ON>,
    samples: &'t mut [u64],
    stored: usize,
    previous: u64,
    deadline: u64,
    end: Option<Result<LoopEnd, Failure>>,
    /// True once the loop has ended; stays true after the main thread has taken `end`.
    is_over: bool,
    waiter: std::thread::Thread,
}

impl<L: Link, C: Clock, A: Answers, const ON: bool> Chain<'_, '_, L, C, A, ON> {
    fn finish(&mut self, end: Result<LoopEnd, Failure>) {
        (self.end, self.is_over) = (Some(end), true);
        self.waiter.unpark();
    }

    fn send(&mut self) {
        match self.trips.send() {
            Ok(true) => {}
            Ok(false) => self.unanswered(),
            Err(failure) => self.finish(Err(failure)),
        }
    }

    fn unanswered(&mut self) {
        match self.trips.give_up() {
            Ok(()) => self.next_row(),
            Err(failure) => self.finish(Err(failure)),
        }
    }

    #[cold]
    fn next_row(&mut self) {
        let now = self.trips.begin_row(self.stored);
        self.next(now);
    }

    /// Starts the next trip or ends the loop, after a trip that ended at `stamp`.
    fn next(&mut self, stamp: u64) {
        self.previous = stamp;
        if self.stored == self.samples.len() {
            self.finish(Ok(LoopEnd::Full));
        } else if stamp >= self.deadline {
            self.finish(Ok(LoopEnd::Deadline));
        } else {
            self.send();
        }
    }

    fn handle(&mut self, message: &Message) {
        self.trips.link.seen(message);
        let (sequence, length, touch) = (self.trips.state.sequence, self.trips.state.length, self.trips.setting.touch);
        if self.is_over {
            self.trips.state.answers.step(message, sequence + 1, length, touch);
            return;
        }
        match self.trips.state.answers.step(message, sequence, length, touch) {
            TripStep::Answered => {
                let stamp = self.trips.clock.now();
                self.samples[self.stored] = stamp - self.previous;
                self.stored += 1;
                self.next(stamp);
            }
            TripStep::Over => match self.trips.damaged(message.length) {
                Ok(_) => self.next_row(),
                Err(failure) => self.finish(Err(failure)),
            },
            TripStep::On => {}
        }
    }

    /// Checks for a stop, a lost peer and time-outs, from the main thread.
    fn watch(&mut self, shared: &Shared) {
        let now = self.trips.clock.now();
        if self.is_over {
        } else if shared.stop.load(Relaxed) || shared.is_capped(now) {
            self.trips.state.answers.abandon(self.trips.state.sequence);
            self.finish(Ok(shared.early_end()));
        } else if shared.peer_gone.load(Relaxed) {
            self.finish(Err(Failure::PeerGone));
        } else if now.saturating_sub(self.previous) >= self.trips.loss_timeout_ticks {
            self.unanswered();
        }
    }
}

/// Makes round trips as [`Trips::run`] does, under wait `callback`.
pub fn trips<L: Link, C: Clock, A: Answers, const ON: bool>(
    trips: &mut Trips<'_, L, C, A, ON>,
    samples: &mut [u64],
    deadline: u64,
) -> StoredSamples {
    if samples.is_empty() {
        return (0, Ok(LoopEnd::Full));
    }
    let LoopSetting { inbox, shared, .. } = trips.setting;
    let pause = Duration::from_nanos(trips.setting.loss_timeout_ns / 4).min(LONGEST_PAUSE);
    trips.state.rows.clear();
    let previous = trips.begin_row(0);
    let waiter = std::thread::current();
    let mut chain = Chain { trips, samples, stored: 0, previous, deadline, end: None, is_over: false, waiter };
    inbox.serve(&mut chain, Chain::handle, |turns| {
        turns.with(|chain| chain.send());
        loop {
            let ended = turns.with(|chain| {
                if let (false, Err(failure)) = (chain.is_over, turns.check()) {
                    chain.finish(Err(failure));
                }
                chain.watch(shared);
                chain.end.take().map(|end| (chain.stored, end))
            });
            match ended {
                Some(end) => return end,
                None => std::thread::park_timeout(pause),
            }
        }
    })
}

/// Drains as [`Trips::drain`] does, under wait `callback`.
pub fn drain<L: Link, C: Clock, A: Answers, const ON: bool>(trips: &mut Trips<'_, L, C, A, ON>) {
    let handle = |trips: &mut &mut Trips<'_, L, C, A, ON>, message: &Message| {
        trips.state.answers.step(message, trips.state.sequence + 1, trips.state.length, trips.setting.touch);
    };
    let (inbox, mut state) = (trips.setting.inbox, trips);
    inbox.serve(&mut state, handle, |_| std::thread::sleep(Duration::from_millis(5)));
}

/// Answers as [`echo::run`] does, under wait `callback`; calls `listening` once no message can get lost.
pub fn echo<L: Link, S: Stamps, const ON: bool>(
    link: &mut Tap<'_, L, ON>,
    setting: LoopSetting<'_>,
    stamps: &mut S,
    listening: impl FnOnce(),
) -> Result<(), Failure> {
    struct AnswerState<'a, 'w, L, S, const ON: bool> {
        link: &'a mut Tap<'w, L, ON>,
        setting: LoopSetting<'a>,
        stamps: &'a mut S,
        result: Result<(), Failure>,
    }
    let LoopSetting { inbox, shared, .. } = setting;
    let mut state = AnswerState { link, setting, stamps, result: Ok(()) };
    let handle = |state: &mut AnswerState<'_, '_, L, S, ON>, message: &Message| {
        state.link.seen(message);
        if state.result.is_ok() {
            let LoopSetting { loss_timeout_ns, touch, .. } = state.setting;
            state.result = echo::answer(state.link, message, loss_timeout_ns, touch, state.stamps);
        }
    };
    inbox.serve(&mut state, handle, |turns| {
        listening();
        let go_on = || !shared.stop.load(Relaxed) && !shared.peer_gone.load(Relaxed);
        while go_on() && turns.with(|state| state.result.is_ok()) {
            if let Err(failure) = turns.check() {
                turns.with(|state| state.result = Err(failure));
            }
            std::thread::park_timeout(Duration::from_millis(100));
        }
    });
    state.result
}

#[cfg(test)]
mod tests {
    #![expect(unsafe_code, reason = "a call as from the system's thread")]

    use super::*;
    use crate::clock::Timebase;
    use crate::measure::Tracker;
    use crate::measure::ledger::Single;
    use crate::measure::notes::NoNotes;
    use crate::measure::sink::Sink;
    use crate::measure::stamps::NoStamps;
    use crate::measure::trips::TripState;
    use crate::message::{Header, Kind, TouchLimit};
    use std::ptr::null_mut;
    use tripmeter_abi::Wait;
    use tripmeter_transport_inmem::{FakeClock, Script, scripted};

    struct Still;

    impl Clock for Still {
        fn now(&self) -> u64 {
            0
        }
    }

    fn setting<'a>(inbox: &'a Inbox, shared: &'a Shared) -> LoopSetting<'a> {
        let (timebase, touch, wait) = (Timebase::NANOSECONDS, TouchLimit::NONE, Wait::Callback);
        LoopSetting { timebase, touch, wait, loss_timeout_ns: 1, inbox, shared }
    }

    #[test]
    fn a_message_that_is_none_ends_every_loop() {
        let good = Message { data: [0_u8; 16].as_ptr(), length: 16, token: null_mut() };
        let no_data = Message { data: std::ptr::null(), ..good };
        let too_long = Message { length: usize::MAX, ..good };
        for bad in [std::ptr::null(), (&raw const good).wrapping_byte_add(1), &no_data, &too_long] {
            let inbox = Inbox::default();
            let callback = inbox.callback();
            // SAFETY: the inbox lives, and only messages are touched.
            unsafe { (callback.function)(callback.context, bad) };
            let link = || scripted(Script::new(Wait::Block, 0, &[]).unwrap(), FakeClock::default());
            let shared = Shared::default();
            let setting = setting(&inbox, &shared);
            let mut first = link();
            let state = TripState::begin(Tracker::default(), 0, 16);
            let (_, ended) = trips(&mut Trips::new(Tap::off(&mut first), Still, setting, state), &mut [0; 4], u64::MAX);
            let mut answering = link();
            let answered = echo(&mut Tap::off(&mut answering), setting, &mut NoStamps, || ());
            let mut counting = link();
            let ledger = Single::new(1, &shared, NoNotes);
            let counted = Sink::new(Tap::off(&mut counting), Still, setting, ledger).receive(|| ());
            for failure in [ended.unwrap_err(), answered.unwrap_err(), counted.unwrap_err()] {
                assert!(
                    failure.to_string().contains("`on_message` was called with a message that is NULL"),
                    "{failure}"
                );
            }
        }
    }

    #[test]
    fn an_answer_that_comes_after_the_end_begins_no_trip() {
        let script = Script::new(Wait::Block, 0, &[]).unwrap();
        let (mut link, shared) = (scripted(script, FakeClock::default()), Shared::default());
        let (inbox, state) = (Inbox::default(), TripState::begin(Tracker::default(), 0, 16));
        let mut trips = Trips::new(Tap::off(&mut link), Still, setting(&inbox, &shared), state);
        let (mut samples, waiter) = ([0; 4], std::thread::current());
        let (trips, samples, deadline) = (&mut trips, &mut samples[..], u64::MAX);
        let mut chain = Chain { trips, samples, stored: 0, previous: 0, deadline, end: None, is_over: false, waiter };
        chain.send();
        shared.stop.store(true, Relaxed);
        chain.watch(&shared);
        assert!(matches!(chain.end.take(), Some(Ok(LoopEnd::Stopped))));
        let header = Header::new(1, Kind::Pong, 16);
        chain.handle(&Message { data: (&raw const header).cast(), length: 16, token: null_mut() });
        assert_eq!((chain.trips.state.sequence, chain.stored), (1, 0));
        assert_eq!(
            (chain.trips.state.answers.abandoned(), chain.trips.state.answers.counts()),
            (1, Default::default())
        );
    }
}

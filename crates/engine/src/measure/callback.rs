//! Loops of both sides under wait `callback`: the system's own thread handles messages.
#![expect(unsafe_code, reason = "calls from the system's threads")]

use super::answers::{Answers, TripStep};
use super::echo;
use super::stamps::Stamps;
use super::trips::{StoredSamples, Trips};
use super::{Failure, LoopEnd, LoopSetting, Shared, Tap};
use crate::clock::Clock;
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;
use tripmeter_abi::{Callback, Link, Message};

/// Receiver of a link's messages: it drops them, or calls the handler of the current phase.
///
/// The system's thread and the main thread take turns by one atomic flag. The main thread takes it only to change handlers,
/// and a few times per loss time-out for checks. So the flag is normally free in the measured window.
#[derive(Default)]
pub struct Inbox {
    taken: AtomicBool,
    /// True once an invalid message came, which must not be touched.
    is_broken: AtomicBool,
    handler: UnsafeCell<Option<Handler>>,
}

type Handler = Box<dyn FnMut(&Message)>;

// SAFETY: `handler` is only touched by the holder of the turn (`taken`), one thread at a time.
unsafe impl Sync for Inbox {}
// SAFETY: handlers are made by `serve`, from state that may be used by one thread at a time.
unsafe impl Send for Inbox {}

impl Inbox {
    /// Function to give to a link, which the inbox must outlive.
    pub fn callback(&self) -> Callback {
        Callback { function: deliver, context: (&raw const *self).cast_mut().cast() }
    }

    fn turn<R>(&self, work: impl FnOnce(&mut Option<Handler>) -> R) -> R {
        while self.taken.compare_exchange_weak(false, true, Acquire, Relaxed).is_err() {
            std::thread::yield_now();
        }
        let _given_back = GiveBack(&self.taken);
        // SAFETY: this thread holds the turn.
        work(unsafe { &mut *self.handler.get() })
    }

    /// Handles messages with `handle` while `wait` runs in this thread; both get `state`, one at a time.
    pub fn serve<S, R>(
        &self,
        state: &mut S,
        handle: fn(&mut S, &Message),
        wait: impl FnOnce(&HandlerTurns<'_, S>) -> R,
    ) -> R {
        let state: *mut S = state;
        let handler: Box<dyn FnMut(&Message) + '_> = Box::new(move |message| {
            // SAFETY: the handler runs in its turn only, and is removed before `state`'s borrow ends.
            handle(unsafe { &mut *state }, message);
        });
        // SAFETY: only the lifetime changes; the handler is removed below, before this function returns, on unwinding too.
        let handler: Handler = unsafe { std::mem::transmute(handler) };
        self.turn(|slot| *slot = Some(handler));
        let _removed_at_the_end = RemoveHandler(self);
        wait(&HandlerTurns { inbox: self, state })
    }
}

/// Guard that returns the turn even if a panic crosses it: removing the handler takes the turn again.
struct GiveBack<'a>(&'a AtomicBool);

impl Drop for GiveBack<'_> {
    fn drop(&mut self) {
        self.0.store(false, Release);
    }
}

struct RemoveHandler<'a>(&'a Inbox);

impl Drop for RemoveHandler<'_> {
    fn drop(&mut self) {
        self.0.turn(|slot| *slot = None);
    }
}

/// Access of the waiting thread to the state of a handler.
pub struct HandlerTurns<'a, S> {
    inbox: &'a Inbox,
    state: *mut S,
}

impl<S> HandlerTurns<'_, S> {
    /// Runs `work` on the state while no message is handled.
    pub fn with<R>(&self, work: impl FnOnce(&mut S) -> R) -> R {
        // SAFETY: the state is used by the holder of the turn only.
        self.inbox.turn(|_| work(unsafe { &mut *self.state }))
    }

    /// Fails if an invalid message came.
    pub fn check(&self) -> Result<(), Failure> {
        const WHY: &str = "`on_message` was called with a message that is NULL or misaligned, or whose data is NULL";
        let is_broken = self.inbox.is_broken.load(Relaxed);
        if is_broken { Err(tripmeter_abi::Error::failed(WHY).into()) } else { Ok(()) }
    }
}

unsafe extern "C" fn deliver(context: *mut c_void, message: *const Message) {
    // SAFETY: the context is an inbox that outlives its link.
    let inbox = unsafe { &*context.cast::<Inbox>() };
    if message.is_null() || !message.is_aligned() {
        return inbox.is_broken.store(true, Relaxed);
    }
    // SAFETY: the message is neither NULL nor misaligned, and valid during the call.
    let message = unsafe { &*message };
    if message.data.is_null() || message.length > isize::MAX as usize {
        return inbox.is_broken.store(true, Relaxed);
    }
    inbox.turn(|slot| {
        if let Some(handler) = slot {
            handler(message);
        }
    });
}

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
    /// True once answers belong to no trip, even after the main thread has taken `end`.
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

    /// Goes on after a trip that ended at `stamp`.
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
            // SAFETY: the inbox lives, and what is no message is not touched.
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
    fn a_panic_gives_the_turn_back() {
        let inbox = Inbox::default();
        let panics =
            std::panic::AssertUnwindSafe(|| inbox.serve(&mut (), |(), _| (), |turns| turns.with(|()| panic!("meant"))));
        assert!(std::panic::catch_unwind(panics).is_err());
        assert!(!inbox.taken.load(Relaxed));
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

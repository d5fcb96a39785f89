//! Leader's loop of one client under pattern `call`: it calls, waits for the answer, and calls again.

use super::answers::{Answers, TripStep};
use super::inbox::HandlerTurns;
use super::notes::{DAMAGED, NEVER};
use super::publish::{Rest, Sending, Timetable, await_due};
use super::trips::{Trip, Trips};
use super::{Failure, LoopEnd, MOST_SILENT, Shared, TAKE_TIMEOUT_NS, Tracker};
use crate::clock::Clock;
use crate::memory::{OutOfMemory, filled};
use std::sync::atomic::Ordering::Relaxed;
use std::thread::Thread;
use std::time::Duration;
use tripmeter_abi::{Link, Message, Status};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// Tick at which the intact answer arrived.
    Answered(u64),
    /// Neither answer nor error came in time, or the transport did not take the request.
    TimedOut,
    /// The transport failed, or the answer was damaged.
    Failed,
    Stopped,
}

/// Calls of a client and their outcomes, in order.
#[derive(Debug)]
pub struct Made {
    /// Tick at which each call began.
    pub sent: Vec<u64>,
    /// Tick at which each answer arrived; [`NEVER`] if the call did not succeed.
    pub answered: Vec<u64>,
    /// [`DAMAGED`] for each failed call, else 0.
    pub marks: Vec<u8>,
    /// Tick at which the last call ended.
    pub until: u64,
}

impl Made {
    pub fn new(calls: u64) -> Result<Self, OutOfMemory> {
        let times = || filled(NEVER, calls, "times of calls");
        Ok(Self { sent: times()?, answered: times()?, marks: filled(0, calls, "marks of calls")?, until: 0 })
    }

    pub fn truncate(&mut self, calls: usize) {
        self.sent.truncate(calls);
        self.answered.truncate(calls);
        self.marks.truncate(calls);
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Called {
    pub calls: usize,
    /// Reason why no more calls were made.
    pub end: LoopEnd,
    /// Answers that came after the end of their call.
    pub late: u64,
    pub duplicated: u64,
    pub sequence: u64,
}

/// Calls that one client has to make.
#[derive(Clone, Copy)]
pub struct CallPlan<'a, T, R> {
    /// Due time and request length of each call. With a period of 0, each call is due when the previous one has ended.
    pub times: T,
    pub rest: R,
    /// Bytes of each request, unless `times` has lengths.
    pub length: usize,
    /// Sequence number of the latest call.
    pub sequence: u64,
    /// No call begins at this tick or later.
    pub deadline: u64,
    pub sending: &'a Sending,
    /// Called when all calls have ended, and only late answers may still come.
    pub draining: &'a (dyn Fn() + Sync),
}

impl<'a, T, R> CallPlan<'a, T, R> {
    /// Replaces the times by a timetable type, for which the loop is compiled.
    pub fn at<S>(self, times: S) -> CallPlan<'a, S, R> {
        let Self { rest, length, sequence, deadline, sending, draining, .. } = self;
        CallPlan { times, rest, length, sequence, deadline, sending, draining }
    }
}

pub struct Client<'a, C, T, R> {
    pub clock: C,
    pub shared: &'a Shared,
    pub calls: CallPlan<'a, T, R>,
}

impl<C: Clock, T: Timetable, R: Rest> Client<'_, C, T, R> {
    /// Makes one call per place in `made`, each when it is due and the previous one has ended. `call` gets its start
    /// tick and length. Ends early at the deadline, or if the user has asked to stop. Returns the number of calls.
    /// Fails if `call` fails, or the other side has gone.
    #[inline(never)]
    pub fn run(
        &mut self,
        made: &mut Made,
        mut call: impl FnMut(u64, usize) -> Result<CallEnd, Failure>,
    ) -> Result<(usize, LoopEnd), Failure> {
        let deadline = self.calls.deadline;
        for index in 0..made.sent.len() {
            let due = self.calls.times.due(index);
            if due >= deadline {
                return Ok((index, LoopEnd::Deadline));
            }
            if !await_due(due, &self.clock, &self.calls.rest, self.shared)? {
                return Ok((index, LoopEnd::Stopped));
            }
            let begun = self.clock.now();
            if begun >= deadline {
                return Ok((index, LoopEnd::Deadline));
            }
            self.calls.sequence += 1;
            self.calls.sending.begin(self.calls.sequence);
            made.sent[index] = begun;
            let ended = call(begun, self.calls.times.length(index, self.calls.length))?;
            self.calls.sending.end(self.calls.sequence);
            match ended {
                CallEnd::Answered(stamp) => {
                    (made.answered[index], made.until) = (stamp, stamp);
                    continue;
                }
                CallEnd::Failed => made.marks[index] = DAMAGED,
                CallEnd::TimedOut => {}
                CallEnd::Stopped => return Ok((index, LoopEnd::Stopped)),
            }
            made.until = self.clock.now();
        }
        Ok((made.sent.len(), LoopEnd::Full))
    }
}

impl<C, T, R> Client<'_, C, T, R> {
    /// Number of calls made until `failure` ended [`Client::run`]. A call under way is marked as lost if nobody was
    /// left to answer, else as failed.
    pub fn broken(&self, made: &mut Made, failure: &Failure) -> usize {
        let calls = made.sent.iter().take_while(|sent| **sent != NEVER).count();
        let is_under_way = self.calls.sending.shown().is_sending();
        if let Some(last) = calls.checked_sub(1).filter(|_| is_under_way) {
            let is_lost = matches!(failure, Failure::Silent { .. } | Failure::Full { .. } | Failure::PeerGone);
            made.marks[last] = if is_lost { 0 } else { DAMAGED };
            made.until = made.until.max(made.sent[last]);
        }
        calls
    }
}

impl<L: Link, C: Clock> Trips<'_, L, C, Tracker, false> {
    /// Makes one call under wait `poll` or `block`.
    /// Fails if the link is closed, or [`MOST_SILENT`] calls in a row did not succeed.
    #[inline(always)]
    pub fn call(&mut self, begun: u64) -> Result<CallEnd, Failure> {
        match self.trip(begun) {
            Ok(Trip::Answered) => Ok(CallEnd::Answered(self.clock.now())),
            Ok(Trip::Unanswered) => Ok(CallEnd::TimedOut),
            Ok(Trip::Damaged) => Ok(CallEnd::Failed),
            Ok(Trip::Stopped) => {
                self.state.answers.abandon(self.state.sequence);
                Ok(CallEnd::Stopped)
            }
            Err(failure) => self.failed(failure),
        }
    }

    /// Counts a failed call. Fails if the link is closed, or too many calls in a row did not succeed.
    #[cold]
    fn failed(&mut self, failure: Failure) -> Result<CallEnd, Failure> {
        let is_call = matches!(&failure, Failure::Transport(error) if error.status != Status::Closed);
        if !is_call || self.state.answers.give_up(self.state.sequence) >= MOST_SILENT {
            return Err(failure);
        }
        Ok(CallEnd::Failed)
    }
}

/// Client whose answers come in the system's own thread.
struct CalledBack<'t, 'w, L, C> {
    trips: &'t mut Trips<'w, L, C, Tracker, false>,
    is_awaited: bool,
    ended: Option<Result<CallEnd, Failure>>,
    waiter: Thread,
}

impl<L: Link, C: Clock> CalledBack<'_, '_, L, C> {
    fn handle(&mut self, message: &Message) {
        let (sequence, length, touch) = (self.trips.state.sequence, self.trips.state.length, self.trips.setting.touch);
        if !self.is_awaited {
            self.trips.state.answers.step(message, sequence + 1, length, touch);
            return;
        }
        let ended = match self.trips.state.answers.step(message, sequence, length, touch) {
            TripStep::Answered => Ok(CallEnd::Answered(self.trips.clock.now())),
            TripStep::Over => self.trips.damaged(message.length).map(|_| CallEnd::Failed),
            TripStep::On => return,
        };
        (self.is_awaited, self.ended) = (false, Some(ended));
        self.waiter.unpark();
    }

    /// Sends a request. Returns `None` if its end must be waited for.
    fn send<T: Timetable>(&mut self, length: usize) -> Result<Option<CallEnd>, Failure> {
        if T::HAS_LENGTHS {
            self.trips.state.length = length;
        }
        (self.is_awaited, self.ended) = (true, None);
        let ended = match self.trips.send() {
            Ok(true) => return Ok(None),
            Ok(false) if matches!(self.trips.unsent()?, Trip::Stopped) => self.stop(),
            Ok(false) => CallEnd::TimedOut,
            Err(failure) => self.trips.failed(failure)?,
        };
        self.is_awaited = false;
        Ok(Some(ended))
    }

    fn stop(&mut self) -> CallEnd {
        self.trips.state.answers.abandon(self.trips.state.sequence);
        self.is_awaited = false;
        CallEnd::Stopped
    }

    /// Checks on the call from the client's thread.
    fn look(&mut self, begun: u64) -> Result<Option<CallEnd>, Failure> {
        if let Some(ended) = self.ended.take() {
            return ended.map(Some);
        }
        let shared = self.trips.setting.shared;
        if shared.stop.load(Relaxed) {
            return Ok(Some(self.stop()));
        }
        if shared.peer_gone.load(Relaxed) {
            return Err(Failure::PeerGone);
        }
        if self.trips.clock.now().saturating_sub(begun) < self.trips.loss_timeout_ticks {
            return Ok(None);
        }
        self.is_awaited = false;
        self.trips.give_up()?;
        Ok(Some(CallEnd::TimedOut))
    }
}

/// Runs `work` with a function that makes one call as [`Trips::call`] does, under wait `callback`. Then takes late answers
/// for 5 ms.
pub fn called_back<L: Link, C: Clock, T: Timetable, O>(
    trips: &mut Trips<'_, L, C, Tracker, false>,
    work: impl FnOnce(&mut dyn FnMut(u64, usize) -> Result<CallEnd, Failure>) -> Result<O, Failure>,
) -> Result<O, Failure> {
    const QUIET: Duration = Duration::from_millis(5);
    let pause = Duration::from_nanos(TAKE_TIMEOUT_NS.min(trips.setting.loss_timeout_ns / 4));
    let waiter = std::thread::current();
    let mut state = CalledBack { trips, is_awaited: false, ended: None, waiter };
    let inbox = state.trips.setting.inbox;
    inbox.serve(&mut state, CalledBack::handle, |turns: &HandlerTurns<'_, CalledBack<'_, '_, L, C>>| {
        let done = work(&mut |begun, length| {
            if let Some(ended) = turns.with(|state| state.send::<T>(length))? {
                return Ok(ended);
            }
            loop {
                turns.check()?;
                match turns.with(|state| state.look(begun))? {
                    Some(ended) => return Ok(ended),
                    None => std::thread::park_timeout(pause),
                }
            }
        });
        std::thread::sleep(QUIET);
        done
    })
}

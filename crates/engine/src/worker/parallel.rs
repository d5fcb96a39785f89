//! Leader's threads that measure in parallel: their start, and their supervision until all have ended.

use super::leader::Leader;
use super::patience::{FollowerPatience, SIGN_OF_LIFE};
use super::pool::{ThreadPool, Window};
use super::{Error, Result};
use crate::lanes::Ended;
use crate::measure::publish::{Sending, Shown};
use crate::measure::{Failure, TAKE_TIMEOUT_NS};
use crate::os;
use crate::wire::{Arrived, Begin, FromLeader, Report, ToFollower, WRITING};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread::Builder;
use std::time::{Duration, Instant};
use tripmeter_abi::{Wait, panicked};
use tripmeter_model::used::Used;

/// Time from the start of the threads to the first due message, plus the wake-up time of each.
const START_NS: u64 = 5_000_000;
/// Time to wake a thread.
const WAKE_NS: u64 = 50_000;
/// Interval between interruptions of a thread that only listens for late messages.
const DRAINING: Duration = Duration::from_millis(2);
/// Interval between interruptions of a thread that must end.
const STOPPING: Duration = Duration::from_nanos(TAKE_TIMEOUT_NS);

pub(super) struct Parallel<R> {
    /// Tick at which the first message was due.
    pub begin: u64,
    pub used: Used,
    /// Result of each thread; `None` if it was not begun.
    pub ended: Vec<Option<R>>,
    /// Failure of a thread, which ended the others too.
    pub failure: Option<Failure>,
}

/// Reports of the followers on the messages sent.
pub(super) struct FollowerSide {
    /// Arrivals at each follower; `None` if it can no longer report.
    pub arrived: Vec<Option<Vec<Arrived>>>,
    pub used: Used,
    pub broken: Option<Error>,
}

impl Leader {
    /// Runs each of the works in a thread of the pool once the followers, which get `begin`, are ready. All start at one tick,
    /// which they are given, and are stopped at tick `capped`.
    pub(super) fn run_parallel<W, R>(
        &mut self,
        pool: &ThreadPool,
        sending: &[Sending],
        begin: Begin,
        works: Vec<W>,
        capped: u64,
    ) -> Result<Parallel<R>>
    where
        W: FnOnce(u64) -> Ended<R> + Send,
        R: Send,
    {
        let (base, start, count) = (self.job.timebase, &AtomicU64::new(0), works.len() as u64);
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for (index, work) in works.into_iter().enumerate() {
                let member = pool.register();
                let run = move || {
                    member.begin(index);
                    let begin = await_start(start, pool, index);
                    let made = begin.map(work);
                    sending[index].rest();
                    if made.as_ref().is_some_and(|(_, ended)| ended.is_err()) {
                        pool.stop();
                    }
                    made
                };
                match Builder::new().name(format!("link-{index}")).spawn_scoped(scope, run) {
                    Ok(thread) => threads.push(thread),
                    Err(error) => {
                        pool.stop();
                        return Err(Error::of("a thread for each link cannot be started", error));
                    }
                }
            }
            if let Err(error) = self.controls.ask_all(&ToFollower::Begin(begin)) {
                pool.stop();
                return Err(error);
            }
            let window = Window::open();
            let begin = base.now() + base.to_ticks(START_NS + WAKE_NS * count);
            start.store(begin, Release);
            threads.iter().for_each(|thread| thread.thread().unpark());
            // A follower in this process has scheduled all of its threads by now.
            let _aside = os::step_aside(self.job.sub_experiment.sched);
            self.look_after(pool, sending, capped);
            let used = window.close();
            let (mut ended, mut failure) = (Vec::new(), None);
            for thread in threads {
                let made = thread.join().map_err(|panic| Error::Failed(panicked("a measuring thread", &*panic)))?;
                let (made, result) = made.map_or((None, Ok(())), |(made, result)| (Some(made), result));
                ended.push(made);
                failure = failure.or(result.err());
            }
            Ok(Parallel { begin, used, ended, failure })
        })
    }

    /// Watches the threads until all have ended; from tick `capped` on it stops them.
    fn look_after(&mut self, pool: &ThreadPool, sending: &[Sending], capped: u64) {
        let by_signal = self.job.sub_experiment.wait == Wait::Block && self.shared.interrupt.load(Relaxed);
        let overdue = SIGN_OF_LIFE.min(Duration::from_nanos(self.job.loss_timeout_ns) / 2);
        let standing = Duration::from_nanos(self.job.loss_timeout_ns) + overdue;
        let mut seen = vec![Shown::default(); sending.len()];
        // Last state of each thread, and when it was first seen.
        let mut lives = vec![((Shown::default(), 0), Instant::now()); sending.len()];
        let (mut looked, mut told) = (Instant::now(), Instant::now());
        let (base, mut stopped) = (self.job.timebase, false);
        while pool.is_running() {
            let is_draining = sending.iter().any(|sending| sending.shown().is_draining());
            let left = Duration::from_nanos(base.to_ns(capped.saturating_sub(base.now())));
            std::thread::park_timeout(match (is_draining, stopped) {
                (true, _) => DRAINING,
                (false, true) => STOPPING,
                (false, false) => overdue.min(left),
            });
            stopped = self.shared.stop.load(Relaxed) || base.now() >= capped;
            if stopped {
                pool.stop();
            }
            if self.shared.peer_gone.load(Relaxed) {
                pool.orphan();
            }
            for ((sending, shared), life) in sending.iter().zip(&pool.shared).zip(&mut lives) {
                let now = (sending.shown(), shared.sequence.load(Relaxed));
                if now != life.0 || !now.0.is_busy() {
                    *life = (now, Instant::now());
                }
            }
            // One stalled thread withholds the signs of life of all.
            let is_alive = lives.iter().all(|life| life.1.elapsed() < standing);
            if is_alive && told.elapsed() >= SIGN_OF_LIFE {
                let moves = lives.iter().map(|life| life.0.0.number()).fold(0, u64::wrapping_add);
                self.controls.report(&FromLeader::Progress { samples: 0, moves });
                told = Instant::now();
            }
            let drained = sending.iter().enumerate().filter(|(_, sending)| sending.shown().is_draining());
            drained.for_each(|(thread, _)| pool.interrupt(thread, by_signal));
            if looked.elapsed() < overdue && !stopped {
                continue;
            }
            looked = Instant::now();
            for (thread, (sending, seen)) in sending.iter().zip(&mut seen).enumerate() {
                let now = sending.shown();
                if now.is_busy() && now == *seen {
                    pool.interrupt(thread, by_signal);
                }
                *seen = now;
            }
        }
    }

    /// Sends the followers the number of the last message over each link, and reads their reports. After a failure, these have
    /// what was noted until then, if a follower can still report.
    pub(super) fn recv_arrived(&mut self, last: Vec<u64>, failure: Option<Failure>) -> FollowerSide {
        let sent = ToFollower::End { last };
        let followers = self.controls.followers();
        let mut side = FollowerSide { arrived: Vec::new(), used: Used::NOTHING, broken: None };
        if failure.is_none() {
            side.broken = self.controls.send_all(&sent).err();
        } else {
            // Results are saved, whoever has ended; the last report of a failed follower is still to be read.
            self.controls.report(&FromLeader::Phase(WRITING.to_owned()));
            (0..followers).for_each(|follower| drop(self.controls.try_send(follower, &sent)));
        }
        let has_failed = failure.is_some() || side.broken.is_some();
        let patience = if has_failed { FollowerPatience::taking_after_failure } else { FollowerPatience::taking };
        for follower in 0..followers {
            match self.controls.recv_report(follower, patience(self.job.loss_timeout_ns)) {
                Ok(Report { arrived, used, failed, .. }) => {
                    side.arrived.push(Some(arrived));
                    side.used = side.used.beside(used);
                    if let Some(why) = failed.filter(|_| side.broken.is_none()) {
                        let who = self.controls.who(follower as usize);
                        side.broken = Some(self.controls.failed(&format!("{who} failed: {why}")));
                    }
                }
                Err(error) => {
                    side.arrived.push(None);
                    if failure.is_none() {
                        side.broken.get_or_insert(error);
                    }
                }
            }
        }
        if let Some(failure) = failure.filter(|_| side.broken.is_none()) {
            side.broken = Some(self.controls.diagnose(failure));
        }
        side
    }
}

/// Sleeps until all threads may start; `None` if they must not.
fn await_start(start: &AtomicU64, pool: &ThreadPool, thread: usize) -> Option<u64> {
    loop {
        match start.load(Acquire) {
            _ if pool.shared[thread].stop.load(Relaxed) => return None,
            0 => std::thread::park_timeout(Duration::from_secs(1)),
            begin => return Some(begin),
        }
    }
}

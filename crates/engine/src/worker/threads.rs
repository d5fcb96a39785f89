//! Leader's threads that measure in parallel: their start, and their supervision until all have ended.

use super::leader::Leader;
use super::leg::{ReadyLeg, RunningLeg};
use super::patience::SIGN_OF_LIFE;
use super::pool::ThreadPool;
use super::{Error, Result};
use crate::lanes::Ended;
use crate::measure::publish::{Sending, Shown};
use crate::measure::{Failure, LoopEnd, TAKE_TIMEOUT_NS};
use crate::os;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread::Builder;
use std::time::{Duration, Instant};
use tripmeter_abi::{Wait, panicked};
use tripmeter_model::cut_short::CutShort;
use tripmeter_model::used::Used;

/// Time from the start of the threads to the first due message, plus the wake-up time of each.
const START_NS: u64 = 5_000_000;
/// Time to wake a thread.
const WAKE_NS: u64 = 50_000;
/// Longest wait of a thread for its turn on a busy CPU, per other thread.
const TURN: Duration = Duration::from_millis(50);
/// Interval between interruptions of a thread that only listens for late messages.
const DRAINING: Duration = Duration::from_millis(2);
/// Interval between interruptions of a thread that must end.
const STOPPING: Duration = Duration::from_nanos(TAKE_TIMEOUT_NS);

pub(super) type LinkWork<'a> = Box<dyn FnOnce(u64) -> Ended<LinkEnd> + Send + 'a>;

/// End of the messages or calls of one link.
#[derive(Clone, Copy)]
pub(super) struct LinkEnd {
    pub count: usize,
    pub end: LoopEnd,
    pub refused: u64,
    /// Answers that came after the end of their call.
    pub late: u64,
    pub duplicated: u64,
    /// Number of the last message.
    pub sequence: u64,
}

pub(super) struct Parallel {
    /// Tick at which the first message was due.
    pub begin: u64,
    pub used: Option<Used>,
    pub cut: Option<CutShort>,
    /// End of each thread; `None` if it did not begin.
    pub ended: Vec<Option<LinkEnd>>,
    /// Failure of a thread, which ended the others too.
    pub failure: Option<Failure>,
}

/// Runs each of `works` in a thread of the pool once the followers are ready. All get the same start tick, and are
/// stopped when the leg is over.
pub(super) fn run_parallel(
    leader: &mut Leader,
    ready: ReadyLeg,
    pool: &ThreadPool,
    sending: &[Sending],
    works: Vec<LinkWork<'_>>,
) -> Result<Parallel> {
    let (base, start, count) = (leader.job.timebase, &AtomicU64::new(0), works.len() as u64);
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
                    return Err(Error::failed("a thread for each link cannot be started", error));
                }
            }
        }
        let mut running = ready.begin(leader).inspect_err(|_| pool.stop())?;
        let begin = base.now() + base.to_ticks(START_NS + WAKE_NS * count);
        start.store(begin, Release);
        threads.iter().for_each(|thread| thread.thread().unpark());
        // A follower in this process has scheduled all of its threads by now.
        let _aside = os::step_aside(leader.job.sub_experiment.sched);
        look_after(leader, &mut running, pool, sending);
        let (mut ended, mut failure) = (Vec::new(), None);
        let (used, cut) = running.end(leader);
        for thread in threads {
            let made = thread.join().map_err(|panic| Error::Failed(panicked("a measuring thread", &*panic)))?;
            let (made, result) = made.map_or((None, Ok(())), |(made, result)| (Some(made), result));
            ended.push(made);
            failure = failure.or(result.err());
        }
        // Threads that did not end by themselves were stopped by the user, or because their time was over.
        let is_full = ended.iter().all(|end| end.is_some_and(|end| end.end == LoopEnd::Full));
        let early = || match leader.shared.early_end() {
            LoopEnd::Stopped => CutShort::Interrupted,
            _ => CutShort::at_cap(leader.job.sub_experiment.time_cap_ns),
        };
        let cut = (!is_full).then(|| cut.unwrap_or_else(early));
        Ok(Parallel { begin, used, cut, ended, failure })
    })
}

/// Watches the threads until all have ended; stops them once the leg is over.
fn look_after(leader: &mut Leader, running: &mut RunningLeg, pool: &ThreadPool, sending: &[Sending]) {
    let by_signal = leader.job.sub_experiment.wait == Wait::Block && leader.shared.interrupt.load(Relaxed);
    let loss_timeout = Duration::from_nanos(leader.job.loss_timeout_ns);
    let overdue = SIGN_OF_LIFE.min(loss_timeout / 2);
    // With many threads on few CPUs, each waits for its turn.
    let standing = loss_timeout + overdue + TURN * sending.len() as u32;
    let mut seen = vec![(Shown::default(), 0); sending.len()];
    // Last state of each thread, and when it was first seen.
    let mut lives = vec![((Shown::default(), 0), Instant::now()); sending.len()];
    let (mut looked, mut stopped) = (Instant::now(), false);
    while pool.is_running() {
        let is_draining = sending.iter().any(|sending| sending.shown().is_draining());
        std::thread::park_timeout(match (is_draining, stopped) {
            (true, _) => DRAINING,
            (false, true) => STOPPING,
            (false, false) => running.pause(leader, overdue),
        });
        stopped = running.is_over(leader);
        if stopped {
            pool.stop();
        }
        if leader.shared.peer_gone.load(Relaxed) {
            pool.orphan();
        }
        for ((sending, shared), life) in sending.iter().zip(&pool.shared).zip(&mut lives) {
            let now = (sending.shown(), shared.sequence.load(Relaxed));
            if now != life.0 || !now.0.is_busy() {
                *life = (now, Instant::now());
            }
        }
        // One stalled thread withholds the signs of life of all.
        if lives.iter().all(|life| life.1.elapsed() < standing) {
            let moves = lives.iter().map(|((shown, sequence), _)| shown.number().max(*sequence));
            let moves = moves.fold(0, u64::wrapping_add);
            running.sign_of_life(leader, 0, moves);
        }
        let drained = sending.iter().enumerate().filter(|(_, sending)| sending.shown().is_draining());
        drained.for_each(|(thread, _)| pool.interrupt(thread, by_signal));
        if looked.elapsed() < overdue && !stopped {
            continue;
        }
        looked = Instant::now();
        for (thread, ((sending, shared), seen)) in sending.iter().zip(&pool.shared).zip(&mut seen).enumerate() {
            let now = (sending.shown(), shared.sequence.load(Relaxed));
            if now.0.is_busy() && now == *seen {
                pool.interrupt(thread, by_signal);
            }
            *seen = now;
        }
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

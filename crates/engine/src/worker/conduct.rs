//! The leader's threads that measure beside each other: their start, and what happens until all have ended.

use super::crew::{Crew, Window};
use super::leader::Leader;
use super::load::{LONGEST_TAKING, SIGN_OF_LIFE};
use super::{Error, Result};
use crate::control::{FromFollower, FromLeader, ToFollower};
use crate::measure::Failure;
use crate::measure::arrivals::Arrived;
use crate::measure::publish::Sending;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread::Builder;
use std::time::{Duration, Instant};
use tripmeter_abi::Wait;
use tripmeter_model::channel::Used;

/// From the start of the threads until the first message is due, besides what each thread needs.
const START_NS: u64 = 5_000_000;
/// What each thread needs to be woken.
const WAKE_NS: u64 = 50_000;
/// Between two interruptions of a thread that only listens for what still comes.
const DRAINING: Duration = Duration::from_millis(2);

/// What the threads have done.
pub(super) struct Conducted<R> {
    /// When the first message was due, in ticks.
    pub begin: u64,
    /// What the process used meanwhile.
    pub used: Used,
    /// What each thread made of it; `None` if it was not begun any more.
    pub ended: Vec<Option<R>>,
}

impl Leader {
    /// Runs each of the works in a thread of the crew once the follower is ready, which is told `ready`; all begin at a tick
    /// that they are told.
    pub(super) fn conduct<W, R>(
        &mut self,
        crew: &Crew,
        sending: &[Sending],
        ready: &ToFollower,
        works: Vec<W>,
    ) -> Result<Conducted<R>>
    where
        W: FnOnce(u64) -> std::result::Result<R, Failure> + Send,
        R: Send,
    {
        let (base, start, count) = (self.job.timebase, &AtomicU64::new(0), works.len() as u64);
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for (index, work) in works.into_iter().enumerate() {
                let member = crew.hire();
                let run = move || {
                    member.begin(index);
                    let begin = await_start(start, crew, index);
                    begin.map(work).transpose().inspect_err(|_| crew.stop())
                };
                match Builder::new().name(format!("link-{index}")).spawn_scoped(scope, run) {
                    Ok(thread) => threads.push(thread),
                    Err(error) => {
                        crew.stop();
                        return Err(Error::of("a thread for each link cannot be started", error));
                    }
                }
            }
            if let Err(error) = self.ask_ready(ready) {
                crew.stop();
                return Err(error);
            }
            let window = Window::open();
            let begin = base.now() + base.to_ticks(START_NS + WAKE_NS * count);
            start.store(begin, Release);
            threads.iter().for_each(|thread| thread.thread().unpark());
            self.look_after(crew, sending);
            let used = window.close();
            let ended: Vec<std::result::Result<Option<R>, Failure>> = threads
                .into_iter()
                .map(|thread| thread.join().map_err(|_| Error::Failed("a measuring thread panicked".to_owned())))
                .collect::<Result<_>>()?;
            let ended: std::result::Result<Vec<_>, Failure> = ended.into_iter().collect();
            Ok(Conducted { begin, used, ended: ended.map_err(|failure| self.blame(failure))? })
        })
    }

    /// Looks after the threads until all have ended.
    fn look_after(&mut self, crew: &Crew, sending: &[Sending]) {
        let by_signal = self.job.sub_experiment.wait == Wait::Block && self.shared.interrupt.load(Relaxed);
        let overdue = SIGN_OF_LIFE.min(Duration::from_nanos(self.job.loss_timeout_ns) / 2);
        let mut seen = vec![0; sending.len()];
        let (mut looked, mut told) = (Instant::now(), Instant::now());
        while crew.is_running() {
            let draining = |sending: &&Sending| sending.0.load(Relaxed) == Sending::DRAINING;
            let is_draining = sending.iter().any(|sending| draining(&sending));
            std::thread::park_timeout(if is_draining { DRAINING } else { overdue });
            let stopped = self.shared.stop.load(Relaxed);
            if stopped {
                crew.stop();
            }
            if self.shared.peer_gone.load(Relaxed) {
                crew.orphan();
            }
            if told.elapsed() >= SIGN_OF_LIFE {
                self.report(&FromLeader::Progress { samples: 0 });
                told = Instant::now();
            }
            let drained = sending.iter().enumerate().filter(|(_, sending)| draining(sending));
            drained.for_each(|(thread, _)| crew.interrupt(thread, by_signal));
            if looked.elapsed() < overdue && !stopped {
                continue;
            }
            looked = Instant::now();
            for (thread, (sending, seen)) in sending.iter().zip(&mut seen).enumerate() {
                let now = sending.0.load(Relaxed);
                if now != 0 && now == *seen {
                    crew.interrupt(thread, by_signal);
                }
                *seen = now;
            }
        }
    }

    /// Tells the follower the number of the last message over each link, and hears what has come of them.
    pub(super) fn hear_received(&mut self, last: Vec<u64>) -> Result<(Vec<Arrived>, Used)> {
        self.tell(&ToFollower::Sent { last })?;
        let deadline = Instant::now() + LONGEST_TAKING + Duration::from_nanos(self.job.loss_timeout_ns);
        loop {
            match self.hear_within(0, SIGN_OF_LIFE)? {
                Some(FromFollower::Received { arrived, used }) => return Ok((arrived, used)),
                Some(_) => return Err(Error::Failed("the follower's messages are out of order".to_owned())),
                None if Instant::now() > deadline => {
                    let seconds = LONGEST_TAKING.as_secs();
                    let why = format!("the follower was still taking messages {seconds} s after the last was sent");
                    return Err(Error::Failed(why));
                }
                None => self.report(&FromLeader::Progress { samples: 0 }),
            }
        }
    }
}

/// Sleeps until all threads may start; `None` if they are not to.
fn await_start(start: &AtomicU64, crew: &Crew, thread: usize) -> Option<u64> {
    loop {
        match start.load(Acquire) {
            _ if crew.shared[thread].stop.load(Relaxed) => return None,
            0 => std::thread::park_timeout(Duration::from_secs(1)),
            begin => return Some(begin),
        }
    }
}

//! Follower that serves all links: with a thread for each, one thread that polls them in turns, or one thread for all
//! publishers of a topic.

use super::follower::{Follower, setting};
use super::pool::{PAUSE, ThreadPool, Window, Work, look_ns};
use super::{ANSWER_TIMEOUT, Error, Result};
use crate::channel::NoMessage;
use crate::lanes::{Answering, AnyNode, Ended, Keeps, LoopSetting, Received, Receiving};
use crate::measure::Failure;
use crate::measure::callback::Inbox;
use crate::measure::notes::ArrivalLog;
use crate::os;
use crate::wire::{Arrived, Begin, FromFollower, TaskReply, ToFollower};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread::Builder;
use std::time::{Duration, Instant};
use tripmeter_abi::{Wait, panicked};
use tripmeter_model::used::Used;

/// Result of the served links.
pub(super) struct Taken {
    /// Counts of each stream; empty if messages were answered.
    pub arrived: Vec<Arrived>,
    /// Resource use of the process until the last message was sent.
    pub used: Used,
    /// Failure of a thread, which ended the others too.
    pub failure: Option<Failure>,
}

/// Interval between interruptions of threads that wait for messages that no longer come.
const REMINDER: Duration = Duration::from_millis(2);

impl Follower {
    /// Serves all links until the leader has sent all messages, the leader has gone, or the transport fails.
    pub(super) fn serve_all(
        &mut self,
        endpoint: &mut dyn AnyNode,
        inboxes: &[Box<Inbox>],
        begin: &Begin,
        logs: Vec<ArrivalLog<'_>>,
    ) -> Result<Taken> {
        match begin.task.reply {
            TaskReply::Answer { names_request } => self.answer_all(endpoint, inboxes, begin.first, names_request, logs),
            TaskReply::Nothing { is_sampled } => {
                let keeps = match is_sampled {
                    false => Keeps::Every,
                    true if logs.is_empty() => Keeps::Counts,
                    true => Keeps::Sampled,
                };
                self.count_all(endpoint, inboxes, begin.first, keeps, logs)
            }
            TaskReply::Lines { .. } => Err(Error::Failed("the leader asked a transport for a log".to_owned())),
        }
    }

    /// Counts the messages of all streams. Each stream has a log, unless only counts are kept.
    fn count_all(
        &mut self,
        endpoint: &mut dyn AnyNode,
        inboxes: &[Box<Inbox>],
        first: u64,
        keeps: Keeps,
        logs: Vec<ArrivalLog<'_>>,
    ) -> Result<Taken> {
        let (options, links) = (&self.setup().options, inboxes.len());
        let has_publishers = options.has_publishers();
        let streams = if has_publishers { options.publisher_count as usize } else { links };
        if (has_publishers && links != 1) || (keeps != Keeps::Counts && logs.len() != streams) {
            return Err(Error::Failed(format!(
                "link count mismatch: {} streams at the leader, {links} links at this follower",
                logs.len()
            )));
        }
        // Each stream has its own stop flag, although there may be fewer threads.
        let pool = &ThreadPool::new(streams);
        let each = if has_publishers { streams } else { 1 };
        let take_timeout_ns = look_ns(links);
        let mut logs = logs.into_iter();
        let receiving = pool.shared.chunks(each).map(|ends| {
            let logs = logs.by_ref().take(each).collect();
            Receiving { first, keeps, logs, has_publishers, ends, take_timeout_ns }
        });
        let receiving: Vec<Receiving<'_>> = receiving.collect();
        let listening = || {
            pool.ready.fetch_add(1, Release);
        };
        let setup = self.setup();
        let settings =
            receiving.iter().zip(inboxes).map(|(receiving, inbox)| setting(setup, inbox, &receiving.ends[0]));
        let settings: Vec<LoopSetting<'_>> = settings.collect();
        let works: Vec<Work<'_, Vec<Received>>> = if setup.options.wait == Wait::Poll {
            let (mut turns, setting) = (endpoint.in_turns(), settings[0]);
            vec![Box::new(move || {
                listening();
                turns.receive(setting, receiving)
            })]
        } else {
            let lanes = endpoint.lanes().into_iter().zip(settings).zip(receiving);
            let works = lanes.map(|((lane, setting), receiving)| -> Work<'_, Vec<Received>> {
                Box::new(move || {
                    let (received, ended) = lane.receive(setting, receiving, &mut || listening());
                    (vec![received], ended)
                })
            });
            works.collect()
        };
        let (used, failure, received) = self.in_pool(pool, works)?;
        let received: Vec<Received> = received.into_iter().flatten().collect();
        let streams = received.iter().flat_map(|received| received.streams.iter().copied());
        let nobodys = received.iter().filter_map(|received| received.nobodys);
        Ok(Taken { arrived: streams.chain(nobodys).collect(), used, failure })
    }

    /// Answers the requests of all clients. Arrivals are kept if there is a log for each client.
    fn answer_all(
        &mut self,
        endpoint: &mut dyn AnyNode,
        inboxes: &[Box<Inbox>],
        first: u64,
        names_request: bool,
        logs: Vec<ArrivalLog<'_>>,
    ) -> Result<Taken> {
        let (clients, links) = (logs.len(), inboxes.len());
        if clients != 0 && clients != links {
            return Err(Error::Failed(format!(
                "link count mismatch: {clients} clients at the leader, {links} links at this follower"
            )));
        }
        let kept: Vec<_> = logs.into_iter().map(|log| (first, log)).collect();
        let pool = &ThreadPool::new(links);
        let listening = || {
            pool.ready.fetch_add(1, Release);
        };
        let setup = self.setup();
        let settings = inboxes.iter().zip(&pool.shared).map(|(inbox, shared)| setting(setup, inbox, shared));
        let works: Vec<Work<'_, ()>> = if setup.options.wait == Wait::Poll {
            let (mut turns, mut settings) = (endpoint.in_turns(), settings);
            let Some(setting) = settings.next() else { return Err(Error::Failed("there is no link".to_owned())) };
            vec![Box::new(move || {
                listening();
                ((), turns.answer(setting, names_request, kept))
            })]
        } else {
            let kept = kept.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
            let works = endpoint.lanes().into_iter().zip(settings).zip(kept);
            let works = works.map(|((lane, setting), kept)| -> Work<'_, ()> {
                let answers = Answering { names_request, kept, ..Answering::default() };
                Box::new(move || ((), lane.answer(setting, answers, None, &mut || listening())))
            });
            works.collect()
        };
        let (used, failure, _) = self.in_pool(pool, works)?;
        Ok(Taken { arrived: Vec::new(), used, failure })
    }

    /// Runs each of `works` in a thread of the pool, until the leader has sent all messages or has gone. Returns the
    /// resource use until then, the failure of a thread, and the result of each.
    fn in_pool<W, R>(&mut self, pool: &ThreadPool, works: Vec<W>) -> Result<(Used, Option<Failure>, Vec<R>)>
    where
        W: FnOnce() -> Ended<R> + Send,
        R: Send,
    {
        let wait = self.setup().options.wait;
        std::thread::scope(|scope| {
            let (mut threads, mut started) = (Vec::new(), Ok(()));
            for (index, work) in works.into_iter().enumerate() {
                let member = pool.register();
                let spawned = Builder::new().name(format!("link-{index}")).spawn_scoped(scope, move || {
                    member.begin(index);
                    let made = work();
                    if made.1.is_err() {
                        pool.orphan();
                    }
                    made
                });
                match spawned {
                    Ok(thread) => threads.push(thread),
                    Err(error) => started = Err(Error::failed("a thread for each link cannot be started", error)),
                }
            }
            let _aside = os::step_aside(self.setup().sched);
            let attended = started.and_then(|()| self.attend(pool, threads.len()));
            if attended.is_err() {
                pool.orphan();
            }
            self.remind(pool, wait);
            let (mut done, mut failure) = (Vec::new(), None);
            for thread in threads {
                let ended = thread.join().map_err(|panic| Error::Failed(panicked("the thread of a link", &*panic)))?;
                done.push(ended.0);
                failure = failure.or(ended.1.err());
            }
            match (attended, failure) {
                (Ok(used), failure) => Ok((used, failure, done)),
                // A thread's own failure tells more than its consequence here.
                (Err(_), Some(failure)) => Err(Error::failed("take messages", failure)),
                (Err(error), None) => Err(error),
            }
        })
    }

    /// Handles the leader's messages while data arrives. Returns the resource use until the last message was sent.
    fn attend(&mut self, pool: &ThreadPool, threads: usize) -> Result<Used> {
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        while pool.ready.load(Acquire) < threads {
            if Instant::now() > deadline || !pool.is_running() {
                return Err(Error::Failed("the threads of the links do not start".to_owned()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let window = Window::open();
        self.send(&FromFollower::Ready)?;
        loop {
            match self.recv(PAUSE) {
                Ok(ToFollower::End { last }) => {
                    let used = window.close();
                    // All numbers are set before any stop flag, as one thread may read the numbers of all streams.
                    pool.shared.iter().zip(last).for_each(|(shared, last)| shared.last.store(last, Relaxed));
                    pool.shared.iter().for_each(|shared| shared.stop.store(true, Release));
                    pool.wake();
                    return Ok(used);
                }
                Ok(_) => return Err(Error::Failed("the leader's messages are out of order".to_owned())),
                Err(error @ (NoMessage::Closed | NoMessage::Junk(_))) => return Err(error.into()),
                // A failed thread has stopped all others.
                Err(NoMessage::TimedOut) if !pool.is_running() => return Ok(window.close()),
                Err(NoMessage::TimedOut) => {}
            }
        }
    }

    /// Interrupts threads that wait without a time-out, until all threads have ended.
    fn remind(&self, pool: &ThreadPool, wait: Wait) {
        let by_signal = self.setup().interrupt && wait == Wait::Block;
        while pool.is_running() {
            std::thread::park_timeout(REMINDER);
            (0..pool.shared.len()).for_each(|thread| pool.interrupt(thread, by_signal));
        }
    }
}

//! Follower under pattern `channel`: a thread for each topic, or one that polls all topics, or one that takes from all
//! publishers of a topic.

use super::follower::{Follower, setting};
use super::pool::{PAUSE, ThreadPool, Window, Work, look_ns};
use super::{ANSWER_TIMEOUT, Error, Result};
use crate::channel::NoMessage;
use crate::lanes::{AnyNode, Ended, LoopSetting, Received, Receiving};
use crate::measure::Failure;
use crate::measure::callback::Inbox;
use crate::os;
use crate::wire::{Arrived, Begin, FromFollower, Report, ToFollower};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread::Builder;
use std::time::{Duration, Instant};
use tripmeter_abi::{Wait, panicked};
use tripmeter_model::used::Used;

/// Result of the links' threads.
pub(super) struct Taken {
    /// Resource use of the process until the last message was sent.
    used: Used,
    /// Failure of a thread, which ended the others too.
    failure: Option<Failure>,
}

/// Interval between interruptions of threads that wait for messages that no longer come.
const REMINDER: Duration = Duration::from_millis(2);

impl Follower {
    /// Notes the messages of every topic until all that the leader announced have come, it has gone, or the transport fails;
    /// then reports.
    pub(super) fn receive(&mut self, endpoint: &mut dyn AnyNode, inboxes: &[Box<Inbox>], begin: Begin) -> Result<()> {
        let Begin { first, most: messages, arrivals, .. } = begin;
        let (streams, links) = (messages.len(), inboxes.len());
        // Each stream has a place that stops its loop: there may be fewer threads.
        let (pool, has_publishers) = (&ThreadPool::new(streams), self.setup().options.has_publishers());
        if links != if has_publishers { 1 } else { streams } {
            return Err(Error::Failed(format!("the leader publishes {streams} streams, here are {links} links")));
        }
        let each = if has_publishers { streams } else { 1 };
        let take_timeout_ns = look_ns(links);
        let mut memory = self.arrivals(arrivals, messages)?;
        let mut logs = memory.logs(0).into_iter();
        let receiving = pool.shared.chunks(each).map(|ends| {
            let logs = logs.by_ref().take(each).collect();
            Receiving { first, logs, has_publishers, ends, take_timeout_ns }
        });
        let receiving = receiving.collect();
        let (taken, received) = self.receive_all(pool, endpoint, inboxes, receiving)?;
        let streams = received.iter().flat_map(|received| received.streams.iter().copied());
        let nobodys = received.iter().filter_map(|received| received.nobodys);
        let arrived = streams.chain(nobodys).collect();
        self.send_arrivals(arrivals, Some(memory))?;
        self.send_arrived(arrived, taken)
    }

    /// Reports the arrivals; fails if the transport has failed.
    pub(super) fn send_arrived(&mut self, arrived: Vec<Arrived>, taken: Taken) -> Result<()> {
        let Taken { used, failure } = taken;
        let why = failure.map(|failure| format!("take messages: {failure}"));
        self.report(Report { arrived, used, failed: why.clone(), ..Report::default() })?;
        why.map_or(Ok(()), |why| Err(Error::Failed(why)))
    }

    /// Receives over each link, as the wait requires.
    fn receive_all(
        &mut self,
        pool: &ThreadPool,
        endpoint: &mut dyn AnyNode,
        inboxes: &[Box<Inbox>],
        receiving: Vec<Receiving<'_>>,
    ) -> Result<(Taken, Vec<Received>)> {
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
        let (taken, received) = self.in_pool(pool, works)?;
        Ok((taken, received.into_iter().flatten().collect()))
    }

    /// Does each of the works in a thread of the pool, until the leader has sent all or has gone. Returns the result of each.
    pub(super) fn in_pool<W, R>(&mut self, pool: &ThreadPool, works: Vec<W>) -> Result<(Taken, Vec<R>)>
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
                    Err(error) => started = Err(Error::of("a thread for each link cannot be started", error)),
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
                (Ok(used), failure) => Ok((Taken { used, failure }, done)),
                // A thread's own failure tells more than its consequence here.
                (Err(_), Some(failure)) => Err(Error::of("take messages", failure)),
                (Err(error), None) => Err(error),
            }
        })
    }

    /// Handles the leader's messages while data comes. Returns the resource use until the last message was sent.
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
                    // All numbers are set before any stop flag: one thread may read those of all streams.
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

    /// Interrupts threads that wait without a time-out until all have ended.
    fn remind(&self, pool: &ThreadPool, wait: Wait) {
        let by_signal = self.setup().interrupt && wait == Wait::Block;
        while pool.is_running() {
            std::thread::park_timeout(REMINDER);
            (0..pool.shared.len()).for_each(|thread| pool.interrupt(thread, by_signal));
        }
    }
}

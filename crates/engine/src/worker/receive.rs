//! The follower under pattern `channel`: a thread for each topic, or one that polls all of them, or takes from all
//! publishers of one.

use super::crew::{Crew, Done, PAUSE, Window, look_ns};
use super::follower::Follower;
use super::{ANSWER_TIMEOUT, Error, Result, arrivals_file};
use crate::channel::NoMessage;
use crate::clock::Clock;
use crate::measure::callback::Inbox;
use crate::measure::ledger::{Ledger, Several, Single};
use crate::measure::notes::Arrival;
use crate::measure::sink::{Sink, take_turns};
use crate::measure::{Failure, Watch};
use crate::message::TouchKind;
use crate::wire::{Arrived, FromFollower, Report, ToFollower};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread::Builder;
use std::time::{Duration, Instant};
use tripmeter_abi::{Link, Wait};
use tripmeter_model::channel::Used;

/// How the threads of the links ended.
pub(super) struct Taken {
    /// What the process used until the last message was sent.
    used: Used,
    /// Why one of them could not go on, which ended the others, too.
    failure: Option<Failure>,
}

/// Between two interruptions of threads that wait for what does not come any more.
const REMINDER: Duration = Duration::from_millis(2);

/// What came over one topic, and when.
type Received<C> = (Arrived, Arrival<C>);

impl Follower {
    /// Notes the messages of every topic until the leader says how many there are, and they have come, or it has gone, or
    /// the transport fails; and says so.
    pub(super) fn receive<L: Link, C: Clock + Copy, T: TouchKind>(
        &mut self,
        links: &mut [L],
        clock: C,
        inboxes: &[Box<Inbox>],
        first: u64,
        messages: &[u64],
    ) -> Result<()> {
        let streams = messages.len();
        // What stops the loops, a place for each stream: there may be fewer threads.
        let (crew, has_publishers) = (&Crew::new(streams), self.setup().options.has_publishers());
        if links.len() != if has_publishers { 1 } else { streams } {
            let links = links.len();
            return Err(Error::Failed(format!("the leader publishes {streams} streams, here are {links} links")));
        }
        let mut watches: Vec<_> = links.iter_mut().map(Watch::off).collect();
        let places = watches.iter_mut().zip(&crew.shared);
        let (taken, received, nobodys) = if has_publishers {
            let ledger = || Several::new(clock, first, messages, &crew.shared);
            let sinks = places.map(|(watch, shared)| Ok(Sink::keeping(watch, clock, shared, ledger()?)));
            let sinks = sinks.collect::<Result<Vec<_>>>()?;
            let (taken, ledgers) = self.take_all::<L, C, T, _>(crew, sinks, inboxes)?;
            let (received, nobodys): (Vec<_>, Vec<_>) = ledgers.into_iter().map(Several::into_parts).unzip();
            (taken, received.into_iter().flatten().collect(), nobodys)
        } else {
            let sinks = places.zip(messages).map(|((watch, shared), count)| {
                let notes = Arrival::new(clock, first, *count)?;
                Ok(Sink::keeping(watch, clock, shared, Single::new(first, shared, notes)))
            });
            let sinks = sinks.collect::<Result<Vec<_>>>()?;
            let (taken, ledgers) = self.take_all::<L, C, T, _>(crew, sinks, inboxes)?;
            (taken, ledgers.into_iter().map(|ledger| (ledger.counts(), ledger.notes)).collect(), Vec::new())
        };
        let received: Vec<Received<C>> = received;
        let arrived = received.iter().map(|(arrived, _)| *arrived).chain(nobodys).collect();
        let mut bytes = Vec::new();
        received.iter().for_each(|(_, arrival)| arrival.write_to(&mut bytes));
        let options = &self.setup().options;
        let file = arrivals_file(&options.scratch_dir, options.follower_index);
        std::fs::write(&file, bytes).map_err(|error| Error::of(&format!("file '{}'", file.display()), error))?;
        self.say_received(arrived, taken)
    }

    /// Says what has come; an error if that is all, as the transport failed.
    pub(super) fn say_received(&mut self, arrived: Vec<Arrived>, taken: Taken) -> Result<()> {
        let Taken { used, failure } = taken;
        let why = failure.map(|failure| format!("take messages: {failure}"));
        self.report(Report { arrived, used, failed: why.clone(), ..Report::default() })?;
        why.map_or(Ok(()), |why| Err(Error::Failed(why)))
    }

    /// Has the sinks take what comes, as the wait is, and returns how that went, and their ledgers.
    fn take_all<L: Link, C: Clock, T: TouchKind, B: Ledger + Send>(
        &mut self,
        crew: &Crew,
        mut sinks: Vec<Sink<'_, '_, L, C, B, false>>,
        inboxes: &[Box<Inbox>],
    ) -> Result<(Taken, Vec<B>)> {
        let (setup, take_timeout_ns) = (self.setup(), look_ns(sinks.len()));
        for sink in &mut sinks {
            (sink.loss_timeout_ns, sink.take_timeout_ns) = (setup.loss_timeout_ns, take_timeout_ns);
            sink.ticks_per_ns = setup.timebase.ticks_per_ns();
        }
        let sinks = sinks.into_iter();
        let works: Vec<Work<'_, '_, '_, L, C, B>> = match setup.options.wait {
            Wait::Poll => vec![Work::InTurns(sinks.collect())],
            Wait::Block => sinks.map(|sink| Work::Blocking(Box::new(sink))).collect(),
            Wait::Callback => sinks.zip(inboxes).map(|(sink, inbox)| Work::CalledBack(Box::new(sink), inbox)).collect(),
        };
        let works = works.into_iter().map(|work| move || work.run::<T>(crew)).collect();
        let (taken, ledgers) = self.with_crew(crew, works)?;
        Ok((taken, ledgers.into_iter().flatten().collect()))
    }

    /// Does each of the works in a thread of the crew, until the leader says that it has sent all, or it has gone. Returns
    /// how that went, and what came of each.
    pub(super) fn with_crew<W, R>(&mut self, crew: &Crew, works: Vec<W>) -> Result<(Taken, Vec<R>)>
    where
        W: FnOnce() -> Done<R> + Send,
        R: Send,
    {
        let wait = self.setup().options.wait;
        std::thread::scope(|scope| {
            let (mut threads, mut started) = (Vec::new(), Ok(()));
            for (index, work) in works.into_iter().enumerate() {
                let member = crew.hire();
                let spawned = Builder::new().name(format!("link-{index}")).spawn_scoped(scope, move || {
                    member.begin(index);
                    let made = work();
                    if made.1.is_err() {
                        crew.orphan();
                    }
                    made
                });
                match spawned {
                    Ok(thread) => threads.push(thread),
                    Err(error) => started = Err(Error::of("a thread for each link cannot be started", error)),
                }
            }
            let attended = started.and_then(|()| self.attend(crew, threads.len()));
            if attended.is_err() {
                crew.orphan();
            }
            self.remind(crew, wait);
            let (mut done, mut failure) = (Vec::new(), None);
            for thread in threads {
                let ended = thread.join().map_err(|_| Error::Failed("the thread of a link panicked".to_owned()))?;
                done.push(ended.0);
                failure = failure.or(ended.1.err());
            }
            match (attended, failure) {
                (Ok(used), failure) => Ok((Taken { used, failure }, done)),
                // A thread's own failure tells more than what came of it here.
                (Err(_), Some(failure)) => Err(Error::of("take messages", failure)),
                (Err(error), None) => Err(error),
            }
        })
    }

    /// Hears the leader while messages come. Returns what was used until the last was sent.
    fn attend(&mut self, crew: &Crew, threads: usize) -> Result<Used> {
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        while crew.ready.load(Acquire) < threads {
            if Instant::now() > deadline || !crew.is_running() {
                return Err(Error::Failed("the threads of the links do not start".to_owned()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let window = Window::open();
        self.say(&FromFollower::Ready)?;
        loop {
            match self.hear(PAUSE) {
                Ok(ToFollower::End { last }) => {
                    let used = window.close();
                    // One thread may ask for the numbers of all.
                    crew.shared.iter().zip(last).for_each(|(shared, last)| shared.last.store(last, Relaxed));
                    crew.shared.iter().for_each(|shared| shared.stop.store(true, Release));
                    crew.rouse();
                    return Ok(used);
                }
                Ok(_) => return Err(Error::Failed("the leader's messages are out of order".to_owned())),
                Err(error @ (NoMessage::Closed | NoMessage::Junk(_))) => return Err(error.into()),
                // A thread that failed has said to all that it is over.
                Err(NoMessage::TimedOut) if !crew.is_running() => return Ok(window.close()),
                Err(NoMessage::TimedOut) => {}
            }
        }
    }

    /// Interrupts threads that wait without a time-out until all have ended.
    fn remind(&self, crew: &Crew, wait: Wait) {
        let by_signal = self.setup().interrupt && wait == Wait::Block;
        while crew.is_running() {
            std::thread::park_timeout(REMINDER);
            (0..crew.shared.len()).for_each(|thread| crew.interrupt(thread, by_signal));
        }
    }
}

/// What one thread does.
enum Work<'a, 'w, 'i, L, C: Clock, B> {
    Blocking(Box<Sink<'a, 'w, L, C, B, false>>),
    CalledBack(Box<Sink<'a, 'w, L, C, B, false>>, &'i Inbox),
    InTurns(Vec<Sink<'a, 'w, L, C, B, false>>),
}

impl<L: Link, C: Clock, B: Ledger> Work<'_, '_, '_, L, C, B> {
    /// Returns the ledgers.
    fn run<T: TouchKind>(self, crew: &Crew) -> Done<Vec<B>> {
        let listening = || {
            crew.ready.fetch_add(1, Release);
        };
        let (ended, sinks) = match self {
            Work::Blocking(mut sink) => {
                listening();
                (sink.run::<T>().map(drop), vec![*sink])
            }
            Work::CalledBack(mut sink, inbox) => (sink.run_called_back::<T>(inbox, listening).map(drop), vec![*sink]),
            Work::InTurns(mut sinks) => {
                listening();
                (take_turns::<L, C, _, T, false>(&mut sinks), sinks)
            }
        };
        (sinks.into_iter().map(|sink| sink.ledger).collect(), ended)
    }
}

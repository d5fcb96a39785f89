//! What is published on many topics at once, and what came of it.

use super::conduct::{Conducted, Heard};
use super::crew::{Crew, look_ns};
use super::leader::{Leader, Session};
use super::trials::end_of;
use super::{Error, Result, arrivals_file};
use crate::clock::Clock;
use crate::measure::notes;
use crate::measure::publish::{Publisher, Sending, Sleep, Timetable};
use crate::measure::{End, Watch};
use crate::memory::{filled, reserved};
use crate::message::TouchKind;
use crate::passage::Topic;
use crate::wire::{Arrived, Begin, Task};
use tripmeter_abi::Link;
use tripmeter_model::channel::Used;

/// What is sent in one piece on every topic.
pub(super) trait Programme: Copy + Send + Sync {
    /// When messages of a topic are due.
    type Times: Timetable + Copy + Send;

    /// Of one of so many topics, if the first message of all is due at `begin`.
    fn times(&self, begin: u64, topic: usize, topics: usize) -> Self::Times;

    /// Messages of a topic.
    fn messages(&self, topic: usize) -> u64;

    /// Which of several publishers of one topic sends them; else 0.
    fn publisher(&self, _topic: usize) -> u32 {
        0
    }

    /// Bytes of a topic's messages, or of the largest of them.
    fn length(&self, topic: usize) -> usize;

    /// When the time of the payload is over, in ticks.
    fn capped(&self) -> u64;
}

/// What came of it.
pub(super) struct Played<S> {
    pub topics: Vec<Topic<S>>,
    pub arrived: Vec<Arrived>,
    /// How often the transport was full.
    pub refused: u64,
    pub end: End,
    /// What ended it, if something failed.
    pub broken: Option<Error>,
    /// When the first message was due, in ticks.
    pub begin: u64,
    /// When the last was sent, in ticks.
    pub until: u64,
    /// What the leader's process used.
    pub own: Used,
    /// What the follower's used.
    pub others: Used,
}

impl Leader {
    /// Publishes on all topics; the follower notes what comes.
    pub(super) fn play<L: Link, C: Clock + Copy, T: TouchKind, P: Programme>(
        &mut self,
        session: &mut Session<'_, L, C>,
        programme: P,
    ) -> Result<Played<P::Times>> {
        let topics = 1 + session.others.len();
        let first = session.sequence + 1;
        let (crew, sending) = (&Crew::new(topics), Sending::of(topics));
        let messages: Vec<u64> = (0..topics).map(|topic| programme.messages(topic)).collect();
        // What latencies are made in at the end: found to be too little now, and not then.
        drop(reserved::<u64>(messages.iter().sum::<u64>().saturating_mul(6), "values of latencies")?);
        let sent = messages.iter().map(|count| filled(u64::MAX, *count, "times of sending"));
        let mut sent = sent.collect::<std::result::Result<Vec<_>, _>>()?;
        let (clock, timeout_ns, sequence) = (session.clock, session.loss_timeout.0, session.sequence);
        let rest = Sleep { ticks_per_ns: self.job.timebase.ticks_per_ns(), longest_ns: look_ns(topics) };
        let links = std::iter::once(&mut *session.link).chain(session.others.iter_mut());
        let places = crew.shared.iter().zip(&sending);
        let works = links.zip(&mut sent).zip(places).enumerate().map(|(topic, ((link, sent), (shared, sending)))| {
            move |begin: u64| {
                let (mut link, length) = (Watch::off(link), programme.length(topic));
                let (link, schedule, refused) = (&mut link, programme.times(begin, topic, topics), 0);
                let mut publisher = Publisher {
                    link,
                    clock,
                    rest,
                    schedule,
                    length,
                    sequence,
                    publisher: programme.publisher(topic),
                    shared,
                    sending,
                    timeout_ns,
                    refused,
                };
                let ended = publisher.run::<T>(sent, programme.capped());
                let (refused, sequence_now) = (publisher.refused, publisher.sequence);
                match ended {
                    Ok((count, end)) => ((count, end, refused), Ok(())),
                    Err(failure) => (((sequence_now - sequence) as usize, End::Stopped, refused), Err(failure)),
                }
            }
        });
        // Under a recording they have many sizes.
        let receive = Begin { task: Task::Count, first, payload_bytes: 0, most: messages.clone(), observe: false };
        let Conducted { begin, used: own, ended, failure } = self.conduct(crew, &sending, receive, works.collect())?;
        let ended: Vec<(usize, End, u64)> =
            ended.into_iter().map(|ended| ended.unwrap_or((0, End::Stopped, 0))).collect();
        sent.iter_mut().zip(&ended).for_each(|(sent, (count, ..))| sent.truncate(*count));
        let last: Vec<u64> = ended.iter().map(|(count, ..)| sequence + *count as u64).collect();
        session.sequence = last.iter().copied().max().unwrap_or(sequence);
        let Heard { arrived, used: others, broken } = self.hear_received(last, failure)?;
        let Some(arrived) = arrived else {
            // What came, and when, only the follower knew.
            return Err(broken.unwrap_or_else(|| self.failed("the follower does not say what came")));
        };
        let file = arrivals_file(&self.job.scratch_dir, 0);
        let bytes = std::fs::read(&file).map_err(|error| Error::of(&format!("file '{}'", file.display()), error))?;
        let noted = notes::from_bytes(&bytes, &messages)
            .ok_or_else(|| Error::Failed(format!("file '{}' is not of these messages", file.display())))?;
        let until = sent.iter().filter_map(|sent| sent.last()).copied().max().unwrap_or(begin);
        let topics = sent.into_iter().zip(noted).enumerate().map(|(topic, (sent, (arrived, marks)))| Topic {
            schedule: Some(programme.times(begin, topic, topics)),
            sent,
            arrived,
            marks,
        });
        let refused = ended.iter().map(|(.., refused)| refused).sum();
        let end = end_of(ended.iter().map(|(_, end, _)| *end));
        Ok(Played { topics: topics.collect(), arrived, refused, end, broken, begin, until, own, others })
    }
}

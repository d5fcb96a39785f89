//! Driver of messages and calls with due times. A thread for each link sleeps until the next one is due.

use super::account::{Account, RowsOfLinks};
use super::controls::Controls;
use super::leader::{Leader, Session};
use super::leg::{Leg, LegEnd, PreparedLeg, ReadyLeg, ReportedLeg, SentLeg};
use super::pool::{ThreadPool, look_ns};
use super::threads::{LinkEnd, LinkWork, run_parallel};
use super::trial::Driver;
use super::{Error, Result};
use crate::clock::Timebase;
use crate::delivery::{Delivered, Topic};
use crate::lanes::{Calls, Publication};
use crate::measure::LoopEnd;
use crate::measure::calls::Made;
use crate::measure::notes::{ArrivalLog, ArrivalMemory, DAMAGED, NEVER};
use crate::measure::publish::{Sending, Sleep};
use crate::memory::{filled, reserved};
use crate::replay::{Replay, Times};
use crate::wire::{Arrived, Begin, Task};
use std::sync::Arc;
use tripmeter_abi::Wait;
use tripmeter_model::recording::RecordedTopic;

pub(super) struct Scheduled<'r> {
    replay: Option<&'r Replay>,
    /// True if a leader that polls spins until a message is due.
    spins: bool,
    links: Vec<ScheduledLink>,
    /// End of each link.
    ended: Vec<LinkEnd>,
}

/// Messages of one link in a leg.
struct ScheduledLink {
    messages: u64,
    /// Bytes of a message, unless the timetable has lengths.
    length: usize,
    /// Index among several publishers of one topic; else 0.
    publisher: u32,
    stamps: LinkStamps,
}

enum LinkStamps {
    /// Tick at which each message was sent.
    Sent(Vec<u64>),
    Calls(Made),
}

impl LinkStamps {
    /// Tick of the last send, or of the end of the last call.
    fn until(&self) -> Option<u64> {
        match self {
            LinkStamps::Sent(sent) => sent.last().copied(),
            LinkStamps::Calls(made) => Some(made.until),
        }
    }

    fn truncate(&mut self, count: usize) {
        match self {
            LinkStamps::Sent(sent) => sent.truncate(count),
            LinkStamps::Calls(made) => made.truncate(count),
        }
    }
}

/// Timetables of all links under a load.
#[derive(Clone, Copy)]
struct Timetables<'r> {
    leg: Leg,
    base: Timebase,
    links: usize,
    replay: Option<&'r Replay>,
}

impl<'r> Timetables<'r> {
    /// Timetable of a link, if the first message over all links is due at tick `begin`.
    fn of_link(&self, begin: u64, link: usize) -> Times<'r> {
        match self.replay.filter(|_| self.leg.end == LegEnd::Recording) {
            Some(replay) => Times::Recorded(replay.times(link, begin)),
            None => Times::for_load(self.leg.load, &self.base, begin, link, self.links),
        }
    }
}

impl<'r> Scheduled<'r> {
    pub(super) fn new(replay: Option<&'r Replay>, spins: bool) -> Self {
        Self { replay, spins, links: Vec::new(), ended: Vec::new() }
    }

    /// Number of messages, length and publisher of each link.
    fn plans(&self, leader: &Leader, links: usize, leg: &Leg) -> Result<Vec<(u64, usize, u32)>> {
        let messages_of = |recorded: u64| match leg.end {
            LegEnd::Messages(messages) => messages,
            LegEnd::Bounds { .. } | LegEnd::Recording => recorded,
        };
        let Some(replay) = self.replay else {
            let has_publishers = leader.job.sub_experiment.workload.publishers() > 1;
            let publisher = |index| if has_publishers { index } else { 0 };
            let plan = |index| (messages_of(0), leg.payload_bytes as usize, publisher(index));
            return Ok((0..links as u32).map(plan).collect());
        };
        let topics = &replay.recording.topics;
        if topics.len() != links {
            return Err(Error::Failed("the schedule has other topics than the plan".to_owned()));
        }
        let plan = |topic: &RecordedTopic| (messages_of(topic.messages), topic.largest_sent_bytes() as usize, 0);
        Ok(topics.iter().map(plan).collect())
    }
}

impl Driver for Scheduled<'_> {
    fn prepare(&mut self, leader: &Leader, session: &Session<'_>, leg: &Leg) -> Result<PreparedLeg> {
        let plan = &leader.job.sub_experiment;
        let (is_call, followers) = (plan.workload.is_call(), leader.controls.followers());
        self.links.clear();
        for (messages, length, publisher) in self.plans(leader, session.lanes.len(), leg)? {
            let stamps = match is_call {
                true => LinkStamps::Calls(Made::new(messages)?),
                false => LinkStamps::Sent(filled(u64::MAX, messages, "times of sending")?),
            };
            self.links.push(ScheduledLink { messages, length, publisher, stamps });
        }
        let messages: Vec<u64> = self.links.iter().map(|link| link.messages).collect();
        // Checks that there is memory for the latencies computed at the end, so that a lack shows now.
        let of_each = if is_call { 6 + u64::from(plan.one_way) } else { 6 * u64::from(followers) };
        drop(reserved::<u64>(messages.iter().sum::<u64>().saturating_mul(of_each), "values of latencies")?);
        let task = if is_call { leader.answer_task() } else { Task::NOTE };
        // The size is 0, as messages of a recording have many sizes.
        let mut begin = Begin::new(task, session.sequence + 1, 0);
        let mut memory = None;
        if !is_call || plan.one_way {
            let created = ArrivalMemory::create(messages.clone(), followers)?;
            (begin.most, begin.arrivals) = (messages, Some(leader.arrival_place(&created)));
            memory = Some(created);
        }
        Ok(PreparedLeg::noting(begin, memory, leader.job.loss_timeout_ns))
    }

    fn drive(&mut self, leader: &mut Leader, session: &mut Session<'_>, ready: ReadyLeg) -> Result<SentLeg> {
        let (leg, base, count, sequence) = (ready.leg, leader.job.timebase, session.lanes.len(), session.sequence);
        let (pool, sending) = (&ThreadPool::new(count), &Sending::for_threads(count));
        let spins = self.spins && leader.job.sub_experiment.wait == Wait::Poll;
        let longest_ns = if spins { 0 } else { look_ns(count) };
        let rest = Sleep { ticks_per_ns: base.ticks_per_ns(), longest_ns };
        let timetables = Timetables { leg, base, links: count, replay: self.replay };
        let draining = &|| pool.wake_main();
        let settings = session.inboxes.iter().zip(&pool.shared).map(|(inbox, shared)| leader.setting(inbox, shared));
        let settings: Vec<_> = settings.collect();
        let places = session.lanes.iter_mut().zip(&mut self.links).zip(settings).zip(sending).enumerate();
        let works = places.map(|(index, (((lane, link), setting), sending))| -> LinkWork<'_> {
            let (deadline, length, publisher) = (leg.capped, link.length, link.publisher);
            Box::new(move |begin| {
                let times = timetables.of_link(begin, index);
                match &mut link.stamps {
                    LinkStamps::Sent(sent) => {
                        let plan = Publication { times, rest, length, sequence, publisher, deadline, sending };
                        let (made, ended) = lane.publish_due(setting, plan, sent);
                        let (count, end, refused) = (made.count, made.end, made.refused);
                        let sequence = sequence + count as u64;
                        (LinkEnd { count, end, refused, late: 0, duplicated: 0, sequence }, ended)
                    }
                    LinkStamps::Calls(made) => {
                        let calls = Calls { times, rest, length, sequence, deadline, sending, draining };
                        let (called, ended) = lane.call(setting, calls, made);
                        let (count, end, late) = (called.calls, called.end, called.late);
                        let (duplicated, sequence) = (called.duplicated, called.sequence);
                        (LinkEnd { count, end, refused: 0, late, duplicated, sequence }, ended)
                    }
                }
            })
        });
        let ran = run_parallel(leader, ready, pool, sending, works.collect())?;
        let none = LinkEnd { count: 0, end: LoopEnd::Stopped, refused: 0, late: 0, duplicated: 0, sequence };
        self.ended = ran.ended.into_iter().map(|ended| ended.unwrap_or(none)).collect();
        self.links.iter_mut().zip(&self.ended).for_each(|(link, ended)| link.stamps.truncate(ended.count));
        let last: Vec<u64> = self.ended.iter().map(|ended| ended.sequence).collect();
        Ok(SentLeg {
            begin: ran.begin,
            until: self.links.iter().filter_map(|link| link.stamps.until()).max().unwrap_or(ran.begin),
            sequence: last.iter().copied().max().unwrap_or(sequence),
            last,
            warmed: 0,
            counted: self.ended.iter().map(|ended| ended.count as u64).max().unwrap_or(0),
            used: ran.used,
            refused: self.ended.iter().map(|ended| ended.refused).sum(),
            cut: ran.cut,
            failure: ran.failure,
            broken: None,
        })
    }

    fn account(
        &mut self,
        controls: &Controls,
        leg: &mut ReportedLeg,
        account: &mut Account,
        rows: Option<&mut RowsOfLinks<'_>>,
    ) -> Result<()> {
        let (links, begin) = (std::mem::take(&mut self.links), leg.sent.begin);
        let timetables = Timetables { leg: leg.leg, base: account.timebase(), links: links.len(), replay: self.replay };
        let mut sent: Vec<Arc<[u64]>> = Vec::new();
        let mut calls = Vec::new();
        for link in links {
            match link.stamps {
                LinkStamps::Sent(stamps) => sent.push(stamps.into()),
                LinkStamps::Calls(made) => calls.push(made),
            }
        }
        let (all, each) = if calls.is_empty() {
            let each = at_followers(controls, leg, &sent, timetables)?;
            if each.iter().all(Option::is_none) {
                leg.broken.take().map_or(Ok(()), Err)?;
            }
            at_last(each)
        } else {
            (self.answered(leg, calls, timetables), Vec::new())
        };
        let late: Vec<u64> = self.ended.iter().map(|ended| ended.late).collect();
        match self.replay.filter(|_| leg.leg.end == LegEnd::Recording) {
            Some(replay) => {
                let played = all.topics.iter().zip(&replay.recording.topics);
                let silent = played.filter(|(topic, _)| topic.sent.is_empty()).map(|(_, recorded)| recorded);
                account.note_silent(silent_topics(silent));
                account.add_recorded(&leg.clocks, (replay, begin), &all, &each, &late, rows);
            }
            None => account.add(&leg.clocks, &all, &each, &late, rows),
        }
        Ok(())
    }
}

impl<'r> Scheduled<'r> {
    /// Joins calls with the arrivals of their requests, if these were noted.
    fn answered(&self, leg: &mut ReportedLeg, calls: Vec<Made>, timetables: Timetables<'r>) -> Delivered<Times<'r>> {
        let begin = leg.sent.begin;
        let logs = leg.memory.as_mut().map_or_else(Vec::new, |memory| memory.logs(0));
        let arrived = calls.iter().zip(&self.ended).map(|(made, ended)| {
            let received = made.answered.iter().filter(|answered| **answered != NEVER).count() as u64;
            let damaged = made.marks.iter().filter(|marks| **marks & DAMAGED != 0).count() as u64;
            Arrived { received, duplicated: ended.duplicated, damaged, ..Arrived::default() }
        });
        let arrived = arrived.collect();
        let topics = calls.into_iter().enumerate().map(|(index, made)| {
            let times = timetables.of_link(begin, index);
            Topic {
                requests: logs.get(index).map_or_else(Vec::new, |log| log.ticks.to_vec()),
                schedule: Some(times).filter(|times| !matches!(times, Times::Closed(_))),
                sent: made.sent.into(),
                arrived: made.answered,
                marks: made.marks,
            }
        });
        Delivered { topics: topics.collect(), arrived }
    }
}

/// Joins messages with their arrivals at each follower; `None` if these are not known.
fn at_followers<'r>(
    controls: &Controls,
    leg: &mut ReportedLeg,
    sent: &[Arc<[u64]>],
    timetables: Timetables<'r>,
) -> Result<Vec<Option<Delivered<Times<'r>>>>> {
    let begin = leg.sent.begin;
    let Some(memory) = &mut leg.memory else { return Ok(Vec::new()) };
    let mut each = Vec::new();
    for (follower, report) in (0..).zip(&leg.reports) {
        let logs = memory.logs(follower);
        let arrived = report.as_ref().map(|report| report.arrived.clone());
        if arrived.as_ref().is_some_and(|arrived| arrived.len() < sent.len()) {
            let (who, topics) = (controls.who(follower as usize), sent.len());
            return Err(controls.failed(&format!("{who} counted fewer than {topics} topics")));
        }
        // A killed follower has left its arrivals in this memory, if it was on this host.
        let noted = || logs.iter().map(ArrivalLog::arrived).collect();
        let Some(arrived) = arrived.or_else(|| (!leg.clocks.are_two()).then(noted)) else {
            each.push(None);
            continue;
        };
        let topics = sent.iter().zip(logs).enumerate().map(|(topic, (sent, log))| Topic {
            schedule: Some(timetables.of_link(begin, topic)),
            sent: sent.clone(),
            arrived: log.ticks.to_vec(),
            marks: log.marks.to_vec(),
            requests: Vec::new(),
        });
        each.push(Some(Delivered { topics: topics.collect(), arrived }));
    }
    Ok(each)
}

/// Messages to the only follower, or to the last of several, and to each of several.
fn at_last<'r>(
    mut each: Vec<Option<Delivered<Times<'r>>>>,
) -> (Delivered<Times<'r>>, Vec<Option<Delivered<Times<'r>>>>) {
    let only = if each.len() == 1 { each.pop().flatten() } else { None };
    let all = only.unwrap_or_else(|| Delivered::at_last(&each.iter().flatten().collect::<Vec<_>>()));
    (all, each)
}

/// Text about topics that had no message when the trial ended; empty if there are none.
fn silent_topics<'a>(mut topics: impl Iterator<Item = &'a RecordedTopic>) -> String {
    let Some(first) = topics.next() else { return String::new() };
    match topics.count() {
        0 => format!("; no message of {}", first.name),
        more => format!("; no message of {} and {more} more", first.name),
    }
}

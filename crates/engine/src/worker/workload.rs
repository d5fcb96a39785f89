//! Messages sent over many links in parallel, and their result; publications.

use super::host_clocks::Clocks;
use super::leader::{Leader, Session};
use super::parallel::{FollowerSide, Parallel};
use super::pool::{ThreadPool, look_ns};
use super::{Error, Result};
use crate::delivery::{Delivered, Topic};
use crate::lanes::{Publication, Published};
use crate::measure::notes::{ArrivalLog, ArrivalMemory};
use crate::measure::publish::{Sending, Sleep};
use crate::measure::{LoopEnd, Shared};
use crate::memory::{filled, reserved};
use crate::replay::Times;
use crate::wire::{Begin, Task};
use std::sync::Arc;
use tripmeter_model::used::Used;

/// Messages for all links, sent together.
pub(super) struct Batch<'p, 'r> {
    pub links: Vec<LinkPlan>,
    /// Timetable of each link, if the first message of all is due at that tick.
    pub times: &'p (dyn Fn(u64, usize) -> Times<'r> + Sync),
    /// Tick at which the time of the payload is over.
    pub capped: u64,
}

#[derive(Clone, Copy)]
pub(super) struct LinkPlan {
    pub messages: u64,
    /// Bytes of a message, unless the timetable has lengths.
    pub length: usize,
    /// Index among several publishers of one topic; else 0.
    pub publisher: u32,
}

pub(super) type Send = for<'r> fn(&mut Leader, &mut Session<'_>, &Batch<'_, 'r>) -> Result<Sent<'r>>;

pub(super) struct Sent<'r> {
    /// Deliveries to the follower, or to the last of several, or back from it.
    pub delivered: Delivered<Times<'r>>,
    /// Deliveries to each of several followers; `None` if unknown.
    pub followers: Vec<Option<Delivered<Times<'r>>>>,
    /// Answers to each client after the end of their call; empty for publications.
    pub late: Vec<u64>,
    pub refused: u64,
    pub end: LoopEnd,
    pub broken: Option<Error>,
    /// Tick at which the first message was due.
    pub begin: u64,
    /// Tick of the last send, or of the end of the last call.
    pub until: u64,
    /// Resource use of the leader's process.
    pub own: Used,
    pub clocks: Clocks,
    /// Resource use of the followers' processes.
    pub others: Used,
}

impl Sent<'_> {
    pub fn is_empty(&self) -> bool {
        self.most() == 0
    }

    /// Messages over the busiest link.
    pub fn most(&self) -> u64 {
        self.delivered.topics.iter().map(|topic| topic.sent.len()).max().unwrap_or(0) as u64
    }
}

/// End of all threads of a batch. Those that did not end by themselves were stopped by the user, or by the main thread once
/// their time was over.
pub(super) fn end_of(mut ends: impl Iterator<Item = LoopEnd>, shared: &Shared) -> LoopEnd {
    if ends.all(|end| end == LoopEnd::Full) { LoopEnd::Full } else { shared.early_end() }
}

impl Leader {
    /// Publishes on all topics, while the followers note arrivals.
    pub(super) fn publish_all<'r>(&mut self, session: &mut Session<'_>, batch: &Batch<'_, 'r>) -> Result<Sent<'r>> {
        let topics = session.lanes.len();
        let (pool, sending) = (&ThreadPool::new(topics), Sending::of(topics));
        let messages: Vec<u64> = batch.links.iter().map(|topic| topic.messages).collect();
        let sent = messages.iter().map(|count| filled(u64::MAX, *count, "times of sending"));
        let mut sent = sent.collect::<std::result::Result<Vec<_>, _>>()?;
        let sequence = session.sequence;
        let rest = Sleep { ticks_per_ns: self.job.timebase.ticks_per_ns(), longest_ns: look_ns(topics) };
        let clocks = self.read_clocks()?;
        let settings = session.inboxes.iter().zip(&pool.shared).map(|(inbox, shared)| self.setting(inbox, shared));
        let places = settings.zip(&sending).zip(&batch.links);
        let works = session.lanes.iter_mut().zip(&mut sent).zip(places).enumerate();
        let works = works.map(|(index, ((lane, sent), ((setting, sending), topic)))| {
            move |begin: u64| {
                let times = (batch.times)(begin, index);
                let LinkPlan { length, publisher, .. } = *topic;
                let deadline = batch.capped;
                let plan = Publication { times, rest, length, sequence, publisher, deadline, sending };
                lane.publish_due(setting, plan, sent)
            }
        });
        let followers = self.controls.followers();
        let mut memory = ArrivalMemory::create(messages.clone(), followers)?;
        // Checks that there is memory for the latencies made at the end: a lack must show now, not then.
        let values = messages.iter().sum::<u64>().saturating_mul(6 * u64::from(followers));
        drop(reserved::<u64>(values, "values of latencies")?);
        // Size 0: messages of a recording have many sizes.
        let receive = Begin {
            most: messages,
            arrivals: Some(self.arrival_place(&memory)),
            ..Begin::new(Task::Note, sequence + 1, 0)
        };
        let ran = self.run_parallel(pool, &sending, receive, works.collect(), batch.capped)?;
        let Parallel { begin, used: own, ended, failure } = ran;
        let none = Published { count: 0, end: LoopEnd::Stopped, refused: 0 };
        let ended: Vec<Published> = ended.into_iter().map(|ended| ended.unwrap_or(none)).collect();
        sent.iter_mut().zip(&ended).for_each(|(sent, published)| sent.truncate(published.count));
        let last: Vec<u64> = ended.iter().map(|published| sequence + published.count as u64).collect();
        session.sequence = last.iter().copied().max().unwrap_or(sequence);
        let FollowerSide { arrived, used: others, mut broken } = self.recv_arrived(last, failure);
        let clocks = self.clocks_since(clocks, &mut broken);
        self.settle(&clocks, &mut memory)?;
        let until = sent.iter().filter_map(|sent| sent.last()).copied().max().unwrap_or(begin);
        let sent: Vec<Arc<[u64]>> = sent.into_iter().map(Arc::from).collect();
        let mut each = Vec::new();
        for (follower, arrived) in (0..).zip(arrived) {
            let logs = memory.logs(follower);
            if arrived.as_ref().is_some_and(|arrived| arrived.len() < topics) {
                let who = self.controls.who(follower as usize);
                return Err(self.controls.failed(&format!("{who} counted fewer than {topics} topics")));
            }
            // A killed follower has noted its arrivals until then: in this memory, if it was on this host.
            let noted = || logs.iter().map(ArrivalLog::arrived).collect();
            let Some(arrived) = arrived.or_else(|| self.is_on_one_host().then(noted)) else {
                each.push(None);
                continue;
            };
            let topics = sent.iter().zip(logs).enumerate().map(|(topic, (sent, log))| Topic {
                schedule: Some((batch.times)(begin, topic)),
                sent: sent.clone(),
                arrived: log.ticks.to_vec(),
                marks: log.marks.to_vec(),
                requests: Vec::new(),
            });
            each.push(Some(Delivered { topics: topics.collect(), arrived }));
        }
        if each.iter().all(Option::is_none) {
            broken.take().map_or(Ok(()), Err)?;
        }
        let only = if each.len() == 1 { each.pop().flatten() } else { None };
        let delivered = only.unwrap_or_else(|| Delivered::at_last(&each.iter().flatten().collect::<Vec<_>>()));
        let refused = ended.iter().map(|published| published.refused).sum();
        let end = end_of(ended.iter().map(|published| published.end), &self.shared);
        Ok(Sent {
            delivered,
            followers: each,
            late: Vec::new(),
            refused,
            end,
            broken,
            begin,
            until,
            own,
            clocks,
            others,
        })
    }
}

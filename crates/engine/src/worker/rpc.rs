//! One payload under pattern `rpc`: the leader's clients, each a thread with its own link, and the follower's answers. Round
//! trips at a rate are the calls of one client, which the follower answers as under `pingpong`.

use super::follower::{Follower, setting};
use super::leader::{Leader, Session};
use super::parallel::Parallel;
use super::pool::{ThreadPool, Work, look_ns};
use super::workload::{Batch, Sent, end_of};
use super::{Error, Result};
use crate::delivery::{Delivered, Topic};
use crate::lanes::{Answering, AnyNode, Calls};
use crate::measure::LoopEnd;
use crate::measure::callback::Inbox;
use crate::measure::calls::{Called, Made};
use crate::measure::notes::{ArrivalMemory, DAMAGED, NEVER};
use crate::measure::publish::{Sending, Sleep};
use crate::memory::reserved;
use crate::replay::Times;
use crate::wire::{Arrived, Begin};
use std::sync::atomic::Ordering::Release;
use tripmeter_abi::{Pattern, Wait};

impl Leader {
    pub(super) fn call_all<'r>(&mut self, session: &mut Session<'_>, batch: &Batch<'_, 'r>) -> Result<Sent<'r>> {
        let (clients, sequence) = (session.lanes.len(), session.sequence);
        let (pool, sending) = (&ThreadPool::new(clients), Sending::of(clients));
        let calls = batch.links.iter().map(|link| link.messages);
        // Checks that there is memory for the latencies made at the end: a lack must show now, not then.
        let values = if self.job.sub_experiment.one_way { 7 } else { 6 };
        drop(reserved::<u64>(calls.clone().sum::<u64>().saturating_mul(values), "values of latencies")?);
        let mut made = calls.clone().map(Made::new).collect::<std::result::Result<Vec<_>, _>>()?;
        let plan = &self.job.sub_experiment;
        // Spins, as a wake-up takes about 50 us: five periods at 100 kHz.
        let spins = plan.pattern == Pattern::PingPong && plan.wait == Wait::Poll;
        let longest_ns = if spins { 0 } else { look_ns(clients) };
        let rest = Sleep { ticks_per_ns: self.job.timebase.ticks_per_ns(), longest_ns };
        let draining = || pool.wake_main();
        let clocks = self.read_clocks()?;
        let settings = session.inboxes.iter().zip(&pool.shared).map(|(inbox, shared)| self.setting(inbox, shared));
        let places = settings.zip(&sending).zip(&batch.links);
        let works = session.lanes.iter_mut().zip(&mut made).zip(places).enumerate();
        let works = works.map(|(index, ((lane, made), ((setting, sending), link)))| {
            let (draining, length, deadline) = (&draining, link.length, batch.capped);
            move |begin: u64| {
                let times = (batch.times)(begin, index);
                lane.call(setting, Calls { times, rest, length, sequence, deadline, sending, draining }, made)
            }
        });
        let mut answer = Begin::new(self.answer_task(), sequence + 1, 0);
        let mut memory = None;
        if self.job.sub_experiment.one_way {
            let created = ArrivalMemory::create(calls.clone().collect(), 1)?;
            (answer.most, answer.arrivals) = (calls.collect(), Some(self.arrival_place(&created)));
            memory = Some(created);
        }
        let ran = self.run_parallel(pool, &sending, answer, works.collect(), batch.capped)?;
        let Parallel { begin, used, ended, failure } = ran;
        let none = || Called { calls: 0, end: LoopEnd::Stopped, late: 0, duplicated: 0, sequence };
        let ended: Vec<Called> = ended.into_iter().map(|ended| ended.unwrap_or_else(none)).collect();
        let last: Vec<u64> = ended.iter().map(|called| called.sequence).collect();
        session.sequence = last.iter().copied().max().unwrap_or(sequence);
        let mut heard = self.recv_arrived(last, failure);
        let clocks = self.clocks_since(clocks, &mut heard.broken);
        if let Some(memory) = &mut memory {
            self.settle(&clocks, memory)?;
        }
        let arrived = made.iter_mut().zip(&ended).map(|(made, called)| arrived(made, called)).collect();
        let until = made.iter().map(|made| made.until).max().unwrap_or(begin);
        let logs = memory.as_mut().map_or_else(Vec::new, |memory| memory.logs(0));
        let times = |index| Some((batch.times)(begin, index)).filter(|times| !matches!(times, Times::Closed(_)));
        let topics = made.into_iter().enumerate().map(|(index, made)| Topic {
            requests: logs.get(index).map_or_else(Vec::new, |log| log.ticks.to_vec()),
            schedule: times(index),
            sent: made.sent.into(),
            arrived: made.answered,
            marks: made.marks,
        });
        let late = ended.iter().map(|called| called.late).collect();
        let end = end_of(ended.iter().map(|called| called.end), &self.shared);
        let delivered = Delivered { topics: topics.collect(), arrived };
        let (own, others, broken) = (used, heard.used, heard.broken);
        Ok(Sent { delivered, followers: Vec::new(), late, refused: 0, end, broken, begin, until, own, clocks, others })
    }
}

/// Cuts a client's log to the calls that it made, and counts the answers.
fn arrived(made: &mut Made, called: &Called) -> Arrived {
    made.truncate(called.calls);
    let received = made.answered.iter().filter(|answered| **answered != NEVER).count() as u64;
    let damaged = made.marks.iter().filter(|marks| **marks & DAMAGED != 0).count() as u64;
    Arrived { received, duplicated: called.duplicated, damaged, ..Arrived::default() }
}

impl Follower {
    /// Answers the requests of all clients until the leader ends them or has gone; then reports the resource use. Under `poll`
    /// one thread polls all links in turns; else each has a thread. Arrivals are kept if the leader has memory for them.
    pub(super) fn answer_calls(
        &mut self,
        endpoint: &mut dyn AnyNode,
        inboxes: &[Box<Inbox>],
        begin: Begin,
    ) -> Result<()> {
        let Begin { first, most, arrivals, .. } = begin;
        let mut memory = arrivals.map(|place| self.arrivals(Some(place), most)).transpose()?;
        let logs = memory.as_mut().map_or_else(Vec::new, |memory| memory.logs(0));
        if !logs.is_empty() && logs.len() != inboxes.len() {
            return Err(Error::Failed(format!(
                "the leader has {} clients, here are {} links",
                logs.len(),
                inboxes.len()
            )));
        }
        let kept: Vec<_> = logs.into_iter().map(|log| (first, log)).collect();
        let pool = &ThreadPool::new(inboxes.len());
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
                ((), turns.answer(setting, kept))
            })]
        } else {
            let kept = kept.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
            let works = endpoint.lanes().into_iter().zip(settings).zip(kept);
            let works = works.map(|((lane, setting), kept)| -> Work<'_, ()> {
                let answers = Answering { names_request: true, kept, ..Answering::default() };
                Box::new(move || ((), lane.answer(setting, answers, None, &mut || listening())))
            });
            works.collect()
        };
        let (taken, _) = self.in_pool(pool, works)?;
        self.send_arrivals(arrivals, memory)?;
        self.send_arrived(Vec::new(), taken)
    }
}

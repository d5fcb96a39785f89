//! One payload under a pattern with trials at a rate, `channel` or `rpc`: what both have in common.

use super::cell::MANY_SAMPLES;
use super::leader::{Leader, Session};
use super::output::Output;
use super::workload::{LinkPlan, Send, Sent, Workload};
use super::{Error, Result};
use crate::delivery::Tally;
use crate::files::StampFiles;
use crate::measure::End;
use crate::measure::publish::Timetable;
use crate::replay::Times;
use crate::wire::{Arrived, FromLeader, WRITING};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
use tripmeter_model::channel::{FollowerTrial, Used};
use tripmeter_model::manifest::{Cell, Counts, Handover, Handovers};
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::plan::Raw;

/// Without raw samples, stamps of so many messages are kept at a time; more are sent in batches.
const MOST_STAMPS: u64 = 1 << 22;

/// What is sent in one batch.
#[derive(Clone, Copy)]
struct Batch {
    payload_bytes: u64,
    /// Over each link.
    messages: u64,
    /// Over each link.
    load: OfferedLoad,
    /// When the time of the payload is over, in ticks.
    capped: u64,
}

/// Why a trial ended before its time, for people; `None` if it did not.
pub(super) fn cut_short(end: End, broken: Option<&Error>) -> Option<String> {
    match (broken, end) {
        (Some(error), _) => Some(error.to_string()),
        (None, End::Full) => None,
        (None, End::Stopped) => Some("interrupted".to_owned()),
        (None, End::Deadline) => Some("time cap".to_owned()),
    }
}

/// What came of a trial.
pub(super) struct Tallied {
    pub tally: Tally,
    /// Of one topic.
    pub publishers: u32,
    /// Of several: what came to each.
    pub followers: Vec<FollowerTrial>,
    pub late: u64,
    pub refused: u64,
    pub duration_ns: u64,
    pub cut_short: Option<String>,
    pub own: Used,
    pub others: Option<Used>,
    /// What ended it, if something failed.
    pub broken: Option<Error>,
}

/// How many messages of all streams came damaged.
pub(super) fn damaged_of(arrived: &[Arrived]) -> u64 {
    arrived.iter().map(|arrived| arrived.damaged).sum()
}

/// The trials of a payload.
pub(super) struct Trials<R> {
    pub trials: Vec<R>,
    /// Messages that came damaged, or calls that failed, in the warm-ups.
    pub damaged: u64,
    pub planned: usize,
    pub handover_ns: Handovers,
    pub duration_ns: u64,
    /// Why nothing more is measured, if so.
    pub ending: Option<Error>,
}

impl Leader {
    /// Measures one payload: a trial of each offered load, one after the other, each with its own warm-up, of which `send`
    /// sends every batch.
    pub(super) fn trials<R>(
        &mut self,
        session: &mut Session<'_>,
        payload_bytes: u64,
        loads: &[OfferedLoad],
        send: Send,
        finish: fn(Tallied, OfferedLoad) -> R,
    ) -> Result<Trials<R>> {
        let plan = &self.job.sub_experiment;
        let (warmup, messages, base) = (plan.warmup, plan.samples_of(payload_bytes), self.job.timebase);
        let capped = self.attempts.left_of(plan.time_cap_ns).map_or(u64::MAX, |cap| base.now() + base.to_ticks(cap));
        self.controls.set_phase(&format!("measure {payload_bytes} bytes"));
        self.controls.report(&FromLeader::CellStarted { payload_bytes });
        // The rows of each batch are written at once.
        self.make_room()?;
        let before = self.handover(session)?;
        let begun = Instant::now();
        let (mut trials, mut broken, mut damaged) = (Vec::new(), None, 0);
        for load in loads {
            if self.shared.stop.load(Relaxed) || base.now() >= capped || broken.is_some() {
                break;
            }
            let batch = Batch { payload_bytes, messages, load: *load, capped };
            match self.warmed_up_trial(session, warmup, batch, send, &mut damaged) {
                Ok(mut tallied) => {
                    broken = tallied.broken.take();
                    trials.push(finish(tallied, *load));
                }
                // The trials before are whole.
                Err(error) if !trials.is_empty() => broken = Some(error),
                Err(error) => return Err(error),
            }
        }
        let (after, ending) = self.after_trials(session, broken)?;
        let duration_ns = begun.elapsed().as_nanos() as u64;
        let handover_ns = Handovers { before, after };
        Ok(Trials { trials, damaged, planned: loads.len(), handover_ns, duration_ns, ending })
    }

    /// The hand-over probe after all trials, unless something is broken, and why nothing more is measured.
    pub(super) fn after_trials(
        &mut self,
        session: &Session<'_>,
        broken: Option<Error>,
    ) -> Result<(Option<Handover>, Option<Error>)> {
        if broken.is_some() {
            return Ok((None, broken));
        }
        let after = self.handover(session)?;
        Ok((after, self.shared.stop.swap(false, Relaxed).then_some(Error::Interrupted)))
    }

    fn warmed_up_trial(
        &mut self,
        session: &mut Session<'_>,
        warmup: u64,
        batch: Batch,
        send: Send,
        damaged: &mut u64,
    ) -> Result<Tallied> {
        if warmup > 0 {
            let sent = self.send_batch(session, Batch { messages: warmup, ..batch }, send)?;
            *damaged += damaged_of(&sent.delivered.arrived);
            sent.broken.map_or(Ok(()), Err)?;
        }
        self.trial_of(session, batch, send)
    }

    fn send_batch(&mut self, session: &mut Session<'_>, batch: Batch, send: Send) -> Result<Sent<'static>> {
        let (Batch { messages, load, capped, .. }, length) = (batch, batch.payload_bytes as usize);
        let (base, count) = (self.job.timebase, session.lanes.len());
        let has_publishers = self.job.sub_experiment.workload.publishers() > 1;
        let link = |index| LinkPlan { messages, length, publisher: if has_publishers { index } else { 0 } };
        let times = move |begin, link| Times::of(load, &base, begin, link, count);
        send(self, session, &Workload { links: (0..count as u32).map(link).collect(), times: &times, capped })
    }

    /// One trial: all messages in one batch, or in several where only histograms are kept.
    fn trial_of(&mut self, session: &mut Session<'_>, batch: Batch, send: Send) -> Result<Tallied> {
        let links = session.lanes.len();
        let streams = links as u64 * u64::from(self.job.sub_experiment.workload.followers().max(1));
        let (base, raw, payload_bytes, load) = (self.job.timebase, self.job.raw, batch.payload_bytes, batch.load);
        let most = if raw == Raw::None { (MOST_STAMPS / streams).max(1) } else { u64::MAX };
        // A burst is sent in one batch, if one has room for it.
        let burst = load.burst().map_or(1, |burst| burst.size);
        let most = if most > burst { most - most % burst } else { most };
        // A client's calls follow each other; of topics, the first stands for all.
        let audited = if self.job.sub_experiment.workload.is_call() { links } else { 1 };
        let (times, loss_timeout_ns) = (Times::of(load, &base, 0, 0, 1), self.job.loss_timeout_ns);
        let new = |audited| {
            let mut tally = Tally::new(base, raw, loss_timeout_ns, links, times.period(), audited);
            tally.gap = times.gap();
            tally
        };
        let (mut tally, mut followers) = (new(audited), Vec::new());
        let (mut own, mut others) = (Used::default(), Used::default());
        let (mut left, mut refused, mut late, mut duration_ns, mut end) = (batch.messages, 0, 0, 0, End::Full);
        let mut broken = None;
        let lengths = self.stamp_files(|files| files.lengths())?;
        while left > 0 && end == End::Full && broken.is_none() {
            self.controls.set_phase(&format!("measure {payload_bytes} bytes"));
            let messages = left.min(most);
            let mut sent = self.send_batch(session, Batch { messages, ..batch }, send)?;
            if sent.is_empty() && left == batch.messages {
                sent.broken.take().map_or(Ok(()), Err)?;
            }
            left -= messages;
            (end, refused, late) = (sent.end, refused + sent.refused, late + sent.late.iter().sum::<u64>());
            broken = sent.broken;
            duration_ns += base.to_ns(sent.until.saturating_sub(sent.begin));
            own += sent.own;
            others += sent.others;
            if messages * streams > MANY_SAMPLES || broken.is_some() {
                self.controls.set_phase(WRITING);
            }
            self.stamp_files(|files| {
                let mut rows = files.rows(base, payload_bytes, load, sent.begin);
                tally.add(&sent.delivered.topics, &sent.delivered.arrived, |link, index, delivery| {
                    rows.add(link, index, delivery)
                });
                rows.finish().inspect_err(|_| files.cut(lengths))
            })?;
            followers.resize_with(sent.followers.len(), || new(0));
            let each = followers.iter_mut().zip(&sent.followers);
            each.for_each(|(tally, to)| tally.add(&to.topics, &to.arrived, |_, _, _| ()));
        }
        self.stamp_files(|files| {
            let appended = files.append(payload_bytes, load, &tally, duration_ns);
            appended.inspect_err(|_| files.cut(lengths))
        })?;
        let cut_short = cut_short(end, broken.as_ref());
        let others = (!self.is_same_process()).then_some(others);
        let publishers = self.job.sub_experiment.workload.publishers();
        let at = |(follower, tally): (usize, &mut Tally)| tally.at_follower(follower);
        let followers = followers.iter_mut().enumerate().map(at).collect();
        Ok(Tallied { tally, publishers, followers, late, refused, duration_ns, cut_short, own, others, broken })
    }

    pub(super) fn stamp_files<R>(&mut self, work: impl FnOnce(&mut StampFiles) -> std::io::Result<R>) -> Result<R> {
        let Output::Stamps(files) = &mut self.files else {
            return Err(Error::Failed("the files of another pattern were created".to_owned()));
        };
        work(files).map_err(|error| Error::of("results cannot be written", error))
    }

    /// Reports the cell of these trials, to which `put` adds them; `of` tells of a trial what happened to its messages, and
    /// why it was cut short.
    pub(super) fn report_trials<R>(
        &mut self,
        session: &Session<'_>,
        payload_bytes: u64,
        measured: Trials<R>,
        of: fn(&R) -> (Counts, Option<String>),
        put: fn(&mut Cell, Vec<R>),
    ) -> Result<()> {
        let Trials { trials, damaged, planned, handover_ns, duration_ns, ending } = measured;
        let plan = &self.job.sub_experiment;
        let (recorded, each) = (plan.workload.recorded, plan.samples_of(payload_bytes));
        let warmup = Counts { sent: damaged, damaged, ..Counts::default() };
        let counts = trials.iter().map(|trial| of(trial).0).fold(warmup, |sum, counts| sum + counts);
        let cut_short = match (&ending, trials.len() < planned) {
            (Some(error), _) => Some(error.to_string()),
            (None, true) => Some(format!("time cap: {} of {planned} offered loads", trials.len())),
            (None, false) => trials.iter().find_map(|trial| of(trial).1),
        };
        let mut cell = Cell {
            payload_bytes,
            samples: counts.received,
            samples_planned: recorded
                .map_or(each * u64::from(plan.workload.links()) * planned as u64, |all| all.messages),
            warmup: plan.warmup,
            cut_short,
            packet_bytes: session.packet_bytes,
            counts,
            from_histogram: self.job.raw == Raw::None,
            handover_ns,
            duration_ns,
            ..Cell::default()
        };
        put(&mut cell, trials);
        self.finish_cell(cell, ending)
    }
}

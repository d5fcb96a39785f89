//! Messages or calls of one payload at a rate or in bursts, by the leader: trial after trial.

use super::Result;
use super::attempts::not_written;
use super::cap::warmup_end;
use super::leader::{Leader, Session};
use super::outcome::{self, Tallied};
use super::payload::{MANY_SAMPLES, MeasuredPayload};
use super::workload::{Batch, LinkPlan, Send, Sent};
use crate::delivery::Tally;
use crate::files::{field, tag};
use crate::measure::LoopEnd;
use crate::measure::publish::Timetable;
use crate::replay::Times;
use crate::wire::{Arrived, WRITING};
use std::time::Instant;
use tripmeter_model::count::saturating_sum;
use tripmeter_model::metric::Stream;
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::used::Used;

/// Most stamps kept at a time without raw samples, of all streams.
const MOST_STAMPS: u64 = 1 << 22;
/// Most stamps of each stream; more are sent in batches, long enough that the first messages do not move a percentile.
const MOST_STAMPS_OF_A_STREAM: u64 = 1 << 17;

/// Messages at one offered load, in one batch or in several.
#[derive(Clone, Copy)]
struct LoadBatch {
    payload_bytes: u64,
    /// Messages over each link.
    messages: u64,
    load: OfferedLoad,
    /// Tick at which the time of the payload is over.
    capped: u64,
}

/// Number of damaged messages of all streams.
pub(super) fn damaged_of(arrived: &[Arrived]) -> u64 {
    saturating_sum(arrived.iter().map(|arrived| arrived.damaged))
}

impl Leader {
    /// Measures every offered load at one payload, each with its own warm-up.
    pub(super) fn timed(&mut self, session: &mut Session<'_>, payload_bytes: u64) -> Result<MeasuredPayload> {
        let plan = &self.job.sub_experiment;
        let loads = plan.workload.loads.clone();
        let (messages, links) = (plan.samples_of(payload_bytes), u64::from(plan.workload.links()));
        let (begun, capped, mut warmup, mut warmup_damaged) = (Instant::now(), self.capped(), 0, 0);
        let (trials, broken) = self.each_load(&loads, capped, |leader, load| {
            let batch = LoadBatch { payload_bytes, messages, load, capped };
            let warmed = leader.warm_up_timed(session, batch)?;
            (warmup, warmup_damaged) = (warmed.0.max(warmup), warmed.1 + warmup_damaged);
            let Some(mut tallied) = leader.trial_of(session, batch)? else { return Ok(None) };
            let broken = tallied.broken.take();
            Ok(Some((outcome::trial(tallied, load, leader.job.streams), broken)))
        })?;
        let measured = MeasuredPayload::of(trials, loads.len(), begun, broken);
        let samples_planned = messages * links * loads.len() as u64;
        Ok(MeasuredPayload { samples_planned, warmup, warmup_damaged, ..measured })
    }

    /// Function that sends a batch: of calls or of publications.
    pub(super) fn sends(&self) -> Send {
        if self.job.sub_experiment.workload.is_call() { Self::call_all } else { Self::publish_all }
    }

    /// Sends the warm-up of a load. Returns the messages over the busiest link, and the damaged ones of all.
    fn warm_up_timed(&mut self, session: &mut Session<'_>, batch: LoadBatch) -> Result<(u64, u64)> {
        let messages = self.job.sub_experiment.warmup;
        if messages == 0 {
            return Ok((0, 0));
        }
        let capped = warmup_end(self.job.timebase.now(), batch.capped);
        let sent = self.send_batch(session, LoadBatch { messages, capped, ..batch })?;
        let warmed = (sent.most(), damaged_of(&sent.delivered.arrived));
        sent.broken.map_or(Ok(warmed), Err)
    }

    fn send_batch(&mut self, session: &mut Session<'_>, batch: LoadBatch) -> Result<Sent<'static>> {
        let (LoadBatch { messages, load, capped, .. }, length) = (batch, batch.payload_bytes as usize);
        let (base, count) = (self.job.timebase, session.lanes.len());
        let has_publishers = self.job.sub_experiment.workload.publishers() > 1;
        let link = |index| LinkPlan { messages, length, publisher: if has_publishers { index } else { 0 } };
        let times = move |begin, link| Times::of(load, &base, begin, link, count);
        self.sends()(self, session, &Batch { links: (0..count as u32).map(link).collect(), times: &times, capped })
    }

    /// Makes one trial: in one batch, or in several if only histograms are kept. `None` if nothing was sent in time.
    fn trial_of(&mut self, session: &mut Session<'_>, batch: LoadBatch) -> Result<Option<Tallied>> {
        let links = session.lanes.len();
        let streams = links as u64 * u64::from(self.job.sub_experiment.workload.followers());
        let (base, raw, payload_bytes, load) = (self.job.timebase, self.job.raw, batch.payload_bytes, batch.load);
        // A burst is sent in one batch, if there is room for it.
        let burst = load.burst().map_or(1, |burst| burst.size);
        let most = (MOST_STAMPS / streams).clamp(1, MOST_STAMPS_OF_A_STREAM.max(burst));
        let most = if raw.is_none() { most } else { u64::MAX };
        let most = if most > burst { most - most % burst } else { most };
        // A client's calls follow each other; of topics, the first stands for all.
        let audited = if self.job.sub_experiment.workload.is_call() { links } else { 1 };
        let (times, loss_timeout_ns) = (Times::of(load, &base, 0, 0, 1), self.job.loss_timeout_ns);
        let (is_on_one_host, is_call) = (self.is_on_one_host(), self.job.sub_experiment.workload.is_call());
        let new = |audited| {
            let mut tally = Tally::new(base, raw, loss_timeout_ns, links, times.period(), audited);
            tally.gap = times.gap();
            if is_on_one_host { tally } else { tally.with_two_clocks(raw, is_call) }
        };
        let (mut tally, mut followers) = (new(audited), Vec::new());
        let (mut own, mut others) = (Used::NOTHING, Used::NOTHING);
        let (mut left, mut refused, mut duration_ns, mut end) = (batch.messages, 0, 0, LoopEnd::Full);
        let mut late = vec![0; links];
        let mut broken = None;
        let streams_of_links = self.streams_of_links();
        let lengths = self.files.lengths().map_err(not_written(&self.job.results.path))?;
        while left > 0 && end == LoopEnd::Full && broken.is_none() {
            self.controls.set_phase(&format!("measure {payload_bytes} bytes"));
            let messages = left.min(most);
            let is_first = left == batch.messages;
            let mut sent = match self.send_batch(session, LoadBatch { messages, ..batch }) {
                Ok(sent) => sent,
                Err(error) if is_first => return Err(error),
                Err(error) => {
                    broken = Some(error);
                    break;
                }
            };
            if sent.is_empty() && is_first {
                return sent.broken.take().map_or(Ok(None), Err);
            }
            left -= messages;
            (end, refused) = (sent.end, refused + sent.refused);
            late.iter_mut().zip(&sent.late).for_each(|(sum, late)| *sum += late);
            broken = sent.broken;
            duration_ns += base.to_ns(sent.until.saturating_sub(sent.begin));
            own += sent.own;
            others += sent.others;
            if messages * streams > MANY_SAMPLES || broken.is_some() {
                self.controls.set_phase(WRITING);
            }
            let mut rows = self.files.rows(base, payload_bytes, sent.begin);
            tally.set_clock_error(sent.clocks.largest_error());
            tally.add(&sent.delivered.topics, &sent.delivered.arrived, |link, index, delivery| {
                rows.add_delivery(&streams_of_links[link], index, delivery, is_call, load != OfferedLoad::Closed);
            });
            rows.finish().inspect_err(|_| self.files.cut(lengths)).map_err(not_written(&self.job.results.path))?;
            followers.resize_with(sent.followers.len(), || None);
            let each = followers.iter_mut().zip(&sent.followers).enumerate();
            for (follower, (tally, to)) in each {
                let Some(to) = to else { continue };
                let tally: &mut Tally = tally.get_or_insert_with(|| new(0));
                tally.set_clock_error(sent.clocks.error(follower));
                tally.add(&to.topics, &to.arrived, |_, _, _| ());
            }
        }
        let has_response = load != OfferedLoad::Closed;
        let appended = self.files.append_times(has_response, &tag(payload_bytes, load), &tally, duration_ns);
        appended.inspect_err(|_| self.files.cut(lengths)).map_err(not_written(&self.job.results.path))?;
        let cut_short = self.cut_short(end, broken.as_ref());
        let others = (!self.is_same_process()).then_some(others);
        let publishers = self.job.sub_experiment.workload.publishers();
        let are_calls = self.job.sub_experiment.workload.is_call();
        Ok(Some(Tallied {
            tally,
            are_calls,
            publishers,
            followers,
            late,
            refused,
            duration_ns,
            cut_short,
            own,
            others,
            broken,
        }))
    }

    /// Stream of each topic, publisher or client, as in rows of samples.
    fn streams_of_links(&self) -> Vec<String> {
        let workload = &self.job.sub_experiment.workload;
        let stream = |link: u32| match workload.links() {
            1 => Stream::all(),
            _ if workload.is_call() => Stream::client(link),
            _ if workload.publishers() > 1 => Stream::publisher(link),
            _ => Stream::topic(&link.to_string()),
        };
        (0..workload.links()).map(|link| field(&stream(link))).collect()
    }
}

//! Replay of a recording by the leader: a thread per topic publishes or calls every message as it was recorded.

use super::attempts::not_written;
use super::cap::warmup_end;
use super::leader::{Leader, Session};
use super::outcome::{self, PlayedTopic, Tallied};
use super::payload::MeasuredPayload;
use super::timed::damaged_of;
use super::workload::{Batch, LinkPlan, Sent};
use super::{Error, Result};
use crate::delivery::{Delivered, Tally};
use crate::files::field;
use crate::measure::publish::{Schedule, Timetable};
use crate::record::ClockError;
use crate::replay::{Replay, Times};
use crate::wire::WRITING;
use std::slice::from_ref;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
use tripmeter_model::metric::Stream;
use tripmeter_model::recording::RecordedTopic;

/// Messages per second on each topic during the warm-up.
const WARMUP_HZ: f64 = 10.0;

impl Leader {
    /// Reads the due times of the recording's messages, if one is sent.
    pub(super) fn replay(&mut self) -> Result<Option<Replay>> {
        let Some(folder) = self.job.schedule.clone() else { return Ok(None) };
        self.controls.set_phase("read the schedule of the recording");
        Replay::load(&folder, &self.job.timebase).map(Some).map_err(Error::Failed)
    }

    /// Plays the recording once; `payload_bytes` is the size of its largest message.
    pub(super) fn play(
        &mut self,
        session: &mut Session<'_>,
        replay: &Replay,
        payload_bytes: u64,
    ) -> Result<MeasuredPayload> {
        if replay.recording.topics.len() != session.lanes.len() {
            return Err(Error::Failed("the schedule has other topics than the plan".to_owned()));
        }
        let (messages, base, capped) = (self.job.sub_experiment.warmup, self.job.timebase, self.capped());
        let send = self.sends();
        self.controls.set_phase("play the recording");
        let begun = Instant::now();
        let (recorded, count) = (&replay.recording.topics, replay.recording.topics.len());
        let link = |recorded: &RecordedTopic, messages| LinkPlan {
            messages,
            length: recorded.largest_sent_bytes() as usize,
            publisher: 0,
        };
        let (mut warmup, mut damaged) = (0, 0);
        if messages > 0 {
            let period = base.ticks_per_ns() * 1e9 / WARMUP_HZ;
            let times = |begin: u64, index: usize| {
                let first = begin + (period * index as f64 / count as f64) as u64;
                Times::Even(Schedule { first, period })
            };
            let links = recorded.iter().map(|recorded| link(recorded, messages)).collect();
            let capped = warmup_end(base.now(), capped);
            let sent = send(self, session, &Batch { links, times: &times, capped })?;
            (warmup, damaged) = (sent.most(), damaged_of(&sent.delivered.arrived));
            sent.broken.map_or(Ok(()), Err)?;
        }
        let (mut trials, mut broken) = (Vec::new(), None);
        if !self.shared.stop.load(Relaxed) {
            let times = |begin, index| Times::Recorded(replay.times(index, begin));
            let links = recorded.iter().map(|recorded| link(recorded, recorded.messages)).collect();
            let mut sent = send(self, session, &Batch { links, times: &times, capped })?;
            if sent.is_empty() {
                sent.broken.take().map_or(Ok(()), Err)?;
            } else {
                self.controls.set_phase(WRITING);
                let (mut all, topics) = self.write_topics(replay, sent, payload_bytes)?;
                broken = all.broken.take();
                let mut trial = outcome::recorded(all, topics, self.job.streams);
                trial.number = self.files.next_trial();
                trials.push(trial);
                self.controls.set_phase("play the recording");
            }
        }
        let samples_planned = recorded.iter().map(|topic| topic.messages).sum();
        let measured = MeasuredPayload::of(trials, 1, begun, broken);
        Ok(MeasuredPayload { samples_planned, warmup, warmup_damaged: damaged, ..measured })
    }

    /// Writes the messages topic by topic, and returns their counts and figures.
    fn write_topics(
        &mut self,
        replay: &Replay,
        sent: Sent<'_>,
        payload_bytes: u64,
    ) -> Result<(Tallied, Vec<PlayedTopic>)> {
        let (base, raw, loss_timeout_ns) = (self.job.timebase, self.job.raw, self.job.loss_timeout_ns);
        let is_call = self.job.sub_experiment.workload.is_call();
        let tally_of = |period, audited, error: ClockError| {
            let tally = Tally::new(base, raw, loss_timeout_ns, 1, period, audited);
            if !sent.clocks.are_two() {
                return tally;
            }
            let mut tally = tally.with_two_clocks(raw, is_call);
            tally.set_clock_error(error);
            tally
        };
        let tally = |period, audited| tally_of(period, audited, sent.clocks.largest_error());
        // Only figures that do not depend on a period are used of this one.
        let mut all = tally(f64::INFINITY, 0);
        let at_follower = |(follower, to): (usize, &Option<Delivered<Times<'_>>>)| {
            let to = to.as_ref()?;
            let mut tally = tally_of(f64::INFINITY, 0, sent.clocks.error(follower));
            for (topic, arrived) in to.topics.iter().zip(&to.arrived) {
                tally.add(from_ref(topic), from_ref(arrived), |_, _, _| ());
            }
            Some(tally)
        };
        let followers = sent.followers.iter().enumerate().map(at_follower).collect();
        let (mut topics, duration_ns) = (Vec::new(), base.to_ns(sent.until.saturating_sub(sent.begin)));
        let lengths = self.files.lengths().map_err(not_written(&self.job.results.path))?;
        let mut write = || {
            for (index, (topic, arrived)) in sent.delivered.topics.iter().zip(&sent.delivered.arrived).enumerate() {
                let recorded = replay.recording.topics[index].clone();
                let schedule = &replay.times(index, sent.begin);
                let mut one = tally(schedule.period(), 1);
                let offered_hz = 1e9 / replay.recording.period_ns(&recorded);
                let stream = field(&Stream::topic(&recorded.name));
                let mut rows = self.files.rows(base, payload_bytes, sent.begin);
                one.add(from_ref(topic), from_ref(arrived), |_, at, delivery| {
                    rows.payload_bytes = schedule.length(at, 0) as u64;
                    rows.add_delivery(&stream, at, delivery, is_call, true);
                });
                rows.finish()?;
                self.files.append_times(true, &format!("topic_{index}"), &one, duration_ns)?;
                all.add(from_ref(topic), from_ref(arrived), |_, _, _| ());
                let late = sent.late.get(index).copied().unwrap_or(0);
                topics.push(PlayedTopic { recorded, offered_hz, tally: one, late });
            }
            self.files.append_times(true, "recording", &all, duration_ns)
        };
        let written = write();
        written.inspect_err(|_| self.files.cut(lengths)).map_err(not_written(&self.job.results.path))?;
        let played = sent.delivered.topics.iter().zip(&replay.recording.topics);
        let silent = silent(played.filter(|(topic, _)| topic.sent.is_empty()).map(|(_, recorded)| recorded));
        let all = Tallied {
            tally: all,
            are_calls: self.job.sub_experiment.workload.is_call(),
            publishers: 1,
            followers,
            late: sent.late,
            refused: sent.refused,
            duration_ns,
            cut_short: self.cut_short(sent.end, sent.broken.as_ref()).map(|why| why.and(&silent)),
            own: sent.own,
            others: (!self.is_same_process()).then_some(sent.others),
            broken: sent.broken,
        };
        Ok((all, topics))
    }
}

/// Topics that had no message when the trial ended, for people; empty if there are none.
fn silent<'a>(mut topics: impl Iterator<Item = &'a RecordedTopic>) -> String {
    let Some(first) = topics.next() else { return String::new() };
    match topics.count() {
        0 => format!("; no message of {}", first.name),
        more => format!("; no message of {} and {more} more", first.name),
    }
}

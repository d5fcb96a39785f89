//! One payload, measured by the leader.

use super::leader::{Leader, Session};
use super::output::Output;
use super::patience::Patience;
use super::{Error, Result};
use crate::lanes::RoundTrips;
use crate::measure::End;
use crate::measure::notes::ArrivalMemory;
use crate::measure::stamps::{self, MISSING, Row};
use crate::memory::reserved;
use crate::record::{Distribution, Recorded, Recorder};
use crate::wire::{Begin, FromLeader, Task, ToFollower, WRITING};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tripmeter_model::manifest::{AtFollower, Cell, Counts, Figures, Handover, Handovers};
use tripmeter_model::plan::Raw;

/// Between two signs of life.
const SIGN_OF_LIFE_NS: u64 = 1_000_000_000;
/// Share of the time cap that the warm-up may take.
const WARMUP_SHARE: f64 = 0.2;

/// So many take seconds to sort and to write.
pub(super) const MANY_SAMPLES: u64 = 1_000_000;

/// What came of the trips of a cell.
struct Outcome {
    recorded: Recorded,
    counts: Counts,
    /// At each of several followers.
    at_followers: Vec<Counts>,
    warmup: u64,
    duration_ns: u64,
    end: End,
    /// What ended it, if something failed.
    broken: Option<Error>,
    stamped: Option<Stamped>,
}

/// When the messages of a cell were sent, for latency one way.
struct Stamped {
    rows: Vec<Row>,
    /// Of the round trips.
    ticks: Vec<u64>,
    /// Number of the first message whose arrival is noted.
    first: u64,
    /// Has the arrivals, also those at a follower that was killed.
    memory: ArrivalMemory,
}

/// Whose latency one way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Latency {
    /// To the only follower.
    Only,
    /// To one of several.
    At(u32),
    /// To the last of them.
    Last,
}

/// Latencies one way.
pub(super) struct OneWay {
    of: Latency,
    times: Distribution,
    figures: Option<Figures>,
    /// Samples that have none.
    missing: u64,
}

impl Latency {
    /// Of its histogram.
    fn tag(self, payload_bytes: u64) -> String {
        match self {
            Latency::Only => format!("one_way_{payload_bytes}"),
            Latency::At(follower) => format!("one_way_{payload_bytes}_follower_{follower}"),
            Latency::Last => format!("one_way_{payload_bytes}_last"),
        }
    }
}

impl Leader {
    /// Measures one payload, writes it, and reports it.
    pub(super) fn measure(&mut self, session: &mut Session<'_>, payload_bytes: u64) -> Result<()> {
        let (before, memory) = self.begin(session, payload_bytes)?;
        let plan = &self.job.sub_experiment;
        let (warmup, cap_ns) = (plan.warmup, self.attempts.left_of(plan.time_cap_ns));
        let (base, shared) = (self.job.timebase, self.shared.clone());
        let mut recorder = Recorder::new(base, self.job.raw, plan.samples_of(payload_bytes))?;
        let mut warm = Recorder::new(base, Raw::None, warmup)?;
        if plan.one_way {
            // What latencies one way are made in at the end: found to be too little now, and not then.
            let values = plan.samples_of(payload_bytes).saturating_mul(2 + 4 * u64::from(plan.workload.followers()));
            drop(reserved::<u64>(values, "values of latencies one way")?);
        }
        let (setting, first) = (self.setting(&session.inboxes[0], &shared), session.sequence);
        let mut trips = RoundTrips::new(self.controls.followers(), None, first, payload_bytes as usize);
        let lane = &mut *session.lanes[0];
        self.arm();
        // Until the recorder is full, the deadline has passed, or the user has asked to stop; with signs of life.
        let mut rows = Vec::new();
        let mut record = |trips: &mut RoundTrips, recorder: &mut Recorder, deadline: u64, is_shown| {
            rows.clear();
            while !recorder.free().is_empty() {
                let pause = deadline.min(base.now() + base.to_ticks(SIGN_OF_LIFE_NS));
                let (stored, end) = lane.round_trips(setting, trips, recorder.free(), pause, None);
                let before = recorder.count() as usize;
                rows.extend(trips.rows().iter().map(|row| Row { first_sample: before + row.first_sample, ..*row }));
                recorder.advance(stored);
                let end = end?;
                match end {
                    End::Full => {}
                    End::Deadline if shared.stop.load(Relaxed) => return Ok(End::Stopped),
                    End::Deadline if base.now() < deadline => {
                        let samples = if is_shown { recorder.count() } else { 0 };
                        self.controls.report(&FromLeader::Progress { samples, moves: trips.sequence() });
                    }
                    End::Deadline | End::Stopped => return Ok(end),
                }
            }
            Ok(End::Full)
        };
        let start = base.now();
        let end_of = |share: f64| cap_ns.map_or(u64::MAX, |cap| start + base.to_ticks((cap as f64 * share) as u64));
        let (mut begin, mut warmed) = (start, first);
        let result = record(&mut trips, &mut warm, end_of(WARMUP_SHARE), false).and_then(|end| {
            (begin, warmed) = (base.now(), trips.sequence());
            if end == End::Stopped { Ok(end) } else { record(&mut trips, &mut recorder, end_of(1.0), true) }
        });
        let duration_ns = base.to_ns(base.now() - begin);
        self.arm_briefly();
        let result = result.and_then(|found| lane.drain(setting, &mut trips).map(|()| found));
        self.disarm();
        session.sequence = trips.sequence();
        let answers = trips.answers();
        let (sent, tracked) = (trips.sequence() - first - answers.abandoned(), answers.counts());
        let at_followers = answers.at_followers().into_iter().map(|counts| Counts { sent, ..counts }).collect();
        let (end, broken) = match result {
            Ok(end) => (end, None),
            Err(failure) => (End::Stopped, Some(self.controls.diagnose(failure))),
        };
        if end == End::Stopped {
            self.shared.stop.store(false, Relaxed);
        }
        if recorder.count() > MANY_SAMPLES || broken.is_some() {
            self.controls.set_phase(WRITING);
        }
        let stamped = memory.map(|memory| {
            let ticks = recorder.ticks().to_vec();
            Stamped { rows, ticks, first: first + 1, memory }
        });
        let (recorded, warmup) = (recorder.finish(), warm.count());
        let mut counts = Counts { sent, received: warmup + recorded.count, ..tracked };
        if broken.is_some() {
            // With what was under way.
            counts.lost = sent.saturating_sub(counts.received + counts.damaged);
        }
        let outcome = Outcome { recorded, counts, at_followers, warmup, duration_ns, end, broken, stamped };
        self.finish(session, payload_bytes, before, outcome)
    }

    /// Makes the followers ready; returns the hand-over probe before the cell, and where arrivals are noted, if they are.
    fn begin(
        &mut self,
        session: &Session<'_>,
        payload_bytes: u64,
    ) -> Result<(Option<Handover>, Option<ArrivalMemory>)> {
        self.controls.set_phase(&format!("measure {payload_bytes} bytes"));
        self.controls.report(&FromLeader::CellStarted { payload_bytes });
        let before = self.handover(session)?;
        let mut begin = Begin::new(Task::Answer, session.sequence + 1, payload_bytes);
        let plan = &self.job.sub_experiment;
        // Twice as many as planned, as some may be lost; more are not noted.
        begin.most = vec![2 * (plan.warmup + plan.samples_of(payload_bytes)); usize::from(plan.one_way)];
        let memory = plan.one_way.then(|| ArrivalMemory::create(begin.most.clone(), self.controls.followers()));
        let memory = memory.transpose()?;
        begin.arrivals = memory.as_ref().map(ArrivalMemory::place);
        self.controls.ask_all(&ToFollower::Begin(begin))?;
        Ok((before, memory))
    }

    /// Stops the follower, probes the hand-over again, writes the samples, and reports the cell.
    fn finish(
        &mut self,
        session: &Session<'_>,
        payload_bytes: u64,
        before: Option<Handover>,
        mut outcome: Outcome,
    ) -> Result<()> {
        let mut after = None;
        if outcome.broken.is_none() {
            self.controls.send_all(&ToFollower::End { last: Vec::new() })?;
            for follower in 0..self.controls.followers() {
                self.controls.recv_report(follower, Patience::ANSWER)?;
            }
            after = self.handover(session)?;
        }
        let cut_short = self.cut_short(&outcome);
        let ending = outcome.broken.take().or((outcome.end == End::Stopped).then_some(Error::Interrupted));
        if outcome.recorded.count == 0
            && let Some(ending) = ending
        {
            return Err(ending);
        }
        let one_way = self.one_way(outcome.stamped.take());
        let outcome = &outcome;
        let mut cell = self.cell(payload_bytes, session.packet_bytes, outcome, Handovers { before, after });
        cell.cut_short = cut_short;
        let find = |of: &Latency| one_way.iter().find(|one| one.of == *of).filter(|one| one.figures.is_some());
        let figures = |of: &Latency| find(of).and_then(|one| one.figures);
        let within_run = |of: &Latency| find(of).and_then(|one| one.times.within_run());
        cell.one_way_ns = figures(&Latency::Only);
        cell.one_way_last_ns = figures(&Latency::Last);
        cell.one_way_missing = one_way.iter().map(|one| one.missing).max().unwrap_or(0);
        cell.one_way_within_run_ns = within_run(&Latency::Only);
        cell.one_way_last_within_run_ns = within_run(&Latency::Last);
        cell.followers = (0..)
            .zip(&outcome.at_followers)
            .map(|(follower, counts)| {
                let one_way_ns = figures(&Latency::At(follower));
                let one_way_within_run_ns = within_run(&Latency::At(follower));
                AtFollower { follower, counts: *counts, one_way_ns, one_way_within_run_ns }
            })
            .collect();
        self.make_room()?;
        if let Output::Samples(files) = &mut self.files {
            let duration = Duration::from_nanos(outcome.duration_ns);
            let others: Vec<_> = one_way.iter().map(|one| (one.of.tag(payload_bytes), &one.times.histogram)).collect();
            let appended = files.append(payload_bytes, &outcome.recorded, &others, duration);
            appended.map_err(|error| Error::of("results cannot be written", error))?;
        }
        self.finish_cell(cell, ending)
    }

    /// Latencies one way, from our stamps and the followers', of messages that were answered.
    fn one_way(&self, stamped: Option<Stamped>) -> Vec<OneWay> {
        let Some(Stamped { rows, ticks, first, mut memory }) = stamped else { return Vec::new() };
        let mut each = Vec::new();
        for follower in 0..self.controls.followers() {
            let logs = memory.logs(follower);
            each.extend(logs.iter().map(|log| stamps::one_way(&rows, &ticks, first, log.ticks)));
        }
        let one_way = |of, ticks: &[u64]| {
            let mut times = Distribution::new(Raw::Csv);
            let known = ticks.iter().filter(|ticks| **ticks != MISSING);
            known.for_each(|ticks| times.record(self.job.timebase.to_ns(*ticks)));
            OneWay { of, figures: times.figures(), missing: ticks.len() as u64 - times.histogram.len(), times }
        };
        if let [only] = &each[..] {
            return vec![one_way(Latency::Only, only)];
        }
        let last = one_way(Latency::Last, &stamps::last(&each));
        let each = (0..).zip(&each).map(|(follower, latencies)| one_way(Latency::At(follower), latencies));
        each.chain([last]).collect()
    }

    /// Why the payload ended before its time, for people.
    fn cut_short(&self, outcome: &Outcome) -> Option<String> {
        match (&outcome.broken, outcome.end) {
            (Some(error), _) => Some(error.to_string()),
            (None, End::Full) => None,
            (None, End::Stopped) => Some("interrupted".to_owned()),
            (None, End::Deadline) => {
                let cap = self.job.sub_experiment.time_cap_ns;
                cap.map(|cap| format!("time cap of {} s", cap as f64 / 1e9))
            }
        }
    }

    fn cell(&self, payload_bytes: u64, packet_bytes: u64, outcome: &Outcome, handover_ns: Handovers) -> Cell {
        let plan = &self.job.sub_experiment;
        Cell {
            payload_bytes,
            samples: outcome.recorded.count,
            samples_planned: plan.samples_of(payload_bytes),
            warmup: outcome.warmup,
            packet_bytes,
            counts: outcome.counts,
            rtt_ns: outcome.recorded.figures,
            rtt_half_ns: outcome.recorded.figures.map(|figures| figures.scaled(0.5)),
            rtt_half_within_run_ns: outcome.recorded.within_run.map(|within| within.scaled(0.5)),
            series: outcome.recorded.series.clone().map(|series| series.scaled(0.5)),
            from_histogram: self.job.raw == Raw::None,
            handover_ns,
            duration_ns: outcome.duration_ns,
            ..Cell::default()
        }
    }
}

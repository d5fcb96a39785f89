//! Consecutive round trips of one payload, by the leader.

use super::cap::warmup_end;
use super::host_clocks::{Clocks, Readings};
use super::instruments::Instruments;
use super::leader::{Leader, Session};
use super::patience::FollowerPatience;
use super::payload::{MANY_SAMPLES, MeasuredPayload, Samples};
use super::{Error, Result};
use crate::lanes::RoundTrips;
use crate::measure::LoopEnd;
use crate::measure::notes::ArrivalMemory;
use crate::measure::stamps::{self, MISSING, TripRow};
use crate::memory::reserved;
use crate::record::{Distribution, RecordedSamples, Recorder};
use crate::wire::{ArrivalPlace, Begin, FromLeader, Task, ToFollower, WRITING};
use std::sync::atomic::Ordering::Relaxed;
use tripmeter_model::cut_short::CutShort;
use tripmeter_model::figure::Figure;
use tripmeter_model::manifest::Counts;
use tripmeter_model::metric::Stream;
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::plan::Raw;
use tripmeter_model::trial::Trial;

const SIGN_OF_LIFE_NS: u64 = 1_000_000_000;

struct TripsOutcome {
    recorded: RecordedSamples,
    counts: Counts,
    /// Counts at each of several followers.
    at_followers: Vec<Counts>,
    warmup: u64,
    /// True if nothing was sent after the warm-up.
    is_empty: bool,
    duration_ns: u64,
    end: LoopEnd,
    broken: Option<Error>,
    /// Send times of the messages of a cell.
    rows: Vec<TripRow>,
    /// Tick at which the samples began, and number of the first message from then on.
    begun: (u64, u64),
    /// Clocks of other hosts, before.
    clocks: Readings,
    /// Arrivals, even at a follower that was killed, and number of the first message noted.
    arrivals: Option<(ArrivalMemory, u64)>,
    instruments: Instruments,
}

/// Follower that a one-way latency is to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Latency {
    Only,
    /// One of several.
    At(u32),
    /// Last of several.
    Last,
}

struct OneWayLatencies {
    of: Latency,
    times: Distribution,
    /// Samples without a latency.
    missing: u64,
    /// Samples that came before they were sent, by two clocks.
    before_sent: u64,
}

impl Latency {
    fn tag(self, payload_bytes: u64) -> String {
        match self {
            Latency::Only => format!("one_way_{payload_bytes}"),
            Latency::At(follower) => format!("one_way_{payload_bytes}_follower_{follower}"),
            Latency::Last => format!("one_way_{payload_bytes}_last"),
        }
    }
}

/// Counts messages under way as lost, if round trips broke off.
fn count_under_way(counts: &mut Counts, at_followers: &mut [Counts]) {
    let lost = |at: &Counts| at.sent.saturating_sub(at.received + at.late + at.damaged);
    at_followers.iter_mut().for_each(|at| at.lost = lost(at));
    let totals = at_followers.iter().map(|at| at.lost);
    counts.lost = if totals.len() > 0 { totals.sum() } else { lost(counts) };
}

impl Leader {
    /// Measures the warm-up and the round trips of one payload.
    pub(super) fn trips(&mut self, session: &mut Session<'_>, payload_bytes: u64) -> Result<MeasuredPayload> {
        let clocks = self.read_clocks()?;
        let plan = &self.job.sub_experiment;
        let (base, shared) = (self.job.timebase, self.shared.clone());
        let mut recorder = Recorder::new(base, self.job.raw, plan.samples_of(payload_bytes))?;
        let mut warm = Recorder::new(base, Raw::NONE, plan.warmup)?;
        if plan.one_way {
            // Checks that there is memory for the latencies made at the end: a lack must show now, not then.
            let values = plan.samples_of(payload_bytes).saturating_mul(2 + 4 * u64::from(plan.workload.followers()));
            drop(reserved::<u64>(values, "values of latencies one way")?);
        }
        let (setting, first) = (self.setting(&session.inboxes[0], &shared), session.sequence);
        let mut trips = RoundTrips::new(self.controls.followers(), None, first, payload_bytes as usize);
        if session.abandoned > 0 {
            trips.abandon(session.abandoned);
        }
        let instrument = plan.instrument;
        // From now on followers look for messages, which costs CPU time under `poll`.
        let (memory, mut instruments) = self.begin_trips(session, payload_bytes)?;
        let lane = &mut *session.lanes[0];
        self.arm();
        instruments.open_window(instrument);
        let mut stamps = instruments.log();
        let capped = self.capped();
        self.give_up_at(capped);
        // Records until the recorder is full, the deadline has passed, or the user has asked to stop; gives signs of life.
        let mut rows = Vec::new();
        let mut record = |trips: &mut RoundTrips, recorder: &mut Recorder, deadline: u64, is_shown| {
            rows.clear();
            // A piece of the recorder may be full long before.
            let mut next_sign = base.now() + base.to_ticks(SIGN_OF_LIFE_NS);
            while !recorder.free().is_empty() {
                let pause = deadline.min(next_sign);
                let (stored, end) = match &mut stamps {
                    Some(stamps) => lane.stamped_trips(setting, trips, recorder.free(), pause, stamps),
                    None => lane.round_trips(setting, trips, recorder.free(), pause, None),
                };
                let before = recorder.count() as usize;
                rows.extend(trips.rows().iter().map(|row| TripRow { first_sample: before + row.first_sample, ..*row }));
                recorder.advance(stored);
                let (end, now) = (end?, base.now());
                match end {
                    LoopEnd::Full => {}
                    LoopEnd::Deadline if shared.stop.load(Relaxed) => return Ok(LoopEnd::Stopped),
                    LoopEnd::Deadline if now < deadline => {}
                    LoopEnd::Deadline | LoopEnd::Stopped => return Ok(end),
                }
                if now >= next_sign {
                    let samples = if is_shown { recorder.count() } else { 0 };
                    self.controls.report(&FromLeader::Progress { samples, moves: trips.sequence() });
                    next_sign = now + base.to_ticks(SIGN_OF_LIFE_NS);
                }
            }
            Ok(LoopEnd::Full)
        };
        let (mut begin, mut warmed) = (base.now(), first);
        let result = record(&mut trips, &mut warm, warmup_end(begin, capped), false).and_then(|end| {
            (begin, warmed) = (base.now(), trips.sequence());
            let is_over = end == LoopEnd::Stopped || begin >= capped;
            if is_over { Ok(end) } else { record(&mut trips, &mut recorder, capped, true) }
        });
        self.give_up_at(0);
        let duration_ns = base.to_ns(base.now() - begin);
        // Followers wait idly from now on, which must not be counted.
        let unended = if instruments.close_window() && result.is_ok() {
            self.end_followers(&mut instruments).err()
        } else {
            None
        };
        self.arm_briefly();
        let result = result.and_then(|found| lane.drain(setting, &mut trips).map(|()| found));
        self.disarm();
        session.sequence = trips.sequence();
        let answers = trips.answers();
        let is_empty = session.sequence == warmed + answers.abandoned();
        if answers.abandoned() > 0 {
            session.abandoned = session.sequence;
        }
        let (sent, tracked) = (trips.sequence() - first - answers.abandoned(), answers.counts());
        let at_followers = answers.at_followers().into_iter().map(|counts| Counts { sent, ..counts });
        let mut at_followers: Vec<Counts> = at_followers.collect();
        let (end, broken) = match result {
            Ok(end) => (end, unended),
            Err(failure) => (LoopEnd::Stopped, Some(self.controls.diagnose(failure))),
        };
        if recorder.count() > MANY_SAMPLES || broken.is_some() {
            self.controls.set_phase(WRITING);
        }
        let (arrivals, begun) = (memory.map(|memory| (memory, first + 1)), (begin, warmed + 1));
        let (recorded, warmup) = (recorder.finish(), warm.count());
        let mut counts = Counts { sent, received: warmup + recorded.count, ..tracked };
        if broken.is_some() {
            count_under_way(&mut counts, &mut at_followers);
        }
        let outcome = TripsOutcome {
            recorded,
            counts,
            at_followers,
            warmup,
            is_empty,
            duration_ns,
            end,
            broken,
            rows,
            begun,
            clocks,
            arrivals,
            instruments,
        };
        self.end_trips(payload_bytes, outcome)
    }

    /// Prepares the followers. Returns the memory for arrivals, if they are noted, and the instruments.
    fn begin_trips(
        &mut self,
        session: &Session<'_>,
        payload_bytes: u64,
    ) -> Result<(Option<ArrivalMemory>, Instruments)> {
        let mut begin = Begin::new(Task::Answer, session.sequence + 1, payload_bytes);
        let plan = &self.job.sub_experiment;
        begin.instrument = plan.instrument;
        // Twice as many as planned, as some may be lost; more are not noted.
        let most = 2 * (plan.warmup + plan.samples_of(payload_bytes));
        begin.most = vec![most; usize::from(plan.one_way)];
        let memory = plan.one_way.then(|| ArrivalMemory::create(begin.most.clone(), self.controls.followers()));
        let memory = memory.transpose()?;
        begin.arrivals = memory.as_ref().map(|memory| self.arrival_place(memory));
        let instruments = Instruments::new(plan.instrument, begin.first, most)?;
        if let Some((place, room)) = instruments.place() {
            (begin.arrivals, begin.most) = (Some(ArrivalPlace::Leader(place)), room);
        }
        self.controls.ask_all(&ToFollower::Begin(begin))?;
        Ok((memory, instruments))
    }

    fn end_followers(&mut self, instruments: &mut Instruments) -> Result<()> {
        self.controls.send_all(&ToFollower::End { last: Vec::new() })?;
        let reports = (0..self.controls.followers())
            .map(|follower| self.controls.recv_report(follower, FollowerPatience::ANSWER).map(|report| report.used));
        let used = reports.collect::<Result<Vec<_>>>()?;
        instruments.ended(used.into_iter().filter(|_| !self.is_same_process()));
        Ok(())
    }

    /// Stops the followers, and assembles the results.
    fn end_trips(&mut self, payload_bytes: u64, mut outcome: TripsOutcome) -> Result<MeasuredPayload> {
        if outcome.broken.is_none() && !outcome.instruments.have_ended() {
            // Answered messages are kept, even if this fails.
            outcome.broken = self.end_followers(&mut outcome.instruments).err();
        }
        let cut_short = self.cut_short(outcome.end, outcome.broken.as_ref());
        let samples_planned = self.job.sub_experiment.samples_of(payload_bytes);
        if outcome.recorded.count == 0 {
            outcome.broken.take().map_or(Ok(()), Err)?;
            self.check_stop()?;
            if outcome.is_empty {
                let (warmup, cut_short) = (outcome.warmup, Some(CutShort::before_loads(0, 1)));
                return Ok(MeasuredPayload { samples_planned, warmup, cut_short, ..MeasuredPayload::default() });
            }
        }
        let clocks = self.clocks_since(std::mem::take(&mut outcome.clocks), &mut outcome.broken);
        if let Some((memory, _)) = &mut outcome.arrivals {
            self.settle(&clocks, memory)?;
        }
        let latencies = latencies(&mut outcome, clocks.are_two());
        let mut one_way = self.one_way(&latencies, &clocks);
        let mut trial = trial(&mut outcome, &mut one_way, cut_short.clone());
        clocks.put(&mut trial);
        let messages = outcome.begun.1..outcome.begun.1 + outcome.recorded.count + outcome.counts.lost;
        outcome.instruments.put(&mut trial, self.job.timebase, messages);
        let others = one_way.iter().filter_map(|one| Some((one.of.tag(payload_bytes), one.times.histogram()?.clone())));
        let are_known = !latencies.is_empty() && !clocks.largest_error().is_too_large;
        Ok(MeasuredPayload {
            trials: vec![trial],
            samples: outcome.recorded.count,
            samples_planned,
            warmup: outcome.warmup,
            cut_short,
            duration_ns: outcome.duration_ns,
            unwritten: Some(Samples {
                recorded: outcome.recorded,
                others: others.collect(),
                rows: outcome.rows,
                one_way: are_known.then(|| stamps::last(&latencies)),
                begin: outcome.begun.0,
                first: outcome.begun.1,
            }),
            broken: outcome.broken,
            ..MeasuredPayload::default()
        })
    }

    /// One-way latencies of answered messages, from those to each follower.
    fn one_way(&self, each: &[Vec<i64>], clocks: &Clocks) -> Vec<OneWayLatencies> {
        if each.is_empty() {
            return Vec::new();
        }
        let one_way = |of, ticks: &[i64]| {
            let error = match of {
                Latency::Only => clocks.error(0),
                Latency::At(follower) => clocks.error(follower as usize),
                Latency::Last => clocks.largest_error(),
            };
            let mut times = clocks.distribution(Raw::SAMPLES, error);
            let missing = ticks.iter().filter(|ticks| **ticks == MISSING).count() as u64;
            let mut before_sent = 0;
            for ticks in ticks.iter().filter(|ticks| **ticks != MISSING && !error.is_too_large) {
                before_sent += u64::from(*ticks < 0);
                times.record_signed(self.job.timebase.to_signed_ns(*ticks));
            }
            OneWayLatencies { of, missing, before_sent, times }
        };
        if let [only] = each {
            return vec![one_way(Latency::Only, only)];
        }
        let last = one_way(Latency::Last, &stamps::last(each));
        let each = (0..).zip(each).map(|(follower, latencies)| one_way(Latency::At(follower), latencies));
        each.chain([last]).collect()
    }
}

/// One-way latencies to each follower in ticks, from both sides' stamps; none if arrivals were not noted.
fn latencies(outcome: &mut TripsOutcome, two_clocks: bool) -> Vec<Vec<i64>> {
    let Some((mut memory, first)) = outcome.arrivals.take() else { return Vec::new() };
    let followers = outcome.at_followers.len().max(1) as u32;
    let mut each = Vec::new();
    for follower in 0..followers {
        let logs = memory.logs(follower);
        let (rows, trips) = (&outcome.rows, &outcome.recorded.ticks);
        each.extend(logs.iter().map(|log| stamps::one_way(rows, trips, first, log.ticks, two_clocks)));
    }
    each
}

fn trial(outcome: &mut TripsOutcome, one_way: &mut [OneWayLatencies], cut_short: Option<CutShort>) -> Trial {
    let (mut trial, all) = (Trial::new(OfferedLoad::Closed), Stream::all());
    trial.cut_short = cut_short;
    outcome.recorded.times.put_scaled(&mut trial, &all, Figure::RttHalf, 0.5);
    trial.put_series(&all, Figure::RttHalf, outcome.recorded.series.take().map(|series| series.scaled(0.5)));
    trial.put_counts(&all, &outcome.counts, false);
    for (follower, counts) in (0..).zip(&outcome.at_followers) {
        trial.put_counts(&Stream::follower(follower), counts, false);
    }
    for one in one_way.iter_mut() {
        let stream = match one.of {
            Latency::Only => Stream::all(),
            Latency::At(follower) => Stream::follower(follower),
            Latency::Last => Stream::last(),
        };
        one.times.put(&mut trial, &stream, Figure::OneWay);
        if one.before_sent > 0 {
            trial.put(&stream, Figure::BeforeSent, one.before_sent as f64);
        }
    }
    let missing = one_way.iter().map(|one| one.missing).max().unwrap_or(0);
    trial.put(&all, Figure::OneWayMissing, missing as f64);
    trial.put(&all, Figure::Duration, outcome.duration_ns as f64);
    trial
}

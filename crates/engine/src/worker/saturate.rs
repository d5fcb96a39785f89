//! One-way messages of one payload at full speed, or as they are offered, by the leader: trial after trial.

use super::Result;
use super::attempts::not_written;
use super::cap::warmup_end;
use super::host_clocks::Clocks;
use super::leader::{Leader, Session};
use super::outcome::put_costs;
use super::patience::{FollowerPatience, SIGN_OF_LIFE};
use super::payload::MeasuredPayload;
use super::pool::Window;
use super::search::search;
use crate::clock::Timebase;
use crate::delivery::is_missed;
use crate::files::SampleStamps;
use crate::lanes::{Flow, Spaced};
use crate::measure::notes::ArrivalMemory;
use crate::measure::sampling::{self, SampledTimes};
use crate::measure::stream::{Even, Extent, Paused, Spacing};
use crate::measure::{Failure, LoopEnd, Shared};
use crate::record::ClockError;
use crate::wire::{Arrived, Begin, FromLeader, Task, ToFollower};
use std::time::Instant;
use tripmeter_abi::Wait;
use tripmeter_model::cut_short::CutShort;
use tripmeter_model::delivery::DeliveryStatus;
use tripmeter_model::figure::Figure;
use tripmeter_model::manifest::Counts;
use tripmeter_model::metric::Stream;
use tripmeter_model::pace::{Burst, OfferedLoad};
use tripmeter_model::plan::Raw;
use tripmeter_model::search::per_second;
use tripmeter_model::trial::Trial;
use tripmeter_model::used::Used;
use tripmeter_model::workload::Workload;

/// Small messages between two clock readings, at full speed and within a burst.
const BURST: u64 = 32;
/// Largest small message: a burst of them takes some microseconds.
const SMALL_BYTES: u64 = 4096;
/// Messages per second during a warm-up.
const WARMUP_HZ: f64 = 10_000.0;
/// Divisor of a trial's duration that gives its longest warm-up.
const WARMUP_SHARE: u64 = 5;
/// Longest warm-up if nothing bounds the time of a trial.
const LONGEST_WARMUP_NS: u64 = 1_000_000_000;
/// Shortest wait for a due message that the leader sleeps through, unless it polls.
const NAP_NS: u64 = 300_000;

#[derive(Clone, Copy)]
struct TrialBounds {
    messages: Option<u64>,
    duration_ns: Option<u64>,
    /// True if timed messages are samples; those of warm-ups and of steps of a search are not.
    has_rows: bool,
}

impl TrialBounds {
    /// Most messages of a trial: none takes less than a nanosecond.
    fn most_messages(self) -> u64 {
        self.messages.unwrap_or(u64::MAX).min(self.duration_ns.unwrap_or(u64::MAX))
    }
}

impl Leader {
    /// Measures every offered load at one payload, one after the other.
    pub(super) fn saturate(&mut self, session: &mut Session<'_>, payload_bytes: u64) -> Result<MeasuredPayload> {
        let load = self.job.sub_experiment.workload.clone();
        let (begun, capped) = (Instant::now(), self.capped());
        let (warmup, warmup_damaged) = self.warm_up(session, payload_bytes, &load, capped)?;
        let (trials, broken) = self.each_load(&load.loads, capped, |leader, offer| {
            let trial = leader.offer(session, payload_bytes, &load, offer, capped)?;
            Ok((trial.count(&Stream::all(), Figure::Sent) > 0).then_some((trial, None)))
        })?;
        let measured = MeasuredPayload::of(trials, load.loads.len(), begun, broken);
        Ok(MeasuredPayload { samples_planned: measured.samples, warmup, warmup_damaged, ..measured })
    }

    /// Sends messages of this size at a moderate rate, so that buffers have grown and pages are there. They count only if they
    /// come damaged. Returns the numbers sent and damaged.
    fn warm_up(
        &mut self,
        session: &mut Session<'_>,
        payload_bytes: u64,
        load: &Workload,
        capped: u64,
    ) -> Result<(u64, u64)> {
        let messages = self.job.sub_experiment.warmup;
        if messages == 0 {
            return Ok((0, 0));
        }
        let duration_ns = load.duration_ns.map_or(LONGEST_WARMUP_NS, |ns| (ns / WARMUP_SHARE).min(LONGEST_WARMUP_NS));
        let bounds = TrialBounds { messages: Some(messages), duration_ns: Some(duration_ns), has_rows: false };
        let offer = OfferedLoad::Rate { hz: WARMUP_HZ };
        let capped = warmup_end(self.job.timebase.now(), capped);
        let trial = self.trial(session, payload_bytes, offer, bounds, capped)?;
        let counts = trial.counts(&Stream::all());
        Ok((counts.sent, counts.damaged))
    }

    fn offer(
        &mut self,
        session: &mut Session<'_>,
        payload_bytes: u64,
        load: &Workload,
        offer: OfferedLoad,
        capped: u64,
    ) -> Result<Trial> {
        let bounds = TrialBounds { messages: load.most_messages, duration_ns: load.duration_ns, has_rows: true };
        let OfferedLoad::Search { loss_bound } = offer else {
            return self.trial(session, payload_bytes, offer, bounds, capped);
        };
        let full_ns = load.duration_ns.unwrap_or(LONGEST_WARMUP_NS);
        let mut run = |rate_hz: Option<f64>, ns: u64| {
            let offer = rate_hz.map_or(OfferedLoad::Max, |hz| OfferedLoad::Rate { hz });
            let bounds = TrialBounds { duration_ns: Some(ns), has_rows: false, ..bounds };
            self.trial(session, payload_bytes, offer, bounds, capped)
        };
        let found = search(loss_bound, full_ns, &mut run)?;
        let mut trial = found.trial;
        (trial.load, trial.rate_missed) = (offer, false);
        if !found.passed && trial.cut_short.is_none() {
            let (percent, trials) = (loss_bound * 100.0, trial.steps.len());
            let why = format!("no rate with a loss of at most {percent} % was found in {trials} trials");
            trial.cut_short = Some(CutShort::Broken(why));
        }
        Ok(trial)
    }

    /// Makes one trial: each follower counts the messages that it gets.
    fn trial(
        &mut self,
        session: &mut Session<'_>,
        payload_bytes: u64,
        offer: OfferedLoad,
        bounds: TrialBounds,
        capped: u64,
    ) -> Result<Trial> {
        let first = session.sequence + 1;
        let mut begin = Begin::new(Task::Count, first, payload_bytes);
        let mut flow = self.flow(offer, payload_bytes, session.sequence);
        let clocks = self.read_clocks()?;
        let mut arrivals = None;
        if self.job.sub_experiment.one_way {
            let places = sampling::places(bounds.most_messages());
            let memory = ArrivalMemory::create(vec![places], self.controls.followers())?;
            (begin.most, begin.arrivals) = (vec![places], Some(self.arrival_place(&memory)));
            (flow.times, arrivals) = (Some(SampledTimes::new(first, places)?), Some(memory));
        }
        self.controls.ask_all(&ToFollower::Begin(begin))?;
        let (base, shared) = (self.job.timebase, self.shared.clone());
        self.arm();
        self.give_up_at(capped);
        let begin = base.now();
        let timed = bounds.duration_ns.map_or(u64::MAX, |ns| begin + base.to_ticks(ns));
        let last = bounds.messages.map_or(u64::MAX, |messages| session.sequence + messages);
        let extent = Extent { burst: burst(offer, payload_bytes), last, deadline: timed.min(capped) };
        let window = Window::open();
        let ended = self.send(session, &shared, &mut flow, extent);
        let own = window.close();
        self.give_up_at(0);
        self.disarm();
        let (end, behind) = match &flow.spaced {
            Spaced::Even(even) => (flow.ended.max(flow.due.min(extent.deadline)), even.behind()),
            Spaced::Unspaced | Spaced::Paused(_) => (flow.ended, 0),
        };
        let (sequence, refused) = (flow.sequence, flow.refused);
        session.sequence = sequence;
        let ended = ended.map_err(|failure| self.controls.diagnose(failure))?;
        let (arrived, others) = self.count(sequence)?;
        let mut broken = None;
        let clocks = self.clocks_since(clocks, &mut broken);
        broken.map_or(Ok(()), Err)?;
        let arrived: Vec<Arrived> =
            arrived.into_iter().enumerate().map(|(follower, arrived)| clocks.arrived(follower, arrived)).collect();
        let sent = sequence + 1 - first;
        let (began, publication_ns) = (begin, base.to_ns(end.saturating_sub(begin)));
        let ended = if ended == LoopEnd::Deadline && timed <= capped { LoopEnd::Full } else { ended };
        let (mut trial, all) = (Trial::new(offer), Stream::all());
        trial.cut_short = self.cut_short(ended, None);
        put_costs(&mut trial, Some(own), others);
        clocks.put(&mut trial);
        for (figure, value) in [
            (Figure::PublishedRate, per_second(sent, publication_ns)),
            (Figure::Publication, publication_ns as f64),
            (Figure::Refused, refused as f64),
            (Figure::Behind, behind as f64),
        ] {
            trial.put(&all, figure, value);
        }
        let subscription_ns =
            |arrived: &Arrived| base.to_ns(arrived.latest.unwrap_or(0).max(end).saturating_sub(begin));
        let each: Vec<_> = arrived.iter().map(|arrived| (arrived, subscription_ns(arrived))).collect();
        put_all_arrived(&mut trial, sent, payload_bytes, &each);
        if let OfferedLoad::Rate { hz } = offer {
            trial.put(&all, Figure::OfferedRate, hz);
            trial.rate_missed = is_missed(publication_ns as f64, sent as f64, 1e9 / hz, 1e9 / hz);
        }
        if let (Some(times), Some(mut memory)) = (flow.times, arrivals) {
            self.settle(&clocks, &mut memory)?;
            let last = put_one_way(&mut trial, base, &times, memory, (self.controls.followers(), &clocks));
            if bounds.has_rows {
                let are_known = !clocks.largest_error().is_too_large;
                self.write_timed(payload_bytes, began, are_known, times.stamps(&last, sent))?;
            }
        }
        Ok(trial)
    }

    /// Writes a row for each timed message: its index, its send time and, if both clocks `are_known`, its arrival.
    fn write_timed(
        &mut self,
        payload_bytes: u64,
        began: u64,
        are_known: bool,
        stamps: impl Iterator<Item = (u64, u64, Option<u64>)>,
    ) -> Result<()> {
        let lengths = self.files.lengths().map_err(not_written(&self.job.results.path))?;
        let mut rows = self.files.rows(self.job.timebase, payload_bytes, began);
        for (index, sent, received) in stamps {
            let status = if received.is_some() { DeliveryStatus::Ok } else { DeliveryStatus::Lost };
            let received = received.filter(|_| are_known);
            rows.add("all", index, status.as_str(), SampleStamps { sent, received, ..SampleStamps::default() });
        }
        rows.finish().inspect_err(|_| self.files.cut(lengths)).map_err(not_written(&self.job.results.path))
    }

    /// Stream of messages of that size at that load, with none sent yet.
    fn flow(&self, offer: OfferedLoad, payload_bytes: u64, sequence: u64) -> Flow {
        let base = self.job.timebase;
        let spaced = match offer {
            OfferedLoad::Rate { hz } => Spaced::Even(Even::new(base.ticks_per_ns() * 1e9 / hz)),
            OfferedLoad::Burst(Burst { size, gap_ns }) => {
                Spaced::Paused(Paused::new(size, burst(offer, payload_bytes), base.to_ticks(gap_ns)))
            }
            _ => Spaced::Unspaced,
        };
        let mut flow = Flow::new(spaced, payload_bytes as usize, sequence);
        if self.job.sub_experiment.wait != Wait::Poll {
            flow.nap = base.to_ticks(NAP_NS);
        }
        flow
    }

    /// Sends in pieces, with a sign of life after each.
    fn send(
        &mut self,
        session: &mut Session<'_>,
        shared: &Shared,
        flow: &mut Flow,
        extent: Extent,
    ) -> std::result::Result<LoopEnd, Failure> {
        let (base, setting) = (self.job.timebase, self.setting(&session.inboxes[0], shared));
        let piece = base.to_ticks(SIGN_OF_LIFE.as_nanos() as u64);
        loop {
            let deadline = extent.deadline.min(base.now() + piece);
            match session.lanes[0].stream(setting, flow, Extent { deadline, ..extent }, None)? {
                LoopEnd::Deadline if base.now() < extent.deadline => {
                    self.controls.report(&FromLeader::Progress { samples: 0, moves: flow.sequence });
                }
                end => return Ok(end),
            }
        }
    }

    /// Tells the followers how many messages there are. Returns the arrivals at each, and the cost of those in processes of
    /// their own.
    fn count(&mut self, last: u64) -> Result<(Vec<Arrived>, Option<Used>)> {
        self.controls.send_all(&ToFollower::End { last: vec![last] })?;
        let patience = || FollowerPatience::taking(self.job.loss_timeout_ns);
        let counted = |follower| {
            let report = self.controls.recv_report(follower, patience())?;
            let arrived = report.arrived.first().copied();
            let arrived = arrived.ok_or_else(|| self.controls.failed("a follower has counted nothing"))?;
            Ok((arrived, report.used))
        };
        let counted = (0..self.job.sub_experiment.workload.followers()).map(counted).collect::<Result<Vec<_>>>()?;
        let used = counted.iter().map(|(_, used)| *used).reduce(Used::beside);
        let arrived = counted.into_iter().map(|(arrived, _)| arrived).collect();
        Ok((arrived, used.filter(|_| !self.is_same_process())))
    }
}

/// Messages between two clock readings.
fn burst(offer: OfferedLoad, payload_bytes: u64) -> u64 {
    match offer {
        OfferedLoad::Rate { .. } => 1,
        _ if payload_bytes <= SMALL_BYTES => BURST,
        _ => 1,
    }
}

/// Worst of all followers: the fewest messages received, and the most that came damaged, twice or out of order.
fn worst(each: impl Iterator<Item = Arrived>) -> Option<Arrived> {
    each.reduce(|a, b| Arrived {
        received: a.received.min(b.received),
        duplicated: a.duplicated.max(b.duplicated),
        reordered: a.reordered.max(b.reordered),
        damaged: a.damaged.max(b.damaged),
        latest: a.latest.max(b.latest),
        ..a
    })
}

/// Puts the arrivals at each follower, with its time, into a trial: the worst, and each of several.
fn put_all_arrived(trial: &mut Trial, sent: u64, payload_bytes: u64, each: &[(&Arrived, u64)]) {
    if let Some(worst) = worst(each.iter().map(|(arrived, _)| **arrived)) {
        let longest_ns = each.iter().map(|(_, ns)| *ns).max().unwrap_or(0);
        put_arrived(trial, &Stream::all(), sent, payload_bytes, &worst, longest_ns);
    }
    if each.len() > 1 {
        for (follower, (arrived, ns)) in (0..).zip(each) {
            put_arrived(trial, &Stream::follower(follower), sent, payload_bytes, arrived, *ns);
        }
    }
}

fn put_arrived(trial: &mut Trial, stream: &Stream, sent: u64, payload_bytes: u64, arrived: &Arrived, ns: u64) {
    let Arrived { received, duplicated, reordered, damaged, .. } = *arrived;
    let lost = sent.saturating_sub(received + damaged);
    trial.put_counts(stream, &Counts { sent, received, lost, late: 0, duplicated, reordered, damaged }, false);
    let received_hz = per_second(received, ns);
    for (figure, value) in [
        (Figure::ReceivedRate, received_hz),
        (Figure::ReceivedBytes, received_hz * payload_bytes as f64),
        (Figure::Subscription, ns as f64),
    ] {
        trial.put(stream, figure, value);
    }
}

/// Puts one-way latencies into a trial: to each of several followers, and to the last that a message came to. They have no
/// intervals, as messages that wait in one queue are not independent. Returns arrivals at the last, by place.
fn put_one_way(
    trial: &mut Trial,
    base: Timebase,
    times: &SampledTimes,
    mut memory: ArrivalMemory,
    (followers, clocks): (u32, &Clocks),
) -> Vec<u64> {
    let sent = trial.count(&Stream::all(), Figure::Sent);
    trial.put(&Stream::all(), Figure::OneWayTimed, sampling::samples(sent).count() as f64);
    let mut put = |stream: &Stream, arrived: &[u64], error: ClockError| {
        let mut latencies = clocks.distribution(Raw::SAMPLES, error);
        let (one_way, mut before_sent) = (times.one_way(arrived, sent, clocks.are_two()), 0);
        one_way.for_each(|ticks| {
            before_sent += u64::from(ticks < 0);
            latencies.record_signed(base.to_signed_ns(ticks));
        });
        if before_sent > 0 && !error.is_too_large {
            trial.put(stream, Figure::BeforeSent, before_sent as f64);
        }
        latencies.put_without_intervals(trial, stream, Figure::OneWay);
    };
    let mut last: Vec<u64> = Vec::new();
    for follower in 0..followers {
        let Some(log) = memory.logs(follower).into_iter().next() else { continue };
        if followers > 1 {
            put(&Stream::follower(follower), log.ticks, clocks.error(follower as usize));
        }
        if last.is_empty() {
            last = log.ticks.to_vec();
        }
        // A missing message is later than all that came.
        last.iter_mut().zip(log.ticks.iter()).for_each(|(last, ticks)| *last = (*last).max(*ticks));
    }
    put(&Stream::all(), &last, clocks.largest_error());
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_followers_the_worst_of_each_kind_is_said() {
        let arrived = |received, damaged, latest| Arrived { received, damaged, latest, ..Arrived::default() };
        let each = [arrived(900, 0, Some(7)), Arrived { duplicated: 3, reordered: 2, ..arrived(950, 50, Some(5)) }];
        let expected = Arrived { duplicated: 3, reordered: 2, ..arrived(900, 50, Some(7)) };
        assert_eq!(worst(each.into_iter()), Some(expected));
        let mut trial = Trial::new(OfferedLoad::Max);
        put_arrived(&mut trial, &Stream::all(), 1000, 64, &expected, 1_000_000_000);
        let counts = trial.counts(&Stream::all());
        assert_eq!((counts.received, counts.damaged, counts.lost), (900, 50, 50));
        assert_eq!(worst(std::iter::empty()), None);
    }
}

//! Driver of one-way messages at full speed, or as they are offered, in the main thread.

use super::Result;
use super::account::{Account, RowsOfLinks};
use super::controls::Controls;
use super::leader::{Leader, Session};
use super::leg::{Leg, LegEnd, PreparedLeg, ReadyLeg, ReportedLeg, SentLeg, unprepared};
use super::trial::Driver;
use crate::delivery::is_missed;
use crate::files::SampleStamps;
use crate::lanes::{Flow, Spaced};
use crate::measure::LoopEnd;
use crate::measure::notes::ArrivalMemory;
use crate::measure::sampling::{self, SampledTimes};
use crate::measure::stream::{Even, Extent, Paused, Spacing};
use crate::record::ClockError;
use crate::wire::{Arrived, Begin, Task};
use tripmeter_abi::Wait;
use tripmeter_model::delivery::DeliveryStatus;
use tripmeter_model::figure::Figure;
use tripmeter_model::manifest::Counts;
use tripmeter_model::metric::Stream;
use tripmeter_model::pace::{Burst, OfferedLoad};
use tripmeter_model::search::per_second;
use tripmeter_model::trial::Trial;

/// Small messages between two clock readings, at full speed and within a burst.
const BURST: u64 = 32;
/// Largest small message: a burst of them takes some microseconds.
const SMALL_BYTES: u64 = 4096;
/// Shortest wait for a due message that the leader sleeps through, unless it polls.
const NAP_NS: u64 = 300_000;

/// A stream over the first link, to all followers.
#[derive(Default)]
pub(super) struct Saturating(Option<StreamState>);

struct StreamState {
    flow: Flow,
    /// Number of the latest message before the leg.
    before: u64,
    behind: u64,
}

impl Driver for Saturating {
    fn prepare(&mut self, leader: &Leader, session: &Session<'_>, leg: &Leg) -> Result<PreparedLeg> {
        let LegEnd::Bounds { messages, duration_ns } = leg.end else { return Err(unprepared()) };
        let (first, mut memory) = (session.sequence + 1, None);
        let mut begin = Begin::new(Task::COUNT, first, leg.payload_bytes);
        let mut flow = flow(leader, leg, session.sequence);
        if leader.job.sub_experiment.one_way {
            // No message takes less than a nanosecond.
            let most = messages.unwrap_or(u64::MAX).min(duration_ns.unwrap_or(u64::MAX));
            let places = sampling::places(most);
            let created = ArrivalMemory::create(vec![places], leader.controls.followers())?;
            (begin.most, begin.arrivals) = (vec![places], Some(leader.arrival_place(&created)));
            (flow.times, memory) = (Some(SampledTimes::new(first, places)?), Some(created));
        }
        self.0 = Some(StreamState { flow, before: session.sequence, behind: 0 });
        Ok(PreparedLeg::noting(begin, memory, leader.job.loss_timeout_ns))
    }

    fn drive(&mut self, leader: &mut Leader, session: &mut Session<'_>, ready: ReadyLeg) -> Result<SentLeg> {
        let leg = ready.leg;
        let (Some(StreamState { flow, before, behind }), LegEnd::Bounds { messages, duration_ns }) =
            (&mut self.0, leg.end)
        else {
            return Err(unprepared());
        };
        let (base, shared) = (leader.job.timebase, leader.shared.clone());
        let setting = leader.setting(&session.inboxes[0], &shared);
        let mut running = ready.begin(leader)?;
        leader.arm();
        let begin = base.now();
        let timed = duration_ns.map_or(u64::MAX, |ns| begin + base.to_ticks(ns));
        let last = messages.map_or(u64::MAX, |messages| *before + messages);
        let extent = Extent { burst: burst(leg.load, leg.payload_bytes), last, deadline: timed };
        let mut failure = None;
        // Ends by itself at its bounds; sends in pieces, with a sign of life after each.
        while base.now() < timed {
            let Some(until) = running.until(leader) else { break };
            match session.lanes[0].stream(setting, flow, Extent { deadline: timed.min(until), ..extent }, None) {
                Ok(LoopEnd::Full) => break,
                Ok(LoopEnd::Stopped) => running.stopped(),
                Ok(LoopEnd::Deadline) => {}
                Err(why) => {
                    failure = Some(why);
                    break;
                }
            }
            running.sign_of_life(leader, 0, flow.sequence);
        }
        let (used, cut) = running.end(leader);
        leader.disarm();
        let end = match &flow.spaced {
            Spaced::Even(even) => {
                *behind = even.behind();
                flow.ended.max(flow.due.min(timed.min(leg.capped)))
            }
            Spaced::Unspaced | Spaced::Paused(_) => flow.ended,
        };
        let sequence = flow.sequence;
        let (until, counted, refused) = (end.max(begin), sequence - *before, flow.refused);
        Ok(SentLeg {
            begin,
            until,
            last: vec![sequence],
            sequence,
            warmed: 0,
            counted,
            used,
            refused,
            cut,
            failure,
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
        let StreamState { flow, behind, .. } = self.0.take().ok_or_else(unprepared)?;
        let mut arrived = Vec::new();
        for (follower, report) in leg.reports.iter().enumerate() {
            let Some(report) = report else { continue };
            let counted = report.arrived.first().copied();
            let counted = counted.ok_or_else(|| controls.failed("a follower has counted nothing"))?;
            arrived.push((follower as u32, leg.clocks.arrived(follower, counted)));
        }
        if arrived.is_empty() {
            leg.broken.take().map_or(Ok(()), Err)?;
        }
        let (base, all, sent) = (account.timebase(), Stream::all(), &leg.sent);
        let publication_ns = base.to_ns(sent.until - sent.begin);
        leg.clocks.put(&mut account.trial);
        for (figure, value) in [
            (Figure::PublishedRate, per_second(sent.counted, publication_ns)),
            (Figure::Publication, publication_ns as f64),
            (Figure::Refused, sent.refused as f64),
            (Figure::Behind, behind as f64),
        ] {
            account.trial.put(&all, figure, value);
        }
        let subscription_ns =
            |arrived: &Arrived| base.to_ns(arrived.latest.unwrap_or(0).max(sent.until).saturating_sub(sent.begin));
        let (payload_bytes, trial) = (leg.leg.payload_bytes, &mut account.trial);
        let mut put = |stream: &Stream, arrived: &Arrived, ns| {
            put_arrived(trial, stream, sent.counted, payload_bytes, arrived, ns);
        };
        if let Some(worst) = worst(arrived.iter().map(|(_, arrived)| *arrived)) {
            put(&all, &worst, arrived.iter().map(|(_, arrived)| subscription_ns(arrived)).max().unwrap_or(0));
        }
        for (follower, arrived) in arrived.iter().filter(|_| leg.reports.len() > 1) {
            put(&Stream::follower(*follower), arrived, subscription_ns(arrived));
        }
        if let OfferedLoad::Rate { hz } = leg.leg.load {
            account.trial.put(&all, Figure::OfferedRate, hz);
            account.trial.rate_missed = is_missed(publication_ns as f64, sent.counted as f64, 1e9 / hz, 1e9 / hz);
        }
        if let Some(times) = &flow.times {
            let last = put_one_way(account, leg, times);
            let are_known = !leg.clocks.largest_error().is_too_large;
            if let Some(rows) = rows {
                for (index, sent, received) in times.stamps(&last, leg.sent.counted) {
                    let status = if received.is_some() { DeliveryStatus::Ok } else { DeliveryStatus::Lost };
                    let received = received.filter(|_| are_known);
                    let stamps = SampleStamps { sent, received, ..SampleStamps::default() };
                    rows.rows.add("all", index, status.as_str(), stamps);
                }
            }
        }
        Ok(())
    }
}

/// Stream of messages of a leg, with none sent yet.
fn flow(leader: &Leader, leg: &Leg, sequence: u64) -> Flow {
    let base = leader.job.timebase;
    let spaced = match leg.load {
        OfferedLoad::Rate { hz } => Spaced::Even(Even::new(base.ticks_per_ns() * 1e9 / hz)),
        OfferedLoad::Burst(Burst { size, gap_ns }) => {
            Spaced::Paused(Paused::new(size, burst(leg.load, leg.payload_bytes), base.to_ticks(gap_ns)))
        }
        _ => Spaced::Unspaced,
    };
    let mut flow = Flow::new(spaced, leg.payload_bytes as usize, sequence);
    if leader.job.sub_experiment.wait != Wait::Poll {
        flow.nap = base.to_ticks(NAP_NS);
    }
    flow
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

/// Puts one-way latencies to each of several followers, and to the last that a message came to. They have no intervals, as
/// messages that wait in one queue are not independent. Returns arrivals at the last, by place.
fn put_one_way(account: &mut Account, leg: &mut ReportedLeg, times: &SampledTimes) -> Vec<u64> {
    let (sent, followers) = (leg.sent.counted, leg.reports.len());
    let clocks = &leg.clocks;
    account.trial.put(&Stream::all(), Figure::OneWayTimed, sampling::samples(sent).count() as f64);
    let mut put = |stream: &Stream, arrived: &[u64], error: ClockError| {
        let ticks = times.one_way(arrived, sent, clocks.are_two()).map(Some);
        account.put_one_way(stream, ticks, (clocks, error), false);
    };
    let mut last: Vec<u64> = Vec::new();
    for follower in 0..followers {
        let logs = leg.memory.as_mut().map_or_else(Vec::new, |memory| memory.logs(follower as u32));
        let Some(log) = logs.into_iter().next() else { continue };
        if followers > 1 {
            put(&Stream::follower(follower as u32), log.ticks, clocks.error(follower));
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

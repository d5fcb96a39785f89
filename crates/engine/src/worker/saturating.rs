//! Driver of one-way messages at full speed, at a rate or in bursts.

use super::Result;
use super::account::{Account, RowsOfLinks};
use super::controls::Controls;
use super::leader::{Leader, Session};
use super::leg::{Leg, LegEnd, PreparedLeg, ReadyLeg, ReportedLeg, SentLeg, unprepared};
use super::pool::ThreadPool;
use super::threads::{LinkEnd, LinkWork, run_parallel};
use super::trial::Driver;
use crate::delivery::is_missed;
use crate::files::SampleStamps;
use crate::lanes::{Flow, Spaced};
use crate::measure::notes::ArrivalMemory;
use crate::measure::publish::Sending;
use crate::measure::sampling::{self, SampledTimes};
use crate::measure::stream::{Even, Extent, Paused, Spacing};
use crate::measure::{Failure, LoopEnd};
use crate::record::ClockError;
use crate::wire::{Arrived, Begin, Report, Task};
use tripmeter_abi::Wait;
use tripmeter_model::cut_short::CutShort;
use tripmeter_model::delivery::DeliveryStatus;
use tripmeter_model::figure::Figure;
use tripmeter_model::manifest::Counts;
use tripmeter_model::metric::Stream;
use tripmeter_model::pace::{Burst, OfferedLoad};
use tripmeter_model::search::per_second;
use tripmeter_model::trial::Trial;
use tripmeter_model::used::Used;

/// Number of small messages between two clock readings, at full speed and within a burst.
const BURST: u64 = 32;
/// Largest small message: a burst of them takes some microseconds.
const SMALL_BYTES: u64 = 4096;
/// Longest time that a thread's loop runs before it shows progress.
const PIECE_NS: u64 = 1_000_000_000;
/// Shortest wait for a due message in which the leader sleeps, unless it polls.
const NAP_NS: u64 = 300_000;

/// Streams over all links, to all followers: one in the main thread, several in a thread each.
#[derive(Default)]
pub(super) struct Saturating {
    flows: Vec<Flow>,
    /// Number of the latest message of each stream before the leg.
    before: u64,
}

/// Ticks by which streams end.
#[derive(Clone, Copy)]
struct StreamEnds {
    /// Planned end of the leg.
    timed: u64,
    capped: u64,
}

impl Driver for Saturating {
    fn prepare(&mut self, leader: &Leader, session: &Session<'_>, leg: &Leg) -> Result<PreparedLeg> {
        let LegEnd::Bounds { messages, duration_ns } = leg.end else { return Err(unprepared()) };
        let (first, links, mut memory) = (session.sequence + 1, session.lanes.len(), None);
        let task = if links == 1 { Task::COUNT } else { Task::COUNT_ALL };
        let mut begin = Begin::new(task, first, leg.payload_bytes);
        let has_publishers = leader.job.sub_experiment.workload.publishers() > 1;
        let publisher = |link| if has_publishers { link } else { 0 };
        let sleeps = links > 1 && leader.job.sub_experiment.wait != Wait::Poll;
        let flow_of = |link| {
            let flow = flow(leader, leg, session.sequence);
            // Threads that share CPUs do not spin.
            Flow { publisher: publisher(link), nap: if sleeps { 0 } else { flow.nap }, ..flow }
        };
        let mut flows: Vec<Flow> = (0..links as u32).map(flow_of).collect();
        if leader.job.sub_experiment.one_way {
            // No message takes less than a nanosecond.
            let most = messages.unwrap_or(u64::MAX).min(duration_ns.unwrap_or(u64::MAX));
            let places = vec![sampling::places(most); links];
            let created = ArrivalMemory::create(places.clone(), leader.controls.followers())?;
            for (flow, places) in flows.iter_mut().zip(&places) {
                flow.times = Some(SampledTimes::new(first, *places)?);
            }
            (begin.most, begin.arrivals) = (places, Some(leader.arrival_place(&created)));
            memory = Some(created);
        }
        (self.flows, self.before) = (flows, session.sequence);
        Ok(PreparedLeg::noting(begin, memory, leader.job.loss_timeout_ns))
    }

    fn drive(&mut self, leader: &mut Leader, session: &mut Session<'_>, ready: ReadyLeg) -> Result<SentLeg> {
        match self.flows.len() {
            1 => self.drive_one(leader, session, ready),
            _ => self.drive_several(leader, session, ready),
        }
    }

    fn account(
        &mut self,
        controls: &Controls,
        leg: &mut ReportedLeg,
        account: &mut Account,
        rows: Option<&mut RowsOfLinks<'_>>,
    ) -> Result<()> {
        let flows = std::mem::take(&mut self.flows);
        let sent: Vec<u64> = flows.iter().map(|flow| flow.sequence - self.before).collect();
        let all_sent = sent.iter().sum::<u64>();
        let arrived = arrived_of(controls, leg, flows.len())?;
        if arrived.is_empty() {
            leg.broken.take().map_or(Ok(()), Err)?;
        }
        let (base, all) = (account.timebase(), Stream::all());
        let (begin, until) = (leg.sent.begin, leg.sent.until);
        let publication_ns = base.to_ns(until - begin);
        leg.clocks.put(&mut account.trial);
        for (figure, value) in [
            (Figure::PublishedRate, per_second(all_sent, publication_ns)),
            (Figure::Publication, publication_ns as f64),
            (Figure::Refused, leg.sent.refused as f64),
            (Figure::Behind, flows.iter().map(behind).sum::<u64>() as f64),
        ] {
            account.trial.put(&all, figure, value);
        }
        let subscription_ns =
            |arrived: &Arrived| base.to_ns(arrived.latest.unwrap_or(0).max(until).saturating_sub(begin));
        let payload_bytes = leg.leg.payload_bytes;
        let mut put = |stream: &Stream, sent: u64, arrived: &Arrived, ns: u64| {
            put_arrived(&mut account.trial, stream, sent, payload_bytes, arrived, ns);
        };
        let sums: Vec<(u32, Arrived)> = arrived.iter().map(|(follower, links)| (*follower, sum(links))).collect();
        let longest_ns = |arrived: &mut dyn Iterator<Item = &Arrived>| arrived.map(subscription_ns).max().unwrap_or(0);
        if let Some(worst) = worst(sums.iter().map(|(_, arrived)| *arrived)) {
            put(&all, all_sent, &worst, longest_ns(&mut sums.iter().map(|(_, arrived)| arrived)));
        }
        for (follower, arrived) in sums.iter().filter(|_| leg.reports.len() > 1) {
            put(&Stream::follower(*follower), all_sent, arrived, subscription_ns(arrived));
        }
        let shown = account.shown_links(&sent);
        for (link, stream) in shown {
            let at_link = |(_, links): &(u32, Vec<Arrived>)| links[link];
            if let Some(worst) = worst(arrived.iter().map(at_link)) {
                let ns = longest_ns(&mut arrived.iter().map(|(_, links)| &links[link]));
                put_arrived(&mut account.trial, &stream, sent[link], payload_bytes, &worst, ns);
            }
        }
        if let OfferedLoad::Rate { hz } = leg.leg.load {
            put_rate(&mut account.trial, hz, &sent, publication_ns);
        }
        if flows.iter().all(|flow| flow.times.is_some()) {
            let last = put_one_way(account, leg, &flows, &sent);
            let are_known = !leg.clocks.largest_error().is_too_large;
            let Some(rows) = rows else { return Ok(()) };
            for (((flow, last), sent), stream) in flows.iter().zip(&last).zip(sent).zip(rows.streams) {
                for (index, sent, received) in flow.times.iter().flat_map(|times| times.stamps(last, sent)) {
                    let status = if received.is_some() { DeliveryStatus::Ok } else { DeliveryStatus::Lost };
                    let received = received.filter(|_| are_known);
                    let stamps = SampleStamps { sent, received, ..SampleStamps::default() };
                    rows.rows.add(stream, index, status.into(), stamps);
                }
            }
        }
        Ok(())
    }
}

/// Arrivals of each follower that reported, link by link.
fn arrived_of(controls: &Controls, leg: &ReportedLeg, links: usize) -> Result<Vec<(u32, Vec<Arrived>)>> {
    let reported = (0..).zip(&leg.reports).filter_map(|(follower, report)| Some((follower, report.as_ref()?)));
    let of_follower = |(follower, report): (u32, &Report)| {
        if report.arrived.len() < links {
            return Err(controls.failed("a follower has counted fewer streams than there are"));
        }
        let at_leader = |counted: &Arrived| leg.clocks.arrived(follower as usize, *counted);
        Ok((follower, report.arrived.iter().map(at_leader).collect()))
    };
    reported.map(of_follower).collect()
}

/// Puts the offered and achieved rates of streams into a trial; `sent` has the messages of each stream.
fn put_rate(trial: &mut Trial, hz: f64, sent: &[u64], publication_ns: u64) {
    let all = Stream::all();
    trial.put(&all, Figure::OfferedRate, hz);
    if let (Some(least), true) = (sent.iter().min(), sent.len() > 1) {
        let of_each = per_second(sent.iter().sum(), publication_ns) / sent.len() as f64;
        trial.put(&all, Figure::AchievedRate, of_each);
        trial.put(&all, Figure::SlowestRate, per_second(*least, publication_ns));
    }
    let is_missed = |sent: &u64| is_missed(publication_ns as f64, *sent as f64, 1e9 / hz, 1e9 / hz);
    trial.rate_missed = sent.iter().any(is_missed);
}

impl Saturating {
    /// Sends in the main thread, in pieces, with a sign of life after each.
    fn drive_one(&mut self, leader: &mut Leader, session: &mut Session<'_>, ready: ReadyLeg) -> Result<SentLeg> {
        let leg = ready.leg;
        let ([flow], LegEnd::Bounds { messages, duration_ns }) = (&mut self.flows[..], leg.end) else {
            return Err(unprepared());
        };
        let (base, shared, before) = (leader.job.timebase, leader.shared.clone(), self.before);
        let setting = leader.setting(&session.inboxes[0], &shared);
        let mut running = ready.begin(leader)?;
        leader.arm();
        let begin = base.now();
        let timed = duration_ns.map_or(u64::MAX, |ns| begin + base.to_ticks(ns));
        let last = messages.map_or(u64::MAX, |messages| before + messages);
        let extent = Extent { burst: burst(leg.load, leg.payload_bytes), last, deadline: timed };
        let mut failure = None;
        // A leg that reaches its planned end is not cut short.
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
        Ok(self.sent(begin, StreamEnds { timed, capped: leg.capped }, StreamsEnded { used, cut, failure }))
    }

    /// Sends in a thread for each link.
    fn drive_several(&mut self, leader: &mut Leader, session: &mut Session<'_>, ready: ReadyLeg) -> Result<SentLeg> {
        let leg = ready.leg;
        let LegEnd::Bounds { messages, duration_ns } = leg.end else { return Err(unprepared()) };
        let (base, before, links) = (leader.job.timebase, self.before, self.flows.len());
        let (pool, sending) = (&ThreadPool::new(links), &Sending::for_threads(links));
        let last = messages.map_or(u64::MAX, |messages| before + messages);
        let burst = burst(leg.load, leg.payload_bytes);
        let timed_at = move |begin: u64| duration_ns.map_or(u64::MAX, |ns| begin + base.to_ticks(ns));
        let settings = session.inboxes.iter().zip(&pool.shared).map(|(inbox, shared)| leader.setting(inbox, shared));
        let settings: Vec<_> = settings.collect();
        let places = session.lanes.iter_mut().zip(&mut self.flows).zip(settings).zip(sending);
        let works = places.map(|(((lane, flow), setting), sending)| -> LinkWork<'_> {
            Box::new(move |begin| {
                let timed = timed_at(begin);
                let deadline = timed.min(leg.capped);
                flow.due = begin;
                // In pieces, so that a thread that waits for its next message shows progress.
                let mut piece = 0;
                let ended = loop {
                    sending.begin(piece);
                    let until = base.now() + base.to_ticks(PIECE_NS);
                    let extent = Extent { burst, last, deadline: deadline.min(until) };
                    let ended = lane.stream(setting, flow, extent, None);
                    sending.end(piece);
                    piece += 1;
                    if !matches!(ended, Ok(LoopEnd::Deadline)) || base.now() >= deadline {
                        break ended;
                    }
                };
                let (end, ended) = match ended {
                    // The planned time is over.
                    Ok(LoopEnd::Deadline) if timed <= leg.capped => (LoopEnd::Full, Ok(())),
                    Ok(end) => (end, Ok(())),
                    Err(failure) => (LoopEnd::Stopped, Err(failure)),
                };
                let (count, sequence) = ((flow.sequence - before) as usize, flow.sequence);
                (LinkEnd { count, end, refused: flow.refused, late: 0, duplicated: 0, sequence }, ended)
            })
        });
        let ran = run_parallel(leader, ready, pool, sending, works.collect())?;
        let stopped = StreamsEnded { used: ran.used, cut: ran.cut, failure: ran.failure };
        Ok(self.sent(ran.begin, StreamEnds { timed: timed_at(ran.begin), capped: leg.capped }, stopped))
    }

    /// Sent leg, once all streams have ended.
    fn sent(&self, begin: u64, ends: StreamEnds, StreamsEnded { used, cut, failure }: StreamsEnded) -> SentLeg {
        let until = self.flows.iter().map(|flow| end(flow, ends)).max().unwrap_or(begin).max(begin);
        let last: Vec<u64> = self.flows.iter().map(|flow| flow.sequence).collect();
        let sequence = last.iter().copied().max().unwrap_or(self.before);
        SentLeg {
            begin,
            until,
            last,
            sequence,
            warmed: 0,
            counted: sequence - self.before,
            used,
            refused: self.flows.iter().map(|flow| flow.refused).sum(),
            cut,
            failure,
            broken: None,
        }
    }
}

/// Cost of a leg that is over, and what ended it early.
struct StreamsEnded {
    used: Option<Used>,
    cut: Option<CutShort>,
    failure: Option<Failure>,
}

/// Tick at which a stream ends: after its last message or, at a rate, after the last period.
fn end(flow: &Flow, ends: StreamEnds) -> u64 {
    match &flow.spaced {
        Spaced::Even(_) => flow.ended.max(flow.due.min(ends.timed.min(ends.capped))),
        Spaced::Unspaced | Spaced::Paused(_) => flow.ended,
    }
}

/// Messages of a stream that were sent late.
fn behind(flow: &Flow) -> u64 {
    if let Spaced::Even(even) = &flow.spaced { even.behind() } else { 0 }
}

/// Sum of the counts of all streams, with messages from no known publisher.
fn sum(streams: &[Arrived]) -> Arrived {
    let mut sum = Arrived::default();
    streams.iter().for_each(|arrived| sum.add(arrived));
    sum
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

/// Puts one-way latencies into the trial: to each of several followers, and to the last to receive a message. They have
/// no intervals, as messages in one queue are not independent. Returns arrivals at the last, by stream and place.
fn put_one_way(account: &mut Account, leg: &mut ReportedLeg, flows: &[Flow], sent: &[u64]) -> Vec<Vec<u64>> {
    let (followers, clocks) = (leg.reports.len(), &leg.clocks);
    let timed: usize = sent.iter().map(|sent| sampling::samples(*sent).count()).sum();
    account.trial.put(&Stream::all(), Figure::OneWayTimed, timed as f64);
    let mut put = |stream: &Stream, arrived: &[&[u64]], error: ClockError| {
        let of_flow = |((flow, arrived), sent): ((&'_ Flow, &&'_ [u64]), &u64)| {
            let ticks = flow.times.iter().flat_map(|times| times.one_way(arrived, *sent, clocks.are_two()));
            ticks.map(Some).collect::<Vec<_>>()
        };
        account.put_one_way(stream, flows.iter().zip(arrived).zip(sent).flat_map(of_flow), (clocks, error), false);
    };
    let mut last: Vec<Vec<u64>> = Vec::new();
    for follower in 0..followers {
        let logs = leg.memory.as_mut().map_or_else(Vec::new, |memory| memory.logs(follower as u32));
        if followers > 1 {
            let ticks: Vec<&[u64]> = logs.iter().map(|log| &*log.ticks).collect();
            put(&Stream::follower(follower as u32), &ticks, clocks.error(follower));
        }
        if last.is_empty() {
            last = logs.iter().map(|log| log.ticks.to_vec()).collect();
        }
        // A missing message is later than all that came.
        for (last, log) in last.iter_mut().zip(&logs) {
            last.iter_mut().zip(log.ticks.iter()).for_each(|(last, ticks)| *last = (*last).max(*ticks));
        }
    }
    put(&Stream::all(), &last.iter().map(Vec::as_slice).collect::<Vec<_>>(), clocks.largest_error());
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

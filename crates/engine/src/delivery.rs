//! Joins the stamps of both sides into the fate of each message of pattern `channel` and of each call of `rpc`.

use crate::clock::Timebase;
use crate::measure::notes::{self, AGAIN, DAMAGED, NEVER, OVERTAKEN};
use crate::measure::publish::{Schedule, Timetable};
use crate::measure::stamps::latency;
use crate::record::{ClockError, Distribution, OneWay};
use crate::wire::Arrived;
use std::sync::Arc;
use tripmeter_model::delivery::DeliveryStatus;
use tripmeter_model::figure::Figure;
use tripmeter_model::manifest::Counts;
use tripmeter_model::metric::Stream;
use tripmeter_model::plan::Raw;
use tripmeter_model::series::Series;
use tripmeter_model::trial::Trial;
use tripmeter_stats::series::Thinned;

/// The stamps of one topic, publisher or client, in ticks and in the order of the numbers. A call arrives when its answer does;
/// one that fails is damaged, and one that times out is lost.
#[derive(Clone)]
pub struct Topic<S = Schedule> {
    /// When messages were to be sent; `None`: when they were.
    pub schedule: Option<S>,
    /// When they were; the same to all followers.
    pub sent: Arc<[u64]>,
    /// When they came, or [`NEVER`]; as many as were planned.
    pub arrived: Vec<u64>,
    /// What else happened to them, as [`crate::measure::notes`] has it.
    pub marks: Vec<u8>,
    /// Of calls: when the requests came to the follower, or [`NEVER`]; empty where that was not noted.
    pub requests: Vec<u64>,
}

/// What came to a follower, or to the last of several.
pub struct Delivered<S = Schedule> {
    /// Of each topic, publisher or client.
    pub topics: Vec<Topic<S>>,
    /// What the follower counted of each, and of what is nobody's.
    pub arrived: Vec<Arrived>,
}

impl<S: Copy> Delivered<S> {
    /// As the last of several followers has it: what has come to all. A message that came damaged to one, or twice, counts
    /// as such once; of damaged headers, which are nobody's, the most of a follower count.
    pub fn at_last(each: &[&Self]) -> Self {
        let Some(first) = each.first() else { return Self { topics: Vec::new(), arrived: Vec::new() } };
        let topics = first.topics.iter().enumerate().map(|(at, topic)| {
            let mut last = topic.clone();
            for other in each.iter().skip(1).map(|one| &one.topics[at]) {
                // What never came is later than all that did.
                last.arrived.iter_mut().zip(&other.arrived).for_each(|(last, ticks)| *last = (*last).max(*ticks));
                last.marks.iter_mut().zip(&other.marks).for_each(|(all, marks)| *all |= marks);
            }
            last
        });
        let topics: Vec<Topic<S>> = topics.collect();
        let arrived = topics.iter().enumerate().map(|(at, topic)| {
            let most = |of: &dyn Fn(&Self) -> u64| each.iter().map(|one| of(one)).max().unwrap_or(0);
            // A message whose header was damaged has no mark, and one that came thrice has one.
            let unmarked = most(&|one| one.arrived[at].damaged.saturating_sub(one.topics[at].counted().damaged));
            let duplicated = most(&|one| one.arrived[at].duplicated);
            let counted = topic.counted();
            Arrived { damaged: counted.damaged + unmarked, duplicated: counted.duplicated.max(duplicated), ..counted }
        });
        let arrived = arrived.collect();
        Self { topics, arrived }
    }
}

/// One message, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// When it was to be sent.
    pub intended: u64,
    /// When it was.
    pub actual: u64,
    /// When it came, if it did.
    pub arrived: Option<u64>,
    /// Of a call: when the request came to the follower, if that was noted.
    pub requested: Option<u64>,
    /// What became of it.
    pub status: DeliveryStatus,
}

impl<S> Topic<S> {
    /// What has come, by its stamps.
    fn counted(&self) -> Arrived {
        notes::arrived(&self.arrived, &self.marks)
    }
}

impl<S: Timetable> Topic<S> {
    /// Every message that was sent. Those that came more than `patience` ticks after their sending are late.
    pub fn deliveries(&self, patience: u64) -> impl Iterator<Item = Delivery> {
        let stamps = self.sent.iter().zip(&self.arrived).zip(&self.marks).enumerate();
        stamps.map(move |(index, ((&actual, &arrived), &marks))| {
            let intended = self.schedule.as_ref().map_or(actual, |schedule| schedule.due(index));
            let arrived = (arrived != NEVER).then_some(arrived);
            let requested = self.requests.get(index).copied().filter(|ticks| *ticks != NEVER);
            Delivery { intended, actual, arrived, requested, status: status(actual, arrived, marks, patience) }
        })
    }

    /// Ticks that its messages took, until the one after the last would have been due: a whole number of periods if none
    /// of them was late.
    fn elapsed(&self) -> f64 {
        let (Some(last), Some(schedule)) = (self.sent.len().checked_sub(1), &self.schedule) else { return 0.0 };
        let end = self.sent[last].max(schedule.due(last));
        schedule.elapsed(self.sent.len(), end - schedule.due(0))
    }
}

fn status(actual: u64, arrived: Option<u64>, marks: u8, patience: u64) -> DeliveryStatus {
    match arrived {
        None if marks & DAMAGED != 0 => DeliveryStatus::Damaged,
        None => DeliveryStatus::Lost,
        Some(arrived) if arrived.saturating_sub(actual) > patience => DeliveryStatus::Late,
        Some(_) if marks & OVERTAKEN != 0 => DeliveryStatus::Reordered,
        Some(_) if marks & AGAIN != 0 => DeliveryStatus::Duplicated,
        Some(_) => DeliveryStatus::Ok,
    }
}

/// Counts and figures of the messages of one rate, over all topics, and over all pieces of a trial.
pub struct Tally {
    timebase: Timebase,
    /// Ticks after which a message is late.
    patience: u64,
    /// Of each topic: messages, and the ticks that they took.
    paces: Vec<(u64, f64)>,
    pieces: u64,
    period: f64,
    /// Ticks after which a message is sent so late that it is behind: a period, or the gap between two bursts.
    pub gap: f64,
    /// Of each topic what the follower counted, and of messages whose publisher nobody can read.
    arrived: Vec<Arrived>,
    /// Of each topic.
    late: Vec<u64>,
    /// How far the clocks of both hosts may be apart, if there are two.
    clock_error: Option<ClockError>,
    /// Whose answers come back to the clock that their requests were sent by.
    are_calls: bool,
    /// Messages that came before they were sent, which one clock cannot show.
    pub before_sent: u64,
    /// Messages that were sent more than a period, of bursts a gap, late.
    pub behind: u64,
    /// Response and service times of the first topics or clients, in the order of their sending.
    series: Vec<[Thinned; 2]>,
    /// From the intended sending.
    pub response: Distribution,
    /// From the actual sending.
    pub service: Distribution,
    /// Of the sending.
    pub lateness: Distribution,
    /// Of requests of calls that succeeded, from the actual sending to their arrival at the follower.
    pub one_way: OneWay,
}

impl Delivery {
    /// Without what the follower's clock says: when it came, or of a call when the request did.
    fn without_other_clock(self, is_call: bool) -> Self {
        if is_call { Self { requested: None, ..self } } else { Self { arrived: None, ..self } }
    }
}

/// How well a rate was kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeptRate {
    /// Messages per second of a topic, by the mean of all.
    pub achieved_hz: f64,
    /// Of the slowest topic.
    pub slowest_hz: f64,
    /// See [`Trial::rate_missed`].
    pub rate_missed: bool,
}

/// A rate is missed beyond this share of the time that its messages may take.
const TOLERANCE: f64 = 0.01;

impl Tally {
    /// Of nothing yet, with `period` ticks between the messages of a topic; the times of the first `audited` topics will be
    /// looked at in their order.
    pub fn new(timebase: Timebase, raw: Raw, loss_timeout_ns: u64, topics: usize, period: f64, audited: usize) -> Self {
        Self {
            clock_error: None,
            are_calls: false,
            timebase,
            patience: timebase.to_ticks(loss_timeout_ns),
            paces: vec![(0, 0.0); topics],
            pieces: 0,
            period,
            gap: period,
            arrived: vec![Arrived::default(); topics],
            late: vec![0; topics],
            before_sent: 0,
            behind: 0,
            series: vec![Default::default(); audited],
            response: Distribution::new(raw),
            service: Distribution::new(raw),
            lateness: Distribution::new(raw),
            one_way: OneWay::new(raw, false),
        }
    }

    /// Of two clocks, which are no further apart than is said later; of calls, that is of their requests.
    pub fn with_two_clocks(self, raw: Raw, are_calls: bool) -> Self {
        let new = || if are_calls { Distribution::new(raw) } else { Distribution::of_two_clocks(raw) };
        Self {
            are_calls,
            clock_error: Some(ClockError::default()),
            response: new(),
            service: new(),
            one_way: OneWay::new(raw, true),
            ..self
        }
    }

    /// So far the two clocks may be apart.
    pub fn set_clock_error(&mut self, error: ClockError) {
        self.clock_error.iter_mut().for_each(|all| all.add(error));
        // A call has one clock.
        self.one_way.set_clock_error(error);
        if !self.are_calls {
            [&mut self.response, &mut self.service].into_iter().for_each(|times| times.set_clock_error(error));
        }
    }

    /// Adds what was sent in one piece, and what the follower counted of it. Calls `row` with every message, the index
    /// of its topic and its own in that, without stamps of two clocks that may be too far apart.
    pub fn add<S: Timetable>(
        &mut self,
        topics: &[Topic<S>],
        arrived: &[Arrived],
        mut row: impl FnMut(usize, usize, &Delivery),
    ) {
        self.pieces += 1;
        for (at, topic) in topics.iter().enumerate() {
            let pace = &mut self.paces[at];
            (pace.0, pace.1) = (pace.0 + topic.sent.len() as u64, pace.1 + topic.elapsed());
            for (index, delivery) in topic.deliveries(self.patience).enumerate() {
                self.count(&delivery, at);
                if !topic.requests.is_empty() && delivery.status.is_received() && !self.is_refused() {
                    self.count_request(&delivery);
                }
                row(
                    at,
                    index,
                    &if self.is_refused() { delivery.without_other_clock(self.are_calls) } else { delivery },
                );
            }
        }
        self.arrived.resize(self.arrived.len().max(arrived.len()), Arrived::default());
        for (sum, one) in self.arrived.iter_mut().zip(arrived) {
            sum.add(one);
        }
    }

    fn count(&mut self, delivery: &Delivery, topic: usize) {
        let Delivery { intended, actual, arrived, status, .. } = *delivery;
        let lateness = actual.saturating_sub(intended);
        self.lateness.record(self.timebase.to_ns(lateness));
        self.behind += u64::from(lateness as f64 > self.gap);
        self.late[topic] += u64::from(status == DeliveryStatus::Late);
        let Some(arrived) = arrived.filter(|_| status.is_received()) else { return };
        let two_clocks = self.clock_error.is_some() && !self.are_calls;
        if two_clocks && self.is_refused() {
            return;
        }
        self.before_sent += u64::from(arrived < actual);
        if arrived < actual && !two_clocks {
            return;
        }
        let [response, service] =
            [intended, actual].map(|sent| self.timebase.to_signed_ns(arrived.wrapping_sub(sent) as i64));
        self.response.record_signed(response);
        self.service.record_signed(service);
        // What is negative is in the figures, and says nothing of an order in time.
        if let (Some([responses, services]), Ok(service), Ok(response)) =
            (self.series.get_mut(topic), u64::try_from(service), u64::try_from(response))
        {
            responses.push(response);
            services.push(service);
        }
    }

    fn count_request(&mut self, delivery: &Delivery) {
        let two_clocks = self.clock_error.is_some();
        let ticks = delivery.requested.and_then(|came| latency(delivery.actual, came, two_clocks));
        self.before_sent += u64::from(!self.is_refused() && ticks.is_some_and(|ticks| ticks < 0));
        self.one_way.record(ticks.map(|ticks| self.timebase.to_signed_ns(ticks)));
    }

    /// Topics, publishers or clients.
    pub fn links(&self) -> usize {
        self.paces.len()
    }

    /// Topics or clients whose times are looked at in their order.
    pub fn audited(&self) -> usize {
        self.series.len()
    }

    /// What the audit of the response and service times of one of them found.
    pub fn series(&self, topic: usize) -> [Option<Series>; 2] {
        let granularity_ns = self.timebase.granularity_ns();
        // A call has one clock.
        if self.is_refused() && !self.are_calls {
            return [None, None];
        }
        let audit = |times: &Thinned| times.audit(granularity_ns);
        self.series.get(topic).map_or([None, None], |times| times.each_ref().map(audit))
    }

    /// What happened to the messages.
    pub fn counts(&self) -> Counts {
        let sent = self.paces.iter().map(|(sent, _)| sent).sum();
        let mut arrived = Arrived::default();
        self.arrived.iter().for_each(|one| arrived.add(one));
        counts(sent, &arrived, self.late.iter().sum())
    }

    /// Puts rate and counts of each topic, publisher or client into a trial, as stream `of` that index; `late` tells of calls
    /// how many answers came to each after their end. A message whose header came damaged is nobody's: of publishers it is
    /// lost there, and damaged in the counts of all. Of more than `most` only the first and the slowest are put.
    pub fn put_links(&self, trial: &mut Trial, of: impl Fn(u32) -> Stream, most: usize, late: Option<&[u64]>) {
        let rate_hz = |link: &usize| self.rate_hz(&self.paces[*link]).unwrap_or(0.0);
        let all = 0..self.paces.len();
        let slowest = all.clone().min_by(|a, b| rate_hz(a).total_cmp(&rate_hz(b)));
        for link in all.filter(|link| *link < most || Some(*link) == slowest) {
            let (stream, pace) = (of(link as u32), &self.paces[link]);
            let counts = counts(pace.0, &self.arrived[link], self.late[link]);
            match late {
                None => trial.put_counts(&stream, &counts, false),
                Some(late) => trial.put_counts(&stream, &calls(counts, late.get(link).copied().unwrap_or(0)), true),
            }
            trial.put(&stream, Figure::AchievedRate, rate_hz(&link));
            if self.is_missed(pace) {
                trial.missed.insert(stream);
            }
        }
    }

    /// The two clocks may be too far apart for latencies by both.
    fn is_refused(&self) -> bool {
        self.clock_error.is_some_and(|error| error.is_too_large)
    }

    fn put_clock_error(&self, trial: &mut Trial, stream: &Stream) {
        // Where no follower stamps anything, no clock was read.
        if let Some(error) = self.clock_error.filter(|error| error.ns > 0.0) {
            trial.put(stream, Figure::ClockError, error.ns);
        }
    }

    /// Puts how many came before they were sent, by the clocks, if any did.
    fn put_before_sent(&self, trial: &mut Trial, stream: &Stream) {
        if self.before_sent > 0 {
            trial.put(stream, Figure::BeforeSent, self.before_sent as f64);
        }
    }

    /// Puts counts and times of one of several followers into a trial, if this is what was sent to it.
    pub fn put_follower(&mut self, trial: &mut Trial, follower: u32) {
        let stream = Stream::follower(follower);
        self.put_clock_error(trial, &stream);
        trial.put_counts(&stream, &self.counts(), false);
        self.put_before_sent(trial, &stream);
        self.response.put_without_intervals(trial, &stream, Figure::Response);
        self.service.put_without_intervals(trial, &stream, Figure::Service);
    }

    /// Puts what happened to messages into a trial, and their times.
    pub fn put_messages(&mut self, trial: &mut Trial, stream: &Stream) {
        self.put_clock_error(trial, stream);
        trial.put(stream, Figure::Behind, self.behind as f64);
        trial.put(stream, Figure::BeforeSent, self.before_sent as f64);
        trial.put_counts(stream, &self.counts(), false);
        self.response.put(trial, stream, Figure::Response);
        self.service.put(trial, stream, Figure::Service);
        self.lateness.put(trial, stream, Figure::Lateness);
    }

    /// Puts what happened to calls into a trial, and their times; `late` answers came after the end of their call, and
    /// `has_rate` tells that calls were due when they were, and not when the one before had ended.
    pub fn put_calls(&mut self, trial: &mut Trial, stream: &Stream, late: u64, has_rate: bool) {
        trial.put_counts(stream, &self.calls(late), true);
        self.service.put(trial, stream, Figure::ServiceRtt);
        self.one_way.put(trial, stream);
        self.put_before_sent(trial, stream);
        self.put_clock_error(trial, stream);
        if has_rate {
            trial.put(stream, Figure::Behind, self.behind as f64);
            self.response.put(trial, stream, Figure::ResponseRtt);
            self.lateness.put(trial, stream, Figure::Lateness);
        }
    }

    /// What happened to the calls, of which `late` were answered after their end: those that timed out are lost.
    pub fn calls(&self, late: u64) -> Counts {
        calls(self.counts(), late)
    }

    /// How well the rate was kept, where there was one.
    pub fn kept(&self) -> KeptRate {
        let rates = || self.paces.iter().filter_map(|pace| self.rate_hz(pace));
        let topics = rates().count().max(1) as f64;
        KeptRate {
            achieved_hz: rates().sum::<f64>() / topics,
            slowest_hz: rates().reduce(f64::min).unwrap_or(0.0),
            rate_missed: self.paces.iter().any(|pace| self.is_missed(pace)),
        }
    }

    /// Messages per second of a topic that has sent any.
    fn rate_hz(&self, (sent, ticks): &(u64, f64)) -> Option<f64> {
        (*sent > 0).then(|| *sent as f64 * self.timebase.ticks_per_ns() * 1e9 / ticks)
    }

    /// Time until of every topic or client the message after its last would have been due; 0 without a rate.
    pub fn paced_ns(&self) -> u64 {
        let ticks = self.paces.iter().map(|(_, ticks)| *ticks).fold(0.0, f64::max);
        self.timebase.to_ns(ticks as u64)
    }

    fn is_missed(&self, (sent, ticks): &(u64, f64)) -> bool {
        is_missed(*ticks, *sent as f64, self.period, self.pieces as f64 * self.gap)
    }
}

/// Whether so many messages took more time than one each `period` allows, by more than a tolerance and `slack`.
pub fn is_missed(time: f64, sent: f64, period: f64, slack: f64) -> bool {
    time > sent * period * (1.0 + TOLERANCE) + slack
}

/// Calls counted as messages, of which `late` were answered after their end.
fn calls(counts: Counts, late: u64) -> Counts {
    Counts { lost: counts.lost + counts.late, late: late + counts.late, reordered: 0, ..counts }
}

/// What happened to so many messages, of which some were late.
fn counts(sent: u64, arrived: &Arrived, late: u64) -> Counts {
    let Arrived { received, duplicated, reordered, damaged, .. } = *arrived;
    Counts {
        sent,
        received: received.saturating_sub(late),
        lost: sent.saturating_sub(received + damaged),
        late,
        duplicated,
        reordered,
        damaged,
    }
}

#[cfg(test)]
mod tests;

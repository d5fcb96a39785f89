//! Joins the time stamps of both sides into the outcome of each message (`publish`) or call (`call`).

mod paces;

pub use paces::{KeptRate, is_missed};

use crate::clock::Timebase;
use crate::measure::notes::{self, AGAIN, DAMAGED, NEVER, OVERTAKEN};
use crate::measure::publish::{Schedule, Timetable};
use crate::measure::stamps::latency;
use crate::record::{ClockError, Distribution, OneWay};
use crate::wire::Arrived;
use paces::Paces;
use std::sync::Arc;
use tripmeter_model::delivery::DeliveryStatus;
use tripmeter_model::figure::Figure;
use tripmeter_model::manifest::Counts;
use tripmeter_model::metric::Stream;
use tripmeter_model::plan::Raw;
use tripmeter_model::series::Series;
use tripmeter_model::trial::Trial;
use tripmeter_stats::series::Thinned;

/// Time stamps of one topic, publisher or client, in ticks, one per message. A call arrives when its answer does. A
/// failed call counts as damaged, and one that timed out as lost.
#[derive(Clone)]
pub struct Topic<S = Schedule> {
    /// Intended send times; `None` if they equal the actual ones.
    pub schedule: Option<S>,
    /// Actual send times, shared by all followers.
    pub sent: Arc<[u64]>,
    /// Arrival times, or [`NEVER`]; one for each planned message.
    pub arrived: Vec<u64>,
    /// Marks of [`crate::measure::notes`].
    pub marks: Vec<u8>,
    /// Arrival times of requests at the follower, or [`NEVER`]; empty if they were not recorded.
    pub requests: Vec<u64>,
}

/// Messages received by one follower, or by the last of several.
pub struct Delivered<S = Schedule> {
    pub topics: Vec<Topic<S>>,
    /// Counts by the follower: one for each topic, then one for messages without a readable publisher.
    pub arrived: Vec<Arrived>,
}

impl<S: Copy> Delivered<S> {
    /// Merges the messages of several followers: each arrives when the last follower has received it. A message that
    /// was damaged or duplicated at any follower counts once. For damaged headers, the largest count of any follower is
    /// taken.
    pub fn at_last(each: &[&Self]) -> Self {
        let Some(first) = each.first() else { return Self { topics: Vec::new(), arrived: Vec::new() } };
        let topics = first.topics.iter().enumerate().map(|(at, topic)| {
            let mut last = topic.clone();
            for other in each.iter().skip(1).map(|one| &one.topics[at]) {
                // `NEVER` is later than any arrival.
                last.arrived.iter_mut().zip(&other.arrived).for_each(|(last, ticks)| *last = (*last).max(*ticks));
                last.marks.iter_mut().zip(&other.marks).for_each(|(all, marks)| *all |= marks);
            }
            last
        });
        let topics: Vec<Topic<S>> = topics.collect();
        let arrived = topics.iter().enumerate().map(|(at, topic)| {
            let most = |of: &dyn Fn(&Self) -> u64| each.iter().map(|one| of(one)).max().unwrap_or(0);
            // A message with a damaged header has no mark; one that arrived three times has a single mark.
            let unmarked = most(&|one| one.arrived[at].damaged.saturating_sub(one.topics[at].counted().damaged));
            let duplicated = most(&|one| one.arrived[at].duplicated);
            let counted = topic.counted();
            Arrived { damaged: counted.damaged + unmarked, duplicated: counted.duplicated.max(duplicated), ..counted }
        });
        let arrived = arrived.collect();
        Self { topics, arrived }
    }
}

/// Times of one message, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub intended: u64,
    pub actual: u64,
    pub arrived: Option<u64>,
    /// Arrival of a call's request at the follower, if recorded.
    pub requested: Option<u64>,
    pub status: DeliveryStatus,
}

impl<S> Topic<S> {
    fn counted(&self) -> Arrived {
        notes::arrived(&self.arrived, &self.marks)
    }
}

impl<S: Timetable> Topic<S> {
    /// All messages sent. A message that arrived more than `patience` ticks after it was sent is late.
    pub fn deliveries(&self, patience: u64) -> impl Iterator<Item = Delivery> {
        let stamps = self.sent.iter().zip(&self.arrived).zip(&self.marks).enumerate();
        stamps.map(move |(index, ((&actual, &arrived), &marks))| {
            let intended = self.schedule.as_ref().map_or(actual, |schedule| schedule.due(index));
            let arrived = (arrived != NEVER).then_some(arrived);
            let requested = self.requests.get(index).copied().filter(|ticks| *ticks != NEVER);
            Delivery { intended, actual, arrived, requested, status: status(actual, arrived, marks, patience) }
        })
    }

    /// Ticks from the first due time to the due time after the last message: a whole number of periods if none was sent
    /// late.
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

/// Counts and latencies of the messages at one rate, over all topics and all pieces of a trial.
pub struct Tally {
    timebase: Timebase,
    /// Ticks after which a message is late.
    patience: u64,
    pub paces: Paces,
    /// Counts by the follower for each topic, then for messages without a readable publisher.
    arrived: Vec<Arrived>,
    late: Vec<u64>,
    /// Largest error between the clocks of two hosts; `None` with one host.
    clock_error: Option<ClockError>,
    /// True for calls: sending and answer are timed by one clock.
    are_calls: bool,
    /// Number of messages that arrived before they were sent, which is possible only with two clocks.
    pub before_sent: u64,
    /// Number of messages sent more than `paces.gap` ticks late.
    pub behind: u64,
    /// Response and service times of the first topics or clients, in send order.
    series: Vec<[Thinned; 2]>,
    /// Time from the intended send time to the arrival.
    pub response: Distribution,
    /// Time from the actual send time to the arrival.
    pub service: Distribution,
    pub lateness: Distribution,
    /// One-way latency of the requests of successful calls, from the actual send time to the arrival at the follower.
    pub one_way: OneWay,
}

impl Delivery {
    /// Removes the time read from the follower's clock: the arrival of a message, or of a call's request.
    fn without_other_clock(self, is_call: bool) -> Self {
        if is_call { Self { requested: None, ..self } } else { Self { arrived: None, ..self } }
    }
}

impl Tally {
    /// Empty tally, with `period` ticks between messages of a topic. Times of the first `audited` topics are kept in
    /// order.
    pub fn new(timebase: Timebase, raw: Raw, loss_timeout_ns: u64, topics: usize, period: f64, audited: usize) -> Self {
        Self {
            clock_error: None,
            are_calls: false,
            timebase,
            patience: timebase.to_ticks(loss_timeout_ns),
            paces: Paces::new(timebase, topics, period),
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

    /// Prepares for the clocks of two hosts. In calls, only the requests are timed by both clocks.
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

    pub fn set_clock_error(&mut self, error: ClockError) {
        self.clock_error.iter_mut().for_each(|all| all.add(error));
        // Round trips of calls are timed by one clock.
        self.one_way.set_clock_error(error);
        if !self.are_calls {
            [&mut self.response, &mut self.service].into_iter().for_each(|times| times.set_clock_error(error));
        }
    }

    /// Adds the messages of one piece and the follower's counts. Calls `row` with the index of the topic, the index of
    /// the message in it, and the message. Omits times by two clocks whose error is too large.
    pub fn add<S: Timetable>(
        &mut self,
        topics: &[Topic<S>],
        arrived: &[Arrived],
        mut row: impl FnMut(usize, usize, &Delivery),
    ) {
        self.paces.pieces += 1;
        for (at, topic) in topics.iter().enumerate() {
            self.paces.add(at, topic.sent.len() as u64, topic.elapsed());
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
        self.behind += u64::from(lateness as f64 > self.paces.gap);
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
        // Negative times are in the distributions, but not in the series.
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

    pub fn links(&self) -> usize {
        self.paces.each.len()
    }

    /// Number of topics or clients whose times are kept in order.
    pub fn audited(&self) -> usize {
        self.series.len()
    }

    /// Audits of the response and service times of a topic.
    pub fn series(&self, topic: usize) -> [Option<Series>; 2] {
        let granularity_ns = self.timebase.granularity_ns();
        // Round trips of calls are timed by one clock.
        if self.is_refused() && !self.are_calls {
            return [None, None];
        }
        let audit = |times: &Thinned| times.audit(granularity_ns);
        self.series.get(topic).map_or([None, None], |times| times.each_ref().map(audit))
    }

    pub fn counts(&self) -> Counts {
        let sent = self.paces.each.iter().map(|(sent, _)| sent).sum();
        let mut arrived = Arrived::default();
        self.arrived.iter().for_each(|one| arrived.add(one));
        counts(sent, &arrived, self.late.iter().sum())
    }

    /// Puts the rate and counts of each topic, publisher or client into a trial, as stream `of(index)`. For calls,
    /// `late` counts answers after the end of their call. Only the first `most` links and the slowest are put.
    ///
    /// A message with a damaged header belongs to no publisher: it counts as lost there, and as damaged in the total.
    pub fn put_links(&self, trial: &mut Trial, of: impl Fn(u32) -> Stream, most: usize, late: Option<&[u64]>) {
        let rate_hz = |link: &usize| self.paces.rate_hz(*link).unwrap_or(0.0);
        let all = 0..self.links();
        let slowest = all.clone().min_by(|a, b| rate_hz(a).total_cmp(&rate_hz(b)));
        for link in all.filter(|link| *link < most || Some(*link) == slowest) {
            let stream = of(link as u32);
            let counts = counts(self.paces.each[link].0, &self.arrived[link], self.late[link]);
            match late {
                None => trial.put_counts(&stream, &counts, false),
                Some(late) => trial.put_counts(&stream, &calls(counts, late.get(link).copied().unwrap_or(0)), true),
            }
            trial.put(&stream, Figure::AchievedRate, rate_hz(&link));
            if self.paces.is_missed(link) {
                trial.missed.insert(stream);
            }
        }
    }

    /// True if the clocks may be too far apart for times that use both.
    fn is_refused(&self) -> bool {
        self.clock_error.is_some_and(|error| error.is_too_large)
    }

    fn put_clock_error(&self, trial: &mut Trial, stream: &Stream) {
        // Without stamps by a follower, no clock was read.
        if let Some(error) = self.clock_error.filter(|error| error.ns > 0.0) {
            trial.put(stream, Figure::ClockError, error.ns);
        }
    }

    fn put_before_sent(&self, trial: &mut Trial, stream: &Stream) {
        if self.before_sent > 0 {
            trial.put(stream, Figure::BeforeSent, self.before_sent as f64);
        }
    }

    pub fn put_follower(&mut self, trial: &mut Trial, follower: u32) {
        let stream = Stream::follower(follower);
        self.put_clock_error(trial, &stream);
        trial.put_counts(&stream, &self.counts(), false);
        self.put_before_sent(trial, &stream);
        self.response.put_without_intervals(trial, &stream, Figure::Response);
        self.service.put_without_intervals(trial, &stream, Figure::Service);
    }

    pub fn put_messages(&mut self, trial: &mut Trial, stream: &Stream) {
        self.put_clock_error(trial, stream);
        trial.put(stream, Figure::Behind, self.behind as f64);
        trial.put(stream, Figure::BeforeSent, self.before_sent as f64);
        trial.put_counts(stream, &self.counts(), false);
        self.response.put(trial, stream, Figure::Response);
        self.service.put(trial, stream, Figure::Service);
        self.lateness.put(trial, stream, Figure::Lateness);
    }

    /// Puts counts and times of calls into a trial. `late` is the number of answers that came after the end of their
    /// call. `has_rate` is true if calls were due at fixed times.
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

    /// Counts of the calls, with `late` answers after the end of their call. Calls that timed out are lost.
    pub fn calls(&self, late: u64) -> Counts {
        calls(self.counts(), late)
    }
}

/// Converts counts of messages to counts of calls, with `late` answers that came after the end of their call.
fn calls(counts: Counts, late: u64) -> Counts {
    Counts { lost: counts.lost + counts.late, late: late + counts.late, reordered: 0, ..counts }
}

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

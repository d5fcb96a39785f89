//! What came of the messages of pattern `channel`, by the stamps of both sides put together, and of the calls of `rpc`.

use crate::clock::Timebase;
use crate::measure::notes::{self, AGAIN, DAMAGED, NEVER, OVERTAKEN};
use crate::measure::publish::{Schedule, Timetable};
use crate::record::{Distribution, OneWay};
use crate::wire::Arrived;
use std::sync::Arc;
use tripmeter_model::channel::DeliveryStatus;
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
    pub fn at_last(each: &[Self]) -> Self {
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
            let most = |of: &dyn Fn(&Self) -> u64| each.iter().map(of).max().unwrap_or(0);
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

/// Everything that is said of the messages of one rate, over all topics, and over all pieces of a trial.
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
            one_way: OneWay::new(raw),
        }
    }

    /// Adds what was sent in one piece, and what the follower counted of it. Of every message `row` is told, with the index
    /// of its topic and its own in that.
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
                if !topic.requests.is_empty() && delivery.status.is_received() {
                    self.count_request(&delivery);
                }
                row(at, index, &delivery);
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
        if arrived < actual {
            self.before_sent += 1;
            return;
        }
        let [response, service] = [intended, actual].map(|sent| self.timebase.to_ns(arrived - sent));
        self.response.record(response);
        self.service.record(service);
        if let Some([responses, services]) = self.series.get_mut(topic) {
            responses.push(response);
            services.push(service);
        }
    }

    fn count_request(&mut self, delivery: &Delivery) {
        let ticks = delivery.requested.and_then(|came| came.checked_sub(delivery.actual));
        self.one_way.record(ticks.map(|ticks| self.timebase.to_ns(ticks)));
    }

    /// Topics or clients whose times are looked at in their order.
    pub fn audited(&self) -> usize {
        self.series.len()
    }

    /// What the audit of the response and service times of one of them found.
    pub fn series(&self, topic: usize) -> [Option<Series>; 2] {
        let granularity_ns = self.timebase.granularity_ns();
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

    /// Puts rate and counts of each publisher into a trial, if the topics are those of one topic's publishers. A message
    /// whose header came damaged is nobody's: it is lost there, and damaged in the counts of all.
    pub fn put_publishers(&self, trial: &mut Trial) {
        let all = self.paces.iter().zip(&self.arrived).zip(&self.late);
        for (publisher, ((pace, arrived), late)) in (0..).zip(all) {
            let stream = Stream::publisher(publisher);
            trial.put(&stream, Figure::AchievedRate, self.rate_hz(pace).unwrap_or(0.0));
            trial.put_counts(&stream, &counts(pace.0, arrived, *late), false);
            if self.is_missed(pace) {
                trial.missed.insert(stream);
            }
        }
    }

    /// Puts counts and times of one of several followers into a trial, if this is what was sent to it.
    pub fn put_follower(&mut self, trial: &mut Trial, follower: u32) {
        let stream = Stream::follower(follower);
        trial.put_counts(&stream, &self.counts(), false);
        self.response.put_without_intervals(trial, &stream, Figure::Response);
        self.service.put_without_intervals(trial, &stream, Figure::Service);
    }

    /// Puts what happened to messages into a trial, and their times.
    pub fn put_messages(&mut self, trial: &mut Trial, stream: &Stream) {
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
        if has_rate {
            trial.put(stream, Figure::Behind, self.behind as f64);
            self.response.put(trial, stream, Figure::ResponseRtt);
            self.lateness.put(trial, stream, Figure::Lateness);
        }
    }

    /// What happened to the calls, of which `late` were answered after their end: those that timed out are lost.
    pub fn calls(&self, late: u64) -> Counts {
        let counts = self.counts();
        Counts { lost: counts.lost + counts.late, late: late + counts.late, reordered: 0, ..counts }
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
        let slack = self.pieces as f64 * self.gap;
        *ticks > *sent as f64 * self.period * (1.0 + TOLERANCE) + slack
    }
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
mod tests {
    use super::*;
    use tripmeter_model::figure::Statistic;
    use tripmeter_model::pace::OfferedLoad;

    const PERIOD: f64 = 1000.0;
    const PATIENCE: u64 = 50_000;

    fn topic(sent: &[u64], arrived: &[u64], marks: &[u8]) -> Topic {
        let schedule = Some(Schedule { first: 10_000, period: PERIOD });
        Topic { schedule, sent: sent.into(), arrived: arrived.to_vec(), marks: marks.to_vec(), requests: Vec::new() }
    }

    fn tally(raw: Raw) -> Tally {
        Tally::new(Timebase::NANOSECONDS, raw, PATIENCE, 1, PERIOD, 1)
    }

    #[test]
    fn every_message_has_one_fate_and_both_times() {
        let sent = [10_000, 11_500, 12_000, 13_000, 14_000, 15_000];
        let arrived = [10_100, 11_600, 64_000, NEVER, NEVER, 15_200];
        let topic = topic(&sent, &arrived, &[0, OVERTAKEN | AGAIN, 0, 0, DAMAGED, AGAIN]);
        let counted = Arrived { received: 4, duplicated: 2, reordered: 1, damaged: 1, ..Arrived::default() };
        let (mut tally, mut rows) = (tally(Raw::Csv), Vec::new());
        tally.add(&[topic], &[counted], |topic, index, delivery| rows.push((topic, index, delivery.status)));
        let statuses = [
            DeliveryStatus::Ok,
            DeliveryStatus::Reordered,
            DeliveryStatus::Late,
            DeliveryStatus::Lost,
            DeliveryStatus::Damaged,
            DeliveryStatus::Duplicated,
        ];
        assert_eq!(
            rows,
            statuses.into_iter().enumerate().map(|(index, status)| (0, index, status)).collect::<Vec<_>>()
        );
        let counts = Counts { sent: 6, received: 3, lost: 1, late: 1, duplicated: 2, reordered: 1, damaged: 1 };
        assert_eq!((tally.counts(), tally.behind, tally.before_sent), (counts, 0, 0));
        let (response, service) = (tally.response.figures().unwrap(), tally.service.figures().unwrap());
        assert_eq!([tally.response.histogram.len(), tally.service.histogram.len()], [3; 2]);
        assert_eq!((response.min, response.median, response.max), (100.0, 200.0, 600.0));
        assert_eq!((service.min, service.median, service.max), (100.0, 100.0, 200.0));
        assert_eq!(tally.lateness.figures().unwrap().max, 500.0);
    }

    #[test]
    fn the_last_of_several_followers_has_what_all_have_when_the_last_has_it() {
        let sent = [10_000, 11_000, 12_000, 13_000];
        let counted = |received, duplicated, damaged| Arrived { received, duplicated, damaged, ..Arrived::default() };
        let quick = topic(&sent, &[10_100, 11_100, 12_100, 13_100], &[0, AGAIN, 0, 0]);
        // It lacks the third, and cannot read the header of one.
        let slow = topic(&sent, &[10_200, NEVER, NEVER, 13_050], &[0, DAMAGED, 0, OVERTAKEN]);
        let each = [(quick, counted(4, 1, 0)), (slow, counted(2, 0, 2))];
        let each = each.map(|(topic, arrived)| Delivered { topics: vec![topic], arrived: vec![arrived] });
        let last = Delivered::at_last(&each);
        assert_eq!(last.topics[0].arrived, [10_200, NEVER, NEVER, 13_100]);
        let mut tally = tally(Raw::Csv);
        tally.add(&last.topics, &last.arrived, |_, _, _| ());
        let counts = Counts { sent: 4, received: 2, lost: 0, duplicated: 1, reordered: 1, damaged: 2, late: 0 };
        assert_eq!((tally.counts(), tally.service.figures().unwrap().max), (counts, 200.0));
    }

    #[test]
    fn each_publisher_has_counts_of_its_own_and_what_is_nobodys_is_in_the_sum() {
        let sent = [10_000, 11_000];
        let late = topic(&sent, &[10_100, 11_001 + PATIENCE], &[0, 0]);
        let lost = topic(&sent, &[NEVER, 11_100], &[0, AGAIN]);
        let mut tally = Tally::new(Timebase::NANOSECONDS, Raw::Csv, PATIENCE, 2, PERIOD, 0);
        let counted = |received, duplicated, damaged| Arrived { received, duplicated, damaged, ..Arrived::default() };
        tally.add(&[late, lost], &[counted(2, 0, 0), counted(1, 1, 0), counted(0, 0, 1)], |_, _, _| ());
        let mut trial = Trial::new(OfferedLoad::Rate { hz: 1e6 });
        tally.put_publishers(&mut trial);
        let of = |index| {
            let publisher = Stream::publisher(index);
            (trial.value(&publisher, Figure::AchievedRate), trial.counts(&publisher))
        };
        assert_eq!(of(0), (Some(1e6), Counts { sent: 2, received: 1, late: 1, ..Counts::default() }));
        assert_eq!(of(1), (Some(1e6), Counts { sent: 2, received: 1, lost: 1, duplicated: 1, ..Counts::default() }));
        let all = Counts { sent: 4, received: 2, late: 1, duplicated: 1, damaged: 1, ..Counts::default() };
        assert_eq!((trial.streams().count(), tally.counts()), (2, all));
    }

    #[test]
    fn what_came_before_it_was_sent_is_in_no_figure() {
        let mut tally = tally(Raw::Csv);
        let counted = Arrived { received: 2, ..Arrived::default() };
        tally.add(&[topic(&[10_000, 11_000], &[9_999, 11_001], &[0, 0])], &[counted], |_, _, _| ());
        assert_eq!((tally.before_sent, tally.counts().received, tally.service.figures().unwrap().min), (1, 2, 1.0));
    }

    #[test]
    fn what_came_at_the_tick_of_its_sending_took_no_time() {
        let mut tally = tally(Raw::Csv);
        let counted = Arrived { received: 1, ..Arrived::default() };
        tally.add(&[topic(&[10_500], &[10_500], &[0])], &[counted], |_, _, _| ());
        let (response, service) = (tally.response.figures().unwrap(), tally.service.figures().unwrap());
        assert_eq!((tally.before_sent, response.max, service.max), (0, 500.0, 0.0));
    }

    #[test]
    fn more_than_a_period_late_is_behind_and_the_patience_is_still_in_time() {
        let mut tally = tally(Raw::None);
        let sent = [11_000, 12_001, 13_001];
        tally.add(&[topic(&sent, &sent.map(|sent| sent + 1 + PATIENCE), &[0; 3])], &[], |_, _, _| ());
        assert_eq!((tally.behind, tally.late[0]), (2, 3));
        tally.add(&[topic(&[10_000], &[10_000 + PATIENCE], &[0])], &[], |_, _, _| ());
        assert_eq!((tally.behind, tally.late[0], tally.response.histogram.len()), (2, 3, 1));
    }

    /// Of its publishers.
    fn rates(tally: &Tally, publishers: u32) -> Vec<f64> {
        let mut trial = Trial::new(OfferedLoad::Max);
        tally.put_publishers(&mut trial);
        (0..publishers).map(|one| trial.value(&Stream::publisher(one), Figure::AchievedRate).unwrap()).collect()
    }

    #[test]
    fn pieces_add_up_and_a_topic_that_sent_nothing_has_no_rate() {
        let mut tally = Tally::new(Timebase::NANOSECONDS, Raw::None, PATIENCE, 2, PERIOD, 0);
        let piece = |sent: &[u64]| topic(sent, &vec![NEVER; sent.len()], &vec![0; sent.len()]);
        for _ in 0..2 {
            let counted = Arrived { damaged: 1, ..Arrived::default() };
            tally.add(&[piece(&[10_000, 11_000]), piece(&[])], &[counted], |_, _, _| ());
        }
        assert_eq!(tally.kept(), KeptRate { achieved_hz: 1e6, slowest_hz: 1e6, rate_missed: false });
        assert_eq!((tally.paced_ns(), rates(&tally, 2)), (4000, vec![1e6, 0.0]));
        assert_eq!(tally.counts(), Counts { sent: 4, lost: 2, damaged: 2, ..Counts::default() });
    }

    #[test]
    fn the_rate_is_the_mean_of_all_topics_and_missed_by_the_slowest() {
        let mut tally = Tally::new(Timebase::NANOSECONDS, Raw::None, PATIENCE, 2, PERIOD, 0);
        let until = |last: u64| topic(&[10_000, 11_000, 12_000, last], &[NEVER; 4], &[0; 4]);
        // Four messages in 4 periods, and in 8.
        tally.add(&[until(13_000), until(17_000)], &[], |_, _, _| ());
        assert_eq!(tally.kept(), KeptRate { achieved_hz: 7.5e5, slowest_hz: 5e5, rate_missed: true });
        assert_eq!(tally.paced_ns(), 8000);
        assert_eq!(rates(&tally, 2), [1e6, 5e5]);
    }

    #[test]
    fn ticks_that_are_no_nanoseconds_become_times_and_rates() {
        let timebase = Timebase { source: crate::clock::ClockSource::Tsc, frequency_hz: 2e9 };
        let mut tally = Tally::new(timebase, Raw::Csv, PATIENCE / 2, 1, PERIOD, 0);
        let calls = topic(&[10_000, 11_000], &[10_300, 11_000 + PATIENCE], &[0, 0]);
        tally.add(&[calls], &[Arrived { received: 2, ..Arrived::default() }], |_, _, _| ());
        let service = tally.service.figures().unwrap();
        assert_eq!((service.min, service.max, tally.counts().late), (150.0, PATIENCE as f64 / 2.0, 0));
        assert_eq!((tally.kept().achieved_hz, tally.paced_ns()), (2e6, 1000));
    }

    #[test]
    fn a_call_that_was_answered_too_late_timed_out() {
        let mut tally = tally(Raw::Csv);
        let calls = topic(&[10_000, 11_000, 12_000, 13_000], &[10_001, 11_001 + PATIENCE, NEVER, NEVER], &[0; 4]);
        let counted = Arrived { received: 2, duplicated: 3, damaged: 1, ..Arrived::default() };
        tally.add(&[calls], &[counted], |_, _, _| ());
        let expected = Counts { sent: 4, received: 1, lost: 2, late: 6, duplicated: 3, reordered: 0, damaged: 1 };
        assert_eq!(tally.calls(5), expected);
    }

    #[test]
    fn requests_are_joined_by_number_with_the_calls_that_succeeded() {
        for raw in [Raw::Csv, Raw::None] {
            // Of the second the answer was lost, the third was answered too late, and the fourth came damaged.
            let mut calls = topic(
                &[10_000, 11_000, 12_000, 13_000, 14_000, 15_000, 16_000],
                &[10_500, NEVER, 64_000, NEVER, 14_700, 15_500, 16_800],
                &[0, 0, 0, DAMAGED, 0, 0, 0],
            );
            // That of the fifth was not noted, and that of the sixth came before it was sent.
            calls.requests = vec![10_300, 11_900, 12_700, 13_800, NEVER, 14_999, 16_400, NEVER];
            let (mut tally, mut rows) = (tally(raw), Vec::new());
            tally.add(&[calls], &[], |_, index, delivery| rows.push((index, delivery.requested)));
            let mut trial = Trial::new(OfferedLoad::Closed);
            tally.one_way.put(&mut trial, &Stream::all());
            let of = |statistic| trial.of_all(Figure::OneWay, statistic).unwrap();
            let found = [Statistic::N, Statistic::Min, Statistic::Mean, Statistic::Max].map(of);
            assert_eq!(found, [2.0, 300.0, 350.0, 400.0]);
            let median = trial.get(&Stream::all(), Figure::OneWay, Statistic::P50).unwrap();
            assert_eq!((tally.one_way.missing, median.within.is_some()), (2, raw == Raw::Csv));
            assert_eq!(tally.service.histogram.len(), 4);
            assert_eq!((rows[1], rows[4]), ((1, Some(11_900)), (4, None)));
        }
        let mut nothing = tally(Raw::Csv);
        nothing.add(&[topic(&[10_000], &[10_500], &[0])], &[], |_, _, _| ());
        let mut trial = Trial::new(OfferedLoad::Closed);
        nothing.one_way.put(&mut trial, &Stream::all());
        assert_eq!(trial.figures().count(), 0);
    }

    #[test]
    fn a_mean_is_that_of_all_and_exact() {
        for raw in [Raw::Csv, Raw::None] {
            let mut distribution = Distribution::new(raw);
            [10_000_001, 10_000_002, 10_000_006].into_iter().for_each(|ns| distribution.record(ns));
            let found = distribution.figures().unwrap();
            assert_eq!(distribution.histogram.len(), 3);
            assert_eq!((found.min, found.mean, found.max), (10_000_001.0, 10_000_003.0, 10_000_006.0));
        }
    }

    #[test]
    fn each_client_has_an_audit_of_its_own() {
        let mut tally = Tally::new(Timebase::NANOSECONDS, Raw::None, PATIENCE, 3, PERIOD, 2);
        let calls = |slower: u64| {
            let sent: Vec<u64> = (0..200).map(|index| 10_000 + index * 1000).collect();
            let arrived: Vec<u64> = sent.iter().map(|sent| sent + 300 + slower + sent % 7).collect();
            topic(&sent, &arrived, &[0; 200])
        };
        tally.add(&[calls(0), calls(400), calls(800)], &[], |_, _, _| ());
        let [first, second] = [0, 1].map(|client| {
            let [response, service] = tally.series(client);
            assert_eq!(response, service, "all were sent in time");
            service.unwrap()
        });
        assert_eq!((first.samples, second.samples, tally.audited()), (200, 200, 2));
        let mean = |series: &Series| series.warm_up.unwrap().mean_ns[0];
        assert!((mean(&second) - mean(&first) - 400.0).abs() < 1e-6);
        assert_eq!(tally.series(2), [None, None]);
    }

    #[test]
    fn a_rate_is_missed_by_more_than_a_period_and_a_hundredth() {
        let kept = |last: u64| {
            let sent: Vec<u64> = (0..99).map(|index| 10_000 + index * 1000).chain([last]).collect();
            let mut tally = tally(Raw::None);
            tally.add(&[topic(&sent, &[NEVER; 100], &[0; 100])], &[], |_, _, _| ());
            tally.kept()
        };
        assert_eq!(kept(109_000), KeptRate { achieved_hz: 1e6, slowest_hz: 1e6, rate_missed: false });
        assert!(!kept(111_000).rate_missed && kept(111_002).rate_missed);
        assert!((kept(209_000).slowest_hz - 5e5).abs() < 1.0);
        // Of two pieces each may be so late.
        let sent: Vec<u64> = (0..99).map(|index| 10_000 + index * 1000).chain([111_000]).collect();
        let mut tally = tally(Raw::None);
        (0..2).for_each(|_| tally.add(&[topic(&sent, &[NEVER; 100], &[0; 100])], &[], |_, _, _| ()));
        assert!(!tally.kept().rate_missed);
    }

    #[test]
    fn histograms_tell_the_same_as_samples_to_three_digits() {
        let mut figures = [Raw::Csv, Raw::None].map(|raw| {
            let mut distribution = Distribution::new(raw);
            (0..100_000_u64).for_each(|index| distribution.record(1000 + index * 7919 % 100_003));
            distribution.figures().unwrap()
        });
        let [exact, near] = &mut figures;
        assert_eq!((exact.min, exact.mean, exact.max), (near.min, near.mean, near.max));
        for (exact, near) in [(exact.median, near.median), (exact.p99, near.p99), (exact.p999, near.p999)] {
            assert!((near / exact - 1.0).abs() < 2e-3, "{exact} {near}");
        }
        assert_eq!(Distribution::new(Raw::Csv).figures(), None);
    }
}

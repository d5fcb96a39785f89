//! Account of a trial: counts, figures, costs and why it was cut short, over all of its legs.

use super::Error;
use super::host_clocks::Clocks;
use super::leader::Leader;
use super::leg::ReportedLeg;
use super::measured::Samples;
use crate::clock::Timebase;
use crate::delivery::{Delivered, KeptRate, Tally};
use crate::files::{Files, Rows, field, tag};
use crate::measure::publish::Timetable;
use crate::record::{ClockError, OneWay};
use crate::replay::{Replay, Times};
use std::io;
use std::slice::from_ref;
use tripmeter_model::cut_short::CutShort;
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::metric::{Process, Stream};
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::plan::{Raw, Streams};
use tripmeter_model::recording::RecordedTopic;
use tripmeter_model::trial::Trial;
use tripmeter_model::used::Used;
use tripmeter_model::workload::Workload;

/// Most topics or clients with streams of their own, apart from the slowest, unless all are requested.
const SHOWN_LINKS: usize = 16;

pub(super) struct MeasuredTrial {
    pub trial: Trial,
    pub samples: u64,
    pub duration_ns: u64,
    pub unwritten: Option<Samples>,
    pub broken: Option<Error>,
}

impl MeasuredTrial {
    pub(super) fn new(trial: Trial) -> Self {
        Self { trial, samples: 0, duration_ns: 0, unwritten: None, broken: None }
    }
}

pub(super) struct Account {
    /// Trial with the figures that do not need messages to be joined.
    pub trial: Trial,
    /// Samples that are written to a file after the trial.
    pub unwritten: Option<Samples>,
    messages: MessageAccount,
    own: Option<Used>,
    others: Option<Used>,
    duration_ns: u64,
    refused: u64,
    cut: Option<CutShort>,
    /// Recorded topics without a message, as text for a note.
    silent: String,
}

/// Messages and calls that are joined one by one from the stamps of both sides.
struct MessageAccount {
    timebase: Timebase,
    raw: Raw,
    loss_timeout_ns: u64,
    is_on_one_host: bool,
    workload: Workload,
    are_calls: bool,
    /// True if the calls are round trips of `ping` with several clients.
    are_round_trips: bool,
    streams: Streams,
    /// Messages to the follower, or to the last of several; `None` until messages were joined.
    all: Option<Tally>,
    /// Messages to each of several followers; `None` if unknown.
    followers: Vec<Option<Tally>>,
    topics: Vec<PlayedTopic>,
    /// Number of answers to each client that came after the end of their call.
    late: Vec<u64>,
}

struct PlayedTopic {
    recorded: RecordedTopic,
    /// Recorded rate, times the speed.
    offered_hz: f64,
    tally: Tally,
    late: u64,
}

/// Rows of samples of a leg.
pub(super) struct RowsOfLinks<'f> {
    pub rows: Rows<'f>,
    pub streams: &'f [String],
    is_timed: bool,
}

impl<'f> RowsOfLinks<'f> {
    pub(super) fn new(rows: Rows<'f>, streams: &'f [String], account: &Account) -> Self {
        let is_timed = account.trial.load != OfferedLoad::Closed;
        Self { rows, streams, is_timed }
    }

    pub(super) fn finish(self) -> io::Result<()> {
        self.rows.finish()
    }
}

/// Sum of the costs of two legs; `None` if one is unknown.
fn sum(so_far: Option<Used>, more: Option<Used>) -> Option<Used> {
    let (mut sum, more) = (so_far?, more?);
    sum += more;
    Some(sum)
}

impl Account {
    pub(super) fn new(leader: &Leader, load: OfferedLoad) -> Self {
        let job = &leader.job;
        let messages = MessageAccount {
            timebase: job.timebase,
            raw: job.raw,
            loss_timeout_ns: job.loss_timeout_ns,
            is_on_one_host: leader.is_on_one_host(),
            workload: job.sub_experiment.workload.clone(),
            are_calls: job.sub_experiment.workload.is_call(),
            are_round_trips: job.sub_experiment.are_round_trips(),
            streams: job.streams,
            all: None,
            followers: Vec::new(),
            topics: Vec::new(),
            late: vec![0; job.sub_experiment.workload.links() as usize],
        };
        Self {
            trial: Trial::new(load),
            unwritten: None,
            messages,
            own: Some(Used::NOTHING),
            others: Some(Used::NOTHING),
            duration_ns: 0,
            refused: 0,
            cut: None,
            silent: String::new(),
        }
    }

    pub(super) fn timebase(&self) -> Timebase {
        self.messages.timebase
    }

    /// True if a leg ended before its plan.
    pub(super) fn is_cut(&self) -> bool {
        self.cut.is_some()
    }

    /// True if samples were requested, but none was recorded.
    pub(super) fn has_no_samples(&self) -> bool {
        self.unwritten.as_ref().is_some_and(|samples| samples.recorded.count == 0)
    }

    /// Damaged messages and failed calls.
    pub(super) fn damaged(&self) -> u64 {
        self.messages.all.as_ref().map_or(0, |tally| tally.counts().damaged) + self.trial.counts(&Stream::all()).damaged
    }

    /// Stream of each topic, publisher or client, as in rows of samples.
    pub(super) fn streams_of_links(&self) -> Vec<String> {
        let workload = &self.messages.workload;
        (0..workload.links()).map(|link| field(&stream_of_link(workload, link))).collect()
    }

    /// Links that have figures of their own, with their streams: the first ones and the one that sent least, or all.
    pub(super) fn shown_links(&self, sent: &[u64]) -> Vec<(usize, Stream)> {
        let workload = &self.messages.workload;
        let most = if self.messages.streams == Streams::All { sent.len() } else { SHOWN_LINKS };
        let slowest = (0..sent.len()).min_by_key(|link| sent[*link]);
        let links = (0..sent.len()).filter(|link| sent.len() > 1 && (*link < most || Some(*link) == slowest));
        links.map(|link| (link, stream_of_link(workload, link as u32))).collect()
    }

    /// Adds cost, time and early end of a leg. With `has_other_process`, the followers' cost is counted apart.
    pub(super) fn add_leg(&mut self, leg: &ReportedLeg, has_other_process: bool) {
        let sent = &leg.sent;
        let others = leg.reports.iter().map(|report| report.as_ref().map(|report| report.used));
        let others = others.reduce(|one, other| Some(one?.beside(other?))).flatten();
        self.own = sum(self.own, sent.used);
        self.others = sum(self.others, others.filter(|_| has_other_process && sent.used.is_some()));
        self.duration_ns += self.messages.timebase.to_ns(sent.until.saturating_sub(sent.begin));
        self.refused += sent.refused;
        self.cut = self.cut.take().or_else(|| sent.cut.clone());
    }

    /// Adds the topics without a message to the reason of an early end.
    pub(super) fn note_silent(&mut self, silent: String) {
        self.silent = silent;
    }

    /// Adds messages or calls of a leg: `all` at the last follower, `each` at each of several followers. `late` is the
    /// number of late answers to each client.
    pub(super) fn add(
        &mut self,
        clocks: &Clocks,
        all: &Delivered<Times<'_>>,
        each: &[Option<Delivered<Times<'_>>>],
        late: &[u64],
        rows: Option<&mut RowsOfLinks<'_>>,
    ) {
        let load = self.trial.load;
        let messages = &mut self.messages;
        let are_calls = messages.are_calls;
        // Calls of a client follow each other, so all clients are audited; of several topics, the first is.
        let audited = if are_calls { all.topics.len() } else { 1 };
        let mut tally = messages.all.take().unwrap_or_else(|| messages.tally_at(load, all.topics.len(), audited));
        tally.set_clock_error(clocks.largest_error());
        match rows {
            None => tally.add(&all.topics, &all.arrived, |_, _, _| ()),
            Some(RowsOfLinks { rows, streams, is_timed }) => {
                tally.add(&all.topics, &all.arrived, |link, index, delivery| {
                    rows.add_delivery(&streams[link], index, delivery, are_calls, *is_timed);
                });
            }
        }
        messages.all = Some(tally);
        messages.late.iter_mut().zip(late).for_each(|(sum, late)| *sum += late);
        messages.followers.resize_with(each.len(), || None);
        for (follower, to) in each.iter().enumerate() {
            let Some(to) = to else { continue };
            let tally = messages.followers[follower].take();
            let mut tally = tally.unwrap_or_else(|| messages.tally_at(load, to.topics.len(), 0));
            tally.set_clock_error(clocks.error(follower));
            tally.add(&to.topics, &to.arrived, |_, _, _| ());
            messages.followers[follower] = Some(tally);
        }
    }

    /// Adds the messages of a recording, topic by topic: each has its own audit.
    pub(super) fn add_recorded(
        &mut self,
        clocks: &Clocks,
        (replay, begin): (&Replay, u64),
        all: &Delivered<Times<'_>>,
        each: &[Option<Delivered<Times<'_>>>],
        late: &[u64],
        mut rows: Option<&mut RowsOfLinks<'_>>,
    ) {
        let messages = &mut self.messages;
        let are_calls = messages.are_calls;
        // Figures that depend on a period are not taken from the sum over topics.
        let mut sum = messages.tally(1, f64::INFINITY, 0);
        sum.set_clock_error(clocks.largest_error());
        for (index, (topic, arrived)) in all.topics.iter().zip(&all.arrived).enumerate() {
            let recorded = replay.recording.topics[index].clone();
            let schedule = &replay.times(index, begin);
            let mut tally = messages.tally(1, schedule.period(), 1);
            tally.set_clock_error(clocks.largest_error());
            let offered_hz = 1e9 / replay.recording.period_ns(&recorded);
            let stream = field(&Stream::topic(&recorded.name));
            tally.add(from_ref(topic), from_ref(arrived), |_, at, delivery| {
                if let Some(RowsOfLinks { rows, .. }) = &mut rows {
                    rows.payload_bytes = schedule.length(at, 0) as u64;
                    rows.add_delivery(&stream, at, delivery, are_calls, true);
                }
            });
            sum.add(from_ref(topic), from_ref(arrived), |_, _, _| ());
            let late = late.get(index).copied().unwrap_or(0);
            messages.topics.push(PlayedTopic { recorded, offered_hz, tally, late });
        }
        messages.all = Some(sum);
        messages.late = late.to_vec();
        let at_follower = |(follower, to): (usize, &Option<Delivered<Times<'_>>>)| {
            let to = to.as_ref()?;
            let mut tally = messages.tally(1, f64::INFINITY, 0);
            tally.set_clock_error(clocks.error(follower));
            for (topic, arrived) in to.topics.iter().zip(&to.arrived) {
                tally.add(from_ref(topic), from_ref(arrived), |_, _, _| ());
            }
            Some(tally)
        };
        messages.followers = each.iter().enumerate().map(at_follower).collect();
    }

    /// Puts one-way latencies, given in ticks, into the trial; `None` stands for an unknown latency.
    pub(super) fn put_one_way(
        &mut self,
        stream: &Stream,
        ticks: impl Iterator<Item = Option<i64>>,
        (clocks, error): (&Clocks, ClockError),
        has_intervals: bool,
    ) -> OneWay {
        let mut one_way = OneWay::new(Raw::SAMPLES, clocks.are_two());
        one_way.set_clock_error(error);
        ticks.for_each(|ticks| one_way.record(ticks.map(|ticks| self.messages.timebase.to_signed_ns(ticks))));
        one_way.put_times(&mut self.trial, stream, has_intervals);
        if one_way.before_sent > 0 && !error.is_too_large {
            self.trial.put(stream, Figure::BeforeSent, one_way.before_sent as f64);
        }
        one_way
    }

    /// Appends the histograms of messages that are joined one by one.
    pub(super) fn write_histograms(&self, files: &mut Files, payload_bytes: u64) -> io::Result<()> {
        let Some(all) = &self.messages.all else { return Ok(()) };
        let (load, duration_ns) = (self.trial.load, self.duration_ns);
        if self.messages.topics.is_empty() {
            return files.append_times(load != OfferedLoad::Closed, &tag(payload_bytes, load), all, duration_ns);
        }
        for (index, topic) in self.messages.topics.iter().enumerate() {
            files.append_times(true, &format!("topic_{index}"), &topic.tally, duration_ns)?;
        }
        files.append_times(true, "recording", all, duration_ns)
    }

    /// Trial with all figures; `broken` is the error that ended it, if any.
    pub(super) fn close(mut self, broken: Option<&Error>) -> MeasuredTrial {
        let cut = broken.map(CutShort::from).or_else(|| self.cut.take());
        self.trial.cut_short = cut.map(|cut| cut.and(&self.silent));
        for (process, used) in [(Process::Leader, self.own), (Process::Follower, self.others)] {
            let stream = Stream::process(process);
            let figures = used.iter().flat_map(Used::figures);
            figures.for_each(|(figure, value)| self.trial.put(&stream, figure, value));
        }
        let (mut trial, duration_ns, refused) = (self.trial, self.duration_ns, self.refused);
        let received = self.messages.put(&mut trial, duration_ns, refused);
        let samples = self.unwritten.as_ref().map_or(received, |samples| samples.recorded.count);
        MeasuredTrial { samples, duration_ns, unwritten: self.unwritten, ..MeasuredTrial::new(trial) }
    }
}

/// Stream of the messages of a link.
fn stream_of_link(workload: &Workload, link: u32) -> Stream {
    match workload.links() {
        1 => Stream::all(),
        _ if workload.is_call() => Stream::client(link),
        _ if workload.publishers() > 1 => Stream::publisher(link),
        _ => Stream::topic(&link.to_string()),
    }
}

impl MessageAccount {
    fn tally_at(&self, load: OfferedLoad, links: usize, audited: usize) -> Tally {
        let times = Times::for_load(load, &self.timebase, 0, 0, 1);
        let mut tally = self.tally(links, times.period(), audited);
        tally.paces.gap = times.gap();
        tally
    }

    fn tally(&self, links: usize, period: f64, audited: usize) -> Tally {
        let tally = Tally::new(self.timebase, self.raw, self.loss_timeout_ns, links, period, audited);
        if self.is_on_one_host { tally } else { tally.with_two_clocks(self.raw, self.are_calls) }
    }

    /// Puts the figures of all messages into a trial. Returns the number that were received.
    fn put(self, trial: &mut Trial, mut duration_ns: u64, refused: u64) -> u64 {
        let (load, all, are_calls) = (trial.load, Stream::all(), self.are_calls);
        let Some(mut tally) = self.all else { return trial.count(&all, Figure::Received) };
        if are_calls {
            tally.put_calls(trial, &all, self.late.iter().sum(), load != OfferedLoad::Closed);
            if self.are_round_trips && load == OfferedLoad::Closed {
                tally.service.put_scaled(trial, &all, Figure::RttHalf, 0.5);
            }
        } else {
            tally.put_messages(trial, &all);
            trial.put(&all, Figure::Refused, refused as f64);
        }
        if let Some(hz) = load.hz() {
            let kept = tally.paces.kept();
            put_rates(trial, &all, hz, &kept);
            trial.rate_missed = kept.rate_missed;
            if are_calls {
                // The last call lasts until the next would have been due, or longer.
                duration_ns = duration_ns.max(tally.paces.paced_ns());
            }
        }
        let received = trial.count(&all, Figure::Received);
        if are_calls {
            trial.put(&all, Figure::Completed, received as f64 * 1e9 / duration_ns.max(1) as f64);
        }
        trial.put(&all, Figure::Duration, duration_ns as f64);
        for link in 0..tally.audited() {
            let stream = if are_calls { Stream::client(link as u32) } else { all.clone() };
            put_series(trial, &stream, &tally, link, are_calls);
        }
        let shown = if self.streams == Streams::All { usize::MAX } else { SHOWN_LINKS };
        match tally.links() {
            1 => {}
            _ if are_calls => tally.put_links(trial, Stream::client, shown, Some(&self.late)),
            _ if self.workload.publishers() > 1 => tally.put_links(trial, Stream::publisher, usize::MAX, None),
            _ => tally.put_links(trial, |topic| Stream::topic(&topic.to_string()), shown, None),
        }
        for (follower, tally) in (0..).zip(self.followers) {
            if let Some(mut tally) = tally {
                tally.put_follower(trial, follower);
            }
        }
        if !self.topics.is_empty() {
            put_topics(trial, self.topics, are_calls);
        }
        received
    }
}

/// Puts the topics of a recording into a trial, with their sums. Topics are counted one after the other, not in order
/// of time. Total rates are sums over the topics; the slowest rate is that of one topic.
fn put_topics(trial: &mut Trial, topics: Vec<PlayedTopic>, are_calls: bool) {
    let (mut offered_hz, mut behind) = (0.0, 0);
    let mut over_topics = KeptRate { achieved_hz: 0.0, slowest_hz: f64::INFINITY, rate_missed: false };
    for PlayedTopic { recorded, offered_hz: hz, mut tally, late } in topics {
        let (stream, kept) = (Stream::topic(&recorded.name), tally.paces.kept());
        let bytes =
            [(Statistic::Mean, recorded.mean_sent_bytes()), (Statistic::Max, recorded.largest_sent_bytes() as f64)];
        for (statistic, bytes) in bytes {
            trial.put_statistic(&stream, Figure::MessageBytes, statistic, bytes, None);
        }
        put_rates(trial, &stream, hz, &kept);
        if are_calls {
            tally.put_calls(trial, &stream, late, true);
        } else {
            tally.put_messages(trial, &stream);
        }
        put_series(trial, &stream, &tally, 0, are_calls);
        offered_hz += hz;
        behind += tally.behind;
        over_topics.achieved_hz += kept.achieved_hz;
        over_topics.slowest_hz = over_topics.slowest_hz.min(kept.achieved_hz);
        over_topics.rate_missed |= kept.rate_missed;
        if kept.rate_missed {
            trial.missed.insert(stream);
        }
    }
    put_rates(trial, &Stream::all(), offered_hz, &over_topics);
    trial.put(&Stream::all(), Figure::Behind, behind as f64);
    trial.rate_missed = over_topics.rate_missed;
}

fn put_rates(trial: &mut Trial, stream: &Stream, offered_hz: f64, kept: &KeptRate) {
    for (figure, hz) in [
        (Figure::OfferedRate, offered_hz),
        (Figure::AchievedRate, kept.achieved_hz),
        (Figure::SlowestRate, kept.slowest_hz),
    ] {
        trial.put(stream, figure, hz);
    }
}

/// Puts the audit of one link's times into a trial. Calls that follow each other are due when they are made, and have no
/// response time of their own.
fn put_series(trial: &mut Trial, stream: &Stream, tally: &Tally, link: usize, are_calls: bool) {
    let [response, service] = tally.series(link);
    let figures =
        if are_calls { [Figure::ResponseRtt, Figure::ServiceRtt] } else { [Figure::Response, Figure::Service] };
    let has_response = trial.load != OfferedLoad::Closed;
    trial.put_series(stream, figures[0], response.filter(|_| has_response));
    trial.put_series(stream, figures[1], service);
}

//! Makes a [`Trial`] from counts and times.

use super::Error;
use crate::delivery::{KeptRate, Tally};
use tripmeter_model::cut_short::CutShort;
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::metric::{Process, Stream};
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::plan::Streams;
use tripmeter_model::recording::RecordedTopic;
use tripmeter_model::trial::Trial;
use tripmeter_model::used::Used;

pub(super) struct Tallied {
    pub tally: Tally,
    /// True if they are calls; else they are messages.
    pub are_calls: bool,
    pub publishers: u32,
    /// Tally of each follower if there are several; `None` if unknown.
    pub followers: Vec<Option<Tally>>,
    /// Answers after the end of their call, of each client.
    pub late: Vec<u64>,
    pub refused: u64,
    pub duration_ns: u64,
    pub cut_short: Option<CutShort>,
    pub own: Used,
    pub others: Option<Used>,
    pub broken: Option<Error>,
}

pub(super) struct PlayedTopic {
    pub recorded: RecordedTopic,
    /// Recorded rate, times the speed.
    pub offered_hz: f64,
    pub tally: Tally,
    pub late: u64,
}

/// Most topics or clients with streams of their own, apart from the slowest, unless all are asked for.
const SHOWN_LINKS: usize = 16;

/// Trial of an offered load; for a recording, without its rates.
pub(super) fn trial(tallied: Tallied, load: OfferedLoad, streams: Streams) -> Trial {
    let Tallied { mut tally, are_calls, publishers, followers, late, refused, mut duration_ns, .. } = tallied;
    let (mut trial, all) = (Trial::new(load), Stream::all());
    trial.cut_short = tallied.cut_short;
    if are_calls {
        tally.put_calls(&mut trial, &all, late.iter().sum(), load != OfferedLoad::Closed);
    } else {
        tally.put_messages(&mut trial, &all);
        trial.put(&all, Figure::Refused, refused as f64);
    }
    if let Some(hz) = load.hz() {
        let kept = tally.kept();
        put_rates(&mut trial, &all, hz, &kept);
        trial.rate_missed = kept.rate_missed;
        if are_calls {
            // The last call lasts until the next would have been due, or longer.
            duration_ns = duration_ns.max(tally.paced_ns());
        }
    }
    if are_calls {
        let succeeded = trial.count(&all, Figure::Received);
        trial.put(&all, Figure::Completed, succeeded as f64 * 1e9 / duration_ns.max(1) as f64);
    }
    trial.put(&all, Figure::Duration, duration_ns as f64);
    for link in 0..tally.audited() {
        // A client's calls follow each other; of topics, the first stands for all.
        let stream = if are_calls { Stream::client(link as u32) } else { all.clone() };
        put_series(&mut trial, &stream, &tally, link, are_calls);
    }
    let shown = if streams == Streams::All { usize::MAX } else { SHOWN_LINKS };
    match tally.links() {
        1 => {}
        // Topics of a recording have names.
        _ if load == OfferedLoad::Recorded => {}
        _ if are_calls => tally.put_links(&mut trial, Stream::client, shown, Some(&late)),
        _ if publishers > 1 => tally.put_links(&mut trial, Stream::publisher, usize::MAX, None),
        _ => tally.put_links(&mut trial, |topic| Stream::topic(&topic.to_string()), shown, None),
    }
    for (follower, tally) in (0..).zip(followers) {
        if let Some(mut tally) = tally {
            tally.put_follower(&mut trial, follower);
        }
    }
    put_costs(&mut trial, Some(tallied.own), tallied.others);
    trial
}

/// Puts the costs of the leader, and of the followers together, as far as they are known.
pub(super) fn put_costs(trial: &mut Trial, own: Option<Used>, others: Option<Used>) {
    for (process, used) in [(Process::Leader, own), (Process::Follower, others)] {
        if let Some(used) = used {
            put_process(trial, process, &used);
        }
    }
}

/// Trial of a recording. Topics are counted one after the other, not in order of time; each has its own audit. Total rates
/// are sums over the topics, and the slowest topic's.
pub(super) fn recorded(all: Tallied, topics: Vec<PlayedTopic>, streams: Streams) -> Trial {
    let are_calls = all.are_calls;
    let mut trial = trial(all, OfferedLoad::Recorded, streams);
    let (mut offered_hz, mut behind) = (0.0, 0);
    let mut over_topics = KeptRate { achieved_hz: 0.0, slowest_hz: f64::INFINITY, rate_missed: false };
    for PlayedTopic { recorded, offered_hz: hz, mut tally, late } in topics {
        let (stream, kept) = (Stream::topic(&recorded.name), tally.kept());
        let bytes =
            [(Statistic::Mean, recorded.mean_sent_bytes()), (Statistic::Max, recorded.largest_sent_bytes() as f64)];
        for (statistic, bytes) in bytes {
            trial.put_statistic(&stream, Figure::MessageBytes, statistic, bytes, None);
        }
        put_rates(&mut trial, &stream, hz, &kept);
        if are_calls {
            tally.put_calls(&mut trial, &stream, late, true);
        } else {
            tally.put_messages(&mut trial, &stream);
        }
        put_series(&mut trial, &stream, &tally, 0, are_calls);
        offered_hz += hz;
        behind += tally.behind;
        over_topics.achieved_hz += kept.achieved_hz;
        over_topics.slowest_hz = over_topics.slowest_hz.min(kept.achieved_hz);
        over_topics.rate_missed |= kept.rate_missed;
        if kept.rate_missed {
            trial.missed.insert(stream);
        }
    }
    put_rates(&mut trial, &Stream::all(), offered_hz, &over_topics);
    trial.put(&Stream::all(), Figure::Behind, behind as f64);
    trial.rate_missed = over_topics.rate_missed;
    trial
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

/// Puts the resource use of a process into a trial.
pub(super) fn put_process(trial: &mut Trial, process: Process, used: &Used) {
    let stream = Stream::process(process);
    used.figures().for_each(|(figure, value)| trial.put(&stream, figure, value));
}

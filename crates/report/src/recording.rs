//! The table of a recording that was played: a row for each of its topics.

use crate::channel;
use crate::interval;
use crate::lines::latency_columns;
use crate::merged::Merged;
use crate::notes::{self, proof};
use crate::throughput::{count, share};
use comfy_table::{CellAlignment, LineStyle, Table, presets};
use std::borrow::Cow;
use tripmeter_model::channel::{ChannelTrial, FollowerTrial, Latency, LatencyBounds, SHOWN_FOLLOWERS, TopicTrial};
use tripmeter_model::manifest::{Cell, Counts, Manifest};
use tripmeter_model::payload::HEADER_BYTES;
use tripmeter_model::recording::{RecordedTopic, Recording};
use tripmeter_model::rpc::{RpcTrial, TopicCalls};
use tripmeter_stats::losses::{Losses, gone, sum};
use tripmeter_stats::median;

const HEADER: [&str; 16] = [
    "transport",
    "wait",
    "touch",
    "topic",
    "messages\n[n]",
    "mean size\n[bytes]",
    "offered\n[/s]",
    "achieved\n[/s]",
    "time",
    "average\n[µs]",
    "p50\n[µs]",
    "p90\n[µs]",
    "p99\n[µs]",
    "max\n[µs]",
    "loss\n[%]",
    "path\nproof",
];
/// Columns that name the row.
const NAMING: usize = 8;

/// What the columns mean.
pub const LEGEND: &str = "\
time: response = from when a message was to be sent, as recorded, until it came; service = from when it was sent; one way,
two readings of one clock. offered, achieved: messages per second from the first of a topic to its last, as recorded times
the speed, and as sent; -: all messages of a topic are of one instant; !: the rate was missed; (all): mean of the topics.
With several followers, response and service end when the last of them has the message; service to i ends at follower i.
The first 16 followers have lines.
loss: messages lost, late or damaged, in per cent of the messages sent. Sizes are as sent. What the processes used is in manifest.json.
below figures: intervals at 95 %, over rounds, or of quantiles within this one run; of the loss from the least to the most of
a round, of one round or without a loss by Clopper and Pearson as if messages were lost one by one.
";

/// What they mean of calls.
pub const CALLS_LEGEND: &str = "\
rtt: of calls, each topic is a client, which makes its next call once it is due and the one before has ended; times are
whole round trips, not halved, to an answer of the same size; loss: calls that timed out (lost) or failed (damaged).
";

/// A transport over which the recording was played.
pub struct Play<'a> {
    sub: &'a Merged<'a>,
    /// One of each round; of calls in the words of messages.
    trials: Vec<Cow<'a, ChannelTrial>>,
}

/// Of each topic in each round, or of all together.
trait Figures {
    fn offered_hz(&self) -> f64;
    fn achieved_hz(&self) -> f64;
    fn rate_missed(&self) -> bool;
    fn counts(&self) -> Counts;
    fn response_ns(&self) -> Option<Latency>;
    fn service_ns(&self) -> Option<Latency>;
    fn response_within_run_ns(&self) -> Option<LatencyBounds>;
    fn service_within_run_ns(&self) -> Option<LatencyBounds>;
}

macro_rules! figures_of {
    ($($type:ty),+) => {
        $(impl Figures for $type {
            fn offered_hz(&self) -> f64 {
                self.offered_hz
            }
            fn achieved_hz(&self) -> f64 {
                self.achieved_hz
            }
            fn rate_missed(&self) -> bool {
                self.rate_missed
            }
            fn counts(&self) -> Counts {
                self.counts
            }
            fn response_ns(&self) -> Option<Latency> {
                self.response_ns
            }
            fn service_ns(&self) -> Option<Latency> {
                self.service_ns
            }
            fn response_within_run_ns(&self) -> Option<LatencyBounds> {
                self.response_within_run_ns
            }
            fn service_within_run_ns(&self) -> Option<LatencyBounds> {
                self.service_within_run_ns
            }
        })+
    };
}
figures_of!(ChannelTrial, TopicTrial);

/// Every transport that has played it.
pub fn plays<'a>(subs: &'a [Merged<'a>]) -> Vec<Play<'a>> {
    let is_of = |sub: &&Merged<'_>| sub.planned.offers().is_some_and(|offers| offers.recorded.is_some());
    let play = |sub: &'a Merged<'a>| {
        let cells = sub.results.iter().flat_map(|result| &result.cells);
        let published = |cell: &'a Cell| cell.channel.first().map(Cow::Borrowed);
        let trial = |cell| published(cell).or_else(|| cell.rpc.first().map(|trial| Cow::Owned(of_calls(trial))));
        Play { sub, trials: cells.filter_map(trial).collect() }
    };
    subs.iter().filter(is_of).map(play).filter(|play| !play.trials.is_empty()).collect()
}

/// Calls as messages: one that timed out is lost, one that failed is damaged, and times are round trips.
fn of_calls(trial: &RpcTrial) -> ChannelTrial {
    let topic = |topic: &TopicCalls| TopicTrial {
        name: topic.name.clone(),
        mean_bytes: topic.mean_bytes,
        largest_bytes: topic.largest_bytes,
        offered_hz: topic.pace.offered_hz,
        achieved_hz: topic.pace.achieved_hz,
        rate_missed: topic.pace.rate_missed,
        behind: topic.pace.behind,
        counts: topic.counts.into(),
        response_ns: topic.response_rtt_ns,
        service_ns: topic.service_rtt_ns,
        lateness_ns: topic.lateness_ns,
        response_within_run_ns: topic.response_rtt_within_run_ns,
        service_within_run_ns: topic.service_rtt_within_run_ns,
        ..TopicTrial::default()
    };
    let pace = trial.pace.unwrap_or_default();
    ChannelTrial {
        offered_hz: pace.offered_hz,
        achieved_hz: pace.achieved_hz,
        slowest_hz: pace.slowest_hz,
        rate_missed: pace.rate_missed,
        behind: pace.behind,
        counts: trial.counts.into(),
        response_ns: trial.response_rtt_ns,
        service_ns: trial.service_rtt_ns,
        lateness_ns: trial.lateness_ns,
        response_within_run_ns: trial.response_rtt_within_run_ns,
        service_within_run_ns: trial.service_rtt_within_run_ns,
        duration_ns: trial.duration_ns,
        cut_short: trial.cut_short.clone(),
        topics: trial.topics.iter().map(topic).collect(),
        ..ChannelTrial::default()
    }
}

/// `Recording drive.mcap, speed 2: 7 messages on 3 topics, 0.033 s as recorded, sha256 0123456789abcdef...`.
pub fn caption(recording: &Recording) -> String {
    let Recording { file, speed, messages, duration_ns, sha256, .. } = recording;
    let (topics, seconds) = (recording.topics.len(), *duration_ns as f64 / 1e9);
    let hash = sha256.get(..16).unwrap_or(sha256);
    format!(
        "Recording {file}, speed {speed}: {messages} messages on {topics} topics, {seconds:.3} s as recorded, sha256 {hash}...\n"
    )
}

/// The table itself.
pub fn table(recording: &Recording, plays: &[Play<'_>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING.header_separator(LineStyle::none().fill('-').junction('-')));
    table.set_header(HEADER);
    for (index, play) in plays.iter().enumerate() {
        if index > 0 {
            table.add_row([""; HEADER.len()]);
        }
        table.add_rows(play.lines(&recording.topics));
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if index + 1 == HEADER.len() { 0 } else { 1 }));
        if (4..HEADER.len() - 1).contains(&index) && index != NAMING {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

impl Play<'_> {
    fn lines(&self, recorded: &[RecordedTopic]) -> Vec<[String; HEADER.len()]> {
        let planned = self.sub.planned;
        let same_process = if self.sub.same_process() { " (same process)" } else { "" };
        let several = channel::to_several(planned);
        let (transport, wait) = (format!("{}{same_process}{several}", planned.transport), planned.wait.to_string());
        let touch = planned.touch.to_string();
        let of = |name: &str, size: f64| {
            let proof = proof(self.sub).to_owned();
            ([transport.clone(), wait.clone(), touch.clone(), name.to_owned()], format!("{size:.0}"), proof)
        };
        let (mut lines, times) = (Vec::new(), self.times());
        let topics = self.trials.iter().map(|trial| trial.topics.len()).max().unwrap_or(0);
        for index in 0..topics {
            let trials: Vec<&TopicTrial> = self.trials.iter().filter_map(|trial| trial.topics.get(index)).collect();
            let Some(first) = trials.first() else { continue };
            let mut pair = pair(of(&first.name, first.mean_bytes), times, &trials, self.sub.rounds);
            // Messages of one instant have no rate, one message neither.
            if recorded.get(index).is_some_and(|topic| topic.first_ns == topic.last_ns) {
                (pair[0][6], pair[0][7]) = ("-".to_owned(), "-".to_owned());
            }
            lines.extend(pair);
        }
        let all: Vec<&ChannelTrial> = self.trials.iter().map(AsRef::as_ref).collect();
        lines.extend(pair(of("(all)", self.mean_bytes()), times, &all, self.sub.rounds));
        let followers = self.trials.first().map_or(0, |trial| trial.followers.len()).min(SHOWN_FOLLOWERS);
        lines.extend((0..followers).map(|follower| {
            let at: Vec<&FollowerTrial> =
                self.trials.iter().filter_map(|trial| trial.followers.get(follower)).collect();
            let mut line =
                line(&format!("service to {follower}"), &at, self.sub.rounds, |one| one.service_ns, |_| None);
            line[HEADER.len() - 2] = share(&at.iter().map(|one| gone(&one.counts)).collect::<Vec<_>>());
            line
        }));
        lines
    }

    /// What its two times are called.
    fn times(&self) -> [&'static str; 2] {
        if self.is_of_calls() { ["response rtt", "service rtt"] } else { ["response", "service"] }
    }

    /// Its messages were answered.
    pub fn is_of_calls(&self) -> bool {
        self.sub.planned.rpc.is_some()
    }

    /// Of all messages of all topics.
    fn mean_bytes(&self) -> f64 {
        let topics = || self.trials.iter().flat_map(|trial| &trial.topics);
        let bytes: f64 = topics().map(|topic| topic.mean_bytes * topic.counts.sent as f64).sum();
        bytes / topics().map(|topic| topic.counts.sent).sum::<u64>().max(1) as f64
    }
}

/// The lines of response and of service, with what names them, the mean size and the path proof.
fn pair<F: Figures>(
    (naming, size, proof): ([String; 4], String, String),
    times: [&str; 2],
    trials: &[&F],
    rounds: u32,
) -> [[String; HEADER.len()]; 2] {
    let each = |figure: fn(&F) -> f64| trials.iter().map(|trial| figure(trial)).collect::<Vec<_>>();
    let losses: Vec<Losses> = trials.iter().map(|trial| gone(&trial.counts())).collect();
    let missed = if trials.iter().any(|trial| trial.rate_missed()) { "!" } else { "" };
    let mut response = line(times[0], trials, rounds, F::response_ns, F::response_within_run_ns);
    response[..4].clone_from_slice(&naming);
    (response[4], response[5]) = (sum(&losses).1.to_string(), size);
    response[6] = count(median(&each(F::offered_hz)).unwrap_or(0.0));
    response[7] = format!("{missed}{}", interval::figure(&each(F::achieved_hz), rounds, None, count));
    response[HEADER.len() - 1] = proof;
    response[HEADER.len() - 2] = share(&losses);
    [response, line(times[1], trials, rounds, F::service_ns, F::service_within_run_ns)]
}

fn line<F>(
    time: &str,
    trials: &[&F],
    rounds: u32,
    latency: fn(&F) -> Option<Latency>,
    within: fn(&F) -> Option<LatencyBounds>,
) -> [String; HEADER.len()] {
    let latencies: Vec<Latency> = trials.iter().filter_map(|trial| latency(trial)).collect();
    let within = trials.first().and_then(|trial| within(trial));
    let [mean, p50, p90, p99, _, max] = latency_columns(&latencies, rounds, within);
    let mut line = [const { String::new() }; HEADER.len()];
    line[NAMING..HEADER.len() - 2].clone_from_slice(&[time.to_owned(), mean, p50, p90, p99, max]);
    line
}

/// Lines for what keeps these figures from being good, and for messages that were made larger.
pub fn notes(plays: &[Play<'_>], manifest: &Manifest) -> Vec<String> {
    let mut lines: Vec<String> = plays.iter().flat_map(Play::notes).collect();
    if let Some(recording) = manifest.plan.recording.as_ref().filter(|_| !plays.is_empty()) {
        lines.extend(padded(recording));
    }
    lines
}

/// `recording: 2 messages are smaller than our header and were sent with 16 bytes: '/switch'`.
fn padded(recording: &Recording) -> Option<String> {
    const NAMED: usize = 5;
    let topics: Vec<&RecordedTopic> = recording.topics.iter().filter(|topic| topic.padded > 0).collect();
    let messages: u64 = topics.iter().map(|topic| topic.padded).sum();
    let mut names: Vec<String> = topics.iter().take(NAMED).map(|topic| format!("'{}'", topic.name)).collect();
    if topics.len() > NAMED {
        names.push(format!("{} more", topics.len() - NAMED));
    }
    (messages > 0).then(|| {
        format!(
            "recording: {messages} messages are smaller than our header and were sent with {HEADER_BYTES} bytes: {}",
            names.join(", ")
        )
    })
}

impl Play<'_> {
    fn notes(&self) -> Vec<String> {
        let (name, mut lines) = (&self.sub.planned.name, Vec::new());
        for trial in &self.trials {
            lines.extend(trial.cut_short.iter().map(|why| format!("* {name}: {why}")));
            let missed: Vec<&TopicTrial> = trial.topics.iter().filter(|topic| topic.rate_missed).collect();
            if let Some(worst) = missed.iter().max_by(|a, b| slowness(a).total_cmp(&slowness(b))) {
                let (count_of, all) = (missed.len(), trial.topics.len());
                let (topic, achieved, offered) = (&worst.name, count(worst.achieved_hz), count(worst.offered_hz));
                lines.push(format!(
                    "! {name}: RATE MISSED on {count_of} of {all} topics, most on '{topic}': {achieved} of {offered} /s"
                ));
            }
            lines.extend(channel::at_followers(name, trial));
            if trial.refused > 0 {
                lines.push(format!("{name}: the transport was full {} times", trial.refused));
            }
            if trial.before_sent > 0 {
                let count = trial.before_sent;
                lines.push(format!("{name}: {count} messages came before they were sent, by the clock: left out"));
            }
            for topic in trial.topics.iter().filter(|topic| notes::odd(&topic.counts) || topic.counts.lost > 0) {
                lines.push(format!("{name}, topic '{}': {}", topic.name, notes::mishaps(&topic.counts)));
            }
        }
        lines
    }
}

/// How many times slower than recorded.
fn slowness(topic: &TopicTrial) -> f64 {
    topic.offered_hz / topic.achieved_hz.max(f64::MIN_POSITIVE)
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::channel::tests::measured;
    use crate::fixture::{self, all};
    use crate::rpc;
    use tripmeter_model::manifest::Manifest;
    use tripmeter_model::pace::Recorded;

    /// Two topics, played over one transport.
    pub fn played() -> Manifest {
        let mut manifest = measured("uds/stream", &[1000.0]);
        let topic = |name: &str, padded| RecordedTopic {
            name: name.to_owned(),
            padded,
            last_ns: 1_000_000,
            ..RecordedTopic::default()
        };
        manifest.plan.recording = Some(Recording {
            file: "drive.mcap".to_owned(),
            file_bytes: 1,
            sha256: "0123456789abcdef0123".to_owned(),
            speed: 2.0,
            start_ns: 0,
            duration_ns: 1_500_000_000,
            messages: 2000,
            silent_topics: 0,
            topics: vec![topic("/imu", 0), topic("/switch", 7)],
            schedule: Default::default(),
        });
        let flow = manifest.plan.sub_experiments[0].channel.as_mut().unwrap();
        flow.topics = 2;
        (flow.offers.rates_hz, flow.offers.recorded) =
            (Vec::new(), Some(Recorded { messages: 2000, duration_ns: 750_000_000 }));
        let trial = &mut manifest.sub_experiments[0].cells[0].channel[0];
        let of = |name: &str, mean_bytes: f64| TopicTrial {
            name: name.to_owned(),
            mean_bytes,
            largest_bytes: 400,
            offered_hz: 400.0,
            achieved_hz: 400.0,
            rate_missed: false,
            behind: 0,
            counts: trial.counts,
            before_sent: 0,
            response_ns: trial.response_ns,
            service_ns: trial.service_ns,
            lateness_ns: trial.lateness_ns,
            response_within_run_ns: None,
            service_within_run_ns: None,
            lateness_within_run_ns: None,
            response_series: None,
            service_series: None,
        };
        trial.topics = vec![of("/imu", 324.0), of("/switch", 16.0)];
        trial.counts = Counts { sent: 2000, received: 2000, ..Counts::default() };
        manifest
    }

    fn squeezed(text: &str) -> Vec<String> {
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn a_row_for_each_topic_and_one_for_all() {
        let text = all(&played());
        let lines = squeezed(&text);
        for line in [
            "Recording drive.mcap, speed 2: 2000 messages on 2 topics, 1.500 s as recorded, sha256 0123456789abcdef...",
            "uds/stream poll none /imu 1000 324 400 400 response 66.000 60.000 90.000 120.000 600.000 0 ok",
            "uds/stream poll none /switch 1000 16 400 400 response 66.000 60.000 90.000 120.000 600.000 0 ok",
            "uds/stream poll none (all) 2000 170 1000 1000 response 66.000 60.000 90.000 120.000 600.000 0 ok",
            "service 11.000 10.000 15.000 20.000 100.000",
            "recording: 7 messages are smaller than our header and were sent with 16 bytes: '/switch'",
        ] {
            assert!(lines.iter().any(|found| found == line), "{line}\n{text}");
        }
        assert!(text.contains(LEGEND) && !text.contains("pattern channel\n"), "{text}");
    }

    #[test]
    fn calls_have_the_same_rows_and_their_times_are_round_trips() {
        use tripmeter_model::rpc::{CallCounts, Mode, Pace};
        let mut manifest = fixture::manifest();
        rpc::tests::add(&mut manifest, "calls", "uds/stream", Mode::FixedFreq, 2);
        let published = played();
        manifest.plan.recording = published.plan.recording;
        let plan = &mut manifest.plan.sub_experiments[0];
        plan.rpc.as_mut().unwrap().offers = published.plan.sub_experiments[0].channel.clone().unwrap().offers;
        let trial = &mut manifest.sub_experiments[0].cells[0].rpc[0];
        let pace = Pace { offered_hz: 400.0, achieved_hz: 400.0, slowest_hz: 400.0, ..Pace::default() };
        let counts = CallCounts { made: 500, succeeded: 498, timed_out: 2, ..CallCounts::default() };
        let of = |name: &str, mean_bytes: f64| TopicCalls {
            name: name.to_owned(),
            mean_bytes,
            largest_bytes: 400,
            pace,
            counts,
            response_rtt_ns: trial.response_rtt_ns,
            service_rtt_ns: trial.service_rtt_ns,
            lateness_ns: None,
            response_rtt_within_run_ns: None,
            service_rtt_within_run_ns: None,
            lateness_within_run_ns: None,
        };
        (trial.topics, trial.pace) = (vec![of("/imu", 324.0), of("/switch", 16.0)], Some(pace));
        let text = all(&manifest);
        let lines = squeezed(&text);
        for line in [
            "uds/stream poll none /imu 500 324 400 400 response rtt 66.000 60.000 90.000 120.000 600.000 0.4 ok",
            "uds/stream poll none (all) 1000 170 400 400 response rtt 66.000 60.000 90.000 120.000 600.000 0 ok",
            "service rtt 11.000 10.000 15.000 20.000 100.000",
            "calls, topic '/switch': 2 lost",
        ] {
            assert!(lines.iter().any(|found| found == line), "{line}\n{text}");
        }
        assert!(text.contains(CALLS_LEGEND) && !text.contains("QPS"), "{text}");
        assert!(!all(&played()).contains(CALLS_LEGEND));
    }

    #[test]
    fn messages_of_one_instant_have_no_rate() {
        let mut manifest = played();
        manifest.plan.recording.as_mut().unwrap().topics[1].last_ns = 0;
        let lines = squeezed(&all(&manifest));
        assert!(lines.iter().any(|line| line.contains("/switch 1000 16 - - response 66.000 ")), "{lines:?}");
    }

    #[test]
    fn what_keeps_figures_from_being_good_is_said_by_topic() {
        let mut manifest = played();
        let trial = &mut manifest.sub_experiments[0].cells[0].channel[0];
        (trial.rate_missed, trial.refused, trial.cut_short) = (true, 3, Some("time cap".to_owned()));
        let topic = &mut trial.topics[1];
        (topic.rate_missed, topic.achieved_hz, topic.counts.lost, topic.counts.received) = (true, 100.0, 2, 998);
        let text = all(&manifest);
        let lines = squeezed(&text);
        for line in [
            "! uds_channel: RATE MISSED on 1 of 2 topics, most on '/switch': 100 of 400 /s",
            "* uds_channel: time cap",
            "uds_channel: the transport was full 3 times",
            "uds_channel, topic '/switch': 2 lost",
        ] {
            assert!(lines.iter().any(|found| found == line), "{line}\n{text}");
        }
        assert!(lines.iter().any(|line| line.contains("/switch 1000 16 400 !100 response") && line.contains(" 0.2 ")));
    }
}

//! The table of a recording that was played: a row for each of its topics.

use crate::channel::{at_followers, odd_streams, refused};
use crate::document::{Cell, Column, Digits, Missing, Note, Severity, Table};
use crate::notes::mishaps;
use crate::number::{count, counted};
use crate::page::measured::MeasuredSide;
use crate::tables::columns;
use crate::tables::description::MadeTable;
use crate::tables::row::{self as table_row, TableRow};
use std::collections::BTreeSet;
use tripmeter_analysis::{MetricTable, Row};
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::metric::Stream;
use tripmeter_model::payload::HEADER_BYTES;
use tripmeter_model::recording::{RecordedTopic, Recording};
use tripmeter_model::trial::SHOWN_FOLLOWERS;

const LATENCIES: [Statistic; 5] = [Statistic::Mean, Statistic::P50, Statistic::P90, Statistic::P99, Statistic::Max];
const TOPIC_HELP: &str = "(all): all of them, rates as their sum; what the processes used is in trials.jsonl";
const RATE_HELP: [&str; 2] = [
    "messages per second from the first of a topic to its last, as recorded times the speed; -: all are of one instant",
    "the same, as sent; !: the rate was missed",
];
const TIME_HELP: &str = "\
response = one way from when a message was to be sent, as recorded, service = from when it was sent; a clock is read at both ends";

const CALLS_HELP: &str = "\
response = from when a message was to be sent, as recorded, service = from when it was sent, one way; rtt: a call, whole round \
trips to an answer of the same size, each topic a client";

/// Every transport that has played it.
fn plays<'a>(side: &'a MeasuredSide<'a>) -> Vec<TableRow<'a>> {
    TableRow::rows(side, |plan| plan.workload.is_recorded())
}

/// `Recording drive.mcap, speed 2: 7 messages on 3 topics, 0.033 s as recorded, sha256 0123456789abcdef...`.
fn caption(recording: &Recording) -> String {
    let Recording { file, speed, messages, duration_ns, sha256, part, .. } = recording;
    let part = if part.is_all() { String::new() } else { format!(", {part}") };
    let (topics, seconds) = (recording.topics.len(), *duration_ns as f64 / 1e9);
    let hash = sha256.get(..16).unwrap_or(sha256);
    format!(
        "Recording {file}{part}, speed {speed}: {} on {}, {seconds:.3} s as recorded, sha256 {hash}...",
        counted(*messages as usize, "message"),
        counted(topics, "topic")
    )
}

/// The table and its notes, if a recording was played.
pub fn make(side: &MeasuredSide<'_>) -> MadeTable {
    match &side.manifest.plan.recording {
        Some(recording) => MadeTable::new(table(recording, side), notes(recording, side)),
        None => MadeTable::new(Table::new(String::new(), Vec::new(), Vec::new()), Vec::new()),
    }
}

/// The table; it has no row if it was not played.
pub fn table(recording: &Recording, side: &MeasuredSide<'_>) -> Table {
    let plays = plays(side);
    let number = |id, title, unit, help| Column::numbers(id, title, unit, Digits::Integer, help).merged();
    let mut columns = table_row::naming_columns(&plays);
    columns.extend([
        Column::words("topic", "topic", TOPIC_HELP).merged(),
        number("messages", "messages", "n", ""),
        number("message_bytes", "mean size", "bytes", "as sent"),
    ]);
    columns.extend(table_row::rate_columns(RATE_HELP));
    let has_calls = plays.iter().any(TableRow::is_of_calls);
    columns.push(Column::words("time", "time", if has_calls { CALLS_HELP } else { TIME_HELP }));
    columns.extend(table_row::latency_columns(&LATENCIES));
    columns.extend([table_row::loss_column(), columns::path_proof_head().merged()]);
    let rows = plays.iter().flat_map(|play| lines(play, &recording.topics));
    Table::new(caption(recording), columns, rows.collect()).grouped_by_sub()
}

/// Two lines for each topic and for all, then service to each of several followers.
fn lines(play: &TableRow<'_>, recorded: &[RecordedTopic]) -> Vec<(Option<Row>, Vec<Cell>)> {
    let line = |naming: &[Cell], time: String, stream: &Stream, figure, loss: Cell| {
        let mut cells = naming.to_vec();
        cells.push(Cell::text(time));
        cells.extend(play.latencies(stream, figure, &LATENCIES));
        cells.extend([loss, play.proof()]);
        (Some(play.row), cells)
    };
    let pair = |naming: &[Cell], stream: &Stream| {
        let not_here = Cell::Missing(Missing::NotOfThisRow);
        let [response, service] = if play.is_of_calls() {
            [("response rtt", Figure::ResponseRtt), ("service rtt", Figure::ServiceRtt)]
        } else {
            [("response", Figure::Response), ("service", Figure::Service)]
        };
        [
            line(naming, response.0.to_owned(), stream, response.1, play.loss(stream)),
            line(naming, service.0.to_owned(), stream, service.1, not_here),
        ]
    };
    let mut lines = Vec::new();
    for topic in recorded {
        let stream = Stream::topic(&topic.name);
        let Some(size) = message_bytes(play, &stream).and_then(|sizes| sizes.first().copied()) else { continue };
        let mut naming = naming(play, &topic.name, &stream, size.0);
        // Messages of one instant have no rate, one message neither.
        if topic.first_ns == topic.last_ns {
            naming.truncate(naming.len() - 2);
            naming.extend([const { Cell::Missing(Missing::NotMeasured) }; 2]);
        }
        lines.extend(pair(&naming, &stream));
    }
    let naming = naming(play, "(all)", &Stream::all(), mean_bytes(play, recorded));
    lines.extend(pair(&naming, &Stream::all()));
    lines.extend(play.followers().iter().take(SHOWN_FOLLOWERS).map(|(index, stream)| {
        line(&naming, format!("service to {index}"), stream, Figure::Service, play.loss(stream))
    }));
    lines
}

/// The columns up to the rate that was achieved.
fn naming(play: &TableRow<'_>, topic: &str, stream: &Stream, mean_bytes: f64) -> Vec<Cell> {
    let get = |figure| play.get(stream, figure, Statistic::Value);
    let folded = |figure| get(figure).map_or(0.0, |rounds| rounds.folded());
    let is_all = *stream == Stream::all();
    let is_missed = play
        .trials()
        .any(|(_, trial)| if *stream == Stream::all() { trial.rate_missed } else { trial.missed.contains(stream) });
    let mut cells = play.naming();
    cells.push(Cell::text(topic));
    let [offered, achieved] = [Figure::OfferedRate, Figure::AchievedRate].map(|figure| match is_all {
        true => Cell::number(total_rate(play.metrics, play.row, figure)),
        false => play.of(get(figure)),
    });
    cells.extend([folded(Figure::Sent), mean_bytes].map(Cell::number));
    cells.extend([offered, achieved.marked(if is_missed { "!" } else { "" })]);
    cells
}

/// A rate of all topics together: that of `all` is their mean in results of older programs.
pub fn total_rate(metrics: &MetricTable, row: Row, figure: Figure) -> f64 {
    let topics = metrics.streams(row, figure).into_iter().filter(|stream| stream.topic.is_some());
    topics.filter_map(|topic| metrics.get(row, topic, figure, Statistic::Value)).map(|rate| rate.folded()).sum()
}

/// Mean size of the messages of a topic, and their number, per round.
fn message_bytes(play: &TableRow<'_>, topic: &Stream) -> Option<Vec<(f64, f64)>> {
    let sizes = play.get(topic, Figure::MessageBytes, Statistic::Mean)?;
    Some(sizes.paired(&play.get(topic, Figure::Sent, Statistic::Value)?))
}

/// Mean size of all messages of all topics.
fn mean_bytes(play: &TableRow<'_>, recorded: &[RecordedTopic]) -> f64 {
    let sizes = recorded.iter().filter_map(|topic| message_bytes(play, &Stream::topic(&topic.name))).flatten();
    let (bytes, messages) = sizes.fold((0.0, 0.0), |sum, (size, sent)| (sum.0 + size * sent, sum.1 + sent));
    bytes / f64::max(messages, 1.0)
}

/// Notes on trials, topics and padded messages.
pub fn notes(recording: &Recording, side: &MeasuredSide<'_>) -> Vec<Note> {
    let plays = plays(side);
    let mut notes: Vec<Note> = plays.iter().flat_map(|play| of_play(play, &recording.topics)).collect();
    let padded = padded(recording).filter(|_| !plays.is_empty());
    notes.extend(padded.map(|text| Note { severity: Severity::Info, kind: "recording", anchor: None, text }));
    notes
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
            "recording: {} smaller than our header and {} sent with {HEADER_BYTES} bytes: {}",
            if messages == 1 { "1 message is".to_owned() } else { format!("{messages} messages are") },
            if messages == 1 { "was" } else { "were" },
            names.join(", ")
        )
    })
}

fn of_play(play: &TableRow<'_>, recorded: &[RecordedTopic]) -> Vec<Note> {
    let (name, mut notes) = (&play.sub.planned.name, Vec::new());
    let topics: Vec<(&str, Stream)> =
        recorded.iter().map(|topic| (topic.name.as_str(), Stream::topic(&topic.name))).collect();
    let odd = at_followers(play, name).into_iter().zip(odd_streams(play, &topics));
    for ((round, trial), (followers, odd_topics)) in play.trials().zip(odd) {
        notes.extend(trial.cut_short.iter().map(|why| play.warning(format!("* {name}: {why}"))));
        notes.extend(missed(play, *round, &trial.missed, &topics).map(|text| play.rate_missed(text)));
        notes.extend(followers);
        notes.extend(refused(play, *round, name));
        let odd =
            |(topic, counts)| play.info(format!("{name}, topic '{topic}': {}", mishaps(&counts, play.is_of_calls())));
        notes.extend(odd_topics.into_iter().map(odd));
    }
    notes
}

/// Number of topics that missed their rate in a round, and the worst of them.
fn missed<'a>(
    play: &TableRow<'_>,
    round: u32,
    missed: &BTreeSet<Stream>,
    topics: &'a [(&str, Stream)],
) -> Option<String> {
    let rates = |topic: &'a (&str, Stream)| {
        let (name, stream) = topic;
        let rate = |figure| play.get(stream, figure, Statistic::Value)?.at(round);
        Some((*name, rate(Figure::OfferedRate)?, rate(Figure::AchievedRate)?, missed.contains(stream)))
    };
    let all: Vec<_> = topics.iter().filter_map(rates).collect();
    let slowness = |topic: &(&str, f64, f64, bool)| topic.1 / topic.2.max(f64::MIN_POSITIVE);
    let late = || all.iter().filter(|topic| topic.3);
    let (topic, offered, achieved, _) = late().max_by(|a, b| slowness(a).total_cmp(&slowness(b)))?;
    let (name, count_of, all) = (&play.sub.planned.name, late().count(), all.len());
    let (achieved, offered) = (count(*achieved), count(*offered));
    Some(format!("! {name}: RATE MISSED on {count_of} of {all} topics, most on '{topic}': {achieved} of {offered} /s"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Block;
    use crate::fixture::{self, all, play, played, put, squeezed, trial_of};
    use crate::render;
    use tripmeter_model::experiment::Mode;
    use tripmeter_model::manifest::Counts;

    #[test]
    fn a_row_for_each_topic_and_one_for_all() {
        let manifest = played();
        let text = all(&manifest);
        let lines = squeezed(&text);
        for line in [
            "Recording drive.mcap, speed 2: 2000 messages on 2 topics, 1.500 s as recorded, sha256 0123456789abcdef...",
            "uds/stream poll none /imu 1000 324 400 400 response 66.000 60.000 90.000 120.000 600.000 0 ok",
            "uds/stream poll none /switch 1000 16 400 400 response 66.000 60.000 90.000 120.000 600.000 0 ok",
            "uds/stream poll none (all) 2000 170 800 800 response 66.000 60.000 90.000 120.000 600.000 0 ok",
            "service 11.000 10.000 15.000 20.000 100.000",
            "recording: 7 messages are smaller than our header and were sent with 16 bytes: '/switch'",
        ] {
            assert!(lines.iter().any(|found| found == line), "{line}\n{text}");
        }
        let all_in_one = lines.join(" ");
        for help in [TOPIC_HELP, RATE_HELP[0], TIME_HELP, "below figures: 95 % intervals"] {
            assert!(all_in_one.contains(help), "{help}\n{text}");
        }
        assert!(!text.contains("pattern channel\n"), "{text}");
        let document = crate::all(&manifest);
        let Some(Block::Table(table)) = document.blocks.first() else { panic!("{document:?}") };
        let csv = render::csv(table);
        let rows: Vec<&str> = csv.lines().collect();
        assert!(
            rows[0].starts_with(
                "transport,wait,touch,topic,messages,message_bytes,offered_rate_hz,achieved_rate_hz,time,mean_ns,"
            ),
            "{csv}"
        );
        assert!(rows[4].starts_with("uds/stream,poll,none,/switch,1000,16,400,400,service,11000,10000,"), "{csv}");
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
        let (trial, topic) = (trial_of(&mut manifest, 0), Stream::topic("/switch"));
        (trial.rate_missed, trial.cut_short) = (true, Some("time cap".to_owned()));
        put(trial, &[(Figure::Refused, 3.0)]);
        for (figure, value) in [(Figure::AchievedRate, 100.0), (Figure::Lost, 2.0), (Figure::Received, 998.0)] {
            trial.put(&topic, figure, value);
        }
        trial.missed.insert(topic);
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

    #[test]
    fn calls_have_the_same_rows_and_their_times_are_round_trips() {
        let mut manifest = fixture::manifest();
        fixture::add_calls(&mut manifest, "calls", "uds/stream", Mode::FixedFreq, 2);
        let published = played();
        manifest.plan.recording = published.plan.recording;
        let plan = &mut manifest.plan.sub_experiments[0];
        plan.workload = plan.workload.clone().playing(published.plan.sub_experiments[0].workload.recorded.unwrap(), 2);
        let trial = trial_of(&mut manifest, 0);
        let counts = Counts { sent: 500, received: 498, lost: 2, ..Counts::default() };
        play(trial, &counts, [Figure::ResponseRtt, Figure::ServiceRtt], true);
        put(trial, &[Figure::OfferedRate, Figure::AchievedRate, Figure::SlowestRate].map(|figure| (figure, 400.0)));
        let text = all(&manifest);
        let lines = squeezed(&text);
        for line in [
            "uds/stream poll none /imu 500 324 400 400 response rtt 66.000 60.000 90.000 120.000 600.000 0.4 ok",
            "uds/stream poll none (all) 1000 170 800 800 response rtt 66.000 60.000 90.000 120.000 600.000 0 ok",
            "service rtt 11.000 10.000 15.000 20.000 100.000",
            "calls, topic '/imu': 2 timed out",
        ] {
            assert!(lines.iter().any(|found| found == line), "{line}\n{text}");
        }
        assert!(!text.contains("pattern rpc\n"), "{text}");
    }
}

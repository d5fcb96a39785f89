//! Table of a recording that was played: a row for each of its topics.

use super::columns;
use super::description::TableOf;
use super::notes::of_recording;
use super::row::TableRow;
use super::topics::lines;
use crate::document::{Cell, Column, Digits, Note, Table};
use crate::measured::MeasuredSide;
use crate::number::counted;
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::recording::Recording;

const LATENCIES: [Statistic; 5] = [Statistic::Mean, Statistic::P50, Statistic::P90, Statistic::P99, Statistic::Max];
const TOPIC_HELP: &str = "(all): all topics together, with the sum of their rates; trials.jsonl has what the processes \
                          used";
const RATE_HELP: &str = "messages per second from a topic's first to its last, as they are due; -: all at one instant";
const ACHIEVED_HELP: &str = "messages per second as sent; !: the rate was missed";
const TIME_HELP: &str = "one-way latency: response = from when a message was due, service = from when it \
                         was sent; a clock is read at both ends";
const CALLS_HELP: &str = "response = from when a message was due, service = from when it was sent; rtt: \
                          whole round trips of calls with an answer of the same size, each topic a client; others: one \
                          way";

/// Notes on the trials and topics of a recording.
pub fn notes(side: &MeasuredSide<'_>) -> Vec<Note> {
    played(side).map_or(Vec::new(), |(recording, plays)| of_recording(recording, &plays))
}

/// Recording, and the rows of the sub-experiments that played it.
fn played<'a>(side: &'a MeasuredSide<'a>) -> Option<(&'a Recording, Vec<TableRow<'a>>)> {
    let plays = TableRow::rows(side, |plan| plan.workload.is_recorded());
    side.manifest.plan.recording.as_ref().filter(|_| !plays.is_empty()).map(|recording| (recording, plays))
}

/// Table of the recording, if one was played.
pub fn table(side: &MeasuredSide<'_>) -> Option<Table> {
    let (recording, plays) = played(side)?;
    let lines: Vec<_> = plays.iter().flat_map(|play| lines(play, &recording.topics)).collect();
    let number = |id, title, unit, help| Column::numbers(id, title, unit, Digits::Integer, help).merged();
    let [offered, achieved] = columns::rates(RATE_HELP, ACHIEVED_HELP);
    let has_calls = lines.iter().any(|line| line.figure == Some(Figure::ResponseRtt));
    let table = TableOf::new(caption(recording), &lines)
        .with(columns::naming(&plays))
        .column(Column::words("topic", "topic", TOPIC_HELP).merged(), |line| Cell::text(line.part.name))
        .column(number("messages", "messages", "n", ""), |line| {
            let sent = line.row.get(&line.part.stream, Figure::Sent, Statistic::Value);
            Cell::number(sent.map_or(0.0, |sent| sent.folded()))
        })
        .column(number("message_bytes", "mean size", "bytes", "as sent"), |line| Cell::number(line.part.mean_bytes))
        .column(offered, |line| line.rate(Figure::OfferedRate))
        .column(achieved, |line| line.rate(Figure::AchievedRate).marked(line.missed()))
        .column(Column::words("time", "time", if has_calls { CALLS_HELP } else { TIME_HELP }), |line| line.name())
        .with(columns::latencies(LATENCIES))
        .with([columns::loss(), columns::path_proof().merged()]);
    Some(table.table().grouped_by_sub())
}

/// Caption: `Recording drive.mcap, speed 2: 7 messages on 3 topics, 0.033 s as recorded, sha256 0123456789abcdef...`,
/// or `Topics with sizes and rates: 7 messages on 3 topics, 0.033 s`.
fn caption(recording: &Recording) -> String {
    let Recording { file, speed, messages, duration_ns, sha256, part, .. } = recording;
    let part = if part.is_all() { String::new() } else { format!(", {part}") };
    let extent = format!(
        "{} on {}, {:.3} s",
        counted(*messages as usize, "message"),
        counted(recording.topics.len(), "topic"),
        *duration_ns as f64 / 1e9
    );
    match recording.has_file() {
        true => {
            let hash = sha256.get(..16).unwrap_or(sha256);
            format!("Recording {file}{part}, speed {speed}: {extent} as recorded, sha256 {hash}...")
        }
        false => format!("Topics with sizes and rates: {extent}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Block;
    use crate::fixture::{self, all, play, played, put, squeezed, trial_of};
    use crate::render;
    use tripmeter_model::experiment::Mode;
    use tripmeter_model::manifest::Counts;
    use tripmeter_model::metric::Stream;

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
            "recording: 7 messages are smaller than our header, and were sent with 16 bytes: '/switch'",
        ] {
            assert!(lines.iter().any(|found| found == line), "{line}\n{text}");
        }
        let all_in_one = lines.join(" ");
        for help in [TOPIC_HELP, RATE_HELP, TIME_HELP, "below figures: 95 % intervals"] {
            assert!(all_in_one.contains(help), "{help}\n{text}");
        }
        assert!(!text.contains("pattern publish\n"), "{text}");
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
    fn topics_without_a_file_name_none() {
        let mut manifest = played();
        let recording = manifest.plan.recording.as_mut().unwrap();
        (recording.file, recording.sha256) = (String::new(), String::new());
        let text = all(&manifest);
        assert!(text.contains("Topics with sizes and rates: 2000 messages on 2 topics, 1.500 s\n"), "{text}");
        assert!(!text.contains("Recording") && !text.contains("sha256"), "{text}");
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
        (trial.rate_missed, trial.cut_short) = (true, Some("time cap".into()));
        put(trial, &[(Figure::Refused, 3.0)]);
        for (figure, value) in [(Figure::AchievedRate, 100.0), (Figure::Lost, 2.0), (Figure::Received, 998.0)] {
            trial.put(&topic, figure, value);
        }
        trial.missed.insert(topic);
        let text = all(&manifest);
        let lines = squeezed(&text);
        for line in [
            "! uds_channel: RATE MISSED on 1 of 2 topics; the worst is '/switch': 100 of 400 /s",
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
        assert!(!text.contains("pattern call\n"), "{text}");
    }
}

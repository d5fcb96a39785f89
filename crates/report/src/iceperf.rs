//! Tables like iceperf's, one for each sub-experiment.

use crate::document::{Block, Cell, Column, Digits, Document, Missing, Note, Severity, Table};
use crate::merged::{Merged, MergedCell, rounds_text};
use crate::notes;
use crate::number::TOO_SMALL;
use crate::number::{cpp, whole_or};
use crate::{run_notes, series};
use tripmeter_analysis::{MetricTable, Row};
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::group::by_key;
use tripmeter_model::manifest::Manifest;
use tripmeter_model::metric::{Interval, Stream};
use tripmeter_model::payload::display_size;
use tripmeter_model::plan::SubExperiment;

/// Digits of a latency.
const DIGITS: u8 = 2;
const MEAN_HELP: &str = "mean of rtt_half, half of a round trip; of several rounds the mean of their means, with the \
                         interval of their median";

/// The tables of iceperf: payload and average latency of each sub-experiment; those added as floor are left out.
///
/// Patterns other than round trips, and those at a rate, are left out, with a note. The latency is the mean of
/// `rtt_half`; with several rounds, the mean of their means. Notes below a table report missing or doubtful figures.
/// Unwrapped text output is what iceperf prints.
///
/// # Source
/// iceoryx 2.0.3, `iceoryx_examples/iceperf/iceperf_leader.cpp`, `doMeasurement`.
pub fn iceperf(manifest: &Manifest) -> Document {
    let (subs, metrics) = (Merged::from_manifest(manifest), MetricTable::from_manifest(manifest));
    let asked = (0..).zip(&subs).filter(|(_, sub)| !sub.planned.added_as_floor && !sub.planned.is_disturbed());
    let (measured, others): (Vec<_>, Vec<_>) =
        asked.partition(|(_, sub)| notes::left_out_of_trips(sub.planned).is_none());
    let mut blocks: Vec<Block> =
        measured.into_iter().flat_map(|(index, sub)| of_sub(manifest, index, sub, &metrics)).collect();
    if blocks.is_empty() {
        let what = if others.is_empty() { "Nothing was measured." } else { "Nothing in this table was measured." };
        blocks.push(Block::Text(what.to_owned()));
    }
    let left_out = others.into_iter().filter_map(|(_, sub)| notes::left_out_of_trips(sub.planned));
    blocks.extend(Block::notes(left_out.map(|text| Note::info(notes::LEFT_OUT, text)).collect()));
    Document { blocks }
}

fn of_sub(manifest: &Manifest, index: u32, sub: &Merged<'_>, metrics: &MetricTable) -> Vec<Block> {
    let columns = vec![
        Column {
            divisor: 1024.0,
            ..Column::numbers("payload_bytes", "Payload Size", "kB", Digits::WholeOr(3), "kB = 1024 bytes")
        },
        Column::numbers("mean_ns", "Average Latency", "µs", Digits::Cpp(DIGITS), MEAN_HELP),
    ];
    let cells = sub.payloads();
    let rows: Vec<(Option<Row>, Vec<Cell>)> = cells
        .iter()
        .map(|cell| {
            let row = metrics.only_row(index, cell.payload_bytes);
            (row, vec![Cell::number(cell.payload_bytes as f64), mean(metrics, row, cell)])
        })
        .collect();
    let title =
        format!("****** {:^18} ********\n\n#### Measurement Result ####\n{}", sub.planned.title, round_trips(sub));
    let medians = (sub.rounds > 1).then(|| medians(&rows));
    let mut blocks = vec![Block::Table(Table::new(title, columns, rows).with_bars())];
    blocks.extend(medians.map(Block::Lines));
    let shared = Vec::from_iter(run_notes::shared_cpus(&manifest.plan, sub.planned));
    blocks.push(Block::Notes([notes(sub, &cells), shared, series::notes_of(index, sub, metrics)].concat()));
    blocks
}

fn mean(metrics: &MetricTable, row: Option<Row>, cell: &MergedCell<'_>) -> Cell {
    let means = row.and_then(|row| metrics.get(row, &Stream::all(), Figure::RttHalf, Statistic::Mean));
    match Cell::mean_over(means).marked(cell.star()) {
        Cell::Missing(_) if !cell.star().is_empty() => Cell::Missing(Missing::NoSamples),
        mean => mean,
    }
}

/// Line with the intervals of all payloads that have a mean.
fn medians(rows: &[(Option<Row>, Vec<Cell>)]) -> String {
    let of_row = |(_, cells): &(_, Vec<Cell>)| {
        let [Cell::Number { value: bytes, .. }, Cell::Number { interval, .. }] = &cells[..] else { return None };
        let ends = interval.filter(|Interval { low, high }| low.is_finite() && high.is_finite());
        let micros = |ns: f64| cpp(ns / 1000.0, DIGITS.into());
        let ends = ends.map_or(TOO_SMALL.to_owned(), |ends| format!("{}..{}", micros(ends.low), micros(ends.high)));
        Some(format!("{}: {ends}", whole_or(bytes / 1024.0, 3)))
    };
    let of_rows: Vec<String> = rows.iter().filter_map(of_row).collect();
    format!("Median over rounds at 95 % [kB: µs]: {}\n", of_rows.join(", "))
}

fn round_trips(sub: &Merged<'_>) -> String {
    let above = sub
        .planned
        .samples_above
        .iter()
        .map(|above| format!(", {} above {}", above.samples, display_size(above.payload_bytes)));
    let trips = format!("{} round trips for each payload{}", sub.planned.samples, above.collect::<String>());
    let state = if sub.unfinished().is_empty() { "" } else { ", INCOMPLETE" };
    match sub.rounds {
        0..=1 => format!("{trips}{state}."),
        rounds => {
            let rounds = rounds_text(rounds, sub.payloads().iter().map(|payload| payload.cells.len()));
            format!("{trips} in each of {rounds}{state}; mean over rounds.")
        }
    }
}

fn notes(sub: &Merged<'_>, cells: &[MergedCell<'_>]) -> Vec<Note> {
    let SubExperiment { transport, wait, touch, workload, .. } = sub.planned;
    let proven = notes::proof(sub);
    let path = format!("Half of a round trip over {transport}, wait {wait}, touch {touch}; path proof: {proven}.");
    let threads = "Leader and follower were threads of one process.".to_owned();
    let followers = workload.followers();
    let to_all = format!(
        "Every message went to {followers} followers; the figures are half of the round trip until the last answer."
    );
    let kinds: [(Severity, &'static str, Vec<String>); 9] = [
        (Severity::Info, "path", if cells.is_empty() { vec![] } else { vec![path] }),
        (Severity::Error, "failed or not run", notes::failed_proof(sub).into_iter().collect()),
        (Severity::Info, "one process", if sub.same_process() { vec![threads] } else { vec![] }),
        (Severity::Info, "several followers", if workload.is_fan_out() { vec![to_all] } else { vec![] }),
        (Severity::Error, "failed or not run", notes::unfinished(sub)),
        (Severity::Warning, "fewer samples than planned", shortfalls(cells)),
        (
            Severity::Warning,
            "lost or out of order",
            cells.iter().filter_map(|cell| notes::mishap_line(sub, cell)).collect(),
        ),
        (Severity::Error, notes::NOTHING_ARRIVED, cells.iter().filter_map(|cell| notes::all_lost(sub, cell)).collect()),
        (Severity::Info, "core-to-core latency changed", notes::core_to_core_of_payloads(sub)),
    ];
    let note = |severity, kind| move |text| Note::new(severity, kind, None, text);
    kinds.into_iter().flat_map(|(severity, kind, lines)| lines.into_iter().map(note(severity, kind))).collect()
}

/// One line for each reason why payloads have fewer samples than planned.
fn shortfalls(cells: &[MergedCell<'_>]) -> Vec<String> {
    let short = cells.iter().filter_map(|cell| {
        let reason = cell.shortfalls().join("; ");
        let count = format!("{} of {} at {}", cell.samples(), cell.samples_planned(), display_size(cell.payload_bytes));
        (!reason.is_empty()).then_some((reason, count))
    });
    let line = |(reason, counts): &(String, Vec<String>)| {
        format!("Fewer round trips than planned: {} ({reason})", counts.join(", "))
    };
    by_key(short).iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, add, put, result, set_trips};
    use crate::render::{Text, csv};
    use tripmeter_model::Pattern;
    use tripmeter_model::experiment::Mode;
    use tripmeter_model::manifest::{Counts, RunStatus, Verdict};

    fn written(manifest: &Manifest) -> String {
        Text { is_unwrapped: true, ..Text::default() }.render(&iceperf(manifest))
    }

    #[test]
    fn tables_look_as_published() {
        let mut manifest = fixture::manifest();
        add(&mut manifest, "mq", "mq/queue", &[1024, 32768, 524_288, 1 << 20]).title = "MESSAGE QUEUE".to_owned();
        add(&mut manifest, "shm", "shm/chunks", &[1024]).added_as_floor = true;
        add(&mut manifest, "iceoryx", "iceoryx/cpp", &[1500]).title = "ICEORYX".to_owned();
        let means = [(1024, 3100.0), (32768, 13_000.0), (524_288, 160_000.0), (1 << 20, 300_000.0)];
        result(&mut manifest, "mq", 1, &means.map(|(payload, mean)| (payload, mean / 1.1)));
        result(&mut manifest, "shm", 1, &[(1024, 200.0)]);
        result(&mut manifest, "iceoryx", 1, &[(1500, 730.0 / 1.1)]);
        let expected = "\
******   MESSAGE QUEUE    ********

#### Measurement Result ####
10000 round trips for each payload.

| Payload Size [kB] | Average Latency [µs] |
|------------------:|---------------------:|
|                 1 |                  3.1 |
|                32 |                   13 |
|               512 |              1.6e+02 |
|              1024 |                3e+02 |

Half of a round trip over mq/queue, wait poll, touch none; path proof: ok.

******      ICEORYX       ********

#### Measurement Result ####
10000 round trips for each payload.

| Payload Size [kB] | Average Latency [µs] |
|------------------:|---------------------:|
|             1.465 |                 0.73 |

Half of a round trip over iceoryx/cpp, wait poll, touch none; path proof: ok.
";
        assert_eq!(written(&manifest), expected);
    }

    #[test]
    fn nothing_measured_is_said() {
        let mut manifest = fixture::manifest();
        assert_eq!(written(&manifest), "Nothing was measured.\n");
        add(&mut manifest, "mq", "mq/queue", &[1024]);
        assert!(written(&manifest).ends_with("--:|\n\nNOT RUN: mq\n"));
    }

    #[test]
    fn rounds_are_averaged() {
        let mut manifest = fixture::manifest();
        manifest.plan.rounds = 2;
        add(&mut manifest, "mq", "mq/queue", &[1024]);
        result(&mut manifest, "mq", 1, &[(1024, 1000.0 / 1.1)]);
        result(&mut manifest, "mq", 2, &[(1024, 4000.0 / 1.1)]);
        let text = written(&manifest);
        assert!(text.contains("10000 round trips for each payload in each of 2 rounds; mean over rounds.\n"), "{text}");
        let end = "|                 1 |                  2.5 |\n\nMedian over rounds at 95 % [kB: µs]: 1: n too small\n\nHalf of ";
        assert!(text.contains(end), "{text}");
        manifest.sub_experiments.pop();
        let text = written(&manifest);
        assert!(text.contains("in each of 1 round (2 planned), INCOMPLETE; mean over rounds.\n"), "{text}");
    }

    #[test]
    fn damage_in_an_attempt_that_was_set_aside_is_marked() {
        let mut manifest = fixture::manifest();
        add(&mut manifest, "udp", "udp/loopback", &[1024]);
        let cell = &mut result(&mut manifest, "udp", 1, &[(1024, 1000.0)]).cells[0];
        let mut earlier = cell.clone();
        put(&mut earlier.trials[0], &[(Figure::Damaged, 1.0)]);
        cell.earlier_attempts.push(earlier);
        assert!(cell.is_damaged() && cell.counts().damaged == 0);
        let text = written(&manifest);
        assert!(text.contains(" *1.1 |"), "{text}");
    }

    #[test]
    fn what_is_missing_or_wrong_is_said_under_the_table() {
        let mut manifest = fixture::manifest();
        add(&mut manifest, "udp", "udp/loopback", &[1024, 2048, 4096]);
        let sub = result(&mut manifest, "udp", 1, &[(1024, 1000.0), (2048, 1000.0)]);
        (sub.status, sub.error) = (RunStatus::Failed, Some("the follower ended".to_owned()));
        sub.same_process = true;
        sub.path_proof.as_mut().unwrap().verdict = Verdict::Failed;
        for cell in &mut sub.cells {
            set_trips(cell, 500);
            cell.cut_short = Some("time cap of 2 s".into());
        }
        put(&mut sub.cells[1].trials[0], &[(Figure::Lost, 2.0)]);
        let counts = Counts { sent: 500, lost: 499, damaged: 1, ..Counts::default() };
        sub.cells[0].trials[0].put_counts(&Stream::all(), &counts, false);
        let expected = "
Half of a round trip over udp/loopback, wait poll, touch none; path proof: FAILED.
PATH PROOF FAILED: udp (udp/loopback): claimed unix-stream, seen: 20000 bytes went over unix-stream; \
its figures do not measure this transport
Leader and follower were threads of one process.
FAILED: udp: the follower ended; no figures for 4k
Fewer round trips than planned: 500 of 10000 at 1k, 500 of 10000 at 2k (time cap of 2 s)
udp at 1k: 499 lost, 1 damaged
udp at 2k: 2 lost
* udp at 1k: no message arrived intact and in time; exit code 75, unless --allow-loss is given
";
        let text = written(&manifest);
        assert!(text.contains("|                 1 |                 *1.1 |\n"), "{text}");
        assert!(text.ends_with(expected), "{text}");
    }

    #[test]
    fn machines_get_bytes_and_nanoseconds() {
        let mut manifest = fixture::manifest();
        add(&mut manifest, "udp", "udp/loopback", &[1500, 2048]);
        set_trips(&mut result(&mut manifest, "udp", 1, &[(1500, 1000.0), (2048, 1000.0)]).cells[1], 0);
        let Block::Table(table) = &iceperf(&manifest).blocks[0] else { panic!() };
        assert_eq!(csv(table), "payload_bytes,mean_ns,mean_ns_mark\n1500,1100,\n2048,,*\n");
        assert!(written(&manifest).contains("|                 2 |                   *- |\n"));
    }

    #[test]
    fn what_is_no_plain_round_trip_is_named_and_has_no_table() {
        let mut manifest = fixture::manifest();
        fixture::add_calls(&mut manifest, "calls", "uds/stream", Mode::Bench, 4);
        fixture::add_calls(&mut manifest, "paced", "uds/stream", Mode::FixedFreq, 1);
        manifest.plan.sub_experiments[1].pattern = Pattern::Ping;
        let notes = "\n\
                     calls: this table leaves out pattern call; the table `all` has it\n\
                     paced: this table leaves out pattern ping at a rate; the table `all` has it\n";
        assert_eq!(written(&manifest), format!("Nothing in this table was measured.\n{notes}"));
        add(&mut manifest, "mq", "mq/queue", &[1024]);
        result(&mut manifest, "mq", 1, &[(1024, 1000.0)]);
        let text = written(&manifest);
        assert!(text.starts_with("****** ") && text.ends_with(notes), "{text}");
        assert_eq!(text.matches("Average Latency").count(), 1, "{text}");
    }
}

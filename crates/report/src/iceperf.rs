//! iceperf's own table, one for each sub-experiment.

use crate::document::Note;
use crate::interval::TOO_SMALL;
use crate::merged::{Merged, MergedCell, mean};
use crate::notes;
use crate::number::{kilobytes, two_digits};
use crate::series;
use tripmeter_analysis::MetricTable;
use tripmeter_model::manifest::Manifest;
use tripmeter_model::payload::display_size;
use tripmeter_model::plan::SubExperiment;
use tripmeter_stats::rounds::figure_over_rounds;

/// The tables of iceperf: payload and average latency of each sub-experiment; those added as floor are left out.
///
/// The latency is the mean of `rtt_half`; of several rounds, the mean of their means. Lines below a table say what is
/// missing from it or wrong with it.
///
/// # Source
/// iceoryx 2.0.3, `iceoryx_examples/iceperf/iceperf_leader.cpp`, `doMeasurement`.
pub fn iceperf(manifest: &Manifest) -> String {
    let subs = Merged::of(manifest);
    let metrics = MetricTable::of(manifest);
    let shown = (0..).zip(&subs).filter(|(_, sub)| !sub.planned.added_as_floor);
    let tables: Vec<_> = shown.map(|(index, sub)| table(sub, series::notes_of(index, sub, &metrics))).collect();
    if tables.is_empty() { "Nothing was measured.\n".to_owned() } else { tables.join("\n") }
}

fn table(sub: &Merged<'_>, series: Vec<Note>) -> String {
    let mut lines = vec![
        format!("****** {:^18} ********", sub.planned.title),
        String::new(),
        "#### Measurement Result ####".to_owned(),
        round_trips(sub),
        String::new(),
        "| Payload Size [kB] | Average Latency [µs] |".to_owned(),
        "|------------------:|---------------------:|".to_owned(),
    ];
    let cells = sub.payloads();
    lines.extend(cells.iter().map(|cell| {
        let latency = mean(&cell.rtt_half(|figures| figures.mean)).map_or("-".to_owned(), |ns| two_digits(ns / 1000.0));
        let latency = format!("{}{latency}", cell.star());
        format!("| {:>17} | {latency:>20} |", kilobytes(cell.payload_bytes))
    }));
    let means = |cell: &MergedCell<'_>| {
        let over = figure_over_rounds(&cell.rtt_half(|figures| figures.mean))?;
        let ends = over.interval.map(|ends| ends.map(|ns| two_digits(ns / 1000.0)));
        let ends = ends.map_or(TOO_SMALL.to_owned(), |[low, high]| format!("{low}..{high}"));
        Some(format!("{}: {ends}", kilobytes(cell.payload_bytes)))
    };
    if sub.rounds > 1 {
        let intervals: Vec<String> = cells.iter().filter_map(means).collect();
        lines.push(String::new());
        lines.push(format!("Median over rounds at 95 % [kB: µs]: {}", intervals.join(", ")));
    }
    lines.push(String::new());
    lines.extend(notes(sub, &cells));
    lines.extend(series.into_iter().map(|note| note.text));
    lines.join("\n") + "\n"
}

fn round_trips(sub: &Merged<'_>) -> String {
    let above = sub
        .planned
        .samples_above
        .iter()
        .map(|above| format!(", {} above {}", above.samples, display_size(above.payload_bytes)));
    let trips = format!("{} round trips for each payload{}", sub.planned.samples, above.collect::<String>());
    match sub.rounds {
        0..=1 => format!("{trips}."),
        rounds => format!("{trips} in each of {rounds} rounds; mean over rounds."),
    }
}

fn notes(sub: &Merged<'_>, cells: &[MergedCell<'_>]) -> Vec<String> {
    let SubExperiment { transport, wait, touch, .. } = sub.planned;
    let proven = notes::proof(sub);
    let mut lines = Vec::new();
    if !cells.is_empty() {
        let path = format!("Half of a round trip over {transport}, wait {wait}, touch {touch}; path proof: {proven}.");
        lines.push(path);
    }
    lines.extend(notes::failed_proof(sub));
    if sub.same_process() {
        lines.push("Leader and follower were threads of one process.".to_owned());
    }
    if sub.planned.is_fan_out() {
        let followers = sub.planned.followers;
        lines.push(format!(
            "Every message went to {followers} followers: half of the round trip until the last answer."
        ));
    }
    lines.extend(notes::unfinished(sub));
    lines.extend(shortfalls(cells));
    let with_mishaps = cells.iter().filter(|cell| !notes::mishaps(&cell.counts()).is_empty());
    lines.extend(with_mishaps.map(|cell| notes::mishap_line(sub, cell)));
    lines.extend(cells.iter().filter_map(|cell| notes::all_lost(sub, cell)));
    lines.extend(notes::handovers(sub));
    lines
}

/// One line for each reason why payloads have fewer samples than planned.
fn shortfalls(cells: &[MergedCell<'_>]) -> Vec<String> {
    let mut by_reason: Vec<(String, Vec<String>)> = Vec::new();
    for cell in cells {
        let reason = cell.shortfalls().join("; ");
        let count = format!("{} of {} at {}", cell.samples(), cell.samples_planned(), display_size(cell.payload_bytes));
        match by_reason.iter_mut().find(|(known, _)| *known == reason) {
            _ if reason.is_empty() => {}
            Some((_, counts)) => counts.push(count),
            None => by_reason.push((reason, vec![count])),
        }
    }
    let line = |(reason, counts): &(String, Vec<String>)| {
        format!("Fewer round trips than planned: {} ({reason})", counts.join(", "))
    };
    by_reason.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, add, result};
    use tripmeter_model::manifest::{Counts, Status, Verdict};

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
        assert_eq!(iceperf(&manifest), expected);
    }

    #[test]
    fn nothing_measured_is_said() {
        let mut manifest = fixture::manifest();
        assert_eq!(iceperf(&manifest), "Nothing was measured.\n");
        add(&mut manifest, "mq", "mq/queue", &[1024]);
        assert!(iceperf(&manifest).ends_with("--:|\n\nNOT RUN: mq\n"));
    }

    #[test]
    fn rounds_are_averaged() {
        let mut manifest = fixture::manifest();
        manifest.plan.rounds = 2;
        add(&mut manifest, "mq", "mq/queue", &[1024]);
        result(&mut manifest, "mq", 1, &[(1024, 1000.0 / 1.1)]);
        result(&mut manifest, "mq", 2, &[(1024, 4000.0 / 1.1)]);
        let text = iceperf(&manifest);
        assert!(text.contains("10000 round trips for each payload in each of 2 rounds; mean over rounds.\n"), "{text}");
        let end = "|                 1 |                  2.5 |\n\nMedian over rounds at 95 % [kB: µs]: 1: n too small\n\nHalf of ";
        assert!(text.contains(end), "{text}");
    }

    #[test]
    fn damage_in_an_attempt_that_was_set_aside_is_marked() {
        let mut manifest = fixture::manifest();
        add(&mut manifest, "udp", "udp/loopback", &[1024]);
        let cell = &mut result(&mut manifest, "udp", 1, &[(1024, 1000.0)]).cells[0];
        let mut earlier = cell.clone();
        earlier.counts.damaged = 1;
        cell.earlier_attempts.push(earlier);
        assert!(cell.is_damaged() && cell.counts.damaged == 0);
        let text = iceperf(&manifest);
        assert!(text.contains(" *1.1 |"), "{text}");
    }

    #[test]
    fn what_is_missing_or_wrong_is_said_under_the_table() {
        let mut manifest = fixture::manifest();
        add(&mut manifest, "udp", "udp/loopback", &[1024, 2048, 4096]);
        let sub = result(&mut manifest, "udp", 1, &[(1024, 1000.0), (2048, 1000.0)]);
        (sub.status, sub.error) = (Status::Failed, Some("the follower ended".to_owned()));
        sub.same_process = true;
        sub.path_proof.as_mut().unwrap().verdict = Verdict::Failed;
        for cell in &mut sub.cells {
            (cell.samples, cell.cut_short) = (500, Some("time cap of 2 s".to_owned()));
        }
        sub.cells[1].counts.lost = 2;
        sub.cells[0].counts = Counts { sent: 500, lost: 499, damaged: 1, ..Counts::default() };
        let expected = "
Half of a round trip over udp/loopback, wait poll, touch none; path proof: FAILED.
PATH PROOF FAILED: udp (udp/loopback): claimed unix-stream, seen: 20000 bytes went over unix-stream; \
its figures are of something else
Leader and follower were threads of one process.
FAILED: udp: the follower ended; no figures for 4k
Fewer round trips than planned: 500 of 10000 at 1k, 500 of 10000 at 2k (time cap of 2 s)
udp at 1k: 499 lost, 1 damaged
udp at 2k: 2 lost
* udp at 1k: nothing came of what was sent; the exit code is 75 then (--allow-loss)
";
        let text = iceperf(&manifest);
        assert!(text.contains("|                 1 |                 *1.1 |\n"), "{text}");
        assert!(text.ends_with(expected), "{text}");
    }
}

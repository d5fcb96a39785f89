//! The tables of calls, pattern `call` and round trips at a rate: whole round trips, and how many succeeded per second.

use super::columns::{self, LATENCIES};
use super::description::TableOf;
use super::row::{TableRow, TimedLine};
use crate::document::{Cell, Column, Digits, Table};
use crate::measured::MeasuredSide;
use tripmeter_analysis::derived::losses;
use tripmeter_model::experiment::Mode;
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::metric::Stream;
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::workload::Workload;

const MODE_HELP: &str = "\
bench = each call is made when the one before has ended; fixed-freq = at a rate; *: cut short, calls failed, or none succeeded";
const RATE_HELP: &str = "calls per second offered to each client";
const BURSTS_HELP: &str = "calls per second offered to each client; n per t: bursts of n, one begun every t; achieved \
                           is their mean rate";
const ACHIEVED_HELP: &str = "calls per second that each client made; !: the rate was missed";
const QPS_HELP: &str = "calls that succeeded, per second, of all clients";
const TIME_HELP: &str = "whole round trips of calls that succeeded: response = from when a call was due, service = \
                         from when it was made";
const ONE_WAY_HELP: &str = "round trips of calls that succeeded: response = from when a call was due, service = from \
                            when it was made; one_way = from then until the server had the request";
const TIMED_OUT_HELP: &str = "calls not answered in time; below, the interval of their share in per cent";
const FAILED_HELP: &str = "calls ended by an error or a damaged answer; below, the interval of their share in per cent";
const COST_HELP: &str =
    "user and system time, in per cent of one core; first line: the clients' process, second line: the server's";

pub fn table(title: String, _: &MeasuredSide<'_>, rows: &[TableRow<'_>]) -> Table {
    let lines: Vec<_> = rows.iter().flat_map(lines).collect();
    let offered = if TableRow::have_bursts(rows) { BURSTS_HELP } else { RATE_HELP };
    let [offered, achieved] = columns::rates(offered, ACHIEVED_HELP);
    let time_help = if rows.iter().any(has_one_way) { ONE_WAY_HELP } else { TIME_HELP };
    let ended = |(how, title, help): (Figure, &str, &'static str)| {
        Column::numbers(how.id(), title, "n", Digits::Events, help).shows(move |line: &TimedLine<'_>| {
            line.if_first(|row| Cell::events(&losses(row.metrics, row.row, &Stream::all(), &[how]), true))
        })
    };
    let table = TableOf::new(title, &lines)
        .with(columns::naming(rows))
        .with([columns::payload().merged()])
        .with([columns::number("clients", "", Workload::links)])
        .column(Column::words("mode", "mode", MODE_HELP).merged(), mode)
        .column(offered, |line| line.row.offered())
        .column(achieved, |line| line.row.achieved())
        .with([columns::rate(Figure::Completed, "QPS", "/s", QPS_HELP).merged()])
        .column(Column::words("time", "time", time_help), |line| line.name())
        .with(columns::latencies(LATENCIES))
        .with([(Figure::TimedOut, "timed out", TIMED_OUT_HELP), (Figure::Failed, "failed", FAILED_HELP)].map(ended))
        .with(columns::cost(COST_HELP))
        .with([columns::path_proof().merged()]);
    table.table().grouped_by_payload()
}

/// A line for each time; the first has the counts of the calls, the first two have the cost of both sides.
fn lines<'a>(row: &TableRow<'a>) -> Vec<TimedLine<'a>> {
    let (is_closed, has_one_way) = (row.load() == OfferedLoad::Closed, has_one_way(row));
    let shown = [
        ("response", Some(Figure::ResponseRtt), !is_closed),
        ("service", Some(Figure::ServiceRtt), true),
        ("one_way", Some(Figure::OneWay), has_one_way),
        // The second line has the cost of the server.
        ("", None, is_closed && !has_one_way),
    ];
    let shown = shown.into_iter().filter(|(_, _, is_shown)| *is_shown);
    row.timed(shown.map(|(name, figure, _)| (name.to_owned(), figure, Stream::all())), ())
}

fn has_one_way(row: &TableRow<'_>) -> bool {
    row.get(&Stream::all(), Figure::OneWay, Statistic::N).is_some()
}

fn mode(line: &TimedLine<'_>) -> Cell {
    let mode = match line.row.load() {
        OfferedLoad::Closed => Mode::Bench.to_string(),
        OfferedLoad::Rate { .. } => Mode::FixedFreq.to_string(),
        OfferedLoad::Burst(_) => "bursts".to_owned(),
        load => load.to_string(),
    };
    Cell::starred(line.row.star(), mode)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Block;
    use crate::fixture::{self, add_calls, all, put, put_times, squeezed, trial_of};
    use crate::render::{csv, json};
    use serde_json::json;
    use tripmeter_model::Pattern;
    use tripmeter_model::manifest::Counts;
    use tripmeter_model::pace::Burst;
    use tripmeter_model::trial::Trial;

    /// Makes `behind` calls late.
    fn miss_rate(trial: &mut Trial, behind: f64) {
        put(trial, &[(Figure::AchievedRate, 800.0), (Figure::SlowestRate, 700.0), (Figure::Behind, behind)]);
        trial.rate_missed = true;
    }

    #[test]
    fn both_modes_and_both_sides_are_shown() {
        let mut manifest = fixture::manifest();
        add_calls(&mut manifest, "bench", "uds/stream", Mode::Bench, 1);
        add_calls(&mut manifest, "fixed", "uds/stream", Mode::FixedFreq, 4);
        let text = all(&manifest);
        let lines = squeezed(&text);
        assert!(text.starts_with("All transports, pattern call\n"), "{text}");
        for line in [
            "uds/stream poll none 1k 1 bench - - 9877 service 11.000 10.000 15.000 20.000 30.000 100.000 0 0 ",
            "uds/stream poll none 1k 4 fixed-freq 1000 1000 9877 response 66.000 60.000 90.000 120.000 180.000 600.000 0 0 ",
            "service 11.000 10.000 15.000 20.000 30.000 100.000 ",
        ] {
            assert!(lines.iter().any(|found| found.starts_with(line)), "{line}\n{text}");
        }
        for help in [MODE_HELP, QPS_HELP, TIME_HELP, TIMED_OUT_HELP, FAILED_HELP, COST_HELP] {
            assert!(text.contains(help), "{help}\n{text}");
        }
        assert!(!text.contains("rtt_half"), "{text}");
    }

    #[test]
    fn one_way_has_a_line_where_it_was_measured() {
        let mut manifest = fixture::manifest();
        add_calls(&mut manifest, "bench", "uds/stream", Mode::Bench, 1);
        add_calls(&mut manifest, "fixed", "uds/stream", Mode::FixedFreq, 4);
        for result in &mut manifest.sub_experiments {
            let trial = &mut result.cells[0].trials[0];
            put_times(trial, &Stream::all(), Figure::OneWay, (1000, 4000.0));
            put(trial, &[(Figure::OneWayMissing, 3.0)]);
        }
        let text = all(&manifest);
        let lines = squeezed(&text);
        let one_way = "one_way 4.400 4.000 6.000 8.000 12.000 40.000";
        // In a closed loop, one-way latency is in the line with the server's cost.
        assert!(lines.iter().any(|line| line.starts_with(&format!("{one_way} "))), "{text}");
        assert!(lines.contains(&one_way.to_owned()) && text.contains(ONE_WAY_HELP), "{text}");
        let missing = "fixed at 1k, 1000 /s: 3 of 1000 calls that succeeded have no one-way latency";
        assert!(lines.contains(&missing.to_owned()), "{text}");
    }

    #[test]
    fn machines_get_every_time_with_its_name_and_figures_in_their_units() {
        let mut manifest = fixture::manifest();
        add_calls(&mut manifest, "bench", "uds/stream", Mode::Bench, 1);
        let document = crate::all(&manifest);
        let Some(Block::Table(table)) = document.blocks.first() else { panic!("{document:?}") };
        let document = json(&document);
        let [service, server] = [0, 1].map(|row| &document["blocks"][0]["table"]["rows"][row]);
        let figures = ["payload_bytes", "completed_rate_hz", "p50_ns", "cpu_share", "peak_memory_bytes"];
        let values = json!([1024.0, 9876.5432, 10e3, 0.031, 12_345_678.0]);
        assert_eq!(json!(figures.map(|id| &service[id])), values);
        assert_eq!((&service["failed"]["events"], &service["failed"]["of"]), (&json!(0), &json!(1000)));
        assert_eq!((&server["mode"], &server["cpu_share"]), (&json!("bench"), &json!(0.012)));
        assert_eq!(server["p50_ns"], json!({ "missing": "not of this row" }));
        let csv = csv(table);
        assert!(
            csv.lines().nth(1).unwrap().starts_with("uds/stream,poll,none,1024,1,bench,,,9876.5432,service,"),
            "{csv}"
        );
    }

    #[test]
    fn round_trips_have_their_intervals_within_a_run_and_over_rounds() {
        let mut manifest = fixture::manifest();
        add_calls(&mut manifest, "bench", "uds/stream", Mode::Bench, 1);
        let near = |statistic| (statistic, 9_900.0, 10_100.0);
        let [p50, p90, p99] = [Statistic::P50, Statistic::P90, Statistic::P99].map(near);
        let within = [p50, p90, p99, (Statistic::P999, 19_000.0, f64::INFINITY)];
        fixture::put_within(trial_of(&mut manifest, 0), Figure::ServiceRtt, &within);
        let text = all(&manifest);
        let below = "9.900..10.100 9.900..10.100 9.900..10.100 n too small 0..0.368 0..0.368";
        assert!(squeezed(&text).contains(&below.to_owned()), "{text}");
        manifest.plan.rounds = 6;
        for round in 2..=6 {
            let mut result = manifest.sub_experiments[0].clone();
            result.round = round;
            put(&mut result.cells[0].trials[0], &[(Figure::Completed, 1000.0 * f64::from(round))]);
            manifest.sub_experiments.push(result);
        }
        let text = all(&manifest);
        assert!(squeezed(&text).iter().any(|line| line.starts_with("2000..9877 11.000..11.000 ")), "{text}");
    }

    #[test]
    fn calls_that_failed_or_were_all_lost_are_marked() {
        for (counts, is_lost) in [
            (Counts { sent: 1000, received: 999, damaged: 1, ..Counts::default() }, false),
            (Counts { sent: 1000, lost: 1000, ..Counts::default() }, true),
        ] {
            let mut manifest = fixture::manifest();
            add_calls(&mut manifest, "bench", "udp/loopback", Mode::Bench, 4);
            trial_of(&mut manifest, 0).put_counts(&Stream::all(), &counts, true);
            let lines = squeezed(&all(&manifest));
            assert!(lines.iter().any(|line| line.contains(" 4 *bench ")), "{lines:?}");
            assert_eq!(
                lines.iter().any(|line| line.starts_with("* bench at 1k: no call succeeded")),
                is_lost,
                "{lines:?}"
            );
        }
    }

    #[test]
    fn a_rate_that_was_missed_and_calls_that_did_not_succeed_are_said() {
        let mut manifest = fixture::manifest();
        add_calls(&mut manifest, "fixed", "udp/loopback", Mode::FixedFreq, 4);
        let trial = trial_of(&mut manifest, 0);
        let counts =
            Counts { sent: 1000, received: 990, lost: 7, damaged: 3, late: 2, duplicated: 1, ..Counts::default() };
        trial.put_counts(&Stream::all(), &counts, true);
        miss_rate(trial, 123.0);
        trial.cut_short = Some("time cap".into());
        let text = all(&manifest);
        let lines = squeezed(&text);
        for line in [
            "! fixed at 1k, 1000 /s: RATE MISSED: the slowest client made 700 calls /s; 123 of 1000 calls were made \
             more than a period late",
            "* fixed at 1k, 1000 /s: time cap",
            "fixed at 1k, 1000 /s: calls 7 timed out, 3 failed, 2 answered late, 1 answered again",
        ] {
            assert!(lines.iter().any(|found| found == line), "{line}\n{text}");
        }
        assert!(
            lines.iter().any(|line| line.contains(" 4 *fixed-freq 1000 !800 ") && line.contains(" 7 3 ")),
            "{text}"
        );
    }

    #[test]
    fn bursts_are_named_where_rates_are() {
        let mut manifest = fixture::manifest();
        add_calls(&mut manifest, "fixed", "uds/stream", Mode::FixedFreq, 4);
        let trial = trial_of(&mut manifest, 0);
        trial.load = OfferedLoad::Burst(Burst { size: 4, gap_ns: 4_000_000 });
        miss_rate(trial, 12.0);
        let text = all(&manifest);
        let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "uds/stream poll none 1k 4 bursts 4 per 4 ms !800 9877 response",
            "! fixed at 1k, 4 per 4 ms: RATE MISSED: the slowest client made 700 calls /s; 12 of 1000 calls were made more \
             than a gap between bursts late",
            BURSTS_HELP,
        ] {
            assert!(one_line.contains(part), "{part}\n{text}");
        }
        trial_of(&mut manifest, 0).load = OfferedLoad::Rate { hz: 1000.0 };
        assert!(!all(&manifest).contains("bursts of n"));
    }

    #[test]
    fn round_trips_at_a_rate_are_messages() {
        let mut manifest = fixture::manifest();
        add_calls(&mut manifest, "paced", "udp/loopback", Mode::FixedFreq, 1);
        manifest.plan.sub_experiments[0].pattern = Pattern::Ping;
        let trial = trial_of(&mut manifest, 0);
        miss_rate(trial, 123.0);
        put(trial, &[(Figure::TimedOut, 10.0), (Figure::Late, 4.0), (Figure::OneWayMissing, 3.0)]);
        let text = all(&manifest);
        for line in [
            "! paced at 1k, 1000 /s: RATE MISSED: 700 messages /s were sent; 123 of 1000 messages were sent more than \
             a period late",
            "paced at 1k, 1000 /s: 3 of 1000 messages that were answered have no one-way latency",
            "paced at 1k, 1000 /s: messages 10 timed out, 4 answered late",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(!text.contains("slowest client"), "{text}");
    }
}

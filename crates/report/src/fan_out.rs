//! The table of messages to several followers: latency to each of them, to the last, and until the last answer.

use crate::document::{Cell, Column, Digits, Missing, Table};
use crate::merged::Merged;
use crate::notes::proof;
use crate::tables::columns;
use crate::trips::{self, has_intervals, name_cells, names, over_cell, over_column};
use tripmeter_analysis::derived::{Each, losses, over_handover};
use tripmeter_analysis::{MetricTable, Row};
use tripmeter_model::Pattern;
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::metric::Stream;
use tripmeter_model::plan::SubExperiment;
use tripmeter_stats::proportion::{Proportion, sum};

const LATENCY_HELP: &str = "one_way: from sending to arrival at a follower, or the last of them; rtt of last: from \
                            sending until the last answer is there";
const LOST_HELP: &str = "messages that this follower never answered; in the line of rtt by all followers, without \
                         an interval";

/// True if a sub-experiment is of this table.
pub fn is_of(sub: &SubExperiment) -> bool {
    sub.pattern == Pattern::PingPong && sub.workload.is_fan_out()
}

/// The table, with a row for each latency; without a row if nothing was measured.
pub fn table(title: String, subs: &[Merged<'_>], metrics: &MetricTable) -> Table {
    let rows = trips::rows(subs, metrics, is_of).into_iter();
    let rows = rows.flat_map(|row| lines(&subs[row.sub as usize], metrics, row).map(move |cells| (Some(row), cells)));
    Table::new(title, columns(), rows.collect()).grouped_by_sub()
}

fn columns() -> Vec<Column> {
    let micros = |id, title| Column::numbers(id, title, "µs", Digits::Fixed(3), "");
    let mut columns = names();
    columns.extend([
        Column::words("latency", "latency", LATENCY_HELP),
        micros("p50_ns", "median"),
        micros("p99_ns", "p99"),
        micros("max_ns", "max"),
        over_column("over_handover_ns"),
        Column::numbers("lost", "lost", "n", Digits::Events, LOST_HELP),
        columns::path_proof_head().merged(),
    ]);
    columns
}

/// A line of the table: whose latency, how many of them a round trip has, and losses.
struct StreamLine {
    what: String,
    stream: Stream,
    figure: Figure,
    factor: f64,
    lost: Cell,
}

fn lines<'a>(sub: &'a Merged<'a>, metrics: &'a MetricTable, row: Row) -> impl Iterator<Item = Vec<Cell>> + use<'a> {
    let has_intervals = has_intervals(metrics, row, sub.rounds);
    let lost = move |stream: &Stream| losses(metrics, row, stream, &[Figure::Lost]);
    let each = (0..sub.planned.workload.followers()).map(move |follower| {
        let stream = Stream::follower(follower);
        let lost = Cell::events(&lost(&stream), has_intervals);
        StreamLine { what: format!("one_way to {follower}"), stream, figure: Figure::OneWay, factor: 1.0, lost }
    });
    let last = StreamLine {
        what: "one_way to last".to_owned(),
        stream: Stream::last(),
        figure: Figure::OneWay,
        factor: 1.0,
        lost: Cell::Missing(Missing::NotOfThisRow),
    };
    let Proportion { events, of } = sum(&lost(&Stream::all()));
    let whole = StreamLine {
        what: "rtt of last".to_owned(),
        stream: Stream::all(),
        figure: Figure::RttHalf,
        factor: 2.0,
        lost: Cell::Share { events, of, interval: None },
    };
    each.chain([last, whole]).map(move |line| line.cells(sub, metrics, row))
}

impl StreamLine {
    fn cells(self, sub: &Merged<'_>, metrics: &MetricTable, row: Row) -> Vec<Cell> {
        let planned = sub.rounds;
        let get = |statistic| Each::of(metrics.get(row, &self.stream, self.figure, statistic)).scaled(self.factor);
        let over = over_handover(metrics, row, &self.stream, self.figure, 1.0).scaled(self.factor);
        let same_process = if sub.same_process() { " (same process)" } else { "" };
        let mut cells = name_cells(format!("{}{same_process}", sub.planned.transport_text()), sub, metrics, row);
        cells.extend([
            Cell::text(self.what.clone()),
            Cell::of_each(&get(Statistic::P50), planned),
            Cell::of_each(&get(Statistic::P99), planned),
            Cell::largest(&get(Statistic::Max)),
            over_cell(&over, planned, &sub.payload(row.payload_bytes)),
            self.lost.clone(),
            Cell::text(proof(sub)),
        ]);
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::all::INTERVALS;
    use crate::fixture::{self, add, put_times, result};
    use crate::notes::PROOF_HELP;
    use crate::render::json;
    use serde_json::json;
    use tripmeter_model::Wait;
    use tripmeter_model::manifest::Counts;

    #[test]
    fn each_follower_has_a_line_and_so_have_the_last_and_the_round_trip() {
        let mut manifest = fixture::manifest();
        let sub = add(&mut manifest, "shm", "shm/ring", &[1024]);
        (sub.workload.topology.followers, sub.follower_cpus, sub.wait) = (2, vec![1, 1], Wait::Block);
        let trial = &mut result(&mut manifest, "shm", 1, &[(1024, 500.0)]).cells[0].trials[0];
        for (follower, lost) in [(0, 0), (1, 2)] {
            let counts = Counts { sent: 11_000, received: 11_000 - lost, lost, ..Counts::default() };
            trial.put_counts(&Stream::follower(follower), &counts, false);
        }
        put_times(trial, &Stream::follower(0), Figure::OneWay, (10_000, 400.0));
        put_times(trial, &Stream::last(), Figure::OneWay, (10_000, 600.0));
        fixture::put(trial, &[(Figure::Lost, 2.0)]);
        let expected = "\
All transports, pattern pingpong, several followers

transport wait  touch payload     n latency         median   p99    max     over         lost path
                      [bytes]                         [µs]  [µs]   [µs] handover          [n] proof
                                                                            [µs]
---------------------------------------------------------------------------------------------------
shm/ring  block none       1k 10000 one_way to 0     0.400 0.800  4.000        -            0 ok
                                    one_way to 1         -     -      -        -            2
                                                                                 0.002..0.066
                                    one_way to last  0.600 1.200  6.000        -
                                    rtt of last      1.000 2.000 10.000        -            2

shm: its 2 followers share CPU 1: they take turns, and their latencies show it

";
        let text = fixture::all(&manifest);
        let (table, help) = text.split_once("\nwait: ").unwrap();
        let (_, notes) = help.split_once("\n\n").unwrap();
        assert_eq!(format!("{table}\n{notes}"), format!("{expected}{INTERVALS}\n"));
        for help in [LATENCY_HELP, LOST_HELP, PROOF_HELP] {
            assert!(text.contains(help), "{text}");
        }
        let rows = &json(&crate::all(&manifest))["blocks"][0]["table"]["rows"];
        let names = json!(["shm/ring", 1024.0, 10_000.0, "one_way to last", { "missing": "not of this row" }]);
        assert_eq!(json!(["transport", "payload_bytes", "n", "latency", "lost"].map(|id| &rows[2][id])), names);
        assert_eq!((&rows[3]["p50_ns"], &rows[3]["lost"]["events"]), (&json!(1000.0), &json!(2)));
    }
}

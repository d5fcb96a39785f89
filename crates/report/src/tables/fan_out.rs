//! Table of messages to several followers: latency to each of them, to the last, and until the last answer.

use super::columns::{self, TRIP_CHARS};
use super::description::TableOf;
use super::row::{TableRow, TimedLine};
use crate::document::{Cell, Column, Digits, Table};
use crate::measured::MeasuredSide;
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::metric::{At, Stream};

const LATENCY_HELP: &str = "one_way: from sending to arrival at a follower, or at the last; rtt of last: from sending \
                            to the last answer";
const LOST_HELP: &str =
    "messages that this follower never answered; in the line of rtt: over all followers, without an interval";

pub fn table(title: String, _: &MeasuredSide<'_>, rows: &[TableRow<'_>]) -> Table {
    let lines: Vec<_> = rows.iter().flat_map(lines).collect();
    let micros = |(title, statistic): (&str, Statistic)| {
        let head = Column::numbers(&format!("{statistic}_ns"), title, "µs", Digits::Fixed(3), "");
        head.shows(move |line: &TimedLine<'_>| {
            let (figure, times) = latency(line);
            line.row.latency(&line.stream, figure, statistic, times)
        })
    };
    let table = TableOf::new(title, &lines)
        .column(Column::words("transport", "transport", "").at_most(TRIP_CHARS).merged(), |line| {
            let same_process = if line.row.sub.same_process() { " (same process)" } else { "" };
            Cell::text(line.row.sub.planned.transport_text() + same_process)
        })
        .with(columns::trips())
        .column(Column::words("latency", "latency", LATENCY_HELP), |line| line.name())
        .with([("median", Statistic::P50), ("p99", Statistic::P99), ("max", Statistic::Max)].map(micros))
        .column(columns::over_core_to_core("over_core_to_core_ns"), |line| {
            let (figure, times) = latency(line);
            line.row.over_core_to_core(&line.stream, figure, times)
        })
        .column(Column::numbers("lost", "lost", "n", Digits::Events, LOST_HELP), lost)
        .with(columns::costs_of_both(columns::COST_HELP))
        .with([columns::path_proof().merged()]);
    table.table().grouped_by_sub()
}

fn lines<'a>(row: &TableRow<'a>) -> Vec<TimedLine<'a>> {
    let to = |what: String, stream| (what, Some(Figure::OneWay), stream);
    let each = (0..row.sub.planned.workload.followers())
        .map(|follower| to(format!("one_way to {follower}"), Stream::follower(follower)));
    let last = to("one_way to last".to_owned(), Stream::last());
    row.timed(each.chain([last, ("rtt of last".to_owned(), Some(Figure::RttHalf), Stream::all())]), ())
}

/// Figure of a line, and its factor: a round trip is twice `rtt_half`.
fn latency(line: &TimedLine<'_>) -> (Figure, f64) {
    if line.stream == Stream::all() { (Figure::RttHalf, 2.0) } else { (Figure::OneWay, 1.0) }
}

fn lost(line: &TimedLine<'_>) -> Cell {
    match (line.stream.at, line.row.lost(&line.stream)) {
        (Some(At::Last), _) => Cell::NOTHING,
        (None, Cell::Share { events, of, .. }) => Cell::Share { events, of, interval: None },
        (_, lost) => lost,
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
All transports, pattern ping, several followers

transport wait  touch payload     n latency         median   p99    max  over         lost path
                      [bytes]                         [µs]  [µs]   [µs] cores          [n] proof
                                                                         [µs]
------------------------------------------------------------------------------------------------
shm/ring  block none       1k 10000 one_way to 0     0.400 0.800  4.000     -            0 ok
                                    one_way to 1         -     -      -     -            2
                                                                              0.002..0.066
                                    one_way to last  0.600 1.200  6.000     -
                                    rtt of last      1.000 2.000 10.000     -            2

shm: its 2 followers share CPU 1, which adds to their latency

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

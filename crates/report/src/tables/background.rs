//! Latency under a background load next to latency without it.

use super::columns;
use super::description::TableOf;
use super::row::{TableRow, TimedLine};
use crate::document::{Cell, Column, Digits, Table};
use crate::floors::{at_rest, headline};
use crate::measured::MeasuredSide;
use tripmeter_analysis::{Rounds, Row, derived};
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::metric::Stream;

/// Width beyond which labels are broken.
const LABEL_COLUMNS: usize = 26;
const REST_HELP: &str = "of the same transport, wait, touch, payload and offered load";
const RATIO_HELP: &str = "under load / at rest: the median over rounds that have both, with its interval over them";
const CPU_HELP: &str = "CPU seconds per second that all threads of the load used meanwhile";

const MOVED: [(Figure, &str, &str, &str); 2] = [
    (Figure::LoadMemory, "load_memory_bytes_per_s", "copied", "bytes that the load copied in memory"),
    (Figure::LoadNetwork, "load_network_bytes_per_s", "sent", "bytes that the load sent over loopback"),
];

/// Statistic of a row under load; the part has the row without load, and the statistic.
type LoadedLine<'a> = TimedLine<'a, (Row, Statistic)>;

fn rounds<'l>(line: &'l LoadedLine<'_>, row: Row) -> Option<Rounds<'l>> {
    line.row.metrics.get(row, &line.stream, line.figure?, line.part.1)
}

/// Figure of the load, only in the row of the median; missing if that load was not requested.
fn of_load(line: &LoadedLine<'_>, figure: Figure) -> Cell {
    let got = line.row.value(figure).filter(|_| line.part.1 == Statistic::P50);
    got.map_or(Cell::NOTHING, |rounds| Cell::number(rounds.folded()))
}

/// Table of everything measured both under a load and without it, by proven paths; `None` if there is nothing.
pub fn table(side: &MeasuredSide<'_>) -> Option<Table> {
    let lines: Vec<_> = side.metrics.all_rows().flat_map(|row| lines(side, row)).collect();
    let micros = |id, title, help| Column::numbers(id, title, "µs", Digits::Significant(3), help);
    let gigabytes = |(figure, id, title, help): (Figure, &str, &str, &'static str)| {
        let head = Column { divisor: 1e9, ..Column::numbers(id, title, "GB/s", Digits::Significant(3), help).if_any() };
        head.shows(move |line: &LoadedLine<'_>| of_load(line, figure))
    };
    let ratio = Column::numbers("ratio", "ratio", "", Digits::Significant(3), RATIO_HELP);
    let what = "what a process of ours did beside the measurement";
    let table = TableOf::new("background load and rest".to_owned(), &lines)
        .column(Column::words("transport", "latency", "").at_most(LABEL_COLUMNS).merged(), label)
        .column(Column::words("background", "beside", what).merged(), |line| {
            Cell::text(line.row.sub.planned.background.to_string())
        })
        .with([columns::payload().merged()])
        .column(Column::words("statistic", "", ""), |line| Cell::text(line.part.1.id()))
        .column(micros("at_rest_ns", "at rest", REST_HELP), |line| Cell::from_rounds(rounds(line, line.part.0)))
        .column(micros("under_load_ns", "under load", ""), |line| Cell::from_rounds(rounds(line, line.row.row)))
        .column(Column { is_ratio: true, has_intervals: true, ..ratio }, |line| {
            let both = rounds(line, line.row.row).zip(rounds(line, line.part.0));
            Cell::over_rounds(&both.map(|(loaded, rest)| derived::ratio(&loaded, &rest)).unwrap_or_default())
        })
        .column(Column::numbers("load_cpu_share", "CPUs", "n", Digits::Fixed(2), CPU_HELP), |line| {
            of_load(line, Figure::LoadCpu)
        })
        .with(MOVED.map(gigabytes));
    (!lines.is_empty()).then(|| table.table())
}

fn lines<'a>(side: &'a MeasuredSide<'a>, row: Row) -> Vec<LoadedLine<'a>> {
    let Some((figure, rest)) = headline(side, row).zip(at_rest(side, row)) else { return Vec::new() };
    let line =
        |statistic| TableRow::new(side, row).timed([(String::new(), Some(figure), Stream::all())], (rest, statistic));
    [Statistic::P50, Statistic::P99].map(line).into_iter().flatten().collect()
}

fn label(line: &LoadedLine<'_>) -> Cell {
    let planned = line.row.sub.planned;
    let sched = if planned.sched.is_other() { String::new() } else { format!(", {}", planned.sched) };
    Cell::text(format!("{}, {}{sched}", planned.transport, planned.wait))
}

#[cfg(test)]
mod tests {
    use crate::fixture::{self, add, all, result};
    use tripmeter_model::figure::Figure;

    #[test]
    fn what_was_measured_under_load_stands_beside_the_same_at_rest() {
        let mut manifest = fixture::manifest();
        for (name, transport) in [("uds", "uds/stream"), ("uds_load", "uds/stream"), ("tcp", "tcp/loopback")] {
            add(&mut manifest, name, transport, &[1024]);
        }
        manifest.plan.sub_experiments[1].background = "cpu:1,memory".parse().unwrap();
        manifest.plan.sub_experiments[2].background = "cpu:1".parse().unwrap();
        for (name, rtt) in [("uds", 1000.0), ("uds_load", 4000.0), ("tcp", 2000.0)] {
            let cell = &mut result(&mut manifest, name, 1, &[(1024, rtt)]).cells[0];
            if name == "uds_load" {
                fixture::put(&mut cell.trials[0], &[(Figure::LoadCpu, 1.27), (Figure::LoadMemory, 2.5e9)]);
            }
        }
        let text = all(&manifest);
        let rows: Vec<Vec<&str>> = text
            .lines()
            .skip_while(|line| !line.starts_with("uds/stream, "))
            .take(2)
            .map(|line| line.split_whitespace().collect())
            .collect();
        let [p50, p99] = &rows[..] else { panic!("{text}") };
        assert_eq!(p50[2..], ["cpu:1,memory", "1k", "p50", "1.00", "4.00", "4.00", "1.27", "2.50"], "{text}");
        assert_eq!(p99[0], "p99", "{text}");
        assert_eq!(text.matches("tcp/loopback, ").count(), 0, "it was not measured at rest\n{text}");
    }
}

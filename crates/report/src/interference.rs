//! Latency under a load of our own beside latency at rest.

use crate::columns;
use crate::document::{Block, Cell, Column, Digits, Table};
use crate::merged::Merged;
use tripmeter_analysis::{MetricTable, Row, derived};
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::metric::Stream;
use tripmeter_model::plan::SubExperiment;

/// Columns of a line on the first screen.
const COLUMNS: u16 = 80;
/// Labels longer than this are broken.
const LABEL_COLUMNS: usize = 26;
const RATIO_HELP: &str = "under load / at rest: the median over rounds that have both, with its interval over them";
const CPU_HELP: &str = "CPU seconds per second that all threads of the load got meanwhile";

/// A table of everything that was measured under a load and without; `None` if nothing was.
pub fn table(subs: &[Merged<'_>], metrics: &MetricTable) -> Option<Block> {
    let pairs: Vec<(Row, Row)> = metrics.all_rows().filter_map(|row| Some((row, at_rest(row, subs, metrics)?))).collect();
    let mut columns = vec![
        Column::words("transport", "under load", "").at_most(LABEL_COLUMNS).merged(),
        Column::words("load", "load", "what a process of ours did beside the measurement").merged(),
        columns::payload().merged(),
    ];
    let amount = |id, title, unit, help| Column::numbers(id, title, unit, Digits::Significant(3), help).if_any();
    for statistic in [Statistic::P50, Statistic::P99] {
        let micros = |what: &str, title: &str, help| {
            Column::numbers(&format!("{statistic}_{what}_ns"), title, "µs", Digits::Significant(3), help)
                .grouped(statistic.id())
        };
        columns.extend([
            micros("at_rest", "at rest", "of the same transport, wait, touch, payload and offered load"),
            micros("under_load", "under load", ""),
        ]);
        let ratio =
            Column::numbers(&format!("{statistic}_ratio"), "ratio", "", Digits::Significant(3), RATIO_HELP);
        columns.push(Column { is_ratio: true, has_intervals: true, ..ratio.grouped(statistic.id()) });
    }
    columns.extend([
        Column::numbers("load_cpu_share", "CPUs\ngot", "n", Digits::Fixed(2), CPU_HELP),
        amount("load_memory_bytes_per_s", "copied", "GB/s", "bytes that the load copied in memory"),
        amount("load_network_bytes_per_s", "sent", "GB/s", "bytes that the load sent over loopback"),
    ]);
    let cells = |(loaded, rest): &(Row, Row)| {
        let planned = subs[loaded.sub as usize].planned;
        let mut cells = vec![
            Cell::text(label(planned)),
            Cell::text(planned.load.to_string()),
            Cell::number(loaded.payload_bytes as f64),
        ];
        let figure = latency(*loaded, metrics);
        for statistic in [Statistic::P50, Statistic::P99] {
            let of = |row: Row| metrics.get(row, &Stream::all(), figure?, statistic);
            let ratio = of(*loaded).zip(of(*rest)).map(|(loaded, rest)| derived::ratio(&loaded, &rest));
            cells.extend([Cell::of(of(*rest)), Cell::of(of(*loaded)), Cell::over_rounds(&ratio.unwrap_or_default())]);
        }
        let got = |figure| metrics.get(*loaded, &Stream::all(), figure, Statistic::Value);
        cells.push(Cell::maybe(got(Figure::LoadCpu).map(|rounds| rounds.folded())));
        for figure in [Figure::LoadMemory, Figure::LoadNetwork] {
            // 0 stands for what was not asked for: such a column is left out.
            cells.push(Cell::number(got(figure).map_or(0.0, |rounds| rounds.folded() / 1e9)));
        }
        (Some(*loaded), cells)
    };
    let rows: Vec<_> = pairs.iter().map(cells).collect();
    let title = "latency under load beside latency at rest".to_owned();
    (!rows.is_empty()).then(|| Block::Table(Table::new(title, columns, rows).within(COLUMNS)))
}

fn label(planned: &SubExperiment) -> String {
    let sched = if planned.sched.is_other() { String::new() } else { format!(", {}", planned.sched) };
    format!("{}, {}{sched}", planned.transport, planned.wait)
}

/// The latency that stands for all messages of a row.
fn latency(row: Row, metrics: &MetricTable) -> Option<Figure> {
    let has = |figure: &&Figure| metrics.get(row, &Stream::all(), **figure, Statistic::P50).is_some();
    Figure::HEADLINES.iter().find(has).copied()
}

/// The row of the same without a load.
fn at_rest(row: Row, subs: &[Merged<'_>], metrics: &MetricTable) -> Option<Row> {
    let own = subs[row.sub as usize].planned;
    latency(row, metrics).filter(|_| !own.load.is_none())?;
    let is_like = |other: &SubExperiment| {
        let parts = |sub: &SubExperiment| (sub.pattern, sub.wait, sub.touch, sub.sched, sub.one_way);
        let is_same = other.transport == own.transport && other.workload == own.workload;
        other.load.is_none() && is_same && parts(other) == parts(own) && !other.is_disturbed()
    };
    let rests = (0..).zip(subs).filter(|(_, sub)| is_like(sub.planned)).map(|(sub, _)| Row { sub, ..row });
    rests.into_iter().find(|rest| latency(*rest, metrics).is_some())
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
        manifest.plan.sub_experiments[1].load = "cpu:1,memory".parse().unwrap();
        manifest.plan.sub_experiments[2].load = "cpu:1".parse().unwrap();
        for (name, rtt) in [("uds", 1000.0), ("uds_load", 4000.0), ("tcp", 2000.0)] {
            let cell = &mut result(&mut manifest, name, 1, &[(1024, rtt)]).cells[0];
            if name == "uds_load" {
                fixture::put(&mut cell.trials[0], &[(Figure::LoadCpu, 1.27), (Figure::LoadMemory, 2.5e9)]);
            }
        }
        let text = all(&manifest);
        let row = text.lines().find(|line| line.starts_with("uds/stream, ") && line.contains("cpu:1,memory"));
        let row = row.unwrap_or_else(|| panic!("{text}"));
        let numbers: Vec<&str> = row.split_whitespace().skip(2).collect();
        assert_eq!(numbers[..5], ["cpu:1,memory", "1k", "0.500", "2.00", "4.00"], "{row}");
        assert!(row.contains(" 1.27 ") && row.trim_end().ends_with("2.50"), "{row}");
        assert_eq!(text.matches("tcp/loopback, ").count(), 0, "it was not measured at rest\n{text}");
    }
}

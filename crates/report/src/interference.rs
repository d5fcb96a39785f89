//! Latency under a load of our own beside latency at rest.

use crate::document::{Cell, Column, Digits, Missing, Table};
use crate::merged::Merged;
use crate::tables::columns;
use tripmeter_analysis::{MetricTable, Row, derived};
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::metric::Stream;
use tripmeter_model::plan::SubExperiment;

/// Labels longer than this are broken.
const LABEL_COLUMNS: usize = 26;
const RATIO_HELP: &str = "under load / at rest: the median over rounds that have both, with its interval over them";
const CPU_HELP: &str = "CPU seconds per second that all threads of the load got meanwhile";

/// A table of everything that was measured under a load and without, by paths that were proven.
pub fn table(subs: &[Merged<'_>], metrics: &MetricTable) -> Table {
    let pairs: Vec<(Row, Row)> =
        metrics.all_rows().filter_map(|row| Some((row, at_rest(row, subs, metrics)?))).collect();
    let micros = |id, title, help| Column::numbers(id, title, "µs", Digits::Significant(3), help);
    let gigabytes = |id, title, help| Column {
        divisor: 1e9,
        ..Column::numbers(id, title, "GB/s", Digits::Significant(3), help).if_any()
    };
    let ratio = Column::numbers("ratio", "ratio", "", Digits::Significant(3), RATIO_HELP);
    let columns = vec![
        Column::words("transport", "latency under load", "").at_most(LABEL_COLUMNS).merged(),
        Column::words("load", "load", "what a process of ours did beside the measurement").merged(),
        columns::payload_head().merged(),
        Column::words("statistic", "", ""),
        micros("at_rest_ns", "at rest", "of the same transport, wait, touch, payload and offered load"),
        micros("under_load_ns", "under load", ""),
        Column { is_ratio: true, has_intervals: true, ..ratio },
        Column::numbers("load_cpu_share", "CPUs", "n", Digits::Fixed(2), CPU_HELP),
        gigabytes("load_memory_bytes_per_s", "copied", "bytes that the load copied in memory"),
        gigabytes("load_network_bytes_per_s", "sent", "bytes that the load sent over loopback"),
    ];
    let cells = |(loaded, rest, statistic): (Row, Row, Statistic)| {
        let (planned, figure) = (subs[loaded.sub as usize].planned, latency(loaded, metrics));
        let of = |row: Row| metrics.get(row, &Stream::all(), figure?, statistic);
        let ratio = of(loaded).zip(of(rest)).map(|(loaded, rest)| derived::ratio(&loaded, &rest));
        let mut cells = vec![
            Cell::text(label(planned)),
            Cell::text(planned.load.to_string()),
            columns::payload_cell(metrics, loaded),
            Cell::text(statistic.id()),
            Cell::of(of(rest)),
            Cell::of(of(loaded)),
            Cell::over_rounds(&ratio.unwrap_or_default()),
        ];
        for figure in [Figure::LoadCpu, Figure::LoadMemory, Figure::LoadNetwork] {
            let got = metrics.get(loaded, &Stream::all(), figure, Statistic::Value);
            // Once for all statistics; a load that was not asked for has no figure.
            let got = got.filter(|_| statistic == Statistic::P50).map(|rounds| Cell::number(rounds.folded()));
            cells.push(got.unwrap_or(Cell::Missing(Missing::NotOfThisRow)));
        }
        (Some(loaded), cells)
    };
    let statistics = [Statistic::P50, Statistic::P99];
    let all = pairs.into_iter().flat_map(|(loaded, rest)| statistics.map(|statistic| (loaded, rest, statistic)));
    Table::new("load and rest".to_owned(), columns, all.map(cells).collect())
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
    latency(row, metrics).filter(|_| !own.load.is_none() && subs[row.sub as usize].disqualified().is_none())?;
    let is_like = |other: &SubExperiment| {
        let parts = |sub: &SubExperiment| (sub.pattern, sub.wait, sub.touch, sub.sched, sub.one_way);
        let is_same = other.transport == own.transport && other.workload == own.workload;
        other.load.is_none() && is_same && parts(other) == parts(own) && !other.is_disturbed()
    };
    let rests = (0..).zip(subs).filter(|(_, sub)| is_like(sub.planned) && sub.disqualified().is_none());
    let rests = rests.map(|(sub, _)| Row { sub, ..row });
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

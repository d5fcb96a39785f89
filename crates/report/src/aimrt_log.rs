//! The columns of AimRT's logger benchmark.

use crate::document::{Block, Cell, Column, Digits, Missing, Table};
use crate::merged::Merged;
use crate::notes;
use tripmeter_analysis::derived::{cost, loss};
use tripmeter_analysis::{MetricTable, Row};
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::metric::{Process, Stream};
use tripmeter_stats::{ErrorBounds, median};

pub const LEGEND: &str = "\
AimRT's columns, with the total duration in its true unit, then one of ours: the lines that were missing or damaged
afterwards, of all rounds and their warm-ups. Total duration: of all calls of one round. CPU: of the logging process
until everything was written, user and system time, 100 = one core. In brackets: 95 % intervals over rounds (n too
small = fewer than 6). For lost lines: the smallest to the largest share of a round, in per cent of those logged; for one
round, or without a loss, Clopper-Pearson as if lines were lost independently.
";

/// True if the logger table shows a sub-experiment.
pub fn is_of(sub: &Merged<'_>) -> bool {
    sub.planned.workload.is_log()
}

/// AimRT's logger table for each logger.
///
/// # Source
/// AimRT, performance test, table of its logger.
pub fn blocks(subs: &[Merged<'_>], metrics: &MetricTable) -> Vec<Block> {
    let tables = (0..).zip(subs).filter(|(_, sub)| is_of(sub)).map(|(index, sub)| {
        let rows = metrics.rows(|key| key.row.sub == index && key.figure == Figure::Call);
        let title = format!("{}, path proof: {}", sub.planned.transport, notes::proof(sub));
        let rows = rows.into_iter().map(|row| (Some(row), cells(metrics, row)));
        Table::new(title, columns(), rows.collect())
    });
    tables.filter(|table| !table.rows.is_empty()).map(Block::Table).collect()
}

fn columns() -> Vec<Column> {
    let number = |id, title, unit, digits| Column::numbers(id, title, unit, digits, "");
    vec![
        number("calls", "epoch num", "", Digits::Integer),
        number("payload_bytes", "log data size", "bytes", Digits::Integer),
        number("total_ns", "total duration", "ns", Digits::Integer),
        number("mean_ns", "avg latency", "ns", Digits::Integer),
        number("cpu_percent", "Avg CPU Usage", "%", Digits::Fixed(1)),
        number("cpu_peak_percent", "Max CPU Usage", "%", Digits::Fixed(1)),
        number("lost", "lost lines", "", Digits::Integer),
        number("loss", "lost lines", "%", Digits::Percent),
    ]
}

fn cells(metrics: &MetricTable, row: Row) -> Vec<Cell> {
    let get = |stream, figure, statistic| metrics.get(row, stream, figure, statistic);
    let all = &Stream::all();
    let values = |statistic| get(all, Figure::Call, statistic).map_or(&[][..], |rounds| rounds.values);
    let (means, calls) = (values(Statistic::Mean), median(values(Statistic::N)).unwrap_or(0.0));
    let totals: Vec<f64> = means.iter().map(|ns| ns * calls).collect();
    let percent = |shares: &[f64]| shares.iter().map(|share| share * 100.0).collect::<Vec<f64>>();
    let cpu = percent(&cost(metrics, row, Process::Leader, Figure::CpuShare));
    let peaks = get(&Stream::process(Process::Leader), Figure::CpuPeak, Statistic::Value);
    let peak = peaks.and_then(|peaks| peaks.values.iter().copied().reduce(f64::max));
    let lost = loss(metrics, row, all);
    let over = |values: &[f64]| Cell::over(values, ErrorBounds::NONE);
    let one = |value: f64| over(&[value]);
    vec![
        one(calls),
        one(row.payload_bytes as f64),
        over(&totals),
        over(means),
        over(&cpu),
        peak.map_or(Cell::Missing(Missing::NotMeasured), |peak| one(peak * 100.0)),
        one(lost.iter().map(|one| one.events as f64).sum()),
        Cell::lost(&lost),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::markdown;
    use crate::{aimrt, fixture};

    #[test]
    fn each_logger_has_aimrt_s_table() {
        let mut manifest = fixture::manifest();
        fixture::add_logger(&mut manifest, "w", "write/file", &[(32, 500.0), (64, 1000.0)]);
        fixture::add_logger(&mut manifest, "s", "spdlog/sync-file", &[(32, 2000.0)]);
        fixture::put(fixture::trial_of(&mut manifest, 1), &[(Figure::Lost, 4.0)]);
        let header = "\
| epoch num | log data size (bytes) | total duration (ns) | avg latency (ns) | Avg CPU Usage (%) | Max CPU Usage (%) | lost lines | lost lines (%) |
| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
";
        let expected = format!(
            "write/file, path proof: ok\n\
             \n\
             {header}| 10000 | 32 | 5500000 | 550 | 92.5 | 118.3 | 0 | 0 (0..0.034) |\n\
             | 10000 | 64 | 11000000 | 1100 | 92.5 | 118.3 | 0 | 0 (0..0.034) |\n\
             \n\
             spdlog/sync-file, path proof: ok\n\
             \n\
             {header}| 10000 | 32 | 22000000 | 2200 | 92.5 | 118.3 | 4 | 0.036 (0.01..0.093) |\n\
             \n\
             {LEGEND}DEVIATION: the published figures are from 3 cores; here the thread that logs is bound to CPU 0 of \
             2 CPUs (--cpus confines both processes to a list).\n"
        );
        assert_eq!(markdown(&aimrt(&manifest)), expected);
    }
}

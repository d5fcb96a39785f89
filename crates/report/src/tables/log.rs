//! Table of pattern `log`: the duration of logger calls, and the lines that they produced.

use super::columns;
use super::description::TableOf;
use super::row::TableRow;
use crate::document::{Cell, Column, Digits, Table};
use crate::measured::MeasuredSide;
use tripmeter_analysis::derived::losses;
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::metric::{Process, Stream};

const CALL_HELP: &str = "as p50 to max: duration of a call of the logger, between two readings of one clock; one \
                         thread, one call after the other";
const CPU_HELP: &str = "user and system time of the logging process, from the first call until everything was written; \
                        100 = one core";
const FLUSH_HELP: &str = "time from the last call until the logger had closed its file or pipe";
const LINES_HELP: &str = "lines found in the file or pipe afterwards, including the warm-up";
const MISSING_HELP: &str = "lines logged but not found; below, the interval of their share in per cent";
const DAMAGED_HELP: &str = "lines that differ from what was logged; below, the interval of their share in per cent";

pub fn table(title: String, _: &MeasuredSide<'_>, rows: &[TableRow<'_>]) -> Table {
    let number = Column::numbers;
    let percent = |id, title, help| Column { divisor: 0.01, ..number(id, title, "%", Digits::Fixed(1), help) };
    let flush = Column { divisor: 1e6, ..number(Figure::Flush.id(), "flush", "ms", Digits::Rate, FLUSH_HELP) };
    let times = [
        ("average", Statistic::Mean, CALL_HELP),
        ("p50", Statistic::P50, ""),
        ("p99", Statistic::P99, ""),
        ("max", Statistic::Max, ""),
    ];
    let call = |(title, statistic, help): (&str, Statistic, &'static str)| {
        number(&format!("call_{statistic}_ns"), title, "ns", Digits::Integer, help)
            .shows(move |row: &TableRow<'_>| row.latency(&Stream::all(), Figure::Call, statistic, 1.0))
    };
    let lines = |id, title, figure, help| {
        number(id, title, "n", Digits::Events, help)
            .shows(move |row: &TableRow<'_>| Cell::lost(&losses(row.metrics, row.row, &Stream::all(), &[figure])))
    };
    let table = TableOf::new(title, rows)
        .column(Column::words("logger", "logger", ""), |row| Cell::text(row.sub.planned.transport_text()))
        .with([columns::payload()])
        .column(number("calls", "calls", "n", Digits::Integer, ""), |row| {
            Cell::number(row.samples(Figure::Call)).marked(row.sub.payload(row.row.payload_bytes).star())
        })
        .with(times.map(call))
        .with(columns::costs_of_leader(CPU_HELP))
        .column(percent(Figure::CpuPeak.id(), "CPU max", "the most in 100 ms"), |row| {
            Cell::from_rounds(row.get(&Stream::process(Process::Leader), Figure::CpuPeak, Statistic::Value))
        })
        .column(flush, |row| row.median(row.value(Figure::Flush)))
        .column(number(Figure::LinesWritten.id(), "lines", "n", Digits::Integer, LINES_HELP), |row| {
            Cell::from_rounds(row.value(Figure::LinesWritten))
        })
        .with([
            lines("missing", "missing", Figure::Lost, MISSING_HELP),
            lines(Figure::Damaged.id(), "damaged", Figure::Damaged, DAMAGED_HELP),
            columns::path_proof(),
        ]);
    table.table().grouped_by_payload()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, add_logger, all, put, put_times, squeezed, trial_of};
    use tripmeter_model::manifest::Counts;

    #[test]
    fn loggers_stand_side_by_side_at_each_payload() {
        let mut manifest = fixture::manifest();
        add_logger(&mut manifest, "spdlog", "spdlog/async-file", &[(32, 1000.0), (8192, 2000.0)]);
        add_logger(&mut manifest, "write", "write/file", &[(32, 500.0), (8192, 3000.0)]);
        let text = all(&manifest);
        let lines = squeezed(&text);
        assert!(text.starts_with("All transports, pattern log\n"), "{text}");
        let expected = [
            "spdlog/async-file 32 10000 1100 1000 2000 10000 92.5 - 84.1 - - - 118.3 1.50 11000 0 0 ok",
            "0..0.034 0..0.034",
            "write/file 32 10000 550 500 1000 5000 92.5 - 84.1 - - - 118.3 1.50 11000 0 0 ok",
            "0..0.034 0..0.034",
            "",
            "spdlog/async-file 8k 10000 2200 2000 4000 20000 92.5 - 84.1 - - - 118.3 1.50 11000 0 0 ok",
        ];
        let first = lines.iter().position(|line| line == expected[0]).unwrap_or_else(|| panic!("{text}"));
        assert_eq!(lines[first..first + 6], expected);
        let machines = crate::render::json(&crate::all::all(&manifest));
        let row = &machines["blocks"][0]["table"]["rows"][0];
        let figures = ["payload_bytes", "calls", "call_p50_ns", "cpu_share", "flush_ns", "lines"];
        assert_eq!(figures.map(|id| row[id].as_f64()), [32.0, 1e4, 1000.0, 0.925, 1.5e6, 11_000.0].map(Some));
        assert_eq!((&row["missing"]["events"], &row["missing"]["of"]), (&0.into(), &11_000.into()));
        assert!(text.contains("\nCPU max: the most in 100 ms\n") && !text.contains("rtt_half"), "{text}");
    }

    #[test]
    fn calls_have_their_intervals_within_a_run_and_over_rounds() {
        let mut manifest = fixture::manifest();
        add_logger(&mut manifest, "w", "write/file", &[(32, 1000.0)]);
        let within = [(Statistic::P50, 990.0, 1010.0), (Statistic::P99, 1900.0, f64::INFINITY)];
        fixture::put_within(trial_of(&mut manifest, 0), Figure::Call, &within);
        let text = all(&manifest);
        assert!(squeezed(&text).contains(&"990..1010 n too small 0..0.034 0..0.034".to_owned()), "{text}");
        manifest.plan.rounds = 6;
        for round in 2..=6 {
            let mut result = manifest.sub_experiments[0].clone();
            result.round = round;
            let median = 1000.0 * f64::from(round);
            put_times(&mut result.cells[0].trials[0], &Stream::all(), Figure::Call, (10_000, median));
            manifest.sub_experiments.push(result);
        }
        let text = all(&manifest);
        let below = "1100..6600 1000..6000 2000..12000 92.5..92.5 84.1..84.1 1.50..1.50 0..0.006 0..0.006";
        assert!(squeezed(&text).contains(&below.to_owned()), "{text}");
    }

    #[test]
    fn lines_that_are_missing_are_said() {
        let mut manifest = fixture::manifest();
        add_logger(&mut manifest, "tracing", "tracing/non-blocking-file", &[(32, 1000.0)]);
        let trial = trial_of(&mut manifest, 0);
        let counts = Counts { sent: 11_000, received: 10_990, lost: 9, damaged: 1, ..Counts::default() };
        trial.put_counts(&Stream::all(), &counts, false);
        put(trial, &[(Figure::Refused, 3.0)]);
        let text = all(&manifest);
        let lines = squeezed(&text);
        assert!(lines.iter().any(|line| line.ends_with(" 11000 9 1 ok")), "{text}");
        for line in ["tracing at 32: 9 missing, 1 damaged of 11000 lines", "tracing at 32: the logger was full 3 times"]
        {
            assert!(lines.iter().any(|found| found == line), "{text}");
        }
    }
}

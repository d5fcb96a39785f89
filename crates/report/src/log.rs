//! The table of pattern `log`: what a call of a logger takes, and the lines that came of the calls.

use crate::interval;
use crate::lines::number;
use crate::merged::{Merged, MergedCell, largest};
use crate::notes::{self, proof};
use crate::throughput::count;
use comfy_table::{CellAlignment, LineStyle, Table, presets};
use tripmeter_model::Pattern;
use tripmeter_model::log::LogCalls;
use tripmeter_model::manifest::{Bounds, Counts, Figures, WithinRun};
use tripmeter_model::payload::display_size;
use tripmeter_stats::losses::Losses;

const HEADER: [&str; 14] = [
    "logger",
    "payload\n[bytes]",
    "calls\n[n]",
    "average\n[ns]",
    "p50\n[ns]",
    "p99\n[ns]",
    "max\n[ns]",
    "CPU\n[%]",
    "CPU max\n[%]",
    "flush\n[ms]",
    "lines\n[n]",
    "missing\n[n]",
    "damaged\n[n]",
    "path\nproof",
];

/// What the columns mean.
pub const LEGEND: &str = "\
average to max: from a call of the logger to its return, between two readings of one clock, one thread, one call after the
other. CPU: user and system of the logging process from the first call until all was written out, 100 = one core; CPU max:
the most in 100 ms. flush: from the last call until the logger had closed its file or pipe. lines: found there afterwards,
those of the warm-up included; missing, damaged: lines logged that are not there, or not as they were logged.
below figures: intervals at 95 %, over rounds, or of quantiles within this one run; n too small = fewer than 6 rounds, or
calls too few; of missing and damaged in per cent of the lines, from the least to the most of a round, of one round or
without any by Clopper and Pearson as if lines were lost one by one.
";

/// The calls of one logger at one payload.
pub struct Row<'a> {
    pub sub: &'a Merged<'a>,
    cell: MergedCell<'a>,
}

/// True if a sub-experiment is of this table.
pub fn is_of(sub: &Merged<'_>) -> bool {
    sub.planned.pattern == Pattern::Log
}

/// Every logger, by payload.
pub fn rows<'a>(subs: &'a [Merged<'a>]) -> Vec<Row<'a>> {
    let loggers = subs.iter().filter(|sub| is_of(sub));
    let mut rows: Vec<_> =
        loggers.flat_map(|sub| sub.payloads().into_iter().map(move |cell| Row { sub, cell })).collect();
    rows.sort_by_key(|row| row.cell.payload_bytes);
    rows
}

impl Row<'_> {
    /// The payload.
    pub fn payload_bytes(&self) -> u64 {
        self.cell.payload_bytes
    }

    /// Calls of all rounds.
    pub fn calls(&self) -> u64 {
        self.cell.samples()
    }

    /// Lines of each round to which something happened, and all that were logged.
    pub fn lines(&self, what: fn(&Counts) -> u64) -> Vec<Losses> {
        self.cell.cells.iter().map(|cell| (what(&cell.counts), cell.counts.sent)).collect()
    }

    /// Of each round.
    pub fn logs(&self) -> impl Iterator<Item = &LogCalls> {
        self.cell.cells.iter().filter_map(|cell| cell.log.as_ref())
    }

    /// A figure of the calls, of each round.
    pub fn of_calls(&self, figure: fn(&Figures) -> f64) -> Vec<f64> {
        self.logs().filter_map(|log| log.call_ns.as_ref()).map(figure).collect()
    }

    /// Intervals of the calls within the only round.
    pub fn within(&self) -> Option<WithinRun> {
        self.logs().next().filter(|_| self.sub.rounds == 1)?.call_within_run_ns
    }

    /// With its interval.
    pub fn call(&self, figure: fn(&Figures) -> f64, within: Option<Bounds>) -> String {
        interval::figure(&self.of_calls(figure), self.sub.rounds, within, |ns| format!("{ns:.0}"))
    }

    fn columns(&self) -> [String; HEADER.len()] {
        let within = self.within();
        let each = |figure: fn(&LogCalls) -> f64| self.logs().map(figure).collect::<Vec<_>>();
        let over = |values: &[f64], text: fn(f64) -> String| interval::figure(values, self.sub.rounds, None, text);
        let most = largest(&self.logs().filter_map(|log| log.cpu_max_percent).collect::<Vec<_>>());
        let short = self.cell.star();
        let lines: u64 = self.logs().map(|log| log.lines.written).sum();
        [
            self.sub.planned.transport.to_string(),
            display_size(self.cell.payload_bytes),
            format!("{short}{}", self.calls()),
            self.call(|calls| calls.mean, None),
            self.call(|calls| calls.median, within.map(|within| within.median)),
            self.call(|calls| calls.p99, within.map(|within| within.p99)),
            largest(&self.of_calls(|calls| calls.max)).map_or("-".to_owned(), |ns| format!("{ns:.0}")),
            over(&each(|log| log.used.cpu_percent()), |percent| format!("{percent:.1}")),
            most.map_or("-".to_owned(), |percent| format!("{percent:.1}")),
            over(&each(|log| log.flush_ns as f64 / 1e6), count),
            lines.to_string(),
            number(&self.lines(|counts| counts.lost)),
            number(&self.lines(|counts| counts.damaged)),
            proof(self.sub).to_owned(),
        ]
    }

    fn notes(&self) -> Vec<String> {
        let place = format!("{} at {}", self.sub.planned.name, display_size(self.cell.payload_bytes));
        let mut lines: Vec<String> =
            self.cell.shortfalls().iter().map(|why| format!("* {place}: fewer calls than planned: {why}")).collect();
        let counts = self.cell.counts();
        if notes::odd(&counts) || counts.lost > 0 {
            let mishaps = notes::mishaps(&counts).replace("lost", "missing");
            lines.push(format!("{place}: of {} lines {mishaps}", counts.sent));
        }
        let refused: u64 = self.logs().map(|log| log.refused).sum();
        if refused > 0 {
            lines.push(format!("{place}: the logger was full {refused} times"));
        }
        lines
    }
}

/// The table itself.
pub fn table(rows: &[Row<'_>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING.header_separator(LineStyle::none().fill('-').junction('-')));
    table.set_header(HEADER);
    let grouped = rows.chunk_by(|a, b| a.payload_bytes() == b.payload_bytes()).any(|group| group.len() > 1);
    let mut last_payload = None;
    for row in rows {
        if grouped && last_payload.is_some_and(|last| last != row.payload_bytes()) {
            table.add_row([""; HEADER.len()]);
        }
        last_payload = Some(row.payload_bytes());
        table.add_row(row.columns());
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if index + 1 == HEADER.len() { 0 } else { 1 }));
        if (1..HEADER.len() - 1).contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// Lines for what keeps these figures from being good.
pub fn notes(rows: &[Row<'_>]) -> Vec<String> {
    rows.iter().flat_map(Row::notes).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::fixture::{self, all};
    use tripmeter_model::channel::Used;
    use tripmeter_model::log::Lines;
    use tripmeter_model::manifest::Manifest;

    /// Adds a logger with these payloads; medians of calls in nanoseconds.
    pub fn add(manifest: &mut Manifest, name: &str, transport: &str, payloads: &[(u64, f64)]) {
        let sizes: Vec<u64> = payloads.iter().map(|payload| payload.0).collect();
        let plan = fixture::add(manifest, name, transport, &sizes);
        (plan.pattern, plan.samples) = (Pattern::Log, 10_000);
        let result = fixture::result(manifest, name, 1, payloads);
        for cell in &mut result.cells {
            let used = Used { window_ns: 1_000_000_000, cpu_time_ns: 925_000_000, ..Used::default() };
            cell.log = Some(LogCalls {
                call_ns: cell.rtt_half_ns,
                call_within_run_ns: None,
                refused: 0,
                lines: Lines { written: 11_000, ..Lines::default() },
                flush_ns: 1_500_000,
                used,
                cpu_max_percent: Some(118.25),
            });
            (cell.rtt_ns, cell.rtt_half_ns) = (None, None);
        }
    }

    fn squeezed(text: &str) -> Vec<String> {
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn loggers_stand_side_by_side_at_each_payload() {
        let mut manifest = fixture::manifest();
        add(&mut manifest, "spdlog", "spdlog/async-file", &[(32, 1000.0), (8192, 2000.0)]);
        add(&mut manifest, "write", "write/file", &[(32, 500.0), (8192, 3000.0)]);
        let text = all(&manifest);
        let lines = squeezed(&text);
        assert!(text.starts_with("All transports, pattern log\n"), "{text}");
        let expected = [
            "spdlog/async-file 32 10000 1100 1000 2000 10000 92.5 118.2 1.50 11000 0 0 ok",
            "0..0.034 0..0.034",
            "write/file 32 10000 550 500 1000 5000 92.5 118.2 1.50 11000 0 0 ok",
            "0..0.034 0..0.034",
            "",
            "spdlog/async-file 8k 10000 2200 2000 4000 20000 92.5 118.2 1.50 11000 0 0 ok",
        ];
        let first = lines.iter().position(|line| line == expected[0]).unwrap_or_else(|| panic!("{text}"));
        assert_eq!(lines[first..first + 6], expected);
        assert!(text.contains(LEGEND) && !text.contains("rtt_half"), "{text}");
    }

    #[test]
    fn calls_have_their_intervals_within_a_run_and_over_rounds() {
        let mut manifest = fixture::manifest();
        add(&mut manifest, "w", "write/file", &[(32, 1000.0)]);
        let bounds = |low, high| Bounds { low: Some(low), high };
        let (median, p99) = (bounds(990.0, Some(1010.0)), bounds(1900.0, None));
        let within = WithinRun { median, p90: median, p99, p9999: p99 };
        manifest.sub_experiments[0].cells[0].log.as_mut().unwrap().call_within_run_ns = Some(within);
        let text = all(&manifest);
        assert!(squeezed(&text).contains(&"990..1010 n too small 0..0.034 0..0.034".to_owned()), "{text}");
        manifest.plan.rounds = 6;
        for round in 2..=6 {
            let mut result = manifest.sub_experiments[0].clone();
            result.round = round;
            let calls = result.cells[0].log.as_mut().unwrap().call_ns.as_mut().unwrap();
            *calls = calls.scaled(f64::from(round));
            manifest.sub_experiments.push(result);
        }
        let text = all(&manifest);
        let below = "1100..6600 1000..6000 2000..12000 92.5..92.5 1.50..1.50 0..0.006 0..0.006";
        assert!(squeezed(&text).contains(&below.to_owned()), "{text}");
    }

    #[test]
    fn lines_that_are_missing_are_said() {
        let mut manifest = fixture::manifest();
        add(&mut manifest, "tracing", "tracing/non-blocking-file", &[(32, 1000.0)]);
        let cell = &mut manifest.sub_experiments[0].cells[0];
        cell.counts = Counts { sent: 11_000, received: 10_990, lost: 9, damaged: 1, ..Counts::default() };
        cell.log.as_mut().unwrap().refused = 3;
        let text = all(&manifest);
        let lines = squeezed(&text);
        assert!(lines.iter().any(|line| line.ends_with(" 11000 9 1 ok")), "{text}");
        for line in ["tracing at 32: of 11000 lines 9 missing, 1 damaged", "tracing at 32: the logger was full 3 times"]
        {
            assert!(lines.iter().any(|found| found == line), "{text}");
        }
    }
}

//! What the tables of patterns `channel` and `rpc` have in common: two lines for each trial.

use crate::interval;
use crate::merged::{Merged, MergedCell, largest};
use crate::number::micros;
use crate::throughput::{count, share_interval};
use comfy_table::{CellAlignment, LineStyle, Table, presets};
use tripmeter_model::channel::{Latency, LatencyBounds, Used};
use tripmeter_model::manifest::{Bounds, Cell};
use tripmeter_model::plan::SubExperiment;
use tripmeter_stats::losses::{Losses, sum};

/// One trial of one payload, over all rounds.
pub struct Row<'a, T> {
    pub sub: &'a Merged<'a>,
    pub payload_bytes: u64,
    /// The same trial of each round.
    pub trials: Vec<&'a T>,
    /// At the first trial: why there are fewer than planned, of each round where that is so.
    pub shortfalls: Vec<&'a str>,
    /// At the first trial: messages that came damaged beside all trials, in a warm-up or an attempt that was set aside.
    pub damaged_beside: u64,
}

/// Every trial, by payload. `planned` is how many a sub-experiment is to have; `None`: it is of another table.
pub fn rows<'a, T>(
    subs: &'a [Merged<'a>],
    trials_of: fn(&'a Cell) -> &'a [T],
    planned: fn(&SubExperiment) -> Option<usize>,
) -> Vec<Row<'a, T>> {
    let mut rows: Vec<Row<'_, T>> = Vec::new();
    for sub in subs {
        let Some(planned) = planned(sub.planned) else { continue };
        for MergedCell { payload_bytes, cells } in sub.payloads() {
            let most = cells.iter().map(|cell| trials_of(cell).len()).max().unwrap_or(0);
            let short = cells.iter().filter(|cell| trials_of(cell).len() < planned);
            let mut shortfalls: Vec<&str> = short.filter_map(|cell| cell.cut_short.as_deref()).collect();
            let mut damaged_beside = cells.iter().map(|cell| cell.damaged_beside()).sum();
            rows.extend((0..most).map(|index| {
                let trials = cells.iter().filter_map(|cell| trials_of(cell).get(index)).collect();
                let (shortfalls, damaged_beside) =
                    (std::mem::take(&mut shortfalls), std::mem::take(&mut damaged_beside));
                Row { sub, payload_bytes, trials, shortfalls, damaged_beside }
            }));
        }
    }
    rows.sort_by_key(|row| row.payload_bytes);
    rows
}

impl<T> Row<'_, T> {
    /// Of each round.
    pub fn trials(&self) -> impl Iterator<Item = &T> {
        self.trials.iter().copied()
    }

    /// The median of a rate over the rounds, with its interval over rounds; that of one round has none.
    pub fn rate(&self, figure: impl Fn(&T) -> f64) -> String {
        interval::figure(&self.trials().map(figure).collect::<Vec<_>>(), self.sub.rounds, None, count)
    }

    /// `mark` if it is so in any round.
    pub fn mark(&self, is: fn(&T) -> bool, mark: &'static str) -> &'static str {
        if self.trials().any(is) { mark } else { "" }
    }
}

/// Average, 50 %, 90 %, 99 %, 99.9 % and maximum, in microseconds: medians over the rounds, and the maximum of all; with
/// their intervals over rounds, or within the only one.
pub fn latency_columns(latencies: &[Latency], rounds: u32, within: Option<LatencyBounds>) -> [String; 6] {
    let each = |figure: fn(&Latency) -> f64| latencies.iter().map(figure).collect::<Vec<_>>();
    let of = |figure, bounds: Option<Bounds>| interval::figure(&each(figure), rounds, bounds, micros);
    [
        of(|latency| latency.mean, None),
        of(|latency| latency.median, within.map(|within| within.median)),
        of(|latency| latency.p90, within.map(|within| within.p90)),
        of(|latency| latency.p99, within.map(|within| within.p99)),
        of(|latency| latency.p999, within.map(|within| within.p999)),
        largest(&each(|latency| latency.max)).map_or("-".to_owned(), micros),
    ]
}

/// CPU, context switches per second, page faults per message and memory: medians over the rounds, with their intervals. With
/// what was used stands the number of messages.
pub fn used_columns(used: &[(Used, u64)], rounds: u32) -> [String; 4] {
    let each = |figure: fn(&Used) -> f64| used.iter().map(|(used, _)| figure(used)).collect::<Vec<_>>();
    let faults: Vec<f64> =
        used.iter().map(|(used, messages)| used.page_faults as f64 / (*messages).max(1) as f64).collect();
    let of = |values: &[f64], text: fn(f64) -> String| interval::figure(values, rounds, None, text);
    [
        of(&each(Used::cpu_percent), |percent| format!("{percent:.1}")),
        of(&each(Used::switches_hz), count),
        of(&faults, |faults| format!("{faults:.3}")),
        of(&each(|used| used.peak_memory_bytes as f64 / 1e6), |mb| format!("{mb:.1}")),
    ]
}

/// A number of losses in all rounds, and below it the interval of their share in per cent; none of nothing.
pub fn number(rounds: &[Losses]) -> String {
    let below = share_interval(rounds).map_or(String::new(), |interval| format!("\n{interval}"));
    format!("{}{below}", sum(rounds).0)
}

/// The lines of a trial.
pub struct Lines<const N: usize> {
    pub payload_bytes: u64,
    pub damaged: u64,
    pub lines: Vec<[String; N]>,
}

/// The table, with a gap after each payload; numbers are on the right, but for the columns of `words`. Messages that came
/// damaged have a column before the last, if there are any.
pub fn draw<const N: usize>(header: [&str; N], words: &[usize], rows: &[Lines<N>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING.header_separator(LineStyle::none().fill('-').junction('-')));
    let mut header = header.to_vec();
    let damaged = rows.iter().any(|row| row.damaged > 0);
    if damaged {
        header.insert(N - 1, "damaged\n[n]");
    }
    let width = header.len();
    table.set_header(header);
    let mut last_payload = None;
    for row in rows {
        if last_payload.is_some_and(|last| last != row.payload_bytes) {
            table.add_row(vec![""; width]);
        }
        last_payload = Some(row.payload_bytes);
        for (index, line) in row.lines.iter().enumerate() {
            let mut line = line.to_vec();
            if damaged {
                line.insert(N - 1, if index == 0 { row.damaged.to_string() } else { String::new() });
            }
            table.add_row(line);
        }
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if index + 1 == width { 0 } else { 1 }));
        if (3..width - 1).contains(&index) && !words.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

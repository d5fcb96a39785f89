//! Every figure by its address, over all rounds: for machines more than for people.

use crate::document::{Block, Cell, Column, Digits, Document, Table};
use tripmeter_analysis::derived::{LOST_CALLS, LOST_MESSAGES, cpu_share, losses};
use tripmeter_analysis::{MetricTable, Row};
use tripmeter_model::figure::{Figure, Statistic, Unit};
use tripmeter_model::manifest::Manifest;
use tripmeter_model::metric::{Process, Stream};
use tripmeter_stats::losses::Losses;

/// One row for each figure: its address, its rounds put together as the figure is, and its interval, over rounds or within
/// the only one. Numbers are in the unit of the figure.
pub fn figures(manifest: &Manifest) -> Document {
    let metrics = &MetricTable::of(manifest);
    let stored = metrics.select(|_| true).map(|rounds| {
        let (key, count) = (rounds.key, rounds.values.len());
        let unit = if key.statistic == Statistic::N { Unit::Count } else { key.figure.unit() };
        let what = [metrics.stream(key).to_string(), key.figure.id().to_owned(), key.statistic.id().to_owned()];
        Line { row: key.row, what, unit, rounds: count, value: Cell::of(Some(rounds)) }
    });
    let mut lines: Vec<Line> = stored.chain(metrics.all_rows().flat_map(|row| shares(metrics, row))).collect();
    // Derived figures follow those that are stored.
    lines.sort_by_key(|line| line.row);
    let number = |id, digits, help| Column::numbers(id, id, "", digits, help);
    let columns = vec![
        Column::words("sub_experiment", "sub-experiment", "").merged(),
        Column::words("payload_bytes", "payload", "").merged(),
        Column::words("offered_load", "load", "").merged(),
        Column::words("stream", "stream", ""),
        Column::words("figure", "figure", ""),
        Column::words("statistic", "statistic", ""),
        number("rounds", Digits::Integer, "rounds that have it"),
        number("value", Digits::Significant(6), "median over rounds, their sum or the largest, as the figure is"),
        Column::words("unit", "unit", ""),
    ];
    let rows = lines.into_iter().map(|line| (Some(line.row), line.cells(metrics)));
    let table = Table::new(String::new(), columns, rows.collect());
    Document { blocks: vec![Block::Table(table)] }
}

struct Line {
    row: Row,
    /// Stream, figure and statistic.
    what: [String; 3],
    unit: Unit,
    rounds: usize,
    value: Cell,
}

impl Line {
    fn cells(self, metrics: &MetricTable) -> Vec<Cell> {
        let Self { row, what, unit, rounds, value } = self;
        let mut cells = vec![metrics.sub(row).to_owned(), row.payload_bytes.to_string(), metrics.load(row).to_string()];
        cells.extend(what);
        let mut cells: Vec<Cell> = cells.into_iter().map(Cell::Text).collect();
        let rounds = Cell::Number { value: rounds as f64, interval: None, mark: "" };
        cells.extend([rounds, value, Cell::text(unit.as_str())]);
        cells
    }
}

/// Losses as a share of what was sent, and CPU time as a share of the time in which it was used.
fn shares(metrics: &MetricTable, row: Row) -> Vec<Line> {
    let share = |stream: &Stream, figure: &str, rounds: usize, value: Cell| {
        let what = [stream.to_string(), figure.to_owned(), Statistic::Value.id().to_owned()];
        Line { row, what, unit: Unit::Share, rounds, value }
    };
    let is_calls = metrics.get(row, &Stream::all(), Figure::TimedOut, Statistic::Value).is_some();
    let lost: &[Figure] = if is_calls { &LOST_CALLS } else { &LOST_MESSAGES };
    let streams = metrics.streams(row, Figure::Sent).into_iter();
    let losses = streams.map(|stream| (stream, losses(metrics, row, stream, lost)));
    let mut lines: Vec<Line> =
        losses.map(|(stream, rounds)| share(stream, "loss_share", rounds.len(), loss(&rounds))).collect();
    for process in [Process::Leader, Process::Follower] {
        let rounds = cpu_share(metrics, row, process);
        if !rounds.is_empty() {
            lines.push(share(&Stream::process(process), "cpu_share", rounds.len(), Cell::over(&rounds)));
        }
    }
    lines
}

/// The share itself, as other values of the column are no shares.
fn loss(rounds: &[Losses]) -> Cell {
    match Cell::lost(rounds) {
        Cell::Share { events, of, interval } => {
            Cell::Number { value: events as f64 / of.max(1) as f64, interval, mark: "" }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, add, result};
    use crate::render::csv;

    #[test]
    fn every_figure_is_a_row_with_its_rounds_and_shares_are_computed() {
        let mut manifest = fixture::manifest();
        manifest.plan.rounds = 6;
        add(&mut manifest, "udp", "udp/loopback", &[1024]);
        for (round, median) in (1..).zip([3000.0, 1000.0, 2000.0, 6000.0, 5000.0, 4000.0]) {
            let cell = &mut result(&mut manifest, "udp", round, &[(1024, median)]).cells[0];
            (cell.counts.sent, cell.counts.lost) = (100, u64::from(round));
        }
        let document = figures(&manifest);
        let [Block::Table(table)] = &document.blocks[..] else { panic!("{document:?}") };
        let text = csv(table);
        for row in [
            "udp,1024,closed,all,rtt_half_ns,p50,6,3500,1000,6000,ns",
            "udp,1024,closed,all,sent,value,6,600,,,n",
            "udp,1024,closed,all,loss_share,value,6,0.035,0.01,0.06,share",
        ] {
            assert!(text.lines().any(|line| line == row), "{row}\n{text}");
        }
    }
}

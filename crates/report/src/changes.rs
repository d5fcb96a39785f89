//! Changes in the history of figures.

use crate::comparison::bytes_column;
use crate::document::{Block, Cell, Column, Digits, Document, Table};
use crate::number::counted;

/// A step or a slow drift of one figure of one payload.
#[derive(Clone, Debug)]
pub struct Change {
    /// The sub-experiment.
    pub name: String,
    /// The payload in bytes, as its file has it.
    pub bytes: String,
    /// The figure and its unit.
    pub figure: String,
    /// What the latency is the duration of, if that is known.
    pub kind: Option<&'static str>,
    /// The first experiment after a step, or of a drift.
    pub since: String,
    /// The last experiment of a drift; `None`: it is a step.
    pub until: Option<String>,
    /// The level before it or at its begin, in the unit of the figure.
    pub before: f64,
    /// The level after it or at its end.
    pub after: f64,
    /// The p-value of "no change".
    pub p: f64,
    /// Whether it was marked as known.
    pub is_known: bool,
}

/// A row for each change, and how many series were looked at.
pub fn changes(changes: &[Change], series: usize) -> Document {
    let new = |drifts: bool| changes.iter().filter(|one| !one.is_known && one.until.is_some() == drifts).count();
    let mut blocks = Vec::new();
    if !changes.is_empty() {
        let rows = changes.iter().map(|change| (None, row(change))).collect();
        blocks.push(Block::Table(Table::new(String::new(), columns(), rows)));
    }
    blocks.push(Block::Text(format!(
        "{} and {} in {} over time, without those marked as known",
        counted(new(false), "step"),
        counted(new(true), "slow drift"),
        counted(series, "figure")
    )));
    Document { blocks }
}

fn columns() -> Vec<Column> {
    let words = |id, title| Column::words(id, title, "");
    let number = |id, title, digits| Column::numbers(id, title, "", digits, "");
    vec![
        words("sub_experiment", "sub-experiment"),
        words("latency", "latency"),
        words("figure", "figure"),
        bytes_column(),
        words("what", "what"),
        words("since", "since"),
        words("until", "until"),
        number("before", "before", Digits::Fixed(3)),
        number("after", "after", Digits::Fixed(3)),
        number("change_percent", "change", Digits::Change),
        number("p", "p", Digits::PValue),
        words("known", ""),
    ]
}

fn row(change: &Change) -> Vec<Cell> {
    let Change { before, after, p, .. } = *change;
    vec![
        Cell::text(&change.name),
        Cell::text(change.kind.unwrap_or("-")),
        Cell::text(&change.figure),
        Cell::text(&change.bytes),
        Cell::text(if change.until.is_some() { "drift" } else { "step" }),
        Cell::text(&change.since),
        Cell::text(change.until.as_deref().unwrap_or("-")),
        Cell::number(before),
        Cell::number(after),
        Cell::number((after / before - 1.0) * 100.0),
        Cell::number(p),
        Cell::text(if change.is_known { "known" } else { "" }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_each_change() {
        let change = |until: Option<&str>, is_known| Change {
            name: "uds".to_owned(),
            bytes: "1024".to_owned(),
            figure: "Median [µs]".to_owned(),
            kind: Some("rtt_half"),
            since: "2026-01-31".to_owned(),
            until: until.map(str::to_owned),
            before: 2.0,
            after: 2.5,
            p: 1e-6,
            is_known,
        };
        let text = crate::fixture::text(&changes(
            &[change(None, true), change(None, false), change(Some("2026-02-01"), false)],
            4,
        ));
        let rows: Vec<String> =
            text.lines().skip(3).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            rows[0], "uds rtt_half Median [µs] 1024 step 2026-01-31 - 2.000 2.500 +25.0 % <0.001 known",
            "{text}"
        );
        assert_eq!(rows[1], "uds rtt_half Median [µs] 1024 step 2026-01-31 - 2.000 2.500 +25.0 % <0.001");
        assert_eq!(rows[2], "uds rtt_half Median [µs] 1024 drift 2026-01-31 2026-02-01 2.000 2.500 +25.0 % <0.001");
        let end = "\n1 step and 1 slow drift in 4 figures over time, without those marked as known\n";
        assert!(text.ends_with(end), "{text}");
        let none = "0 steps and 0 slow drifts in 1 figure over time, without those marked as known\n";
        assert_eq!(crate::fixture::text(&changes(&[], 1)), none);
    }
}

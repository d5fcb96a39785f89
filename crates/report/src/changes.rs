//! Changes in the history of figures.

use crate::document::{Block, Cell, Column, Digits, Document, Table};
use crate::number::counted;
use crate::verdicts::{address_cells, address_columns, change_cell, value_cell, value_column};
use tripmeter_analysis::history::Change;

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
    let columns = [words("sub_experiment", "sub-experiment")].into_iter().chain(address_columns()).chain([
        words("what", "what"),
        words("since", "since"),
        words("until", "until"),
        value_column("before", "before"),
        value_column("after", "after"),
        number("change_percent", "change", Digits::Change),
        number("p", "p", Digits::PValue),
        words("known", ""),
    ]);
    columns.collect()
}

fn row(change: &Change) -> Vec<Cell> {
    let Change { address, since, until, before, after, p, is_known } = change;
    let cells = [Cell::text(&address.sub_experiment)].into_iter().chain(address_cells(address)).chain([
        Cell::text(if until.is_some() { "drift" } else { "step" }),
        Cell::text(since),
        Cell::text(until.as_deref().unwrap_or("-")),
        value_cell(address.figure, Some(*before)),
        value_cell(address.figure, Some(*after)),
        change_cell(Some(after / before - 1.0)),
        Cell::number(*p),
        Cell::text(if *is_known { "known" } else { "" }),
    ]);
    cells.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tripmeter_model::address::FigureAddress;
    use tripmeter_model::figure::{Figure, Statistic};
    use tripmeter_model::metric::Stream;
    use tripmeter_model::pace::OfferedLoad;

    #[test]
    fn a_line_for_each_change() {
        let address = FigureAddress {
            sub_experiment: "uds".to_owned(),
            payload_bytes: 1024,
            load: OfferedLoad::Closed,
            stream: Stream::all(),
            figure: Figure::RttHalf,
            statistic: Statistic::P50,
        };
        let change = |until: Option<&str>, is_known| Change {
            address: address.clone(),
            since: "2026-01-31".to_owned(),
            until: until.map(str::to_owned),
            before: 2000.0,
            after: 2500.0,
            p: 1e-6,
            is_known,
        };
        let text = crate::fixture::text(&changes(
            &[change(None, true), change(None, false), change(Some("2026-02-01"), false)],
            4,
        ));
        let rows: Vec<String> =
            text.lines().skip(3).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(rows[0], "uds 1k rtt_half_ns.p50 step 2026-01-31 - 2.000 2.500 +25.0 % <0.001 known", "{text}");
        assert_eq!(rows[1], "uds 1k rtt_half_ns.p50 step 2026-01-31 - 2.000 2.500 +25.0 % <0.001");
        assert_eq!(rows[2], "uds 1k rtt_half_ns.p50 drift 2026-01-31 2026-02-01 2.000 2.500 +25.0 % <0.001");
        let end = "\n1 step and 1 slow drift in 4 figures over time, without those marked as known\n";
        assert!(text.ends_with(end), "{text}");
        let none = "0 steps and 0 slow drifts in 1 figure over time, without those marked as known\n";
        assert_eq!(crate::fixture::text(&changes(&[], 1)), none);
    }
}

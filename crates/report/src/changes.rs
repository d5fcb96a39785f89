//! Changes in the history of figures.

use crate::document::{Block, Cell, Column, Digits, Document, Table};
use crate::number::counted;
use crate::verdicts::{address_cells, address_columns, change_cell, value_cell, value_column};
use tripmeter_analysis::history::{Change, Reach};

/// A line for each kind of change that too few experiments cannot show.
pub fn unseen(reach: &Reach) -> Vec<String> {
    let Reach { step, drift, longest } = reach;
    let (series, most) = (longest.len(), reach.most());
    let half = step / 2;
    let there = if most == 1 { "There is 1".to_owned() } else { format!("There are {most}") };
    let needs = format!("detecting a step takes {step} experiments on one machine ({half} before, {half} after)");
    if most < *step {
        return vec![format!("Too little history: {needs}, a slow drift {drift}. {there}.")];
    }
    let mut lines = Vec::new();
    let short = reach.below(*step);
    if short > 0 {
        lines.push(format!("Too little history to see a step in {short} of {}: {needs}.", counted(series, "figure")));
    }
    let short = reach.below(*drift);
    if short > 0 {
        let of = if short == series { String::new() } else { format!(" in {short} of {}", counted(series, "figure")) };
        let are = if short == series { format!(". {there}") } else { String::new() };
        lines.push(format!(
            "Too little history to see a slow drift{of}: detecting one takes {drift} experiments on one machine{are}."
        ));
    }
    lines
}

/// Page with a row for each change, the number of figures searched, and the changes that could not be seen.
pub fn changes(changes: &[Change], series: usize, reach: &Reach) -> Document {
    let new = |drifts: bool| changes.iter().filter(|one| one.is_new() && one.until.is_some() == drifts).count();
    let mut blocks = Vec::new();
    if !changes.is_empty() {
        let rows = changes.iter().map(|change| (None, row(change))).collect();
        blocks.push(Block::Table(Table::new(String::new(), columns(), rows)));
    }
    if !changes.is_empty() || reach.most() >= reach.step {
        blocks.push(Block::Text(format!(
            "{} and {} in {} over time, not counting those marked as known",
            counted(new(false), "step"),
            counted(new(true), "slow drift"),
            counted(series, "figure")
        )));
    }
    let unseen = unseen(reach);
    if !unseen.is_empty() {
        blocks.push(Block::Text(unseen.join("\n")));
    }
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
    let Change { address, since, until, before, after, p, .. } = change;
    let cells = [Cell::text(&address.sub_experiment)].into_iter().chain(address_cells(address)).chain([
        Cell::text(if until.is_some() { "drift" } else { "step" }),
        Cell::text(since),
        Cell::text(until.as_deref().unwrap_or("-")),
        value_cell(address.figure, Some(*before)),
        value_cell(address.figure, Some(*after)),
        change_cell(Some(after / before - 1.0)),
        Cell::number(*p),
        Cell::text(change.word()),
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
            has_several_sizes: false,
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
            error: 0.0,
        };
        let text = crate::fixture::text(&changes(
            &[change(None, true), change(None, false), change(Some("2026-02-01"), false)],
            4,
            &reach(&[12; 4]),
        ));
        let rows: Vec<String> =
            text.lines().skip(3).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(rows[0], "uds 1k rtt_half_ns.p50 step 2026-01-31 - 2.000 2.500 +25.0 % <0.001 known", "{text}");
        assert_eq!(rows[1], "uds 1k rtt_half_ns.p50 step 2026-01-31 - 2.000 2.500 +25.0 % <0.001");
        assert_eq!(rows[2], "uds 1k rtt_half_ns.p50 drift 2026-01-31 2026-02-01 2.000 2.500 +25.0 % <0.001");
        let end = "\n1 step and 1 slow drift in 4 figures over time, not counting those marked as known\n";
        assert!(text.ends_with(end), "{text}");
        let none = "0 steps and 0 slow drifts in 1 figure over time, not counting those marked as known\n";
        assert_eq!(crate::fixture::text(&changes(&[], 1, &reach(&[12]))), none);
    }

    fn reach(longest: &[usize]) -> Reach {
        Reach { step: 6, drift: 10, longest: longest.to_vec() }
    }

    #[test]
    fn what_cannot_be_seen_is_told_and_not_that_nothing_is_seen() {
        let text = |longest: &[usize]| crate::fixture::text(&changes(&[], longest.len(), &reach(longest)));
        let none = "Too little history: detecting a step takes 6 experiments on one machine (3 before, 3 after), a \
                    slow drift 10. There are 2.\n";
        assert_eq!(text(&[2, 1]), none);
        let some = text(&[12, 7, 2]);
        assert!(some.starts_with("0 steps and 0 slow drifts in 3 figures over time"), "{some}");
        assert!(
            some.contains("Too little history to see a step in 1 of 3 figures: detecting a step takes 6 experiments"),
            "{some}"
        );
        assert!(
            some.contains(
                "Too little history to see a slow drift in 2 of 3 figures: detecting one takes 10 experiments"
            ),
            "{some}"
        );
        assert!(text(&[7, 7]).contains("on one machine. There are 7.\n"), "{}", text(&[7, 7]));
    }
}

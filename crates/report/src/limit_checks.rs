//! An experiment against limits, and limits, as text.

use crate::document::{Block, Cell, Column, Digits, Document, Table};
use crate::number::counted;
use crate::verdicts::{
    JudgedRow, NOT_CHECKED, NOT_MEASURED, address_cells, address_columns, change_cell, distrusted, lacking, page,
    value_cell, value_column,
};
use tripmeter_analysis::check::{CheckedLimit, CheckedSub, ResultsCheck};
use tripmeter_model::limits::{FigureLimits, Limit};

/// One row per sub-experiment with its worst figure, then sub-experiments that were not checked, and the verdict. If
/// `detailed`, tables of all limits come first.
pub fn limit_checks(check: &ResultsCheck, detailed: bool, strict: bool) -> Document {
    let distrusted = check.checked.iter().filter_map(|one| distrusted(&one.name, &one.distrust));
    page(
        check.checked.iter().filter(|_| detailed).map(details),
        [["worst", "worst figure"], ["from_limit_percent", "from limit"]],
        check.checked.iter().map(row),
        distrusted
            .chain(lacking(&check.without_limits, "without limits", NOT_CHECKED, strict))
            .chain(lacking(&check.not_measured, "with limits but not measured", NOT_CHECKED, strict))
            .collect(),
        verdict(check, strict),
    )
}

/// A row for each limit.
pub fn limits(limits: &FigureLimits) -> Document {
    let columns = [Column::words("sub_experiment", "sub-experiment", "").merged()].into_iter().chain(address_columns());
    let columns = columns.chain([Column::words("bound", "", ""), value_column("limit", "limit")]);
    let row = |limit: &Limit| {
        let Limit { address, limit: value } = limit;
        let bound = if limit.is_lower() { "at least" } else { "at most" };
        let cells = [Cell::text(&address.sub_experiment)].into_iter().chain(address_cells(address));
        (None, cells.chain([Cell::text(bound), value_cell(address.figure, Some(*value))]).collect())
    };
    let table = Table::new(String::new(), columns.collect(), limits.rows.iter().map(row).collect());
    Document { blocks: vec![Block::Table(table)] }
}

fn details(check: &CheckedSub) -> Table {
    let columns = address_columns().into_iter().chain([
        value_column("limit", "limit"),
        value_column("value", "measured"),
        Column::numbers("from_limit_percent", "from limit", "", Digits::Change, ""),
        Column::words("status", "status", ""),
    ]);
    let row = |row: &CheckedLimit| {
        let Limit { address, limit } = &row.limit;
        let measured = || value_cell(address.figure, row.value);
        let cells = address_cells(address).into_iter().chain([
            value_cell(address.figure, Some(*limit)),
            if row.value.is_none() { Cell::text(NOT_MEASURED) } else { measured() },
            distance(row),
            Cell::text(row.outcome().name()),
        ]);
        (None, cells.collect())
    };
    Table::new(check.name.clone(), columns.collect(), check.rows.iter().map(row).collect())
}

fn row(check: &CheckedSub) -> JudgedRow<'_> {
    let name = |row: &CheckedLimit| format!("{} at {}", row.limit.address.name(), row.limit.address.place());
    JudgedRow {
        name: &check.name,
        passed: [check.passed_rows(), check.rows.len()],
        worst: check.worst().map(|row| (name(row), distance(row))),
        is_good: check.passed(),
    }
}

/// Per cent beyond the limit.
fn distance(row: &CheckedLimit) -> Cell {
    if row.value.is_none() { Cell::text(NOT_MEASURED) } else { change_cell(row.share_beyond()) }
}

fn verdict(check: &ResultsCheck, strict: bool) -> String {
    let (passed, all) = check.counts();
    let one_sided = if strict { check.without_limits.len() + check.not_measured.len() } else { 0 };
    let judged = counted(check.checked.len() + one_sided, "sub-experiment");
    let unclear: usize = check.checked.iter().map(CheckedSub::inconclusive_rows).sum();
    let unclear =
        if unclear > 0 { format!(", {unclear} inconclusive by the clocks of two hosts") } else { String::new() };
    let limits = format!("{passed} of {} met{unclear}", counted(all, "limit"));
    match check.failing(strict) {
        0 => format!("{limits}; all of {judged} passed\n"),
        failing => format!("{limits}; {failing} of {judged} failed\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tripmeter_model::address::FigureAddress;
    use tripmeter_model::figure::{Figure, Statistic};
    use tripmeter_model::metric::Stream;
    use tripmeter_model::pace::OfferedLoad;

    fn limit(figure: Figure, statistic: Statistic, limit: f64) -> Limit {
        let address = FigureAddress {
            sub_experiment: "uds".to_owned(),
            payload_bytes: 1024,
            load: OfferedLoad::Closed,
            stream: Stream::all(),
            figure,
            statistic,
        };
        Limit { address, limit }
    }

    fn one(name: &str, rows: &[(Limit, Option<f64>)]) -> CheckedSub {
        let row =
            |(limit, value): &(Limit, Option<f64>)| CheckedLimit { limit: limit.clone(), value: *value, error: 0.0 };
        CheckedSub { name: name.to_owned(), rows: rows.iter().map(row).collect(), distrust: None }
    }

    #[test]
    fn a_line_for_each_sub_experiment_and_what_was_not_checked() {
        let median = limit(Figure::RttHalf, Statistic::P50, 2000.0);
        let loss = limit(Figure::LossShare, Statistic::Value, 0.0);
        let p99 = limit(Figure::RttHalf, Statistic::P99, 2000.0);
        let good =
            one("uds", &[(median.clone(), Some(1500.0)), (p99.clone(), Some(2000.0)), (loss.clone(), Some(0.0))]);
        let bad = one("tcp", &[(median, Some(2500.0)), (loss, Some(0.05)), (p99, None)]);
        let check =
            ResultsCheck { checked: vec![good, bad], without_limits: vec!["new".to_owned()], not_measured: Vec::new() };
        let of = |detailed, strict| crate::fixture::text(&limit_checks(&check, detailed, strict));
        let golden = "\
sub-experiment passed worst figure            from limit verdict
----------------------------------------------------------------
uds               3/3 rtt_half_ns.p99 at 1k       +0.0 % passed
tcp               0/3 rtt_half_ns.p99 at 1k not measured FAILED

not checked: 1 sub-experiment without limits: new

3 of 6 limits met; 1 of 2 sub-experiments failed
";
        assert_eq!(of(false, false), golden);
        let details = crate::fixture::rows_of(&of(true, false), "1k");
        for row in [
            "1k rtt_half_ns.p50 2.000 2.500 +25.0 % FAILED",
            "1k loss_share 0.000 % 5.000 % +inf % FAILED",
            "1k rtt_half_ns.p99 2.000 not measured not measured FAILED",
            "1k loss_share 0.000 % 0.000 % - passed",
        ] {
            assert!(details.contains(&row.to_owned()), "{row} {details:?}");
        }
        assert!(of(false, true).contains("FAILED: 1 sub-experiment without limits: new\n"));
        assert!(of(false, true).ends_with("2 of 3 sub-experiments failed\n"));
    }

    #[test]
    fn limits_are_upper_or_lower_ones() {
        let rows =
            vec![limit(Figure::RttHalf, Statistic::P50, 2000.0), limit(Figure::ReceivedRate, Statistic::Value, 5.0)];
        let text = crate::fixture::text(&limits(&FigureLimits { rows }));
        let rows = crate::fixture::squeezed(&text);
        assert_eq!(
            rows[rows.len() - 2..],
            ["uds 1k rtt_half_ns.p50 at most 2.000", "uds 1k received_rate_hz at least 5.000 /s"]
        );
    }
}

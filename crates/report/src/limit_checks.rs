//! An experiment against limits, and limits, as text.

use crate::document::{Block, Cell, Column, Digits, Document, Note, Severity, Table};
use crate::number::counted;
use crate::verdicts::{address_cells, address_columns, change_cell, value_cell, value_column};
use tripmeter_analysis::check::{CheckedLimit, CheckedSub, ResultsCheck};
use tripmeter_model::limits::{FigureLimits, Limit};

/// Stands for figures that there are limits of.
const NOT_MEASURED: &str = "not measured";

/// A row for each sub-experiment with the figure that is nearest to its limit or farthest beyond it, before it every limit if
/// `detailed`, and below it what was not checked and the verdict.
pub fn limit_checks(check: &ResultsCheck, detailed: bool, strict: bool) -> Document {
    let details = check.checked.iter().filter(|_| detailed).map(details);
    let mut blocks: Vec<Block> = details.map(Block::Table).collect();
    if !check.checked.is_empty() {
        let columns = vec![
            Column::words("sub_experiment", "sub-experiment", ""),
            Column { is_right: true, ..Column::words("passed", "passed", "") },
            Column::words("worst", "worst figure", ""),
            Column::numbers("from_limit_percent", "from limit", "", Digits::Change, ""),
            Column::words("verdict", "verdict", ""),
        ];
        let rows = check.checked.iter().map(|one| (None, row(one)));
        blocks.push(Block::Table(Table::new(String::new(), columns, rows.collect())));
    }
    let distrusted = check.checked.iter().filter_map(|one| {
        let text = format!("FAILED: {}: {}", one.name, one.distrust.as_ref()?);
        Some(Note::new(Severity::Error, "not trusted", None, text))
    });
    let notes: Vec<Note> = distrusted
        .chain(one_sided(&check.without_limits, "without limits", strict))
        .chain(one_sided(&check.not_measured, "with limits but not measured", strict))
        .collect();
    if !notes.is_empty() {
        blocks.push(Block::Notes(notes));
    }
    blocks.push(Block::Text(verdict(check, strict)));
    Document { blocks }
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
            Cell::text(if row.passed() { "passed" } else { "FAILED" }),
        ]);
        (None, cells.collect())
    };
    Table::new(check.name.clone(), columns.collect(), check.rows.iter().map(row).collect())
}

fn row(check: &CheckedSub) -> Vec<Cell> {
    let worst = check.worst().map(|row| format!("{} at {}", row.limit.address.name(), row.limit.address.place()));
    vec![
        Cell::text(&check.name),
        Cell::text(format!("{}/{}", check.passed_rows(), check.rows.len())),
        Cell::text(worst.unwrap_or_default()),
        check.worst().map_or(Cell::text(""), distance),
        Cell::text(if check.passed() { "passed" } else { "FAILED" }),
    ]
}

/// Per cent beyond the limit.
fn distance(row: &CheckedLimit) -> Cell {
    if row.value.is_none() { Cell::text(NOT_MEASURED) } else { change_cell(row.share_beyond()) }
}

fn one_sided(names: &[String], what: &str, strict: bool) -> Option<Note> {
    let (severity, verdict) = if strict { (Severity::Error, "FAILED") } else { (Severity::Info, "not checked") };
    let text = || format!("{verdict}: {} {what}: {}", counted(names.len(), "sub-experiment"), names.join(", "));
    (!names.is_empty()).then(|| Note::new(severity, "of one side only", None, text()))
}

fn verdict(check: &ResultsCheck, strict: bool) -> String {
    let (passed, all) = check.counts();
    let one_sided = if strict { check.without_limits.len() + check.not_measured.len() } else { 0 };
    let judged = counted(check.checked.len() + one_sided, "sub-experiment");
    let limits = format!("{passed} of {} met", counted(all, "limit"));
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
        let row = |(limit, value): &(Limit, Option<f64>)| CheckedLimit { limit: limit.clone(), value: *value };
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

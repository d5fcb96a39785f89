//! An experiment against its requirements, as text.

use super::comparison::{bytes_column, micros_column};
use crate::document::{Block, Cell, Column, Digits, Document, Missing, Note, Severity, Table};
use crate::number::counted;
use tripmeter_eprosima::check::CheckRow;
use tripmeter_eprosima::verdict::{ExperimentCheck, SubExperimentCheck};

/// A row for each sub-experiment with its worst check, before it every check if `detailed`, and below it what was not
/// checked and the verdict.
pub fn checks(check: &ExperimentCheck, detailed: bool) -> Document {
    let details = check.checked.iter().filter(|_| detailed).map(details);
    let mut blocks: Vec<Block> = details.map(Block::Table).collect();
    if !check.checked.is_empty() {
        let columns = vec![
            Column::words("sub_experiment", "sub-experiment", ""),
            Column { is_right: true, ..Column::words("passed", "passed", "") },
            Column::words("worst_check", "worst check", ""),
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
        .chain(one_sided(&check.without_requirements, "without requirements"))
        .chain(one_sided(&check.not_measured, "with requirements but not measured"))
        .collect();
    if !notes.is_empty() {
        blocks.push(Block::Notes(notes));
    }
    blocks.push(Block::Text(verdict(check)));
    Document { blocks }
}

fn details(check: &SubExperimentCheck) -> Table {
    let columns = vec![
        Column::words("check", "check", ""),
        bytes_column(),
        micros_column("requirement", "requirement"),
        micros_column("experiment", "experiment"),
        Column::numbers("from_limit_percent", "from limit", "", Digits::Change, ""),
        Column::words("status", "status", ""),
    ];
    let row = |row: &CheckRow| {
        let status = if row.passed() { "passed" } else { "FAILED" };
        let cells = vec![
            Cell::text(row.check.column()),
            Cell::text(row.bytes.to_string()),
            Cell::number(row.requirement),
            row.experiment.map_or(Cell::text(NOT_MEASURED), Cell::number),
            distance(row),
            Cell::text(status),
        ];
        (None, cells)
    };
    Table::new(check.name.clone(), columns, check.report.rows.iter().map(row).collect())
}

/// Stands for figures that there are limits of.
const NOT_MEASURED: &str = "not measured";

fn row(check: &SubExperimentCheck) -> Vec<Cell> {
    let worst = check.worst().map(|row| format!("{} of {} bytes", row.check.column(), row.bytes)).unwrap_or_default();
    vec![
        Cell::text(&check.name),
        Cell::text(format!("{}/{}", check.passed_checks(), check.report.rows.len())),
        Cell::text(worst),
        check.worst().map_or(Cell::text(""), distance),
        Cell::text(if check.passed() { "passed" } else { "FAILED" }),
    ]
}

/// Per cent beyond the limit.
fn distance(row: &CheckRow) -> Cell {
    match row.percentage_over_requirement() {
        None => Cell::text(NOT_MEASURED),
        Some(percent) if percent.is_nan() => Cell::Missing(Missing::NotMeasured),
        Some(percent) => Cell::number(percent + 0.0),
    }
}

fn one_sided(names: &[String], what: &str) -> Option<Note> {
    let text = || format!("not checked: {} {what}: {}", counted(names.len(), "sub-experiment"), names.join(", "));
    (!names.is_empty()).then(|| Note::new(Severity::Info, "of one side only", None, text()))
}

fn verdict(check: &ExperimentCheck) -> String {
    let (passed, all) = check.counts();
    let share = passed as f64 * 100.0 / all.max(1) as f64;
    let checks = format!("{share:.3}% checks passed: ({passed}/{all})\n");
    match check.failing() {
        0 => checks + "Experiment check passed\n",
        failing => {
            let judged = counted(check.checked.len(), "sub-experiment");
            format!("{checks}Experiment check failed: {failing} of {judged}\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tripmeter_eprosima::bytes::Bytes;
    use tripmeter_eprosima::check::CheckReport;
    use tripmeter_eprosima::summary::Magnitude;

    fn row(check: Magnitude, requirement: f64, experiment: Option<f64>) -> CheckRow {
        CheckRow { check, bytes: Bytes::from(1024), requirement, experiment }
    }

    fn one(name: &str, rows: Vec<CheckRow>) -> SubExperimentCheck {
        SubExperimentCheck { name: name.to_owned(), report: CheckReport { rows }, distrust: None }
    }

    #[test]
    fn a_line_for_each_sub_experiment_and_what_was_not_checked() {
        let good = one("uds", vec![row(Magnitude::Median, 2.0, Some(1.5)), row(Magnitude::P99, 2.0, Some(2.0))]);
        let bad = one("tcp", vec![row(Magnitude::Median, 2.0, Some(2.5)), row(Magnitude::Max, 2.0, None)]);
        let check = ExperimentCheck {
            checked: vec![good, bad],
            without_requirements: vec!["new".to_owned()],
            not_measured: Vec::new(),
        };
        let of = |detailed| crate::fixture::text(&checks(&check, detailed));
        let golden = "\
sub-experiment passed worst check         from limit verdict
------------------------------------------------------------
uds               2/2 99% of 1024 bytes       +0.0 % passed
tcp               0/2 Max of 1024 bytes not measured FAILED

not checked: 1 sub-experiment without requirements: new

50.000% checks passed: (2/4)
Experiment check failed: 1 of 2 sub-experiments
";
        assert_eq!(of(false), golden);
        let details: Vec<String> = crate::fixture::rows_of(&of(true), "Median");
        assert!(details.contains(&"Median 1024 2.000 2.500 +25.0 % FAILED".to_owned()), "{details:?}");
    }
}

//! An experiment against its requirements, as text.

use super::comparison::{bytes_column, micros_column};
use crate::document::{Cell, Column, Digits, Document, Missing, Table};
use crate::number::counted;
use crate::verdicts::{JudgedRow, NOT_CHECKED, NOT_MEASURED, distrusted, lacking, page};
use tripmeter_eprosima::check::CheckRow;
use tripmeter_eprosima::verdict::{ExperimentCheck, SubExperimentCheck};

/// Page with the worst check of each sub-experiment, those that were not checked, and the verdict. If `detailed`, all
/// checks come first.
pub fn checks(check: &ExperimentCheck, detailed: bool) -> Document {
    let distrusted = check.checked.iter().filter_map(|one| distrusted(&one.name, &one.distrust));
    page(
        check.checked.iter().filter(|_| detailed).map(details),
        [["worst_check", "worst check"], ["from_limit_percent", "from limit"]],
        check.checked.iter().map(row),
        distrusted
            .chain(lacking(&check.without_requirements, "without requirements", NOT_CHECKED, false))
            .chain(lacking(&check.not_measured, "with requirements, but not measured", NOT_CHECKED, false))
            .collect(),
        verdict(check),
    )
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

fn row(check: &SubExperimentCheck) -> JudgedRow<'_> {
    let name = |row: &CheckRow| format!("{} of {} bytes", row.check.column(), row.bytes);
    JudgedRow {
        name: &check.name,
        passed: [check.passed_checks(), check.report.rows.len()],
        worst: check.worst().map(|row| (name(row), distance(row))),
        is_good: check.passed(),
    }
}

/// Percentage above the limit.
fn distance(row: &CheckRow) -> Cell {
    match row.percentage_over_requirement() {
        None => Cell::text(NOT_MEASURED),
        Some(percent) if percent.is_nan() => Cell::Missing(Missing::NotMeasured),
        Some(percent) => Cell::number(percent + 0.0),
    }
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

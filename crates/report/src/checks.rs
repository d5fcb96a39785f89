//! An experiment against its requirements, as text.

use crate::grid::{counted, grid};
use tripmeter_model::check::CheckRow;
use tripmeter_stats::verdict::{ExperimentCheck, SubExperimentCheck};

/// A line for each sub-experiment with its worst check, before it every check if `detailed`, and below it what was not
/// checked and the verdict.
pub fn checks(check: &ExperimentCheck, detailed: bool, strict: bool) -> String {
    let mut text = String::new();
    if detailed {
        check.checked.iter().for_each(|one| text += &details(one));
    }
    if !check.checked.is_empty() {
        let header = ["sub-experiment", "passed", "worst check", "from limit", "verdict"];
        text += &(grid(header, &[1, 3], check.checked.iter().map(line)) + "\n");
    }
    for one in &check.checked {
        if let Some(distrust) = &one.distrust {
            text += &format!("FAILED: {}: {distrust}\n", one.name);
        }
    }
    text += &one_sided(&check.without_requirements, "without requirements", strict);
    text += &one_sided(&check.not_measured, "with requirements but not measured", strict);
    text + &verdict(check, strict)
}

fn details(check: &SubExperimentCheck) -> String {
    let header = ["check", "payload [bytes]", "requirement [µs]", "experiment [µs]", "from limit", "status"];
    let row = |row: &CheckRow| {
        let status = if row.passed() { "passed" } else { "FAILED" };
        let magnitude = row.check.magnitude();
        let unit = if magnitude.is_latency() { String::new() } else { format!(" {}", magnitude.unit()) };
        let figure = |value: Option<f64>| value.map_or("not measured".to_owned(), |value| format!("{value:.3}{unit}"));
        let requirement = format!("{:.3}{unit}", row.requirement);
        [
            row.check.name().to_owned(),
            row.bytes.to_string(),
            requirement,
            figure(row.experiment),
            distance(row),
            status.to_owned(),
        ]
    };
    format!("{}\n{}\n", check.name, grid(header, &[1, 2, 3, 4], check.report.rows.iter().map(row)))
}

fn line(check: &SubExperimentCheck) -> [String; 5] {
    let passed = format!("{}/{}", check.passed_checks(), check.report.rows.len());
    let worst = check.worst().map(|row| format!("{} of {} bytes", row.check.name(), row.bytes)).unwrap_or_default();
    let verdict = if check.passed() { "passed" } else { "FAILED" };
    [check.name.clone(), passed, worst, check.worst().map(distance).unwrap_or_default(), verdict.to_owned()]
}

/// `+12.3 %`: beyond the limit.
fn distance(row: &CheckRow) -> String {
    match row.percentage_over_requirement() {
        None => "not measured".to_owned(),
        Some(percent) if percent.is_nan() => "-".to_owned(),
        Some(percent) => format!("{:+.1} %", percent + 0.0),
    }
}

fn one_sided(names: &[String], what: &str, strict: bool) -> String {
    if names.is_empty() {
        return String::new();
    }
    let verdict = if strict { "FAILED" } else { "not checked" };
    format!("{verdict}: {} {what}: {}\n", counted(names.len(), "sub-experiment"), names.join(", "))
}

fn verdict(check: &ExperimentCheck, strict: bool) -> String {
    let (passed, all) = check.counts();
    let share = passed as f64 * 100.0 / all.max(1) as f64;
    let checks = format!("{share:.3}% checks passed: ({passed}/{all})\n");
    let one_sided = if strict { check.without_requirements.len() + check.not_measured.len() } else { 0 };
    let judged = counted(check.checked.len() + one_sided, "sub-experiment");
    match check.failing(strict) {
        0 => checks + "Experiment check passed\n",
        failing => format!("{checks}Experiment check failed: {failing} of {judged}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tripmeter_model::bytes::Bytes;
    use tripmeter_model::check::{Check, CheckReport};

    fn row(check: Check, requirement: f64, experiment: Option<f64>) -> CheckRow {
        CheckRow { check, bytes: Bytes::from(1024), requirement, experiment }
    }

    fn one(name: &str, rows: Vec<CheckRow>) -> SubExperimentCheck {
        SubExperimentCheck { name: name.to_owned(), report: CheckReport { rows }, distrust: None }
    }

    #[test]
    fn a_line_for_each_sub_experiment_and_what_was_not_checked() {
        let good = one("uds", vec![row(Check::Median, 2.0, Some(1.5)), row(Check::P99, 2.0, Some(2.0))]);
        let bad = one("tcp", vec![row(Check::Median, 2.0, Some(2.5)), row(Check::Max, 2.0, None)]);
        let check = ExperimentCheck {
            checked: vec![good, bad],
            without_requirements: vec!["new".to_owned()],
            not_measured: Vec::new(),
        };
        let text = checks(&check, false, false);
        let golden = "\
sub-experiment  passed  worst check          from limit  verdict
----------------------------------------------------------------
uds                2/2  99% of 1024 bytes        +0.0 %  passed
tcp                0/2  Max of 1024 bytes  not measured  FAILED

not checked: 1 sub-experiment without requirements: new
50.000% checks passed: (2/4)
Experiment check failed: 1 of 2 sub-experiments
";
        assert_eq!(text, golden);
        let details = "Median             1024             2.000            2.500       +25.0 %  FAILED\n";
        assert!(checks(&check, true, false).contains(details), "{}", checks(&check, true, false));
        assert!(checks(&check, false, true).contains("FAILED: 1 sub-experiment without requirements: new\n"));
        assert!(checks(&check, false, true).ends_with("failed: 2 of 3 sub-experiments\n"));
    }
}

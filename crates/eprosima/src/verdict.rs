//! An experiment against requirements.

use crate::check::{CheckReport, CheckRow};
use crate::requirements::{Requirement, Requirements};
use crate::summary::{Magnitude, Summary};

#[derive(Clone, Debug)]
pub struct Measured {
    pub name: String,
    pub summary: Summary,
    /// Reason why the figures are not those that the name promises, e.g. a failed path proof.
    pub distrust: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SubExperimentCheck {
    pub name: String,
    pub report: CheckReport,
    /// Reason why it fails even if all checks pass.
    pub distrust: Option<String>,
}

impl SubExperimentCheck {
    /// True if all checks pass and nothing is distrusted.
    pub fn passed(&self) -> bool {
        self.distrust.is_none() && self.report.passed()
    }

    pub fn passed_checks(&self) -> usize {
        self.report.rows.iter().filter(|row| row.passed()).count()
    }

    /// Check nearest to its limit, or farthest above it; a check that was not measured comes first.
    pub fn worst(&self) -> Option<&CheckRow> {
        let badness = |row: &CheckRow| match row.percentage_over_requirement() {
            None => f64::INFINITY,
            // NaN percent means that limit and value are both 0, which is at the limit, or that the value is NaN.
            Some(percent) if percent.is_nan() => {
                row.experiment.map_or(0.0, |value| if value.is_nan() { f64::MAX } else { 0.0 })
            }
            Some(percent) => percent,
        };
        self.report.rows.iter().max_by(|a, b| badness(a).total_cmp(&badness(b)))
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExperimentCheck {
    /// Sub-experiments measured that have requirements, in the given order.
    pub checked: Vec<SubExperimentCheck>,
    /// Names of sub-experiments measured that have no requirements.
    pub without_requirements: Vec<String>,
    /// Names with requirements that were not measured, in the order of the requirements.
    pub not_measured: Vec<String>,
}

impl ExperimentCheck {
    pub fn new(requirements: &Requirements, measured: &[Measured]) -> Self {
        let mut made = Self::default();
        for Measured { name, summary, distrust } in measured {
            let limits: Vec<_> = requirements.for_sub_experiment(name).collect();
            if limits.is_empty() {
                made.without_requirements.push(name.clone());
                continue;
            }
            let report = check(&limits, summary);
            made.checked.push(SubExperimentCheck { name: name.clone(), report, distrust: distrust.clone() });
        }
        for Requirement { sub_experiment, .. } in &requirements.rows {
            let is_measured = measured.iter().any(|one| one.name == *sub_experiment);
            if !is_measured && !made.not_measured.contains(sub_experiment) {
                made.not_measured.push(sub_experiment.clone());
            }
        }
        made
    }

    pub fn failing(&self) -> usize {
        self.checked.iter().filter(|one| !one.passed()).count()
    }

    /// Number of checks that passed, and number of all checks.
    pub fn counts(&self) -> (usize, usize) {
        let passed = self.checked.iter().map(SubExperimentCheck::passed_checks).sum();
        (passed, self.checked.iter().map(|one| one.report.rows.len()).sum())
    }
}

/// Checks one sub-experiment: all medians, then all 99th percentiles, then all maxima, in the order of the limits.
///
/// A payload that was not measured has rows without figures; a payload without limits has no rows.
///
/// # Source
/// `latency_check_experiment.py` of eProsima's benchmarking, which stops with an error at a payload not measured.
pub fn check(limits: &[&Requirement], measured: &Summary) -> CheckReport {
    let row = |check: Magnitude, limit: &&Requirement| CheckRow {
        check,
        bytes: limit.bytes.clone(),
        requirement: limit.limit(check),
        experiment: measured.row(&limit.bytes).map(|row| check.value_in(row)),
    };
    let checks = Magnitude::CHECKED.into_iter();
    CheckReport { rows: checks.flat_map(|check| limits.iter().map(move |limit| row(check, limit))).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{limit, summary};

    fn measured(name: &str, summary: Summary) -> Measured {
        Measured { name: name.to_owned(), summary, distrust: None }
    }

    #[test]
    fn rows_come_check_by_check_in_the_order_of_the_limits() {
        let limits = [limit("a", 64, [1.0, 2.0, 3.0]), limit("a", 16, [1.0, 2.0, 3.0])];
        let report =
            check(&limits.iter().collect::<Vec<_>>(), &summary(&[(16, [1.0, 2.5, 3.0]), (99, [1.0, 1.0, 1.0])]));
        let told: Vec<_> =
            report.rows.iter().map(|row| (row.check.column(), row.bytes.to_string(), row.passed())).collect();
        let row = |check, bytes: &str, passed| (check, bytes.to_owned(), passed);
        let expected = [
            row("Median", "64", false),
            row("Median", "16", true),
            row("99%", "64", false),
            row("99%", "16", false),
            row("Max", "64", false),
            row("Max", "16", true),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn what_is_on_one_side_only_is_named() {
        let requirements = Requirements {
            rows: vec![limit("a", 16, [1.0, 1.0, 1.0]), limit("gone", 16, [1.0; 3]), limit("gone", 32, [1.0; 3])],
        };
        let found = [measured("a", summary(&[(16, [1.0; 3])])), measured("new", summary(&[(16, [1.0; 3])]))];
        let made = ExperimentCheck::new(&requirements, &found);
        assert_eq!(
            (made.without_requirements.clone(), made.not_measured.clone()),
            (vec!["new".to_owned()], vec!["gone".to_owned()])
        );
        assert_eq!((made.failing(), made.counts()), (0, (3, 3)));
    }

    #[test]
    fn figures_that_are_not_trusted_fail() {
        let requirements = Requirements { rows: vec![limit("a", 16, [9.0; 3])] };
        let mut found = measured("a", summary(&[(16, [1.0; 3])]));
        assert_eq!(ExperimentCheck::new(&requirements, std::slice::from_ref(&found)).failing(), 0);
        found.distrust = Some("its path proof failed".to_owned());
        assert_eq!(ExperimentCheck::new(&requirements, &[found]).failing(), 1);
    }

    #[test]
    fn the_worst_is_what_was_not_measured_or_is_farthest_above() {
        let worst = |measured: &[(u64, [f64; 3])]| {
            let limits = [limit("a", 16, [1.0, 2.0, 4.0]), limit("a", 32, [0.0, 2.0, 4.0])];
            let report = check(&limits.iter().collect::<Vec<_>>(), &summary(measured));
            let made = SubExperimentCheck { name: "a".to_owned(), report, distrust: None };
            made.worst().map(|row| (row.check.column(), row.bytes.to_string())).unwrap()
        };
        assert_eq!(worst(&[(16, [0.5, 1.9, 1.0]), (32, [0.0, 1.0, 4.4])]), ("Max", "32".to_owned()));
        assert_eq!(worst(&[(16, [0.5, 1.9, 1.0]), (32, [0.0, 1.0, 1.0])]), ("Median", "32".to_owned()));
        assert_eq!(worst(&[(16, [9.5, 1.9, 1.0])]).1, "32");
    }
}

//! Requirements from many runs.

use crate::bytes::Bytes;
use crate::check::CheckRow;
use crate::requirements::{Requirement, Requirements};
use crate::select::quantiles;
use crate::summary::{Magnitude, Summary};
use crate::table::as_in_file;
use crate::verdict;

#[derive(Clone, Debug)]
pub struct RunSummary {
    /// Display name of the run.
    pub run: String,
    pub sub_experiment: String,
    pub summary: Summary,
}

/// Sub-experiment, or one of its payloads, that only some runs have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    pub sub_experiment: String,
    /// `None` if the whole sub-experiment is missing.
    pub bytes: Option<Bytes>,
    /// Names of the runs without it.
    pub missing_in: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Derived {
    /// Sorted by first appearance of sub-experiment and payload.
    pub requirements: Requirements,
    pub gaps: Vec<Gap>,
}

/// Percentile over the runs that becomes the limit.
///
/// # Source
/// The latency test specification of eProsima's Fast RTPS.
pub const PERCENTILE: f64 = 99.0;

/// Minimum number of runs for a [`PERCENTILE`] limit. With fewer, a single run above its limit is already more than 1 %
/// of the runs.
pub const FEWEST_RUNS: usize = 100;

/// Requirements: the 99th percentile, over the runs, of their median, 99th percentile and maximum. `runs` are the names
/// of all runs. An error names a figure that is not a number, with its run, sub-experiment and payload.
///
/// # Source
/// `latency_determine_requirements.py` of eProsima's benchmarking.
pub fn limits(runs: &[String], summaries: &[RunSummary]) -> Result<Derived, String> {
    let mut derived = Derived { requirements: Requirements::default(), gaps: Vec::new() };
    for name in distinct(summaries.iter().map(|one| &one.sub_experiment)) {
        let of_name: Vec<_> = summaries.iter().filter(|one| one.sub_experiment == *name).collect();
        let missing_in = |has: &dyn Fn(&RunSummary) -> bool| -> Vec<String> {
            let has_run = |run: &String| of_name.iter().any(|one| one.run == *run && has(one));
            runs.iter().filter(|run| !has_run(run)).cloned().collect()
        };
        let without = missing_in(&|_| true);
        for bytes in distinct(of_name.iter().flat_map(|one| one.summary.rows.iter().map(|row| &row.bytes))) {
            let missing_in: Vec<_> = missing_in(&|one| one.summary.row(bytes).is_some())
                .into_iter()
                .filter(|run| !without.contains(run))
                .collect();
            if !missing_in.is_empty() {
                derived.gaps.push(Gap { sub_experiment: name.clone(), bytes: Some(bytes.clone()), missing_in });
            }
            derived.requirements.rows.push(requirement(&of_name, name, bytes)?);
        }
        if !without.is_empty() {
            derived.gaps.push(Gap { sub_experiment: name.clone(), bytes: None, missing_in: without });
        }
    }
    Ok(derived)
}

/// Figure of a run that exceeds its limit.
#[derive(Clone, Debug, PartialEq)]
pub struct BrokenLimit<'a> {
    pub run: &'a str,
    pub sub_experiment: &'a str,
    pub row: CheckRow,
}

/// Figures that exceed their limit as written in a file, in the order of the summaries. Missing figures are ignored.
pub fn broken<'a>(requirements: &Requirements, summaries: &'a [RunSummary]) -> Vec<BrokenLimit<'a>> {
    let mut found = Vec::new();
    for RunSummary { run, sub_experiment, summary } in summaries {
        let limits: Vec<_> = requirements.for_sub_experiment(sub_experiment).collect();
        for row in verdict::check(&limits, summary).rows {
            let row = CheckRow { requirement: as_in_file(row.requirement), ..row };
            if row.experiment.is_some() && !row.passed() {
                found.push(BrokenLimit { run, sub_experiment, row });
            }
        }
    }
    found
}

fn requirement(of_name: &[&RunSummary], name: &str, bytes: &Bytes) -> Result<Requirement, String> {
    let limit = |magnitude: Magnitude| {
        let mut values = Vec::with_capacity(of_name.len());
        for one in of_name {
            let Some(value) = one.summary.row(bytes).map(|row| magnitude.value_in(row)) else { continue };
            if !value.is_finite() {
                let (run, column) = (&one.run, magnitude.column());
                return Err(format!(
                    "run '{run}': {column} of '{name}' at {bytes} bytes is {value}; leave that run out"
                ));
            }
            values.push(value);
        }
        Ok(quantiles(&mut values, [PERCENTILE / 100.0])[0])
    };
    let [median, p99, max] = [Magnitude::Median, Magnitude::P99, Magnitude::Max].map(limit);
    Ok(Requirement { sub_experiment: name.to_owned(), bytes: bytes.clone(), median: median?, p99: p99?, max: max? })
}

/// Distinct values, in order of first appearance.
fn distinct<'a, T: PartialEq>(values: impl Iterator<Item = &'a T>) -> Vec<&'a T> {
    let mut found = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::summary;

    fn run(run: &str, name: &str, rows: &[(u64, [f64; 3])]) -> RunSummary {
        RunSummary { run: run.to_owned(), sub_experiment: name.to_owned(), summary: summary(rows) }
    }

    #[test]
    fn five_medians_make_a_limit_between_the_two_largest() {
        let names: Vec<String> = (1..=5).map(|number| number.to_string()).collect();
        let runs: Vec<_> =
            names.iter().map(|name| run(name, "a", &[(16, [name.parse().unwrap(), 2.0, 3.0])])).collect();
        let derived = limits(&names, &runs).unwrap();
        let row = &derived.requirements.rows[0];
        assert_eq!((format!("{:.3}", row.median), row.p99, row.max), ("4.960".to_owned(), 2.0, 3.0));
        assert_eq!(derived.gaps, []);
        // With few runs the largest value exceeds the limit derived from it.
        let broken: Vec<_> = broken(&derived.requirements, &runs).iter().map(|one| (one.run, one.row.check)).collect();
        assert_eq!(broken, [("5", Magnitude::Median)]);
    }

    #[test]
    fn what_some_runs_lack_is_said() {
        let runs = [
            run("1", "a", &[(64, [1.0; 3]), (16, [1.0; 3])]),
            run("2", "a", &[(64, [2.0; 3])]),
            run("3", "b", &[(16, [1.0; 3])]),
        ];
        let names = ["1", "2", "3"].map(str::to_owned);
        let derived = limits(&names, &runs).unwrap();
        let rows: Vec<_> =
            derived.requirements.rows.iter().map(|row| (row.sub_experiment.as_str(), row.bytes.text())).collect();
        assert_eq!(rows, [("a", "64"), ("a", "16"), ("b", "16")]);
        let gap = |name: &str, bytes: Option<u64>, missing: &[&str]| Gap {
            sub_experiment: name.to_owned(),
            bytes: bytes.map(Bytes::from),
            missing_in: missing.iter().map(|&run| run.to_owned()).collect(),
        };
        assert_eq!(derived.gaps, [gap("a", Some(16), &["2"]), gap("a", None, &["3"]), gap("b", None, &["1", "2"])]);
    }

    #[test]
    fn a_figure_that_is_no_number_is_an_error() {
        let runs = [run("r7", "a", &[(16, [f64::NAN, 1.0, 1.0])])];
        let told = limits(&["r7".to_owned()], &runs).unwrap_err();
        assert!(told.contains("run 'r7': Median of 'a' at 16 bytes is NaN"), "{told}");
    }
}

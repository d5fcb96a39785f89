//! Requirements from many runs.

use crate::verdict;
use tripmeter_model::bytes::Bytes;
use tripmeter_model::check::{Check, CheckRow};
use tripmeter_model::requirements::{Requirement, Requirements};
use tripmeter_model::summary::Summary;
use tripmeter_model::table::as_in_file;

/// The summary of one sub-experiment in one run.
#[derive(Clone, Debug)]
pub struct RunSummary {
    /// Name of the run; for people.
    pub run: String,
    /// Name of the sub-experiment.
    pub sub_experiment: String,
    /// Its figures.
    pub summary: Summary,
}

/// A sub-experiment, or one of its payloads, that some runs have and others do not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Name of the sub-experiment.
    pub sub_experiment: String,
    /// The payload; none if the whole sub-experiment is missing.
    pub bytes: Option<Bytes>,
    /// Names of the runs without it.
    pub missing_in: Vec<String>,
}

/// Requirements made of runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Derived {
    /// In the order of first appearance, of sub-experiments and of payloads.
    pub requirements: Requirements,
    /// What is missing in some runs.
    pub gaps: Vec<Gap>,
}

/// The `p` quantile, over all runs that have it, of each run's median, 99th percentile and maximum. `runs` are the names
/// of all of them. Limits have three decimals in their file, so figures with more are rounded first, towards the worse:
/// a run alone meets the limits made of it.
///
/// # Errors
/// The run, sub-experiment and payload of a figure that is not a number.
///
/// # Panics
/// If `p` is outside 0 to 1.
///
/// # Source
/// `latency_determine_requirements.py` of eProsima's benchmarking: `numpy.percentile` with p = 0.99.
pub fn limits(runs: &[String], summaries: &[RunSummary], p: f64) -> Result<Derived, String> {
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
            derived.requirements.rows.push(requirement(&of_name, name, bytes, p)?);
        }
        if !without.is_empty() {
            derived.gaps.push(Gap { sub_experiment: name.clone(), bytes: None, missing_in: without });
        }
    }
    Ok(derived)
}

/// A figure of a run that is beyond its limit.
#[derive(Clone, Debug, PartialEq)]
pub struct BrokenLimit<'a> {
    /// The run.
    pub run: &'a str,
    /// Name of the sub-experiment.
    pub sub_experiment: &'a str,
    /// The figure and its limit.
    pub row: CheckRow,
}

/// Every figure of the runs that is beyond its limit as it stands in a file, in the order of the summaries. What a run
/// lacks is not among them.
pub fn broken<'a>(requirements: &Requirements, summaries: &'a [RunSummary]) -> Vec<BrokenLimit<'a>> {
    let mut found = Vec::new();
    for RunSummary { run, sub_experiment, summary } in summaries {
        let limits: Vec<_> = requirements.of(sub_experiment).collect();
        for row in verdict::check(&limits, summary).rows {
            let row = CheckRow { requirement: as_in_file(row.requirement), ..row };
            if row.experiment.is_some() && !row.passed() {
                found.push(BrokenLimit { run, sub_experiment, row });
            }
        }
    }
    found
}

/// The fewest runs of which a figure's largest, one alone, is no larger share than the `percentile` leaves above its limit;
/// with fewer, more runs fail their own limits than it says. `None`: at 100 none is above it.
///
/// # Panics
/// If `percentile` is outside 0 to 100.
pub fn fewest_runs(percentile: f64) -> Option<u64> {
    assert!((0.0..=100.0).contains(&percentile), "{percentile} is no percentile");
    // 100 / (100 - 99.9) is a little more than 1000.
    const SLACK: f64 = 1e-6;
    (percentile < 100.0).then(|| (100.0 / (100.0 - percentile) - SLACK).ceil() as u64)
}

/// The limits of one payload.
fn requirement(of_name: &[&RunSummary], name: &str, bytes: &Bytes, p: f64) -> Result<Requirement, String> {
    let mut limits = [0.0; Check::ALL.len()];
    for (limit, check) in limits.iter_mut().zip(Check::ALL) {
        *limit = limit_of(of_name, bytes, check, p)?.unwrap_or(f64::NAN);
    }
    let has_more = of_name.iter().filter_map(|one| one.summary.row(bytes)).any(|row| row.more.is_some());
    let mut more = [None; Check::MORE.len()];
    for (limit, check) in more.iter_mut().zip(Check::MORE).filter(|_| has_more) {
        *limit = limit_of(of_name, bytes, check, p)?;
    }
    let [median, p99, max] = limits;
    Ok(Requirement { sub_experiment: name.to_owned(), bytes: bytes.clone(), median, p99, max, more })
}

/// The limit of one figure; `None` if no run has it. Of what is better if there is more it is the quantile as far from the
/// other end.
fn limit_of(of_name: &[&RunSummary], bytes: &Bytes, check: Check, p: f64) -> Result<Option<f64>, String> {
    let mut values = Vec::with_capacity(of_name.len());
    for one in of_name {
        let Some(value) = one.summary.row(bytes).and_then(|row| check.magnitude().get(row)) else { continue };
        let value = towards_worse(value, check);
        if !value.is_finite() {
            let (run, name, check) = (&one.run, &one.sub_experiment, check.name());
            return Err(format!("run '{run}': {check} of '{name}' at {bytes} bytes is {value}; leave that run out"));
        }
        values.push(value);
    }
    if values.is_empty() {
        return Ok(None);
    }
    values.sort_unstable_by(f64::total_cmp);
    let position = if check.is_lower_limit() { 1.0 - p } else { p } * (values.len() - 1) as f64;
    let (below, above) = (values[position.floor() as usize], values[position.ceil() as usize]);
    Ok(Some(below + (above - below) * position.fract()))
}

/// The figure with three decimals that is nearest to this one without being better.
fn towards_worse(value: f64, check: Check) -> f64 {
    const LAST_DECIMAL: f64 = 0.001;
    let nearest = as_in_file(value);
    match check.is_lower_limit() {
        true if nearest > value => as_in_file(nearest - LAST_DECIMAL),
        false if nearest < value => as_in_file(nearest + LAST_DECIMAL),
        _ => nearest,
    }
}

/// Each value once, in the order of first appearance.
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
    use tripmeter_model::summary::More;

    fn run(run: &str, name: &str, rows: &[(u64, [f64; 3])]) -> RunSummary {
        RunSummary { run: run.to_owned(), sub_experiment: name.to_owned(), summary: summary(rows) }
    }

    #[test]
    fn five_medians_make_a_limit_between_the_two_largest() {
        let names: Vec<String> = (1..=5).map(|number| number.to_string()).collect();
        let runs: Vec<_> =
            names.iter().map(|name| run(name, "a", &[(16, [name.parse().unwrap(), 2.0, 3.0])])).collect();
        let derived = limits(&names, &runs, 0.99).unwrap();
        let row = &derived.requirements.rows[0];
        assert_eq!((format!("{:.3}", row.median), row.p99, row.max), ("4.960".to_owned(), 2.0, 3.0));
        assert_eq!(derived.gaps, []);
        assert_eq!(limits(&names, &runs, 0.0).unwrap().requirements.rows[0].median, 1.0);
        assert_eq!(limits(&names, &runs, 1.0).unwrap().requirements.rows[0].median, 5.0);
    }

    #[test]
    fn of_few_runs_the_largest_is_beyond_its_own_limit() {
        let names: Vec<String> = (1..=5).map(|number| number.to_string()).collect();
        let runs: Vec<_> =
            names.iter().map(|name| run(name, "a", &[(16, [name.parse().unwrap(), 2.0, 3.0004])])).collect();
        let broken_at = |p: f64| {
            let requirements = limits(&names, &runs, p).unwrap().requirements;
            let broken = broken(&requirements, &runs);
            broken.iter().map(|one| (one.run, one.row.check, one.row.experiment)).collect::<Vec<_>>()
        };
        assert_eq!(broken_at(0.99), [("5", Check::Median, Some(5.0))]);
        assert_eq!(broken_at(0.5), [("4", Check::Median, Some(4.0)), ("5", Check::Median, Some(5.0))]);
        assert_eq!(broken_at(1.0), []);
    }

    #[test]
    fn the_fewest_runs_are_those_of_which_one_is_what_the_percentile_leaves() {
        let fewest = [0.0, 50.0, 90.0, 99.0, 99.9, 100.0].map(fewest_runs);
        assert_eq!(fewest, [Some(1), Some(2), Some(10), Some(100), Some(1000), None]);
    }

    #[test]
    fn a_limit_of_rates_is_as_far_from_the_other_end() {
        let names: Vec<String> = (1..=5).map(|number| number.to_string()).collect();
        let of = |name: &String| {
            let mut made = run(name, "a", &[(16, [1.0; 3])]);
            let value: f64 = name.parse().unwrap();
            let more = More { loss_percent: Some(value), rate_hz: Some(100.0 * value), ..More::default() };
            made.summary.rows[0].more = Some(more);
            made
        };
        let runs: Vec<_> = names.iter().map(of).collect();
        let more = |p: f64| {
            let row = &limits(&names, &runs, p).unwrap().requirements.rows[0];
            [Check::Loss, Check::Rate].map(|check| row.limit(check).unwrap())
        };
        assert_eq!((more(1.0), more(0.75), more(0.0)), ([5.0, 100.0], [4.0, 200.0], [1.0, 500.0]));
    }

    #[test]
    fn a_run_meets_limits_made_of_it_alone_whatever_its_decimals() {
        let mut one = run("1", "a", &[(16, [1.000_4, 1.000_6, 1.001])]);
        let more = More { loss_percent: Some(0.0004), rate_hz: Some(999.999_6), qps: Some(0.000_4), ..More::default() };
        one.summary.rows[0].more = Some(more);
        let runs = [one];
        for p in [0.0, 0.5, 0.99, 1.0] {
            let requirements = limits(&["1".to_owned()], &runs, p).unwrap().requirements;
            let row = &requirements.rows[0];
            let found = [Check::Median, Check::P99, Check::Max, Check::Loss, Check::Rate, Check::Qps];
            assert_eq!(found.map(|check| row.limit(check).unwrap()), [1.001, 1.001, 1.001, 0.001, 999.999, 0.0]);
            assert_eq!(broken(&requirements, &runs), []);
            // Limits are what their file says.
            let in_file = String::from_utf8(requirements.to_csv()).unwrap();
            assert!(
                in_file.contains("a,16,1.001,1.001,1.001,") && in_file.contains(",0.001,999.999,0.000"),
                "{in_file}"
            );
        }
        // Without a loss the limit is none, and the smallest one breaks it.
        let mut none = run("2", "a", &[(16, [1.0; 3])]);
        none.summary.rows[0].more = Some(More { loss_percent: Some(0.0), ..More::default() });
        let requirements = limits(&["2".to_owned()], &[none], 1.0).unwrap().requirements;
        let checks: Vec<Check> = broken(&requirements, &runs).iter().map(|one| one.row.check).collect();
        assert_eq!(checks, [Check::Median, Check::P99, Check::Max, Check::Mean, Check::Loss]);
    }

    #[test]
    fn what_some_runs_lack_is_said() {
        let runs = [
            run("1", "a", &[(64, [1.0; 3]), (16, [1.0; 3])]),
            run("2", "a", &[(64, [2.0; 3])]),
            run("3", "b", &[(16, [1.0; 3])]),
        ];
        let names = ["1", "2", "3"].map(str::to_owned);
        let derived = limits(&names, &runs, 0.99).unwrap();
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
        let told = limits(&["r7".to_owned()], &runs, 0.99).unwrap_err();
        assert!(told.contains("run 'r7': Median of 'a' at 16 bytes is NaN"), "{told}");
    }
}

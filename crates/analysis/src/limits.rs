//! Limits that are computed from many runs.

use crate::check::CheckedLimit;
use crate::results::{JudgedResults, differences_of_workloads};
use crate::selection::{Selected, Selection, missing};
use std::collections::HashMap;
use tripmeter_model::address::FigureAddress;
use tripmeter_model::figure::Better;
use tripmeter_model::group::by_key;
use tripmeter_model::limits::{FigureLimits, Limit};
use tripmeter_model::pace::OfferedLoad;
use tripmeter_stats::quantile_of;

/// Figures of one run.
#[derive(Clone, Debug)]
pub struct LimitRun {
    /// Name of the run, for messages.
    pub name: String,
    /// Figures with their values in this run.
    pub figures: Vec<Selected>,
}

impl LimitRun {
    /// Trusted figures of each round of the results called `name`. Omits rows whose rate was missed, because they
    /// measure another load.
    pub fn from_results(name: &str, results: &JudgedResults, selection: &Selection) -> Vec<Self> {
        let table = results.trusted();
        let selected = selection.select(&table);
        let missed: Vec<(&str, u64, OfferedLoad, u32)> = table
            .all_rows()
            .flat_map(|row| {
                let rounds = table.trials(row).iter().filter(|(_, trial)| trial.rate_missed).map(|(round, _)| *round);
                rounds.map(|round| (table.sub(row), row.payload_bytes, table.load(row), round)).collect::<Vec<_>>()
            })
            .collect();
        let is_offered = |FigureAddress { sub_experiment, payload_bytes, load, .. }: &FigureAddress, round: u32| {
            !missed.contains(&(&**sub_experiment, *payload_bytes, *load, round))
        };
        let rounds = results.manifest.plan.rounds;
        let of_round = |round: u32| {
            let figure = |one: &Selected| {
                let value = one.rounds.iter().find(|(of, _)| *of == round && is_offered(&one.address, round))?.1;
                Some(Selected { value, ..one.clone() })
            };
            let name = if rounds > 1 { format!("{name}/round-{round:02}") } else { name.to_owned() };
            Self { name, figures: selected.iter().filter_map(figure).collect() }
        };
        // A folder with a single round may have another number than 1.
        let mut numbers: Vec<u32> = results.manifest.sub_experiments.iter().map(|result| result.round).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.into_iter().map(of_round).collect()
    }
}

/// Fails if a sub-experiment has different topologies in two runs.
///
/// # Errors
/// Name of the sub-experiment and the difference, in one line.
pub fn refuse_other_workloads([(first, known), (name, results)]: [(&str, &JudgedResults); 2]) -> Result<(), String> {
    for plan in &results.manifest.plan.sub_experiments {
        let Some(before) = known.plan(&plan.name) else { continue };
        if let Some((what, one, other)) = differences_of_workloads(before, plan).first() {
            return Err(format!(
                "'{}' mixes runs: '{first}' was measured with {what} {one}, '{name}' with {other}; keep them in \
                 different folders",
                plan.name
            ));
        }
    }
    Ok(())
}

/// Item that some runs lack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunGap {
    /// Name of a sub-experiment, of one of its payloads, or of a figure, from [`crate::selection::missing`].
    pub what: String,
    /// Names of the runs that lack the item.
    pub missing_in: Vec<String>,
}

/// Limits computed from runs.
#[derive(Clone, Debug, PartialEq)]
pub struct DerivedLimits {
    /// Limits in order of first appearance.
    pub limits: FigureLimits,
    /// Items missing in some runs.
    pub gaps: Vec<RunGap>,
}

impl DerivedLimits {
    /// Limits at the `p` quantile of each figure over the runs that have it; the `1-p` quantile where higher is better.
    ///
    /// # Errors
    /// Run and address of a figure that is not finite.
    ///
    /// # Panics
    /// If `p` is outside 0 to 1.
    pub fn from_runs(runs: &[LimitRun], p: f64) -> Result<Self, String> {
        let mut all: Vec<Selected> = Vec::new();
        let mut values: HashMap<&FigureAddress, Vec<f64>> = HashMap::new();
        for (run, one) in runs.iter().flat_map(|run| run.figures.iter().map(move |one| (run, one))) {
            let Selected { address, value, .. } = one;
            if !value.is_finite() {
                return Err(format!("run '{}': {address} is {value}; leave that run out", run.name));
            }
            let known = values.entry(address).or_default();
            if known.is_empty() {
                all.push(one.clone());
            }
            known.push(*value);
        }
        let limit = |Selected { address, .. }: &Selected| {
            let p = if address.figure.better() == Better::Higher { 1.0 - p } else { p };
            Some(Limit { address: address.clone(), limit: quantile_of(&values[address], p)? })
        };
        Ok(Self { limits: FigureLimits { rows: all.iter().filter_map(limit).collect() }, gaps: gaps(runs, &all) })
    }

    /// Figures in the runs that are beyond their limits, with the name of the run; missing figures are ignored.
    pub fn broken<'a>(&self, runs: &'a [LimitRun]) -> Vec<(&'a str, CheckedLimit)> {
        let limits: HashMap<&FigureAddress, &Limit> =
            self.limits.rows.iter().map(|limit| (&limit.address, limit)).collect();
        let of_run = |run: &'a LimitRun| {
            let checked = |one: &Selected| {
                let limit = (*limits.get(&one.address)?).clone();
                // Limits were computed from values without their errors.
                Some(CheckedLimit { limit, value: Some(one.value), error: 0.0, needs: None })
            };
            let broken = run.figures.iter().filter_map(checked).filter(|one| !one.passed());
            broken.map(|one| (run.name.as_str(), one)).collect::<Vec<_>>()
        };
        runs.iter().flat_map(of_run).collect()
    }
}

fn gaps(runs: &[LimitRun], all: &[Selected]) -> Vec<RunGap> {
    let gaps = runs.iter().flat_map(|run| {
        let missing = missing(all, &run.figures).into_iter();
        missing.map(move |what| (what, run.name.clone()))
    });
    by_key(gaps).into_iter().map(|(what, missing_in)| RunGap { what, missing_in }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::tests::limit;
    use tripmeter_model::figure::{Figure, Statistic};

    const MEDIAN: (Figure, Statistic) = (Figure::RttHalf, Statistic::P50);
    const RATE: (Figure, Statistic) = (Figure::ReceivedRate, Statistic::Value);

    fn run(name: &str, figures: &[(&str, u64, (Figure, Statistic), f64)]) -> LimitRun {
        let selected = |&(sub, bytes, kind, value): &(&str, u64, (Figure, Statistic), f64)| {
            let address = limit(sub, bytes, kind, 0.0).address;
            Selected { address, rounds: vec![(1, value)], value, error: 0.0, needs: None }
        };
        LimitRun { name: name.to_owned(), figures: figures.iter().map(selected).collect() }
    }

    #[test]
    fn five_medians_make_a_limit_between_the_two_largest() {
        let runs: Vec<LimitRun> = (1..=5)
            .map(|at: u32| {
                let value = f64::from(at);
                run(&at.to_string(), &[("a", 16, MEDIAN, value), ("a", 16, RATE, 100.0 * value)])
            })
            .collect();
        let at = |p: f64| {
            DerivedLimits::from_runs(&runs, p).unwrap().limits.rows.iter().map(|row| row.limit).collect::<Vec<_>>()
        };
        assert_eq!((at(0.99)[0] * 1000.0).round(), 4960.0);
        assert_eq!((at(0.0), at(1.0), at(0.75)), (vec![1.0, 500.0], vec![5.0, 100.0], vec![4.0, 200.0]));
        let broken_at = |p: f64| {
            let derived = DerivedLimits::from_runs(&runs, p).unwrap();
            derived.broken(&runs).iter().map(|(run, one)| ((*run).to_owned(), one.value)).collect::<Vec<_>>()
        };
        assert_eq!(broken_at(0.99), [("1".to_owned(), Some(100.0)), ("5".to_owned(), Some(5.0))]);
        assert_eq!(broken_at(1.0), []);
    }

    #[test]
    fn a_run_meets_limits_made_of_it_alone_whatever_its_decimals() {
        let runs = [run("1", &[("a", 16, MEDIAN, 999.000_4), ("a", 16, RATE, 999.999_6)])];
        for p in [0.0, 0.5, 0.99, 1.0] {
            assert_eq!(DerivedLimits::from_runs(&runs, p).unwrap().broken(&runs), []);
        }
    }

    #[test]
    fn what_some_runs_lack_is_said() {
        let runs = [
            run("1", &[("a", 64, MEDIAN, 1.0), ("a", 16, MEDIAN, 1.0)]),
            run("2", &[("a", 64, MEDIAN, 2.0)]),
            run("3", &[("b", 16, MEDIAN, 1.0)]),
        ];
        let derived = DerivedLimits::from_runs(&runs, 0.99).unwrap();
        let told: Vec<String> = derived.limits.rows.iter().map(|row| row.address.to_string()).collect();
        assert_eq!(told, ["a at 64: rtt_half_ns.p50", "a at 16: rtt_half_ns.p50", "b at 16: rtt_half_ns.p50"]);
        let gap = |what: &str, missing: &[&str]| RunGap {
            what: what.to_owned(),
            missing_in: missing.iter().map(|&run| run.to_owned()).collect(),
        };
        assert_eq!(derived.gaps, [gap("b", &["1", "2"]), gap("a at 16", &["2"]), gap("a", &["3"])]);
    }

    #[test]
    fn a_figure_that_is_no_number_is_an_error() {
        let told = DerivedLimits::from_runs(&[run("r7", &[("a", 16, MEDIAN, f64::NAN)])], 0.99).unwrap_err();
        assert!(told.contains("run 'r7': a at 16: rtt_half_ns.p50 is NaN"), "{told}");
    }
}

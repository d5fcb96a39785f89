//! Limits that a clean run breaks anywhere with a bounded probability.
//!
//! Each limit is a high percentile of a figure over many runs, so one of hundreds is broken by most clean runs. Here all
//! limits of a kind (medians, 99th percentiles, maxima, ...) are loosened alike, from runs that the limits were not made of:
//! of each run only its worst figure of that kind counts. If a new run is like them, its rank among them is any with equal
//! probability, so that it is above the k-th smallest of n with probability 1 - k / (n + 1) at most, whatever depends on
//! what. Each kind that there are limits of has an equal share of the rate.
//!
//! Limits are multiplied, and those of rates divided, by a factor; to those of losses, which may be 0, something is added.
//!
//! # Source
//! Split conformal prediction, e.g. Vovk, Gammerman and Shafer (2005), "Algorithmic Learning in a Random World".

use crate::verdict::ExperimentCheck;
use tripmeter_model::check::{Check, CheckRow};
use tripmeter_model::requirements::{Requirement, Requirements};

/// How much limits of each kind are loosened.
#[derive(Clone, Debug, PartialEq)]
pub struct Factors(pub Vec<(Check, f64)>);

/// The kinds that there are limits of.
pub fn kinds(requirements: &Requirements) -> Vec<Check> {
    Check::ALL.into_iter().chain(requirements.more()).collect()
}

/// How many runs factors for this rate and so many kinds need: 59 for 0.05 and 3.
pub fn fewest_runs(rate: f64, kinds: usize) -> usize {
    (kinds as f64 / rate - 1.0 - 1e-9).ceil() as usize
}

/// The factors at which a run like these breaks a limit with a probability of `rate` at most; `None` if there are fewer than
/// [`fewest_runs`].
///
/// # Panics
/// If `rate` is not between 0 and 1.
pub fn factors(runs: &[ExperimentCheck], kinds: &[Check], rate: f64) -> Option<Factors> {
    assert!(rate > 0.0 && rate < 1.0, "a rate is between 0 and 1");
    if runs.len() < fewest_runs(rate, kinds.len()) {
        return None;
    }
    let place = ((1.0 - rate / kinds.len() as f64) * (runs.len() + 1) as f64 - 1e-9).ceil() as usize;
    let factor = |check: Check| {
        let mut largest: Vec<f64> = runs.iter().map(|run| largest_excess(run, check)).collect();
        largest.sort_unstable_by(f64::total_cmp);
        largest[place - 1].max(no_change(check))
    };
    Some(Factors(kinds.iter().map(|&check| (check, factor(check))).collect()))
}

/// True if limits of a kind are loosened by adding something to them.
pub fn is_added(check: Check) -> bool {
    check == Check::Loss
}

/// What leaves limits of a kind as they are.
fn no_change(check: Check) -> f64 {
    if is_added(check) { 0.0 } else { 1.0 }
}

/// How much limits of a kind must be loosened for a run to pass; 0 if there are none.
fn largest_excess(run: &ExperimentCheck, check: Check) -> f64 {
    let rows = run.checked.iter().flat_map(|one| &one.report.rows).filter(|row| row.check == check);
    let excess = |row: &CheckRow| {
        let experiment = row.experiment?;
        let excess = match check {
            _ if is_added(check) => experiment - row.requirement,
            _ if check.is_lower_limit() => row.requirement / experiment,
            _ => experiment / row.requirement,
        };
        (!excess.is_nan()).then_some(excess)
    };
    rows.filter_map(excess).fold(0.0, f64::max)
}

impl Factors {
    /// The limits, loosened.
    pub fn applied(&self, requirements: &Requirements) -> Requirements {
        let loosened = |check: Check, limit: f64| match self.0.iter().find(|(known, _)| *known == check) {
            Some((_, more)) if is_added(check) => limit + more,
            Some((_, factor)) if check.is_lower_limit() => limit / factor,
            Some((_, factor)) => limit * factor,
            None => limit,
        };
        let row = |row: &Requirement| {
            let mut more = row.more;
            for (limit, check) in more.iter_mut().zip(Check::MORE) {
                *limit = limit.map(|limit| loosened(check, limit));
            }
            Requirement {
                median: loosened(Check::Median, row.median),
                p99: loosened(Check::P99, row.p99),
                max: loosened(Check::Max, row.max),
                more,
                ..row.clone()
            }
        };
        Requirements { rows: requirements.rows.iter().map(row).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{limit, summary};
    use crate::verdict::Measured;
    use tripmeter_model::summary::More;

    fn run(requirements: &Requirements, figures: &[f64]) -> ExperimentCheck {
        let rows: Vec<(u64, [f64; 3])> = (1..).zip(figures).map(|(bytes, &figure)| (bytes, [figure; 3])).collect();
        ExperimentCheck::new(
            requirements,
            &[Measured { name: "uds".to_owned(), summary: summary(&rows), distrust: None }],
        )
    }

    fn requirements(payloads: u64) -> Requirements {
        Requirements { rows: (1..=payloads).map(|bytes| limit("uds", bytes, [1.0; 3])).collect() }
    }

    #[test]
    fn factors_are_ranks_of_the_largest_shares() {
        let requirements = requirements(2);
        let runs: Vec<ExperimentCheck> =
            (1..=59).map(|index| run(&requirements, &[0.5, f64::from(index) / 10.0])).collect();
        let factors = |runs: &[ExperimentCheck], rate| factors(runs, &Check::ALL, rate);
        let alike = |factor: f64| Some(Factors(Check::ALL.map(|check| (check, factor)).into()));
        assert_eq!((fewest_runs(0.05, 3), factors(&runs[..58], 0.05)), (59, None));
        assert_eq!(factors(&runs, 0.05), alike(5.9));
        assert_eq!(factors(&runs, 0.5), alike(5.0));
        assert_eq!(factors(&runs[..59], 0.999), alike(4.1));
        let larger = Factors(vec![(Check::Median, 2.0), (Check::P99, 3.0), (Check::Max, 4.0)]).applied(&requirements);
        assert_eq!((larger.rows[1].median, larger.rows[1].p99, larger.rows[1].max), (2.0, 3.0, 4.0));
    }

    #[test]
    fn losses_are_loosened_by_a_sum_and_rates_downwards() {
        let mut limits = requirements(1);
        limits.rows[0].more = [None, None, Some(0.0), Some(1000.0), None];
        assert_eq!(kinds(&limits)[3..], [Check::Loss, Check::Rate]);
        let with = |loss: f64, rate: f64| {
            let mut summary = summary(&[(1, [1.0; 3])]);
            summary.rows[0].more = Some(More { loss_percent: Some(loss), rate_hz: Some(rate), ..More::default() });
            ExperimentCheck::new(&limits, &[Measured { name: "uds".to_owned(), summary, distrust: None }])
        };
        let runs: Vec<ExperimentCheck> = (1..=99).map(|index| with(f64::from(index) / 10.0, 800.0)).collect();
        let factors = factors(&runs, &kinds(&limits), 0.05).unwrap();
        assert_eq!(factors.0[3..], [(Check::Loss, 9.9), (Check::Rate, 1.25)]);
        assert_eq!(factors.applied(&limits).rows[0].more, [None, None, Some(9.9), Some(800.0), None]);
    }

    /// With 100 limits at the 99th percentile most clean runs break one; with factors at most 5 % of them do.
    #[test]
    fn a_clean_run_breaks_a_limit_as_seldom_as_asked_for() {
        let mut random = fastrand::Rng::with_seed(11);
        let (mut alone, mut together) = (0, 0);
        let trials = 300;
        for _ in 0..trials {
            let mut figures = || {
                let pace = 1.0 + 0.05 * random.f64();
                (0..100).map(|_| pace * (1.0 + 0.1 * random.f64().powi(3))).collect::<Vec<f64>>()
            };
            let base: Vec<Vec<f64>> = (0..100).map(|_| figures()).collect();
            let limit_of = |payload: usize| {
                let mut values: Vec<f64> = base.iter().map(|run| run[payload]).collect();
                values.sort_unstable_by(f64::total_cmp);
                values[98]
            };
            let rows = (1..=100).map(|bytes| limit("uds", bytes, [limit_of(bytes as usize - 1); 3])).collect();
            let requirements = Requirements { rows };
            let runs: Vec<ExperimentCheck> = (0..100).map(|_| run(&requirements, &figures())).collect();
            let factors = factors(&runs, &Check::ALL, 0.05).unwrap();
            let new = figures();
            alone += run(&requirements, &new).failing(false);
            together += run(&factors.applied(&requirements), &new).failing(false);
        }
        assert!(alone > trials / 3, "{alone}");
        // 5 % of 300 and three standard deviations.
        assert!(together <= 15 + 12, "{together}");
    }
}

//! Limits that a clean run breaks anywhere with a bounded probability.
//!
//! Each limit is a high percentile of a figure over many runs, so one of hundreds is broken by most clean runs. Here all
//! limits of a kind (medians, 99th percentiles, maxima) are made larger by one factor, from runs that the limits were not
//! made of: of each only its largest figure / limit counts. If a new run is like them, its rank among them is any with equal
//! probability, so that it is above the k-th smallest of n with probability 1 - k / (n + 1) at most, whatever depends on
//! what. Each kind has a third of the rate.
//!
//! # Source
//! Split conformal prediction, e.g. Vovk, Gammerman and Shafer (2005), "Algorithmic Learning in a Random World".

use crate::verdict::ExperimentCheck;
use tripmeter_model::check::{Check, CheckRow};
use tripmeter_model::requirements::{Requirement, Requirements};

/// What limits of each kind are multiplied with, in the order of [`Check::ALL`]; never below 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factors(pub [f64; 3]);

/// How many runs factors for this rate need: 59 for 0.05.
pub fn fewest_runs(rate: f64) -> usize {
    let kinds = Check::ALL.len() as f64;
    (kinds / rate - 1.0 - 1e-9).ceil() as usize
}

/// The factors at which a run like these breaks a limit with a probability of `rate` at most; `None` if there are fewer than
/// [`fewest_runs`].
///
/// # Panics
/// If `rate` is not between 0 and 1.
pub fn factors(runs: &[ExperimentCheck], rate: f64) -> Option<Factors> {
    assert!(rate > 0.0 && rate < 1.0, "a rate is between 0 and 1");
    if runs.len() < fewest_runs(rate) {
        return None;
    }
    let place = ((1.0 - rate / Check::ALL.len() as f64) * (runs.len() + 1) as f64 - 1e-9).ceil() as usize;
    let factor = |check: Check| {
        let mut largest: Vec<f64> = runs.iter().map(|run| largest_share(run, check)).collect();
        largest.sort_unstable_by(f64::total_cmp);
        largest[place - 1].max(1.0)
    };
    Some(Factors(Check::ALL.map(factor)))
}

/// The largest figure / limit of a kind in a run; 0 if there is none.
fn largest_share(run: &ExperimentCheck, check: Check) -> f64 {
    let rows = run.checked.iter().flat_map(|one| &one.report.rows).filter(|row| row.check == check);
    let share = |row: &CheckRow| match row.experiment? / row.requirement {
        share if share.is_nan() => None,
        share => Some(share),
    };
    rows.filter_map(share).fold(0.0, f64::max)
}

impl Factors {
    /// The limits times the factors.
    pub fn applied(&self, requirements: &Requirements) -> Requirements {
        let [median, p99, max] = self.0;
        let row = |row: &Requirement| Requirement {
            median: row.median * median,
            p99: row.p99 * p99,
            max: row.max * max,
            ..row.clone()
        };
        Requirements { rows: requirements.rows.iter().map(row).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{limit, summary};
    use crate::verdict::Measured;

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
        assert_eq!((fewest_runs(0.05), factors(&runs[..58], 0.05)), (59, None));
        assert_eq!(factors(&runs, 0.05), Some(Factors([5.9; 3])));
        assert_eq!(factors(&runs, 0.5), Some(Factors([5.0; 3])));
        assert_eq!(factors(&runs[..59], 0.999), Some(Factors([4.1; 3])));
        let larger = Factors([2.0, 3.0, 4.0]).applied(&requirements);
        assert_eq!((larger.rows[1].median, larger.rows[1].p99, larger.rows[1].max), (2.0, 3.0, 4.0));
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
            let factors = factors(&runs, 0.05).unwrap();
            let new = figures();
            alone += run(&requirements, &new).failing(false);
            together += run(&factors.applied(&requirements), &new).failing(false);
        }
        assert!(alone > trials / 3, "{alone}");
        // 5 % of 300 and three standard deviations.
        assert!(together <= 15 + 12, "{together}");
    }
}

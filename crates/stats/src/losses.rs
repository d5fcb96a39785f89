//! Confidence intervals of the shares of lost messages and failed calls.

use crate::Interval;
use crate::binomial::clopper_pearson;
use crate::order::median_interval;
use crate::rounds::ALPHA;

/// Events lost in a round, and events in all.
pub type Losses = (u64, u64);

/// Confidence interval at 95 % or more of a share, from 0 to 1; `None` if nothing was sent.
///
/// For one round, and where no round lost anything, it is Clopper and Pearson's of all rounds together. That assumes
/// independent losses: losses in bursts make it too narrow, also where it bounds a loss that was not seen.
///
/// Otherwise it spans the shares of all rounds. It contains the median of a round with a probability of at least
/// 1 - 2^(1 - rounds), whatever the distribution, and always the share of all rounds together. With fewer than six rounds
/// both ends are infinite.
///
/// # Source
/// Clopper and Pearson (1934), doi:10.1093/biomet/26.4.404; Hahn and Meeker, "Statistical Intervals", 5.3.
pub fn interval(rounds: &[Losses]) -> Option<Interval> {
    let rounds: Vec<Losses> = rounds.iter().filter(|(_, of)| *of > 0).map(|&(lost, of)| (lost.min(of), of)).collect();
    let (lost, of) = sum(&rounds);
    if of == 0 {
        return None;
    }
    if rounds.len() == 1 || lost == 0 {
        return Some(clopper_pearson(lost, of, ALPHA));
    }
    let shares: Vec<f64> = rounds.iter().map(|&(lost, of)| lost as f64 / of as f64).collect();
    if median_interval(&shares, ALPHA).is_none() {
        return Some(Interval { low: f64::NEG_INFINITY, high: f64::INFINITY });
    }
    let (low, high) = (shares.iter().copied().fold(1.0, f64::min), shares.iter().copied().fold(0.0, f64::max));
    Some(Interval { low, high })
}

/// All rounds together.
pub fn sum(rounds: &[Losses]) -> Losses {
    rounds.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_round_and_no_loss_are_bounded_as_if_independent() {
        assert_eq!(interval(&[]), None);
        assert_eq!(interval(&[(0, 0)]), None);
        for (rounds, lost, of) in [(&[(3, 1000)][..], 3, 1000), (&[(0, 500); 4], 0, 2000)] {
            assert_eq!(interval(rounds), Some(clopper_pearson(lost, of, ALPHA)));
        }
    }

    #[test]
    fn a_burst_in_one_of_six_rounds_is_in_the_interval_and_fewer_are_unbounded() {
        let mut rounds = [(0, 1000); 6];
        rounds[4] = (80, 1000);
        assert_eq!(interval(&rounds), Some(Interval { low: 0.0, high: 0.08 }));
        assert_eq!(interval(&rounds[1..]), Some(Interval { low: f64::NEG_INFINITY, high: f64::INFINITY }));
    }
}

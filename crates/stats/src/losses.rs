//! How far shares of lost messages and failed calls can be trusted.

use crate::binomial::rate_interval;
use crate::order::median_interval;
use crate::rounds::ALPHA;
use tripmeter_model::manifest::Counts;

/// How many were lost in a round, and of how many.
pub type Losses = (u64, u64);

/// What an interval of a share assumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossMethod {
    /// Clopper and Pearson's: each is lost independently. For one round, and where none lost any. Losses come in bursts:
    /// then it is too narrow, also where it bounds a loss that was not seen.
    Independent,
    /// From the smallest share of a round to the largest: rounds are independent, whatever happens within one.
    Rounds,
}

/// The interval of a share at 95 % or more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossInterval {
    /// What it assumes.
    pub method: LossMethod,
    /// Its ends, from 0 to 1; `None` with fewer than 6 rounds of which any lost something.
    pub interval: Option<[f64; 2]>,
}

/// The interval, at 95 % or more, of a share of which each round is told; `None` of nothing.
///
/// Of one round, and where nothing was lost at all, it is Clopper and Pearson's of all together, which assumes that each is
/// lost by itself. Otherwise it spans the shares of all rounds, which contains the median of a round with a probability of
/// 1 - 2^(1 - rounds) at least, whatever the distribution, and always the share of all together; with fewer than six
/// rounds there is none.
///
/// # Source
/// Clopper and Pearson (1934), doi:10.1093/biomet/26.4.404; Hahn and Meeker, "Statistical Intervals", 5.3.
pub fn interval(rounds: &[Losses]) -> Option<LossInterval> {
    let rounds: Vec<Losses> = rounds.iter().filter(|(_, of)| *of > 0).map(|&(lost, of)| (lost.min(of), of)).collect();
    let (lost, of) = sum(&rounds);
    if of == 0 {
        return None;
    }
    if rounds.len() == 1 || lost == 0 {
        let found = rate_interval(lost, of, ALPHA);
        return Some(LossInterval { method: LossMethod::Independent, interval: Some([found.low, found.high]) });
    }
    let shares: Vec<f64> = rounds.iter().map(|&(lost, of)| lost as f64 / of as f64).collect();
    let ends = [shares.iter().copied().fold(1.0, f64::min), shares.iter().copied().fold(0.0, f64::max)];
    Some(LossInterval { method: LossMethod::Rounds, interval: median_interval(&shares, ALPHA).map(|_| ends) })
}

/// All rounds together.
pub fn sum(rounds: &[Losses]) -> Losses {
    rounds.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

/// Messages that did not come in time and intact, and those that were sent.
pub fn gone(counts: &Counts) -> Losses {
    (counts.lost + counts.late + counts.damaged, counts.sent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_round_and_no_loss_are_bounded_as_if_independent() {
        assert_eq!(interval(&[]), None);
        assert_eq!(interval(&[(0, 0)]), None);
        let one = interval(&[(3, 1000)]).unwrap();
        let expected = rate_interval(3, 1000, ALPHA);
        assert_eq!(
            one,
            LossInterval { method: LossMethod::Independent, interval: Some([expected.low, expected.high]) }
        );
        let none = interval(&[(0, 500); 4]).unwrap();
        let expected = rate_interval(0, 2000, ALPHA);
        assert_eq!((none.method, none.interval), (LossMethod::Independent, Some([0.0, expected.high])));
    }

    #[test]
    fn a_burst_in_one_of_six_rounds_is_in_the_interval_and_fewer_have_none() {
        let mut rounds = [(0, 1000); 6];
        rounds[4] = (80, 1000);
        let found = interval(&rounds).unwrap();
        assert_eq!((found.method, found.interval), (LossMethod::Rounds, Some([0.0, 0.08])));
        assert_eq!(interval(&rounds[1..]).unwrap().interval, None);
    }
}

//! Confidence intervals of the shares of lost messages and failed calls.

use crate::Interval;
use crate::binomial::clopper_pearson;
use crate::order::median_interval;
use crate::rounds::ALPHA;

/// Number of events among all possible ones, e.g. of lost among sent messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proportion {
    /// Number of events.
    pub events: u64,
    /// Number of all possible events.
    pub of: u64,
}

impl Proportion {
    /// Share from 0 to 1; NaN if `of` is 0.
    pub fn share(self) -> f64 {
        self.events as f64 / self.of as f64
    }
}

/// Confidence interval of a share at 95 % or more, from 0 to 1; `None` if nothing was sent.
///
/// For one round, or without losses, it is Clopper and Pearson's interval for all rounds together. This assumes
/// independent losses: bursts of losses make it too narrow, also as a bound if no loss was seen.
///
/// Otherwise it spans the shares of all rounds, and thus contains the share of all rounds together. It contains the
/// median share over rounds with a probability of at least 1 - 2^(1 - rounds), for any distribution. With fewer than
/// six rounds both ends are infinite.
///
/// # Source
/// Clopper and Pearson (1934), doi:10.1093/biomet/26.4.404; Hahn and Meeker, "Statistical Intervals", 5.3.
pub fn interval(rounds: &[Proportion]) -> Option<Interval> {
    let bounded = |one: &Proportion| Proportion { events: one.events.min(one.of), ..*one };
    let rounds: Vec<Proportion> = rounds.iter().filter(|one| one.of > 0).map(bounded).collect();
    let Proportion { events: lost, of } = sum(&rounds);
    if of == 0 {
        return None;
    }
    if rounds.len() == 1 || lost == 0 {
        return Some(clopper_pearson(lost, of, ALPHA));
    }
    let shares: Vec<f64> = rounds.iter().map(|one| one.share()).collect();
    if median_interval(&shares, ALPHA).is_none() {
        return Some(Interval::UNBOUNDED);
    }
    let (low, high) = (shares.iter().copied().fold(1.0, f64::min), shares.iter().copied().fold(0.0, f64::max));
    Some(Interval { low, high })
}

/// Sums of events, and of possible events, over all rounds.
pub fn sum(rounds: &[Proportion]) -> Proportion {
    let add = |sum: Proportion, one: &Proportion| Proportion {
        events: sum.events.saturating_add(one.events),
        of: sum.of.saturating_add(one.of),
    };
    rounds.iter().fold(Proportion::default(), add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_round_and_no_loss_are_bounded_as_if_independent() {
        assert_eq!(interval(&[]), None);
        let of = |events, of| Proportion { events, of };
        assert_eq!(interval(&[of(0, 0)]), None);
        for (rounds, lost, of) in [(&[of(3, 1000)][..], 3, 1000), (&[of(0, 500); 4], 0, 2000)] {
            assert_eq!(interval(rounds), Some(clopper_pearson(lost, of, ALPHA)));
        }
    }

    #[test]
    fn a_burst_in_one_of_six_rounds_is_in_the_interval_and_fewer_are_unbounded() {
        let mut rounds = [Proportion { events: 0, of: 1000 }; 6];
        rounds[4].events = 80;
        assert_eq!(interval(&rounds), Some(Interval { low: 0.0, high: 0.08 }));
        assert_eq!(interval(&rounds[1..]), Some(Interval { low: f64::NEG_INFINITY, high: f64::INFINITY }));
    }
}

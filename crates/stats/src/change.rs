//! Verdicts on changes of a program, from ratios and their intervals, for one comparison or many.
//!
//! A verdict follows from an interval alone. Among many comparisons, some intervals miss the truth by chance. So
//! [`judge_all`] widens them just enough to keep the expected share of wrong verdicts at or below q:
//!
//! - Changes. The p-value of "no change beyond the margin" is p = 2 min(P(ratio <= 1 + m), P(ratio >= 1 - m)) of a
//!   comparison's rank test. Benjamini and Hochberg's procedure at q finds R changes among M comparisons. Every
//!   interval is then made at the level alpha = q R / M, as Benjamini and Yekutieli do for selected parameters (2005).
//!   It lies beyond the margin for exactly the R found, as an interval of [`Shift`] agrees with its p-values.
//! - Equivalence, separately: p = 2 max(P(ratio <= 1 - m), P(ratio >= 1 + m)) (two one-sided tests).
//!
//! So at most the share q of the verdicts `regressed` and `improved` together is expected to be wrong, and of
//! `equivalent` as well. This holds for independent or positively dependent comparisons; a single one has an interval at
//! q. With [`Control::Fwer`] every interval is made at q / M instead (Bonferroni). Then the probability of any wrong
//! verdict is at most q for changes, and for equivalence, whatever the dependence.
//!
//! # Source
//! Benjamini and Yekutieli (2005), "False discovery rate-adjusted multiple confidence intervals for selected
//! parameters", doi:10.1198/016214504000001907; Schuirmann (1987), doi:10.1007/BF01068419.

use crate::interval::Interval;
use crate::multiplicity::{benjamini_hochberg, bonferroni, discoveries, level_of};
use crate::shift::Shift;

/// Verdict on the interval of a ratio result / reference of a figure where lower is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeVerdict {
    /// The interval is above 1 + margin.
    Regressed,
    /// The interval is below 1 - margin.
    Improved,
    /// The interval is within the margin. Never with a margin of 0.
    Equivalent,
    /// None of these; more runs may help.
    Inconclusive,
}

/// Verdict on the interval of a ratio: regressed if its lower end is above 1 + margin, improved if its upper end is
/// below 1 - margin, equivalent if it lies between. Otherwise it is inconclusive, also if an end equals a margin or
/// without interval.
///
/// # Panics
/// If `margin` is not from 0 to below 1.
pub fn judge(interval: Option<Interval>, margin: f64) -> ChangeVerdict {
    check(margin);
    let (least, most) = (1.0 - margin, 1.0 + margin);
    match interval {
        Some(Interval { low, .. }) if low > most => ChangeVerdict::Regressed,
        Some(Interval { high, .. }) if high < least => ChangeVerdict::Improved,
        Some(Interval { low, high }) if low > least && high < most => ChangeVerdict::Equivalent,
        _ => ChangeVerdict::Inconclusive,
    }
}

/// Error rate that is bounded over many comparisons.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Control {
    /// Expected share of wrong verdicts (false discovery rate); usually 0.05.
    Fdr(f64),
    /// Probability that any verdict is wrong (family-wise error rate).
    Fwer(f64),
}

/// Result of one of many comparisons.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// Verdict, which follows from the interval.
    pub verdict: ChangeVerdict,
    /// Estimated ratio.
    pub ratio: f64,
    /// Interval that decided; `None` with too few runs for its level.
    pub interval: Option<Interval>,
    /// Level of the interval, which covers the ratio with the probability 1 - `alpha`.
    pub alpha: f64,
    /// P-value of "no change beyond the margin", adjusted for the number of comparisons; at most the rate of the
    /// [`Control`] if the verdict is `regressed` or `improved`.
    pub p_changed: f64,
    /// P-value of "a change beyond the margin", also adjusted; at most the same rate if the verdict is `equivalent`.
    pub p_equivalent: f64,
}

/// Verdicts on many ratios, in order; the module describes the procedure.
///
/// # Panics
/// If `margin` is not from 0 to below 1, or the rate of `control` not between 0 and 1.
pub fn judge_all(ratios: &[Shift], margin: f64, control: Control) -> Vec<Judged> {
    check(margin);
    let (Control::Fdr(rate) | Control::Fwer(rate)) = control;
    assert!(rate > 0.0 && rate < 1.0, "an error rate is between 0 and 1");
    let p_changed: Vec<f64> = ratios.iter().map(|ratio| p_changed(ratio, margin)).collect();
    let p_equivalent: Vec<f64> = ratios.iter().map(|ratio| p_equivalent(ratio, margin)).collect();
    let level = |p: &[f64]| match control {
        Control::Fdr(q) => level_of(discoveries(p, q), p.len(), q),
        Control::Fwer(alpha) => alpha / p.len() as f64,
    };
    let adjusted = |p: &[f64]| match control {
        Control::Fdr(_) => benjamini_hochberg(p),
        Control::Fwer(_) => bonferroni(p),
    };
    let (changed_at, equivalent_at) = (level(&p_changed), level(&p_equivalent));
    let (adjusted_changed, adjusted_equivalent) = (adjusted(&p_changed), adjusted(&p_equivalent));
    let judged = |(index, ratio): (usize, &Shift)| {
        // Without a verdict, show the wider interval: the narrower one could look like a verdict.
        let alpha = if p_changed[index] <= changed_at {
            changed_at
        } else if p_equivalent[index] <= equivalent_at {
            equivalent_at
        } else {
            changed_at.min(equivalent_at)
        };
        let interval = ratio.interval(alpha);
        Judged {
            verdict: judge(interval, margin),
            ratio: ratio.hodges_lehmann(),
            interval,
            alpha,
            p_changed: adjusted_changed[index],
            p_equivalent: adjusted_equivalent[index],
        }
    };
    ratios.iter().enumerate().map(judged).collect()
}

/// P-value of "the ratio is within the margin"; for a margin of 0 the p-value of the two-sided test.
///
/// # Panics
/// If `margin` is not from 0 to below 1.
pub fn p_changed(ratio: &Shift, margin: f64) -> f64 {
    check(margin);
    (2.0 * ratio.p_greater(1.0 + margin).min(ratio.p_less(1.0 - margin))).min(1.0)
}

/// P-value of "the ratio is beyond the margin".
///
/// # Panics
/// If `margin` is not from 0 to below 1.
pub fn p_equivalent(ratio: &Shift, margin: f64) -> f64 {
    check(margin);
    (2.0 * ratio.p_greater(1.0 - margin).max(ratio.p_less(1.0 + margin))).min(1.0)
}

fn check(margin: f64) {
    assert!((0.0..1.0).contains(&margin), "a margin is from 0 to below 1");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_follow_from_the_interval() {
        let verdict = |low, high, margin| judge(Some(Interval { low, high }), margin);
        assert_eq!(verdict(1.06, 1.2, 0.05), ChangeVerdict::Regressed);
        assert_eq!(verdict(0.8, 0.94, 0.05), ChangeVerdict::Improved);
        assert_eq!(verdict(0.96, 1.04, 0.05), ChangeVerdict::Equivalent);
        assert_eq!(verdict(0.94, 1.04, 0.05), ChangeVerdict::Inconclusive);
        assert_eq!(verdict(1.0 + 0.05, 1.2, 0.05), ChangeVerdict::Inconclusive);
        assert_eq!(
            (verdict(1.001, 1.2, 0.0), verdict(0.9, 0.999, 0.0)),
            (ChangeVerdict::Regressed, ChangeVerdict::Improved)
        );
        assert_eq!(
            (verdict(1.0, 1.0, 0.0), judge(None, 0.05)),
            (ChangeVerdict::Inconclusive, ChangeVerdict::Inconclusive)
        );
    }

    /// Verdicts equal Benjamini and Hochberg's procedure on p-values, although they come from intervals.
    #[test]
    fn verdicts_are_those_of_the_procedure() {
        let mut random = fastrand::Rng::with_seed(5);
        let mut seen = [0; 4];
        for round in 0..200 {
            let margin = [0.0, 0.02, 0.1][round % 3];
            let ratios: Vec<Shift> = (0..1 + round % 20)
                .map(|_| {
                    let (change, noise) = (*random.choice([0.8, 1.0, 1.0, 1.0, 1.3].iter()).unwrap(), random.f64());
                    let reference: Vec<f64> = (0..9).map(|_| 1.0 + 0.2 * noise * random.f64()).collect();
                    let result: Vec<f64> =
                        reference.iter().map(|_| change * (1.0 + 0.2 * noise * random.f64())).collect();
                    Shift::paired_ratio(&reference, &result).unwrap()
                })
                .collect();
            let control = if round % 4 == 0 { Control::Fwer(0.05) } else { Control::Fdr(0.05) };
            for judged in judge_all(&ratios, margin, control) {
                assert_eq!(judged.verdict, judge(judged.interval, margin));
                let is_changed = matches!(judged.verdict, ChangeVerdict::Regressed | ChangeVerdict::Improved);
                assert_eq!(is_changed, judged.p_changed <= 0.05, "{judged:?}");
                assert_eq!(judged.verdict == ChangeVerdict::Equivalent, judged.p_equivalent <= 0.05, "{judged:?}");
                seen[judged.verdict as usize] += 1;
            }
        }
        assert!(seen.iter().all(|&count| count > 20), "{seen:?}");
    }
}

//! Comparison of two sides with several runs each, in many figures.
//!
//! The unit is the run, not the sample. Samples within a run depend on each other; tests that assume independence would
//! judge nearly every unchanged program slower. So only figures of whole runs are compared, one figure per comparison.
//! All comparisons are judged together, as in [`crate::change`].

use crate::change::{ChangeVerdict, Control, Judged, judge_all};
use crate::error::Error;
use crate::median;
use crate::power::{Design, Layout, sample_sd};
use crate::rounds::figure_over_rounds;
use crate::shift::Shift;
use crate::{ErrorBounds, Interval};

/// Smallest deviation of logarithms that is used: a coarse clock can make a steady figure constant.
const LEAST_DEVIATION: f64 = 1e-12;

/// Values of one figure on both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Sides {
    /// Values of the reference's runs and of the results' runs, in the figure's unit; paired values have one index.
    pub values: [Vec<f64>; 2],
    /// Largest systematic error of either side's values, in their unit, e.g. of the clocks of two hosts.
    pub errors: [f64; 2],
    /// True if higher is better.
    pub is_better_if_more: bool,
}

/// Parameters of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Question {
    /// Relation between the runs of both sides.
    pub layout: Layout,
    /// Largest share of a change that is ignored, from 0 to below 1.
    pub margin: f64,
    /// Error rate of verdicts.
    pub control: Control,
    /// Probability of detecting the smallest detectable change, from 0.5 to below 1.
    pub power: f64,
}

impl Question {
    fn design(&self, log_sd: f64, comparisons: usize) -> Design {
        let (Control::Fdr(alpha) | Control::Fwer(alpha)) = self.control;
        let (layout, margin, power) = (self.layout, self.margin, self.power);
        Design { layout, log_sd, margin, alpha, comparisons: comparisons as u64, power }
    }
}

/// Result of the comparison of one figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Numbers of runs of the reference and of the results; for pairs, both are the number of pairs.
    pub runs: [usize; 2],
    /// Medians over the reference's runs and over the results' runs, in the figure's unit.
    pub sides: [f64; 2],
    /// Intervals of these medians at 95 %, widened by the errors; `None` below six runs.
    pub side_intervals: [Option<Interval>; 2],
    /// Largest systematic errors: [`Sides::errors`].
    pub errors: [f64; 2],
    /// Verdict on the ratio results / reference.
    pub judged: Judged,
    /// Standard deviation of the log ratios of pairs, or of the log figures of runs; `None` below two runs, or if
    /// any figure is 0 or less.
    pub log_sd: Option<f64>,
    /// Smallest ratio above 1 that this number of runs detects with the wanted power; the largest ratio below 1 where
    /// higher is better. `None` with too few runs, or without `log_sd`.
    pub min_detectable_effect: Option<f64>,
}

/// Judges every figure, in order.
///
/// Independent runs may have figures of 0, see [`Shift::ratio`]. Where higher is better, a side is worse if only its
/// median is 0, even with few runs: nothing arrived in most of them. Verdicts hold for any true values within the
/// errors; otherwise they are inconclusive.
///
/// # Errors
/// If a side has no run, or the numbers of paired runs differ. If a figure is below 0 by more than its error, or 0 in a
/// pair.
///
/// # Panics
/// If a number in the question is out of range.
pub fn compare(cells: &[Sides], question: &Question) -> Result<Vec<Comparison>, Error> {
    let shift = |Sides { values: [reference, result], errors, .. }: &Sides| match question.layout {
        Layout::Paired => Shift::paired_ratio_within(reference, result, *errors),
        Layout::Independent => Shift::ratio_within(reference, result, *errors),
    };
    let shifts = cells.iter().map(shift).collect::<Result<Vec<_>, _>>()?;
    let judged = judge_all(&shifts, question.margin, question.control);
    let mut distances = Distances { question, comparisons: cells.len(), known: Vec::new() };
    let comparison = |(Sides { values, errors, is_better_if_more }, judged): (&Sides, Judged)| {
        let log_sd = log_sd(values, question.layout);
        let count = values.each_ref().map(Vec::len);
        let min_detectable_effect =
            log_sd.and_then(|log_sd| distances.min_detectable_effect(count[0].min(count[1]), log_sd));
        let sides = values.each_ref().map(|values| median(values).expect("a shift has values on both sides"));
        let (judged, min_detectable_effect) = match is_better_if_more {
            true => (turned(judged, sides), min_detectable_effect.map(f64::recip)),
            false => (judged, min_detectable_effect),
        };
        // Ratio that is measured for the smallest true change that is detected.
        let signed = errors.map(|error| if *is_better_if_more { -error } else { error });
        let measured = |ratio: f64| (ratio * (sides[0] + signed[0]) + signed[1]) / sides[0];
        let min_detectable_effect = min_detectable_effect.map(measured).filter(|ratio| *ratio > 0.0);
        Comparison {
            runs: count,
            sides,
            side_intervals: [0, 1]
                .map(|side| figure_over_rounds(&values[side], ErrorBounds::both(errors[side]))?.interval),
            errors: *errors,
            judged,
            log_sd,
            min_detectable_effect,
        }
    };
    Ok(cells.iter().zip(judged).map(comparison).collect())
}

/// Index of the comparison that needs the most runs to detect a change by the share `effect`, because of its deviation
/// or errors. Also returns this number of runs (pairs, or runs per side), or `None` if a million are too few. Returns
/// `None` if no comparison has two runs.
///
/// The number depends on the spread of figures, not on their difference between the sides. So to stop measuring at this
/// number hardly favours a verdict.
pub fn runs_needed(comparisons: &[Comparison], question: &Question, effect: f64) -> Option<(usize, Option<u64>)> {
    // Effect that remains with the worst errors of the values.
    let left = |Comparison { sides: [reference, _], errors, .. }: &Comparison| {
        (((1.0 + effect) * reference - errors[1]) / (reference + errors[0])).max(1.0)
    };
    let with_deviation =
        comparisons.iter().enumerate().filter_map(|(place, one)| Some((place, one.log_sd?, left(one))));
    let difficulty = |log_sd: f64, ratio: f64| log_sd / (ratio.ln() - question.margin.ln_1p()).max(0.0);
    let (hardest, log_sd, ratio) = with_deviation
        .max_by(|a, b| difficulty(a.1, a.2).total_cmp(&difficulty(b.1, b.2)).then(a.1.total_cmp(&b.1)))?;
    Some((hardest, question.design(log_sd, comparisons.len()).runs_needed(ratio)))
}

/// Verdict for a figure where higher is better, from the verdict where lower is better and the medians.
fn turned(judged: Judged, [reference, result]: [f64; 2]) -> Judged {
    let verdict = match judged.verdict {
        _ if reference > 0.0 && result == 0.0 => ChangeVerdict::Regressed,
        _ if reference == 0.0 && result > 0.0 => ChangeVerdict::Improved,
        ChangeVerdict::Regressed => ChangeVerdict::Improved,
        ChangeVerdict::Improved => ChangeVerdict::Regressed,
        same => same,
    };
    Judged { verdict, ..judged }
}

/// Standard deviation for [`Design::log_sd`]; `None` if a value is 0 or less.
fn log_sd([reference, result]: &[Vec<f64>; 2], layout: Layout) -> Option<f64> {
    if reference.iter().chain(result).any(|value| *value <= 0.0) {
        return None;
    }
    let logarithms = |values: &[f64]| -> Vec<f64> { values.iter().map(|value| value.ln()).collect() };
    let found = match layout {
        Layout::Paired => {
            let ratios = result.iter().zip(reference).map(|(result, reference)| result.ln() - reference.ln());
            sample_sd(&ratios.collect::<Vec<_>>())?
        }
        Layout::Independent => {
            let sides = [sample_sd(&logarithms(reference))?, sample_sd(&logarithms(result))?];
            ((sides[0].powi(2) + sides[1].powi(2)) / 2.0).sqrt()
        }
    };
    Some(found.max(LEAST_DEVIATION))
}

/// Cache, by number of runs, of the distance from the margin at which a change is detected, in deviations. Small
/// numbers of runs are simulated, which takes time.
struct Distances<'a> {
    question: &'a Question,
    comparisons: usize,
    known: Vec<(usize, Option<f64>)>,
}

impl Distances<'_> {
    fn min_detectable_effect(&mut self, runs: usize, log_sd: f64) -> Option<f64> {
        let within = self.question.margin.ln_1p();
        let known = self.known.iter().find(|(number, _)| *number == runs).map(|(_, distance)| *distance);
        let distance = known.unwrap_or_else(|| {
            let ratio = self.question.design(1.0, self.comparisons).min_detectable_effect(runs as u64);
            let distance = ratio.map(|ratio| ratio.ln() - within);
            self.known.push((runs, distance));
            distance
        });
        Some((within + distance? * log_sd).exp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(layout: Layout) -> Question {
        Question { layout, margin: 0.02, control: Control::Fdr(0.05), power: 0.95 }
    }

    /// Two figures that vary together from run to run; the results are multiplied by `ratio`, with a little noise.
    fn runs(ratio: f64, count: u64, noise: f64) -> [Sides; 2] {
        let mut random = fastrand::Rng::with_seed(count);
        let mut sides = [Vec::new(), Vec::new()];
        for _ in 0..count {
            let pace = 1000.0 * (1.0 + 0.5 * random.f64());
            sides[0].push(pace);
            sides[1].push(pace * ratio * (1.0 + noise * random.f64()));
        }
        [1.0, 2.0].map(|factor| Sides {
            values: sides.each_ref().map(|side| side.iter().map(|value| factor * value).collect()),
            errors: [0.0; 2],
            is_better_if_more: false,
        })
    }

    #[test]
    fn pairs_see_through_what_both_sides_have_in_common() {
        let cells = [runs(1.0, 12, 0.005), runs(1.2, 12, 0.005), runs(0.8, 12, 0.005)].concat();
        let verdicts = |layout| -> Vec<ChangeVerdict> {
            compare(&cells, &question(layout)).unwrap().iter().map(|one| one.judged.verdict).collect()
        };
        use ChangeVerdict::{Equivalent, Improved, Inconclusive, Regressed};
        assert_eq!(verdicts(Layout::Paired), [Equivalent, Equivalent, Regressed, Regressed, Improved, Improved]);
        assert_eq!(verdicts(Layout::Independent)[..2], [Inconclusive; 2]);
    }

    #[test]
    fn what_can_be_detected_is_what_the_design_says() {
        let cells = [runs(1.0, 10, 0.01), runs(1.0, 10, 0.3), runs(1.0, 3, 0.1)].concat();
        let question = question(Layout::Paired);
        let compared = compare(&cells, &question).unwrap();
        for one in &compared[..4] {
            let direct = question.design(one.log_sd.unwrap(), 6).min_detectable_effect(10).unwrap();
            assert!((one.min_detectable_effect.unwrap() / direct - 1.0).abs() < 1e-12, "{one:?} {direct}");
        }
        assert_eq!(
            (compared[4].min_detectable_effect, compared[4].runs, compared[4].judged.interval),
            (None, [3, 3], None)
        );
        let (hardest, needed) = runs_needed(&compared, &question, 0.1).unwrap();
        assert!([2, 3].contains(&hardest), "{hardest}");
        assert_eq!(needed, question.design(compared[hardest].log_sd.unwrap(), 6).runs_needed(1.1));
        assert!(needed.unwrap() > 10 && compared[2].min_detectable_effect.unwrap() > 1.1);
        assert_eq!(runs_needed(&compared, &question, 0.01).unwrap().1, None);
    }

    #[test]
    fn what_values_that_may_be_off_cannot_show_is_inconclusive() {
        use ChangeVerdict::{Equivalent, Improved, Inconclusive, Regressed};
        let question = question(Layout::Independent);
        let one = |ratio: f64, errors: [f64; 2], is_better_if_more| {
            let steady: Vec<f64> = (0..20).map(|run| 1000.0 + f64::from(run) / 10.0).collect();
            let result = steady.iter().map(|value| ratio * value).collect();
            compare(&[Sides { values: [steady, result], errors, is_better_if_more }], &question).unwrap().remove(0)
        };
        let verdict = |ratio, errors| one(ratio, errors, false).judged.verdict;
        assert_eq!(
            (verdict(1.2, [0.0; 2]), verdict(0.8, [0.0; 2]), verdict(1.0, [0.0; 2])),
            (Regressed, Improved, Equivalent)
        );
        assert_eq!((verdict(1.2, [50.0; 2]), verdict(0.8, [50.0; 2])), (Regressed, Improved));
        for (ratio, errors) in [(1.2, [0.0, 190.0]), (1.2, [190.0, 0.0]), (0.8, [110.0; 2]), (1.0, [15.0; 2])] {
            assert_eq!(verdict(ratio, errors), Inconclusive, "{ratio} {errors:?}");
        }
        assert_eq!(one(0.8, [110.0; 2], true).judged.verdict, Inconclusive);
        // Ratio that is measured for the smallest true change that is detected.
        let [exact, off] = [[0.0; 2], [100.0, 50.0]].map(|errors| one(1.0, errors, false));
        let least = (off.min_detectable_effect.unwrap() * 1001.0 - 50.0) / 1101.0;
        assert!((least / exact.min_detectable_effect.unwrap() - 1.0).abs() < 1e-3, "{exact:?} {off:?}");
        let [low, wide] = [&exact, &off].map(|one| one.side_intervals[0].unwrap());
        assert_eq!((wide.low, wide.high), (low.low - 100.0, low.high + 100.0));
        assert!(runs_needed(&[exact], &question, 0.1).unwrap().1.is_some());
        assert_eq!(runs_needed(&[off], &question, 0.1).unwrap().1, None);
    }

    #[test]
    fn a_lower_rate_is_worse() {
        let side = |rate: f64| (0..10).map(|run| rate + 0.001 * f64::from(run)).collect();
        let cells = [Sides { values: [side(1000.0), side(900.0)], errors: [0.0; 2], is_better_if_more: true }];
        let compared = compare(&cells, &question(Layout::Independent)).unwrap();
        assert_eq!(compared[0].judged.verdict, ChangeVerdict::Regressed);
        assert!(compared[0].min_detectable_effect.is_some_and(|ratio| ratio < 1.0), "{compared:?}");
        assert!((compared[0].sides[0] - 1000.0045).abs() < 1e-9, "{compared:?}");
    }

    #[test]
    fn a_change_to_or_from_0_is_one() {
        use ChangeVerdict::{Equivalent, Improved, Inconclusive, Regressed};
        let verdict = |reference: &[f64], result: &[f64], is_better_if_more| {
            let values = [reference.to_vec(), result.to_vec()];
            let cell = Sides { values, errors: [0.0; 2], is_better_if_more };
            let one = compare(&[cell], &question(Layout::Independent)).unwrap().remove(0);
            assert_eq!((one.log_sd, one.min_detectable_effect), (None, None));
            one.judged.verdict
        };
        let (rate, none) = ([9.0, 8.0, 9.5, 8.5, 9.0, 8.0], [0.0; 6]);
        assert_eq!((verdict(&rate, &none, true), verdict(&none, &rate, true)), (Regressed, Improved));
        assert_eq!((verdict(&none, &rate, false), verdict(&rate, &none, false)), (Regressed, Improved));
        // Too few runs for an interval: no arrivals are still a regression, and a loss is inconclusive.
        assert_eq!(
            (verdict(&rate[..2], &none[..2], true), verdict(&none[..2], &rate[..2], true)),
            (Regressed, Improved)
        );
        assert_eq!(verdict(&none[..2], &rate[..2], false), Inconclusive);
        assert_eq!(verdict(&none, &none, false), Equivalent);
        let seldom = [0.0, 0.0, 3.0, 0.0, 4.0, 0.0];
        assert_eq!(verdict(&none, &seldom, false), Inconclusive);
    }

    #[test]
    fn steady_figures_and_single_runs_are_judged() {
        let steady = runs(1.0, 8, 0.0);
        let single = steady.clone().map(|one| Sides { values: one.values.map(|side| side[..1].to_vec()), ..one });
        let cells = [steady, single].concat();
        for layout in [Layout::Paired, Layout::Independent] {
            let compared = compare(&cells, &question(layout)).unwrap();
            assert!(compared[0].min_detectable_effect.is_some_and(|ratio| ratio > 1.02 - 1e-9), "{compared:?}");
            assert_eq!((compared[2].log_sd, compared[2].min_detectable_effect), (None, None));
            assert_eq!(compared[2].judged.verdict, ChangeVerdict::Inconclusive);
        }
        assert_eq!(runs_needed(&[], &question(Layout::Paired), 0.1), None);
        assert_eq!(compare(&[], &question(Layout::Paired)), Ok(Vec::new()));
    }
}

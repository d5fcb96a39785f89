//! Changes in a history of a statistic: steps and slow drifts. E-divisive alone reports a drift as several steps.
//!
//! A stretch drifts if three conditions hold. Mann and Kendall's p-value of a trend is small enough. The line with
//! Theil and Sen's slope changes enough from the first to the last value. By Schwarz's criterion, this line describes
//! the logarithms better than the steps do. The line has two parameters, the steps have one level per part and one
//! place per step. The steps within a drift are not reported. Stretches begin and end at breaks, known steps and found
//! steps; from left to right, the longest drifting stretch is taken.
//!
//! # Source
//! Schwarz (1978), doi:10.1214/aos/1176344136; slope and p-value: see [`crate::drift`].

use crate::change_points::{ChangePoint, StepOptions, change_points, parts};
use crate::drift::drift;
use crate::error::{Error, logarithms};
use crate::median;

/// Fewest values of a drift: with fewer, one or two deviating values at the ends look like a trend.
pub const FEWEST: usize = 10;

/// Stretch of a series that rises or falls slowly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowDrift {
    /// Index of its first value.
    pub first: usize,
    /// Index of its last value.
    pub last: usize,
    /// Value of the line at `first`.
    pub begin: f64,
    /// Value of the line at `last`.
    pub end: f64,
    /// P-value of "no trend".
    pub p: f64,
}

/// Changes in a series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Steps in time order.
    pub steps: Vec<ChangePoint>,
    /// Drifts in time order, without overlap.
    pub drifts: Vec<SlowDrift>,
}

/// Steps and slow drifts of a series; arguments as for [`change_points`]. Fails and panics as [`change_points`].
pub fn changes(values: &[f64], breaks: &[usize], known: &[usize], options: &StepOptions) -> Result<Changes, Error> {
    let mut steps = change_points(values, breaks, known, options)?;
    let logarithms = logarithms("only", values)?;
    let mut borders: Vec<usize> = breaks.iter().chain(known).copied().collect();
    borders.sort_unstable();
    borders.dedup();
    let mut drifts: Vec<SlowDrift> = Vec::new();
    for (from, to) in parts(0, values.len(), &borders) {
        let within = steps.iter().map(|step| step.index).filter(|index| (from + 1..to).contains(index));
        let places: Vec<usize> = [from].into_iter().chain(within).chain([to]).collect();
        let mut at = 0;
        while at + 1 < places.len() {
            // The longest stretch from here.
            let stretches = (at + 1..places.len()).rev().map(|end| &places[at..=end]);
            let mut drifting =
                stretches.filter_map(|stretch| Some((stretch.len() - 1, drift_of(&logarithms, stretch, options)?)));
            let (parts, found) = drifting.next().map_or((1, None), |(parts, found)| (parts, Some(found)));
            drifts.extend(found);
            at += parts;
        }
    }
    steps.retain(|step| {
        step.is_known || !drifts.iter().any(|drift| (drift.first + 1..=drift.last).contains(&step.index))
    });
    Ok(Changes { steps, drifts })
}

/// Drift of a stretch, which is given by its first index, the steps within it, and the index after its last; `None` if
/// there is no drift, or if the steps describe the values better.
fn drift_of(logarithms: &[f64], stretch: &[usize], options: &StepOptions) -> Option<SlowDrift> {
    let [first, steps @ .., end] = stretch else { return None };
    let line = line(&logarithms[*first..*end], options)?;
    (line.criterion < of_steps(logarithms, (*first, *end), steps)).then(|| SlowDrift {
        first: *first,
        last: end - 1,
        begin: line.begin.exp(),
        end: line.end.exp(),
        p: line.p,
    })
}

struct FittedLine {
    begin: f64,
    end: f64,
    p: f64,
    criterion: f64,
}

/// Line through the values; `None` without a large enough trend.
fn line(values: &[f64], options: &StepOptions) -> Option<FittedLine> {
    if values.len() < FEWEST {
        return None;
    }
    let trend = drift(values).filter(|trend| trend.p < options.max_p)?;
    let rest = |(index, value): (usize, &f64)| value - trend.slope * index as f64;
    let begin = median(&values.iter().enumerate().map(rest).collect::<Vec<_>>())?;
    let end = begin + trend.slope * (values.len() - 1) as f64;
    let squares = values.iter().enumerate().map(|place| (rest(place) - begin).powi(2)).sum();
    let is_large = (end - begin).abs().exp_m1() > options.min_change;
    is_large.then(|| FittedLine { begin, end, p: trend.p, criterion: criterion(values.len(), squares, 2) })
}

/// Schwarz's criterion for levels that change at these places, between `from` and `to`.
fn of_steps(values: &[f64], (from, to): (usize, usize), places: &[usize]) -> f64 {
    let squares = parts(from, to, places).into_iter().map(|(from, to)| {
        let part = &values[from..to];
        let mean = part.iter().sum::<f64>() / part.len() as f64;
        part.iter().map(|value| (value - mean).powi(2)).sum::<f64>()
    });
    criterion(to - from, squares.sum(), 1 + 2 * places.len())
}

/// Schwarz's criterion; lower is better.
fn criterion(count: usize, squares: f64, parameters: usize) -> f64 {
    let count = count as f64;
    count * (squares / count).max(f64::MIN_POSITIVE).ln() + parameters as f64 * count.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noisy(levels: impl Iterator<Item = f64>) -> Vec<f64> {
        let mut random = fastrand::Rng::with_seed(9);
        levels.map(|level| level * (1.0 + 0.04 * (random.f64() - 0.5))).collect()
    }

    fn level(count: usize, level: f64) -> impl Iterator<Item = f64> {
        std::iter::repeat_n(level, count)
    }

    /// Each value is `by` times the one before.
    fn slope(count: i32, level: f64, by: f64) -> impl Iterator<Item = f64> {
        (0..count).map(move |index| level * by.powi(index))
    }

    fn found(values: &[f64], breaks: &[usize], known: &[usize]) -> (Vec<usize>, Vec<(usize, usize)>) {
        let Changes { steps, drifts } = changes(values, breaks, known, &StepOptions::default()).unwrap();
        let drifts = drifts.iter().map(|drift| (drift.first, drift.last)).collect();
        (steps.iter().map(|step| step.index).collect(), drifts)
    }

    #[test]
    fn a_slow_drift_is_no_flight_of_steps() {
        for by in [1.004, 1.0 / 1.004] {
            let values = noisy(slope(80, 10.0, by));
            assert!(!change_points(&values, &[], &[], &StepOptions::default()).unwrap().is_empty());
            let Changes { steps, drifts } = changes(&values, &[], &[], &StepOptions::default()).unwrap();
            assert!(steps.is_empty() && drifts.len() == 1, "{steps:?} {drifts:?}");
            let SlowDrift { first, last, begin, end, p } = drifts[0];
            assert_eq!((first, last), (0, 79));
            assert!((begin / 10.0 - 1.0).abs() < 0.01 && (end / begin / by.powi(79) - 1.0).abs() < 0.02 && p < 1e-6);
        }
    }

    #[test]
    fn steps_are_no_drift_and_may_be_beside_one() {
        let two = noisy(level(60, 10.0).chain(level(40, 12.0)).chain(level(80, 11.0)));
        assert_eq!(found(&two, &[], &[]), (vec![60, 100], vec![]));
        let stairs = noisy(level(40, 10.0).chain(level(40, 11.5)).chain(level(40, 13.0)));
        assert_eq!(found(&stairs, &[], &[]), (vec![40, 80], vec![]));
        let both = noisy(level(60, 10.0).chain(slope(60, 20.0, 1.003)));
        assert_eq!(found(&both, &[], &[]), (vec![60], vec![(60, 119)]));
        assert_eq!(found(&noisy(level(120, 10.0)), &[], &[]), (vec![], vec![]));
        assert_eq!(found(&[0.1; 40], &[], &[]), (vec![], vec![]));
    }

    #[test]
    fn breaks_and_known_steps_part_a_drift() {
        let values = noisy(slope(80, 10.0, 1.004).chain(level(30, 13.8)));
        let (steps, drifts) = found(&values, &[80], &[]);
        assert_eq!((steps, drifts), (vec![], vec![(0, 79)]));
        assert_eq!(found(&values, &[], &[80]), (vec![80], vec![(0, 79)]));
    }

    #[test]
    fn a_small_drift_and_a_short_one_are_not_reported() {
        assert_eq!(found(&noisy(slope(80, 10.0, 1.0003)), &[], &[]), (vec![], vec![]));
        assert_eq!(found(&noisy(slope(9, 10.0, 1.01)), &[], &[]).1, vec![]);
    }
}

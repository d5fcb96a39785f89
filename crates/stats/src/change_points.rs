//! Steps in a history of a statistic, e.g. commits after which it stays faster or slower.
//!
//! Method: E-divisive with the changes of Hunter, now Apache Otava. Windows overlap by half. Candidates have the
//! largest energy distance between the values before and after. Student's test admits them at ten times the wanted
//! p-value (weak points). Then the weakest point is removed and its neighbours are tested again, until all points have
//! a small p-value and a large enough step. As in Otava, the test uses standard deviations that divide by n.
//!
//! Without breaks, known steps, steps of stretches and a guard, the points equal those of Otava 0.8 on the same
//! logarithms, with one exception. After a removal, Otava tests the two following points again. Here, the point before
//! and the point after are tested, because their parts have grown.
//!
//! E-divisive alone misses a level that changes and returns: both sides of any place have nearly the same mean. So if
//! there are no more candidates, the most significant step of any stretch becomes one, at its own p-value.
//!
//! The test is made where the difference is largest. So its p-value is smaller than the probability of such a point by
//! chance, which tests/coverage.rs measures. To judge a single known change, use [`crate::change`].
//!
//! # Source
//! Matteson and James (2014), doi:10.1080/01621459.2013.849605 (arXiv:1306.4933); Fleming and others (2023), "Hunter: Using
//! Change Point Detection to Hunt for Performance Regressions", doi:10.1145/3578244.3583719 (arXiv:2301.03034).

use crate::distribution::student_two_sided;
use crate::error::{Error, logarithms};

/// Fewest values on either side of a step within a stretch: fewer values may be equal by chance.
const LEAST_LOCAL: usize = 4;
/// Smallest difference of logarithms that is not a rounding error.
const LEAST_DIFFERENCE: f64 = 1e-9;

/// Criteria for a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepOptions {
    /// Number of values in a window, at least 2.
    pub window: usize,
    /// Largest p-value of a step, above 0, below 1.
    pub max_p: f64,
    /// Largest p-value of a step within a stretch, from 0 to below 1; 0 disables the search. It is smaller than
    /// `max_p`, because there are many stretches.
    pub max_local_p: f64,
    /// Smallest step: 0.05 for a ratio of 1.05 or 1 / 1.05, 0 for any step.
    pub min_change: f64,
    /// Fewest values between a step and an end of the series, a break or a known step, at least 1. A new step is
    /// reported after this number of values.
    pub guard: usize,
}

impl Default for StepOptions {
    /// Window and p-value of Otava, a hundredth of it for stretches, the margin of verdicts, a guard of three values.
    fn default() -> Self {
        Self { window: 50, max_p: 0.001, max_local_p: 0.00001, min_change: 0.05, guard: 3 }
    }
}

impl StepOptions {
    /// Fewest values in which a step can be found, without a break or known step between them.
    pub fn fewest(&self) -> usize {
        2 * self.guard
    }
}

/// A step of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangePoint {
    /// Index of the first value after the step.
    pub index: usize,
    /// Geometric mean of the values before the step, from the previous point, the beginning or a break on.
    pub before: f64,
    /// Geometric mean of the values after the step, up to the next point, the end or a break.
    pub after: f64,
    /// P-value of Student's two-sided test on the logarithms of both sides.
    pub p: f64,
    /// True if marked as known. Known steps are always reported, however small.
    pub is_known: bool,
}

impl ChangePoint {
    /// Ratio `after` / `before`.
    pub fn ratio(&self) -> f64 {
        self.after / self.before
    }
}

/// Steps of a series of values above 0, one per run, in time order.
///
/// `breaks` are indices of first values in another environment: nothing is compared across them. `known` are indices of
/// steps that users have marked: the series is split there, so that they are not found again beside the mark. Both may
/// be in any order; a known step at a break is ignored.
///
/// # Errors
/// If there is no value, a value is not finite or not above 0, or a break or known step is outside the series.
///
/// # Panics
/// If an option is out of range.
pub fn change_points(
    values: &[f64],
    breaks: &[usize],
    known: &[usize],
    options: &StepOptions,
) -> Result<Vec<ChangePoint>, Error> {
    let StepOptions { window, max_p, guard, .. } = *options;
    assert!(window >= 2 && guard >= 1, "a window has two values and a guard one at least");
    assert!(max_p > 0.0 && max_p < 1.0, "a p-value is between 0 and 1");
    let values = logarithms("only", values)?;
    let breaks = places("break", breaks, values.len())?;
    let known = places("known step", known, values.len())?;
    let mut found = Vec::new();
    for piece in parts(0, values.len(), &breaks) {
        let known: Vec<usize> =
            known.iter().filter(|&&index| piece.0 < index && index < piece.1).map(|index| index - piece.0).collect();
        let points = points_of_piece(&values[piece.0..piece.1], &known, options);
        found.extend(points.into_iter().map(|point| ChangePoint { index: point.index + piece.0, ..point }));
    }
    Ok(found)
}

fn places(what: &'static str, indices: &[usize], count: usize) -> Result<Vec<usize>, Error> {
    if let Some(&index) = indices.iter().find(|&&index| index == 0 || index >= count) {
        return Err(Error::OutsideSeries { what, index, last: count - 1 });
    }
    let mut sorted = indices.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    Ok(sorted)
}

pub(crate) fn parts(from: usize, to: usize, at: &[usize]) -> Vec<(usize, usize)> {
    let starts = std::iter::once(from).chain(at.iter().copied());
    let ends = at.iter().copied().chain(std::iter::once(to));
    starts.zip(ends).collect()
}

fn points_of_piece(values: &[f64], known: &[usize], options: &StepOptions) -> Vec<ChangePoint> {
    // A series of equal values must have differences of exactly 0.
    let origin = values[0];
    let centred: Vec<f64> = values.iter().map(|value| value - origin).collect();
    let mut indices: Vec<usize> = parts(0, values.len(), known)
        .into_iter()
        .flat_map(|(from, to)| {
            let weak = weak_points(&centred[from..to], options);
            weak.into_iter().map(move |index| index + from)
        })
        .chain(known.iter().copied())
        .collect();
    indices.sort_unstable();
    let mut points: Vec<ChangePoint> = Vec::new();
    for index in &indices {
        points.push(ChangePoint { index: *index, before: 0.0, after: 0.0, p: 1.0, is_known: known.contains(index) });
    }
    for at in 0..points.len() {
        judge(&mut points, at, &centred);
    }
    merge(&mut points, &centred, options);
    for point in &mut points {
        (point.before, point.after) = ((point.before + origin).exp(), (point.after + origin).exp());
    }
    points
}

/// Points at a relaxed p-value, window by window.
fn weak_points(values: &[f64], options: &StepOptions) -> Vec<usize> {
    let relaxed = match options.max_p {
        p if p < 0.05 => p * 10.0,
        p if p < 0.5 => p * 2.0,
        p => p,
    };
    let mut found: Vec<usize> = Vec::new();
    let mut start = 0;
    while start < values.len() {
        let end = (start + options.window).min(values.len());
        let in_window = divide(&values[start..end], relaxed, options);
        let last = in_window.last().map_or(0, |index| index + start);
        found.extend(in_window.iter().map(|index| index + start));
        start = last.max(start + options.window / 2);
    }
    found.sort_unstable();
    found.dedup();
    found.retain(|&index| options.guard <= index && index + options.guard <= values.len());
    found
}

/// Splits values repeatedly where the parts differ most, while that is significant, then at steps of stretches.
fn divide(values: &[f64], max_p: f64, options: &StepOptions) -> Vec<usize> {
    let mut found: Vec<usize> = Vec::new();
    loop {
        let whole = whole_step(values, &found, max_p);
        let Some(index) = whole.or_else(|| local_step(values, &found, options)) else { return found };
        let place = found.partition_point(|&other| other < index);
        found.insert(place, index);
    }
}

/// Index at which the values between two found places differ most, if the difference is significant.
fn whole_step(values: &[f64], found: &[usize], max_p: f64) -> Option<usize> {
    let mut best: Option<(f64, usize, (usize, usize))> = None;
    for part in parts(0, values.len(), found) {
        if part.1 - part.0 < 2 {
            continue;
        }
        let (distance, index) = candidate(&values[part.0..part.1]);
        if best.is_none_or(|(largest, ..)| distance > largest) {
            best = Some((distance, index + part.0, part));
        }
    }
    let (_, index, (from, to)) = best?;
    (StudentTest::new(&values[from..index], &values[index..to]).p <= max_p).then_some(index)
}

/// Quality and index of the best place to split values. The quality is the largest energy distance, times n m / (n +
/// m), between the n values before the place and any m values after it.
fn candidate(values: &[f64]) -> (f64, usize) {
    let count = values.len();
    let distance = |i: usize, j: usize| (values[i] - values[j]).abs();
    // Sums of distances among the values before each place.
    let mut within_before = vec![0.0; count + 1];
    for to in 1..=count {
        within_before[to] = within_before[to - 1] + (0..to - 1).map(|i| distance(i, to - 1)).sum::<f64>();
    }
    // Sums of distances among the values from each place to `end`, updated for each end.
    let mut within_after = vec![0.0; count];
    let mut best = (f64::NEG_INFINITY, 0, 0);
    for end in 2..=count {
        let mut to_last = 0.0;
        for place in (1..end).rev() {
            to_last += distance(place, end - 1);
            within_after[place] += to_last;
            let (before, after) = (place as f64, (end - place) as f64);
            let across = within_before[end] - within_before[place] - within_after[place];
            let mean_within = |sum: f64, n: f64| if n > 1.0 { sum / (n - 1.0) } else { 0.0 };
            let quality = 2.0 / (before + after)
                * (across
                    - after * mean_within(within_before[place], before)
                    - before * mean_within(within_after[place], after));
            // For ties, the first place with its first end.
            if quality > best.0 || (quality == best.0 && (place, end) < (best.1, best.2)) {
                best = (quality, place, end);
            }
        }
    }
    (best.0, best.1)
}

/// Most significant step of any stretch between these places. If a level changes and returns, no split of the whole is
/// significant: both parts have the same mean.
fn local_step(values: &[f64], places: &[usize], options: &StepOptions) -> Option<usize> {
    if options.max_local_p == 0.0 {
        return None;
    }
    let least = options.guard.max(LEAST_LOCAL);
    let smallest = options.min_change.ln_1p().max(LEAST_DIFFERENCE);
    let prefix = |of: fn(f64) -> f64| {
        let sums = values.iter().scan(0.0, |sum, value| {
            *sum += of(*value);
            Some(*sum)
        });
        std::iter::once(0.0).chain(sums).collect::<Vec<f64>>()
    };
    let (sums, squares) = (prefix(|value| value), prefix(|value| value * value));
    let mean = |from: usize, to: usize| (sums[to] - sums[from]) / (to - from) as f64;
    let rest =
        |from: usize, to: usize| (squares[to] - squares[from] - (to - from) as f64 * mean(from, to).powi(2)).max(0.0);
    // Among stretches of equal length, the largest t has the smallest p-value.
    let mut of_length: Vec<Option<(f64, [usize; 3])>> = vec![None; values.len() + 1];
    for (begin, end) in parts(0, values.len(), places) {
        for (from, at) in (begin..end).flat_map(|from| (from + least..end).map(move |at| (from, at))) {
            for to in at + least..=end {
                let difference = (mean(from, at) - mean(at, to)).abs();
                let (n, m) = ((at - from) as f64, (to - at) as f64);
                let t = difference / ((rest(from, at) + rest(at, to)) * (1.0 / n + 1.0 / m)).sqrt();
                let best = &mut of_length[to - from];
                if difference > smallest && best.is_none_or(|(largest, _)| t > largest) {
                    *best = Some((t, [from, at, to]));
                }
            }
        }
    }
    let tested = of_length
        .into_iter()
        .flatten()
        .map(|(_, [from, at, to])| (StudentTest::new(&values[from..at], &values[at..to]).p, at));
    let (p, at) = tested.min_by(|one, other| one.0.total_cmp(&other.0))?;
    (p <= options.max_local_p).then_some(at)
}

/// Removes weak points one at a time, the weakest first; keeps known ones.
fn merge(points: &mut Vec<ChangePoint>, values: &[f64], options: &StepOptions) {
    let size = |point: &ChangePoint| (point.after - point.before).abs().exp_m1();
    loop {
        let candidates = || points.iter().enumerate().filter(|(_, point)| !point.is_known);
        // Reversed, so that the first of equal ones is chosen: `max_by` returns the last.
        let Some((weakest, point)) = candidates().rev().max_by(|a, b| a.1.p.total_cmp(&b.1.p)) else { return };
        let remove = if point.p >= options.max_p {
            weakest
        } else {
            let smallest = candidates().min_by(|a, b| size(a.1).total_cmp(&size(b.1)));
            match smallest {
                Some((index, point)) if size(point) <= options.min_change => index,
                _ => return,
            }
        };
        points.remove(remove);
        for at in remove.saturating_sub(1)..points.len().min(remove + 1) {
            judge(points, at, values);
        }
    }
}

fn judge(points: &mut [ChangePoint], at: usize, values: &[f64]) {
    let from = at.checked_sub(1).map_or(0, |before| points[before].index);
    let to = points.get(at + 1).map_or(values.len(), |after| after.index);
    let point = &mut points[at];
    let found = StudentTest::new(&values[from..point.index], &values[point.index..to]);
    (point.before, point.after, point.p) = (found.before, found.after, found.p);
}

struct StudentTest {
    before: f64,
    after: f64,
    p: f64,
}

impl StudentTest {
    fn new(before: &[f64], after: &[f64]) -> Self {
        let ((n, mean, variance), (m, other_mean, other_variance)) = (moments(before), moments(after));
        let freedom = n + m - 2.0;
        let pooled = ((n - 1.0) * variance + (m - 1.0) * other_variance) / freedom;
        let t = (mean - other_mean) / (pooled * (1.0 / n + 1.0 / m)).sqrt();
        // Two values, or no difference and no spread, are no evidence; a difference without spread is certain.
        let p = match t {
            _ if freedom < 1.0 || t.is_nan() => 1.0,
            _ if t.is_infinite() => 0.0,
            _ => student_two_sided(t, freedom),
        };
        Self { before: mean, after: other_mean, p }
    }
}

/// Number, mean and variance of values; the variance divides by n.
fn moments(values: &[f64]) -> (f64, f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    (count, mean, values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(levels: &[(usize, f64)]) -> Vec<f64> {
        let mut random = fastrand::Rng::with_seed(9);
        levels
            .iter()
            .flat_map(|&(count, level)| (0..count).map(move |_| level))
            .map(|level| level * (1.0 + 0.04 * (random.f64() - 0.5)))
            .collect()
    }

    fn found(values: &[f64], breaks: &[usize], known: &[usize]) -> Vec<(usize, bool)> {
        let points = change_points(values, breaks, known, &StepOptions::default()).unwrap();
        points.iter().map(|point| (point.index, point.is_known)).collect()
    }

    #[test]
    fn steps_are_found_and_reported_as_ratios() {
        let values = series(&[(60, 10.0), (40, 12.0), (80, 11.0)]);
        let points = change_points(&values, &[], &[], &StepOptions::default()).unwrap();
        assert_eq!(points.iter().map(|point| point.index).collect::<Vec<_>>(), [60, 100]);
        assert!((points[0].ratio() - 1.2).abs() < 0.01 && (points[1].before - 12.0).abs() < 0.05, "{points:?}");
        let larger = StepOptions { min_change: 0.12, ..StepOptions::default() };
        assert_eq!(change_points(&values, &[], &[], &larger).unwrap().len(), 1);
    }

    #[test]
    fn a_level_that_goes_and_comes_back_is_two_steps() {
        let levels = |levels: &[(usize, f64)]| -> Vec<f64> {
            levels.iter().flat_map(|&(count, level)| std::iter::repeat_n(level, count)).collect()
        };
        assert_eq!(found(&levels(&[(4, 5.234), (4, 4.190), (4, 5.652)]), &[], &[]), [(4, false), (8, false)]);
        assert_eq!(found(&levels(&[(4, 4.190), (4, 5.234), (4, 5.652)]), &[], &[]), [(4, false), (8, false)]);
        let alternating = [(5, 10.0), (5, 12.0), (5, 10.0), (5, 12.0)];
        for values in [levels(&alternating), series(&alternating)] {
            assert_eq!(found(&values, &[], &[]), [(5, false), (10, false), (15, false)]);
        }
        assert_eq!(found(&series(&[(20, 10.0), (5, 12.0), (20, 10.0)]), &[], &[]), [(20, false), (25, false)]);
        assert_eq!(found(&series(&[(20, 10.0), (2, 12.0), (20, 10.0)]), &[], &[]), []);
        assert_eq!(found(&series(&[(200, 10.0)]), &[], &[]), []);
    }

    #[test]
    fn nothing_is_compared_across_a_break_and_known_steps_are_marked() {
        let values = series(&[(60, 10.0), (40, 12.0), (80, 11.0)]);
        assert_eq!(found(&values, &[60], &[]), [(100, false)]);
        assert_eq!(found(&values, &[100, 60, 60], &[]), []);
        assert_eq!(found(&values, &[], &[100]), [(60, false), (100, true)]);
        assert_eq!(found(&values, &[60], &[60, 101]), [(101, true)]);
        assert_eq!(found(&values, &[], &[20]), [(20, true), (60, false), (100, false)]);
    }

    #[test]
    fn the_newest_values_are_no_step_until_there_are_enough() {
        let values = series(&[(60, 10.0), (5, 12.0)]);
        assert_eq!(found(&values[..62], &[], &[]), []);
        assert_eq!(found(&values[..63], &[], &[]), [(60, false)]);
        let outlier = series(&[(30, 10.0), (1, 20.0), (30, 10.0)]);
        assert_eq!(found(&outlier, &[], &[]), []);
    }

    #[test]
    fn series_without_spread_are_no_special_case() {
        assert_eq!(found(&[0.1; 200], &[], &[]), []);
        assert_eq!(found(&[0.1], &[], &[]), []);
        let step: Vec<f64> = (0..40).map(|index| if index < 13 { 0.1 } else { 0.3 }).collect();
        assert_eq!(found(&step, &[], &[]), [(13, false)]);
    }

    #[test]
    fn places_outside_the_series_are_errors() {
        let told = |breaks: &[usize], known: &[usize]| {
            change_points(&[1.0; 9], breaks, known, &StepOptions::default()).unwrap_err()
        };
        assert_eq!(told(&[9], &[]), Error::OutsideSeries { what: "break", index: 9, last: 8 });
        assert_eq!(told(&[], &[0]), Error::OutsideSeries { what: "known step", index: 0, last: 8 });
    }
}

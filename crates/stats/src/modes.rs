//! Tests for several modes: Hartigan's dip test, and a split of values into two groups.

const SIMULATIONS: usize = 1_999;

/// Most values per simulated set; for more, the dip is scaled, as it decreases with the square root of the number.
const MOST_SIMULATED: usize = 400;

/// Result of a dip test: distance of the values from a distribution with one mode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dip {
    /// Largest distance between the distribution function and the nearest one with a single mode, 0 to 0.25.
    pub dip: f64,
    /// P-value of "one mode", in steps of 1/2000.
    pub p: f64,
}

/// Dip test of values in any order; `None` below 4 values, or if one is not finite.
///
/// The p-value assumes the uniform distribution, the worst case of a single mode. It is simulated with a fixed seed, so
/// that equal values have equal p-values. Values must be independent. Many equal values, e.g. from a coarse clock, look
/// like modes.
///
/// # Source
/// Hartigan and Hartigan (1985), doi:10.1214/aos/1176346577. Computed by algorithm AS 217, doi:10.2307/2347485,
/// corrected: its loop ends when the modal interval no longer shrinks.
pub fn dip_test(values: &[f64]) -> Option<Dip> {
    if values.len() < 4 || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let found = dip(&sorted);
    let simulated = values.len().min(MOST_SIMULATED);
    let scaled = found * (values.len() as f64 / simulated as f64).sqrt();
    let mut random = fastrand::Rng::with_seed(0);
    let mut uniform = vec![0.0; simulated];
    let is_as_large = |_: &usize| {
        // Cumulative sums of exponential gaps are sorted uniform values, up to a factor.
        let mut sum = 0.0;
        for value in &mut uniform {
            sum -= (1.0 - random.f64()).ln();
            *value = sum;
        }
        dip(&uniform) >= scaled
    };
    let as_large = (0..SIMULATIONS).filter(is_as_large).count();
    Some(Dip { dip: found, p: (as_large + 1) as f64 / (SIMULATIONS + 1) as f64 })
}

/// Dip of values in any order; `None` below 4 values, or if one is not finite.
pub fn dip_of(values: &[f64]) -> Option<f64> {
    if values.len() < 4 || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    Some(dip(&sorted))
}

/// Dip of sorted values. Distances are in steps of the distribution function (1/n), and are halved at the end.
fn dip(sorted: &[f64]) -> f64 {
    let (mut low, mut high) = (0, sorted.len() - 1);
    let mut largest: f64 = 1.0;
    if sorted[low] == sorted[high] {
        return 0.0;
    }
    loop {
        let minorant = hull(sorted, low, high, |before, after| before >= after);
        let majorant = hull(sorted, low, high, |before, after| before <= after);
        let (gap, next_low, next_high) = widest_gap(sorted, &minorant, &majorant);
        if gap <= largest {
            break;
        }
        // Outside the new modal interval: steps above the minorant on the left, below the majorant on the right.
        let left = minorant.windows(2).filter(|ends| ends[1] <= next_low);
        let right = majorant.windows(2).filter(|ends| ends[0] >= next_high);
        let left = left.map(|ends| farthest(sorted, ends, 1.0)).fold(0.0, f64::max);
        let right = right.map(|ends| farthest(sorted, ends, -1.0)).fold(0.0, f64::max);
        largest = largest.max(left).max(right);
        if (next_low, next_high) == (low, high) {
            break;
        }
        (low, high) = (next_low, next_high);
    }
    largest / (2 * sorted.len()) as f64
}

/// Knots, from low to high, of the convex (or concave) hull of the points (value, place).
fn hull(sorted: &[f64], low: usize, high: usize, bends_wrongly: impl Fn(f64, f64) -> bool) -> Vec<usize> {
    let mut knots: Vec<usize> = Vec::new();
    for place in low..=high {
        while let [.., before, last] = knots[..] {
            // Slopes, multiplied by both differences of values.
            let first = (last - before) as f64 * (sorted[place] - sorted[last]);
            let second = (place - last) as f64 * (sorted[last] - sorted[before]);
            if !bends_wrongly(first, second) {
                break;
            }
            knots.pop();
        }
        knots.push(place);
    }
    knots
}

/// Largest vertical distance between the hulls at a knot of either, plus the step itself. Also returns the adjacent
/// knots: of the minorant on the left, of the majorant on the right.
fn widest_gap(sorted: &[f64], minorant: &[usize], majorant: &[usize]) -> (f64, usize, usize) {
    let (first, last) = (minorant[0], minorant[minorant.len() - 1]);
    let mut widest = (0.0, first, last);
    let (mut of_minorant, mut of_majorant) = (1, 1);
    while minorant[of_minorant] != last || majorant[of_majorant] != last {
        let (lower, upper) = (minorant[of_minorant], majorant[of_majorant]);
        let gap = if upper < lower {
            let ends = &minorant[of_minorant - 1..=of_minorant];
            of_majorant += 1;
            (above(sorted, ends, upper) + 1.0, ends[0], upper)
        } else {
            let ends = &majorant[of_majorant - 1..=of_majorant];
            if lower == upper {
                of_majorant += 1;
            }
            of_minorant += 1;
            (1.0 - above(sorted, ends, lower), lower, ends[1])
        };
        if gap.0 >= widest.0 {
            widest = gap;
        }
    }
    widest
}

/// Height of the point at `place` above the line between two knots, in steps.
fn above(sorted: &[f64], ends: &[usize], place: usize) -> f64 {
    let (from, to) = (ends[0], ends[1]);
    let slope = (to - from) as f64 / (sorted[to] - sorted[from]);
    (place - from) as f64 - (sorted[place] - sorted[from]) * slope
}

/// Largest distance of the steps between two knots from the line, upwards (1) or downwards (-1).
fn farthest(sorted: &[f64], ends: &[usize], direction: f64) -> f64 {
    if sorted[ends[0]] == sorted[ends[1]] {
        return 1.0;
    }
    (ends[0]..=ends[1]).map(|place| direction * above(sorted, ends, place) + 1.0).fold(1.0, f64::max)
}

/// Sizes and medians of two groups of values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Groups {
    /// Number of values in the lower group.
    pub lower_count: usize,
    /// Median of the lower group.
    pub lower_median: f64,
    /// Number of values in the upper group.
    pub upper_count: usize,
    /// Median of the upper group.
    pub upper_median: f64,
}

/// Splits values into the two groups with the smallest sum of squares within. There are always two groups; [`dip_test`]
/// decides if they are modes. `None` if all values are equal, or one is not finite.
///
/// # Source
/// Fisher (1958), "On grouping for maximum homogeneity", doi:10.1080/01621459.1958.10501479, with two groups.
pub fn two_groups(values: &[f64]) -> Option<Groups> {
    if values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let (count, mean) = (sorted.len() as f64, sorted.iter().sum::<f64>() / sorted.len() as f64);
    let (mut below, mut best) = (0.0, (0.0, 0));
    for (place, pair) in sorted.windows(2).enumerate() {
        below += pair[0] - mean;
        let first = (place + 1) as f64;
        // Sum of squares between the groups; with the sum within, it adds up to the total.
        let between = below * below * count / (first * (count - first));
        if pair[0] < pair[1] && between > best.0 {
            best = (between, place + 1);
        }
    }
    let (lower, upper) = sorted.split_at(best.1);
    Some(Groups {
        lower_count: lower.len(),
        lower_median: crate::median(lower)?,
        upper_count: upper.len(),
        upper_median: crate::median(upper)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_mode_is_one_and_two_are_two() {
        let mut random = fastrand::Rng::with_seed(4);
        let mut bell = || (0..6).map(|_| random.f64()).sum::<f64>();
        let one: Vec<f64> = (0..100).map(|_| bell()).collect();
        let two: Vec<f64> = (0..100).map(|index| bell() + if index % 4 == 0 { 6.0 } else { 0.0 }).collect();
        assert!(dip_test(&one).unwrap().p > 0.2);
        assert!(dip_test(&two).unwrap().p <= 0.001);
        let groups = two_groups(&two).unwrap();
        assert_eq!((groups.lower_count, groups.upper_count), (75, 25));
        assert!((groups.upper_median - groups.lower_median - 6.0).abs() < 1.0);
    }

    #[test]
    fn few_or_equal_values_have_no_modes() {
        assert_eq!((dip_test(&[1.0, 2.0, 3.0]), two_groups(&[5.0; 9]), two_groups(&[])), (None, None, None));
        assert_eq!(dip_test(&[5.0; 9]), Some(Dip { dip: 0.0, p: 1.0 }));
    }
}

//! Sums and extremes of numbers, or pairs of numbers, in several lanes at once.

const LANES: usize = 8;
/// Longest block that is summed without being halved again.
const BLOCK: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SumAndRange {
    /// Added in numpy's order, so that it is rounded as by numpy.
    pub sum: f64,
    /// Infinity if there are no numbers.
    pub smallest: f64,
    /// Negative infinity if there are no numbers.
    pub largest: f64,
}

/// Sum and extremes of `f` over the pairs; `f` must not return NaN. Panics if the slices differ in length.
///
/// # Source
/// numpy, `loops_utils.h.src`, `pairwise_sum`; Higham (1993), "The accuracy of floating point summation".
pub fn figures(left: &[f64], right: &[f64], f: impl Fn(f64, f64) -> f64) -> SumAndRange {
    added::<true>(left, right, f)
}

/// Sum of `f` over the pairs, as in [`figures`]. Panics if the slices differ in length.
pub fn sum(left: &[f64], right: &[f64], f: impl Fn(f64, f64) -> f64) -> f64 {
    added::<false>(left, right, f).sum
}

fn added<const EXTREMES: bool>(left: &[f64], right: &[f64], f: impl Fn(f64, f64) -> f64) -> SumAndRange {
    assert_eq!(left.len(), right.len(), "numbers come in pairs");
    let ((lefts, last_lefts), (rights, last_rights)) = (left.as_chunks(), right.as_chunks());
    let blocks = blocks(left.len());
    let Lanes { sums, smallest, largest } = by_block::<EXTREMES>(lefts, rights, &f, &blocks);
    let together = |[one, two, three, four, five, six, seven, eight]: &[f64; LANES]| {
        ((one + two) + (three + four)) + ((five + six) + (seven + eight))
    };
    // Separate from the loop that makes `sums`: otherwise the compiler rearranges its lanes for this addition.
    let mut sums: Vec<f64> = sums.iter().map(together).collect();
    // The rest belongs to the last block that is not empty: the other blocks consist of whole lanes.
    let last: Vec<f64> = last_lefts.iter().zip(last_rights).map(|(left, right)| f(*left, *right)).collect();
    if let Some(its) = blocks.iter().rposition(|length| *length > 0) {
        sums[its] = last.iter().fold(sums[its], |sum, number| sum + number);
    }
    while sums.len() > 1 {
        sums = sums.as_chunks().0.iter().map(|[first, second]| first + second).collect();
    }
    let all = |lanes: [f64; LANES]| lanes.into_iter().chain(last.iter().copied());
    let (smallest, largest) = (all(smallest).reduce(smaller), all(largest).reduce(larger));
    SumAndRange {
        sum: sums[0],
        smallest: smallest.unwrap_or(f64::INFINITY),
        largest: largest.unwrap_or(f64::NEG_INFINITY),
    }
}

/// Lengths of the blocks that `length` numbers are divided into by repeated halving. All are halved equally often: a
/// block that is already short enough is followed by an empty one, whose sum changes nothing.
fn blocks(length: usize) -> Vec<usize> {
    let mut blocks = vec![length];
    while blocks.iter().any(|length| *length > BLOCK) {
        let mut halves = vec![[0; 2]; blocks.len()];
        for (halves, length) in halves.iter_mut().zip(blocks) {
            let first = if length > BLOCK { length / 2 / LANES * LANES } else { length };
            *halves = [first, length - first];
        }
        blocks = halves.into_flattened();
    }
    blocks
}

/// Sums and extremes per lane, over pairs of whole lanes.
struct Lanes {
    /// One entry per block.
    sums: Vec<[f64; LANES]>,
    smallest: [f64; LANES],
    largest: [f64; LANES],
}

/// Sums of blocks of the given lengths, and the extremes of all numbers if `EXTREMES`.
fn by_block<const EXTREMES: bool>(
    mut lefts: &[[f64; LANES]],
    mut rights: &[[f64; LANES]],
    f: impl Fn(f64, f64) -> f64,
    blocks: &[usize],
) -> Lanes {
    let (mut smallest, mut largest) = ([f64::INFINITY; LANES], [f64::NEG_INFINITY; LANES]);
    let mut sums = Vec::with_capacity(blocks.len());
    for length in blocks {
        let (left, right);
        ((left, lefts), (right, rights)) = (lefts.split_at(length / LANES), rights.split_at(length / LANES));
        // Separate extremes per block, so that a block does not wait for the one before.
        let (mut sum, mut least, mut most) = ([0.0; LANES], [f64::INFINITY; LANES], [f64::NEG_INFINITY; LANES]);
        for (left, right) in left.iter().zip(right) {
            let numbers = by_lane(*left, *right, &f);
            sum = by_lane(sum, numbers, |sum, number| sum + number);
            if EXTREMES {
                least = by_lane(least, numbers, smaller);
                most = by_lane(most, numbers, larger);
            }
        }
        sums.push(sum);
        (smallest, largest) = (by_lane(smallest, least, smaller), by_lane(largest, most, larger));
    }
    Lanes { sums, smallest, largest }
}

#[inline(always)]
fn by_lane(left: [f64; LANES], right: [f64; LANES], f: impl Fn(f64, f64) -> f64) -> [f64; LANES] {
    std::array::from_fn(|lane| f(left[lane], right[lane]))
}

#[inline(always)]
fn smaller(one: f64, other: f64) -> f64 {
    if other < one { other } else { one }
}

#[inline(always)]
fn larger(one: f64, other: f64) -> f64 {
    if other > one { other } else { one }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_counted_once() {
        for length in [0, 1, 7, 8, 9, 127, 128, 129, 1000, 1031] {
            let numbers: Vec<f64> = (1..=length).map(f64::from).collect();
            let sum = f64::from(length) * f64::from(length + 1) / 2.0;
            let [least, most] = if length == 0 { [f64::INFINITY, f64::NEG_INFINITY] } else { [1.0, length.into()] };
            let expected = SumAndRange { sum, smallest: least, largest: most };
            assert_eq!(figures(&numbers, &numbers, |number, _| number), expected, "{length}");
        }
    }
}

//! Sums and extremes over numbers, or pairs of numbers, in several lanes at once.

use tripmeter_model::wide::{self, Wide};

const LANES: usize = 8;
/// Longest part that is added without being halved again.
const BLOCK: usize = 128;

/// The sum of `f` over the pairs, in numpy's order of additions, so that it is rounded as numpy's; and the largest of
/// `f`, negative infinity without a pair. No `f` is NaN.
///
/// # Panics
/// If the slices differ in length.
///
/// # Source
/// numpy, `loops_utils.h.src`, `pairwise_sum`; Higham (1993), "The accuracy of floating point summation".
pub fn sum_and_largest(left: &[f64], right: &[f64], f: impl Fn(f64, f64) -> f64) -> [f64; 2] {
    assert_eq!(left.len(), right.len(), "numbers come in pairs");
    let ((lefts, last_lefts), (rights, last_rights)) = (left.as_chunks(), right.as_chunks());
    let mut blocks = Vec::with_capacity(left.len() / (BLOCK / 2) + 1);
    halved(left.len(), &mut |length| {
        blocks.push(length / LANES);
        0.0
    });
    let (sums, largest) = wide::run(ByLane { lefts, rights, f: &f, blocks: &blocks });
    // These are in the last block: the others are of whole lanes.
    let last: Vec<f64> = last_lefts.iter().zip(last_rights).map(|(left, right)| f(*left, *right)).collect();
    let mut sums = sums.into_iter();
    let sum = halved(left.len(), &mut |length| {
        let [one, two, three, four, five, six, seven, eight] = sums.next().expect("every block has a sum");
        let sum = ((one + two) + (three + four)) + ((five + six) + (seven + eight));
        if length % LANES == 0 { sum } else { last.iter().fold(sum, |sum, number| sum + number) }
    });
    [sum, largest.into_iter().chain(last).fold(f64::NEG_INFINITY, larger)]
}

/// The smallest of numbers that are not NaN; infinity without a number.
pub fn smallest(numbers: &[f64]) -> f64 {
    let (eights, rest) = numbers.as_chunks();
    wide::run(Smallest(eights)).iter().chain(rest).copied().fold(f64::INFINITY, smaller)
}

/// The sums of blocks of so many times [`LANES`] pairs, and the largest of all, by lane.
// They are put together elsewhere: the compiler would arrange the lanes for that.
struct ByLane<'a, F> {
    lefts: &'a [[f64; LANES]],
    rights: &'a [[f64; LANES]],
    f: F,
    blocks: &'a [usize],
}

impl<F: Fn(f64, f64) -> f64> Wide for ByLane<'_, F> {
    type Made = (Vec<[f64; LANES]>, [f64; LANES]);

    #[inline(always)]
    fn run(self) -> Self::Made {
        let (mut sums, mut largest) = (Vec::with_capacity(self.blocks.len()), [f64::NEG_INFINITY; LANES]);
        let (mut lefts, mut rights) = (self.lefts, self.rights);
        for block in self.blocks {
            let (left, right);
            ((left, lefts), (right, rights)) = (lefts.split_at(*block), rights.split_at(*block));
            let mut sum = [0.0; LANES];
            for (left, right) in left.iter().zip(right) {
                let numbers = by_lane(*left, *right, &self.f);
                sum = by_lane(sum, numbers, |sum, number| sum + number);
                largest = by_lane(largest, numbers, larger);
            }
            sums.push(sum);
        }
        (sums, largest)
    }
}

struct Smallest<'a>(&'a [[f64; LANES]]);

impl Wide for Smallest<'_> {
    type Made = [f64; LANES];

    #[inline(always)]
    fn run(self) -> [f64; LANES] {
        self.0.iter().fold([f64::INFINITY; LANES], |lanes, eight| by_lane(lanes, *eight, smaller))
    }
}

/// Adds what comes of the blocks that numbers are divided into by halving.
fn halved(length: usize, block: &mut impl FnMut(usize) -> f64) -> f64 {
    if length <= BLOCK {
        return block(length);
    }
    let half = length / 2 / LANES * LANES;
    halved(half, block) + halved(length - half, block)
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
            assert_eq!(sum_and_largest(&numbers, &numbers, |number, _| number), [sum, most], "{length}");
            assert_eq!(smallest(&numbers), least);
        }
    }
}

//! Sums and extremes over numbers, or pairs of numbers, in several lanes at once.

use tripmeter_model::wide::{self, Wide};

const LANES: usize = 8;
/// Longest part that is added without being halved again.
const BLOCK: usize = 128;

/// What comes of numbers taken together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// In numpy's order of additions, so that it is rounded as numpy's.
    pub sum: f64,
    /// Infinity without a number.
    pub smallest: f64,
    /// Negative infinity without a number.
    pub largest: f64,
}

/// The figures of `f` over the pairs. No `f` is NaN.
///
/// # Panics
/// If the slices differ in length.
///
/// # Source
/// numpy, `loops_utils.h.src`, `pairwise_sum`; Higham (1993), "The accuracy of floating point summation".
pub fn figures(left: &[f64], right: &[f64], f: impl Fn(f64, f64) -> f64) -> Figures {
    assert_eq!(left.len(), right.len(), "numbers come in pairs");
    let ((lefts, last_lefts), (rights, last_rights)) = (left.as_chunks(), right.as_chunks());
    let mut blocks = Vec::with_capacity(left.len() / (BLOCK / 2) + 1);
    halved(left.len(), &mut |length| {
        blocks.push(length / LANES);
        0.0
    });
    let Lanes { sums, smallest, largest } = wide::run(ByLane { lefts, rights, f: &f, blocks: &blocks });
    let mut sums = wide::run(Together(&sums)).into_iter();
    // These are in the last block: the others are of whole lanes.
    let last: Vec<f64> = last_lefts.iter().zip(last_rights).map(|(left, right)| f(*left, *right)).collect();
    let sum = halved(left.len(), &mut |length| {
        let sum = sums.next().expect("every block has a sum");
        if length % LANES == 0 { sum } else { last.iter().fold(sum, |sum, number| sum + number) }
    });
    let all = |lanes: [f64; LANES]| lanes.into_iter().chain(last.iter().copied());
    let (smallest, largest) = (all(smallest).reduce(smaller), all(largest).reduce(larger));
    Figures { sum, smallest: smallest.unwrap_or(f64::INFINITY), largest: largest.unwrap_or(f64::NEG_INFINITY) }
}

/// The sums of blocks of so many times [`LANES`] pairs, and the extremes of all, by lane.
struct ByLane<'a, F> {
    lefts: &'a [[f64; LANES]],
    rights: &'a [[f64; LANES]],
    f: F,
    blocks: &'a [usize],
}

/// What comes of it.
struct Lanes {
    /// By block.
    sums: Vec<[f64; LANES]>,
    smallest: [f64; LANES],
    largest: [f64; LANES],
}

impl<F: Fn(f64, f64) -> f64> Wide for ByLane<'_, F> {
    type Made = Lanes;

    #[inline(always)]
    fn run(self) -> Lanes {
        let (mut smallest, mut largest) = ([f64::INFINITY; LANES], [f64::NEG_INFINITY; LANES]);
        let mut sums = Vec::with_capacity(self.blocks.len());
        let (mut lefts, mut rights) = (self.lefts, self.rights);
        for block in self.blocks {
            let (left, right);
            ((left, lefts), (right, rights)) = (lefts.split_at(*block), rights.split_at(*block));
            // With extremes of its own a block need not wait for the one before.
            let (mut sum, mut least, mut most) = ([0.0; LANES], [f64::INFINITY; LANES], [f64::NEG_INFINITY; LANES]);
            for (left, right) in left.iter().zip(right) {
                let numbers = by_lane(*left, *right, &self.f);
                sum = by_lane(sum, numbers, |sum, number| sum + number);
                least = by_lane(least, numbers, smaller);
                most = by_lane(most, numbers, larger);
            }
            sums.push(sum);
            (smallest, largest) = (by_lane(smallest, least, smaller), by_lane(largest, most, larger));
        }
        Lanes { sums, smallest, largest }
    }
}

/// The sums of the blocks, from those of their lanes.
// Apart from making these: the compiler would arrange the lanes for that.
struct Together<'a>(&'a [[f64; LANES]]);

impl Wide for Together<'_> {
    type Made = Vec<f64>;

    #[inline(always)]
    fn run(self) -> Vec<f64> {
        let sum = |[one, two, three, four, five, six, seven, eight]: &[f64; LANES]| {
            ((one + two) + (three + four)) + ((five + six) + (seven + eight))
        };
        self.0.iter().map(sum).collect()
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
            let expected = Figures { sum, smallest: least, largest: most };
            assert_eq!(figures(&numbers, &numbers, |number, _| number), expected, "{length}");
        }
    }
}

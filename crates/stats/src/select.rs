//! Order statistics without sorting everything.

use crate::latency::interpolated;
use crate::pairwise;
use tripmeter_model::wide::{self, Wide};

/// Parts that the range of the samples is divided into.
const BUCKETS: usize = 4096;
/// Fewer samples are sorted.
const FEW: usize = 2048;
/// Samples whose buckets are found together.
const PIECE: usize = 512;

/// The quantiles of samples, which are overwritten. The samples are finite and not negative, the fractions within 0 to
/// 1.
///
/// # Panics
/// If there is no sample.
pub fn quantiles<const N: usize>(samples: &mut [f64], fractions: [f64; N]) -> [f64; N] {
    let all = pairwise::figures(samples, samples, |sample, _| sample);
    quantiles_within(samples, [all.smallest, all.largest], fractions)
}

/// The same, where the smallest and the largest sample are known.
pub fn quantiles_within<const N: usize>(samples: &mut [f64], range: [f64; 2], fractions: [f64; N]) -> [f64; N] {
    let positions = fractions.map(|fraction| fraction * (samples.len() - 1) as f64);
    let below = positions.map(|position| position.floor() as usize);
    let above = below.map(|rank| (rank + 1).min(samples.len() - 1));
    let values = ranked(samples, range, [below, above]);
    std::array::from_fn(|index| interpolated(values[0][index], values[1][index], positions[index]))
}

/// The samples of these ranks; 0 is the rank of the smallest.
fn ranked<const N: usize>(samples: &mut [f64], range: [f64; 2], ranks: [[usize; N]; 2]) -> [[f64; N]; 2] {
    if samples.len() < FEW {
        samples.sort_unstable_by(f64::total_cmp);
        return ranks.map(|ranks| ranks.map(|rank| samples[rank]));
    }
    let buckets = Buckets::of(range);
    let mut counts = [0_u32; BUCKETS];
    for piece in samples.chunks(PIECE) {
        let placed = wide::run(Placed { buckets: &buckets, samples: piece });
        for bucket in &placed[..piece.len()] {
            // The mask changes nothing; it spares a check.
            counts[usize::from(*bucket) & (BUCKETS - 1)] += 1;
        }
    }
    let (mut wanted, mut all_wanted) = ([false; BUCKETS], [[0; N]; 2]);
    // Ranks among the samples of the buckets that are wanted.
    let mut among = ranks;
    let mut order: Vec<(&mut usize, &mut u16)> =
        among.as_flattened_mut().iter_mut().zip(all_wanted.as_flattened_mut()).collect();
    order.sort_unstable();
    let mut order = order.into_iter().peekable();
    let (mut before, mut left_out) = (0, 0);
    for (bucket, (wanted, count)) in wanted.iter_mut().zip(counts).enumerate() {
        let after = before + count as usize;
        while let Some((rank, its)) = order.next_if(|(rank, _)| **rank < after) {
            *rank -= left_out;
            (*wanted, *its) = (true, bucket as u16);
        }
        left_out += if *wanted { 0 } else { count as usize };
        before = after;
    }
    let mut kept = 0;
    for start in (0..samples.len()).step_by(PIECE) {
        let piece = &samples[start..samples.len().min(start + PIECE)];
        let length = piece.len();
        let placed = Placed { buckets: &buckets, samples: piece };
        let mut is_wanted = wide::run(IsWanted { placed, wanted: all_wanted });
        is_wanted[length..].fill(0);
        for (group, is_wanted) in is_wanted.as_chunks().0.iter().enumerate() {
            // Few are.
            let mut left = u64::from_le_bytes(*is_wanted);
            while left != 0 {
                samples[kept] = samples[start + group * 8 + left.trailing_zeros() as usize / 8];
                kept += 1;
                left &= left - 1;
            }
        }
    }
    let kept = &mut samples[..kept];
    kept.sort_unstable_by(f64::total_cmp);
    among.map(|ranks| ranks.map(|rank| kept[rank]))
}

/// Equal parts of a range of numbers that are not negative, where their bits as an integer rise with them: so of
/// nearly equal ratio, which suits samples with a long tail.
struct Buckets {
    lowest: u64,
    shift: u32,
}

impl Buckets {
    fn of(range: [f64; 2]) -> Self {
        let [lowest, highest] = range.map(f64::to_bits);
        let width = u64::BITS - (highest - lowest).leading_zeros();
        Self { lowest, shift: width.saturating_sub(BUCKETS.ilog2()) }
    }
}

/// The buckets of at most [`PIECE`] samples.
struct Placed<'a> {
    buckets: &'a Buckets,
    samples: &'a [f64],
}

impl Wide for Placed<'_> {
    type Made = [u16; PIECE];

    #[inline(always)]
    fn run(self) -> [u16; PIECE] {
        let mut placed = [0; PIECE];
        for (placed, sample) in placed.iter_mut().zip(self.samples) {
            *placed = ((sample.to_bits() - self.buckets.lowest) >> self.buckets.shift) as u16;
        }
        placed
    }
}

/// Whether samples are in a bucket that is wanted: 1, or else 0.
struct IsWanted<'a, const N: usize> {
    placed: Placed<'a>,
    wanted: [[u16; N]; 2],
}

impl<const N: usize> Wide for IsWanted<'_, N> {
    type Made = [u8; PIECE];

    #[inline(always)]
    fn run(self) -> [u8; PIECE] {
        let mut is_wanted = [0; PIECE];
        for (is, bucket) in is_wanted.iter_mut().zip(self.placed.run()) {
            for wanted in self.wanted.as_flattened() {
                *is |= u8::from(bucket == *wanted);
            }
        }
        is_wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_sorting(samples: &[f64], fraction: f64) -> f64 {
        let mut sorted = samples.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let position = fraction * (sorted.len() - 1) as f64;
        let below = position.floor() as usize;
        interpolated(sorted[below], sorted[(below + 1).min(sorted.len() - 1)], position)
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_samples() {
        let fractions = [0.0, 0.25, 0.5, 0.9, 0.99, 0.9999, 1.0];
        let waves: Vec<f64> = (0..20_011).map(|i| (f64::from((i * 7919) % 10_007) / 1000.0).exp2()).collect();
        let mut with_zero = waves.clone();
        with_zero[77] = 0.0;
        let steps: Vec<f64> = (0..5000).map(|i| f64::from(i % 3)).collect();
        for samples in [waves, with_zero, steps, vec![2.5; 4096], vec![0.0; 3000], vec![1.0], vec![3.0, 1.0]] {
            let found = quantiles(&mut samples.clone(), fractions);
            assert_eq!(found, fractions.map(|fraction| by_sorting(&samples, fraction)), "{}", samples.len());
        }
    }
}

//! Order statistics without sorting all samples.

use crate::pairwise;

/// Parts into which the range of the samples is divided.
const BUCKETS: usize = 4096;
/// With fewer samples, all are sorted.
const FEW: usize = 2048;

/// Quantiles of samples, which are overwritten. Samples are finite and not negative; fractions are from 0 to 1. Panics
/// if there is no sample.
pub fn quantiles<const N: usize>(samples: &mut [f64], fractions: [f64; N]) -> [f64; N] {
    let all = pairwise::figures(samples, samples, |sample, _| sample);
    quantiles_within(samples, [all.smallest, all.largest], fractions)
}

/// Quantiles as by [`quantiles`], with the smallest and the largest sample given.
pub fn quantiles_within<const N: usize>(samples: &mut [f64], range: [f64; 2], fractions: [f64; N]) -> [f64; N] {
    let positions = fractions.map(|fraction| fraction * (samples.len() - 1) as f64);
    let below = positions.map(|position| position.floor() as usize);
    let above = below.map(|rank| (rank + 1).min(samples.len() - 1));
    let values = ranked(samples, range, [below, above]);
    std::array::from_fn(|index| interpolated(values[0][index], values[1][index], positions[index]))
}

/// Interpolates at `position` between two neighbours of a sorted list.
///
/// # Source
/// Hyndman and Fan (1996), type 7, as `numpy.percentile` rounds it (`_lerp` in `_function_base_impl.py`).
fn interpolated(below: f64, above: f64, position: f64) -> f64 {
    let fraction = position - position.floor();
    let difference = above - below;
    if fraction >= 0.5 { above - difference * (1.0 - fraction) } else { below + difference * fraction }
}

/// Samples of the given ranks; 0 is the smallest.
fn ranked<const N: usize>(samples: &mut [f64], range: [f64; 2], ranks: [[usize; N]; 2]) -> [[f64; N]; 2] {
    if samples.len() < FEW {
        samples.sort_unstable_by(f64::total_cmp);
        return ranks.map(|ranks| ranks.map(|rank| samples[rank]));
    }
    let buckets = Buckets::for_range(range);
    let mut counts = [0_u32; BUCKETS];
    for sample in &*samples {
        counts[buckets.place(*sample)] += 1;
    }
    let mut wanted = [false; BUCKETS];
    // Ranks among the samples in wanted buckets.
    let mut among = ranks;
    let mut order: Vec<&mut usize> = among.as_flattened_mut().iter_mut().collect();
    order.sort_unstable();
    let mut order = order.into_iter().peekable();
    let (mut before, mut left_out) = (0, 0);
    for (wanted, count) in wanted.iter_mut().zip(counts) {
        let after = before + count as usize;
        while let Some(rank) = order.next_if(|rank| **rank < after) {
            *rank -= left_out;
            *wanted = true;
        }
        left_out += if *wanted { 0 } else { count as usize };
        before = after;
    }
    let mut kept = 0;
    for at in 0..samples.len() {
        // Branch-free, because few samples are kept.
        samples[kept] = samples[at];
        kept += usize::from(wanted[buckets.place(samples[at])]);
    }
    let kept = &mut samples[..kept];
    kept.sort_unstable_by(f64::total_cmp);
    among.map(|ranks| ranks.map(|rank| kept[rank]))
}

/// Buckets over a range of non-negative numbers: equal parts of their bits read as integers, which rise with the value.
/// The parts have nearly equal ratios, which suits samples with a long tail.
struct Buckets {
    lowest: u64,
    shift: u32,
}

impl Buckets {
    fn for_range(range: [f64; 2]) -> Self {
        let [lowest, highest] = range.map(f64::to_bits);
        let width = u64::BITS - (highest - lowest).leading_zeros();
        Self { lowest, shift: width.saturating_sub(BUCKETS.ilog2()) }
    }

    #[inline(always)]
    fn place(&self, sample: f64) -> usize {
        // The mask changes no value; it avoids a bounds check.
        ((sample.to_bits() - self.lowest) >> self.shift) as usize & (BUCKETS - 1)
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

//! P-values adjusted for the number of tests.
//!
//! Each function takes the p-values of all tests, including those that found nothing, and returns adjusted p-values in
//! the same order. Compare an adjusted p-value with the wanted error rate, like an ordinary p-value with a level.

/// Benjamini and Hochberg's adjusted p-values. Among the tests whose adjusted p-value is at most q, the expected share
/// of wrong ones is at most q (false discovery rate). Tests must be independent or positively dependent.
///
/// # Panics
/// If a p-value is not 0 to 1.
///
/// # Source
/// Benjamini and Hochberg (1995), doi:10.1111/j.2517-6161.1995.tb02031.x; dependence: Benjamini and Yekutieli
/// (2001), doi:10.1214/aos/1013699998.
pub fn benjamini_hochberg(p: &[f64]) -> Vec<f64> {
    let order = ascending(p);
    let mut adjusted = vec![0.0; p.len()];
    let mut smallest: f64 = 1.0;
    for (rank, &index) in order.iter().enumerate().rev() {
        smallest = smallest.min(p[index] * p.len() as f64 / (rank + 1) as f64);
        adjusted[index] = smallest;
    }
    adjusted
}

/// Number of tests that Benjamini and Hochberg's procedure rejects at the false discovery rate `q`: the largest R such
/// that R p-values are at most R q / n. The tests with these p-values are rejected. Panics as [`benjamini_hochberg`].
pub fn discoveries(p: &[f64], q: f64) -> usize {
    let order = ascending(p);
    let is_within = |rank: &usize| p[order[rank - 1]] <= level_of(*rank, p.len(), q);
    (1..=p.len()).rev().find(is_within).unwrap_or(0)
}

/// Level of each test if there are `discoveries` among `n` tests: q `discoveries` / n, or q / n without a discovery.
pub fn level_of(discoveries: usize, n: usize, q: f64) -> f64 {
    q * discoveries.max(1) as f64 / n as f64
}

/// Bonferroni's adjusted p-values: each is multiplied by the number of tests. Unlike Holm's, they match simultaneous
/// intervals, each at the level alpha / n. Panics as [`benjamini_hochberg`].
pub fn bonferroni(p: &[f64]) -> Vec<f64> {
    assert_are_probabilities(p);
    p.iter().map(|p_value| (p_value * p.len() as f64).min(1.0)).collect()
}

fn ascending(p: &[f64]) -> Vec<usize> {
    assert_are_probabilities(p);
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    order
}

fn assert_are_probabilities(p: &[f64]) {
    assert!(p.iter().all(|p_value| (0.0..=1.0).contains(p_value)), "a p-value is 0 to 1");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discoveries_are_those_with_a_small_adjusted_p() {
        let p = [0.04, 0.001, 0.9, 0.012, 0.014, 0.2, 0.03];
        assert_eq!(discoveries(&p, 0.05), 3);
        assert_eq!(benjamini_hochberg(&p).iter().filter(|&&adjusted| adjusted <= 0.05).count(), 3);
        assert_eq!((discoveries(&[0.5, 0.6], 0.05), discoveries(&[], 0.05)), (0, 0));
        assert_eq!((benjamini_hochberg(&[]), bonferroni(&[])), (vec![], vec![]));
    }
}

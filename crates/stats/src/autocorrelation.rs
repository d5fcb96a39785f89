//! Dependence of samples on earlier ones, and the effective number of independent samples.

/// Accumulator of the autocorrelations of lags 1 to K; keeps 2 K samples in memory.
#[derive(Clone, Debug)]
pub struct Autocorrelation {
    lags: usize,
    count: usize,
    /// Median of the first K samples, subtracted from every sample to keep sums of products small.
    origin: f64,
    sum: f64,
    squares: f64,
    /// First K samples; once there are K, minus the origin.
    first: Vec<f64>,
    /// Last K samples; sample i is at index i modulo K.
    last: Vec<f64>,
    /// For each lag, the sum of products of a sample with the one `lag` places before.
    products: Vec<f64>,
}

impl Autocorrelation {
    /// Accumulator for lags 1 to `lags`.
    ///
    /// # Panics
    /// If `lags` is 0.
    pub fn new(lags: usize) -> Self {
        assert!(lags > 0, "autocorrelation needs a lag");
        let zeros = vec![0.0; lags];
        Self {
            lags,
            count: 0,
            origin: 0.0,
            sum: 0.0,
            squares: 0.0,
            first: Vec::with_capacity(lags),
            last: zeros.clone(),
            products: zeros,
        }
    }

    /// Adds the next sample.
    pub fn push(&mut self, sample: f64) {
        if self.first.len() == self.lags {
            self.add(sample - self.origin);
            return;
        }
        self.first.push(sample);
        if self.first.len() == self.lags {
            self.origin = crate::median(&self.first).expect("there is a lag");
            for index in 0..self.lags {
                self.first[index] -= self.origin;
                self.add(self.first[index]);
            }
        }
    }

    fn add(&mut self, sample: f64) {
        for lag in 1..=self.lags.min(self.count) {
            self.products[lag - 1] += sample * self.last[(self.count - lag) % self.lags];
        }
        self.last[self.count % self.lags] = sample;
        self.sum += sample;
        self.squares += sample * sample;
        self.count += 1;
    }

    /// Number of samples so far.
    pub fn count(&self) -> usize {
        self.count.max(self.first.len())
    }

    /// Coefficients of lags 1 to K, about the common mean. Covariances and variance divide by n, so that the
    /// coefficients are -1 to 1 and form a positive definite sequence. `None` if there are not more samples than lags,
    /// or if all samples are equal.
    ///
    /// # Source
    /// Box, Jenkins and Reinsel, "Time Series Analysis", section 2.1.
    pub fn coefficients(&self) -> Option<Vec<f64>> {
        if self.count <= self.lags {
            return None;
        }
        let mean = self.sum / self.count as f64;
        let variance = self.squares - mean * self.sum;
        if variance <= 0.0 {
            return None;
        }
        // Sums without the first, or without the last samples, which have no partner at this lag.
        let (mut without_first, mut without_last) = (self.sum, self.sum);
        let coefficient = |lag: usize| {
            without_first -= self.first[lag - 1];
            without_last -= self.last[(self.count - lag) % self.lags];
            let pairs = (self.count - lag) as f64;
            let covariance = self.products[lag - 1] - mean * (without_first + without_last) + pairs * mean * mean;
            covariance / variance
        };
        Some((1..=self.lags).map(coefficient).collect())
    }
}

/// Number of independent samples that would give the mean the same precision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EffectiveSize {
    /// Effective number, from 1 to the number of samples.
    pub samples: f64,
    /// True if correlation dies out within the given lags. Otherwise the number is too large; use more lags.
    pub is_complete: bool,
}

/// Effective size of `count` samples with the coefficients of lags 1, 2, ...: n / (1 + 2 (sum of coefficients)). The
/// sum is taken in pairs, up to the first pair that is not positive.
///
/// # Source
/// Geyer (1992), "Practical Markov Chain Monte Carlo", doi:10.1214/ss/1177011137: initial positive sequence.
pub fn effective_size(count: usize, coefficients: &[f64]) -> EffectiveSize {
    let with_zero: Vec<f64> = std::iter::once(1.0).chain(coefficients.iter().copied()).collect();
    let pairs = with_zero.chunks_exact(2).map(|pair| pair[0] + pair[1]);
    let positive: Vec<f64> = pairs.clone().take_while(|&sum| sum > 0.0).collect();
    let time = 2.0 * positive.iter().sum::<f64>() - 1.0;
    let count = count as f64;
    EffectiveSize {
        samples: (count / time.max(1.0)).max(1.0_f64.min(count)),
        is_complete: positive.len() < pairs.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_or_equal_samples_have_no_coefficients() {
        let of = |samples: &[f64]| {
            let mut found = Autocorrelation::new(3);
            samples.iter().for_each(|&sample| found.push(sample));
            assert_eq!(found.count(), samples.len());
            found.coefficients()
        };
        assert_eq!((of(&[]), of(&[1.0, 2.0, 3.0]), of(&[0.1; 50])), (None, None, None));
        assert_eq!(of(&[1.0, -1.0, 1.0, -1.0]), Some(vec![-0.75, 0.5, -0.25]));
    }

    #[test]
    fn an_autoregressive_run_is_worth_what_theory_says() {
        let mut random = fastrand::Rng::with_seed(2);
        let (mut found, mut state) = (Autocorrelation::new(200), 0.0);
        for _ in 0..100_000 {
            state = 0.8 * state + random.f64() - 0.5;
            found.push(1e6 + state);
        }
        let size = effective_size(found.count(), &found.coefficients().unwrap());
        // Expected value: n (1 - r) / (1 + r)
        assert!(size.is_complete && (size.samples / 11_111.0 - 1.0).abs() < 0.1, "{size:?}");
    }

    #[test]
    fn a_size_is_never_more_than_the_samples() {
        assert_eq!(effective_size(100, &[-0.6, 0.1, -0.2]), EffectiveSize { samples: 100.0, is_complete: true });
        assert_eq!(effective_size(100, &[0.5, 0.5, 0.5]), EffectiveSize { samples: 25.0, is_complete: false });
    }
}

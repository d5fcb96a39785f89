//! Reproduces how pandas 0.25.3 read numbers, because published figures depend on it.

/// Significant digits that a C++ stream writes, and so LatencyTest.
const DIGITS: usize = 6;

/// Largest jitter, adjusted to published summaries if it lies halfway between two numbers of three decimals.
///
/// In that case the last bit decides the rounding, and pandas 0.25.3 did not always read the number nearest to the
/// text. Only samples with at most 6 digits, as LatencyTest writes them, are adjusted. A single difference is not, so
/// that it equals its own mean.
pub fn max_jitter(max_jitter: f64, samples: &[f64]) -> f64 {
    let thousandths = max_jitter * 1000.0;
    if (thousandths - thousandths.floor() - 0.5).abs() > 1e-6 {
        return max_jitter;
    }
    let pair = samples.windows(2).find(|pair| (pair[1] - pair[0]).abs() == max_jitter);
    match pair {
        Some(pair) if samples.len() > 2 && samples.iter().all(|sample| digits_and_decimals(*sample).0 <= DIGITS) => {
            (as_pandas_read(pair[1]) - as_pandas_read(pair[0])).abs()
        }
        _ => max_jitter,
    }
}

/// Number that pandas 0.25.3 reads from the shortest text of `value`.
///
/// # Source
/// pandas, `xstrtod` in `tokenizer.c`. All digits form one integer, divided by 10, 100, 10^4, … for each bit set in the
/// number of decimals, and rounded each time.
fn as_pandas_read(value: f64) -> f64 {
    let (_, decimals) = digits_and_decimals(value);
    let (mut read, mut power) = ((value * 10_f64.powi(decimals as i32)).round(), 10.0);
    let mut left = decimals;
    while left > 0 {
        if left & 1 == 1 {
            read /= power;
        }
        power *= power;
        left >>= 1;
    }
    read
}

/// Significant digits and decimals in the shortest text of a number.
fn digits_and_decimals(value: f64) -> (usize, usize) {
    let text = value.to_string();
    let (whole, decimals) = text.split_once('.').unwrap_or((&text, ""));
    let digits = [whole, decimals].concat();
    let digits = if decimals.is_empty() { digits.trim_matches('0') } else { digits.trim_start_matches('0') };
    (digits.len(), decimals.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples and largest jitter from eProsima's published measurements of Fast RTPS 1.9.2.
    #[test]
    fn ties_are_rounded_as_published() {
        for (one, other, published) in
            [(61.9225_f64, 111.466, "49.544"), (62.8655, 112.739, "49.873"), (64.3065, 115.373, "51.066")]
        {
            let exact = (other - one).abs();
            assert_ne!(format!("{exact:.3}"), published);
            assert_eq!(format!("{:.3}", max_jitter(exact, &[12.5, one, other])), published);
            // Samples that LatencyTest does not write (too many digits, or only one difference) are not adjusted.
            assert_eq!(max_jitter(exact, &[12.345678, one, other]), exact);
            assert_eq!(max_jitter(exact, &[one, other]), exact);
        }
    }

    #[test]
    fn digits_are_counted_without_leading_zeros() {
        assert_eq!(digits_and_decimals(0.697615), (6, 6));
        assert_eq!(digits_and_decimals(0.050), (1, 2));
        assert_eq!(digits_and_decimals(1200.0), (2, 0));
        assert_eq!(digits_and_decimals(20.5), (3, 1));
    }
}

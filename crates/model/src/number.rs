//! Rounding of numbers in tables and notes, except in formats of other tools.

/// Nearest whole number, halves away from 0. Within two rounding errors of a double, a value counts as a half:
/// 4356.5 ns are 4.357 µs, although the double nearest to 4.3565 is below it.
pub fn rounded(value: f64) -> f64 {
    /// Limit of the slack, because the rounding error of a large number could reach a half.
    const MOST_SLACK: f64 = 1e-3;
    let magnitude = value.abs();
    let slack = (2.0 * f64::EPSILON * magnitude).min(MOST_SLACK);
    let up = magnitude - magnitude.floor() + slack >= 0.5;
    // Larger numbers, infinity and NaN have no fraction.
    if magnitude < EXACT { (magnitude.floor() + f64::from(u8::from(up))).copysign(value) } else { value }
}

/// Smallest power of two from which all doubles are whole numbers.
const EXACT: f64 = (1_u64 << 52) as f64;

/// Formats a value with this many decimals, rounded as by [`rounded`].
pub fn fixed(value: f64, decimals: usize) -> String {
    let power = 10_f64.powi(decimals as i32);
    let scaled = value * power;
    if scaled.abs() < EXACT { format!("{:.decimals$}", rounded(scaled) / power) } else { format!("{value:.decimals$}") }
}

/// [`fixed`], with a sign also if positive: `+1.5`.
pub fn signed(value: f64, decimals: usize) -> String {
    format!("{}{}", if value.is_sign_negative() { "" } else { "+" }, fixed(value, decimals))
}

/// Share in per cent, rounded to six decimals to hide errors of binary fractions.
pub fn per_cent(share: f64) -> f64 {
    rounded(share * 1e8) / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_stay_as_they_are_however_large() {
        for power in 40..60 {
            let whole = (1_u64 << power) as f64;
            for value in [whole - 1.0, whole, whole + 1.0, 1.2e15] {
                assert_eq!((rounded(value), rounded(-value)), (value, -value), "{value}");
                assert_eq!(fixed(value, 0), format!("{value:.0}"));
            }
        }
        assert_eq!(fixed(1_125_899_906_842.624, 3), "1125899906842.624");
        assert_eq!(fixed(1.2e15, 3), "1200000000000000.000");
        assert_eq!([2.5, -2.5, 0.49].map(|value| signed(value, 0)), ["+3", "-3", "+0"]);
        assert_eq!([0.02, 0.07, -0.1].map(per_cent), [2.0, 7.0, -10.0]);
    }
}

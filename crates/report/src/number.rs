//! Numbers as written in tables.

pub use tripmeter_model::counted;
pub use tripmeter_model::number::{fixed, per_cent, rounded, signed};

/// Text instead of an interval or figure without a bound.
pub const TOO_SMALL: &str = "n too small";

/// Nanoseconds as microseconds with three decimals.
pub fn micros(ns: f64) -> String {
    fixed(ns / 1000.0, 3)
}

/// A ratio with three significant digits: `×0.0527`, `×2.40`, `×297`.
pub fn ratio(value: f64) -> String {
    format!("×{}", significant(value, 3, i32::MAX))
}

/// Number with this many significant digits, and at most `most_decimals` decimals.
pub fn significant(value: f64, digits: i32, most_decimals: i32) -> String {
    let decimals_of = |value: f64| {
        let exponent = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
        digits.saturating_sub(1).saturating_sub(exponent).min(most_decimals)
    };
    let decimals = decimals_of(value);
    let power = 10_f64.powi(decimals.max(-300));
    let rounded = rounded(value * power) / power;
    // 9.996 has one more digit once it is rounded; a number that is rounded to 0 keeps its decimals.
    let shown = if rounded == 0.0 { decimals } else { decimals_of(rounded) };
    format!("{rounded:.*}", shown.max(0) as usize)
}

/// No decimals if it is a whole number, else this many.
pub fn whole_or(value: f64, decimals: usize) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { fixed(value, decimals) }
}

/// Number with at least three digits, and few decimals.
pub fn count(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        v if v >= 99.95 => fixed(v, 0),
        v if v >= 9.995 => fixed(v, 1),
        v if v >= 0.9995 => fixed(v, 2),
        v => fixed(v, 4),
    }
}

/// Share in per cent; `0` only if it is exactly 0.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0".to_owned(),
        p if p < 0.001 => "<0.001".to_owned(),
        p => format!("{}", rounded(p * 1000.0) / 1000.0),
    }
}

/// Number with this many significant digits, 1 or more, as in C++ streams after `std::setprecision(2)`: `0.73`, `13`,
/// `1.6e+02`.
///
/// # Source
/// `%.2g` of C (ISO C11, 7.21.6.1), which C++ streams use by default.
pub fn cpp(value: f64, digits: i32) -> String {
    if !value.is_finite() {
        return value.to_string().to_lowercase();
    }
    // The exponent is that of the rounded number: 99.6 counts as 1.0e2.
    let scientific = format!("{value:.*e}", digits as usize - 1);
    let (mantissa, exponent) = scientific.split_once('e').expect("Rust's scientific form has an 'e'");
    let exponent: i32 = exponent.parse().expect("Rust's scientific form ends with a whole number");
    if (-4..digits).contains(&exponent) {
        return without_trailing_zeros(&format!("{value:.*}", (digits - 1 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_trailing_zeros(mantissa), exponent.abs())
}

fn without_trailing_zeros(number: &str) -> String {
    match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => number.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every number format in the tables of iceperf's documentation.
    #[test]
    fn published_numbers_are_written_as_published() {
        let published = [
            (3.1, "3.1"),
            (5.2, "5.2"),
            (6.0, "6"),
            (0.73, "0.73"),
            (0.6, "0.6"),
            (13.0, "13"),
            (81.0, "81"),
            (160.0, "1.6e+02"),
            (300.0, "3e+02"),
            (590.0, "5.9e+02"),
            (1200.0, "1.2e+03"),
        ];
        for (value, text) in published {
            assert_eq!(cpp(value, 2), text);
        }
    }

    /// Golden texts: `std::cout << std::setprecision(2)` of libstdc++ 12 and `printf("%.2g")` of glibc, which agree.
    #[test]
    fn two_digits_agrees_with_cpp_and_c() {
        let golden = [
            (7.7049, "7.7"),
            (12.5, "12"),
            (13.5, "14"),
            (99.4, "99"),
            (99.5, "1e+02"),
            (99.6, "1e+02"),
            (100.0, "1e+02"),
            (0.125, "0.12"),
            (0.135, "0.14"),
            (0.375, "0.38"),
            (9.94, "9.9"),
            (9.95, "9.9"),
            (9.96, "10"),
            (0.0, "0"),
            (1.0, "1"),
            (10.0, "10"),
            (0.001234, "0.0012"),
            (0.0001, "0.0001"),
            (0.00012345, "0.00012"),
            (0.000099, "9.9e-05"),
            (0.0000995, "0.0001"),
            (0.00000123, "1.2e-06"),
            (1234567.0, "1.2e+06"),
            (1e10, "1e+10"),
            (1e100, "1e+100"),
            (1.05, "1.1"),
            (1.25, "1.2"),
            (0.15, "0.15"),
            (845.0, "8.4e+02"),
            (855.0, "8.6e+02"),
            (1650.0, "1.6e+03"),
            (1750.0, "1.8e+03"),
            (0.0099999, "0.01"),
            (-4.5678, "-4.6"),
            (f64::INFINITY, "inf"),
            (f64::NAN, "nan"),
        ];
        for (value, text) in golden {
            assert_eq!(cpp(value, 2), text, "{value:?}");
        }
    }

    #[test]
    fn numbers_have_the_digits_that_one_reads() {
        let texts = [0.0, 0.1234, 1.234, 12.34, 99.96, 1_234_567.8].map(count);
        assert_eq!(texts, ["0", "0.1234", "1.23", "12.3", "100", "1234568"]);
        assert_eq!([0.0, 1e-7, 0.005, 0.123_456_7, 1.0].map(percent), ["0", "<0.001", "0.5", "12.346", "100"]);
    }

    #[test]
    fn kilobytes_are_whole_where_they_can_be() {
        let texts = [16_u32, 1024, 1500, 4 << 20].map(|bytes| whole_or(f64::from(bytes) / 1024.0, 3));
        assert_eq!(texts, ["0.016", "1", "1.465", "4096"]);
    }

    #[test]
    fn halves_are_rounded_away_from_zero_whatever_their_double_is() {
        for half in (1..20_000).step_by(2) {
            let ns = f64::from(half) / 2.0;
            assert_eq!(micros(ns), format!("{:.3}", ns.ceil() / 1000.0), "{ns}");
        }
        assert_eq!([4356.5, 1111.5, 1126.49, -4356.5].map(micros), ["4.357", "1.112", "1.126", "-4.357"]);
        assert_eq!([0.5, 1.5, 2.5, 1e300, f64::INFINITY].map(|value| fixed(value, 0).len()), [1, 1, 1, 301, 3]);
        assert_eq!((fixed(2.25, 1), fixed(1e-9, 3), fixed(f64::NAN, 3)), ("2.3".into(), "0.000".into(), "NaN".into()));
    }

    #[test]
    fn microseconds_and_ratios_keep_their_decimals() {
        assert_eq!([214.4, 12_345.6, 0.0].map(micros), ["0.214", "12.346", "0.000"]);
        let texts = [0.0, 0.05274, 0.956, 0.9996, 1.0, 2.444, 99.94, 99.96, 297.4, 5000.4, f64::INFINITY].map(ratio);
        let expected =
            ["×0.00", "×0.0527", "×0.956", "×1.00", "×1.00", "×2.44", "×99.9", "×100", "×297", "×5000", "×inf"];
        assert_eq!(texts, expected);
    }
}

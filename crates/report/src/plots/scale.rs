//! Axes: places of values, and round numbers at the ticks.

use tripmeter_model::payload::display_size;

/// Larger values are not drawn: a double has too few digits to place them next to others.
pub const LIMIT: f64 = 1e15;

/// An axis with its range and ticks.
#[derive(Clone, Debug)]
pub struct Scale {
    low: f64,
    high: f64,
    log: bool,
    /// Labelled values, ascending.
    pub ticks: Vec<(f64, String)>,
    /// Values with a thin grid line only.
    pub minor: Vec<f64>,
}

impl Scale {
    /// Linear axis from `low` to `high` with about `wanted` ticks; only at whole numbers if `whole`.
    pub fn linear(low: f64, high: f64, wanted: usize, whole: bool) -> Self {
        let (low, high) = apart(low, high);
        let ticks = linear_ticks(low, high, step(low, high, wanted, whole));
        Self { low, high, log: false, ticks, minor: Vec::new() }
    }

    /// Linear axis extended so that its ends are ticks.
    pub fn linear_rounded(low: f64, high: f64, wanted: usize, whole: bool) -> Self {
        let (low, high) = apart(low, high);
        let step = step(low, high, wanted, whole);
        let (low, high) = ((low / step + 1e-6).floor() * step, (high / step - 1e-6).ceil() * step);
        Self { low, high, log: false, ticks: linear_ticks(low, high, step), minor: Vec::new() }
    }

    /// Logarithmic axis whose ends are 1, 2 or 5 times a power of ten, and include `low` and `high`, both above 0.
    pub fn log(low: f64, high: f64, wanted: usize) -> Self {
        let (low, high) = (round_log(low, false), round_log(high, true));
        let (low, high) = if low < high { (low, high) } else { (low / 2.0, low * 2.0) };
        let (ticks, minor) = log_ticks(low, high, wanted);
        Self { low, high, log: true, ticks, minor }
    }

    /// Logarithmic axis of sizes in bytes, with labels at powers of two.
    pub fn sizes(low: f64, high: f64, wanted: usize) -> Self {
        let (first, last) = (low.log2().floor() as i32, high.log2().ceil() as i32);
        let last = last.max(first + 1);
        let wanted = wanted.max(2) as i32;
        let step = [1, 2, 5, 10, 20].into_iter().find(|step| last - first <= wanted * step).unwrap_or(50);
        let aligned = first.div_euclid(step) * step;
        let powers = (aligned..=last).step_by(step as usize).filter(|power| *power >= first);
        let label = |power: i32| match power {
            0..=62 => display_size(1 << power),
            _ => number(2_f64.powi(power), 2_f64.powi(power)),
        };
        let ticks = powers.map(|power| (2_f64.powi(power), label(power))).collect();
        Self { low: 2_f64.powi(first), high: 2_f64.powi(last), log: true, ticks, minor: Vec::new() }
    }

    /// Axis of 1 / (1 - p), with labels at each nine of the percentile p.
    pub fn percentiles(low: f64, high: f64) -> Self {
        let low = if low < 2.0 { 1.0 } else { 2.0 };
        let high = high.max(low * 10.0);
        let median = [(1.0, "0 %".to_owned()), (2.0, "50 %".to_owned()), (10.0, "90 %".to_owned())].into_iter();
        let nines = (2..=15).map(|nines| {
            let dot = if nines > 2 { "." } else { "" };
            (10_f64.powi(nines), format!("99{dot}{} %", "9".repeat(nines as usize - 2)))
        });
        let ticks = median.chain(nines).filter(|(x, _)| (low..=high * 1.001).contains(x)).collect();
        Self { low, high, log: true, ticks, minor: Vec::new() }
    }

    /// Place of a value: 0 at the low end, 1 at the high end. Values outside are moved to the ends.
    pub fn place(&self, value: f64) -> f64 {
        let place = match self.log {
            true => (value / self.low).log10() / (self.high / self.low).log10(),
            false => (value - self.low) / (self.high - self.low),
        };
        place.clamp(0.0, 1.0)
    }

    pub fn is_log(&self) -> bool {
        self.log
    }

    /// Value at the low end.
    pub fn low(&self) -> f64 {
        self.low
    }
}

/// True if the value can be drawn on a linear or logarithmic axis.
pub fn drawable(value: f64, log: bool) -> bool {
    value.is_finite() && value.abs() <= LIMIT && (!log || value >= 1.0 / LIMIT)
}

/// Two different ends, with some room around a single value.
fn apart(low: f64, high: f64) -> (f64, f64) {
    let least = low.abs().max(high.abs()).max(1e-12) * 1e-9;
    if high - low > least {
        return (low, high);
    }
    let room = if low == 0.0 { 1.0 } else { low.abs() * 0.05 };
    (low - room, high + room)
}

/// Distance of about `wanted` ticks: 1, 2 or 5 times a power of ten.
fn step(low: f64, high: f64, wanted: usize, whole: bool) -> f64 {
    let rough = (high - low) / wanted.max(1) as f64;
    let power = 10_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= rough * 0.999);
    let step = factor.unwrap_or(10.0) * power;
    if whole { step.max(1.0) } else { step }
}

fn linear_ticks(low: f64, high: f64, step: f64) -> Vec<(f64, String)> {
    let first = (low / step - 1e-6).ceil();
    let count = ((high / step + 1e-6).floor() - first).clamp(0.0, 1000.0) as usize;
    let values = (0..=count).map(|index| (first + index as f64) * step);
    values.map(|value| (value, number(value, step))).collect()
}

/// Rounds down (or, with `up`, up) to 1, 2 or 5 times a power of ten.
fn round_log(value: f64, up: bool) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let found = match up {
        true => steps.into_iter().find(|step| *step >= value * (1.0 - 1e-9)),
        false => steps.into_iter().rev().find(|step| *step <= value * (1.0 + 1e-9)),
    };
    found.unwrap_or(value)
}

/// Labelled and minor ticks: over many decades powers of ten only, over few also their 2- and 5-fold.
fn log_ticks(low: f64, high: f64, wanted: usize) -> (Vec<(f64, String)>, Vec<f64>) {
    let first = (low.log10() + 1e-9).floor() as i32;
    let last = (high.log10() - 1e-9).ceil() as i32;
    let decades = usize::try_from(last - first).unwrap_or(0);
    let skip = (decades + 1).div_ceil(wanted.max(2)).max(1);
    let labelled: &[u32] = if decades * 3 <= wanted.max(4) { &[1, 2, 5] } else { &[1] };
    let inside = |value: f64| value >= low * (1.0 - 1e-9) && value <= high * (1.0 + 1e-9);
    let (mut ticks, mut minor) = (Vec::new(), Vec::new());
    for (index, exponent) in (first..=last).enumerate() {
        let power = 10_f64.powi(exponent);
        for factor in 1..10 {
            let value = f64::from(factor) * power;
            if !inside(value) {
                continue;
            }
            match labelled.contains(&factor) && index % skip == 0 {
                true => ticks.push((value, number(value, power))),
                false if skip == 1 => minor.push(value),
                false => {}
            }
        }
    }
    (ticks, minor)
}

/// Number with as many decimals as its step needs, and commas between thousands: `0.25`, `16,384`, `2e9`.
pub fn number(value: f64, step: f64) -> String {
    if value == 0.0 || value.abs() < step * 1e-6 {
        return "0".to_owned();
    }
    if value.abs() >= 1e9 || step < 1e-6 {
        let digits = (value.abs().log10().floor() - step.log10().floor()).clamp(0.0, 12.0) as usize;
        let text = format!("{value:.digits$e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let mantissa =
            if mantissa.contains('.') { mantissa.trim_end_matches('0').trim_end_matches('.') } else { mantissa };
        return format!("{mantissa}e{exponent}");
    }
    let decimals = (-(step * 1.0001).log10().floor()).max(0.0) as usize;
    grouped(&format!("{value:.decimals$}"))
}

/// Whole number with commas between thousands, from ten thousand on.
pub fn count(value: u64) -> String {
    grouped(&value.to_string())
}

fn grouped(number: &str) -> String {
    let (sign, rest) = number.strip_prefix('-').map_or(("", number), |rest| ("-", rest));
    let (whole, fraction) = rest.split_once('.').map_or((rest, None), |(whole, fraction)| (whole, Some(fraction)));
    let mut text = String::from(sign);
    for (index, digit) in whole.chars().enumerate() {
        let after = whole.len() - index;
        if index > 0 && after % 3 == 0 && whole.len() > 4 {
            text.push(',');
        }
        text.push(digit);
    }
    if let Some(fraction) = fraction {
        text.push('.');
        text.push_str(fraction);
    }
    text
}

/// Least and greatest value that can be drawn (or 1 and 0), and the number of values that cannot because they are 0 or
/// less.
pub fn range(values: &[f64], log: bool) -> (f64, f64, usize) {
    let shown = values.iter().copied().filter(|&value| drawable(value, log));
    let (low, high) = shown.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    let hidden = if log { values.iter().filter(|&&value| drawable(value, false) && value <= 0.0).count() } else { 0 };
    if low > high { (1.0, 0.0, hidden) } else { (low, high, hidden) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: &Scale) -> Vec<&str> {
        scale.ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(labels(&Scale::linear_rounded(0.0, 13.2, 7, false)), ["0", "2", "4", "6", "8", "10", "12", "14"]);
        assert_eq!(labels(&Scale::linear(1.5, 1.84, 4, false)), ["1.5", "1.6", "1.7", "1.8"]);
        assert_eq!(labels(&Scale::linear(0.0, 1e6, 5, false))[1..3], ["200,000", "400,000"]);
        assert_eq!(labels(&Scale::linear(0.0, 9000.0, 5, false))[1..3], ["2000", "4000"]);
        assert_eq!(labels(&Scale::log(1.2, 180.0, 8)), ["1", "10", "100"]);
        assert_eq!(labels(&Scale::log(2.2, 18.0, 8)), ["2", "5", "10", "20"]);
        assert_eq!(labels(&Scale::log(0.001, 1e9, 7)), ["0.001", "0.1", "10", "1000", "100,000", "10,000,000", "1e9"]);
    }

    #[test]
    fn sizes_have_powers_of_two_and_percentiles_their_nines() {
        assert_eq!(labels(&Scale::sizes(1024.0, 4_194_304.0, 6)), ["1k", "4k", "16k", "64k", "256k", "1M", "4M"]);
        assert_eq!(labels(&Scale::sizes(512.0, 8096.0, 6)), ["512", "1k", "2k", "4k", "8k"]);
        assert_eq!(labels(&Scale::sizes(16.0, 16.0, 6)), ["16", "32"]);
        let nines = ["50 %", "90 %", "99 %", "99.9 %", "99.99 %"];
        assert_eq!(labels(&Scale::percentiles(2.0, 10_000.0)), nines);
        assert_eq!(labels(&Scale::percentiles(2.0, 5000.0)), nines[..4]);
        assert_eq!(Scale::percentiles(2.0, 200_000.0).ticks.last().unwrap().1, "99.999 %");
    }

    #[test]
    fn places_run_from_0_to_1() {
        let log = Scale::log(1.0, 100.0, 5);
        assert!(
            [(1.0, 0.0), (10.0, 0.5), (100.0, 1.0), (1e6, 1.0)].iter().all(|(v, p)| (log.place(*v) - p).abs() < 1e-9)
        );
        let linear = Scale::linear(-1.0, 3.0, 5, false);
        assert_eq!([-1.0, 0.0, 3.0].map(|value| linear.place(value)), [0.0, 0.25, 1.0]);
    }

    #[test]
    fn any_range_has_few_ticks() {
        for (low, high) in
            [(0.0, 0.0), (5.0, 5.0), (-LIMIT, LIMIT), (1e15, 1e15), (1e-15, 2e-15), (123_456.789, 123_456.79)]
        {
            let scale = Scale::linear_rounded(low, high, 6, false);
            assert!((1..=12).contains(&scale.ticks.len()), "{low} {high} {scale:?}");
            assert!(scale.ticks.iter().all(|(_, label)| label.len() < 24), "{scale:?}");
            if low > 0.0 {
                let scale = Scale::log(low, high, 6);
                assert!((1..=12).contains(&scale.ticks.len()), "{low} {high} {scale:?}");
            }
        }
    }
}

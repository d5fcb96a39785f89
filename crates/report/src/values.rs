//! Values with their intervals, comparison of two values, and their text.

use crate::document::Digits;
use crate::plots::chart::{Line, Look};
use tripmeter_analysis::{Rounds, derived};
use tripmeter_model::figure::{Figure, Unit};
use tripmeter_model::metric::Interval;
use tripmeter_stats::rounds::{ALPHA, figure_over_rounds};
use tripmeter_stats::shift::{Shift, fewest_pairs};
use tripmeter_stats::{ErrorBounds, median};

/// Figure over rounds, or of the only round, with an interval if there are enough rounds or samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    /// Value, in the unit of the figure.
    pub value: f64,
    pub interval: Option<Interval>,
    pub rounds: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The interval excludes 1.
    Different,
    /// The interval contains 1.
    NoDifference,
    /// There is no interval.
    Unknown,
}

impl Value {
    /// Median over rounds with its interval, or with that within the only round; `errors` is the error of two clocks.
    pub fn over(values: &[f64], within: Option<Interval>, errors: ErrorBounds) -> Option<Self> {
        let over = figure_over_rounds(values, errors)?;
        let interval = if values.len() == 1 { within } else { over.interval };
        let interval = interval.filter(|interval| interval.low.is_finite() && interval.high.is_finite());
        Some(Self { value: over.median, interval, rounds: values.len() })
    }

    /// Median of the rounds of a figure.
    pub fn from_rounds(rounds: &Rounds<'_>) -> Option<Self> {
        Self::over(rounds.values, rounds.within.first().copied().flatten(), rounds.errors())
    }

    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        let interval = self.interval.map(|Interval { low, high }| Interval { low: low * factor, high: high * factor });
        Self { value: self.value * factor, interval, ..self }
    }

    /// Outcome of a comparison that yields this ratio.
    pub fn seen(self) -> Seen {
        match self.interval {
            Some(Interval { low, high }) if low > 1.0 || high < 1.0 => Seen::Different,
            Some(_) => Seen::NoDifference,
            None => Seen::Unknown,
        }
    }

    /// Ratio as `×7.9 (7.2 to 8.4)`, or with a note that there is no interval.
    pub fn as_ratio(self) -> String {
        format!("×{} ({})", Digits::Significant(3).write(self.value), self.interval_text())
    }

    /// Ratio as `7.9 times slower (7.2 to 8.4)`, or with a note that there is no interval.
    pub fn as_slower(self) -> String {
        format!("{} times slower ({})", Digits::Significant(3).write(self.value), self.interval_text())
    }

    fn interval_text(self) -> String {
        let digits = |value: f64| Digits::Significant(3).write(value);
        match self.interval {
            Some(Interval { low, high }) => format!("{} to {}", digits(low), digits(high)),
            None if self.rounds == 1 => "one round, no interval".to_owned(),
            None if self.rounds as u64 >= fewest_pairs(ALPHA) => "without a bound".to_owned(),
            None => format!("{} rounds, too few for an interval", self.rounds),
        }
    }
}

/// Ratio of `ours` to `theirs`.
pub fn compare(ours: &Rounds<'_>, theirs: &Rounds<'_>, are_paired: bool) -> Option<Value> {
    if are_paired || (ours.values.len() == 1 && theirs.values.len() == 1) {
        let each = derived::ratio(ours, theirs);
        // The interval within the only round says nothing about other rounds.
        let paired = Value::over(&each.values, None, each.errors)?;
        // With too few rounds for an interval, the ratio is the quotient of the displayed medians.
        let of_medians = || Some(median(ours.values)? / median(theirs.values).filter(|theirs| *theirs > 0.0)?);
        return match paired.interval {
            Some(_) => Some(paired),
            None => Some(Value { value: of_medians()?, ..paired }),
        };
    }
    let shift = Shift::ratio_within(theirs.values, ours.values, [theirs.error, ours.error]).ok()?;
    let rounds = ours.values.len().min(theirs.values.len());
    let interval = shift.interval(ALPHA).filter(|interval| interval.high.is_finite());
    Some(Value { value: shift.hodges_lehmann(), interval, rounds })
}

/// Moves to the front what is ahead of the first round by round, if the order by medians differs. `ratio` compares one
/// with another: an interval below 1 is ahead.
pub fn lead<T>(ranked: &mut [T], ratio: impl Fn(&T, &T) -> Option<Value>) {
    let is_ahead =
        |one: &T, first: &T| ratio(one, first).and_then(|ratio| ratio.interval).is_some_and(|of| of.high < 1.0);
    // Rounds may contradict each other in a circle, so the number of steps is limited.
    for _ in 0..ranked.len() {
        let Some(place) = (1..ranked.len()).find(|place| is_ahead(&ranked[*place], &ranked[0])) else { break };
        ranked[..=place].rotate_right(1);
    }
}

/// Name of a figure without its unit.
pub fn name(figure: Figure) -> &'static str {
    let id = figure.id();
    ["_ns", "_hz"].iter().find_map(|unit| id.strip_suffix(unit)).unwrap_or(id)
}

/// Factor of values, and their unit after it.
pub fn unit(figure: Figure) -> (f64, &'static str) {
    match figure.unit() {
        Unit::Ns => (1e-3, "µs"),
        Unit::Share => (100.0, "%"),
        unit => (1.0, unit.as_str()),
    }
}

/// Line through values at each x, with their intervals.
pub fn line(name: String, look: Look, values: &[(f64, Value)]) -> Line {
    let interval = |(x, value): &(f64, Value)| value.interval.map(|interval| (*x, interval.low, interval.high));
    let points = values.iter().map(|(x, value)| (*x, value.value)).collect();
    Line { name, points, intervals: values.iter().filter_map(interval).collect(), look }
}

/// Text with a capital first letter.
pub fn capitalised(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// `A`, `A and B`, `A, B and C`; of more than four names the first three, and the number of others.
pub fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first, second, third, rest @ ..] if rest.len() > 1 => {
            format!("{first}, {second}, {third} and {} others", rest.len())
        }
        [some @ .., last] => format!("{} and {last}", some.join(", ")),
    }
}

//! A confidence interval of a figure.

/// From `low` to `high`, both included, in the unit of the figure; `low <= high`. An infinite end is unbounded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// Without bounds: nothing is known.
    pub const UNBOUNDED: Self = Self { low: f64::NEG_INFINITY, high: f64::INFINITY };

    /// The same of values that may be off.
    #[must_use]
    pub fn widened(self, by: ErrorBounds) -> Self {
        Self { low: self.low - by.below, high: self.high + by.above }
    }

    /// Whether a value lies in it.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// How far the truth may be from values that are all off by the same systematic error, as by the clocks of two hosts. It does
/// not become smaller with more values, so intervals are wider by it. In the unit of the values, each 0 or more.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ErrorBounds {
    /// How far the truth may be below the value.
    pub below: f64,
    /// How far it may be above it; infinite if there is no bound.
    pub above: f64,
}

impl ErrorBounds {
    /// There is no such error.
    pub const NONE: Self = Self { below: 0.0, above: 0.0 };

    /// As far on both sides.
    pub fn both(error: f64) -> Self {
        Self { below: error, above: error }
    }

    /// Of values that are multiplied.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self { below: self.below * factor, above: self.above * factor }
    }
}

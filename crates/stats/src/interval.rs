/// Interval from `low` to `high`, inclusive, in the unit of the figure; `low <= high`. An infinite end means no bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Interval without bounds, for an unknown value.
    pub const UNBOUNDED: Self = Self { low: f64::NEG_INFINITY, high: f64::INFINITY };

    /// Interval widened by a systematic error.
    #[must_use]
    pub fn widened(self, by: ErrorBounds) -> Self {
        Self { low: self.low - by.below, high: self.high + by.above }
    }

    /// True if the interval contains a value.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// Bounds of a systematic error that all values share, e.g. from the clocks of two hosts. More values do not reduce
/// this error, so intervals are widened by it. Both bounds are 0 or more, in the unit of the values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ErrorBounds {
    /// Largest distance of the true value below the measured one.
    pub below: f64,
    /// Largest distance of the true value above the measured one; infinite without a bound.
    pub above: f64,
}

impl ErrorBounds {
    /// No error.
    pub const NONE: Self = Self { below: 0.0, above: 0.0 };

    /// Equal bounds on both sides.
    pub fn both(error: f64) -> Self {
        Self { below: error, above: error }
    }

    /// Bounds for values multiplied by `factor`.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self { below: self.below * factor, above: self.above * factor }
    }
}

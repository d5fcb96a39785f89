//! Values of what is not asked for.

/// Most times that a payload is measured.
pub const MOST_ATTEMPTS: u32 = 3;

/// Seconds without an answer after which a message is lost, if none are asked for.
pub(super) const DEFAULT_LOSS_TIMEOUT_S: f64 = 1.0;

/// Microseconds that the clocks of two hosts may be apart, if nothing is asked for.
pub(super) const DEFAULT_CLOCK_ERROR_US: f64 = 100.0;

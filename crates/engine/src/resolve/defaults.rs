pub const MOST_ATTEMPTS: u32 = 3;

pub(super) const DEFAULT_LOSS_TIMEOUT_S: f64 = 1.0;

pub(super) const DEFAULT_CLOCK_ERROR_US: f64 = 100.0;

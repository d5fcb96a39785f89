//! Steps of a search for the highest rate whose loss is within a bound.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Rate that a search tried.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// Offered messages per second; null for as fast as possible.
    pub rate_hz: Option<f64>,
    /// Planned duration, in nanoseconds.
    pub duration_ns: u64,
    /// Messages per second that were sent.
    pub published_hz: f64,
    /// Share of sent messages that were lost, at the worst follower.
    pub loss: f64,
    /// True if the loss was within the limit and the rate was kept.
    pub passed: bool,
}

/// Events per second; 0 if `ns` is 0.
pub fn per_second(count: u64, ns: u64) -> f64 {
    if ns == 0 { 0.0 } else { count as f64 * 1e9 / ns as f64 }
}

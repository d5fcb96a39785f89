//! Workload and limits of a choice.

use tripmeter_model::figure::Statistic;

/// Workload and limits that a transport is chosen for.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// Statistic of the latency that is ranked and limited.
    pub by: Statistic,
    /// Maximum latency, in nanoseconds.
    pub max_latency_ns: Option<f64>,
    /// Maximum CPU time of publisher and subscribers together, as a share of one CPU.
    pub max_cpu: Option<f64>,
    /// Maximum share of sent messages that are lost, late or damaged.
    pub max_loss: f64,
    /// Payload to choose for, if the results have several.
    pub payload_bytes: Option<u64>,
    /// Messages per second, if results have several rates.
    pub rate_hz: Option<f64>,
    /// Number of subscribers, if the results have several.
    pub followers: Option<u32>,
}

//! Workload and limits of a choice.

use tripmeter_model::figure::Statistic;

/// Workload and limits that a transport is chosen for.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// The statistic of the latency that is ranked and limited.
    pub by: Statistic,
    /// Most latency, in nanoseconds.
    pub max_latency_ns: Option<f64>,
    /// Most CPU time of publisher and subscribers together, as a share of one CPU.
    pub max_cpu: Option<f64>,
    /// Most messages lost, late or damaged, as a share of those sent.
    pub max_loss: f64,
    /// The payload, if results have several.
    pub payload_bytes: Option<u64>,
    /// Messages per second, if results have several rates.
    pub rate_hz: Option<f64>,
    /// Subscribers, if results have several numbers.
    pub followers: Option<u32>,
}

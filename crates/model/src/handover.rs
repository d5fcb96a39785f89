//! The hand-over probe: one cache line passed to the other processor and back, before and after a cell.

use crate::channel::Latency;
use crate::manifest::Figures;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The hand-over probe before and after a cell.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Handovers {
    /// Before the warm-up.
    pub before: Option<Handover>,
    /// After the last sample.
    pub after: Option<Handover>,
}

/// One hand-over probe: round trips of one cache line.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Handover {
    /// Round trips.
    pub samples: u64,
    /// Smallest round trip, in nanoseconds.
    pub min_ns: f64,
    /// Median round trip, in nanoseconds.
    pub median_ns: f64,
}

/// What the hand-over probe showed besides two probes that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ModeChange {
    /// The smallest round trip differs: the processors met otherwise, e.g. as siblings of one core instead of two cores.
    Moved,
    /// The median differs, and the smallest does not: something else used a processor, or it ran at another pace.
    Disturbed,
    /// A processor was away in one of the probes, or in both.
    TakenAway,
    /// A probe got no answer in half a second.
    NoAnswer,
}

impl ModeChange {
    /// For people.
    pub fn as_str(self) -> &'static str {
        match self {
            ModeChange::Moved => "other cores, or siblings of one",
            ModeChange::Disturbed => "a processor was used by others, or ran at another pace",
            ModeChange::TakenAway => "a processor was taken away",
            ModeChange::NoAnswer => "a probe got no answer",
        }
    }
}

/// Latencies of a cell less the hand-over, in nanoseconds: what a system adds to passing one cache line. One that is
/// as fast may be below 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OverHandover {
    /// What is subtracted: half of the probes' median round trip, by the mean of both probes.
    pub handover: f64,
    /// Of `rtt_half_ns`.
    pub rtt_half: Option<Figures>,
    /// Of `one_way_ns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way: Option<Figures>,
    /// Of `one_way_last_ns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way_last: Option<Figures>,
    /// Of each trial in `channel`, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channel: Vec<TrialOverHandover>,
    /// Of each trial in `rpc`, in order; round trips, less twice the hand-over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rpc: Vec<TrialOverHandover>,
}

/// Latencies of a trial of pattern `channel` or `rpc` less the hand-over, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialOverHandover {
    /// Of `response_ns`, or of `response_rtt_ns`.
    pub response: Option<Latency>,
    /// Of `service_ns`, or of `service_rtt_ns`.
    pub service: Option<Latency>,
}

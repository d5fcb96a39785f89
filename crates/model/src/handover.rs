//! The hand-over probe: one cache line passed to the other processor and back, before and after a cell.

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

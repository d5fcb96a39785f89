//! Core-to-core probe: round trips of one cache line between the two CPUs, before and after the trials of a payload.

use crate::count;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::Display;

/// Core-to-core probes before and after a payload.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct CoreToCoreProbes {
    /// Probe before the warm-up.
    pub before: Option<CoreToCoreProbe>,
    /// Probe after the last sample.
    pub after: Option<CoreToCoreProbe>,
}

/// One core-to-core probe: round trips of one cache line.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CoreToCoreProbe {
    /// Number of round trips.
    #[serde(deserialize_with = "count::read")]
    pub samples: u64,
    /// Smallest round trip, in nanoseconds.
    pub min_ns: f64,
    /// Median round trip, in nanoseconds.
    pub median_ns: f64,
}

/// Difference between the two core-to-core probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Display)]
#[serde(rename_all = "kebab-case")]
pub enum ModeChange {
    /// The smallest round trip differs: the CPUs were placed differently, e.g. on one core instead of two.
    #[strum(serialize = "other cores, or siblings of one")]
    Moved,
    /// The median differs, but the smallest does not: another process used a CPU, or its frequency changed.
    #[strum(serialize = "a CPU was used by others, or ran at another pace")]
    Disturbed,
    /// A CPU was taken away during at least one of the probes.
    #[strum(serialize = "a CPU was taken away")]
    TakenAway,
    /// A probe got no answer in half a second.
    #[strum(serialize = "a probe got no answer")]
    NoAnswer,
}

/// Largest ratio between two probes of one mode, of their smallest and of their median round trips.
///
/// Measured ratios: up to 2.0 within a mode (medians of spinning siblings), 2.7 and more between modes.
pub const ONE_MODE: f64 = 2.5;

/// Median round trip, in nanoseconds, from which a CPU counts as taken away: a cache line takes less.
pub const AWAY_NS: f64 = 5_000.0;

impl CoreToCoreProbes {
    /// Difference between the probes; `None` if they agree, or if one is missing.
    pub fn change(&self) -> Option<ModeChange> {
        let (before, after) = (self.before?, self.after?);
        let is_away = |probe: CoreToCoreProbe| probe.median_ns >= AWAY_NS;
        let differ = |a: f64, b: f64| a.max(b) > ONE_MODE * a.min(b);
        if is_away(before) || is_away(after) {
            return Some(ModeChange::TakenAway);
        }
        if differ(before.min_ns, after.min_ns) {
            return Some(ModeChange::Moved);
        }
        differ(before.median_ns, after.median_ns).then_some(ModeChange::Disturbed)
    }

    /// One-way latency of a cache line, in nanoseconds: half of the median round trip, as the mean of the available
    /// probes.
    pub fn one_way_ns(&self) -> Option<f64> {
        let medians: Vec<f64> = [self.before, self.after].into_iter().flatten().map(|probe| probe.median_ns).collect();
        (!medians.is_empty()).then(|| medians.iter().sum::<f64>() / medians.len() as f64 / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probes(before: (f64, f64), after: (f64, f64)) -> CoreToCoreProbes {
        let probe = |(min_ns, median_ns)| Some(CoreToCoreProbe { samples: 2000, min_ns, median_ns });
        CoreToCoreProbes { before: probe(before), after: probe(after) }
    }

    /// Measured values, from this project's results.
    #[test]
    fn modes_are_distinguished() {
        let change = |probes: CoreToCoreProbes| probes.change();
        assert_eq!(change(probes((60.0, 120.0), (40.0, 60.0))), None);
        assert_eq!(change(probes((200.0, 210.0), (220.0, 420.0))), None);
        assert_eq!(change(probes((60.0, 70.0), (210.0, 220.0))), Some(ModeChange::Moved));
        assert_eq!(change(probes((190.0, 200.0), (60.0, 120.0))), Some(ModeChange::Moved));
        assert_eq!(change(probes((60.0, 70.0), (60.0, 400.0))), Some(ModeChange::Disturbed));
        assert_eq!(change(probes((60.0, 14_000.0), (60.0, 20_000.0))), Some(ModeChange::TakenAway));
        assert_eq!(change(CoreToCoreProbes { after: None, ..probes((1.0, 1.0), (9.0, 9.0)) }), None);
    }
}

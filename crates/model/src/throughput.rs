//! Pattern `throughput`: how messages are offered, and what arrived of them.

use crate::channel::Latency;
use crate::pace::OfferedLoad;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What became of the messages of one trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// What was asked for.
    pub offer: OfferedLoad,
    /// Messages per second that were to be sent, for a search those that it found; null: as fast as it goes.
    pub offered_hz: Option<f64>,
    /// Messages sent.
    pub sent: u64,
    /// From before the first message was sent until after the last one was, in nanoseconds, by the leader. With even
    /// spacing the last message has its time until the next would be due, too.
    pub publication_ns: u64,
    /// Messages sent per second of publication. This is not throughput: it counts what may have been lost.
    pub published_hz: f64,
    /// How often the transport refused a message because it was full (back-pressure); such a message was sent later.
    pub refused: u64,
    /// Messages of an even spacing that were sent more than a whole spacing late.
    pub behind: u64,
    /// Why it ended before its messages or its time were over, if so.
    pub cut_short: Option<String>,
    /// What arrived at each follower.
    pub followers: Vec<Arrival>,
    /// Messages timed one way; only with `--one-way`. That costs a clock reading per message at both sides, which all rates
    /// of this trial include.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way_samples: Option<OneWaySamples>,
    /// Of a search, everything that was tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub searched: Vec<Step>,
}

/// Messages of a trial that were timed one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OneWaySamples {
    /// Every `every`-th message is timed, from the first on: the smallest power of two that times at most 262,144.
    pub every: u64,
    /// Number of messages that were timed.
    pub messages: u64,
}

/// What arrived at one follower: `sent` is the sum of `received`, `lost` and `damaged`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Arrival {
    /// Its number, from 0.
    pub follower: u32,
    /// Messages that arrived intact, each counted once.
    pub received: u64,
    /// Messages that never arrived.
    pub lost: u64,
    /// Messages that arrived again.
    pub duplicated: u64,
    /// Messages that arrived after a later one.
    pub reordered: u64,
    /// Messages whose header or touched payload was not what was written.
    pub damaged: u64,
    /// From before the first message was sent until the last one had arrived, in nanoseconds; the last reading is the
    /// follower's, of the same clock.
    pub subscription_ns: u64,
    /// Messages received per second of subscription: the throughput.
    pub received_hz: f64,
    /// Payload bytes received per second of subscription.
    pub received_bytes_per_s: f64,
    /// Latency one way, from before sending to arrival, by two readings of one clock. Only timed messages
    /// (`one_way_samples`) that arrived intact count. There are no intervals within the run, as messages that wait in one
    /// queue are not independent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way_ns: Option<Latency>,
}

/// One rate that a search tried.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// Messages per second that were to be offered; null: as fast as it goes.
    pub rate_hz: Option<f64>,
    /// How long it was tried, in nanoseconds, as planned.
    pub duration_ns: u64,
    /// Messages per second that were sent.
    pub published_hz: f64,
    /// Messages lost of those sent, at the worst follower.
    pub loss: f64,
    /// Whether no more was lost than allowed, and the rate was kept.
    pub passed: bool,
}

impl Arrival {
    /// Messages lost or damaged of those sent.
    pub fn loss(&self) -> f64 {
        let gone = self.lost + self.damaged;
        gone as f64 / (gone + self.received).max(1) as f64
    }
}

impl Trial {
    /// The worst loss of all followers.
    pub fn loss(&self) -> f64 {
        self.followers.iter().map(Arrival::loss).fold(0.0, f64::max)
    }
}

/// Events per second.
pub fn per_second(count: u64, ns: u64) -> f64 {
    if ns == 0 { 0.0 } else { count as f64 * 1e9 / ns as f64 }
}

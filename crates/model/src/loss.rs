//! Shares of messages that were lost and of calls that failed, with how far they can be trusted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an interval of a share assumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LossMethod {
    /// Clopper and Pearson's, as if each were lost by itself. Losses come in bursts: then it is too narrow, also where it
    /// bounds a loss that was not seen. For one round, and where none lost any.
    Independent,
    /// From the smallest share of a round to the largest: rounds are independent, whatever happens within one.
    Rounds,
}

/// The interval of a share at 95 % or more.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LossInterval {
    /// What it assumes.
    pub method: LossMethod,
    /// Its ends, from 0 to 1; null with fewer than 6 rounds of which any lost something.
    pub interval: Option<[f64; 2]>,
}

/// A share of lost messages or failed calls at one payload of one sub-experiment, over all rounds that have it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LossFigure {
    /// The name of the sub-experiment.
    pub name: String,
    /// The payload.
    pub payload_bytes: u64,
    /// Where it stands in a cell, e.g. `counts.lost`, `channel[0].loss` or `rpc[0].counts.timed_out`. A loss is what was
    /// lost, damaged or, of a channel, late.
    pub figure: String,
    /// Rounds that have it.
    pub rounds: u32,
    /// How many were lost in all rounds.
    pub events: u64,
    /// Of so many.
    pub of: u64,
    /// The one by the other.
    pub share: f64,
    /// Its interval.
    #[serde(flatten)]
    pub bounds: LossInterval,
}

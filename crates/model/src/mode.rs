use serde::{Deserialize, Serialize};
use strum::Display;

/// Rule for the time of a client's next call; the plan stores it as the loads of its workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Mode {
    /// At the end of the previous call: a closed loop.
    Bench,
    /// At its due time, from a fixed rate or bursts, but not before the end of the previous call.
    FixedFreq,
}

use serde::{Deserialize, Serialize};
use std::fmt;

/// Rule for the time of a client's next call; the plan stores it as the loads of its workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// At the end of the previous call: a closed loop.
    Bench,
    /// At its due time, from a fixed rate or bursts, but not before the end of the previous call.
    FixedFreq,
}

impl Mode {
    /// Name in files and flags.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Bench => "bench",
            Mode::FixedFreq => "fixed-freq",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

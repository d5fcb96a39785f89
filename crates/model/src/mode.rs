use serde::{Deserialize, Serialize};
use std::fmt;

/// Time of a client's next call; the plan stores it as the loads of its workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// When the previous call has ended: a closed loop.
    Bench,
    /// When it is due, at a fixed rate or in bursts, but not before the previous call has ended.
    FixedFreq,
}

impl Mode {
    /// Word in files and flags.
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

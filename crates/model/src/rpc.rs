//! Pattern `rpc`: calls by clients that work beside each other, and when they were answered.

use crate::pace::Offers;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// When a client makes its next call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// As soon as the one before has ended: a closed loop.
    Bench,
    /// When it is due, at a fixed rate or in bursts, but never before the one before has ended.
    FixedFreq,
}

impl Mode {
    /// The word in files and flags.
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

/// What is called at each payload: one trial under `bench`, one for each offered load under `fixed-freq`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calls {
    /// When a client makes its next call.
    pub mode: Mode,
    /// Clients, each with a link and a thread of its own at both ends.
    pub clients: u32,
    /// Under `fixed-freq`: what each client offers; else nothing.
    #[serde(flatten)]
    pub offers: Offers,
    /// How long an answer is waited for, in nanoseconds.
    pub timeout_ns: u64,
}

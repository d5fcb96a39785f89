//! Pattern `log`: calls of a logger, and the lines that came of them.

use crate::channel::Used;
use crate::manifest::{Figures, WithinRun};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was measured of a logger at one payload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogCalls {
    /// From a call to its return; without the warm-up. Absent without a call.
    pub call_ns: Option<Figures>,
    /// Intervals of its quantiles within this run; absent where samples were not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_within_run_ns: Option<WithinRun>,
    /// How often the logger refused a line because it was full (back-pressure); such a line was logged later.
    pub refused: u64,
    /// The lines found once the logger had closed its file or pipe, those of the warm-up included. What they were is in the
    /// cell's `counts`: `sent` calls, `received` lines that were intact, `lost` those that are missing.
    pub lines: Lines,
    /// From the last call until the logger had written out what it kept and closed its file or pipe, in nanoseconds.
    pub flush_ns: u64,
    /// What the logging process used from the first call after the warm-up until then.
    pub used: Used,
    /// The most processor time in 100 ms of that time, in per cent of one core; of the whole where that is shorter or
    /// higher. Absent if it could not be read.
    pub cpu_max_percent: Option<f64>,
}

/// Lines as they were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lines {
    /// Their number, damaged ones included.
    pub written: u64,
    /// Their bytes, line breaks included.
    pub bytes: u64,
    /// Bytes before the text of an intact line, such as time and level: the fewest.
    pub shortest_prefix_bytes: u64,
    /// The most of them.
    pub longest_prefix_bytes: u64,
}

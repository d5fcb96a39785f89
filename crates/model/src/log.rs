//! Pattern `log`: calls of a logger, and the lines that it wrote.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Lines found in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lines {
    /// Number of lines, including damaged ones.
    pub written: u64,
    /// Bytes of these lines, including line breaks.
    pub bytes: u64,
    /// Fewest bytes before the text of an intact line, such as time and level.
    pub shortest_prefix_bytes: u64,
    /// Most bytes before the text of an intact line.
    pub longest_prefix_bytes: u64,
}

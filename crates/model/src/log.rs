//! Pattern `log`: calls of a logger, and the lines that it wrote.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

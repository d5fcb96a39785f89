//! One module per command; each returns the exit code.

pub mod completions;
pub mod presets;
pub mod run;
pub mod table;
pub mod transports;

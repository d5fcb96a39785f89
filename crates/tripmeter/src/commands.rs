//! One module per command; each returns the exit code.

pub mod ab;
pub mod check;
pub mod compare;
mod compare_runs;
pub mod compare_subexperiments;
pub mod completions;
pub mod doctor;
pub mod history;
pub mod job;
pub mod plot;
pub mod presets;
pub mod process;
pub mod prune;
pub mod requirements;
pub mod run;
pub mod selftest;
pub mod setup;
pub mod table;
pub mod transports;

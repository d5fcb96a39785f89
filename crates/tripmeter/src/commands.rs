//! One module per command; each returns the exit code.

pub mod ab;
pub mod check;
pub mod compare;
mod compare_runs;
pub mod compare_subexperiments;
pub mod completions;
pub mod doctor;
pub mod export;
pub mod history;
pub mod iceperf;
pub mod install;
pub mod job;
pub mod list;
pub mod man;
pub mod process;
pub mod prune;
pub mod requirements;
pub mod run;
pub mod selftest;
pub mod show;

//! One module per command; each returns the exit code.

pub mod ab;
pub mod check;
pub mod choose;
pub mod compare;
pub mod completions;
pub mod doctor;
pub mod eprosima;
pub mod explain;
pub mod export;
pub mod fleet;
pub mod history;
pub mod iceperf;
pub mod install;
pub mod limits;
pub mod list;
pub mod man;
pub mod plugin_check;
pub mod report;
pub mod resume;
pub mod run;
pub mod selftest;
pub mod show;

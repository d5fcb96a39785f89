//! Audit of the machine: what disturbs measurements here, and how to fix it. It changes nothing.
//!
//! A check is a function that returns a `Reading`. Its error says what the machine hides: the finding is then not
//! visible, and never taken as good. To add a check, write its function and add a line to the list of its file.

mod activity;
mod check;
mod clock;
mod counters;
mod frequency;
mod kernel;
mod limits;
mod machine;
mod parse;
mod process;
mod root;
mod spin;
mod topology;

pub use counters::Snapshot;
pub use machine::{OWN_LOAD, after, before, checks};
pub(crate) use parse::read_by_all;
pub use parse::{CpuTime, cpu_list, stat};
pub use process::this_thread;
pub use root::Root;

#[cfg(test)]
mod tests;

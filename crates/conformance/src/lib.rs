//! Conformance suite for all transports, built in or plugins. It starts the program itself to measure all variants,
//! waits and patterns in one experiment, to run two experiments in parallel, and to request undeclared features. It
//! also kills workers. The program's tests run it for every system, `tripmeter plugin-check` for a third-party plugin.

#![forbid(unsafe_code)]

mod calls;
mod contract;
mod entry;
pub mod figures;
mod killed;
mod log;
mod one_way;
mod publish;
mod refusals;
mod round_trips;
pub mod samples;
mod suite;
pub mod traces;

pub use suite::{Known, KnownVariant, Suite, SuiteError};

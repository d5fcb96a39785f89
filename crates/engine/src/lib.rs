//! The measuring engine: it validates a plan, runs leader and follower, and writes the results folder.
//!
//! The engine names no middleware: it knows transports by the traits of `tripmeter-abi` only.

pub mod any;
pub mod audit;
pub mod bare;
pub mod by_hand;
pub mod clock;
pub mod control;
mod daemon;
mod environment;
pub mod files;
pub mod handover;
mod last_line;
pub mod lines;
pub mod measure;
pub mod memory;
pub mod message;
pub mod os;
pub mod passage;
mod private;
pub mod proof;
pub mod record;
pub mod registry;
pub mod replay;
pub mod resolve;
pub mod results;
mod scratch;
mod spawn;
mod supervise;
pub mod worker;

pub use supervise::{Begun, Event, Followers, RunError, RunOptions, machine, run, run_while};

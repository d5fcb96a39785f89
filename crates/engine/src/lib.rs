//! The measuring engine: it validates a plan, runs leader and follower, and writes the results folder.
//!
//! The engine names no middleware: it knows transports by the traits of `tripmeter-abi` only.

pub mod any;
pub mod proof;
pub mod registry;
pub mod resolve;

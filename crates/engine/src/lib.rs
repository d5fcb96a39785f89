//! Measuring engine: validates a plan, runs leader and follower, and writes the results folder.
//!
//! It names no middleware, and knows transports only by the traits of `tripmeter-abi`.

pub mod audit;
pub mod bare;
mod bounded_log;
pub mod by_hand;
pub mod channel;
pub mod clock;
pub mod core_to_core;
mod cpu_accounting;
mod daemon;
pub mod delivery;
mod environment;
pub mod files;
pub mod hosts;
pub mod lanes;
mod last_line;
pub mod log_check;
pub mod measure;
pub mod memory;
mod memory_copy;
pub mod message;
mod node_options;
pub mod numbers;
pub mod os;
pub mod parquet;
#[doc(hidden)]
pub mod parsers;
pub mod parts;
mod private;
pub mod proof;
pub mod received;
pub mod record;
pub mod registry;
pub mod replay;
pub mod resolve;
pub mod results;
pub mod scratch;
mod spawn;
pub mod suggest;
mod supervise;
pub mod system_calls;
mod two_clocks;
pub mod wire;
pub mod worker;

pub use results::LockedFolder;
pub use supervise::{
    Begun, Event, Followers, OutputFolder, RunError, RunOptions, machine, measured_cpus, run, run_while, time_of,
    unfinished,
};

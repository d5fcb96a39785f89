//! The nouns of Tripmeter and their file formats.
//!
//! | Module | Holds |
//! |---|---|
//! | [`payload`] | sizes and lists of sizes as people write them |
//! | [`transport`] | `system/variant?key=value` |
//! | [`experiment`] | an experiment as written in TOML, a preset or flags |
//! | [`plan`] | an experiment resolved: what will be run, exactly |
//! | [`workload`] | what is sent at each payload, and what comes back |
//! | [`manifest`] | `manifest.json`: plan and environment; results in memory |
//! | [`bounds`] | most bytes and elements of files of results, and of what others say |
//! | [`audit`] | what of a machine disturbs measuring |
//! | [`series`] | how samples went on in time |
//! | [`address`] | where a figure of an experiment is found, in any other experiment too |
//! | [`limits`] | limits of figures by their addresses |
//! | [`verdict`] | what commands that judge print for programs |
//! | [`samples`], [`expected`] | `samples/<name>.csv`: every sample; how many rows it has at least |
//! | [`recording`] | a recording whose messages are published again, and its schedule |
//! | [`delivery`], [`used`] | what happened to a message or call, and what a process used |
//! | [`explain`] | where the time of a message goes |
//! | [`fleet`] | hosts that one command is run on, and which of them were measured |
//! | [`host`] | a host beside another, without measuring |
//! | [`interference`] | a load beside a measurement, and how its processes are scheduled |
//! | [`kernel_queue`] | capacity of what messages wait in, as the kernel granted it |
//! | [`log`] | calls of a logger, and the lines that came of them |
//! | [`search`] | steps of a search for the highest rate |
//! | [`mod@secret`] | what must not come into results |
//! | [`mod@file`], [`folder_handle`] | files, whatever they hold; folders that may lose their names |
//! | [`exit`] | exit codes |

#![deny(missing_docs)]
#![forbid(unsafe_code)]

/// The version of Tripmeter: of all its crates, and of every program that is built of them.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

pub mod address;
pub mod audit;
pub mod bounds;
pub mod count;
mod counts;
pub mod cut_short;
pub mod date;
pub mod delivery;
pub mod exit;
pub mod expected;
pub mod experiment;
pub mod explain;
pub mod figure;
pub mod file;
pub mod fleet;
pub mod folder;
pub mod folder_handle;
mod handover;
pub mod host;
pub mod interference;
mod json;
mod kept;
pub mod kernel_queue;
mod known;
pub mod limits;
pub mod log;
pub mod manifest;
pub mod metric;
pub mod metrics_file;
mod mode;
pub mod name;
pub mod number;
pub mod pace;
pub mod pattern;
pub mod payload;
mod plain_words;
pub mod plan;
pub mod printable;
pub mod recording;
pub mod samples;
pub mod search;
pub mod secret;
pub mod series;
pub mod sidecar;
mod table_kind;
pub mod toml_text;
mod touch;
pub mod transport;
pub mod trial;
pub mod trouble;
pub mod used;
pub mod verdict;
pub mod workload;

pub use date::check_date;
pub use plain_words::counted;
pub use touch::Touch;
pub use tripmeter_abi::{Path, Pattern, Wait};

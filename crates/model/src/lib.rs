//! Types of Tripmeter and their file formats.
//!
//! | Module | Holds |
//! |---|---|
//! | [`payload`] | payload sizes, and lists of them, as users write them |
//! | [`transport`] | `system/variant?key=value` |
//! | [`experiment`] | an experiment as written in TOML, a preset or flags |
//! | [`plan`] | an experiment resolved: everything that will run |
//! | [`workload`] | messages of each payload, and their replies |
//! | [`manifest`] | `manifest.json`: plan and environment; results in memory |
//! | [`bounds`] | most bytes and elements of results files, and of text from outside |
//! | [`audit`] | settings and load of a machine that disturb measuring |
//! | [`series`] | samples over time |
//! | [`address`] | address of a figure, valid in any experiment |
//! | [`limits`] | limits of figures by their addresses |
//! | [`verdict`] | verdicts of commands as JSON |
//! | [`samples`], [`expected`] | `samples/<name>.csv`: every sample; fewest rows it must have |
//! | [`recording`] | a recording whose messages are replayed, and its schedule |
//! | [`delivery`], [`used`] | outcome of a message or call, and cost of a process |
//! | [`explain`] | parts of a message's time |
//! | [`fleet`] | hosts that one command runs on, and their progress |
//! | [`host`] | a host seen from another, without measuring |
//! | [`interference`] | background load, and scheduling of the measuring processes |
//! | [`kernel_queue`] | capacity of queues, as the kernel granted it |
//! | [`log`] | calls of a logger, and the lines that it wrote |
//! | [`search`] | steps of a search for the highest rate |
//! | [`mod@secret`] | detection of secrets, which results must not contain |
//! | [`mod@file`], [`folder_handle`] | whole files; folders that may lose their names |
//! | [`exit`] | exit codes |
//! | [`group`] | items with the same key, in the order of the first of each |

#![deny(missing_docs)]
#![forbid(unsafe_code)]

/// Version of all crates and programs of Tripmeter.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

pub mod address;
pub mod audit;
pub mod bounds;
mod core_to_core;
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
pub mod group;
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

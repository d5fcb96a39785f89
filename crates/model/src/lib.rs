//! The nouns of Tripmeter and their file formats.
//!
//! | Module | Holds |
//! |---|---|
//! | [`payload`] | sizes and lists of sizes as people write them |
//! | [`transport`] | `system/variant?key=value` |
//! | [`experiment`] | an experiment as written in TOML, a preset or flags |
//! | [`plan`] | an experiment resolved: what will be run, exactly |
//! | [`manifest`] | `manifest.json`: plan, environment and results |
//! | [`exit`] | exit codes |

pub mod exit;
pub mod experiment;
pub mod manifest;
pub mod payload;
pub mod plan;
pub mod sidecar;
mod touch;
pub mod transport;

pub use touch::Touch;
pub use tripmeter_abi::{Path, Pattern, Wait};

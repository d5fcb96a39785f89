//! Evaluation of results: figures and findings. It does not measure, do I/O or draw.
//!
//! | Module | Does |
//! |---|---|
//! | [`check`] | compares figures with limits, and loosens limits so that clean runs rarely break any |
//! | [`comparison`] | compares an experiment with a reference, by a threshold or by the ranks of runs |
//! | [`derived`] | computes figures from others |
//! | [`explain`] | evaluates the passes of `tripmeter explain` |
//! | `flags` | defines flags of commands that give verdicts (feature `clap`) |
//! | [`history`] | finds steps and slow drifts over time |
//! | [`limits`] | makes limits from many runs |
//! | [`pairs`] | pairs the rounds of two sides |
//! | [`results`] | finds results that do not count, with the reason |
//! | [`selection`] | selects the figures that are judged |
//! | [`series`] | applies thresholds to the audit of samples |
//! | [`table`] | stores figures by their address |
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod check;
pub mod comparison;
pub mod derived;
pub mod explain;
#[cfg(feature = "clap")]
pub mod flags;
pub mod history;
pub mod limits;
pub mod pairs;
pub mod results;
pub mod selection;
pub mod series;
pub mod table;

pub use results::JudgedResults;
pub use selection::{Selected, Selection};
pub use table::{Key, MetricTable, Rounds, Row};

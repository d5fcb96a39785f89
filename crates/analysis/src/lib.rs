//! From results to figures, and from figures to findings. Nothing is measured, read, written or drawn here.
//!
//! | Module | Does |
//! |---|---|
//! | [`derived`] | computes figures from others |
//! | [`table`] | keeps their figures, and finds them by their address |
#![forbid(unsafe_code)]

pub mod derived;
pub mod table;

pub use table::{MetricTable, Rounds, Row};

//! How the samples of a payload went on in time: what an audit of them found.

pub use tripmeter_stats::series::{Correlation, Modes, Series, Trend, WarmUp};

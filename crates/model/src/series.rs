//! Audits of samples in order of measurement: trend, warm-up, correlation and modes.

pub use tripmeter_stats::series::{Correlation, Modes, Series, Trend, WarmUp};

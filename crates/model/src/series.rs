//! Audits of samples over time.

pub use tripmeter_stats::series::{Correlation, Modes, Series, Trend, WarmUp};

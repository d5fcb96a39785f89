//! Summaries and limits for tests.

use crate::bytes::Bytes;
use crate::requirements::Requirement;
use crate::summary::{Summary, SummaryRow};

/// Summary of payloads, each with median, 99th percentile and maximum; the minimum is the median.
pub fn summary(rows: &[(u64, [f64; 3])]) -> Summary {
    let row = |&(bytes, [median, p99, max]): &(u64, [f64; 3])| SummaryRow {
        bytes: Bytes::from(bytes),
        samples: 100,
        max,
        min: median,
        mean: median,
        median,
        stdev: 0.0,
        mean_jitter: 0.0,
        max_jitter: 0.0,
        p90: p99,
        p99,
        p9999: max,
    };
    Summary { rows: rows.iter().map(row).collect() }
}

/// Requirement for median, 99th percentile and maximum.
pub fn limit(name: &str, bytes: u64, [median, p99, max]: [f64; 3]) -> Requirement {
    Requirement { sub_experiment: name.to_owned(), bytes: Bytes::from(bytes), median, p99, max }
}

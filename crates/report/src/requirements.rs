//! Requirements, as text.

use crate::grid::grid;
use tripmeter_model::requirements::Requirement;

/// A line for each limit.
pub fn requirements(rows: &[Requirement]) -> String {
    let header = ["sub-experiment", "payload [bytes]", "Median [µs]", "99% [µs]", "Max [µs]"];
    let row = |row: &Requirement| {
        let [median, p99, max] = [row.median, row.p99, row.max].map(|limit| format!("{limit:.3}"));
        [row.sub_experiment.clone(), row.bytes.to_string(), median, p99, max]
    };
    grid(header, &[1, 2, 3, 4], rows.iter().map(row))
}

//! Requirements, as text.

use crate::grid::grid;
use tripmeter_model::check::Check;
use tripmeter_model::requirements::Requirement;

/// A line for each limit; of patterns `channel`, `rpc` and `log` with all that there are limits of.
pub fn requirements(rows: &[Requirement]) -> String {
    let has_more = rows.iter().any(|row| Check::MORE.iter().any(|check| row.limit(*check).is_some()));
    let header = ["sub-experiment", "payload [bytes]", "Median [µs]", "99% [µs]", "Max [µs]"];
    let figures = |row: &Requirement| [row.median, row.p99, row.max].map(|limit| format!("{limit:.3}"));
    let short = |row: &Requirement| {
        let [median, p99, max] = figures(row);
        [row.sub_experiment.clone(), row.bytes.to_string(), median, p99, max]
    };
    if !has_more {
        return grid(header, &[1, 2, 3, 4], rows.iter().map(short));
    }
    let [name, payload, median, p99, max] = header;
    let [_, _, loss, rate, qps] = Check::MORE.map(Check::name);
    let header = [name, payload, median, p99, max, "Mean [µs]", "99.9% [µs]", loss, rate, qps];
    let long = |row: &Requirement| {
        let [name, payload, median, p99, max] = short(row);
        let limit = |check: Check| row.limit(check).map_or("-".to_owned(), |limit| format!("{limit:.3}"));
        let [mean, p999, loss, rate, qps] = Check::MORE.map(limit);
        [name, payload, median, p99, max, mean, p999, loss, rate, qps]
    };
    grid(header, &[1, 2, 3, 4, 5, 6, 7, 8, 9], rows.iter().map(long))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tripmeter_model::bytes::Bytes;

    #[test]
    fn there_are_columns_for_what_there_are_limits_of() {
        let row = |name: &str, more| Requirement {
            sub_experiment: name.to_owned(),
            bytes: Bytes::from(512),
            median: 1.0,
            p99: 2.0,
            max: 4.0,
            more,
        };
        let rows = [row("uds", [None; 5]), row("x@service_1000hz", [None, Some(3.0), Some(0.0), Some(990.0), None])];
        let golden = "\
sub-experiment  payload [bytes]  Median [µs]  99% [µs]  Max [µs]
----------------------------------------------------------------
uds                         512        1.000     2.000     4.000
";
        assert_eq!(requirements(&rows[..1]), golden);
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = requirements(&rows);
        let last = text.lines().last().map(squeezed).unwrap_or_default();
        assert_eq!(last, "x@service_1000hz 512 1.000 2.000 4.000 - 3.000 0.000 990.000 -", "{text}");
    }
}

//! Requirements, as text.

use crate::comparison::{bytes_column, micros_column};
use crate::document::{Block, Cell, Column, Document, Table};
use tripmeter_model::check::Check;
use tripmeter_model::requirements::Requirement;

/// A row for each limit; of patterns `channel`, `rpc` and `log` with all that there are limits of.
pub fn requirements(rows: &[Requirement]) -> Document {
    let has_more = rows.iter().any(|row| Check::MORE.iter().any(|check| row.limit(*check).is_some()));
    let more = || Check::MORE.into_iter().filter(|_| has_more);
    let limits = || [Check::Median, Check::P99, Check::Max].into_iter().chain(more());
    let column = |check: Check| {
        let unit = if check.magnitude().is_latency() { "µs" } else { "" };
        Column { unit, ..micros_column(&check.name().to_lowercase(), check.name()) }
    };
    let mut columns = vec![Column::words("sub_experiment", "sub-experiment", ""), bytes_column()];
    columns.extend(limits().map(column));
    let row = |row: &Requirement| {
        let names = [Cell::text(&row.sub_experiment), Cell::text(row.bytes.to_string())];
        (None, names.into_iter().chain(limits().map(|check| Cell::maybe(row.limit(check)))).collect())
    };
    let table = Table::new(String::new(), columns, rows.iter().map(row).collect());
    Document { blocks: vec![Block::Table(table)] }
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
sub-experiment payload Median   99%   Max
               [bytes]   [µs]  [µs]  [µs]
-----------------------------------------
uds                512  1.000 2.000 4.000
";
        let text = |rows| crate::fixture::text(&requirements(rows));
        assert_eq!(text(&rows[..1]), golden);
        let last = crate::fixture::rows_of(&text(&rows), "x@service_1000hz");
        assert_eq!(last, ["x@service_1000hz 512 1.000 2.000 4.000 - 3.000 0.000 990.000 -"]);
    }
}

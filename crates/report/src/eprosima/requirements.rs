//! Requirements, as text.

use super::comparison::{bytes_column, micros_column};
use crate::document::{Block, Cell, Column, Document, Table};
use tripmeter_eprosima::requirements::Requirement;
use tripmeter_eprosima::summary::Magnitude;

/// A row for each limit.
pub fn requirements(rows: &[Requirement]) -> Document {
    let limits = Magnitude::CHECKED;
    let column = |limit: Magnitude| micros_column(&limit.column().to_lowercase(), limit.column());
    let mut columns = vec![Column::words("sub_experiment", "sub-experiment", ""), bytes_column()];
    columns.extend(limits.map(column));
    let row = |row: &Requirement| {
        let names = [Cell::text(&row.sub_experiment), Cell::text(row.bytes.to_string())];
        (None, names.into_iter().chain(limits.map(|limit| Cell::number(row.limit(limit)))).collect())
    };
    let table = Table::new(String::new(), columns, rows.iter().map(row).collect());
    Document { blocks: vec![Block::Table(table)] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tripmeter_eprosima::bytes::Bytes;

    #[test]
    fn a_row_for_each_limit() {
        let (sub_experiment, bytes) = ("uds".to_owned(), Bytes::from(512));
        let rows = [Requirement { sub_experiment, bytes, median: 1.0, p99: 2.0, max: 4.0 }];
        let golden = "\
sub-experiment payload Median   99%   Max
               [bytes]   [µs]  [µs]  [µs]
-----------------------------------------
uds                512  1.000 2.000 4.000
";
        assert_eq!(crate::fixture::text(&requirements(&rows)), golden);
    }
}

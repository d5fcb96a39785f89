//! Table of what a message costs either process, beside a ranking.

use super::columns;
use super::description::TableOf;
use super::row::{TableRow, TimedLine};
use crate::document::{Cell, Column, Table};
use tripmeter_model::metric::Stream;

/// Two lines for each row with its label: the leader's costs, and the costs of all followers.
pub fn table<'a>(rows: impl Iterator<Item = (TableRow<'a>, &'a str)>, names: [&str; 2]) -> Table {
    let mut lines: Vec<TimedLine<'a, &'a str>> = Vec::new();
    for (row, label) in rows {
        lines.extend(row.timed(names.map(|name| (name.to_owned(), None, Stream::all())), label));
    }
    TableOf::new("Costs".to_owned(), &lines)
        .column(Column::words("transport", "transport", "").at_most(26).merged(), |line| Cell::text(line.part))
        .column(Column::words("process", "process", ""), |line| line.name())
        .with(columns::message_costs())
        .table()
}

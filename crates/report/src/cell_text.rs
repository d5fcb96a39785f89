//! Cells as text, for all renderers.

use crate::document::{Cell, Column, Digits, Missing, Table};
use crate::number::{TOO_SMALL, percent, ratio};
use tripmeter_analysis::Row;
use tripmeter_model::figure::Unit;
use tripmeter_model::metric::Interval;

pub const BAR_COLUMNS: usize = 12;

/// True if two rows have the same address and the same cells in all merged columns.
pub fn is_same(columns: &[Column], above: &(Option<Row>, Vec<Cell>), row: &(Option<Row>, Vec<Cell>)) -> bool {
    let mut cells = columns.iter().zip(above.1.iter().zip(&row.1));
    row.0.is_some() && row.0 == above.0 && cells.all(|(column, (above, cell))| !column.is_merged || above == cell)
}

/// True if every number of a column has its own unit, so that the head needs none.
pub fn has_own_units(table: &Table, index: usize) -> bool {
    let mut cells = table.rows.iter().map(|(_, cells)| &cells[index]);
    let is_own = |cell: &Cell| matches!(cell, Cell::InUnit(..));
    cells.clone().any(is_own) && cells.all(|cell| is_own(cell) || matches!(cell, Cell::Missing(_) | Cell::Text(_)))
}

/// Column titles with their meanings, without duplicates.
pub fn helps(columns: &[Column]) -> impl Iterator<Item = (String, &'static str)> {
    let mut helps: Vec<(String, &'static str)> = Vec::new();
    for column in columns.iter().filter(|column| !column.help.is_empty()) {
        let one = (column.title.replace('\n', " "), column.help);
        if !helps.contains(&one) {
            helps.push(one);
        }
    }
    helps.into_iter()
}

/// Text of a cell, and of its interval; the longest bar is `bar` characters wide.
pub fn texts(column: &Column, cell: &Cell, bar: usize) -> (String, Option<String>) {
    let number = |value: f64| column.digits.write(value / column.divisor);
    let ends = |interval: &Interval, write: &dyn Fn(f64) -> String| {
        if is_bounded(interval) || column.is_ratio && *interval != Interval::UNBOUNDED {
            format!("{}..{}", write(interval.low), write(interval.high))
        } else {
            TOO_SMALL.to_owned()
        }
    };
    match cell {
        Cell::Number { value, interval, mark } => {
            let interval = interval.as_ref().map(|interval| ends(interval, &number));
            (format!("{mark}{}", number(*value)), interval)
        }
        Cell::Share { events, interval, .. } if column.digits == Digits::Events => {
            (events.to_string(), interval.as_ref().map(|interval| ends(interval, &percent)))
        }
        Cell::Share { events, of, interval } => {
            let interval = interval.as_ref().map(|interval| ends(interval, &number));
            (number(*events as f64 / (*of).max(1) as f64), interval)
        }
        Cell::InUnit(cell, unit) => {
            // Counts are whole numbers, but their medians and means may not be.
            let digits = if *unit == Unit::Count.as_str() { Digits::WholeOr(3) } else { column.digits };
            let (number, interval) = texts(&Column { divisor: 1.0, digits, ..column.clone() }, cell, bar);
            (format!("{number} {unit}"), interval)
        }
        Cell::Range(interval) => (ends(interval, &number), None),
        Cell::Pair(both) => {
            let one = |column: &Column, cell| {
                let (number, interval) = texts(column, cell, bar);
                interval.map_or(number.clone(), |interval| format!("{number} ({interval})"))
            };
            let [first, second] = &**both;
            let text = match column.pair.second {
                None => format!("{}{}{}", one(column, first), column.pair.joint, one(column, second)),
                Some((divisor, digits)) => {
                    let other = Column { divisor, digits, ..column.clone() };
                    format!("{} / {}", one(column, first), one(&other, second))
                }
            };
            (text, None)
        }
        Cell::Ratio { value, interval } => (ratio(*value), interval.as_ref().map(|interval| ends(interval, &ratio))),
        Cell::Floor => ("floor".to_owned(), None),
        Cell::Bar(share) => ("▇".repeat((share.clamp(0.0, 1.0) * bar as f64).round() as usize), None),
        Cell::Text(text) | Cell::Link { text, .. } => (text.clone(), None),
        Cell::Marked(mark, text) => (format!("{mark}{text}"), None),
        Cell::Missing(Missing::NotOfThisRow) => (String::new(), None),
        Cell::Missing(Missing::TooFewSamples) => (TOO_SMALL.to_owned(), None),
        Cell::Missing(missing) => (format!("{}-", missing.mark()), None),
    }
}

fn is_bounded(interval: &Interval) -> bool {
    interval.low.is_finite() && interval.high.is_finite()
}

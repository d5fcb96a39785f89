//! Sorting of table rows.

use crate::document::{Block, Cell, Column, Digits, Document, Missing, RowGaps, Table};
use std::cmp::Ordering;

/// A column and a direction, as typed: `COLUMN` or `COLUMN:desc`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sort {
    /// Identifier, title or group of a column, or an everyday name for it.
    pub column: String,
    /// True if the greatest come first.
    pub descending: bool,
}

/// Everyday names of columns, and their titles.
const USUAL: [(&str, &str); 1] = [("median", "p50")];
/// Everyday names of the column that names the rows.
const NAMES: [&str; 3] = ["name", "transport", "sub-experiment"];

impl std::str::FromStr for Sort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (column, descending) = match text.rsplit_once(':') {
            Some((column, "desc")) => (column, true),
            Some((column, "asc")) => (column, false),
            _ => (text, false),
        };
        if column.is_empty() {
            return Err("write a column, as COLUMN or COLUMN:desc".to_owned());
        }
        Ok(Self { column: column.to_owned(), descending })
    }
}

impl Sort {
    /// Sorts every table that has the column; returns true if there is one. Rows without a value come last, equal rows
    /// keep their order.
    pub fn apply(&self, document: &mut Document) -> bool {
        let mut has_column = false;
        for block in &mut document.blocks {
            if let Block::Table(table) = block
                && let Some(index) = self.place(&table.columns)
            {
                self.sort(table, index);
                has_column = true;
            }
        }
        has_column
    }

    /// First column that matches: by identifier, by group and title, by title, by group, by the last word of a title,
    /// or by an everyday name.
    fn place(&self, columns: &[Column]) -> Option<usize> {
        let word = self.column.trim();
        let is_word = |text: &str| text.eq_ignore_ascii_case(word);
        let is_title = |column: &Column, word: &str| column.title.replace('\n', " ").eq_ignore_ascii_case(word);
        let usual = USUAL.iter().find(|(usual, _)| is_word(usual)).map(|(_, title)| *title);
        let find = |is_one: &dyn Fn(&Column) -> bool| columns.iter().position(is_one);
        find(&|column| column.id == word)
            .or_else(|| find(&|column| is_word(&title(column))))
            .or_else(|| find(&|column| is_title(column, word)))
            .or_else(|| find(&|column| column.group.as_deref().is_some_and(is_word)))
            .or_else(|| find(&|column| column.title.rsplit(['\n', ' ']).next().is_some_and(is_word)))
            .or_else(|| usual.and_then(|usual| find(&|column| column.id == usual || is_title(column, usual))))
            .or_else(|| NAMES.iter().any(|name| is_word(name)).then(|| find(&|column| !column.is_right)).flatten())
    }

    fn sort(&self, table: &mut Table, index: usize) {
        let digits = table.columns[index].digits;
        let mut keys: Vec<Option<SortKey>> = Vec::new();
        for (place, (row, cells)) in table.rows.iter().enumerate() {
            // Cells shown in another row of the same address sort with that row.
            let above = place.checked_sub(1).filter(|above| row.is_some() && table.rows[*above].0 == *row);
            keys.push(match (&cells[index], above) {
                (Cell::Missing(Missing::NotOfThisRow), Some(above)) => keys[above].clone(),
                (cell, _) => key(cell, digits),
            });
        }
        let mut rows: Vec<_> = keys.into_iter().zip(std::mem::take(&mut table.rows)).collect();
        rows.sort_by(|(a, _), (b, _)| self.compare(a.as_ref(), b.as_ref()));
        table.rows = rows.into_iter().map(|(_, row)| row).collect();
        table.gaps = RowGaps::Nowhere;
    }

    fn compare(&self, a: Option<&SortKey>, b: Option<&SortKey>) -> Ordering {
        let (Some(a), Some(b)) = (a, b) else { return a.is_none().cmp(&b.is_none()) };
        let order = match (a, b) {
            (SortKey::Number(a), SortKey::Number(b)) => a.total_cmp(b),
            (SortKey::Number(_), SortKey::Text(_)) => Ordering::Less,
            (SortKey::Text(_), SortKey::Number(_)) => Ordering::Greater,
            (SortKey::Text(a), SortKey::Text(b)) => a.cmp(b),
        };
        if self.descending { order.reverse() } else { order }
    }
}

/// Key of a cell for sorting.
#[derive(Clone, Debug)]
enum SortKey {
    Number(f64),
    Text(String),
}

fn key(cell: &Cell, digits: Digits) -> Option<SortKey> {
    let number = |value: f64| (!value.is_nan()).then_some(SortKey::Number(value));
    match cell {
        Cell::Number { value, .. } | Cell::Ratio { value, .. } | Cell::Bar(value) => number(*value),
        Cell::Share { events, .. } if digits == Digits::Events => number(*events as f64),
        Cell::Share { events, of, .. } => number(*events as f64 / (*of).max(1) as f64),
        Cell::Pair(both) => key(&both[0], digits),
        Cell::Floor => number(1.0),
        Cell::InUnit(cell, _) => key(cell, digits),
        Cell::Range(interval) => number(interval.low),
        Cell::Text(text) | Cell::Link { text, .. } | Cell::Marked(_, text) if text.is_empty() => None,
        Cell::Text(text) | Cell::Link { text, .. } | Cell::Marked(_, text) => {
            Some(text.parse().map_or_else(|_| SortKey::Text(text.clone()), SortKey::Number))
        }
        Cell::Missing(_) => None,
    }
}

/// Group and title in one line.
fn title(column: &Column) -> String {
    let group = column.group.as_ref().map_or(String::new(), |group| format!("{group} "));
    group + &column.title.replace('\n', " ")
}

/// Columns of all tables by which rows can be sorted, without duplicates: identifier, and title if it differs.
pub fn sortable<'a>(documents: impl Iterator<Item = &'a Document>) -> Vec<String> {
    let mut names = Vec::new();
    for block in documents.flat_map(|document| &document.blocks) {
        let Block::Table(table) = block else { continue };
        for column in &table.columns {
            let title = title(column);
            let name = match title.is_empty() || title == column.id {
                true => column.id.clone(),
                false => format!("{} ('{title}')", column.id),
            };
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use tripmeter_analysis::Row;

    fn document(cells: Vec<Cell>) -> Document {
        let columns = vec![
            Column::words("transport", "transport", ""),
            Column::numbers("1k_p50", "p50", "µs", Digits::Significant(3), "").grouped("1k"),
        ];
        let rows = cells.into_iter().zip('a'..).map(|(cell, name)| (None, vec![Cell::text(name), cell]));
        Document { blocks: vec![Block::Table(Table::new(String::new(), columns, rows.collect()))] }
    }

    fn order(document: &Document) -> String {
        let Block::Table(table) = &document.blocks[0] else { panic!() };
        table.rows.iter().map(|(_, cells)| if let Cell::Text(text) = &cells[0] { text.as_str() } else { "" }).collect()
    }

    #[test]
    fn numbers_are_sorted_as_numbers_and_what_is_missing_is_last() {
        let cells = || {
            let missing = Cell::Missing(Missing::TooFewSamples);
            vec![missing, Cell::number(10.0), Cell::number(9.0), Cell::number(f64::NAN), Cell::number(10.0)]
        };
        for (sort, expected) in
            [("1k_p50", "cbead"), ("1k p50:desc", "becad"), ("transport:desc", "edcba"), ("1K P50:asc", "cbead")]
        {
            let mut document = document(cells());
            assert!(sort.parse::<Sort>().unwrap().apply(&mut document), "{sort}");
            assert_eq!(order(&document), expected, "{sort}");
        }
        let texts = ["10", "x", "9", ""].map(Cell::text).to_vec();
        let mut document = document(texts);
        assert!("1k_p50".parse::<Sort>().unwrap().apply(&mut document));
        assert_eq!(order(&document), "cabd");
    }

    #[test]
    fn shares_are_sorted_as_they_are_written() {
        let share = |events, of| Cell::Share { events, of, interval: None };
        for (digits, expected) in [(Digits::Events, "ba"), (Digits::Percent, "ab")] {
            let mut document = document(vec![share(2, 1000), share(1, 10)]);
            let Block::Table(table) = &mut document.blocks[0] else { panic!() };
            table.columns[1].digits = digits;
            assert!("1k_p50".parse::<Sort>().unwrap().apply(&mut document));
            assert_eq!(order(&document), expected);
        }
    }

    #[test]
    fn the_second_line_of_a_row_stays_below_it() {
        let mut document = document(vec![Cell::number(2.0), Cell::Missing(Missing::NotOfThisRow), Cell::number(1.0)]);
        let Block::Table(table) = &mut document.blocks[0] else { panic!() };
        for (index, sub) in [0, 0, 1].into_iter().enumerate() {
            table.rows[index].0 = Some(Row { sub, payload_bytes: 1024, load: 0 });
        }
        table.gaps = RowGaps::Subs;
        assert!("1k_p50".parse::<Sort>().unwrap().apply(&mut document));
        assert_eq!(order(&document), "cab");
    }

    #[test]
    fn columns_are_found_by_what_a_reader_sees() {
        for word in ["p50", "P50", "1k", "1k p50", "median", "1k_p50"] {
            let mut document = document(vec![Cell::number(2.0), Cell::number(1.0)]);
            assert!(word.parse::<Sort>().unwrap().apply(&mut document), "{word}");
            assert_eq!(order(&document), "ba", "{word}");
        }
        let mut wide = document(vec![Cell::number(2.0), Cell::number(1.0)]);
        let Block::Table(table) = &mut wide.blocks[0] else { panic!() };
        (table.columns[1].title, table.columns[1].group) = ("rtt_half\np99".to_owned(), None);
        assert!("p99".parse::<Sort>().unwrap().apply(&mut wide));
        for word in ["name:desc", "transport:desc"] {
            let mut document = document(vec![Cell::number(2.0), Cell::number(1.0)]);
            let Block::Table(table) = &mut document.blocks[0] else { panic!() };
            table.columns[0].title = "µs, half a round trip".to_owned();
            assert!(word.parse::<Sort>().unwrap().apply(&mut document), "{word}");
            assert_eq!(order(&document), "ba", "{word}");
        }
    }

    #[test]
    fn an_unknown_column_sorts_nothing_and_the_columns_can_be_listed() {
        let mut document = document(vec![Cell::number(2.0), Cell::number(1.0)]);
        assert!(!"p90".parse::<Sort>().unwrap().apply(&mut document));
        assert_eq!(order(&document), "ab");
        assert_eq!(sortable([&document, &document].into_iter()), ["transport", "1k_p50 ('1k p50')"]);
        assert!(":desc".parse::<Sort>().is_err());
    }
}

//! Tables described by columns that make their own cells.

use super::row::TableLine;
use crate::document::{Cell, Column, Table};

/// Column with a function that makes its cell for each line.
pub struct CellColumn<L> {
    head: Column,
    cell: Box<dyn Fn(&L) -> Cell>,
}

impl Column {
    /// Adds the function that makes the cell of each line.
    pub fn shows<L>(self, cell: impl Fn(&L) -> Cell + 'static) -> CellColumn<L> {
        CellColumn { head: self, cell: Box::new(cell) }
    }
}

impl<L> CellColumn<L> {
    /// Merges equal cells, as [`Column::merged`].
    #[must_use]
    pub fn merged(self) -> Self {
        Self { head: self.head.merged(), ..self }
    }
}

/// Table that is described by its columns.
pub struct TableOf<'l, L> {
    title: String,
    lines: &'l [L],
    columns: Vec<CellColumn<L>>,
}

impl<'l, L: TableLine> TableOf<'l, L> {
    pub fn new(title: String, lines: &'l [L]) -> Self {
        Self { title, lines, columns: Vec::new() }
    }

    /// Adds a column and the function that makes its cell for each line.
    #[must_use]
    pub fn column(self, head: Column, cell: impl Fn(&L) -> Cell + 'static) -> Self {
        self.with([head.shows(cell)])
    }

    #[must_use]
    pub fn with(mut self, columns: impl IntoIterator<Item = CellColumn<L>>) -> Self {
        self.columns.extend(columns);
        self
    }

    pub fn table(self) -> Table {
        let cells = |line: &L| self.columns.iter().map(|column| (column.cell)(line)).collect();
        let rows = self.lines.iter().map(|line| (Some(line.row().row), cells(line))).collect();
        Table::new(self.title, self.columns.into_iter().map(|column| column.head).collect(), rows)
    }
}

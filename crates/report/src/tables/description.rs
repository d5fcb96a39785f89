//! A table as a description: columns that know their cells, and notes that are made with the rows.

use super::row::TableLine;
use crate::document::{Cell, Column, Note, Table};
use crate::measured::MeasuredSide;
use std::collections::BTreeSet;
use tripmeter_analysis::Row;
use tripmeter_model::figure::Figure;
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::plan::SubExperiment;

/// A table of everything, as `all` shows it.
pub struct PatternTable {
    /// True if a sub-experiment is of this table.
    pub is_of: fn(&SubExperiment) -> bool,
    /// Ends the caption.
    pub what: &'static str,
    /// The figure by which its rows are ranked, if they are.
    pub figure: Option<fn(OfferedLoad) -> Figure>,
    /// Makes it under a title; without a row if nothing of it was measured.
    pub make: fn(String, &MeasuredSide<'_>) -> MadeTable,
}

/// A table, and what keeps its figures from being good.
pub struct MadeTable {
    pub table: Table,
    /// Notes on payloads, for which the first screen has words of its own.
    pub payload_notes: Vec<Note>,
    pub notes: Vec<Note>,
    /// Rows that the first screen marks `*`.
    pub stars: BTreeSet<Row>,
}

impl MadeTable {
    /// With notes on its trials.
    pub fn new(table: Table, notes: Vec<Note>) -> Self {
        Self { table, payload_notes: Vec::new(), notes, stars: BTreeSet::new() }
    }
}

/// A column, and its cell of each line.
pub struct CellColumn<L> {
    head: Column,
    cell: Box<dyn Fn(&L) -> Cell>,
}

impl Column {
    /// With its cell of each line.
    pub fn shows<L>(self, cell: impl Fn(&L) -> Cell + 'static) -> CellColumn<L> {
        CellColumn { head: self, cell: Box::new(cell) }
    }
}

impl<L> CellColumn<L> {
    /// As [`Column::merged`].
    #[must_use]
    pub fn merged(self) -> Self {
        Self { head: self.head.merged(), ..self }
    }
}

/// A table that is described by its columns.
pub struct TableOf<'l, L> {
    title: String,
    lines: &'l [L],
    columns: Vec<CellColumn<L>>,
}

impl<'l, L: TableLine> TableOf<'l, L> {
    pub fn new(title: String, lines: &'l [L]) -> Self {
        Self { title, lines, columns: Vec::new() }
    }

    /// Adds a column with its cell of each line.
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

//! Columns that several tables have.

use super::description::{CellColumn, TableLine};
use crate::document::{Cell, Column, Digits};
use crate::notes::PROOF_HELP;
use tripmeter_analysis::{MetricTable, Row};
use tripmeter_model::figure::Figure;
use tripmeter_model::payload::ALL_TOPICS;

/// The payload.
pub fn payload_head() -> Column {
    Column::numbers("payload_bytes", "payload", "bytes", Digits::Size, "k = 1024 bytes")
}

/// The payload.
pub fn payload<L: TableLine>() -> CellColumn<L> {
    payload_head().shows(|line: &L| Cell::number(line.row().row.payload_bytes as f64))
}

/// The payload of a row, or that its figures are of all topics.
pub fn payload_cell(metrics: &MetricTable, row: Row) -> Cell {
    if metrics.has_several_sizes(row) { Cell::text(ALL_TOPICS) } else { Cell::number(row.payload_bytes as f64) }
}

/// Messages that came damaged, if any did.
pub fn damaged() -> Column {
    let help = "messages that came, but were not what was sent; the exit code is 75 then (--allow-damage)";
    Column::numbers(Figure::Damaged.id(), "damaged", "n", Digits::Integer, help).if_any()
}

/// Whether the payload went the way that the transport claims.
pub fn path_proof_head() -> Column {
    Column::words("path_proof", "path\nproof", PROOF_HELP)
}

/// Outcome of the path proof.
pub fn path_proof<L: TableLine>() -> CellColumn<L> {
    path_proof_head().shows(|line: &L| line.row().proof())
}

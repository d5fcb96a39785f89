//! `log_<name>.csv`: the figures of calls of a logger, a row for each payload.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use tripmeter_model::manifest::Cell;

/// First line of `log_<name>.csv`.
pub const LOG_HEADER: &str = "payload_bytes,calls,total_ns,average_ns,p50_ns,p99_ns,max_ns,cpu_average_percent,\
                              cpu_max_percent,lines_written,missing,damaged,duplicated,reordered,flush_ns";

/// Appends the row of a cell, and makes the file for the first.
///
/// # Errors
/// If it cannot be written.
pub fn append_log_row(folder: &Path, name: &str, cell: &Cell) -> io::Result<()> {
    let Some(log) = &cell.log else { return Ok(()) };
    let mut file = OpenOptions::new().create(true).append(true).open(folder.join(format!("log_{name}.csv")))?;
    let is_new = file.metadata()?.len() == 0;
    let figure = |figure: Option<f64>| figure.map_or(String::new(), |value| format!("{value:.1}"));
    let calls = log.call_ns;
    let figures = [
        calls.map(|calls| calls.mean * cell.samples as f64),
        calls.map(|calls| calls.mean),
        calls.map(|calls| calls.median),
        calls.map(|calls| calls.p99),
        calls.map(|calls| calls.max),
        Some(log.used.cpu_percent()),
        log.cpu_max_percent,
    ];
    let counts = cell.counts;
    let numbers = [log.lines.written, counts.lost, counts.damaged, counts.duplicated, counts.reordered, log.flush_ns];
    let head = if is_new { format!("{LOG_HEADER}\n") } else { String::new() };
    let words: Vec<String> = [cell.payload_bytes, cell.samples]
        .iter()
        .map(u64::to_string)
        .chain(figures.into_iter().map(figure))
        .chain(numbers.iter().map(u64::to_string))
        .collect();
    file.write_all(format!("{head}{}\n", words.join(",")).as_bytes())
}

//! `log_<name>.csv`: the figures of calls of a logger, a row for each payload.

use std::io::{self, Write};
use std::path::Path;
use tripmeter_model::file::append;
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
    let mut file = append(&folder.join(format!("log_{name}.csv")))?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use tripmeter_model::channel::Used;
    use tripmeter_model::log::{Lines, LogCalls};
    use tripmeter_model::manifest::{Counts, Figures};

    #[test]
    fn each_figure_stands_in_its_column() {
        let folder = tempfile::tempdir().unwrap();
        let figures =
            Figures { min: 1.0, mean: 20.0, stdev: 3.0, median: 4.0, p90: 5.0, p99: 6.0, p9999: 7.0, max: 8.0 };
        let log = LogCalls {
            call_ns: Some(figures),
            call_within_run_ns: None,
            refused: 9,
            lines: Lines { written: 10, ..Lines::default() },
            flush_ns: 11,
            used: Used { window_ns: 1000, cpu_time_ns: 120, ..Used::default() },
            cpu_max_percent: Some(13.0),
        };
        let counts = Counts { lost: 14, damaged: 15, duplicated: 16, reordered: 17, ..Counts::default() };
        let mut cell = Cell { payload_bytes: 64, samples: 100, counts, log: Some(log), ..Cell::default() };
        append_log_row(folder.path(), "x", &cell).unwrap();
        cell.log = None;
        append_log_row(folder.path(), "x", &cell).unwrap();
        let text = std::fs::read_to_string(folder.path().join("log_x.csv")).unwrap();
        let row = "64,100,2000.0,20.0,4.0,6.0,8.0,12.0,13.0,10,14,15,16,17,11";
        assert_eq!(text, format!("{LOG_HEADER}\n{row}\n"));
        assert_eq!(LOG_HEADER.split(',').count(), row.split(',').count());
    }
}

//! `log_<name>.csv`: the figures of calls of a logger, a row for each payload.

use std::io::{self, Write};
use std::path::Path;
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::file::append;
use tripmeter_model::manifest::PayloadResult;
use tripmeter_model::metric::{Process, Stream};

/// First line of `log_<name>.csv`.
pub const LOG_HEADER: &str = "payload_bytes,calls,total_ns,average_ns,p50_ns,p99_ns,max_ns,cpu_average_percent,\
                              cpu_max_percent,lines_written,missing,damaged,duplicated,reordered,flush_ns";

/// Appends the row of a cell, and makes the file for the first.
///
/// # Errors
/// If it cannot be written.
pub fn append_log_row(folder: &Path, name: &str, cell: &PayloadResult) -> io::Result<()> {
    let Some(trial) = cell.trials.first() else { return Ok(()) };
    let mut file = append(&folder.join(format!("log_{name}.csv")))?;
    let is_new = file.metadata()?.len() == 0;
    let figure = |figure: Option<f64>| figure.map_or(String::new(), |value| format!("{value:.1}"));
    let call = |statistic| trial.of_all(Figure::Call, statistic);
    let used = |figure| trial.value(&Stream::process(Process::Leader), figure);
    let window = used(Figure::Window).map(|ns| ns.max(1.0));
    let figures = [
        call(Statistic::Mean).map(|mean| mean * cell.samples as f64),
        call(Statistic::Mean),
        call(Statistic::P50),
        call(Statistic::P99),
        call(Statistic::Max),
        used(Figure::CpuTime).zip(window).map(|(time, window)| time * 100.0 / window),
        used(Figure::CpuPeak).map(|share| share * 100.0),
    ];
    let (counts, count) = (cell.counts(), |figure| trial.count(&Stream::all(), figure));
    let numbers = [
        count(Figure::LinesWritten),
        counts.lost,
        counts.damaged,
        counts.duplicated,
        counts.reordered,
        count(Figure::Flush),
    ];
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
    use tripmeter_model::manifest::Counts;
    use tripmeter_model::pace::OfferedLoad;
    use tripmeter_model::trial::Trial;

    #[test]
    fn each_figure_stands_in_its_column() {
        let folder = tempfile::tempdir().unwrap();
        let (mut trial, all) = (Trial::new(OfferedLoad::Closed), Stream::all());
        for (statistic, value) in
            [(Statistic::Mean, 20.0), (Statistic::P50, 4.0), (Statistic::P99, 6.0), (Statistic::Max, 8.0)]
        {
            trial.put_statistic(&all, Figure::Call, statistic, value, None);
        }
        let counts = Counts { lost: 14, damaged: 15, duplicated: 16, reordered: 17, ..Counts::default() };
        trial.put_counts(&all, &counts, false);
        trial.put(&all, Figure::LinesWritten, 10.0);
        trial.put(&all, Figure::Flush, 11.0);
        for (figure, value) in [(Figure::Window, 1000.0), (Figure::CpuTime, 120.0), (Figure::CpuPeak, 0.13)] {
            trial.put(&Stream::process(Process::Leader), figure, value);
        }
        let mut cell =
            PayloadResult { payload_bytes: 64, samples: 100, trials: vec![trial], ..PayloadResult::default() };
        append_log_row(folder.path(), "x", &cell).unwrap();
        cell.trials.clear();
        append_log_row(folder.path(), "x", &cell).unwrap();
        let text = std::fs::read_to_string(folder.path().join("log_x.csv")).unwrap();
        let row = "64,100,2000.0,20.0,4.0,6.0,8.0,12.0,13.0,10,14,15,16,17,11";
        assert_eq!(text, format!("{LOG_HEADER}\n{row}\n"));
        assert_eq!(LOG_HEADER.split(',').count(), row.split(',').count());
    }
}

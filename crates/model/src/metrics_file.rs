//! `metrics.csv` in a results folder: every figure of every trial, one row each.

use crate::manifest::{PayloadResult, SubExperimentResult};
use crate::trial::TrialFigure;
use std::io;

/// Name of the file.
pub const METRICS: &str = "metrics.csv";

/// Columns. Values are in the unit at the end of the figure's name. `low` and `high` are the 95 % confidence interval
/// within the trial, empty if there is none.
pub const HEADER: [&str; 10] = [
    "sub_experiment",
    "round",
    "payload_bytes",
    "offered_load",
    "stream",
    "figure",
    "statistic",
    "value",
    "low",
    "high",
];

/// Header, with its line break; never fails in practice, as writes go to memory.
pub fn header() -> io::Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(HEADER)?;
    writer.into_inner().map_err(|error| error.into_error())
}

/// Rows of the trials of a payload; never fails in practice, as [`header`].
pub fn rows(of: &SubExperimentResult, cell: &PayloadResult) -> io::Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for trial in cell.flat_trials() {
        for TrialFigure { stream, figure, statistic, value, within } in trial.figures() {
            let end = |end: Option<f64>| end.map_or(String::new(), |end| end.to_string());
            writer.write_record([
                of.name.clone(),
                of.round.to_string(),
                cell.payload_bytes.to_string(),
                trial.load.to_string(),
                stream.to_string(),
                figure.id().to_owned(),
                statistic.id().to_owned(),
                value.to_string(),
                end(within.map(|within| within.low)),
                end(within.map(|within| within.high)),
            ])?;
        }
    }
    writer.into_inner().map_err(|error| error.into_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{Figure, Statistic};
    use crate::metric::{Interval, Stream};
    use crate::pace::OfferedLoad;
    use crate::trial::Trial;

    #[test]
    fn every_figure_is_a_row_that_a_csv_reader_gets_back() {
        let result: SubExperimentResult = serde_json::from_value(serde_json::json!({
            "name": "uds", "round": 2, "status": "complete", "error": null, "transport_version": "",
            "system_version": "", "same_process": false, "path_proof": null, "memory_lock": null, "cells": [],
        }))
        .unwrap();
        let mut trial = Trial::new(OfferedLoad::Rate { hz: 0.5 });
        trial.put(&Stream::topic("/a, \"b\"\n"), Figure::Lost, 3.0);
        let within = Some(Interval { low: 1.25, high: f64::INFINITY });
        trial.put_statistic(&Stream::all(), Figure::Response, Statistic::P99, 0.1 + 0.2, within);
        let cell =
            PayloadResult { payload_bytes: 1024, trials: vec![trial.clone(), trial], ..PayloadResult::default() };
        let text = [header().unwrap(), rows(&result, &cell).unwrap()].concat();
        let mut reader = csv::Reader::from_reader(text.as_slice());
        assert_eq!(reader.headers().unwrap(), HEADER.as_slice());
        let rows: Vec<csv::StringRecord> = reader.records().collect::<Result<_, _>>().unwrap();
        let lost = ["uds", "2", "1024", "0.5hz", "topic=/a, \"b\"\n", "lost", "value", "3", "", ""];
        let p99 = ["uds", "2", "1024", "0.5hz", "all", "response_ns", "p99", "0.30000000000000004", "1.25", "inf"];
        assert_eq!(rows, [p99, lost, p99, lost].map(|row| csv::StringRecord::from(row.to_vec())));
    }
}

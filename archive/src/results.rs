//! A results folder as rows of the tables of runs and metrics, and back.

use crate::error::{ArchiveError, Result};
use crate::layout::Table;
use datafusion::arrow::array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray,
};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tripmeter_model::bounds::MOST_BYTES;
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::file::FileError;
use tripmeter_model::folder::{self, MANIFEST, TRIALS};
use tripmeter_model::manifest::Manifest;
use tripmeter_model::metric::{Interval, Stream};
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::printable;
use tripmeter_model::trial::Trial;

/// Bytes of a hash in the name of a run or a push.
const HASH_BYTES: usize = 8;

/// Results folder as it is archived.
pub struct Results {
    /// Everything in the folder but the samples.
    pub manifest: Manifest,
    /// Local day of the start, `YYYY-mm-dd`.
    pub date: String,
    /// Identity for [`crate::layout::RunPlace::run`].
    pub run: String,
    /// Last component of the folder's path.
    folder: String,
    /// Nanoseconds since 1970.
    started: i64,
    ended: Option<i64>,
}

/// Reads a results folder.
///
/// # Errors
/// If a file is missing or wrong.
pub fn read(path: &Path) -> Result<Results> {
    let manifest = folder::read(path, |text| Cow::Owned(printable::json(text)))?;
    let wrong = |what: String| ArchiveError::from(FileError::wrong(&path.join(MANIFEST), what));
    let time = |text: &str| {
        tripmeter_model::check_date(text).map_err(wrong)?;
        let time: jiff::Timestamp = text.parse().map_err(|error| wrong(format!("'{text}' is no time: {error}")))?;
        i64::try_from(time.as_nanosecond()).map_err(|_| wrong(format!("the time '{text}' is beyond the year 2262")))
    };
    let started = time(&manifest.started)?;
    let ended = manifest.ended.as_deref().map(time).transpose()?;
    // RFC 3339 begins with the local day, and the local time to the second: 19 characters.
    let local = manifest.started.get(..19).filter(|local| local.is_ascii());
    let local = local.ok_or_else(|| wrong(format!("'{}' is no time", manifest.started)))?;
    let date = local[..10].to_owned();
    let run = format!("{}_{}", local.replace(':', "-"), hash(path)?);
    let folder = path.canonicalize().ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let folder = printable::line(&folder.unwrap_or_default()).into_owned();
    Ok(Results { manifest, date, run, folder, started, ended })
}

/// Shortened hash of the manifest and the trials.
fn hash(folder: &Path) -> Result<String> {
    let mut hash = Sha256::new();
    hash.update(tripmeter_model::file::read(&folder.join(MANIFEST), MOST_BYTES)?);
    let trials = folder.join(TRIALS);
    if trials.symlink_metadata().is_ok() {
        hash.update(tripmeter_model::file::read(&trials, u64::MAX)?);
    }
    Ok(hex(hash))
}

/// First [`HASH_BYTES`] bytes of a hash as hexadecimal digits.
pub fn hex(hash: Sha256) -> String {
    hash.finalize()[..HASH_BYTES].iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Results {
    /// Row in the table of runs; `samples` and `metrics` are its row counts in the other tables.
    pub fn row(&self, samples: usize, metrics: usize) -> RecordBatch {
        let manifest = &self.manifest;
        let environment = &manifest.environment;
        let text = |text: &str| Arc::new(StringArray::from(vec![text.to_owned()])) as ArrayRef;
        let whole = |number: usize| Arc::new(Int64Array::from(vec![number as i64])) as ArrayRef;
        let time = |time: Option<i64>| Arc::new(TimestampNanosecondArray::from(vec![time])) as ArrayRef;
        let status = serde_json::to_value(manifest.status).ok();
        let status = status.as_ref().and_then(|status| status.as_str()).unwrap_or_default();
        let columns = vec![
            text(&self.folder),
            time(Some(self.started)),
            time(self.ended),
            text(status),
            text(&manifest.plan.source),
            whole(manifest.plan.rounds as usize),
            text(&manifest.tripmeter_version),
            text(&environment.cpu_model),
            whole(environment.cpus.len()),
            text(&environment.kernel),
            whole(samples),
            whole(metrics),
            text(&without_trials(manifest).whole().to_string()),
        ];
        RecordBatch::try_new(Table::Runs.schema(), columns).expect("one row in each column")
    }
}

/// Manifest without the trials, which the table of metrics holds.
fn without_trials(manifest: &Manifest) -> Manifest {
    let mut rest = manifest.clone();
    for cell in rest.sub_experiments.iter_mut().flat_map(|result| &mut result.cells) {
        cell.warmup_damaged = cell.damaged_beside();
        cell.earlier_attempts.clear();
        cell.trials.clear();
    }
    rest
}

/// A row of the table of metrics.
#[derive(Clone, Debug)]
pub struct MetricRow {
    /// Number of the round, from 1.
    pub round: u32,
    /// Number of the trial, as in [`Trial::number`].
    pub trial: u32,
    /// Bytes of every message.
    pub payload_bytes: u64,
    /// Load that was offered.
    pub load: OfferedLoad,
    /// Messages or process that the figure describes.
    pub stream: Stream,
    /// Figure that was measured.
    pub figure: Figure,
    /// Statistic over its samples, e.g. a percentile.
    pub statistic: Statistic,
    /// Value in the unit of the figure.
    pub value: f64,
    /// 95 % confidence interval within the trial.
    pub within: Option<Interval>,
}

/// Figures of the trials that count, by sub-experiment.
pub fn metrics(manifest: &Manifest) -> Vec<(String, RecordBatch)> {
    let mut rows: BTreeMap<&str, Vec<MetricRow>> = BTreeMap::new();
    for result in &manifest.sub_experiments {
        for cell in &result.cells {
            for trial in cell.flat_trials() {
                let row = |one: tripmeter_model::trial::TrialFigure<'_>| MetricRow {
                    round: result.round,
                    trial: trial.number,
                    payload_bytes: cell.payload_bytes,
                    load: trial.load,
                    stream: one.stream.clone(),
                    figure: one.figure,
                    statistic: one.statistic,
                    value: one.value,
                    within: one.within,
                };
                rows.entry(&result.name).or_default().extend(trial.figures().map(row));
            }
        }
    }
    rows.into_iter().map(|(name, rows)| (name.to_owned(), batch(&rows))).collect()
}

fn batch(rows: &[MetricRow]) -> RecordBatch {
    let whole = |of: fn(&MetricRow) -> i64| Arc::new(Int64Array::from_iter_values(rows.iter().map(of))) as ArrayRef;
    let text = |of: fn(&MetricRow) -> String| Arc::new(StringArray::from_iter_values(rows.iter().map(of))) as ArrayRef;
    let end = |of: fn(&Interval) -> f64| {
        let ends = rows.iter().map(|row| row.within.as_ref().map(of));
        Arc::new(ends.collect::<Float64Array>()) as ArrayRef
    };
    let columns = vec![
        whole(|row| row.round.into()),
        whole(|row| row.trial.into()),
        whole(|row| row.payload_bytes as i64),
        text(|row| row.load.to_string()),
        text(|row| row.stream.to_string()),
        text(|row| row.figure.id().to_owned()),
        text(|row| row.statistic.id().to_owned()),
        Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.value))),
        end(|within| within.low),
        end(|within| within.high),
    ];
    RecordBatch::try_new(Table::Metrics.schema(), columns).expect("all columns have all rows")
}

/// Puts a figure back into its trial.
pub fn put(manifest: &mut Manifest, sub_experiment: &str, row: &MetricRow) {
    let results = &mut manifest.sub_experiments;
    let result = results.iter_mut().find(|result| result.name == sub_experiment && result.round == row.round);
    let cells = result.into_iter().flat_map(|result| &mut result.cells);
    let Some(cell) = cells.into_iter().find(|cell| cell.payload_bytes == row.payload_bytes) else { return };
    let is_of = |trial: &Trial| trial.number == row.trial && trial.load == row.load;
    let place = cell.trials.iter().position(is_of).unwrap_or_else(|| {
        let mut trial = Trial::new(row.load);
        trial.number = row.trial;
        cell.trials.push(trial);
        cell.trials.len() - 1
    });
    let trial = &mut cell.trials[place];
    trial.rate_missed |= row.figure == Figure::RateMissed;
    // Each trial of a payload has the figures of its own probes.
    trial.put_statistic(&row.stream, row.figure, row.statistic, row.value, row.within);
}

//! Histograms and time series of the samples in a results folder.

use crate::error::CliError;
use crate::plotting::{PictureJob, draw_all, no_link};
use crate::sample_files::{self, SampleFile, round_folder};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tripmeter_model::expected::ExpectedRows;
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::manifest::{Manifest, SubExperimentResult};
use tripmeter_model::samples::{SampleReader, SampleRow};
use tripmeter_model::trial::Trial;
use tripmeter_report::SampledTrial;
use tripmeter_report::plots::Options;
use tripmeter_report::plots::distribution::{PlotSubject, histogram, series};
use tripmeter_report::plots::samples::{Histogram, SampleSeries};

/// Plot data of a trial in a closed loop.
struct Shapes {
    payload: String,
    /// Figure plotted: half a round trip, or a logger call.
    figure: Figure,
    /// Median and 99th percentile, in microseconds.
    quantiles_us: [f64; 2],
    counts: Histogram,
    points: SampleSeries,
}

/// Plots `<place>/<name>/histogram_<bytes>` and `series_<bytes>` for each payload with round trips or logger calls.
/// Rounds go to `<place>/round-01`. Returns the files. Fails if samples are invalid, or a file cannot be written.
pub fn draw(folder: &Path, manifest: &Manifest, place: &Path, options: Options) -> Result<Vec<PathBuf>, CliError> {
    let mut drawn = Vec::new();
    if !sample_files::are_there(folder, manifest) {
        return Ok(drawn);
    }
    let is_disturbed = |result: &&SubExperimentResult| {
        manifest.plan.sub_experiments.iter().any(|sub| sub.name == result.name && sub.is_disturbed())
    };
    for result in manifest.sub_experiments.iter().filter(|result| !is_disturbed(result)) {
        let shapes = match sample_files::find(folder, manifest, result)? {
            SampleFile::Csv(file) => shapes(&file, result, options)?,
            _ => Vec::new(),
        };
        if shapes.is_empty() {
            continue;
        }
        let place = place.join(round_folder(manifest, result.round));
        no_link(&place)?;
        let jobs = shapes.iter().flat_map(|shapes| jobs(&result.name, shapes, options));
        drawn.extend(draw_all(&place.join(&result.name), jobs.collect())?);
    }
    Ok(drawn)
}

/// Plot data of each counted trial in a closed loop, in microseconds.
fn shapes(file: &Path, result: &SubExperimentResult, options: Options) -> Result<Vec<Shapes>, CliError> {
    let trials = result.cells.iter().flat_map(|cell| cell.trials.iter().map(|trial| (cell.payload_bytes, trial)));
    let drawn = trials.filter_map(|(payload_bytes, trial)| {
        let has = |figure: &Figure| trial.of_all(*figure, Statistic::N).is_some();
        let figure = [Figure::RttHalf, Figure::Call].into_iter().find(has)?;
        Some((trial.number, (payload_bytes, figure, trial)))
    });
    let drawn: BTreeMap<u32, (u64, Figure, &Trial)> = drawn.collect();
    let (mut found, mut latest, mut samples) = (Vec::new(), 0, Vec::new());
    let mut reduce = |number: u32, samples: &mut Vec<f64>| {
        if let Some(&(payload_bytes, figure, trial)) = drawn.get(&number).filter(|_| !samples.is_empty()) {
            let us = |statistic| trial.of_all(figure, statistic).map_or(f64::NAN, |ns| ns / 1e3);
            found.push(Shapes {
                payload: payload_bytes.to_string(),
                figure,
                quantiles_us: [us(Statistic::P50), us(Statistic::P99)],
                counts: Histogram::from_samples(samples, options.log),
                points: SampleSeries::from_samples(samples, options.log),
            });
        }
        samples.clear();
    };
    let (mut rows, mut expected) = (SampleReader::open(file)?, ExpectedRows::of_result(result));
    for row in &mut rows {
        let row = row?;
        let counts = expected.add(&row);
        let Some((_, figure, _)) = drawn.get(&row.trial).filter(|_| counts) else { continue };
        if row.trial != latest {
            reduce(latest, &mut samples);
            latest = row.trial;
        }
        samples.extend(latency_us(&row, *figure));
    }
    rows.check_end(|trial| expected.has(trial))?;
    expected.check(file)?;
    reduce(latest, &mut samples);
    Ok(found)
}

/// Headline samples of each sub-experiment at its first payload, from the first round that has them, for the report.
/// Reads each file no further than needed. Fails if samples are invalid.
pub fn first_trials(place: usize, folder: &Path, manifest: &Manifest) -> Result<Vec<SampledTrial>, CliError> {
    let mut found: Vec<SampledTrial> = Vec::new();
    if !sample_files::are_there(folder, manifest) {
        return Ok(found);
    }
    for result in &manifest.sub_experiments {
        if found.iter().any(|known| known.sub_experiment == result.name) {
            continue;
        }
        if let SampleFile::Csv(file) = sample_files::find(folder, manifest, result)? {
            found.extend(first_trial(place, &file, result)?);
        }
    }
    Ok(found)
}

fn first_trial(place: usize, file: &Path, result: &SubExperimentResult) -> Result<Option<SampledTrial>, CliError> {
    let Some(cell) = result.cells.iter().filter(|cell| !cell.unfinished).min_by_key(|cell| cell.payload_bytes) else {
        return Ok(None);
    };
    let headline = |trial: &Trial| {
        let has = |figure: &Figure| trial.of_all(*figure, Statistic::P50).is_some();
        Some((trial.number, Figure::HEADLINES.into_iter().find(has)?))
    };
    let first = cell.trials.first();
    let Some((number, figure)) = first.and_then(headline) else { return Ok(None) };
    let (mut samples, mut stream) = (Vec::new(), None);
    let mut expected = ExpectedRows::of_trials(result.round, first.into_iter());
    let mut rows = SampleReader::open(file)?;
    for row in &mut rows {
        let row = row?;
        if row.trial > number {
            break;
        }
        // Rows of one stream are contiguous.
        if expected.add(&row) && *stream.get_or_insert_with(|| row.stream.clone()) == row.stream {
            samples.extend(latency_us(&row, figure));
        }
    }
    rows.check_end(|trial| trial == number)?;
    expected.check(file)?;
    let points = SampleSeries::from_samples(&samples, true);
    let (sub_experiment, payload_bytes) = (result.name.clone(), cell.payload_bytes);
    let stream = stream.and_then(|stream| stream.parse().ok()).unwrap_or_default();
    let round = result.round;
    let trial = SampledTrial { folder: place, sub_experiment, round, payload_bytes, stream, figure, points };
    Ok((!samples.is_empty()).then_some(trial))
}

/// Latency of a message in microseconds, if its row has the times.
fn latency_us(row: &SampleRow, figure: Figure) -> Option<f64> {
    let answered_ns = row.answered_ns.and_then(|ns| i64::try_from(ns).ok());
    let (from, to, ways) = match figure {
        Figure::RttHalf => (row.sent_ns, answered_ns, 2.0),
        Figure::Call | Figure::ServiceRtt => (row.sent_ns, answered_ns, 1.0),
        Figure::ResponseRtt => (row.intended_ns, answered_ns, 1.0),
        Figure::Response => (row.intended_ns, row.received_ns, 1.0),
        Figure::Service | Figure::OneWay => (row.sent_ns, row.received_ns, 1.0),
        _ => return None,
    };
    let ns = to?.checked_sub_unsigned(from?)?;
    Some(ns as f64 / ways / 1e3)
}

fn jobs<'a>(name: &'a str, shapes: &'a Shapes, options: Options) -> Vec<PictureJob<'a>> {
    let latency = if shapes.figure == Figure::Call { "Latency, call [us]" } else { "Latency, rtt_half [us]" };
    let [median, p99] = shapes.quantiles_us;
    let marks = move || [("Median".to_owned(), median), ("99%".to_owned(), p99)];
    let of = move || PlotSubject { sub_experiment: name, payload: &shapes.payload, latency, marks: marks() };
    vec![
        Box::new(move || histogram(&shapes.counts, &of(), &options)),
        Box::new(move || series(&shapes.points, &of(), &options)),
    ]
}

//! Histograms and series of the samples in a results folder.

use crate::error::CliError;
use crate::plotting::{PictureJob, draw_all, no_link};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tripmeter_eprosima::bytes::Bytes;
use tripmeter_eprosima::summary::SummaryRow;
use tripmeter_eprosima::summary_row;
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::manifest::{Manifest, SubExperimentResult};
use tripmeter_model::samples::{SAMPLES, SampleReader};
use tripmeter_report::plots::Options;
use tripmeter_report::plots::eprosima::{PlotSubject, histogram, series};
use tripmeter_report::plots::samples::{Histogram, SampleSeries};

/// What is drawn of the samples of a payload.
struct Shapes {
    bytes: Bytes,
    row: Option<SummaryRow>,
    counts: Histogram,
    points: SampleSeries,
}

/// Draws the round trips, or calls of a logger, of each payload of a results folder whose samples are there:
/// `<place>/<name>/histogram_<bytes>` and `series_<bytes>`, with rounds in `<place>/round-01`. Returns the files.
///
/// # Errors
/// If samples are wrong, or a file cannot be written.
pub fn draw(folder: &Path, manifest: &Manifest, place: &Path, options: Options) -> Result<Vec<PathBuf>, CliError> {
    let mut drawn = Vec::new();
    for result in &manifest.sub_experiments {
        let round = if manifest.plan.rounds > 1 { format!("round-{:02}", result.round) } else { String::new() };
        let file = folder.join(&round).join(SAMPLES).join(format!("{}.csv", result.name));
        let shapes = if file.is_file() { shapes(&file, result, options)? } else { Vec::new() };
        if shapes.is_empty() {
            continue;
        }
        let place = place.join(&round);
        no_link(&place)?;
        let jobs = shapes.iter().flat_map(|shapes| jobs(&result.name, shapes, options));
        drawn.extend(draw_all(&place.join(&result.name), jobs.collect())?);
    }
    Ok(drawn)
}

/// Of each trial in a closed loop that counts: half of its round trips, or its calls, in microseconds.
fn shapes(file: &Path, result: &SubExperimentResult, options: Options) -> Result<Vec<Shapes>, CliError> {
    let trials = result.cells.iter().flat_map(|cell| cell.trials.iter().map(|trial| (cell.payload_bytes, trial)));
    let parts = trials.filter_map(|(payload_bytes, trial)| {
        let has = |figure| trial.of_all(figure, Statistic::N).is_some();
        let parts = if has(Figure::RttHalf) { 2.0 } else { 1.0 };
        (has(Figure::RttHalf) || has(Figure::Call)).then_some((trial.number, (payload_bytes, parts)))
    });
    let parts: BTreeMap<u32, (u64, f64)> = parts.collect();
    let (mut found, mut latest, mut samples) = (Vec::new(), 0, Vec::new());
    let mut reduce = |trial: u32, samples: &mut Vec<f64>| {
        if let Some((payload_bytes, _)) = parts.get(&trial).filter(|_| !samples.is_empty()) {
            let bytes = Bytes::from(*payload_bytes);
            let (counts, points) = (Histogram::of(samples, options.log), SampleSeries::of(samples, options.log));
            // It sorts them.
            let row = summary_row(&bytes, samples);
            found.push(Shapes { bytes, row, counts, points });
        }
        samples.clear();
    };
    for row in SampleReader::open(file)? {
        let row = row?;
        let Some((_, parts)) = parts.get(&row.trial) else { continue };
        if row.trial != latest {
            reduce(latest, &mut samples);
            latest = row.trial;
        }
        let ns = row.answered_ns.zip(row.sent_ns).and_then(|(answered, sent)| answered.checked_sub(sent));
        samples.extend(ns.map(|ns| ns as f64 / parts / 1e3));
    }
    reduce(latest, &mut samples);
    Ok(found)
}

fn jobs<'a>(name: &'a str, shapes: &'a Shapes, options: Options) -> Vec<PictureJob<'a>> {
    let of = PlotSubject { sub_experiment: name, bytes: &shapes.bytes };
    vec![
        Box::new(move || histogram(&shapes.counts, &of, shapes.row.as_ref(), &options)),
        Box::new(move || series(&shapes.points, &of, &options)),
    ]
}

//! Samples in order of measurement, with the warm-up and drift found by the audit of the series.

use super::input::SampledTrial;
use crate::curves::{Curve, Panel};
use crate::plots::chart::{AxisValue, BLACK, Band, Chart, Line, Look, Mark, Marker, VERMILLION, X, Y};
use crate::plots::scale_count;
use crate::series::moved;
use crate::values::{capitalised, name};
use tripmeter_analysis::series::{drifts, has_modes, warm_up_changes};
use tripmeter_model::metric::Stream;
use tripmeter_model::payload::{at_text, size_key};
use tripmeter_model::series::Series;

/// Maximum number of charts: those with a finding first, then the best.
const MOST_CHARTS: usize = 4;

/// A chart for each of a few trials whose samples are available.
pub fn charts(panel: &Panel<'_>, samples: &[SampledTrial]) -> Vec<Chart> {
    let mut found: Vec<(usize, Chart)> = Vec::new();
    for sampled in samples.iter().filter(|sampled| sampled.figure == panel.figure) {
        let is_of = |curve: &&Curve<'_>| {
            curve.folder == sampled.folder && curve.merged().planned.name == sampled.sub_experiment
        };
        let Some(curve) = panel.curves.iter().find(is_of) else { continue };
        let findings = series(curve, sampled).map_or(0, |series| findings(series).len());
        found.push((findings, chart(curve, sampled)));
    }
    found.sort_by_key(|one| std::cmp::Reverse(one.0));
    found.into_iter().take(MOST_CHARTS).map(|(_, chart)| chart).collect()
}

/// Audit of the samples.
fn series<'a>(curve: &'a Curve<'_>, sampled: &SampledTrial) -> Option<&'a Series> {
    let trials = curve.side.metrics.trials(curve.row(sampled.payload_bytes));
    let trial = trials.iter().find(|(round, _)| *round == sampled.round)?;
    let is_its = |stream: &Stream| sampled.stream.topic.is_none() || *stream == sampled.stream;
    let mut all = trial.1.series();
    all.find(|(stream, figure, _)| *figure == sampled.figure && is_its(stream)).map(|(_, _, series)| series)
}

/// Findings of an audit as parts of a sentence.
fn findings(series: &Series) -> Vec<String> {
    let warm_up = series.warm_up.filter(|_| warm_up_changes(series).contains(&true));
    let warm_up = warm_up.map(|warm_up| format!("the first {} samples look like warm-up", warm_up.samples));
    let drift = drifts(series).map(|drift| format!("the median {} from start to finish", moved(drift.change)));
    let modes = has_modes(series).map(|modes| {
        let share = modes.upper_share * 100.0;
        format!("there are two peaks, {share:.0} % of the samples in the upper one")
    });
    [warm_up, drift, modes].into_iter().flatten().collect()
}

fn chart(curve: &Curve<'_>, sampled: &SampledTrial) -> Chart {
    let points = &sampled.points;
    let audit = series(curve, sampled);
    let found = audit.map(findings).unwrap_or_default();
    let reading = match (audit.is_some(), found.is_empty()) {
        (true, true) => "No warm-up, drift or second peak is seen.".to_owned(),
        (true, false) => format!("{}.", capitalised(&found.join("; "))),
        (false, _) => "Too few samples were audited to tell.".to_owned(),
    };
    let warm_up = audit.and_then(|series| series.warm_up.filter(|_| warm_up_changes(series).contains(&true)));
    let marks = warm_up.map(|warm_up| Mark {
        name: format!("end of warm-up, {}", warm_up.samples),
        at: AxisValue::X(warm_up.samples as f64),
        color: BLACK,
    });
    let each = if points.group > 1 { format!(" of each {}", scale_count(points.group as u64)) } else { String::new() };
    let look = Look { marker: if points.group > 1 { Marker::None } else { Marker::Dot }, ..Look::default() };
    let medians: Vec<(f64, f64)> = points.points.iter().map(|point| (point.0, point.2)).collect();
    let mut lines = vec![Line { name: format!("median{each}"), points: medians.clone(), look, ..Line::default() }];
    lines.extend(audit.and_then(drifts).and_then(|drift| trend(&medians, drift.change)));
    let bands = (points.group > 1).then(|| Band {
        name: format!("least to greatest{each}"),
        points: points.points.iter().map(|point| (point.0, point.1, point.3)).collect(),
    });
    let has_several_sizes = curve.side.metrics.has_several_sizes(curve.row(sampled.payload_bytes));
    let mut at = at_text(sampled.payload_bytes, has_several_sizes);
    let mut key = size_key(sampled.payload_bytes, has_several_sizes);
    // Payloads do not identify the samples of a recording; topics do.
    if let Some(topic) = sampled.stream.topic.as_ref().filter(|_| has_several_sizes) {
        at = format!("on topic '{topic}'");
        key = format!("topic{}", topic.replace(|letter: char| !letter.is_ascii_alphanumeric(), "_"));
    }
    let figure = name(sampled.figure);
    let folder = if sampled.folder > 0 { format!("_{}", sampled.folder + 1) } else { String::new() };
    Chart {
        name: format!("{figure}_time_{}_{key}{folder}", sampled.sub_experiment),
        title: format!("Was {} steady {at}?", curve.label),
        reading,
        subtitle: format!(
            "round {} · n = {} · no extreme is left out",
            sampled.round,
            scale_count(points.samples as u64)
        ),
        x: X::Numbers { label: "Sample number [n]".to_owned(), log: false, whole: true },
        y: Y { label: format!("{figure} [µs]"), log: true, ..Y::default() },
        bands: bands.into_iter().collect(),
        lines,
        marks: marks.into_iter().collect(),
        ..Chart::default()
    }
}

/// Drift as a line around the median of all samples.
fn trend(medians: &[(f64, f64)], change: f64) -> Option<Line> {
    let values: Vec<f64> = medians.iter().map(|point| point.1).filter(|value| value.is_finite()).collect();
    let (middle, first, last) = (tripmeter_stats::median(&values)?, medians.first()?.0, medians.last()?.0);
    let points = vec![(first, middle * (1.0 - change / 2.0)), (last, middle * (1.0 + change / 2.0))];
    let look = Look { color: Some(VERMILLION), marker: Marker::None, strong: true, ..Look::default() };
    Some(Line { name: format!("drift, {:+.0} %", change * 100.0), points, look, ..Line::default() })
}

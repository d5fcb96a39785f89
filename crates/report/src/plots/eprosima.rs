//! Plots of a latency benchmark, with the file names of eProsima's scripts. All values are microseconds.
//!
//! # Source
//! File names and contents: eProsima's latency test specification and scripts (`eProsima/benchmarking`).

use super::chart::{AxisValue, BLUE, Chart, Color, Line, Look, Mark, Marker, Stroke, VERMILLION, X, Y, between};
use super::distribution::{PlotSubject, four_digits};
use super::{Options, Picture, PlotError, picture, samples_per_figure, subtitle};
use tripmeter_eprosima::bytes::Bytes;
use tripmeter_eprosima::check::{CheckReport, CheckRow};
use tripmeter_eprosima::summary::{Magnitude, Summary, SummaryRow};

/// Label of the latency axis: these files contain half round trips.
const LATENCY: &str = "Latency, rtt_half [us]";

/// Name of a figure in file names: without `%`.
fn word(magnitude: Magnitude) -> String {
    magnitude.column().replace('%', "")
}

/// Summary with the name shown for it: a sub-experiment, or the date of an experiment.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    pub name: &'a str,
    pub summary: &'a Summary,
}

/// Subject of the histogram and series of a payload, with lines at its median and 99 %.
pub fn subject<'a>(sub_experiment: &'a str, bytes: &'a Bytes, row: Option<&SummaryRow>) -> PlotSubject<'a> {
    let mark =
        |magnitude: Magnitude| (magnitude.column().to_owned(), row.map_or(f64::NAN, |row| magnitude.value_in(row)));
    let marks = [mark(Magnitude::Median), mark(Magnitude::P99)];
    PlotSubject { sub_experiment, payload: bytes.text(), latency: LATENCY, marks }
}

/// `comparison_{min,median,max,99}`: one figure of several sub-experiments over their payloads.
///
/// # Errors
/// As [`Chart::draw`].
pub fn subexperiment_comparison(
    magnitude: Magnitude,
    sub_experiments: &[Named<'_>],
    options: &Options,
) -> Result<Picture, PlotError> {
    let payloads = payloads(sub_experiments);
    let lines = sub_experiments.iter().map(|one| over_payloads(one.name.to_owned(), one.summary, magnitude, &payloads));
    let chart = Chart {
        title: format!("Comparison of sub-experiments: {}", magnitude.column()),
        subtitle: subtitle(&[&samples_of(sub_experiments)]),
        lines: lines.collect(),
        ..payload_chart(&payloads, options)
    };
    picture(&chart, &format!("comparison_{}", word(magnitude).to_lowercase()), options)
}

/// `measurements_<sub-experiment>/comparison_{median,99,max}`: measured values and their limits.
///
/// # Errors
/// As [`Chart::draw`].
pub fn check(
    measured: &Named<'_>,
    report: &CheckReport,
    check: Magnitude,
    options: &Options,
) -> Result<Picture, PlotError> {
    let rows: Vec<&CheckRow> = report.rows.iter().filter(|row| row.check == check).collect();
    let points = |value: &dyn Fn(&CheckRow) -> f64| -> Vec<(f64, f64)> {
        rows.iter().enumerate().map(|(index, row)| (index as f64, value(row))).collect()
    };
    let line = |name: &str, points, color, marker, stroke| Line {
        name: format!("{name} {}", check.column()),
        points,
        look: Look { color: Some(color), marker, stroke, strong: false },
        ..Line::default()
    };
    let measured_value = |row: &CheckRow| row.experiment.unwrap_or(f64::NAN);
    let failed = |row: &CheckRow| if row.passed() { f64::NAN } else { measured_value(row) };
    let over: Vec<&CheckRow> = rows.iter().copied().filter(|row| row.experiment.is_some() && !row.passed()).collect();
    let missing: Vec<&CheckRow> = rows.iter().copied().filter(|row| row.experiment.is_none()).collect();
    let mut lines = vec![
        line("requirement", points(&|row| row.requirement), VERMILLION, Marker::Diamond, Stroke::Dashed),
        line("experiment", points(&measured_value), BLUE, Marker::Circle, Stroke::Solid),
    ];
    if !over.is_empty() {
        lines.push(line("over the limit:", points(&failed), VERMILLION, Marker::Ring, Stroke::None));
    }
    let bytes: Vec<Bytes> = rows.iter().map(|row| row.bytes.clone()).collect();
    let verdict = if over.is_empty() && missing.is_empty() { "passed".to_owned() } else { "failed".to_owned() };
    let chart = Chart {
        title: format!("Check of {}: {} {verdict}", measured.name, check.column()),
        subtitle: subtitle(&[&samples_of(&[*measured])]),
        lines,
        notes: [note("Over the limit at", &over), note("Not measured:", &missing)].into_iter().flatten().collect(),
        ..payload_chart(&bytes, options)
    };
    let word = word(check).to_lowercase();
    picture(&chart, &format!("measurements_{}/comparison_{word}", measured.name), options)
}

fn note(what: &str, rows: &[&CheckRow]) -> Option<String> {
    let payloads: Vec<&str> = rows.iter().map(|row| row.bytes.text()).collect();
    (!rows.is_empty()).then(|| format!("{what} {} bytes.", payloads.join(", ")))
}

/// Figures that share a picture of [`experiment_comparison`], in the order of the original scripts.
pub const COMPARED: [[Magnitude; 2]; 2] = [[Magnitude::Min, Magnitude::Median], [Magnitude::Max, Magnitude::P99]];

/// `<sub-experiment>_min_median` or `<sub-experiment>_max_99%`: two figures of a reference and of a result.
///
/// The names of `reference` and `result` are those of their experiments.
///
/// # Errors
/// As [`Chart::draw`].
pub fn experiment_comparison(
    sub_experiment: &str,
    magnitudes: [Magnitude; 2],
    [reference, result]: [Named<'_>; 2],
    options: &Options,
) -> Result<Picture, PlotError> {
    /// Dark and light colour for each side.
    const COLORS: [[Color; 2]; 2] = [[VERMILLION, [0xF2, 0xA6, 0x70]], [BLUE, [0x6F, 0xB8, 0xE6]]];
    const MARKERS: [[Marker; 2]; 2] = [[Marker::Circle, Marker::Square], [Marker::Triangle, Marker::Diamond]];
    let payloads = payloads(&[reference, result]);
    let mut lines = Vec::new();
    for (side, (role, named)) in [("Reference", reference), ("Result", result)].into_iter().enumerate() {
        for (which, magnitude) in magnitudes.into_iter().enumerate() {
            let name = format!("{role}: {} {}", named.name, magnitude.column());
            let mut line = over_payloads(name, named.summary, magnitude, &payloads);
            line.look.color = Some(COLORS[side][which]);
            line.look.marker = MARKERS[side][which];
            lines.push(line);
        }
    }
    let [first, second] = magnitudes.map(Magnitude::column);
    let chart = Chart {
        title: format!("Comparison of {sub_experiment}: {first} and {second}"),
        subtitle: subtitle(&[&samples_of(&[reference, result])]),
        lines,
        ..payload_chart(&payloads, options)
    };
    picture(&chart, &format!("{sub_experiment}_{}_{}", first.to_lowercase(), second.to_lowercase()), options)
}

/// `<sub-experiment>/history_{Min,Median,Max,99}`: one figure over the payloads, a line for each experiment, oldest first.
///
/// # Errors
/// As [`Chart::draw`].
pub fn history_magnitude(
    sub_experiment: &str,
    magnitude: Magnitude,
    experiments: &[Named<'_>],
    options: &Options,
) -> Result<Picture, PlotError> {
    let payloads = payloads(experiments);
    let mut lines: Vec<Line> = experiments
        .iter()
        .enumerate()
        .map(|(age, one)| {
            let mut line = over_payloads(one.name.to_owned(), one.summary, magnitude, &payloads);
            line.look.color = Some(faded(age, experiments.len()));
            line.look.marker = Marker::Dot;
            line
        })
        .collect();
    if let Some(newest) = lines.last_mut() {
        newest.look = Look { color: Some(VERMILLION), marker: Marker::Circle, strong: true, ..Look::default() };
    }
    let chart = Chart {
        title: format!("History of {sub_experiment}: {}", magnitude.column()),
        subtitle: subtitle(&[
            &experiments_and_samples(experiments),
            "from old (pale) to new (dark), the newest is thick",
        ]),
        lines,
        ..payload_chart(&payloads, options)
    };
    picture(&chart, &format!("{sub_experiment}/history_{}", word(magnitude)), options)
}

/// `<sub-experiment>/history_{Min,Median,Max,99}_by_date`: the same figures over the experiments, a line for each payload.
///
/// # Errors
/// As [`Chart::draw`].
pub fn history_by_date(
    sub_experiment: &str,
    magnitude: Magnitude,
    experiments: &[Named<'_>],
    options: &Options,
) -> Result<Picture, PlotError> {
    let line = |bytes: &Bytes| Line {
        name: format!("{bytes} bytes"),
        points: over_experiments(magnitude, bytes, experiments),
        ..Line::default()
    };
    let chart = Chart {
        title: format!("History of {sub_experiment}: {} by date", magnitude.column()),
        subtitle: subtitle(&[&experiments_and_samples(experiments)]),
        lines: payloads(experiments).iter().map(line).collect(),
        ..date_chart(experiments, options)
    };
    picture(&chart, &format!("{sub_experiment}/history_{}_by_date", word(magnitude)), options)
}

/// `<sub-experiment>/<payload>_bytes_{Median,Max,99}`: one figure of one payload over the experiments, with its limit.
///
/// # Errors
/// As [`Chart::draw`].
pub fn history_payload(
    sub_experiment: &str,
    bytes: &Bytes,
    magnitude: Magnitude,
    experiments: &[Named<'_>],
    requirement: Option<f64>,
    options: &Options,
) -> Result<Picture, PlotError> {
    let points = over_experiments(magnitude, bytes, experiments);
    let limit = requirement.map(|limit| Mark {
        name: format!("requirement {} us", four_digits(limit)),
        at: AxisValue::Y(limit),
        color: VERMILLION,
    });
    let mut lines = vec![Line {
        name: magnitude.column().to_owned(),
        points: points.clone(),
        look: Look { color: Some(BLUE), ..Look::default() },
        ..Line::default()
    }];
    let over: Vec<_> =
        points.iter().copied().filter(|point| requirement.is_some_and(|limit| point.1 > limit)).collect();
    if !over.is_empty() {
        let look = Look { color: Some(VERMILLION), marker: Marker::Ring, stroke: Stroke::None, strong: false };
        lines.push(Line { name: "over the limit".to_owned(), points: over, look, ..Line::default() });
    }
    let samples = experiments.iter().filter_map(|one| one.summary.row(bytes)).map(|row| row.samples);
    let chart = Chart {
        title: format!("History of {sub_experiment}: {} at {bytes} bytes", magnitude.column()),
        subtitle: subtitle(&[&format!("{} experiments", experiments.len()), &samples_per_figure(samples)]),
        lines,
        marks: limit.into_iter().collect(),
        ..date_chart(experiments, options)
    };
    picture(&chart, &format!("{sub_experiment}/{bytes}_bytes_{}", word(magnitude)), options)
}

/// All payloads, by size.
fn payloads(summaries: &[Named<'_>]) -> Vec<Bytes> {
    let mut all: Vec<Bytes> =
        summaries.iter().flat_map(|one| one.summary.rows.iter().map(|row| row.bytes.clone())).collect();
    all.sort();
    all.dedup();
    all
}

/// One figure over these payloads; NaN where there is none.
fn over_payloads(name: String, summary: &Summary, magnitude: Magnitude, payloads: &[Bytes]) -> Line {
    let value = |bytes| summary.row(bytes).map_or(f64::NAN, |row| magnitude.value_in(row));
    let points = payloads.iter().enumerate().map(|(index, bytes)| (index as f64, value(bytes))).collect();
    Line { name, points, ..Line::default() }
}

/// One figure of one payload over the experiments; NaN where there is none.
fn over_experiments(magnitude: Magnitude, bytes: &Bytes, experiments: &[Named<'_>]) -> Vec<(f64, f64)> {
    let value = |one: &Named<'_>| one.summary.row(bytes).map_or(f64::NAN, |row| magnitude.value_in(row));
    experiments.iter().enumerate().map(|(index, one)| (index as f64, value(one))).collect()
}

fn payload_chart(payloads: &[Bytes], options: &Options) -> Chart {
    chart_over("Payload [bytes]", payloads.iter().map(ToString::to_string).collect(), options)
}

fn date_chart(experiments: &[Named<'_>], options: &Options) -> Chart {
    let names = experiments.iter().map(|one| one.name.to_owned()).collect();
    chart_over("Experiment [date and time]", names, options)
}

fn chart_over(label: &str, names: Vec<String>, options: &Options) -> Chart {
    Chart {
        x: X::Categories { label: label.to_owned(), names },
        y: Y { label: LATENCY.to_owned(), log: options.log, ..Y::default() },
        ..Chart::default()
    }
}

/// Note on the number of samples behind each figure.
fn samples_of(summaries: &[Named<'_>]) -> String {
    samples_per_figure(summaries.iter().flat_map(|one| &one.summary.rows).map(|row| row.samples))
}

fn experiments_and_samples(experiments: &[Named<'_>]) -> String {
    format!("{} experiments · {}", experiments.len(), samples_of(experiments))
}

/// Colour of an experiment in a history: older ones are paler.
pub(super) fn faded(age: usize, experiments: usize) -> Color {
    const OLD: Color = [0xB9, 0xD6, 0xEC];
    const NEW: Color = [0x0B, 0x3C, 0x6E];
    let part = age as f64 / experiments.saturating_sub(1).max(1) as f64;
    between(OLD, NEW, part)
}

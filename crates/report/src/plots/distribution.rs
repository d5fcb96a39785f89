//! Histogram and series of the samples of one payload.

use super::chart::{AxisValue, BLACK, Band, Bar, Chart, Line, Look, Mark, Marker, VERMILLION, X, Y};
use super::samples::{Histogram, SampleSeries};
use super::scale::{count, number};
use super::{Options, Picture, PlotError, picture, subtitle};

/// Subject and labels of a histogram or series.
#[derive(Clone, Debug)]
pub struct PlotSubject<'a> {
    /// Name of the sub-experiment; empty if unknown.
    pub sub_experiment: &'a str,
    /// Payload in bytes.
    pub payload: &'a str,
    /// Label of the latency axis.
    pub latency: &'a str,
    /// Names and values of the lines at the median and the 99th percentile; NaN draws none.
    pub marks: [(String, f64); 2],
}

/// `histogram_<payload>`: how often each latency was measured. The histogram must have been made with the same `log`.
///
/// # Errors
/// As [`Chart::draw`].
pub fn histogram(histogram: &Histogram, of: &PlotSubject<'_>, options: &Options) -> Result<Picture, PlotError> {
    let bins = histogram.edges.windows(2).zip(&histogram.counts);
    let width = match histogram.edges.as_slice() {
        [first, second, ..] if !histogram.log => format!(" of {} us", four_digits(second - first)),
        [_, ..] => " of equal ratio".to_owned(),
        [] => String::new(),
    };
    let mark = |((name, value), color): (&(String, f64), _)| {
        let name = format!("{name} {} us", four_digits(*value));
        value.is_finite().then_some(Mark { name, at: AxisValue::X(*value), color })
    };
    let chart = Chart {
        title: format!("Latency histogram: {} bytes", of.payload),
        subtitle: subtitle(&[of.sub_experiment, &samples(histogram.samples), &format!("{} bins{width}", bins.len())]),
        x: X::Numbers { label: of.latency.to_owned(), log: histogram.log, whole: false },
        y: Y { label: "Number of samples [n]".to_owned(), whole: true, ..Y::default() },
        bars: bins.map(|(edges, count)| Bar { from: edges[0], to: edges[1], count: *count as f64 }).collect(),
        marks: of.marks.iter().zip([VERMILLION, BLACK]).filter_map(mark).collect(),
        notes: left_out(histogram.left_out, histogram.log),
        ..Chart::default()
    };
    picture(&chart, &format!("histogram_{}", of.payload), options)
}

/// `series_<payload>`: latencies of the samples, in order of measurement.
///
/// # Errors
/// As [`Chart::draw`].
pub fn series(series: &SampleSeries, of: &PlotSubject<'_>, options: &Options) -> Result<Picture, PlotError> {
    let each = format!("of each {}", count(series.group as u64));
    let (bands, line) = if series.group == 1 {
        let marker = if series.points.len() <= 100 { Marker::Circle } else { Marker::Dot };
        let look = Look { marker, ..Look::default() };
        (vec![], Line { points: medians(series), look, ..Line::default() })
    } else {
        let points = series.points.iter().map(|&(x, low, _, high)| (x, low, high)).collect();
        let look = Look { marker: Marker::None, ..Look::default() };
        let band = Band { name: format!("min to max {each}"), points };
        (vec![band], Line { name: format!("median {each}"), points: medians(series), look, ..Line::default() })
    };
    let chart = Chart {
        title: format!("Latency series: {} bytes", of.payload),
        subtitle: subtitle(&[of.sub_experiment, &samples(series.samples)]),
        x: X::Numbers { label: "Sample number [n]".to_owned(), log: false, whole: true },
        y: Y { label: of.latency.to_owned(), log: series.log, ..Y::default() },
        bands,
        lines: vec![line],
        notes: left_out(series.left_out, series.log),
        ..Chart::default()
    };
    picture(&chart, &format!("series_{}", of.payload), options)
}

fn medians(series: &SampleSeries) -> Vec<(f64, f64)> {
    series.points.iter().map(|&(x, _, median, _)| (x, median)).collect()
}

fn samples(number: usize) -> String {
    format!("n = {}", count(number as u64))
}

fn left_out(number: usize, log: bool) -> Vec<String> {
    let why = if log { "not finite, or of 0 or less and not on the logarithmic axis" } else { "not finite" };
    if number == 0 { vec![] } else { vec![format!("Left out: {} that are {why}.", samples(number))] }
}

/// Value with up to four significant digits, in the number format of the axes.
pub(super) fn four_digits(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 || !size.is_finite() {
        return value.to_string();
    }
    let text = number(value, 10_f64.powf(size.log10().floor() - 3.0).min(1.0));
    match text.contains('.') && !text.contains('e') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

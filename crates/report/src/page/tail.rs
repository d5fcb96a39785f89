//! Percentiles, with equal distances between the nines.

use crate::curves::{Curve, Panel};
use crate::document::Digits;
use crate::plots::chart::{Chart, Line, X, Y};
use crate::values::{Value, line, listed};
use tripmeter_model::figure::Statistic;

/// Maximum number of charts.
const MOST_CHARTS: usize = 4;

/// Percentiles below the maximum, with 1 / (1 - p).
pub const PERCENTILES: [(Statistic, f64); 5] = [
    (Statistic::P50, 2.0),
    (Statistic::P90, 10.0),
    (Statistic::P99, 100.0),
    (Statistic::P999, 1000.0),
    (Statistic::P9999, 10_000.0),
];

/// A chart for each of up to four payloads.
pub fn charts(panel: &Panel<'_>) -> Vec<Chart> {
    if !panel.has_samples() {
        return Vec::new();
    }
    panel.some_payloads(MOST_CHARTS).into_iter().filter_map(|payload| chart(panel, payload)).collect()
}

fn chart(panel: &Panel<'_>, payload: u64) -> Option<Chart> {
    let of_curve = |curve: &&Curve<'_>| {
        let values = quantiles(panel, curve, payload);
        let (look, name) = curve.drawn(&[payload]);
        (!values.is_empty()).then(|| line(name, look, &values))
    };
    let lines: Vec<Line> = panel.drawn().iter().filter_map(of_curve).collect();
    (!lines.is_empty()).then(|| Chart {
        name: format!("{}_percentiles_{}", panel.name(), panel.key(payload)),
        title: format!("How long is the tail {}?", panel.at(payload)),
        reading: reading(panel, payload).map_or_else(String::new, |text| panel.preface().to_owned() + &text),
        subtitle: panel.subtitle(&[maximum(panel)], &lines),
        x: X::Percentiles { label: "Percentile".to_owned() },
        y: Y { label: panel.axis().replace("Median of ", ""), log: true, ..Y::default() },
        lines,
        notes: panel.notes(&[payload]),
        ..Chart::default()
    })
}

/// Meaning of the last point: like the other points, it covers all rounds.
fn maximum(panel: &Panel<'_>) -> &'static str {
    match panel.curves.iter().any(|curve| curve.measured_rounds() > 1) {
        true => "the last point is the median of the maxima of rounds",
        false => "the last point is the maximum",
    }
}

/// Percentiles with enough samples, then the maximum at the number of samples in a round.
pub fn quantiles(panel: &Panel<'_>, curve: &Curve<'_>, payload: u64) -> Vec<(f64, Value)> {
    let get = |statistic| curve.value(payload, statistic);
    let samples = get(Statistic::N).map_or(0.0, |samples| samples.value);
    let below = PERCENTILES.into_iter().filter(|(statistic, _)| curve.is_bounded(payload, *statistic));
    let mut found: Vec<(f64, Value)> = below.filter_map(|(statistic, x)| Some((x, get(statistic)?))).collect();
    // A maximum has no interval within its round.
    let most = get(Statistic::Max).map(|most| Value { interval: most.interval.filter(|_| most.rounds > 1), ..most });
    if found.last().is_some_and(|(x, _)| *x < samples) {
        found.extend(most.map(|most| (samples, most)));
    }
    found.into_iter().map(|(x, value)| (x, panel.scaled(value))).collect()
}

/// Sentence on the longest and the shortest tail, by the highest percentile that all curves have, or else by p90.
fn reading(panel: &Panel<'_>, payload: u64) -> Option<String> {
    let curves: Vec<&Curve<'_>> =
        panel.compared(&[payload]).filter(|curve| curve.value(payload, Statistic::P50).is_some()).collect();
    let has = |curve: &&Curve<'_>, statistic: Statistic| {
        curve.value(payload, statistic).is_some() && curve.is_bounded(payload, statistic)
    };
    let of_all = |(statistic, _): &&(Statistic, f64)| curves.iter().all(|curve| has(curve, *statistic));
    let (statistic, _) = PERCENTILES[1..].iter().rev().find(of_all).copied().unwrap_or(PERCENTILES[1]);
    let (curves, short): (Vec<&Curve<'_>>, Vec<_>) = curves.into_iter().partition(|curve| has(curve, statistic));
    let short: Vec<&str> = short.iter().map(|curve| curve.label.as_str()).collect();
    let samples = format!("too few samples for {statistic}");
    if curves.is_empty() {
        return (!short.is_empty()).then(|| format!("{} {} {samples}.", listed(&short), have(&short)));
    }
    let mut tails: Vec<(&str, f64)> = curves
        .iter()
        .filter_map(|curve| {
            let of = |statistic| Some(curve.value(payload, statistic)?.value);
            Some((curve.label.as_str(), of(statistic)? / of(Statistic::P50)?))
        })
        .filter(|tail| tail.1.is_finite())
        .collect();
    tails.sort_by(|a, b| b.1.total_cmp(&a.1));
    let times = |tail: f64| Digits::Significant(2).write(tail);
    let ((name, most), last) = (tails.first()?, tails.last()?);
    let text = match tails.len() {
        1 => format!("{statistic} of {name} is {} times its median", times(*most)),
        _ => format!(
            "{statistic} is {} times the median for {name}, and {} times for {}",
            times(*most),
            times(last.1),
            last.0
        ),
    };
    let short = (!short.is_empty()).then(|| format!("; {} {} {samples}", listed(&short), have(&short)));
    Some(format!("{text}{}.", short.unwrap_or_default()))
}

fn have(names: &[&str]) -> &'static str {
    if names.len() == 1 { "has" } else { "have" }
}

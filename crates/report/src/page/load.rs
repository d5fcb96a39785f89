//! Latency against the offered rate, with the achieved rate.

use crate::curves::{Curve, Panel, look};
use crate::merged::MISSED;
use crate::number::count;
use crate::plots::chart::{Chart, Line, Look, Stroke, X, Y};
use crate::values::{Value, line, listed, unit};
use std::collections::BTreeMap;
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::metric::Stream;

const MOST_CHARTS: usize = 2;
const SHOWN: [(Statistic, Stroke); 2] = [(Statistic::P50, Stroke::Solid), (Statistic::P99, Stroke::Dashed)];

/// One sub-experiment at its offered rates, by rising rate.
type Rates<'a> = Vec<(f64, &'a Curve<'a>)>;

/// A chart for the first payload and the last, if several rates were offered.
pub fn charts(panel: &Panel<'_>) -> Vec<Chart> {
    if !panel.has_samples() {
        return Vec::new();
    }
    let mut subs: BTreeMap<(usize, u32), Rates<'_>> = BTreeMap::new();
    for curve in &panel.curves {
        // The mean rate of bursts does not describe them.
        if let Some(hz) = curve.offered().hz().filter(|_| !curve.offered().is_uneven()) {
            subs.entry((curve.folder, curve.sub)).or_default().push((hz, curve));
        }
    }
    let mut subs: Vec<Rates<'_>> = subs.into_values().filter(|rates| rates.len() > 1).collect();
    subs.iter_mut().for_each(|rates| rates.sort_by(|a, b| a.0.total_cmp(&b.0)));
    if subs.is_empty() {
        return Vec::new();
    }
    panel.some_payloads(MOST_CHARTS).into_iter().filter_map(|payload| chart(panel, &subs, payload)).collect()
}

fn chart(panel: &Panel<'_>, subs: &[Rates<'_>], payload: u64) -> Option<Chart> {
    let of = |(place, rates): (usize, &Rates<'_>)| lines(panel, rates, look(place), payload);
    let mut lines: Vec<Line> = subs.iter().enumerate().flat_map(of).collect();
    if lines.is_empty() {
        return None;
    }
    let missed: Vec<(f64, f64)> = subs
        .iter()
        .flatten()
        .filter(|(_, curve)| curve.side.metrics.is_rate_missed(curve.row(payload)))
        .filter_map(|(hz, curve)| Some((*hz, panel.scaled(curve.value(payload, Statistic::P50)?).value)))
        .collect();
    let of_rates = subs.iter().flatten().filter_map(|(hz, curve)| note(*hz, curve, payload));
    let notes = of_rates.chain(panel.notes(&[])).collect();
    lines.extend(Line::missed_rates(missed));
    Some(Chart {
        name: format!("{}_by_rate_{}", panel.name(), panel.key(payload)),
        title: format!("What happens under load {}?", panel.at(payload)),
        reading: reading(subs, payload),
        subtitle: panel.subtitle(&[], &lines),
        x: X::Numbers { label: "Offered rate of each stream [/s]".to_owned(), log: true, whole: true },
        y: Y { label: format!("{} [{}]", panel.name(), unit(panel.figure).1), log: true, ..Y::default() },
        lines,
        notes,
        ..Chart::default()
    })
}

/// Label of a sub-experiment without its rate.
fn label(curve: &Curve<'_>) -> String {
    let rate = crate::labels::load_text(curve.offered());
    curve.label.replace(&format!(", {rate}"), "")
}

fn lines(panel: &Panel<'_>, rates: &Rates<'_>, look: Look, payload: u64) -> Vec<Line> {
    let mark = if rates[0].1.unfit(&[]).is_some() { MISSED } else { "" };
    let of = |(statistic, stroke): (Statistic, Stroke)| {
        let value = |(hz, curve): &(f64, &Curve<'_>)| Some((*hz, panel.scaled(curve.value(payload, statistic)?)));
        let values: Vec<(f64, Value)> = rates.iter().filter_map(value).collect();
        let name = format!("{}{mark} {statistic}", label(rates[0].1));
        (!values.is_empty()).then(|| line(name, Look { stroke, ..look }, &values))
    };
    SHOWN.into_iter().filter_map(of).collect()
}

/// Note with the achieved rate, if the offered one was missed.
fn note(hz: f64, curve: &Curve<'_>, payload: u64) -> Option<String> {
    let row = curve.row(payload);
    let metrics = &curve.side.metrics;
    let achieved = metrics.get(row, &Stream::all(), Figure::AchievedRate, Statistic::Value)?.folded();
    let name = label(curve);
    let text = || format!("{name}: {} /s of {} /s offered.", count(achieved), count(hz));
    metrics.is_rate_missed(row).then(text)
}

fn reading(subs: &[Rates<'_>], payload: u64) -> String {
    let is_missed = |curve: &Curve<'_>| curve.side.metrics.is_rate_missed(curve.row(payload));
    let first = |rates: &Rates<'_>| {
        let (hz, curve) = rates.iter().find(|(_, curve)| is_missed(curve))?;
        Some((*hz, label(curve)))
    };
    let fit = || subs.iter().filter(|rates| rates.iter().all(|(_, curve)| curve.unfit(&[]).is_none()));
    let missed: Vec<(f64, String)> = fit().filter_map(first).collect();
    let most = fit().flatten().map(|(hz, _)| *hz).fold(0.0, f64::max);
    match missed.iter().map(|(hz, _)| *hz).reduce(f64::min) {
        None if most == 0.0 => String::new(),
        None => format!("Every rate was kept, up to {} /s.", count(most)),
        Some(least) => {
            let names: Vec<&str> = missed.iter().filter(|one| one.0 == least).map(|one| one.1.as_str()).collect();
            format!("The lowest rate that was missed is {} /s, by {}.", count(least), listed(&names))
        }
    }
}

//! Headline figure over the payload; columns if there is only one payload.

use super::answer::best_of_drawn;
use super::copy;
use crate::curves::{Curve, Panel};
use crate::document::Digits;
use crate::plots::chart::{Chart, Line, Stack, X, Y};
use crate::values::{Seen, Value, compare, line};
use tripmeter_model::figure::Better;
use tripmeter_model::payload::display_size;

/// One chart: lines over several payloads, or columns for a single one.
pub fn charts(panel: &Panel<'_>) -> Vec<Chart> {
    match panel.ends() {
        Some(ends) => lines(panel, ends).into_iter().collect(),
        None => columns(panel).into_iter().collect(),
    }
}

fn lines(panel: &Panel<'_>, ends: [u64; 2]) -> Option<Chart> {
    let of_curve = |curve: &&Curve<'_>| {
        let (look, name) = curve.drawn(&panel.payloads);
        let value = |payload: &u64| Some((*payload as f64, panel.scaled(curve.value(*payload, panel.statistic())?)));
        line(name, look, &panel.payloads.iter().filter_map(value).collect::<Vec<_>>())
    };
    let is_rate = panel.figure.better() == Better::Higher;
    let mut lines: Vec<Line> = panel.drawn().iter().map(of_curve).collect();
    let copies = copy::lines(panel, &lines);
    let notes = panel.notes(&panel.payloads).into_iter().chain(copy::notes(panel, &copies)).collect();
    let subtitle = panel.subtitle(&[], &lines);
    lines.extend(copies);
    Some(Chart {
        name: format!("{}_by_payload", panel.name()),
        title: if is_rate { "How does the rate change with size?" } else { "How does latency grow with size?" }
            .to_owned(),
        subtitle,
        reading: panel.reading(&ends, reading(panel, ends))?,
        x: X::Numbers { label: "Payload [bytes]".to_owned(), log: true, whole: true },
        y: Y { label: panel.axis(), log: true, ..Y::default() },
        lines,
        notes,
        ..Chart::default()
    })
}

/// Sentence on the largest and the smallest growth of a curve.
fn reading(panel: &Panel<'_>, [least, most]: [u64; 2]) -> Option<String> {
    let growth = |curve: &'_ Curve<'_>| {
        let [first, last] = [least, most].map(|payload| curve.rounds(payload, panel.statistic()));
        compare(&last?, &first?, true)
    };
    let mut grown: Vec<(&Curve<'_>, Value)> =
        panel.compared(&[least, most]).filter_map(|curve| Some((curve, growth(curve)?))).collect();
    grown.sort_by(|a, b| b.1.value.total_cmp(&a.1.value));
    let ends = format!("from {} to {}", display_size(least), display_size(most));
    let written = |value: f64| Digits::Significant(2).write(value);
    let told = |(curve, growth): &(&Curve<'_>, Value)| match growth.seen() {
        Seen::NoDifference => format!("{} does not change measurably", curve.label),
        _ if growth.value < 1.0 => format!("{} falls to {} times", curve.label, written(growth.value)),
        _ => format!("{} grows {} times", curve.label, written(growth.value)),
    };
    let (first, others) = grown.split_first()?;
    let is_bare = [Some(first), others.last()].into_iter().flatten().any(|one| one.1.seen() == Seen::Unknown);
    let rounds = panel.compared(&[least, most]).map(Curve::measured_rounds).max().unwrap_or(1);
    // Intervals within one round say nothing about the ratio in other rounds.
    let bare = match (is_bare, rounds) {
        (false, _) => String::new(),
        (true, 1) => " (in one round)".to_owned(),
        (true, rounds) => format!(" (in {rounds} rounds)"),
    };
    let first = format!("{}{} {ends}", panel.preface(), told(first));
    Some(match others.last() {
        Some(last) => format!("{first}; {}{bare}.", told(last)),
        None => format!("{first}{bare}."),
    })
}

/// Chart of columns with intervals, the best first.
fn columns(panel: &Panel<'_>) -> Option<Chart> {
    const FAR_APART: f64 = 20.0;
    let payload = *panel.payloads.first()?;
    // Sub-experiments with several loads have charts over the load.
    let has_loads = panel.curves.iter().any(|curve| {
        panel
            .curves
            .iter()
            .any(|other| (curve.folder, curve.sub) == (other.folder, other.sub) && curve.load != other.load)
    });
    let mut values: Vec<(String, Value)> = panel
        .drawn()
        .iter()
        .filter_map(|curve| Some((curve.drawn(&[payload]).1, panel.scaled(curve.value(payload, panel.statistic())?))))
        .collect();
    if has_loads || values.len() < 2 {
        return None;
    }
    values.sort_by(|a, b| a.1.value.total_cmp(&b.1.value));
    if panel.figure.better() == Better::Higher {
        values.reverse();
    }
    let all = || values.iter().map(|(_, value)| value.value).filter(|value| *value > 0.0);
    let log = all().fold(0.0, f64::max) > FAR_APART * all().fold(f64::INFINITY, f64::min);
    let part = Stack {
        name: panel.name().to_owned(),
        values: values.iter().map(|(_, value)| value.value).collect(),
        intervals: values.iter().map(|(_, value)| Some((value.interval?.low, value.interval?.high))).collect(),
        color: None,
    };
    Some(Chart {
        name: format!("{}_{}", panel.name(), panel.key(payload)),
        title: format!("{} {}?", question(panel), panel.at(payload)),
        subtitle: panel.subtitle_of(&[], part.intervals.iter().any(Option::is_some)),
        reading: best_of_drawn(panel, payload).unwrap_or_default(),
        x: X::Categories { label: String::new(), names: values.into_iter().map(|(name, _)| name).collect() },
        y: Y { label: panel.axis() + if log { ", logarithmic" } else { "" }, log, from_zero: true, ..Y::default() },
        stacks: vec![part],
        notes: panel.notes(&[payload]),
        ..Chart::default()
    })
}

fn question(panel: &Panel<'_>) -> &'static str {
    match (panel.figure.better() == Better::Higher, panel.pairs().is_some()) {
        (true, false) => "Which is the highest rate",
        (true, true) => "Which side has the higher rate",
        (false, false) => "What is fastest",
        (false, true) => "Which side is faster",
    }
}

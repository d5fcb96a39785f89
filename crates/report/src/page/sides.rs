//! Ratio of the quantiles of two sides, which shows where they differ.

use super::tail::{PERCENTILES, quantiles};
use crate::curves::{Curve, Panel};
use crate::plots::chart::{AxisValue, BLACK, Chart, Line, Mark, X, Y};
use crate::values::{Seen, Value, compare, line, listed};
use tripmeter_model::figure::Statistic;
use tripmeter_stats::change::ChangeVerdict;

const MOST_CHARTS: usize = 2;

/// Curve of the reference, and the curve compared with it.
type CurvePair<'a> = (&'a Curve<'a>, &'a Curve<'a>);

/// A chart for the first and the last payload, for two results or for both sides of a run in pairs.
pub fn charts(panel: &Panel<'_>) -> Vec<Chart> {
    let pairs = pairs(panel);
    if pairs.is_empty() || !panel.has_samples() {
        return Vec::new();
    }
    panel.some_payloads(MOST_CHARTS).into_iter().filter_map(|payload| chart(panel, &pairs, payload)).collect()
}

/// Curves that are compared: sub-experiments with the same name and load, or `b` with `a`.
fn pairs<'a>(panel: &'a Panel<'a>) -> Vec<CurvePair<'a>> {
    let in_folder = |folder: usize| panel.curves.iter().filter(move |curve| curve.folder == folder);
    let name = |curve: &Curve<'_>| curve.merged().planned.name.clone();
    match panel.curves.iter().map(|curve| curve.folder).max() {
        Some(0) if in_folder(0).all(|curve| curve.side.is_of_pairs()) => {
            let side = |wanted: &str| in_folder(0).find(|curve| name(curve) == wanted);
            side("a").zip(side("b")).into_iter().collect()
        }
        Some(1) => {
            let like = |one: &'a Curve<'a>| {
                let other = in_folder(1).find(|other| name(other) == name(one) && other.offered() == one.offered());
                Some((one, other?))
            };
            in_folder(0).filter_map(like).collect()
        }
        _ => Vec::new(),
    }
}

fn ratio(pair: CurvePair<'_>, payload: u64, statistic: Statistic) -> Option<Value> {
    let (reference, result) = (pair.0.rounds(payload, statistic)?, pair.1.rounds(payload, statistic)?);
    compare(&result, &reference, pair.0.folder == pair.1.folder)
}

fn chart(panel: &Panel<'_>, pairs: &[CurvePair<'_>], payload: u64) -> Option<Chart> {
    let of_pair = |pair: &CurvePair<'_>| {
        let known = quantiles(panel, pair.0, payload);
        let shown = PERCENTILES.iter().filter(|(_, x)| known.iter().any(|one| one.0 == *x));
        let values: Vec<(f64, Value)> = shown.filter_map(|(of, x)| Some((*x, ratio(*pair, payload, *of)?))).collect();
        (!values.is_empty()).then(|| line(pair.1.drawn(&[payload]).1, pair.0.look, &values))
    };
    let lines: Vec<Line> = pairs.iter().filter_map(of_pair).take(crate::curves::MOST_LINES).collect();
    let reference = match pairs.first()? {
        (reference, result) if reference.folder == result.folder => reference.label.clone(),
        (reference, _) => reference.side.name.to_owned(),
    };
    (!lines.is_empty()).then(|| Chart {
        name: format!("{}_ratio_{}", panel.name(), panel.key(payload)),
        title: format!("Where do they differ {}?", panel.at(payload)),
        reading: reading(panel, pairs, payload),
        subtitle: panel.subtitle(&[&format!("above 1: slower than {reference}")], &lines),
        x: X::Percentiles { label: "Percentile".to_owned() },
        y: Y { label: format!("Ratio of {} [1]", panel.name()), log: true, ..Y::default() },
        lines,
        marks: vec![Mark { name: format!("1: as {reference}"), at: AxisValue::Y(1.0), color: BLACK }],
        notes: panel.notes(&[payload]),
        ..Chart::default()
    })
}

/// Sentence on measurable differences of the median and p99; by the verdict if there is one.
fn reading(panel: &Panel<'_>, pairs: &[CurvePair<'_>], payload: u64) -> String {
    const WORDS: [&str; 5] =
        ["is greater with", "is less with", "shows no difference with", "has no interval with", "is undecided for"];
    let word = |pair: &CurvePair<'_>, statistic: Statistic| {
        let value = ratio(*pair, payload, statistic)?;
        let judged = panel.pairs().filter(|_| pair.0.folder == pair.1.folder);
        let verdict = judged.and_then(|judged| judged.verdict(panel.figure, statistic, payload, pair.0.offered()));
        Some(match (verdict, value.seen()) {
            (Some(ChangeVerdict::Regressed), _) => 0,
            (Some(ChangeVerdict::Improved), _) => 1,
            (Some(ChangeVerdict::Equivalent), _) | (None, Seen::NoDifference) => 2,
            (Some(ChangeVerdict::Inconclusive), _) => 4,
            (None, Seen::Different) => usize::from(value.value <= 1.0),
            (None, Seen::Unknown) => 3,
        })
    };
    // Sides of an `ab` are compared in any case, because notes explain their verdicts.
    let is_fit = |pair: &&CurvePair<'_>| {
        panel.pairs().is_some() || [pair.0, pair.1].iter().all(|curve| curve.unfit(&[payload]).is_none())
    };
    let told = |statistic: Statistic| {
        let found: Vec<(usize, &str)> = pairs
            .iter()
            .filter(is_fit)
            .filter_map(|pair| Some((word(pair, statistic)?, pair.1.label.as_str())))
            .collect();
        let of_word = |at: usize| found.iter().filter(|one| one.0 == at).map(|one| one.1).collect::<Vec<_>>();
        let parts = WORDS.iter().enumerate().map(|(at, what)| (what, of_word(at)));
        let parts = parts.filter(|(_, names)| !names.is_empty());
        let parts: Vec<String> = parts.map(|(what, names)| format!("{what} {}", listed(&names))).collect();
        (!parts.is_empty()).then(|| format!("{statistic} {}", parts.join(", ")))
    };
    let text: Vec<String> = [Statistic::P50, Statistic::P99].into_iter().filter_map(told).collect();
    let alone = match panel.pairs() {
        None => " This compares each figure by itself, without a margin; the verdicts above take all figures together.",
        Some(_) => "",
    };
    if text.is_empty() { "There is nothing to compare.".to_owned() } else { format!("{}.{alone}", text.join("; ")) }
}

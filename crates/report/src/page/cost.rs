//! CPU time per message against the headline figure.

use crate::curves::{Curve, Panel};
use crate::document::Digits;
use crate::plots::chart::{Chart, Line, Look, Stroke, X, Y};
use crate::values::{Seen, Value, line, listed};
use tripmeter_analysis::derived::cpu_per_message;
use tripmeter_model::Wait;
use tripmeter_stats::ErrorBounds;
use tripmeter_stats::rounds::ALPHA;
use tripmeter_stats::shift::Shift;

const MOST_CHARTS: usize = 2;

/// A chart for the first payload and the last.
pub fn charts(panel: &Panel<'_>) -> Vec<Chart> {
    panel.some_payloads(MOST_CHARTS).into_iter().filter_map(|payload| chart(panel, payload)).collect()
}

/// CPU time of both processes per message, in microseconds.
fn cost(curve: &Curve<'_>, payload: u64) -> Option<Value> {
    let rounds = cpu_per_message(&curve.side.metrics, curve.row(payload));
    let values: Vec<f64> = rounds.into_iter().map(|one| one.1).collect();
    Some(Value::over(&values, None, ErrorBounds::NONE)?.scaled(1e-3)).filter(|cost| cost.value > 0.0)
}

fn chart(panel: &Panel<'_>, payload: u64) -> Option<Chart> {
    let points: Vec<(&Curve<'_>, Value, Value)> = panel
        .drawn()
        .into_iter()
        .filter_map(|curve| {
            let value = panel.scaled(curve.value(payload, panel.statistic())?);
            Some((curve, cost(curve, payload)?, value))
        })
        .collect();
    if points.len() < 2 {
        return None;
    }
    let point = |(curve, cost, value): &(&Curve<'_>, Value, Value)| {
        let (look, name) = curve.drawn(&[payload]);
        line(name, Look { stroke: Stroke::None, ..look }, &[(cost.value, *value)])
    };
    let lines: Vec<Line> = points.iter().map(point).collect();
    let is_polling = points.iter().any(|(curve, ..)| curve.merged().planned.wait == Wait::Poll);
    let note = "A side that polls uses CPU time while it waits.".to_owned();
    Some(Chart {
        name: format!("{}_cost_{}", panel.name(), panel.key(payload)),
        title: format!("What does speed cost {}?", panel.at(payload)),
        reading: panel.reading(&[payload], reading(panel, payload))?,
        subtitle: panel.subtitle(&["CPU time of all processes, user and system"], &lines),
        x: X::Numbers { label: "CPU time per message [µs]".to_owned(), log: true, whole: false },
        y: Y { label: panel.axis(), log: true, ..Y::default() },
        lines,
        notes: is_polling.then_some(note).into_iter().chain(panel.notes(&[payload])).collect(),
        ..Chart::default()
    })
}

/// Sentence on the least and the most CPU time, and their ratio by round.
fn reading(panel: &Panel<'_>, payload: u64) -> Option<String> {
    let mut costs: Vec<(&Curve<'_>, Value)> =
        panel.compared(&[payload]).filter_map(|curve| Some((curve, cost(curve, payload)?))).collect();
    costs.sort_by(|a, b| a.1.value.total_cmp(&b.1.value));
    let ((first, least), (last, most)) = (costs.first()?, costs.last().filter(|_| costs.len() > 1)?);
    let written = |value: f64| Digits::Significant(3).write(value);
    let preface = panel.preface();
    let ratio = ratio(last, first, payload)?;
    Some(match ratio.seen() {
        Seen::NoDifference => {
            let names: Vec<&str> = costs.iter().map(|one| one.0.label.as_str()).collect();
            format!("{preface}The CPU time per message of {} does not differ measurably.", listed(&names))
        }
        _ => format!(
            "{preface}A message takes {} µs of CPU time with {}, and {} µs with {}, {}.",
            written(least.value),
            first.label,
            written(most.value),
            last.label,
            ratio.as_ratio()
        ),
    })
}

/// Ratio of the CPU times of two curves; by round if they are from one folder.
fn ratio(one: &Curve<'_>, other: &Curve<'_>, payload: u64) -> Option<Value> {
    let [ours, theirs] = [one, other].map(|curve| cpu_per_message(&curve.side.metrics, curve.row(payload)));
    if one.folder != other.folder {
        let [ours, theirs] = [ours, theirs].map(|all| all.into_iter().map(|one| one.1).collect::<Vec<f64>>());
        let shift = Shift::ratio(&theirs, &ours).ok()?;
        let rounds = ours.len().min(theirs.len());
        return Some(Value { value: shift.hodges_lehmann(), interval: shift.interval(ALPHA), rounds });
    }
    let of_round = |(round, cost): &(u32, f64)| Some(cost / theirs.iter().find(|one| one.0 == *round)?.1);
    Value::over(&ours.iter().filter_map(of_round).collect::<Vec<f64>>(), None, ErrorBounds::NONE)
}

//! CPU time of a message against the headline.

use super::curves::{Curve, Panel};
use super::values::{Value, listed};
use crate::document::Digits;
use crate::plots::chart::{Chart, Line, Look, Stroke, X, Y};
use tripmeter_analysis::derived::cpu_per_message;
use tripmeter_model::Wait;
use tripmeter_model::payload::display_size;

const MOST_CHARTS: usize = 2;

/// A chart for the first payload and the last.
pub fn charts(panel: &Panel<'_>) -> Vec<Chart> {
    panel.some_payloads(MOST_CHARTS).into_iter().filter_map(|payload| chart(panel, payload)).collect()
}

/// CPU time of both processes per message, in microseconds.
fn cost(curve: &Curve<'_>, payload: u64) -> Option<Value> {
    let values = cpu_per_message(&curve.side.metrics, curve.row(payload));
    Some(Value::over(&values, None)?.scaled(1e-3)).filter(|cost| cost.value > 0.0)
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
    let line = |(curve, cost, value): &(&Curve<'_>, Value, Value)| {
        let (look, name) = curve.drawn();
        let interval = value.interval.map(|interval| (cost.value, interval.low, interval.high));
        let look = Look { stroke: Stroke::None, ..look };
        Line { name, points: vec![(cost.value, value.value)], intervals: interval.into_iter().collect(), look }
    };
    let lines: Vec<Line> = points.iter().map(line).collect();
    let is_polling = points.iter().any(|(curve, ..)| curve.merged().planned.wait == Wait::Poll);
    let note = "What polls takes CPU time while it waits.".to_owned();
    Some(Chart {
        name: format!("{}_cost_{payload}", panel.name()),
        title: format!("What does speed cost at {}?", display_size(payload)),
        reading: reading(&points)?,
        subtitle: panel.subtitle(&["CPU time of all processes, user and system"], &lines),
        x: X::Numbers { label: "CPU time per message [µs]".to_owned(), log: true, whole: false },
        y: Y { label: panel.axis(), log: true, ..Y::default() },
        lines,
        notes: is_polling.then_some(note).into_iter().chain(panel.left_out()).collect(),
        ..Chart::default()
    })
}

/// What takes the least CPU time and what the most, with all whose intervals overlap theirs.
fn reading(points: &[(&Curve<'_>, Value, Value)]) -> Option<String> {
    let mut costs: Vec<(&str, Value)> = points.iter().map(|(curve, cost, _)| (curve.label.as_str(), *cost)).collect();
    costs.sort_by(|a, b| a.1.value.total_cmp(&b.1.value));
    let ((first, least), (last, most)) = (costs.first()?, costs.last()?);
    let written = |value: f64| Digits::Significant(3).write(value);
    let overlap = least.interval.zip(most.interval).is_some_and(|(least, most)| least.high >= most.low);
    Some(match overlap {
        true => {
            let names: Vec<&str> = costs.iter().map(|one| one.0).collect();
            format!("No difference is seen between the CPU time of a message of {}.", listed(&names))
        }
        false => format!(
            "A message takes {} µs of CPU time with {first}, and {} µs with {last}.",
            written(least.value),
            written(most.value)
        ),
    })
}

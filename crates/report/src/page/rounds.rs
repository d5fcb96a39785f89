//! Medians of rounds, in order, as differences from the median over rounds.

use crate::curves::{Curve, Panel};
use crate::document::Digits;
use crate::plots::chart::{Chart, Line, X, Y};
use crate::values::listed;
use tripmeter_stats::median;
use tripmeter_stats::rounds::{drift_of_rounds, modes_of_rounds};

const MOST_CHARTS: usize = 2;

/// A chart for the first payload and the last, if there are several rounds.
pub fn charts(panel: &Panel<'_>) -> Vec<Chart> {
    panel.some_payloads(MOST_CHARTS).into_iter().filter_map(|payload| chart(panel, payload)).collect()
}

fn chart(panel: &Panel<'_>, payload: u64) -> Option<Chart> {
    let line = |curve: &&Curve<'_>| {
        let (look, name) = curve.drawn(&[payload]);
        let points = differences(panel, curve, payload)?;
        Some(Line { name, points, intervals: Vec::new(), look })
    };
    Some(Chart {
        name: format!("{}_rounds_{}", panel.name(), panel.key(payload)),
        title: format!("Do rounds agree {}?", panel.at(payload)),
        reading: panel.reading(&[payload], reading(panel, payload))?,
        subtitle: format!(
            "{} · each point is one round, as its difference from the median of all rounds",
            panel.figure.help()
        ),
        x: X::Numbers { label: "Round".to_owned(), log: false, whole: true },
        y: Y { label: format!("{} from its median [%]", panel.name()), ..Y::default() },
        lines: panel.drawn().iter().filter_map(line).collect(),
        notes: panel.notes(&[payload]),
        ..Chart::default()
    })
}

/// Differences of the rounds from the median over rounds, in per cent; `None` for fewer than two rounds.
fn differences(panel: &Panel<'_>, curve: &Curve<'_>, payload: u64) -> Option<Vec<(f64, f64)>> {
    let rounds = curve.rounds(payload, panel.statistic()).filter(|rounds| rounds.values.len() > 1)?;
    let middle = median(rounds.values).filter(|middle| *middle > 0.0)?;
    let of = |(round, value): (&u32, &f64)| (f64::from(*round), (value / middle - 1.0) * 100.0);
    Some(rounds.rounds.iter().zip(rounds.values).map(of).collect())
}

fn reading(panel: &Panel<'_>, payload: u64) -> Option<String> {
    let spread = |curve: &'_ Curve<'_>| {
        let points = differences(panel, curve, payload)?;
        let (low, high) =
            points.iter().fold((0.0, 0.0), |(low, high): (f64, f64), one| (low.min(one.1), high.max(one.1)));
        Some(high - low)
    };
    let mut spreads: Vec<(&Curve<'_>, f64)> =
        panel.compared(&[payload]).filter_map(|curve| Some((curve, spread(curve)?))).collect();
    spreads.sort_by(|a, b| a.1.total_cmp(&b.1));
    let written = |value: f64| Digits::Significant(2).write(value);
    let ((first, least), (last, most)) = (spreads.first()?, spreads.last()?);
    let text = match spreads.len() {
        1 => format!("Between its best and worst round, {} varies by {} % of its median", first.label, written(*least)),
        _ => format!(
            "Between its best and worst round, {} varies by {} % of its median, and {} by {} %",
            first.label,
            written(*least),
            last.label,
            written(*most)
        ),
    };
    let named = |is: &dyn Fn(&[f64]) -> bool| -> Vec<&str> {
        let of_curve =
            |curve: &&Curve<'_>| curve.rounds(payload, panel.statistic()).is_some_and(|rounds| is(rounds.values));
        panel.compared(&[payload]).filter(of_curve).map(|curve| curve.label.as_str()).collect()
    };
    let drifting = named(&|values| drift_of_rounds(values).is_some());
    let of_modes = named(&|values| modes_of_rounds(values).is_some());
    let also = [
        (drifting, "from the first round to the last, there is a drift in"),
        (of_modes, "there are two groups of rounds in"),
    ];
    let also = also.into_iter().filter(|(names, _)| !names.is_empty());
    let also: String = also.map(|(names, what)| format!("; {what} {}", listed(&names))).collect();
    Some(format!("{}{text}{also}.", panel.preface()))
}

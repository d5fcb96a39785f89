//! Losses by sub-experiment.

use crate::measured::MeasuredSide;
use crate::number::percent;
use crate::plots::chart::{Chart, Stack, VERMILLION, X, Y};
use tripmeter_analysis::Row;
use tripmeter_model::payload::size_text;
use tripmeter_stats::proportion::{self, Proportion};

struct Lost<'a> {
    name: String,
    sub: &'a str,
    place: String,
    share: f64,
    interval: Option<(f64, f64)>,
}

/// One chart, if anything was lost: for each sub-experiment with losses, the payload and load where it lost most.
pub fn charts(sides: &[MeasuredSide<'_>]) -> Vec<Chart> {
    let mut found: Vec<Lost<'_>> = Vec::new();
    for side in sides {
        for row in side.metrics.all_rows() {
            let Some(lost) = lost(side, row, sides.len() > 1) else { continue };
            match found.iter_mut().find(|one| one.name == lost.name) {
                Some(known) if known.share < lost.share => *known = lost,
                Some(_) => {}
                None => found.push(lost),
            }
        }
    }
    found.sort_by(|a, b| b.share.total_cmp(&a.share));
    let Some(most) = found.first() else { return Vec::new() };
    let reading = format!("{} lost most: {} % at {}.", most.sub, percent(most.share), most.place);
    let share = |share: f64| share * 100.0;
    let has_intervals = found.iter().any(|one| one.interval.is_some());
    let intervals = if has_intervals { " · 95 % intervals" } else { "" };
    vec![Chart {
        name: "loss".to_owned(),
        title: "What was lost?".to_owned(),
        reading,
        subtitle: format!(
            "share of messages or calls that did not arrive in time and intact, where it is largest{intervals}"
        ),
        x: X::Categories { label: String::new(), names: found.iter().map(|one| one.name.clone()).collect() },
        y: Y { label: "loss_share [%]".to_owned(), from_zero: true, ..Y::default() },
        stacks: vec![Stack {
            name: "loss_share".to_owned(),
            values: found.iter().map(|one| share(one.share)).collect(),
            intervals: found.iter().map(|one| one.interval.map(|(low, high)| (share(low), share(high)))).collect(),
            color: Some(VERMILLION),
        }],
        ..Chart::default()
    }]
}

fn lost<'a>(side: &'a MeasuredSide<'_>, row: Row, is_named: bool) -> Option<Lost<'a>> {
    let rounds = side.losses(row)?;
    let sum: Proportion = proportion::sum(&rounds);
    let interval = proportion::interval(&rounds).filter(|one| one.low.is_finite() && one.high.is_finite());
    let sub = side.metrics.sub(row);
    let load = side.metrics.load(row);
    let size = size_text(row.payload_bytes, side.metrics.has_several_sizes(row));
    let place = match load.hz() {
        Some(_) => format!("{size}, {}", crate::labels::load_text(load)),
        None => size,
    };
    (sum.events > 0).then(|| Lost {
        name: if is_named { format!("{sub} · {}", side.name) } else { sub.to_owned() },
        sub,
        place,
        share: sum.share(),
        interval: interval.map(|one| (one.low, one.high)),
    })
}

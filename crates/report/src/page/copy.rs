//! Time to copy the payload in one thread; a faster transport probably does not copy it.

use crate::curves::Panel;
use crate::document::Digits;
use crate::measured::MeasuredSide;
use crate::plots::chart::{BLACK, Line, Look, Marker, Stroke};
use crate::values::unit;
use std::collections::BTreeMap;
use tripmeter_model::figure::{Figure, Unit};
use tripmeter_model::manifest::MemoryCopy;
use tripmeter_model::payload::display_size;

/// A line for each folder with a memory measurement: payload / bandwidth, from the smallest size measured, and only
/// above the least value of the other lines.
pub fn lines(panel: &Panel<'_>, drawn: &[Line]) -> Vec<Line> {
    let values = drawn.iter().flat_map(|line| &line.points).map(|point| point.1).filter(|value| *value > 0.0);
    let (least, factor) = (values.fold(f64::INFINITY, f64::min), unit(panel.figure).0);
    let Some([_, last]) = panel.ends().filter(|_| least.is_finite()) else { return Vec::new() };
    let sides = sides(panel);
    let line = |(place, side): (usize, &MeasuredSide<'_>)| {
        let copies = &copies(side);
        let ns = |bytes: u64| Some(factor * ns_per_byte(copies, bytes)? * bytes as f64);
        // A smaller copy fits into a nearer cache, so it is faster.
        let measured = copies.first()?.bytes;
        let start = measured.max((least / (factor * ns_per_byte(copies, 1)?)).ceil().min(1e15) as u64);
        let is_drawn = start == measured || panel.payloads.contains(&start);
        let start = if is_drawn { start } else { start.next_power_of_two() };
        let mut sizes: Vec<u64> = copies.iter().map(|copy| copy.bytes).chain(panel.payloads.iter().copied()).collect();
        sizes.push(start);
        sizes.retain(|bytes| (start..=last).contains(bytes));
        sizes.sort_unstable();
        sizes.dedup();
        let points: Vec<(f64, f64)> = sizes.iter().filter_map(|bytes| Some((*bytes as f64, ns(*bytes)?))).collect();
        // Same stroke as the other lines of the folder.
        let stroke = if sides.len() > 1 { Look::for_line(0, place).stroke } else { Stroke::Dashed };
        let look = Look { color: Some(BLACK), marker: Marker::None, stroke, strong: false };
        (points.len() > 1).then(|| Line { name: name(panel, side), points, look, ..Line::default() })
    };
    sides.iter().copied().enumerate().filter_map(line).collect()
}

/// Bandwidth at the smallest and the largest size, for each folder that is drawn.
pub fn notes(panel: &Panel<'_>, lines: &[Line]) -> Vec<String> {
    let note = |side: &MeasuredSide<'_>| {
        let copies = &copies(side);
        let place = if panel.has_folders() { format!(" in {}", side.name) } else { String::new() };
        let rate = |copy: &MemoryCopy| {
            let rate = Digits::Significant(3).write(copy.bytes as f64 / copy.copy_ns);
            format!("{rate} GB/s at {}", display_size(copy.bytes))
        };
        let rates = match (copies.first()?, copies.last()?) {
            (first, last) if first == last => rate(first),
            (first, last) => format!("{}, {}", rate(first), rate(last)),
        };
        Some(format!(
            "Memory copy{place}: the time to copy the payload once, in one thread, {rates}; a faster transport \
             probably does not copy it."
        ))
    };
    let has_line = |side: &&MeasuredSide<'_>| lines.iter().any(|line| line.name == name(panel, side));
    sides(panel).into_iter().filter(has_line).filter_map(note).collect()
}

fn name(panel: &Panel<'_>, side: &MeasuredSide<'_>) -> String {
    if panel.has_folders() { format!("memory copy · {}", side.name) } else { "memory copy".to_owned() }
}

/// Distinct folders with latencies of messages, in order.
fn sides<'a>(panel: &Panel<'a>) -> Vec<&'a MeasuredSide<'a>> {
    let mut found: BTreeMap<usize, &MeasuredSide<'_>> = BTreeMap::new();
    // A logger may format a message, but does not pass it on.
    let is_of_messages = panel.figure.unit() == Unit::Ns && panel.figure != Figure::Call;
    for curve in panel.curves.iter().filter(|_| is_of_messages) {
        found.insert(curve.folder, curve.side);
    }
    found.into_values().collect()
}

/// Copies by rising size, without invalid values, because a file may contain anything.
fn copies(side: &MeasuredSide<'_>) -> Vec<MemoryCopy> {
    let is_good = |copy: &&MemoryCopy| copy.bytes > 0 && copy.copy_ns.is_finite() && copy.copy_ns > 0.0;
    let mut copies: Vec<MemoryCopy> = side.manifest.environment.memory_copy.iter().filter(is_good).copied().collect();
    copies.sort_by_key(|copy| copy.bytes);
    copies.dedup_by_key(|copy| copy.bytes);
    copies
}

/// Interpolated over the logarithm of the size; outside the measured sizes, the value of the nearest one.
fn ns_per_byte(copies: &[MemoryCopy], bytes: u64) -> Option<f64> {
    let of = |copy: &MemoryCopy| copy.copy_ns / copy.bytes as f64;
    let above = copies.iter().position(|copy| copy.bytes >= bytes);
    match above {
        Some(0) => copies.first().map(of),
        None => copies.last().map(of),
        Some(at) => {
            let (low, high) = (&copies[at - 1], &copies[at]);
            let part = (bytes as f64 / low.bytes as f64).ln() / (high.bytes as f64 / low.bytes as f64).ln();
            Some(of(low) + (of(high) - of(low)) * part)
        }
    }
}

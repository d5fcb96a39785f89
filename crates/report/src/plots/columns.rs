//! Stacked columns, and single columns with intervals.

use super::chart::{Chart, Color, PALETTE, WHITE};
use super::frame::Frame;
use super::render::{Point, Shape};
use super::style::INK;

/// Draws the columns from bottom to top, with the interval of the whole at their tops.
pub fn shapes(chart: &Chart, frame: &Frame, shapes: &mut Vec<Shape>) {
    const WIDEST: f64 = 64.0;
    let slot = (frame.right - frame.left) / count(chart).max(1) as f64;
    let half = (slot * 0.3).clamp(1.0, WIDEST / 2.0);
    let base = frame.base();
    for category in 0..count(chart) {
        let (mut below, mut sum) = (base, 0.0);
        for (index, part) in chart.stacks.iter().enumerate() {
            let Some(value) = part.values.get(category).filter(|value| value.is_finite() && **value > 0.0) else {
                continue;
            };
            sum += value;
            let Some((x, top)) = frame.at(category as f64, sum) else { continue };
            // Values above 0 are at least one pixel high.
            let top = top.min(below - 1.0);
            let color = color(chart, index);
            fill([(x - half, top), (x + half, below)], color, hatch(chart, index), shapes);
            below = top;
        }
        for (low, high) in chart.stacks.iter().filter_map(|part| *part.intervals.get(category)?) {
            frame.interval((category as f64, low, high), INK, shapes);
        }
    }
}

fn count(chart: &Chart) -> usize {
    chart.stacks.iter().map(|part| part.values.len()).max().unwrap_or(0)
}

/// Values that the vertical axis must show.
pub fn extent(chart: &Chart) -> impl Iterator<Item = f64> {
    let sum = |category: usize| {
        let values = chart.stacks.iter().filter_map(move |part| part.values.get(category).copied());
        values.filter(|value| value.is_finite()).sum::<f64>()
    };
    let intervals = chart.stacks.iter().flat_map(|part| part.intervals.iter().flatten());
    let least = chart.stacks.first().filter(|_| chart.y.log).into_iter().flat_map(|part| part.values.iter().copied());
    let sums = (0..count(chart)).map(sum).filter(|sum| !chart.y.log || *sum > 0.0);
    sums.chain(least.filter(|value| *value > 0.0)).chain(intervals.flat_map(|ends| [ends.0, ends.1]))
}

pub fn color(chart: &Chart, part: usize) -> Color {
    chart.stacks[part].color.unwrap_or(PALETTE[part % PALETTE.len()])
}

/// Pattern that distinguishes parts without colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hatch {
    Plain,
    Rising,
    Falling,
    Level,
}

/// Hatch of a part; a single part has none.
pub fn hatch(chart: &Chart, part: usize) -> Hatch {
    const HATCHES: [Hatch; 4] = [Hatch::Plain, Hatch::Rising, Hatch::Falling, Hatch::Level];
    if chart.stacks.len() > 1 { HATCHES[part % HATCHES.len()] } else { Hatch::Plain }
}

/// Fills a box between its upper left and lower right corners with a colour and a hatch of white lines.
pub fn fill([from, to]: [Point; 2], color: Color, hatch: Hatch, shapes: &mut Vec<Shape>) {
    const DISTANCE: f64 = 7.0;
    shapes.push(Shape::Box { from, to, color });
    let ((left, top), (right, bottom)) = (from, to);
    let mut line = |points: Vec<Point>| shapes.push(Shape::Path { points, color: WHITE, width: 1.0 });
    let (wide, high) = (right - left, bottom - top);
    if hatch == Hatch::Level {
        let lines = (1..).map(|index| bottom - DISTANCE * 0.7 * f64::from(index)).take_while(|y| *y > top + 1.0);
        lines.for_each(|y| line(vec![(left, y), (right, y)]));
    } else if hatch != Hatch::Plain {
        // Each line enters at the left or bottom edge, and leaves at the top or right edge.
        let starts = (1..).map(|index| DISTANCE * f64::from(index)).take_while(|start| *start < wide + high);
        for start in starts {
            let enters = ((start - high).max(0.0), start.min(high));
            let leaves = (start.min(wide), (start - wide).max(0.0));
            let at = |(x, y): Point| match hatch {
                Hatch::Rising => (left + x, top + y),
                _ => (right - x, top + y),
            };
            line(vec![at(enters), at(leaves)]);
        }
    }
    // A gap separates parts of the same colour.
    line(vec![(left, top), (right, top)]);
}

//! Converts a chart to shapes at their positions.

use super::chart::{AxisValue, Chart};
use super::frame::{Frame, GREY, LABEL_EM, PAD, RIGHT_GAP, TICK_EM, XAxis, label};
use super::legend::Legend;
use super::render::{Align, Shape};
use super::scale::{Scale, count, range};
use super::style::{INK, styles};
use super::{columns, heat, text};

const TITLE_EM: f64 = 19.0;
const NOTE_EM: f64 = 12.0;
/// Maximum length of an upright category label, in pixels.
const UPRIGHT: f64 = 150.0;
/// Narrower pictures, e.g. for a column of a paper, have their legend below the chart.
const NARROW: f64 = 700.0;

/// Shapes of a chart in a picture of this size.
pub fn shapes(chart: &Chart, width: f64, height: f64) -> Vec<Shape> {
    let mut shapes = Vec::new();
    let top = header(chart, width, &mut shapes);
    if let Some(map) = &chart.heat {
        let bottom = footer(&chart.notes, width, height, &mut shapes);
        heat::shapes(chart, map, [(PAD, top), (width - PAD, bottom)], &mut shapes);
        return shapes;
    }
    // Labels of powers of ten may be closer together.
    let distance = if chart.y.log && width < NARROW { 30.0 } else { 48.0 };
    let (y, notes) = y_scale(chart, ((height - top - 80.0) / distance).clamp(3.0, 10.0) as usize);
    let bottom = footer(&notes, width, height, &mut shapes);
    let styles = styles(chart);
    let legend = match width < NARROW {
        true => Legend::below(chart, &styles, width - 2.0 * PAD, (bottom - top) * 0.45),
        false => Legend::beside(chart, &styles, (width * 0.34).min(340.0), bottom - top - 40.0),
    };
    let widest = y.ticks.iter().map(|(_, label)| text::width(label, TICK_EM)).fold(0.0, f64::max);
    let left = PAD + LABEL_EM * 1.7 + widest + 10.0;
    let right = width - PAD - if legend.width > 0.0 { legend.width + RIGHT_GAP } else { 6.0 };
    let x = XAxis::new(chart, (right - left).max(20.0), (height * 0.37).min(UPRIGHT));
    let below = bottom - legend.height;
    let frame = Frame { left, right: right.max(left + 20.0), top, bottom: (below - x.height).max(top + 20.0), x, y };
    frame.grid(&mut shapes);
    frame.bands(chart, &mut shapes);
    frame.bars(chart, &mut shapes);
    columns::shapes(chart, &frame, &mut shapes);
    frame.marks(chart, &mut shapes);
    for (line, style) in chart.lines.iter().zip(&styles) {
        line.intervals.iter().for_each(|ends| frame.interval(*ends, style.color, &mut shapes));
        frame.line(&line.points, style, &mut shapes);
    }
    frame.axes(chart, &mut shapes);
    let corner = if legend.height > 0.0 { (PAD, below + 6.0) } else { (frame.right + RIGHT_GAP, frame.top) };
    legend.shapes(corner, &mut shapes);
    shapes
}

/// Draws title, reading and subtitle; returns the upper edge of the remaining area.
fn header(chart: &Chart, width: f64, shapes: &mut Vec<Shape>) -> f64 {
    let room = width - 2.0 * PAD;
    shapes.push(label((PAD, PAD + 14.0), text::fit(&chart.title, TITLE_EM, room), TITLE_EM, INK, Align::Start));
    let mut base = PAD + 14.0;
    for (words, most, color) in [(&chart.reading, 3, INK), (&chart.subtitle, 2, GREY)] {
        for line in text::wrap(words, LABEL_EM, room).into_iter().take(most) {
            base += 20.0;
            shapes.push(label((PAD, base), line, LABEL_EM, color, Align::Start));
        }
    }
    base + 20.0
}

/// Draws the notes; returns the lower edge of the remaining area.
fn footer(notes: &[String], width: f64, height: f64, shapes: &mut Vec<Shape>) -> f64 {
    let lines: Vec<_> = notes.iter().flat_map(|note| text::wrap(note, NOTE_EM, width - 2.0 * PAD)).take(5).collect();
    let top = height - PAD - lines.len() as f64 * 16.0;
    for (index, line) in lines.into_iter().enumerate() {
        let base = top + 16.0 * (index as f64 + 1.0) - 1.0;
        shapes.push(label((PAD, base), line, NOTE_EM, GREY, Align::Start));
    }
    if notes.is_empty() { top } else { top - 6.0 }
}

/// Vertical axis, and the chart's notes with those on values that the axis cannot show.
fn y_scale(chart: &Chart, wanted: usize) -> (Scale, Vec<String>) {
    let lines = chart.lines.iter().flat_map(|line| line.points.iter().map(|point| point.1));
    let intervals = chart.lines.iter().flat_map(|line| line.intervals.iter().flat_map(|ends| [ends.1, ends.2]));
    let bands = chart.bands.iter().flat_map(|band| band.points.iter().flat_map(|point| [point.1, point.2]));
    let marks = chart.marks.iter().filter_map(|mark| match mark.at {
        AxisValue::Y(value) => Some(value),
        AxisValue::X(_) => None,
    });
    let bars = chart.bars.iter().map(|bar| bar.count).filter(|&count| !chart.y.log || count > 0.0);
    let stacked = columns::extent(chart);
    let values: Vec<f64> = lines.chain(intervals).chain(bands).chain(marks).chain(bars).chain(stacked).collect();
    let mut notes = chart.notes.clone();
    let (low, high, hidden) = range(&values, chart.y.log);
    if hidden > 0 {
        notes.push(format!("{} of 0 or less cannot be shown on the logarithmic axis.", values_of(hidden)));
    }
    if low > high {
        notes.push("There is no value to show.".to_owned());
        return (Scale::linear(0.0, 1.0, wanted, chart.y.whole), notes);
    }
    if chart.y.log {
        // Leaves some height for the lowest column.
        let low = if chart.stacks.is_empty() { low } else { low / 2.0 };
        return (Scale::log(low, high, wanted), notes);
    }
    let (low, high) = match chart.bars.is_empty() && chart.stacks.is_empty() {
        true => linear_range(low, high, chart.y.from_zero),
        false => (0.0, high),
    };
    if low > 0.0 {
        notes.push("The vertical axis does not begin at 0.".to_owned());
    }
    (Scale::linear_rounded(low, high, wanted, chart.y.whole), notes)
}

/// Ends of a linear axis with room for markers: from 0, unless that would squeeze all values into its upper part.
fn linear_range(low: f64, high: f64, from_zero: bool) -> (f64, f64) {
    const SQUEEZED: f64 = 0.7;
    const ROOM: f64 = 0.02;
    if low < 0.0 {
        return (low - (high.max(0.0) - low) * ROOM, high.max(0.0) * (1.0 + ROOM));
    }
    if from_zero || low <= high * SQUEEZED || low == high {
        return (0.0, high * (1.0 + ROOM));
    }
    // Differences of a few per cent must not look large.
    let room = ((high - low) * 0.05).max((high * 0.1 - (high - low)) / 2.0);
    (low - room, high + room)
}

fn values_of(number: usize) -> String {
    if number == 1 { "1 value".to_owned() } else { format!("{} values", count(number as u64)) }
}

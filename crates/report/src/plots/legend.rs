//! The legend: names beside the chart, each with what it looks like there.

use super::chart::{AxisValue, BLUE, Chart, Color, Marker, PALETTE, Stroke};
use super::columns::{self, Hatch};
use super::render::{Align, Point, Shape};
use super::text;

const EM: f64 = 12.5;
const LINE: f64 = 20.0;
/// Of a legend below the chart.
const LOW_LINE: f64 = 17.0;
const SAMPLE: f64 = 26.0;
const GAP: f64 = 8.0;
/// The colour of texts.
pub const INK: Color = [0x26, 0x26, 0x26];
/// The colour of bands: the first colour, pale.
pub const PALE: Color = [0x74, 0xAB, 0xD4];

/// A line's look with nothing left open.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    pub color: Color,
    pub marker: Marker,
    pub stroke: Stroke,
    pub width: f64,
    pub radius: f64,
}

/// The looks of the chart's lines: colours and markers in turn, where they are not fixed.
pub fn styles(chart: &Chart) -> Vec<Style> {
    const MARKERS: [Marker; 6] =
        [Marker::Circle, Marker::Square, Marker::Triangle, Marker::Diamond, Marker::Down, Marker::Cross];
    let (mut colors, mut markers) = (PALETTE.iter().cycle(), MARKERS.iter().cycle());
    let style = |line: &super::chart::Line| {
        let crowded = line.points.len() > 60;
        Style {
            color: line.look.color.unwrap_or_else(|| *colors.next().unwrap_or(&BLUE)),
            marker: match line.look.marker {
                Marker::Auto => *markers.next().unwrap_or(&Marker::Circle),
                fixed => fixed,
            },
            stroke: line.look.stroke,
            width: if line.look.strong { 3.0 } else { 2.0 },
            radius: if crowded { 2.5 } else { 4.0 },
        }
    };
    chart.lines.iter().map(style).collect()
}

/// What an entry looks like.
enum LegendKey {
    Line(Style),
    Part(Color, Hatch),
    Band,
    Mark(Color, bool),
    /// Entries that there is no room for.
    More,
}

/// The legend of a chart.
pub struct Legend {
    entries: Vec<(LegendKey, String)>,
    /// Entries beside each other, and the distance of their left ends in pixels.
    columns: (usize, f64),
    /// Its width in pixels, if it is beside the chart; else 0.
    pub width: f64,
    /// Its height in pixels, if it is below the chart; else 0.
    pub height: f64,
}

impl Legend {
    /// A legend beside the chart, in at most these pixels. Of too many entries those in the middle are left out, and
    /// counted.
    pub fn beside(chart: &Chart, styles: &[Style], width: f64, height: f64) -> Self {
        let mut entries = entries(chart, styles, width - SAMPLE - GAP);
        shorten(&mut entries, ((height / LINE) as usize).max(3));
        let width = if entries.is_empty() { 0.0 } else { widest(&entries).ceil() + SAMPLE + GAP };
        Self { entries, columns: (1, 0.0), width, height: 0.0 }
    }

    /// A legend below the chart, in two columns or more, in about these pixels.
    pub fn below(chart: &Chart, styles: &[Style], width: f64, height: f64) -> Self {
        let mut entries = entries(chart, styles, width / 2.0 - SAMPLE - 3.0 * GAP);
        if entries.is_empty() {
            return Self { entries, columns: (1, 0.0), width: 0.0, height: 0.0 };
        }
        let column = (widest(&entries) + SAMPLE + 3.0 * GAP).min(width);
        let columns = ((width / column) as usize).clamp(1, entries.len());
        shorten(&mut entries, ((height / LOW_LINE) as usize).max(1) * columns);
        let height = entries.len().div_ceil(columns) as f64 * LOW_LINE + 10.0;
        Self { entries, columns: (columns, column), width: 0.0, height }
    }

    /// Its shapes, from this upper left corner on.
    pub fn shapes(&self, (left, top): Point, shapes: &mut Vec<Shape>) {
        for (index, (key, name)) in self.entries.iter().enumerate() {
            let (columns, distance) = self.columns;
            let line = if self.height > 0.0 { LOW_LINE } else { LINE };
            let middle = top + ((index / columns) as f64 + 0.5) * line;
            let left = left + (index % columns) as f64 * distance;
            let (from, to) = ((left, middle), (left + SAMPLE, middle));
            match key {
                LegendKey::Line(style) => {
                    stroke(&[from, to], style.stroke, style.color, style.width, shapes);
                    marker(style, (left + SAMPLE / 2.0, middle), shapes);
                }
                LegendKey::Part(color, hatch) => {
                    columns::fill([(left, middle - 6.0), (left + SAMPLE, middle + 6.0)], *color, *hatch, shapes);
                }
                LegendKey::Band => shapes.push(Shape::Box {
                    from: (left, middle - 6.0),
                    to: (left + SAMPLE, middle + 6.0),
                    color: PALE,
                }),
                LegendKey::Mark(color, true) => {
                    let x = left + SAMPLE / 2.0;
                    stroke(&[(x, middle - 8.0), (x, middle + 9.0)], Stroke::Dashed, *color, 2.0, shapes);
                }
                LegendKey::Mark(color, false) => stroke(&[from, to], Stroke::Dashed, *color, 2.0, shapes),
                LegendKey::More => {}
            }
            shapes.push(Shape::Text {
                at: (left + SAMPLE + GAP, middle + EM * 0.36),
                text: name.clone(),
                em: EM,
                color: INK,
                align: Align::Start,
                upward: false,
            });
        }
    }
}

/// What has a name. A single line or part needs none: the title says what it is.
fn entries(chart: &Chart, styles: &[Style], limit: f64) -> Vec<(LegendKey, String)> {
    let parts =
        chart.stacks.iter().enumerate().map(|(index, part)| {
            (LegendKey::Part(columns::color(chart, index), columns::hatch(chart, index)), &part.name)
        });
    let bands = chart.bands.iter().map(|band| (LegendKey::Band, &band.name));
    let lines = chart.lines.iter().zip(styles).map(|(line, style)| (LegendKey::Line(*style), &line.name));
    let marks =
        chart.marks.iter().map(|mark| (LegendKey::Mark(mark.color, matches!(mark.at, AxisValue::X(_))), &mark.name));
    let named = parts.rev().chain(bands).chain(lines).chain(marks).filter(|(_, name)| !name.is_empty());
    let entries: Vec<_> = named.map(|(key, name)| (key, text::fit(name, EM, limit))).collect();
    let is_alone = entries.len() == 1 && chart.lines.len() + chart.stacks.len() == 1;
    if is_alone { Vec::new() } else { entries }
}

/// Leaves out those in the middle of more than `most`, and counts them.
fn shorten(entries: &mut Vec<(LegendKey, String)>, most: usize) {
    if entries.len() > most {
        let (head, tail) = (most / 2, most - 1 - most / 2);
        let left_out = entries.len() - head - tail;
        entries.splice(head..head + left_out, [(LegendKey::More, format!("… {left_out} more"))]);
    }
}

fn widest(entries: &[(LegendKey, String)]) -> f64 {
    entries.iter().map(|(_, name)| text::width(name, EM)).fold(0.0, f64::max)
}

/// The shapes of a line through these points.
pub fn stroke(points: &[Point], stroke: Stroke, color: Color, width: f64, shapes: &mut Vec<Shape>) {
    let on_off: &[f64] = match stroke {
        Stroke::None => return,
        Stroke::Solid => return shapes.push(Shape::Path { points: points.to_vec(), color, width }),
        Stroke::Dashed => &[7.0, 4.5],
        Stroke::Dotted => &[1.5, 3.5],
        Stroke::DashDot => &[8.0, 3.5, 1.5, 3.5],
    };
    shapes.extend(dashes(points, on_off).into_iter().map(|points| Shape::Path { points, color, width }));
}

/// The dashes of a line through these points: lengths that are drawn and left out in turn.
fn dashes(points: &[Point], on_off: &[f64]) -> Vec<Vec<Point>> {
    let mut dashes = Vec::new();
    let (mut phase, mut left) = (0, on_off[0]);
    let mut dash: Vec<Point> = points.first().copied().into_iter().collect();
    for pair in points.windows(2) {
        let (mut at, end) = (pair[0], pair[1]);
        loop {
            let rest = (end.0 - at.0).hypot(end.1 - at.1);
            if rest <= left {
                left -= rest;
                dash.push(end);
                break;
            }
            let part = left / rest;
            at = (at.0 + (end.0 - at.0) * part, at.1 + (end.1 - at.1) * part);
            dash.push(at);
            if phase % 2 == 0 {
                dashes.push(std::mem::take(&mut dash));
            }
            phase = (phase + 1) % on_off.len();
            left = on_off[phase];
            dash = vec![at];
        }
    }
    if phase % 2 == 0 && dash.len() > 1 {
        dashes.push(dash);
    }
    dashes
}

/// The shapes of a marker.
pub fn marker(style: &Style, (x, y): Point, shapes: &mut Vec<Shape>) {
    let (r, color) = (style.radius, style.color);
    let area = |points: Vec<Point>| Shape::Area { points, color };
    let shape = match style.marker {
        Marker::Auto | Marker::None => return,
        Marker::Dot => Shape::Disc { center: (x, y), radius: 1.5, color },
        Marker::Circle => Shape::Disc { center: (x, y), radius: r, color },
        Marker::Square => {
            let r = r * 0.9;
            area(vec![(x - r, y - r), (x + r, y - r), (x + r, y + r), (x - r, y + r)])
        }
        Marker::Triangle => area(vec![(x, y - r * 1.25), (x + r * 1.2, y + r * 0.9), (x - r * 1.2, y + r * 0.9)]),
        Marker::Down => area(vec![(x, y + r * 1.25), (x + r * 1.2, y - r * 0.9), (x - r * 1.2, y - r * 0.9)]),
        Marker::Diamond => {
            let r = r * 1.3;
            area(vec![(x, y - r), (x + r, y), (x, y + r), (x - r, y)])
        }
        Marker::Cross => {
            for sign in [1.0, -1.0] {
                let points = vec![(x - r, y - r * sign), (x + r, y + r * sign)];
                shapes.push(Shape::Path { points, color, width: 2.0 });
            }
            return;
        }
        Marker::Ring => {
            let turn = |step: i32| f64::from(step) * std::f64::consts::TAU / 24.0;
            let radius = r + 4.0;
            let points = (0..=24).map(|step| (x + radius * turn(step).cos(), y + radius * turn(step).sin())).collect();
            Shape::Path { points, color, width: 2.0 }
        }
    };
    shapes.push(shape);
}

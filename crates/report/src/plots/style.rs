//! Looks of lines and markers.

use super::chart::{BLUE, Chart, Color, Line, MARKERS, Marker, PALETTE, Stroke};
use super::render::{Point, Shape};

/// Colour of texts.
pub const INK: Color = [0x26, 0x26, 0x26];
/// Colour of bands: the first colour of the palette, paler.
pub const PALE: Color = [0x74, 0xAB, 0xD4];

/// Look of a line in which everything is determined.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    pub color: Color,
    pub marker: Marker,
    pub stroke: Stroke,
    pub width: f64,
    pub radius: f64,
}

/// Looks of the chart's lines; colours and markers that are not fixed are taken in turn.
pub fn styles(chart: &Chart) -> Vec<Style> {
    let (mut colors, mut markers) = (PALETTE.iter().cycle(), MARKERS.iter().cycle());
    let style = |line: &Line| {
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

/// Draws a line through these points.
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

/// Dashes of a line through these points; `on_off` has the lengths of dashes and gaps.
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

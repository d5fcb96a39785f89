//! Heat maps: rows of cells with texts over the categories of the horizontal axis.

use super::chart::{Chart, Color, Heat, HeatLevel, WHITE, X, between};
use super::frame::{GREY, TICK_EM, XAxis, label, x_labels};
use super::render::{Align, Point, Shape};
use super::style::INK;
use super::text;

/// Maximum share of the width that row names may take.
const NAMES: f64 = 0.4;
const GAP: f64 = 2.0;
/// Lower rows have no text in their cells, and only some have a name.
const LEAST_HEIGHT: f64 = 13.0;
const HIGHEST: f64 = 72.0;

/// Draws the map between these corners.
pub fn shapes(chart: &Chart, map: &Heat, [(left, top), (right, bottom)]: [Point; 2], shapes: &mut Vec<Shape>) {
    let names: &[String] = if let X::Categories { names, .. } = &chart.x { names } else { &[] };
    let limit = (right - left) * NAMES;
    let rows: Vec<String> = map.rows.iter().map(|name| text::fit(name, TICK_EM, limit)).collect();
    let widest = rows.iter().map(|name| text::width(name, TICK_EM)).fold(0.0, f64::max);
    let from = left + widest + 10.0;
    let x = XAxis::categories(names, right - from, (bottom - top) * NAMES);
    let row_height = ((bottom - x.height - top) / rows.len().max(1) as f64).clamp(1.0, HIGHEST);
    let end = top + row_height * rows.len() as f64;
    let slot = (right - from) / names.len().max(1) as f64;
    let every = (LEAST_HEIGHT / row_height).ceil().max(1.0) as usize;
    for (index, name) in rows.into_iter().enumerate().step_by(every) {
        let middle = top + (index as f64 + 0.5) * row_height;
        shapes.push(label((from - 8.0, middle + TICK_EM * 0.36), name, TICK_EM, INK, Align::End));
    }
    for cell in map.cells.iter().filter(|cell| cell.column < names.len() && cell.row < map.rows.len()) {
        let corner = (from + cell.column as f64 * slot, top + cell.row as f64 * row_height);
        let gap = GAP.min(row_height / 4.0);
        let (upper, lower) = (
            (corner.0 + gap / 2.0, corner.1 + gap / 2.0),
            (corner.0 + slot - gap / 2.0, corner.1 + row_height - gap / 2.0),
        );
        let (color, ink) = colors(cell.level);
        shapes.push(Shape::Box { from: upper, to: lower, color });
        outline(cell.level, [upper, lower], shapes);
        if row_height >= LEAST_HEIGHT {
            let em = TICK_EM.min(row_height * 0.8);
            let at = ((upper.0 + lower.0) / 2.0, (upper.1 + lower.1) / 2.0 + em * 0.36);
            shapes.push(label(at, text::fit(&cell.text, em, slot - 8.0), em, ink, Align::Middle));
        }
    }
    x_labels(&x, [from, right, end], chart.x.label(), shapes);
}

/// Colours of a cell and its text. Levels differ in lightness too.
fn colors(level: HeatLevel) -> (Color, Color) {
    match level {
        HeatLevel::Good => ([0x9C, 0xCF, 0xEE], INK),
        HeatLevel::Even => ([0xE9, 0xE9, 0xE9], INK),
        HeatLevel::Unclear => (WHITE, GREY),
        HeatLevel::Bad => ([0xF2, 0xA5, 0x6B], INK),
        HeatLevel::Scale(place) => {
            const PALE: Color = [0xF1, 0xF6, 0xFA];
            const DARK: Color = [0x08, 0x4A, 0x84];
            let part = if place.is_finite() { place.clamp(0.0, 1.0) } else { 0.0 };
            (between(PALE, DARK, part), if part > 0.5 { WHITE } else { INK })
        }
    }
}

/// Draws a thick frame around bad cells, and a thin one around unclear cells.
fn outline(level: HeatLevel, [(left, top), (right, bottom)]: [Point; 2], shapes: &mut Vec<Shape>) {
    let (color, width) = match level {
        HeatLevel::Bad => (INK, 2.0),
        HeatLevel::Unclear => (GREY, 1.0),
        _ => return,
    };
    let points = vec![(left, top), (right, top), (right, bottom), (left, bottom), (left, top)];
    shapes.push(Shape::Path { points, color, width });
}

//! Legend: names, each with a sample of its line or colour.

use super::chart::{AxisValue, Chart, Color, Stroke};
use super::columns::{self, Hatch};
use super::frame::label;
use super::render::{Align, Point, Shape};
use super::style::{INK, PALE, Style, marker, stroke};
use super::text;

const EM: f64 = 12.5;
const LINE: f64 = 20.0;
/// Height of a line of a legend below the chart.
const LOW_LINE: f64 = 17.0;
const SAMPLE: f64 = 26.0;
const GAP: f64 = 8.0;
enum LegendKey {
    Line(Style),
    Part(Color, Hatch),
    Band,
    Mark(Color, bool),
    /// Number of entries left out for lack of room.
    More,
}

pub struct Legend {
    entries: Vec<(LegendKey, String)>,
    /// Number of columns, and the distance of their left edges in pixels.
    columns: (usize, f64),
    /// Width in pixels if it is beside the chart; else 0.
    pub width: f64,
    /// Height in pixels if it is below the chart; else 0.
    pub height: f64,
}

impl Legend {
    /// Legend beside the chart, of at most this size in pixels. If there are too many entries, those in the middle are
    /// left out and counted.
    pub fn beside(chart: &Chart, styles: &[Style], width: f64, height: f64) -> Self {
        let mut entries = entries(chart, styles, width - SAMPLE - GAP);
        shorten(&mut entries, ((height / LINE) as usize).max(3));
        let width = if entries.is_empty() { 0.0 } else { widest(&entries).ceil() + SAMPLE + GAP };
        Self { entries, columns: (1, 0.0), width, height: 0.0 }
    }

    /// Legend below the chart, in at least two columns and about this size in pixels.
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

    /// Draws the legend, with its upper left corner at this point.
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
                LegendKey::Mark(color, upright) => {
                    let x = left + SAMPLE / 2.0;
                    let ends = if *upright { [(x, middle - 8.0), (x, middle + 9.0)] } else { [from, to] };
                    stroke(&ends, Stroke::Dashed, *color, 2.0, shapes);
                }
                LegendKey::More => {}
            }
            let at = (left + SAMPLE + GAP, middle + EM * 0.36);
            shapes.push(label(at, name.clone(), EM, INK, Align::Start));
        }
    }
}

/// Entries of named parts. A single line or part needs none: the title names it.
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

/// Replaces the middle entries beyond `most` by their number.
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

//! Axes of a chart, and the area between them.

use super::chart::{AxisValue, BLUE, Chart, Color, Marker, Stroke, X};
use super::render::{Align, Point, Shape};
use super::scale::{Scale, drawable, range};
use super::style::{INK, PALE, Style, marker, stroke};
use super::text;

pub const PAD: f64 = 16.0;
pub const LABEL_EM: f64 = 13.5;
pub const TICK_EM: f64 = 12.5;
pub const GREY: Color = [0x5A, 0x5A, 0x5A];
const GRID: Color = [0xDD, 0xDD, 0xDD];
const FAINT: Color = [0xF0, 0xF0, 0xF0];
/// Gap between the chart and the legend, in pixels.
pub const RIGHT_GAP: f64 = 18.0;
/// Maximum number of lines in a category's label, and their distance.
const MOST_LINES: usize = 3;
const LINE: f64 = 16.0;

pub fn label(at: Point, text: String, em: f64, color: Color, align: Align) -> Shape {
    Shape::Text { at, text, em, color, align, upward: false }
}

/// Horizontal axis: its labels, and the mapping of values to places from 0 to 1.
pub struct XAxis {
    scale: Option<Scale>,
    categories: usize,
    /// Places from 0 to 1, with their texts.
    pub labels: Vec<(f64, String)>,
    pub upright: bool,
    /// Height of labels and title, in pixels.
    pub height: f64,
}

impl XAxis {
    pub fn new(chart: &Chart, width: f64, upright: f64) -> Self {
        match &chart.x {
            X::Categories { names, .. } => Self::categories(names, width, upright),
            X::Numbers { log, whole, .. } => Self::numbers(chart, width, *log, *whole),
            X::Percentiles { .. } => Self::numbers(chart, width, true, false),
        }
    }

    /// Axis of categories; names that do not fit side by side are upright, at most `upright` pixels long.
    pub fn categories(names: &[String], width: f64, upright: f64) -> Self {
        const LEAST_DISTANCE: f64 = 16.0;
        let slot = width / names.len().max(1) as f64;
        let fitted = |limit: f64| names.iter().map(|name| text::fit(name, TICK_EM, limit)).collect::<Vec<_>>();
        let place = |index: usize| (index as f64 + 0.5) / names.len() as f64;
        let level = names.iter().all(|name| text::width(name, TICK_EM) + 10.0 <= slot) || names.len() == 1;
        if let Some(broken) = (!level).then(|| broken(names, slot - 10.0)).flatten() {
            let lines = broken.iter().map(|text| text.lines().count()).max().unwrap_or(1);
            let labels = broken.into_iter().enumerate().map(|(index, text)| (place(index), text)).collect();
            let height = 46.0 + LINE * (lines - 1) as f64;
            return Self { scale: None, categories: names.len(), labels, upright: false, height };
        }
        let texts = fitted(if level { slot } else { upright });
        // If there is no room for all labels, the last one is always shown.
        let every = if level { 1 } else { (LEAST_DISTANCE / slot).ceil().max(1.0) as usize };
        let named = texts.into_iter().enumerate().rev().step_by(every);
        let mut labels: Vec<_> = named.map(|(index, text)| (place(index), text)).collect();
        labels.reverse();
        let long = labels.iter().map(|(_, text)| text::width(text, TICK_EM)).fold(0.0, f64::max);
        let height = if level { 46.0 } else { 34.0 + long };
        Self { scale: None, categories: names.len(), labels, upright: !level, height }
    }

    fn numbers(chart: &Chart, width: f64, log: bool, whole: bool) -> Self {
        let lines = chart.lines.iter().flat_map(|line| line.points.iter().map(|point| point.0));
        let bands = chart.bands.iter().flat_map(|band| band.points.iter().map(|point| point.0));
        let bars = chart.bars.iter().flat_map(|bar| [bar.from, bar.to]);
        let (low, high, _) = range(&lines.chain(bands).chain(bars).collect::<Vec<_>>(), log);
        let wanted = (width / 85.0).clamp(2.0, 12.0) as usize;
        let scale = match (low > high, log) {
            (true, _) => Scale::linear(0.0, 1.0, wanted, whole),
            (false, _) if matches!(chart.x, X::Percentiles { .. }) => Scale::percentiles(low, high),
            (false, true) if chart.x.label().ends_with("[bytes]") => Scale::sizes(low, high, wanted),
            (false, true) => Scale::log(low, high, wanted),
            // Keeps points clear of the vertical axis and of the right edge.
            (false, false) if chart.bars.is_empty() => {
                let room = (high - low) * 0.01;
                Scale::linear(low - room, high + room, wanted, whole)
            }
            (false, false) => Scale::linear(low, high, wanted, whole),
        };
        let mut labels: Vec<_> = scale.ticks.iter().map(|(value, text)| (scale.place(*value), text.clone())).collect();
        while labels.len() > 2 && overlap(&labels, width) {
            labels = labels.into_iter().step_by(2).collect();
        }
        Self { scale: Some(scale), categories: 0, labels, upright: false, height: 46.0 }
    }

    /// Place of a value: 0 at the left end, 1 at the right end; `None` if it cannot be drawn.
    fn place(&self, value: f64) -> Option<f64> {
        match &self.scale {
            Some(scale) => drawable(value, scale.is_log()).then(|| scale.place(value)),
            None => drawable(value, false).then(|| ((value + 0.5) / self.categories.max(1) as f64).clamp(0.0, 1.0)),
        }
    }
}

/// Draws labels and title of a horizontal axis from `left` to `right`, below `bottom`.
pub fn x_labels(x: &XAxis, [left, right, bottom]: [f64; 3], title: &str, shapes: &mut Vec<Shape>) {
    for (place, text) in &x.labels {
        let at = left + (right - left) * place;
        shapes.push(Shape::Path { points: vec![(at, bottom), (at, bottom + 4.0)], color: GREY, width: 1.0 });
        match x.upright {
            false => shapes.extend(text.lines().enumerate().map(|(index, line)| {
                // The last label must stay inside the picture and clear of the legend.
                let at = at.min(right + RIGHT_GAP - text::width(line, TICK_EM) / 2.0);
                let base = bottom + 19.0 + LINE * index as f64;
                label((at, base), line.to_owned(), TICK_EM, INK, Align::Middle)
            })),
            true => {
                let at = (at + TICK_EM * 0.36, bottom + 8.0);
                let text = text.clone();
                shapes.push(Shape::Text { at, text, em: TICK_EM, color: INK, align: Align::End, upward: true });
            }
        }
    }
    let title = text::fit(title, LABEL_EM, right - left + 40.0);
    shapes.push(label(((left + right) / 2.0, bottom + x.height - 4.0), title, LABEL_EM, INK, Align::Middle));
}

/// Names broken after separators into lines no wider than `limit`; `None` if a name does not fit even then.
fn broken(names: &[String], limit: f64) -> Option<Vec<String>> {
    let of_name = |name: &String| {
        let mut lines: Vec<String> = vec![String::new()];
        for part in name.split_inclusive(['/', '?', '&', ' ', '-']) {
            let line = lines.last_mut()?;
            match text::width(&format!("{line}{}", part.trim_end()), TICK_EM) <= limit {
                true => line.push_str(part),
                false => lines.push(part.to_owned()),
            }
        }
        let fits = lines.len() <= MOST_LINES && lines.iter().all(|line| text::width(line.trim_end(), TICK_EM) <= limit);
        let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).filter(|line| !line.is_empty()).collect();
        fits.then(|| lines.join("\n"))
    };
    let is_whole = names.iter().all(|name| !name.contains(char::is_control) && name.contains(['/', ' ']));
    is_whole.then(|| names.iter().map(of_name).collect()).flatten()
}

fn overlap(labels: &[(f64, String)], width: f64) -> bool {
    let half = |label: &(f64, String)| text::width(&label.1, TICK_EM) / 2.0;
    labels.windows(2).any(|pair| (pair[1].0 - pair[0].0) * width < half(&pair[0]) + half(&pair[1]) + 8.0)
}

/// Rectangle between the axes.
pub struct Frame {
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
    pub x: XAxis,
    pub y: Scale,
}

impl Frame {
    fn x_at(&self, place: f64) -> f64 {
        self.left + (self.right - self.left) * place
    }

    pub fn y_at(&self, value: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * self.y.place(value)
    }

    /// Lower end of columns and bars.
    pub fn base(&self) -> f64 {
        self.y_at(if self.y.is_log() { self.y.low() } else { 0.0 })
    }

    /// Position of a point; `None` if it cannot be drawn.
    pub fn at(&self, x: f64, y: f64) -> Option<Point> {
        let place = self.x.place(x)?;
        drawable(y, self.y.is_log()).then(|| (self.x_at(place), self.y_at(y)))
    }

    pub fn grid(&self, shapes: &mut Vec<Shape>) {
        let level = |y: f64, color| Shape::Path { points: vec![(self.left, y), (self.right, y)], color, width: 1.0 };
        let upright = |x: f64, color| Shape::Path { points: vec![(x, self.top), (x, self.bottom)], color, width: 1.0 };
        shapes.extend(self.y.minor.iter().map(|value| level(self.y_at(*value), FAINT)));
        if let Some(scale) = &self.x.scale {
            shapes.extend(scale.minor.iter().map(|value| upright(self.x_at(scale.place(*value)), FAINT)));
        }
        shapes.extend(self.y.ticks.iter().map(|(value, _)| level(self.y_at(*value), GRID)));
        shapes.extend(self.x.labels.iter().map(|(place, _)| upright(self.x_at(*place), GRID)));
    }

    pub fn axes(&self, chart: &Chart, shapes: &mut Vec<Shape>) {
        let (left, right, bottom) = (self.left, self.right, self.bottom);
        let axis = |points| Shape::Path { points, color: GREY, width: 1.0 };
        shapes.push(axis(vec![(left, self.top), (left, bottom)]));
        shapes.push(axis(vec![(left, bottom), (right, bottom)]));
        let mut above = f64::INFINITY;
        for (value, text) in &self.y.ticks {
            let y = self.y_at(*value);
            shapes.push(axis(vec![(left - 4.0, y), (left, y)]));
            if above - y < TICK_EM {
                continue;
            }
            above = y;
            shapes.push(label((left - 8.0, y + TICK_EM * 0.36), text.clone(), TICK_EM, INK, Align::End));
        }
        x_labels(&self.x, [left, right, bottom], chart.x.label(), shapes);
        let text = text::fit(&chart.y.label, LABEL_EM, bottom - self.top + 40.0);
        // The label must not reach into the lines above the chart.
        let half = text::width(&text, LABEL_EM) / 2.0;
        let at = (PAD + LABEL_EM * 0.75, ((self.top + bottom) / 2.0).max(self.top + half - 4.0));
        shapes.push(Shape::Text { at, text, em: LABEL_EM, color: INK, align: Align::Middle, upward: true });
    }

    pub fn bands(&self, chart: &Chart, shapes: &mut Vec<Shape>) {
        for band in &chart.bands {
            let half = ((self.right - self.left) / band.points.len().max(1) as f64 / 2.0).max(0.5);
            for &(x, low, high) in &band.points {
                if let Some((low, high)) = self.at(x, low).zip(self.at(x, high)) {
                    let left = (low.0 - half).max(self.left);
                    let from = (left, high.1.min(low.1 - 1.0));
                    shapes.push(Shape::Box { from, to: ((low.0 + half).min(self.right), low.1), color: PALE });
                }
            }
        }
    }

    pub fn bars(&self, chart: &Chart, shapes: &mut Vec<Shape>) {
        const LEAST_HEIGHT: f64 = 2.0;
        let base = self.base();
        for bar in chart.bars.iter().filter(|bar| bar.count > 0.0) {
            let (Some((left, top)), Some((right, _))) = (self.at(bar.from, bar.count), self.at(bar.to, bar.count))
            else {
                continue;
            };
            let from = (left, top.min(base - LEAST_HEIGHT));
            shapes.push(Shape::Box { from, to: (right.max(left + 1.0), base), color: BLUE });
        }
    }

    pub fn marks(&self, chart: &Chart, shapes: &mut Vec<Shape>) {
        for mark in &chart.marks {
            let ends = match mark.at {
                AxisValue::X(value) => {
                    self.x.place(value).map(|place| [(self.x_at(place), self.top), (self.x_at(place), self.bottom)])
                }
                AxisValue::Y(value) => drawable(value, self.y.is_log())
                    .then(|| [(self.left, self.y_at(value)), (self.right, self.y_at(value))]),
            };
            if let Some(ends) = ends {
                stroke(&ends, Stroke::Dashed, mark.color, 2.0, shapes);
            }
        }
    }

    /// Draws an interval at x as a vertical bar between two values, with a cap at each end.
    pub fn interval(&self, (x, low, high): (f64, f64, f64), color: Color, shapes: &mut Vec<Shape>) {
        const CAP: f64 = 4.0;
        let cap = |(x, y): Point| vec![(x - CAP, y), (x + CAP, y)];
        if let Some((low, high)) = self.at(x, low).zip(self.at(x, high)) {
            let paths = [vec![low, high], cap(low), cap(high)];
            shapes.extend(paths.map(|points| Shape::Path { points, color, width: 1.5 }));
        }
    }

    pub fn line(&self, points: &[(f64, f64)], style: &Style, shapes: &mut Vec<Shape>) {
        let places: Vec<Option<Point>> = points.iter().map(|&(x, y)| self.at(x, y)).collect();
        for part in places.split(Option::is_none) {
            let part: Vec<Point> = part.iter().flatten().copied().collect();
            match part.as_slice() {
                [] => {}
                // A single point without a marker would be invisible, as it has no line.
                [alone] if matches!(style.marker, Marker::None) => {
                    shapes.push(Shape::Disc { center: *alone, radius: style.width, color: style.color });
                }
                part => stroke(part, style.stroke, style.color, style.width, shapes),
            }
        }
        for place in places.into_iter().flatten() {
            marker(style, place, shapes);
        }
    }
}

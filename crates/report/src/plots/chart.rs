//! Parts of a chart. All fields are data; nothing is drawn before [`Chart::draw`].

use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A chart: titles, two axes, and between them, in this order, bars, bands, lines and marks.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Chart {
    /// File name without extension.
    pub name: String,
    /// First line, in large letters.
    pub title: String,
    /// Second line, in small letters: number of samples, names, settings.
    pub subtitle: String,
    /// Finding in one sentence; empty for charts in the style of other tools.
    pub reading: String,
    pub x: X,
    pub y: Y,
    /// Bars of a histogram.
    pub bars: Vec<Bar>,
    /// Parts of stacked columns, from bottom to top; the horizontal axis has categories.
    pub stacks: Vec<Stack>,
    /// Heat map; the horizontal axis has categories, and nothing else is drawn.
    pub heat: Option<Heat>,
    /// Columns from a lower to an upper value at each x.
    pub bands: Vec<Band>,
    /// Lines, markers, or both.
    pub lines: Vec<Line>,
    /// Single named values, drawn as dashed lines across the chart.
    pub marks: Vec<Mark>,
    /// Notes below the chart, one line each.
    pub notes: Vec<String>,
}

/// The horizontal axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum X {
    /// Names at equal distances; the x of a point is the index of its category.
    Categories {
        /// Axis title, with unit.
        label: String,
        names: Vec<String>,
    },
    /// Numbers; the range follows the data.
    Numbers {
        /// Axis title, with unit.
        label: String,
        /// Logarithmic axis; values of 0 or less are left out, and a note says so.
        log: bool,
        /// True for whole numbers, which have no ticks between them.
        whole: bool,
    },
    /// Percentiles with equal distances between the nines: the x of the p-th quantile is 1 / (1 - p), on a logarithmic
    /// axis.
    Percentiles {
        /// Axis title.
        label: String,
    },
}

impl X {
    pub fn label(&self) -> &str {
        match self {
            X::Categories { label, .. } | X::Numbers { label, .. } | X::Percentiles { label } => label,
        }
    }
}

impl Default for X {
    fn default() -> Self {
        X::Numbers { label: String::new(), log: false, whole: false }
    }
}

/// The vertical axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Y {
    /// Axis title, with unit.
    pub label: String,
    /// Logarithmic axis; values of 0 or less are left out, and a note says so.
    pub log: bool,
    /// True if a linear axis must begin at 0 (or below), even if all values are far from it.
    pub from_zero: bool,
    /// True for whole numbers, which have no ticks between them.
    pub whole: bool,
}

/// A line through points, with a marker at each.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Line {
    /// Name in the legend; an empty name has no entry.
    pub name: String,
    /// Points in drawing order. A value that is not finite makes a gap.
    pub points: Vec<(f64, f64)>,
    /// Intervals as x, lower and upper end, drawn as vertical bars.
    pub intervals: Vec<(f64, f64, f64)>,
    pub look: Look,
}

impl Line {
    /// Rings around points, if any, at which the rate was missed.
    pub fn missed_rates(points: Vec<(f64, f64)>) -> Option<Self> {
        let look = Look { color: Some(VERMILLION), marker: Marker::Ring, stroke: Stroke::None, strong: false };
        let name = "the rate was missed".to_owned();
        (!points.is_empty()).then(|| Self { name, points, look, ..Self::default() })
    }
}

/// Look of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Look {
    /// Colour; `None` takes the next one of the palette.
    pub color: Option<Color>,
    pub marker: Marker,
    /// Line between the points.
    pub stroke: Stroke,
    /// True if drawn thicker than the others.
    pub strong: bool,
}

/// Line between points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Stroke {
    #[default]
    Solid,
    Dashed,
    Dotted,
    /// Alternating dashes and dots.
    DashDot,
    /// No line: a scatter plot.
    None,
}

impl Look {
    /// Look of a line among those of several results. Its place determines colour and marker; the folder determines the
    /// stroke, or in scatter plots also the marker. Black is reserved for the floor. The first 36 places all differ.
    pub fn for_line(place: usize, folder: usize) -> Self {
        const STROKES: [Stroke; 4] = [Stroke::Solid, Stroke::Dashed, Stroke::Dotted, Stroke::DashDot];
        let colors: Vec<_> = PALETTE.iter().filter(|color| **color != BLACK).collect();
        Self {
            color: Some(*colors[place % colors.len()]),
            marker: MARKERS[(place + place / colors.len() + folder) % MARKERS.len()],
            stroke: STROKES[folder % STROKES.len()],
            strong: false,
        }
    }

    /// Looks of lines, each with its kind and the index of its results: all of a kind have the same colour. `None` for
    /// lines of the same results.
    pub fn by_kind<K: Ord>(lines: &[(K, usize)]) -> Option<Vec<Self>> {
        let folders: BTreeSet<usize> = lines.iter().map(|line| line.1).collect();
        let mut kinds = BTreeMap::new();
        let looks = lines.iter().map(|(kind, folder)| {
            let next = kinds.len();
            Self::for_line(*kinds.entry(kind).or_insert(next), folders.range(..folder).count())
        });
        (folders.len() > 1).then(|| looks.collect())
    }
}

/// The marker at each point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Marker {
    /// Next shape in turn.
    #[default]
    Auto,
    None,
    /// One or two pixels, for many points.
    Dot,
    /// A filled circle.
    Circle,
    /// A filled square.
    Square,
    /// A triangle that points up.
    Triangle,
    /// Square standing on a corner.
    Diamond,
    /// A triangle that points down.
    Down,
    /// A diagonal cross.
    Cross,
    /// Ring around another marker.
    Ring,
}

/// Markers that lines take in turn.
pub(super) const MARKERS: [Marker; 6] =
    [Marker::Circle, Marker::Square, Marker::Triangle, Marker::Diamond, Marker::Down, Marker::Cross];

/// Red, green and blue.
pub type Color = [u8; 3];

/// Colour between two others, at a place from 0 to 1.
pub(super) fn between(from: Color, to: Color, place: f64) -> Color {
    let mix = |from: u8, to: u8| (f64::from(from) + (f64::from(to) - f64::from(from)) * place).round() as u8;
    [mix(from[0], to[0]), mix(from[1], to[1]), mix(from[2], to[2])]
}

/// Bar of a histogram, from 0 up; at least two pixels high unless it is empty.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bar {
    pub from: f64,
    pub to: f64,
    pub count: f64,
}

/// Part of every stacked column of a chart.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Stack {
    /// Name in the legend.
    pub name: String,
    /// Height in each category, 0 or more; NaN where there is no column.
    pub values: Vec<f64>,
    /// Interval of the whole column in each category, drawn as a vertical bar at its top; only on the last part.
    pub intervals: Vec<Option<(f64, f64)>>,
    /// Colour; `None` takes the next one of the palette.
    pub color: Option<Color>,
}

/// Heat map: rows of cells over the categories of the horizontal axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Heat {
    /// Names of the rows, from top to bottom.
    pub rows: Vec<String>,
    /// Cells; places without one are empty.
    pub cells: Vec<HeatCell>,
}

/// A cell of a heat map.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeatCell {
    /// Index of the category.
    pub column: usize,
    /// Index of the row.
    pub row: usize,
    /// Level, which determines the colour.
    pub level: HeatLevel,
    /// Short text, e.g. `+12 %`; it also distinguishes levels without colour.
    pub text: String,
    /// Full text, e.g. for a tooltip.
    pub detail: String,
}

/// Level of a cell of a heat map: a judgement, or a place on a scale.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum HeatLevel {
    /// Improved, or well within its limit.
    Good,
    /// Equivalent, or within its limit.
    Even,
    /// Undecided.
    Unclear,
    /// Regressed, beyond its limit, or failed.
    Bad,
    /// Place on a scale from the least (0) to the greatest (1) of all cells.
    Scale(f64),
}

/// Band from the least to the greatest value at each x, as wide as the distance between equally spaced x.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Band {
    /// Name in the legend.
    pub name: String,
    /// x, least and greatest value, sorted by x.
    pub points: Vec<(f64, f64, f64)>,
}

/// Named value: a dashed line across the chart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mark {
    /// Name in the legend, with value and unit.
    pub name: String,
    pub at: AxisValue,
    pub color: Color,
}

/// A value on one of the axes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum AxisValue {
    /// A vertical line.
    X(f64),
    /// A horizontal line.
    Y(f64),
}

/// Colours that remain distinguishable with common colour blindness.
///
/// # Source
/// Okabe and Ito (2008), "Color Universal Design"; without yellow, which is faint on white.
pub const PALETTE: [Color; 7] = [BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY, BLACK];
pub const BLUE: Color = [0x00, 0x72, 0xB2];
pub const ORANGE: Color = [0xE6, 0x9F, 0x00];
/// Bluish green.
pub const GREEN: Color = [0x00, 0x9E, 0x73];
/// Colour of limits, and of values beyond them.
pub const VERMILLION: Color = [0xD5, 0x5E, 0x00];
/// Reddish purple.
pub const PURPLE: Color = [0xCC, 0x79, 0xA7];
/// Sky blue.
pub const SKY: Color = [0x56, 0xB4, 0xE9];
/// Nearly black.
pub const BLACK: Color = [0x30, 0x30, 0x30];
/// Background.
pub(super) const WHITE: Color = [0xFF; 3];

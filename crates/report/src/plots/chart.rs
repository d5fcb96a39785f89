//! What a chart is made of. All fields are data; nothing is drawn before [`Chart::draw`].

use serde::Serialize;

/// A chart: titles, two axes, and between them, in this order, bars, bands, lines and marks.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Chart {
    /// The name of its file, without an extension.
    pub name: String,
    /// The first line, in large letters.
    pub title: String,
    /// The second line, in small letters: number of samples, names, settings.
    pub subtitle: String,
    /// Finding in one sentence; empty where the chart is another tool's.
    pub reading: String,
    /// The horizontal axis.
    pub x: X,
    /// The vertical axis.
    pub y: Y,
    /// Bars of a histogram.
    pub bars: Vec<Bar>,
    /// Parts of stacked columns, from the lowest up; the horizontal axis has categories.
    pub stacks: Vec<Stack>,
    /// A heat map; the horizontal axis has categories, and nothing else is drawn.
    pub heat: Option<Heat>,
    /// Columns between two values at each x.
    pub bands: Vec<Band>,
    /// Lines, markers, or both.
    pub lines: Vec<Line>,
    /// Single values with a name, drawn as dashed lines from side to side.
    pub marks: Vec<Mark>,
    /// Notes below the chart, one line each.
    pub notes: Vec<String>,
}

/// The horizontal axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum X {
    /// Names at equal distances; the x of a point is the index of its category.
    Categories {
        /// Title of the categories, with unit.
        label: String,
        /// Their names.
        names: Vec<String>,
    },
    /// Numbers; the range is that of the data.
    Numbers {
        /// Title of the numbers, with unit.
        label: String,
        /// Logarithmic; values of 0 or less are left out, and a note says so.
        log: bool,
        /// There is nothing between whole numbers, so there are no ticks either.
        whole: bool,
    },
    /// Percentiles, the same distance for each nine: the x of the p-th quantile is 1 / (1 - p), on a logarithmic axis.
    Percentiles {
        /// Title of the axis.
        label: String,
    },
}

impl X {
    /// Title of the axis.
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
    /// Title of the values, with unit.
    pub label: String,
    /// Logarithmic; values of 0 or less are left out, and a note says so.
    pub log: bool,
    /// A linear axis always begins at 0 (or below), even if all values are far from it.
    pub from_zero: bool,
    /// There is nothing between whole numbers, so there are no ticks either.
    pub whole: bool,
}

/// A line through points, with a marker at each.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Line {
    /// Its name in the legend; an empty name has no entry.
    pub name: String,
    /// Points in the order in which they are joined. A value that is not finite makes a gap.
    pub points: Vec<(f64, f64)>,
    /// Intervals of values: x, lower and upper end, drawn as upright bars.
    pub intervals: Vec<(f64, f64, f64)>,
    /// How it looks.
    pub look: Look,
}

/// How a line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Look {
    /// Its colour; `None` takes the next colour of the palette.
    pub color: Option<Color>,
    /// Its markers.
    pub marker: Marker,
    /// Line between the points.
    pub stroke: Stroke,
    /// Drawn stronger than the others.
    pub strong: bool,
}

/// Line between points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Stroke {
    /// A line.
    #[default]
    Solid,
    /// A dashed line.
    Dashed,
    /// A dotted line.
    Dotted,
    /// Dashes and dots in turn.
    DashDot,
    /// Nothing: a scatter plot.
    None,
}

impl Look {
    /// The look of a line among others of several results: colour and marker by its place among the names of lines, the
    /// stroke by its folder, and of scatter plots the marker too. Black is the floor's. No two of 36 places have all of
    /// them in common.
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
}

/// The marker at each point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Marker {
    /// The next shape in turn.
    #[default]
    Auto,
    /// No marker.
    None,
    /// One pixel or two: for many points.
    Dot,
    /// A filled circle.
    Circle,
    /// A filled square.
    Square,
    /// A triangle that points up.
    Triangle,
    /// A square on its corner.
    Diamond,
    /// A triangle that points down.
    Down,
    /// A diagonal cross.
    Cross,
    /// A ring, larger than the other markers, to be drawn around one of them.
    Ring,
}

/// The markers of lines, in turn.
pub(super) const MARKERS: [Marker; 6] =
    [Marker::Circle, Marker::Square, Marker::Triangle, Marker::Diamond, Marker::Down, Marker::Cross];

/// Red, green, blue.
pub type Color = [u8; 3];

/// The colour at a place from 0 to 1 between two.
pub(super) fn between(from: Color, to: Color, place: f64) -> Color {
    let mix = |from: u8, to: u8| (f64::from(from) + (f64::from(to) - f64::from(from)) * place).round() as u8;
    [mix(from[0], to[0]), mix(from[1], to[1]), mix(from[2], to[2])]
}

/// A bar of a histogram, from 0 up. A bar that is not empty is at least two pixels high.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bar {
    /// Its left edge.
    pub from: f64,
    /// Its right edge.
    pub to: f64,
    /// Its height.
    pub count: f64,
}

/// A part of each column of a chart.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Stack {
    /// Its name in the legend.
    pub name: String,
    /// Its height in each category, 0 or more; NaN where there is no column.
    pub values: Vec<f64>,
    /// The interval of the whole column in each category, drawn as an upright bar at its top; on the last part only.
    pub intervals: Vec<Option<(f64, f64)>>,
    /// Its colour; `None` takes the next colour of the palette.
    pub color: Option<Color>,
}

/// Cells over the categories of the horizontal axis and rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Heat {
    /// The names of the rows, from top to bottom.
    pub rows: Vec<String>,
    /// Its cells; a place without one is empty.
    pub cells: Vec<HeatCell>,
}

/// A cell of a heat map.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeatCell {
    /// The index of its category.
    pub column: usize,
    /// The index of its row.
    pub row: usize,
    /// How good it is.
    pub level: HeatLevel,
    /// Short text in the cell, e.g. `+12 %`, which also tells levels apart without colour.
    pub text: String,
    /// The whole text, e.g. for a tooltip.
    pub detail: String,
}

/// How good a cell of a heat map is, or its place on a scale.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum HeatLevel {
    /// Improved, or within its limit by far.
    Good,
    /// Equivalent, or within its limit.
    Even,
    /// Nothing can be said.
    Unclear,
    /// Regressed, over its limit, or failed.
    Bad,
    /// A place between the least (0) and the greatest (1) of all cells.
    Scale(f64),
}

/// A column from the least to the greatest value at each x, as wide as the distance of equally spaced x.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Band {
    /// Its name in the legend.
    pub name: String,
    /// x, least and greatest value, by rising x.
    pub points: Vec<(f64, f64, f64)>,
}

/// A value with a name: a dashed line across the chart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mark {
    /// Its name in the legend, with value and unit.
    pub name: String,
    /// Where it is.
    pub at: AxisValue,
    /// Its colour.
    pub color: Color,
}

/// A value on one of the axes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum AxisValue {
    /// An upright line.
    X(f64),
    /// A level line.
    Y(f64),
}

/// Colours that people with any common colour blindness tell apart.
///
/// # Source
/// Okabe and Ito (2008), "Color Universal Design"; without yellow, which is faint on white.
pub const PALETTE: [Color; 7] = [BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY, BLACK];
/// The first colour.
pub const BLUE: Color = [0x00, 0x72, 0xB2];
/// Orange.
pub const ORANGE: Color = [0xE6, 0x9F, 0x00];
/// Bluish green.
pub const GREEN: Color = [0x00, 0x9E, 0x73];
/// Vermillion: limits, and what went over them.
pub const VERMILLION: Color = [0xD5, 0x5E, 0x00];
/// Reddish purple.
pub const PURPLE: Color = [0xCC, 0x79, 0xA7];
/// Sky blue.
pub const SKY: Color = [0x56, 0xB4, 0xE9];
/// Nearly black.
pub const BLACK: Color = [0x30, 0x30, 0x30];
/// What everything is drawn on.
pub(super) const WHITE: Color = [0xFF; 3];

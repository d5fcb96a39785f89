//! Plots: pure functions from figures to the bytes of a PNG or SVG picture. No I/O; the font is part of the program.
//!
//! Every picture is a [`Chart`], drawn by one engine. The functions of [`mod@eprosima`] name, label and compose the charts of a
//! latency benchmark; other kinds of figures build a [`Chart`] of their own.
//!
//! | module | does |
//! |---|---|
//! | [`addresses`] | plots of any figure, over payloads and over experiments |
//! | [`aimrt`] | the plots that AimRT publishes: averages and rates of patterns `publish`, `call` and `log` |
//! | [`eprosima`] | the plots of eProsima's scripts, with their file names |
//! | [`chart`] | what a chart is made of |
//! | [`distribution`] | the histogram and the series of the samples of one payload |
//! | [`samples`] | many samples reduced to what a picture can show |
//! | `scale` | axes: ranges and round numbers at their ticks |
//! | `layout`, `frame`, `legend` | a chart into shapes at their places |
//! | `columns`, `heat` | the same of stacked columns and of heat maps |
//! | `text` | the font: widths, ellipses |
//! | `draw`, `render` | a chart's shapes into PNG and SVG |

pub mod addresses;
pub mod aimrt;
pub mod chart;
mod columns;
pub mod distribution;
mod draw;
pub mod eprosima;
mod frame;
mod heat;
mod layout;
mod legend;
#[cfg(test)]
pub(crate) mod narrow_tests;
mod render;
pub mod samples;
mod scale;
mod style;
#[cfg(test)]
mod tests;
mod text;

pub use chart::Chart;
pub(crate) use scale::count as scale_count;

use thiserror::Error;

/// The format of a picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Pixels; the default.
    #[default]
    Png,
    /// Vectors; text stays text, in the viewer's sans-serif font.
    Svg,
}

impl Format {
    /// How file names of this format end, without the dot.
    pub fn extension(self) -> &'static str {
        match self {
            Format::Png => "png",
            Format::Svg => "svg",
        }
    }
}

/// How pictures are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// PNG or SVG.
    pub format: Format,
    /// A logarithmic axis for the latency.
    pub log: bool,
    /// Width in pixels, [`MIN_SIDE`] to [`MAX_SIDE`].
    pub width: u32,
    /// Height in pixels, [`MIN_SIDE`] to [`MAX_SIDE`].
    pub height: u32,
}

/// The least width and height of a picture, in pixels.
pub const MIN_SIDE: u32 = 200;
/// The most width and height of a picture, in pixels.
pub const MAX_SIDE: u32 = 4000;

impl Default for Options {
    fn default() -> Self {
        Self { format: Format::Png, log: false, width: 1000, height: 600 }
    }
}

/// A picture and where it belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// File name with extension, relative to the folder of the plots; folders are separated by `/`.
    pub path: String,
    /// The whole file.
    pub bytes: Vec<u8>,
}

/// Why a picture was not drawn.
#[derive(Debug, Error)]
pub enum PlotError {
    /// Width or height is out of range.
    #[error("a picture of {width} x {height} pixels cannot be drawn: each side must be {MIN_SIDE} to {MAX_SIDE}")]
    Size {
        /// Width asked for, in pixels.
        width: u32,
        /// Height asked for, in pixels.
        height: u32,
    },
    /// The drawing library refused; text is its own.
    #[error("the picture was not drawn: {0}")]
    Draw(String),
}

/// The parts that are not empty, with a dot between them.
fn subtitle(parts: &[&str]) -> String {
    parts.iter().copied().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
}

/// The number of samples behind each figure.
fn samples_per_figure(numbers: impl Iterator<Item = u64>) -> String {
    let numbers: Vec<u64> = numbers.collect();
    match (numbers.iter().min(), numbers.iter().max()) {
        (Some(least), Some(most)) if least == most => format!("n = {} per figure", scale_count(*least)),
        (Some(least), Some(most)) => format!("n = {} to {} per figure", scale_count(*least), scale_count(*most)),
        _ => "n = 0".to_owned(),
    }
}

fn picture(chart: &Chart, name: &str, options: &Options) -> Result<Picture, PlotError> {
    let path = format!("{name}.{}", options.format.extension());
    Ok(Picture { path, bytes: chart.draw(options)? })
}

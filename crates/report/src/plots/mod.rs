//! Plots: pure functions from figures to the bytes of a PNG or SVG picture. No I/O; the font is embedded.
//!
//! Every picture is a [`Chart`], drawn by one engine. The functions of [`mod@eprosima`] build the charts of a latency
//! benchmark; other kinds of figures build their own [`Chart`].
//!
//! | module | does |
//! |---|---|
//! | [`addresses`] | plots of any figure, over payloads and over experiments |
//! | [`aimrt`] | the plots that AimRT publishes: averages and rates of patterns `publish`, `call` and `log` |
//! | [`eprosima`] | the plots of eProsima's scripts, with their file names |
//! | [`chart`] | parts of a chart |
//! | [`distribution`] | the histogram and the series of the samples of one payload |
//! | [`samples`] | many samples reduced to what a picture can show |
//! | `scale` | axes: ranges and round numbers at their ticks |
//! | `layout`, `frame`, `legend` | positions of a chart's shapes |
//! | `columns`, `heat` | shapes of stacked columns and heat maps |
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

use strum::Display;
use thiserror::Error;

/// Format of a picture, whose name is the extension of its files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Display)]
#[strum(serialize_all = "lowercase")]
pub enum Format {
    /// Pixels; the default.
    #[default]
    Png,
    /// Vector graphics; each text is a path with an `aria-label`.
    Svg,
}

/// Options of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// PNG or SVG.
    pub format: Format,
    /// True for a logarithmic latency axis.
    pub log: bool,
    /// Width in pixels, [`MIN_SIDE`] to [`MAX_SIDE`].
    pub width: u32,
    /// Height in pixels, [`MIN_SIDE`] to [`MAX_SIDE`].
    pub height: u32,
}

/// Minimum width and height of a picture, in pixels.
pub const MIN_SIDE: u32 = 200;
/// Maximum width and height of a picture, in pixels.
pub const MAX_SIDE: u32 = 4000;

impl Default for Options {
    fn default() -> Self {
        Self { format: Format::Png, log: false, width: 1000, height: 600 }
    }
}

/// Picture and its file name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// File name with extension, relative to the folder of the plots; folders are separated by `/`.
    pub path: String,
    /// Contents of the file.
    pub bytes: Vec<u8>,
}

/// Reason why a picture was not drawn.
#[derive(Debug, Error)]
pub enum PlotError {
    /// Width or height is out of range.
    #[error("a picture of {width} x {height} pixels cannot be drawn: each side must be {MIN_SIDE} to {MAX_SIDE}")]
    Size {
        /// Requested width, in pixels.
        width: u32,
        /// Requested height, in pixels.
        height: u32,
    },
    /// The drawing library failed, with this message.
    #[error("the picture was not drawn: {0}")]
    Draw(String),
}

/// Non-empty parts, separated by dots.
fn subtitle(parts: &[&str]) -> String {
    parts.iter().copied().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
}

/// Note on the number of samples behind each figure.
fn samples_per_figure(numbers: impl Iterator<Item = u64>) -> String {
    let numbers: Vec<u64> = numbers.collect();
    match (numbers.iter().min(), numbers.iter().max()) {
        (Some(least), Some(most)) if least == most => format!("n = {} per figure", scale_count(*least)),
        (Some(least), Some(most)) => format!("n = {} to {} per figure", scale_count(*least), scale_count(*most)),
        _ => "n = 0".to_owned(),
    }
}

fn picture(chart: &Chart, name: &str, options: &Options) -> Result<Picture, PlotError> {
    let path = format!("{name}.{}", options.format);
    Ok(Picture { path, bytes: chart.draw(options)? })
}

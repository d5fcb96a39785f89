//! Charts as pictures.

use super::chart::{Chart, Y};
use super::{MAX_SIDE, MIN_SIDE, Options, Picture, PlotError, layout, render};

impl Chart {
    /// Bytes of the picture; the same chart and options always yield the same bytes.
    ///
    /// Values that are not finite, or beyond ±1e15, are left out.
    ///
    /// # Errors
    /// If the size is out of range, or the drawing library fails.
    pub fn draw(&self, options: &Options) -> Result<Vec<u8>, PlotError> {
        let (width, height) = (options.width, options.height);
        let allowed = MIN_SIDE..=MAX_SIDE;
        if !allowed.contains(&width) || !allowed.contains(&height) {
            return Err(PlotError::Size { width, height });
        }
        let shapes = layout::shapes(self, f64::from(width), f64::from(height));
        render::render(&shapes, width, height, options.format)
    }

    /// Picture and its file name, with a logarithmic axis if the options request one and no value is 0 or less.
    ///
    /// # Errors
    /// As [`Chart::draw`].
    pub fn picture(&self, options: &Options) -> Result<Picture, PlotError> {
        let path = format!("{}.{}", self.name, options.format);
        let values = self.lines.iter().flat_map(|line| line.points.iter().map(|point| point.1));
        let mut values = values.chain(self.stacks.iter().flat_map(|part| part.values.iter().copied()));
        let y =
            Y { log: self.y.log || options.log && values.all(|value| value > 0.0 || value.is_nan()), ..self.y.clone() };
        Ok(Picture { path, bytes: Chart { y, ..self.clone() }.draw(options)? })
    }
}

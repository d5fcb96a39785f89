//! Shapes into PNG and SVG.

use super::chart::Color;
use super::{Format, PlotError, text};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::Color as _;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Position in pixels from the upper left corner.
pub type Point = (f64, f64);

#[derive(Clone, Debug)]
pub enum Shape {
    Path {
        points: Vec<Point>,
        color: Color,
        width: f64,
    },
    Area {
        points: Vec<Point>,
        color: Color,
    },
    /// Filled rectangle between two corners.
    Box {
        from: Point,
        to: Point,
        color: Color,
    },
    Disc {
        center: Point,
        radius: f64,
        color: Color,
    },
    /// Text; `at` is on its base line.
    Text {
        at: Point,
        text: String,
        em: f64,
        color: Color,
        align: Align,
        upward: bool,
    },
}

/// Part of a text that is at its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    Start,
    Middle,
    End,
}

impl Align {
    /// Width of the part of a text that precedes its position.
    pub fn before(self, width: f64) -> f64 {
        match self {
            Align::Start => 0.0,
            Align::Middle => width / 2.0,
            Align::End => width,
        }
    }
}

/// PNGs are drawn this many times larger in both directions and averaged, so that edges are smooth.
const OVERSAMPLING: u32 = 2;
const N: usize = OVERSAMPLING as usize;

pub fn render(shapes: &[Shape], width: u32, height: u32, format: Format) -> Result<Vec<u8>, PlotError> {
    match format {
        Format::Svg => {
            let mut svg = String::new();
            let area = SVGBackend::with_string(&mut svg, (width, height)).into_drawing_area();
            Pen { area, scale: 1.0, format }.draw(shapes)?;
            let texts: String = shapes.iter().filter_map(outlined).collect();
            let end = svg.rfind("</svg>").unwrap_or(svg.len());
            svg.insert_str(end, &texts);
            Ok(svg.into_bytes())
        }
        Format::Png => {
            let (wide, high) = (width * OVERSAMPLING, height * OVERSAMPLING);
            let mut pixels = vec![255; (wide * high * 3) as usize];
            let area = BitMapBackend::with_buffer(&mut pixels, (wide, high)).into_drawing_area();
            Pen { area, scale: f64::from(OVERSAMPLING), format }.draw(shapes)?;
            encode(&averaged(&pixels, width as usize), width, height)
        }
    }
}

struct Pen<B: DrawingBackend> {
    area: DrawingArea<B, Shift>,
    scale: f64,
    format: Format,
}

impl<B: DrawingBackend> Pen<B> {
    fn draw(&self, shapes: &[Shape]) -> Result<(), PlotError> {
        // The pixels of a PNG are white already.
        let filled = if self.format == Format::Svg { self.area.fill(&WHITE) } else { Ok(()) };
        let drawn = filled.and_then(|()| shapes.iter().try_for_each(|shape| self.shape(shape)));
        drawn.and_then(|()| self.area.present()).map_err(|error| PlotError::Draw(error.to_string()))
    }

    fn shape(&self, shape: &Shape) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        match shape {
            Shape::Path { points, color, width } if self.format == Format::Png && *width > 1.0 => {
                points.windows(2).try_for_each(|ends| self.thick(ends[0], ends[1], *color, *width))
            }
            Shape::Path { points, color, width } => {
                let style = rgb(*color).stroke_width((width * self.scale).round().max(1.0) as u32);
                self.area.draw(&PathElement::new(self.points(points), style))
            }
            Shape::Area { points, color } => self.area.draw(&Polygon::new(self.points(points), rgb(*color))),
            Shape::Box { from, to, color } => {
                self.area.draw(&Rectangle::new([self.at(*from), self.at(*to)], rgb(*color).filled()))
            }
            Shape::Disc { center, radius, color } => {
                let radius = (radius * self.scale).round() as i32;
                self.area.draw(&Circle::new(self.at(*center), radius, rgb(*color).filled()))
            }
            // The backend would use a font of the viewer, so `outlined` draws it.
            Shape::Text { .. } if self.format == Format::Svg => Ok(()),
            Shape::Text { at, text, em, color, align, upward } => {
                let font = text::font(em * self.scale);
                let font = if *upward { font.transform(FontTransform::Rotate270) } else { font };
                let horizontal = match align {
                    Align::Start => HPos::Left,
                    Align::Middle => HPos::Center,
                    Align::End => HPos::Right,
                };
                let color = rgb(*color);
                let style = TextStyle::from(font).color(&color).pos(Pos::new(horizontal, VPos::Top));
                // plotters 0.3.7, `ab_glyph.rs`: the upper edge is half the line height above the base line.
                let above = em * text::HEIGHT_PER_EM / 2.0;
                let at = if *upward { (at.0 - above, at.1) } else { (at.0, at.1 - above) };
                self.area.draw_text(text, &style, self.at(at))
            }
        }
    }

    /// Draws a thick line with round ends as thin slices.
    ///
    /// The library's own thick lines and polygons are up to two pixels too thin where they are steep.
    fn thick(
        &self,
        from: Point,
        to: Point,
        color: Color,
        width: f64,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        let scaled = |point: Point| (point.0 * self.scale, point.1 * self.scale);
        let ((x0, y0), (x1, y1)) = (scaled(from), scaled(to));
        let steep = (y1 - y0).abs() >= (x1 - x0).abs();
        // Along the longer side, and across it.
        let ((a0, b0), (a1, b1)) = if steep { ((y0, x0), (y1, x1)) } else { ((x0, y0), (x1, y1)) };
        let half = width * self.scale / 2.0 * (a1 - a0).hypot(b1 - b0) / (a1 - a0).abs().max(1e-9);
        let style = rgb(color).filled();
        for a in a0.min(a1).round() as i32..=a0.max(a1).round() as i32 {
            let part = if a0 == a1 { 0.0 } else { ((f64::from(a) - a0) / (a1 - a0)).clamp(0.0, 1.0) };
            let middle = b0 + (b1 - b0) * part;
            let (low, high) = ((middle - half).round() as i32, (middle + half).round() as i32 - 1);
            let ends = if steep { [(low, a), (high, a)] } else { [(a, low), (a, high)] };
            self.area.draw(&PathElement::new(ends, style))?;
        }
        let radius = (width / 2.0 * self.scale) as i32;
        let end = |at: Point| self.area.draw(&Circle::new(self.at(at), radius, style));
        end(from).and_then(|()| end(to))
    }

    fn at(&self, (x, y): Point) -> (i32, i32) {
        ((x * self.scale).round() as i32, (y * self.scale).round() as i32)
    }

    fn points(&self, points: &[Point]) -> Vec<(i32, i32)> {
        let mut points: Vec<_> = points.iter().map(|point| self.at(*point)).collect();
        points.dedup();
        points
    }
}

/// Text of an SVG as a path, which looks the same in every viewer; `aria-label` is for screen readers.
fn outlined(shape: &Shape) -> Option<String> {
    let Shape::Text { at: (x, y), text, em, color: [red, green, blue], align, upward } = shape else { return None };
    let (data, width) = text::outlines(text, *em);
    let label = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    let turned = if *upward { " rotate(-90)" } else { "" };
    Some(format!(
        "<path role=\"img\" aria-label=\"{label}\" fill=\"#{red:02X}{green:02X}{blue:02X}\" \
         transform=\"translate({x:.2} {y:.2}){turned} translate({:.2} 0)\" d=\"{data}\"/>\n",
        -align.before(width)
    ))
}

fn rgb([red, green, blue]: Color) -> RGBColor {
    RGBColor(red, green, blue)
}

/// Reduces an oversampled picture: each pixel is the mean of four.
fn averaged(pixels: &[u8], width: usize) -> Vec<u8> {
    const COLORS: usize = 3;
    const WHITE: [u8; N * COLORS] = [255; N * COLORS];
    let line = width * N * COLORS;
    let mut small = vec![255; pixels.len() / (N * N)];
    let rows = pixels.chunks_exact(line * N).zip(small.chunks_exact_mut(width * COLORS));
    for (lines, row) in rows {
        let (upper, lower) = lines.split_at(line);
        let pairs = upper.chunks_exact(N * COLORS).zip(lower.chunks_exact(N * COLORS));
        // Most of a picture is white; dividing every byte took a third of the time.
        let drawn =
            pairs.zip(row.chunks_exact_mut(COLORS)).filter(|((above, below), _)| *above != WHITE || *below != WHITE);
        for ((above, below), pixel) in drawn {
            for (color, value) in pixel.iter_mut().enumerate() {
                let next = color + COLORS;
                let [a, b, c, d] = [above[color], above[next], below[color], below[next]].map(u16::from);
                *value = ((a + b + c + d) / 4) as u8;
            }
        }
    }
    small
}

fn encode(pixels: &[u8], width: u32, height: u32) -> Result<Vec<u8>, PlotError> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Fast);
    let written = encoder.write_header().and_then(|mut writer| {
        writer.write_image_data(pixels)?;
        writer.finish()
    });
    written.map_err(|error| PlotError::Draw(error.to_string()))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pixel_is_the_mean_of_the_four_that_it_is_made_of() {
        // Two pixels: of four different ones, and white.
        let upper = [[0, 10, 255], [100, 20, 255], [255; 3], [255; 3]].concat();
        let lower = [[3, 30, 255], [200, 40, 252], [255; 3], [255; 3]].concat();
        assert_eq!(averaged(&[upper, lower].concat(), 2), [75, 25, 254, 255, 255, 255]);
    }
}

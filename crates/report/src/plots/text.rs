//! Font of all pictures: widths, shortening and outlines of texts.

use crate::assets::FONT as FONT_FILE;
use ab_glyph::{Font, FontRef, OutlineCurve, Point};
use plotters::style::{FontDesc, FontFamily, FontStyle, register_font};
use std::fmt::Write;
use std::sync::{LazyLock, Once};

/// Line height of Open Sans in units of its em: (ascent - descent) / units per em = (2189 + 600) / 2048.
pub const HEIGHT_PER_EM: f64 = 2789.0 / 2048.0;

/// Font of this em size in pixels.
pub fn font(em: f64) -> FontDesc<'static> {
    static REGISTER: Once = Once::new();
    REGISTER.call_once(|| {
        let known = register_font(FontFamily::SansSerif.as_str(), FontStyle::Normal, &FONT_FILE);
        assert!(known.is_ok(), "the font in the program is a whole TrueType font");
    });
    // The bitmap backend scales fonts by their line height.
    FontDesc::new(FontFamily::SansSerif, em * HEIGHT_PER_EM, FontStyle::Normal)
}

/// Width of a text in pixels, at this em size.
pub fn width(text: &str, em: f64) -> f64 {
    // Measured at a large size, because the library truncates widths to whole pixels.
    const MEASURE: f64 = 100.0;
    let ((left, _), (right, _)) = font(MEASURE).layout_box(text).unwrap_or_default();
    f64::from(right - left) / MEASURE * em
}

/// Outlines of a text as data of an SVG path, and its width in pixels. It begins at the origin, on its base line.
pub fn outlines(text: &str, em: f64) -> (String, f64) {
    static FONT: LazyLock<FontRef<'_>> = LazyLock::new(|| {
        FontRef::try_from_slice(&FONT_FILE).expect("the font in the program is a whole TrueType font")
    });
    let scale = em / f64::from(FONT.units_per_em().expect("a TrueType font has an em"));
    let (mut data, mut right, mut before) = (String::new(), 0.0, None);
    for glyph in text.chars().map(|letter| FONT.glyph_id(letter)) {
        right += before.map_or(0.0, |before| FONT.kern_unscaled(before, glyph));
        let mut pen = None;
        for curve in FONT.outline(glyph).into_iter().flat_map(|outline| outline.curves) {
            let (from, command, points) = match curve {
                OutlineCurve::Line(from, to) => (from, 'L', vec![to]),
                OutlineCurve::Quad(from, by, to) => (from, 'Q', vec![by, to]),
                OutlineCurve::Cubic(from, by, and, to) => (from, 'C', vec![by, and, to]),
            };
            if pen != Some(from) {
                push(&mut data, 'M', &[from], right, scale);
            }
            push(&mut data, command, &points, right, scale);
            pen = points.last().copied();
        }
        right += FONT.h_advance_unscaled(glyph);
        before = Some(glyph);
    }
    (data, f64::from(right) * scale)
}

/// Appends a command to the data of a path, rounded to hundredths of a pixel.
fn push(data: &mut String, command: char, points: &[Point], right: f32, scale: f64) {
    data.push(command);
    let rounded = |units: f32| (f64::from(units) * scale * 100.0).round() / 100.0;
    for (index, point) in points.iter().enumerate() {
        let space = if index == 0 { "" } else { " " };
        write!(data, "{space}{} {}", rounded(point.x + right), rounded(-point.y)).expect("a String takes it");
    }
}

/// Text, shortened to its beginning and end around an ellipsis if it is wider than `limit` pixels.
///
/// The middle is left out because similar names often differ only at the end.
pub fn fit(text: &str, em: f64, limit: f64) -> String {
    let text = clean(text);
    if width(&text, em) <= limit {
        return text;
    }
    let letters: Vec<char> = text.chars().collect();
    let cut = |kept: usize| -> String {
        let (head, tail) = (kept.div_ceil(2), kept / 2);
        letters[..head].iter().chain(&['…']).chain(&letters[letters.len() - tail..]).collect()
    };
    let fits = |kept: usize| width(&cut(kept), em) <= limit;
    // The width grows with the number of letters: binary search.
    let (mut most, mut too_many) = (0, letters.len());
    while too_many - most > 1 {
        let middle = (most + too_many) / 2;
        if fits(middle) { most = middle } else { too_many = middle }
    }
    cut(most)
}

/// Text broken at blanks into lines of at most `limit` pixels; longer words are shortened.
pub fn wrap(text: &str, em: f64, limit: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in clean(text).split_whitespace() {
        let longer = lines.last().map(|line| format!("{line} {word}"));
        match (longer, lines.last_mut()) {
            (Some(longer), Some(line)) if width(&longer, em) <= limit => *line = longer,
            _ => lines.push(fit(word, em, limit)),
        }
    }
    lines
}

/// Text without characters that XML forbids or that break lines.
fn clean(text: &str) -> String {
    let plain = |letter: char| {
        if letter.is_control() || ('\u{FFFE}'..='\u{FFFF}').contains(&letter) { '\u{FFFD}' } else { letter }
    };
    // Longer texts fit no picture.
    text.chars().take(2000).map(plain).collect()
}

//! Pictures as narrow as a column of a paper.

use super::chart::{AxisValue, BLACK, Chart, Heat, HeatCell, HeatLevel, Line, Look, Mark, Stack, X, Y};
use super::render::Shape;
use super::tests::keep;
use super::{Format, Options, layout, text};

const SUBS: [&str; 5] =
    ["shm/ring", "uds/datagram", "iceoryx2/publish-subscribe", "tcp/loopback?packet=4096", "mq/queue"];

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn columns(parts: usize, log: bool) -> Chart {
    let whole = 0.15 * (parts * (parts + 1)) as f64;
    let part = |part: usize| Stack {
        name: ["in the send call", "between", "in the receive call", "waking up", "touching"][part].to_owned(),
        values: (0..SUBS.len()).map(|sub| 0.3 * (part + 1) as f64 * 3_f64.powi(sub as i32)).collect(),
        intervals: (0..SUBS.len())
            .map(|sub| (part + 1 == parts).then(|| whole * 3_f64.powi(sub as i32)))
            .map(|value| value.map(|value| (0.9 * value, 1.2 * value)))
            .collect(),
        color: None,
    };
    Chart {
        name: format!("columns_{parts}{}", if log { "_log" } else { "" }),
        title: "Where does the time go?".to_owned(),
        reading:
            "Of 81 µs of mq/queue at 1k, 40 µs (38 to 43) are in the send call; shm/ring is 0.3 µs, with no difference \
                  seen between its parts."
                .to_owned(),
        subtitle: "1k · wait poll, touch none · median of 7 rounds · bars: intervals at 95 %".to_owned(),
        x: X::Categories { label: "Transport".to_owned(), names: names(&SUBS) },
        y: Y { label: "Time of a message [µs]".to_owned(), log, ..Y::default() },
        stacks: (0..parts).map(part).collect(),
        ..Chart::default()
    }
}

fn heat(rows: usize) -> Chart {
    let levels = [
        HeatLevel::Good,
        HeatLevel::Even,
        HeatLevel::Unclear,
        HeatLevel::Bad,
        HeatLevel::Scale(0.2),
        HeatLevel::Scale(0.9),
    ];
    let texts = ["-12 %", "=", "?", "+31 % !", "0.2 %", "9.1 %"];
    let cell = |row: usize, column: usize| HeatCell {
        column,
        row,
        level: levels[(row + column) % levels.len()],
        text: texts[(row + column) % levels.len()].to_owned(),
        detail: String::new(),
    };
    let cells = (0..rows).flat_map(|row| (0..6).map(move |column| cell(row, column))).filter(|cell| cell.column != 4);
    Chart {
        name: format!("heat_{rows}"),
        title: "What has changed?".to_owned(),
        reading: "3 of 25 medians are slower than the reference's.".to_owned(),
        x: X::Categories { label: "Payload".to_owned(), names: names(&["16", "1k", "16k", "64k", "1M", "4M"]) },
        heat: Some(Heat {
            rows: (0..rows).map(|row| format!("{}{}", SUBS[row % 5], "+".repeat(row / 5))).collect(),
            cells: cells.collect(),
        }),
        notes: vec!["! slower, = equivalent, ? nothing can be said".to_owned()],
        ..Chart::default()
    }
}

fn percentiles() -> Chart {
    let line = |index: usize| {
        let at = |nines: f64| 0.3 * 4_f64.powi(index as i32) * (1.0 + nines * nines);
        let points: Vec<(f64, f64)> =
            [2.0, 10.0, 100.0, 1000.0, 10_000.0].iter().map(|x: &f64| (*x, at(x.log10()))).collect();
        let intervals = points.iter().map(|(x, y)| (*x, 0.9 * y, 1.2 * y)).collect();
        Line { name: SUBS[index].to_owned(), points, intervals, look: Look::default() }
    };
    Chart {
        name: "percentiles".to_owned(),
        title: "How long is the tail?".to_owned(),
        reading: "At 99.9 % of the messages tcp/loopback is 4.1 times its median.".to_owned(),
        subtitle: "half a round trip · 1k · one round".to_owned(),
        x: X::Percentiles { label: "Percentile".to_owned() },
        y: Y { label: "Latency [µs]".to_owned(), log: true, ..Y::default() },
        lines: (0..SUBS.len()).map(line).collect(),
        marks: vec![Mark { name: "cycle of 20 µs".to_owned(), at: AxisValue::Y(20.0), color: BLACK }],
        ..Chart::default()
    }
}

fn sizes() -> Chart {
    let mut chart = percentiles();
    chart.name = "sizes".to_owned();
    chart.x = X::Numbers { label: "Payload [bytes]".to_owned(), log: true, whole: true };
    for line in &mut chart.lines {
        line.points.iter_mut().for_each(|point| point.0 *= 512.0);
        line.intervals.iter_mut().for_each(|interval| interval.0 *= 512.0);
    }
    chart
}

fn all() -> Vec<Chart> {
    vec![columns(1, false), columns(1, true), columns(5, false), heat(5), heat(40), percentiles(), sizes()]
}

/// Left, top, right and bottom of a text.
fn bounds(shape: &Shape) -> Option<([f64; 4], &str)> {
    let Shape::Text { at: (x, y), text, em, align, upward, .. } = shape else { return None };
    let width = text::width(text, *em);
    let before = align.before(width);
    let (above, below) = (em * 0.72, em * 0.2);
    let bounds = match upward {
        false => [x - before, y - above, x - before + width, y + below],
        true => [x - above, y + before - width, x + below, y + before],
    };
    Some((bounds, text))
}

/// Asserts that all texts are inside a picture, and none overlaps another.
pub fn assert_legible(chart: &Chart, width: f64, height: f64) {
    let shapes = layout::shapes(chart, width, height);
    let texts: Vec<([f64; 4], &str)> = shapes.iter().filter_map(bounds).collect();
    for (index, (one, name)) in texts.iter().enumerate() {
        let is_inside = one[0] >= 0.0 && one[1] >= 0.0 && one[2] <= width && one[3] <= height;
        assert!(is_inside, "{}, {width}: '{name}' at {one:?}", chart.name);
        for (other, of) in &texts[index + 1..] {
            let meets = one[0] < other[2] && other[0] < one[2] && one[1] < other[3] && other[1] < one[3];
            assert!(!meets, "{}, {width}: '{name}' {one:?} and '{of}' {other:?}", chart.name);
        }
    }
}

#[test]
fn no_label_meets_another_or_leaves_a_narrow_picture() {
    for chart in all() {
        for (width, height) in [(600.0, 400.0), (1000.0, 600.0)] {
            assert_legible(&chart, width, height);
        }
    }
}

#[test]
fn parts_of_columns_are_told_apart_without_colour() {
    let whites = |chart: &Chart| {
        let shapes = layout::shapes(chart, 600.0, 400.0);
        shapes.iter().filter(|shape| matches!(shape, Shape::Path { color: [0xFF, 0xFF, 0xFF], .. })).count()
    };
    // One edge for each column, and lines of patterns.
    assert_eq!(whites(&columns(1, false)), SUBS.len());
    assert!(whites(&columns(5, false)) > 100);
}

#[test]
fn narrow_pictures_are_drawn() {
    for chart in all() {
        for (width, height) in [(600, 400), (1000, 600)] {
            for format in [Format::Png, Format::Svg] {
                let options = Options { width, height, format, ..Options::default() };
                let picture = chart.picture(&options).unwrap();
                assert!(picture.bytes.len() > 1000);
                keep(&picture, &format!("narrow_{width}"));
            }
        }
    }
}

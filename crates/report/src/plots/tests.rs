use super::chart::{AxisValue, Chart, Line, Look, Mark, Marker, Stroke, X, Y};
use super::distribution::{histogram, series};
use super::eprosima::*;
use super::render::{Shape, render};
use super::samples::{Histogram, SampleSeries};
use super::{Format, Options, Picture, PlotError};
use std::path::{Path, PathBuf};
use tripmeter_eprosima::bytes::Bytes;
use tripmeter_eprosima::check::{CheckReport, CheckRow};
use tripmeter_eprosima::summary::{Magnitude, Summary, SummaryRow};

const PAYLOADS: [u64; 11] = [16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384];
const NAMES: [&str; 10] = [
    "interprocess_best_effort",
    "interprocess_best_effort_security",
    "interprocess_best_effort_tcp",
    "interprocess_best_effort_tcp_security",
    "interprocess_reliable",
    "interprocess_reliable_security",
    "interprocess_reliable_tcp",
    "interprocess_reliable_tcp_security",
    "intraprocess_best_effort",
    "intraprocess_reliable",
];

/// Skewed latencies as in middleware: most near `middle`, some far above.
fn samples(count: usize, middle: f64, seed: u64) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut sample = || {
        let near = middle * (1.0 + 0.1 * random.f64() + 0.05 * random.f64());
        match random.u32(0..1000) {
            0 => near * (5.0 + 20.0 * random.f64()),
            1..40 => near * 2.2,
            _ => near,
        }
    };
    (0..count).map(|_| sample()).collect()
}

fn row(bytes: u64, samples: &[f64]) -> SummaryRow {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |part: f64| sorted[((sorted.len() - 1) as f64 * part) as usize];
    SummaryRow {
        bytes: Bytes::from(bytes),
        samples: samples.len() as u64,
        max: at(1.0),
        min: at(0.0),
        mean: samples.iter().sum::<f64>() / samples.len() as f64,
        median: at(0.5),
        stdev: 1.0,
        mean_jitter: 1.0,
        max_jitter: 1.0,
        p90: at(0.9),
        p99: at(0.99),
        p9999: at(0.9999),
    }
}

fn summary(middle: f64, seed: u64) -> Summary {
    let latency = |bytes: u64| middle * (1.0 + bytes as f64 / 8192.0);
    let rows = PAYLOADS.iter().map(|&bytes| row(bytes, &samples(1000, latency(bytes), seed + bytes))).collect();
    Summary { rows }
}

fn summaries(number: usize) -> Vec<(String, Summary)> {
    let one = |index: usize| {
        (
            format!("2020-02-{:02}_14-{:02}-41", index % 28 + 1, index),
            summary(2.0 + (index % 7) as f64 * 0.1, index as u64),
        )
    };
    (0..number).map(one).collect()
}

fn named(summaries: &[(String, Summary)]) -> Vec<Named<'_>> {
    summaries.iter().map(|(name, summary)| Named { name, summary }).collect()
}

fn report(factor: f64, missing: &[u64]) -> CheckReport {
    let measured = summary(2.0, 1);
    let rows = Magnitude::CHECKED.iter().flat_map(|&check| {
        measured.rows.iter().map(move |row| {
            let value = check.value_in(row);
            let measured = !missing.iter().any(|&bytes| Bytes::from(bytes) == row.bytes);
            let requirement = value * (factor + row.bytes.value().log2() / 100.0);
            CheckRow { check, bytes: row.bytes.clone(), requirement, experiment: measured.then_some(value) }
        })
    });
    CheckReport { rows: rows.collect() }
}

/// Every plot of the latency benchmark, once.
fn all(options: &Options) -> Vec<Picture> {
    let bytes = Bytes::from(16384);
    let raw = samples(10_000, 42.0, 7);
    let measured = row(16384, &raw);
    let of = subject(NAMES[3], &bytes, Some(&measured));
    let many: Vec<(String, Summary)> = NAMES
        .iter()
        .enumerate()
        .map(|(i, name)| ((*name).to_owned(), summary(5.0 + 4.0 * i as f64, i as u64)))
        .collect();
    let history = summaries(40);
    let (many, history) = (named(&many), named(&history));
    let mut pictures = vec![
        histogram(&Histogram::from_samples(&raw, options.log), &of, options),
        series(&SampleSeries::from_samples(&raw, options.log), &of, options),
    ];
    for magnitude in Magnitude::ALL {
        pictures.push(subexperiment_comparison(magnitude, &many, options));
        pictures.push(history_magnitude(NAMES[8], magnitude, &history, options));
        pictures.push(history_by_date(NAMES[8], magnitude, &history, options));
        if magnitude != Magnitude::Min {
            pictures.push(history_payload(NAMES[8], &bytes, magnitude, &history, Some(7.5), options));
        }
    }
    for one in Magnitude::CHECKED {
        pictures.push(check(&many[0], &report(0.95, &[64]), one, options));
    }
    for magnitudes in COMPARED {
        pictures.push(experiment_comparison(NAMES[8], magnitudes, [history[0], history[1]], options));
    }
    pictures.into_iter().collect::<Result<_, _>>().unwrap()
}

/// Size and pixels of a PNG.
fn decoded(bytes: &[u8]) -> ((u32, u32), Vec<u8>) {
    let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    ((info.width, info.height), pixels)
}

/// Texts of an SVG; panics unless it is well-formed XML.
fn texts(bytes: &[u8]) -> Vec<String> {
    let text = std::str::from_utf8(bytes).unwrap();
    let document = roxmltree::Document::parse(text).unwrap();
    document.descendants().filter_map(|node| node.attribute("aria-label")).map(str::to_owned).collect()
}

const SVG: Options = Options { format: Format::Svg, log: false, width: 1000, height: 600 };

#[test]
fn files_have_the_names_of_the_original_scripts() {
    let names: Vec<String> = all(&SVG).into_iter().map(|picture| picture.path).collect();
    let expected = "\
histogram_16384.svg series_16384.svg
comparison_min.svg intraprocess_best_effort/history_Min.svg intraprocess_best_effort/history_Min_by_date.svg
comparison_median.svg intraprocess_best_effort/history_Median.svg intraprocess_best_effort/history_Median_by_date.svg
intraprocess_best_effort/16384_bytes_Median.svg
comparison_max.svg intraprocess_best_effort/history_Max.svg intraprocess_best_effort/history_Max_by_date.svg
intraprocess_best_effort/16384_bytes_Max.svg
comparison_99.svg intraprocess_best_effort/history_99.svg intraprocess_best_effort/history_99_by_date.svg
intraprocess_best_effort/16384_bytes_99.svg
measurements_interprocess_best_effort/comparison_median.svg measurements_interprocess_best_effort/comparison_99.svg
measurements_interprocess_best_effort/comparison_max.svg
intraprocess_best_effort_min_median.svg intraprocess_best_effort_max_99%.svg";
    assert_eq!(names, expected.split_whitespace().collect::<Vec<_>>());
}

#[test]
fn every_plot_is_a_png_with_something_on_it() {
    for (log, width, height, least) in [(false, 1000, 600, 5000), (true, 400, 240, 2000)] {
        for picture in all(&Options { log, width, height, ..Options::default() }) {
            assert!(picture.path.ends_with(".png"));
            let (size, pixels) = decoded(&picture.bytes);
            assert_eq!(size, (width, height), "{}", picture.path);
            let drawn = pixels.chunks_exact(3).filter(|pixel| **pixel != [255; 3]).count();
            assert!(drawn > least, "{} has {drawn} pixels that are not white", picture.path);
            keep(&picture, if log { "log" } else { "linear" });
        }
    }
}

#[test]
fn every_plot_says_what_it_shows_in_what_unit_and_of_how_many_samples() {
    for log in [false, true] {
        for picture in all(&Options { log, ..SVG }) {
            let texts = texts(&picture.bytes);
            let has = |part: &str| texts.iter().any(|text| text.contains(part));
            assert!(has("Latency, rtt_half [us]"), "{}: {texts:?}", picture.path);
            assert!(has("n = 1"), "{}: {texts:?}", picture.path);
            let x = ["[bytes]", "Sample number [n]", "Number of samples [n]", "[date and time]"];
            assert!(x.iter().any(|label| has(label)), "{}: {texts:?}", picture.path);
            keep(&picture, if log { "log" } else { "linear" });
        }
    }
}

#[test]
fn the_same_data_give_the_same_bytes() {
    for format in [Format::Png, Format::Svg] {
        let options = Options { format, log: false, width: 500, height: 300 };
        assert!(all(&options) == all(&options), "{format:?}");
    }
}

#[test]
fn the_font_is_in_the_program() {
    // No test can remove the system's fonts, so this checks that the backend knows the family only from our file.
    let missing = plotters::style::FontDesc::new("DejaVu Sans".into(), 12.0, plotters::style::FontStyle::Normal);
    assert!(missing.layout_box("x").is_err(), "fonts of the system are in use");
    assert!(super::text::width("Latency [us]", 13.0) > 50.0);
    let svg = Chart { title: "Title".to_owned(), ..Chart::default() }.draw(&SVG).unwrap();
    let svg = String::from_utf8(svg).unwrap();
    assert!(svg.contains("aria-label=\"Title\"") && !svg.contains("<text") && !svg.contains("font"), "{svg}");
    let (data, width) = super::text::outlines("Il", 2048.0);
    // Both letters are vertical bars: a stroke of four lines each, from the base line up.
    assert_eq!((data.matches('M').count(), data.matches('Q').count()), (2, 0), "{data}");
    assert!((width - super::text::width("Il", 2048.0)).abs() < 25.0, "{width}");
}

/// Writes pictures for inspection if `TRIPMETER_PLOTS=DIR` is set.
pub(super) fn keep(picture: &Picture, kind: &str) {
    let Some(folder) = std::env::var_os("TRIPMETER_PLOTS").map(PathBuf::from) else { return };
    let file: &Path = &folder.join(kind).join(&picture.path);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, &picture.bytes).unwrap();
}

/// Time to draw the plots of one sub-experiment: 11 histograms and 11 series of 10,000 samples.
///
/// `cargo test --release -p tripmeter-report drawing_time -- --ignored --nocapture`
#[test]
#[ignore = "measures time"]
fn drawing_time() {
    let raw: Vec<(Bytes, Vec<f64>)> =
        PAYLOADS.iter().map(|&bytes| (Bytes::from(bytes), samples(10_000, 42.0, bytes))).collect();
    for format in [Format::Png, Format::Svg] {
        let options = Options { format, ..Options::default() };
        let (start, mut size) = (std::time::Instant::now(), 0);
        for (bytes, raw) in &raw {
            let of = subject(NAMES[0], bytes, None);
            size += histogram(&Histogram::from_samples(raw, false), &of, &options).unwrap().bytes.len();
            size += series(&SampleSeries::from_samples(raw, false), &of, &options).unwrap().bytes.len();
        }
        println!("22 plots, {format:?}: {:?}, {} kB", start.elapsed(), size / 1000);
    }
    let million = samples(1_000_000, 42.0, 1);
    let start = std::time::Instant::now();
    let reduced = SampleSeries::from_samples(&million, false);
    let of = subject(NAMES[0], &raw[0].0, None);
    let reduction = start.elapsed();
    series(&reduced, &of, &Options::default()).unwrap();
    println!("1,000,000 samples: reduced in {reduction:?}, with drawing {:?}", start.elapsed());
}

fn keep_both(chart: &Chart, name: &str) -> Vec<String> {
    for format in [Format::Png, Format::Svg] {
        let bytes = chart.draw(&Options { format, ..Options::default() }).unwrap();
        keep(&Picture { path: format!("{name}.{format}"), bytes }, "edge");
    }
    texts(&chart.draw(&SVG).unwrap())
}

fn categories(number: usize, long: &str) -> X {
    let names = (0..number).map(|index| format!("{long}{index}")).collect();
    X::Categories { label: "Category [name]".to_owned(), names }
}

fn line(name: &str, values: &[f64]) -> Line {
    let points = values.iter().enumerate().map(|(index, value)| (index as f64, *value)).collect();
    Line { name: name.to_owned(), points, ..Line::default() }
}

fn chart(x: X, log: bool, lines: Vec<Line>) -> Chart {
    let y = Y { label: "Latency [us]".to_owned(), log, ..Y::default() };
    Chart { title: "An edge".to_owned(), subtitle: "n = 1".to_owned(), x, y, lines, ..Chart::default() }
}

#[test]
fn zeros_on_a_logarithmic_axis_are_said_not_drawn() {
    let texts = keep_both(&chart(categories(4, ""), true, vec![line("a", &[1.0, 0.0, -3.0, 20.0])]), "zeros");
    assert!(
        texts.iter().any(|text| text == "2 values of 0 or less cannot be shown on the logarithmic axis."),
        "{texts:?}"
    );
    let texts = keep_both(&chart(categories(2, ""), true, vec![line("a", &[0.0, 0.0])]), "only_zeros");
    assert!(texts.iter().any(|text| text == "There is no value to show."), "{texts:?}");
}

#[test]
fn odd_data_are_drawn() {
    let nan = f64::NAN;
    keep_both(&chart(categories(0, ""), false, vec![]), "nothing");
    keep_both(&chart(categories(1, ""), false, vec![line("one", &[3.25])]), "one_point");
    keep_both(&chart(categories(5, ""), false, vec![line("same", &[7.0; 5]), line("other", &[7.0; 5])]), "all_equal");
    keep_both(
        &chart(
            categories(7, ""),
            false,
            vec![line("gaps", &[1.0, 2.0, nan, 3.0, nan, 1.0, 2.0]), line("b", &[nan; 7])],
        ),
        "gaps",
    );
    keep_both(&chart(categories(5, ""), false, vec![line("outlier", &[1.0, 1.2, 250_000.0, 1.1, 1.3])]), "outlier");
    keep_both(&chart(categories(5, ""), false, vec![line("near", &[101.0, 101.2, 100.9, 101.1, 101.3])]), "squeezed");
    keep_both(&chart(categories(3, ""), false, vec![line("negative", &[-5.0, 3.0, 1.0])]), "negative");
    let long = "a_very_long_name_of_a_sub_experiment_that_nobody_wants_to_read_to_its_very_end_";
    keep_both(
        &chart(categories(120, long), false, (0..60).map(|i| line(&format!("{long}{i}"), &[i as f64; 120])).collect()),
        "crowd",
    );
    let texts = keep_both(
        &chart(categories(1, ""), false, vec![line("<b>&\"'\u{1}\u{FFFF}日本", &[1.0]), line("x", &[2.0])]),
        "letters",
    );
    assert!(texts.iter().any(|text| text.starts_with("<b>&\"'")), "{texts:?}");
}

/// A single outlier is visible anywhere, even at either end.
#[test]
fn outliers_of_a_series_are_seen() {
    let bytes = Bytes::from(16);
    let of = subject("x", &bytes, None);
    for at in [0, 1, 31_415, 99_998, 99_999] {
        let mut raw = vec![1.0; 100_000];
        raw[at] = 100.0;
        let picture = series(&SampleSeries::from_samples(&raw, false), &of, &Options::default()).unwrap();
        let pixels = decoded(&picture.bytes).1;
        // The upper half, below the legend, has no other colour.
        let colored = |x: usize, y: usize| {
            let at = (y * 1000 + x) * 3;
            u32::from(pixels[at + 2]) > u32::from(pixels[at]) + 20
        };
        let rows = (150..300).filter(|&y| (0..1000).any(|x| colored(x, y))).count();
        assert_eq!(rows, 150, "the outlier at {at}");
    }
}

/// Ink of a line between these points, per pixel of its length.
fn thickness(from: (f64, f64), to: (f64, f64)) -> f64 {
    let path = Shape::Path { points: vec![from, to], color: [0; 3], width: 2.0 };
    let png = render(&[path], 400, 400, Format::Png).unwrap();
    let ink: f64 = decoded(&png).1.iter().map(|&value| 1.0 - f64::from(value) / 255.0).sum();
    ink / 3.0 / (to.0 - from.0).hypot(to.1 - from.1)
}

#[test]
fn lines_are_equally_thick_at_any_slope() {
    for to in [(350.0, 50.0), (350.0, 120.0), (350.0, 350.0), (120.0, 350.0), (60.0, 350.0), (50.0, 350.0)] {
        let thickness = thickness((50.0, 50.0), to);
        assert!((1.8..2.3).contains(&thickness), "{thickness} pixels to {to:?}");
    }
}

#[test]
fn scatter_plots_and_logarithmic_x_are_drawn() {
    let points: Vec<(f64, f64)> = (0..400).map(|i| (1.0 + f64::from(i * i), 3.0 + f64::from(i % 17))).collect();
    let look = Look { stroke: Stroke::None, marker: Marker::Circle, ..Look::default() };
    let scatter = Line { name: "received".to_owned(), points: points.clone(), look, ..Line::default() };
    let dashed = Line {
        name: "demand".to_owned(),
        points,
        look: Look { stroke: Stroke::Dashed, marker: Marker::None, ..look },
        ..Line::default()
    };
    for log in [false, true] {
        let x = X::Numbers { label: "Rate [Hz]".to_owned(), log, whole: false };
        let mut chart = chart(x, false, vec![scatter.clone(), dashed.clone()]);
        chart.marks =
            vec![Mark { name: "knee 40,000".to_owned(), at: AxisValue::X(40_000.0), color: super::chart::BLACK }];
        keep_both(&chart, if log { "scatter_log" } else { "scatter" });
    }
}

#[test]
fn few_and_odd_samples_are_drawn() {
    let bytes = Bytes::parse("16.0").unwrap();
    let of = subject("", &bytes, None);
    let sets: [(&str, Vec<f64>); 6] = [
        ("none", vec![]),
        ("one", vec![2.5]),
        ("equal", vec![2.5; 100]),
        ("nan", vec![f64::NAN, 1.0, f64::INFINITY, 2.0, 0.0, -1.0]),
        ("outlier", [samples(10_000, 2.0, 3), vec![1e6]].concat()),
        ("warm_up", [samples(100_000, 54.0, 4), samples(900_000, 8.0, 5)].concat()),
    ];
    for (name, raw) in sets {
        for log in [false, true] {
            for format in [Format::Png, Format::Svg] {
                let options = Options { format, log, ..Options::default() };
                for mut picture in [
                    histogram(&Histogram::from_samples(&raw, log), &of, &options).unwrap(),
                    series(&SampleSeries::from_samples(&raw, log), &of, &options).unwrap(),
                ] {
                    assert!(picture.path.contains("_16.0."), "{}", picture.path);
                    picture.path = picture.path.replace("16.0", &format!("{name}{}", if log { "_log" } else { "" }));
                    keep(&picture, "edge");
                    if format == Format::Svg {
                        texts(&picture.bytes);
                    }
                }
            }
        }
    }
}

#[test]
fn a_size_out_of_range_is_refused() {
    let error = Chart::default().draw(&Options { width: 0, ..SVG }).unwrap_err();
    assert!(matches!(error, PlotError::Size { width: 0, .. }));
    assert_eq!(error.to_string(), "a picture of 0 x 600 pixels cannot be drawn: each side must be 200 to 4000");
}

/// Any numbers and names yield a picture.
#[test]
fn random_data_are_drawn() {
    let mut random = fastrand::Rng::with_seed(20);
    let value = |random: &mut fastrand::Rng| match random.u8(0..10) {
        0 => f64::NAN,
        1 => f64::from_bits(random.u64(..)),
        2 => 0.0,
        3 => -random.f64(),
        _ => 10_f64.powf(random.f64() * 20.0 - 10.0),
    };
    for _ in 0..60 {
        let lines: Vec<Line> = (0..random.usize(0..6))
            .map(|_| {
                let points = (0..random.usize(0..50)).map(|_| (value(&mut random), value(&mut random))).collect();
                let marker = [Marker::Auto, Marker::None, Marker::Ring, Marker::Cross][random.usize(0..4)];
                let stroke = [Stroke::Solid, Stroke::Dashed, Stroke::None][random.usize(0..3)];
                let name = (0..random.usize(0..30)).map(|_| random.char(..)).collect();
                Line { name, points, look: Look { marker, stroke, ..Look::default() }, ..Line::default() }
            })
            .collect();
        let x = match random.bool() {
            true => categories(random.usize(0..30), "category "),
            false => X::Numbers { label: "x".to_owned(), log: random.bool(), whole: random.bool() },
        };
        let mut chart = chart(x, random.bool(), lines);
        chart.marks = vec![Mark { name: "mark".to_owned(), at: AxisValue::Y(value(&mut random)), color: [0; 3] }];
        chart.title = (0..random.usize(0..300)).map(|_| random.char(..)).collect();
        let (width, height) = (random.u32(200..600), random.u32(200..400));
        texts(&chart.draw(&Options { width, height, ..SVG }).unwrap());
        let png = chart.draw(&Options { width, height, ..Options::default() }).unwrap();
        assert_eq!(decoded(&png).0, (width, height));
    }
}

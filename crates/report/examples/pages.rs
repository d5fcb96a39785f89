//! Writes HTML pages for browser tests: every kind of chart, many rows, and hostile names. `tests/browser` opens them.
//!
//! `cargo run -p tripmeter-report --example pages -- FOLDER`

use std::path::Path;
use tripmeter_model::metric::Interval;
use tripmeter_report::document::{
    Block, Cell, Column, Digits, Document, Facts, Heading, Missing, Note, Severity, Table,
};
use tripmeter_report::plots::Chart;
use tripmeter_report::plots::chart::{
    AxisValue, BLACK, Band, Bar, Heat, HeatCell, HeatLevel, Line, Look, Mark, Marker, Stack, Stroke, VERMILLION, X, Y,
};
use tripmeter_report::render::html;

const SYSTEMS: [&str; 8] = [
    "shm/ring",
    "iceoryx2/publish-subscribe",
    "uds/stream",
    "uds/datagram",
    "tcp/loopback",
    "cyclonedds/shm?history=16&reliability=best-effort",
    "zenoh/tcp",
    "fastdds/udp",
];

fn main() {
    let folder = std::env::args().nth(1).expect("name a folder to write to");
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder).expect("the folder can be created");
    let pages = [("kinds", kinds()), ("large", large(100, 13)), ("hostile", hostile())];
    for (name, document) in pages {
        let page = html(&document, &format!("Page '{name}'"));
        std::fs::write(folder.join(format!("{name}.html")), page).expect("the folder can be written to");
    }
}

fn heading(id: &'static str, text: &str) -> Block {
    Block::Heading(Heading { id, text: text.to_owned() })
}

fn numbers(label: &str, log: bool) -> X {
    X::Numbers { label: label.to_owned(), log, whole: false }
}

fn y(label: &str, log: bool) -> Y {
    Y { label: label.to_owned(), log, ..Y::default() }
}

/// Latency that grows with the payload, in microseconds.
fn latency(system: usize, payload: f64) -> f64 {
    let system = (system % SYSTEMS.len()) as f64;
    0.07 * 1.9_f64.powf(system) + payload * 2e-5 * (system + 0.1)
}

fn payloads(count: usize) -> Vec<u64> {
    (0..count).map(|power| 1024 << power).collect()
}

/// Table like the first screen's, for these systems and payloads.
fn table(names: &[String], payloads: &[u64]) -> Table {
    let help = "median of half a round trip";
    let mut columns = vec![Column::words("transport", "transport", "").merged()];
    columns.push(Column::numbers("payload", "payload", "", Digits::Size, "bytes of every message"));
    for (id, title) in [("p50", "p50"), ("p90", "p90"), ("p99", "p99"), ("p999", "p99.9"), ("max", "max")] {
        columns.push(Column::numbers(id, title, "µs", Digits::Significant(3), help));
    }
    columns.push(Column::words("floor", "floor", "how many times the floor"));
    columns.push(Column::words("bar", "", ""));
    let mut rows = Vec::new();
    for (system, name) in names.iter().enumerate() {
        for payload in payloads {
            let base = latency(system, *payload as f64) * 1e3;
            let number = |factor: f64| Cell::Number {
                value: base * factor,
                interval: Some(Interval { low: base * factor * 0.97, high: base * factor * 1.04 }),
                mark: if system == 3 && factor > 10.0 { "*" } else { "" },
            };
            let ratio = Cell::Ratio { value: base / 70.0, interval: None };
            let tail = if system == 5 { Cell::Missing(Missing::TooFewSamples) } else { number(20.0) };
            let bar = Cell::Bar(base.log10() / 6.0);
            let size = Cell::number(*payload as f64);
            rows.push((
                None,
                vec![Cell::text(name), size, number(1.0), number(1.2), number(2.0), number(4.0), tail, ratio, bar],
            ));
        }
    }
    Table::new("Round trips, halved".to_owned(), columns, rows)
}

fn growth(names: &[String], payloads: &[u64]) -> Chart {
    let lines = names.iter().enumerate().map(|(system, name)| {
        let at = |payload: &u64| (*payload as f64, latency(system, *payload as f64));
        let points: Vec<(f64, f64)> = payloads.iter().map(at).collect();
        let intervals = points.iter().map(|(x, y)| (*x, y * 0.93, y * 1.1)).collect();
        Line { name: name.clone(), points, intervals, ..Line::default() }
    });
    Chart {
        name: "growth".to_owned(),
        title: "How does latency grow with size?".to_owned(),
        subtitle: "median of half a round trip; bars are 95 % intervals over 5 rounds".to_owned(),
        reading: "uds/datagram grows 4.2 times from 1k to 4M; shm/ring 1.0 times.".to_owned(),
        x: numbers("payload [bytes]", true),
        y: y("half a round trip, median [µs]", true),
        lines: lines.collect(),
        marks: vec![Mark { name: "memory copy, 10 GB/s".to_owned(), at: AxisValue::Y(0.3), color: BLACK }],
        ..Chart::default()
    }
}

fn tail(names: &[String]) -> Chart {
    let lines = names.iter().enumerate().map(|(system, name)| {
        let points: Vec<(f64, f64)> = [2.0, 10.0, 100.0, 1e3, 1e4]
            .map(|x: f64| (x, latency(system, 1024.0) * (1.0 + x.log10().powi(2) * 0.4)))
            .to_vec();
        let intervals = points.iter().map(|(x, y)| (*x, y * 0.9, y * (1.1 + x.log10() * 0.15))).collect();
        Line { name: name.clone(), points, intervals, ..Line::default() }
    });
    Chart {
        name: "tail".to_owned(),
        title: "How long is the tail?".to_owned(),
        subtitle: "1k".to_owned(),
        reading: "The 99.9th percentile of uds/stream is 4.6 times its median.".to_owned(),
        x: X::Percentiles { label: "percentile".to_owned() },
        y: y("half a round trip [µs]", true),
        lines: lines.take(4).collect(),
        ..Chart::default()
    }
}

fn time() -> Chart {
    let mut random = fastrand::Rng::with_seed(1);
    let mut value = |at: f64| 4.0 + 3.0 * (-at / 300.0).exp() + random.f64().powi(12) * 20.0;
    let points = (0..4000).map(|at| (f64::from(at), value(f64::from(at)))).collect();
    let line = Line {
        points,
        look: Look { marker: Marker::Dot, stroke: Stroke::None, ..Look::default() },
        name: "uds/stream".to_owned(),
        ..Line::default()
    };
    Chart {
        name: "time".to_owned(),
        title: "Was it steady?".to_owned(),
        reading: "uds/stream was 1.7 times slower in its first 500 round trips.".to_owned(),
        x: X::Numbers { label: "round trip".to_owned(), log: false, whole: true },
        y: y("half a round trip [µs]", false),
        bands: vec![Band {
            name: "least to most".to_owned(),
            points: (0..20).map(|at| (f64::from(at) * 200.0 + 100.0, 4.0, 6.0)).collect(),
        }],
        lines: vec![line],
        marks: vec![Mark { name: "end of the warm-up, 500".to_owned(), at: AxisValue::X(500.0), color: VERMILLION }],
        notes: vec!["Samples are thinned; the least and the greatest of each part are kept.".to_owned()],
        ..Chart::default()
    }
}

fn histogram() -> Chart {
    let bars = (0..60).map(|at| Bar {
        from: 4.0 + f64::from(at) * 0.2,
        to: 4.2 + f64::from(at) * 0.2,
        count: (1000.0 * (-f64::from((at - 10) * (at - 10)) / 50.0).exp()).round() + f64::from(u8::from(at == 55)),
    });
    Chart {
        name: "histogram".to_owned(),
        title: "How are the samples spread?".to_owned(),
        reading: "Half of the round trips are between 5.5 and 6.4 µs.".to_owned(),
        x: numbers("half a round trip [µs]", false),
        y: y("samples", false),
        bars: bars.collect(),
        marks: vec![Mark { name: "median 6.0 µs".to_owned(), at: AxisValue::X(6.0), color: VERMILLION }],
        ..Chart::default()
    }
}

fn stacks(names: &[String]) -> Chart {
    let values = |factor: f64| (0..names.len()).map(|system| latency(system, 1024.0) * factor).collect::<Vec<_>>();
    let totals = values(1.0).into_iter().map(|value| Some((value * 0.95, value * 1.08)));
    let stack = |name: &str, factor: f64| Stack { name: name.to_owned(), values: values(factor), ..Stack::default() };
    let last = Stack { intervals: totals.collect(), ..stack("in the receive call", 0.2) };
    Chart {
        name: "parts".to_owned(),
        title: "Where does the time go?".to_owned(),
        reading: "Half of the time of all transports passes between the calls.".to_owned(),
        x: X::Categories { label: "transport".to_owned(), names: names.to_vec() },
        y: Y { label: "time per message [µs]".to_owned(), from_zero: true, ..Y::default() },
        stacks: vec![stack("in the send call", 0.3), stack("between the calls", 0.5), last],
        ..Chart::default()
    }
}

fn single(names: &[String]) -> Chart {
    let stacks = vec![Stack { name: String::new(), intervals: Vec::new(), ..stacks(names).stacks[0].clone() }];
    let x = X::Categories {
        label: "payload".to_owned(),
        names: ["1k", "4k", "16k", "64k", "256k", "1M", "4M", "16M"].map(str::to_owned).to_vec(),
    };
    Chart { name: "single".to_owned(), title: "What is lost?".to_owned(), stacks, x, ..stacks_of(names) }
}

fn stacks_of(names: &[String]) -> Chart {
    Chart { reading: "Nothing but 16M loses messages.".to_owned(), ..stacks(names) }
}

fn rounds(names: &[String]) -> Chart {
    let lines = (0..names.len()).map(|system| Line {
        name: names[system].clone(),
        points: (0..5)
            .map(|round| (f64::from(round), latency(system, 1024.0) * (1.0 + 0.02 * f64::from(round))))
            .collect(),
        look: Look { stroke: Stroke::None, ..Look::default() },
        ..Line::default()
    });
    Chart {
        name: "rounds".to_owned(),
        title: "Do rounds agree?".to_owned(),
        reading: "All rounds are within 8 % of each other.".to_owned(),
        x: X::Categories { label: "round".to_owned(), names: (1..=5).map(|round| round.to_string()).collect() },
        y: y("half a round trip, median [µs]", true),
        lines: lines.collect(),
        ..Chart::default()
    }
}

fn cost(names: &[String]) -> Chart {
    let line = |system: usize| Line {
        name: names[system].clone(),
        points: vec![(0.3 + system as f64, latency(system, 1024.0))],
        look: Look { stroke: Stroke::None, ..Look::default() },
        ..Line::default()
    };
    Chart {
        name: "cost".to_owned(),
        title: "What does speed cost?".to_owned(),
        reading: "shm/ring is the fastest and takes the least CPU time.".to_owned(),
        x: numbers("CPU time per message [µs]", false),
        y: y("half a round trip, median [µs]", true),
        lines: (0..names.len()).map(line).collect(),
        ..Chart::default()
    }
}

fn heat(names: &[String], payloads: &[String]) -> Chart {
    let levels = [HeatLevel::Good, HeatLevel::Even, HeatLevel::Unclear, HeatLevel::Bad];
    let cells = (0..names.len()).flat_map(|row| (0..payloads.len()).map(move |column| (row, column)));
    let cells = cells.filter(|(row, column)| row + column != 3).map(|(row, column)| {
        let level = levels[(row * 7 + column * 3) % 4];
        let text = match level {
            HeatLevel::Good => "−12 %",
            HeatLevel::Even => "±0",
            HeatLevel::Unclear => "?",
            _ => "+31 %",
        };
        HeatCell { column, row, level, text: text.to_owned(), detail: format!("median: {text}") }
    });
    Chart {
        name: "verdicts".to_owned(),
        title: "What became slower?".to_owned(),
        reading: "Eight of 40 medians are slower than before.".to_owned(),
        x: X::Categories { label: "payload".to_owned(), names: payloads.to_vec() },
        y: y("sub-experiment", false),
        heat: Some(Heat { rows: names.to_vec(), cells: cells.collect() }),
        ..Chart::default()
    }
}

fn kinds() -> Document {
    let names = SYSTEMS.map(str::to_owned);
    let sizes = ["1k", "16k", "64k", "1M", "4M"].map(str::to_owned);
    let note = |severity, text: &str| Note::new(severity, "note", None, text.to_owned());
    let answer = "shm/ring is the fastest at 1k: 0.070 µs; next is iceoryx2/publish-subscribe, 1.9 times (1.8 to 2.0) \
                  as long.\nNo path proof failed and nothing was lost.\nIntervals are over 5 rounds.";
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let facts = vec![pair("kernel", "6.1.0"), pair("CPU", "a CPU, 2 cores"), pair("started", "2026-01-31 12:00:00")];
    let scale = (0..5).flat_map(|row| {
        (0..5).map(move |column| HeatCell {
            column,
            row,
            level: HeatLevel::Scale((row * 5 + column) as f64 / 24.0),
            text: format!("×{}", row * 5 + column),
            detail: String::new(),
        })
    });
    let scale = Chart {
        title: "How far from the floor?".to_owned(),
        heat: Some(Heat { rows: names[..5].to_vec(), cells: scale.collect() }),
        ..heat(&names, &sizes)
    };
    Document {
        blocks: vec![
            heading("answer", "Answer"),
            Block::Text(answer.to_owned()),
            Block::Notes(vec![
                note(Severity::Error, "FAILED: zenoh/tcp: the follower ended"),
                note(Severity::Warning, "uds at 64k: 2 lost"),
                note(Severity::Info, "3 × left out: a; b; c"),
            ]),
            heading("verdicts", "Verdicts"),
            Block::Chart(heat(&names, &sizes)),
            Block::Chart(scale),
            heading("results", "Results"),
            Block::Table(table(&names, &payloads(3))),
            heading("charts", "Charts"),
            Block::Chart(growth(&names, &payloads(13))),
            Block::Chart(tail(&names)),
            Block::Chart(rounds(&names)),
            Block::Chart(time()),
            Block::Chart(histogram()),
            Block::Chart(stacks(&names)),
            Block::Chart(single(&names)),
            Block::Chart(cost(&names)),
            heading("plan", "Plan and machine"),
            Block::Facts(Facts { title: "Machine".to_owned(), pairs: facts }),
            Block::Lines("tripmeter run quick\n  --rounds 5\n".to_owned()),
        ],
    }
}

/// Document of `systems` sub-experiments at `sizes` payloads.
fn large(systems: usize, sizes: usize) -> Document {
    let name = |at: usize| format!("{}_{}_poll", SYSTEMS[at % 8].replace('/', "_"), at / 8);
    let names: Vec<String> = (0..systems).map(name).collect();
    let payloads = payloads(sizes);
    let sizes: Vec<String> = payloads.iter().map(|bytes| format!("{}k", bytes / 1024)).collect();
    Document {
        blocks: vec![
            heading("answer", "Answer"),
            Block::Text("Everything at every size.".to_owned()),
            heading("verdicts", "Verdicts"),
            Block::Chart(heat(&names, &sizes)),
            heading("results", "Results"),
            Block::Table(table(&names, &payloads)),
            heading("charts", "Charts"),
            Block::Chart(growth(&names, &payloads)),
            Block::Chart(cost(&names)),
            Block::Chart(Chart { stacks: stacks(&names[..100.min(systems)]).stacks, ..stacks(&names) }),
            Block::Chart(time()),
        ],
    }
}

/// Document whose names contain markup and scripts, which must show as plain text.
fn hostile() -> Document {
    let names = [
        "<script>alert(1)</script>".to_owned(),
        "\"><img src=x onerror=alert(1)>".to_owned(),
        "'; alert(1); //</script><script>alert(1)</script>".to_owned(),
        "<!--<script>".to_owned(),
        "שלום/עולם?א=ב".to_owned(),
        "\u{202e}drawkcab\u{2028}".to_owned(),
        "{{x}} ${x} %s \\u003c &lt;b&gt;".to_owned(),
        "long".repeat(2500),
    ];
    let sizes: Vec<String> = names[..5].to_vec();
    let x = X::Categories { label: names[0].clone(), names: names.to_vec() };
    let marks = names.iter().map(|name| Mark { name: name.clone(), at: AxisValue::Y(1.0), color: BLACK });
    let hostile = |chart: Chart| Chart {
        name: names[1].clone(),
        title: names[2].clone(),
        subtitle: names[0].clone(),
        reading: names[7].clone(),
        marks: marks.clone().collect(),
        notes: names.to_vec(),
        y: Y { label: names[3].clone(), ..chart.y.clone() },
        ..chart
    };
    let blocks = vec![
        Block::Text(names.join(" ")),
        heading("answer", &names[0]),
        Block::Notes(names.iter().map(|name| Note::new(Severity::Error, "x", None, name.clone())).collect()),
        heading("answer", &names[4]),
        Block::Table(Table { title: names[7].clone(), ..table(&names, &payloads(2)) }),
        Block::Chart(hostile(heat(&names, &sizes))),
        Block::Chart(hostile(growth(&names, &payloads(5)))),
        Block::Chart(hostile(Chart { x, ..stacks(&names) })),
        Block::Chart(hostile(rounds(&names))),
        heading("facts", &names[7]),
        Block::Facts(Facts {
            title: names[1].clone(),
            pairs: names.iter().map(|name| (name.clone(), name.clone())).collect(),
        }),
        Block::Lines(names.join("\n")),
    ];
    Document { blocks }
}

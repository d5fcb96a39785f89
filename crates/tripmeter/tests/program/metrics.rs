//! `metrics.csv` has every figure of the manifest, once.

use crate::common::{Tripmeter, folder, manifest};
use std::collections::BTreeMap;
use std::path::Path;

/// The file of a finished run has the figures of each finished payload of its manifest, and no others.
#[track_caller]
pub fn check(results: &Path) {
    let mut reader = csv::Reader::from_path(results.join("metrics.csv")).expect("there is a file of figures");
    let mut values = BTreeMap::new();
    for row in reader.records() {
        let row = row.expect("rows are whole");
        let address: Vec<String> = row.iter().take(7).map(str::to_owned).collect();
        let value: f64 = row[7].parse().expect("a number");
        assert!(values.insert(address.clone(), value).is_none(), "{address:?} is there twice");
    }
    let manifest = manifest(results);
    let mut cells = Vec::new();
    for result in &manifest.sub_experiments {
        let (name, round) = (result.name.as_str(), result.round.to_string());
        for cell in &result.cells {
            let payload = cell.payload_bytes.to_string();
            let expect = |load: &str, figure: &str, statistic: &str, expected: f64| {
                let address = [name, &round, &payload, load, "all", figure, statistic].map(str::to_owned).to_vec();
                assert_eq!(values.get(&address), Some(&expected), "{address:?}");
            };
            if let Some(figures) = cell.rtt_half_ns {
                expect("closed", "rtt_half_ns", "p50", figures.median);
                expect("closed", "rtt_half_ns", "p99", figures.p99);
                expect("closed", "lost", "value", cell.counts.lost as f64);
            }
            for trial in &cell.channel {
                let load = format!("{}hz", trial.offered_hz);
                expect(&load, "sent", "value", trial.counts.sent as f64);
                expect(&load, "service_ns", "p999", trial.service_ns.map_or(f64::NAN, |latency| latency.p999));
                if trial.rate_missed {
                    expect(&load, "rate_missed", "value", 1.0);
                }
            }
            for trial in &cell.rpc {
                expect("closed", "completed_rate_hz", "value", trial.qps);
            }
            for trial in &cell.trials {
                expect("max", "received", "value", trial.followers[0].received as f64);
            }
            cells.push((name.to_owned(), round.clone(), payload));
        }
    }
    let mut found: Vec<_> = values.keys().map(|of| (of[0].clone(), of[1].clone(), of[2].clone())).collect();
    found.dedup();
    cells.sort();
    found.sort();
    assert_eq!(found, cells);
}

#[test]
fn every_pattern_has_its_figures_in_the_flat_table() {
    let place = folder();
    let experiment = r#"
        rounds = 2
        payloads = "64,1k"
        floor = false
        [[sub_experiment]]
        name = "trips"
        transport = "inmem"
        samples = 200
        [[sub_experiment]]
        name = "flow"
        transport = "inmem"
        pattern = "channel"
        rate = "2000"
        samples = 50
        [[sub_experiment]]
        name = "calls"
        transport = "inmem"
        pattern = "rpc"
        samples = 50
        [[sub_experiment]]
        name = "load"
        transport = "inmem"
        pattern = "throughput"
        samples = 1000
    "#;
    std::fs::write(place.path().join("all.toml"), experiment).unwrap();
    Tripmeter::new(["run", "all.toml", "-o", "r"]).at(place.path()).run().with(0).clean();
    check(&place.path().join("r"));
}

/// A folder as version 2.0 wrote it, and one of a later minor version, with fields that nobody knows yet.
#[test]
fn results_of_this_major_version_are_read() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/results-2.0");
    let place = folder();
    for file in ["manifest.json", "trials.jsonl"] {
        let text = std::fs::read_to_string(golden.join(file)).unwrap();
        let text = text.replace("\"schema_version\": \"2.0\"", "\"of_tomorrow\": [1], \"schema_version\": \"2.9\"");
        std::fs::write(place.path().join(file), text.replace("{\"sub_experiment\"", "{\"new\":{},\"sub_experiment\""))
            .unwrap();
    }
    for results in [golden.as_path(), place.path()] {
        let results = results.display().to_string();
        let words = ["table", &results, "--tables", "figures", "--format", "csv"];
        let printed = Tripmeter::new(words).run().with(0).stdout;
        for row in [
            "uds_stream_poll,64,closed,all,rtt_half_ns,p50,1,3471.5,",
            "uds_stream_poll,1024,closed,all,rtt_half_ns,p50,1,3811.5,",
            "uds_stream_poll,1024,closed,all,sent,value,1,55,",
        ] {
            assert!(printed.lines().any(|line| line.starts_with(row)), "{row}\n{printed}");
        }
    }
}

#[test]
fn several_tables_are_one_json_array_and_no_csv_but_the_figures() {
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/results-2.0");
    let print = |words: &[&str]| Tripmeter::new([&["table", golden][..], words].concat()).run();
    let array = print(&[golden, "--tables", "all,figures", "--format", "json"]).with(0).stdout;
    let array: Vec<serde_json::Value> = serde_json::from_str(&array).expect("one value");
    let tables: Vec<_> = array.iter().map(|one| (one["folder"].as_str(), one["table"].as_str())).collect();
    let both = [(Some(golden), Some("all")), (Some(golden), Some("figures"))];
    assert_eq!(tables, [both, both].concat());
    assert!(array.iter().all(|one| one["blocks"][0]["table"]["rows"].is_array()), "{array:?}");
    let only = print(&["--tables", "all", "--format", "json"]).with(0).stdout;
    assert!(serde_json::from_str::<serde_json::Value>(&only).is_ok_and(|only| only["blocks"].is_array()), "{only}");
    for words in [&[golden, "--tables", "all"][..], &["--tables", "all,figures"], &[golden, "--tables", "all,figures"]]
    {
        let refused = print(&[words, &["--format", "csv"]].concat()).with(64);
        assert!(refused.stdout.is_empty(), "{words:?}");
        refused.says(&["name one table and one folder, or --format json"]);
    }
    let figures = print(&[golden, "--tables", "figures", "--format", "csv"]).with(0).stdout;
    let mut reader = csv::Reader::from_reader(figures.as_bytes());
    let rows: Vec<csv::StringRecord> = reader.records().collect::<Result<_, _>>().expect("one table");
    assert_eq!(reader.headers().unwrap().get(0), Some("folder"));
    assert!(rows.len() > 2 && rows.len().is_multiple_of(2) && rows.iter().all(|row| &row[0] == golden), "{figures}");
    let markdown = print(&[golden, "--tables", "all", "--format", "markdown"]).with(0).stdout;
    assert_eq!(markdown.lines().filter(|line| *line == format!("# {golden}")).count(), 2, "{markdown}");
}

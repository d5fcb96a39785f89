//! Commands that judge and plot results: `compare`, `check`, `limits`, `history` and `export`. The results are
//! measured; then figures are overwritten, so that verdicts are known.

mod compare;
mod history;
mod limits;

use crate::common::{Finished, Tripmeter, alone, folder, manifest};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tripmeter_model::exit;

fn measured(words: &[&str]) -> Value {
    let _alone = alone();
    let place = folder();
    let output = place.path().join("results").display().to_string();
    let fixed = ["-q", "--no-floor", "--raw", "none", "--wait", "block", "--attempts", "1", "--loss-timeout", "15"];
    Tripmeter::new(words.iter().chain(&fixed).chain(&["-o", &output])).run().with(exit::GOOD);
    let mut manifest = manifest(&place.path().join("results")).whole();
    for cell in
        manifest["sub_experiments"].as_array_mut().unwrap().iter_mut().flat_map(|one| one["cells"].as_array_mut())
    {
        cell.iter_mut().for_each(as_on_a_quiet_machine);
    }
    manifest
}

/// Edits a cell as if each rate had been kept, and each percentile had enough samples.
fn as_on_a_quiet_machine(cell: &mut Value) {
    for trial in cell["trials"].as_array_mut().unwrap() {
        if let Some(missed) = trial.get_mut("rate_missed") {
            *missed = json!(false);
        }
        let streams = trial["streams"].as_object_mut().unwrap().values_mut();
        let figures = streams.filter_map(Value::as_object_mut).flat_map(|stream| stream.values_mut());
        figures.filter_map(|figure| figure.get_mut("n")).for_each(|n| *n = json!(ENOUGH));
    }
}

/// Enough samples for an upper bound of each percentile.
const ENOUGH: u64 = 40_000;

/// Manifest of sub-experiment `x` under `publish`, at two payloads.
fn channel() -> Value {
    static ONCE: OnceLock<Value> = OnceLock::new();
    let words = ["publish", "inmem", "--payloads", "512,1k", "-n", "20"];
    renamed(ONCE.get_or_init(|| measured(&words)))
}

fn rpc() -> Value {
    static ONCE: OnceLock<Value> = OnceLock::new();
    let words = ["call", "inmem", "--payloads", "512,1k", "-n", "20"];
    renamed(ONCE.get_or_init(|| measured(&words)))
}

fn log() -> Value {
    static ONCE: OnceLock<Value> = OnceLock::new();
    let words = ["log", "write/file", "--payloads", "32,64", "-n", "50"];
    renamed(ONCE.get_or_init(|| measured(&words)))
}

fn named(manifest: &Value, name: &str) -> Value {
    let mut manifest = manifest.clone();
    manifest["plan"]["sub_experiments"][0]["name"] = json!(name);
    manifest["sub_experiments"][0]["name"] = json!(name);
    manifest
}

fn renamed(manifest: &Value) -> Value {
    named(manifest, "x")
}

/// Manifest of sub-experiment `x` of round trips, at two payloads.
fn trips() -> Value {
    static ONCE: OnceLock<Value> = OnceLock::new();
    renamed(ONCE.get_or_init(|| measured(&["ping", "inmem", "--payloads", "512,1k", "-n", "20"])))
}

fn throughput() -> Value {
    static ONCE: OnceLock<Value> = OnceLock::new();
    renamed(ONCE.get_or_init(|| measured(&["throughput", "inmem", "--payloads", "1k", "-n", "200"])))
}

/// Figures of a latency with mean `us`.
fn latency(us: f64) -> Value {
    let ns = us * 1000.0;
    json!({ "n": ENOUGH, "min": ns * 0.5, "mean": ns, "p50": ns * 0.9, "p90": ns * 1.5, "p99": ns * 2.0, "p999": ns * 3.0,
        "max": ns * 4.0 })
}

fn figures(cell: &mut Value) -> &mut Value {
    &mut cell["trials"][0]["streams"]["all"]
}

/// Overwrites figures of all messages at all payloads.
fn changed(manifest: Value, figures_of_all: &[(&str, Value)]) -> Value {
    let mut manifest = manifest;
    for cell in manifest["sub_experiments"][0]["cells"].as_array_mut().unwrap() {
        figures_of_all.iter().for_each(|(name, value)| figures(cell)[*name] = value.clone());
    }
    manifest
}

/// Channel manifest with this mean service time, number of messages lost of 20, and rate at all payloads.
fn with(service_us: f64, lost: u64, rate: f64) -> Value {
    let service = ("service_ns", latency(service_us));
    let response = ("response_ns", latency(service_us + 50.0));
    let counts = [("sent", json!(20)), ("lost", json!(lost)), ("achieved_rate_hz", json!(rate))];
    changed(channel(), &[&[service, response][..], &counts].concat())
}

fn calls_with(service_us: f64, qps: f64) -> Value {
    changed(rpc(), &[("service_rtt_ns", latency(service_us)), ("completed_rate_hz", json!(qps))])
}

/// Manifest of half round trips with this mean.
fn trips_with(us: f64) -> Value {
    changed(trips(), &[("rtt_half_ns", latency(us))])
}

/// Manifest with `rounds` copies, each a thousandth slower.
fn in_rounds(manifest: &Value, rounds: u32) -> Value {
    let mut manifest = manifest.clone();
    manifest["plan"]["rounds"] = json!(rounds);
    let first = manifest["sub_experiments"][0].clone();
    let round = |round: u32| {
        let mut result = first.clone();
        result["round"] = json!(round);
        for cell in result["cells"].as_array_mut().unwrap() {
            for time in ["service_ns", "response_ns", "service_rtt_ns", "rtt_half_ns"] {
                let Some(statistics) = figures(cell).get_mut(time).and_then(Value::as_object_mut) else { continue };
                for (_, value) in statistics.iter_mut().filter(|(name, _)| *name != "n") {
                    *value = json!(value.as_f64().unwrap() * (1.0 + 0.001 * f64::from(round)));
                }
            }
        }
        result
    };
    manifest["sub_experiments"] = (1..=rounds).map(round).collect();
    manifest
}

fn write(place: &Path, manifest: &Value) -> PathBuf {
    fs::create_dir_all(place).unwrap();
    fs::write(place.join("manifest.json"), manifest.to_string()).unwrap();
    place.to_owned()
}

fn tripmeter(words: &[&str], paths: &[(&str, &Path)]) -> Finished {
    let paths = paths.iter().flat_map(|(flag, path)| [(*flag).to_owned(), path.display().to_string()]);
    let words = words.iter().map(|word| (*word).to_owned()).chain(paths).filter(|word| !word.is_empty());
    Tripmeter::new(words.collect::<Vec<_>>()).run()
}

fn compare(flags: &[&str], old: &Path, new: &Path) -> Finished {
    tripmeter(&[&["compare"], flags].concat(), &[("", old), ("", new)])
}

fn check(flags: &[&str], limits: &Path, folder: &Path) -> Finished {
    tripmeter(&[&["check"], flags].concat(), &[("--limits", limits), ("", folder)])
}

fn history(flags: &[&str], folder: &Path) -> Finished {
    tripmeter(&[&["history"], flags].concat(), &[("", folder)])
}

/// File with limits: sub-experiment, payload, load, stream, figure, statistic, limit.
fn limits(folder: &Path, rows: &str) -> PathBuf {
    let file = folder.join("limits.csv");
    fs::write(&file, format!("{LIMITS}{rows}")).unwrap();
    file
}

const LIMITS: &str = "sub_experiment,payload_bytes,offered_load,stream,figure,statistic,limit\n";

/// Lines with single spaces between words.
fn lines(text: &str) -> Vec<String> {
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[track_caller]
fn has(text: &str, line: &str) {
    assert!(lines(text).iter().any(|found| found == line), "no line '{line}' in\n{text}");
}

#[track_caller]
fn has_begin(text: &str, begin: &str, end: &str) {
    let found = lines(text).iter().any(|line| line.starts_with(begin) && line.ends_with(end));
    assert!(found, "no line '{begin}…{end}' in\n{text}");
}

//! Results by the commands that judge and draw: `compare`, `check`, `limits`, `history` and `export`. What was measured is
//! real; figures are then written over, so that verdicts are known.

use crate::common::{Finished, Tripmeter, alone, folder, manifest};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tripmeter_model::exit;

/// Runs a short experiment; returns its manifest.
fn measured(words: &[&str]) -> Value {
    let _alone = alone();
    let place = folder();
    let output = place.path().join("results").display().to_string();
    let fixed = ["-q", "--no-floor", "--raw", "none", "--wait", "block", "--attempts", "1", "--loss-timeout", "15"];
    Tripmeter::new(words.iter().chain(&fixed).chain(&["-o", &output])).run().with(exit::GOOD);
    manifest(&place.path().join("results")).whole()
}

/// One sub-experiment `x` under `channel` at two payloads.
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
    let words = ["logger", "write/file", "--payloads", "32,64", "-n", "50"];
    renamed(ONCE.get_or_init(|| measured(&words)))
}

/// With its only sub-experiment called so.
fn named(manifest: &Value, name: &str) -> Value {
    let mut manifest = manifest.clone();
    manifest["plan"]["sub_experiments"][0]["name"] = json!(name);
    manifest["sub_experiments"][0]["name"] = json!(name);
    manifest
}

/// The same, called `x`.
fn renamed(manifest: &Value) -> Value {
    named(manifest, "x")
}

/// One sub-experiment `x` of round trips at two payloads.
fn trips() -> Value {
    static ONCE: OnceLock<Value> = OnceLock::new();
    renamed(ONCE.get_or_init(|| measured(&["ping", "inmem", "--payloads", "512,1k", "-n", "20"])))
}

fn throughput() -> Value {
    static ONCE: OnceLock<Value> = OnceLock::new();
    renamed(ONCE.get_or_init(|| measured(&["throughput", "inmem", "--payloads", "1k", "-n", "200"])))
}

/// The figures of a latency that is `us` on average.
fn latency(us: f64) -> Value {
    let ns = us * 1000.0;
    json!({ "n": 20, "min": ns * 0.5, "mean": ns, "p50": ns * 0.9, "p90": ns * 1.5, "p99": ns * 2.0, "p999": ns * 3.0,
        "max": ns * 4.0 })
}

/// Figures of all messages in the only trial of a cell.
fn figures(cell: &mut Value) -> &mut Value {
    &mut cell["trials"][0]["streams"]["all"]
}

/// These figures of all messages at all payloads.
fn changed(manifest: Value, figures_of_all: &[(&str, Value)]) -> Value {
    let mut manifest = manifest;
    for cell in manifest["sub_experiments"][0]["cells"].as_array_mut().unwrap() {
        figures_of_all.iter().for_each(|(name, value)| figures(cell)[*name] = value.clone());
    }
    manifest
}

/// A channel's manifest with these figures at all payloads: average service time, messages lost of 20, and rate.
fn with(service_us: f64, lost: u64, rate: f64) -> Value {
    let service = ("service_ns", latency(service_us));
    let response = ("response_ns", latency(service_us + 50.0));
    let counts = [("sent", json!(20)), ("lost", json!(lost)), ("achieved_rate_hz", json!(rate))];
    changed(channel(), &[&[service, response][..], &counts].concat())
}

fn calls_with(service_us: f64, qps: f64) -> Value {
    changed(rpc(), &[("service_rtt_ns", latency(service_us)), ("completed_rate_hz", json!(qps))])
}

/// Half round trips of this average.
fn trips_with(us: f64) -> Value {
    changed(trips(), &[("rtt_half_ns", latency(us))])
}

/// As if it had been measured so often, each time a thousandth slower.
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

/// A file with these limits: sub-experiment, payload, load, stream, figure, statistic, limit.
fn limits(folder: &Path, rows: &str) -> PathBuf {
    let file = folder.join("limits.csv");
    fs::write(&file, format!("{LIMITS}{rows}")).unwrap();
    file
}

const LIMITS: &str = "sub_experiment,payload_bytes,offered_load,stream,figure,statistic,limit\n";

/// Words of a line with single spaces between them.
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

#[test]
fn one_run_is_compared_in_all_its_figures() {
    let place = folder();
    let old = write(&place.path().join("a"), &with(10.0, 0, 1000.0));
    let same = compare(&[], &old, &old).with(0);
    has_begin(&same.stdout, "x 12/12 ", "passed");
    let told = "1 of 1 sub-experiments passed: at most +10 %, or at least -9.1 % of what is better if there is more";
    has(&same.unwrapped(), told);
    let worse = write(&place.path().join("b"), &with(12.0, 1, 800.0));
    let done = compare(&["--all"], &old, &worse).with(1);
    for line in [
        "512 1000hz service_ns.p50 9.000 10.800 +20.0 % FAILED",
        "512 1000hz response_ns.p50 54.000 55.800 +3.3 % passed",
        "512 1000hz loss_share 0.000 % 5.000 % +inf % FAILED",
        "1k 1000hz achieved_rate_hz 1000.000 /s 800.000 /s -20.0 % FAILED",
    ] {
        has(&done.stdout, line);
    }
    let done = compare(&["--all", "--figures", "service_ns.p999,service_ns.mean"], &old, &worse).with(1);
    has(&done.stdout, "512 1000hz service_ns.p999 30.000 36.000 +20.0 % FAILED");
    has(&done.stdout, "1k 1000hz service_ns.mean 10.000 12.000 +20.0 % FAILED");
    assert!(!done.stdout.contains("loss_share"), "{}", done.stdout);
    compare(&["--figures", "service_ns.p98"], &old, &worse).with(64).one_line(&["'service_ns.p98'", "service_ns.p999"]);
    let value: Value = serde_json::from_str(&compare(&["--json"], &old, &worse).with(1).stdout).unwrap();
    let comparisons = value["sub_experiments"][0]["comparisons"].as_array().unwrap();
    let rate = comparisons.iter().find(|one| one["figure"] == "achieved_rate_hz").unwrap();
    let expected = json!({ "sub_experiment": "x", "payload_bytes": 512, "offered_load": "1000hz", "stream": "all",
        "figure": "achieved_rate_hz", "statistic": "value", "unit": "/s", "reference": 1000.0, "result": 800.0,
        "increase_share": -0.2, "outcome": "failed" });
    assert_eq!(*rate, expected);
    let plots = place.path().join("plots");
    tripmeter(&["compare", "--svg"], &[("", &old), ("", &worse), ("--plots", &plots)]).with(1);
    let svg = fs::read_to_string(plots.join("x/service_ns.p50_1000hz_comparison.svg")).unwrap();
    assert!(svg.contains("service_ns.p50 [us]") && svg.contains("reference"), "{svg}");
}

#[test]
fn only_what_is_beyond_the_threshold_fails() {
    let place = folder();
    let old = write(&place.path().join("a"), &trips_with(10.0));
    let new = |us: f64| write(&place.path().join("b"), &trips_with(us));
    compare(&["--threshold", "10%"], &old, &new(11.0)).with(0);
    compare(&["--threshold", "10%"], &old, &new(11.01)).with(1);
    compare(&["--threshold", "0"], &old, &new(1.0)).with(0);
    compare(&["--threshold", "1000%"], &old, &new(90.0)).with(0);
    for wrong in ["-0.1", "nan", "fast"] {
        compare(&["--threshold", wrong], &old, &old).with(64).one_line(&["--threshold"]);
    }
    compare(&["--margin", "5%"], &old, &old).with(64).one_line(&["--margin", "--threshold"]);
    compare(&["--method", "ranks"], &old, &old).with(65).one_line(&["too few rounds", "--method threshold"]);
}

#[test]
fn several_rounds_are_compared_in_all_their_figures() {
    let place = folder();
    let old = write(&place.path().join("a"), &in_rounds(&with(10.0, 0, 1000.0), 10));
    let same = compare(&[], &old, &old).with(0);
    assert!(same.stdout.contains("0 regressed, 0 improved"), "{}", same.stdout);
    let worse = write(&place.path().join("b"), &in_rounds(&with(12.0, 2, 800.0), 10));
    let done = compare(&["--method", "ranks"], &old, &worse).with(1);
    has_begin(&done.stdout, "512 1000hz service_ns.p50 10+10 9.050 10.859 1.200 ", "REGRESSED");
    has_begin(&done.stdout, "512 1000hz service_ns.p99 10+10 20.110 24.132 1.200 ", "REGRESSED");
    has_begin(&done.stdout, "512 1000hz delivered_share 10+10 100.000 % 90.000 % 0.900 ", "REGRESSED");
    has_begin(&done.stdout, "512 1000hz achieved_rate_hz 10+10 1000.000 /s 800.000 /s 0.800 ", "REGRESSED");
    let value: Value = serde_json::from_str(&compare(&["--json"], &worse, &old).with(0).stdout).unwrap();
    let rate = value["comparisons"].as_array().unwrap().iter().find(|one| one["figure"] == "achieved_rate_hz").unwrap();
    assert_eq!(
        (&rate["verdict"], &rate["unit"], &rate["reference"]),
        (&json!("improved"), &json!("/s"), &json!(800.0))
    );
    // What may be 0 has no ratio.
    let done = compare(&["--figures", "lost"], &old, &worse).with(65);
    done.one_line(&["nothing to compare"]);
    compare(&["--threshold", "5%"], &old, &worse).with(64).one_line(&["--method threshold"]);
}

#[test]
fn calls_loggers_and_throughput_are_compared_too() {
    let place = folder();
    let write = |name: &str, manifest: &Value| write(&place.path().join(name), manifest);
    let [old, worse] = [("a", 9000.0), ("b", 8000.0)].map(|(name, qps)| write(name, &calls_with(100.0, qps)));
    let done = compare(&["--all"], &old, &worse).with(1);
    has(&done.stdout, "512 completed_rate_hz 9000.000 /s 8000.000 /s -11.1 % FAILED");
    has(&done.stdout, "512 service_rtt_ns.p50 90.000 90.000 +0.0 % passed");
    let rounds = [("c", 9000.0), ("d", 8000.0)].map(|(name, qps)| write(name, &in_rounds(&calls_with(100.0, qps), 10)));
    let done = compare(&[], &rounds[0], &rounds[1]).with(1);
    has_begin(&done.stdout, "512 completed_rate_hz 10+10 9000.000 /s 8000.000 /s 0.889 ", "REGRESSED");
    let lossy = changed(log(), &[("sent", json!(50)), ("lost", json!(5))]);
    let done = compare(&["--all"], &write("log_a", &log()), &write("log_b", &lossy)).with(1);
    has(&done.stdout, "32 loss_share 0.000 % 10.000 % +inf % FAILED");
    let rate = |hz: f64| changed(throughput(), &[("received_rate_hz", json!(hz))]);
    let done = compare(&["--all"], &write("max_a", &rate(1e6)), &write("max_b", &rate(5e5))).with(1);
    has(&done.stdout, "1k max received_rate_hz 1000000.000 /s 500000.000 /s -50.0 % FAILED");
}

#[test]
fn limits_are_made_and_checked() {
    let place = folder();
    let runs = place.path().join("runs");
    for run in 1..=5_u32 {
        let run_us = 10.0 + f64::from(run);
        write(&runs.join(format!("run-{run:04}")), &with(run_us, 0, 1000.0 - f64::from(run)));
    }
    let file = place.path().join("limits.csv");
    let made = tripmeter(&["limits", "--percentile", "100"], &[("", &runs), ("-o", &file)]).with(0);
    has(&made.stdout, "x 512 1000hz response_ns.p50 at most 58.500");
    let golden = |bytes: u64| {
        let row = |rest: &str| format!("x,{bytes},1000hz,all,{rest}\n");
        [
            "response_ns,p50,58500",
            "response_ns,p99,130000",
            "service_ns,p50,13500",
            "service_ns,p99,30000",
            "loss_share,value,0",
            "achieved_rate_hz,value,995",
        ]
        .map(row)
        .concat()
    };
    assert_eq!(fs::read_to_string(&file).unwrap(), format!("{LIMITS}{}{}", golden(512), golden(1024)));
    let good = write(&place.path().join("good"), &with(12.0, 0, 999.0));
    check(&["--strict"], &file, &good).with(0);
    let bad = write(&place.path().join("bad"), &with(12.0, 1, 900.0));
    let done = check(&["--all"], &file, &bad).with(1);
    has(&done.stdout, "512 1000hz loss_share 0.000 % 5.000 % +inf % FAILED");
    has(&done.stdout, "512 1000hz achieved_rate_hz 995.000 /s 900.000 /s +9.5 % FAILED");
    has(&done.stdout, "8 of 12 limits met; 1 of 1 sub-experiment failed");
    let value: Value = serde_json::from_str(&check(&["--json"], &file, &bad).with(1).stdout).unwrap();
    let rows = value["sub_experiments"][0]["limits"].as_array().unwrap();
    let rate = rows.iter().find(|row| row["figure"] == "achieved_rate_hz").unwrap();
    assert_eq!((&rate["limit"], &rate["value"], &rate["passed"]), (&json!(995.0), &json!(900.0), &json!(false)));
    // Of several rounds each is a run, and the median is checked; a folder of a round is that round alone.
    let rounds = write(&place.path().join("rounds"), &in_rounds(&with(10.0, 0, 1000.0), 4));
    fs::create_dir(rounds.join("round-04")).unwrap();
    let made =
        tripmeter(&["limits", "--percentile", "50", "--figures", "service_ns.p50"], &[("", &rounds), ("-o", &file)]);
    made.with(0).says(&["from 4 runs"]);
    assert!(fs::read_to_string(&file).unwrap().contains("x,512,1000hz,all,service_ns,p50,9022.5"));
    check(&[], &file, &rounds).with(0);
    check(&[], &file, &rounds.join("round-04")).with(1);
}

#[test]
fn what_is_on_one_side_only_is_named_and_fails_if_strict() {
    let place = folder();
    let results = write(&place.path().join("a"), &trips_with(10.0));
    let row = |name: &str, bytes: u64, limit: f64| format!("{name},{bytes},closed,all,rtt_half_ns,p50,{limit}\n");
    let file = limits(place.path(), &[row("x", 512, 9000.0), row("gone", 512, 1.0)].concat());
    let done = check(&[], &file, &results).with(0);
    has(&done.unwrapped(), "not checked: 1 sub-experiment with limits but not measured: gone");
    check(&["--strict"], &file, &results).with(1);
    let done = check(&["--all"], &limits(place.path(), &row("x", 4096, 9000.0)), &results).with(1);
    has(&done.stdout, "4k rtt_half_ns.p50 9.000 not measured not measured FAILED");
    let other = limits(place.path(), &row("y", 512, 1.0));
    check(&[], &other, &results).with(65).one_line(&["nothing to check", "limits.csv", "x"]);
    check(&[], &limits(place.path(), ""), &results).with(65).one_line(&["no limits"]);
    check(&[], &limits(place.path(), "x,1,closed,all,rtt_half_ns,p50,fast\n"), &results)
        .with(65)
        .one_line(&["line 2", "'fast'"]);
    check(&[], &place.path().join("none.csv"), &results).with(66).one_line(&["none.csv"]);
    let some = limits(place.path(), &row("y", 512, 1.0));
    check(&[], &some, place.path()).with(66).one_line(&["no results folder"]);
    // Payloads of one side.
    let mut less = trips_with(10.0);
    less["sub_experiments"][0]["cells"].as_array_mut().unwrap().truncate(1);
    less["sub_experiments"][0]["payloads"] = json!(1);
    let less = write(&place.path().join("b"), &less);
    let done = compare(&[], &results, &less).with(1);
    has(&done.unwrapped(), "FAILED: missing in the results: x at 1k");
    let done = compare(&[], &less, &results).with(0);
    has(&done.unwrapped(), "not compared: only in the results: x at 1k");
    compare(&["--strict"], &less, &results).with(1);
}

#[test]
fn the_exit_code_is_the_number_of_failing_sub_experiments_and_63_at_most() {
    let place = folder();
    for count in [1, 5, 63, 64, 70] {
        let mut manifest = trips_with(10.0);
        for part in ["plan", ""] {
            let list =
                if part.is_empty() { &mut manifest["sub_experiments"] } else { &mut manifest[part]["sub_experiments"] };
            let first = list[0].clone();
            let named = |number: usize| {
                let mut one = first.clone();
                one["name"] = json!(format!("s{number}"));
                one
            };
            *list = (0..count).map(named).collect();
        }
        let results = write(&place.path().join("a"), &manifest);
        let rows = (0..count).map(|number| format!("s{number},512,closed,all,rtt_half_ns,p50,1\n"));
        let file = limits(place.path(), &rows.collect::<String>());
        check(&[], &file, &results).with(count.min(63) as u8);
    }
}

/// As measured: with all decimals.
#[test]
fn a_run_meets_limits_that_are_made_of_it_alone() {
    let lossy = {
        static ONCE: OnceLock<Value> = OnceLock::new();
        // After the path proof and the warm-up.
        let words = "publish inmem?lose=530 --payloads 512 --warmup 2 -n 30";
        ONCE.get_or_init(|| measured(&words.split(' ').collect::<Vec<_>>()))
    };
    let all = [("channel", &channel()), ("rpc", &rpc()), ("log", &log()), ("lossy", lossy), ("max", &throughput())];
    for (kind, manifest) in all {
        let place = folder();
        let run = write(&place.path().join("runs/run-0001"), manifest);
        let file = place.path().join("limits.csv");
        for percentile in ["0", "99", "100"] {
            let made =
                tripmeter(&["limits", "--percentile", percentile], &[("", &place.path().join("runs")), ("-o", &file)]);
            assert!(!made.with(0).stderr.contains("fail"), "{kind}");
            let done = check(&["--strict"], &file, &run);
            assert!(done.code == Some(0), "{kind}, percentile {percentile}: {}", done.stdout);
        }
    }
}

#[test]
fn limits_are_loosened_for_all_of_them_together() {
    let place = folder();
    let runs = place.path().join("runs");
    for run in 1..=19_u32 {
        write(&runs.join(format!("run-{run:04}")), &trips_with(10.0 + 0.1 * f64::from(run)));
    }
    let row = |bytes: u64| format!("x,{bytes},closed,all,rtt_half_ns,p50,9900\n");
    let file = limits(place.path(), &[row(512), row(1024)].concat());
    let measured = |us: f64| write(&place.path().join("a"), &trips_with(us));
    let loosened = ["--family-wise", &runs.display().to_string()].map(str::to_owned);
    let loosened = [loosened[0].as_str(), loosened[1].as_str()];
    check(&[], &file, &measured(11.8)).with(1);
    check(&loosened, &file, &measured(11.8)).with(0).says(&["limits times 1.082 (rtt_half_ns.p50)", "19"]);
    check(&loosened, &file, &measured(12.0)).with(1);
    fs::remove_dir_all(runs.join("run-0001")).unwrap();
    check(&loosened, &file, &measured(1.0)).with(65).one_line(&["18 whole runs", "needs 19"]);
}

/// A database of an experiment a day, of the average latency of each.
fn database(place: &Path, days: usize, us: impl Fn(usize) -> f64) -> PathBuf {
    let database = place.join("db");
    for day in 0..days {
        write(&database.join(day_name(day)), &trips_with(us(day)));
    }
    database
}

fn day_name(day: usize) -> String {
    format!("2026-{:02}-{:02}_12-00-00", 1 + day / 28, 1 + day % 28)
}

#[test]
fn a_step_in_the_history_fails_until_it_is_known() {
    let place = folder();
    let database = database(place.path(), 16, |day| if day < 8 { 10.0 } else { 12.0 } + 0.05 * (day % 3) as f64);
    let readme = database.join("readme.txt");
    fs::write(&readme, "").unwrap();
    let done = history(&["--fail-on-change"], &database).with(1).says(&["note: ignored", "'readme.txt'"]);
    fs::remove_file(readme).unwrap();
    has_begin(&done.stdout, "x 512 rtt_half_ns.p50 step 2026-01-09_12-00-00 - 9.0", " <0.001");
    // Two payloads of two figures.
    assert!(done.stdout.contains("4 steps and 0 slow drifts in 4 figures"), "{}", done.stdout);
    history(&[], &database).with(0);
    let done = history(&["--fail-on-change", "--known", "2026-01-09_12-00-00"], &database).with(0);
    assert!(done.stdout.contains(" known\n") && done.stdout.contains("0 steps and 0 slow drifts"), "{}", done.stdout);
    history(&["--fail-on-change", "--known", "2026-01-09_12-00-00:x"], &database).with(0);
    history(&["--fail-on-change", "--min-change", "50%"], &database).with(0);
    for wrong in ["2025", "2026-01-09_12-00-00:tcp"] {
        history(&["--known", wrong], &database).with(64).one_line(&[&format!("'{wrong}'"), "--known"]);
    }
    history(&[], &database.join("2026-01-09_12-00-00/none")).with(66).one_line(&["cannot be read"]);
}

#[test]
fn a_slow_drift_in_the_history_is_no_flight_of_steps_and_fails_until_it_is_known() {
    let place = folder();
    // Up to the 40th, and from there on as it is.
    let database =
        database(place.path(), 50, |day| 10.0 * 1.01_f64.powi(day.min(40) as i32) * (1.0 + 0.003 * (day % 3) as f64));
    let fails = |flags: &[&str]| history(&[&["--fail-on-change"], flags].concat(), &database);
    let done = fails(&[]).with(1);
    has_begin(&done.stdout, &format!("x 512 rtt_half_ns.p50 drift {} ", day_name(0)), "<0.001");
    assert!(done.stdout.contains("0 steps and 4 slow drifts in 4 figures"), "{}", done.stdout);
    let known = fails(&["--known-drift", &day_name(49)]).with(0);
    assert!(known.stdout.lines().any(|line| line.contains(" drift ") && line.ends_with(" known")), "{}", known.stdout);
    fails(&["--known-drift", &format!("{}:x", day_name(49))]).with(0);
    // It goes on after what is known; and a known step is no excuse for a drift before it.
    fails(&["--known-drift", &day_name(20)]).with(1);
    fails(&["--known", &day_name(40)]).with(1);
}

#[test]
fn histories_are_drawn_with_their_limits() {
    let place = folder();
    let database = place.path().join("db");
    for day in 1..=4_u32 {
        write(&database.join(format!("2026-01-{day:02}_12-00-00")), &with(10.0 + f64::from(day), 0, 1000.0));
    }
    let plots = place.path().join("plots");
    let file = limits(place.path(), "x,512,1000hz,all,service_ns,p50,15000\n");
    let done = tripmeter(&["history", "--svg"], &[("", &database), ("--limits", &file), ("--plots", &plots)]).with(0);
    assert!(done.stdout.contains("12 plots of 4 experiments"), "{}", done.stdout);
    let svg = |name: &str| fs::read_to_string(plots.join("x").join(name)).unwrap();
    let by_run = svg("service_ns.p50_1000hz_by_run.svg");
    assert!(by_run.contains("limit of 512") && by_run.contains("service_ns.p50 [us]"), "{by_run}");
    let by_payload = svg("service_ns.p50_1000hz_by_payload.svg");
    assert!(by_payload.contains("limit") && by_payload.contains("2026-01-04_12-00-00"), "{by_payload}");
    assert!(svg("loss_share_1000hz_by_run.svg").contains("loss_share [%]"));
    assert!(!svg("response_ns.p99_1000hz_by_run.svg").contains("limit"));
}

/// A database of sixteen experiments of six rounds each, made of the average service time of each.
fn sixteen(place: &Path, service_us: impl Fn(usize) -> f64, change: impl Fn(usize, &mut Value)) -> PathBuf {
    for day in 0..16 {
        let mut manifest = in_rounds(&with(service_us(day), 0, 1000.0), 6);
        change(day, &mut manifest);
        write(&place.join(day_name(day)), &manifest);
    }
    place.to_owned()
}

/// A step in the middle of sixteen.
fn stepped(day: usize) -> f64 {
    let level = if day < 8 { 10.0 } else { 14.0 };
    level + 0.01 * (day % 3) as f64
}

#[test]
fn rounds_of_one_experiment_are_one_value_of_its_history() {
    let place = folder();
    // What differs from day to day is the same in all rounds of a day: taken for runs, they would show steps.
    let days = [10.0, 10.9, 9.6, 10.2, 10.8, 9.5, 10.3, 9.9, 10.7, 9.7, 10.4, 10.0, 9.6, 10.6, 10.1, 10.5];
    let database = sixteen(&place.path().join("db"), |day| days[day], |_, _| ());
    let done = history(&["--fail-on-change"], &database).with(0);
    assert!(done.stdout.starts_with("0 steps and 0 slow drifts in "), "{}", done.stdout);
}

#[test]
fn a_change_of_environment_parts_a_history_and_is_reported() {
    let place = folder();
    let database = sixteen(&place.path().join("db"), stepped, |day, manifest| {
        manifest["environment"]["kernel"] = json!(if day < 8 { "Linux 1" } else { "Linux 2" })
    });
    let done = history(&["--fail-on-change"], &database).with(0);
    let line = done.stdout.lines().find(|line| line.starts_with("another environment since '2026-01-09_12-00-00'"));
    assert!(line.is_some_and(|line| line.contains("Linux 1") && line.contains("Linux 2")), "{}", done.stdout);
}

#[test]
fn failed_sub_experiments_are_no_part_of_a_history() {
    let place = folder();
    let database = sixteen(&place.path().join("db"), stepped, |day, manifest| {
        for result in manifest["sub_experiments"].as_array_mut().unwrap().iter_mut().filter(|_| day >= 8) {
            (result["status"], result["error"]) = (json!("failed"), json!("the follower ended"));
        }
    });
    let done = history(&["--fail-on-change"], &database).with(0);
    assert!(done.stderr.contains("it failed: the follower ended"), "{}", done.stderr);
}

#[test]
fn a_payload_that_was_not_answered_is_named_by_compare() {
    let place = folder();
    let [old, silent] = ["a", "b"].map(|name| {
        let mut manifest = in_rounds(&trips(), 10);
        for result in manifest["sub_experiments"].as_array_mut().unwrap().iter_mut().filter(|_| name == "b") {
            let cell = &mut result["cells"][1];
            (cell["samples"], cell["trials"][0]["series"]) = (json!(0), json!({}));
            figures(cell).as_object_mut().unwrap().remove("rtt_half_ns");
            figures(cell)["received"] = json!(0);
        }
        write(&place.path().join(name), &manifest)
    });
    let done = compare(&["--method", "ranks"], &old, &silent).with(exit::PARTIAL);
    let text = done.unwrapped();
    assert!(text.contains("x at 1k, ") && text.contains(": no message was answered"), "{text}");
    assert!(text.contains("missing in the results: x at 1k: rtt_half_ns.p50"), "{text}");
}

#[test]
fn rounds_of_a_channel_in_which_nothing_arrived_are_named_by_compare_and_not_averaged_away() {
    let place = folder();
    let [old, silent, short] = ["a", "b", "c"].map(|name| {
        let mut manifest = in_rounds(&with(10.0, 0, 1000.0), 10);
        let results = manifest["sub_experiments"].as_array_mut().unwrap();
        for result in results.iter_mut().take(3).filter(|_| name == "b") {
            for cell in result["cells"].as_array_mut().unwrap() {
                let figures = figures(cell).as_object_mut().unwrap();
                figures.retain(|name, _| !["service_ns", "response_ns"].contains(&name.as_str()));
                figures["lost"] = json!(19);
            }
        }
        results.truncate(if name == "c" { 8 } else { 10 });
        write(&place.path().join(name), &manifest)
    });
    let done = compare(&["--method", "ranks"], &old, &silent).with(exit::PARTIAL);
    for round in 1..=3 {
        let line = format!("round {round} of the results: no message was answered or arrived");
        assert!(done.unwrapped().contains(&line), "{}", done.stdout);
    }
    assert!(!done.unwrapped().contains("round 4 of the results"), "{}", done.stdout);
    let done = compare(&["--method", "ranks"], &old, &short).with(exit::PARTIAL);
    assert!(done.unwrapped().contains("x, round 9 of the results: it was not run"), "{}", done.stdout);
}

#[test]
fn kinds_are_never_mixed() {
    let place = folder();
    let write = |name: &str, manifest: &Value| write(&place.path().join(name), manifest);
    let (channel, rpc, log) = (write("channel", &channel()), write("rpc", &rpc()), write("log", &log()));
    // Each has an offered load or a payload of its own.
    let done = compare(&[], &channel, &rpc).with(1).unwrapped();
    assert!(done.contains("FAILED: missing in the results: x at 512 1000hz, x at 1k 1000hz"), "{done}");
    assert!(done.contains("only in the results: x at 512, x at 1k"), "{done}");
    compare(&[], &log, &channel).with(1);
    let other = write("other", &named(&self::rpc(), "y"));
    compare(&[], &channel, &other).with(65).one_line(&["nothing to compare", "x", "y"]);
    // Of round trips and calls, both in a closed loop, only the loss is of one kind.
    let done = compare(&["--all"], &write("trips", &trips()), &rpc).with(1).unwrapped();
    assert!(done.contains("missing in the results: x at 512: rtt_half_ns.p50"), "{done}");
    assert!(done.contains("only in the results: x at 512: service_rtt_ns.p50"), "{done}");
    let file = limits(place.path(), "x,512,closed,all,service_rtt_ns,p50,1e12\n");
    check(&[], &file, &rpc).with(0);
    check(&[], &file, &channel).with(1);
    let file = limits(place.path(), "x,512,100hz,all,service_ns,p50,1e12\n");
    check(&[], &file, &channel).with(1);
    // Followers are no part of an address.
    let mut several = trips();
    several["plan"]["sub_experiments"][0]["workload"]["followers"] = json!(2);
    let several = write("several", &several);
    let one = place.path().join("trips");
    compare(&[], &one, &several).says(&["x", "followers 1 in the reference, 2 in the results"]);
    let done = tripmeter(&["limits"], &[("", &one), ("", &several), ("-o", &place.path().join("l.csv"))]).with(65);
    done.one_line(&["'x' has no common limits", "with followers 1, run 'several' with 2"]);
}

#[test]
fn latency_one_way_of_calls_has_verdicts_of_its_own() {
    let place = folder();
    let measured = renamed(&measured(&["call", "inmem", "--payloads", "512,1k", "-n", "20", "--one-way"]));
    let with = |name: &str, one_way_us: f64| {
        let figures = [("service_rtt_ns", latency(100.0)), ("one_way_ns", latency(one_way_us))];
        write(&place.path().join(name), &changed(measured.clone(), &figures))
    };
    let (old, slower) = (with("a", 40.0), with("b", 50.0));
    let done = compare(&["--all"], &old, &slower).with(1);
    has(&done.stdout, "512 one_way_ns.p50 36.000 45.000 +25.0 % FAILED");
    has(&done.stdout, "512 service_rtt_ns.p50 90.000 90.000 +0.0 % passed");
    compare(&[], &old, &old).with(0);
    // Calls without it lack it.
    let without = write(&place.path().join("c"), &calls_with(100.0, 9000.0));
    let done = compare(&[], &old, &without).with(1).unwrapped();
    assert!(done.contains("missing in the results: x at 512: one_way_ns.p50"), "{done}");
    let file = limits(place.path(), "x,512,closed,all,one_way_ns,p50,37000\n");
    check(&[], &file, &old).with(0);
    check(&[], &file, &slower).with(1);
}

#[test]
fn plots_are_drawn_of_folders_and_after_a_run() {
    let place = folder();
    let output = place.path().join("run");
    {
        let _alone = alone();
        let words = ["run", "aimrt-rpc", "--only", "inmem", "--payloads", "512,1k", "-n", "10", "-q", "-o"];
        Tripmeter::new(words.iter().map(|word| (*word).to_owned()).chain([output.display().to_string()]))
            .run()
            .with(exit::GOOD);
    }
    let drawn = |folder: &Path| {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    // The transport is measured as the flags say: in a closed loop, at the usual payloads.
    assert!(drawn(&output.join("plots")).iter().all(|name| name.ends_with(".png")), "{:?}", drawn(&output));
    let (one, two) = (write(&place.path().join("a"), &channel()), write(&place.path().join("b"), &channel()));
    let done = tripmeter(&["export", "--format", "svg"], &[("", &one)]).with(0);
    let file = one.join("plots/channel_latency_by_size_topics-1_rate-1000.svg");
    assert_eq!(done.stdout, format!("{}\n", file.display()));
    assert!(fs::read_to_string(&file).unwrap().contains("Average latency, one_way, service time [us]"));
    let paths = [two.display().to_string(), place.path().join("together").display().to_string()];
    let words = ["export", &one.display().to_string(), &paths[0], "--format", "svg", "--log", "-o", &paths[1]]
        .map(str::to_owned);
    Tripmeter::new(words).run().with(0);
    let svg = fs::read_to_string(place.path().join("together/channel_latency_by_size_topics-1_rate-1000.svg")).unwrap();
    assert!(svg.contains(" · a") && svg.contains(" · b"), "{svg}");
    tripmeter(&["export", "--format", "png"], &[("--log", &one), ("--", &two)])
        .with(64)
        .one_line(&["2 folders", "-o DIR"]);
    let log = write(&place.path().join("one"), &{
        let mut log = log();
        log["sub_experiments"][0]["cells"].as_array_mut().unwrap().truncate(1);
        log["sub_experiments"][0]["payloads"] = json!(1);
        log
    });
    tripmeter(&["export", "--format", "svg"], &[("--", &log)]).with(65).one_line(&["nothing to plot", "two payloads"]);
    tripmeter(&["export", "--format", "svg"], &[("--", place.path())]).with(66).one_line(&["no results folder"]);
}

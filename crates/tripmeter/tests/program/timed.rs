//! Results of patterns `channel`, `rpc` and `log` by the commands that judge and draw: `plot`, `compare`, `check`,
//! `requirements` and `history`. What was measured is real; figures are then written over, so that verdicts are known.

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
    let fixed =
        ["ping", "-q", "--no-floor", "--raw", "none", "--wait", "block", "--attempts", "1", "--loss-timeout", "15"];
    Tripmeter::new(fixed.iter().chain(&["-o", &output]).chain(words)).run().with(exit::GOOD);
    manifest(&place.path().join("results")).whole()
}

/// One sub-experiment `x` under `channel` at two payloads.
fn channel() -> Value {
    static ONCE: OnceLock<Value> = OnceLock::new();
    let words = ["--pattern", "channel", "inmem", "--payloads", "512,1k", "-n", "20"];
    renamed(ONCE.get_or_init(|| measured(&words)))
}

fn rpc() -> Value {
    static ONCE: OnceLock<Value> = OnceLock::new();
    let words = ["--pattern", "rpc", "inmem", "--payloads", "512,1k", "-n", "20"];
    renamed(ONCE.get_or_init(|| measured(&words)))
}

fn log() -> Value {
    static ONCE: OnceLock<Value> = OnceLock::new();
    let words = ["--pattern", "log", "write/file", "--payloads", "32,64", "-n", "50"];
    renamed(ONCE.get_or_init(|| measured(&words)))
}

/// With its only sub-experiment called `x`.
fn renamed(manifest: &Value) -> Value {
    let mut manifest = manifest.clone();
    manifest["plan"]["sub_experiments"][0]["name"] = json!("x");
    manifest["sub_experiments"][0]["name"] = json!("x");
    manifest
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

/// A channel's manifest with these figures at all payloads: average service time, messages lost of 20, and rate.
fn with(service_us: f64, lost: u64, rate: f64) -> Value {
    let mut manifest = channel();
    for cell in manifest["sub_experiments"][0]["cells"].as_array_mut().unwrap() {
        let figures = figures(cell);
        figures["service_ns"] = latency(service_us);
        figures["response_ns"] = latency(service_us + 50.0);
        figures["achieved_rate_hz"] = json!(rate);
        figures["sent"] = json!(20);
        figures["lost"] = json!(lost);
    }
    manifest
}

fn calls_with(service_us: f64, qps: f64) -> Value {
    let mut manifest = rpc();
    for cell in manifest["sub_experiments"][0]["cells"].as_array_mut().unwrap() {
        let figures = figures(cell);
        figures["service_rtt_ns"] = latency(service_us);
        figures["completed_rate_hz"] = json!(qps);
    }
    manifest
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
            for time in ["service_ns", "response_ns", "service_rtt_ns"] {
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
    Tripmeter::new(words.iter().map(|word| (*word).to_owned()).chain(paths).collect::<Vec<_>>()).run()
}

fn compare(flags: &[&str], reference: &Path, results: &Path) -> Finished {
    tripmeter(&[&["compare"], flags].concat(), &[("-R", reference), ("-r", results)])
}

/// Words of a line with single spaces between them.
fn lines(text: &str) -> Vec<String> {
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[track_caller]
fn has(text: &str, line: &str) {
    assert!(lines(text).iter().any(|found| found == line), "no line '{line}' in\n{text}");
}

#[test]
fn one_run_is_compared_in_all_its_figures() {
    let place = folder();
    let reference = write(&place.path().join("a"), &with(10.0, 0, 1000.0));
    let same = compare(&[], &reference, &reference).with(0);
    has(&same.stdout, "x@response_1000hz 12/12 99.9% of 1024 bytes +0.0 % passed");
    let told = "2/2 comparisons passed: at most +10 % for Min, Median, Max and 99%, and Mean, 99.9%, Loss [%]; at least \
        -9.1 % for Rate [/s]";
    has(&same.unwrapped(), told);
    let worse = write(&place.path().join("b"), &with(12.0, 1, 800.0));
    let done = compare(&["--debug"], &reference, &worse).with(1);
    for line in [
        "Mean 512 10.000 12.000 +20.0 % FAILED",
        "99.9% 512 30.000 36.000 +20.0 % FAILED",
        "Loss [%] 512 0.000 % 5.000 % +inf % FAILED",
        "Rate [/s] 1024 1000.000 /s 800.000 /s -20.0 % FAILED",
    ] {
        has(&done.stdout, line);
    }
    // Response times are longer by 2 of 60 us: within the threshold.
    assert!(lines(&done.stdout).iter().any(|line| line.starts_with("x@response_1000hz 12/12")), "{}", done.stdout);
    let done = compare(&["--json"], &reference, &worse).with(1);
    let value: Value = serde_json::from_str(&done.stdout).unwrap();
    let comparisons = value["sub_experiments"][1]["comparisons"].as_array().unwrap();
    let rate = comparisons.iter().find(|one| one["figure"] == "Rate [/s]").unwrap();
    let expected = json!({ "figure": "Rate [/s]", "payload_bytes": 512, "unit": "/s", "increase_percent": -20.0,
        "outcome": "failed", "reference": 1000.0, "result": 800.0 });
    assert_eq!(*rate, expected);
    let plots = place.path().join("plots");
    tripmeter(&["compare"], &[("-R", &reference), ("-r", &worse), ("-p", &plots)]).with(1);
    let csv = fs::read_to_string(plots.join("x@service_1000hz_comparison.csv")).unwrap();
    let golden = "Bytes,Samples,Max,Min,Mean,Median,Stdev,Mean jitter,Max jitter,90%,99%,99.99%,99.9%,Loss [%],Rate [/s],Label\n\
        512,20,40.000,5.000,10.000,9.000,,,,15.000,20.000,,30.000,0.000,1000.000,Reference: a\n";
    assert!(csv.starts_with(golden), "{csv}");
}

#[test]
fn several_runs_are_compared_in_all_their_figures() {
    let place = folder();
    let reference = write(&place.path().join("a"), &in_rounds(&with(10.0, 0, 1000.0), 10));
    let same = compare(&[], &reference, &reference).with(0);
    assert!(same.stdout.contains("0 regressed, 0 improved"), "{}", same.stdout);
    let worse = write(&place.path().join("b"), &in_rounds(&with(12.0, 2, 800.0), 10));
    let done = compare(&["--method", "runs"], &reference, &worse).with(1);
    for (begin, end) in [
        ("512 mean 10+10 10.055 12.066 1.200 ", "REGRESSED"),
        ("512 p99.9 10+10 30.165 36.198 1.200 ", "REGRESSED"),
        ("512 delivered 10+10 100.000 % 90.000 % 0.900 ", "REGRESSED"),
        ("512 rate 10+10 1000.000 /s 800.000 /s 0.800 ", "REGRESSED"),
    ] {
        let found = lines(&done.stdout).iter().any(|line| line.starts_with(begin) && line.ends_with(end));
        assert!(found, "no line '{begin}…{end}' in\n{}", done.stdout);
    }
    let better = compare(&["--json"], &worse, &reference).with(0);
    let value: Value = serde_json::from_str(&better.stdout).unwrap();
    let rate = value["comparisons"].as_array().unwrap().iter().find(|one| one["figure"] == "rate").unwrap();
    assert_eq!(
        (&rate["verdict"], &rate["unit"], &rate["reference"]),
        (&json!("improved"), &json!("/s"), &json!(800.0))
    );
    assert_eq!((&value["latency"], &rate["name"]), (&Value::Null, &json!("x@service_1000hz")));
}

#[test]
fn calls_and_loggers_are_compared_too() {
    let place = folder();
    let reference = write(&place.path().join("a"), &calls_with(100.0, 9000.0));
    let worse = write(&place.path().join("b"), &calls_with(100.0, 8000.0));
    let done = compare(&["--debug"], &reference, &worse).with(1);
    has(&done.stdout, "QPS [/s] 512 9000.000 /s 8000.000 /s -11.1 % FAILED");
    has(&done.stdout, "Mean 512 100.000 100.000 +0.0 % passed");
    assert!(lines(&done.stdout).iter().any(|line| line.starts_with("x@service_rtt ")), "{}", done.stdout);
    let rounds = [&reference, &worse].map(|side| {
        let manifest = manifest(side).whole();
        write(&side.join("rounds"), &in_rounds(&manifest, 10))
    });
    let done = compare(&[], &rounds[0], &rounds[1]).with(1);
    assert!(lines(&done.stdout).iter().any(|line| line.starts_with("512 QPS 10+10 9000.000 /s 8000.000 /s 0.889 ")));
    let mut lossy = log();
    figures(&mut lossy["sub_experiments"][0]["cells"][0])["lost"] = json!(5);
    let reference = write(&place.path().join("log_a"), &log());
    let lossy = write(&place.path().join("log_b"), &lossy);
    let done = compare(&["--debug"], &reference, &lossy).with(1);
    let sent = figures(&mut log()["sub_experiments"][0]["cells"][0])["sent"].as_f64().unwrap();
    has(&done.stdout, &format!("Loss [%] 32 0.000 % {:.3} % +inf % FAILED", 500.0 / sent));
    has(&compare(&[], &reference, &reference).with(0).stdout, "x 12/12 Mean of 64 bytes +0.0 % passed");
}

#[test]
fn limits_are_made_and_checked() {
    let place = folder();
    let runs = place.path().join("runs");
    for run in 1..=5_u32 {
        let run_us = 10.0 + f64::from(run);
        write(&runs.join(format!("run-{run:04}")), &with(run_us, 0, 1000.0 - f64::from(run)));
    }
    let limits = place.path().join("limits.csv");
    tripmeter(&["requirements", "--percentile", "100"], &[("-e", &runs), ("-o", &limits)]).with(0);
    let golden = "Experiment type,Bytes,Median,99%,Max,Mean,99.9%,Loss [%],Rate [/s]\n\
        x@response_1000hz,512,58.500,130.000,260.000,65.000,195.000,,\n\
        x@response_1000hz,1024,58.500,130.000,260.000,65.000,195.000,,\n\
        x@service_1000hz,512,13.500,30.000,60.000,15.000,45.000,0.000,995.000\n\
        x@service_1000hz,1024,13.500,30.000,60.000,15.000,45.000,0.000,995.000\n";
    assert_eq!(fs::read_to_string(&limits).unwrap(), golden);
    let check = |experiment: &Path, flags: &[&str]| {
        tripmeter(&[&["check"], flags].concat(), &[("-r", &limits), ("-e", experiment)])
    };
    let good = write(&place.path().join("good"), &with(12.0, 0, 999.0));
    check(&good, &["--strict"]).with(0);
    let bad = write(&place.path().join("bad"), &with(12.0, 1, 900.0));
    let plots = place.path().join("plots");
    let done = check(&bad, &["-P", "-p", &plots.display().to_string(), "--svg"]).with(1);
    has(&done.stdout, "Loss [%] 512 0.000 % 5.000 % +inf % FAILED");
    has(&done.stdout, "Rate [/s] 512 995.000 /s 900.000 /s +9.5 % FAILED");
    let report = fs::read_to_string(bad.join("checks_x@service_1000hz.csv")).unwrap();
    let rows = "99.9%,512,45.000,36.000,9.000,-20.000,passed\n99.9%,1024,45.000,36.000,9.000,-20.000,passed\n\
        Loss [%],512,0.000,5.000,5.000,inf,failed\nLoss [%],1024,0.000,5.000,5.000,inf,failed\n\
        Rate [/s],512,995.000,900.000,95.000,9.548,failed\nRate [/s],1024,995.000,900.000,95.000,9.548,failed\n";
    assert!(report.ends_with(rows), "{report}");
    let picture = plots.join("measurements_x@service_1000hz/comparison_rate.svg");
    let svg = fs::read_to_string(&picture).unwrap();
    assert!(svg.contains("Rate [/s]") && svg.contains("Below the limit at 512, 1024 bytes."), "{svg}");
}

/// As measured: with more decimals than limits have.
#[test]
fn a_run_meets_limits_that_are_made_of_it_alone() {
    let lossy = {
        static ONCE: OnceLock<Value> = OnceLock::new();
        // After the path proof and the warm-up; one of 30 is no number with three decimals.
        let words = "--pattern channel inmem?lose=530 --payloads 512 --warmup 2 -n 30";
        ONCE.get_or_init(|| measured(&words.split(' ').collect::<Vec<_>>()))
    };
    for (kind, manifest) in [("channel", &channel()), ("rpc", &rpc()), ("log", &log()), ("lossy", lossy)] {
        let place = folder();
        let runs = place.path().join("runs");
        let run = write(&runs.join("run-0001"), manifest);
        let limits = place.path().join("limits.csv");
        for percentile in ["0", "99", "100"] {
            let made = tripmeter(&["requirements", "--percentile", percentile], &[("-e", &runs), ("-o", &limits)]);
            assert!(!made.with(0).stderr.contains("fail"), "{kind}");
            let done = tripmeter(&["check", "--strict"], &[("-r", &limits), ("-e", &run)]);
            assert!(done.code == Some(0), "{kind}, percentile {percentile}: {}", done.stdout);
        }
    }
}

#[test]
fn steps_and_plots_of_the_history() {
    let place = folder();
    let database = place.path().join("db");
    for day in 1..=16_u32 {
        let wobble = f64::from(day % 3) * 0.01;
        let service = if day > 8 { 12.0 } else { 10.0 } + wobble;
        write(&database.join(format!("2026-01-{day:02}_12-00-00")), &with(service, 0, 1000.0));
    }
    let plots = place.path().join("plots");
    let done = tripmeter(&["history", "--fail-on-change", "--svg"], &[("-e", &database), ("-p", &plots)]).with(1);
    for figure in ["Median", "99%", "Mean", "99.9%"] {
        let begin = format!("x@service_1000hz one_way, service time {figure} [µs] 512 step 2026-01-09_12-00-00 ");
        assert!(lines(&done.stdout).iter().any(|line| line.starts_with(&begin)), "{figure}\n{}", done.stdout);
    }
    let svg = fs::read_to_string(plots.join("x@service_1000hz/history_Loss.svg")).unwrap();
    assert!(svg.contains("Loss [%]"), "{svg}");
    let svg = fs::read_to_string(plots.join("x@service_1000hz/512_bytes_Mean.svg")).unwrap();
    assert!(svg.contains("Latency, one_way, service time [us]"), "{svg}");
    assert!(plots.join("x@response_1000hz/history_99.9.svg").exists());
}

/// A database of sixteen experiments of six rounds each, made of the average service time of each.
fn sixteen(place: &Path, service_us: impl Fn(usize) -> f64, change: impl Fn(usize, &mut Value)) -> PathBuf {
    for day in 0..16 {
        let mut manifest = in_rounds(&with(service_us(day), 0, 1000.0), 6);
        change(day, &mut manifest);
        let experiment = write(&place.join(format!("2026-01-{:02}_12-00-00", day + 1)), &manifest);
        (1..=6).for_each(|round| fs::create_dir(experiment.join(format!("round-{round:02}"))).unwrap());
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
    let done = tripmeter(&["history", "--fail-on-change"], &[("-e", &database)]).with(0);
    assert!(done.stdout.starts_with("0 steps and 0 slow drifts in "), "{}", done.stdout);
}

#[test]
fn a_change_of_environment_parts_a_history_and_is_told() {
    let place = folder();
    let database = sixteen(&place.path().join("db"), stepped, |day, manifest| {
        manifest["environment"]["kernel"] = json!(if day < 8 { "Linux 1" } else { "Linux 2" })
    });
    let done = tripmeter(&["history", "--fail-on-change"], &[("-e", &database)]).with(0);
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
    let done = tripmeter(&["history", "--fail-on-change"], &[("-e", &database)]).with(0);
    assert!(done.stderr.contains("it failed: the follower ended"), "{}", done.stderr);
}

#[test]
fn a_payload_that_was_not_answered_is_named_by_compare() {
    let place = folder();
    let [reference, silent] = ["a", "b"].map(|name| {
        let mut manifest = in_rounds(&trips(), 10);
        for result in manifest["sub_experiments"].as_array_mut().unwrap().iter_mut().filter(|_| name == "b") {
            let cell = &mut result["cells"][1];
            (cell["samples"], cell["trials"][0]["series"]) = (json!(0), json!({}));
            figures(cell).as_object_mut().unwrap().remove("rtt_half_ns");
            figures(cell)["received"] = json!(0);
        }
        write(&place.path().join(name), &manifest)
    });
    let done = compare(&["--method", "runs"], &reference, &silent).with(exit::PARTIAL);
    let text = format!("{}{}", done.stdout, done.stderr);
    assert!(text.contains("x at 1k, ") && text.contains(": no message was answered"), "{text}");
}

#[test]
fn rounds_of_a_channel_in_which_nothing_arrived_are_named_by_compare_and_not_averaged_away() {
    let place = folder();
    let [reference, silent, short] = ["a", "b", "c"].map(|name| {
        let mut manifest = in_rounds(&with(10.0, 0, 1000.0), 10);
        let results = manifest["sub_experiments"].as_array_mut().unwrap();
        for result in results.iter_mut().take(3).filter(|_| name == "b") {
            for cell in result["cells"].as_array_mut().unwrap() {
                let figures = figures(cell).as_object_mut().unwrap();
                figures.retain(|name, _| !["service_ns", "response_ns"].contains(&name.as_str()));
                figures["lost"] = json!(20);
            }
        }
        results.truncate(if name == "c" { 8 } else { 10 });
        write(&place.path().join(name), &manifest)
    });
    let done = compare(&["--method", "runs"], &reference, &silent).with(exit::PARTIAL);
    for round in 1..=3 {
        let line = format!("round {round} of the results: no message was answered or arrived");
        assert!(done.unwrapped().contains(&line), "{}", done.stdout);
    }
    assert!(!done.unwrapped().contains("round 4 of the results"), "{}", done.stdout);
    let done = compare(&["--method", "runs"], &reference, &short).with(exit::PARTIAL);
    assert!(done.unwrapped().contains("x, round 9 of the results: it was not run"), "{}", done.stdout);
}

/// One sub-experiment `x` of round trips at two payloads.
fn trips() -> Value {
    static ONCE: OnceLock<Value> = OnceLock::new();
    renamed(ONCE.get_or_init(|| measured(&["inmem", "--payloads", "512,1k", "-n", "20"])))
}

#[test]
fn kinds_are_never_mixed() {
    let place = folder();
    let write = |name: &str, manifest: &Value| write(&place.path().join(name), manifest);
    let (channel, rpc, log) = (write("channel", &channel()), write("rpc", &rpc()), write("log", &log()));
    compare(&[], &channel, &rpc).with(65).one_line(&[
        "'x' cannot be compared",
        "one_way (pattern channel)",
        "rtt (pattern rpc)",
    ]);
    compare(&[], &log, &channel).with(65).one_line(&["call (pattern log)", "one_way (pattern channel)"]);
    let fixed = ["--pattern", "rpc", "inmem", "--payloads", "512", "-n", "5", "--rate", "1000"];
    let fixed = write("fixed", &renamed(&measured(&fixed)));
    compare(&[], &rpc, &fixed).with(65).one_line(&["mode bench in", "fixed-freq in", "--mode"]);
    // A summary without a manifest, of half round trips as far as anybody knows.
    let summary = place.path().join("summary");
    fs::create_dir(&summary).unwrap();
    let text =
        "Bytes,Samples,Max,Min,Mean,Median,Stdev,Mean jitter,Max jitter,90%,99%,99.99%\n512,1,1,1,1,1,0,0,0,1,1,1\n";
    fs::write(summary.join("measurements_x_summary.csv"), text).unwrap();
    compare(&[], &summary, &channel).with(65).one_line(&["'x' cannot be compared", "'x@response_1000hz'"]);
    // Limits of another kind.
    let limits = place.path().join("limits.csv");
    let check = |name: &str, experiment: &Path| {
        fs::write(&limits, format!("Experiment type,Bytes,Median,99%,Max\n{name},512,1,1,1\n")).unwrap();
        tripmeter(&["check"], &[("-r", &limits), ("-e", experiment)])
    };
    check("x", &channel).with(65).one_line(&["limits of 'x'", "'x@response_1000hz' (one_way, response time)"]);
    check("x@service_rtt", &channel).with(65).one_line(&["rtt, service time", "latencies of different kinds"]);
    check("x@service_rtt_100hz", &rpc).with(65).one_line(&["'x@service_rtt_100hz'", "'x@service_rtt'"]);
    check("x@service_100hz", &channel).with(65).one_line(&["nothing to check"]);
    // One name for two kinds over time.
    let database = place.path().join("db");
    copy(&log, &database.join("2026-01-01_12-00-00"));
    fs::create_dir_all(database.join("2026-01-02_12-00-00")).unwrap();
    let trips = ["inmem", "--payloads", "32", "-n", "10"];
    let trips = renamed(&measured(&trips));
    fs::write(database.join("2026-01-02_12-00-00/manifest.json"), trips.to_string()).unwrap();
    let plots = place.path().join("plots");
    let done = tripmeter(&["history"], &[("-e", &database), ("-p", &plots)]).with(65);
    done.one_line(&["'x' cannot be compared over time", "call", "rtt_half"]);
    let done = tripmeter(&["requirements"], &[("-e", &database), ("-o", &limits)]).with(65);
    done.one_line(&["'x' has no common limits", "call", "rtt_half"]);
}

#[test]
fn latency_one_way_of_calls_has_verdicts_of_its_own() {
    let place = folder();
    let words = ["--pattern", "rpc", "inmem", "--payloads", "512,1k", "-n", "20", "--one-way"];
    let measured = renamed(&measured(&words));
    let with = |name: &str, one_way_us: f64| {
        let mut manifest = measured.clone();
        for cell in manifest["sub_experiments"][0]["cells"].as_array_mut().unwrap() {
            let figures = figures(cell);
            figures["service_rtt_ns"] = latency(100.0);
            figures["one_way_ns"] = latency(one_way_us);
        }
        write(&place.path().join(name), &manifest)
    };
    let (reference, slower) = (with("a", 40.0), with("b", 50.0));
    let done = compare(&["--debug"], &reference, &slower).with(1);
    has(&done.stdout, "Mean 512 40.000 50.000 +25.0 % FAILED");
    has(&done.stdout, "Mean 512 100.000 100.000 +0.0 % passed");
    assert!(lines(&done.stdout).iter().any(|line| line.starts_with("x@one_way ")), "{}", done.stdout);
    compare(&[], &reference, &reference).with(0);
    // Calls without it have other figures only.
    let without = write(&place.path().join("c"), &calls_with(100.0, 9000.0));
    compare(&[], &reference, &without).with(65).one_line(&["'x@one_way' cannot be compared", "x@service_rtt"]);
    let limits = place.path().join("limits.csv");
    fs::write(&limits, "Experiment type,Bytes,Median,99%,Max\nx@one_way,512,37,90,170\n").unwrap();
    let check = |experiment: &Path| tripmeter(&["check"], &[("-r", &limits), ("-e", experiment)]);
    check(&reference).with(0);
    assert_ne!(check(&slower).code, Some(0));
}

/// A copy of a results folder that has only a manifest.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    fs::copy(from.join("manifest.json"), to.join("manifest.json")).unwrap();
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
    let done = tripmeter(&["export", "--format", "svg"], &[("--", &one)]).with(0);
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

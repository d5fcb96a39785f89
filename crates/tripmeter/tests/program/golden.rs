//! Files written by released versions are read by this one, and so are files of a later minor version, with unknown
//! fields. Files of another major version are refused. Results have their test in `metrics.rs`.
//!
//! A new major version adds a folder to `golden/` and keeps the others as long as they can be read. Commands that wrote
//! these: `explain inmem uds/stream -n 100 --no-spin`, `check RESULTS --limits limits.csv --json`, and `fleet
//! hosts.toml
//! --mode hosts -- ping uds -n 50 --payloads 1k --no-spin --no-report`.

use crate::common::{Tripmeter, folder};
use std::fs;
use std::path::{Path, PathBuf};
use tripmeter_model::exit;

fn golden(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(path)
}

/// The text unchanged, of a later minor version, and of the next major version.
fn versions(text: &str, key: &str, version: &str) -> [String; 3] {
    let (major, _) = version.split_once('.').unwrap();
    let next = major.parse::<u32>().unwrap() + 1;
    let written = format!("\"{key}\": \"{version}\"");
    assert_eq!(text.matches(&written).count(), 1);
    let later = format!("\"of_tomorrow\": [1], \"{key}\": \"{major}.99\"");
    [text.to_owned(), text.replace(&written, &later), text.replace(&written, &format!("\"{key}\": \"{next}.0\""))]
}

fn put_results(place: &Path) {
    for folder in ["", "samples", "histograms"] {
        fs::create_dir_all(place.join(folder)).unwrap();
        for entry in fs::read_dir(golden("results-2.0").join(folder)).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_file() {
                fs::copy(&entry, place.join(folder).join(entry.file_name().unwrap())).unwrap();
            }
        }
    }
}

#[test]
fn an_explanation_of_this_major_version_is_read() {
    let text = fs::read_to_string(golden("explain-1.0/explain.json")).unwrap();
    let place = folder();
    put_results(place.path());
    let (results, plots) = (place.path().display().to_string(), folder());
    let [as_it_is, later, next] = versions(&text, "schema_version", "1.0");
    for (text, output) in [(as_it_is, "first"), (later, "second")] {
        fs::write(place.path().join("explain.json"), text).unwrap();
        let output = plots.path().join(output);
        let words = ["export", &results, "--format", "svg", "-o", &output.display().to_string()];
        Tripmeter::new(words).run().with(exit::GOOD).clean();
        assert!(output.join("explain.svg").is_file());
    }
    fs::write(place.path().join("explain.json"), next).unwrap();
    let third = plots.path().join("third").display().to_string();
    let refused = Tripmeter::new(["export", &results, "--format", "svg", "-o", &third]).run().with(exit::DATA);
    refused.one_line(&["explain.json", "2.0", "1.2"]).clean();
}

#[test]
fn a_verdict_of_this_major_version_is_read() {
    let text = fs::read_to_string(golden("verdict-1.1/verdict.json")).unwrap();
    let place = folder();
    let (results, file) = (golden("results-2.0").display().to_string(), place.path().join("verdict.json"));
    let export =
        || Tripmeter::new(["export", &results, "--format", "junit", "--verdict", &file.display().to_string()]).run();
    let [as_it_is, later, next] = versions(&text, "verdict_version", "1.1");
    for text in [as_it_is, later] {
        fs::write(&file, text).unwrap();
        let suites = export().with(exit::GOOD).stdout;
        assert!(suites.contains("tests=\"6\" failures=\"0\"") && suites.matches("<testcase ").count() == 6, "{suites}");
    }
    fs::write(&file, next).unwrap();
    export().with(exit::DATA).one_line(&["verdict.json", "2.0", "1.1"]).clean();
}

#[test]
fn a_fleet_of_this_major_version_goes_on() {
    let text = fs::read_to_string(golden("fleet-1.0/fleet.json")).unwrap();
    let place = folder();
    ["h1", "h2"].iter().for_each(|host| put_results(&place.path().join(host)));
    let hosts = golden("fleet-1.0/hosts.toml").display().to_string();
    let measured = ["ping", "uds", "-n", "50", "--payloads", "1k", "--no-spin", "--no-report"];
    let output = place.path().display().to_string();
    // All are already measured: no host is contacted.
    let fleet =
        || Tripmeter::new([&["fleet", &hosts, "-o", &output, "--mode", "hosts", "--"][..], &measured].concat()).run();
    let [as_it_is, later, next] = versions(&text, "schema_version", "1.0");
    for text in [as_it_is, later] {
        fs::write(place.path().join("fleet.json"), text).unwrap();
        let printed = fleet().with(exit::GOOD).stdout;
        assert!(printed.contains("2 of 2 hosts measured.") && printed.contains("2.64 h1"), "{printed}");
    }
    fs::write(place.path().join("fleet.json"), next).unwrap();
    fleet().with(exit::DATA).one_line(&["fleet.json", "2.0", "1.0"]).clean();
}

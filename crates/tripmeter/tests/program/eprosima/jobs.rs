//! `tripmeter eprosima job`, and the manifest's influence on commands that judge.

use crate::common::{Tripmeter, alone, folder};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const NAME: &str = "uds_datagram_poll";
const SMALL: &str = "samples = 200\npayloads = \"16,64\"\nfloor = false\n";

fn tripmeter(place: &TempDir, words: &[&str]) -> Tripmeter {
    Tripmeter::new(["eprosima"].iter().chain(words)).at(place.path())
}

fn limits(place: &TempDir, median_us: f64) {
    let rows = [16, 64].map(|bytes| format!("{NAME},{bytes},{median_us},1e9,1e9\n")).concat();
    fs::write(place.path().join("limits.csv"), format!("Experiment type,Bytes,Median,99%,Max\n{rows}")).unwrap();
}

fn experiment(place: &TempDir, file: &str, more: &str, transport: &str) {
    let text = format!("{SMALL}{more}[[sub_experiment]]\nname = \"{NAME}\"\ntransport = \"{transport}\"\n");
    fs::write(place.path().join(file), text).unwrap();
}

/// Replaces a text that must be in the file.
fn replace(file: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains(from), "no {from} in {text}");
    fs::write(file, text.replace(from, to)).unwrap();
}

#[test]
fn a_job_fills_a_database() {
    let _alone = alone();
    let place = folder();
    experiment(&place, "small.toml", "", "uds");
    let job = |words: &[&str]| {
        let all = [&["job", "small.toml", "-d", "db", "-r", "limits.csv", "--svg"], words].concat();
        tripmeter(&place, &all).run()
    };
    job(&[]).with(66).one_line(&["limits.csv"]);
    assert!(!place.path().join("db").exists(), "something was run without requirements");
    limits(&place, 1e9);
    let done = job(&[]).with(0).clean();
    assert!(done.unwrapped().contains("Experiment check passed"), "{}", done.stdout);
    let results = place.path().join("db/experiments_results");
    let experiments =
        || -> Vec<_> { fs::read_dir(&results).unwrap().map(|entry| entry.unwrap().file_name()).collect() };
    let first = experiments();
    assert_eq!(first.len(), 1);
    let made = results.join(&first[0]);
    let files = [format!("measurements_{NAME}_summary.csv"), format!("checks_{NAME}.csv"), "manifest.json".to_owned()];
    files.iter().for_each(|file| assert!(made.join(file).is_file(), "{file}"));
    assert!(made.join("plots/comparison_median.svg").is_file());
    assert!(made.join(format!("plots/measurements_{NAME}/histogram_64.svg")).is_file());
    assert!(made.join(format!("plots/measurements_{NAME}/comparison_max.svg")).is_file());
    assert!(place.path().join(format!("db/history_plots/{NAME}/64_bytes_99.svg")).is_file());

    // A run that does not count leaves no history to draw, but its check is still printed.
    let settings = "touch = \"full\"\nattempts = 1\nloss_timeout_s = 2\n";
    experiment(&place, "damaged.toml", settings, "inmem?damage_body=10,30,50");
    let done = tripmeter(&place, &["job", "damaged.toml", "-d", "other", "-r", "limits.csv"]).run().with(1);
    assert!(done.unwrapped().contains("messages were damaged"), "{}", done.stdout);
    done.says(&["note: no history"]);

    limits(&place, 0.0);
    job(&["-D", "1"]).with(1).says(&["removed: ", &first[0].to_string_lossy()]).clean();
    assert!(experiments().len() == 1 && experiments() != first);
    job(&["-l", "v1"]).with(1);
    job(&["-l", "v1"]).with(73).one_line(&["v1", "not empty"]);
    job(&["-l", "../v1"]).with(64).one_line(&["label"]);
    experiment(&place, "small.toml", "rounds = 2\n", "uds");
    job(&[]).with(64).one_line(&["rounds"]);
}

#[test]
fn a_job_refuses_requirements_that_it_cannot_check_before_it_measures() {
    let place = folder();
    let file = place.path().join("limits.csv");
    let refused = |rows: &str, code: u8, parts: &[&str]| {
        fs::write(&file, format!("Experiment type,Bytes,Median,99%,Max\n{rows}\n")).unwrap();
        let words = ["job", "small.toml", "-d", "db", "-r", "limits.csv"];
        tripmeter(&place, &words).run().with(code).one_line(parts);
        assert!(!place.path().join("db").exists(), "something was measured");
    };
    experiment(&place, "small.toml", "", "uds");
    let own = format!("{NAME},16,1e9,1e9,1e9");
    refused("other,16,1e9,1e9,1e9", 65, &["nothing to check", "limits.csv", NAME]);
    refused(&format!("{own}\n{NAME},1024,1e9,1e9,1e9"), 65, &[NAME, "1024 bytes", "16, 64"]);
    experiment(&place, "small.toml", "pattern = \"publish\"\n", "uds");
    refused(&own, 64, &["`--raw eprosima`", "none are measured"]);
}

#[test]
fn what_a_manifest_says_of_trust_counts() {
    let _alone = alone();
    let place = folder();
    limits(&place, 1e9);
    experiment(&place, "small.toml", "", "uds");
    for output in ["runs/a", "runs/b"] {
        Tripmeter::new(["run", "small.toml", "--raw", "eprosima", "-o", output]).at(place.path()).run().with(0);
    }
    let check = || tripmeter(&place, &["check", "-r", "limits.csv", "-e", "runs/b"]).run();
    let compare = |one: &str, other: &str| tripmeter(&place, &["compare", "-R", one, "-r", other, "-t", "1e9"]).run();
    let determine = || tripmeter(&place, &["determine-requirements", "-e", "runs", "-o", "r.csv"]).run().with(0);
    check().with(0).says(&["1 missing summary was made"]);
    compare("runs/a", "runs/b").with(0);
    let trials = place.path().join("runs/b/trials.jsonl");
    let status = |status: &str, error: &str| format!("\"status\":\"{status}\",\"error\":{error}");
    for (from, to, why) in [
        (status("complete", "null"), status("failed", "\"its daemon ended\""), "it failed: its daemon ended"),
        (
            "\"verdict\":\"proven\"".to_owned(),
            "\"damaged\":4,\"verdict\":\"proven\"".to_owned(),
            "4 messages were damaged",
        ),
        ("\"verdict\":\"proven\"".to_owned(), "\"verdict\":\"failed\"".to_owned(), "its path proof failed: claimed"),
    ] {
        replace(&trials, &from, &to);
        for done in [check(), compare("runs/a", "runs/b"), compare("runs/b", "runs/a")] {
            let done = done.with(1);
            assert!(done.unwrapped().contains(why), "{}", done.stdout);
        }
        determine().says(&["left out", "run 'b'", why]).says(&["missing in 1 of 2 runs: b"]);
        replace(&trials, &to, &from);
    }
    check().with(0);
}

#[test]
fn a_folder_that_is_measured_gets_no_summary() {
    let _alone = alone();
    let place = folder();
    limits(&place, 1e9);
    experiment(&place, "small.toml", "", "uds");
    Tripmeter::new(["run", "small.toml", "--raw", "eprosima", "-o", "runs/a"]).at(place.path()).run().with(0);
    let results = place.path().join("runs/a");
    let summary = results.join(format!("measurements_{NAME}_summary.csv"));
    replace(&results.join("manifest.json"), "\"status\": \"complete\"", "\"status\": \"running\"");
    let check = || tripmeter(&place, &["check", "-r", "limits.csv", "-e", "runs/a"]).run();
    check().with(0).says(&["note: the run in 'runs/a' is in progress or was killed"]);
    let history = tripmeter(&place, &["history", "-e", "runs", "-p", "plots"]).run().with(65);
    history.says(&["left out", "'a' is in progress or was killed"]).says(&["nothing to plot"]);
    let requirements = tripmeter(&place, &["determine-requirements", "-e", "runs", "-o", "r.csv"]).run().with(65);
    requirements.says(&["left out", "'a' is in progress or was killed"]);
    assert!(!summary.exists());
    replace(&results.join("manifest.json"), "\"status\": \"running\"", "\"status\": \"complete\"");
    check().with(0).says(&["1 missing summary was made"]);
    assert!(summary.exists());
}

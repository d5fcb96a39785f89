//! Time caps: they leave time to measure after a warm-up, hold in every pattern, and are marked in the results. A load
//! without messages sets the exit code.

use crate::common::figures::count;
use crate::common::{Finished, Tripmeter, alone, at_once, folder, manifest};
use crate::recording::write;
use std::fs;
use std::path::Path;
use tripmeter_model::cut_short::CutShort;
use tripmeter_model::exit;
use tripmeter_model::figure::Figure;
use tripmeter_model::manifest::{PayloadResult, RunStatus};

/// More than fits into any cap here.
const MANY: &str = "1000000";

fn run(words: &[&str], output: &Path) -> Finished {
    let fixed = ["-q", "--no-floor", "--raw", "none", "--attempts", "1", "--loss-timeout", "15", "--no-report", "-o"];
    Tripmeter::new(words.iter().chain(&fixed).chain(&[output.to_str().unwrap()])).run()
}

fn cell(words: &[&str]) -> PayloadResult {
    cell_with(exit::GOOD, words)
}

fn cell_with(code: u8, words: &[&str]) -> PayloadResult {
    let output = folder();
    run(words, output.path()).with(code).clean();
    let mut manifest = manifest(output.path());
    assert_eq!(manifest.status, RunStatus::Complete);
    manifest.sub_experiments.swap_remove(0).cells.swap_remove(0)
}

fn is_marked(cell: &PayloadResult) -> bool {
    let is_cap = |why: &Option<CutShort>| *why == Some("time cap of 4 s".into());
    is_cap(&cell.cut_short) && cell.trials.iter().all(|trial| is_cap(&trial.cut_short))
}

/// The message in flight at the end is one of the warm-up.
#[test]
fn a_cap_that_ends_within_the_warm_up_measures_nothing_and_says_so() {
    let folder = folder();
    let output = folder.path().display().to_string();
    let words =
        ["ping", "inmem?delay=5ms", "--wait", "block", "--payloads", "64", "--warmup", "5", "-n", "10", "-o", &output];
    let capped = ["--time-cap", "0.004", "--loss-timeout", "2", "--no-floor", "--attempts", "1", "-q"];
    let finished = Tripmeter::new(words.iter().chain(&capped)).run().with(exit::PARTIAL);
    finished.says(&["nothing was measured", "raise --time-cap"]).clean();
}

#[test]
fn a_warm_up_that_would_eat_the_cap_leaves_time_to_measure() {
    let _alone = alone();
    let cases: [&[&str]; 6] = [
        &["ping", "inmem?delay=5ms", "--wait", "block"],
        &["ping", "inmem", "--wait", "block", "--rate", "100"],
        &["publish", "inmem", "--rate", "100"],
        &["publish", "inmem", "--rate", "100", "--topics", "3"],
        &["publish", "inmem", "--demand", "10", "--recovery", "100"],
        &["call", "inmem?delay=5ms", "--wait", "block", "--clients", "2"],
    ];
    at_once(&cases, |words| {
        let capped = ["--payloads", "64", "-n", MANY, "--warmup", MANY, "--time-cap", "4"];
        let cell = cell(&[words, &capped[..]].concat());
        let [trial] = &cell.trials[..] else { panic!("{words:?} {cell:?}") };
        assert!((1..1_000_000).contains(&cell.warmup) && count(trial, Figure::Sent) > 0, "{words:?} {cell:?}");
        assert!(is_marked(&cell), "{words:?} {cell:?}");
    });
}

#[test]
fn a_cap_holds_whatever_is_due_or_left_of_a_burst() {
    let _alone = alone();
    // Each message keeps the follower busy for 2 ms, so all would take half an hour.
    let cases: [&[&str]; 6] = [
        &["publish", "inmem?delay=2ms", "--demand", MANY, "--recovery", "5"],
        &["publish", "inmem?delay=2ms", "--rate", "100000"],
        &["publish", "inmem?delay=2ms", "--demand", MANY, "--recovery", "5", "--topics", "2"],
        &["call", "inmem?delay=2ms", "--wait", "block", "--demand", MANY, "--recovery", "5", "--clients", "2"],
        &["ping", "inmem?delay=2ms", "--wait", "block", "--demand", MANY, "--recovery", "5"],
        &["throughput", "inmem?delay=2ms", "--demand", MANY, "--recovery", "5", "--duration", "900"],
    ];
    at_once(&cases, |words| {
        let samples: &[&str] = if words[0] == "throughput" { &[] } else { &["-n", MANY] };
        let capped = ["--payloads", "64", "--warmup", "0", "--time-cap", "4", "--allow-loss"];
        let cell = cell(&[words, &capped[..], samples].concat());
        let [trial] = &cell.trials[..] else { panic!("{words:?} {cell:?}") };
        assert!((1..1_000_000).contains(&count(trial, Figure::Sent)), "{words:?} {trial:?}");
        assert!(is_marked(&cell), "{words:?} {cell:?}");
    });
}

#[test]
fn a_cap_ends_a_search_and_the_lines_of_a_logger() {
    let _alone = alone();
    let cases: [&[&str]; 2] = [
        &["throughput", "inmem", "--loss-bound", "0", "--duration", "900", "--allow-loss"],
        &["log", "write/pipe", "-n", "100000000", "--warmup", "0"],
    ];
    at_once(&cases, |words| {
        let cell = cell(&[words, &["--payloads", "64", "--time-cap", "4"][..]].concat());
        let last = cell.trials.last().unwrap_or_else(|| panic!("{words:?} {cell:?}"));
        let is_cap = |why: &Option<CutShort>| *why == Some("time cap of 4 s".into());
        assert!(
            is_cap(&cell.cut_short) && is_cap(&last.cut_short) && count(last, Figure::Sent) > 0,
            "{words:?} {cell:?}"
        );
    });
}

#[test]
fn topics_that_a_cap_leaves_without_a_message_are_named() {
    let _alone = alone();
    let place = folder();
    let late = ["/late", "/later"].map(|topic| (topic.to_owned(), 60_000_000_000, 64));
    let imu = (0..1000).map(|index| ("/imu".to_owned(), index * 10_000_000, 300));
    let file = write(place.path(), None, &imu.chain(late).collect::<Vec<_>>());
    let cell = cell_with(exit::PARTIAL, &["replay", file.to_str().unwrap(), "inmem", "--time-cap", "1"]);
    assert_eq!(cell.cut_short, Some("time cap of 1 s; no message of /late and 1 more".into()), "{cell:?}");
}

#[test]
fn a_payload_without_a_message_is_an_exit_code_and_green_nowhere() {
    let _alone = alone();
    for pattern in ["publish", "call"] {
        let output = folder();
        // The cap ends before the first message is due.
        let words = [pattern, "inmem", "--rate", "100", "-n", "50", "--payloads", "64", "--time-cap", "0.001"];
        let finished = run(&words, output.path()).with(exit::PARTIAL);
        let why = "nothing was measured at 64: time cap: 0 of 1 offered loads; raise --time-cap";
        assert!(finished.stderr.contains(why), "{finished:?}");
        let measured = manifest(output.path());
        assert!(measured.sub_experiments[0].cells[0].trials.is_empty(), "{measured:?}");
        let export = |format: &str| {
            Tripmeter::new(["export", output.path().to_str().unwrap(), "--format", format]).run().with(exit::GOOD)
        };
        let suites = export("junit").stdout;
        assert!(suites.contains("<skipped message=\"64: time cap: 0 of 1 offered loads\""), "{suites}");
        assert!(export("github").stdout.contains("incomplete: 64: time cap"));
        let bencher = export("bencher");
        assert!(bencher.stdout.trim() == "{}" && bencher.stderr.contains("note: left out: "), "{bencher:?}");
        let limits = output.path().join("limits.csv");
        let name = &measured.sub_experiments[0].name;
        let head = "sub_experiment,payload_bytes,offered_load,stream,figure,statistic,limit\n";
        fs::write(&limits, format!("{head}{name},64,100hz,all,loss_share,value,1\n")).unwrap();
        let check = ["check", output.path().to_str().unwrap(), "--limits", limits.to_str().unwrap()];
        let check = Tripmeter::new(check).run().with(exit::FINDING);
        assert!(check.unwrapped().contains("nothing was measured at 64"), "{check:?}");
    }
}

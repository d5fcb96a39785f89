//! `ab` with every workload: the figures that its sides are judged by.

use crate::ab::{ab, is_judged, list, made};
use crate::common::{Finished, Tripmeter, alone, folder, manifest};
use crate::recording::{drive, write};
use serde_json::Value;
use tempfile::TempDir;

fn judged(place: &TempDir, output: &str, words: &[&str]) -> (String, Finished) {
    let usual = ["inmem", "-q", "--payloads", "1k", "--attempts", "1", "--loss-timeout", "15", "--rounds", "6"];
    let done = ab(place, &[&usual[..], words, &["-o", output]].concat()).run();
    assert!(is_judged(&done), "{done:?}");
    let made = made(&place.path().join(output));
    let figure = |one: &Value| format!("{}.{}", one["figure"].as_str().unwrap(), one["statistic"].as_str().unwrap());
    let figures: Vec<String> = list(&made, "comparisons").iter().map(figure).collect();
    (figures.join(" "), done)
}

#[test]
fn round_trips_and_calls_at_a_rate_and_searches_are_judged() {
    let _alone = alone();
    let place = folder();
    let rate = ["-n", "20", "--rate", "1000"];
    for (output, words, expected) in [
        (
            "calls",
            &[&["--pattern", "call", "--clients", "2"][..], &rate].concat()[..],
            "response_rtt_ns.p50 response_rtt_ns.p99",
        ),
        ("trips", &rate, "response_rtt_ns.p50 response_rtt_ns.p99"),
        (
            "search",
            &["--pattern", "throughput", "--duration", "0.02", "--loss-bound", "0.5%"],
            "received_rate_hz.value",
        ),
    ] {
        assert_eq!(judged(&place, output, words).0, expected);
    }
}

#[test]
fn every_workload_is_judged_by_its_headline_or_by_the_figures_that_are_named() {
    let _alone = alone();
    let place = folder();
    let compared = |output: &str, words: &[&str]| judged(&place, output, words);
    let few = ["-n", "20", "--rate", "200"];
    let figures = |output: &str, words: &[&str]| compared(output, words).0;
    let publish = [&["--pattern", "publish"], &few[..]].concat();
    assert_eq!(figures("publish", &publish), "response_ns.p50 response_ns.p99");
    assert_eq!(figures("call", &["--pattern", "call", "-n", "20"]), "service_rtt_ns.p50 service_rtt_ns.p99");
    let throughput = ["--pattern", "throughput", "--duration", "0.05"];
    assert_eq!(figures("throughput", &throughput), "received_rate_hz.value");
    let named = [&publish[..], &["--figures", "service_ns.p50,loss_share"]].concat();
    let (figures, done) = compared("named", &named);
    assert_eq!(figures, "service_ns.p50");
    assert!(done.stdout.contains("not compared: loss_share at 1k"), "{done:?}");
    // All commands that judge use these figures.
    for (results, figure) in [("publish", "response_ns.p99"), ("throughput", "received_rate_hz")] {
        let judges = |words: &[&str]| {
            let done = Tripmeter::new(words).at(place.path()).run();
            // A busy machine misses a rate. `check` has a limit for the rate, so it may still pass.
            let may_fail = words[0] == "compare" && done.stdout.contains("RATE MISSED");
            assert!(done.code == Some(i32::from(may_fail)) && done.stdout.contains(figure), "{done:?}");
        };
        judges(&["compare", results, results]);
        judges(&["limits", results, "--percentile", "100", "-o", "limits.csv"]);
        judges(&["check", results, "--limits", "limits.csv", "--all"]);
    }
    ab(&place, &["inmem", "--pattern", "publish", "--clients", "2", "-o", "x"]).run().with(64).one_line(&["clients"]);
    ab(&place, &["inmem", "--figures", "nope", "-o", "x"]).run().with(64).one_line(&["nope", "--figures"]);
    ab(&place, &["inmem", "--pattern", "replay", "-o", "x"]).run().with(64).one_line(&["--recording"]);
}

#[test]
fn percentiles_of_too_few_samples_are_named_by_all_that_judge() {
    let _alone = alone();
    let place = folder();
    let few = ["inmem", "-q", "--payloads", "64", "-n", "30", "--attempts", "1", "--rounds", "6", "-o", "all/r"];
    let named = ["--figures", "rtt_half_ns.p999,rtt_half_ns.p50"];
    let judge = |words: &[&str]| Tripmeter::new(words).at(place.path()).run();
    let says = |done: Finished| {
        let said = done.unwrapped() + &done.stderr;
        assert!(is_judged(&done) && said.contains("rtt_half_ns.p999 "), "{done:?}");
        assert!(said.contains("too few samples") && said.contains("2995") && !said.contains("p50 needs"), "{done:?}");
    };
    says(ab(&place, &[&few[..], &named].concat()).run());
    says(judge(&[&["compare", "all/r", "all/r"][..], &named].concat()));
    says(judge(&[&["compare", "all/r", "all/r", "--method", "threshold"][..], &named].concat()));
    says(judge(&[&["history", "all"][..], &named].concat()));
    says(judge(&[&["limits", "all/r", "-o", "limits.csv"][..], &named].concat()));
    says(judge(&["check", "all/r", "--limits", "limits.csv"]));
}

/// The rate is missed because nothing writes and reads 20 GB in a second.
#[test]
fn a_rate_that_a_side_missed_fails_unless_it_is_compared_itself() {
    let _alone = alone();
    let place = folder();
    let words =
        ["uds", "--pattern", "publish", "--payloads", "1M", "--rate", "20000", "-n", "50", "-q", "--rounds", "6"];
    let few = ["--attempts", "1", "--loss-timeout", "15"];
    let done = ab(&place, &[&words[..], &few, &["--figures", "service_ns.p50", "-o", "r"]].concat()).run().with(1);
    for side in ["A at 1M: the rate was missed in 6 rounds", "B at 1M: the rate was missed in 6 rounds"] {
        assert!(done.stdout.contains(side), "{done:?}");
    }
    let junit = ["export", "--format", "junit", "--verdict", "r/ab.json", "r", "-o", "junit.xml"];
    Tripmeter::new(junit).at(place.path()).run().with(0);
    let junit = std::fs::read_to_string(place.path().join("junit.xml")).unwrap();
    assert!(junit.contains("RATE MISSED at 1M 20000hz in 6 of 6 rounds"), "{junit}");
    let judge = |words: &[&str]| Tripmeter::new(words).at(place.path()).run();
    for method in ["ranks", "threshold"] {
        let compared = judge(&["compare", "r", "r", "--method", method]).with(1);
        assert!(compared.stdout.contains("RATE MISSED at 1M 20000hz"), "{compared:?}");
    }
    judge(&["compare", "r", "r", "--figures", "achieved_rate_hz"]).with(0);
    let limits = judge(&["limits", "r", "-o", "limits.csv"]).with(65);
    assert!(limits.stderr.contains("left out of 'r': 'a': RATE MISSED at 1M 20000hz"), "{limits:?}");
    let named = ["--figures", "achieved_rate_hz", "-o", "named"];
    let done = ab(&place, &[&words[..], &few, &named].concat()).run();
    // Even with equal sides, the rate itself may be judged different.
    assert!(is_judged(&done) && done.stdout.contains("achieved_rate_hz"), "{done:?}");
}

#[test]
fn loggers_are_judged_by_their_calls() {
    let _alone = alone();
    let place = folder();
    let words = ["write/file", "--pattern", "log", "-q", "-n", "50", "--payloads", "64", "--attempts", "1"];
    let done = ab(&place, &[&words[..], &["--rounds", "6", "-o", "r"]].concat()).run();
    assert!(is_judged(&done) && done.stdout.contains("call_ns.p50"), "{done:?}");
    assert_eq!(list(&made(&place.path().join("r")), "comparisons").len(), 2);
}

#[test]
fn both_sides_replay_one_recording() {
    let _alone = alone();
    let place = folder();
    let messages = drive();
    let file = write(place.path(), None, &messages).display().to_string();
    let words = ["inmem", "uds", "--pattern", "replay", "--recording", &file, "--speed", "4", "--attempts", "1"];
    let fixed = ["--wait", "block", "--loss-timeout", "15", "--rounds", "6", "-q", "-o", "r", "--sort", "figure:desc"];
    let done = ab(&place, &[&words[..], &fixed].concat()).run();
    assert!(is_judged(&done), "{done:?}");
    let place_of = |figure| done.stdout.find(figure).unwrap();
    assert!(place_of("response_ns.p99") < place_of("response_ns.p50"), "{done:?}");
    let results = place.path().join("r");
    let made = made(&results);
    assert_eq!((&made["pattern"], &made["rounds"]), (&"publish".into(), &6.into()));
    let comparisons = list(&made, "comparisons");
    assert_eq!(comparisons.len(), 2);
    for one in comparisons {
        let figure = (&one["figure"], &one["offered_load"], &one["stream"]);
        assert_eq!(figure, (&"response_ns".into(), &"recorded".into(), &"all".into()), "{one}");
    }
    let manifest = manifest(&results);
    let recording = manifest.plan.recording.as_ref().unwrap();
    assert_eq!((recording.speed, recording.messages), (4.0, messages.len() as u64));
    assert_eq!(manifest.sub_experiments.len(), 12);
    let refused = |more: &[&str], parts: &[&str]| {
        ab(&place, &[&words[..], more, &["-o", "x"]].concat()).run().with(64).one_line(parts);
    };
    refused(&["--payloads", "1k"], &["payloads"]);
    refused(&["--rate", "100"], &["rate"]);
}

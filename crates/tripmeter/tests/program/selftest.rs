//! `selftest`: it can be resumed, with every verdict kept. Its verdicts depend on the machine, and are not checked.

use crate::common::traces::signal;
use crate::common::{Finished, LONGEST, Tripmeter, alone, folder, is_nightly, is_required};
use serde_json::{Value, json};
use std::path::Path;

fn lines(folder: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join("comparisons.jsonl")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn ended(finished: &Finished) {
    assert!(matches!(finished.code, Some(0 | 1 | 75)), "{finished:?}");
}

fn made(phase: &str, seed: u64) -> Value {
    let verdict = json!({ "verdict": "equivalent", "ratio": 1.0, "interval": [0.99, 1.01], "seen_from": 1.05,
        "reference_ns": 5000.0, "result_ns": 5000.0 });
    json!({ "phase": phase, "index": 1, "seed": seed, "margin": 0.02, "answer_delay_ns": null, "injected": null,
        "rounds": 10, "stopped": "", "failures": 0, "seconds": 1.0,
        "verdicts": { "median": verdict, "p99": verdict } })
}

#[test]
fn a_killed_campaign_goes_on_and_keeps_what_it_had() {
    let _alone = alone();
    let folder = folder();
    let results = folder.path().join("r");
    let output = results.display().to_string();
    let words = ["selftest", "--full", "--comparisons", "1", "--seed", "5", "-o", &output];
    let unfinished = || {
        let names = std::fs::read_dir(&results).into_iter().flatten().flatten().map(|entry| entry.file_name());
        names.filter(|name| name.to_string_lossy().ends_with(".unfinished")).count()
    };
    let mut killed = Tripmeter::new(words).start();
    killed.until("a first measurement", |_| unfinished() > 0);
    signal(killed.pid(), "KILL");
    let _ = killed.wait(LONGEST);
    // All but one look as if made before the kill: one with a delayed answer takes a minute.
    let log = results.join("comparisons.jsonl");
    let (missing, seed) = if is_required() { ("uds-plus-10", 20_006) } else { ("aa-shm", 10_006) };
    let all = [("aa-uds", 6), ("aa-shm", 10_006), ("uds-plus-10", 20_006), ("uds-plus-5", 30_006)];
    let before: Vec<Value> =
        all.into_iter().filter(|(phase, _)| *phase != missing).map(|(phase, seed)| made(phase, seed)).collect();
    let header = std::fs::read_to_string(&log).unwrap();
    assert_eq!((header.lines().count(), header.ends_with('\n')), (1, true), "{header}");
    let text: String = before.iter().map(|line| format!("{line}\n")).collect();
    // The kill cut off the last line.
    std::fs::write(&log, format!("{header}{text}{{\"phase\": \"{}", &missing[..5])).unwrap();
    let finished = Tripmeter::new(words.iter().chain(&["--json"])).start().wait(LONGEST);
    ended(&finished);
    let after = lines(&results);
    assert_eq!(after[1..4], before[..], "what was there is as it was");
    assert_eq!((after.len(), &after[4]["phase"], &after[4]["seed"]), (5, &missing.into(), &seed.into()));
    let delay_ns = after[4]["answer_delay_ns"].as_u64();
    assert_eq!(delay_ns.is_some_and(|ns| ns > 0), is_required(), "{}", after[4]);
    assert!(finished.stderr.contains("1 of 4 comparisons left: about "), "{}", finished.stderr);
    let made: Value = serde_json::from_str(&finished.stdout).expect("it is JSON");
    let kept = std::fs::read_to_string(results.join("selftest.json")).expect("it is kept");
    assert_eq!(made, serde_json::from_str::<Value>(&kept).unwrap());
    assert_eq!(made["truth"][1]["lost"], 3, "{made}");
    assert_eq!((made["overhead"].as_array().map(Vec::len), made["form"].as_str()), (Some(2), Some("full")));
    assert_eq!(unfinished(), 0);
    if is_nightly() {
        // Everything is complete: only truth and overhead are measured again.
        let again = Tripmeter::new(words).start().wait(LONGEST);
        ended(&again);
        assert!(again.stdout.contains("Truth: stalls") && lines(&results) == after, "{}", again.stdout);
    }
    let other = ["selftest", "--full", "--comparisons", "1", "--seed", "6", "-o", &output];
    Tripmeter::new(other).run().with(65).one_line(&["another seed"]);
    let text = std::fs::read_to_string(&log).unwrap();
    let (header, rest) = text.split_once('\n').unwrap();
    let mut header: Value = serde_json::from_str(header).unwrap();
    header["program"] = "another".into();
    std::fs::write(&log, format!("{header}\n{rest}")).unwrap();
    Tripmeter::new(words).run().with(65).one_line(&["another seed, program or kernel"]);
    Tripmeter::new(["selftest", "--full"]).run().with(64).one_line(&["--output"]);
    // Results of another command and foreign folders are not written to.
    let others = folder.path().join("others");
    std::fs::create_dir(&others).unwrap();
    std::fs::write(others.join("manifest.json"), "{}").unwrap();
    let path = others.display().to_string();
    Tripmeter::new(["selftest", "-o", &path]).run().with(65).one_line(&[&path, "no selftest", "-o"]);
    assert_eq!(std::fs::read_dir(&others).unwrap().count(), 1);
}

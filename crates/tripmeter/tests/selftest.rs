//! The selftest: resumable, with every verdict kept. Whether its verdicts are good depends on the machine, and is not
//! looked at here.
#![allow(clippy::unwrap_used)]

mod common;

use common::traces::signal;
use common::{Finished, LONGEST, Tripmeter, alone, folder};
use serde_json::Value;
use std::path::Path;

fn lines(folder: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join("comparisons.jsonl")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// It ran to its end, whatever it found.
fn ended(finished: &Finished) {
    assert!(matches!(finished.code, Some(0 | 1 | 75)), "{finished:?}");
}

#[test]
fn a_killed_campaign_goes_on_and_keeps_what_it_had() {
    let _alone = alone();
    let folder = folder();
    let results = folder.path().join("r");
    let output = results.display().to_string();
    let words = ["selftest", "--full", "--comparisons", "1", "--seed", "5", "-o", &output];
    let mut killed = Tripmeter::new(words).start();
    killed.until("a first verdict", |_| lines(&results).len() >= 2);
    signal(killed.pid(), "KILL");
    let _ = killed.wait(LONGEST);
    let before = lines(&results);
    let finished = Tripmeter::new(words.iter().chain(&["--json"])).run();
    ended(&finished);
    let after = lines(&results);
    assert_eq!(after[..before.len()], before[..], "what was there is as it was");
    let phases: Vec<&str> = after.iter().filter_map(|line| line["phase"].as_str()).collect();
    assert_eq!(phases, ["aa-uds", "aa-shm", "uds-plus-10", "uds-plus-5"]);
    let seeds: Vec<u64> = after.iter().filter_map(|line| line["phase"].as_str().and(line["seed"].as_u64())).collect();
    assert_eq!(seeds, [6, 10_006, 20_006, 30_006]);
    assert!(after[3]["answer_delay_ns"].as_u64().is_some_and(|ns| ns > 0), "{}", after[3]);
    assert!(finished.stderr.contains("comparisons to be made: about "), "{}", finished.stderr);
    let made: Value = serde_json::from_str(&finished.stdout).expect("it is JSON");
    let kept = std::fs::read_to_string(results.join("selftest.json")).expect("it is kept");
    assert_eq!(made, serde_json::from_str::<Value>(&kept).unwrap());
    assert_eq!(made["truth"][1]["lost"], 3, "{made}");
    assert_eq!((made["overhead"].as_array().map(Vec::len), made["form"].as_str()), (Some(2), Some("full")));
    let left = std::fs::read_dir(&results).unwrap().flatten().map(|entry| entry.file_name());
    assert!(left.filter(|name| name.to_string_lossy().ends_with(".unfinished")).count() == 0);
    // All is there: nothing is measured but truth and overhead.
    let again = Tripmeter::new(words).run();
    ended(&again);
    assert!(again.stdout.contains("Measurement truth") && lines(&results) == after, "{}", again.stdout);
    let other = ["selftest", "--full", "--comparisons", "1", "--seed", "6", "-o", &output];
    Tripmeter::new(other).run().with(65).one_line(&["another seed"]);
    // As another build would have written it.
    let log = results.join("comparisons.jsonl");
    let text = std::fs::read_to_string(&log).unwrap();
    let (header, rest) = text.split_once('\n').unwrap();
    let mut header: Value = serde_json::from_str(header).unwrap();
    header["program"] = "another".into();
    std::fs::write(&log, format!("{header}\n{rest}")).unwrap();
    Tripmeter::new(words).run().with(65).one_line(&["another seed, program or kernel"]);
    Tripmeter::new(["selftest", "--full"]).run().with(64).one_line(&["--output"]);
}

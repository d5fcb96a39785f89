//! `tripmeter run --resume`: finished payloads stay, and the rest is measured.

use super::killed::in_the_middle;
use crate::common::samples::sample_payloads;
use crate::common::traces::signal;
use crate::common::{LONGEST, Tripmeter, alone, folder, manifest, result};
use crate::trouble::{MANY_PAYLOADS, SAMPLES, long_and_after, many_and_after, run_file};
use std::path::Path;
use tripmeter_model::exit;
use tripmeter_model::manifest::{Manifest, PayloadResult, RunStatus};

fn resume(results: &Path) -> Tripmeter {
    Tripmeter::new(["run", "-q", "--resume", &results.display().to_string()])
}

/// Cells of the long sub-experiment that count.
fn finished(manifest: &Manifest) -> Vec<PayloadResult> {
    let long = manifest.sub_experiments.iter().find(|result| result.name == "long");
    long.iter().flat_map(|long| &long.cells).filter(|cell| !cell.unfinished).cloned().collect()
}

fn figures(cells: &[PayloadResult]) -> String {
    serde_json::to_string(&cells.iter().map(|cell| (cell, &cell.trials)).collect::<Vec<_>>()).unwrap()
}

#[test]
fn finished_payloads_stay_and_the_rest_is_measured() {
    let _alone = alone();
    const PAYLOADS: u64 = MANY_PAYLOADS / 2;
    for victim in ["leader", "supervisor", "user"] {
        let folder = folder();
        let results = folder.path().join("results");
        let file = many_and_after(folder.path(), "uds/stream", "block", PAYLOADS);
        let mut run = run_file(&file, &results).start();
        let (leader, _) = in_the_middle(&mut run, &results);
        match victim {
            "leader" => signal(leader, "KILL"),
            "supervisor" => run.signal("KILL"),
            _ => run.signal("INT"),
        }
        run.wait(LONGEST);
        let before = finished(&manifest(&results));
        assert!(!before.is_empty(), "{victim}");
        resume(&results).run().with(exit::GOOD).clean();
        let whole = manifest(&results);
        let (long, after) = (result(&whole, "long"), result(&whole, "after"));
        assert_eq!(
            (whole.status, long.status, after.status),
            (RunStatus::Complete, RunStatus::Complete, RunStatus::Complete)
        );
        assert_eq!((long.cells.len() as u64, after.cells.len()), (PAYLOADS, 1), "{victim}");
        assert_eq!(figures(&long.cells[..before.len()]), figures(&before), "{victim}");
        let numbers: Vec<u32> =
            long.cells.iter().flat_map(|cell| cell.trials.iter().map(|trial| trial.number)).collect();
        assert!(numbers.is_sorted_by(|one, next| one < next), "{victim}: {numbers:?}");
        let expected: Vec<u64> = long.cells.iter().flat_map(|cell| vec![cell.payload_bytes; SAMPLES]).collect();
        assert_eq!(sample_payloads(&results, "long"), expected, "{victim}");
        let [resumption] = &whole.resumptions[..] else { panic!("{victim}: {:?}", whole.resumptions) };
        assert!(resumption.rest.contains(&"long".to_owned()) || before.len() as u64 == PAYLOADS, "{resumption:?}");
        resume(&results).run().with(exit::GOOD).clean();
        assert_eq!(figures(&manifest(&results).sub_experiments[0].cells), figures(&whole.sub_experiments[0].cells));
    }
}

#[test]
fn rounds_are_resumed_payload_by_payload() {
    let _alone = alone();
    let folder = folder();
    let results = folder.path().join("results");
    let output = results.display().to_string();
    let words = ["ping", "-q", "uds/stream", "tcp", "--wait", "block", "--no-floor", "--payloads", "1k,2k", "-n", "50"];
    let mut run = Tripmeter::new(words.iter().chain(&["--rounds", "8", "-o", &output])).start();
    run.until("two rounds", |_| results.join("round-03").exists());
    run.signal("INT");
    run.wait(LONGEST).with(exit::INTERRUPTED);
    let before = manifest(&results);
    resume(&results).run().with(exit::GOOD).clean();
    let whole = manifest(&results);
    assert_eq!((whole.status, whole.sub_experiments.len()), (RunStatus::Complete, 16));
    for old in before.sub_experiments.iter().filter(|old| old.status == RunStatus::Complete) {
        let same =
            |new: &&tripmeter_model::manifest::SubExperimentResult| (new.round, &new.name) == (old.round, &old.name);
        let new = whole.sub_experiments.iter().find(same).unwrap();
        assert_eq!(figures(&new.cells), figures(&old.cells));
    }
}

#[test]
fn what_cannot_be_resumed_is_refused() {
    let _alone = alone();
    let folder = folder();
    let results = folder.path().join("results");
    resume(&results).run().with(exit::NO_INPUT).one_line(&["not a results folder"]).clean();
    let mut run = run_file(&long_and_after(folder.path(), "uds/stream", "block"), &results).start();
    in_the_middle(&mut run, &results);
    // It does not even print what is missing, which is read only once nobody else writes.
    let loudly = Tripmeter::new(["run", "--resume", &results.display().to_string()]);
    loudly.run().with(exit::CANNOT_CREATE).one_line(&["still being measured"]).clean();
    run.signal("INT");
    run.wait(LONGEST).with(exit::INTERRUPTED);
    assert!(finished(&manifest(&results)).len() < MANY_PAYLOADS as usize);
    let output = results.display().to_string();
    for more in [["-n", "5"], ["--payloads", "64"], ["--rounds", "2"], ["-o", "x"]] {
        let finished = Tripmeter::new(["run", "--resume", &output].iter().chain(&more)).run().with(exit::USAGE);
        finished.says(&["--resume", more[0].trim_start_matches('-')]).clean();
    }
    let file = results.join("manifest.json");
    let text = std::fs::read_to_string(&file).unwrap();
    // Results of a plugin that was named.
    let renamed = text.replace("\"system\": \"uds\"", "\"system\": \"example\"");
    assert_ne!(renamed, text);
    std::fs::write(&file, &renamed).unwrap();
    let trials = || std::fs::read(results.join("trials.jsonl")).unwrap();
    let before = trials();
    resume(&results).run().with(exit::USAGE).one_line(&["'example'", "--plugin FILE"]).clean();
    assert!(std::fs::read_to_string(&file).unwrap() == renamed && trials() == before, "nothing is cut");
    std::fs::write(&file, text.replacen("\"source\": \"", "\"source\": \"ab\", \"was\": \"", 1)).unwrap();
    resume(&results).run().with(exit::DATA).one_line(&["tripmeter ab"]).clean();
}

//! Retries of a payload when the core-to-core probe changes; every attempt is kept.

use crate::common::samples::{all_samples, sample_payloads};
use crate::common::traces::{Workers, signal, workers};
use crate::common::{LONGEST, Running, Tripmeter, folder, manifest, manifest_so_far, say};
use crate::metrics;
use std::fs;
use std::path::Path;
use std::process::Command;
use tripmeter_model::manifest::{Manifest, ModeChange, PayloadResult};

/// Five seconds per attempt at 500 per second: the time that a test has to move the workers.
const MESSAGES: usize = 2500;

/// Number of payloads that the manifest lists as finished and that are not retried.
fn cells(results: &Path) -> usize {
    let is_last = |cell: &PayloadResult| cell.core_to_core_changed.is_none() || cell.earlier_attempts.len() == 2;
    let first = |so_far: Manifest| {
        so_far.sub_experiments.first().map(|one| one.cells.iter().filter(|cell| is_last(cell)).count())
    };
    manifest_so_far(results).and_then(first).unwrap_or(0)
}

/// A run whose workers are moved to one CPU while the second payload is measured, and its leader.
fn moving(results: &Path) -> (Running, u32) {
    let (messages, output) = (MESSAGES.to_string(), results.display().to_string());
    let words = ["publish", "--wide", "uds/stream", "--wait", "block", "--rate", "500"];
    let rest = ["-n", &messages, "--payloads", "16,1k", "--no-floor", "--loss-timeout", "15", "-o", &output];
    let mut run = Tripmeter::new(words.iter().chain(&rest)).start();
    let mut found = Workers { leader: None, follower: None };
    run.until("both workers", |run| {
        found = workers(run.pid());
        found.leader.is_some() && found.follower.is_some()
    });
    run.until("a first cell", |_| cells(results) > 0);
    let cpu = tripmeter_engine::os::allowed_cpus()[0].to_string();
    for pid in [found.leader, found.follower].into_iter().flatten() {
        let moved = Command::new("taskset").args(["-acp", &cpu, &pid.to_string()]).output().expect("taskset is there");
        assert!(moved.status.success(), "{moved:?}");
    }
    assert_eq!(cells(results), 1, "the second payload was over before the workers were moved");
    (run, found.leader.unwrap())
}

/// True if there are two CPUs, so that a process can be moved.
fn can_move() -> bool {
    let can = tripmeter_engine::os::allowed_cpus().len() > 1;
    if !can {
        say("SKIPPED: two CPUs are needed to move a process to another one");
    }
    can
}

/// Both workers are moved to one CPU while the second payload is measured, as in a migration. The probe afterwards then
/// waits for the scheduler, and so do the probes of all retries.
#[test]
fn a_migration_is_noticed_and_no_attempt_is_lost() {
    if !can_move() {
        return;
    }
    let folder = folder();
    let results = folder.path().join("results");
    let finished = moving(&results).0.wait(LONGEST).with(0).clean();
    let manifest = manifest(&results);
    let cell = &manifest.sub_experiments[0].cells[1];
    assert!(matches!(cell.core_to_core_changed, Some(ModeChange::TakenAway | ModeChange::NoAnswer)), "{cell:?}");
    assert_eq!((cell.earlier_attempts.len(), cell.counts().sent), (2, MESSAGES as u64));
    assert!(cell.earlier_attempts.iter().all(|cell| cell.core_to_core_changed.is_some() && cell.trials.len() == 1));
    let (name, numbers) = ("uds_stream_block_publish", |cell: &PayloadResult| cell.trials[0].number);
    let all = all_samples(&results, name);
    let rows_of = |cell: &PayloadResult| all.iter().filter(|row| row.trial == numbers(cell)).count();
    let attempts: Vec<&PayloadResult> = cell.earlier_attempts.iter().chain([cell]).collect();
    assert!(attempts.iter().all(|attempt| rows_of(attempt) == MESSAGES), "{attempts:?}");
    let first = numbers(attempts[0]);
    assert_eq!(attempts.iter().map(|attempt| numbers(attempt)).collect::<Vec<_>>(), [first, first + 1, first + 2]);
    let counted = sample_payloads(&results, name);
    assert!([16, 1024].iter().all(|bytes| counted.iter().filter(|one| *one == bytes).count() == MESSAGES));
    for attempt in 1..=2 {
        assert!(results.join(format!("histograms/attempts/{name}_attempt-{attempt}.hlog")).exists());
    }
    metrics::check(&results);
    let text = finished.unwrapped();
    let note = text.lines().find(|line| line.starts_with("~ uds_stream_block_publish at 1k: the core-to-core latency"));
    assert!(note.is_some_and(|line| line.contains("measured again 2 times")), "{}", finished.stdout);
}

/// The files of an attempt are moved when the next one starts. If that one is killed, the payload is unfinished.
#[test]
fn a_payload_whose_next_attempt_was_broken_off_is_measured_again() {
    if !can_move() {
        return;
    }
    let folder = folder();
    let results = folder.path().join("results");
    let (mut run, leader) = moving(&results);
    let name = "uds_stream_block_publish";
    let set_aside = results.join(format!("histograms/attempts/{name}_attempt-1.hlog"));
    // The first payload may have one as well.
    let has_second = |text: String| text.contains("_1024_");
    run.until("an attempt at the second payload that was set aside", |_| {
        fs::read_to_string(&set_aside).is_ok_and(has_second)
    });
    signal(leader, "KILL");
    run.wait(LONGEST).with(75).clean();
    let cells = |results: &Path| manifest(results).sub_experiments[0].cells.clone();
    let before = cells(&results);
    assert_eq!(before.iter().map(|cell| cell.unfinished).collect::<Vec<_>>(), [false, true], "{before:?}");
    Tripmeter::new(["run", "--resume", results.to_str().unwrap()]).run().with(0).clean();
    let after = cells(&results);
    assert!(after.iter().all(|cell| !cell.unfinished && cell.counts().sent == MESSAGES as u64), "{after:?}");
    let histograms = fs::read_to_string(results.join(format!("histograms/{name}.hlog"))).unwrap();
    assert!([16, 1024].iter().all(|payload| histograms.contains(&format!("_{payload}_"))), "{histograms}");
    let counted = sample_payloads(&results, name);
    assert!([16, 1024].iter().all(|bytes| counted.iter().filter(|one| *one == bytes).count() == MESSAGES));
    metrics::check(&results);
}

#[test]
fn attempts_are_one_to_three() {
    let folder = folder();
    let output = folder.path().join("r").display().to_string();
    let words = ["ping", "-q", "uds", "-n", "10", "--payloads", "16", "--attempts", "1", "-o", &output];
    Tripmeter::new(words).run().with(0);
    assert_eq!(manifest(&folder.path().join("r")).plan.attempts, 1);
    let words = ["ping", "-q", "uds", "--attempts", "4", "-o", &output];
    Tripmeter::new(words).run().with(64).one_line(&["4 attempts", "1 to 3 (--attempts)"]);
}

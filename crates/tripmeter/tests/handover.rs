//! A payload whose hand-over probe changes is measured again, and every attempt is kept.

mod common;

use common::traces::{Workers, workers};
use common::{LONGEST, Tripmeter, aloud, csv_payloads, folder, manifest};
use std::process::Command;
use tripmeter_model::manifest::{Manifest, ModeChange};

const SAMPLES: usize = 60_000;

/// Both workers are moved to one processor while the second payload is measured, as a migration would: the probe afterwards
/// waits for the scheduler, and so do those of all further attempts.
#[test]
fn a_migration_is_noticed_and_no_attempt_is_lost() {
    if tripmeter_engine::os::allowed_cpus().len() < 2 {
        return aloud("SKIPPED: two processors are needed to move a process to another one");
    }
    let folder = folder();
    let results = folder.path().join("r");
    let (samples, output) = (SAMPLES.to_string(), results.display().to_string());
    let words = ["run", "-t", "uds/stream", "--wait", "block", "-n", &samples, "--payloads", "16,1k", "--no-floor"];
    let mut run = Tripmeter::new(words.iter().chain(&["-o", &output])).start();
    let mut found = Workers { leader: None, follower: None };
    run.until("both workers", |run| {
        found = workers(run.pid());
        found.leader.is_some() && found.follower.is_some()
    });
    run.until("a first cell", |_| {
        let text = std::fs::read_to_string(results.join("manifest.json")).unwrap_or_default();
        serde_json::from_str::<Manifest>(&text).is_ok_and(|so_far| !so_far.sub_experiments[0].cells.is_empty())
    });
    let cpu = tripmeter_engine::os::allowed_cpus()[0].to_string();
    for pid in [found.leader.unwrap(), found.follower.unwrap()] {
        let moved = Command::new("taskset").args(["-acp", &cpu, &pid.to_string()]).output().expect("taskset is there");
        assert!(moved.status.success(), "{moved:?}");
    }
    let finished = run.wait(LONGEST).with(0).clean();
    let manifest = manifest(&results);
    let cell = &manifest.sub_experiments[0].cells[1];
    assert!(matches!(cell.handover_changed, Some(ModeChange::TakenAway | ModeChange::NoAnswer)), "{cell:?}");
    assert_eq!((cell.earlier_attempts.len(), cell.samples), (2, SAMPLES as u64));
    assert!(cell.earlier_attempts.iter().all(|cell| cell.samples == SAMPLES as u64 && cell.handover_changed.is_some()));
    let rows = csv_payloads(&results.join("measurements_uds_stream_block.csv"));
    assert_eq!((rows.len(), rows.iter().filter(|bytes| **bytes == 1024).count()), (2 * SAMPLES, SAMPLES));
    for attempt in 1..=2 {
        let set_aside = results.join(format!("attempts/measurements_uds_stream_block_attempt-{attempt}.csv"));
        let text = std::fs::read_to_string(&set_aside).unwrap();
        assert_eq!(text.matches(",1024,").count(), SAMPLES);
        assert!(set_aside.with_extension("hlog").exists());
    }
    let note = finished.stdout.lines().find(|line| line.starts_with("~ uds_stream_block at 1k: the hand-over changed"));
    assert!(note.is_some_and(|line| line.contains("measured again 2 times")), "{}", finished.stdout);
    // Once is enough for who says so.
    let output = folder.path().join("once").display().to_string();
    let words = ["run", "-q", "-t", "uds", "-n", "10", "--payloads", "16", "--attempts", "1", "-o", &output];
    Tripmeter::new(words).run().with(0);
    let words = ["run", "-q", "-t", "uds", "--attempts", "4", "-o", &output];
    Tripmeter::new(words).run().with(64).one_line(&["4 attempts", "1 to 3 (--attempts)"]);
}

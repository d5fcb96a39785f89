//! Ctrl-C and termination signals.

use crate::common::figures::{count, times};
use crate::common::samples::sample_payloads;
use crate::common::traces::{cpu_time, workers};
use crate::common::{Finished, LONGEST, Tripmeter, alone, folder, manifest, result};
use crate::trouble::{MANY_PAYLOADS, cells_on_disk, long_and_after, run_file};
use std::path::Path;
use std::time::Duration;
use tripmeter_model::cut_short::CutShort;
use tripmeter_model::exit;
use tripmeter_model::figure::Figure;
use tripmeter_model::manifest::{Counts, RunStatus};

/// Checks for an interruption in the middle: all samples are in manifest and CSV, and nothing was begun afterwards.
fn check_kept(finished: Finished, results: &Path) {
    let finished = finished.with(exit::INTERRUPTED);
    let manifest = manifest(results);
    assert_eq!((manifest.status, manifest.sub_experiments.len()), (RunStatus::Interrupted, 1));
    let long = result(&manifest, "long");
    assert_eq!((long.status, &long.error), (RunStatus::Interrupted, &None));
    assert!((1..MANY_PAYLOADS).contains(&(long.cells.len() as u64)), "{} cells", long.cells.len());
    let samples: Vec<u64> =
        long.cells.iter().flat_map(|cell| vec![cell.payload_bytes; cell.samples as usize]).collect();
    assert_eq!(sample_payloads(results, "long"), samples);
    for cell in &long.cells {
        let is_whole = cell.samples == cell.samples_planned;
        assert!(is_whole || cell.cut_short == Some(CutShort::Interrupted), "{cell:?}");
    }
    assert!(finished.stdout.contains("half a round trip"), "no table:\n{}", finished.stdout);
    finished.clean();
}

#[test]
fn ctrl_c_keeps_what_was_measured() {
    let _alone = alone();
    let cases =
        [("uds/stream", "block", "INT"), ("shm", "poll", "INT"), ("mq", "block", "TERM"), ("inmem", "callback", "INT")];
    for (transport, wait, signal) in cases {
        let folder = folder();
        let results = folder.path().join("results");
        let mut run = run_file(&long_and_after(folder.path(), transport, wait), &results).start();
        run.until("a first cell", |_| cells_on_disk(&results) > 0);
        run.signal(signal);
        check_kept(run.wait(LONGEST), &results);
    }
}

#[test]
fn ctrl_c_in_the_middle_of_a_long_payload_keeps_its_samples() {
    let _alone = alone();
    for (transport, wait) in [("uds/stream", "block"), ("shm", "poll"), ("inmem", "callback")] {
        let folder = folder();
        let output = folder.path().display().to_string();
        let words = ["ping", transport, "--wait", wait, "-n", "50000000", "--raw", "none", "--warmup", "10"];
        let more = ["--payloads", "64k", "--loss-timeout", "15", "--no-floor", "-o", &output];
        let mut run = Tripmeter::new(words.iter().chain(&more)).start();
        run.until("its start", |run| run.said().contains("results in") && !cells_begun(folder.path()).is_empty());
        run.until("many round trips", |run| {
            let found = workers(run.pid());
            let used = found.leader.into_iter().chain(found.follower).map(cpu_time).sum::<Duration>();
            used > Duration::from_secs(1)
        });
        run.signal("INT");
        run.wait(LONGEST).with(exit::INTERRUPTED).says(&["1/1", "then interrupted"]).clean();
        let manifest = manifest(folder.path());
        let cell = &manifest.sub_experiments[0].cells[0];
        assert!(
            (1..50_000_000).contains(&cell.samples) && times(&cell.trials[0], Figure::RttHalf).is_some(),
            "{cell:?}"
        );
        assert_eq!(cell.cut_short, Some(CutShort::Interrupted));
        let all = cell.samples + cell.warmup;
        // The message in transit does not count.
        assert_eq!(cell.counts(), Counts { sent: all, received: all, ..Counts::default() });
    }
}

#[test]
fn ctrl_c_keeps_round_trips_at_a_rate() {
    let _alone = alone();
    for (transport, wait) in [("uds/stream", "block"), ("shm", "poll"), ("inmem", "callback")] {
        let folder = folder();
        let output = folder.path().display().to_string();
        let words = ["ping", transport, "--wait", wait, "-n", "50000000", "--raw", "none", "--warmup", "10"];
        let more = ["--rate", "20000,10000", "--payloads", "64k", "--loss-timeout", "15", "--no-floor", "-o", &output];
        let mut run = Tripmeter::new(words.iter().chain(&more)).start();
        run.until("its start", |run| run.said().contains("results in") && !cells_begun(folder.path()).is_empty());
        run.until("many round trips", |run| {
            let found = workers(run.pid());
            let used = found.leader.into_iter().chain(found.follower).map(cpu_time).sum::<Duration>();
            used > Duration::from_secs(1)
        });
        run.signal("INT");
        run.wait(LONGEST).with(exit::INTERRUPTED).says(&["1/1", "then interrupted"]).clean();
        let manifest = manifest(folder.path());
        let cell = &manifest.sub_experiments[0].cells[0];
        let [trial] = &cell.trials[..] else { panic!("{cell:?}") };
        let made = count(trial, Figure::Sent);
        assert!((1..50_000_000).contains(&made) && times(trial, Figure::ResponseRtt).is_some(), "{trial:?}");
        assert!([&trial.cut_short, &cell.cut_short].iter().all(|why| **why == Some(CutShort::Interrupted)));
        // The message in flight counts for nothing.
        assert_eq!((count(trial, Figure::Received), cell.samples), (made, made));
    }
}

/// Histogram logs, which exist once the transport is opened.
fn cells_begun(results: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(results.join("histograms")).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.ends_with(".hlog")).collect()
}

#[test]
fn ctrl_c_at_any_moment_ends_it_cleanly() {
    let _alone = alone();
    for milliseconds in (0..300).step_by(20) {
        let folder = folder();
        let results = folder.path().join("results");
        let run = run_file(&long_and_after(folder.path(), "mq", "block"), &results).start();
        std::thread::sleep(Duration::from_millis(milliseconds));
        run.signal("INT");
        let finished = run.wait(LONGEST);
        // Before its signal handlers are installed it has done nothing, and may simply die.
        assert!(matches!(finished.code, None | Some(130)), "{finished:?}");
        finished.clean();
    }
}

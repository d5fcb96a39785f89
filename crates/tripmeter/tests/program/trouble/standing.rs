//! Runs that never end by themselves: calls that hang in one of many threads, and messages that are always wrong.

use crate::common::traces::{signal, sleeps, workers};
use crate::common::{LONGEST, Tripmeter, at_once, built, folder, has_cell, manifest, plugin};
use std::time::Duration;
use tripmeter_model::exit;
use tripmeter_model::manifest::RunStatus;

fn run(transport: &str, pattern: &str, rest: &[&str], results: &std::path::Path) -> Tripmeter {
    let (plugin, output) = (plugin("trouble").display().to_string(), results.display().to_string());
    let words = ["ping", "-q", "--plugin", &plugin, transport, "--pattern", pattern, "--no-floor", "-o", &output];
    Tripmeter::new(words.iter().chain(&["--payloads", "64k", "-n", "100", "--loss-timeout", "0.3"]).chain(rest))
}

/// The main thread, which only watches, sends no heartbeat for a thread that hangs in its transport.
#[test]
fn a_call_that_hangs_in_one_of_many_threads_is_ended() {
    let cases = [
        ("publish-hang", "publish", ["--rate", "100", "--topics", "2"]),
        ("take-hang", "call", ["--wait", "block", "--clients", "2"]),
    ];
    let runs = cases.map(|(mode, pattern, rest)| {
        let folder = folder();
        let transport = format!("trouble?mode={mode}&side=leader&after=60");
        (run(&transport, pattern, &rest, folder.path()).start(), folder)
    });
    for (run, folder) in runs {
        let finished = run.wait(LONGEST).with(exit::PARTIAL).says(&["no sign of life", "measure 65536 bytes"]);
        assert_eq!(manifest(folder.path()).sub_experiments[0].status, RunStatus::Failed);
        finished.clean();
    }
}

/// Of a closed loop, the answers; of a stream, what the follower had counted. An error of a call is its outcome.
#[test]
fn what_was_measured_until_a_failure_is_kept() {
    let kept = |&(pattern, call, more): &(&str, &str, &[&str])| {
        let folder = folder();
        let transport = format!("trouble?mode={call}-error&side=leader&after=60");
        let words = [&["--warmup", "0", "--wait", "block", "--attempts", "1"], more].concat();
        run(&transport, pattern, &words, folder.path()).run().with(exit::PARTIAL).says(&["trouble on purpose"]).clean();
        let manifest = manifest(folder.path());
        let [cell] = &manifest.sub_experiments[0].cells[..] else { panic!("{pattern}: {manifest:?}") };
        let (counts, why) = (cell.counts(), cell.cut_short.as_ref().map(ToString::to_string).unwrap_or_default());
        assert!(counts.received > 0 && counts.sent < 100, "{pattern}: {counts:?}");
        assert!(cell.unfinished && why.contains("trouble on purpose"), "{pattern}: {why}");
    };
    let (closed, rate): (&[&str], &[&str]) = (&[], &["--rate", "2000"]);
    let cases = [("ping", "take", closed), ("publish", "publish", rate), ("throughput", "publish", rate)];
    at_once(&cases, kept);
}

#[test]
fn messages_of_the_wrong_length_end_the_sub_experiment_and_both_lengths_are_named() {
    for (pattern, wait) in [("ping", "poll"), ("call", "block")] {
        let folder = folder();
        let finished = run("trouble?mode=take-short&side=leader", pattern, &["--wait", wait], folder.path()).run();
        finished.with(exit::PARTIAL).says(&["the message had 65535 bytes, 65536 expected"]).clean();
    }
}

/// The leader fills the sockets, and then waits for arrivals.
#[test]
fn a_follower_that_is_stopped_stands_still_and_is_not_said_to_take_messages() {
    at_once(&["throughput", "publish"], |pattern| {
        let (folder, sent) =
            (folder(), ["--payloads", "64,128", "--rate", "1000", "-n", "5000", "--loss-timeout", "1"]);
        let output = folder.path().display().to_string();
        let words = ["ping", "-q", "tcp", "--wait", "block", "--no-floor", "--pattern", pattern, "-o", &output];
        let mut run = Tripmeter::new(words.iter().chain(&sent)).start();
        run.until("a first payload", |_| has_cell(folder.path()));
        let follower = workers(run.pid()).follower.unwrap();
        let before = sleeps(follower);
        // Fewer than there are messages, and more than are exchanged between two payloads.
        run.until("messages", |_| sleeps(follower) > before + 100);
        signal(follower, "STOP");
        let finished = run.wait(LONGEST).with(exit::PARTIAL);
        finished.says(&["the follower hangs", "did nothing (stopped by a signal)"]).clean();
        assert_eq!(manifest(folder.path()).sub_experiments[0].status, RunStatus::Failed);
    });
}

/// eCAL removes a memory file that its reader holds for 200 ms, and with it the data written in place.
#[test]
fn a_reader_that_stands_gets_no_damaged_message_where_messages_are_written_in_place() {
    const STANDING: Duration = Duration::from_millis(320);
    if built("ecal").is_none() {
        return;
    }
    let folder = folder();
    let output = folder.path().display().to_string();
    let words = ["ping", "-q", "ecal/shm-zero-copy", "--touch", "full", "--payloads", "16,1M", "--no-floor"];
    let more = ["-n", "3000", "--warmup", "10", "--attempts", "1", "--loss-timeout", "15", "-o", &output];
    let mut run = Tripmeter::new(words.iter().chain(&more)).start();
    run.until("a first payload", |_| has_cell(folder.path()));
    let found = workers(run.pid());
    let sides = [found.leader.unwrap(), found.follower.unwrap()];
    for side in std::iter::repeat_n(sides, 12).flatten() {
        signal(side, "STOP");
        std::thread::sleep(STANDING);
        signal(side, "CONT");
    }
    run.wait(LONGEST).with(exit::GOOD).clean();
    let counts = manifest(folder.path()).sub_experiments[0].cells[1].counts();
    assert_eq!((counts.damaged, counts.duplicated), (0, 0), "{counts:?}");
}

#[test]
fn a_leader_that_says_all_the_time_that_it_lives_is_stopped() {
    let folder = folder();
    let hangs = folder.path().join("hangs");
    let sign = format!("TRIPMETER_TEST_HANGS={}", hangs.display());
    let (plugin, results) = (plugin("trouble").display().to_string(), folder.path().join("results"));
    let transport = "trouble?mode=take-chatter&side=leader&after=60";
    let words = ["ping", "-q", "--plugin", &plugin, transport, "--wait", "block", "--no-floor"];
    let more = ["--payloads", "64k", "-n", "100", "--loss-timeout", "0.3", "-o", &results.display().to_string()];
    let mut run = Tripmeter::under(&["env", &sign], words.iter().chain(&more)).start();
    run.until("its hanging", |_| hangs.exists());
    run.signal("TERM");
    run.wait(LONGEST).with(exit::INTERRUPTED).clean();
    assert_eq!(manifest(&results).sub_experiments[0].status, RunStatus::Interrupted);
}

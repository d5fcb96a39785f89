//! Daemons that are missing or killed.

use crate::common::traces::{marked, running, signal};
use crate::common::{LONGEST, Tripmeter, alone, folder, is_nightly, is_required, manifest, result, say, transports};
use crate::trouble::{cells_on_disk, daemon_of, long_and_after, many_and_after, run_file};
use tripmeter_model::exit;
use tripmeter_model::manifest::RunStatus;

/// Transports that need a daemon that is not running, with its name: the first of each system, nightly all.
fn with_daemon() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for row in transports() {
        let Some(daemon) = daemon_of(&row) else { continue };
        if let Some(pid) = running(&daemon) {
            say(&format!("SKIPPED: trouble with {daemon} of {}: one runs already, process {pid}", row.system));
        }
        let waiting = row.variants.iter().filter(|here| here.daemon_missing);
        let most = if is_nightly() { usize::MAX } else { 1 };
        found.extend(waiting.take(most).map(|here| (format!("{}/{}", row.system, here.variant), daemon.clone())));
    }
    assert!(!found.is_empty() || !is_required(), "no transport here has a daemon that could be started");
    if found.is_empty() {
        say("SKIPPED: no transport here has a daemon that could be started");
    }
    found
}

#[test]
fn a_daemon_that_must_run_and_does_not_is_named() {
    let _alone = alone();
    for (transport, daemon) in with_daemon() {
        let words = ["ping", &transport, "-n", "10", "--daemons", "require"];
        let finished = Tripmeter::new(words).at(folder().path()).run().with(exit::UNAVAILABLE);
        finished.one_line(&[&transport, &daemon, "not running", "--daemons start"]).clean();
    }
}

#[test]
fn a_daemon_is_started_and_stopped() {
    let _alone = alone();
    for (transport, daemon) in with_daemon() {
        let folder = folder();
        let words = ["ping", &transport, "-n", "100", "--payloads", "1k", "--no-floor", "-o"];
        let output = folder.path().display().to_string();
        let finished = Tripmeter::new(words.iter().chain(&[output.as_str()])).run().with(exit::GOOD);
        finished.says(&["started", &daemon, "stopped at the end"]).clean();
        assert_eq!(running(&daemon), None);
    }
}

#[test]
fn a_daemon_that_is_killed_hangs_nothing_and_the_rest_goes_on() {
    let _alone = alone();
    for (index, (transport, daemon)) in with_daemon().into_iter().enumerate() {
        // A transport that continues without its daemon measures all payloads.
        let waits = ["poll", "block"];
        for wait in if is_nightly() { &waits[..] } else { &waits[index % 2..=index % 2] } {
            let folder = folder();
            let results = folder.path().join("results");
            let mut run = run_file(&many_and_after(folder.path(), &transport, wait, 20), &results).start();
            run.until("a first cell", |_| cells_on_disk(&results) > 0);
            // A daemon of another experiment must not be killed.
            let pid = running(&daemon).filter(|pid| marked(run.mark()).contains(pid));
            // RouDi ends its clients first when terminated.
            let how = if transport.starts_with("iceoryx-c") { "TERM" } else { "KILL" };
            signal(pid.expect("it was started by this run"), how);
            let finished = run.wait(LONGEST);
            say(&format!("{how} to {daemon}: {transport} {wait}: exit code {:?}, {:?}", finished.code, finished.took));
            let manifest = manifest(&results);
            let long = result(&manifest, "long");
            // The transport itself may continue without it; the error names the daemon nevertheless.
            let why = long.error.as_deref().unwrap_or_default();
            let is_named = ["its daemon has gone: ", "its daemon ended during the measurement: "];
            assert!(is_named.iter().any(|words| why.starts_with(words)), "{:?}: {why}", long.status);
            assert_eq!(finished.code, Some(exit::PARTIAL.into()));
            assert_eq!(result(&manifest, "after").status, RunStatus::Complete);
            finished.clean();
            let words = ["ping", "-q", &transport, "--wait", wait, "-n", "10", "--payloads", "1k", "--no-floor", "-o"];
            let again = folder.path().join("again").display().to_string();
            Tripmeter::new(words.iter().chain(&[again.as_str()])).run().with(exit::GOOD).clean();
        }
    }
}

#[test]
fn a_daemon_of_a_killed_supervisor_is_stopped_by_the_next_run() {
    let _alone = alone();
    for (transport, daemon) in with_daemon() {
        let folder = folder();
        let results = folder.path().join("results");
        let mut run = run_file(&long_and_after(folder.path(), &transport, "poll"), &results).start();
        run.until("a first cell", |_| cells_on_disk(&results) > 0);
        run.signal("KILL");
        let killed = run.wait(LONGEST);
        assert!(!marked(killed.mark()).is_empty(), "{daemon} died with its supervisor: the test is none");
        let words = ["ping", "-q", "uds", "-n", "10", "--payloads", "16", "-o"];
        let next = folder.path().join("next").display().to_string();
        Tripmeter::new(words.iter().chain(&[next.as_str()])).run().with(exit::GOOD).clean();
        killed.clean();
    }
}

//! Plugins that fail, hang, crash or print.

use crate::common::traces::{signal, workers};
use crate::common::{Finished, LONGEST, Tripmeter, alone, folder, manifest, plugin, result};
use crate::trouble::killed::in_the_middle;
use crate::trouble::{MANY_PAYLOADS, cells_on_disk};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use tripmeter_model::exit;
use tripmeter_model::manifest::{Manifest, RunStatus};

/// Messages taken by each side in the middle of the cell: the path proof takes 32 of 64 kB.
const IN_THE_CELL: u64 = 60;

struct Trouble {
    place: &'static str,
    kind: &'static str,
    side: &'static str,
    after: u64,
    wait: &'static str,
}

impl Trouble {
    fn name(&self) -> String {
        format!("{}-{}-{}-{}", self.place, self.kind, self.side, self.after)
    }
}

/// Writes an experiment with these, and a good one after them.
fn experiment(folder: &Path, troubles: &[Trouble]) -> PathBuf {
    let mut text = "floor = false\nsamples = 100\npayloads = \"64k\"\nloss_timeout_s = 0.3\n".to_owned();
    for trouble in troubles {
        let Trouble { place, kind, side, after, wait } = trouble;
        let (name, mode) = (trouble.name(), format!("mode={place}-{kind}&side={side}&after={after}"));
        writeln!(text, "[[sub_experiment]]\nname = \"{name}\"\ntransport = \"trouble?{mode}\"\nwait = \"{wait}\"")
            .unwrap();
    }
    text += "[[sub_experiment]]\nname = \"good\"\ntransport = \"trouble\"\n";
    let file = folder.join("troubles.toml");
    std::fs::write(&file, text).unwrap();
    file
}

fn run(file: &Path, results: &Path) -> Tripmeter {
    let (plugin, output) = (plugin("trouble").display().to_string(), results.display().to_string());
    Tripmeter::new(["run", &file.display().to_string(), "-q", "--json", "--plugin", &plugin, "-o", &output])
}

/// Checks that each failed with a line that has its parts, and that the good one is complete.
fn check(finished: Finished, results: &Path, troubles: &[Trouble], parts: impl Fn(&Trouble) -> Vec<String>) {
    let finished = finished.with(exit::PARTIAL);
    let printed: Manifest = serde_json::from_str(&finished.stdout).expect("nothing but JSON on standard output");
    let manifest = manifest(results);
    assert_eq!((printed.status, manifest.status), (RunStatus::Failed, RunStatus::Failed));
    let complaints: Vec<&str> = finished.stderr.lines().collect();
    assert_eq!(complaints.len(), troubles.len(), "{complaints:#?}");
    let mut faults = Vec::new();
    for (trouble, complaint) in troubles.iter().zip(complaints) {
        let result = result(&manifest, &trouble.name());
        let error = result.error.clone().unwrap_or_default();
        let parts = parts(trouble);
        let is_one_line = !error.is_empty() && !error.contains('\n') && complaint.contains(&error);
        if result.status != RunStatus::Failed || !is_one_line || !parts.iter().all(|part| error.contains(part)) {
            faults.push(format!("{}: {:?} {error:?}, not {parts:?}", trouble.name(), result.status));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    assert_eq!(result(&manifest, "good").status, RunStatus::Complete);
    finished.clean();
}

fn everywhere(kinds: &[&'static str]) -> Vec<Trouble> {
    let mut troubles = Vec::new();
    for side in ["leader", "follower"] {
        for kind in kinds {
            let mut add = |place, after, wait| troubles.push(Trouble { place, kind, side, after, wait });
            for place in ["open", "link", "connect"] {
                add(place, 0, "block");
            }
            for place in ["loan", "publish", "take"] {
                add(place, 0, "poll");
                add(place, IN_THE_CELL, "block");
            }
        }
    }
    troubles
}

#[test]
fn errors_are_reported_and_end_their_sub_experiment_only() {
    let _alone = alone();
    let folder = folder();
    let results = folder.path().join("results");
    let troubles = everywhere(&["error", "mute", "garbage", "code"]);
    let finished = run(&experiment(folder.path(), &troubles), &results).run();
    check(finished, &results, &troubles, |trouble| {
        let mut parts = vec!["trouble/stream".to_owned()];
        if trouble.kind == "error" {
            parts.push(format!("trouble on purpose in {}; choose another mode", trouble.place));
        }
        if trouble.side == "follower" {
            parts.push("follower".to_owned());
        }
        parts
    });
}

#[test]
fn a_plugin_that_breaks_the_contract_is_reported_with_the_function_and_what_it_did() {
    let _alone = alone();
    let folder = folder();
    let results = folder.path().join("results");
    let mut troubles = Vec::new();
    for (place, kind) in [
        ("publish", "odd"),
        ("publish", "mute"),
        ("take", "odd"),
        ("take", "null"),
        ("loan", "again"),
        ("loan", "null"),
        ("loan", "misaligned"),
        ("connect", "again"),
    ] {
        troubles.push(Trouble { place, kind, side: "leader", after: 0, wait: "block" });
    }
    let finished = run(&experiment(folder.path(), &troubles), &results).run();
    check(finished, &results, &troubles, |trouble| {
        let what = match trouble.kind {
            "odd" => "unknown status 42",
            "mute" => "TM_FAILED",
            "again" => "TM_AGAIN",
            "null" => "NULL",
            _ => "not aligned to 8 bytes",
        };
        let function = if trouble.place == "connect" { "`link_connect`" } else { &format!("`{}`", trouble.place) };
        vec![function.to_owned(), what.to_owned()]
    });
}

#[test]
fn junk_on_the_control_channel_is_called_junk() {
    let _alone = alone();
    let folder = folder();
    let results = folder.path().join("results");
    let troubles = [Trouble { place: "take", kind: "junk", side: "leader", after: IN_THE_CELL, wait: "block" }];
    let finished = run(&experiment(folder.path(), &troubles), &results).run();
    check(finished, &results, &troubles, |_| vec!["sent junk on the control channel: \"junk from take\"".to_owned()]);
}

#[test]
fn what_a_leader_said_before_it_died_comes_first() {
    let _alone = alone();
    let folder = folder();
    let results = folder.path().join("results");
    let troubles = [Trouble { place: "take", kind: "broken", side: "leader", after: IN_THE_CELL, wait: "block" }];
    let finished = run(&experiment(folder.path(), &troubles), &results).run();
    check(finished, &results, &troubles, |_| {
        vec!["it broke on purpose in take; then the leader process was ended by signal 11".to_owned()]
    });
}

#[test]
fn one_that_dies_of_an_exception_is_quoted() {
    let _alone = alone();
    let folder = folder();
    let results = folder.path().join("results");
    let troubles = ["leader", "follower"].map(|side| Trouble {
        place: "take",
        kind: "throw",
        side,
        after: IN_THE_CELL,
        wait: "block",
    });
    let finished = run(&experiment(folder.path(), &troubles), &results).run();
    check(finished, &results, &troubles, |trouble| {
        vec![
            format!("the {} process was ended by signal 6 (abort)", trouble.side),
            "\"what():  no room in take\"".to_owned(),
        ]
    });
}

#[test]
fn crashes_are_reported_and_end_their_sub_experiment_only() {
    let _alone = alone();
    let folder = folder();
    let results = folder.path().join("results");
    let mut troubles = everywhere(&["crash", "exit"]);
    troubles.push(Trouble { place: "close", kind: "crash", side: "leader", after: 0, wait: "block" });
    let finished = run(&experiment(folder.path(), &troubles), &results).run();
    check(finished, &results, &troubles, |trouble| {
        let how = if trouble.kind == "crash" { "signal 11 (segmentation fault)" } else { "ended" };
        vec![trouble.side.to_owned(), how.to_owned()]
    });
    let closed = manifest(&results);
    assert_eq!(result(&closed, "close-crash-leader-0").cells.len(), 1, "what was measured before is kept");
}

#[test]
fn a_follower_that_fails_without_a_word_is_named_with_its_exit_code() {
    let _alone = alone();
    let folder = folder();
    let results = folder.path().join("results");
    let troubles = [Trouble { place: "take", kind: "quit", side: "follower", after: IN_THE_CELL, wait: "block" }];
    let finished = run(&experiment(folder.path(), &troubles), &results).run();
    check(finished, &results, &troubles, |_| vec!["the follower process ended with exit code 70".to_owned()]);
}

#[test]
fn trouble_while_it_is_asked_what_it_can_do_is_refused() {
    let file = plugin("trouble").display().to_string();
    for (mode, code, parts) in [
        ("probe-error", exit::UNAVAILABLE, ["trouble on purpose in probe", "choose another mode"]),
        (
            "limits-payload",
            exit::UNAVAILABLE,
            ["max_payload_bytes is 18446744073709551615", "9007199254740992 at most"],
        ),
        ("limits-packet", exit::UNAVAILABLE, ["packet_bytes is 18446744073709551615", "9007199254740992 at most"]),
        ("limits-peers", exit::UNAVAILABLE, ["unauthorized_peers is 4294967295", "7 at most"]),
        ("probe-crash", exit::UNAVAILABLE, ["'trouble'", "signal: 11"]),
        ("probe-exit", exit::UNAVAILABLE, ["'trouble'", "exit status: 3"]),
        ("probe-hang", exit::UNAVAILABLE, ["'trouble'", "hung for"]),
    ] {
        let folder = folder();
        let transport = format!("trouble?mode={mode}");
        let words = ["ping", "--plugin", &file, &transport, "-n", "10"];
        Tripmeter::new(words).at(folder.path()).run().with(code).one_line(&parts).clean();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[test]
fn a_call_that_hangs_is_ended() {
    let hang = |place, side, after| Trouble { place, kind: "hang", side, after, wait: "block" };
    let mut troubles = Vec::new();
    for side in ["leader", "follower"] {
        troubles.extend([hang("open", side, 0), hang("connect", side, 0)]);
        troubles.extend([hang("take", side, IN_THE_CELL), hang("take", side, 0)]);
    }
    troubles.push(hang("close", "leader", 0));
    // They mostly wait, so all run in parallel, and next to other tests.
    let mut runs = Vec::new();
    for trouble in troubles {
        let folder = folder();
        let troubles = [trouble];
        let started = run(&experiment(folder.path(), &troubles), &folder.path().join("results")).start();
        runs.push((started, troubles, folder));
    }
    for (started, troubles, folder) in runs {
        let finished = started.wait(LONGEST);
        check(finished, &folder.path().join("results"), &troubles, |_| Vec::new());
    }
}

#[test]
fn a_leader_that_hangs_after_its_follower_was_killed_is_ended_before_the_watchdog_does_it() {
    let _alone = alone();
    let folder = folder();
    let results = folder.path().join("results");
    let (plugin, output) = (plugin("trouble").display().to_string(), results.display().to_string());
    let transport = "trouble?mode=take-hang&side=leader&after=160";
    let words = ["ping", "-q", "--plugin", &plugin, transport, "--wait", "block", "-n", "100", "--warmup", "10"];
    let sizes = ["--payloads", "64k,128k", "--loss-timeout", "0.3", "--no-floor", "-o", &output];
    let hangs = folder.path().join("hangs");
    let sign = format!("TRIPMETER_TEST_HANGS={}", hangs.display());
    let wrapper = ["env", "--default-signal=INT", &sign];
    let mut run = Tripmeter::under(&wrapper, words.iter().chain(&sizes)).start();
    run.until("a first cell", |_| cells_on_disk(&results) > 0);
    run.until("it to hang", |_| hangs.exists());
    signal(workers(run.pid()).follower.unwrap(), "KILL");
    // Not by the watchdog, which waits for a longer silence.
    let finished = run.wait(LONGEST).with(exit::PARTIAL).says(&["follower", "signal 9 (kill)"]);
    assert!(!finished.stderr.contains("no sign of life"), "{}", finished.stderr);
    finished.clean();
    assert_eq!(manifest(&results).sub_experiments[0].cells.len(), 1);
}

#[test]
fn a_leader_that_crashes_because_its_follower_was_killed_is_not_the_cause() {
    let _alone = alone();
    let folder = folder();
    let results = folder.path().join("results");
    let (plugin, output) = (plugin("trouble").display().to_string(), results.display().to_string());
    let transport = "trouble?mode=close-crash&side=leader";
    let words = ["ping", "-q", "--plugin", &plugin, transport, "-n", "100", "--loss-timeout", "0.3"];
    let payloads = (1000..1000 + MANY_PAYLOADS).map(|bytes| bytes.to_string()).collect::<Vec<_>>().join(",");
    let mut run = Tripmeter::new(words.iter().chain(&["--payloads", &payloads, "--no-floor", "-o", &output])).start();
    let (_, follower) = in_the_middle(&mut run, &results);
    signal(follower, "KILL");
    let causes = ["the follower process was ended by signal 9 (kill), then the leader process was ended by signal 11"];
    run.wait(LONGEST).with(exit::PARTIAL).says(&causes).clean();
}

#[test]
fn a_follower_that_hangs_at_its_end_spoils_nothing() {
    let folder = folder();
    let results = folder.path().join("results");
    let plugin = plugin("trouble").display().to_string();
    let words = ["ping", "--plugin", &plugin, "trouble?mode=close-hang&side=follower", "-n", "100"];
    let sizes = ["--payloads", "64k", "--no-floor", "-o"];
    let finished = Tripmeter::new(words.iter().chain(&sizes).chain(&[results.display().to_string().as_str()])).run();
    finished.with(exit::GOOD).says(&["the follower did not end by itself", "was killed"]).clean();
    assert_eq!(manifest(&results).status, RunStatus::Complete);
}

#[test]
fn noise_on_standard_output_stays_out_of_ours() {
    let _alone = alone();
    let folder = folder();
    let plugin = plugin("trouble").display().to_string();
    for place in ["probe", "open", "link", "connect", "publish", "take", "close"] {
        let output = folder.path().join(place).display().to_string();
        let transport = format!("trouble?mode={place}-noise");
        let words = ["ping", "-q", "--json", "--plugin", &plugin, &transport, "-n", "10", "--payloads", "64k"];
        let finished = Tripmeter::new(words.iter().chain(&["--no-floor", "-o", &output])).run().with(exit::GOOD);
        let manifest: Manifest = serde_json::from_str(&finished.stdout).expect("nothing but JSON");
        assert_eq!(manifest.status, RunStatus::Complete);
        assert!(finished.stderr.is_empty(), "{}", finished.stderr);
        assert!(folder.path().join(place).join("logs").exists(), "noise in {place} is kept in a log");
        finished.clean();
    }
    let listed = Tripmeter::new(["list", "--json", "--plugin", &plugin, "trouble"]).run().with(exit::GOOD);
    assert!(serde_json::from_str::<serde_json::Value>(&listed.stdout).is_ok());
}

//! Pattern `log` on the running program: injected faults show up in exactly the right number, lies are found out, and
//! impossible requests are refused.

use crate::common::figures::{count, times};
use crate::common::samples::sample_rows;
use crate::common::{Finished, Tripmeter, alone, at_once, built, folder, manifest, plugin, say};
use std::path::Path;
use std::process::Command;
use tripmeter_model::exit;
use tripmeter_model::figure::Figure;
use tripmeter_model::manifest::{Counts, Manifest, PayloadResult, RunStatus, SubExperimentResult, Verdict};
use tripmeter_model::plan::SubExperiment;

const SAMPLES: u64 = 300;
const WARMUP: u64 = 30;
const ALL: Counts = Counts { sent: 330, received: 330, lost: 0, late: 0, duplicated: 0, reordered: 0, damaged: 0 };

fn run(transport: &str, more: &[&str], results: &Path) -> Finished {
    let (output, samples, warmup) = (results.display().to_string(), SAMPLES.to_string(), WARMUP.to_string());
    let words = ["log", "-q", "--wide", transport, "-n", &samples, "--warmup", &warmup, "-o", &output];
    // Faults are injected into the first attempt only.
    Tripmeter::new(words.iter().chain(&["--attempts", "1"]).chain(more)).run()
}

/// The only cell of a logger with that fault, and its calls in microseconds.
fn cell(transport: &str) -> (PayloadResult, Vec<f64>) {
    let folder = folder();
    run(transport, &["--payloads", "64", "--allow-damage"], folder.path()).with(exit::GOOD).clean();
    let manifest = manifest(folder.path());
    let result = &manifest.sub_experiments[0];
    let rows = sample_rows(folder.path(), &result.name);
    let calls = rows.iter().map(|row| (row.answered_ns.unwrap() - row.sent_ns.unwrap()) as f64 / 1000.0).collect();
    (result.cells[0].clone(), calls)
}

#[test]
fn a_stall_shows_in_the_maximum_and_in_exactly_one_call() {
    let _alone = alone();
    // Longer than stalls on a busy machine.
    let (cell, calls) = cell("inmem/log?stall_sender=180:5s");
    let stalled: Vec<usize> = (0..calls.len()).filter(|index| calls[*index] >= 5_000_000.0).collect();
    // Call 180 is the 150th after the warm-up.
    assert_eq!((calls.len(), &stalled[..]), (SAMPLES as usize, &[149][..]));
    let call = times(&cell.trials[0], Figure::Call).unwrap();
    assert!(call.max >= 5e9 && call.p99 < 5e9, "{call:?}");
    assert!((call.max / 1000.0 - calls[149]).abs() < 0.001, "{call:?}");
    assert_eq!(cell.counts(), ALL);
}

#[test]
fn lines_that_go_astray_are_counted_exactly() {
    let _alone = alone();
    let cases = [
        ("lose=200", Counts { received: 329, lost: 1, ..ALL }, 329),
        ("lose=330", Counts { received: 329, lost: 1, ..ALL }, 329),
        ("damage=7", Counts { received: 329, lost: 1, damaged: 1, ..ALL }, 330),
        ("damage_body=7", Counts { received: 329, damaged: 1, ..ALL }, 330),
        ("duplicate=every:100", Counts { duplicated: 3, ..ALL }, 333),
        ("reorder=50", Counts { reordered: 1, ..ALL }, 330),
    ];
    at_once(&cases, |(fault, counts, written)| {
        // The preceding path proof logs other lines.
        let (cell, calls) = cell(&format!("inmem/log?{fault}"));
        assert_eq!(cell.counts(), *counts, "{fault}");
        assert_eq!((count(&cell.trials[0], Figure::LinesWritten), calls.len()), (*written, 300), "{fault}");
    });
}

#[test]
fn the_floor_writes_to_a_file_and_a_pipe_and_its_table_is_aimrt_s() {
    let _alone = alone();
    let folder = folder();
    let finished = run("write/*", &["--payloads", "32,8k"], folder.path()).with(exit::GOOD);
    let manifest = manifest(folder.path());
    for (result, path) in manifest.sub_experiments.iter().zip(["file", "pipe"]) {
        let proof = result.path_proof.as_ref().unwrap();
        assert_eq!((proof.verdict, proof.claim.as_str()), (Verdict::Proven, path), "{}", proof.evidence);
        assert!(result.cells.iter().all(|cell| cell.counts() == ALL), "{result:?}");
        let calls: Vec<u64> = result.cells.iter().map(|cell| cell.samples).collect();
        assert_eq!(calls, [300, 300]);
    }
    let words = ["show".as_ref(), folder.path().as_os_str(), "--tables".as_ref(), "aimrt,all".as_ref()];
    let text = Tripmeter::new(words).run().with(exit::GOOD).stdout;
    assert!(text.ends_with(&finished.stdout), "{text}");
    for part in [
        "write/file, path proof: ok\n",
        "write/pipe, path proof: ok\n",
        "| epoch num | log data size (bytes) |",
        "| 300 | 32 | ",
        "pattern log",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    finished.clean();
}

#[test]
fn every_lie_is_found_out_and_no_honest_word_is_doubted() {
    let _alone = alone();
    let (folder, plugin) = (folder(), plugin("logliar").display().to_string());
    let finished = run("logliar/*", &["--plugin", &plugin, "--payloads", "1k"], folder.path()).with(exit::PARTIAL);
    let manifest: Manifest = manifest(folder.path());
    let mut variants = 0;
    let results = manifest.sub_experiments.iter().zip(&manifest.plan.sub_experiments);
    for (result, plan) in results {
        let (result, plan): (&SubExperimentResult, &SubExperiment) = (result, plan);
        let variant = &plan.transport.variant;
        assert_eq!(result.status, RunStatus::Complete, "{variant}: {:?}", result.error);
        let proof = result.path_proof.as_ref().unwrap();
        let expected = if variant.starts_with("honest") { Verdict::Proven } else { Verdict::Failed };
        assert_eq!(proof.verdict, expected, "{variant}: {}", proof.evidence);
        let is_told = finished.unwrapped().contains(&format!("PATH PROOF FAILED: {} ", result.name));
        assert_eq!(is_told, expected == Verdict::Failed, "{variant}: {}", finished.stdout);
        variants += 1;
    }
    assert_eq!(variants, 7);
    finished.clean();
}

#[test]
fn what_a_logger_cannot_do_is_refused_before_anything_starts() {
    let folder = folder();
    let results = folder.path().join("results");
    let output = results.display().to_string();
    let refused = |words: &[&str], parts: &[&str]| {
        let run = ["ping", "-n", "10", "-o", &output];
        Tripmeter::new(run.iter().chain(words)).run().with(exit::USAGE).one_line(parts).clean();
        assert!(!results.exists(), "{words:?}: something was started");
    };
    let log = |more: &[&'static str]| [&["--pattern", "log", "write"], more].concat();
    refused(&["write"], &["'write'", "cannot carry pattern 'ping', only log"]);
    refused(&["uds", "--pattern", "log"], &["'uds'", "cannot carry pattern 'log', only ping"]);
    refused(&["write/fil", "--pattern", "log"], &["no variant 'fil'", "file, pipe"]);
    refused(&["write?queue=1", "--pattern", "log"], &["no setting 'queue'"]);
    refused(&log(&["--touch", "full"]), &["touch", "'log'", "leave it out"]);
    refused(&log(&["--wait", "poll"]), &["cannot wait by 'poll', only by block"]);
    refused(&log(&["--payloads", "8"]), &["8", "16"]);
}

#[test]
fn lines_that_find_no_room_are_refused_with_need_and_remedy() {
    let folder = folder();
    let results = folder.path().join("results").display().to_string();
    let words = ["log", "write", "--payloads", "8k", "-o", &results];
    let limited = Tripmeter::under(&["prlimit", "--fsize=1000000"], words).run().with(exit::CANNOT_CREATE);
    limited.one_line(&["'write'", "841 MB", "1000000 bytes", "ulimit -f"]).clean();
    let small = folder.path().join("small");
    std::fs::create_dir(&small).unwrap();
    let script = format!("mount -t tmpfs -o size=2000000 none '{}' && exec \"$@\"", small.display());
    let wrapper = ["unshare", "-m", "sh", "-c", &script, "sh"];
    if !Command::new(wrapper[0]).args(&wrapper[1..]).arg("true").output().unwrap().status.success() {
        return say("SKIPPED: a small file system cannot be mounted here (needs root)");
    }
    let full = Tripmeter::under(&wrapper, words).temporary(&small).run().with(exit::CANNOT_CREATE);
    full.one_line(&["'write'", "841 MB", "small", "TMPDIR"]);
    assert!(!Path::new(&results).exists());
}

#[test]
fn an_asynchronous_logger_that_drops_lines_shows_them() {
    let _alone = alone();
    for (system, keeps, drops) in [
        ("spdlog", "async-pipe?queue=2", "async-pipe?queue=2&overflow=overrun_oldest"),
        ("tracing", "non-blocking-pipe?buffered_lines=2&lossy=off", "non-blocking-pipe?buffered_lines=2"),
    ] {
        if built(system).is_none() {
            continue;
        }
        let lost = |settings: &str, samples: &str| {
            let folder = folder();
            let more = ["--payloads", "8k", "-n", samples];
            let results = folder.path().display().to_string();
            let transport = format!("{system}/{settings}");
            let words = ["log", "-q", "--wide", &transport, "-o", &results];
            let finished = Tripmeter::new(words.iter().chain(&more)).run().with(exit::GOOD);
            let counts = manifest(folder.path()).sub_experiments[0].cells[0].counts();
            assert_eq!(counts.received + counts.lost, counts.sent, "{counts:?}");
            assert!(finished.unwrapped().contains("missing"), "{}", finished.stdout);
            finished.clean();
            counts.lost
        };
        assert_eq!(lost(keeps, "500"), 0, "{system}");
        assert!(lost(drops, "20000") > 0, "{system}");
    }
}

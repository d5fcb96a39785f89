//! Measurement truth, end to end: faults injected into `inmem` come out of the program in exactly those numbers.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Tripmeter, alone, folder, manifest};
use tripmeter_model::exit;
use tripmeter_model::manifest::{Cell, Counts};

const SAMPLES: u64 = 100;
const WARMUP: u64 = 10;
const PAYLOAD: u64 = 1024;
/// Numbers of the messages that the proof of the path takes first: 256 KiB each way.
const PROOF: u64 = 256 * 1024 / PAYLOAD;
/// Number of a message in the middle of the cell.
const HIT: u64 = PROOF + WARMUP + 40;

/// The one cell of a run with these settings, which is good whatever was lost; and the table's row.
fn measured(settings: &str, wait: &str, loss_timeout_s: &str) -> (Cell, String) {
    let folder = folder();
    let (transport, output) = (format!("inmem?{settings}"), folder.path().display().to_string());
    let (samples, payload) = (SAMPLES.to_string(), PAYLOAD.to_string());
    let words = ["run", "-q", "-t", &transport, "--wait", wait, "--loss-timeout", loss_timeout_s, "-n", &samples];
    let rest = ["--payloads", &payload, "--touch", "full", "--no-floor", "-o", &output];
    let finished = Tripmeter::new(words.iter().chain(&rest)).run().with(exit::GOOD).clean();
    assert!(finished.stderr.is_empty(), "{}", finished.stderr);
    let row = finished.stdout.lines().find(|line| line.starts_with("inmem/queue")).unwrap().to_owned();
    let manifest = manifest(folder.path());
    (manifest.sub_experiments[0].cells[0].clone(), row)
}

/// All samples are there, and these are the counts besides sent and received.
#[track_caller]
fn check(settings: &str, wait: &str, expected: Counts) -> String {
    let (cell, row) = measured(settings, wait, "1");
    let unanswered = expected.lost + expected.late + expected.damaged;
    let received = SAMPLES + WARMUP;
    let expected = Counts { sent: received + unanswered, received, ..expected };
    assert_eq!((cell.counts, cell.samples), (expected, SAMPLES), "{settings}, {wait}");
    row
}

const WAITS: [&str; 3] = ["poll", "block", "callback"];

#[test]
fn lost_messages_are_counted_and_are_no_failure() {
    let _alone = alone();
    for (wait, side) in WAITS.into_iter().zip(["leader", "follower", "leader"]) {
        let lost = format!("side={side}&lose={HIT},{},{}", HIT + 3, HIT + 17);
        let row = check(&lost, wait, Counts { lost: 3, ..Counts::default() });
        assert!(row.split_whitespace().any(|word| word == "3"), "{row}");
    }
}

#[test]
fn duplicates_are_counted() {
    let _alone = alone();
    for (wait, side) in WAITS.into_iter().zip(["leader", "follower", "follower"]) {
        let twice = format!("side={side}&duplicate={HIT},{},{}", HIT + 1, PROOF + WARMUP + SAMPLES);
        check(&twice, wait, Counts { duplicated: 3, ..Counts::default() });
    }
}

#[test]
fn overtaken_messages_are_counted_as_reordered_and_late() {
    let _alone = alone();
    for wait in WAITS {
        check(&format!("reorder={HIT}"), wait, Counts { late: 1, reordered: 1, ..Counts::default() });
    }
}

#[test]
fn damage_to_header_and_payload_is_counted() {
    let _alone = alone();
    for (wait, side) in WAITS.into_iter().zip(["leader", "follower", "leader"]) {
        let damaged = format!("side={side}&damage={HIT}&damage_body={},{}", HIT + 5, PROOF + 1);
        check(&damaged, wait, Counts { damaged: 3, ..Counts::default() });
    }
}

#[test]
fn a_stall_is_in_the_samples_and_one_beyond_the_time_out_is_late() {
    let _alone = alone();
    for wait in WAITS {
        let (cell, _) = measured(&format!("stall={HIT}:250ms"), wait, "10");
        let all = SAMPLES + WARMUP;
        assert_eq!(cell.counts, Counts { sent: all, received: all, ..Counts::default() }, "{wait}");
        let rtt = cell.rtt_ns.unwrap();
        assert!(rtt.max >= 250e6 && rtt.mean * SAMPLES as f64 >= 250e6, "{wait}: {rtt:?}");
        check(&format!("stall={HIT}:1300ms"), wait, Counts { late: 1, ..Counts::default() });
    }
}

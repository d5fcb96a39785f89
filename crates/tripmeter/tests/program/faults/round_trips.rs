//! Round trips in a closed loop.

use super::{HIT, LATE_MS, LOSS_TIMEOUT_S, PAYLOAD, PROOF, SAMPLES, WAITS, WARMUP, check_end};
use crate::common::figures::{count, times};
use crate::common::{Tripmeter, alone, at_once, folder, manifest};
use tripmeter_model::exit;
use tripmeter_model::figure::Figure;
use tripmeter_model::manifest::{Counts, PayloadResult};

/// The only cell of a run, which is good whatever was lost, and its row of the table.
fn measured(settings: &str, wait: &str, loss_timeout_s: u64) -> (PayloadResult, String) {
    let (folder, loss_timeout_s) = (folder(), loss_timeout_s.to_string());
    let (transport, output) = (format!("inmem?{settings}"), folder.path().display().to_string());
    let (samples, payload) = (SAMPLES.to_string(), PAYLOAD.to_string());
    let words = [
        "ping",
        "-q",
        "--wide",
        &transport,
        "--wait",
        wait,
        "--loss-timeout",
        &loss_timeout_s,
        "--attempts",
        "1",
        "-n",
        &samples,
    ];
    let rest = ["--payloads", &payload, "--touch", "full", "--no-floor", "-o", &output];
    let finished = Tripmeter::new(words.iter().chain(&rest)).run();
    let finished = check_end(finished, &transport);
    let row = finished.stdout.lines().find(|line| line.starts_with("inmem/queue")).unwrap().to_owned();
    let manifest = manifest(folder.path());
    (manifest.sub_experiments[0].cells[0].clone(), row)
}

/// Checks that all samples exist, and the counts other than sent and received.
#[track_caller]
fn check(settings: &str, wait: &str, expected: Counts) -> String {
    let (cell, row) = measured(settings, wait, LOSS_TIMEOUT_S);
    let unanswered = expected.lost + expected.late + expected.damaged;
    let received = SAMPLES + WARMUP;
    let expected = Counts { sent: received + unanswered, received, ..expected };
    assert_eq!((cell.counts(), cell.samples), (expected, SAMPLES), "{settings}, {wait}");
    row
}

/// A lost message takes no times from others: messages are matched by number.
#[test]
fn messages_that_were_answered_have_a_latency_one_way_whatever_was_lost() {
    let _alone = alone();
    // A side that polls uses a whole CPU while nothing arrives.
    let cases =
        [("poll", vec![HIT]), ("block", vec![PROOF + 5, HIT - 20, HIT]), ("callback", vec![PROOF + 5, HIT - 20, HIT])];
    at_once(&cases, |(wait, lost)| {
        let folder = folder();
        let lost_numbers = lost.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        let (transport, output) = (format!("inmem?lose={lost_numbers}"), folder.path().display().to_string());
        let timeout = LOSS_TIMEOUT_S.to_string();
        let words = ["ping", "-q", "--wide", "--one-way", "--no-floor", &transport, "--wait", wait, "-n", "100"];
        let rest = ["--warmup", "10", "--payloads", "1k", "--loss-timeout", &timeout, "--attempts", "1", "-o", &output];
        Tripmeter::new(words.iter().chain(&rest)).run().with(exit::GOOD).clean();
        let trial = &manifest(folder.path()).sub_experiments[0].cells[0].trials[0];
        let [half, one_way] = [Figure::RttHalf, Figure::OneWay].map(|of| times(trial, of).unwrap());
        let counts = [Figure::Lost, Figure::OneWayMissing].map(|of| count(trial, of));
        assert_eq!((half.samples, counts), (SAMPLES, [lost.len() as u64, 0]));
        let is_within = one_way.max <= 2.0 * half.max && one_way.mean < 2.0 * half.mean;
        assert!(is_within, "{wait}: {one_way:?} is not within twice {half:?}");
    });
}

#[test]
fn lost_messages_are_counted_and_are_no_failure() {
    let _alone = alone();
    let two = format!("{HIT},{}", HIT + 17);
    let cases =
        [("poll", "leader", 1, HIT.to_string()), ("block", "follower", 2, two.clone()), ("callback", "leader", 2, two)];
    at_once(&cases, |(wait, side, lost, numbers)| {
        let row = check(&format!("side={side}&lose={numbers}"), wait, Counts { lost: *lost, ..Counts::default() });
        assert!(row.split_whitespace().any(|word| word == lost.to_string()), "{row}");
    });
}

#[test]
fn duplicates_are_counted() {
    let _alone = alone();
    at_once(&[("poll", "leader"), ("block", "follower"), ("callback", "follower")], |(wait, side)| {
        // After the last answer nobody waits long for a duplicate, but by then the duplicate of the one before has
        // arrived.
        let twice = format!("side={side}&duplicate={HIT},{},{}", HIT + 1, PROOF + WARMUP + SAMPLES - 1);
        check(&twice, wait, Counts { duplicated: 3, ..Counts::default() });
    });
}

#[test]
fn overtaken_messages_are_counted_as_reordered_and_late() {
    let _alone = alone();
    at_once(&WAITS, |wait| {
        check(&format!("reorder={HIT}"), wait, Counts { late: 1, reordered: 1, ..Counts::default() });
    });
}

#[test]
fn damage_to_header_and_payload_is_counted() {
    let _alone = alone();
    at_once(&[("poll", "leader"), ("block", "follower"), ("callback", "leader")], |(wait, side)| {
        let damaged = format!("side={side}&damage={HIT}&damage_body={},{}", HIT + 5, PROOF + 1);
        check(&damaged, wait, Counts { damaged: 3, ..Counts::default() });
    });
}

#[test]
fn a_stall_is_in_the_samples_and_one_beyond_the_time_out_is_late() {
    let _alone = alone();
    let cases: Vec<_> = WAITS.into_iter().flat_map(|wait| [(wait, false), (wait, true)]).collect();
    at_once(&cases, |(wait, is_late)| {
        if *is_late {
            check(&format!("stall={HIT}:{LATE_MS}ms"), wait, Counts { late: 1, ..Counts::default() });
            return;
        }
        let (cell, _) = measured(&format!("stall={HIT}:250ms"), wait, 20);
        let all = SAMPLES + WARMUP;
        assert_eq!(cell.counts(), Counts { sent: all, received: all, ..Counts::default() }, "{wait}");
        let half = times(&cell.trials[0], Figure::RttHalf).unwrap();
        assert!(2.0 * half.max >= 250e6 && 2.0 * half.mean * SAMPLES as f64 >= 250e6, "{wait}: {half:?}");
    });
}

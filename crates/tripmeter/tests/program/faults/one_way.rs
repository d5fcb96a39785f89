//! One-way messages at full speed.

use super::{LOSS_TIMEOUT_S, PAYLOAD, PROOF, SAMPLES, WAITS, check_end};
use crate::common::figures::{count, counts, value};
use crate::common::samples::{received_ns, sample_rows};
use crate::common::{Tripmeter, alone, at_once, folder, manifest};
use tripmeter_model::figure::Figure;
use tripmeter_model::manifest::Counts;
use tripmeter_model::samples::SampleRow;
use tripmeter_model::trial::Trial;

/// Number of a message in the middle of a one-way run, which has no warm-up, because a warm-up may also end by time.
const HIT_ONE_WAY: u64 = PROOF + 40;

/// The only trial of a one-way run, which is good whatever was lost, and its samples if messages are timed.
fn offered(settings: &str, wait: &str, one_way: bool) -> (Trial, Vec<SampleRow>) {
    let folder = folder();
    let (transport, output) = (format!("inmem?{settings}"), folder.path().display().to_string());
    let [samples, payload, timeout] = [SAMPLES, PAYLOAD, LOSS_TIMEOUT_S].map(|number| number.to_string());
    let words = ["throughput", "-q", "--wide", &transport, "--wait", wait, "--attempts", "1", "-n", &samples];
    let rest = ["--warmup", "0", "--payloads", &payload, "--touch", "full", "--no-floor", "-o", &output];
    let late = ["--loss-timeout", &timeout];
    let timed: &[&str] = if one_way { &["--one-way"] } else { &[] };
    let finished = Tripmeter::new(words.iter().chain(&rest).chain(&late).chain(timed)).run();
    check_end(finished, &transport);
    let manifest = manifest(folder.path());
    let result = &manifest.sub_experiments[0];
    let rows = if one_way { sample_rows(folder.path(), &result.name) } else { Vec::new() };
    (result.cells[0].trials[0].clone(), rows)
}

#[test]
fn one_way_messages_that_go_astray_are_counted_exactly() {
    let _alone = alone();
    let last = PROOF + SAMPLES;
    let cases = [
        ("poll", "side=leader".to_owned(), [0; 4]),
        ("poll", format!("lose={HIT_ONE_WAY},{},{last}", HIT_ONE_WAY + 17), [3, 0, 0, 0]),
        ("block", format!("lose={},{last}", last - 1), [2, 0, 0, 0]),
        ("callback", format!("lose={HIT_ONE_WAY},{last}&duplicate={}", HIT_ONE_WAY + 2), [2, 1, 0, 0]),
        ("block", format!("reorder={HIT_ONE_WAY}&duplicate={},{last}", HIT_ONE_WAY + 9), [0, 2, 1, 0]),
        ("callback", format!("damage={HIT_ONE_WAY}&damage_body={}", HIT_ONE_WAY + 5), [0, 0, 0, 2]),
    ];
    let cases: Vec<_> = cases.iter().flat_map(|case| [false, true].map(|one_way| (case, one_way))).collect();
    at_once(&cases, |((wait, settings, expected), one_way)| {
        let [lost, duplicated, reordered, damaged] = *expected;
        let (trial, rows) = offered(settings, wait, *one_way);
        let received = SAMPLES - lost - damaged;
        let expected = Counts { sent: SAMPLES, received, lost, late: 0, duplicated, reordered, damaged };
        assert_eq!(counts(&trial), expected, "{wait}, {settings}");
        if *one_way {
            let of = |status: &str| rows.iter().filter(|row| row.status == status).count() as u64;
            assert_eq!((of("ok"), of("lost")), (received, lost + damaged), "{wait}, {settings}: {rows:?}");
            let sequences = rows.iter().map(|row| row.sequence);
            assert!(sequences.eq(1..=SAMPLES), "{wait}, {settings}: {rows:?}");
            assert!(rows.iter().all(|row| (row.status == "ok") == (received_ns(row) > row.sent_ns)), "{rows:?}");
        }
    });
}

#[test]
fn a_stalled_follower_shows_as_a_lower_rate_and_not_as_loss() {
    let _alone = alone();
    at_once(&WAITS, |wait| {
        let (trial, _) = offered(&format!("stall={}:300ms", PROOF + SAMPLES - 3), wait, false);
        assert_eq!((count(&trial, Figure::Received), count(&trial, Figure::Lost)), (SAMPLES, 0), "{wait}");
        let [receiving_ns, received_hz] =
            [Figure::Subscription, Figure::ReceivedRate].map(|of| value(&trial, of).unwrap());
        assert!(receiving_ns >= 300e6, "{wait}: {trial:?}");
        let rate = SAMPLES as f64 * 1e9 / receiving_ns;
        assert!((received_hz / rate - 1.0).abs() < 1e-9, "{wait}: {trial:?}");
    });
}

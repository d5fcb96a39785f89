//! One-way messages at a fixed rate.

use super::{HIT, LATE_MS, LOSS_TIMEOUT_S, PAYLOAD, PROOF, Row, SAMPLES, WAITS, WARMUP, check_end, is_mean};
use crate::common::figures::{LatencyFigures, count, counts, times};
use crate::common::samples::{received_ns, sample_rows};
use crate::common::{Tripmeter, alone, at_once, folder, manifest};
use tripmeter_model::figure::Figure;
use tripmeter_model::trial::Trial;

const RATE_HZ: u64 = 1000;

/// The only trial of a run at a fixed rate, which is good whatever was lost, and the rows of its first topic.
fn published(settings: &str, wait: &str, topics: u64, loss_timeout_s: u64) -> (Trial, Vec<Row>) {
    let folder = folder();
    let (transport, output) = (format!("inmem?{settings}"), folder.path().display().to_string());
    let [samples, warmup, payload] = [SAMPLES, WARMUP, PAYLOAD].map(|number| number.to_string());
    let [rate, topics_asked, timeout] = [RATE_HZ, topics, loss_timeout_s].map(|number| number.to_string());
    let words = ["publish", "-q", "--wide", &transport, "--wait", wait, "--attempts", "1", "-n", &samples];
    let rest = ["--warmup", &warmup, "--payloads", &payload, "--touch", "full", "--no-floor", "-o", &output];
    let more = ["--rate", &rate, "--topics", &topics_asked, "--loss-timeout", &timeout];
    let finished = Tripmeter::new(words.iter().chain(&rest).chain(&more)).run();
    check_end(finished, &transport);
    let manifest = manifest(folder.path());
    let result = &manifest.sub_experiments[0];
    let all = sample_rows(folder.path(), &result.name);
    assert_eq!(all.len() as u64, SAMPLES * topics, "{all:?}");
    let of_first = all.iter().filter(|row| ["all", "topic=0"].contains(&row.stream.as_str()));
    let rows = of_first.enumerate().map(|(index, row)| {
        assert_eq!((row.payload_bytes, row.trial, row.sequence), (1024, 1, index as u64 + 1));
        let (intended_ns, actual_ns) = (row.intended_ns.unwrap(), row.sent_ns.unwrap());
        Row { status: row.status.clone(), intended_ns, actual_ns, received_ns: received_ns(row) }
    });
    let rows: Vec<Row> = rows.collect();
    assert!(rows.iter().all(|row| row.actual_ns >= row.intended_ns), "{rows:?}");
    (result.cells[0].trials[0].clone(), rows)
}

fn both_times(trial: &Trial) -> [LatencyFigures; 2] {
    [Figure::Response, Figure::Service].map(|of| times(trial, of).unwrap())
}

#[test]
fn messages_at_a_fixed_rate_that_go_astray_are_counted_exactly() {
    let _alone = alone();
    let last = PROOF + WARMUP + SAMPLES;
    let cases = [
        ("poll", "side=leader".to_owned(), 1, [0; 4]),
        ("poll", format!("lose={HIT},{},{last}", HIT + 17), 1, [3, 0, 0, 0]),
        ("block", format!("lose={HIT}&duplicate={},{last}", HIT + 2), 1, [1, 2, 0, 0]),
        ("callback", format!("reorder={HIT}&duplicate={}", HIT + 9), 1, [0, 1, 1, 0]),
        ("callback", format!("damage={HIT}&damage_body={}", HIT + 5), 1, [0, 0, 0, 2]),
        // Only on the first topic, which proves the path: the others never have so many messages.
        ("poll", format!("lose={HIT}&duplicate={}", HIT + 1), 3, [1, 1, 0, 0]),
        ("block", format!("lose={HIT}"), 3, [1, 0, 0, 0]),
    ];
    at_once(&cases, |(wait, settings, topics, expected)| {
        let [lost, duplicated, reordered, damaged] = *expected;
        let (trial, rows) = published(settings, wait, *topics, LOSS_TIMEOUT_S);
        let (counts, all) = (counts(&trial), SAMPLES * topics);
        let found = [counts.lost, counts.duplicated, counts.reordered, counts.damaged];
        assert_eq!(found, [lost, duplicated, reordered, damaged], "{wait}, {settings}");
        assert_eq!((counts.sent, counts.received), (all, all - lost - damaged), "{wait}, {settings}");
        let of = |status: &str| rows.iter().filter(|row| row.status == status).count() as u64;
        let came = rows.iter().filter(|row| row.received_ns.is_some()).count() as u64;
        let first = SAMPLES - lost - damaged;
        assert_eq!((of("duplicated"), of("reordered"), came), (duplicated, reordered, first), "{settings}");
        assert_eq!(of("lost") + of("damaged"), lost + damaged, "{settings}");
        let [response, service] = both_times(&trial);
        assert_eq!((response.samples, service.samples), (counts.received, counts.received), "{settings}");
        assert!(response.mean >= service.mean && service.min > 0.0, "{trial:?}");
    });
}

#[test]
fn a_stalled_sender_shows_in_the_response_of_all_that_waited_and_not_in_their_service() {
    let _alone = alone();
    const STALL_NS: u64 = 50_000_000;
    at_once(&WAITS, |wait| {
        let (trial, rows) = published(&format!("stall_sender={HIT}:50ms"), wait, 1, 20);
        let stalled = (HIT - PROOF - WARMUP) as usize - 1;
        let end_ns = rows[stalled].actual_ns + STALL_NS;
        let waited: Vec<&Row> = rows[stalled + 1..].iter().filter(|row| row.intended_ns < end_ns).collect();
        assert!((49..=SAMPLES as usize).contains(&waited.len()), "{wait}: {}", waited.len());
        for row in &waited {
            assert!(row.actual_ns >= end_ns && row.response_ns() >= end_ns - row.intended_ns, "{wait}: {row:?}");
        }
        let [response, service] = both_times(&trial);
        assert!(is_mean(response.mean, &rows, Row::response_ns), "{wait}: {response:?}, {rows:?}");
        assert!(is_mean(service.mean, &rows, Row::service_ns), "{wait}: {service:?}, {rows:?}");
        assert!(response.max >= (STALL_NS - 2_000_000) as f64 && count(&trial, Figure::Behind) >= 40, "{trial:?}");
        assert_eq!(counts(&trial).received, SAMPLES, "{wait}");
    });
}

#[test]
fn a_message_kept_back_shows_in_both_times_and_one_beyond_the_time_out_is_late() {
    let _alone = alone();
    at_once(&[("block", 50, 20), ("callback", LATE_MS, LOSS_TIMEOUT_S)], |(wait, stall_ms, timeout_s)| {
        let (trial, rows) = published(&format!("stall={HIT}:{stall_ms}ms"), wait, 1, *timeout_s);
        let stalled = &rows[(HIT - PROOF - WARMUP) as usize - 1];
        assert!(stalled.service_ns() >= stall_ms * 1_000_000, "{wait}: {stalled:?}");
        let late = rows.iter().filter(|row| row.service_ns() > timeout_s * 1_000_000_000).count() as u64;
        let counts = counts(&trial);
        assert_eq!((counts.late, counts.received), (late, SAMPLES - late), "{wait}");
        let is_late = *stall_ms > timeout_s * 1000;
        assert_eq!((late > 0, stalled.status == "late"), (is_late, is_late), "{wait}");
        assert_eq!(times(&trial, Figure::Service).unwrap().samples, counts.received, "{wait}");
    });
}

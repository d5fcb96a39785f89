//! Calls, and round trips at a rate.

use super::{HIT, LATE_MS, LOSS_TIMEOUT_S, PACED, PAYLOAD, PROOF, Row, SAMPLES, WAITS, WARMUP, is_mean};
use crate::common::figures::{count, counts, times, value};
use crate::common::samples::sample_rows;
use crate::common::{Tripmeter, alone, at_once, folder, manifest};
use tripmeter_model::exit;
use tripmeter_model::figure::Figure;
use tripmeter_model::manifest::Counts;
use tripmeter_model::trial::Trial;

const FIXED: [&str; 2] = ["--rate", "1000"];

/// Counts of `made` calls: timed-out calls count as lost, failed ones as damaged.
fn calls(made: u64, [timed_out, failed, late, duplicated]: [u64; 4]) -> Counts {
    let received = made - timed_out - failed;
    Counts { sent: made, received, lost: timed_out, damaged: failed, late, duplicated, reordered: 0 }
}

/// The only trial of a run of calls, which is good whatever happened to them, and the rows of its first client.
fn called(settings: &str, wait: &str, clients: u64, more: &[&str]) -> (Trial, Vec<Row>) {
    let clients_asked = clients.to_string();
    answered(settings, wait, clients, &[&["--pattern", "call", "--clients", &clients_asked], more].concat())
}

/// Trial and rows as by [`called`], for the flags in `more`.
fn answered(settings: &str, wait: &str, clients: u64, more: &[&str]) -> (Trial, Vec<Row>) {
    let folder = folder();
    let (transport, output) = (format!("inmem?{settings}"), folder.path().display().to_string());
    let [samples, warmup, payload, timeout] =
        [SAMPLES, WARMUP, PAYLOAD, LOSS_TIMEOUT_S].map(|number| number.to_string());
    let words = ["ping", "-q", "--wide", &transport, "--wait", wait, "--attempts", "1", "-n", &samples];
    let rest = ["--warmup", &warmup, "--payloads", &payload, "--touch", "full", "--no-floor", "-o", &output];
    let asked = ["--loss-timeout", &timeout, "--allow-damage"];
    let words = words.iter().chain(&rest).chain(&asked).chain(more);
    let finished = Tripmeter::new(words).run().with(exit::GOOD).clean();
    assert!(finished.stderr.is_empty(), "{}", finished.stderr);
    let manifest = manifest(folder.path());
    let result = &manifest.sub_experiments[0];
    let all = sample_rows(folder.path(), &result.name);
    let of_first = all.iter().filter(|row| ["all", "client=0"].contains(&row.stream.as_str()));
    let rows = of_first.map(|row| {
        let actual_ns = row.sent_ns.unwrap();
        let intended_ns = row.intended_ns.unwrap_or(actual_ns);
        Row { status: row.status.clone(), intended_ns, actual_ns, received_ns: row.answered_ns }
    });
    let rows: Vec<Row> = rows.collect();
    assert_eq!((rows.len() as u64, all.len() as u64), (SAMPLES, SAMPLES * clients), "{all:?}");
    let trial = result.cells[0].trials[0].clone();
    assert!(trial.is_of_calls(), "{trial:?}");
    (trial, rows)
}

#[test]
fn calls_that_do_not_succeed_are_counted_exactly_and_are_no_queries_per_second() {
    let _alone = alone();
    let cases = [
        ("poll", "side=leader".to_owned(), 1, false, [0; 4]),
        ("poll", format!("lose={HIT}"), 1, false, [1, 0, 0, 0]),
        ("block", format!("side=follower&lose={HIT},{}&duplicate={}", HIT + 17, HIT + 2), 1, true, [2, 0, 0, 1]),
        ("callback", format!("lose={HIT}&duplicate={}", HIT + 9), 1, false, [1, 0, 0, 1]),
        ("callback", format!("stall={HIT}:{LATE_MS}ms"), 1, true, [1, 0, 1, 0]),
        ("block", format!("stall={HIT}:{LATE_MS}ms"), 1, false, [1, 0, 1, 0]),
        ("callback", format!("damage={HIT}&damage_body={}", HIT + 5), 1, false, [0, 2, 0, 0]),
        ("block", format!("side=follower&damage={HIT}&lose={}", HIT + 5), 1, true, [1, 1, 0, 0]),
        // Only on the first client, which proves the path: the others never have so many messages.
        ("block", format!("lose={HIT}"), 3, false, [1, 0, 0, 0]),
        ("callback", format!("damage={HIT}&duplicate={}", HIT + 2), 3, true, [0, 1, 0, 1]),
    ];
    at_once(&cases, |(wait, settings, clients, fixed, expected)| {
        let ([timed_out, failed, ..], fixed) = (*expected, *fixed);
        let (trial, rows) = called(settings, wait, *clients, if fixed { &FIXED } else { &[] });
        let made = SAMPLES * clients;
        let succeeded = made - timed_out - failed;
        assert_eq!(counts(&trial), calls(made, *expected), "{wait}, {settings}");
        let of = |status: &str| rows.iter().filter(|row| row.status == status).count() as u64;
        assert_eq!((of("timed_out"), of("failed")), (timed_out, failed), "{wait}, {settings}: {rows:?}");
        assert_eq!(of("ok"), SAMPLES - timed_out - failed, "{wait}, {settings}");
        let [completed_hz, duration_ns] = [Figure::Completed, Figure::Duration].map(|of| value(&trial, of).unwrap());
        assert!((completed_hz * duration_ns / 1e9 - succeeded as f64).abs() < 1e-6, "{trial:?}");
        assert_eq!(times(&trial, Figure::ServiceRtt).unwrap().samples, succeeded, "{wait}, {settings}");
        let paced = [Figure::AchievedRate, Figure::Behind].map(|of| value(&trial, of).is_some());
        assert_eq!((paced, times(&trial, Figure::ResponseRtt).is_some()), ([fixed; 2], fixed), "{wait}, {settings}");
        assert!(duration_ns as u64 >= timed_out * LOSS_TIMEOUT_S * 1_000_000_000, "{trial:?}");
    });
}

#[test]
fn a_stalled_call_shows_in_the_response_of_all_that_waited_and_in_its_own_service_only() {
    let _alone = alone();
    const STALL_NS: u64 = 50_000_000;
    let cases: Vec<_> = WAITS.into_iter().flat_map(|wait| [(wait, true), (wait, false)]).collect();
    at_once(&cases, |(wait, is_call)| {
        let stall = format!("stall={HIT}:50ms");
        let (trial, rows) = if *is_call { called(&stall, wait, 1, &FIXED) } else { answered(&stall, wait, 1, &PACED) };
        let stalled = (HIT - PROOF - WARMUP) as usize - 1;
        assert!(rows[stalled].service_ns() >= STALL_NS, "{wait}: {:?}", rows[stalled]);
        let end_ns = rows[stalled].received_ns.unwrap();
        let waited: Vec<&Row> = rows[stalled + 1..].iter().filter(|row| row.intended_ns < end_ns).collect();
        assert!((49..=SAMPLES as usize).contains(&waited.len()), "{wait}: {}", waited.len());
        for row in &waited {
            assert!(row.actual_ns >= end_ns && row.response_ns() >= end_ns - row.intended_ns, "{wait}: {row:?}");
        }
        let spans = |row: &&Row| row.actual_ns < end_ns && row.received_ns >= Some(end_ns);
        assert_eq!(rows.iter().filter(spans).count(), 1, "{wait}: {rows:?}");
        let [response, service] = [Figure::ResponseRtt, Figure::ServiceRtt].map(|of| times(&trial, of).unwrap());
        assert!(is_mean(response.mean, &rows, Row::response_ns), "{wait}: {response:?}, {rows:?}");
        assert!(is_mean(service.mean, &rows, Row::service_ns), "{wait}: {service:?}, {rows:?}");
        assert!(response.max >= STALL_NS as f64 && count(&trial, Figure::Behind) >= 40, "{trial:?}");
        assert_eq!(counts(&trial).received, SAMPLES, "{wait}");
    });
}

#[test]
fn a_message_that_is_lost_is_counted_and_the_pace_goes_on_from_when_each_was_to_be_sent() {
    let _alone = alone();
    let cases = [
        ("poll", format!("lose={HIT}"), [1, 0, 0]),
        ("block", format!("side=follower&lose={HIT}&duplicate={}", HIT - 2), [1, 0, 1]),
        ("callback", format!("lose={HIT}&damage={}", HIT - 2), [1, 1, 0]),
    ];
    at_once(&cases, |(wait, settings, expected)| {
        let [timed_out, failed, duplicated] = *expected;
        let (trial, rows) = answered(settings, wait, 1, &PACED);
        assert_eq!(counts(&trial), calls(SAMPLES, [timed_out, failed, 0, duplicated]), "{wait}, {settings}");
        for (index, row) in (0..).zip(&rows) {
            assert!(row.intended_ns.abs_diff(index * 1_000_000) <= 1000, "{wait}: {index}, {row:?}");
        }
        let (before, after) = rows.split_at((HIT - PROOF - WARMUP) as usize);
        let lost = before.last().unwrap();
        assert_eq!((lost.status.as_str(), lost.received_ns), ("timed_out", None), "{wait}");
        let until_ns = lost.actual_ns + LOSS_TIMEOUT_S * 1_000_000_000;
        for row in after {
            assert!(row.actual_ns >= until_ns && row.response_ns() >= until_ns - row.intended_ns, "{wait}: {row:?}");
        }
        assert!(trial.rate_missed, "{trial:?}");
    });
}

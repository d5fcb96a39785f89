//! One-way latency where requested: of calls, of round trips at a rate, and with pattern `throughput`.

use crate::common::figures::{LatencyFigures, count, counts, times, value};
use crate::common::samples::{received_ns, sample_rows};
use crate::common::{Finished, Tripmeter, alone, at_once, folder, manifest};
use tempfile::TempDir;
use tripmeter_model::exit;
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::metric::Stream;
use tripmeter_model::pace::{Burst, OfferedLoad};
use tripmeter_model::trial::Trial;

const SAMPLES: u64 = 60;
const WARMUP: u64 = 5;
const CLIENTS: u64 = 2;
const PAYLOAD: u64 = 1024;
/// Number of messages of the preceding path proof; see `faults`.
const PROOF: u64 = 256 * 1024 / PAYLOAD;
/// Number of a message in the middle of a trial.
const HIT: u64 = PROOF + WARMUP + 30;
const STALL_NS: u64 = 50_000_000;
/// Maximum number of timed messages of a stream.
const MOST_TIMED: u64 = 1 << 18;

/// Callbacks within one process; the conformance suite covers them between two.
const WAYS: [(&str, &str); 7] = [
    ("shm", "poll"),
    ("shm", "block"),
    ("uds", "poll"),
    ("uds", "block"),
    ("inmem", "poll"),
    ("inmem", "block"),
    ("inmem", "callback"),
];

const CLOSED: [&str; 4] = ["--pattern", "call", "--clients", "2"];
const PACED: [&str; 6] = ["--pattern", "call", "--clients", "2", "--rate", "500"];
const BURSTS: [&str; 8] = ["--pattern", "call", "--clients", "2", "--demand", "4", "--recovery", "8"];
const TRIPS: [&str; 2] = ["--rate", "500"];

fn run(transport: &str, wait: &str, words: &[&str]) -> (TempDir, Finished) {
    let folder = folder();
    let output = folder.path().display().to_string();
    let [samples, warmup, payload] = [SAMPLES, WARMUP, PAYLOAD].map(|number| number.to_string());
    let fixed = ["ping", "-q", "--wide", "--no-floor", transport, "--wait", wait, "--attempts", "1", "-o", &output];
    let sizes = ["-n", &samples, "--warmup", &warmup, "--payloads", &payload, "--touch", "full", "--allow-damage"];
    let finished = Tripmeter::new(fixed.iter().chain(&sizes).chain(words)).run().with(exit::GOOD).clean();
    (folder, finished)
}

/// A sample row with the arrival of the request.
#[derive(Debug)]
struct Row {
    status: String,
    sent_ns: u64,
    request_ns: Option<u64>,
    answered_ns: Option<u64>,
}

impl Row {
    fn one_way_ns(&self) -> u64 {
        self.request_ns.unwrap() - self.sent_ns
    }

    fn back_ns(&self) -> u64 {
        self.answered_ns.unwrap() - self.request_ns.unwrap()
    }
}

fn called(transport: &str, wait: &str, words: &[&str]) -> (Trial, Vec<Row>, String) {
    let (folder, finished) = run(transport, wait, words);
    let manifest = manifest(folder.path());
    let result = &manifest.sub_experiments[0];
    let rows = sample_rows(folder.path(), &result.name).into_iter().map(|row| Row {
        status: row.status.clone(),
        sent_ns: row.sent_ns.unwrap(),
        answered_ns: row.answered_ns,
        request_ns: received_ns(&row),
    });
    let is_timed = words.contains(&"--one-way");
    let histograms = std::fs::read_to_string(folder.path().join(format!("histograms/{}.hlog", result.name))).unwrap();
    assert_eq!(histograms.contains("\nTag=one_way_1024"), is_timed, "{histograms}");
    assert_eq!(finished.stdout.contains(" one_way "), is_timed, "{}", finished.stdout);
    (result.cells[0].trials[0].clone(), rows.collect(), finished.stdout)
}

fn both_times(trial: &Trial) -> [LatencyFigures; 2] {
    [Figure::OneWay, Figure::ServiceRtt].map(|of| times(trial, of).unwrap())
}

fn has_intervals(trial: &Trial) -> bool {
    trial.get(&Stream::all(), Figure::OneWay, Statistic::P50).unwrap().within.is_some()
}

/// Checks figures against the successful rows, rounded to nanoseconds, and that requests precede answers.
#[track_caller]
fn check_calls(trial: &Trial, rows: &[Row], place: &str) {
    let ([one_way, service], succeeded) = (both_times(trial), counts(trial).received);
    let good: Vec<&Row> = rows.iter().filter(|row| row.status == "ok").collect();
    assert_eq!((one_way.samples, count(trial, Figure::OneWayMissing)), (succeeded, 0), "{place}");
    assert_eq!(good.len() as u64, succeeded, "{place}");
    for row in &good {
        assert!(Some(row.sent_ns) <= row.request_ns && row.request_ns <= row.answered_ns, "{place}: {row:?}");
    }
    let mean = good.iter().map(|row| row.one_way_ns()).sum::<u64>() as f64 / good.len() as f64;
    assert!((one_way.mean - mean).abs() <= 2.0, "{place}: {one_way:?}, {mean}");
    assert!(one_way.is_rising(), "{place}: {one_way:?}");
    let within = one_way.min <= service.min && one_way.mean < service.mean && one_way.max <= service.max;
    assert!(within, "{place}: {one_way:?} is not within {service:?}");
}

#[test]
fn requests_of_calls_are_timed_one_way_by_every_wait() {
    let _alone = alone();
    let kinds: [&[&str]; 3] = [&CLOSED, &PACED, &TRIPS];
    let cases: Vec<_> = WAYS.into_iter().flat_map(|way| kinds.map(|kind| (way, kind))).collect();
    for ((transport, wait), kind) in cases {
        let place = format!("{transport}, {wait}, {kind:?}");
        let (trial, rows, _) = called(transport, wait, &[kind, &["--one-way"]].concat());
        let made = if kind == TRIPS { SAMPLES } else { SAMPLES * CLIENTS };
        assert_eq!((counts(&trial).received, rows.len() as u64), (made, made), "{place}");
        check_calls(&trial, &rows, &place);
        assert!(has_intervals(&trial), "{place}");
    }
}

#[test]
fn requests_of_calls_in_bursts_are_timed_one_way() {
    let _alone = alone();
    let (trial, rows, _) = called("uds", "block", &[&BURSTS[..], &["--one-way"]].concat());
    let burst = OfferedLoad::Burst(Burst { size: 4, gap_ns: 8_000_000 });
    assert_eq!((trial.load, counts(&trial).received), (burst, SAMPLES * CLIENTS));
    assert_eq!(rows.len() as u64, counts(&trial).sent);
    check_calls(&trial, &rows, "bursts");
}

#[test]
fn calls_have_no_latency_one_way_unless_it_is_asked_for_and_need_no_samples_for_it() {
    let _alone = alone();
    let (trial, rows, _) = called("uds", "block", &CLOSED);
    let one_way = (times(&trial, Figure::OneWay).is_some(), value(&trial, Figure::OneWayMissing));
    assert_eq!(one_way, (false, None));
    assert!(rows.iter().all(|row| row.request_ns.is_none()));
    let (folder, _) = run("uds", "block", &[&CLOSED[..], &["--one-way", "--raw", "none"]].concat());
    let trial = manifest(folder.path()).sub_experiments[0].cells[0].trials[0].clone();
    let [one_way, service] = both_times(&trial);
    assert_eq!((one_way.samples, has_intervals(&trial)), (SAMPLES * CLIENTS, false));
    assert!(one_way.min <= service.min && one_way.mean < service.mean && one_way.max <= service.max, "{trial:?}");
}

#[test]
fn what_happens_to_one_call_leaves_the_latencies_one_way_of_all_others_right() {
    let _alone = alone();
    let cases = [
        ("poll", format!("lose={HIT}"), 1, false),
        ("block", format!("side=follower&lose={HIT},{}", HIT + 7), 2, true),
        ("callback", format!("lose={HIT}&duplicate={}", HIT + 3), 1, false),
        ("block", format!("damage={HIT}&damage_body={}", HIT + 5), 2, false),
        ("callback", format!("side=follower&damage={HIT}&duplicate={}", HIT + 3), 1, true),
    ];
    at_once(&cases, |(wait, settings, unanswered, is_answer)| {
        let words = [&CLOSED[..], &["--one-way", "--loss-timeout", "6"]].concat();
        let (trial, rows, _) = called(&format!("inmem?{settings}"), wait, &words);
        let place = format!("{wait}, {settings}");
        assert_eq!(counts(&trial).sent - counts(&trial).received, *unanswered, "{place}");
        check_calls(&trial, &rows, &place);
        // The arrival of a request is known even if its answer did not come.
        let bad: Vec<&Row> = rows.iter().filter(|row| row.status != "ok").collect();
        assert_eq!(bad.len() as u64, *unanswered, "{place}");
        assert!(!is_answer || bad.iter().all(|row| row.request_ns.is_some()), "{place}: {bad:?}");
    });
}

#[test]
fn a_stall_shows_in_the_direction_that_has_it() {
    let _alone = alone();
    let stalled = (HIT - PROOF - WARMUP) as usize - 1;
    let cases: Vec<_> =
        ["poll", "block", "callback"].into_iter().flat_map(|wait| [(wait, true), (wait, false)]).collect();
    at_once(&cases, |(wait, is_request)| {
        let side = if *is_request { "leader" } else { "follower" };
        let words = ["--pattern", "call", "--one-way", "--loss-timeout", "20"];
        let (trial, rows, _) = called(&format!("inmem?side={side}&stall={HIT}:50ms"), wait, &words);
        check_calls(&trial, &rows, &format!("{wait}, {side}"));
        let row = &rows[stalled];
        let way_ns = if *is_request { row.one_way_ns() } else { row.back_ns() };
        let [one_way, service] = both_times(&trial);
        assert!(way_ns >= STALL_NS && (one_way.max >= STALL_NS as f64 || !is_request), "{row:?}");
        // Every other call takes the sum of its two directions, which include no stall.
        let sum = rows.iter().map(|row| row.one_way_ns() + row.back_ns()).sum::<u64>() as f64;
        assert!((service.mean * rows.len() as f64 - sum).abs() <= 2.0 * rows.len() as f64, "{wait}: {service:?}");
    });
}

#[test]
fn a_delay_of_every_request_is_in_every_latency_one_way_and_one_of_every_answer_in_none() {
    const DELAY_NS: u64 = 3_000_000;
    let _alone = alone();
    let delayed = |side: &str| {
        let words = ["--pattern", "call", "--one-way", "--loss-timeout", "20"];
        called(&format!("inmem?side={side}&delay=3ms"), "block", &words)
    };
    let (trial, rows, _) = delayed("leader");
    check_calls(&trial, &rows, "requests");
    assert!(both_times(&trial)[0].min >= DELAY_NS as f64, "{trial:?}");
    let (trial, rows, _) = delayed("follower");
    check_calls(&trial, &rows, "answers");
    assert!(rows.iter().all(|row| row.back_ns() >= DELAY_NS), "{rows:?}");
    let [one_way, service] = both_times(&trial);
    assert!(one_way.median < service.median - DELAY_NS as f64 / 2.0, "{trial:?}");
}

fn streamed(transport: &str, wait: &str, words: &[&str]) -> (Trial, String) {
    let (folder, finished) = run(transport, wait, &[&["--pattern", "throughput"], words].concat());
    (manifest(folder.path()).sub_experiments[0].cells[0].trials[0].clone(), finished.stdout)
}

/// Checks that every received message that counts has a latency.
#[track_caller]
fn check_stream(trial: &Trial, place: &str) {
    let (counts, timed) = (counts(trial), count(trial, Figure::OneWayTimed));
    let one_way = times(trial, Figure::OneWay).unwrap();
    // One message per block is timed; the last block may end before its sample.
    let every = counts.sent.div_ceil(MOST_TIMED).next_power_of_two();
    let whole = counts.sent / every..=counts.sent.div_ceil(every);
    assert!(whole.contains(&timed), "{place}: {timed} of {}", counts.sent);
    let all = if every == 1 { counts.received } else { one_way.samples.min(timed) };
    assert_eq!(one_way.samples, all, "{place}");
    assert!(counts.lost + counts.damaged > 0 || one_way.samples == timed, "{place}: {one_way:?}");
    let receiving_ns = value(trial, Figure::Subscription).unwrap();
    assert!(one_way.is_rising() && one_way.max <= receiving_ns, "{place}: {one_way:?}");
}

#[test]
fn messages_of_a_stream_are_timed_one_way_by_every_wait() {
    let _alone = alone();
    for (transport, wait) in WAYS {
        let place = format!("{transport}, {wait}");
        let (trial, table) = streamed(transport, wait, &["--one-way"]);
        let found = [Figure::Sent, Figure::Received, Figure::OneWayTimed].map(|of| count(&trial, of));
        assert_eq!(found, [SAMPLES; 3], "{place}");
        check_stream(&trial, &place);
        let is_noted = |table: &str| {
            table.split_whitespace().collect::<Vec<_>>().join(" ").contains("so rates include a clock reading")
        };
        assert!(table.contains("one_way") && is_noted(&table), "{table}");
        let (trial, table) = streamed(transport, wait, &["--rate", "2000"]);
        let none = value(&trial, Figure::OneWayTimed).is_none() && times(&trial, Figure::OneWay).is_none();
        assert!(none && !is_noted(&table), "{place}: {trial:?}");
    }
}

#[test]
fn a_stream_whose_end_is_a_time_is_timed_too_and_the_trial_that_a_search_finds() {
    let _alone = alone();
    let folder = folder();
    let output = folder.path().display().to_string();
    let fixed = ["ping", "-q", "--no-floor", "shm", "--wait", "poll", "--attempts", "1", "-o", &output];
    let words = ["--pattern", "throughput", "--one-way", "--payloads", "64", "--duration", "0.5", "--loss-bound", "0"];
    Tripmeter::new(fixed.iter().chain(&words)).run().with(exit::GOOD).clean();
    let trial = &manifest(folder.path()).sub_experiments[0].cells[0].trials[0];
    check_stream(trial, "search");
    assert!(!trial.steps.is_empty());
}

#[test]
fn what_happens_to_one_message_of_a_stream_leaves_the_latencies_of_all_others_right() {
    let _alone = alone();
    let last = PROOF + WARMUP + SAMPLES;
    let cases = [
        ("poll", format!("lose={HIT},{},{last}", HIT + 7), 3),
        ("block", format!("reorder={HIT}&duplicate={},{last}", HIT + 9), 0),
        ("callback", format!("damage={HIT}&damage_body={}", HIT + 5), 2),
    ];
    at_once(&cases, |(wait, settings, gone)| {
        let (trial, _) = streamed(&format!("inmem?{settings}"), wait, &["--one-way", "--loss-timeout", "6"]);
        let place = format!("{wait}, {settings}");
        assert_eq!(counts(&trial).received, SAMPLES - gone, "{place}");
        check_stream(&trial, &place);
    });
    at_once(&["poll", "block", "callback"], |wait| {
        let stall = format!("inmem?stall={}:300ms", last - 3);
        let (trial, _) = streamed(&stall, wait, &["--one-way", "--loss-timeout", "20", "--rate", "2000"]);
        check_stream(&trial, wait);
        let one_way = times(&trial, Figure::OneWay).unwrap();
        assert!(one_way.max >= 300e6 && one_way.min < one_way.max, "{wait}: {one_way:?}");
    });
}

/// Kernel time is either exact and part of each round's CPU time, or missing with the reason.
#[test]
fn kernel_time_is_exact_or_has_no_figure() {
    let _alone = alone();
    let place = folder();
    let words =
        ["publish", "uds", "--payloads", "1k", "--rate", "1000", "-n", "100", "--rounds", "4", "--wait", "block"];
    let usual = ["-q", "--no-report", "--no-floor", "-o", "r"];
    Tripmeter::new([&words[..], &usual].concat()).at(place.path()).run().with(0);
    let metrics = std::fs::read_to_string(place.path().join("r/metrics.csv")).unwrap();
    let count =
        |figure: &str| metrics.lines().filter(|line| line.contains(&format!(",process=leader,{figure},"))).count();
    assert_eq!(count("cpu_time_ns"), 4, "{metrics}");
    let shown = Tripmeter::new(["show", "r", "--wide"]).at(place.path()).run().with(0);
    let why = "the column kernel is empty: this kernel splits CPU time between user and kernel by timer ticks";
    assert_eq!(count("kernel_time_ns"), if shown.unwrapped().contains(why) { 0 } else { 4 }, "{shown:?}");
}

//! Measurement truth, end to end: faults injected into `inmem` come out of the program in exactly those numbers.

use crate::common::{Finished, Tripmeter, alone, at_once, folder, manifest};
use tripmeter_model::channel::ChannelTrial;
use tripmeter_model::exit;
use tripmeter_model::manifest::{Cell, Counts, Figures};
use tripmeter_model::rpc::{CallCounts, RpcTrial};
use tripmeter_model::throughput::Trial;

const SAMPLES: u64 = 100;
const WARMUP: u64 = 10;
const PAYLOAD: u64 = 1024;
/// Numbers of the messages that the proof of the path takes first: 256 KiB each way.
const PROOF: u64 = 256 * 1024 / PAYLOAD;
/// Number of a message in the middle of the cell.
const HIT: u64 = PROOF + WARMUP + 40;

/// Longer than a busy machine keeps a thread from a CPU: only what is injected is lost or late.
const LOSS_TIMEOUT_S: u64 = 6;
/// Longer than that by more than a thread is kept from a CPU.
const LATE_MS: u64 = 9000;

fn numbers(messages: std::ops::Range<u64>) -> String {
    messages.map(|number| number.to_string()).collect::<Vec<_>>().join(",")
}

/// A run of this transport ended as it should: damage is a failure, which is said.
#[track_caller]
fn check_end(finished: Finished, transport: &str) -> Finished {
    if transport.contains("damage") {
        return finished.with(exit::PARTIAL).says(&["came damaged", "--allow-damage"]).clean();
    }
    assert!(finished.stderr.is_empty(), "{}", finished.stderr);
    finished.with(exit::GOOD).clean()
}

/// The one cell of a run with these settings, which is good whatever was lost; and the table's row.
fn measured(settings: &str, wait: &str, loss_timeout_s: u64) -> (Cell, String) {
    let (folder, loss_timeout_s) = (folder(), loss_timeout_s.to_string());
    let (transport, output) = (format!("inmem?{settings}"), folder.path().display().to_string());
    let (samples, payload) = (SAMPLES.to_string(), PAYLOAD.to_string());
    let words = [
        "run",
        "-q",
        "--wide",
        "-t",
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

/// All samples are there, and these are the counts besides sent and received.
#[track_caller]
fn check(settings: &str, wait: &str, expected: Counts) -> String {
    let (cell, row) = measured(settings, wait, LOSS_TIMEOUT_S);
    let unanswered = expected.lost + expected.late + expected.damaged;
    let received = SAMPLES + WARMUP;
    let expected = Counts { sent: received + unanswered, received, ..expected };
    assert_eq!((cell.counts, cell.samples), (expected, SAMPLES), "{settings}, {wait}");
    row
}

const WAITS: [&str; 3] = ["poll", "block", "callback"];

/// The flags of a pattern, or of round trips at a rate.
fn pattern_words(pattern: &'static str) -> &'static [&'static str] {
    match pattern {
        "pingpong" => &["--pattern", "pingpong"],
        "rpc" => &["--pattern", "rpc"],
        _ => &PACED,
    }
}

/// Ten messages in a row without an answer end a sub-experiment; what was measured before is kept, to the last sample.
#[test]
fn a_payload_that_breaks_off_keeps_its_samples() {
    let _alone = alone();
    let (transport, payload) = (format!("inmem?lose={}", numbers(HIT..HIT + 10)), PAYLOAD.to_string());
    let cases: Vec<_> =
        WAITS.into_iter().flat_map(|wait| ["pingpong", "rpc", "paced"].map(|kind| (wait, kind))).collect();
    at_once(&cases, |(wait, pattern)| {
        let folder = folder();
        let output = folder.path().display().to_string();
        let words = ["run", "-q", "--wide", "--no-floor", "-t", &transport, "--wait", wait, "--loss-timeout", "0.5"];
        let rest = ["-n", "100", "--warmup", "10", "--payloads", &payload, "-o", &output];
        let words = words.iter().chain(&rest).chain(pattern_words(pattern));
        Tripmeter::new(words).run().with(exit::PARTIAL).says(&["no answer to 10 messages"]).clean();
        let manifest = manifest(folder.path());
        let [result] = &manifest.sub_experiments[..] else { panic!("one was asked for") };
        let [cell] = &result.cells[..] else { panic!("{pattern} {wait}: {result:?}") };
        let why = cell.cut_short.clone().unwrap();
        assert!(why.contains("no answer to 10 messages"), "{why}");
        let Counts { sent, received, lost, late, .. } = cell.counts;
        let (warmup, failed) = if *pattern == "pingpong" { (WARMUP, 0) } else { (0, lost + late) };
        // On a busy machine others are late, too, and those that are lost have higher numbers or are fewer.
        assert!(lost + late >= 10 && (late > 0 || lost == 10), "{pattern} {wait}: {:?}", cell.counts);
        assert_eq!((sent, cell.samples), (received + lost + late, received - warmup), "{pattern} {wait}");
        assert!((1..HIT - PROOF - WARMUP).contains(&cell.samples), "{pattern} {wait}: {:?}", cell.counts);
        let kind = if *pattern == "pingpong" { "measurements" } else { "rpc" };
        let text = std::fs::read_to_string(folder.path().join(format!("{kind}_{}.csv", result.name))).unwrap();
        // A header, and of calls those that failed, too.
        assert_eq!(text.lines().count() as u64, 1 + cell.samples + failed, "{pattern} {wait}");
    });
}

/// Nor does one go on for ever whose answers are never right.
#[test]
fn ten_damaged_messages_in_a_row_end_a_sub_experiment() {
    let _alone = alone();
    let cases: Vec<_> =
        WAITS.into_iter().flat_map(|wait| ["pingpong", "rpc", "paced"].map(|kind| (wait, kind))).collect();
    at_once(&cases, |(wait, pattern)| {
        let folder = folder();
        let output = folder.path().display().to_string();
        let transport = format!("inmem?side=leader&damage_body={}", numbers(HIT..HIT + 10));
        let words =
            ["run", "-q", "--wide", "--no-floor", "-t", &transport, "--wait", wait, "--touch", "full", "-n", "100"];
        let rest = ["--warmup", "10", "--payloads", "1k", "-o", &output];
        let words = words.iter().chain(&rest).chain(pattern_words(pattern));
        let finished = Tripmeter::new(words).run().with(exit::PARTIAL);
        finished.says(&["10 messages in a row came damaged"]).clean();
        let cells = &manifest(folder.path()).sub_experiments[0].cells;
        assert!(cells[0].samples > 0, "what was measured before is kept");
    });
}

/// What one message lacks is not taken from the others: they are joined by their numbers.
#[test]
fn messages_that_were_answered_have_a_latency_one_way_whatever_was_lost() {
    let _alone = alone();
    // Whoever polls takes a whole CPU as long as nothing comes.
    let cases =
        [("poll", vec![HIT]), ("block", vec![PROOF + 5, HIT - 20, HIT]), ("callback", vec![PROOF + 5, HIT - 20, HIT])];
    at_once(&cases, |(wait, lost)| {
        let folder = folder();
        let lost_numbers = lost.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        let (transport, output) = (format!("inmem?lose={lost_numbers}"), folder.path().display().to_string());
        let timeout = LOSS_TIMEOUT_S.to_string();
        let words = ["run", "-q", "--wide", "--one-way", "--no-floor", "-t", &transport, "--wait", wait, "-n", "100"];
        let rest = ["--warmup", "10", "--payloads", "1k", "--loss-timeout", &timeout, "--attempts", "1", "-o", &output];
        Tripmeter::new(words.iter().chain(&rest)).run().with(exit::GOOD).clean();
        let cell = &manifest(folder.path()).sub_experiments[0].cells[0];
        assert_eq!((cell.samples, cell.counts.lost, cell.one_way_missing), (SAMPLES, lost.len() as u64, 0));
        let (rtt, one_way) = (cell.rtt_ns.unwrap(), cell.one_way_ns.unwrap());
        assert!(one_way.max <= rtt.max && one_way.mean < rtt.mean, "{wait}: {one_way:?} is not within {rtt:?}");
    });
}

#[test]
fn damage_and_loss_of_everything_are_failures_unless_they_are_meant() {
    let _alone = alone();
    let everything = format!("lose={}", numbers(PROOF + 1..PROOF + 1 + SAMPLES));
    for (fault, pattern, warmup, allow) in [
        (format!("damage_body={}", PROOF + 30), "throughput", "0", "--allow-damage"),
        // Of the warm-up, which has no figures.
        (format!("damage_body={}", PROOF + 5), "throughput", "10", "--allow-damage"),
        (format!("damage_body={}", PROOF + 5), "channel", "10", "--allow-damage"),
        (everything.clone(), "throughput", "0", "--allow-loss"),
        (everything, "channel", "0", "--allow-loss"),
    ] {
        let run = |more: &[&str]| {
            let folder = folder();
            let (transport, output) = (format!("inmem?{fault}"), folder.path().display().to_string());
            let words = [
                "run",
                "-q",
                "--wide",
                "--no-floor",
                "-t",
                &transport,
                "--pattern",
                pattern,
                "--touch",
                "full",
                "-n",
                "100",
            ];
            // Of everything that is lost, the time-out is waited for.
            let timeout = if allow == "--allow-damage" { "15" } else { "0.2" };
            let rest =
                ["--warmup", warmup, "--payloads", "1k", "--loss-timeout", timeout, "--attempts", "1", "-o", &output];
            Tripmeter::new(words.iter().chain(&rest).chain(more)).run()
        };
        let failed = run(&[]).with(exit::PARTIAL).says(&[allow]).clean();
        let row = failed.stdout.lines().find(|line| line.starts_with("inmem/queue")).unwrap();
        assert!(row.contains('*'), "{row}");
        let header = failed.stdout.lines().find(|line| line.starts_with("transport")).unwrap();
        assert_eq!(header.contains("damaged"), allow == "--allow-damage", "{}", failed.stdout);
        run(&[allow]).with(exit::GOOD).clean();
    }
}

#[test]
fn damage_in_the_path_proof_is_a_failure_unless_it_is_meant() {
    let _alone = alone();
    let cases: Vec<_> = ["pingpong", "channel", "throughput", "rpc"]
        .into_iter()
        .flat_map(|pattern| ["leader", "follower"].map(|side| (pattern, side)))
        // One way, a follower sends nothing.
        .filter(|(pattern, side)| *side == "leader" || ["pingpong", "rpc"].contains(pattern))
        .collect();
    at_once(&cases, |(pattern, side)| {
        let transport = format!("inmem?side={side}&damage_body=10,30,50");
        let run = |more: &[&str]| {
            let folder = folder();
            let output = folder.path().display().to_string();
            let words = [
                "run",
                "-q",
                "--wide",
                "--no-floor",
                "-t",
                &transport,
                "--pattern",
                pattern,
                "--touch",
                "full",
                "-n",
                "100",
            ];
            let rest = ["--payloads", "1k", "--loss-timeout", "2", "--attempts", "1", "-o", &output];
            let finished = Tripmeter::new(words.iter().chain(&rest).chain(more)).run();
            let manifest = manifest(folder.path());
            let result = &manifest.sub_experiments[0];
            assert_eq!((result.path_proof.as_ref().unwrap().damaged, result.cells[0].damaged()), (3, 0), "{pattern}");
            finished
        };
        let failed = run(&[]).with(exit::PARTIAL).says(&["3 messages of its path proof came damaged"]).clean();
        let row = failed.stdout.lines().find(|line| line.starts_with("inmem/queue")).unwrap();
        assert!(row.ends_with("damaged") && failed.stdout.contains("DAMAGED: "), "{}", failed.stdout);
        run(&["--allow-damage"]).with(exit::GOOD).clean();
    });
}

#[test]
fn lost_messages_are_counted_and_are_no_failure() {
    let _alone = alone();
    let two = format!("{HIT},{}", HIT + 17);
    // Whoever polls takes a whole CPU as long as nothing comes.
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
        // After the last answer nobody waits long for a second one, but before it that of the last message but one has come.
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
        assert_eq!(cell.counts, Counts { sent: all, received: all, ..Counts::default() }, "{wait}");
        let rtt = cell.rtt_ns.unwrap();
        assert!(rtt.max >= 250e6 && rtt.mean * SAMPLES as f64 >= 250e6, "{wait}: {rtt:?}");
    });
}

/// Number of a message in the middle of a run one way, which has no warm-up: that ends after a time, too.
const HIT_ONE_WAY: u64 = PROOF + 40;

/// The one trial of a run one way, which is good whatever was lost, and its row of the CSV.
fn offered(settings: &str, wait: &str) -> (Trial, String) {
    let folder = folder();
    let (transport, output) = (format!("inmem?{settings}"), folder.path().display().to_string());
    let [samples, payload, timeout] = [SAMPLES, PAYLOAD, LOSS_TIMEOUT_S].map(|number| number.to_string());
    let words = [
        "run",
        "-q",
        "--wide",
        "-t",
        &transport,
        "--wait",
        wait,
        "--pattern",
        "throughput",
        "--attempts",
        "1",
        "-n",
        &samples,
    ];
    let rest = ["--warmup", "0", "--payloads", &payload, "--touch", "full", "--no-floor", "-o", &output];
    let late = ["--loss-timeout", &timeout];
    let finished = Tripmeter::new(words.iter().chain(&rest).chain(&late)).run();
    check_end(finished, &transport);
    let manifest = manifest(folder.path());
    let result = &manifest.sub_experiments[0];
    let text = std::fs::read_to_string(folder.path().join(format!("throughput_{}.csv", result.name))).unwrap();
    (result.cells[0].trials[0].clone(), text.lines().nth(1).unwrap().to_owned())
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
    at_once(&cases, |(wait, settings, counts)| {
        let [lost, duplicated, reordered, damaged] = *counts;
        let (trial, row) = offered(settings, wait);
        let arrival = &trial.followers[0];
        let found = [arrival.lost, arrival.duplicated, arrival.reordered, arrival.damaged];
        assert_eq!(found, [lost, duplicated, reordered, damaged], "{wait}, {settings}");
        assert_eq!((trial.sent, arrival.received), (SAMPLES, SAMPLES - lost - damaged), "{wait}, {settings}");
        let fields: Vec<&str> = row.split(',').collect();
        let counts = [fields[3], fields[7], fields[8]].map(|field| field.parse::<u64>().unwrap());
        assert_eq!(counts, [SAMPLES, arrival.received, lost + damaged], "{row}");
    });
}

#[test]
fn a_stalled_follower_shows_as_a_lower_rate_and_not_as_loss() {
    let _alone = alone();
    at_once(&WAITS, |wait| {
        let (trial, _) = offered(&format!("stall={}:300ms", PROOF + SAMPLES - 3), wait);
        let arrival = &trial.followers[0];
        assert_eq!((arrival.received, arrival.lost), (SAMPLES, 0), "{wait}");
        assert!(arrival.subscription_ns >= 300_000_000, "{wait}: {arrival:?}");
        let rate = SAMPLES as f64 * 1e9 / arrival.subscription_ns as f64;
        assert!((arrival.received_hz / rate - 1.0).abs() < 1e-9, "{wait}: {arrival:?}");
    });
}

const FOLLOWERS: u64 = 3;
/// Number of a message in the middle of the cell: each follower has its own proof, in which all get the messages.
const HIT_OF_LEADER: u64 = FOLLOWERS * PROOF + WARMUP + 40;

/// The one cell of a run with several followers and these settings, and its part of the table.
fn at_several(settings: &str, loss_timeout_s: u64) -> (Cell, String) {
    let (cell, table) = at_several_of("pingpong", settings, loss_timeout_s);
    assert_eq!((cell.samples, cell.followers.len() as u64), (SAMPLES, FOLLOWERS), "{settings}");
    (cell, table)
}

/// The same under a pattern.
fn at_several_of(pattern: &str, settings: &str, loss_timeout_s: u64) -> (Cell, String) {
    let folder = folder();
    let (transport, output) = (format!("inmem?{settings}"), folder.path().display().to_string());
    let [samples, payload, followers, timeout] =
        [SAMPLES, PAYLOAD, FOLLOWERS, loss_timeout_s].map(|number| number.to_string());
    let words = [
        "run",
        "-q",
        "--wide",
        "-t",
        &transport,
        "--wait",
        "block",
        "--loss-timeout",
        &timeout,
        "--attempts",
        "1",
        "-n",
        &samples,
    ];
    let rest = ["--followers", &followers, "--payloads", &payload, "--touch", "full", "--no-floor", "-o", &output];
    let warmup = WARMUP.to_string();
    let of_pattern = ["--pattern", pattern, "--warmup", &warmup];
    let finished = Tripmeter::new(words.iter().chain(&rest).chain(&of_pattern)).run();
    let finished = check_end(finished, &transport);
    (manifest(folder.path()).sub_experiments[0].cells[0].clone(), finished.stdout)
}

#[test]
fn stalls_at_one_follower_show_there_and_at_the_last() {
    const STALL_NS: f64 = 50e6;
    let _alone = alone();
    // More than half of the messages, so that they are in the median.
    let stalls: Vec<String> = (HIT_OF_LEADER - 20..HIT_OF_LEADER + 40).map(|number| format!("{number}:50ms")).collect();
    let (cell, table) = at_several(&format!("at=1&stall={}", stalls.join(",")), 20);
    let [first, stalled, third] = &cell.followers[..] else { panic!("{:?}", cell.followers) };
    let median = |figures: Option<Figures>| figures.unwrap().median;
    for figures in [stalled.one_way_ns, cell.one_way_last_ns, cell.rtt_ns] {
        assert!(median(figures) >= STALL_NS, "{cell:?}");
    }
    for other in [first, third] {
        assert!(median(other.one_way_ns) < median(stalled.one_way_ns), "{cell:?}");
    }
    let max = |figures: Option<Figures>| figures.unwrap().max;
    assert!(max(cell.one_way_last_ns) >= max(stalled.one_way_ns) && cell.one_way_ns.is_none());
    for of in ["one_way to 0", "one_way to 1", "one_way to 2", "one_way to last", "rtt of last"] {
        assert!(table.contains(of), "{table}");
    }
    // No message comes before it was sent, or later than its answer.
    for at in &cell.followers {
        assert!(max(at.one_way_ns) <= max(cell.one_way_last_ns) && max(at.one_way_ns) <= max(cell.rtt_ns));
    }
}

#[test]
fn what_happens_at_one_follower_is_counted_exactly_there() {
    let _alone = alone();
    let all = SAMPLES + WARMUP;
    let none = Counts::default();
    // A follower answers in the proof of its own only.
    let cases = [
        (format!("at=1&lose={HIT_OF_LEADER}"), 1, 1, Counts { lost: 1, ..none }),
        (format!("at=2&side=follower&lose={HIT}"), 2, 1, Counts { lost: 1, ..none }),
        (format!("at=0&side=follower&duplicate={HIT}"), 0, 0, Counts { duplicated: 1, ..none }),
        (format!("at=1&side=follower&reorder={HIT}"), 1, 1, Counts { late: 1, reordered: 1, ..none }),
        (format!("at=1&side=follower&damage={HIT}"), 1, 1, Counts { damaged: 1, ..none }),
        (format!("at=2&side=follower&damage_body={HIT}"), 2, 1, Counts { damaged: 1, ..none }),
    ];
    at_once(&cases, |(settings, at, unanswered, expected)| {
        let (at, unanswered, expected) = (*at, *unanswered, *expected);
        let (cell, _) = at_several(settings, LOSS_TIMEOUT_S);
        let sent = all + unanswered;
        for found in &cell.followers {
            let expected = if found.follower == at {
                Counts { sent, received: sent - unanswered, ..expected }
            } else {
                Counts { sent, received: sent, ..none }
            };
            assert_eq!(found.counts, expected, "{settings}, follower {}", found.follower);
        }
        assert_eq!(cell.counts, Counts { sent, received: all, ..expected }, "{settings}");
        let has_latencies = cell.followers.iter().all(|at| at.one_way_ns.is_some());
        // Whatever happened to one message.
        assert_eq!((has_latencies, cell.one_way_last_ns.is_some()), (true, true), "{settings}");
    });
}

/// Numbers of the messages of a topic at a fixed rate.
const RATE_HZ: u64 = 1000;

/// A row of `channel_<name>.csv`.
#[derive(Debug)]
struct Row {
    status: String,
    intended_ns: u64,
    actual_ns: u64,
    received_ns: Option<u64>,
}

impl Row {
    fn service_ns(&self) -> u64 {
        self.received_ns.unwrap() - self.actual_ns
    }

    fn response_ns(&self) -> u64 {
        self.received_ns.unwrap() - self.intended_ns
    }
}

/// The one trial of a run at a fixed rate, which is good whatever was lost, and the rows of its first topic.
fn published(settings: &str, wait: &str, topics: u64, loss_timeout_s: u64) -> (ChannelTrial, Vec<Row>) {
    let folder = folder();
    let (transport, output) = (format!("inmem?{settings}"), folder.path().display().to_string());
    let [samples, warmup, payload] = [SAMPLES, WARMUP, PAYLOAD].map(|number| number.to_string());
    let [rate, topics_asked, timeout] = [RATE_HZ, topics, loss_timeout_s].map(|number| number.to_string());
    let words = [
        "run",
        "-q",
        "--wide",
        "-t",
        &transport,
        "--wait",
        wait,
        "--pattern",
        "channel",
        "--attempts",
        "1",
        "-n",
        &samples,
    ];
    let rest = ["--warmup", &warmup, "--payloads", &payload, "--touch", "full", "--no-floor", "-o", &output];
    let more = ["--rate", &rate, "--topics", &topics_asked, "--loss-timeout", &timeout];
    let finished = Tripmeter::new(words.iter().chain(&rest).chain(&more)).run();
    check_end(finished, &transport);
    let manifest = manifest(folder.path());
    let result = &manifest.sub_experiments[0];
    let text = std::fs::read_to_string(folder.path().join(format!("channel_{}.csv", result.name))).unwrap();
    let fields = text.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    let rows: Vec<Vec<&str>> = fields.collect();
    assert_eq!(rows.len() as u64, SAMPLES * topics, "{text}");
    let number = |text: &str| text.parse().unwrap();
    let rows = rows.iter().filter(|fields| fields[2] == "0").enumerate().map(|(index, fields)| {
        assert_eq!((fields[0], fields[1], number(fields[3])), ("1024", rate.as_str(), index as u64 + 1));
        let (intended_ns, actual_ns) = (number(fields[5]), number(fields[6]));
        let received_ns = (!fields[7].is_empty()).then(|| number(fields[7]));
        Row { status: fields[4].to_owned(), intended_ns, actual_ns, received_ns }
    });
    let rows: Vec<Row> = rows.collect();
    assert!(rows.iter().all(|row| row.actual_ns >= row.intended_ns), "{rows:?}");
    (result.cells[0].channel[0].clone(), rows)
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
        // Of the first topic only, with which the path is proven: the others never have so many messages.
        ("poll", format!("lose={HIT}&duplicate={}", HIT + 1), 3, [1, 1, 0, 0]),
        ("block", format!("lose={HIT}"), 3, [1, 0, 0, 0]),
    ];
    at_once(&cases, |(wait, settings, topics, expected)| {
        let [lost, duplicated, reordered, damaged] = *expected;
        let (trial, rows) = published(settings, wait, *topics, LOSS_TIMEOUT_S);
        let (counts, all) = (trial.counts, SAMPLES * topics);
        let found = [counts.lost, counts.duplicated, counts.reordered, counts.damaged];
        assert_eq!(found, [lost, duplicated, reordered, damaged], "{wait}, {settings}");
        assert_eq!((counts.sent, counts.received), (all, all - lost - damaged), "{wait}, {settings}");
        let of = |status: &str| rows.iter().filter(|row| row.status == status).count() as u64;
        let came = rows.iter().filter(|row| row.received_ns.is_some()).count() as u64;
        let first = SAMPLES - lost - damaged;
        assert_eq!((of("duplicated"), of("reordered"), came), (duplicated, reordered, first), "{settings}");
        assert_eq!(of("lost") + of("damaged"), lost + damaged, "{settings}");
        let (response, service) = (trial.response_ns.unwrap(), trial.service_ns.unwrap());
        assert_eq!((response.samples, service.samples), (counts.received, counts.received), "{settings}");
        assert!(response.mean >= service.mean && service.min > 0.0, "{trial:?}");
    });
}

/// One way, the same messages prove the path to all followers.
#[test]
fn what_one_of_several_subscribers_lacks_is_missing_there_and_at_the_last() {
    let _alone = alone();
    let none = Counts::default();
    let cases = [
        (format!("at=1&lose={HIT}"), Counts { lost: 1, ..none }),
        (format!("at=1&duplicate={HIT}"), Counts { duplicated: 1, ..none }),
        (format!("at=1&reorder={HIT}"), Counts { reordered: 1, ..none }),
    ];
    at_once(&cases, |(settings, expected)| {
        let (cell, table) = at_several_of("channel", settings, LOSS_TIMEOUT_S);
        let [trial] = &cell.channel[..] else { panic!("{cell:?}") };
        let counts = |faults: Counts| Counts { sent: SAMPLES, received: SAMPLES - faults.lost, ..faults };
        assert_eq!(trial.counts, counts(*expected), "{settings}");
        for at in &trial.followers {
            let expected = if at.follower == 1 { *expected } else { none };
            assert_eq!(at.counts, counts(expected), "{settings}, follower {}", at.follower);
            assert_eq!(at.service_ns.unwrap().samples, at.counts.received, "{settings}");
        }
        assert_eq!(trial.followers.len() as u64, FOLLOWERS);
        for of in ["response", "service", "service to 0", "service to 1", "service to 2"] {
            assert!(table.contains(of) && !table.contains("rtt of last"), "{table}");
        }
    });
}

#[test]
fn stalls_at_one_subscriber_show_there_and_at_the_last() {
    const STALL_NS: f64 = 3e9;
    let _alone = alone();
    let (cell, _) = at_several_of("channel", &format!("at=1&stall={HIT}:3s"), 20);
    let trial = &cell.channel[0];
    let max = |at: usize| trial.followers[at].service_ns.unwrap().max;
    assert!(max(1) >= STALL_NS && trial.service_ns.unwrap().max >= max(1), "{trial:?}");
    assert!(max(0) < max(1) && max(2) < max(1), "{trial:?}");
    assert_eq!((trial.counts.received, trial.counts.late), (SAMPLES, 0));
}

/// Mean of these times of all rows.
fn mean(rows: &[Row], of: fn(&Row) -> u64) -> f64 {
    rows.iter().map(of).sum::<u64>() as f64 / rows.len() as f64
}

/// Whether a figure is the mean of the rows, which are rounded to nanoseconds.
fn is_mean(figure: f64, rows: &[Row], of: fn(&Row) -> u64) -> bool {
    (figure - mean(rows, of)).abs() <= 2.0
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
        let (response, service) = (trial.response_ns.unwrap(), trial.service_ns.unwrap());
        assert!(is_mean(response.mean, &rows, Row::response_ns), "{wait}: {response:?}, {rows:?}");
        assert!(is_mean(service.mean, &rows, Row::service_ns), "{wait}: {service:?}, {rows:?}");
        assert!(response.max >= (STALL_NS - 2_000_000) as f64 && trial.behind >= 40, "{trial:?}");
        assert_eq!(trial.counts.received, SAMPLES, "{wait}");
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
        let counts = trial.counts;
        assert_eq!((counts.late, counts.received), (late, SAMPLES - late), "{wait}");
        let is_late = *stall_ms > timeout_s * 1000;
        assert_eq!((late > 0, stalled.status == "late"), (is_late, is_late), "{wait}");
        assert_eq!(trial.service_ns.unwrap().samples, counts.received, "{wait}");
    });
}

/// Calls at a fixed rate.
const FIXED: [&str; 4] = ["--mode", "fixed-freq", "--rate", "1000"];

/// The one trial of a run of calls, which is good whatever became of them, and the rows of its first client.
fn called(settings: &str, wait: &str, clients: u64, more: &[&str]) -> (RpcTrial, Vec<Row>) {
    let clients_asked = clients.to_string();
    answered(settings, wait, clients, &[&["--pattern", "rpc", "--clients", &clients_asked], more].concat())
}

/// Round trips at a rate.
const PACED: [&str; 4] = ["--pattern", "pingpong", "--rate", "1000"];

/// The same of what is asked for by `more`.
fn answered(settings: &str, wait: &str, clients: u64, more: &[&str]) -> (RpcTrial, Vec<Row>) {
    let folder = folder();
    let (transport, output) = (format!("inmem?{settings}"), folder.path().display().to_string());
    let [samples, warmup, payload, timeout] =
        [SAMPLES, WARMUP, PAYLOAD, LOSS_TIMEOUT_S].map(|number| number.to_string());
    let words = ["run", "-q", "--wide", "-t", &transport, "--wait", wait, "--attempts", "1", "-n", &samples];
    let rest = ["--warmup", &warmup, "--payloads", &payload, "--touch", "full", "--no-floor", "-o", &output];
    let asked = ["--loss-timeout", &timeout, "--allow-damage"];
    let words = words.iter().chain(&rest).chain(&asked).chain(more);
    let finished = Tripmeter::new(words).run().with(exit::GOOD).clean();
    assert!(finished.stderr.is_empty(), "{}", finished.stderr);
    let manifest = manifest(folder.path());
    let result = &manifest.sub_experiments[0];
    let text = std::fs::read_to_string(folder.path().join(format!("rpc_{}.csv", result.name))).unwrap();
    let number = |text: &str| text.parse().unwrap();
    let rows = text.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    let rows = rows.filter(|fields| fields[2] == "0").map(|fields| {
        let received_ns = (!fields[7].is_empty()).then(|| number(fields[7]));
        Row { status: fields[4].to_owned(), intended_ns: number(fields[5]), actual_ns: number(fields[6]), received_ns }
    });
    let rows: Vec<Row> = rows.collect();
    assert_eq!((rows.len() as u64, text.lines().count() as u64), (SAMPLES, 1 + SAMPLES * clients), "{text}");
    (result.cells[0].rpc[0].clone(), rows)
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
        // Of the first client only, with which the path is proven: the others never have so many messages.
        ("block", format!("lose={HIT}"), 3, false, [1, 0, 0, 0]),
        ("callback", format!("damage={HIT}&duplicate={}", HIT + 2), 3, true, [0, 1, 0, 1]),
    ];
    at_once(&cases, |(wait, settings, clients, fixed, expected)| {
        let ([timed_out, failed, late, duplicated], fixed) = (*expected, *fixed);
        let (trial, rows) = called(settings, wait, *clients, if fixed { &FIXED } else { &[] });
        let made = SAMPLES * clients;
        let succeeded = made - timed_out - failed;
        let counts = CallCounts { made, succeeded, timed_out, failed, late, duplicated };
        assert_eq!(trial.counts, counts, "{wait}, {settings}");
        let of = |status: &str| rows.iter().filter(|row| row.status == status).count() as u64;
        assert_eq!((of("timed_out"), of("failed")), (timed_out, failed), "{wait}, {settings}: {rows:?}");
        assert_eq!(of("ok"), SAMPLES - timed_out - failed, "{wait}, {settings}");
        assert!((trial.qps * trial.duration_ns as f64 / 1e9 - succeeded as f64).abs() < 1e-6, "{trial:?}");
        assert_eq!(trial.service_rtt_ns.unwrap().samples, succeeded, "{wait}, {settings}");
        assert_eq!((trial.pace.is_some(), trial.response_rtt_ns.is_some()), (fixed, fixed), "{wait}, {settings}");
        assert!(trial.duration_ns >= timed_out * LOSS_TIMEOUT_S * 1_000_000_000, "{trial:?}");
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
        let (response, service) = (trial.response_rtt_ns.unwrap(), trial.service_rtt_ns.unwrap());
        assert!(is_mean(response.mean, &rows, Row::response_ns), "{wait}: {response:?}, {rows:?}");
        assert!(is_mean(service.mean, &rows, Row::service_ns), "{wait}: {service:?}, {rows:?}");
        assert!(response.max >= STALL_NS as f64 && trial.pace.unwrap().behind >= 40, "{trial:?}");
        assert_eq!(trial.counts.succeeded, SAMPLES, "{wait}");
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
        let (made, succeeded) = (SAMPLES, SAMPLES - timed_out - failed);
        let counts = CallCounts { made, succeeded, timed_out, failed, late: 0, duplicated };
        assert_eq!(trial.counts, counts, "{wait}, {settings}");
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
        assert!(trial.pace.unwrap().rate_missed, "{trial:?}");
    });
}

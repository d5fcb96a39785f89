//! Measurement truth, end to end: faults injected into `inmem` show up in exactly the right numbers.

mod calls;
mod followers;
mod one_way;
mod rate;
mod round_trips;

use crate::common::samples::sample_rows;
use crate::common::{Finished, Tripmeter, alone, at_once, folder, manifest};
use tripmeter_model::exit;
use tripmeter_model::manifest::Counts;

const SAMPLES: u64 = 100;
const WARMUP: u64 = 10;
const PAYLOAD: u64 = 1024;
/// Number of messages of the preceding path proof: 256 KiB each way.
const PROOF: u64 = 256 * 1024 / PAYLOAD;
/// Number of a message in the middle of the cell.
const HIT: u64 = PROOF + WARMUP + 40;

/// Longer than a busy machine keeps a thread from a CPU: only injected faults are lost or late.
const LOSS_TIMEOUT_S: u64 = 6;
/// Longer than [`LOSS_TIMEOUT_S`] by more than a thread is kept from a CPU.
const LATE_MS: u64 = 9000;

fn numbers(messages: std::ops::Range<u64>) -> String {
    messages.map(|number| number.to_string()).collect::<Vec<_>>().join(",")
}

/// Checks the end of a run: damage is reported as a failure.
#[track_caller]
fn check_end(finished: Finished, transport: &str) -> Finished {
    if transport.contains("damage") {
        return finished.with(exit::PARTIAL).says(&["came damaged", "--allow-damage"]).clean();
    }
    assert!(finished.stderr.is_empty(), "{}", finished.stderr);
    finished.with(exit::GOOD).clean()
}

const WAITS: [&str; 3] = ["poll", "block", "callback"];

const PACED: [&str; 4] = ["--pattern", "ping", "--rate", "1000"];

/// Flags of a pattern, or of round trips at a rate.
fn pattern_words(pattern: &'static str) -> &'static [&'static str] {
    match pattern {
        "ping" => &["--pattern", "ping"],
        "call" => &["--pattern", "call"],
        _ => &PACED,
    }
}

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

fn mean(rows: &[Row], of: fn(&Row) -> u64) -> f64 {
    rows.iter().map(of).sum::<u64>() as f64 / rows.len() as f64
}

/// True if a figure is the mean of the rows, which are rounded to nanoseconds.
fn is_mean(figure: f64, rows: &[Row], of: fn(&Row) -> u64) -> bool {
    (figure - mean(rows, of)).abs() <= 2.0
}

/// Ten consecutive messages without an answer end a sub-experiment; everything measured before is kept.
#[test]
fn a_payload_that_breaks_off_keeps_its_samples() {
    let _alone = alone();
    let (transport, payload) = (format!("inmem?lose={}", numbers(HIT..HIT + 10)), PAYLOAD.to_string());
    let cases: Vec<_> = WAITS.into_iter().flat_map(|wait| ["ping", "call", "paced"].map(|kind| (wait, kind))).collect();
    at_once(&cases, |(wait, pattern)| {
        let folder = folder();
        let output = folder.path().display().to_string();
        let words = ["ping", "-q", "--wide", "--no-floor", &transport, "--wait", wait, "--loss-timeout", "0.5"];
        let rest = ["-n", "100", "--warmup", "10", "--payloads", &payload, "-o", &output];
        let words = words.iter().chain(&rest).chain(pattern_words(pattern));
        Tripmeter::new(words).run().with(exit::PARTIAL).says(&["no answer to 10 messages"]).clean();
        let manifest = manifest(folder.path());
        let [result] = &manifest.sub_experiments[..] else { panic!("one was asked for") };
        let [cell] = &result.cells[..] else { panic!("{pattern} {wait}: {result:?}") };
        let why = cell.cut_short.clone().unwrap().to_string();
        assert!(why.contains("no answer to 10 messages"), "{why}");
        let Counts { sent, received, lost, late, .. } = cell.counts();
        // A call answered after its time-out is both lost and late. A round trip at a rate is a call, too.
        let is_call = *pattern != "ping";
        let (warmup, failed, unanswered) = if is_call { (0, lost, lost) } else { (WARMUP, 0, lost + late) };
        // On a busy machine others are late as well, and the lost ones have higher numbers or are fewer.
        assert!(unanswered >= 10 && (late > 0 || lost == 10), "{pattern} {wait}: {:?}", cell.counts());
        assert_eq!((sent, cell.samples), (received + unanswered, received - warmup), "{pattern} {wait}");
        assert!((1..HIT - PROOF - WARMUP).contains(&cell.samples), "{pattern} {wait}: {:?}", cell.counts());
        let rows = sample_rows(folder.path(), &result.name).len() as u64;
        assert_eq!(rows, cell.samples + failed, "{pattern} {wait}");
    });
}

/// A sub-experiment whose answers are always wrong also ends.
#[test]
fn ten_damaged_messages_in_a_row_end_a_sub_experiment() {
    let _alone = alone();
    let cases: Vec<_> = WAITS.into_iter().flat_map(|wait| ["ping", "call", "paced"].map(|kind| (wait, kind))).collect();
    at_once(&cases, |(wait, pattern)| {
        let folder = folder();
        let output = folder.path().display().to_string();
        let transport = format!("inmem?side=leader&damage_body={}", numbers(HIT..HIT + 10));
        let words = ["ping", "-q", "--wide", "--no-floor", &transport, "--wait", wait, "--touch", "full", "-n", "100"];
        let rest = ["--warmup", "10", "--payloads", "1k", "-o", &output];
        let words = words.iter().chain(&rest).chain(pattern_words(pattern));
        let finished = Tripmeter::new(words).run().with(exit::PARTIAL);
        finished.says(&["10 messages in a row came damaged"]).clean();
        let cells = &manifest(folder.path()).sub_experiments[0].cells;
        assert!(cells[0].samples > 0, "what was measured before is kept");
    });
}

#[test]
fn damage_and_loss_of_everything_are_failures_unless_they_are_meant() {
    let _alone = alone();
    let everything = format!("lose={}", numbers(PROOF + 1..PROOF + 1 + SAMPLES));
    for (fault, pattern, warmup, allow) in [
        (format!("damage_body={}", PROOF + 30), "throughput", "0", "--allow-damage"),
        // In the warm-up, which has no figures.
        (format!("damage_body={}", PROOF + 5), "throughput", "10", "--allow-damage"),
        (format!("damage_body={}", PROOF + 5), "publish", "10", "--allow-damage"),
        (everything.clone(), "throughput", "0", "--allow-loss"),
        (everything, "publish", "0", "--allow-loss"),
    ] {
        let run = |more: &[&str]| {
            let folder = folder();
            let (transport, output) = (format!("inmem?{fault}"), folder.path().display().to_string());
            let words = [
                "ping",
                "-q",
                "--wide",
                "--no-floor",
                &transport,
                "--pattern",
                pattern,
                "--touch",
                "full",
                "-n",
                "100",
            ];
            // The run waits for the time-out of everything lost.
            let timeout = if allow == "--allow-damage" { "15" } else { "0.2" };
            let rest =
                ["--warmup", warmup, "--payloads", "1k", "--loss-timeout", timeout, "--attempts", "1", "-o", &output];
            Tripmeter::new(words.iter().chain(&rest).chain(more)).run()
        };
        let failed = run(&[]).with(exit::PARTIAL).says(&[allow]).clean();
        let row = failed.stdout.lines().find(|line| line.starts_with("inmem/queue")).unwrap();
        assert!(row.contains('*'), "{row}");
        // Damage in the warm-up is in no column, but has a note.
        let header = failed.stdout.lines().find(|line| line.starts_with("transport")).unwrap();
        let is_told = header.contains("damaged") || failed.unwrapped().contains("in the warm-up");
        assert_eq!(is_told, allow == "--allow-damage", "{}", failed.stdout);
        run(&[allow]).with(exit::GOOD).clean();
    }
}

#[test]
fn damage_in_the_path_proof_is_a_failure_unless_it_is_meant() {
    let _alone = alone();
    let cases: Vec<_> = ["ping", "publish", "throughput", "call"]
        .into_iter()
        .flat_map(|pattern| ["leader", "follower"].map(|side| (pattern, side)))
        // In one-way patterns a follower sends nothing.
        .filter(|(pattern, side)| *side == "leader" || ["ping", "call"].contains(pattern))
        .collect();
    at_once(&cases, |(pattern, side)| {
        let transport = format!("inmem?side={side}&damage_body=10,30,50");
        let run = |more: &[&str]| {
            let folder = folder();
            let output = folder.path().display().to_string();
            let words = [
                "ping",
                "-q",
                "--wide",
                "--no-floor",
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

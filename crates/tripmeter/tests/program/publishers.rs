//! Several publishers of one topic, end to end: each numbers its messages, and faults of one are counted with it and in
//! the sum.

use crate::common::figures::{counts, publishers, times, value};
use crate::common::samples::sample_rows;
use crate::common::{Finished, Tripmeter, alone, at_once, folder, manifest};
use tripmeter_model::exit;
use tripmeter_model::figure::Figure;
use tripmeter_model::manifest::{Counts, SubExperimentResult, Verdict};
use tripmeter_model::metric::Stream;
use tripmeter_model::samples::SampleRow;
use tripmeter_model::trial::Trial;

const SAMPLES: u64 = 100;
const WARMUP: u64 = 10;
const PAYLOAD: u64 = 1024;
/// Number of messages of the first publisher in the preceding path proof.
const PROOF: u64 = 256 * 1024 / PAYLOAD;

fn run(transport: &str, publishers: u64, more: &[&str]) -> (Finished, tempfile::TempDir) {
    let folder = folder();
    let output = folder.path().display().to_string();
    let [samples, warmup, payload, publishers] =
        [SAMPLES, WARMUP, PAYLOAD, publishers].map(|number| number.to_string());
    let words = ["publish", "-q", "--wide", transport, "--publishers", &publishers, "-n", &samples];
    let rest = ["--warmup", &warmup, "--payloads", &payload, "--touch", "full", "--no-floor", "-o", &output];
    // No message is late on a busy machine.
    let attempts = ["--attempts", "1", "--loss-timeout", "5", "--allow-damage"];
    (Tripmeter::new(words.iter().chain(&rest).chain(&attempts).chain(more)).run(), folder)
}

fn rows(results: &std::path::Path, name: &str) -> Vec<(u64, u64, String)> {
    let publisher = |row: &SampleRow| row.stream.strip_prefix("publisher=").unwrap().parse().unwrap();
    sample_rows(results, name).into_iter().map(|row| (publisher(&row), row.sequence, row.status)).collect()
}

/// The trial of a good run over `inmem` with three publishers, and its rows.
fn published(settings: &str, wait: &str) -> (Trial, Vec<(u64, u64, String)>) {
    let (finished, folder) = run(&format!("inmem?{settings}"), 3, &["--wait", wait]);
    let finished = finished.with(exit::GOOD).clean();
    assert!(finished.stderr.is_empty(), "{}", finished.stderr);
    let manifest = manifest(folder.path());
    let result: &SubExperimentResult = &manifest.sub_experiments[0];
    assert!(result.name.contains("_full_publish_publisher"), "{}", result.name);
    let rows = rows(folder.path(), &result.name);
    let trial = result.cells[0].trials[0].clone();
    assert_eq!(rows.len() as u64, 3 * SAMPLES);
    assert_eq!(publishers(&trial), [0, 1, 2].map(Stream::publisher));
    (trial, rows)
}

#[test]
fn what_goes_wrong_with_one_publisher_is_counted_with_it_and_disturbs_no_other() {
    let _alone = alone();
    // The first publisher has already sent the messages of the path proof.
    let cases = [("poll", 1, WARMUP), ("block", 0, PROOF + WARMUP), ("callback", 2, WARMUP)];
    let check = |wait: &str, at: u64, before: u64| {
        let [lost, twice, held, broken, last] = [20, 30, 40, 50, SAMPLES].map(|number| before + number);
        let settings = format!("at={at}&damage_body={broken}&duplicate={twice}&lose={lost},{last}&reorder={held}");
        let (trial, rows) = published(&settings, wait);
        let whole = Counts { sent: SAMPLES, received: SAMPLES, ..Counts::default() };
        let hit = Counts { received: SAMPLES - 3, lost: 2, duplicated: 1, reordered: 1, damaged: 1, ..whole };
        for publisher in 0..3 {
            let expected = if u64::from(publisher) == at { hit } else { whole };
            assert_eq!(trial.counts(&Stream::publisher(publisher)), expected, "{wait}: publisher {publisher}");
        }
        let sum = Counts { sent: 3 * SAMPLES, received: 3 * SAMPLES - 3, ..hit };
        assert_eq!(counts(&trial), sum, "{wait}");
        for number in 1..=SAMPLES {
            let status = match number {
                20 | SAMPLES => "lost",
                30 => "duplicated",
                40 => "reordered",
                50 => "damaged",
                _ => "ok",
            };
            let found: Vec<&str> = (0..3)
                .map(|publisher| {
                    let mut of = rows.iter().filter(|row| (row.0, row.1) == (publisher, number));
                    of.next().unwrap().2.as_str()
                })
                .collect();
            let expected: Vec<&str> = (0..3).map(|publisher| if publisher == at { status } else { "ok" }).collect();
            assert_eq!(found, expected, "{wait}: message {number}");
        }
        let samples = [Figure::Response, Figure::Service].map(|of| times(&trial, of).unwrap().samples);
        assert_eq!(samples, [sum.received; 2], "{wait}");
    };
    at_once(&cases, |(wait, at, before)| check(wait, *at, *before));
}

#[test]
fn a_header_that_nobody_can_read_is_damaged_in_the_sum_and_lost_with_its_publisher() {
    let _alone = alone();
    let (trial, _) = published(&format!("at=1&damage={}", WARMUP + 9), "block");
    let whole = Counts { sent: SAMPLES, received: SAMPLES, ..Counts::default() };
    let each = [0, 1, 2].map(|publisher| trial.counts(&Stream::publisher(publisher)));
    assert_eq!(each, [whole, Counts { received: SAMPLES - 1, lost: 1, ..whole }, whole]);
    assert_eq!(
        counts(&trial),
        Counts { sent: 3 * SAMPLES, received: 3 * SAMPLES - 1, damaged: 1, ..Counts::default() }
    );
}

#[test]
fn sockets_have_a_sender_for_each_publisher_and_the_table_says_how_many_there_were() {
    let _alone = alone();
    for transport in ["uds/datagram", "udp/loopback"] {
        let (finished, folder) = run(transport, 4, &["--rate", "500"]);
        let finished = finished.with(exit::GOOD).clean();
        let manifest = manifest(folder.path());
        let result = &manifest.sub_experiments[0];
        assert_ne!(result.path_proof.as_ref().unwrap().verdict, Verdict::Failed, "{transport}");
        let trial = &result.cells[0].trials[0];
        let (counts, offered_hz) = (counts(trial), value(trial, Figure::OfferedRate));
        let found = (counts.sent, offered_hz, publishers(trial).len());
        assert_eq!(found, (4 * SAMPLES, Some(500.0), 4), "{transport}");
        // The loopback may reorder messages that a thread sends from several CPUs.
        let reordered = if transport == "uds/datagram" { counts.reordered } else { 0 };
        let odd = counts.duplicated + reordered + counts.damaged;
        assert_eq!((counts.received + counts.lost + counts.late, odd), (4 * SAMPLES, 0), "{transport}");
        let row = finished.stdout.lines().find(|line| line.starts_with(transport)).unwrap();
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(words[3..7], ["1k", "1", "4", "500"], "{row}");
    }
}

#[test]
fn what_cannot_have_several_publishers_is_refused_with_the_names_of_those_that_can() {
    let refused = |transport: &str, more: &[&str], parts: &[&str]| {
        let (finished, _folder) = run(transport, 2, more);
        finished.with(exit::USAGE).one_line(parts).clean();
    };
    refused(
        "tcp",
        &[],
        &["'tcp'", "one publisher", "2 were requested", "uds/datagram", "udp/loopback", "--publishers"],
    );
    refused("uds/stream", &[], &["'uds/stream'", "inmem/queue"]);
    refused("uds", &["--topics", "2"], &["2 publishers", "2 topics", "--publishers", "--topics"]);
    // Messages that would need several packets.
    let large = ["publish", "uds", "--publishers", "2", "--payloads", "16M"];
    Tripmeter::new(large).run().with(exit::USAGE).one_line(&["'uds'", "16777216", "--payloads"]).clean();
    for command in ["ping", "call"] {
        let other = Tripmeter::new([command, "uds", "--publishers", "2"]).run().with(exit::USAGE);
        other.one_line(&["unexpected argument", "--publishers"]).clean();
    }
    let too_many = ["publish", "uds", "--publishers", "4097"];
    Tripmeter::new(too_many).run().with(exit::USAGE).one_line(&["4097 publishers", "4096", "--publishers"]).clean();
}

/// At full speed each topic and each publisher has a thread of its own, too.
#[test]
fn what_goes_wrong_with_one_of_several_streams_is_counted_with_it_and_in_the_sum() {
    let _alone = alone();
    let cases = [("--publishers", "poll"), ("--topics", "block"), ("--topics", "callback"), ("--publishers", "block")];
    at_once(&cases, |(axis, wait)| {
        let [lost, twice, held, broken] = [20, 30, 40, 50].map(|number| WARMUP + number);
        // Faults hit one publisher, or every topic.
        let has_faults = *axis == "--publishers";
        let faults = format!("inmem?at=1&damage_body={broken}&duplicate={twice}&lose={lost}&reorder={held}");
        let transport = if has_faults { faults } else { "inmem".to_owned() };
        let folder = folder();
        let output = folder.path().display().to_string();
        let [samples, warmup] = [SAMPLES, WARMUP].map(|number| number.to_string());
        let words = ["throughput", "-q", &transport, axis, "3", "-n", &samples, "--warmup", &warmup, "--wait", wait];
        let rest = ["--payloads", "1k", "--touch", "full", "--one-way", "--no-floor", "--attempts", "1", "-o", &output];
        let allowed = ["--loss-timeout", "5", "--allow-damage"];
        Tripmeter::new(words.iter().chain(&rest).chain(&allowed)).run().with(exit::GOOD).clean();
        let result = &manifest(folder.path()).sub_experiments[0];
        let trial = &result.cells[0].trials[0];
        let whole = Counts { sent: SAMPLES, received: SAMPLES, ..Counts::default() };
        let hit = Counts { received: SAMPLES - 2, lost: 1, duplicated: 1, reordered: 1, damaged: 1, ..whole };
        let hit = if has_faults { hit } else { whole };
        for link in 0..3u32 {
            let stream = if *axis == "--topics" { Stream::topic(&link.to_string()) } else { Stream::publisher(link) };
            let expected = if link == 1 { hit } else { whole };
            assert_eq!(trial.counts(&stream), expected, "{axis} {wait}: {stream}");
            assert!(trial.value(&stream, Figure::ReceivedRate) > Some(0.0), "{axis} {wait}: {stream}");
        }
        let sum = Counts { sent: 3 * SAMPLES, received: 2 * SAMPLES + hit.received, ..hit };
        assert_eq!(counts(trial), sum, "{axis} {wait}");
        let rows = sample_rows(folder.path(), &result.name);
        let of_one = rows.iter().filter(|row| row.stream.ends_with("=1") && row.status == "ok").count() as u64;
        let all_ok = rows.iter().filter(|row| row.status == "ok").count() as u64;
        assert_eq!((rows.len() as u64, of_one, all_ok), (sum.sent, hit.received, sum.received), "{axis} {wait}");
        assert_eq!(times(trial, Figure::OneWay).map(|times| times.samples), Some(sum.received), "{axis} {wait}");
    });
}

//! Messages, calls and round trips in bursts and at a rate: their number, due times, and place in the output.

use crate::common::samples::{received_ns, sample_rows};
use crate::common::{Tripmeter, alone, folder, manifest};
use std::path::Path;
use tripmeter_model::exit;
use tripmeter_model::pace::{Burst, OfferedLoad};
use tripmeter_model::samples::SampleRow;

const SAMPLES: usize = 22;
const SIZES: [u64; 2] = [4, 7];
const GAP_NS: u64 = 5_000_000;
const LINKS: usize = 2;

struct Row {
    trial: u32,
    link: usize,
    sequence: usize,
    status: String,
    intended_ns: u64,
    actual_ns: u64,
    received_ns: u64,
}

fn rows(results: &Path, name: &str, is_call: bool) -> Vec<Row> {
    let link = |stream: &str| stream.split_once('=').map_or(0, |(_, link)| link.parse().unwrap());
    let row = |row: SampleRow| Row {
        trial: row.trial,
        link: link(&row.stream),
        sequence: row.sequence as usize,
        status: row.status.clone(),
        intended_ns: row.intended_ns.unwrap(),
        actual_ns: row.sent_ns.unwrap(),
        received_ns: if is_call { row.answered_ns } else { received_ns(&row) }.unwrap(),
    };
    sample_rows(results, name).into_iter().map(row).collect()
}

/// Loads of the trials, and all rows, of a good run at 500 Hz and in both bursts.
fn measured(pattern: &str, links: &[&str], name: &str) -> (Vec<OfferedLoad>, Vec<Row>) {
    let output = folder();
    let words = ["ping", "-q", "--wide", "uds", "--no-floor", "--wait", "block", "--payloads", "64", "--warmup", "3"];
    let pace = ["-n", "22", "--rate", "500", "--demand", "4,7", "--recovery", "5", "--pattern", pattern];
    // No message is late on a busy machine, and nothing is measured again.
    let steady = ["--attempts", "1", "--loss-timeout", "15", "-o", output.path().to_str().unwrap()];
    let run = Tripmeter::new(words.iter().chain(&pace).chain(&steady).chain(links)).run();
    let finished = run.with(exit::GOOD).clean();
    assert!(finished.stdout.contains("4 per 5 ms") && finished.stdout.contains("7 per 5 ms"), "{}", finished.stdout);
    let manifest = manifest(output.path());
    let result = &manifest.sub_experiments[0];
    assert_eq!(result.name, name);
    let loads = result.cells[0].trials.iter().map(|trial| trial.load).collect();
    let histograms = std::fs::read_to_string(output.path().join(format!("histograms/{name}.hlog"))).unwrap();
    for tag in ["response_64_500,", "service_64_burst-4-5ms,", "response_64_burst-7-5ms,"] {
        assert!(histograms.contains(tag), "{tag} {histograms}");
    }
    (loads, rows(output.path(), name, pattern != "publish"))
}

/// Checks that all messages came, each due with its burst, and that `kept` holds for the rows of each link and trial.
fn check(loads: &[OfferedLoad], rows: &[Row], links: usize, kept: impl Fn(&[Row])) {
    let burst = |size| OfferedLoad::Burst(Burst { size, gap_ns: GAP_NS });
    assert_eq!(loads, [OfferedLoad::Rate { hz: 500.0 }, burst(SIZES[0]), burst(SIZES[1])]);
    assert_eq!(rows.len(), 3 * links * SAMPLES);
    for (trial, rows) in rows.chunks(links * SAMPLES).enumerate() {
        let (demand, recovery_ns) = match loads[trial] {
            OfferedLoad::Burst(Burst { size, gap_ns }) => (size as usize, gap_ns),
            _ => (1, 2_000_000),
        };
        for (link, rows) in rows.chunks(SAMPLES).enumerate() {
            for (index, row) in rows.iter().enumerate() {
                assert_eq!((row.link, row.sequence, row.status.as_str()), (link, index + 1, "ok"));
                assert!(row.intended_ns <= row.actual_ns && row.actual_ns <= row.received_ns);
                let intended = match trial {
                    0 => 2_000_000 * index as u64 + 2_000_000 / links as u64 * link as u64,
                    _ => index as u64 / SIZES[trial - 1] * GAP_NS,
                };
                // The schedule is in ticks of the clock.
                let is_due = row.intended_ns.abs_diff(intended) <= 1;
                assert!(is_due, "{trial} {link} {index}: {} {intended}", row.intended_ns);
                assert_eq!(row.trial as usize, trial + 1);
            }
            // Size and spacing of the bursts are those of the load.
            let due: Vec<&[Row]> = rows.chunk_by(|a, b| b.intended_ns - a.intended_ns <= 1).collect();
            let (last, whole) = due.split_last().unwrap();
            assert!(whole.iter().all(|burst| burst.len() == demand) && last.len() <= demand, "{trial} {link}");
            let apart = |pair: &[&[Row]]| pair[1][0].intended_ns - pair[0][0].intended_ns;
            assert!(due.windows(2).all(|pair| apart(pair).abs_diff(recovery_ns) <= 1), "{trial} {link}");
            kept(rows);
        }
    }
}

#[test]
fn bursts_are_published_by_all_topics_together() {
    let _alone = alone();
    let (loads, rows) = measured("publish", &["--topics", "2"], "uds_datagram_block_publish_bursts_topics-2");
    check(&loads, &rows, LINKS, |rows| assert!(rows.is_sorted_by_key(|row| row.actual_ns)));
}

#[test]
fn calls_and_round_trips_of_a_burst_follow_each_other() {
    let _alone = alone();
    let in_turn = |rows: &[Row]| {
        assert!(rows.windows(2).all(|pair| pair[0].received_ns <= pair[1].actual_ns), "one call at a time");
    };
    let (loads, rows) = measured("call", &["--clients", "2"], "uds_datagram_block_call_bursts_clients-2");
    check(&loads, &rows, LINKS, in_turn);
    let (loads, rows) = measured("ping", &[], "uds_datagram_block_bursts");
    check(&loads, &rows, 1, in_turn);
}

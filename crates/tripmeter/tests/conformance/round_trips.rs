//! Round trips: one follower and several, in a row, and two experiments at once.

use crate::common::{LONGEST, Tripmeter, alone, csv_payloads, folder, manifest, transports};
use crate::{Faults, Here, SAMPLES, WARMUP, carrying, check_outcome, hold_to, skip_aloud, sort_out};
use std::fmt::Write;
use std::path::Path;
use tripmeter_abi::{Pattern, Wait};
use tripmeter_model::exit;
use tripmeter_model::manifest::{Cell, Counts, Figures, Manifest, Status};

/// Round sizes, and odd ones next to the borders of packets and pages.
const PAYLOADS: [u64; 8] = [16, 17, 1 << 10, 4095, 4097, 64 << 10, 65_537, 1 << 20];
/// Where nothing is touched, which is the same path with less to do.
const PAYLOADS_UNTOUCHED: [u64; 2] = [17, 65_537];

/// An experiment of these variants: every wait that they declare, nothing and everything touched, whole and in packets.
fn experiment(variants: &[&Here<'_>]) -> String {
    let mut text = format!("floor = false\nsamples = {SAMPLES}\nwarmup = {WARMUP}\nloss_timeout_s = 15.0\n");
    for variant in variants {
        let mut add = |transport: &str, wait: &Wait, touch: &str| {
            let payloads = variant.payloads(if touch == "none" { &PAYLOADS_UNTOUCHED } else { &PAYLOADS });
            writeln!(
                text,
                "[[sub_experiment]]\ntransport = \"{transport}\"\nwait = \"{wait}\"\ntouch = \"{touch}\"\npayloads = \"{payloads}\""
            )
            .unwrap();
        };
        for wait in &variant.declared.waits {
            add(&variant.name(), wait, "none");
            add(&variant.name(), wait, "full");
            if variant.has_packet {
                add(&format!("{}?packet=4096", variant.name()), wait, "full");
            }
        }
    }
    text
}

fn check_results(faults: &mut Faults, manifest: &Manifest, results: &Path) -> usize {
    faults.check(manifest.status == Status::Complete, || format!("the experiment is {:?}", manifest.status));
    for (result, plan) in manifest.sub_experiments.iter().zip(&manifest.plan.sub_experiments) {
        let name = check_outcome(faults, result, plan);
        result.cells.iter().for_each(|cell| check_cell(faults, name, cell));
        let rows = csv_payloads(&results.join(format!("measurements_{name}.csv")));
        let expected: Vec<u64> = plan.payloads.iter().flat_map(|payload| vec![*payload; SAMPLES as usize]).collect();
        faults.check(rows == expected, || format!("{name}: {} rows of the CSV are not the samples", rows.len()));
        let histograms = std::fs::read_to_string(results.join(format!("measurements_{name}.hlog"))).unwrap();
        for payload in &plan.payloads {
            let lines = histograms.lines().filter(|line| line.starts_with(&format!("Tag=payload_{payload},")));
            faults.check(lines.count() == 1, || format!("{name}: not one histogram of {payload} bytes"));
        }
    }
    manifest.sub_experiments.iter().map(|result| result.cells.len()).sum()
}

fn check_cell(faults: &mut Faults, name: &str, cell: &Cell) {
    let place = format!("{name}, {} bytes", cell.payload_bytes);
    let expected = Counts { sent: SAMPLES + WARMUP, received: SAMPLES + WARMUP, ..Counts::default() };
    faults.check(cell.counts == expected, || format!("{place}: {:?}", cell.counts));
    let samples = (cell.samples, cell.samples_planned, cell.warmup, &cell.cut_short);
    faults.check(samples == (SAMPLES, SAMPLES, WARMUP, &None), || format!("{place}: samples {samples:?}"));
    let (Some(rtt), Some(half)) = (cell.rtt_ns, cell.rtt_half_ns) else {
        return faults.check(false, || format!("{place}: no figures"));
    };
    faults.check(is_near(half, rtt.scaled(0.5)), || format!("{place}: {half:?} is not half of {rtt:?}"));
    let Figures { min, mean, stdev, median, p90, p99, p9999, max } = rtt;
    let rising = 0.0 < min && min <= median && median <= p90 && p90 <= p99 && p99 <= p9999 && p9999 <= max;
    faults.check(rising && min <= mean && mean <= max && stdev >= 0.0, || format!("{place}: {rtt:?}"));
    let sum_ns = mean * cell.samples as f64;
    faults.check(sum_ns <= cell.duration_ns as f64 * 1.01, || {
        format!("{place}: samples of {sum_ns} ns in {} ns", cell.duration_ns)
    });
}

/// Equal, but for what reading and writing a number may change in its last digit.
fn is_near(a: Figures, b: Figures) -> bool {
    let all = |f: Figures| [f.min, f.mean, f.stdev, f.median, f.p90, f.p99, f.p9999, f.max];
    all(a).iter().zip(all(b)).all(|(a, b)| (a - b).abs() <= b.abs() * 1e-12)
}

#[test]
fn every_transport_keeps_the_contract() {
    let _alone = alone();
    let known = transports();
    let (variants, missing) = sort_out(&known);
    let variants = carrying(variants, Pattern::PingPong);
    hold_to("round trips", &variants, experiment, |faults, manifest, results, _| {
        check_results(faults, manifest, results)
    });
    skip_aloud(&missing);
}

/// Messages in a row that are many for every queue, window and acknowledgement.
const MANY: u64 = 2000;

/// The way to wait that is farthest from a loop of ours: the system's own threads, where it calls back.
fn many_experiment(variants: &[&Here<'_>]) -> String {
    let mut text = format!("floor = false\nsamples = {MANY}\nloss_timeout_s = 15.0\n");
    for variant in variants {
        let (name, wait) = (variant.name(), variant.declared.waits.iter().max().unwrap());
        let largest = PAYLOADS.into_iter().filter(|payload| *payload <= 64 << 10 && variant.carries(*payload)).max();
        let largest = largest.unwrap();
        writeln!(text, "[[sub_experiment]]\ntransport = \"{name}\"\nwait = \"{wait}\"\npayloads = \"{largest}\"")
            .unwrap();
    }
    text
}

/// Checks that all were answered; returns the number of cells.
fn check_many(faults: &mut Faults, manifest: &Manifest) -> usize {
    for result in &manifest.sub_experiments {
        faults.check(result.cells.len() == 1, || format!("{}: {} payloads", result.name, result.cells.len()));
        for cell in &result.cells {
            let all = (cell.samples, cell.counts.received, cell.counts.lost);
            faults.check(all == (MANY, MANY + cell.warmup, 0), || format!("{}: {:?}", result.name, cell.counts));
        }
    }
    manifest.sub_experiments.iter().map(|result| result.cells.len()).sum()
}

#[test]
fn every_transport_answers_many_messages_in_a_row() {
    let _alone = alone();
    let known = transports();
    let variants = carrying(sort_out(&known).0, Pattern::PingPong);
    hold_to("many in a row", &variants, many_experiment, |faults, manifest, _, _| check_many(faults, manifest));
}

/// Followers in the part for transports that reach several.
const FOLLOWERS: u32 = 3;

/// Several followers, everything touched. They share processors: none of them polls where it can do without.
fn several_experiment(variants: &[&Here<'_>]) -> String {
    let mut text = format!("floor = false\nfollowers = {FOLLOWERS}\nsamples = {SAMPLES}\nwarmup = {WARMUP}\n");
    text += "touch = \"full\"\nloss_timeout_s = 15.0\n";
    for variant in variants {
        let payloads = variant.payloads(&[1024, 65_537]);
        let sleeps = variant.declared.waits.iter().filter(|wait| **wait != Wait::Poll);
        let waits: Vec<&Wait> = if sleeps.clone().count() > 0 { sleeps.collect() } else { vec![&Wait::Poll] };
        for wait in waits {
            let name = variant.name();
            writeln!(text, "[[sub_experiment]]\ntransport = \"{name}\"\nwait = \"{wait}\"\npayloads = \"{payloads}\"")
                .unwrap();
        }
    }
    text
}

/// Checks every cell; returns their number.
fn check_several(faults: &mut Faults, manifest: &Manifest) -> usize {
    for (result, plan) in manifest.sub_experiments.iter().zip(&manifest.plan.sub_experiments) {
        let name = check_outcome(faults, result, plan);
        result.cells.iter().for_each(|cell| check_cell_of_several(faults, name, cell));
    }
    manifest.sub_experiments.iter().map(|result| result.cells.len()).sum()
}

fn check_cell_of_several(faults: &mut Faults, name: &str, cell: &Cell) {
    check_cell(faults, name, cell);
    let place = format!("{name}, {} bytes", cell.payload_bytes);
    let indices: Vec<u32> = cell.followers.iter().map(|at| at.follower).collect();
    faults.check(indices == [0, 1, 2], || format!("{place}: followers {indices:?}"));
    let (Some(rtt), Some(last)) = (cell.rtt_ns, cell.one_way_last_ns) else {
        return faults.check(false, || format!("{place}: no latency to the last"));
    };
    faults.check(last.mean < rtt.mean && last.max <= rtt.max, || format!("{place}: {last:?} is not within {rtt:?}"));
    for at in &cell.followers {
        faults.check(at.counts == cell.counts, || format!("{place}, follower {}: {:?}", at.follower, at.counts));
        let within = at.one_way_ns.is_some_and(|to| 0.0 < to.min && to.mean <= last.mean && to.max <= last.max);
        faults.check(within, || format!("{place}, follower {}: {:?}, last {last:?}", at.follower, at.one_way_ns));
    }
}

#[test]
fn every_transport_with_fan_out_reaches_several_followers() {
    let _alone = alone();
    let known = transports();
    let (mut variants, missing) = sort_out(&known);
    variants.retain(|variant| variant.declared.fan_out);
    hold_to("several followers", &variants, several_experiment, |faults, manifest, _, _| {
        check_several(faults, manifest)
    });
    skip_aloud(&missing);
}

#[test]
fn two_experiments_at_once_do_not_disturb_each_other() {
    let _alone = alone();
    let known = transports();
    let variants = carrying(sort_out(&known).0, Pattern::PingPong);
    let mut faults = Faults::default();
    for variant in &variants {
        let name = variant.name();
        // Four threads that poll would take turns on two processors.
        let wait = if variant.declared.waits.contains(&Wait::Block) { Wait::Block } else { variant.declared.waits[0] };
        let wait = wait.as_str();
        let folders = [folder(), folder()];
        let most = variant.here.max_payload_bytes.map_or(64 << 10, |most| most.min(64 << 10));
        let payloads = format!("16,{most}");
        let start = |results: &Path| {
            let output = results.display().to_string();
            let words = ["run", "-q", "--no-floor", "-t", &name, "--wait", wait, "-o", &output];
            let sizes = ["-n", "200", "--payloads", &payloads, "--touch", "full", "--loss-timeout", "15"];
            Tripmeter::new(words.iter().chain(&sizes)).start()
        };
        let runs = folders.each_ref().map(|folder| start(folder.path()));
        for (run, results) in runs.into_iter().zip(&folders) {
            let finished = run.wait(LONGEST);
            let good = finished.code == Some(exit::GOOD.into());
            faults.check(good, || format!("{name}: exit code {:?}\n{}", finished.code, finished.stderr));
            if good {
                let manifest = manifest(results.path());
                manifest.sub_experiments[0].cells.iter().for_each(|cell| check_cell(&mut faults, &name, cell));
            }
            faults.left(&finished, &name);
        }
    }
    assert!(faults.0.is_empty(), "{:#?}", faults.0);
}

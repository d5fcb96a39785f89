//! Round trips: with one follower and several, many in a row, and of two experiments in parallel.

use crate::entry::{Faults, PartOutcome, PlannedPart, SAMPLES, VariantHere, WARMUP, loses_when_starved};
use crate::figures::{followers, times, times_at};
use crate::samples::sample_rows;
use crate::suite::{Suite, SuiteError};
use tripmeter_abi::Wait;
use tripmeter_model::exit;
use tripmeter_model::figure::Figure;
use tripmeter_model::folder;
use tripmeter_model::manifest::{Counts, PayloadResult};
use tripmeter_model::metric::Stream;

/// Odd sizes near the borders of words, packets and pages.
const PAYLOADS: [u64; 4] = [17, 4097, 65_537, 1 << 20];
/// Sizes on both sides of these borders, for thorough runs.
const PAYLOADS_NIGHTLY: [u64; 8] = [16, 17, 1 << 10, 4095, 4097, 64 << 10, 65_537, 1 << 20];
/// Sizes of the untouched payload, which takes the same path with less work.
const PAYLOADS_UNTOUCHED: [u64; 2] = [16, 4096];
/// Round trips that exceed every queue, window and acknowledgement interval.
const MANY: u64 = 2000;
const FOLLOWERS: u32 = 3;

pub(super) fn entries(variant: &VariantHere<'_>) -> Vec<PlannedPart> {
    let counts = format!("samples = {SAMPLES}\nwarmup = {WARMUP}\n");
    let sizes: &[u64] = if variant.is_thorough { &PAYLOADS_NIGHTLY } else { &PAYLOADS };
    let touched = format!("{counts}payloads = \"{}\"", variant.payloads(sizes));
    let untouched = format!("{counts}touch = \"none\"\npayloads = \"{}\"", variant.payloads(&PAYLOADS_UNTOUCHED));
    let largest = PAYLOADS_NIGHTLY.into_iter().filter(|size| *size <= 64 << 10 && variant.carries(*size)).max();
    let many = format!("samples = {MANY}\ntouch = \"none\"\npayloads = \"{}\"", largest.unwrap_or(16));
    let mut all: Vec<PlannedPart> = variant.parts("full", variant.waits(true), &touched, check).collect();
    for wait in variant.waits(false).chunks(1) {
        all.extend(variant.parts("none", wait, &untouched, check));
        if variant.has_packet {
            let [written, packets] = ["", "?packet=4096"].map(|set| format!("transport = \"{}{set}\"", variant.name()));
            let parts = variant.parts("packets", wait, &touched, check);
            all.extend(parts.map(|part| PlannedPart { text: part.text.replace(&written, &packets), ..part }));
        }
        all.extend(variant.parts("many", wait, &many, check_many));
    }
    if variant.declared.fan_out {
        let payloads = variant.payloads(&[1024, 65_537]);
        let several = format!("{counts}followers = {FOLLOWERS}\npayloads = \"{payloads}\"");
        all.extend(variant.parts("several", &variant.waits_of_several(), &several, check_several));
    }
    all
}

fn check(faults: &mut Faults, outcome: &PartOutcome<'_>) {
    let (name, plan) = (&outcome.result.name, outcome.plan);
    for cell in &outcome.result.cells {
        check_cell(faults, name, outcome.loses_when_starved(), cell);
        let has_cost = cell.trials.iter().all(|trial| outcome.has_cost(trial));
        faults.check(has_cost, || format!("{}: costs {:?}", outcome.place(cell), cell.trials));
    }
    let rows = faults.value(sample_rows(outcome.results, name));
    let rows: Vec<u64> = rows.iter().map(|row| row.payload_bytes).collect();
    let expected: Vec<u64> = plan.payloads.iter().flat_map(|payload| vec![*payload; SAMPLES as usize]).collect();
    faults.check(rows == expected, || format!("{name}: {} rows of the CSV are not the samples", rows.len()));
    let histograms = outcome.results.join(format!("histograms/{name}.hlog"));
    let histograms = std::fs::read_to_string(histograms).unwrap_or_default();
    for payload in &plan.payloads {
        let lines = histograms.lines().filter(|line| line.starts_with(&format!("Tag=payload_{payload},")));
        faults.check(lines.count() == 1, || format!("{name}: not one histogram of {payload} bytes"));
    }
}

fn check_cell(faults: &mut Faults, name: &str, may_lose: bool, cell: &PayloadResult) {
    let place = format!("{name}, {} bytes", cell.payload_bytes);
    let (counts, received) = (cell.counts(), SAMPLES + WARMUP);
    let lost = if may_lose { counts.lost } else { 0 };
    let expected = Counts { sent: received + lost, received, lost, ..Counts::default() };
    faults.check(counts == expected, || format!("{place}: {counts:?}"));
    let samples = (cell.samples, cell.samples_planned, cell.warmup, &cell.cut_short);
    faults.check(samples == (SAMPLES, SAMPLES, WARMUP, &None), || format!("{place}: samples {samples:?}"));
    let [trial] = &cell.trials[..] else {
        return faults.check(false, || format!("{place}: {} trials", cell.trials.len()));
    };
    let Some(half) = times(trial, Figure::RttHalf) else {
        return faults.check(false, || format!("{place}: no figures"));
    };
    faults.check(half.is_rising() && half.samples == SAMPLES, || format!("{place}: {half:?}"));
    let sum_ns = 2.0 * half.mean * cell.samples as f64;
    faults.check(sum_ns <= cell.duration_ns as f64 * 1.01, || {
        format!("{place}: samples of {sum_ns} ns in {} ns", cell.duration_ns)
    });
}

/// Checks that all round trips were answered.
fn check_many(faults: &mut Faults, outcome: &PartOutcome<'_>) {
    for cell in &outcome.result.cells {
        let counts = cell.counts();
        let lost = if outcome.loses_when_starved() { counts.lost } else { 0 };
        let all = (cell.samples, counts.received, counts.lost);
        faults.check(all == (MANY, MANY + cell.warmup, lost), || format!("{}: {counts:?}", outcome.place(cell)));
    }
}

fn check_several(faults: &mut Faults, outcome: &PartOutcome<'_>) {
    outcome.result.cells.iter().for_each(|cell| check_cell_of_several(faults, outcome, cell));
}

fn check_cell_of_several(faults: &mut Faults, outcome: &PartOutcome<'_>, cell: &PayloadResult) {
    let (name, may_lose) = (&outcome.result.name, outcome.loses_when_starved());
    check_cell(faults, name, may_lose, cell);
    let place = format!("{name}, {} bytes", cell.payload_bytes);
    // A missing trial is a fault that `check_cell` has recorded.
    let (Some(trial), counts) = (cell.trials.first(), cell.counts()) else { return };
    let followers = followers(trial);
    faults.check(followers == [0, 1, 2].map(Stream::follower), || format!("{place}: {followers:?}"));
    let one_way = |stream: &Stream| times_at(trial, stream, Figure::OneWay);
    let (Some(half), Some(last)) = (times(trial, Figure::RttHalf), one_way(&Stream::last())) else {
        return faults.check(false, || format!("{place}: no latency to the last"));
    };
    let is_within = last.mean < 2.0 * half.mean && last.max <= 2.0 * half.max;
    faults.check(is_within, || format!("{place}: {last:?} is not within twice {half:?}"));
    for at in &followers {
        let (here, one_way) = (trial.counts(at), one_way(at));
        faults.check(here == counts || may_lose && counts.lost > 0, || format!("{place}, {at}: {here:?}"));
        let within = one_way.is_some_and(|to| 0.0 < to.min && to.mean <= last.mean && to.max <= last.max);
        faults.check(within, || format!("{place}, {at}: {one_way:?}, last {last:?}"));
    }
}

pub(crate) fn both(suite: &Suite, faults: &mut Faults, variant: &VariantHere<'_>) -> Result<(), SuiteError> {
    let name = variant.name();
    // Four polling threads would take turns on two CPUs.
    let waits = &variant.declared.waits;
    let first = if waits.contains(&Wait::Block) { Some(Wait::Block) } else { waits.first().copied() };
    let Some(wait) = first else { return Ok(()) };
    let folders = [suite.folder()?, suite.folder()?];
    let most = variant.here.max_payload_bytes.map_or(64 << 10, |most| most.min(64 << 10));
    let payloads = format!("16,{most}");
    let mut runs = Vec::new();
    for results in &folders {
        let output = results.path().display().to_string();
        let words = ["ping", "--no-spin", "-q", "--no-floor", &name, "--wait", wait.as_str(), "-o", &output];
        let sizes = ["-n", "200", "--payloads", &payloads, "--touch", "full", "--loss-timeout", "30"];
        runs.push(suite.start(&[&words[..], &sizes, &["--attempts", "1"]].concat())?);
    }
    for (run, results) in runs.into_iter().zip(&folders) {
        let finished = run.wait(suite.longest());
        let good = finished.code() == Some(exit::GOOD.into());
        faults.check(good, || format!("{name}: exit code {:?}\n{}", finished.code(), finished.stderr));
        if good {
            let manifest = folder::read(results.path(), |text| text.into()).map_err(|error| error.to_string());
            let cells = faults.value(manifest.map(|manifest| manifest.sub_experiments));
            let cells = cells.iter().take(1).flat_map(|result| &result.cells);
            cells.for_each(|cell| check_cell(faults, &name, loses_when_starved(&name), cell));
        }
        finished.left().into_iter().for_each(|left| faults.0.push(format!("{name} left {left}")));
    }
    Ok(())
}

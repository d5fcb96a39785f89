//! One-way messages: at full speed, or at a moderate rate where the transport may lose messages.

use crate::entry::{Faults, PartOutcome, PlannedPart, SAMPLES, VariantHere, loses_when_starved};
use crate::figures::{counts, times, value};
use crate::samples::{received_ns, sample_rows};
use tripmeter_abi::{Pattern, Wait};
use tripmeter_model::figure::Figure;
use tripmeter_model::manifest::{Counts, PayloadResult};
use tripmeter_model::samples::SampleRow;

/// Topics, or publishers of one.
const LINKS: u32 = 2;

pub(super) fn entries(variant: &VariantHere<'_>) -> Vec<PlannedPart> {
    if !variant.can(Pattern::Throughput) {
        return Vec::new();
    }
    let rate = if variant.declared.lossy && !loses_when_starved(&variant.name()) { "500" } else { "max" };
    let payloads = variant.payloads(&[16, 4097, 1 << 20]);
    let keys = format!("pattern = \"throughput\"\nsamples = {SAMPLES}\nrate = \"{rate}\"\npayloads = \"{payloads}\"");
    // With one of the waits, messages are timed as well.
    let of = |wait: &Wait| {
        let keys = format!("{keys}\none_way = {}", variant.declared.waits.iter().max() == Some(wait));
        PlannedPart::new(variant, "throughput", *wait, &keys, check)
    };
    let parallel = |kind: &'static str, axis: &str| {
        // Each message of several publishers is one packet.
        let payloads = variant.payloads(&[16, 4097]);
        let keys = format!(
            "pattern = \"throughput\"\nsamples = {SAMPLES}\nrate = \"500\"\npayloads = \"{payloads}\"\n{axis} = {LINKS}\n\
             one_way = true"
        );
        let of = |wait: &Wait| PlannedPart::new(variant, kind, *wait, &keys, check);
        variant.waits(false).iter().map(of).collect::<Vec<_>>()
    };
    let publishers =
        if variant.declared.publishers { parallel("throughput-publishers", "publishers") } else { Vec::new() };
    variant.waits(true).iter().map(of).chain(parallel("throughput-topics", "topics")).chain(publishers).collect()
}

fn check(faults: &mut Faults, outcome: &PartOutcome<'_>) {
    let rows = match outcome.plan.one_way {
        true => faults.value(sample_rows(outcome.results, &outcome.result.name)),
        false => Vec::new(),
    };
    for cell in &outcome.result.cells {
        let rows: Vec<_> = rows.iter().filter(|row| row.payload_bytes == cell.payload_bytes).collect();
        check_trial(faults, outcome, cell, &rows);
    }
}

fn check_trial(faults: &mut Faults, outcome: &PartOutcome<'_>, cell: &PayloadResult, rows: &[&SampleRow]) {
    let place = outcome.place(cell);
    let [trial] = &cell.trials[..] else {
        return faults.check(false, || format!("{place}: {} trials", cell.trials.len()));
    };
    let counts = counts(trial);
    let Counts { sent, received, lost, duplicated, reordered, damaged, .. } = counts;
    let planned = SAMPLES * u64::from(outcome.plan.workload.links());
    let whole = received + lost + damaged == planned && sent == planned;
    faults.check(whole, || format!("{place}: the counts do not add up: {trial:?}"));
    faults.check(lost == 0 || outcome.may_lose, || format!("{place}: {lost} lost"));
    // The loopback may reorder messages that a thread sends from several CPUs.
    let reordered = if outcome.may_lose { 0 } else { reordered };
    let good = duplicated + reordered + damaged == 0;
    faults.check(good && (received > 0 || outcome.may_lose), || format!("{place}: {counts:?}"));
    let [published_hz, received_hz] = [Figure::PublishedRate, Figure::ReceivedRate].map(|of| value(trial, of));
    let rates = published_hz > Some(0.0) && (received_hz > Some(0.0) || outcome.may_lose);
    faults.check(rates && outcome.has_cost(trial), || format!("{place}: {trial:?}"));
    let timed = times(trial, Figure::OneWay).map_or(0, |one_way| if one_way.min > 0.0 { one_way.samples } else { 0 });
    let expected = if outcome.plan.one_way { received } else { 0 };
    faults.check(timed == expected, || format!("{place}: {trial:?}"));
    let arrived = rows.iter().filter(|row| row.status == "ok" && received_ns(row) >= row.sent_ns).count() as u64;
    let all = if outcome.plan.one_way { sent } else { 0 };
    let found = (rows.len() as u64, arrived);
    faults.check(found == (all, expected), || format!("{place}: {found:?} rows of samples: {trial:?}"));
}

//! One-way messages: at full speed, or at a moderate rate where the transport may lose messages.

use crate::entry::{Faults, PartOutcome, PlannedPart, SAMPLES, VariantHere, loses_when_starved};
use crate::figures::{counts, times, value};
use crate::samples::{received_ns, sample_rows};
use tripmeter_model::figure::Figure;
use tripmeter_model::manifest::{Counts, PayloadResult};
use tripmeter_model::samples::SampleRow;

/// Number of topics, or of publishers on one topic.
const LINKS: u32 = 2;

pub(super) fn entries(variant: &VariantHere<'_>) -> Vec<PlannedPart> {
    let rate = if variant.declared.lossy && !loses_when_starved(&variant.name()) { "500" } else { "max" };
    let keys = |rate: &str, sizes: &[u64], more: &str| {
        let payloads = variant.payloads(sizes);
        format!("samples = {SAMPLES}\nrate = \"{rate}\"\npayloads = \"{payloads}\"\n{more}")
    };
    let last = variant.declared.waits.iter().max();
    let mut all = Vec::new();
    for wait in variant.waits(true) {
        // With one of the waits, latency is measured as well.
        let keys = keys(rate, &[16, 4097, 1 << 20], &format!("one_way = {}", last == Some(wait)));
        all.extend(variant.parts("throughput", &[*wait], &keys, check));
    }
    let axes =
        [("throughput-topics", "topics", true), ("throughput-publishers", "publishers", variant.declared.publishers)];
    for (kind, axis, _) in axes.into_iter().filter(|(_, _, can)| *can) {
        // With several publishers, each message must fit into one packet.
        let keys = keys("500", &[16, 4097], &format!("{axis} = {LINKS}\none_way = true"));
        all.extend(variant.parts(kind, variant.waits(false), &keys, check));
    }
    all
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
    // The loopback may reorder messages if the sending thread moves between CPUs.
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

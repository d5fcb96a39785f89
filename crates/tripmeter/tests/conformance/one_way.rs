//! Messages one way, as fast as they go.

use crate::common::{alone, transports};
use crate::{Faults, Here, SAMPLES, carrying, check_outcome, hold_to, sort_out};
use std::fmt::Write;
use std::path::Path;
use tripmeter_abi::Pattern;
use tripmeter_model::manifest::{Cell, Manifest};

/// One-way messages: every wait, everything touched; at a moderate rate where the transport may lose some.
fn one_way_experiment(variants: &[&Here<'_>]) -> String {
    let mut text = format!("floor = false\npattern = \"throughput\"\nsamples = {SAMPLES}\ntouch = \"full\"\n");
    // Where messages get lost, the last ones are waited for; where they do not, the other side may be kept waiting.
    let may_lose = variants.iter().any(|variant| variant.declared.lossy);
    writeln!(text, "loss_timeout_s = {}", if may_lose { "2.0" } else { "15.0" }).unwrap();
    for variant in variants {
        let payloads = variant.payloads(&[16, 4097, 1 << 20]);
        let rate = if variant.declared.lossy { "500" } else { "max" };
        for wait in &variant.declared.waits {
            let name = variant.name();
            writeln!(
                text,
                "[[sub_experiment]]\ntransport = \"{name}\"\nwait = \"{wait}\"\nrate = \"{rate}\"\npayloads = \"{payloads}\""
            )
            .unwrap();
        }
    }
    text
}

/// Checks every cell, which has one trial; returns their number.
fn check_trials(faults: &mut Faults, manifest: &Manifest, results: &Path, lossy: &[&str]) -> usize {
    for (result, plan) in manifest.sub_experiments.iter().zip(&manifest.plan.sub_experiments) {
        let name = check_outcome(faults, result, plan);
        let csv = std::fs::read_to_string(results.join(format!("throughput_{name}.csv"))).unwrap_or_default();
        let rows = csv.lines().count();
        faults.check(rows == 1 + plan.payloads.len(), || format!("{name}: {rows} lines of CSV"));
        let may_lose = lossy.contains(&plan.transport.variant.as_str());
        result.cells.iter().for_each(|cell| check_trial(faults, name, cell, may_lose));
    }
    manifest.sub_experiments.iter().map(|result| result.cells.len()).sum()
}

fn check_trial(faults: &mut Faults, name: &str, cell: &Cell, may_lose: bool) {
    let place = format!("{name}, {} bytes", cell.payload_bytes);
    let [trial] = &cell.trials[..] else {
        return faults.check(false, || format!("{place}: {} trials", cell.trials.len()));
    };
    let arrival = &trial.followers[0];
    let whole = arrival.received + arrival.lost + arrival.damaged == SAMPLES && trial.sent == SAMPLES;
    faults.check(whole, || format!("{place}: the counts do not add up: {trial:?}"));
    faults.check(arrival.lost == 0 || may_lose, || format!("{place}: {} lost", arrival.lost));
    let odd = arrival.duplicated + arrival.reordered + arrival.damaged;
    faults.check(odd == 0 && (arrival.received > 0 || may_lose), || format!("{place}: {arrival:?}"));
    let slower = arrival.received_hz <= trial.published_hz * 1.001;
    faults.check(slower, || format!("{place}: received faster than sent: {trial:?}"));
}

#[test]
fn every_transport_counts_what_arrives_one_way() {
    let _alone = alone();
    let known = transports();
    let variants = carrying(sort_out(&known).0, Pattern::Throughput);
    hold_to("one way", &variants, one_way_experiment, check_trials);
}

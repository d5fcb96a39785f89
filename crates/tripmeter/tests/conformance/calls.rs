//! Calls by several clients.

use crate::common::{alone, transports};
use crate::{Faults, Here, carrying, check_outcome, hold_to, sort_out};
use std::fmt::Write;
use std::path::Path;
use tripmeter_abi::Pattern;
use tripmeter_model::manifest::{Cell, Manifest};
use tripmeter_model::rpc::{CallCounts, Mode};

/// Clients in the part for calls.
const CLIENTS: u64 = 3;
/// Calls of each.
const CALLS: u64 = 40;

/// Calls by several clients: every wait and both modes, everything touched.
fn rpc_experiment(variants: &[&Here<'_>]) -> String {
    let mut text =
        format!("floor = false\npattern = \"rpc\"\nclients = \"{CLIENTS}\"\nsamples = {CALLS}\nwarmup = 5\n");
    text += "touch = \"full\"\nloss_timeout_s = 15.0\n";
    for variant in variants {
        let payloads = variant.payloads(&[16, 4097]);
        let name = variant.name();
        for wait in &variant.declared.waits {
            let entry =
                format!("[[sub_experiment]]\ntransport = \"{name}\"\nwait = \"{wait}\"\npayloads = \"{payloads}\"\n");
            writeln!(text, "{entry}{entry}mode = \"fixed-freq\"\nrate = \"500\"").unwrap();
        }
    }
    text
}

/// Checks every cell, which has one trial; returns their number.
fn check_rpc(faults: &mut Faults, manifest: &Manifest, results: &Path) -> usize {
    for (result, plan) in manifest.sub_experiments.iter().zip(&manifest.plan.sub_experiments) {
        let name = check_outcome(faults, result, plan);
        let csv = std::fs::read_to_string(results.join(format!("rpc_{name}.csv"))).unwrap_or_default();
        let rows = csv.lines().count() as u64;
        let expected = 1 + plan.payloads.len() as u64 * CLIENTS * CALLS;
        faults.check(rows == expected, || format!("{name}: {rows} lines of CSV, not {expected}"));
        let is_paced = plan.rpc.as_ref().is_some_and(|calls| calls.mode == Mode::FixedFreq);
        result.cells.iter().for_each(|cell| check_calls(faults, name, cell, is_paced, result.same_process));
    }
    manifest.sub_experiments.iter().map(|result| result.cells.len()).sum()
}

fn check_calls(faults: &mut Faults, name: &str, cell: &Cell, is_paced: bool, same_process: bool) {
    let place = format!("{name}, {} bytes", cell.payload_bytes);
    let [trial] = &cell.rpc[..] else {
        return faults.check(false, || format!("{place}: {} trials", cell.rpc.len()));
    };
    let all = CLIENTS * CALLS;
    let good = CallCounts { made: all, succeeded: all, ..CallCounts::default() };
    faults.check(trial.counts == good, || format!("{place}: {trial:?}"));
    let paced = [trial.pace.is_some(), trial.response_rtt_ns.is_some(), trial.lateness_ns.is_some()];
    faults.check(paced == [is_paced; 3], || format!("{place}: {trial:?}"));
    let Some(service) = trial.service_rtt_ns else { return faults.check(false, || format!("{place}: no figures")) };
    for one in trial.response_rtt_ns.into_iter().chain([service]) {
        let rising = 0.0 < one.min && one.min <= one.median && one.median <= one.p90 && one.p90 <= one.p99;
        let rising = rising && one.p99 <= one.p999 && one.p999 <= one.max && one.min <= one.mean && one.mean <= one.max;
        faults.check(rising && one.samples == all, || format!("{place}: {one:?}"));
    }
    let longer = trial.response_rtt_ns.is_none_or(|response| response.mean >= service.mean);
    faults.check(longer, || format!("{place}: {trial:?}"));
    // No client makes a call before the one before has ended.
    let calling_ns = service.mean * all as f64;
    faults.check(calling_ns <= (trial.duration_ns * CLIENTS) as f64 * 1.01, || format!("{place}: {trial:?}"));
    let used = trial.client.cpu_time_ns > 0 && trial.client.peak_memory_bytes > 0;
    faults.check(used && trial.server.is_none() == same_process, || format!("{place}: {trial:?}"));
}

#[test]
fn every_transport_answers_the_calls_of_several_clients() {
    let _alone = alone();
    let known = transports();
    let variants = carrying(sort_out(&known).0, Pattern::Rpc);
    hold_to("calls", &variants, rpc_experiment, |faults, manifest, results, _| check_rpc(faults, manifest, results));
}

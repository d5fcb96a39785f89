//! Calls by several clients: in a closed loop by every wait, at a fixed rate and in bursts. Round trips at a rate.

use crate::conformance::{Entry, Faults, Here, Outcome};
use tripmeter_abi::Pattern;
use tripmeter_model::manifest::Cell;
use tripmeter_model::rpc::{CallCounts, RpcTrial};

/// Clients.
const CLIENTS: u64 = 3;
/// Calls of each.
const CALLS: u64 = 40;

pub(super) fn entries(variant: &Here<'_>) -> Vec<Entry> {
    let payloads = variant.payloads(&[16, 4097]);
    let round_trips =
        format!("rate = \"500\"\none_way = true\nsamples = {CALLS}\nwarmup = 5\npayloads = \"{payloads}\"\n");
    let waits = if variant.can(Pattern::PingPong) { variant.waits(true) } else { &[] };
    let round_trips: Vec<Entry> =
        waits.iter().map(|wait| Entry::new(variant, "paced-trips", *wait, &round_trips, check)).collect();
    if !variant.can(Pattern::Rpc) {
        return round_trips;
    }
    let keys = format!(
        "pattern = \"rpc\"\nclients = \"{CLIENTS}\"\nsamples = {CALLS}\nwarmup = 5\npayloads = \"{payloads}\"\n"
    );
    let paced = "mode = \"fixed-freq\"\nrate = \"500\"\ndemand = \"4\"\nrecovery_ms = \"8\"\none_way = true\n";
    let paced = format!("{keys}{paced}");
    let closed = variant.waits(true).iter().map(|wait| Entry::new(variant, "rpc", *wait, &keys, check));
    let paced = variant.waits(false).iter().map(|wait| Entry::new(variant, "paced", *wait, &paced, check));
    round_trips.into_iter().chain(closed).chain(paced).collect()
}

fn check(faults: &mut Faults, outcome: &Outcome<'_>) {
    let (name, plan) = (&outcome.result.name, outcome.plan);
    let rows = outcome.file("rpc").lines().count() as u64;
    let trials = plan.workload.loads.len();
    let expected = 1 + (plan.payloads.len() * trials) as u64 * u64::from(plan.workload.links()) * CALLS;
    faults.check(rows == expected, || format!("{name}: {rows} lines of CSV, not {expected}"));
    for cell in &outcome.result.cells {
        let made = cell.rpc.len();
        faults.check(made == trials, || format!("{}: {made} trials", outcome.place(cell)));
        cell.rpc.iter().for_each(|trial| check_calls(faults, outcome, cell, trial));
    }
}

fn check_calls(faults: &mut Faults, outcome: &Outcome<'_>, cell: &Cell, trial: &RpcTrial) {
    let place = format!("{}, {}", outcome.place(cell), trial.load());
    let clients = u64::from(outcome.plan.workload.links());
    let all = clients * CALLS;
    let timed_out = if outcome.loses_when_starved() { trial.counts.timed_out } else { 0 };
    let succeeded = all - timed_out;
    let good = CallCounts { made: all, succeeded, timed_out, ..CallCounts::default() };
    faults.check(trial.counts == good, || format!("{place}: {trial:?}"));
    let is_paced = !outcome.plan.workload.is_closed();
    let paced = [trial.pace.is_some(), trial.response_rtt_ns.is_some(), trial.lateness_ns.is_some()];
    faults.check(paced == [is_paced; 3], || format!("{place}: {trial:?}"));
    let Some(service) = trial.service_rtt_ns else { return faults.check(false, || format!("{place}: no figures")) };
    for one in trial.response_rtt_ns.into_iter().chain([service]) {
        let rising = 0.0 < one.min && one.min <= one.median && one.median <= one.p90 && one.p90 <= one.p99;
        let rising = rising && one.p99 <= one.p999 && one.p999 <= one.max && one.min <= one.mean && one.mean <= one.max;
        faults.check(rising && one.samples == succeeded, || format!("{place}: {one:?}"));
    }
    let timed = trial.one_way_ns.is_some() == outcome.plan.one_way && trial.one_way_missing == 0;
    let within = trial.one_way_ns.is_none_or(|one| {
        0.0 < one.min && one.min <= service.min && one.mean < service.mean && one.samples == succeeded
    });
    faults.check(timed && within, || format!("{place}: {trial:?}"));
    let longer = trial.response_rtt_ns.is_none_or(|response| response.mean >= service.mean);
    faults.check(longer, || format!("{place}: {trial:?}"));
    // No client makes a call before the one before has ended.
    let calling_ns = service.mean * succeeded as f64;
    faults.check(calling_ns <= (trial.duration_ns * clients) as f64 * 1.01, || format!("{place}: {trial:?}"));
    let used = trial.client.cpu_time_ns > 0 && trial.client.peak_memory_bytes > 0;
    let is_followed = trial.server.is_none() == outcome.result.same_process;
    faults.check(used && is_followed, || format!("{place}: {trial:?}"));
}

//! Calls by several clients, in a closed loop, at a fixed rate and in bursts. Round trips at a fixed rate, and by
//! several clients.

use crate::entry::{Faults, PartOutcome, PlannedPart, VariantHere};
use crate::figures::{count, counts, times, value};
use crate::samples::sample_rows;
use tripmeter_model::figure::Figure;
use tripmeter_model::manifest::{Counts, PayloadResult};
use tripmeter_model::trial::Trial;

const CLIENTS: u64 = 3;
/// Calls per client.
const CALLS: u64 = 40;

fn keys(variant: &VariantHere<'_>) -> String {
    format!("samples = {CALLS}\nwarmup = 5\npayloads = \"{}\"\n", variant.payloads(&[16, 4097]))
}

pub(super) fn round_trips(variant: &VariantHere<'_>) -> Vec<PlannedPart> {
    let keys = keys(variant);
    let paced = format!("{keys}rate = \"500\"\none_way = true");
    let parallel = format!("{keys}clients = \"{CLIENTS}\"");
    let paced = variant.parts("paced-trips", variant.waits(true), &paced, check);
    paced.chain(variant.parts("parallel-trips", variant.waits(false), &parallel, check)).collect()
}

pub(super) fn entries(variant: &VariantHere<'_>) -> Vec<PlannedPart> {
    let keys = format!("{}clients = \"{CLIENTS}\"\n", keys(variant));
    let paced = "mode = \"fixed-freq\"\nrate = \"500\"\ndemand = \"4\"\nrecovery_ms = \"8\"\none_way = true";
    let paced = format!("{keys}{paced}");
    let closed = variant.parts("call", variant.waits(true), &keys, check);
    closed.chain(variant.parts("paced", variant.waits(false), &paced, check)).collect()
}

fn check(faults: &mut Faults, outcome: &PartOutcome<'_>) {
    let (name, plan) = (&outcome.result.name, outcome.plan);
    let rows = faults.value(sample_rows(outcome.results, name)).len() as u64;
    let trials = plan.workload.loads.len();
    let expected = (plan.payloads.len() * trials) as u64 * u64::from(plan.workload.links()) * CALLS;
    faults.check(rows == expected, || format!("{name}: {rows} rows of samples, not {expected}"));
    for cell in &outcome.result.cells {
        let made = cell.trials.len();
        faults.check(made == trials, || format!("{}: {made} trials", outcome.place(cell)));
        cell.trials.iter().for_each(|trial| check_calls(faults, outcome, cell, trial));
    }
}

fn check_calls(faults: &mut Faults, outcome: &PartOutcome<'_>, cell: &PayloadResult, trial: &Trial) {
    let place = format!("{}, {}", outcome.place(cell), trial.load);
    let clients = u64::from(outcome.plan.workload.links());
    let all = clients * CALLS;
    let timed_out = if outcome.loses_when_starved() { count(trial, Figure::TimedOut) } else { 0 };
    let succeeded = all - timed_out;
    let good = Counts { sent: all, received: succeeded, lost: timed_out, ..Counts::default() };
    faults.check(value(trial, Figure::Failed) == Some(0.0) && counts(trial) == good, || format!("{place}: {trial:?}"));
    let is_paced = !outcome.plan.workload.is_closed();
    let [response, service, lateness, one_way] =
        [Figure::ResponseRtt, Figure::ServiceRtt, Figure::Lateness, Figure::OneWay].map(|of| times(trial, of));
    let paced = [value(trial, Figure::AchievedRate).is_some(), response.is_some(), lateness.is_some()];
    faults.check(paced == [is_paced; 3], || format!("{place}: {trial:?}"));
    let Some(service) = service else { return faults.check(false, || format!("{place}: no figures")) };
    let half = times(trial, Figure::RttHalf);
    let has_half = outcome.plan.are_round_trips() && !is_paced;
    let is_half =
        half.map_or(!has_half, |half| has_half && (half.mean * 2.0 - service.mean).abs() <= service.mean / 1e6);
    faults.check(is_half, || format!("{place}: {trial:?}"));
    for one in response.into_iter().chain([service]) {
        faults.check(one.is_rising() && one.samples == succeeded, || format!("{place}: {one:?}"));
    }
    let timed = one_way.is_some() == outcome.plan.one_way && count(trial, Figure::OneWayMissing) == 0;
    let within = one_way.is_none_or(|one| {
        0.0 < one.min && one.min <= service.min && one.mean < service.mean && one.samples == succeeded
    });
    faults.check(timed && within, || format!("{place}: {trial:?}"));
    let longer = response.is_none_or(|response| response.mean >= service.mean);
    faults.check(longer, || format!("{place}: {trial:?}"));
    // Each client makes its next call only after the one before has ended.
    let calling_ns = service.mean * succeeded as f64;
    faults.check(calling_ns <= (count(trial, Figure::Duration) * clients) as f64 * 1.01, || {
        format!("{place}: {trial:?}")
    });
    faults.check(outcome.has_cost(trial), || format!("{place}: {trial:?}"));
}

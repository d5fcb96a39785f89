//! Messages at a fixed rate and in bursts: on several topics, from several publishers, to several followers.

use crate::entry::{Faults, PartOutcome, PlannedPart, VariantHere};
use crate::figures::{LatencyFigures, count, counts, followers, publishers, times, times_at};
use crate::samples::sample_rows;
use tripmeter_model::figure::Figure;
use tripmeter_model::manifest::{Counts, PayloadResult};
use tripmeter_model::metric::Stream;
use tripmeter_model::trial::Trial;

/// Topics of the part at a fixed rate.
const TOPICS: u64 = 3;
/// Messages per topic or publisher.
const PUBLISHED: u64 = 40;
/// Publishers of one topic.
const PUBLISHERS: u64 = 2;
const FOLLOWERS: u32 = 3;
/// Messages per second: a slow rate, and three that send all 40 messages as a burst within 2 ms.
const RATES: &str = "500,20000,21000,22000";
/// Longest sleep between two polls of a receive call, in nanoseconds. A message that has arrived must not wait for it.
const LOOKING_NS: f64 = 50e6;

pub(super) fn entries(variant: &VariantHere<'_>) -> Vec<PlannedPart> {
    let payloads = variant.payloads(&[16, 4097]);
    let keys = format!("samples = {PUBLISHED}\nwarmup = 5\npayloads = \"{payloads}\"\n");
    let topics = format!("{keys}topics = {TOPICS}\nrate = \"{RATES}\"");
    let mut all: Vec<PlannedPart> = variant.parts("publish", variant.waits(true), &topics, check).collect();
    if variant.declared.publishers {
        let publishers = format!("{keys}publishers = {PUBLISHERS}\nrate = \"500\"");
        all.extend(variant.parts("publishers", variant.waits(false), &publishers, check_publishers));
    }
    if variant.declared.fan_out {
        let followers = format!("{keys}followers = {FOLLOWERS}\ntopics = 2\nrate = \"500\"");
        all.extend(variant.parts("subscribers", &variant.waits_of_several(), &followers, check_followers));
    }
    all
}

fn check(faults: &mut Faults, outcome: &PartOutcome<'_>) {
    let (name, plan) = (&outcome.result.name, outcome.plan);
    let rates = plan.workload.loads.len();
    let rows = faults.value(sample_rows(outcome.results, name)).len() as u64;
    let expected = plan.payloads.len() as u64 * rates as u64 * u64::from(plan.workload.links()) * PUBLISHED;
    faults.check(rows == expected, || format!("{name}: {rows} rows of samples, not {expected}"));
    for cell in &outcome.result.cells {
        let trials = cell.trials.len();
        faults.check(trials == rates, || format!("{}: {trials} trials", outcome.place(cell)));
        cell.trials.iter().for_each(|trial| check_flow(faults, outcome, cell, trial));
    }
    let least = |is_burst: bool, of: fn(LatencyFigures) -> f64| {
        let trials = outcome.result.cells.iter().flat_map(|cell| &cell.trials);
        let of_kind = trials.filter(move |trial| (trial.load.hz() > Some(500.0)) == is_burst);
        of_kind.filter_map(|trial| times(trial, Figure::Service).map(of)).reduce(f64::min)
    };
    // The least values count: a busy machine delays the slow rate as well, or not all six bursts. If only the last
    // message of a burst waits, only the maximum shows it.
    let median: fn(LatencyFigures) -> f64 = |time| time.median;
    for (figure, of) in [("median", median), ("max", |time| time.max)] {
        if let (Some(slow), Some(burst)) = (least(false, of), least(true, of)) {
            let waits = slow < LOOKING_NS / 10.0 && burst >= LOOKING_NS * 0.9;
            let what = || format!("{name}: messages of a burst wait for a time-out: {figure} {burst} ns, {slow} ns");
            faults.check(!waits, what);
        }
    }
}

fn check_flow(faults: &mut Faults, outcome: &PartOutcome<'_>, cell: &PayloadResult, trial: &Trial) {
    let (place, may_lose) = (outcome.place(cell), outcome.may_lose);
    let Counts { sent, received, lost, late, duplicated, reordered, damaged } = counts(trial);
    // A burst may fill a buffer before the first message of a topic; at the slow rate every topic arrives.
    let is_burst = trial.load.hz() > Some(500.0);
    let topics = outcome.plan.workload.topology.topics;
    let is_lost = |topic: u32| trial.counts(&Stream::topic(&topic.to_string())).received == 0;
    let lost_topics = (0..topics).filter(|topic| topics > 1 && is_lost(*topic)).count();
    faults.check(is_burst || (received > 0 && lost_topics == 0), || format!("{place}: a topic is lost: {trial:?}"));
    let published = u64::from(outcome.plan.workload.links()) * PUBLISHED;
    let whole = sent == published && received + lost + late + damaged == sent;
    faults.check(whole, || format!("{place}: the counts do not add up: {trial:?}"));
    // The loopback may reorder messages if the sending thread moves between CPUs.
    let before_sent = count(trial, Figure::BeforeSent);
    let odd = duplicated + damaged + before_sent + if may_lose { 0 } else { reordered };
    faults.check(odd == 0, || format!("{place}: {trial:?}"));
    faults.check(lost + late == 0 || may_lose, || format!("{place}: {trial:?}"));
    let [Some(response), Some(service), Some(lateness)] =
        [Figure::Response, Figure::Service, Figure::Lateness].map(|of| times(trial, of))
    else {
        return faults.check(may_lose && is_burst, || format!("{place}: no figures"));
    };
    // A message that was received before it was sent, as a duplicate can be, has no latency.
    let timed = received - before_sent;
    let counted = (response.samples, service.samples, lateness.samples) == (timed, timed, sent);
    faults.check(counted, || format!("{place}: samples of {trial:?}"));
    for one in [response, service] {
        faults.check(one.is_rising(), || format!("{place}: {one:?}"));
    }
    faults.check(response.mean >= service.mean, || format!("{place}: {response:?}, {service:?}"));
    faults.check(outcome.has_cost(trial), || format!("{place}: {trial:?}"));
}

/// Also checks that the counts of the publishers add up to the total.
fn check_publishers(faults: &mut Faults, outcome: &PartOutcome<'_>) {
    for trial in outcome.result.cells.iter().flat_map(|cell| &cell.trials) {
        let publishers = publishers(trial);
        let sum = publishers.iter().map(|one| trial.counts(one)).fold(Counts::default(), |sum, one| sum + one);
        let rate_hz = |one| trial.value(one, Figure::AchievedRate);
        let each = publishers.iter().all(|one| trial.counts(one).sent == PUBLISHED && rate_hz(one) > Some(0.0));
        let whole = publishers.len() as u64 == PUBLISHERS && each && sum == counts(trial);
        faults.check(whole, || format!("{}: {trial:?}", outcome.result.name));
    }
    check(faults, outcome);
}

/// Also checks that each follower received every message counted as received, and not later than the latency recorded
/// for all followers.
fn check_followers(faults: &mut Faults, outcome: &PartOutcome<'_>) {
    for trial in outcome.result.cells.iter().flat_map(|cell| &cell.trials) {
        let what = || format!("{}: {trial:?}", outcome.result.name);
        let (followers, all) = (followers(trial), counts(trial));
        faults.check(followers == (0..FOLLOWERS).map(Stream::follower).collect::<Vec<_>>(), what);
        for at in &followers {
            let Counts { sent, received, lost, late, damaged, .. } = trial.counts(at);
            let whole = sent == all.sent && received + lost + late + damaged == sent;
            faults.check(whole && received >= all.received, what);
            let [here, last] = [at, &Stream::all()].map(|stream| times_at(trial, stream, Figure::Service));
            if let (Some(here), Some(last), 0) = (here, last, sent - all.received) {
                let earlier = here.min <= last.min && here.mean <= last.mean * (1.0 + 1e-9) && here.max <= last.max;
                faults.check(earlier, what);
            }
        }
    }
    check(faults, outcome);
}

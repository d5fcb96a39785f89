//! Time limits for the work at a payload, from its plan.

use crate::measure::MOST_SILENT;
use crate::worker::search::MOST_TRIALS;
use std::time::Duration;
use tripmeter_model::pattern::TrialEnd;
use tripmeter_model::plan::{Plan, SubExperiment};

/// Time to probe a payload, and to sort and write its samples: a minimum, plus the time per sample.
const LEAST_WRITING_TIME: Duration = Duration::from_secs(60);
const SAMPLE_WRITING_TIME: Duration = Duration::from_micros(6);
/// Samples assumed for a trial without a number of messages.
const SAMPLES_OF_A_DURATION: u64 = 100_000_000;

/// Most samples of a trial between one sender and one receiver.
fn most_samples(plan: &SubExperiment) -> u64 {
    plan.samples_above.iter().map(|above| above.samples).chain([plan.samples]).max().unwrap_or(0)
}

/// Most samples kept at once between a sender and a receiver: of all trials, or of one if trials end by bounds.
fn most_kept(plan: &SubExperiment) -> u64 {
    match plan.trial_end() == Some(TrialEnd::Bounds) {
        true => plan.workload.most_messages.unwrap_or(SAMPLES_OF_A_DURATION),
        false => most_samples(plan).saturating_mul(plan.workload.loads.len() as u64),
    }
}

/// Time to probe a payload, and to sort and write its samples.
pub(super) fn writing_time(plan: &SubExperiment) -> Duration {
    let (followers, links) = (u64::from(plan.workload.followers().max(1)), u64::from(plan.workload.links().max(1)));
    let streams = followers.saturating_mul(links);
    let samples = match plan.workload.recorded {
        Some(recorded) => recorded.messages.saturating_mul(followers),
        None => most_kept(plan).saturating_mul(streams),
    };
    let each = SAMPLE_WRITING_TIME.saturating_mul(u32::try_from(samples).unwrap_or(u32::MAX));
    LEAST_WRITING_TIME.saturating_add(each)
}

/// Longest time that the messages of one payload may take. It is the time cap, else the durations of the trials, else the
/// time if each message came just before it counts as lost.
pub(super) fn longest_payload(run: &Plan, plan: &SubExperiment) -> Duration {
    if let Some(cap_ns) = plan.time_cap_ns {
        return Duration::from_nanos(cap_ns);
    }
    let workload = &plan.workload;
    if plan.trial_end() == Some(TrialEnd::Bounds) {
        let trials = u32::try_from(workload.loads.len() * MOST_TRIALS).unwrap_or(u32::MAX);
        // Each message may wait until the transport counts as permanently full.
        let each = Duration::from_nanos(run.loss_timeout_ns_of(plan)).saturating_mul(MOST_SILENT);
        let each = each.saturating_add(longest_pause(plan)).as_secs_f64();
        let trial = match (workload.duration_ns, workload.most_messages) {
            (Some(ns), _) => Duration::from_nanos(ns),
            (None, messages) => {
                let seconds = messages.unwrap_or(u64::MAX) as f64 * each;
                Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
            }
        };
        return trial.saturating_mul(trials);
    }
    let each = Duration::from_nanos(run.loss_timeout_ns_of(plan)).saturating_add(longest_pause(plan));
    let messages = most_samples(plan).saturating_add(plan.warmup);
    let seconds = messages as f64 * workload.loads.len() as f64 * each.as_secs_f64();
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// Longest planned time between two messages.
pub(super) fn longest_pause(plan: &SubExperiment) -> Duration {
    let recorded = plan.workload.recorded.map(|recorded| recorded.duration_ns as f64);
    let longest = plan.workload.loads.iter().map(|load| load.gap_ns()).chain(recorded).fold(0.0, f64::max) / 1e9;
    Duration::try_from_secs_f64(longest).unwrap_or(Duration::MAX / 4)
}

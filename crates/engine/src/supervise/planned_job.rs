//! Job of a leader, and CPUs of both sides.

use super::state::Run;
use crate::files::rest::last_trial;
use crate::registry::Entry;
use crate::scratch::Part;
use crate::wire::{EarlierPayloads, Job, OtherHosts, PlannedCpus};
use std::path::Path;
use tripmeter_abi::Variant;
use tripmeter_model::folder_handle::FolderIdentity;
use tripmeter_model::plan::SubExperiment;

/// CPU of each follower; `None` if the kernel chooses.
fn follower_cpus(run: &Run<'_>, plan: &SubExperiment) -> Vec<Option<usize>> {
    match plan.workload.is_fan_out() {
        true => {
            (0..plan.workload.followers() as usize).map(|follower| plan.follower_cpus.get(follower).copied()).collect()
        }
        false => vec![run.plan.follower_cpu],
    }
}

/// CPUs that the leader or a follower must use; `None` if the kernel chooses among all.
pub(super) fn planned_cpus(run: &Run<'_>, plan: &SubExperiment, follower: Option<usize>) -> Option<Vec<usize>> {
    let bound = match follower {
        None => run.plan.leader_cpu,
        Some(index) => follower_cpus(run, plan).get(index).copied().flatten(),
    };
    let confined = Some(run.plan.cpus.clone()).filter(|cpus| !cpus.is_empty());
    confined.or_else(|| bound.map(|cpu| vec![cpu]))
}

/// Variant of the transport, if its system has it.
pub(super) fn variant<'a>(plan: &SubExperiment, entry: &'a Entry) -> Option<&'a Variant> {
    entry.describe().ok()?.variant(&plan.transport.variant)
}

/// True if the followers are threads of the leader.
pub(super) fn is_same_process(plan: &SubExperiment, entry: &Entry) -> bool {
    variant(plan, entry).is_some_and(|variant| variant.same_process)
}

pub(super) fn job(
    run: &Run<'_>,
    plan: &SubExperiment,
    entry: &Entry,
    part: &Part,
    results: FolderIdentity,
    round: u32,
) -> Job {
    let kept = run.manifest.sub_experiments.last().map_or(&[][..], |result| &result.cells);
    Job {
        sub_experiment: plan.clone(),
        done: EarlierPayloads {
            payloads: kept.iter().map(|cell| cell.payload_bytes).collect(),
            trials: last_trial(kept),
        },
        plugin: entry.plugin_file().map(Path::to_path_buf),
        run_id: part.run_id.clone(),
        scratch_dir: part.folder.clone(),
        results,
        round,
        controls: (0..plan.workload.followers())
            .map(|follower| part.folder.join(format!("control-{follower}")))
            .collect(),
        schedule: run.plan.recording.as_ref().map(|recording| recording.schedule.clone()),
        timebase: run.calibration.timebase,
        raw: run.plan.raw_of(plan),
        streams: run.plan.streams,
        attempts: run.plan.attempts,
        loss_timeout_ns: run.plan.loss_timeout_ns_of(plan),
        cpus: PlannedCpus {
            leader: run.plan.leader_cpu,
            followers: follower_cpus(run, plan),
            all: run.plan.cpus.clone(),
        },
        hosts: OtherHosts {
            local_address: run.met.first().map(|host| host.connection.leader),
            names: run.met.iter().map(|host| host.to.clone()).collect(),
            addresses: run.met.iter().map(|host| host.connection.follower).collect(),
        },
        max_clock_error_ns: run.plan.max_clock_error_ns,
    }
}

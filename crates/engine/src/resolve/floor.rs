//! Floor: our own zero-copy reference, measured with the same messages beside other transports.

use super::error::PlanError;
use super::planner::{Candidate, Planner, ResolvedSubExperiment};
use super::task::PlannedTask;
use super::transport;
use tripmeter_model::plan::SubExperiment;
use tripmeter_model::transport::Selector;

const FLOOR: &str = "shm";

/// Adds floors to the plan: a sub-experiment for each task in `made`, with the payloads that have no floor yet. A floor
/// that cannot be measured is left out.
pub(super) fn add(planner: &mut Planner, made: &[ResolvedSubExperiment]) {
    // Another host does not share memory.
    if !planner.plan.hosts.is_empty() {
        return;
    }
    let Some(entry) = planner.registry.entries().iter().find(|entry| entry.system() == FLOOR) else { return };
    let Ok(description) = entry.describe() else { return };
    let Ok(variants) = transport::variants(description, None) else { return };
    let Some(variant) = variants.into_iter().next() else { return };
    let candidate = Candidate { entry, description, variant };
    let selector = Selector { system: FLOOR.to_owned(), variant: None, settings: Default::default() };
    let mut floors: Vec<SubExperiment> = Vec::new();
    for task in tasks(made) {
        let has_floor = |payload: &u64| {
            let others = made.iter().map(|made| &made.sub_experiment).chain(&floors);
            others.filter(|other| other.transport.system == FLOOR).any(|other| {
                let same_work = other.pattern == task.pattern && other.workload == task.workload;
                let same_way = Some(other.wait) == task.wait && other.touch == task.touch;
                let same_way = same_way && (other.sched, other.background) == (task.sched, task.background);
                same_work && same_way && other.payloads.contains(payload)
            })
        };
        let payloads: Vec<u64> = task.payloads.iter().copied().filter(|payload| !has_floor(payload)).collect();
        let can_wait = task.wait.is_some_and(|wait| variant.waits.contains(&wait));
        let can_publish = task.workload.publishers() == 1 || variant.publishers;
        if payloads.is_empty() || !can_wait || !can_publish || !variant.patterns.contains(&task.pattern) {
            continue;
        }
        match planner.make(&candidate, &selector, &PlannedTask { payloads, ..task.clone() }) {
            Ok(floor) => floors.push(floor),
            Err(problem) => planner.plan.left_out.push(PlanError::at("shm as the floor", problem).to_string()),
        }
    }
    for (index, floor) in floors.iter().enumerate() {
        let mut floor = floor.clone();
        let is_second = floors[..index].iter().any(|other| other.name == floor.name);
        let number = if is_second { format!("{}_", index + 1) } else { String::new() };
        floor.added_as_floor = true;
        floor.name = format!("floor_{number}{}", floor.name);
        floor.title = "FLOOR".to_owned();
        planner.plan.sub_experiments.push(floor);
    }
}

/// Distinct tasks, each with the payloads of all of its sub-experiments.
fn tasks(made: &[ResolvedSubExperiment]) -> Vec<PlannedTask> {
    let mut tasks: Vec<PlannedTask> = Vec::new();
    for ResolvedSubExperiment { sub_experiment: one, .. } in made {
        let new = PlannedTask {
            pattern: one.pattern,
            payloads: one.payloads.clone(),
            samples: one.samples,
            samples_above: one.samples_above.clone(),
            warmup: one.warmup,
            one_way: one.one_way,
            has_clients: one.workload.is_call(),
            time_cap_ns: one.time_cap_ns,
            workload: one.workload.clone(),
            wait: Some(one.wait),
            touch: one.touch,
            sched: one.sched,
            background: one.background,
        };
        let others = PlannedTask { payloads: Vec::new(), ..new.clone() };
        let is_same = |task: &mut PlannedTask| {
            let payloads = std::mem::take(&mut task.payloads);
            let is_same = *task == others;
            task.payloads = payloads;
            is_same
        };
        match tasks.iter_mut().position(is_same) {
            Some(place) => {
                let task = &mut tasks[place];
                let more = new.payloads.into_iter().filter(|payload| !task.payloads.contains(payload));
                let more: Vec<u64> = more.collect();
                task.payloads.extend(more);
            }
            None => tasks.push(new),
        }
    }
    tasks
}

//! Names of sub-experiments.

use super::error::{AtTransport, PlanError, Problem};
use std::collections::HashMap;
use tripmeter_model::Touch;
use tripmeter_model::interference::BackgroundLoad;
use tripmeter_model::name::{self, is_name, is_name_byte};
use tripmeter_model::pattern::Axis;
use tripmeter_model::plan::{Plan, SubExperiment};

pub(super) fn check_name(name: &str) -> Result<(), Problem> {
    if is_name(name) { Ok(()) } else { Err(Problem::Name(name.to_owned())) }
}

/// Builds `system_variant[_key-value...]_wait[_touch][_pattern][_mode | _bursts][_topics-n | _publishers-n |
/// _recording | _topics][_clients-n][_followers-n][_sched][_background]`.
///
/// Between hosts no message uses the loopback, so a variant named `loopback` is left out of the name.
pub(super) fn default_name(sub_experiment: &SubExperiment, plan: &Plan) -> String {
    let transport = &sub_experiment.transport;
    let mut name = transport.system.clone();
    if plan.hosts.is_empty() || transport.variant != "loopback" {
        name += &format!("_{}", transport.variant);
    }
    for (key, value) in &transport.given {
        name += &format!("_{key}-{value}");
    }
    name += &format!("_{}", sub_experiment.wait);
    if sub_experiment.touch != Touch::None {
        name += &format!("_{}", sub_experiment.touch);
    }
    let (workload, are_round_trips) = (&sub_experiment.workload, sub_experiment.are_round_trips());
    if !are_round_trips {
        name += &format!("_{}", sub_experiment.pattern);
    }
    // A call loop of one client, unlike the loop of round trips without `--clients`.
    let is_of_one_client = are_round_trips && workload.is_call() && workload.is_closed();
    if workload.is_timed() && workload.has_bursts() {
        name += "_bursts";
    } else if workload.is_call() && !workload.is_closed() && !workload.is_recorded() {
        name += &format!("_{}", workload.mode());
    }
    if let Some(recording) = &plan.recording {
        name += if recording.has_file() { "_recording" } else { "_topics" };
    }
    for axis in Axis::ALL {
        // The name does not have the number of a recording's topics or clients.
        let is_said = axis != Axis::Followers && plan.recording.is_some();
        let number = axis.number(&workload.topology);
        if !is_said && (number > 1 || (axis == Axis::Clients && is_of_one_client)) {
            name += &format!("_{axis}-{number}");
        }
    }
    if !sub_experiment.sched.is_other() {
        name += &format!("_{}", sub_experiment.sched).replace(':', "-");
    }
    name += &background_suffix(sub_experiment.background);
    name.bytes().map(|byte| if is_name_byte(byte) { byte as char } else { '-' }).take(name::MOST_BYTES).collect()
}

/// Suffix of a name for a background load, such as `_background-cpu-1-memory`; empty without one.
pub(super) fn background_suffix(load: BackgroundLoad) -> String {
    if load.is_none() { String::new() } else { format!("_background-{load}").replace([':', ','], "-") }
}

pub(super) fn check_names(sub_experiments: &[SubExperiment]) -> Result<(), PlanError> {
    let mut taken: HashMap<&str, &SubExperiment> = HashMap::new();
    for sub_experiment in sub_experiments {
        if let Some(other) = taken.insert(&sub_experiment.name, sub_experiment) {
            let problem = Problem::NameTaken { name: other.name.clone(), other: other.transport.to_string() };
            return Err(problem).at(&sub_experiment.transport.to_string());
        }
    }
    Ok(())
}

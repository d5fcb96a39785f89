//! What a sub-experiment is called beside others.

use crate::merged::Merged;
use crate::number::counted;
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::plan::SubExperiment;

/// A sub-experiment at one offered load.
#[derive(Clone, Copy)]
pub struct LabelledLine<'a> {
    /// What was measured.
    pub sub: &'a Merged<'a>,
    /// How messages were offered.
    pub load: OfferedLoad,
}

/// The transport, and what tells it from the other lines.
pub fn parts(own: LabelledLine<'_>, lines: &[LabelledLine<'_>]) -> Vec<String> {
    let planned = own.sub.planned;
    let differs = |of: fn(&SubExperiment) -> String| lines.iter().any(|other| of(other.sub.planned) != of(planned));
    let mut parts = vec![planned.transport.to_string()];
    for of in [
        |sub: &SubExperiment| sub.wait.to_string(),
        |sub: &SubExperiment| format!("touch {}", sub.touch),
        |sub: &SubExperiment| sub.sched.to_string(),
        |sub: &SubExperiment| if sub.load.is_none() { "at rest".to_owned() } else { format!("load {}", sub.load) },
        |sub: &SubExperiment| counted(sub.workload.followers() as usize, "follower"),
        |sub: &SubExperiment| counted(sub.workload.publishers() as usize, "publisher"),
        |sub: &SubExperiment| {
            let what = if sub.workload.is_call() { "client" } else { "topic" };
            counted(sub.workload.follower_links() as usize, what)
        },
    ] {
        if differs(of) {
            parts.push(of(planned));
        }
    }
    if lines.iter().any(|other| other.load != own.load) {
        parts.push(load_text(own.load));
    }
    let like = |other: &SubExperiment| {
        let one = |sub: &SubExperiment| {
            (sub.transport.to_string(), sub.wait, sub.touch, sub.workload.topology, sub.sched, sub.load)
        };
        other.name != planned.name && one(other) == one(planned)
    };
    if lines.iter().any(|other| like(other.sub.planned)) {
        parts.push(planned.name.clone());
    }
    if own.sub.same_process() {
        parts.push("same process".to_owned());
    }
    parts
}

/// An offered load, for people.
pub fn load_text(load: OfferedLoad) -> String {
    match load {
        OfferedLoad::Rate { hz } => format!("{hz} /s"),
        OfferedLoad::Search { loss_bound } => format!("search, {} % loss", loss_bound * 100.0),
        load => crate::throughput::offered(load),
    }
}

//! Audit of the machine, differences between results, and facts: plan, environment and versions.

use crate::audit::audit;
use crate::document::{Block, Facts};
use crate::number::counted;
use crate::results::NamedResults;
use std::collections::{BTreeMap, BTreeSet};
use tripmeter_analysis::JudgedResults;
use tripmeter_analysis::results::{differences, differences_of_plans};
use tripmeter_model::manifest::Manifest;
use tripmeter_model::payload::display_size;

/// All information besides figures.
pub fn blocks(results: &[NamedResults<'_>]) -> Vec<Block> {
    let mut blocks: Vec<Block> = changes(results).into_iter().map(Block::Facts).collect();
    for one in results {
        let title = |what: &str| if results.len() > 1 { format!("{what}, {}", one.name) } else { what.to_owned() };
        let environment = &one.manifest.environment;
        // The later audit includes the activity during the measurement.
        if let Some(found) = environment.audit_after.as_ref().or(environment.audit_before.as_ref()) {
            let mut of_machine = audit(found, &BTreeMap::new()).blocks;
            if let Some(Block::Table(table)) = of_machine.first_mut() {
                table.title = title("Audit of the machine");
            }
            blocks.extend(of_machine);
        }
        blocks.push(Block::Facts(Facts { title: title("Plan"), pairs: plan(one.manifest) }));
        blocks.push(Block::Facts(Facts { title: title("Machine"), pairs: machine(one.manifest) }));
        let versions = versions(one.manifest);
        if !versions.is_empty() {
            blocks.push(Block::Facts(Facts { title: title("Versions"), pairs: versions }));
        }
    }
    blocks
}

/// Facts of a plan that differ between any two runs.
const ALWAYS_DIFFER: [&str; 4] = ["source", "started", "ended", "seed"];

/// Facts that differ from the first results.
fn changes(results: &[NamedResults<'_>]) -> Vec<Facts> {
    let judged = |one: &NamedResults<'_>| JudgedResults { manifest: one.manifest.clone(), allows_damage: true };
    let Some((first, others)) = results.split_first() else { return Vec::new() };
    let reference = judged(first);
    let of = |other: &NamedResults<'_>| {
        let result = judged(other);
        let machines = [reference.machine(), result.machine()];
        let machine = differences(&machines[0], &machines[1]);
        let mut pairs: Vec<(String, String)> =
            machine.map(|[what, one, other]| (what.to_owned(), format!("{one} -> {other}"))).collect();
        let plans = [first, other].map(|one| plan(one.manifest));
        let values = plans[0]
            .iter()
            .zip(&plans[1])
            .filter(|(one, other)| one != other && !ALWAYS_DIFFER.contains(&one.0.as_str()));
        pairs.extend(values.map(|(one, other)| (one.0.clone(), format!("{} -> {}", one.1, other.1))));
        for plan in &first.manifest.plan.sub_experiments {
            let differing = result.plan(&plan.name).map(|other| differences_of_plans(plan, other)).unwrap_or_default();
            pairs.extend(
                differing
                    .into_iter()
                    .map(|(what, one, other)| (format!("{what} of {}", plan.name), format!("{one} -> {other}"))),
            );
        }
        let known = versions(first.manifest);
        for (name, version) in versions(other.manifest) {
            let before = known.iter().find(|one| one.0 == name);
            pairs.extend(before.filter(|one| one.1 != version).map(|one| (name, format!("{} -> {version}", one.1))));
        }
        if pairs.is_empty() {
            pairs.push(("nothing".to_owned(), "machine, plan and versions are the same".to_owned()));
        }
        Facts { title: format!("What differs from {} in {}", first.name, other.name), pairs }
    };
    others.iter().map(of).collect()
}

fn plan(manifest: &Manifest) -> Vec<(String, String)> {
    let plan = &manifest.plan;
    let all = |of: &dyn Fn(&tripmeter_model::plan::SubExperiment) -> String| -> String {
        let mut values: Vec<String> = Vec::new();
        for value in plan.sub_experiments.iter().map(of) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        values.join(", ")
    };
    let payloads: BTreeSet<u64> = plan.sub_experiments.iter().flat_map(|sub| sub.payloads.iter().copied()).collect();
    let payloads: Vec<String> = match &plan.recording {
        Some(recording) if recording.has_file() => vec![format!("of {}", recording.file)],
        Some(recording) => vec![format!("of {}", counted(recording.topics.len(), "topic"))],
        None => payloads.into_iter().map(display_size).collect(),
    };
    let cpu = |cpu: Option<usize>| cpu.map_or("chosen by the kernel".to_owned(), |cpu| cpu.to_string());
    let pairs = [
        ("source", plan.source.clone()),
        ("started", manifest.started.clone()),
        ("ended", manifest.ended.clone().unwrap_or_else(|| "not yet, or it was killed".to_owned())),
        ("transports", all(&|sub| sub.transport.to_string())),
        ("pattern", all(&|sub| sub.facts().word().to_owned())),
        ("payloads", payloads.join(", ")),
        ("samples", all(&|sub| sub.samples.to_string())),
        ("rounds", plan.rounds.to_string()),
        ("wait", all(&|sub| sub.wait.to_string())),
        ("touch", all(&|sub| sub.touch.to_string())),
        ("scheduling", all(&|sub| sub.sched.to_string())),
        ("background load", all(&|sub| sub.background.to_string())),
        ("CPU of the leader", cpu(plan.leader_cpu)),
        ("CPU of the follower", cpu(plan.follower_cpu)),
        ("seed", plan.seed.to_string()),
    ];
    pairs.into_iter().map(|(word, value)| (word.to_owned(), value)).collect()
}

fn machine(manifest: &Manifest) -> Vec<(String, String)> {
    let environment = &manifest.environment;
    let cpus: Vec<String> = environment.cpus.iter().map(usize::to_string).collect();
    let maker = [&environment.manufacturer, &environment.model].into_iter().flatten().cloned().collect::<Vec<_>>();
    let clock = &environment.clock;
    let pairs = [
        ("machine", maker.join(" ")),
        ("CPU", environment.cpu_model.clone()),
        ("CPUs allowed", cpus.join(", ")),
        ("virtual machine", if environment.virtual_machine { "yes" } else { "no" }.to_owned()),
        ("memory", format!("{:.1} GiB", environment.memory_bytes as f64 / (1_u64 << 30) as f64)),
        ("kernel", environment.kernel.clone()),
        ("clock", format!("{}, {:.0} ns for a reading", clock.source, clock.read_cost_ns)),
    ];
    let kept = pairs.into_iter().filter(|(_, value)| !value.is_empty());
    kept.map(|(word, value)| (word.to_owned(), value)).collect()
}

/// Versions of Tripmeter, and of each system with its library or kernel.
fn versions(manifest: &Manifest) -> Vec<(String, String)> {
    let mut pairs = vec![("tripmeter".to_owned(), manifest.tripmeter_version.clone())];
    for result in &manifest.sub_experiments {
        let planned = manifest.plan.sub_experiments.iter().find(|sub| sub.name == result.name);
        let Some(system) = planned.map(|planned| planned.transport.system.clone()) else { continue };
        let version = format!("{} (transport {})", result.system_version, result.transport_version);
        if !pairs.contains(&(system.clone(), version.clone())) {
            pairs.push((system, version));
        }
    }
    pairs
}

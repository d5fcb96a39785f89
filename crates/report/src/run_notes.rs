//! Notes on a whole run, for all tables and the first screen.

use crate::document::{Note, Severity};
use crate::measured::MeasuredSide;
use crate::merged::Merged;
use crate::number::counted;
use crate::{audit, hosts, notes, queues, series};
use tripmeter_analysis::JudgedResults;
use tripmeter_model::manifest::Manifest;
use tripmeter_model::plan::{Plan, SubExperiment};

/// Notes on failed path proofs, and on sub-experiments that failed or were not run.
pub fn outcomes(subs: &[Merged<'_>]) -> Vec<Note> {
    notes::outcomes(subs.iter()).into_iter().map(|text| Note::error("failed or not run", text)).collect()
}

/// Note that the run was resumed, and which measurements followed.
fn resumed(manifest: &Manifest) -> Option<Note> {
    let last = manifest.resumptions.iter().rfind(|resumption| !resumption.rest.is_empty())?;
    const NAMED: usize = 10;
    let (times, more) = (counted(manifest.resumptions.len(), "time"), last.rest.len().saturating_sub(NAMED));
    let of = last.rest[..last.rest.len().min(NAMED)].join(", ");
    let of = if more == 0 { of } else { format!("{of}, and {more} more (manifest.json)") };
    let text = format!("RESUMED {times}, the last time at {}; measured then: {of}", last.at);
    Some(Note::warning("resumed", text))
}

/// Note that sides of a sub-experiment share CPUs; a warning if they poll.
pub fn shared_cpus(plan: &Plan, planned: &SubExperiment) -> Option<Note> {
    let text = format!("{}: {}", planned.name, plan.shared_cpus(planned)?);
    let severity = if plan.polls_on_shared_cpu(planned) { Severity::Warning } else { Severity::Info };
    Some(Note::new(severity, "shared CPUs", None, text))
}

/// Notes below a published table on sub-experiments that were cut short, partly measured, or polled on a shared CPU.
pub fn reservations<'a>(manifest: &Manifest, subs: impl Iterator<Item = &'a Merged<'a>>) -> Vec<Note> {
    let results = JudgedResults { manifest: manifest.clone(), allows_damage: true };
    let of_sub = |name: &'a str| {
        let lines = results.unmeasured(name).into_iter().chain(results.notes(name));
        lines.map(|why| Note::warning("reservations", format!("{name}: {why}"))).collect::<Vec<_>>()
    };
    subs.flat_map(|sub| of_sub(&sub.planned.name)).collect()
}

/// Notes on the run and on everything else that lowers the quality of its figures, including trials.
pub fn of_run(side: &MeasuredSide<'_>, of_trials: Vec<Note>) -> Vec<Note> {
    let MeasuredSide { manifest, subs, metrics, .. } = side;
    let plan = &manifest.plan;
    let mut all = Vec::new();
    for (index, sub) in (0..).zip(subs) {
        all.extend(sub.payloads().iter().filter_map(|cell| {
            let row = metrics.only_row(index, cell.payload_bytes);
            Some(Note::new(Severity::Info, "core-to-core latency changed", row, notes::core_to_core(sub, cell)?))
        }));
    }
    all.extend(resumed(manifest));
    all.extend(queues::notes(subs));
    all.extend(series::notes(subs, metrics));
    all.extend(subs.iter().filter_map(|sub| shared_cpus(plan, sub.planned)));
    all.extend(hosts::notes(manifest, metrics));
    all.extend(of_trials);
    let mut cells = subs.iter().flat_map(|sub| &sub.results).flat_map(|result| &result.cells);
    if cells.any(|cell| cell.from_histogram) {
        let text = "raw samples were not kept, so figures come from histograms with three digits";
        all.push(Note::info(notes::HISTOGRAMS, text));
    }
    let disturbed: Vec<&str> =
        plan.sub_experiments.iter().filter(|sub| sub.is_disturbed()).map(|sub| sub.name.as_str()).collect();
    if !disturbed.is_empty() {
        let text = format!(
            "left out: {} of {}, which `tripmeter explain` slowed down by tracing: {}; see `tripmeter explain --from \
             DIR`",
            disturbed.len(),
            counted(plan.sub_experiments.len(), "sub-experiment"),
            disturbed.join(", ")
        );
        all.push(Note::warning(notes::DISTURBED, text));
    }
    all.extend(audit::note(manifest).map(|text| Note::info("machine", text)));
    all.extend(plan.not_installed().map(|text| Note::info("not installed", text)));
    all.extend(plan.left_out.iter().map(|left_out| match plan.missing.contains(left_out) {
        true => Note::warning("missing", format!("NOT MEASURED: {left_out}")),
        false => Note::info("left out", format!("left out: {left_out}")),
    }));
    all
}

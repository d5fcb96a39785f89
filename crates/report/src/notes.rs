//! The lines under a table: whatever keeps its figures from being good.

use crate::merged::{Merged, MergedCell};
use tripmeter_model::manifest::{Counts, Status, Verdict};
use tripmeter_model::payload::display_size;

/// The outcome of a proof, in a word or two.
pub fn proof(sub: &Merged<'_>) -> &'static str {
    match sub.proof().map(|(_, proof)| (proof.verdict, proof.intruders.is_empty())) {
        Some((Verdict::Proven, true)) => "ok",
        Some((Verdict::Proven, false)) => "ok, secured",
        Some((Verdict::Failed, _)) => "FAILED",
        Some((Verdict::NotVisible, true)) => "not visible",
        Some((Verdict::NotVisible, false)) => "not proven",
        None => "-",
    }
}

/// A loud line if the payload did not go the way that the transport claims.
pub fn failed_proof(sub: &Merged<'_>) -> Option<String> {
    let (round, proof) = sub.proof().filter(|(_, proof)| proof.verdict == Verdict::Failed)?;
    let planned = sub.planned;
    let let_in = proof.intruders.iter().any(|trial| trial.refused == Some(false));
    let meaning = if let_in { "not those of a secured transport" } else { "of something else" };
    Some(format!(
        "PATH PROOF FAILED: {} ({}){}: claimed {}, seen: {}; its figures are {meaning}",
        planned.name,
        planned.transport,
        in_round(sub, round),
        proof.claim,
        proof.evidence
    ))
}

/// A line if it was to be shown that intruders are refused, and could not be.
pub fn doubtful_security(sub: &Merged<'_>) -> Option<String> {
    let (round, proof) = sub.proof().filter(|(_, proof)| proof.verdict == Verdict::NotVisible)?;
    let is_secured = !proof.intruders.is_empty();
    let Merged { planned, .. } = sub;
    let place = in_round(sub, round);
    is_secured.then(|| format!("NOT PROVEN: {} ({}){place}: {}", planned.name, planned.transport, proof.evidence))
}

/// A line for each round that failed, was interrupted or not run.
pub fn unfinished(sub: &Merged<'_>) -> Vec<String> {
    let unfinished = sub.unfinished();
    unfinished.iter().map(|&(round, status, error)| unfinished_round(sub, round, status, error)).collect()
}

fn unfinished_round(sub: &Merged<'_>, round: u32, status: Status, error: Option<&str>) -> String {
    let subject = format!("{}{}", sub.planned.name, in_round(sub, round));
    let line = match status {
        Status::Failed => format!("FAILED: {subject}: {}", error.unwrap_or("no reason was recorded")),
        Status::Interrupted => format!("INTERRUPTED: {subject}"),
        Status::Running => format!("NOT ENDED: {subject} is running, or was killed"),
        Status::Planned | Status::Complete => return format!("NOT RUN: {subject}"),
    };
    let missing = missing_payloads(sub, round);
    if missing.is_empty() { line } else { format!("{line}; no figures for {}", missing.join(", ")) }
}

fn missing_payloads(sub: &Merged<'_>, round: u32) -> Vec<String> {
    let results = sub.results.iter().filter(|result| result.round == round);
    let measured: Vec<u64> = results.flat_map(|result| &result.cells).map(|cell| cell.payload_bytes).collect();
    let missing = sub.planned.payloads.iter().filter(|&bytes| !measured.contains(bytes));
    missing.map(|&bytes| display_size(bytes)).collect()
}

fn in_round(sub: &Merged<'_>, round: u32) -> String {
    if sub.rounds > 1 { format!(", round {round}") } else { String::new() }
}

/// What happened to messages besides arriving once, in order, in time and intact: `2 lost, 1 damaged`; empty if nothing
/// did.
pub fn mishaps(counts: &Counts) -> String {
    let Counts { lost, late, duplicated, reordered, damaged, .. } = *counts;
    let kinds =
        [(lost, "lost"), (late, "late"), (duplicated, "duplicated"), (reordered, "reordered"), (damaged, "damaged")];
    let happened = kinds.iter().filter(|(count, _)| *count > 0);
    happened.map(|(count, kind)| format!("{count} {kind}")).collect::<Vec<_>>().join(", ")
}

/// Whether any message was late, duplicated, reordered or damaged.
pub fn odd(counts: &Counts) -> bool {
    counts.late + counts.duplicated + counts.reordered + counts.damaged > 0
}

/// `uds_datagram at 64k: 2 lost, 1 damaged`.
pub fn mishap_line(sub: &Merged<'_>, cell: &MergedCell<'_>) -> String {
    format!("{} at {}: {}", sub.planned.name, display_size(cell.payload_bytes), mishaps(&cell.counts()))
}

//! Notes below a table: reasons to doubt its figures.

use crate::document::Missing;
use crate::merged::{CHANGED, Merged, MergedCell};
use crate::number::counted;
use crate::number::micros;
use std::collections::BTreeSet;
use tripmeter_model::group::by_key;
use tripmeter_model::manifest::{CoreToCoreProbe, Counts, PayloadResult, RunStatus, Verdict};
use tripmeter_model::plan::SubExperiment;
use tripmeter_model::workload::Workload;

pub const PROOF_HELP: &str = "whether the operating system shows the payload taking the path that the transport \
                              claims; secured: a peer without the right credentials was also refused";

/// Reason why CPU time has no kernel part.
pub const NO_KERNEL_TIME: &str = "this kernel splits CPU time between user and kernel by timer ticks, which is inexact";

pub const TRIALS: &str = "trials";
/// Kind of notes on rates that were missed.
pub const RATE_MISSED: &str = "rate missed";
/// Kind of notes on messages that were sent late although the rate was kept.
pub const SENT_LATE: &str = "sent late";
/// Kind of the note that figures come from histograms.
pub const HISTOGRAMS: &str = "histograms";
/// Kind of the note on passes of `tripmeter explain`.
pub const DISTURBED: &str = "disturbed";
/// Kind of notes on payloads with fewer samples than planned.
pub const TOO_FEW: &str = "fewer samples than planned";
/// Kinds of notes on calls and on messages that failed.
pub const MISHAPS: [&str; 2] = ["timed out or failed", "lost or out of order"];

/// Outcome of a path proof in one or two words.
pub fn proof(sub: &Merged<'_>) -> &'static str {
    match sub.proof().map(|(_, proof)| (proof.verdict, proof.unauthorized_peers.is_empty())) {
        Some((Verdict::Failed, _)) => "FAILED",
        _ if damaged(sub) > 0 => "damaged",
        Some((Verdict::Proven, true)) => "ok",
        Some((Verdict::Proven, false)) => "ok, secured",
        Some((Verdict::NotVisible, true)) => "not visible",
        Some((Verdict::NotVisible, false)) => "not proven",
        None => "-",
    }
}

/// Messages that arrived damaged during path proofs, in all rounds.
fn damaged(sub: &Merged<'_>) -> u64 {
    let proofs = sub.results.iter().filter_map(|result| result.path_proof.as_ref());
    proofs.map(|proof| proof.damaged).fold(0, u64::saturating_add)
}

/// Note on messages that arrived damaged during the path proof.
fn damaged_proof(sub: &Merged<'_>) -> Option<String> {
    let (planned, damaged) = (sub.planned, damaged(sub));
    let messages = counted(damaged as usize, "message");
    (damaged > 0).then(|| {
        format!("DAMAGED: {} ({}): {messages} came damaged during the path proof", planned.name, planned.transport)
    })
}

/// Note that the payload did not take the path that the transport claims.
pub fn failed_proof(sub: &Merged<'_>) -> Option<String> {
    let (round, proof) = sub.proof().filter(|(_, proof)| proof.verdict == Verdict::Failed)?;
    let planned = sub.planned;
    let let_in = proof.unauthorized_peers.iter().any(|trial| trial.refused == Some(false));
    let meaning = if let_in {
        "its figures are not those of a secured transport"
    } else {
        "its figures do not measure this transport"
    };
    Some(format!(
        "PATH PROOF FAILED: {} ({}){}: claimed {}, seen: {}; {meaning}",
        planned.name,
        planned.transport,
        in_round(sub, round),
        proof.claim,
        proof.evidence
    ))
}

/// Note that the refusal of unauthorized peers could not be proven.
fn doubtful_security(sub: &Merged<'_>) -> Option<String> {
    let (round, proof) = sub.proof().filter(|(_, proof)| proof.verdict == Verdict::NotVisible)?;
    let is_secured = !proof.unauthorized_peers.is_empty();
    let Merged { planned, .. } = sub;
    let place = in_round(sub, round);
    is_secured.then(|| format!("NOT PROVEN: {} ({}){place}: {}", planned.name, planned.transport, proof.evidence))
}

/// Reasons to doubt whole sub-experiments: failed proofs first, then rounds that did not complete.
pub fn outcomes<'a>(subs: impl Iterator<Item = &'a Merged<'a>> + Clone) -> Vec<String> {
    let proofs = subs.clone().filter_map(failed_proof).chain(subs.clone().filter_map(doubtful_security));
    let damaged = subs.clone().filter_map(damaged_proof);
    proofs.chain(damaged).chain(subs.flat_map(unfinished)).collect()
}

/// A line for all rounds that ended in the same way: failed, interrupted or not run.
pub fn unfinished(sub: &Merged<'_>) -> Vec<String> {
    let ends = sub.unfinished().into_iter();
    let ends = ends.map(|(round, status, error)| ((status, error, figures_of_round(sub, round, status)), round));
    let line =
        |((status, error, figures), rounds): ((_, _, String), Vec<u32>)| ended(sub, status, error, &rounds) + &figures;
    by_key(ends).into_iter().map(line).collect()
}

/// Line on how rounds ended.
fn ended(sub: &Merged<'_>, status: RunStatus, error: Option<&str>, rounds: &[u32]) -> String {
    let rounds = match rounds {
        [round] => in_round(sub, *round),
        all => format!(", rounds {} ({} of {})", ranges(all), all.len(), sub.rounds),
    };
    let subject = format!("{}{rounds}", sub.planned.name);
    match status {
        RunStatus::Failed => format!("FAILED: {subject}: {}", error.unwrap_or("no reason was recorded")),
        RunStatus::Interrupted => format!("INTERRUPTED: {subject}"),
        RunStatus::Running => format!("NOT FINISHED: {subject} is still running, or was killed"),
        RunStatus::Planned | RunStatus::Complete => format!("NOT RUN: {subject}"),
    }
}

/// Ascending numbers as ranges, the first few of them: `2 to 200`, `1, 3 to 5`.
fn ranges(numbers: &[u32]) -> String {
    const NAMED: usize = 5;
    let ranges: Vec<&[u32]> = numbers.chunk_by(|a, b| a + 1 == *b).collect();
    let range = |one: &&[u32]| match one {
        [first, .., last] => format!("{first} to {last}"),
        one => one.iter().map(ToString::to_string).collect(),
    };
    let more = if ranges.len() > NAMED { ", …" } else { "" };
    ranges.iter().take(NAMED).map(range).collect::<Vec<_>>().join(", ") + more
}

/// Payloads without figures, and those that were cut off, in a round that was begun.
fn figures_of_round(sub: &Merged<'_>, round: u32, status: RunStatus) -> String {
    if matches!(status, RunStatus::Planned | RunStatus::Complete) {
        return String::new();
    }
    let cells = sub.results.iter().filter(|result| result.round == round).flat_map(|result| &result.cells);
    let cut = cells.filter(|cell| cell.is_cut_off()).map(|cell| {
        let PayloadResult { samples, samples_planned, .. } = cell;
        let size = sub.payload(cell.payload_bytes).size();
        if samples < samples_planned {
            format!("; {size} was cut off after {samples} of {samples_planned} samples")
        } else {
            format!("; {size} was cut off")
        }
    });
    let cut: String = cut.collect();
    let missing = missing_payloads(sub, round);
    if missing.is_empty() { cut } else { format!("{cut}; no figures for {}", missing.join(", ")) }
}

fn missing_payloads(sub: &Merged<'_>, round: u32) -> Vec<String> {
    let results = sub.results.iter().filter(|result| result.round == round);
    let measured: Vec<u64> = results.flat_map(|result| &result.cells).map(|cell| cell.payload_bytes).collect();
    let missing: BTreeSet<u64> =
        sub.planned.payloads.iter().copied().filter(|bytes| !measured.contains(bytes)).collect();
    missing.into_iter().map(|bytes| sub.payload(bytes).size()).collect()
}

fn in_round(sub: &Merged<'_>, round: u32) -> String {
    if sub.rounds > 1 { format!(", round {round}") } else { String::new() }
}

/// Text of the note on a payload that lost all messages.
pub const ALL_LOST: &str = "no message arrived intact and in time; exit code 75, unless --allow-loss is given";
/// Text of the note on a payload of calls that all failed.
pub const ALL_FAILED: &str = "no call succeeded; exit code 75, unless --allow-loss is given";
/// Kind of such notes.
pub const NOTHING_ARRIVED: &str = "no message arrived";

/// Terms in notes on messages, or on calls.
pub struct MessageWords {
    /// Term for a link: a topic or a client.
    pub link: &'static str,
    /// Term for a message that did not arrive intact.
    pub damaged: &'static str,
    /// Kind of notes on messages or calls that failed.
    pub mishap: &'static str,
    /// Reason for a missing latency if all were lost.
    pub no_samples: Missing,
    nothing_arrived: &'static str,
    /// Counts that appear in notes, in this order.
    counts: fn(&Counts) -> Vec<(u64, &'static str)>,
}

static MESSAGES: MessageWords = MessageWords {
    link: "topic",
    damaged: "damaged",
    mishap: MISHAPS[1],
    no_samples: Missing::NothingCame,
    nothing_arrived: ALL_LOST,
    counts: |&Counts { lost, late, duplicated, reordered, damaged, .. }| {
        let words = ["lost", "late", "duplicated", "reordered", "damaged"];
        [lost, late, duplicated, reordered, damaged].into_iter().zip(words).collect()
    },
};
static CALLS: MessageWords = MessageWords {
    link: "client",
    damaged: "failed",
    mishap: MISHAPS[0],
    no_samples: Missing::NoSamples,
    nothing_arrived: ALL_FAILED,
    counts: |&Counts { lost, late, duplicated, damaged, .. }| {
        vec![(lost, "timed out"), (damaged, "failed"), (late, "answered late"), (duplicated, "answered again")]
    },
};

/// Terms for the messages of a workload.
pub fn words(workload: &Workload) -> &'static MessageWords {
    if workload.is_call() { &CALLS } else { &MESSAGES }
}

/// Counts of messages that were lost, late, duplicated, reordered or damaged: `2 lost, 1 damaged`. For calls:
/// `10 timed out, 4 answered late`. Empty if all are 0.
pub fn mishaps(counts: &Counts, workload: &Workload) -> String {
    let happened = (words(workload).counts)(counts).into_iter().filter(|(count, _)| *count > 0);
    happened.map(|(count, kind)| format!("{count} {kind}")).collect::<Vec<_>>().join(", ")
}

/// True if any message was late, duplicated, reordered or damaged.
pub fn odd(counts: &Counts) -> bool {
    [counts.late, counts.duplicated, counts.reordered, counts.damaged].iter().any(|count| *count > 0)
}

/// Note that the core-to-core probe changed during a payload, or that the payload was therefore repeated.
pub fn core_to_core(sub: &Merged<'_>, cell: &MergedCell<'_>) -> Option<String> {
    let (changed, again) = (cell.changed(), cell.set_aside().count());
    let place = format!("{} {}", sub.planned.name, cell.at());
    let rounds = |count: usize| if sub.rounds > 1 { format!(" in {}", counted(count, "round")) } else { String::new() };
    let mut parts = Vec::new();
    if let Some((first, why)) = changed.first() {
        let probe = |probe: Option<CoreToCoreProbe>| probe.map_or("-".to_owned(), |probe| micros(probe.median_ns));
        let [before, after] = [first.core_to_core_ns.before, first.core_to_core_ns.after].map(probe);
        let rounds = rounds(changed.len());
        parts.push(format!("the core-to-core latency changed from {before} to {after} µs{rounds} ({why})"));
    }
    if again > 0 {
        let repeated = cell.cells.iter().filter(|cell| !cell.earlier_attempts.is_empty()).count();
        let counts = |cell: &PayloadResult| Counts { damaged: cell.damaged(), ..cell.counts() };
        let set_aside = cell.set_aside().fold(Counts::default(), |sum, cell| sum + counts(cell));
        let lost = mishaps(&set_aside, &sub.planned.workload);
        let lost = if lost.is_empty() { lost } else { format!(" ({lost})") };
        let (times, rounds) = (counted(again, "time"), rounds(repeated));
        parts.push(format!(
            "measured again {times}{rounds}, as the core-to-core latency changed; only the last attempt counts, and \
             trials.jsonl has the others{lost}"
        ));
    }
    let mark = if changed.is_empty() { String::new() } else { format!("{CHANGED} ") };
    (!parts.is_empty()).then(|| format!("{mark}{place}: {}", parts.join("; ")))
}

/// Notes of [`core_to_core`] for all payloads.
pub fn core_to_core_of_payloads(sub: &Merged<'_>) -> Vec<String> {
    sub.payloads().iter().filter_map(|cell| core_to_core(sub, cell)).collect()
}

/// Note that no message of a trial arrived.
pub fn all_lost(sub: &Merged<'_>, cell: &MergedCell<'_>) -> Option<String> {
    let place = format!("{} {}", sub.planned.name, cell.at());
    let what = words(&sub.planned.workload).nothing_arrived;
    cell.cells.iter().any(|cell| cell.is_all_lost()).then(|| format!("* {place}: {what}"))
}

/// Damaged messages of the warm-up, to follow the mishaps of `counts`: `, and 10 in the warm-up`. Empty if there are
/// none.
fn in_warm_up(damaged: u64, counts: &Counts, workload: &Workload) -> String {
    let (are_calls, what) = (workload.is_call(), words(workload).damaged);
    match (damaged, mishaps(counts, workload).is_empty()) {
        (0, _) => String::new(),
        (damaged, true) => format!("{damaged} {what} in the warm-up"),
        _ if counts.damaged > 0 && !are_calls => format!(", and {damaged} in the warm-up"),
        _ => format!(", and {damaged} {what} in the warm-up"),
    }
}

/// Counts as in [`mishaps`], then the damage of the warm-up.
pub fn mishaps_and_warm_up(counts: &Counts, warmup_damaged: u64, workload: &Workload) -> String {
    mishaps(counts, workload) + &in_warm_up(warmup_damaged, counts, workload)
}

/// `uds_datagram at 64k: 2 lost, 20 damaged, and 10 in the warm-up`; nothing if all messages arrived once, in order, in
/// time and intact.
pub fn mishap_line(sub: &Merged<'_>, cell: &MergedCell<'_>) -> Option<String> {
    let what = mishaps_and_warm_up(&cell.counts(), cell.warmup_damaged(), &sub.planned.workload);
    (!what.is_empty()).then(|| format!("{} {}: {what}", sub.planned.name, cell.at()))
}

/// Kind of notes on sub-experiments that a table leaves out.
pub const LEFT_OUT: &str = "left out";

/// Note on a sub-experiment that a published table has no row for; `why` follows its pattern.
pub fn left_out(plan: &SubExperiment, why: &str) -> String {
    let SubExperiment { name, pattern, .. } = plan;
    format!("{name}: this table leaves out pattern {pattern}{why}; the table `all` has it")
}

/// Note as in [`left_out`], for published tables of round trips in a closed loop; `None` if it belongs there.
pub fn left_out_of_trips(plan: &SubExperiment) -> Option<String> {
    (!plan.workload.is_round_trips()).then(|| left_out(plan, at_a_rate(plan)))
}

/// Suffix of a pattern for round trips at a rate or of several clients, which published tables lack.
pub fn at_a_rate(plan: &SubExperiment) -> &'static str {
    match plan.workload.is_closed() {
        _ if !plan.are_round_trips() || !plan.workload.is_call() => "",
        true => " of several clients",
        false => " at a rate",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn calls_have_words_of_their_own() {
        let (messages, calls) = (Workload::default(), Workload::closed_calls(1, 1));
        let counts = Counts { sent: 50, received: 36, lost: 10, late: 4, duplicated: 2, reordered: 1, damaged: 3 };
        assert_eq!(mishaps(&counts, &messages), "10 lost, 4 late, 2 duplicated, 1 reordered, 3 damaged");
        assert_eq!(mishaps(&counts, &calls), "10 timed out, 3 failed, 4 answered late, 2 answered again");
        assert_eq!(mishaps(&Counts { sent: 50, received: 50, ..Counts::default() }, &calls), "");
    }

    #[test]
    fn damage_of_the_warm_up_is_named_apart() {
        let (messages, calls) = (Workload::default(), Workload::closed_calls(1, 1));
        let damaged = |damaged| Counts { sent: 200, damaged, ..Counts::default() };
        assert_eq!(mishaps_and_warm_up(&damaged(20), 10, &messages), "20 damaged, and 10 in the warm-up");
        assert_eq!(mishaps_and_warm_up(&damaged(0), 10, &messages), "10 damaged in the warm-up");
        assert_eq!(mishaps_and_warm_up(&damaged(20), 10, &calls), "20 failed, and 10 failed in the warm-up");
        assert_eq!(mishaps_and_warm_up(&damaged(20), 0, &messages), "20 damaged");
    }

    #[test]
    fn rounds_that_were_not_run_are_one_line() {
        let mut manifest = fixture::manifest();
        manifest.plan.rounds = 200;
        fixture::add(&mut manifest, "uds", "uds/stream", &[256, 64, 2048, 128]);
        let result = fixture::result(&mut manifest, "uds", 1, &[(64, 1000.0)]);
        (result.status, result.error) = (RunStatus::Failed, Some("the follower ended".to_owned()));
        let cell = &mut result.cells[0];
        (cell.cut_short, cell.samples, cell.samples_planned) = (Some("the follower ended".into()), 37, 200);
        let subs = Merged::from_manifest(&manifest);
        let failed = "FAILED: uds, round 1: the follower ended; 64 was cut off after 37 of 200 samples; no figures for 128, 256, \
             2k";
        assert_eq!(unfinished(&subs[0]), [failed, "NOT RUN: uds, rounds 2 to 200 (199 of 200)"]);
        assert_eq!([ranges(&[1, 3, 4, 5]), ranges(&[1, 3, 5, 7, 9, 11])], ["1, 3 to 5", "1, 3, 5, 7, 9, …"]);
    }
}

//! Notes below the first screen: one line for each kind, or all of them.

use crate::document::{Note, Severity};
use crate::measured::MeasuredSide;
use crate::merged::{Merged, MergedCell};
use crate::{notes, run_notes};

/// Notes, the gravest first; one for each kind unless `all_notes`.
pub fn notes(side: &MeasuredSide<'_>, of_trials: Vec<Note>, all_notes: bool) -> Vec<Note> {
    let notes = all(side, of_trials, all_notes);
    if all_notes { notes } else { folded(&notes) }
}

/// Maximum number of failures and losses that are shown of a kind.
const MOST_GRAVE: usize = 20;

/// One note for each kind: the only one, or the number of notes and the first of them. Of failures and losses, the
/// first [`MOST_GRAVE`] are shown.
fn folded(notes: &[Note]) -> Vec<Note> {
    let fold = |group: &[Note]| {
        let (kind, first) = (group[0].kind, &group[0].text);
        if group.len() == 1 || group[0].severity == Severity::Error || notes::MISHAPS.contains(&kind) {
            let mut shown: Vec<Note> = group.iter().take(MOST_GRAVE).cloned().collect();
            if group.len() > MOST_GRAVE {
                let text = format!("… and {} more: {kind} (--notes)", group.len() - MOST_GRAVE);
                shown.push(Note { text, ..group[0].clone() });
            }
            return shown;
        }
        let first = first.strip_prefix(kind).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(first);
        let text = format!("{} × {kind}: {first}; … (--notes)", group.len());
        vec![Note { text, ..group[0].clone() }]
    };
    notes.chunk_by(|a, b| (a.severity, a.kind) == (b.severity, b.kind)).flat_map(fold).collect()
}

/// All notes, the gravest first, grouped by kind.
fn all(side: &MeasuredSide<'_>, of_trials: Vec<Note>, all_notes: bool) -> Vec<Note> {
    let subs = &side.subs;
    let cells = || subs.iter().flat_map(|sub| sub.payloads().into_iter().map(move |cell| (sub, cell)));
    let short = |sub: &Merged<'_>, cell: &MergedCell<'_>| {
        let why = cell.shortfalls().join("; ");
        (!why.is_empty()).then(|| format!("{} {}: {why}", sub.planned.name, cell.at()))
    };
    // A payload that lost everything needs no further notes on losses.
    let is_whole = |cell: &MergedCell<'_>| !cell.is_wholly_lost();
    let all_lost = cells().filter(|(_, cell)| cell.is_wholly_lost()).filter_map(|(sub, cell)| all_lost(sub, &cell));
    let outcomes = run_notes::outcomes(subs);
    // A failure that ended a payload was already printed.
    let is_told = |cell: &MergedCell<'_>| {
        let mut reasons = cell.shortfalls().into_iter();
        reasons.all(|why| outcomes.iter().any(|note| note.text.contains(&why)))
    };
    let too_few = cells().filter(|(_, cell)| is_whole(cell) && !is_told(cell));
    let too_few: Vec<String> = too_few.filter_map(|(sub, cell)| short(sub, &cell)).collect();
    let mut all = outcomes;
    all.extend(all_lost.map(|text| Note::error(notes::NOTHING_ARRIVED, text)));
    all.extend(mishaps(subs));
    all.extend(too_few.into_iter().map(|text| Note::warning(notes::TOO_FEW, text)));
    let of_run = run_notes::of_run(side, of_trials);
    all.extend(partly_lost(subs, &of_run).map(|text| Note::error(notes::NOTHING_ARRIVED, text)));
    for note in of_run {
        let lost = note.anchor.filter(|_| note.kind == notes::NOTHING_ARRIVED);
        if lost.is_some_and(|row| subs[row.sub as usize].payload(row.payload_bytes).is_wholly_lost()) {
            continue;
        }
        // Mishaps already include losses.
        let is_grave = note.kind != notes::TRIALS || note.severity < Severity::Info;
        let is_shown = is_grave && (all_notes || note.kind != notes::SENT_LATE);
        if is_shown && note.kind != notes::HISTOGRAMS && all.iter().all(|known| known.text != note.text) {
            all.push(note);
        }
    }
    let kinds: Vec<&str> = all.iter().map(|note| note.kind).collect();
    all.sort_by_key(|note| (note.severity, kinds.iter().position(|kind| *kind == note.kind)));
    all
}

/// Note that no message of a payload arrived, with the reason.
fn all_lost(sub: &Merged<'_>, cell: &MergedCell<'_>) -> Option<String> {
    let line = notes::all_lost(sub, cell)?;
    let what = notes::mishaps_and_warm_up(&cell.counts(), cell.warmup_damaged(), &sub.planned.workload);
    let (lost, exit) = line.split_once("; ").unwrap_or((&line, ""));
    Some(if what.is_empty() { line } else { format!("{lost}: {what}; {exit}") })
}

/// Notes on payloads of which a trial, round or stream lost everything, unless a note of a trial says so.
fn partly_lost<'a>(subs: &'a [Merged<'a>], of_run: &'a [Note]) -> impl Iterator<Item = String> + use<'a> {
    let is_told = move |index: u32, bytes: u64| {
        let is_of = |note: &&Note| note.anchor.is_some_and(|row| (row.sub, row.payload_bytes) == (index, bytes));
        of_run.iter().filter(is_of).any(|note| note.kind == notes::NOTHING_ARRIVED)
    };
    let cells = (0..).zip(subs).flat_map(|(index, sub)| sub.payloads().into_iter().map(move |cell| (index, sub, cell)));
    let partly = cells.filter(move |(index, _, cell)| !cell.is_wholly_lost() && !is_told(*index, cell.payload_bytes));
    partly.filter_map(|(_, sub, cell)| {
        let line = notes::all_lost(sub, &cell)?;
        Some(line.replacen(": ", ": in a round or at a follower, ", 1))
    })
}

/// Notes on messages that were lost, late, duplicated, reordered or damaged, and on calls that failed.
fn mishaps(subs: &[Merged<'_>]) -> Vec<Note> {
    let cells = subs.iter().flat_map(|sub| sub.payloads().into_iter().map(move |cell| (sub, cell)));
    let cells = cells.filter(|(_, cell)| !cell.is_wholly_lost());
    let note = |(sub, cell): (&Merged<'_>, MergedCell<'_>)| {
        let kind = notes::words(&sub.planned.workload).mishap;
        Some(Note::warning(kind, notes::mishap_line(sub, &cell)?))
    };
    cells.filter_map(note).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Block;
    use crate::fixture::{self, add, put, result};
    use crate::screen::screen;
    use tripmeter_model::figure::Figure;
    use tripmeter_model::manifest::RunStatus;

    #[test]
    fn notes_of_one_kind_are_one_line_but_failures_and_losses() {
        let mut manifest = fixture::manifest();
        for name in ["a", "b", "c"] {
            add(&mut manifest, name, "udp/loopback", &[1024]);
            let trial = &mut result(&mut manifest, name, 1, &[(1024, 1000.0)]).cells[0].trials[0];
            put(trial, &[(Figure::Lost, 1.0)]);
        }
        let failed = manifest.sub_experiments.last_mut().unwrap();
        (failed.status, failed.error) = (RunStatus::Failed, Some("the follower ended".to_owned()));
        let notes = |all| {
            let document = screen(&manifest, all);
            let Some(Block::Notes(notes)) = document.blocks.last().cloned() else { panic!() };
            notes.into_iter().map(|note| note.text).collect::<Vec<_>>()
        };
        let lost = ["FAILED: c: the follower ended", "a at 1k: 1 lost", "b at 1k: 1 lost", "c at 1k: 1 lost"];
        assert_eq!(notes(false), lost);
        assert_eq!(notes(true), lost);
        let left_out = |name: &str| Note::info("left out", format!("left out: {name}"));
        let folded = folded(&["a", "b", "c"].map(left_out));
        assert_eq!(folded.iter().map(|note| note.text.as_str()).collect::<Vec<_>>(), ["3 × left out: a; … (--notes)"]);
    }
}

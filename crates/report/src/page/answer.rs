//! Question, and the answer in three sentences.

use super::verdicts::{self, Map};
use crate::curves::{Curve, Panel};
use crate::document::{Block, Note, Severity};
use crate::fastest::{Fastest, Lead, differing};
use crate::labels::patterns;
use crate::measured::MeasuredSide;
use crate::merged::Merged;
use crate::notes::{DISTURBED, MISHAPS};
use crate::number::{counted, percent};
use crate::pairs::{JudgedPairs, SIDES};
use crate::values::{capitalised, listed};
use crate::{hosts, screen};
use std::collections::BTreeSet;
use tripmeter_analysis::Key;
use tripmeter_analysis::table::samples_for;
use tripmeter_model::Touch;
use tripmeter_model::audit::Level;
use tripmeter_model::figure::{Better, Figure, Statistic};
use tripmeter_model::manifest::{RunStatus, Verdict};
use tripmeter_model::payload::display_size;
use tripmeter_model::plan::SubExperiment;
use tripmeter_stats::proportion::{self, Proportion};

/// Maximum number of transports that the question names.
const MOST_NAMED: usize = 3;

/// Question, answer, and notes on failures and losses.
pub fn blocks(sides: &[MeasuredSide<'_>], panels: &[Panel<'_>], maps: &[Map]) -> Vec<Block> {
    let figures: Vec<String> =
        panels.iter().map(|panel| format!(" {}: {}.", panel.name(), panel.figure.help())).collect();
    let mut blocks = vec![Block::Text(asked(sides) + &figures.concat())];
    if panels.is_empty() {
        blocks.push(Block::Text(nothing(sides)));
    }
    blocks.extend(verdicts::sentence(maps).map(Block::Text));
    // The last results are ranked.
    let place = sides.last().filter(|_| sides.len() > 1).map(|side| format!("In {}. ", side.name)).unwrap_or_default();
    let answer = match sides.last().and_then(|side| Some((side, side.pairs.as_ref()?))) {
        Some((side, pairs)) if !panels.is_empty() => vec![of_pairs(pairs, labels(side, panels), panels)],
        _ => panels.iter().filter_map(fastest).collect(),
    };
    blocks.extend(answer.into_iter().map(|text| Block::Text(format!("{place}{text}"))));
    if !panels.is_empty() {
        blocks.push(Block::Text(belief(sides)));
    }
    let notes: Vec<Note> = sides.iter().flat_map(|side| notes(side, sides.len() > 1)).collect();
    blocks.extend(Block::notes(notes));
    blocks
}

fn asked(sides: &[MeasuredSide<'_>]) -> String {
    let of_one = |side: &MeasuredSide<'_>| {
        let plan = &side.manifest.plan;
        let patterns = patterns(plan.sub_experiments.iter());
        let patterns = if patterns.is_empty() { String::new() } else { format!(" ({})", listed(&patterns)) };
        let payloads: BTreeSet<u64> =
            plan.sub_experiments.iter().flat_map(|sub| sub.payloads.iter().copied()).collect();
        let ends = match (payloads.first(), payloads.last()) {
            (Some(first), Some(last)) if first != last => {
                format!("{} payloads from {} to {}", payloads.len(), display_size(*first), display_size(*last))
            }
            (Some(only), _) => format!("payload {}", display_size(*only)),
            _ => "no payload".to_owned(),
        };
        let what = match &plan.recording {
            Some(recording) => {
                let file = if recording.has_file() { format!(" of {}", recording.file) } else { String::new() };
                format!("{}{file}", counted(recording.topics.len(), "topic"))
            }
            None => ends,
        };
        let name = if sides.len() > 1 { format!("{}: ", side.name) } else { String::new() };
        format!("{name}{}{patterns}, {what}, {}.", transports(side), counted(plan.rounds as usize, "round"))
    };
    sides.iter().map(of_one).collect::<Vec<_>>().join(" ")
}

/// Sentence that there is no figure, and how many sub-experiments failed.
fn nothing(sides: &[MeasuredSide<'_>]) -> String {
    let subs = || sides.iter().flat_map(|side| &side.subs);
    let has_failed = |sub: &&Merged<'_>| sub.results.iter().any(|result| result.status == RunStatus::Failed);
    match (subs().filter(has_failed).count(), subs().count()) {
        (1, 1) => "Nothing was measured: the only sub-experiment failed.".to_owned(),
        (failed, all) if failed > 0 => format!("Nothing was measured: {failed} of {all} sub-experiments failed."),
        _ => "Nothing was measured.".to_owned(),
    }
}

/// Names of a few transports, or the number of sub-experiments, without the added floor.
fn transports(side: &MeasuredSide<'_>) -> String {
    let named = |sub: &&SubExperiment| match side.is_of_pairs() {
        true => format!("{}: {}", sub.name, sub.transport),
        false => sub.transport.to_string(),
    };
    let (floors, subs): (Vec<&SubExperiment>, Vec<&SubExperiment>) =
        side.manifest.plan.sub_experiments.iter().filter(|sub| !sub.is_disturbed()).partition(|sub| sub.added_as_floor);
    let mut names: Vec<String> = subs.iter().map(named).collect();
    names.dedup();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // Names are not enough if one transport was measured in two ways.
    let is_named = (1..=MOST_NAMED).contains(&names.len()) && names.len() == subs.len();
    let what = if is_named { listed(&names) } else { counted(subs.len(), "sub-experiment") };
    if floors.is_empty() { what } else { format!("{what} and the floor") }
}

/// Verdicts of an `ab`, and its figures at the first and the last payload.
fn of_pairs(pairs: &JudgedPairs, labels: [&str; 2], panels: &[Panel<'_>]) -> String {
    let mut text = pairs.answer(labels);
    for panel in panels {
        let payloads = panel.ends().map_or_else(|| panel.payloads.clone(), Vec::from);
        for sentence in payloads.into_iter().filter_map(|payload| pairs.first(panel.figure, payload)) {
            text += &format!(" {sentence}");
        }
    }
    text
}

/// Sentences on the best at the first and the last payload.
fn fastest(panel: &Panel<'_>) -> Option<String> {
    let first = best(panel, *panel.payloads.first()?);
    let last = panel.ends().and_then(|[_, last]| best(panel, last));
    let sentences: Vec<String> = [first, last].into_iter().flatten().collect();
    (!sentences.is_empty()).then(|| panel.preface().to_owned() + &sentences.join(" "))
}

/// Sentence on the best at a payload, for a chart that also draws the floor.
pub fn best_of_drawn(panel: &Panel<'_>, payload: u64) -> Option<String> {
    Some(panel.preface().to_owned() + &best(panel, payload)?)
}

/// Sentence on the best at a payload and its distance to the next, or on those without a measurable difference.
fn best(panel: &Panel<'_>, payload: u64) -> Option<String> {
    if let Some(pairs) = panel.pairs() {
        return pairs.sentence(panel.figure, payload);
    }
    let at = capitalised(&panel.at(payload));
    let unranked = panel.unranked(payload).map(|what| format!("{at}, {what}."));
    let Some(Fastest { label, value, lead, losses }) = Fastest::find(panel, payload) else { return unranked };
    let (figure, written) = (panel.name(), panel.written(value.value));
    let a_median = if panel.has_samples() { "a median of " } else { "" };
    let word = if panel.figure.better() == Better::Higher { "highest" } else { "fastest" };
    let told = match lead {
        Lead::Alone => {
            format!("{at}, {label} has {a_median}{written} ({figure}); nothing else was measured to compare it with.")
        }
        Lead::Alike(names) => format!(
            "{at}, {} are {word} without a measurable difference, with {a_median}{written} ({figure}).",
            listed(&names)
        ),
        Lead::Ahead(next, ratio, by_medians) => {
            let is = ratio.claim(word);
            format!(
                "{at}, {label} {is} with {a_median}{written} ({figure}); the next is {next}, {}{}.",
                ratio.as_ratio(),
                differing(by_medians)
            )
        }
    };
    let losses = (!losses.is_empty()).then(|| format!("Of its messages, {}.", losses.join("; ")));
    Some([told].into_iter().chain(losses).chain(unranked).collect::<Vec<_>>().join(" "))
}

fn belief(sides: &[MeasuredSide<'_>]) -> String {
    let proofs = proofs(sides);
    let unfinished: usize = sides.iter().flat_map(MeasuredSide::undisturbed).map(|sub| sub.unfinished().len()).sum();
    let is_whole = sides.iter().all(|side| side.manifest.status == RunStatus::Complete);
    let (disturbed, missed, polled) = (disturbances(sides), missed(sides), polled(sides));
    let measured =
        sides.iter().flat_map(MeasuredSide::undisturbed).flat_map(Merged::payloads).map(|payload| payload.cells.len());
    let (rounds, lost, too_few) = (measured.min().unwrap_or(0), losses(sides), too_few(sides));
    let worst = lost.as_ref().map_or(0.0, |lost| lost.1);
    let lead = match () {
        () if proofs.has_failed || unfinished > 0 || !is_whole || worst >= 1.0 => "Do not rely on all of it.",
        () if proofs.are_hidden
            || missed.is_some()
            || polled.is_some()
            || too_few.is_some()
            || !disturbed.is_audited
            || disturbed.level == Some(Level::Fail)
            || rounds < 6
            || worst > 0.0 =>
        {
            "Use with caution."
        }
        () => "Reliable.",
    };
    let is_over = |side: &MeasuredSide<'_>| matches!(side.manifest.status, RunStatus::Complete | RunStatus::Failed);
    let missing = match unfinished {
        0 => None,
        1 => Some("1 round of a sub-experiment failed or did not run".to_owned()),
        count => Some(format!("{count} rounds of sub-experiments failed or did not run")),
    };
    let ended = match (sides.iter().all(is_over), missing) {
        (true, missing) => missing,
        (false, None) => Some("the run did not finish".to_owned()),
        (false, Some(missing)) => Some(format!("the run did not finish: {missing}")),
    };
    let rounds_text = match rounds {
        0 | 1 => "one round does not show how much runs differ".to_owned(),
        few @ 2..=5 => format!("{few} rounds are too few for confidence intervals"),
        many => format!("{many} rounds"),
    };
    let parts = [
        (!proofs.has_failed && !proofs.are_hidden, Some(proofs.text)),
        (false, ended),
        (worst == 0.0, lost.map(|lost| lost.0)),
        (false, too_few),
        (false, missed),
        (false, polled),
        (rounds >= 6, Some(rounds_text)),
        (disturbed.level.is_none() && disturbed.is_audited, Some(disturbed.text)),
    ];
    let those = |is_good: bool| -> Vec<&str> {
        parts.iter().filter(|part| part.0 == is_good).filter_map(|part| part.1.as_deref()).collect()
    };
    let sentence = |begin: &str, parts: &[&str]| match parts {
        [] => String::new(),
        some => format!(" {begin}: {}.", some.join("; ")),
    };
    let untouched = untouched(sides).map_or(String::new(), |text| format!(" {text}."));
    format!("{lead}{}{}{untouched}", sentence("Good", &those(true)), sentence("Not good", &those(false)))
}

struct Proofs {
    text: String,
    has_failed: bool,
    /// True if there is no proof, or the operating system shows too little for some.
    are_hidden: bool,
}

fn proofs(sides: &[MeasuredSide<'_>]) -> Proofs {
    let subs: Vec<(&Merged<'_>, Verdict)> = sides
        .iter()
        .flat_map(MeasuredSide::undisturbed)
        .filter_map(|sub| Some((sub, sub.proof()?.1.verdict)))
        .collect();
    let of = |verdict| subs.iter().filter(|one| one.1 == verdict).map(|one| one.0.planned.name.as_str()).collect();
    let (failed, hidden): (Vec<&str>, Vec<&str>) = (of(Verdict::Failed), of(Verdict::NotVisible));
    let all = counted(subs.len(), "path proof");
    let text = match (subs.len(), failed.is_empty(), hidden.is_empty()) {
        (0, ..) => "no path was verified".to_owned(),
        (_, false, _) => format!("{} of {all} FAILED ({})", failed.len(), listed(&failed)),
        (_, true, true) => format!("paths verified ({all})"),
        (_, true, false) => format!("{} of {all} not visible here ({})", hidden.len(), listed(&hidden)),
    };
    Proofs { text, has_failed: !failed.is_empty(), are_hidden: subs.is_empty() || !hidden.is_empty() }
}

/// Text on losses, and the largest share of a sub-experiment; `None` if losses were not counted.
fn losses(sides: &[MeasuredSide<'_>]) -> Option<(String, f64)> {
    let of_side = |side: &'_ MeasuredSide<'_>| {
        let rows = side.metrics.all_rows().filter_map(|row| {
            let lost = proportion::sum(&side.losses(row)?);
            let folder = if sides.len() > 1 { format!(" in {}", side.name) } else { String::new() };
            Some((side.metrics.sub(row).to_owned() + &folder, lost))
        });
        rows.collect::<Vec<_>>()
    };
    let counted_rows: Vec<(String, Proportion)> = sides.iter().flat_map(of_side).collect();
    let losing = || counted_rows.iter().filter(|one| one.1.events > 0);
    let (name, lost) = match losing().max_by(|a, b| a.1.share().total_cmp(&b.1.share())) {
        None if counted_rows.is_empty() => return None,
        None => return Some(("no messages lost, late or damaged".to_owned(), 0.0)),
        Some(most) => most,
    };
    let names: BTreeSet<&str> = losing().map(|one| one.0.as_str()).collect();
    let share = percent(lost.share());
    let text = match names.len() {
        1 => format!("{name} lost {share} % of its messages"),
        count => format!("{count} sub-experiments lost messages, {name} the largest share: {share} %"),
    };
    Some((text, lost.share()))
}

/// Note on payloads with fewer samples than planned, or too few to bound the 99th percentile.
fn too_few(sides: &[MeasuredSide<'_>]) -> Option<String> {
    let cells = sides.iter().flat_map(MeasuredSide::undisturbed).flat_map(Merged::payloads);
    let cells: Vec<_> = cells.filter(|cell| cell.samples() > 0).collect();
    let needed = samples_for(Statistic::P99).unwrap_or(0);
    let short = cells.iter().filter(|cell| !cell.shortfalls().is_empty()).count();
    let is_p99 = |key: &Key| key.statistic == Statistic::P99 && Figure::HEADLINES.contains(&key.figure);
    let bounds = sides.iter().flat_map(|side| {
        let table = &side.metrics;
        let p99s = table.select(is_p99).map(|rounds| rounds.key);
        p99s.map(|key| table.is_bounded(key.row, table.stream(key), key.figure, key.statistic))
    });
    let bounds: Vec<bool> = bounds.collect();
    let unbounded = bounds.iter().filter(|is_bounded| !**is_bounded).count();
    let measured = counted(cells.len(), "measurement");
    let latencies = if bounds.len() == 1 { "1 latency".to_owned() } else { format!("{} latencies", bounds.len()) };
    let parts = [
        (short, format!("fewer samples than planned in {short} of {measured}")),
        (unbounded, format!("too few samples for p99 (under {needed} in a round) in {unbounded} of {latencies}")),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|part| part.0 > 0).map(|part| part.1).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Sentence that payloads were neither written nor read; a logger has no receiver, so it is not counted.
fn untouched(sides: &[MeasuredSide<'_>]) -> Option<String> {
    let subs = sides.iter().flat_map(MeasuredSide::undisturbed).map(|sub| sub.planned);
    let subs: Vec<&SubExperiment> = subs.filter(|sub| !sub.workload.is_log()).collect();
    match (subs.iter().filter(|sub| sub.touch == Touch::None).count(), subs.len()) {
        (0, _) => None,
        (none, all) if none == all => Some("The payload was not read (touch none)".to_owned()),
        (none, all) => Some(format!("In {none} of {all} sub-experiments the payload was not read (touch none)")),
    }
}

fn missed(sides: &[MeasuredSide<'_>]) -> Option<String> {
    let of_side = |side: &'_ MeasuredSide<'_>| {
        let rows = side.metrics.all_rows().filter(|row| side.metrics.is_rate_missed(*row));
        rows.map(|row| side.metrics.sub(row).to_owned()).collect::<Vec<_>>()
    };
    let names: BTreeSet<String> = sides.iter().flat_map(of_side).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    (!names.is_empty()).then(|| format!("rate missed by {}", listed(&names)))
}

fn polled(sides: &[MeasuredSide<'_>]) -> Option<String> {
    let polled = sides.iter().flat_map(MeasuredSide::undisturbed).filter(|sub| sub.polls_on_shared_cpu);
    let names: Vec<&str> = polled.map(|sub| sub.planned.name.as_str()).collect();
    (!names.is_empty())
        .then(|| format!("scheduler time slices were measured instead of {}, on a shared CPU", listed(&names)))
}

/// Findings of the machine audits.
struct Disturbances {
    text: String,
    is_audited: bool,
    /// Gravest finding; `None` if there is none.
    level: Option<Level>,
}

fn disturbances(sides: &[MeasuredSide<'_>]) -> Disturbances {
    let audits = |side: &MeasuredSide<'_>| {
        let environment = &side.manifest.environment;
        [environment.audit_before.clone(), environment.audit_after.clone()].into_iter().flatten().collect::<Vec<_>>()
    };
    let all: Vec<_> = sides.iter().flat_map(audits).collect();
    let at = |level: Level| -> BTreeSet<&str> {
        all.iter().flat_map(|audit| audit.at(level)).map(|finding| finding.check.as_str()).collect()
    };
    let (fails, mut warns) = (at(Level::Fail), at(Level::Warn));
    warns.retain(|check| !fails.contains(check));
    let named = |checks: &BTreeSet<&str>, noun: &str| {
        let names: Vec<&str> = checks.iter().copied().collect();
        (!checks.is_empty()).then(|| format!("{} ({})", counted(checks.len(), noun), listed(&names)))
    };
    let parts: Vec<String> = [named(&fails, "failure"), named(&warns, "warning")].into_iter().flatten().collect();
    let text = match (all.is_empty(), parts.is_empty()) {
        (true, _) => "the machine was not audited".to_owned(),
        (false, true) => "no warnings in the machine audit".to_owned(),
        (false, false) => format!("the machine audit has {}", parts.join(" and ")),
    };
    let found = [(Level::Fail, &fails), (Level::Warn, &warns)].into_iter().find(|(_, checks)| !checks.is_empty());
    Disturbances { text, is_audited: !all.is_empty(), level: found.map(|(level, _)| level) }
}

/// Notes on failures, failed proofs, losses, disturbed sub-experiments and other hosts.
fn notes(side: &MeasuredSide<'_>, is_named: bool) -> Vec<Note> {
    let blocks = screen::screen(side.manifest, false).blocks;
    let notes = blocks.into_iter().filter_map(|block| if let Block::Notes(notes) = block { Some(notes) } else { None });
    let kinds: Vec<&str> = [DISTURBED].into_iter().chain(MISHAPS).chain(hosts::KINDS).collect();
    let is_grave = |note: &Note| note.severity == Severity::Error || kinds.contains(&note.kind);
    let grave = notes.flatten().filter(is_grave);
    let name = |note: Note| match is_named {
        true => Note { text: format!("{}: {}", side.name, note.text), ..note },
        false => note,
    };
    grave.map(name).collect()
}

/// Labels of both sides of the ranked results.
fn labels<'a>(side: &MeasuredSide<'_>, panels: &'a [Panel<'_>]) -> [&'a str; 2] {
    let label = |name: &'static str| {
        let curves = panels.iter().flat_map(|panel| &panel.curves);
        let of_side = |curve: &&Curve<'_>| curve.side.name == side.name && curve.merged().planned.name == name;
        curves.into_iter().find(of_side).map_or(name, |curve| curve.label.as_str())
    };
    SIDES.map(label)
}

//! Two sides that were measured in pairs.

use crate::audit;
use crate::document::{Block, Document, Facts, Note, Severity};
use crate::merged::{Merged, rounds_text};
use crate::notes::{failed_proof, mishaps_and_warm_up, proof};
use crate::number::counted;
use crate::queues;
use crate::run_notes;
use crate::series;
use crate::verdicts;
use std::collections::BTreeSet;
use tripmeter_analysis::MetricTable;
use tripmeter_analysis::comparison::JudgedFigure;
use tripmeter_analysis::pairs::Pairs;
use tripmeter_model::address::FigureAddress;
use tripmeter_model::manifest::{Counts, Manifest, RunStatus, has_several_sizes};
use tripmeter_model::payload::at_text;
use tripmeter_model::plan::SubExperiment;
use tripmeter_stats::runs::Question;

/// Names of the sides in tables.
const LETTERS: [&str; 2] = ["A", "B"];

/// Everything that the page of `tripmeter ab` shows.
#[derive(Clone, Debug)]
pub struct Ab<'a> {
    /// Results; sub-experiment 0 of its plan is A, 1 is B.
    pub manifest: &'a Manifest,
    /// Plugin of each side; `None` for a built-in transport.
    pub plugins: [Option<&'a str>; 2],
    /// Pairs of rounds.
    pub pairs: &'a Pairs<'a>,
    /// Margin, error rate and power.
    pub question: &'a Question,
    /// Change that should be detected, as a share.
    pub effect: f64,
    /// Judged figures.
    pub comparisons: &'a [JudgedFigure],
    /// Figures that were 0 in some run, so that they have no ratio.
    pub not_compared: &'a [FigureAddress],
    /// True if the figures of the sides have intervals.
    pub has_intervals: bool,
    /// Reason why there are fewer rounds than requested; empty if there are not.
    pub stopped: &'a str,
    /// Note on percentiles that have too few samples.
    pub too_few: Option<String>,
}

/// The sides, a row per comparison, the verdicts, and notes on failures, losses and the samples.
pub fn ab(ab: &Ab<'_>) -> Document {
    let plan = &ab.manifest.plan;
    let metrics = MetricTable::from_manifest(ab.manifest);
    let named: Vec<SubExperiment> = LETTERS.iter().zip(&plan.sub_experiments).map(named).collect();
    let mut merged = Merged::from_manifest(ab.manifest);
    merged.iter_mut().zip(&named).for_each(|(side, named)| side.planned = named);
    let sides = LETTERS.iter().zip(&merged).zip(ab.plugins);
    let sides = sides.map(|((letter, side), plugin)| ((*letter).to_owned(), described(side, plugin)));
    let mut blocks = vec![Block::Facts(Facts { title: String::new(), pairs: sides.collect() })];
    blocks.extend(Block::notes(libraries(&merged)));
    let mut verdicts = String::new();
    if ab.comparisons.is_empty() {
        verdicts += match ab.not_compared.is_empty() {
            true => "No pair was measured.\n",
            false => "No figure was judged: each is 0 in at least one run, so it has no ratio.\n",
        };
    } else {
        blocks.push(Block::Table(verdicts::table_of_pairs(ab.comparisons, LETTERS, ab.has_intervals)));
        verdicts += &verdicts::summary(ab.comparisons, ab.question, ab.effect);
    }
    let stopped = if ab.stopped.is_empty() { String::new() } else { format!("; {}", ab.stopped) };
    let rounds = rounds_text(plan.rounds, merged.iter().flat_map(Merged::payloads).map(|payload| payload.cells.len()));
    let state = if ab.manifest.status == RunStatus::Complete { "" } else { ", INCOMPLETE" };
    verdicts += &format!("{rounds}{state}, each in random order (seed {}){stopped}\n", plan.seed);
    blocks.push(Block::Text(verdicts));
    let mut notes = outcomes(ab);
    notes.extend(ab.not_compared.iter().map(|address| {
        let (place, name) = (address.place(), address.name());
        let text =
            format!("{}: {name} at {place}: it is 0 in at least one run, so it has no ratio", verdicts::NOT_COMPARED);
        Note::warning(verdicts::NOT_COMPARED, text)
    }));
    notes.extend(ab.too_few.iter().map(|text| Note::warning("too few samples", text.clone())));
    notes.extend(verdicts::modes(ab.comparisons, LETTERS));
    notes.extend(messages(ab));
    notes.extend(queues::notes(&merged));
    for (index, side) in (0..).zip(&merged) {
        notes.extend(failed_proof(side).map(|text| Note::error("path proof", text)));
        notes.extend(run_notes::shared_cpus(plan, side.planned));
        notes.extend(series::notes_of(index, side, &metrics));
    }
    notes.extend(audit::note(ab.manifest).map(|text| Note::info("machine", text)));
    blocks.extend(Block::notes(notes));
    if !ab.comparisons.is_empty() {
        blocks.push(Block::Text(verdicts::legend(ab.question, LETTERS, ab.has_intervals)));
    }
    Document { blocks }
}

/// Side named by its letter, as in the notes.
fn named((letter, side): (&&str, &SubExperiment)) -> SubExperiment {
    SubExperiment { name: (*letter).to_owned(), ..side.clone() }
}

/// Notes on resumed runs, on an interruption, and on failed rounds, which are in no verdict.
fn outcomes(ab: &Ab<'_>) -> Vec<Note> {
    let mut notes = Vec::new();
    if let Some(last) = ab.manifest.resumptions.last() {
        let (times, round) = (counted(ab.manifest.resumptions.len(), "time"), last.after_round);
        let text =
            format!("RESUMED {times}, the last time after round {round}; later rounds were measured at another time");
        notes.push(Note::warning("resumed", text));
    }
    if ab.manifest.status == RunStatus::Interrupted {
        let text = "INTERRUPTED: the verdicts use the pairs measured so far".to_owned();
        notes.push(Note::warning("interrupted", text));
    }
    notes.extend(ab.pairs.failures.iter().map(|failure| {
        let is_recorded = ab.manifest.plan.recording.is_some();
        let at = failure.payload_bytes.map(|bytes| format!(" {}", at_text(bytes, is_recorded))).unwrap_or_default();
        let (round, side, why) = (failure.round, LETTERS[failure.side], &failure.why);
        let text = format!("FAILED: {side}{at}, round {round}: {why}; the verdicts do not use this round");
        Note::error("failed or not run", text)
    }));
    notes
}

/// Description of a side: `zeromq/ipc, wait poll, touch none, path proof ok, version 4.3.5, LD_LIBRARY_PATH=/opt/new`.
fn described(merged: &Merged<'_>, plugin: Option<&str>) -> String {
    let (side, proven) = (merged.planned, proof(merged));
    let mut text = format!("{}, wait {}, touch {}", side.transport, side.wait, side.touch);
    text += &format!(", path proof {proven}");
    if let Some(result) = merged.results.iter().find(|result| !result.system_version.is_empty()) {
        text += &format!(", version {}", result.system_version);
    }
    if side.answer_delay_ns > 0 {
        text += &format!(", answers delayed by {} ns outside the transport", side.answer_delay_ns);
    }
    text += &plugin.map(|file| format!(", plugin '{file}'")).unwrap_or_default();
    text + &side.environment.iter().map(|(key, value)| format!(", {key}={value}")).collect::<String>()
}

/// Notes on libraries that only one side loaded; an error if both loaded the same although their `LD_...` variables
/// differ.
fn libraries(sides: &[Merged<'_>]) -> Vec<Note> {
    let loaded = |side: &Merged<'_>| -> BTreeSet<String> {
        let processes = side.results.iter().flat_map(|result| &result.processes);
        processes.flat_map(|process| process.libraries.iter().cloned()).collect()
    };
    let [a, b] = sides else { return Vec::new() };
    let (of_a, of_b) = (loaded(a), loaded(b));
    if of_a.is_empty() || of_b.is_empty() {
        return Vec::new();
    }
    let note = |severity, text| Note::new(severity, "libraries", None, text);
    let only = |letter, own: &BTreeSet<String>, other: &BTreeSet<String>| {
        let files = own.difference(other).map(|file| format!("only {letter} loaded '{file}'"));
        files.map(|text| note(Severity::Info, text)).collect::<Vec<_>>()
    };
    let told = |side: &Merged<'_>| -> Vec<(String, String)> {
        let environment = side.planned.environment.iter().filter(|(key, _)| key.starts_with("LD_"));
        environment.map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    if of_a == of_b && told(a) != told(b) {
        let count = counted(of_a.len(), "library file");
        let text = format!("SAME LIBRARIES: both sides loaded the same {count} although their LD_... variables differ");
        return vec![note(Severity::Error, text)];
    }
    [only(LETTERS[0], &of_a, &of_b), only(LETTERS[1], &of_b, &of_a)].concat()
}

/// Notes per side and payload on missing messages, and on fewer samples than planned.
fn messages(ab: &Ab<'_>) -> Vec<Note> {
    let mut notes = Vec::new();
    for (side, planned) in ab.manifest.plan.sub_experiments.iter().enumerate().take(LETTERS.len()) {
        for &bytes in &planned.payloads {
            let cells = ab.pairs.pairs.iter().map(|pair| pair.cells[side]).filter(|cell| cell.payload_bytes == bytes);
            let counts = cells.clone().fold(Counts::default(), |sum, cell| sum + cell.counts());
            let several = has_several_sizes(planned, cells.clone());
            let place = format!("{} {}", LETTERS[side], at_text(bytes, several));
            let mut note =
                |severity, kind, what| notes.push(Note::new(severity, kind, None, format!("{place}: {what}")));
            let warmup_damaged = cells.clone().map(|cell| cell.warmup_damaged).fold(0, u64::saturating_add);
            let what = mishaps_and_warm_up(&counts, warmup_damaged, &planned.workload);
            if !what.is_empty() {
                note(Severity::Warning, "lost or out of order", what);
            }
            let changed = cells.clone().filter(|cell| cell.mode_change().is_some()).count();
            let again = cells.clone().map(|cell| cell.earlier_attempts.len()).sum::<usize>();
            if changed + again > 0 {
                let (rounds, attempts) = (counted(changed, "round"), counted(again, "attempt"));
                let repeated = if again == 1 { "which was repeated" } else { "which were repeated" };
                let when = match (changed, again) {
                    (0, _) => format!("during {attempts}, {repeated}; no final result is affected"),
                    (_, 0) => format!("in {rounds}"),
                    _ => format!("in {rounds}, and during {attempts}, {repeated}"),
                };
                let what = format!("the core-to-core latency changed {when}");
                note(Severity::Info, "core-to-core latency changed", what);
            }
            let missed = cells.clone().filter(|cell| cell.trials.iter().any(|trial| trial.rate_missed)).count();
            if missed > 0 {
                note(Severity::Warning, "rate missed", format!("the rate was missed in {}", counted(missed, "round")));
            }
            if let Some(cut) = cells.clone().find_map(|cell| cell.cut_short.as_ref()) {
                let short = cells.filter(|cell| cell.cut_short.is_some()).count();
                let what = format!("fewer samples than planned in {short} rounds: {cut}");
                note(Severity::Warning, "fewer samples than planned", what);
            }
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, add, put, result};
    use crate::render;
    use tripmeter_analysis::Selection;
    use tripmeter_analysis::pairs::judged;
    use tripmeter_model::figure::Figure;
    use tripmeter_model::metric::Stream;
    use tripmeter_model::pace::OfferedLoad;
    use tripmeter_stats::change::Control;
    use tripmeter_stats::power::Layout;

    const QUESTION: Question =
        Question { layout: Layout::Paired, margin: 0.02, control: Control::Fdr(0.05), power: 0.95 };

    /// Eight rounds; B is slower by a quarter at 1k, and equal at 64k.
    fn manifest() -> Manifest {
        let mut manifest = fixture::manifest();
        (manifest.plan.rounds, manifest.plan.seed) = (8, 7);
        add(&mut manifest, "a", "uds/datagram", &[1024, 65536]);
        add(&mut manifest, "b", "uds/stream", &[1024, 65536]);
        for round in 1..=8 {
            let pace = 1000.0 + 40.0 * f64::from(round);
            let wobble = 1.0 + 0.002 * f64::from(round % 3);
            let a = [(1024, pace), (65536, 4.0 * pace)];
            let b = [(1024, 1.25 * wobble * pace), (65536, 4.0 * wobble * pace)];
            let order = if round % 2 == 0 { [("a", a), ("b", b)] } else { [("b", b), ("a", a)] };
            for (name, cells) in order {
                result(&mut manifest, name, round, &cells);
            }
        }
        manifest
    }

    fn text(manifest: &Manifest) -> String {
        text_with(manifest, false)
    }

    fn text_with(manifest: &Manifest, has_intervals: bool) -> String {
        fixture::text(&document(manifest, has_intervals))
    }

    fn document(manifest: &Manifest, has_intervals: bool) -> Document {
        let pairs = Pairs::from_manifest(manifest, ["a", "b"]);
        let comparisons = judged(&pairs.figures(&Selection::default()), &QUESTION).unwrap();
        let plugins = [None, Some("/opt/new/tripmeter_uds.so")];
        let stopped = "enough for the effect";
        ab(&Ab {
            manifest,
            plugins,
            pairs: &pairs,
            question: &QUESTION,
            effect: 0.1,
            comparisons: &comparisons,
            not_compared: &[],
            has_intervals,
            stopped,
            too_few: None,
        })
    }

    #[test]
    fn machines_get_numbers_with_their_intervals() {
        let mut manifest = manifest();
        let document = document(&manifest, false);
        let Some(Block::Table(table)) = document.blocks.iter().find(|block| matches!(block, Block::Table(_))) else {
            panic!("{document:?}")
        };
        let head = "payload_bytes,figure,a_ns,b_ns,ratio,ratio_low,ratio_high,p,seen_from_percent,verdict";
        assert_eq!(render::csv(table).lines().next(), Some(head));
        let json = render::json(&document);
        let row = &json["blocks"].as_array().unwrap().iter().find(|block| !block["table"].is_null()).unwrap()["table"]
            ["rows"][0];
        let number = |cell: &serde_json::Value| cell.as_f64().unwrap();
        let ends = ["low", "value", "high"].map(|end| number(&row["ratio"][end]));
        assert!(ends[0] < ends[1] && ends[1] < ends[2] && number(&row["seen_from_percent"]) > 0.0, "{row}");
        // Too few pairs for an interval.
        manifest.sub_experiments.truncate(4);
        assert!(text(&manifest).contains("n too small"), "{}", text(&manifest));
    }

    #[test]
    fn sides_comparisons_and_verdicts_are_reported() {
        let mut manifest = manifest();
        manifest.plan.sub_experiments[1].environment.insert("LD_LIBRARY_PATH".to_owned(), "/opt/new".to_owned());
        let text = text(&manifest);
        let begin = "\
A: uds/datagram, wait poll, touch none, path proof ok, version 1.0
B: uds/stream, wait poll, touch none, path proof ok, version 1.0, plugin '/opt/new/tripmeter_uds.so', LD_LIBRARY_PATH=/opt/new

";
        assert!(text.starts_with(begin), "{text}");
        let rows = fixture::squeezed(&text);
        assert!(
            rows.iter().any(|row| row.starts_with("1k rtt_half_ns.p50 1.180 1.4") && row.ends_with("REGRESSED")),
            "{text}"
        );
        assert!(
            rows.iter().any(|row| row.starts_with("64k rtt_half_ns.p99 9.440 9.4") && row.ends_with("equivalent")),
            "{text}"
        );
        let summary =
            "2 regressed, 0 improved, 2 equivalent, 0 inconclusive; margin 2 %. Of the changes reported, at most 5 %";
        let squeezed = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(squeezed.contains(summary), "{text}");
        assert!(text.contains("8 rounds, each in random order (seed 7); enough for the effect\n"), "{text}");
        assert!(!text.contains("FAILED") && !text.contains("Too noisy"), "{text}");
    }

    #[test]
    fn the_table_fits_80_columns_and_sides_have_intervals_if_asked() {
        let mut manifest = manifest();
        let text = text(&manifest);
        let table: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("8 pairs of runs")).take(9).collect();
        assert_eq!(
            table[2..6],
            [
                "payload figure              A     B        ratio     p detect- verdict",
                "                                         by pair        able %",
                "-------------------------------------------------------------------------",
                "     1k rtt_half_ns.p50 1.180 1.479        1.253 0.016    +2.4 REGRESSED",
            ],
            "{text}"
        );
        assert!(table.iter().all(|line| line.chars().count() <= 80), "{text}");
        assert!(!text.contains("1.040..1.320") && text_with(&manifest, true).contains("1.040..1.320"), "{text}");
        manifest.sub_experiments.truncate(15);
        manifest.status = RunStatus::Interrupted;
        let uneven = text_with(&manifest, false);
        assert!(uneven.contains("7 pairs of runs"), "{uneven}");
        assert!(uneven.contains("7 to 8 rounds (8 planned), INCOMPLETE, each in random order"), "{uneven}");
        manifest.sub_experiments.last_mut().unwrap().cells.truncate(1);
        fixture::trial_of(&mut manifest, 13).remove(&Stream::all(), Figure::RttHalf);
        let uneven = text_with(&manifest, false);
        assert!(uneven.contains("payload figure          pairs"), "{uneven}");
    }

    /// B has one more slow round than A. That moves its median to the slow mode, but not the ratio of most pairs.
    #[test]
    fn a_ratio_that_is_not_that_of_the_columns_is_named() {
        let mut manifest = fixture::manifest();
        (manifest.plan.rounds, manifest.plan.seed) = (9, 7);
        add(&mut manifest, "a", "uds/datagram", &[1024]);
        add(&mut manifest, "b", "uds/stream", &[1024]);
        for round in 1..=9 {
            let pace = if round <= 5 { 1000.0 } else { 4000.0 };
            let other = if round == 5 { 6400.0 } else { 1.6 * pace };
            for (name, pace) in [("a", pace), ("b", other)] {
                result(&mut manifest, name, round, &[(1024, pace)]);
            }
        }
        let squeezed = text(&manifest).split_whitespace().collect::<Vec<_>>().join(" ");
        let modes = "B / A is 6.40 by the medians, but 1.60 by the runs, because runs fall into two groups";
        assert!(squeezed.contains(modes), "{squeezed}");
        assert!(!text(&self::manifest()).contains("fall into two groups"));
    }

    #[test]
    fn every_note_calls_a_side_by_its_letter() {
        let mut manifest = manifest();
        let drift = Some(tripmeter_model::series::Trend { change: 0.06, p: 1e-6 });
        let series = tripmeter_model::series::Series {
            every: 1,
            samples: 10_000,
            warm_up: None,
            autocorrelation: None,
            drift,
            modes: None,
        };
        fixture::trial_of(&mut manifest, 0).put_series(&Stream::all(), Figure::RttHalf, Some(series));
        let proof = manifest.sub_experiments[1].path_proof.as_mut().unwrap();
        proof.verdict = tripmeter_model::manifest::Verdict::Failed;
        let text = text(&manifest);
        for note in [" at 1k: the median rose 6 %", "PATH PROOF FAILED: "] {
            assert!(text.contains(note), "{text}");
        }
        assert!(!text.contains("a at 1k") && !text.contains("b at 1k") && !text.contains("FAILED: a ("), "{text}");
    }

    #[test]
    fn who_was_first_is_known_and_a_failed_round_is_left_out_with_a_note() {
        let mut manifest = manifest();
        let found = Pairs::from_manifest(&manifest, ["a", "b"]);
        assert_eq!(found.pairs.len(), 16);
        assert!(found.pairs.iter().all(|pair| pair.first == (pair.round % 2) as usize), "{:?}", found.pairs);
        let failed = &mut manifest.sub_experiments[5];
        (failed.status, failed.error) = (RunStatus::Failed, Some("the follower ended".to_owned()));
        let (name, round) = (failed.name.clone(), failed.round);
        fixture::trial_of(&mut manifest, 8).remove(&Stream::all(), Figure::RttHalf);
        put(&mut manifest.sub_experiments[10].cells[1].trials[0], &[(Figure::Lost, 3.0)]);
        let found = Pairs::from_manifest(&manifest, ["a", "b"]);
        assert_eq!((found.pairs.len(), found.failures.len()), (16 - 2 - 1, 2));
        let text = text(&manifest);
        let letter = name.to_uppercase();
        let loud = format!("FAILED: {letter}, round {round}: the follower ended; the verdicts do not use this round\n");
        assert!(text.contains(&loud), "{text}");
        assert!(text.contains(" at 1k, round 5: no message was answered or arrived; the verdicts"), "{text}");
        assert!(text.contains(" at 64k: 3 lost\n"), "{text}");
    }

    /// A round without all offered loads or topics is left out of the verdicts.
    #[test]
    fn what_was_measured_in_part_is_left_out_with_a_note() {
        let mut manifest = manifest();
        manifest.plan.sub_experiments[0].workload.loads = [1.0, 2.0].map(|hz| OfferedLoad::Rate { hz }).to_vec();
        manifest.sub_experiments.iter_mut().filter(|one| one.name == "a").for_each(|one| {
            one.cells[1].cut_short = Some("time cap: 1 of 2 offered loads".into());
        });
        let found = Pairs::from_manifest(&manifest, ["a", "b"]);
        assert!(found.pairs.is_empty() && found.failures.iter().all(|one| one.side == 0), "{:?}", found.failures);
        assert!(found.failures.iter().any(|one| one.why.contains("not every offered load was measured")));
    }

    #[test]
    fn too_few_pairs_have_no_interval_and_none_at_all_no_table() {
        let mut manifest = manifest();
        manifest.sub_experiments.truncate(8);
        let few = text(&manifest);
        assert!(few.contains("n too small") && few.contains("inconclusive") && few.contains("Too noisy to"), "{few}");
        manifest.sub_experiments.truncate(1);
        manifest.status = RunStatus::Interrupted;
        let none = text(&manifest);
        assert!(none.contains("No pair was measured.\n") && none.contains("INTERRUPTED") && !none.contains("ratio"));
    }
}

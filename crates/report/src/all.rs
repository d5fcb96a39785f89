//! Page of all figures: a table for each kind of sub-experiment, notes, and the meaning of the columns.

use crate::document::{Block, Cell, Document, Missing, Note};
use crate::measured::MeasuredSide;
use crate::merged::{Merged, rounds_text};
use crate::notes::NO_KERNEL_TIME;
use crate::results::NamedResults;
use crate::tables::{self, FURTHER_TABLES, PatternTable, TABLES};
use crate::{fastest, run_notes};
use tripmeter_model::manifest::{Manifest, RunStatus};

/// Legend of the intervals below figures, for all tables.
pub const INTERVALS: &str = "below figures: 95 % intervals of the median over rounds, or within the only round (runs \
                             differ by more: --rounds). n too small: fewer than 6 rounds, or too few samples for a \
                             two-sided interval (p50 needs 6, p90 36, p99 368, p99.9 3688, p99.99 36887). Losses: \
                             smallest to largest share of a round, in per cent of the messages sent; for one round, or \
                             without a loss, Clopper-Pearson as if messages were lost independently.";

/// All figures: one line per sub-experiment and payload, grouped by payload, with the ratio to the floor. Then failures, and
/// the meaning of the columns.
///
/// Over several rounds, figures are medians, maxima are of all rounds, and counts are totals.
pub fn all(manifest: &Manifest) -> Document {
    let side = MeasuredSide::new(&NamedResults { name: "", manifest });
    let mut blocks = Vec::new();
    for kind in &TABLES {
        let table = (kind.table)(caption(&side, kind), &side, &kind.rows(&side));
        if !table.rows.is_empty() {
            blocks.push(Block::Table(table));
            blocks.extend(fastest::line(&side, |sub| kind.is_of(sub), kind.figure));
        }
    }
    blocks.extend(FURTHER_TABLES.iter().filter_map(|table| table(&side)).map(Block::Table));
    if blocks.is_empty() {
        blocks.push(Block::Text("Nothing was measured.".to_owned()));
    }
    let of_run = run_notes::of_run(&side, tables::notes(&side));
    let mut notes = [run_notes::outcomes(&side.subs), tables::payload_notes(&side), of_run].concat();
    if cells(&blocks).any(|cell| *cell == Cell::Missing(Missing::SplitByTicks)) {
        let text = format!("the column kernel is empty: {NO_KERNEL_TIME}");
        notes.push(Note::info("kernel time", text));
    }
    notes.sort_by_key(|note| note.severity);
    blocks.extend(Block::notes(notes));
    let legend = interval_legend(&blocks);
    blocks.extend(legend);
    Document { blocks }
}

/// Legend of the intervals, if there are any.
pub fn interval_legend(blocks: &[Block]) -> Option<Block> {
    has_intervals(blocks).then(|| Block::Text(INTERVALS.to_owned()))
}

fn cells(blocks: &[Block]) -> impl Iterator<Item = &Cell> {
    let tables = blocks.iter().filter_map(|block| if let Block::Table(table) = block { Some(table) } else { None });
    tables.flat_map(|table| &table.rows).flat_map(|(_, cells)| cells)
}

/// True if any figure of the tables has an interval, or lacks one because of too few samples.
fn has_intervals(blocks: &[Block]) -> bool {
    cells(blocks).any(|cell| cell.interval().is_some() || *cell == Cell::Missing(Missing::TooFewSamples))
}

fn caption(side: &MeasuredSide<'_>, kind: &PatternTable) -> String {
    let manifest = side.manifest;
    let mut text = format!("All transports, {}", kind.caption());
    if manifest.status != RunStatus::Complete {
        text += ", INCOMPLETE";
    }
    if manifest.plan.rounds > 1 {
        let payloads = side.subs.iter().filter(|sub| kind.is_of(sub.planned)).flat_map(Merged::payloads);
        let rounds = rounds_text(manifest.plan.rounds, payloads.map(|payload| payload.cells.len()));
        text += &format!("; {rounds}: medians over rounds; max, n and lost are over all rounds");
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::fixture::{self, add, all, result, rows_of};
    use tripmeter_model::figure::Figure;
    use tripmeter_model::manifest::{PathProof, RefusalTrial, RunStatus, UnauthorizedPeer, Verdict};

    #[test]
    fn nothing_measured_is_said() {
        let mut manifest = fixture::manifest();
        assert_eq!(all(&manifest), "Nothing was measured.\n");
        add(&mut manifest, "mq", "mq/queue", &[1024]);
        manifest.plan.left_out = vec!["iceoryx: no library".to_owned(), "iceoryx2: not built".to_owned()];
        manifest.plan.missing = vec!["iceoryx2: not built".to_owned()];
        let expected = "Nothing was measured.\n\n\
            NOT RUN: mq\nNOT MEASURED: iceoryx2: not built\nleft out: iceoryx: no library\n";
        assert_eq!(all(&manifest), expected);
    }

    #[test]
    fn failed_and_interrupted_rounds_are_named_with_what_they_lack() {
        let mut manifest = fixture::manifest();
        manifest.plan.rounds = 2;
        manifest.status = RunStatus::Interrupted;
        add(&mut manifest, "mq", "mq/queue", &[1024, 2048]);
        add(&mut manifest, "pipe", "pipe/fifo", &[1024, 2048]);
        result(&mut manifest, "mq", 1, &[(1024, 1000.0), (2048, 1000.0)]);
        let failed = result(&mut manifest, "mq", 2, &[(1024, 1000.0)]);
        (failed.status, failed.error) = (RunStatus::Failed, Some("the follower ended".to_owned()));
        result(&mut manifest, "pipe", 1, &[]).status = RunStatus::Interrupted;
        let text = all(&manifest);
        assert!(
            text.starts_with("All transports, pattern ping, INCOMPLETE; 1 to 2 rounds (2 planned): median"),
            "{text}"
        );
        let expected = "\
FAILED: mq, round 2: the follower ended; no figures for 2k
INTERRUPTED: pipe, round 1; no figures for 1k, 2k
NOT RUN: pipe, round 2
";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn a_failed_path_proof_is_loud_and_no_floor() {
        let mut manifest = fixture::manifest();
        manifest.plan.rounds = 2;
        for (name, transport) in [("mq", "mq/queue"), ("shm", "shm/chunks")] {
            add(&mut manifest, name, transport, &[1024]);
            result(&mut manifest, name, 1, &[(1024, 1000.0)]);
            result(&mut manifest, name, 2, &[(1024, 1000.0)]);
        }
        let proof = manifest.sub_experiments[3].path_proof.as_mut().unwrap();
        *proof = PathProof::new(
            tripmeter_model::Path::SharedMemory,
            Verdict::Failed,
            "2048 bytes went over a socket".to_owned(),
        );
        manifest.sub_experiments[0].path_proof.as_mut().unwrap().verdict = Verdict::NotVisible;
        let text = all(&manifest);
        let loud = "PATH PROOF FAILED: shm (shm/chunks), round 2: claimed shared-memory, seen: 2048 bytes went over a \
                    socket; its figures do not measure this transport\n";
        assert!(text.contains(loud), "{text}");
        assert!(rows_of(&text, "shm")[0].ends_with(" - 0 FAILED"), "{text}");
        assert!(rows_of(&text, "mq")[0].ends_with(" - 0 not visible"), "{text}");
    }

    #[test]
    fn a_secured_transport_says_whether_unauthorized_peers_were_refused() {
        let mut manifest = fixture::manifest();
        for (name, refused) in [("tcp", Some(true)), ("udp", Some(false)), ("mq", None)] {
            add(&mut manifest, name, &format!("{name}/loopback"), &[1024]);
            let proof = result(&mut manifest, name, 1, &[(1024, 1000.0)]).path_proof.as_mut().unwrap();
            let (waited_ns, why) = (2_000_000_000, "it crashed".to_owned());
            proof.unauthorized_peers = vec![RefusalTrial { kind: UnauthorizedPeer::Plain, refused, waited_ns, why }];
            (proof.verdict, proof.evidence) = match refused {
                Some(true) => (Verdict::Proven, "secured: a peer without security refused".to_owned()),
                Some(false) => (Verdict::Failed, "a peer without security was let in".to_owned()),
                None => (Verdict::NotVisible, "that a peer is refused is not proven: it crashed".to_owned()),
            };
        }
        let text = all(&manifest);
        assert!(rows_of(&text, "tcp")[0].ends_with(" 0 ok, secured"), "{text}");
        assert!(rows_of(&text, "udp")[0].ends_with(" 0 FAILED"), "{text}");
        assert!(rows_of(&text, "mq")[0].ends_with(" 0 not proven"), "{text}");
        let loud = "PATH PROOF FAILED: udp (udp/loopback): claimed unix-stream, seen: a peer without security was let \
                    in; its figures are not those of a secured transport\n";
        assert!(text.contains(loud), "{text}");
        let doubt = "NOT PROVEN: mq (mq/loopback): that a peer is refused is not proven: it crashed\n";
        assert!(text.contains(doubt), "{text}");
    }

    #[test]
    fn what_happened_to_messages_and_samples_is_noted() {
        let mut manifest = fixture::manifest();
        add(&mut manifest, "udp", "udp/loopback", &[1024]);
        let cell = &mut result(&mut manifest, "udp", 1, &[(1024, 1000.0)]).cells[0];
        fixture::set_trips(cell, 500);
        (cell.cut_short, cell.from_histogram) = (Some("time cap of 2 s".into()), true);
        let figures = [(Figure::Lost, 3.0), (Figure::Late, 1.0), (Figure::Damaged, 2.0)];
        fixture::put(&mut cell.trials[0], &figures);
        let text = all(&manifest);
        assert!(rows_of(&text, "udp/loopback")[0].contains(" 1k *500 1.000 "), "{text}");
        let expected = "\
* fewer samples than planned: time cap of 2 s
udp at 1k: 3 lost, 1 late, 2 damaged
raw samples were not kept, so figures come from histograms with three digits
";
        assert!(text.contains(expected), "{text}");
    }
}

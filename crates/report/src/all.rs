//! One page of everything: a table for each kind of sub-experiment, what is to be said of them, and what columns mean.

use crate::audit;
use crate::channel;
use crate::document::{Block, Cell, Document, Missing, Note, Severity};
use crate::fan_out;
use crate::log;
use crate::merged::Merged;
use crate::notes;
use crate::recording;
use crate::rpc;
use crate::series;
use crate::throughput;
use crate::trips;
use tripmeter_analysis::{MetricTable, Row};
use tripmeter_model::Pattern;
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::manifest::{Manifest, Status};
use tripmeter_model::metric::Stream;
use tripmeter_model::payload::display_size;
use tripmeter_model::plan::SubExperiment;

/// What the column of the path proof means.
pub const PROOF_LEGEND: &str = "\
path proof: whether the operating system shows that the payload went the way that the transport claims; secured: and
a peer without the right credentials was refused.
";

/// How to read the intervals below figures.
pub const ROUNDS: &str =
    "below figures: the interval of the median over rounds, at 95 %; n too small = fewer than 6 rounds.";
pub const WITHIN: &str =
    "below figures: their intervals at 95 % within this one run, by counting samples; runs differ by more (--rounds).";
pub const SHARES: &str = "below lost: the interval of its share in per cent of those sent, at 95 %: from the least to the most of a \
                      round; of one round, or without a loss, by Clopper and Pearson as if messages were lost one by one.";
pub const TOO_FEW: &str = "n too small: within this run, the quantile has no upper bound at 95 %.";

/// One table of everything: a line for each sub-experiment and payload, grouped by payload, with its distance from the
/// floor; below it, whatever failed, and what the columns mean.
///
/// Of several rounds, each figure is the median over the rounds, the maximum is that of all, and counts are totals.
pub fn all(manifest: &Manifest) -> Document {
    let (subs, metrics) = (Merged::of(manifest), MetricTable::of(manifest));
    let (loads, flows) = (throughput::rows(&subs), channel::rows(&subs));
    let (mut calls, logs) = (rpc::rows(&subs), log::rows(&subs));
    calls.sort_by_key(|row| row.sub.planned.pattern == Pattern::Rpc);
    let plays = recording::plays(&subs);
    let tables = [
        trips::table(caption(manifest, trips::is_of, ""), &subs, &metrics),
        fan_out::table(caption(manifest, fan_out::is_of, ", several followers"), &subs, &metrics),
    ];
    let mut blocks: Vec<Block> = tables.into_iter().filter(|table| !table.rows.is_empty()).map(Block::Table).collect();
    let mut parts = Vec::new();
    if !loads.is_empty() {
        let caption = caption(manifest, |sub| sub.pattern == Pattern::Throughput, "");
        parts.push(caption + "\n\n" + &throughput::table(&loads));
    }
    if !flows.is_empty() {
        let caption = caption(manifest, |sub| sub.pattern == Pattern::Channel, "");
        parts.push(caption + "\n\n" + &channel::table(&flows));
    }
    for calls in calls.chunk_by(|a, b| a.sub.planned.pattern == b.sub.planned.pattern) {
        let pattern = calls[0].sub.planned.pattern;
        let what = if pattern == Pattern::Rpc { "" } else { ", at a rate" };
        let is_of = |sub: &SubExperiment| sub.pattern == pattern && sub.rpc.is_some();
        parts.push(caption(manifest, is_of, what) + "\n\n" + &rpc::table(calls));
    }
    if !logs.is_empty() {
        parts.push(caption(manifest, |sub| sub.pattern == Pattern::Log, "") + "\n\n" + &log::table(&logs));
    }
    if let Some(recording) = manifest.plan.recording.as_ref().filter(|_| !plays.is_empty()) {
        parts.push(recording::caption(recording) + "\n" + &recording::table(recording, &plays));
    }
    blocks.extend(parts.drain(..).map(Block::Lines));
    if blocks.is_empty() {
        blocks.push(Block::Text("Nothing was measured.".to_owned()));
    }
    let others = [throughput::notes(&loads), channel::notes(&flows), rpc::notes(&calls), log::notes(&logs)].concat();
    let others = [others, recording::notes(&plays, manifest)].concat();
    let notes = notes(manifest, &subs, &metrics, others);
    if !notes.is_empty() {
        blocks.push(Block::Notes(notes));
    }
    blocks.extend(intervals(&blocks, manifest.plan.rounds).map(Block::Text));
    parts.push(legend(&flows, &calls));
    if !logs.is_empty() {
        parts.push(log::LEGEND.to_owned());
    }
    if !plays.is_empty() {
        let calls = if plays.iter().any(recording::Play::is_of_calls) { recording::CALLS_LEGEND } else { "" };
        parts.push(recording::LEGEND.to_owned() + calls + PROOF_LEGEND);
    }
    if !loads.is_empty() {
        parts.push(throughput::LEGEND.to_owned());
    }
    if throughput::has_damage(&loads) || channel::has_damage(&flows) {
        parts.push(trips::DAMAGED_LEGEND.to_owned());
    }
    parts.retain(|part| !part.is_empty());
    blocks.extend(parts.into_iter().map(Block::Lines));
    Document { blocks }
}

/// How to read the intervals of all tables, where there are any.
fn intervals(blocks: &[Block], rounds: u32) -> Option<String> {
    let tables = blocks.iter().filter_map(|block| if let Block::Table(table) = block { Some(table) } else { None });
    let cells: Vec<&Cell> = tables.flat_map(|table| &table.rows).flat_map(|(_, cells)| cells).collect();
    let has = |is: fn(&Cell) -> bool| cells.iter().any(|cell| is(cell));
    let has_any = has(|cell| matches!(cell, Cell::Number { interval: Some(_), .. }));
    let is_unbounded = |cell: &Cell| match cell {
        Cell::Number { interval: Some(interval), .. } => !(interval.low.is_finite() && interval.high.is_finite()),
        cell => *cell == Cell::Missing(Missing::TooFewSamples),
    };
    let parts = [
        (ROUNDS, has_any && rounds > 1),
        (WITHIN, has_any && rounds == 1),
        (SHARES, has(|cell| matches!(cell, Cell::Share { interval: Some(_), .. }))),
        (TOO_FEW, rounds == 1 && has(is_unbounded)),
    ];
    let parts: Vec<&str> = parts.into_iter().filter(|part| part.1).map(|part| part.0).collect();
    (!parts.is_empty()).then(|| parts.join("\n"))
}

fn legend(flows: &[channel::Row<'_>], calls: &[rpc::Row<'_>]) -> String {
    let mut loads = flows.iter().map(channel::Row::load).chain(calls.iter().map(rpc::Row::load));
    let parts = [
        (channel::LEGEND, !flows.is_empty()),
        (rpc::LEGEND, !calls.is_empty()),
        (throughput::BURSTS_LEGEND, loads.any(|load| load.burst().is_some())),
        (PROOF_LEGEND, !flows.is_empty() || !calls.is_empty()),
    ];
    parts.into_iter().filter(|part| part.1).map(|part| part.0).collect()
}

fn caption(manifest: &Manifest, is_of: impl Fn(&SubExperiment) -> bool, what: &str) -> String {
    let used =
        |pattern: &&Pattern| manifest.plan.sub_experiments.iter().any(|sub| is_of(sub) && sub.pattern == **pattern);
    let patterns: Vec<_> = Pattern::ALL.iter().filter(used).map(|pattern| pattern.as_str()).collect();
    let mut text = format!("All transports, pattern {}{what}", patterns.join(", "));
    if manifest.status != Status::Complete {
        text += ", INCOMPLETE";
    }
    if manifest.plan.rounds > 1 {
        let rounds = manifest.plan.rounds;
        text += &format!("; {rounds} rounds: median over rounds, max of all, n and lost are totals");
    }
    text
}

/// Everything that is to be said, the gravest first.
fn notes(manifest: &Manifest, subs: &[Merged<'_>], metrics: &MetricTable, others: Vec<String>) -> Vec<Note> {
    let mut all = Vec::new();
    let mut say = |severity, kind, anchor, text| all.push(Note { severity, kind, anchor, text });
    for line in notes::outcomes(subs.iter()) {
        say(Severity::Error, "failed or not run", None, line);
    }
    of_trips(subs, metrics, &mut say);
    for (index, sub) in (0..).zip(subs) {
        for cell in sub.payloads() {
            let row = metrics.only_row(index, cell.payload_bytes);
            let line = notes::handover(sub, &cell);
            line.into_iter().for_each(|line| say(Severity::Info, "core-to-core latency changed", row, line));
        }
    }
    for line in subs.iter().flat_map(series::notes) {
        say(Severity::Info, "samples in their order", None, line);
    }
    for sub in subs.iter().filter(|sub| sub.planned.is_fan_out()) {
        if let Some(shared) = manifest.plan.shared_processors(sub.planned) {
            say(Severity::Info, "shared CPUs", None, format!("{}: {shared}", sub.planned.name));
        }
    }
    for line in others {
        let severity = if line.starts_with(['*', '!']) { Severity::Warning } else { Severity::Info };
        say(severity, "trials", None, line);
    }
    let cells = || subs.iter().flat_map(|sub| &sub.results).flat_map(|result| &result.cells);
    if cells().any(|cell| cell.from_histogram) {
        let text = "raw samples were not kept: figures come from histograms of three digits";
        say(Severity::Info, "histograms", None, text.to_owned());
    }
    audit::note(manifest).into_iter().for_each(|line| say(Severity::Info, "machine", None, line));
    for left_out in &manifest.plan.left_out {
        match manifest.plan.missing.contains(left_out) {
            true => say(Severity::Warning, "missing", None, format!("MISSING: {left_out}")),
            false => say(Severity::Info, "left out", None, format!("left out: {left_out}")),
        }
    }
    all.sort_by_key(|note| note.severity);
    all
}

/// The same of round trips.
fn of_trips(
    subs: &[Merged<'_>],
    metrics: &MetricTable,
    say: &mut impl FnMut(Severity, &'static str, Option<Row>, String),
) {
    let rows = [trips::rows(subs, metrics, trips::is_of), trips::rows(subs, metrics, fan_out::is_of)].concat();
    let sub = |row: &Row| &subs[row.sub as usize];
    let mut reasons: Vec<&str> = Vec::new();
    let cells: Vec<_> = rows.iter().map(|row| (row, sub(row), sub(row).payload(row.payload_bytes))).collect();
    for reason in cells.iter().flat_map(|(_, _, cell)| cell.shortfalls()) {
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    for reason in reasons {
        let text = format!("* fewer samples than planned: {reason}");
        say(Severity::Warning, "fewer samples than planned", None, text);
    }
    for (row, sub, cell) in cells.iter().filter(|(_, _, cell)| notes::odd(&cell.counts())) {
        say(Severity::Warning, "lost or out of order", Some(**row), notes::mishap_line(sub, cell));
    }
    for row in &rows {
        let missing = metrics.get(*row, &Stream::all(), Figure::OneWayMissing, Statistic::Value);
        let missing = missing.map_or(0.0, |missing| missing.folded());
        if missing > 0.0 {
            let (name, size) = (&sub(row).planned.name, display_size(row.payload_bytes));
            let samples = trips::samples(metrics, *row);
            let text = format!("{name} at {size}: {missing} of {samples} samples have no latency one way");
            say(Severity::Info, "no latency one way", Some(*row), text);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{self, add, all, result, rows_of};
    use tripmeter_model::manifest::{PathProof, RefusalTrial, Status, UnauthorizedPeer, Verdict};

    #[test]
    fn nothing_measured_is_said() {
        let mut manifest = fixture::manifest();
        assert_eq!(all(&manifest), "Nothing was measured.\n");
        add(&mut manifest, "mq", "mq/queue", &[1024]);
        manifest.plan.left_out = vec!["iceoryx: no library".to_owned(), "iceoryx2: not built".to_owned()];
        manifest.plan.missing = vec!["iceoryx2: not built".to_owned()];
        let expected = "Nothing was measured.\n\n\
            NOT RUN: mq\nMISSING: iceoryx2: not built\nleft out: iceoryx: no library\n";
        assert_eq!(all(&manifest), expected);
    }

    #[test]
    fn failed_and_interrupted_rounds_are_named_with_what_they_lack() {
        let mut manifest = fixture::manifest();
        manifest.plan.rounds = 2;
        manifest.status = Status::Interrupted;
        add(&mut manifest, "mq", "mq/queue", &[1024, 2048]);
        add(&mut manifest, "pipe", "pipe/fifo", &[1024, 2048]);
        result(&mut manifest, "mq", 1, &[(1024, 1000.0), (2048, 1000.0)]);
        let failed = result(&mut manifest, "mq", 2, &[(1024, 1000.0)]);
        (failed.status, failed.error) = (Status::Failed, Some("the follower ended".to_owned()));
        result(&mut manifest, "pipe", 1, &[]).status = Status::Interrupted;
        let text = all(&manifest);
        assert!(text.starts_with("All transports, pattern pingpong, INCOMPLETE; 2 rounds"), "{text}");
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
        let loud = "PATH PROOF FAILED: shm (shm/chunks), round 2: claimed shared-memory, seen: 2048 bytes went over a socket; \
                    its figures are of something else\n";
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
        let loud = "PATH PROOF FAILED: udp (udp/loopback): claimed unix-stream, seen: a peer without security was let in; \
                    its figures are not those of a secured transport\n";
        assert!(text.contains(loud), "{text}");
        let doubt = "NOT PROVEN: mq (mq/loopback): that a peer is refused is not proven: it crashed\n";
        assert!(text.contains(doubt), "{text}");
    }

    #[test]
    fn what_happened_to_messages_and_samples_is_noted() {
        let mut manifest = fixture::manifest();
        add(&mut manifest, "udp", "udp/loopback", &[1024]);
        let cell = &mut result(&mut manifest, "udp", 1, &[(1024, 1000.0)]).cells[0];
        (cell.samples, cell.cut_short) = (500, Some("time cap of 2 s".to_owned()));
        (cell.counts.lost, cell.counts.late, cell.counts.damaged) = (3, 1, 2);
        cell.from_histogram = true;
        let text = all(&manifest);
        assert!(rows_of(&text, "udp/loopback")[0].contains(" 1k *500 1.000 "), "{text}");
        let expected = "\
* fewer samples than planned: time cap of 2 s
udp at 1k: 3 lost, 1 late, 2 damaged
raw samples were not kept: figures come from histograms of three digits
";
        assert!(text.contains(expected), "{text}");
    }
}

//! One page of everything: a table for each kind of sub-experiment, what is to be said of them, and what columns mean.

use crate::audit;
use crate::channel;
use crate::fan_out;
use crate::log;
use crate::merged::{Merged, MergedCell};
use crate::notes;
use crate::recording;
use crate::rpc;
use crate::series;
use crate::throughput;
use crate::trips;
use tripmeter_model::Pattern;
use tripmeter_model::manifest::{Manifest, Status};
use tripmeter_model::payload::display_size;
use tripmeter_model::plan::SubExperiment;

/// What the column of the path proof means.
pub const PROOF_LEGEND: &str = "\
path proof: whether the operating system shows that the payload went the way that the transport claims; secured: and
a peer without the right credentials was refused.
";

/// One table of everything: a line for each sub-experiment and payload, grouped by payload, with its distance from the
/// floor; below it, whatever failed, and what the columns mean.
///
/// Of several rounds, each figure is the median over the rounds, the maximum is that of all, and counts are totals.
pub fn all(manifest: &Manifest) -> String {
    let subs = Merged::of(manifest);
    let rows = trips::rows(&subs);
    let (fans, loads, flows) = (fan_out::rows(&subs), throughput::rows(&subs), channel::rows(&subs));
    let (mut calls, logs) = (rpc::rows(&subs), log::rows(&subs));
    calls.sort_by_key(|row| row.sub.planned.pattern == Pattern::Rpc);
    let plays = recording::plays(&subs);
    let mut parts = Vec::new();
    let others = [fans.len(), loads.len(), flows.len(), calls.len(), logs.len(), plays.len()];
    if rows.is_empty() && others.iter().all(|count| *count == 0) {
        parts.push("Nothing was measured.\n".to_owned());
    }
    if !rows.is_empty() {
        parts.push(caption(manifest, trips::is_of, "") + "\n" + &trips::table(&rows, &subs));
    }
    if !fans.is_empty() {
        let caption = caption(manifest, fan_out::is_of, ", several followers");
        parts.push(caption + "\n" + &fan_out::table(&fans));
    }
    if !loads.is_empty() {
        parts.push(caption(manifest, |sub| sub.pattern == Pattern::Throughput, "") + "\n" + &throughput::table(&loads));
    }
    if !flows.is_empty() {
        parts.push(caption(manifest, |sub| sub.pattern == Pattern::Channel, "") + "\n" + &channel::table(&flows));
    }
    for calls in calls.chunk_by(|a, b| a.sub.planned.pattern == b.sub.planned.pattern) {
        let pattern = calls[0].sub.planned.pattern;
        let what = if pattern == Pattern::Rpc { "" } else { ", at a rate" };
        let is_of = |sub: &SubExperiment| sub.pattern == pattern && sub.rpc.is_some();
        parts.push(caption(manifest, is_of, what) + "\n" + &rpc::table(calls));
    }
    if !logs.is_empty() {
        parts.push(caption(manifest, |sub| sub.pattern == Pattern::Log, "") + "\n" + &log::table(&logs));
    }
    if let Some(recording) = manifest.plan.recording.as_ref().filter(|_| !plays.is_empty()) {
        parts.push(recording::caption(recording) + "\n" + &recording::table(recording, &plays));
    }
    let others = [throughput::notes(&loads), channel::notes(&flows), rpc::notes(&calls), log::notes(&logs)].concat();
    let others = [others, recording::notes(&plays, manifest)].concat();
    parts.push(notes(manifest, &subs, &rows, &fans, others));
    parts.push(legend(&rows, &fans, &flows, &calls));
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
    if trips::has_damage(&rows) || throughput::has_damage(&loads) || channel::has_damage(&flows) {
        parts.push(trips::DAMAGED_LEGEND.to_owned());
    }
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

fn legend(
    rows: &[trips::Row<'_>],
    fans: &[fan_out::Rows<'_>],
    flows: &[channel::Row<'_>],
    calls: &[rpc::Row<'_>],
) -> String {
    let is_anything = !rows.is_empty() || !fans.is_empty() || !flows.is_empty() || !calls.is_empty();
    let (has_rounds, has_within) =
        (fans.iter().any(|fan| fan.sub().rounds > 1), fans.iter().any(fan_out::Rows::has_within));
    let mut loads = flows.iter().map(channel::Row::load).chain(calls.iter().map(rpc::Row::load));
    let has_bursts = loads.any(|load| load.burst().is_some());
    let parts = [
        (trips::legend(rows, has_rounds, has_within), true),
        (trips::over_legend(rows, fans.iter().any(fan_out::Rows::has_handover)), true),
        (fan_out::LEGEND.to_owned(), !fans.is_empty()),
        (channel::LEGEND.to_owned(), !flows.is_empty()),
        (rpc::LEGEND.to_owned(), !calls.is_empty()),
        (throughput::BURSTS_LEGEND.to_owned(), has_bursts),
        (PROOF_LEGEND.to_owned(), is_anything),
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
    text + "\n"
}

fn notes(
    manifest: &Manifest,
    subs: &[Merged<'_>],
    rows: &[trips::Row<'_>],
    fans: &[fan_out::Rows<'_>],
    others: Vec<String>,
) -> String {
    let cells: Vec<(&Merged<'_>, &MergedCell<'_>)> =
        rows.iter().map(|row| (row.sub, &row.cell)).chain(fans.iter().map(|fan| (fan.sub(), &fan.cell))).collect();
    let mut lines = notes::outcomes(subs.iter());
    let mut reasons: Vec<&str> = Vec::new();
    for reason in cells.iter().flat_map(|(_, cell)| cell.shortfalls()) {
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    lines.extend(reasons.iter().map(|reason| format!("* fewer samples than planned: {reason}")));
    let odd = cells.iter().filter(|(_, cell)| notes::odd(&cell.counts()));
    lines.extend(odd.map(|(sub, cell)| notes::mishap_line(sub, cell)));
    for (sub, cell) in &cells {
        let missing: u64 = cell.cells.iter().map(|cell| cell.one_way_missing).sum();
        if missing > 0 {
            let (name, size) = (&sub.planned.name, display_size(cell.payload_bytes));
            lines.push(format!("{name} at {size}: {missing} of {} samples have no latency one way", cell.samples()));
        }
    }
    lines.extend(subs.iter().flat_map(notes::handovers));
    lines.extend(subs.iter().flat_map(series::notes));
    let several = subs.iter().filter(|sub| sub.planned.is_fan_out());
    lines.extend(several.filter_map(|sub| {
        let shared = manifest.plan.shared_processors(sub.planned)?;
        Some(format!("{}: {shared}", sub.planned.name))
    }));
    lines.extend(others);
    let cells_of =
        |sub: &Merged<'_>| sub.results.iter().any(|result| result.cells.iter().any(|cell| cell.from_histogram));
    if subs.iter().any(cells_of) {
        lines.push("raw samples were not kept: figures come from histograms of three digits".to_owned());
    }
    lines.extend(audit::note(manifest));
    let by_name = |left_out| if manifest.plan.missing.contains(left_out) { "MISSING" } else { "left out" };
    lines.extend(manifest.plan.left_out.iter().map(|left_out| format!("{}: {left_out}", by_name(left_out))));
    lines.into_iter().map(|line| line + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, add, result, rows_of};
    use tripmeter_model::manifest::{PathProof, RefusalTrial, UnauthorizedPeer, Verdict};

    #[test]
    fn nothing_measured_is_said() {
        let mut manifest = fixture::manifest();
        assert_eq!(all(&manifest), "Nothing was measured.\n");
        add(&mut manifest, "mq", "mq/queue", &[1024]);
        manifest.plan.left_out = vec!["iceoryx: no library".to_owned(), "iceoryx2: not built".to_owned()];
        manifest.plan.missing = vec!["iceoryx2: not built".to_owned()];
        let expected = "Nothing was measured.\n\n\
            NOT RUN: mq\nleft out: iceoryx: no library\nMISSING: iceoryx2: not built\n";
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

//! Real traffic over every path, judged under every claim.

mod sides;
mod verdicts;
mod ways;

use super::{Claim, Evidence, judge, messages_for};
use sides::observe;
use std::fmt::Write;
use tripmeter_abi::Path;
use tripmeter_model::manifest::Verdict;

/// A payload of several packets, and one of less than a page.
const PAYLOADS: [u64; 2] = [64 * 1024, 1024];

fn claim(path: Path, zero_copy: bool, same_process: bool, payload_bytes: u64) -> Claim {
    Claim {
        path,
        zero_copy,
        same_process,
        broker: false,
        between_hosts: false,
        followers: 1,
        messages: messages_for(payload_bytes),
        payload_bytes,
    }
}

fn claims(payload_bytes: u64) -> Vec<Claim> {
    let mut claims = Vec::new();
    for &path in Path::ALL {
        for (zero_copy, same_process) in [(false, false), (true, false), (false, true), (true, true)] {
            claims.push(claim(path, zero_copy, same_process, payload_bytes));
        }
    }
    // No path here has a broker.
    claims.push(Claim { broker: true, ..claim(Path::Tcp, false, false, payload_bytes) });
    claims
}

/// True if others used the loopback so much that a true claim may be not visible.
fn is_crowded(leader: &Evidence, way: &str, payload_bytes: u64) -> bool {
    let payload = 2 * messages_for(payload_bytes) * payload_bytes;
    let limit = if way.starts_with("udp") && !way.contains("beside") { 2 * payload } else { payload / 4 };
    leader.loopback_bytes.is_some_and(|bytes| bytes >= limit)
}

/// Observes a path, and requires that exactly the true claims are proven.
#[track_caller]
fn check(way: &str, same_process: bool, is_true: impl Fn(&Claim) -> bool) {
    for payload_bytes in PAYLOADS {
        check_payload(way, same_process, payload_bytes, &is_true);
    }
}

#[track_caller]
fn check_payload(way: &str, same_process: bool, payload_bytes: u64, is_true: impl Fn(&Claim) -> bool) {
    let [leader, follower] = observe(way, same_process, payload_bytes);
    let (mut false_proofs, mut missing_proofs) = (String::new(), String::new());
    for claim in claims(payload_bytes) {
        let proof = judge(&claim, &leader, &follower);
        let is_proven = proof.verdict == Verdict::Proven;
        let is_true = is_true(&claim);
        if is_true || claim.path != Path::Other && !claim.zero_copy && claim.same_process == same_process {
            println!("{way}, {payload_bytes} B, {}: {:?}: {}", claim.path, proof.verdict, proof.evidence);
        }
        let wrong = if is_proven { &mut false_proofs } else { &mut missing_proofs };
        if is_proven != is_true {
            let _ = writeln!(wrong, "{claim:?}: {:?}: {}", proof.verdict, proof.evidence);
        }
    }
    assert!(false_proofs.is_empty(), "'{way}' is not:\n{false_proofs}");
    if !missing_proofs.is_empty() && is_crowded(&leader, way, payload_bytes) {
        // This never happens in a separate network namespace. The test harness hides printed output.
        let line = format!("SKIPPED: proof of '{way}' with {payload_bytes} bytes: others are busy on the loopback\n");
        std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap();
        return;
    }
    assert!(missing_proofs.is_empty(), "'{way}' is:\n{missing_proofs}");
}

/// Tests of paths with their true claims; no other claim may be proven.
macro_rules! ways {
    ($($name:ident: $way:literal => [$(($path:ident, $zero_copy:literal)),*];)+) => {
        $(#[test]
        fn $name() {
            let is_true: &[(Path, bool)] = &[$((Path::$path, $zero_copy)),*];
            check($way, false, |claim| !claim.same_process && !claim.broker && is_true.contains(&(claim.path, claim.zero_copy)));
        })+
    };
}

ways! {
    // Zero-copy is shared memory, too.
    zero_copy: "zero-copy" => [(SharedMemory, true), (SharedMemory, false)];
    shared_memory: "shared memory" => [(SharedMemory, false)];
    file: "file" => [(File, false)];
    message_queue: "message queue" => [(MessageQueue, false)];
    pipe: "pipe" => [(Pipe, false)];
    tcp: "tcp" => [(Tcp, false)];
    tcp_by_send: "tcp by send" => [(Tcp, false)];
    udp: "udp" => [(Udp, false)];
    udp_taken_by_a_thread: "udp with a thread" => [(Udp, false)];
    unix_datagram: "unix datagram" => [(UnixDatagram, false)];
    unix_datagram_by_send: "unix datagram by send" => [(UnixDatagram, false)];
    unix_seqpacket: "unix seqpacket" => [(UnixSeqpacket, false)];
    unix_stream: "unix stream" => [(UnixStream, false)];
    unix_stream_beside_a_segment: "unix stream by send, beside a segment" => [(UnixStream, false)];
    // No counter sees these bytes, and none wait, but no other path is left.
    unix_datagram_taken_by_a_thread: "unix datagram with a thread" => [(UnixDatagram, false)];
    loan_that_is_copied: "loan that is copied" => [(SharedMemory, false)];
    data_sharing_under_udp: "udp beside zero-copy" => [(SharedMemory, true), (SharedMemory, false)];
    data_sharing_with_a_copy_under_udp: "udp beside shared memory" => [(SharedMemory, false)];
}

#[test]
fn memory_of_one_process() {
    check("memory", true, |claim| claim.same_process && claim.path == Path::Memory);
}

#[test]
fn memory_of_one_process_with_a_copy() {
    check("memory, copied", true, |claim| claim.same_process && claim.path == Path::Memory && !claim.zero_copy);
}

#[test]
fn threads_of_one_process_over_a_socket() {
    check("unix stream", true, |claim| claim.same_process && claim.path == Path::UnixStream && !claim.zero_copy);
}

#[test]
fn threads_of_one_process_over_shared_memory() {
    check("zero-copy", true, |claim| claim.same_process && claim.path == Path::SharedMemory);
}

//! Verdict on a claim, from the evidence of both sides.

use super::between_hosts::between_hosts;
use super::evidence::{AddressPlace, Evidence};
use super::finding::{Judgement, between, failed, not_visible, proven};
use super::observations::{CommonObject, Observations, amount, is_little, is_most};
use super::{Claim, LEAST_BYTES};
use tripmeter_abi::Path;
use tripmeter_model::manifest::{PathProof, Verdict};

/// Multiple of the payload above which other programs must have used the loopback: its counters prove nothing.
const CROWD: u64 = 4;

/// Paths without counters of their own, whose bytes may appear in those of `read` and `write`.
const BY_READ_WRITE: &[Path] = &[Path::UnixStream, Path::UnixDatagram, Path::UnixSeqpacket, Path::Pipe, Path::Udp];

/// Paths that can carry bytes which no counter of a process shows.
const UNCOUNTED: &[Path] = &[Path::UnixStream, Path::UnixDatagram, Path::UnixSeqpacket, Path::MessageQueue, Path::Udp];

pub fn judge(claim: &Claim, leader: &Evidence, follower: &Evidence) -> PathProof {
    let observed = Observations::new(claim, leader, follower);
    let (verdict, finding) = processes(&observed).unwrap_or_else(|| match claim.path {
        path if claim.between_hosts => between_hosts(&observed, path),
        Path::Other => not_visible("this path has no trace to look for"),
        Path::Memory => memory(&observed),
        Path::SharedMemory => shared_memory(&observed),
        path => kernel_object(&observed, path),
    });
    let seen = observed.seen();
    let evidence = match verdict {
        Verdict::Proven => format!("{finding}; {seen}"),
        Verdict::Failed => format!("{} was claimed, but {finding}; seen: {seen}", claimed(claim)),
        Verdict::NotVisible => format!("{} was claimed; {finding}; seen: {seen}", claimed(claim)),
    };
    PathProof::new(claim.path, verdict, evidence)
}

fn claimed(claim: &Claim) -> String {
    if claim.zero_copy { format!("{} without a copy", claim.path) } else { claim.path.to_string() }
}

fn processes(observed: &Observations) -> Option<Judgement> {
    match (observed.claim.same_process, observed.is_same_process) {
        // PIDs of two hosts cannot be compared.
        _ if observed.claim.between_hosts => None,
        (true, false) => Some(failed("leader and follower are two processes, not one")),
        (false, true) => Some(failed("leader and follower are one process, not two")),
        _ => None,
    }
}

/// Verdict if messages were lost, which leave no trace: on busy CPUs a system may lose them.
fn lost(observed: &Observations) -> Option<Judgement> {
    let (came, all) = (observed.follower.received_messages, observed.claim.messages);
    (!is_most(came, all)).then(|| not_visible(format!("only {came} of {all} messages came")))
}

/// Verdict on a claim of zero-copy; nearly all messages must have been compared.
fn zero_copy(observed: &Observations, private: bool) -> Judgement {
    let places = if private { Some(observed.private_places()) } else { observed.shared_places() };
    let Some(places) = places else { return not_visible("the mappings of a process could not be read") };
    let (same, compared, expected) = (places.same, places.compared, places.expected);
    if let Some(difference) = places.difference {
        return failed(format!("only {same} of {compared} messages are at the same place at both ends: {difference}"));
    }
    if compared == 0 || !is_most(compared, expected) {
        return not_visible(format!("only {compared} of {expected} messages are known at both ends"));
    }
    if private {
        return proven(format!("{same} of {compared} messages at the same address of one process"));
    }
    let object = observed.used_in_common().map_or("shared memory".to_owned(), |common| named(&common));
    proven(format!("{same} of {compared} messages at the same place at both ends, in {object}"))
}

fn named(common: &CommonObject) -> String {
    format!("{} ({})", common.name, amount(common.bytes))
}

/// Kernel object that carried most of the payload, which contradicts a path through memory.
fn carried_by_kernel(observed: &Observations) -> Option<String> {
    if let Some(path) = observed.parked_elsewhere(observed.claim.path) {
        let bytes = observed.parked_bytes(path).unwrap_or(0);
        return Some(format!("{} of the first message waited in {path}", amount(bytes)));
    }
    let expected = observed.expected_bytes;
    let tcp = observed.by_own_counter(Path::Tcp).filter(|flow| !is_little(flow.most, expected));
    if let Some(flow) = tcp {
        return Some(format!("{} went over TCP", amount(flow.most)));
    }
    let written = observed.by_read_write().filter(|flow| !observed.is_little_by_read_write(flow));
    written.map(|flow| format!("{} went by read and write", amount(flow.most)))
}

/// Paths of these kinds that both sides hold, and that could have carried the payload.
fn carriers(observed: &Observations, kinds: &[Path]) -> Vec<Path> {
    let mut held: Vec<_> = kinds.iter().copied().filter(|&path| observed.both_hold(path) != Some(false)).collect();
    // Traffic of all programs that is too little for the messages rules out UDP.
    let is_quiet = observed.loopback_bytes().is_some_and(|bytes| is_little(bytes, observed.all_bytes()));
    let has_few = observed.udp_datagrams().is_some_and(|datagrams| is_little(datagrams, observed.least_datagrams()));
    if is_quiet || has_few {
        held.retain(|&path| path != Path::Udp);
    }
    held
}

fn listed(paths: &[Path]) -> String {
    paths.iter().map(|path| path.as_str()).collect::<Vec<_>>().join(", ")
}

/// Checks shared by claims of memory: nothing else may have carried the payload, and the counters must be known.
fn nothing_else(observed: &Observations) -> Option<Judgement> {
    if let Some(carrier) = carried_by_kernel(observed) {
        return Some(failed(carrier));
    }
    if observed.by_read_write().is_none() || observed.by_own_counter(Path::Tcp).is_none() {
        return Some(not_visible("the counters of a process could not be read"));
    }
    None
}

fn memory(observed: &Observations) -> Judgement {
    if !observed.is_same_process {
        return failed("leader and follower are two processes");
    }
    if observed.claim.zero_copy {
        return zero_copy(observed, true);
    }
    let Observations { leader, follower, .. } = observed;
    let received = leader.received.len() + follower.received.len();
    let mut addresses = [&leader.sent, &leader.received, &follower.sent, &follower.received].into_iter().flatten();
    if received == 0 {
        return not_visible("no message was received by reference");
    }
    if addresses.any(|address| address.place != AddressPlace::Private) {
        return failed("not all messages lie in private memory");
    }
    if let Some(finding) = too_little(observed).or_else(|| nothing_else(observed)) {
        return finding;
    }
    let carriers = carriers(observed, UNCOUNTED);
    if !carriers.is_empty() {
        return not_visible(format!("the process also holds what could have carried it: {}", listed(&carriers)));
    }
    proven(format!("{received} messages in private memory of one process, which holds nothing else to carry them"))
}

fn shared_memory(observed: &Observations) -> Judgement {
    let places = zero_copy(observed, false);
    if observed.claim.zero_copy {
        // Common places are proof, but bytes that also went over a socket contradict them.
        return match places.0 {
            Verdict::Proven => {
                has_volume(observed).then(|| carried_by_kernel(observed)).flatten().map_or(places, failed)
            }
            _ => places,
        };
    }
    let Some(common) = observed.common() else { return not_visible("the mappings of a process could not be read") };
    let Some(best) = common.first() else {
        let missing = format!("no new mapping of {} is common to both", amount(observed.claim.payload_bytes));
        return lost(observed).unwrap_or_else(|| failed(missing));
    };
    if let Some(finding) = too_little(observed).or_else(|| nothing_else(observed)) {
        return finding;
    }
    if best.is_used {
        return proven(format!("both sides used {} as much as the payload needs", named(best)));
    }
    match best.touched_bytes {
        Some(touched) if observed.is_touch_telling() => {
            let too_little = format!("only {} of {} was touched by both", amount(touched), named(best));
            lost(observed).unwrap_or_else(|| failed(too_little))
        }
        _ => by_elimination(observed, best),
    }
}

fn by_elimination(observed: &Observations, best: &CommonObject) -> Judgement {
    let carriers = carriers(observed, UNCOUNTED);
    if carriers.is_empty() {
        return proven(format!("both sides mapped {}, and hold nothing else to carry the payload", named(best)));
    }
    not_visible(format!("both sides mapped {}, but also hold {}", named(best), listed(&carriers)))
}

fn has_volume(observed: &Observations) -> bool {
    observed.claim.messages.saturating_mul(observed.claim.payload_bytes) >= LEAST_BYTES
}

fn too_little(observed: &Observations) -> Option<Judgement> {
    let bytes = amount(observed.claim.messages.saturating_mul(observed.claim.payload_bytes));
    (!has_volume(observed))
        .then(|| not_visible(format!("{bytes} per direction is too little to be distinguished from noise")))
}

fn kernel_object(observed: &Observations, path: Path) -> Judgement {
    if observed.claim.zero_copy {
        return failed("a kernel object is never free of copies");
    }
    match observed.both_hold(path) {
        None => return not_visible("the descriptors of a process could not be listed"),
        Some(false) if path == Path::MessageQueue && !observed.has_listed_queues() => {
            return not_visible("the System V message queues of a process could not be listed");
        }
        Some(false) => return failed(format!("the two sides have no new {path} in common")),
        Some(true) => {}
    }
    if let Some(finding) = too_little(observed).or_else(|| contradiction(observed, path)) {
        return finding;
    }
    match path {
        Path::Tcp => tcp(observed),
        Path::Udp => udp(observed),
        Path::MessageQueue => message_queue(observed),
        Path::File => file(observed),
        _ => uncounted(observed, path),
    }
}

fn contradiction(observed: &Observations, path: Path) -> Option<Judgement> {
    let is_elsewhere =
        observed.shared_places().is_some_and(|places| places.compared > 0 && is_most(places.same, places.compared));
    if is_elsewhere {
        return Some(failed("loans and messages are at the same place of shared memory"));
    }
    if let Some(other) = observed.parked_elsewhere(path) {
        let bytes = observed.parked_bytes(other).unwrap_or(0);
        return Some(failed(format!("{} of the first message waited in {other}", amount(bytes))));
    }
    let tcp = observed
        .by_own_counter(Path::Tcp)
        .filter(|flow| path != Path::Tcp && !is_little(flow.most, observed.expected_bytes));
    tcp.map(|flow| failed(format!("{} went over TCP", amount(flow.most))))
}

fn amount_each_way(part: u64, whole: u64) -> String {
    format!("{} of {} each way", amount(part), amount(whole))
}

fn tcp(observed: &Observations) -> Judgement {
    let Some(flow) = observed.by_own_counter(Path::Tcp) else {
        return not_visible("a TCP connection does not report its bytes");
    };
    let expected = observed.arrived_bytes();
    if expected == 0 {
        return not_visible("no message arrived");
    }
    let bytes = amount_each_way(flow.least, expected);
    if !is_most(flow.least, expected) {
        return failed(format!("only {bytes} went over TCP connections"));
    }
    let bytes = format!("{bytes} over the processes' own TCP connections");
    if observed.claim.broker { between(observed, &bytes) } else { proven(bytes) }
}

/// Verdict on Unix sockets and pipes: `read` and `write` must count the bytes, and no other path may carry them.
fn uncounted(observed: &Observations, path: Path) -> Judgement {
    let Some(flow) = observed.by_read_write() else {
        return not_visible("the counters of a process could not be read");
    };
    let bytes = amount_each_way(flow.least, observed.expected_bytes);
    if is_most(flow.least, observed.expected_bytes) {
        let mut rivals = carriers(observed, BY_READ_WRITE);
        rivals.retain(|&other| other != path);
        if observed.is_parked(path) {
            return proven(format!("{bytes} by read and write, and the first message waited in {path}"));
        }
        if rivals.is_empty() {
            return proven(format!("{bytes} by read and write, and {path} is all that both hold to carry them"));
        }
        return not_visible(format!("{bytes} by read and write, but through {path} or {}", listed(&rivals)));
    }
    if !observed.is_little_by_read_write(&flow) {
        return failed(format!("only {bytes} went by read and write"));
    }
    unread(observed, path)
}

/// Verdict without bytes by `read` and `write`: the first message must have been seen waiting.
fn unread(observed: &Observations, path: Path) -> Judgement {
    if let Some(common) = observed.used_in_common() {
        return failed(format!("both sides used {} as much as the payload needs", named(&common)));
    }
    if observed.is_parked(path) {
        let bytes = amount(observed.parked_bytes(path).unwrap_or(0));
        return proven(format!("{bytes} of the first message waited in {path}, and nothing else carried any"));
    }
    if is_all_there_is(observed, path) {
        return proven(format!("{path} is all that both hold, neither memory nor anything else could carry a payload"));
    }
    not_visible(format!("bytes sent through {path} without read and write are not counted, and none were seen waiting"))
}

/// True if only sockets or queues of this kind can have carried the payload. Threads of a library may take the first
/// message before it is seen waiting.
fn is_all_there_is(observed: &Observations, path: Path) -> bool {
    UNCOUNTED.contains(&path)
        && observed.by_own_counter(Path::Tcp).is_some_and(|flow| is_little(flow.most, observed.expected_bytes))
        && observed.by_read_write().is_some_and(|flow| observed.is_little_by_read_write(&flow))
        && observed.shares_memory() == Some(false)
        && carriers(observed, UNCOUNTED) == [path]
}

fn message_queue(observed: &Observations) -> Judgement {
    let Some(flow) = observed.by_read_write() else {
        return not_visible("the counters of a process could not be read");
    };
    if !observed.is_little_by_read_write(&flow) {
        return failed(format!("{} went by read and write", amount(flow.most)));
    }
    unread(observed, Path::MessageQueue)
}

fn udp(observed: &Observations) -> Judgement {
    let (Some(bytes), Some(datagrams)) = (observed.loopback_bytes(), observed.udp_datagrams()) else {
        return not_visible("the counters of the loopback could not be read");
    };
    let messages = observed.arrived_messages();
    if messages == 0 {
        return not_visible("no message arrived");
    }
    let expected = messages.saturating_mul(observed.claim.payload_bytes);
    let needed = observed.least_datagrams_of(messages);
    let there = format!("{} of {} and {datagrams} of {needed} datagrams", amount(bytes), amount(expected));
    if !is_most(bytes, expected) || !is_most(datagrams, needed) {
        return failed(format!("all programs together sent only {there} over the loopback"));
    }
    let by_read_write = observed.by_read_write().is_some_and(|flow| is_most(flow.least, observed.expected_bytes));
    let mut rivals = carriers(observed, BY_READ_WRITE);
    rivals.retain(|&other| other != Path::Udp);
    if observed.is_parked(Path::Udp) {
        return proven(format!("{there} over the loopback, and the first message waited in a UDP socket"));
    }
    if by_read_write && rivals.is_empty() {
        return proven(format!("{there} over the loopback, and UDP is all that both hold to read and write"));
    }
    if let Some(common) = observed.used_in_common() {
        return failed(format!("both sides used {} as much as the payload needs", named(&common)));
    }
    if by_read_write {
        return not_visible(format!("{there} over the loopback, but by read and write through {}", listed(&rivals)));
    }
    let unclear = observed
        .common()
        .and_then(|common| common.into_iter().next())
        .filter(|common| !observed.is_touch_telling() || common.touched_bytes.is_none());
    if let Some(common) = unclear {
        return not_visible(format!("{there} over the loopback, of all programs, but {} is in common", named(&common)));
    }
    if is_all_there_is(observed, Path::Udp) {
        return proven(format!(
            "{there} over the loopback, of all programs, and UDP is all that both hold to carry it"
        ));
    }
    if bytes > expected.saturating_mul(CROWD) {
        return not_visible(format!("{there} over the loopback: others were busy there at the same time"));
    }
    proven(format!("{there} over the loopback, of all programs, and no sign of another way"))
}

fn file(observed: &Observations) -> Judgement {
    let (Some(flow), Some(moved)) = (observed.by_read_write(), observed.by_own_counter(Path::File)) else {
        return not_visible("the counters of a process could not be read");
    };
    let bytes = amount_each_way(flow.least, observed.expected_bytes);
    if !is_most(flow.least, observed.expected_bytes) || moved.least < observed.claim.payload_bytes {
        return failed(format!("only {bytes} went by read and write, and files moved by {}", amount(moved.least)));
    }
    let rivals = carriers(observed, BY_READ_WRITE);
    if !rivals.is_empty() {
        return not_visible(format!("{bytes} by read and write, but through a file or {}", listed(&rivals)));
    }
    proven(format!("{bytes} by read and write, through files that both hold"))
}

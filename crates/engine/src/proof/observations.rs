//! Combined evidence of both sides.

use super::evidence::{Address, AddressPlace, Evidence, EvidenceChannel, SharedObject};
use super::sys::Object;
use super::{Claim, LEAST_PARKED_BYTES, MOST_ADDRESSES};
use std::collections::BTreeMap;
use std::fmt::Write;
use tripmeter_abi::Path;
use tripmeter_model::count::saturating_sum;

/// Number of tenths that count as most of an amount. A smaller part is lost, or not yet sent, at the end of the phase.
const MOST_TENTHS: u64 = 9;

/// Divisor for parts that count as little: no payload is that small, but wake-ups of 8 bytes per message are.
const LITTLE_PART: u64 = 4;

/// Smallest payload that stands out from control structures in counts of touched pages.
const LEAST_TOUCHED_BYTES: u64 = 32 * 1024;

pub(super) fn is_most(part: u64, whole: u64) -> bool {
    part.saturating_mul(10) >= whole.saturating_mul(MOST_TENTHS)
}

pub(super) fn is_little(part: u64, whole: u64) -> bool {
    part.saturating_mul(LITTLE_PART) < whole
}

/// Bytes that threads of a process write to two eventfds to wake each other, per message each way. ZeroMQ does so.
const WAKING_BYTES: u64 = 16;

const MOST_DATAGRAM_BYTES: u64 = 65_507;

pub(super) fn amount(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// Bytes that passed, according to a counter: minimum and maximum over the ends that should have counted them.
#[derive(Clone, Copy, Debug)]
pub(super) struct PassedBytes {
    pub least: u64,
    pub most: u64,
}

/// Writable object that both sides mapped, large enough for a message.
#[derive(Debug)]
pub(super) struct CommonObject {
    pub object: Object,
    pub name: String,
    pub bytes: u64,
    pub touched_bytes: Option<u64>,
    /// True if both sides touched as much of it as a payload, or have their messages in it.
    pub is_used: bool,
}

/// Comparison of loans with the messages that they became.
#[derive(Debug)]
pub(super) struct ComparedLoans {
    /// Messages that should have been compared.
    pub expected: u64,
    pub compared: u64,
    /// Messages at the same place at both ends.
    pub same: u64,
    pub difference: Option<String>,
}

pub(super) struct Observations<'a> {
    pub claim: &'a Claim,
    pub leader: &'a Evidence,
    pub follower: &'a Evidence,
    /// Bytes that each counter of a side should have counted.
    pub expected_bytes: u64,
    /// Messages in both directions.
    pub all_messages: u64,
    pub is_same_process: bool,
    is_answered: bool,
}

impl<'a> Observations<'a> {
    pub fn new(claim: &'a Claim, leader: &'a Evidence, follower: &'a Evidence) -> Self {
        let is_answered = follower.sent_messages > 0;
        let is_same_process = leader.process_id == follower.process_id && !claim.between_hosts;
        let bytes = claim.messages.saturating_mul(claim.payload_bytes);
        Self {
            claim,
            leader,
            follower,
            // Counters of one process include both directions.
            expected_bytes: if is_same_process && is_answered { bytes.saturating_mul(2) } else { bytes },
            all_messages: if is_answered { claim.messages.saturating_mul(2) } else { claim.messages },
            is_same_process,
            is_answered,
        }
    }

    pub fn all_bytes(&self) -> u64 {
        self.all_messages.saturating_mul(self.claim.payload_bytes)
    }

    pub fn arrived_messages(&self) -> u64 {
        (self.leader.received_messages + self.follower.received_messages).min(self.all_messages)
    }

    /// `expected_bytes`, less the messages that were lost.
    pub fn arrived_bytes(&self) -> u64 {
        if self.is_answered {
            return self.expected_bytes;
        }
        self.follower.received_messages.min(self.claim.messages).saturating_mul(self.claim.payload_bytes)
    }

    pub fn least_datagrams(&self) -> u64 {
        self.least_datagrams_of(self.all_messages)
    }

    /// Smallest number of datagrams for these messages. If each waits for its answer, there is one datagram per
    /// message; otherwise they may be packed.
    pub fn least_datagrams_of(&self, messages: u64) -> u64 {
        let packed = messages.saturating_mul(self.claim.payload_bytes).div_ceil(MOST_DATAGRAM_BYTES);
        if self.is_answered { messages } else { packed }
    }

    fn flow(
        &self,
        sent: impl Fn(&Evidence) -> Option<u64>,
        received: impl Fn(&Evidence) -> Option<u64>,
    ) -> Option<PassedBytes> {
        let there = [sent(self.leader)?, received(self.follower)?];
        let back = [sent(self.follower)?, received(self.leader)?];
        let least = there.iter().chain(back.iter().filter(|_| self.is_answered)).min();
        // The leader's bytes include other followers, each of which may have moved as much as this one.
        let others = u64::from(self.claim.followers.saturating_sub(1));
        let own = |leader: u64, follower: u64| leader.saturating_sub(follower.saturating_mul(others)).max(follower);
        let most = own(there[0], there[1]).max(own(back[1], back[0]));
        Some(PassedBytes { least: *least?, most })
    }

    pub fn by_read_write(&self) -> Option<PassedBytes> {
        self.flow(|side| side.written_bytes, |side| side.read_bytes)
    }

    /// True if these bytes include hardly any payload. Threads that wake each other by eventfds also read and write;
    /// with a small payload, that is a large part.
    pub fn is_little_by_read_write(&self, flow: &PassedBytes) -> bool {
        let payload = self.claim.payload_bytes;
        let wakings = if payload > 2 * WAKING_BYTES { self.expected_bytes / payload * WAKING_BYTES } else { 0 };
        is_little(flow.most.saturating_sub(wakings), self.expected_bytes)
    }

    /// Bytes over sockets with own counters, or through files.
    pub fn by_own_counter(&self, path: Path) -> Option<PassedBytes> {
        let sum = |side: &Evidence, bytes: fn(&EvidenceChannel) -> Option<u64>| {
            let of_path = side.channels.as_ref()?.iter().filter(|channel| channel.path == path);
            of_path.map(bytes).try_fold(0, |sum: u64, bytes| Some(sum.saturating_add(bytes?)))
        };
        self.flow(|side| sum(side, |channel| channel.sent_bytes), |side| sum(side, |channel| channel.received_bytes))
    }

    /// Loopback bytes of the whole namespace. The leader's are preferred: it observes from before the first message
    /// until after the last.
    pub fn loopback_bytes(&self) -> Option<u64> {
        self.leader.loopback_bytes.or(self.follower.loopback_bytes)
    }

    pub fn udp_datagrams(&self) -> Option<u64> {
        self.leader.udp_datagrams.or(self.follower.udp_datagrams)
    }

    /// True if both sides hold an object of this kind, and the same one if it has a name. `None` if not visible.
    pub fn both_hold(&self, path: Path) -> Option<bool> {
        let of = |side: &'a Evidence| {
            side.channels.as_ref().map(|all| all.iter().filter(|channel| channel.path == path).collect::<Vec<_>>())
        };
        let (leader, follower) = (of(self.leader)?, of(self.follower)?);
        Some(match path {
            Path::Pipe | Path::MessageQueue | Path::File => {
                leader.iter().any(|ours| follower.iter().any(|theirs| ours.object == theirs.object))
            }
            _ => !leader.is_empty() && !follower.is_empty(),
        })
    }

    pub fn has_listed_queues(&self) -> bool {
        self.leader.has_listed_queues && self.follower.has_listed_queues
    }

    /// Bytes of the first message seen waiting in objects of a kind; `None` if nobody checked.
    pub fn parked_bytes(&self, path: Path) -> Option<u64> {
        let channels = self.follower.channels.as_ref().filter(|_| self.follower.looked_for_parked)?;
        let of_path = channels.iter().filter(|channel| channel.path == path);
        Some(saturating_sum(of_path.map(|channel| channel.parked_bytes)))
    }

    pub fn is_parked(&self, path: Path) -> bool {
        let least = LEAST_PARKED_BYTES.min(self.claim.payload_bytes * MOST_TENTHS / 10).max(1);
        self.parked_bytes(path).is_some_and(|bytes| bytes >= least)
    }

    pub fn parked_elsewhere(&self, path: Path) -> Option<Path> {
        Path::ALL.iter().copied().find(|&other| other != path && self.is_parked(other))
    }

    /// True if touched pages can distinguish a payload from control structures.
    pub fn is_touch_telling(&self) -> bool {
        self.claim.payload_bytes >= LEAST_TOUCHED_BYTES
    }

    /// Objects that could hold the messages, used and most touched first; `None` if not visible.
    pub fn common(&self) -> Option<Vec<CommonObject>> {
        let (ours, theirs) = (self.leader.shared.as_ref()?, self.follower.shared.as_ref()?);
        if self.claim.between_hosts {
            return Some(Vec::new());
        }
        let mut common: Vec<_> = ours
            .iter()
            .filter_map(|our| Some((our, theirs.iter().find(|their| their.object == our.object)?)))
            .filter(|(our, their)| our.is_writable || their.is_writable)
            .map(|(our, their)| CommonObject {
                object: our.object,
                name: our.name.clone(),
                bytes: our.bytes.min(their.bytes),
                touched_bytes: our.touched_bytes.zip(their.touched_bytes).map(|(a, b)| a.min(b)),
                is_used: self.uses(self.leader, our) && self.uses(self.follower, their),
            })
            .filter(|common| common.bytes >= self.claim.payload_bytes)
            .collect();
        common.sort_by_key(|common| std::cmp::Reverse((common.is_used, common.touched_bytes, common.bytes)));
        Some(common)
    }

    /// True if both sides mapped an object of any size that one of them can write. `None` if not visible.
    pub fn shares_memory(&self) -> Option<bool> {
        let (ours, theirs) = (self.leader.shared.as_ref()?, self.follower.shared.as_ref()?);
        let is_common = |our: &SharedObject| {
            theirs.iter().any(|their| their.object == our.object && (our.is_writable || their.is_writable))
        };
        Some(ours.iter().any(is_common))
    }

    pub fn used_in_common(&self) -> Option<CommonObject> {
        self.common()?.into_iter().find(|common| common.is_used)
    }

    fn uses(&self, side: &Evidence, shared: &SharedObject) -> bool {
        let is_inside =
            |address: &&Address| matches!(address.place, AddressPlace::Shared(object, _) if object == shared.object);
        let holds = |addresses: &[Address]| {
            !addresses.is_empty() && is_most(addresses.iter().filter(is_inside).count() as u64, addresses.len() as u64)
        };
        let is_touched = shared.touched_bytes.is_some_and(|bytes| bytes >= self.claim.payload_bytes);
        (is_touched && self.is_touch_telling()) || holds(&side.sent) || holds(&side.received)
    }

    /// Compares loans with messages by their places in common objects.
    pub fn shared_places(&self) -> Option<ComparedLoans> {
        let common = self.common()?;
        let is_common = |object: &Object| common.iter().any(|common| common.object == *object);
        Some(self.places(|loan, message| {
            loan.place == message.place && matches!(&loan.place, AddressPlace::Shared(object, _) if is_common(object))
        }))
    }

    /// Compares loans with messages by their addresses in one process.
    pub fn private_places(&self) -> ComparedLoans {
        self.places(|loan, message| loan.place == AddressPlace::Private && loan.address == message.address)
    }

    fn places(&self, is_same: impl Fn(&Address, &Address) -> bool) -> ComparedLoans {
        let expected = self.claim.messages.min(MOST_ADDRESSES as u64) * (1 + u64::from(self.is_answered));
        let mut places = ComparedLoans { expected, compared: 0, same: 0, difference: None };
        for (from, to) in [(self.leader, self.follower), (self.follower, self.leader)] {
            let loans: BTreeMap<_, _> = from.sent.iter().map(|loan| (loan.sequence, loan)).collect();
            for message in &to.received {
                let Some(loan) = loans.get(&message.sequence) else { continue };
                places.compared += 1;
                if is_same(loan, message) {
                    places.same += 1;
                } else if places.difference.is_none() {
                    let (sequence, ours, theirs) = (message.sequence, self.place(loan), self.place(message));
                    places.difference = Some(format!("message {sequence} was loaned {ours} and received {theirs}"));
                }
            }
        }
        places
    }

    fn place(&self, address: &Address) -> String {
        match address.place {
            AddressPlace::Private => "in private memory".to_owned(),
            AddressPlace::Unmapped => "in memory no longer mapped".to_owned(),
            AddressPlace::Shared(object, offset) => {
                let known = self.leader.shared.iter().chain(&self.follower.shared).flatten();
                let name = known.into_iter().find(|shared| shared.object == object).map(|shared| shared.name.as_str());
                format!("at {offset} of {}", name.unwrap_or("a mapping from before the transport was opened"))
            }
        }
    }

    pub fn seen(&self) -> String {
        let mut line = String::new();
        let known = |bytes: Option<u64>| bytes.map_or("unknown".to_owned(), amount);
        let _ = write!(line, "read/write {}", known(self.by_read_write().map(|flow| flow.most)));
        let _ = write!(line, ", TCP {}", known(self.by_own_counter(Path::Tcp).map(|flow| flow.most)));
        let loopback = self.loopback_bytes().filter(|_| !self.claim.between_hosts);
        if loopback.is_some() || !self.claim.between_hosts {
            let _ = write!(line, ", loopback of all programs {}", known(loopback));
        }
        for &path in Path::ALL {
            if let Some(bytes) = self.parked_bytes(path).filter(|&bytes| bytes > 0) {
                let _ = write!(line, ", {} waiting in {path}", amount(bytes));
            }
        }
        if let Some(common) = self.common().and_then(|common| common.into_iter().next()) {
            let _ = write!(line, ", in common {} of {}", common.name, amount(common.bytes));
            if let Some(touched) = common.touched_bytes {
                let _ = write!(line, " ({} touched)", amount(touched));
            }
        }
        line
    }
}

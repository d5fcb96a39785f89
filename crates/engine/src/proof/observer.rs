//! Observation of one side by itself.

use super::evidence::{Address, AddressPlace, Evidence, EvidenceChannel, SharedObject};
use super::maps::Maps;
use super::peer;
use super::queues::{self, Queue};
use super::sys::Object;
use super::sys::{self, Counters, Descriptor};
use super::{FAULTING_MESSAGES, LEAST_PARKED_BYTES, MOST_ADDRESSES};
use crate::os::descriptors;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;
use tripmeter_abi::Path;
use tripmeter_model::kernel_queue::{KernelQueues, QueueSide};

/// Number of checks for the first message: the leader may have to be scheduled first.
const PARKED_LOOKS: u32 = 10;
const PARKED_PAUSE: Duration = Duration::from_millis(2);

/// Objects that the process had before the transport was opened, and that do not belong to it.
#[derive(Clone, Debug)]
pub struct Baseline {
    channels: BTreeSet<Object>,
    shared: BTreeSet<Object>,
    /// System V queues whose last user had this process's PID; it may have been an earlier process.
    queues: BTreeSet<Object>,
    address: Option<IpAddr>,
}

impl Baseline {
    fn now(address: Option<IpAddr>) -> Self {
        let descriptors = sys::descriptors().unwrap_or_default();
        let maps = sys::read_proc("/proc/self/maps").map(|text| Maps::parse(&text)).unwrap_or_default();
        Self {
            channels: descriptors.iter().map(|descriptor| descriptor.object).collect(),
            shared: maps.shared_objects().iter().map(|shared| shared.object).collect(),
            queues: queues::all()
                .unwrap_or_default()
                .iter()
                .filter(|queue| queue.is_own())
                .map(Queue::object)
                .collect(),
            address,
        }
    }

    /// Descriptors opened since the baseline, one per object.
    fn opened_since(&self) -> Option<BTreeMap<Object, Descriptor>> {
        let descriptors = sys::descriptors().ok()?;
        let opened = descriptors.into_iter().filter(|descriptor| !self.channels.contains(&descriptor.object));
        Some(opened.map(|descriptor| (descriptor.object, descriptor)).collect())
    }

    /// Capacities of kernel queues that were opened since the baseline, for messages by `path`.
    pub fn queues(&self, side: QueueSide, path: Path) -> Vec<KernelQueues> {
        let opened = self.opened_since().unwrap_or_default().into_values().filter(|found| found.path == path);
        let all = opened.flat_map(|found| descriptors::capacities(found.fd, found.path));
        KernelQueues::joined(all.map(|(kind, capacity)| KernelQueues { side, kind, capacity, count: 1 }))
    }

    fn used_since(&self) -> Option<Vec<Queue>> {
        let mut used = queues::all().ok()?;
        used.retain(|queue| queue.is_own() && !self.queues.contains(&queue.object()));
        Some(used)
    }

    fn mapped_since(&self, maps: &Maps) -> Vec<SharedObject> {
        maps.shared_objects().into_iter().filter(|shared| !self.shared.contains(&shared.object)).collect()
    }
}

/// Bytes through an object so far: sent and received.
type Passed = (Option<u64>, Option<u64>);

/// Observation in progress; the [module](super) shows the order of calls.
#[derive(Debug)]
pub struct Observer {
    baseline: Baseline,
    passed: BTreeMap<Object, Passed>,
    /// Bytes in each System V queue, from any sender.
    queued: BTreeMap<Object, u64>,
    parked: Option<BTreeMap<Object, u64>>,
    is_touched_cleared: bool,
    counters: Counters,
    sent: Addresses,
    received: Addresses,
}

impl Observer {
    /// Objects that the process holds now; must be called before the transport is opened. `address` is that of the
    /// interface to another host, if the peer is there.
    pub fn baseline(address: Option<IpAddr>) -> Baseline {
        Baseline::now(address)
    }

    /// Starts to observe; must be called before either side sends its first message.
    pub fn start(baseline: &Baseline) -> Self {
        let opened = baseline.opened_since().unwrap_or_default();
        Self {
            baseline: baseline.clone(),
            passed: opened.values().map(|descriptor| (descriptor.object, passed(descriptor))).collect(),
            queued: queued(),
            parked: None,
            is_touched_cleared: false,
            sent: Addresses::new(),
            received: Addresses::new(),
            counters: Counters::now(baseline.address),
        }
    }

    /// Checks for at most 20 ms where bytes wait. The follower calls it once, after the leader was told to publish its
    /// first message, and before it takes that message.
    ///
    /// The leader may still be sending: a message can be larger than the capacity of a kernel object.
    pub fn parked(&mut self) {
        for _ in 0..PARKED_LOOKS {
            let opened = self.baseline.opened_since();
            self.parked = opened.map(|opened| {
                let descriptors = opened.into_iter().map(|(object, found)| (object, sys::waiting_bytes(&found)));
                descriptors.chain(self.newly_queued()).collect()
            });
            if self.parked.iter().flat_map(BTreeMap::values).any(|&bytes| bytes >= LEAST_PARKED_BYTES) {
                break;
            }
            std::thread::sleep(PARKED_PAUSE);
        }
    }

    /// Bytes added to each System V queue since the start. The transport's queues are known once this process has
    /// received from them.
    fn newly_queued(&self) -> impl Iterator<Item = (Object, u64)> {
        let before = |object: &Object| self.queued.get(object).copied().unwrap_or(0);
        queued().into_iter().map(move |(object, bytes)| (object, bytes.saturating_sub(before(&object))))
    }

    /// Records the place of a loan before it is published. `data` is not dereferenced.
    pub fn sent(&mut self, sequence: u64, data: *const u8, length: usize) {
        self.sent.add(sequence, data, length);
        self.clear_touched_once();
    }

    /// Records the place of a message that was received by reference. `data` is not dereferenced.
    pub fn received(&mut self, sequence: u64, data: *const u8, length: usize) {
        self.received.add(sequence, data, length);
        self.clear_touched_once();
    }

    /// Clears the marks of touched pages after a few messages. A page fault also maps pages around it, as if touched.
    /// By then, control structures have had their faults, and later touches are counted page by page.
    fn clear_touched_once(&mut self) {
        if self.sent.count + self.received.count == FAULTING_MESSAGES {
            self.is_touched_cleared = sys::clear_touched().is_ok();
        }
    }

    /// Ends the observation; must be called before the transport is closed or its messages are returned for good.
    pub fn finish(self) -> Evidence {
        let counters = Counters::now(self.baseline.address).since(&self.counters);
        let queues = self.baseline.used_since();
        let channels = self.baseline.opened_since().map(|opened| {
            let queues = queues.iter().flatten().map(|queue| self.queue_channel(queue));
            opened.values().map(|descriptor| self.channel(descriptor)).chain(queues).collect()
        });
        let maps = sys::read_proc("/proc/self/smaps").or_else(|_| sys::read_proc("/proc/self/maps"));
        let maps = maps.map(|text| Maps::parse(&text)).ok();
        let shared = maps.as_ref().map(|maps| {
            let mut shared = self.baseline.mapped_since(maps);
            if !self.is_touched_cleared {
                shared.iter_mut().for_each(|object| object.touched_bytes = None);
            }
            shared
        });
        let maps = maps.unwrap_or_default();
        Evidence {
            process_id: std::process::id(),
            read_bytes: counters.read_bytes,
            written_bytes: counters.written_bytes,
            loopback_bytes: counters.loopback_bytes,
            udp_datagrams: counters.udp_datagrams,
            interface: counters.interface,
            channels,
            has_listed_queues: queues.is_some(),
            looked_for_parked: self.parked.is_some(),
            shared,
            sent_messages: self.sent.count,
            received_messages: self.received.count,
            sent: self.sent.resolve(&maps),
            received: self.received.resolve(&maps),
        }
    }

    fn channel(&self, descriptor: &Descriptor) -> EvidenceChannel {
        let object = descriptor.object;
        // All bytes of an object opened since the start have passed since.
        let before = self.passed.get(&object).copied().unwrap_or((Some(0), Some(0)));
        let now = passed(descriptor);
        let added = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?));
        let (sent_bytes, received_bytes) = (added(now.0, before.0), added(now.1, before.1));
        let is_used = descriptor.path == Path::Tcp && (sent_bytes, received_bytes) != (Some(0), Some(0));
        EvidenceChannel {
            path: descriptor.path,
            object,
            sent_bytes,
            received_bytes,
            ends: is_used.then(|| peer::ends(descriptor.fd)).flatten(),
            parked_bytes: self.parked_bytes(object),
        }
    }

    fn queue_channel(&self, queue: &Queue) -> EvidenceChannel {
        let (path, object) = (Path::MessageQueue, queue.object());
        let parked_bytes = self.parked_bytes(object);
        EvidenceChannel { path, object, sent_bytes: None, received_bytes: None, ends: None, parked_bytes }
    }

    fn parked_bytes(&self, object: Object) -> u64 {
        self.parked.as_ref().and_then(|parked| parked.get(&object).copied()).unwrap_or(0)
    }
}

fn queued() -> BTreeMap<Object, u64> {
    queues::all().unwrap_or_default().iter().map(|queue| (queue.object(), queue.bytes)).collect()
}

fn passed(descriptor: &Descriptor) -> Passed {
    match descriptor.path {
        Path::Tcp => {
            descriptors::tcp_bytes(descriptor.fd).map_or((None, None), |(sent, received)| (Some(sent), Some(received)))
        }
        Path::File => (descriptors::file_position(descriptor.fd), descriptors::file_position(descriptor.fd)),
        _ => (None, None),
    }
}

/// Addresses of the first messages, in preallocated memory.
#[derive(Debug)]
struct Addresses {
    kept: Vec<(u64, u64, u64)>,
    count: u64,
}

impl Addresses {
    fn new() -> Self {
        Self { kept: Vec::with_capacity(MOST_ADDRESSES), count: 0 }
    }

    fn add(&mut self, sequence: u64, data: *const u8, length: usize) {
        self.count += 1;
        if self.kept.len() < MOST_ADDRESSES {
            self.kept.push((sequence, data.addr() as u64, length as u64));
        }
    }

    fn resolve(&self, maps: &Maps) -> Vec<Address> {
        let resolve = |&(sequence, address, length): &(u64, u64, u64)| {
            let place: AddressPlace = maps.place(address, length);
            Address { sequence, address, place }
        };
        self.kept.iter().map(resolve).collect()
    }
}

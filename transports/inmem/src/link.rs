//! A link between two nodes of one process.

use crate::faults::{Faults, FaultsAt, direction_of};
use crate::queue::{Direction, EventCount, Line, Receiver, Sender, now_ns};
use crate::stage::{Next, Parcel, Source, Stage};
use std::collections::BTreeMap;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tripmeter_abi::{Callback, Error, Link, LinkOptions, Loan, Message, NodeOptions, Result, Role, Status, Wait};

/// Interval at which the leader checks for the follower.
const CONNECT_STEP: Duration = Duration::from_micros(100);
/// Interval at which a delivery thread checks whether to stop.
const DELIVERY_STEP_NS: u64 = 50_000_000;

pub struct InmemNode {
    pub(crate) options: NodeOptions,
    /// Messages in flight per direction.
    pub(crate) depth: usize,
    pub(crate) faults: FaultsAt,
    /// Event counts of followers whose links receive from several of the leader's.
    pub(crate) event_counts: Vec<Arc<Line<EventCount>>>,
}

pub(crate) struct Shared {
    /// From the leader to all followers.
    out: Arc<Direction>,
    /// From each follower.
    back: Vec<Arc<Direction>>,
    faults: FaultsAt,
    /// Index of the leader's end among several publishers; else 0.
    publisher: usize,
    payload_bytes: usize,
    is_taken: Vec<AtomicBool>,
    connected: AtomicUsize,
}

/// Event counts on which the followers sleep.
pub(crate) fn event_counts(options: &NodeOptions) -> Vec<Arc<Line<EventCount>>> {
    (0..options.follower_count.max(1)).map(|_| Arc::default()).collect()
}

impl Shared {
    fn new(node: &InmemNode, publisher: usize) -> Result<Self> {
        let payload_bytes = usize::try_from(node.options.max_payload_bytes).unwrap_or(usize::MAX);
        let (followers, leader) = (node.event_counts.len(), [Arc::default()]);
        let direction = |receivers: &[_]| Direction::new(node.depth, payload_bytes, receivers).map(Arc::new);
        Ok(Self {
            out: direction(&node.event_counts)?,
            back: (0..followers).map(|_| direction(&leader)).collect::<Result<_>>()?,
            faults: node.faults.clone(),
            publisher,
            payload_bytes,
            is_taken: (0..followers).map(|_| AtomicBool::new(false)).collect(),
            connected: AtomicUsize::new(0),
        })
    }

    /// Announces how the leader waits; all leaders do so before any sends.
    fn announce_leader(&self, wait: Wait) {
        let sleeps = wait != Wait::Poll;
        self.out.sender_sleeps.store(sleeps, Ordering::Relaxed);
        self.back.iter().for_each(|back| back.announce_receiver(0, sleeps));
    }

    fn announce_follower(&self, follower: usize, wait: Wait) {
        let sleeps = wait != Wait::Poll;
        self.out.announce_receiver(follower, sleeps);
        self.back[follower].sender_sleeps.store(sleeps, Ordering::Relaxed);
    }

    /// Sources of one end: each follower for the leader, the leader for a follower.
    fn sources(&self, role: Role, follower: usize) -> Vec<(Stage, Receiver)> {
        let direction = 1 - direction_of(role);
        let source = |from: &Arc<Direction>, index, at| {
            (Stage::new(self.faults.faults_for(direction, at)), Receiver::new(from.clone(), index))
        };
        match role {
            Role::Leader => self.back.iter().enumerate().map(|(at, back)| source(back, 0, at)).collect(),
            Role::Follower => vec![source(&self.out, follower, follower.max(self.publisher))],
        }
    }
}

/// Leaders by address, for the followers' nodes.
static LEADERS: Mutex<BTreeMap<Vec<u8>, Arc<Shared>>> = Mutex::new(BTreeMap::new());

fn leaders() -> std::sync::MutexGuard<'static, BTreeMap<Vec<u8>, Arc<Shared>>> {
    LEADERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Entry of [`LEADERS`], removed when dropped.
struct Entry {
    address: Vec<u8>,
    shared: Arc<Shared>,
}

impl Entry {
    fn new(node: &InmemNode, index: u32, publisher: usize) -> Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let address = format!("{}-{index}-{}-{count}", node.options.run_id, std::process::id()).into_bytes();
        let shared = Arc::new(Shared::new(node, publisher)?);
        shared.announce_leader(node.options.wait);
        leaders().insert(address.clone(), shared.clone());
        Ok(Self { address, shared })
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        leaders().remove(&self.address);
    }
}

/// Receives from one sender or several, after the faults.
struct Intake {
    sources: Vec<(Stage, Receiver)>,
    /// Source of the last message; the next search starts after it.
    latest: usize,
    event_count: Arc<Line<EventCount>>,
    sleeps: bool,
}

impl Intake {
    fn new(sources: Vec<(Stage, Receiver)>) -> Self {
        let receiver = &sources[0].1;
        let (event_count, sleeps) = (receiver.event_count(), receiver.sleeps());
        Self { sources, latest: 0, event_count, sleeps }
    }

    #[inline]
    fn take(&mut self, timeout_ns: u64) -> Result<Option<Message>> {
        match self.next() {
            Next::Deliver(parcel) => Ok(Some(self.deliver(parcel))),
            Next::Ended => Err(Error::closed("the sender of this link has gone")),
            Next::Nothing | Next::NotBefore(_) if !self.sleeps || timeout_ns == 0 => Ok(None),
            Next::Nothing => self.sleep(timeout_ns),
            Next::NotBefore(due_ns) => self.sleep(timeout_ns.min(due_ns.saturating_sub(now_ns()))),
        }
    }

    /// First delivery of all sources; its source becomes the latest.
    #[inline]
    fn next(&mut self) -> Next {
        let mut found = Next::Nothing;
        for step in 1..=self.sources.len() {
            let at = (self.latest + step) % self.sources.len();
            let (stage, receiver) = &mut self.sources[at];
            match (stage.next(receiver, now_ns), found) {
                (next @ (Next::Deliver(_) | Next::Ended), _) => {
                    self.latest = at;
                    return next;
                }
                (Next::NotBefore(due_ns), Next::NotBefore(other_ns)) => found = Next::NotBefore(due_ns.min(other_ns)),
                (Next::NotBefore(due_ns), _) => found = Next::NotBefore(due_ns),
                (Next::Nothing, _) => {}
            }
        }
        found
    }

    fn sleep(&mut self, timeout_ns: u64) -> Result<Option<Message>> {
        self.event_count.0.prepare_wait();
        let mut next = self.next();
        let is_nothing = matches!(next, Next::Nothing | Next::NotBefore(_));
        if is_nothing {
            self.event_count.0.wait(timeout_ns);
        }
        self.event_count.0.cancel();
        if is_nothing {
            next = self.next();
        }
        match next {
            Next::Deliver(parcel) => Ok(Some(self.deliver(parcel))),
            _ => Ok(None),
        }
    }

    fn deliver(&self, parcel: Parcel) -> Message {
        let (stage, receiver) = &self.sources[self.latest];
        if stage.delay_ns() > 0 {
            let end_ns = now_ns() + stage.delay_ns();
            while now_ns() < end_ns {
                std::hint::spin_loop();
            }
        }
        let token = ptr::without_provenance_mut(parcel.buffer as usize);
        Message { data: receiver.data(&parcel), length: parcel.length, token }
    }

    fn release(&mut self, message: &Message) {
        self.sources[self.latest].1.give_back(message.token.addr() as u32);
    }
}

struct Delivery {
    stop: Arc<AtomicBool>,
    directions: Vec<Arc<Direction>>,
    thread: Option<JoinHandle<()>>,
}

impl Delivery {
    fn start(mut intake: Intake, directions: Vec<Arc<Direction>>, callback: Callback) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let deliver = move || {
            while !stopped.load(Ordering::Relaxed) {
                match intake.take(DELIVERY_STEP_NS) {
                    Ok(Some(message)) => {
                        callback.call(&message);
                        intake.release(&message);
                    }
                    Ok(None) => {}
                    Err(_) => return,
                }
            }
        };
        let thread = thread::Builder::new().name("inmem-delivery".into()).spawn(deliver);
        let thread = Some(thread.map_err(|error| Error::os("starting the delivery thread", error))?);
        Ok(Self { stop, directions, thread })
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.directions.iter().for_each(|direction| direction.rouse_receivers());
        if let Some(thread) = self.thread.take() {
            // The thread has already printed its panic.
            let _ = thread.join();
        }
    }
}

pub struct QueueLink {
    /// Entry of the leader's end; `None` at a follower's.
    entry: Option<Entry>,
    role: Role,
    follower: usize,
    /// Number of peers of a follower's end.
    publishers: usize,
    wait: Wait,
    callback: Option<Callback>,
    payload_bytes: usize,
    /// Dropped, and so closed, in this order: a callback may send until its thread has ended.
    delivery: Option<Delivery>,
    sender: Option<Sender>,
    intake: Option<Intake>,
    /// Faults of its own messages.
    faults: Faults,
    sent: u64,
}

impl QueueLink {
    pub(crate) fn open(node: &InmemNode, &LinkOptions { index, callback }: &LinkOptions) -> Result<Self> {
        let options = &node.options;
        let (role, follower, wait) = (options.role, options.follower_index as usize, options.wait);
        if wait == Wait::Callback && callback.is_none() {
            return Err(Error::new(Status::Invalid, "wait 'callback' needs a function to call"));
        }
        let publisher = if role == Role::Leader && options.has_publishers() { index as usize } else { 0 };
        Ok(Self {
            entry: (role == Role::Leader).then(|| Entry::new(node, index, publisher)).transpose()?,
            role,
            follower,
            publishers: options.publisher_count.max(1) as usize,
            wait,
            callback,
            payload_bytes: 0,
            delivery: None,
            sender: None,
            intake: None,
            faults: node.faults.faults_for(direction_of(role), follower.max(publisher)),
            sent: 0,
        })
    }

    /// Receives from the leader's end, or from each of several publishers, and sends to the first.
    fn attach(&mut self, shared: &[Arc<Shared>]) -> Result<()> {
        let first = &shared[0];
        let (out, back) = match self.role {
            Role::Leader => (first.out.clone(), first.back.clone()),
            Role::Follower => {
                (first.back[self.follower].clone(), shared.iter().map(|shared| shared.out.clone()).collect())
            }
        };
        self.payload_bytes = first.payload_bytes;
        let stamps = !first.faults.directions[direction_of(self.role)].stall.is_empty();
        self.sender = Some(Sender::new(out, stamps));
        let intake = Intake::new(shared.iter().flat_map(|shared| shared.sources(self.role, self.follower)).collect());
        match self.callback.filter(|_| self.wait == Wait::Callback) {
            Some(callback) => self.delivery = Some(Delivery::start(intake, back, callback)?),
            None => self.intake = Some(intake),
        }
        Ok(())
    }

    fn connect_leader(&self, shared: &Shared, timeout: Duration) -> Result<()> {
        let start = Instant::now();
        while shared.connected.load(Ordering::Acquire) < shared.back.len() {
            if start.elapsed() >= timeout {
                let (count, all) = (shared.connected.load(Ordering::Acquire), shared.back.len());
                let text = format!("{count} of {all} followers of this process connected within {timeout:?}");
                return Err(Error::failed(text));
            }
            thread::sleep(CONNECT_STEP);
        }
        Ok(())
    }

    fn connect_follower(&self, address: &[u8]) -> Result<Arc<Shared>> {
        let shared = leaders().get(address).cloned().ok_or_else(|| {
            let address = String::from_utf8_lossy(address);
            Error::failed(format!(
                "no leader '{address}' in this process; system 'inmem' needs both ends in one process"
            ))
        })?;
        let (follower, count) = (self.follower, shared.is_taken.len());
        if shared.is_taken.get(follower).is_none_or(|is_taken| is_taken.swap(true, Ordering::AcqRel)) {
            let text =
                format!("the leader has a follower {follower} already, or none: it connects {count} follower(s)");
            return Err(Error::new(Status::Invalid, text));
        }
        shared.announce_follower(follower, self.wait);
        shared.connected.fetch_add(1, Ordering::AcqRel);
        Ok(shared)
    }

    #[cold]
    fn refuse_loan(&self, length: usize) -> Error {
        let limit = self.payload_bytes;
        Error::new(Status::Limit, format!("a message of {length} bytes is longer than the buffer of {limit} bytes"))
    }
}

impl Link for QueueLink {
    fn address(&mut self) -> Result<Vec<u8>> {
        Ok(self.entry.as_ref().map_or_else(Vec::new, |entry| entry.address.clone()))
    }

    fn connect(&mut self, peers: &[Vec<u8>], timeout_ns: u64) -> Result<()> {
        let expected = self.entry.as_ref().map_or(self.publishers, |entry| entry.shared.back.len());
        if peers.len() != expected {
            let text = format!("this end connects {expected} peer(s), not {}", peers.len());
            return Err(Error::new(Status::Invalid, text));
        }
        let shared = match &self.entry {
            Some(entry) => {
                self.connect_leader(&entry.shared, Duration::from_nanos(timeout_ns))?;
                vec![entry.shared.clone()]
            }
            None => peers.iter().map(|peer| self.connect_follower(peer)).collect::<Result<_>>()?,
        };
        self.attach(&shared)
    }

    fn loan(&mut self, length: usize, _in_reply_to: Option<&Message>) -> Result<Loan> {
        if length > self.payload_bytes {
            return Err(self.refuse_loan(length));
        }
        let sender = self.sender.as_mut().ok_or_else(|| Error::new(Status::Invalid, "the link is not connected"))?;
        let (buffer, data) = sender.loan()?;
        Ok(Loan { data, length, token: ptr::without_provenance_mut(buffer as usize) })
    }

    fn publish(&mut self, loan: Loan, timeout_ns: u64) -> Result<bool> {
        let Some(sender) = &mut self.sender else { return Ok(false) };
        let is_sent = sender.publish(loan.token.addr() as u32, loan.length, timeout_ns)?;
        if is_sent && !self.faults.stall_sender.is_empty() {
            self.sent += 1;
            thread::sleep(Duration::from_nanos(self.faults.stall_sender_ns(self.sent)));
        }
        Ok(is_sent)
    }

    fn discard(&mut self, loan: Loan) {
        if let Some(sender) = &mut self.sender {
            sender.discard(loan.token.addr() as u32);
        }
    }

    fn take(&mut self, timeout_ns: u64) -> Result<Option<Message>> {
        match &mut self.intake {
            Some(intake) => intake.take(timeout_ns),
            None => Ok(None),
        }
    }

    fn release(&mut self, message: Message) {
        if let Some(intake) = &mut self.intake {
            intake.release(&message);
        }
    }
}

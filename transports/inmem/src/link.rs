//! A link between two nodes of one process.

use crate::faults::{Faults, direction_of};
use crate::queue::{Direction, Receiver, Sender, now_ns};
use crate::stage::{Next, Parcel, Source, Stage};
use std::collections::BTreeMap;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tripmeter_abi::{Callback, Error, Link, Loan, Message, NodeOptions, Result, Role, Status, Wait};

/// Between two looks for the follower.
const CONNECT_STEP: Duration = Duration::from_micros(100);
/// Between two looks of a delivery thread for its end.
const DELIVERY_STEP_NS: u64 = 50_000_000;

/// What leader and follower of a link share.
pub(crate) struct Shared {
    directions: [Arc<Direction>; 2],
    faults: [Faults; 2],
    payload_bytes: usize,
    is_taken: AtomicBool,
    is_connected: AtomicBool,
}

impl Shared {
    /// Says how one end waits; both have said so before either sends.
    fn announce(&self, role: Role, wait: Wait) {
        let outgoing = direction_of(role);
        self.directions[1 - outgoing].receiver_sleeps.store(wait != Wait::Poll, Ordering::Relaxed);
        self.directions[outgoing].sender_sleeps.store(wait != Wait::Poll, Ordering::Relaxed);
    }
}

/// How the follower's node finds the leader's, by address.
static LEADERS: Mutex<BTreeMap<Vec<u8>, Arc<Shared>>> = Mutex::new(BTreeMap::new());

fn leaders() -> std::sync::MutexGuard<'static, BTreeMap<Vec<u8>, Arc<Shared>>> {
    LEADERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An entry in the list of leaders, removed when dropped.
struct Entry {
    address: Vec<u8>,
    shared: Arc<Shared>,
}

impl Entry {
    fn new(options: &NodeOptions, index: u32, depth: usize, faults: [Faults; 2]) -> Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let address = format!("{}-{index}-{}-{count}", options.run_id, std::process::id()).into_bytes();
        let payload_bytes = usize::try_from(options.max_payload_bytes).unwrap_or(usize::MAX);
        let direction = || Ok::<_, Error>(Arc::new(Direction::new(depth, payload_bytes)?));
        let directions = [direction()?, direction()?];
        let [is_taken, is_connected] = [false; 2].map(AtomicBool::new);
        let shared = Arc::new(Shared { directions, faults, payload_bytes, is_taken, is_connected });
        shared.announce(Role::Leader, options.wait);
        leaders().insert(address.clone(), shared.clone());
        Ok(Self { address, shared })
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        leaders().remove(&self.address);
    }
}

/// Receives behind the faults.
struct Intake {
    stage: Stage,
    receiver: Receiver,
}

impl Intake {
    #[inline]
    fn take(&mut self, timeout_ns: u64) -> Result<Option<Message>> {
        match self.stage.next(&mut self.receiver, now_ns) {
            Next::Deliver(parcel) => Ok(Some(self.deliver(parcel))),
            Next::Ended => Err(Error::closed("the sender of this link has gone")),
            Next::Nothing | Next::NotBefore(_) if !self.receiver.sleeps() || timeout_ns == 0 => Ok(None),
            Next::Nothing => self.sleep(timeout_ns),
            Next::NotBefore(due_ns) => self.sleep(timeout_ns.min(due_ns.saturating_sub(now_ns()))),
        }
    }

    fn sleep(&mut self, timeout_ns: u64) -> Result<Option<Message>> {
        let stage = &mut self.stage;
        let found = self.receiver.sleep(timeout_ns, |receiver| match stage.next(receiver, now_ns) {
            Next::Nothing | Next::NotBefore(_) => None,
            found => Some(found),
        });
        match found.unwrap_or_else(|| stage.next(&mut self.receiver, now_ns)) {
            Next::Deliver(parcel) => Ok(Some(self.deliver(parcel))),
            _ => Ok(None),
        }
    }

    fn deliver(&self, parcel: Parcel) -> Message {
        if self.stage.delay_ns() > 0 {
            let end_ns = now_ns() + self.stage.delay_ns();
            while now_ns() < end_ns {
                std::hint::spin_loop();
            }
        }
        let token = ptr::without_provenance_mut(parcel.buffer as usize);
        Message { data: self.receiver.data(&parcel), length: parcel.length, token }
    }

    fn release(&mut self, message: &Message) {
        self.receiver.give_back(message.token.addr() as u32);
    }
}

/// The thread that calls the host.
struct Delivery {
    stop: Arc<AtomicBool>,
    direction: Arc<Direction>,
    thread: Option<JoinHandle<()>>,
}

impl Delivery {
    fn start(mut intake: Intake, direction: Arc<Direction>, callback: Callback) -> Result<Self> {
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
        Ok(Self { stop, direction, thread })
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.direction.rouse_receiver();
        if let Some(thread) = self.thread.take() {
            // A panic was printed by the thread itself, and there is nothing else to do about it here.
            let _ = thread.join();
        }
    }
}

/// One topic or client.
pub struct InmemLink {
    /// The leader's.
    entry: Option<Entry>,
    role: Role,
    wait: Wait,
    callback: Option<Callback>,
    payload_bytes: usize,
    /// Dropped, and so closed, in this order: a callback may send until its thread has ended.
    delivery: Option<Delivery>,
    sender: Option<Sender>,
    intake: Option<Intake>,
}

impl InmemLink {
    pub(crate) fn open(
        options: &NodeOptions,
        index: u32,
        callback: Option<Callback>,
        depth: usize,
        faults: [Faults; 2],
    ) -> Result<Self> {
        let entry = match options.role {
            Role::Leader => Some(Entry::new(options, index, depth, faults)?),
            Role::Follower => None,
        };
        let (role, wait) = (options.role, options.wait);
        if wait == Wait::Callback && callback.is_none() {
            return Err(Error::new(Status::Invalid, "wait 'callback' needs a function to call"));
        }
        Ok(Self { entry, role, wait, callback, payload_bytes: 0, delivery: None, sender: None, intake: None })
    }

    fn attach(&mut self, shared: &Shared) -> Result<()> {
        let outgoing = direction_of(self.role);
        let [out, back] = [outgoing, 1 - outgoing].map(|at| shared.directions[at].clone());
        self.payload_bytes = shared.payload_bytes;
        self.sender = Some(Sender::new(out, !shared.faults[outgoing].stall.is_empty()));
        let stage = Stage::new(shared.faults[1 - outgoing].clone());
        let intake = Intake { stage, receiver: Receiver::new(back.clone()) };
        match self.callback.filter(|_| self.wait == Wait::Callback) {
            Some(callback) => self.delivery = Some(Delivery::start(intake, back, callback)?),
            None => self.intake = Some(intake),
        }
        Ok(())
    }

    fn connect_leader(&self, shared: &Shared, timeout: Duration) -> Result<()> {
        let start = Instant::now();
        while !shared.is_connected.load(Ordering::Acquire) {
            if start.elapsed() >= timeout {
                return Err(Error::failed(format!("no follower of this process connected within {timeout:?}")));
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
        if shared.is_taken.swap(true, Ordering::AcqRel) {
            let text = "the leader has a follower already; system 'inmem' connects 1 follower per leader";
            return Err(Error::new(Status::Invalid, text));
        }
        shared.announce(Role::Follower, self.wait);
        shared.is_connected.store(true, Ordering::Release);
        Ok(shared)
    }

    #[cold]
    fn refuse_loan(&self, length: usize) -> Error {
        let limit = self.payload_bytes;
        Error::new(Status::Limit, format!("a message of {length} bytes is longer than the buffer of {limit} bytes"))
    }
}

impl Link for InmemLink {
    fn address(&mut self) -> Result<Vec<u8>> {
        Ok(self.entry.as_ref().map_or_else(Vec::new, |entry| entry.address.clone()))
    }

    fn connect(&mut self, peers: &[Vec<u8>], timeout_ns: u64) -> Result<()> {
        let [peer] = peers else {
            let text = format!("system 'inmem' connects 1 follower per leader, not {}", peers.len());
            return Err(Error::new(Status::Invalid, text));
        };
        let shared = match &self.entry {
            Some(entry) => {
                self.connect_leader(&entry.shared, Duration::from_nanos(timeout_ns))?;
                entry.shared.clone()
            }
            None => self.connect_follower(peer)?,
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
        match &mut self.sender {
            Some(sender) => sender.publish(loan.token.addr() as u32, loan.length, timeout_ns),
            None => Ok(false),
        }
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

//! One direction of a link: buffers travel to all receivers by one queue, and are free when each has returned them.
#![expect(unsafe_code, reason = "memory that is lent or shared")]

use crate::stage::{Parcel, Source};
use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tripmeter_abi::os::{self, Waited};
use tripmeter_abi::{Error, Result, Status};

pub(crate) type EventCount = os::EventCount<false>;

const CACHE_LINE: usize = 64;
/// Spins between two readings of the clock.
const SPINS: u32 = 256;

#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Line<T>(pub(crate) T);

#[derive(Default)]
struct Slot {
    buffer: AtomicU32,
    length: AtomicU64,
    due_ns: AtomicU64,
}

/// Queue of one writer with a slot for every buffer, so that it never fills up; each reader gets every message.
struct Queue {
    slots: Box<[Slot]>,
    pushed: Line<AtomicU64>,
}

impl Queue {
    fn new(slots: usize) -> Self {
        Self { slots: (0..slots).map(|_| Slot::default()).collect(), pushed: Line::default() }
    }

    /// Only the one writer may call this.
    fn push(&self, parcel: Parcel) {
        let pushed = self.pushed.0.load(Ordering::Relaxed);
        let slot = &self.slots[pushed as usize % self.slots.len()];
        slot.buffer.store(parcel.buffer, Ordering::Relaxed);
        slot.length.store(parcel.length as u64, Ordering::Relaxed);
        slot.due_ns.store(parcel.due_ns, Ordering::Relaxed);
        self.pushed.0.store(pushed + 1, Ordering::Release);
    }

    /// Each reader keeps its own `popped`.
    #[inline]
    fn pop(&self, popped: &mut u64) -> Option<Parcel> {
        if *popped == self.pushed.0.load(Ordering::Acquire) {
            return None;
        }
        let slot = &self.slots[*popped as usize % self.slots.len()];
        *popped += 1;
        Some(Parcel {
            buffer: slot.buffer.load(Ordering::Relaxed),
            length: slot.length.load(Ordering::Relaxed) as usize,
            due_ns: slot.due_ns.load(Ordering::Relaxed),
        })
    }
}

#[derive(Clone, Copy)]
#[repr(align(64))]
#[expect(dead_code, reason = "accessed through pointers only")]
struct Block([u8; CACHE_LINE]);

/// Shared by all ends of a direction: one sender, and one or more receivers, each of which gets every message.
pub(crate) struct Direction {
    blocks: Box<[UnsafeCell<Block>]>,
    stride: usize,
    /// Deliveries of each buffer that are not returned yet; a free buffer has none. A line each, as both ends write to them.
    shares: Box<[Line<AtomicU32>]>,
    ready: Queue,
    receivers: Box<[Reader]>,
    sender: Line<EventCount>,
    /// How the sender waits; set before both ends are connected.
    pub(crate) sender_sleeps: AtomicBool,
    sender_has_gone: AtomicBool,
}

struct Reader {
    /// Shared by all directions that it receives from.
    event_count: Arc<Line<EventCount>>,
    sleeps: AtomicBool,
    has_gone: AtomicBool,
}

// SAFETY: a buffer is used by the end that holds its number. It passes to receivers through the queue, and back by its
// shares, with release and acquire.
unsafe impl Sync for Direction {}
// SAFETY: as above.
unsafe impl Send for Direction {}

impl Direction {
    /// Allocates `depth` messages in flight and one buffer for the loan, for one receiver per event count.
    pub(crate) fn new(depth: usize, payload_bytes: usize, event_counts: &[Arc<Line<EventCount>>]) -> Result<Self> {
        let stride = payload_bytes.div_ceil(CACHE_LINE).max(1);
        let count = stride.checked_mul(depth + 1);
        let mut blocks = Vec::new();
        let room = count.ok_or(()).and_then(|count| blocks.try_reserve_exact(count).map_err(|_| ()));
        room.map_err(|()| {
            let text = format!(
                "no memory for {} buffers of {payload_bytes} bytes; take a smaller payload or depth",
                depth + 1
            );
            Error::new(Status::Limit, text)
        })?;
        blocks.resize_with(stride * (depth + 1), || UnsafeCell::new(Block([0x5A; CACHE_LINE])));
        Ok(Self {
            blocks: blocks.into_boxed_slice(),
            stride,
            shares: (0..=depth).map(|_| Line::default()).collect(),
            ready: Queue::new(depth + 1),
            receivers: event_counts.iter().map(Reader::new).collect(),
            sender: Line::default(),
            sender_sleeps: AtomicBool::new(false),
            sender_has_gone: AtomicBool::new(false),
        })
    }

    fn data(&self, buffer: u32) -> *mut u8 {
        debug_assert!((buffer as usize) < self.shares.len());
        // A pointer that is valid for the whole buffer, not only for its first block.
        UnsafeCell::raw_get(self.blocks.as_ptr().wrapping_add(buffer as usize * self.stride)).cast()
    }

    /// Wakes sleeping receivers without a message.
    pub(crate) fn rouse_receivers(&self) {
        self.receivers.iter().for_each(|receiver| receiver.event_count.0.notify());
    }

    /// Announces how a receiver waits; call it before anything is sent.
    pub(crate) fn announce_receiver(&self, index: usize, sleeps: bool) {
        self.receivers[index].sleeps.store(sleeps, Ordering::Relaxed);
    }
}

impl Reader {
    fn new(event_count: &Arc<Line<EventCount>>) -> Self {
        let [sleeps, has_gone] = [false; 2].map(AtomicBool::new);
        Self { event_count: event_count.clone(), sleeps, has_gone }
    }
}

pub(crate) struct Sender {
    direction: Arc<Direction>,
    /// Buffer of the next loan; `None` while a loan is open.
    spare: Option<u32>,
    /// True if messages carry their send time.
    stamps: bool,
}

impl Sender {
    pub(crate) fn new(direction: Arc<Direction>, stamps: bool) -> Self {
        Self { direction, spare: Some(0), stamps }
    }

    pub(crate) fn loan(&mut self) -> Result<(u32, *mut u8)> {
        let buffer = self.spare.take().ok_or_else(|| Error::failed("a loan of this link is open already"))?;
        Ok((buffer, self.direction.data(buffer)))
    }

    pub(crate) fn discard(&mut self, buffer: u32) {
        self.spare = Some(buffer);
    }

    /// Sends a buffer once another is free for the next loan.
    pub(crate) fn publish(&mut self, buffer: u32, length: usize, timeout_ns: u64) -> Result<bool> {
        if self.direction.receivers.iter().any(|receiver| receiver.has_gone.load(Ordering::Relaxed)) {
            self.spare = Some(buffer);
            return Err(Error::closed("the receiver of this link has gone"));
        }
        let next = self.find_free(buffer).or_else(|| self.wait_for_free(buffer, timeout_ns));
        self.spare = Some(next.unwrap_or(buffer));
        if next.is_none() {
            return Ok(false);
        }
        self.direction.shares[buffer as usize].0.store(self.direction.receivers.len() as u32, Ordering::Relaxed);
        let due_ns = if self.stamps { now_ns() } else { 0 };
        self.direction.ready.push(Parcel { buffer, length, due_ns });
        for receiver in self.direction.receivers.iter().filter(|receiver| receiver.sleeps.load(Ordering::Relaxed)) {
            receiver.event_count.0.notify();
        }
        Ok(true)
    }

    /// First free buffer after `buffer`, in a ring: the oldest one, if all are returned in order.
    fn find_free(&self, buffer: u32) -> Option<u32> {
        let shares = &self.direction.shares;
        let mut others = (buffer + 1..shares.len() as u32).chain(0..buffer);
        others.find(|other| shares[*other as usize].0.load(Ordering::Acquire) == 0)
    }

    #[cold]
    fn wait_for_free(&self, buffer: u32, timeout_ns: u64) -> Option<u32> {
        let (start, timeout) = (Instant::now(), Duration::from_nanos(timeout_ns));
        let sleeps = self.direction.sender_sleeps.load(Ordering::Relaxed);
        loop {
            let left = timeout.checked_sub(start.elapsed()).filter(|left| !left.is_zero())?;
            let (found, interrupted) =
                if sleeps { self.sleep_for_free(buffer, left) } else { (self.spin_for_free(buffer), false) };
            if found.is_some() || interrupted {
                return found;
            }
        }
    }

    fn spin_for_free(&self, buffer: u32) -> Option<u32> {
        (0..SPINS).find_map(|_| {
            std::hint::spin_loop();
            self.find_free(buffer)
        })
    }

    fn sleep_for_free(&self, buffer: u32, left: Duration) -> (Option<u32>, bool) {
        self.direction.sender.0.prepare_wait();
        let mut found = self.find_free(buffer);
        let mut interrupted = false;
        if found.is_none() {
            let left_ns = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
            interrupted = self.direction.sender.0.wait(left_ns) == Waited::Not;
        }
        self.direction.sender.0.cancel();
        found = found.or_else(|| self.find_free(buffer));
        (found, interrupted)
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.direction.sender_has_gone.store(true, Ordering::Release);
        self.direction.rouse_receivers();
    }
}

/// Receiving end, before the faults.
pub(crate) struct Receiver {
    direction: Arc<Direction>,
    /// Index among the receivers of the direction.
    index: usize,
    popped: u64,
}

impl Receiver {
    pub(crate) fn new(direction: Arc<Direction>, index: usize) -> Self {
        Self { direction, index, popped: 0 }
    }

    fn reader(&self) -> &Reader {
        &self.direction.receivers[self.index]
    }

    pub(crate) fn sleeps(&self) -> bool {
        self.reader().sleeps.load(Ordering::Relaxed)
    }

    pub(crate) fn event_count(&self) -> Arc<Line<EventCount>> {
        self.reader().event_count.clone()
    }

    pub(crate) fn data(&self, parcel: &Parcel) -> *const u8 {
        self.direction.data(parcel.buffer)
    }
}

impl Source for Receiver {
    #[inline]
    fn pull(&mut self) -> Option<Parcel> {
        self.direction.ready.pop(&mut self.popped)
    }

    fn has_ended(&self) -> bool {
        self.direction.sender_has_gone.load(Ordering::Acquire)
    }

    fn share(&mut self, buffer: u32, times: u32) {
        self.direction.shares[buffer as usize].0.fetch_add(times - 1, Ordering::Relaxed);
    }

    fn give_back(&mut self, buffer: u32) {
        let shares = self.direction.shares[buffer as usize].0.fetch_sub(1, Ordering::Release);
        if shares == 1 && self.direction.sender_sleeps.load(Ordering::Relaxed) {
            self.direction.sender.0.notify();
        }
    }

    fn bytes(&mut self, parcel: &Parcel) -> &mut [u8] {
        // SAFETY: the buffer is this end's until given back, and the sender filled `length` bytes of it at most.
        unsafe { std::slice::from_raw_parts_mut(self.direction.data(parcel.buffer), parcel.length) }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.reader().has_gone.store(true, Ordering::Relaxed);
    }
}

/// Nanoseconds of a clock that both ends read.
pub(crate) fn now_ns() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    // 0 stands for no time.
    1 + START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

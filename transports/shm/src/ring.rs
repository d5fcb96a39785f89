//! One direction: chunks that are written, published and returned in a fixed order.
//!
//! The word that publishes a chunk shares a cache line with the first bytes of its message, so that one line
//! travels per message. `depth` messages may be in flight; the ring has one chunk more, so that a loan never waits.
#![expect(unsafe_code, reason = "memory that is lent or shared")]

use crate::atomics::{self, AtomicU64, Ordering, Waited};
use std::ptr;
use std::time::{Duration, Instant};
use tripmeter_abi::{Loan, Message};

pub(crate) type EventCount = atomics::EventCount<true>;

/// Bytes of a chunk before its message.
pub(crate) const HEAD_BYTES: usize = size_of::<Head>();

/// Spins between two readings of the clock.
const SPINS: u32 = 256;

#[derive(Default)]
#[repr(C, align(64))]
struct Line<T>(T);

#[derive(Default)]
#[repr(C)]
pub(crate) struct Head {
    /// Number of the message in this chunk, from 1; stored last.
    sequence: AtomicU64,
    length: AtomicU64,
}

/// Words of a direction, apart from its chunks. All zeros is the initial state.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Control {
    /// Messages returned; written by the consumer.
    released: Line<AtomicU64>,
    consumer: Line<EventCount>,
    producer: Line<EventCount>,
}

impl Control {
    pub(crate) fn event_count(&self) -> *const EventCount {
        &raw const self.consumer.0
    }
}

/// Location of a ring, and wait strategy of its ends.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) control: *const Control,
    /// Event count in which the consumer sleeps: its own, or one for all rings that it reads.
    pub(crate) event_count: *const EventCount,
    pub(crate) chunks: *mut u8,
    pub(crate) stride: usize,
    pub(crate) depth: usize,
    /// True if this end sleeps when it waits.
    pub(crate) sleeps: bool,
    /// True if the other end sleeps when it waits.
    pub(crate) peer_sleeps: bool,
}

struct Cursor {
    chunk: *mut u8,
    first: *mut u8,
    end: *mut u8,
    stride: usize,
    /// Number of the message for this chunk.
    sequence: u64,
}

impl Cursor {
    /// # Safety
    /// `place` describes a ring that stays mapped for as long as the cursor is used.
    unsafe fn new(place: &Place) -> Self {
        // SAFETY: a ring has `depth + 1` chunks.
        let end = unsafe { place.chunks.add((place.depth + 1) * place.stride) };
        Self { chunk: place.chunks, first: place.chunks, end, stride: place.stride, sequence: 1 }
    }

    #[inline(always)]
    fn head(&self) -> &Head {
        // SAFETY: a chunk begins with an aligned head, is mapped, and is accessed through atomics only.
        unsafe { &*self.chunk.cast::<Head>() }
    }

    #[inline(always)]
    fn message(&self) -> *mut u8 {
        // SAFETY: a chunk is longer than its head.
        unsafe { self.chunk.add(HEAD_BYTES) }
    }

    #[inline(always)]
    fn advance(&mut self) {
        // SAFETY: the chunk lies before `end`, the end of the same mapping's ring.
        let next = unsafe { self.chunk.add(self.stride) };
        self.chunk = if next == self.end { self.first } else { next };
        self.sequence += 1;
    }
}

pub(crate) struct Producer {
    cursor: Cursor,
    control: *const Control,
    event_count: *const EventCount,
    depth: u64,
    /// Returned messages, as last read from the consumer's count.
    released: u64,
    sleeps: bool,
    peer_sleeps: bool,
}

impl Producer {
    /// # Safety
    /// As for [`Cursor::new`]; a ring has one producer.
    pub(crate) unsafe fn new(place: Place) -> Self {
        Self {
            // SAFETY: the caller's contract.
            cursor: unsafe { Cursor::new(&place) },
            control: place.control,
            event_count: place.event_count,
            depth: place.depth as u64,
            released: 0,
            sleeps: place.sleeps,
            peer_sleeps: place.peer_sleeps,
        }
    }

    fn control(&self) -> &Control {
        // SAFETY: mapped as long as the producer lives, by the contract of `new`.
        unsafe { &*self.control }
    }

    /// Chunk for the next message. It is always free: at most `depth` messages are in flight, and the ring has one
    /// chunk more.
    #[inline(always)]
    pub(crate) fn loan(&self, length: usize) -> Loan {
        Loan { data: self.cursor.message(), length, token: ptr::null_mut() }
    }

    /// Publishes the loaned chunk, or returns `false` if the ring stays full.
    #[inline(always)]
    pub(crate) fn publish(&mut self, length: usize, timeout_ns: u64) -> bool {
        if self.is_full() && !self.wait_for_room(timeout_ns) {
            return false;
        }
        self.hand_over(length);
        if self.peer_sleeps {
            // SAFETY: mapped as long as the producer lives, by the contract of `new`.
            unsafe { &*self.event_count }.notify();
        }
        true
    }

    #[inline(always)]
    fn hand_over(&mut self, length: usize) {
        let head = self.cursor.head();
        head.length.store(length as u64, Ordering::Relaxed);
        head.sequence.store(self.cursor.sequence, Ordering::Release);
        self.cursor.advance();
    }

    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.cursor.sequence - self.released > self.depth
    }

    fn look_for_room(&mut self) -> bool {
        self.released = self.control().released.0.load(Ordering::Acquire);
        !self.is_full()
    }

    /// Advances this ring after the producer of another ring with the same chunks has published a message.
    pub(crate) fn follow(&mut self) {
        self.cursor.advance();
        if self.peer_sleeps {
            // SAFETY: as in `publish`.
            unsafe { &*self.event_count }.notify();
        }
    }

    /// Waits for room for one message; `false` after the time-out.
    #[inline(never)]
    pub(crate) fn wait_for_room(&mut self, timeout_ns: u64) -> bool {
        if self.look_for_room() {
            return true;
        }
        let timeout = Duration::from_nanos(timeout_ns);
        let start = Instant::now();
        loop {
            let Some(left) = timeout.checked_sub(start.elapsed()).filter(|left| !left.is_zero()) else { return false };
            let found = if self.sleeps { self.sleep_for_room(left) } else { Some(self.spin_for_room()) };
            match found {
                Some(true) => return true,
                Some(false) => {}
                None => return false,
            }
        }
    }

    fn spin_for_room(&mut self) -> bool {
        (0..SPINS).any(|_| {
            std::hint::spin_loop();
            self.look_for_room()
        })
    }

    /// `None` after a signal or the time-out.
    fn sleep_for_room(&mut self, left: Duration) -> Option<bool> {
        self.control().producer.0.prepare_wait();
        if self.look_for_room() {
            self.control().producer.0.cancel();
            return Some(true);
        }
        let waited = self.control().producer.0.wait(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX));
        self.control().producer.0.cancel();
        let found = self.look_for_room();
        (found || waited == Waited::Changed).then_some(found)
    }
}

pub(crate) struct Consumer {
    cursor: Cursor,
    control: *const Control,
    event_count: *const EventCount,
    released: u64,
    sleeps: bool,
    peer_sleeps: bool,
}

impl Consumer {
    /// # Safety
    /// As for [`Cursor::new`]; a ring has one consumer.
    pub(crate) unsafe fn new(place: Place) -> Self {
        Self {
            // SAFETY: the caller's contract.
            cursor: unsafe { Cursor::new(&place) },
            control: place.control,
            event_count: place.event_count,
            released: 0,
            sleeps: place.sleeps,
            peer_sleeps: place.peer_sleeps,
        }
    }

    fn control(&self) -> &Control {
        // SAFETY: mapped as long as the consumer lives, by the contract of `new`.
        unsafe { &*self.control }
    }

    fn event_count(&self) -> &EventCount {
        // SAFETY: as above.
        unsafe { &*self.event_count }
    }

    #[inline(always)]
    fn is_ready(&self) -> bool {
        self.cursor.head().sequence.load(Ordering::Acquire) == self.cursor.sequence
    }

    /// Next message; waits for it if this end sleeps.
    #[inline(always)]
    pub(crate) fn take(&mut self, timeout_ns: u64) -> Option<Message> {
        if !self.is_ready() {
            if !self.sleeps {
                // Polling less often leaves the line with the sender longer: 10 to 15 % faster.
                std::hint::spin_loop();
                return None;
            }
            // Making the message in `sleep` would pass it through memory, even without sleeping.
            if !self.sleep(timeout_ns) {
                return None;
            }
        }
        Some(self.next())
    }

    #[inline(always)]
    fn next(&mut self) -> Message {
        let length = self.cursor.head().length.load(Ordering::Relaxed) as usize;
        let message = Message { data: self.cursor.message(), length, token: ptr::null_mut() };
        self.cursor.advance();
        message
    }

    /// Next message, if there is one now.
    pub(crate) fn look(&mut self) -> Option<Message> {
        self.is_ready().then(|| self.next())
    }

    /// Sleeps until there is a message; `false` if there is none.
    #[inline(never)]
    fn sleep(&self, timeout_ns: u64) -> bool {
        self.sleep_unless(timeout_ns, || self.is_ready());
        self.is_ready()
    }

    /// Sleeps in the consumer's event count until woken, unless `is_ready`.
    fn sleep_unless(&self, timeout_ns: u64, is_ready: impl FnOnce() -> bool) {
        let event_count = self.event_count();
        event_count.prepare_wait();
        if !is_ready() && timeout_ns > 0 {
            event_count.wait(timeout_ns);
        }
        event_count.cancel();
    }

    /// Sleeps until one of several rings, whose consumers share an event count, has a message.
    pub(crate) fn sleep_for_any(consumers: &[Consumer], timeout_ns: u64) {
        if let Some(first) = consumers.first().filter(|first| first.sleeps) {
            first.sleep_unless(timeout_ns, || consumers.iter().any(Consumer::is_ready));
        } else {
            std::hint::spin_loop();
        }
    }

    /// Returns the oldest message to the producer.
    #[inline(always)]
    pub(crate) fn release(&mut self) {
        self.released += 1;
        self.control().released.0.store(self.released, Ordering::Release);
        if self.peer_sleeps {
            self.control().producer.0.notify();
        }
    }
}

//! A link without threads, on its own clock: one script always gives equal numbers.
#![expect(unsafe_code, reason = "memory that is lent or shared")]

use crate::faults::{Faults, FaultsAt};
use crate::stage::{Next, Parcel, Source, Stage};
use std::collections::VecDeque;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tripmeter_abi::{Error, Link, Loan, Message, Result, Status, Wait};

/// Time by which a take without a message moves the clock, under wait `poll`.
const POLL_STEP_NS: u64 = 1_000;

/// Clock that moves only by calls; clones share it.
#[derive(Clone, Debug, Default)]
pub struct FakeClock(Arc<AtomicU64>);

impl FakeClock {
    pub fn now_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub fn advance(&self, ns: u64) {
        self.0.fetch_add(ns, Ordering::Relaxed);
    }
}

#[derive(Clone, Debug)]
pub struct Script {
    faults: [Faults; 2],
    service_ns: u64,
    wait: Wait,
}

impl Script {
    /// Every trip takes `service_ns`; `settings` inject faults, e.g. `("lose", "3,17")`.
    ///
    /// # Errors
    /// [`Status::Invalid`] if a setting is unknown or malformed, or the wait is `callback`.
    pub fn new(wait: Wait, service_ns: u64, settings: &[(&str, &str)]) -> Result<Self> {
        if wait == Wait::Callback {
            return Err(Error::new(Status::Invalid, "a scripted link has no thread to call back in"));
        }
        let known = crate::faults::settings();
        for (name, _) in settings {
            if !known.iter().any(|setting| setting.name == *name) {
                return Err(Error::new(Status::Invalid, format!("setting '{name}' is unknown to a scripted link")));
            }
        }
        let get = |name: &str| settings.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| *value);
        Ok(Self { faults: FaultsAt::parse(get, 1)?.directions, service_ns, wait })
    }
}

/// Leader's link to a built-in follower that returns every message.
///
/// | call | effect on the clock |
/// |---|---|
/// | `publish` | none, but for `stall_sender` |
/// | `take` that delivers | moves to the service time after the message was sent, plus stalls and delay, if that is later |
/// | `take` that does not | moves by its time-out (`block`), or by 1 µs (`poll`) |
pub fn scripted(script: Script, clock: FakeClock) -> ScriptedLink {
    let Script { faults, service_ns, wait } = script;
    let stalls = faults[0].clone();
    let [out, back] = faults.map(|faults| Lane { stage: Stage::new(faults), sent: VecDeque::new() });
    ScriptedLink {
        out,
        back,
        store: Store::default(),
        service_ns,
        wait,
        clock,
        reached_ns: 0,
        answer: |_| (),
        stalls,
        sent: 0,
    }
}

pub struct ScriptedLink {
    out: Lane,
    back: Lane,
    store: Store,
    service_ns: u64,
    wait: Wait,
    clock: FakeClock,
    /// Time at which the last message reached the follower.
    reached_ns: u64,
    answer: fn(&mut [u8]),
    /// Faults of sending.
    stalls: Faults,
    sent: u64,
}

struct Lane {
    stage: Stage,
    sent: VecDeque<Parcel>,
}

impl Lane {
    fn next(&mut self, store: &mut Store, clock: &FakeClock) -> Next {
        self.stage.next(&mut Sent { sent: &mut self.sent, store }, || clock.now_ns())
    }
}

#[derive(Default)]
struct Store {
    buffers: Vec<Vec<u64>>,
    shares: Vec<u32>,
    free: Vec<u32>,
}

impl Store {
    fn buffer(&mut self, length: usize) -> u32 {
        let buffer = self.free.pop().unwrap_or_else(|| {
            self.buffers.push(Vec::new());
            self.shares.push(0);
            (self.buffers.len() - 1) as u32
        });
        self.shares[buffer as usize] = 1;
        self.buffers[buffer as usize].resize(length.div_ceil(size_of::<u64>()), 0);
        buffer
    }

    fn data(&mut self, buffer: u32) -> *mut u8 {
        self.buffers[buffer as usize].as_mut_ptr().cast()
    }

    fn copy(&mut self, parcel: &Parcel) -> u32 {
        let copy = self.buffer(parcel.length);
        let bytes = self.buffers[parcel.buffer as usize].clone();
        self.buffers[copy as usize].copy_from_slice(&bytes);
        copy
    }

    fn give_back(&mut self, buffer: u32) {
        let shares = &mut self.shares[buffer as usize];
        *shares -= 1;
        if *shares == 0 {
            self.free.push(buffer);
        }
    }
}

struct Sent<'a> {
    sent: &'a mut VecDeque<Parcel>,
    store: &'a mut Store,
}

impl Source for Sent<'_> {
    fn pull(&mut self) -> Option<Parcel> {
        self.sent.pop_front()
    }

    fn has_ended(&self) -> bool {
        false
    }

    fn share(&mut self, buffer: u32, times: u32) {
        self.store.shares[buffer as usize] = times;
    }

    fn give_back(&mut self, buffer: u32) {
        self.store.give_back(buffer);
    }

    fn bytes(&mut self, parcel: &Parcel) -> &mut [u8] {
        // SAFETY: a buffer is long enough for its message, and `self` borrows the store mutably.
        unsafe { std::slice::from_raw_parts_mut(self.store.data(parcel.buffer), parcel.length) }
    }
}

impl ScriptedLink {
    /// Sets a function that changes each message before the follower returns it.
    pub fn answering(self, answer: fn(&mut [u8])) -> Self {
        Self { answer, ..self }
    }

    /// Answers the messages that have reached the follower; returns the time of the next.
    fn serve(&mut self) -> Option<u64> {
        loop {
            match self.out.next(&mut self.store, &self.clock) {
                Next::Deliver(parcel) => {
                    let buffer = self.store.copy(&parcel);
                    self.store.give_back(parcel.buffer);
                    let answered = Parcel { buffer, length: parcel.length, due_ns: 0 };
                    (self.answer)(Sent { sent: &mut self.back.sent, store: &mut self.store }.bytes(&answered));
                    // From the time at which the message reached the follower, which may be before this take.
                    self.reached_ns = self.reached_ns.max(parcel.due_ns) + self.out.stage.delay_ns();
                    let due_ns = self.reached_ns + self.service_ns;
                    self.back.sent.push_back(Parcel { buffer, length: parcel.length, due_ns });
                }
                Next::NotBefore(due_ns) => return Some(due_ns),
                Next::Nothing | Next::Ended => return None,
            }
        }
    }
}

impl Link for ScriptedLink {
    fn connect(&mut self, _peers: &[Vec<u8>], _timeout_ns: u64) -> Result<()> {
        Ok(())
    }

    fn loan(&mut self, length: usize, _in_reply_to: Option<&Message>) -> Result<Loan> {
        let buffer = self.store.buffer(length);
        Ok(Loan { data: self.store.data(buffer), length, token: ptr::without_provenance_mut(buffer as usize) })
    }

    fn publish(&mut self, loan: Loan, _timeout_ns: u64) -> Result<bool> {
        let parcel = Parcel { buffer: loan.token.addr() as u32, length: loan.length, due_ns: self.clock.now_ns() };
        self.out.sent.push_back(parcel);
        self.sent += 1;
        self.clock.advance(self.stalls.stall_sender_ns(self.sent));
        Ok(true)
    }

    fn discard(&mut self, loan: Loan) {
        self.store.give_back(loan.token.addr() as u32);
    }

    fn take(&mut self, timeout_ns: u64) -> Result<Option<Message>> {
        let patience_ns = if self.wait == Wait::Poll { POLL_STEP_NS } else { timeout_ns };
        let end_ns = self.clock.now_ns().saturating_add(patience_ns);
        loop {
            let arrival = self.serve();
            let delivery = match self.back.next(&mut self.store, &self.clock) {
                Next::Deliver(parcel) => {
                    self.clock.advance(self.back.stage.delay_ns());
                    let token = ptr::without_provenance_mut(parcel.buffer as usize);
                    return Ok(Some(Message { data: self.store.data(parcel.buffer), length: parcel.length, token }));
                }
                Next::NotBefore(due_ns) => Some(due_ns),
                Next::Nothing | Next::Ended => None,
            };
            let event_ns = arrival.into_iter().chain(delivery).min().unwrap_or(u64::MAX);
            let now_ns = self.clock.now_ns();
            self.clock.advance(event_ns.min(end_ns).saturating_sub(now_ns));
            if event_ns > end_ns {
                return Ok(None);
            }
        }
    }

    fn release(&mut self, message: Message) {
        self.store.give_back(message.token.addr() as u32);
    }
}

//! Messages and wakes in every order, within bounds: few messages, and so many forced switches between threads.

use crate::atomics::{Weakened, weaken};
use crate::ring::{Consumer, Control, HEAD_BYTES, Head, Place, Producer};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use std::panic::{AssertUnwindSafe, catch_unwind};

const DEPTH: usize = 1;
const MESSAGES: u64 = 3;
/// Switches of threads where none waits, at most.
const SWITCHES: usize = 3;
const FOR_EVER: u64 = u64::MAX;

#[derive(Default)]
#[repr(C)]
struct Chunk {
    head: Head,
    /// Loom fails where two threads use it without one having waited for the other.
    message: UnsafeCell<u64>,
}

/// The memory of a direction.
struct Memory {
    control: Control,
    chunks: [Chunk; DEPTH + 1],
}

// SAFETY: the ring's ends use it as they use a mapping that they share, and the model tries whether they may.
unsafe impl Sync for Memory {}
// SAFETY: as above.
unsafe impl Send for Memory {}

/// One end of a ring, which keeps the memory.
struct End<T>(T, Arc<Memory>);

// SAFETY: the pointers of an end lead into memory that moves along.
unsafe impl<T> Send for End<T> {}

/// Who sleeps where it has to wait; the other one looks again and again.
#[derive(Clone, Copy)]
struct Sleepers {
    producer: bool,
    consumer: bool,
}

fn ends(sleepers: Sleepers) -> (End<Producer>, End<Consumer>) {
    assert_eq!(HEAD_BYTES, std::mem::offset_of!(Chunk, message));
    let memory = Arc::new(Memory { control: Control::default(), chunks: Default::default() });
    let place = |sleeps, peer_sleeps| Place {
        control: &raw const memory.control,
        event_count: memory.control.event_count(),
        chunks: memory.chunks.as_ptr().cast::<u8>().cast_mut(),
        stride: size_of::<Chunk>(),
        depth: DEPTH,
        sleeps,
        peer_sleeps,
    };
    let (producer, consumer) = (sleepers.producer, sleepers.consumer);
    // SAFETY: the memory lives as long as both ends, and each end is there once.
    let ends = unsafe { (Producer::new(place(producer, consumer)), Consumer::new(place(consumer, producer))) };
    (End(ends.0, memory.clone()), End(ends.1, memory))
}

fn cell<'a>(data: *const u8) -> &'a UnsafeCell<u64> {
    // SAFETY: the ring hands out the place of a message, which is a cell.
    unsafe { &*data.cast() }
}

fn produce(End(mut producer, _memory): End<Producer>, sleeps: bool) {
    for value in 1..=MESSAGES {
        let loan = producer.loan(8);
        // SAFETY: nobody else uses it, or the model fails.
        cell(loan.data).with_mut(|message| unsafe { *message = value });
        while !producer.publish(value as usize, if sleeps { FOR_EVER } else { 0 }) {
            thread::yield_now();
        }
    }
}

fn consume(End(mut consumer, _memory): End<Consumer>) {
    for value in 1..=MESSAGES {
        let message = loop {
            match consumer.take(FOR_EVER) {
                Some(message) => break message,
                None => thread::yield_now(),
            }
        };
        assert_eq!(message.length as u64, value, "the length of another message");
        // SAFETY: as in `produce`.
        assert_eq!(cell(message.data).with(|message| unsafe { *message }), value, "another message");
        consumer.release();
    }
}

fn model(sleepers: Sleepers) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(SWITCHES);
    builder.check(move || {
        let (producer, consumer) = ends(sleepers);
        let thread = thread::spawn(move || produce(producer, sleepers.producer));
        consume(consumer);
        thread.join().expect("the producer ends");
    });
}

/// What the model says where an ordering is left out.
fn fault(what: Weakened, sleepers: Sleepers) -> String {
    weaken(Some(what));
    let outcome = catch_unwind(AssertUnwindSafe(|| model(sleepers)));
    weaken(None);
    let Err(panic) = outcome else { return String::new() };
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

const LOOKING: Sleepers = Sleepers { producer: false, consumer: false };
const CONSUMER_SLEEPS: Sleepers = Sleepers { producer: false, consumer: true };
const PRODUCER_SLEEPS: Sleepers = Sleepers { producer: true, consumer: false };
const BOTH_SLEEP: Sleepers = Sleepers { producer: true, consumer: true };

#[test]
fn messages_come_whole_and_in_order_where_both_ends_look() {
    model(LOOKING);
}

#[test]
fn a_sleeping_consumer_is_woken() {
    model(CONSUMER_SLEEPS);
}

#[test]
fn a_sleeping_producer_is_woken() {
    model(PRODUCER_SLEEPS);
}

#[test]
fn both_ends_may_sleep() {
    model(BOTH_SLEEP);
}

#[test]
fn a_model_finds_every_ordering_that_is_left_out() {
    const RACE: &str = "Causality violation";
    const NOT_WOKEN: &str = "deadlock";
    for (what, sleepers, expected) in [
        (Weakened::Release, LOOKING, RACE),
        (Weakened::Acquire, LOOKING, RACE),
        (Weakened::FenceOfSleeper, CONSUMER_SLEEPS, NOT_WOKEN),
        (Weakened::FenceOfWaker, CONSUMER_SLEEPS, NOT_WOKEN),
        (Weakened::FenceOfSleeper, PRODUCER_SLEEPS, NOT_WOKEN),
        (Weakened::FenceOfWaker, PRODUCER_SLEEPS, NOT_WOKEN),
    ] {
        let found = fault(what, sleepers);
        assert!(found.contains(expected), "{what:?} is left out, and the model says '{found}'");
    }
}

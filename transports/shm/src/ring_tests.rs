//! A ring between two threads in memory of this process, which Miri and ThreadSanitizer can check.
#![expect(unsafe_code, reason = "memory that two threads share")]

use crate::ring::{Consumer, Control, HEAD_BYTES, Place, Producer};
use std::cell::UnsafeCell;
use std::sync::Arc;
use std::thread;

const DEPTH: usize = 2;
const STRIDE: usize = 64;
const FOR_EVER: u64 = u64::MAX;
/// Miri takes a hundred times as long.
const MESSAGES: usize = if cfg!(miri) { 50 } else { 2000 };

#[repr(C, align(64))]
struct Memory {
    control: Control,
    chunks: UnsafeCell<[u8; (DEPTH + 1) * STRIDE]>,
}

// SAFETY: the ends of a ring hand its chunks to each other; the tests check that they do so correctly.
unsafe impl Sync for Memory {}

/// One end, with the memory that it needs.
struct End<T>(T, Arc<Memory>);

// SAFETY: the pointers of an end lead into memory that moves along.
unsafe impl<T> Send for End<T> {}

fn ends(producer_sleeps: bool, consumer_sleeps: bool) -> (End<Producer>, End<Consumer>) {
    let memory = Arc::new(Memory { control: Control::default(), chunks: UnsafeCell::new([0; _]) });
    let place = |sleeps, peer_sleeps| Place {
        control: &raw const memory.control,
        event_count: memory.control.event_count(),
        chunks: memory.chunks.get().cast(),
        stride: STRIDE,
        depth: DEPTH,
        sleeps,
        peer_sleeps,
    };
    // SAFETY: the memory lives as long as both ends, and each end is there once.
    let (producer, consumer) = unsafe {
        let consumer = Consumer::new(place(consumer_sleeps, producer_sleeps));
        (Producer::new(place(producer_sleeps, consumer_sleeps)), consumer)
    };
    (End(producer, memory.clone()), End(consumer, memory))
}

/// Length and letter that identify a message.
fn contents(number: usize) -> (usize, u8) {
    (number % (STRIDE - HEAD_BYTES) + 1, number as u8)
}

fn produce(End(mut producer, _memory): End<Producer>) {
    for number in 0..MESSAGES {
        let (length, letter) = contents(number);
        let loan = producer.loan(length);
        // SAFETY: a loan is writable for its length.
        unsafe { loan.data.write_bytes(letter, length) };
        while !producer.publish(length, FOR_EVER) {
            thread::yield_now();
        }
    }
}

fn consume(End(mut consumer, _memory): End<Consumer>) {
    for number in 0..MESSAGES {
        let message = loop {
            match consumer.take(FOR_EVER) {
                Some(message) => break message,
                None => thread::yield_now(),
            }
        };
        // SAFETY: a message is readable for its length until it is released.
        let bytes = unsafe { std::slice::from_raw_parts(message.data, message.length) };
        let (length, letter) = contents(number);
        assert!(bytes.len() == length && bytes.iter().all(|one| *one == letter), "message {number} is {bytes:?}");
        consumer.release();
    }
}

#[test]
fn messages_pass_between_threads_however_the_ends_wait() {
    for (producer_sleeps, consumer_sleeps) in [(false, false), (false, true), (true, false), (true, true)] {
        let (producer, consumer) = ends(producer_sleeps, consumer_sleeps);
        let thread = thread::spawn(move || produce(producer));
        consume(consumer);
        thread.join().unwrap();
    }
}

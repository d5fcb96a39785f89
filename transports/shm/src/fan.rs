//! Leader's end of a link to several followers: one row of chunks that all of them read, and a ring back from each.
//!
//! The number of followers changes no ordering: no follower writes a word that another reads, except the event
//! count in which the leader sleeps. One release store of a chunk's sequence passes the message to all; each
//! acquires that word. Each counts its returned messages in its own word, with release. A chunk is rewritten only
//! after an acquire load of all those words. Each sleeps in its own event count, which the leader checks after that
//! store and a sequentially consistent fence. All followers wake the leader in one event count; between its own
//! fence and its sleep it checks every ring.

use crate::ring::{Consumer, Producer};
use std::time::{Duration, Instant};
use tripmeter_abi::{Loan, Message};

/// Rings to and from all followers.
pub(crate) struct Fan {
    /// They share chunks: the first writes and publishes a message for all.
    producers: Vec<Producer>,
    consumers: Vec<Consumer>,
    /// Source of the last message; the next search starts after it.
    latest: usize,
}

impl Fan {
    pub(crate) fn new(producers: Vec<Producer>, consumers: Vec<Consumer>) -> Self {
        Self { producers, consumers, latest: 0 }
    }

    pub(crate) fn loan(&self, length: usize) -> Loan {
        self.producers[0].loan(length)
    }

    pub(crate) fn publish(&mut self, length: usize, timeout_ns: u64) -> bool {
        let mut deadline = None;
        for producer in self.producers.iter_mut().filter(|producer| producer.is_full()) {
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + Duration::from_nanos(timeout_ns));
            let left = deadline.saturating_duration_since(Instant::now());
            if !producer.wait_for_room(left.as_nanos() as u64) {
                return false;
            }
        }
        let Some((first, others)) = self.producers.split_first_mut() else { return false };
        // The first has room, and so does not wait.
        let is_sent = first.publish(length, 0);
        others.iter_mut().for_each(Producer::follow);
        is_sent
    }

    pub(crate) fn take(&mut self, timeout_ns: u64) -> Option<Message> {
        if let Some(message) = self.look() {
            return Some(message);
        }
        Consumer::sleep_for_any(&self.consumers, timeout_ns);
        self.look()
    }

    fn look(&mut self) -> Option<Message> {
        let count = self.consumers.len();
        for step in 1..=count {
            let index = (self.latest + step) % count;
            if let Some(message) = self.consumers[index].look() {
                self.latest = index;
                return Some(message);
            }
        }
        None
    }

    pub(crate) fn release(&mut self) {
        if let Some(consumer) = self.consumers.get_mut(self.latest) {
            consumer.release();
        }
    }
}

//! Leader's end of a link to several followers. They all read its messages in one row of chunks; each answers through a
//! ring of its own.
//!
//! Memory orderings are the same for any number of followers: no follower writes a word that another reads, except the
//! event count in which the leader sleeps. The leader publishes a message to all by one release store of the chunk's
//! sequence number, which each follower loads with acquire. Each follower counts the messages that it has returned in a
//! word of its own, with release. The leader rewrites a chunk only after an acquire load of all these words. Each
//! follower sleeps in its own event count, which the leader checks after its store and a sequentially consistent fence.
//! All followers wake the leader through one event count; between its own fence and its sleep it checks every ring.

use crate::ring::{Consumer, Producer};
use std::time::{Duration, Instant};
use tripmeter_abi::{Loan, Message};

/// Rings to and from all followers.
pub(crate) struct Fan {
    /// One per follower, with shared chunks: the first writes and publishes a message for all.
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
        // Does not wait, as the first ring has room by now.
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

//! Requests in the order in which they began, whichever is complete first.

use bytes::Bytes;
use std::collections::BTreeMap;
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;

/// A received request, and the destination of its answer.
pub struct Arrived<B> {
    /// Body of the request.
    pub body: B,
    /// Dropping it means no answer.
    pub answer: oneshot::Sender<Bytes>,
}

/// Puts numbered items in order.
pub struct Sequence<T> {
    /// Items that overtook others.
    early: BTreeMap<u64, T>,
    next: u64,
}

impl<T> Sequence<T> {
    /// Sequence that starts at `first`.
    pub fn new(first: u64) -> Self {
        Self { early: BTreeMap::new(), next: first }
    }

    /// Returns the item if it is the next one, and keeps it otherwise.
    pub fn accept(&mut self, number: u64, what: T) -> Option<T> {
        if number != self.next {
            self.early.insert(number, what);
            return None;
        }
        self.next += 1;
        Some(what)
    }

    /// Next item, if it was kept.
    pub fn kept(&mut self) -> Option<T> {
        let found = self.early.remove(&self.next);
        self.next += u64::from(found.is_some());
        found
    }
}

/// Receives numbered items in order.
pub struct Ordered<T> {
    queue: UnboundedReceiver<(u64, T)>,
    sequence: Sequence<T>,
}

impl<T> Ordered<T> {
    /// Receiver of items numbered from `first`.
    pub fn new(queue: UnboundedReceiver<(u64, T)>, first: u64) -> Self {
        Self { queue, sequence: Sequence::new(first) }
    }

    /// Next item; `None` once the queue is closed.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<T>> {
        if let Some(found) = self.sequence.kept() {
            return Poll::Ready(Some(found));
        }
        loop {
            let Some((number, what)) = ready!(self.queue.poll_recv(context)) else { return Poll::Ready(None) };
            if let Some(found) = self.sequence.accept(number, what) {
                return Poll::Ready(Some(found));
            }
        }
    }
}

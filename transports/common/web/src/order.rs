//! Requests in the order in which they began, whichever is whole first.

use bytes::Bytes;
use std::collections::BTreeMap;
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;

/// A request whose body has come, and where its answer goes.
pub struct Arrived<B> {
    /// What came.
    pub body: B,
    /// Where the answer goes; dropping it says that there is none.
    pub answer: oneshot::Sender<Bytes>,
}

/// Puts what is numbered one after the other in order.
pub struct Sequence<T> {
    /// Those that have overtaken others.
    early: BTreeMap<u64, T>,
    next: u64,
}

impl<T> Sequence<T> {
    /// The first has that number.
    pub fn new(first: u64) -> Self {
        Self { early: BTreeMap::new(), next: first }
    }

    /// Gives it back if it is the next one, and keeps it otherwise.
    pub fn accept(&mut self, number: u64, what: T) -> Option<T> {
        if number != self.next {
            self.early.insert(number, what);
            return None;
        }
        self.next += 1;
        Some(what)
    }

    /// The next one, if it was kept.
    pub fn kept(&mut self) -> Option<T> {
        let found = self.early.remove(&self.next);
        self.next += u64::from(found.is_some());
        found
    }
}

/// Receives what is numbered one after the other.
pub struct Ordered<T> {
    queue: UnboundedReceiver<(u64, T)>,
    sequence: Sequence<T>,
}

impl<T> Ordered<T> {
    /// Nothing has come yet; the first has that number.
    pub fn new(queue: UnboundedReceiver<(u64, T)>, first: u64) -> Self {
        Self { queue, sequence: Sequence::new(first) }
    }

    /// The next one; `None` once there will be no more.
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

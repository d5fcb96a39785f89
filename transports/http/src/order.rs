//! Requests in the order in which they began, whichever is whole first.

use std::collections::BTreeMap;
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc::UnboundedReceiver;

/// Receives what is numbered one after the other.
pub(crate) struct Ordered<T> {
    queue: UnboundedReceiver<(u64, T)>,
    /// Those that have overtaken others.
    early: BTreeMap<u64, T>,
    next: u64,
}

impl<T> Ordered<T> {
    /// Nothing has come yet; the first has that number.
    pub(crate) fn new(queue: UnboundedReceiver<(u64, T)>, first: u64) -> Self {
        Self { queue, early: BTreeMap::new(), next: first }
    }

    /// The next one; `None` once there will be no more.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<T>> {
        let found = loop {
            if let Some(found) = self.early.remove(&self.next) {
                break Some(found);
            }
            match ready!(self.queue.poll_recv(context)) {
                Some((number, request)) if number != self.next => drop(self.early.insert(number, request)),
                request => break request.map(|(_, request)| request),
            }
        };
        self.next += 1;
        Poll::Ready(found)
    }
}

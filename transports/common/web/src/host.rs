//! The host under wait `callback`: it handles a message within the task of the library that has received it.

use crate::order::{Arrived, Sequence};
use bytes::Bytes;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;
use tripmeter_abi::{Callback, Error, Message, Result};

/// What came.
pub trait Body: Send + 'static {
    /// As the host sees it; valid as long as this is.
    ///
    /// # Errors
    /// If it did not come whole.
    fn message(&self) -> Result<Message>;
}

impl Body for Bytes {
    #[inline]
    fn message(&self) -> Result<Message> {
        Ok(message(self))
    }
}

/// Bytes as the host sees them; valid as long as they are.
#[inline]
pub fn message(data: &Bytes) -> Message {
    Message { data: data.as_ptr(), length: data.len(), token: null_mut() }
}

impl<B: Body> Body for Result<B> {
    fn message(&self) -> Result<Message> {
        self.as_ref().map_err(Error::clone)?.message()
    }
}

/// What is to be said when `take` is called all the same.
#[cold]
pub fn untakable() -> Error {
    Error::failed("messages arrive by callback")
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where a server puts requests that have come.
pub enum RequestSink<B> {
    /// Where they wait to be taken, with their numbers.
    Queue(UnboundedSender<(u64, Arrived<B>)>),
    /// To the host.
    Host(Arc<Host<B>>),
}

impl<B> Clone for RequestSink<B> {
    fn clone(&self) -> Self {
        match self {
            Self::Queue(queue) => Self::Queue(queue.clone()),
            Self::Host(host) => Self::Host(host.clone()),
        }
    }
}

impl<B: Body> RequestSink<B> {
    /// The request of that number has come.
    pub fn put(&self, number: u64, arrived: Arrived<B>) {
        match self {
            // The host that has closed its end does not answer any more.
            Self::Queue(queue) => drop(queue.send((number, arrived))),
            Self::Host(host) => host.hand(number, arrived),
        }
    }
}

/// The host of a server, which gets one request at a time, in the order in which they began.
pub struct Host<B> {
    callback: Callback,
    order: Mutex<Sequence<Arrived<B>>>,
    /// Where the answer to the request goes that it has.
    answer: Mutex<Option<oneshot::Sender<Bytes>>>,
    failure: OnceLock<Error>,
}

impl<B: Body> Host<B> {
    /// The first request has that number.
    pub fn new(callback: Callback, first: u64) -> Self {
        let order = Mutex::new(Sequence::new(first));
        Self { callback, order, answer: Mutex::default(), failure: OnceLock::new() }
    }

    fn hand(&self, number: u64, arrived: Arrived<B>) {
        let mut order = locked(&self.order);
        let mut next = order.accept(number, arrived);
        while let Some(Arrived { body, answer }) = next {
            match body.message() {
                Ok(message) => {
                    *locked(&self.answer) = Some(answer);
                    self.callback.call(&message);
                    // A request without an answer is confirmed by this.
                    *locked(&self.answer) = None;
                }
                Err(error) => drop(self.failure.set(error)),
            }
            next = order.kept();
        }
    }

    /// Answers the request that the host has.
    ///
    /// # Errors
    /// If it has none, or the leader has gone.
    pub fn answer(&self, body: Bytes) -> Result<()> {
        let Some(answer) = locked(&self.answer).take() else {
            let nothing = || Error::failed("there is no request to answer");
            return Err(self.failure.get().cloned().unwrap_or_else(nothing));
        };
        answer.send(body).map_err(|_| Error::closed("the leader has gone"))
    }
}

//! The host under wait `callback`: it handles a message within the task of the library that received it.

use crate::order::{Arrived, Sequence};
use bytes::Bytes;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;
use tripmeter_abi::{Callback, Error, Message, Result};

/// A received message.
pub trait Body: Send + 'static {
    /// Message for the host, valid as long as `self`. Fails if it is incomplete.
    fn message(&self) -> Result<Message>;
}

impl Body for Bytes {
    #[inline]
    fn message(&self) -> Result<Message> {
        Ok(message(self))
    }
}

/// Message for the host, valid as long as `data`.
#[inline]
pub fn message(data: &Bytes) -> Message {
    Message { data: data.as_ptr(), length: data.len(), token: null_mut() }
}

impl<B: Body> Body for Result<B> {
    #[inline]
    fn message(&self) -> Result<Message> {
        self.as_ref().map_err(Error::clone)?.message()
    }
}

/// Error of a call of `take` under wait `callback`.
#[cold]
pub fn untakable() -> Error {
    Error::failed("messages arrive by callback")
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Destination of a server's requests.
pub enum RequestSink<B> {
    /// Queue from which the host takes requests, with their numbers.
    Queue(UnboundedSender<(u64, Arrived<B>)>),
    /// The host itself.
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
    /// Passes on a request with its number.
    pub fn put(&self, number: u64, arrived: Arrived<B>) {
        match self {
            // The receiver is gone only if the host has closed its end, and no longer answers.
            Self::Queue(queue) => drop(queue.send((number, arrived))),
            Self::Host(host) => host.hand(number, arrived),
        }
    }
}

/// Host of a server, which gets one request at a time, in the order in which they began.
pub struct Host<B> {
    callback: Callback,
    order: Mutex<Sequence<Arrived<B>>>,
    /// Destination of the answer to its current request.
    answer: Mutex<Option<oneshot::Sender<Bytes>>>,
    failure: OnceLock<Error>,
}

impl<B: Body> Host<B> {
    /// Host whose first request has the number `first`.
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
                    // Dropping the sender confirms a request that got no answer.
                    *locked(&self.answer) = None;
                }
                Err(error) => drop(self.failure.set(error)),
            }
            next = order.kept();
        }
    }

    /// Answers the current request. Fails if there is none, or the leader is gone.
    pub fn answer(&self, body: Bytes) -> Result<()> {
        let Some(answer) = locked(&self.answer).take() else {
            let nothing = || Error::failed("there is no request to answer");
            return Err(self.failure.get().cloned().unwrap_or_else(nothing));
        };
        answer.send(body).map_err(|_| Error::closed("the leader has gone"))
    }
}

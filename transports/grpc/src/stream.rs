//! Variant `stream`: one call for all messages. Both ends work alike once it is open.

use crate::follower::Handler;
use crate::leader::{Calls, gone, stream};
use crate::wire::Payload;
use bytes::Bytes;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Sender, channel, unbounded_channel};
use tokio_stream::Stream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};
use tripmeter_abi::blocks::Blocks;
use tripmeter_abi::{Callback, Error, Link, Loan, Message, Result};
use tripmeter_web::acceptor::Acceptor;
use tripmeter_web::driver::{Driver, is_in_task};
use tripmeter_web::host::{message, untakable};
use tripmeter_web::opening::{Called, Caller, Opening, unconnected};
use tripmeter_web::settings::WebSettings;

enum Out {
    Requests(Sender<Payload>),
    Responses(Sender<std::result::Result<Payload, Status>>),
}

struct Open {
    out: Out,
    /// Taken by the task under wait `callback`.
    messages: Option<Streaming<Payload>>,
    /// Keeps the leader's connection open.
    _channel: Option<Channel>,
    _acceptor: Option<Acceptor>,
}

pub(crate) struct StreamEnd {
    open: Option<Open>,
    held: Bytes,
    /// Under wait `callback` a task receives messages, and the host handles them.
    callback: Option<Callback>,
    /// Error with which the task ended.
    failure: Arc<OnceLock<Error>>,
    opening: Option<Opening>,
    settings: WebSettings,
    blocks: Blocks,
    driver: Driver,
}

impl StreamEnd {
    pub(crate) fn link(
        driver: Driver,
        opening: Opening,
        settings: WebSettings,
        callback: Option<Callback>,
    ) -> Box<dyn Link> {
        let (blocks, opening, failure) = (Blocks::new(settings.max_payload_bytes), Some(opening), Arc::default());
        Box::new(Self { open: None, held: Bytes::new(), callback, failure, opening, settings, blocks, driver })
    }
}

async fn lead(caller: Caller, peers: &[Vec<u8>], queued: usize) -> Result<Open> {
    let Calls(connection) = caller.connect(peers).await?;
    let (out, requests) = channel(queued);
    let messages = stream(connection.clone(), requests).await?;
    Ok(Open { out: Out::Requests(out), messages: Some(messages), _channel: Some(connection), _acceptor: None })
}

async fn follow(called: Called, peers: &[Vec<u8>], queued: usize) -> Result<Open> {
    let (opened, mut streams) = unbounded_channel();
    let handler = |greeted| Handler { requests: None, opened, greeted, queued, next: Arc::default() };
    let acceptor = called.connect(peers, handler).await?;
    let opened = streams.recv().await.ok_or_else(|| Error::failed("the leader opened no stream"))?;
    let (out, messages) = (Out::Responses(opened.answers), Some(opened.messages));
    Ok(Open { out, messages, _channel: None, _acceptor: acceptor })
}

/// Queues a message in the library; `false` after the time-out, or, within a task, at once; `None` if the stream
/// has ended.
fn send<T>(driver: &Driver, out: &Sender<T>, what: T, timeout_ns: u64) -> Option<bool> {
    let place = if is_in_task() {
        match out.try_reserve() {
            Err(TrySendError::Full(())) => return Some(false),
            place => place.ok()?,
        }
    } else {
        match driver.within(timeout_ns, out.reserve()) {
            None => return Some(false),
            Some(place) => place.ok()?,
        }
    };
    place.send(what);
    Some(true)
}

/// Passes messages to the host until the stream ends.
async fn receive(mut messages: Streaming<Payload>, callback: Callback) -> Error {
    loop {
        match messages.message().await {
            Ok(Some(payload)) => callback.call(&message(&payload.data)),
            Ok(None) => return ended(),
            Err(status) => return gone(&status),
        }
    }
}

#[cold]
fn ended() -> Error {
    Error::closed("the other end has ended the stream")
}

impl Link for StreamEnd {
    fn address(&mut self) -> Result<Vec<u8>> {
        self.opening.as_ref().ok_or_else(unconnected)?.address()
    }

    fn connect(&mut self, peers: &[Vec<u8>], timeout_ns: u64) -> Result<()> {
        let queued = self.settings.in_flight;
        let opened = match self.opening.take().ok_or_else(unconnected)? {
            Opening::Leader(caller) => {
                self.driver.finish(timeout_ns, "a stream to the follower", lead(caller, peers, queued))
            }
            Opening::Follower(called) => {
                self.driver.finish(timeout_ns, "a stream from the leader", follow(called, peers, queued))
            }
        };
        let mut open = opened?;
        if let Some(callback) = self.callback
            && let Some(messages) = open.messages.take()
        {
            let failure = self.failure.clone();
            self.driver.spawn(async move { drop(failure.set(receive(messages, callback).await)) });
        }
        self.open = Some(open);
        Ok(())
    }

    fn loan(&mut self, length: usize, _in_reply_to: Option<&Message>) -> Result<Loan> {
        self.blocks.lend(length)
    }

    fn publish(&mut self, _loan: Loan, timeout_ns: u64) -> Result<bool> {
        let payload = Payload { data: Bytes::from_owner(self.blocks.give()?) };
        let failure = &self.failure;
        let closed = || failure.get().cloned().unwrap_or_else(|| Error::closed("the stream has ended"));
        let sent = match &self.open.as_ref().ok_or_else(unconnected)?.out {
            Out::Requests(out) => send(&self.driver, out, payload, timeout_ns),
            Out::Responses(out) => send(&self.driver, out, Ok(payload), timeout_ns),
        };
        let sent = sent.ok_or_else(closed)?;
        if self.callback.is_none() {
            self.driver.turn(std::future::ready(()));
        }
        Ok(sent)
    }

    fn discard(&mut self, _loan: Loan) {
        self.blocks.discard();
    }

    fn take(&mut self, timeout_ns: u64) -> Result<Option<Message>> {
        let Some(messages) = &mut self.open.as_mut().ok_or_else(unconnected)?.messages else {
            return Err(untakable());
        };
        match self.driver.wait(timeout_ns, |context| Pin::new(&mut *messages).poll_next(context)) {
            None => Ok(None),
            Some(None) => Err(ended()),
            Some(Some(payload)) => {
                self.held = payload.map_err(|status| gone(&status))?.data;
                Ok(Some(message(&self.held)))
            }
        }
    }

    fn release(&mut self, _message: Message) {
        self.held = Bytes::new();
    }
}

//! Variant `stream`: one call for all messages. Both ends are alike once it is open.

use crate::blocks::Blocks;
use crate::driver::Driver;
use crate::follower::{Called, Desk, Door};
use crate::leader::{Caller, gone, stream};
use crate::settings::Settings;
use crate::wire::{Payload, message};
use bytes::Bytes;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio::sync::mpsc::{Sender, channel, unbounded_channel};
use tokio_stream::Stream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};
use tripmeter_abi::{Error, Link, Loan, Message, Result};

/// What an end is before it is connected.
pub(crate) enum Opening {
    Leader(Caller),
    Follower(Called),
}

/// Where an end puts what it sends.
enum Out {
    Requests(Sender<Payload>),
    Responses(Sender<std::result::Result<Payload, Status>>),
}

/// What an end has once it is connected.
struct Open {
    out: Out,
    messages: Streaming<Payload>,
    /// The leader's; without it the connection would end.
    _channel: Option<Channel>,
    _door: Option<Door>,
}

/// One end of the stream.
pub(crate) struct StreamEnd {
    open: Option<Open>,
    held: Bytes,
    opening: Option<Opening>,
    settings: Settings,
    blocks: Blocks,
    driver: Driver,
}

impl StreamEnd {
    pub(crate) fn new(driver: Driver, opening: Opening, settings: Settings, most_bytes: usize) -> Self {
        let (blocks, opening) = (Blocks::new(most_bytes), Some(opening));
        Self { open: None, held: Bytes::new(), opening, settings, blocks, driver }
    }
}

async fn lead(caller: Caller, peer: &[u8], queued: usize) -> Result<Open> {
    let connection = caller.connect(peer).await?;
    let (out, requests) = channel(queued);
    let messages = stream(connection.clone(), requests).await?;
    Ok(Open { out: Out::Requests(out), messages, _channel: Some(connection), _door: None })
}

async fn follow(called: Called, peer: &[u8], queued: usize) -> Result<Open> {
    let (arrived, _) = unbounded_channel();
    let (opened, mut streams) = unbounded_channel();
    let desk = Desk { arrived, opened, greeted: Arc::new(Notify::new()), queued, next: Arc::default() };
    let door = called.connect(peer, desk).await?;
    let opened = streams.recv().await.ok_or_else(|| Error::failed("the leader opened no stream"))?;
    Ok(Open { out: Out::Responses(opened.answers), messages: opened.messages, _channel: None, _door: door })
}

#[cold]
fn unconnected() -> Error {
    Error::failed("nobody is connected, or somebody is already")
}

impl Link for StreamEnd {
    fn address(&mut self) -> Result<Vec<u8>> {
        match self.opening.as_ref().ok_or_else(unconnected)? {
            Opening::Leader(caller) => caller.address(),
            Opening::Follower(called) => called.address(),
        }
    }

    fn connect(&mut self, peers: &[Vec<u8>], timeout_ns: u64) -> Result<()> {
        let peer = peers.first().map_or(&[][..], Vec::as_slice);
        let queued = self.settings.in_flight;
        let opened = match self.opening.take().ok_or_else(unconnected)? {
            Opening::Leader(caller) => {
                self.driver.finish(timeout_ns, "a stream to the follower", lead(caller, peer, queued))
            }
            Opening::Follower(called) => {
                self.driver.finish(timeout_ns, "a stream from the leader", follow(called, peer, queued))
            }
        };
        self.open = Some(opened?);
        Ok(())
    }

    fn loan(&mut self, length: usize, _in_reply_to: Option<&Message>) -> Result<Loan> {
        self.blocks.lend(length)
    }

    fn publish(&mut self, _loan: Loan, timeout_ns: u64) -> Result<bool> {
        let payload = Payload { data: self.blocks.give()? };
        let closed = |_| Error::closed("the stream has ended");
        let sent = match &self.open.as_ref().ok_or_else(unconnected)?.out {
            Out::Requests(out) => self
                .driver
                .within(timeout_ns, out.reserve())
                .transpose()
                .map_err(closed)?
                .map(|place| place.send(payload)),
            Out::Responses(out) => self
                .driver
                .within(timeout_ns, out.reserve())
                .transpose()
                .map_err(closed)?
                .map(|place| place.send(Ok(payload))),
        };
        self.driver.turn(std::future::ready(()));
        Ok(sent.is_some())
    }

    fn discard(&mut self, _loan: Loan) {
        self.blocks.discard();
    }

    fn take(&mut self, timeout_ns: u64) -> Result<Option<Message>> {
        let messages = &mut self.open.as_mut().ok_or_else(unconnected)?.messages;
        match self.driver.wait(timeout_ns, |context| Pin::new(&mut *messages).poll_next(context)) {
            None => Ok(None),
            Some(None) => Err(Error::closed("the other end has ended the stream")),
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

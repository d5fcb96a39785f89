//! Variant `unary`: a call per message.

use crate::blocks::Blocks;
use crate::driver::Driver;
use crate::follower::{Arrived, Called, Desk, Door};
use crate::leader::{Caller, call};
use crate::order::Ordered;
use crate::settings::Settings;
use crate::wire::message;
use bytes::Bytes;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::{Notify, oneshot};
use tonic::transport::Channel;
use tripmeter_abi::{Error, Link, Loan, Message, NodeOptions, Pattern, Result};

/// What comes of a call; `None`: the follower has released the message without an answer.
type Answer = Result<Option<Bytes>>;
type Call = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// The leader: calls.
pub(crate) struct Client {
    // Dropped before the runtime.
    waiting: Vec<Call>,
    /// Answers that came while a call waited for its turn.
    early: VecDeque<Answer>,
    channel: Option<Channel>,
    held: Bytes,
    caller: Option<Caller>,
    settings: Settings,
    blocks: Blocks,
    is_one_way: bool,
    driver: Driver,
}

impl Client {
    pub(crate) fn new(driver: Driver, caller: Caller, options: &NodeOptions, settings: Settings) -> Self {
        Self {
            waiting: Vec::with_capacity(settings.in_flight),
            early: VecDeque::new(),
            channel: None,
            held: Bytes::new(),
            caller: Some(caller),
            settings,
            blocks: Blocks::new(options.max_payload_bytes as usize),
            is_one_way: matches!(options.pattern, Pattern::Channel | Pattern::Throughput),
            driver,
        }
    }
}

/// The first response that is there.
fn poll_waiting(waiting: &mut Vec<Call>, context: &mut Context<'_>) -> Poll<Answer> {
    for at in 0..waiting.len() {
        if let Poll::Ready(answer) = waiting[at].as_mut().poll(context) {
            drop(waiting.remove(at));
            return Poll::Ready(answer);
        }
    }
    Poll::Pending
}

#[cold]
fn unconnected() -> Error {
    Error::failed("nobody is connected, or somebody is already")
}

impl Link for Client {
    fn address(&mut self) -> Result<Vec<u8>> {
        self.caller.as_ref().ok_or_else(unconnected)?.address()
    }

    fn connect(&mut self, peers: &[Vec<u8>], timeout_ns: u64) -> Result<()> {
        let caller = self.caller.take().ok_or_else(unconnected)?;
        let peer = peers.first().map_or(&[][..], Vec::as_slice);
        self.channel = Some(self.driver.finish(timeout_ns, "a connection to the follower", caller.connect(peer))?);
        Ok(())
    }

    fn loan(&mut self, length: usize, _in_reply_to: Option<&Message>) -> Result<Loan> {
        self.blocks.lend(length)
    }

    fn publish(&mut self, _loan: Loan, timeout_ns: u64) -> Result<bool> {
        let data = self.blocks.give()?;
        let (waiting, early, most) = (&mut self.waiting, &mut self.early, self.settings.in_flight);
        if waiting.len() >= most {
            let room = self.driver.sleep(timeout_ns, |context| {
                early.push_back(ready!(poll_waiting(waiting, context)));
                Poll::Ready(())
            });
            if room.is_none() {
                return Ok(false);
            }
        }
        if self.is_one_way {
            early.drain(..).try_for_each(|answer| answer.map(drop))?;
        }
        let channel = self.channel.clone().ok_or_else(unconnected)?;
        let mut call: Call = Box::pin(call(channel, data));
        // Begun here, so that calls begin in order.
        match self.driver.turn(poll_fn(|context| Poll::Ready(call.as_mut().poll(context)))) {
            Poll::Ready(answer) => early.push_back(answer),
            Poll::Pending => waiting.push(call),
        }
        Ok(true)
    }

    fn discard(&mut self, _loan: Loan) {
        self.blocks.discard();
    }

    fn take(&mut self, timeout_ns: u64) -> Result<Option<Message>> {
        let waiting = &mut self.waiting;
        let answer = match self.early.pop_front() {
            None => self.driver.wait(timeout_ns, |context| poll_waiting(waiting, context)),
            early => early,
        };
        Ok(answer.transpose()?.flatten().map(|data| {
            self.held = data;
            message(&self.held)
        }))
    }

    fn release(&mut self, _message: Message) {
        self.held = Bytes::new();
    }
}

/// The follower: answers calls.
pub(crate) struct Service {
    arrived: Option<Ordered<Arrived>>,
    held: Option<(Bytes, Option<oneshot::Sender<Bytes>>)>,
    called: Option<Called>,
    door: Option<Door>,
    settings: Settings,
    blocks: Blocks,
    driver: Driver,
}

impl Service {
    pub(crate) fn new(driver: Driver, called: Called, settings: Settings, most_bytes: usize) -> Self {
        let blocks = Blocks::new(most_bytes);
        Self { arrived: None, held: None, called: Some(called), door: None, settings, blocks, driver }
    }
}

impl Link for Service {
    fn address(&mut self) -> Result<Vec<u8>> {
        self.called.as_ref().ok_or_else(unconnected)?.address()
    }

    fn connect(&mut self, peers: &[Vec<u8>], timeout_ns: u64) -> Result<()> {
        let called = self.called.take().ok_or_else(unconnected)?;
        let peer = peers.first().map_or(&[][..], Vec::as_slice);
        let (arrived, messages) = unbounded_channel();
        let (opened, _) = unbounded_channel();
        let desk = Desk {
            arrived,
            opened,
            greeted: Arc::new(Notify::new()),
            queued: self.settings.in_flight,
            next: Arc::default(),
        };
        self.door = self.driver.finish(timeout_ns, "a connection from the leader", called.connect(peer, desk))?;
        // The first call was the greeting.
        self.arrived = Some(Ordered::new(messages, 1));
        Ok(())
    }

    fn loan(&mut self, length: usize, _in_reply_to: Option<&Message>) -> Result<Loan> {
        self.blocks.lend(length)
    }

    fn publish(&mut self, _loan: Loan, _timeout_ns: u64) -> Result<bool> {
        let data = self.blocks.give()?;
        // The only message that can be answered is the one that the host holds.
        let answer = self.held.as_mut().and_then(|(_, answer)| answer.take());
        let answer = answer.ok_or_else(|| Error::failed("there is no call to answer"))?;
        let sent = self.driver.turn(async { answer.send(data) });
        sent.map(|()| true).map_err(|_| Error::closed("the leader has gone"))
    }

    fn discard(&mut self, _loan: Loan) {
        self.blocks.discard();
    }

    fn take(&mut self, timeout_ns: u64) -> Result<Option<Message>> {
        let arrived = self.arrived.as_mut().ok_or_else(unconnected)?;
        let found = self.driver.wait(timeout_ns, |context| arrived.poll_next(context));
        let Some(found) = found else { return Ok(None) };
        let Arrived { data, answer } = found.ok_or_else(|| Error::closed("the leader has closed the connection"))?;
        let message = message(&data);
        self.held = Some((data, Some(answer)));
        Ok(Some(message))
    }

    fn release(&mut self, _message: Message) {
        // A call without an answer ends by this.
        self.held = None;
    }
}

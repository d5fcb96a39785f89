//! Variant `unary`: a call per message.

use crate::follower::{Called, Handler};
use crate::leader::{Caller, call};
use crate::settings::Settings;
use bytes::Bytes;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::{Notify, oneshot};
use tonic::transport::Channel;
use tripmeter_abi::blocks::Blocks;
use tripmeter_abi::{Callback, Error, Link, Loan, Message, NodeOptions, Pattern, Result};
use tripmeter_web::acceptor::Acceptor;
use tripmeter_web::call_task::{self, CallTask, Connection, poll_waiting};
use tripmeter_web::driver::Driver;
use tripmeter_web::host::{Host, RequestSink, message, untakable};
use tripmeter_web::order::{Arrived, Ordered};

type Call = call_task::Call<Bytes>;

pub(crate) struct Client {
    // Dropped before the runtime.
    waiting: Vec<Call>,
    /// Answers that arrived while a call waited for its turn.
    early: VecDeque<Result<Option<Bytes>>>,
    channel: Option<Channel>,
    held: Bytes,
    /// Under wait `callback` the host handles answers.
    callback: Option<Callback>,
    calls: Option<CallTask>,
    caller: Option<Caller>,
    settings: Settings,
    blocks: Blocks,
    is_one_way: bool,
    driver: Driver,
}

impl Client {
    pub(crate) fn new(
        driver: Driver,
        caller: Caller,
        options: &NodeOptions,
        settings: Settings,
        callback: Option<Callback>,
    ) -> Self {
        Self {
            waiting: Vec::with_capacity(settings.in_flight),
            early: VecDeque::new(),
            channel: None,
            held: Bytes::new(),
            callback,
            calls: None,
            caller: Some(caller),
            settings,
            blocks: Blocks::new(options.max_payload_bytes),
            is_one_way: matches!(options.pattern, Pattern::Publish | Pattern::Throughput),
            driver,
        }
    }
}

/// Connection of the task under wait `callback`.
struct Calls(Channel);

impl Connection for Calls {
    type Answer = Bytes;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<()>> {
        // Calls wait for their turn themselves.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, body: Bytes) -> Call {
        Box::pin(call(self.0.clone(), body))
    }
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
        let channel = self.driver.finish(timeout_ns, "a connection to the follower", caller.connect(peer))?;
        match self.callback {
            Some(callback) => {
                let most = self.settings.in_flight;
                self.calls = Some(CallTask::start(&self.driver, Calls(channel), most, callback));
            }
            None => self.channel = Some(channel),
        }
        Ok(())
    }

    fn loan(&mut self, length: usize, _in_reply_to: Option<&Message>) -> Result<Loan> {
        self.blocks.lend(length)
    }

    fn publish(&mut self, _loan: Loan, timeout_ns: u64) -> Result<bool> {
        let data = Bytes::from_owner(self.blocks.give()?);
        if let Some(calls) = &self.calls {
            return calls.send(&self.driver, data, timeout_ns);
        }
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
        // Started here, so that calls begin in order.
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
        if self.callback.is_some() {
            return Err(untakable());
        }
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

/// Number of the first call with a message; the greeting was before it.
const FIRST: u64 = 1;

pub(crate) struct Service {
    arrived: Option<Ordered<Arrived<Bytes>>>,
    /// Receives messages at once, under wait `callback`.
    host: Option<Arc<Host<Bytes>>>,
    held: Option<(Bytes, Option<oneshot::Sender<Bytes>>)>,
    called: Option<Called>,
    acceptor: Option<Acceptor>,
    settings: Settings,
    blocks: Blocks,
    driver: Driver,
}

impl Service {
    pub(crate) fn new(
        driver: Driver,
        called: Called,
        settings: Settings,
        most_bytes: u64,
        callback: Option<Callback>,
    ) -> Self {
        let blocks = Blocks::new(most_bytes);
        let host = callback.map(|callback| Arc::new(Host::new(callback, FIRST)));
        Self { arrived: None, host, held: None, called: Some(called), acceptor: None, settings, blocks, driver }
    }
}

impl Link for Service {
    fn address(&mut self) -> Result<Vec<u8>> {
        self.called.as_ref().ok_or_else(unconnected)?.address()
    }

    fn connect(&mut self, peers: &[Vec<u8>], timeout_ns: u64) -> Result<()> {
        let called = self.called.take().ok_or_else(unconnected)?;
        let peer = peers.first().map_or(&[][..], Vec::as_slice);
        let requests = match &self.host {
            Some(host) => RequestSink::Host(host.clone()),
            None => {
                let (queue, arrived) = unbounded_channel();
                self.arrived = Some(Ordered::new(arrived, FIRST));
                RequestSink::Queue(queue)
            }
        };
        let (opened, _) = unbounded_channel();
        let handler = Handler {
            requests: Some(requests),
            opened,
            greeted: Arc::new(Notify::new()),
            queued: self.settings.in_flight,
            next: Arc::default(),
        };
        self.acceptor =
            self.driver.finish(timeout_ns, "a connection from the leader", called.connect(peer, handler))?;
        Ok(())
    }

    fn loan(&mut self, length: usize, _in_reply_to: Option<&Message>) -> Result<Loan> {
        self.blocks.lend(length)
    }

    fn publish(&mut self, _loan: Loan, _timeout_ns: u64) -> Result<bool> {
        let data = Bytes::from_owner(self.blocks.give()?);
        if let Some(host) = &self.host {
            return host.answer(data).map(|()| true);
        }
        // Only the message that the host holds can be answered.
        let answer = self.held.as_mut().and_then(|(_, answer)| answer.take());
        let answer = answer.ok_or_else(|| Error::failed("there is no call to answer"))?;
        let sent = self.driver.turn(async { answer.send(data) });
        sent.map(|()| true).map_err(|_| Error::closed("the leader has gone"))
    }

    fn discard(&mut self, _loan: Loan) {
        self.blocks.discard();
    }

    fn take(&mut self, timeout_ns: u64) -> Result<Option<Message>> {
        if self.host.is_some() {
            return Err(untakable());
        }
        let arrived = self.arrived.as_mut().ok_or_else(unconnected)?;
        let found = self.driver.wait(timeout_ns, |context| arrived.poll_next(context));
        let Some(found) = found else { return Ok(None) };
        let Arrived { body: data, answer } =
            found.ok_or_else(|| Error::closed("the leader has closed the connection"))?;
        let message = message(&data);
        self.held = Some((data, Some(answer)));
        Ok(Some(message))
    }

    fn release(&mut self, _message: Message) {
        // Ends a call without an answer.
        self.held = None;
    }
}

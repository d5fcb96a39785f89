//! The leader's end: sends requests and waits for their responses.

use crate::buffer_pool::{Arrival, BufferPool};
use crate::connection::{Answer, Requests};
use crate::settings::Settings;
use bytes::Bytes;
use hyper::Method;
use std::collections::VecDeque;
use std::task::{Context, Poll, ready};
use tokio::net::TcpSocket;
use tokio_rustls::TlsConnector;
use tripmeter_abi::blocks::Blocks;
use tripmeter_abi::{Callback, Error, Link, Loan, Message, NodeOptions, Pattern, Result, os};
use tripmeter_web::call_task::{CallTask, Connection, poll_waiting};
use tripmeter_web::driver::Driver;
use tripmeter_web::host::{Body, untakable};
use tripmeter_web::{own, to_peer};

pub(crate) struct Client {
    // Dropped before the runtime.
    waiting: Vec<Answer>,
    /// Answers that arrived while a request waited for its turn.
    early: VecDeque<Result<Option<Arrival>>>,
    requests: Option<Requests>,
    held: Option<Arrival>,
    /// Under wait `callback` the host handles answers, and the task owns `requests`.
    callback: Option<Callback>,
    calls: Option<CallTask>,
    socket: Option<TcpSocket>,
    tls: Option<TlsConnector>,
    settings: Settings,
    blocks: Blocks,
    buffers: BufferPool,
    is_one_way: bool,
    driver: Driver,
}

impl Client {
    /// Binds a free port, which the follower learns by the control channel.
    pub(crate) fn open(
        driver: Driver,
        options: &NodeOptions,
        settings: Settings,
        tls: Option<TlsConnector>,
        callback: Option<Callback>,
    ) -> Result<Self> {
        let at = own(options);
        let socket = if at.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
        let socket = socket.map_err(|error| Error::os("making a TCP socket", error))?;
        socket.bind(at).map_err(|error| Error::os(&format!("binding a TCP socket to {at}"), error))?;
        let most_bytes = options.max_payload_bytes as usize;
        Ok(Self {
            waiting: Vec::with_capacity(settings.in_flight),
            early: VecDeque::new(),
            requests: None,
            held: None,
            callback,
            calls: None,
            socket: Some(socket),
            tls,
            settings,
            blocks: Blocks::new(options.max_payload_bytes),
            buffers: BufferPool::new(most_bytes),
            is_one_way: matches!(options.pattern, Pattern::Publish | Pattern::Throughput),
            driver,
        })
    }

    /// Waits until another request may be sent; `false` after the time-out.
    fn make_room(&mut self, timeout_ns: u64) -> Result<bool> {
        let (waiting, early, most) = (&mut self.waiting, &mut self.early, self.settings.in_flight);
        let requests = self.requests.as_mut().ok_or_else(unconnected)?;
        if waiting.len() < most && requests.is_ready() {
            return Ok(true);
        }
        let room = self.driver.sleep(timeout_ns, |context| {
            while waiting.len() >= most {
                early.push_back(ready!(poll_waiting(waiting, context)));
            }
            requests.poll_ready(context)
        });
        room.transpose().map(|room| room.is_some())
    }
}

/// Connection of the task under wait `callback`.
struct Posts {
    requests: Requests,
    buffers: BufferPool,
}

impl Connection for Posts {
    type Answer = Arrival;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.requests.poll_ready(context)
    }

    fn call(&mut self, body: Bytes) -> Answer {
        self.requests.send(Method::POST, body, self.buffers.clone())
    }
}

#[cold]
fn unconnected() -> Error {
    Error::failed("nobody is connected")
}

impl Link for Client {
    fn address(&mut self) -> Result<Vec<u8>> {
        let socket = self.socket.as_ref().ok_or_else(unconnected)?;
        let address = socket.local_addr().map_err(|error| Error::os("asking for a socket's address", error))?;
        Ok(to_peer(address))
    }

    fn connect(&mut self, peers: &[Vec<u8>], timeout_ns: u64) -> Result<()> {
        let to = os::of_peer(peers.first().map_or(&[], Vec::as_slice))?;
        let socket = self.socket.take().ok_or_else(unconnected)?;
        let (tls, settings, buffers) = (self.tls.take(), self.settings, self.buffers.clone());
        let requests = self.driver.finish(timeout_ns, "a connection to the follower", async move {
            let stream = socket.connect(to).await;
            let stream = stream.map_err(|error| Error::os(&format!("connecting to the follower at {to}"), error))?;
            let mut requests = Requests::over(stream, tls, &settings).await?;
            // Only the answer shows that the follower accepted this end's certificate.
            let greeted = requests.send(Method::GET, Bytes::new(), buffers).await;
            greeted.map_err(|error| requests.refused(to, &error))?;
            Ok(requests)
        })?;
        match self.callback {
            Some(callback) => {
                let posts = Posts { requests, buffers: self.buffers.clone() };
                self.calls = Some(CallTask::start(&self.driver, posts, settings.in_flight, callback));
            }
            None => self.requests = Some(requests),
        }
        Ok(())
    }

    fn loan(&mut self, length: usize, _in_reply_to: Option<&Message>) -> Result<Loan> {
        self.blocks.lend(length)
    }

    fn publish(&mut self, _loan: Loan, timeout_ns: u64) -> Result<bool> {
        let body = Bytes::from_owner(self.blocks.give()?);
        if let Some(calls) = &self.calls {
            return calls.send(&self.driver, body, timeout_ns);
        }
        if !self.make_room(timeout_ns)? {
            return Ok(false);
        }
        if self.is_one_way {
            self.early.drain(..).try_for_each(|answer| answer.map(drop))?;
        }
        let requests = self.requests.as_mut().ok_or_else(unconnected)?;
        let buffers = self.buffers.clone();
        self.driver.turn(async { self.waiting.push(requests.send(Method::POST, body, buffers)) });
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
        match answer.transpose()?.flatten() {
            Some(arrival) => {
                let message = arrival.message()?;
                self.held = Some(arrival);
                Ok(Some(message))
            }
            None if self.waiting.is_empty() && self.requests.as_ref().is_none_or(Requests::is_closed) => {
                Err(Error::closed("the connection to the follower has ended"))
            }
            None => Ok(None),
        }
    }

    fn release(&mut self, _message: Message) {
        self.held = None;
    }
}

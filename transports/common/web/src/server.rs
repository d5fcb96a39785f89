//! The follower's end of a link with a call per message: passes requests to the host one by one, and sends its answers.

use crate::acceptor::Acceptor;
use crate::driver::Driver;
use crate::host::{Body, Host, RequestSink, untakable};
use crate::opening::{Called, Service, unconnected};
use crate::order::{Arrived, Ordered};
use crate::settings::WebSettings;
use bytes::Bytes;
use std::sync::Arc;
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::{Notify, oneshot};
use tripmeter_abi::blocks::Blocks;
use tripmeter_abi::{Callback, Error, Link, Loan, Message, Result};

/// Number of the first message; the greeting was before it.
const FIRST: u64 = 1;

/// Service that passes requests on, numbered from 0 in the order in which they begin.
pub trait CallService: Service {
    /// Type of requests.
    type Request: Body;

    /// Handler that puts requests into `requests`, and notifies `greeted` of the greeting.
    fn new(requests: RequestSink<Self::Request>, greeted: Arc<Notify>, settings: &WebSettings) -> Self;
}

pub(crate) struct Server<S: CallService> {
    arrived: Option<Ordered<Arrived<S::Request>>>,
    /// Receives requests at once, under wait `callback`.
    host: Option<Arc<Host<S::Request>>>,
    held: Option<(S::Request, Option<oneshot::Sender<Bytes>>)>,
    called: Option<Called>,
    acceptor: Option<Acceptor>,
    settings: WebSettings,
    blocks: Blocks,
    driver: Driver,
}

impl<S: CallService> Server<S> {
    pub(crate) fn new(driver: Driver, called: Called, settings: WebSettings, callback: Option<Callback>) -> Self {
        let blocks = Blocks::new(settings.max_payload_bytes);
        let host = callback.map(|callback| Arc::new(Host::new(callback, FIRST)));
        Self { arrived: None, host, held: None, called: Some(called), acceptor: None, settings, blocks, driver }
    }
}

impl<S: CallService> Link for Server<S> {
    fn address(&mut self) -> Result<Vec<u8>> {
        self.called.as_ref().ok_or_else(unconnected)?.address()
    }

    fn connect(&mut self, peers: &[Vec<u8>], timeout_ns: u64) -> Result<()> {
        let called = self.called.take().ok_or_else(unconnected)?;
        let requests = match &self.host {
            Some(host) => RequestSink::Host(host.clone()),
            None => {
                let (queue, arrived) = unbounded_channel();
                self.arrived = Some(Ordered::new(arrived, FIRST));
                RequestSink::Queue(queue)
            }
        };
        let handler = |greeted| S::new(requests, greeted, &self.settings);
        let work = called.connect(peers, handler);
        self.acceptor = self.driver.finish(timeout_ns, "a connection from the leader", work)?;
        Ok(())
    }

    fn loan(&mut self, length: usize, _in_reply_to: Option<&Message>) -> Result<Loan> {
        self.blocks.lend(length)
    }

    fn publish(&mut self, _loan: Loan, _timeout_ns: u64) -> Result<bool> {
        let body = Bytes::from_owner(self.blocks.give()?);
        if let Some(host) = &self.host {
            return host.answer(body).map(|()| true);
        }
        // Only the message that the host holds can be answered.
        let answer = self.held.as_mut().and_then(|(_, answer)| answer.take());
        let answer = answer.ok_or_else(|| Error::failed("there is no request to answer"))?;
        let sent = self.driver.turn(async { answer.send(body) });
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
        let Arrived { body, answer } = found.ok_or_else(|| Error::closed("the leader has closed the connection"))?;
        let message = body.message()?;
        self.held = Some((body, Some(answer)));
        Ok(Some(message))
    }

    fn release(&mut self, _message: Message) {
        // Confirms a request without an answer.
        self.held = None;
    }
}

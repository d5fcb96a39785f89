//! The follower's end: passes requests to the host one by one, and sends its answers.

use crate::buffer_pool::{Arrival, BufferPool};
use crate::connection::{Content, serve};
use crate::settings::Settings;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use std::cell::Cell;
use std::net::TcpListener as Listener;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::{Notify, oneshot};
use tokio_rustls::TlsAcceptor;
use tripmeter_abi::blocks::Blocks;
use tripmeter_abi::{Callback, Error, Link, Loan, Message, NodeOptions, Result, os};
use tripmeter_web::acceptor::{Acceptor, accept};
use tripmeter_web::driver::Driver;
use tripmeter_web::host::{Body, Host, RequestSink, untakable};
use tripmeter_web::order::{Arrived, Ordered};
use tripmeter_web::{own, to_peer};

type Brought = Result<Arrival>;

pub(crate) struct Server {
    listener: Option<Listener>,
    tls: Option<TlsAcceptor>,
    settings: Settings,
    arrived: Option<Ordered<Arrived<Brought>>>,
    /// Receives requests at once, under wait `callback`.
    host: Option<Arc<Host<Brought>>>,
    held: Option<(Arrival, Option<oneshot::Sender<Bytes>>)>,
    blocks: Blocks,
    buffers: BufferPool,
    /// With TLS, accepts further peers.
    acceptor: Option<Acceptor>,
    driver: Driver,
}

impl Server {
    pub(crate) fn open(
        driver: Driver,
        options: &NodeOptions,
        settings: Settings,
        tls: Option<TlsAcceptor>,
        callback: Option<Callback>,
    ) -> Result<Self> {
        let at = own(options);
        let listener = Listener::bind(at);
        let listener =
            listener.map_err(|error| Error::os(&format!("listening at a free port of {}", at.ip()), error))?;
        let most_bytes = options.max_payload_bytes as usize;
        Ok(Self {
            listener: Some(listener),
            tls,
            settings,
            arrived: None,
            host: callback.map(|callback| Arc::new(Host::new(callback, 0))),
            held: None,
            blocks: Blocks::new(options.max_payload_bytes),
            buffers: BufferPool::new(most_bytes),
            acceptor: None,
            driver,
        })
    }
}

struct Handler {
    requests: RequestSink<Brought>,
    buffers: BufferPool,
    greeted: Arc<Notify>,
    next: Cell<u64>,
}

impl Handler {
    /// Answers a request. Messages are numbered before anything is awaited, so that numbers follow their order.
    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Response<Content>> + Send + use<> {
        let (requests, buffers, greeted) = (self.requests.clone(), self.buffers.clone(), self.greeted.clone());
        let number = self.next.get();
        let is_greeting = request.method() == Method::GET;
        self.next.set(number + u64::from(!is_greeting));
        async move {
            if is_greeting {
                greeted.notify_one();
                return empty();
            }
            let (answer, answered) = oneshot::channel();
            let body = buffers.gather(request.into_body()).await;
            requests.put(number, Arrived { body, answer });
            answered.await.map_or_else(|_| empty(), |body| Response::new(Full::new(body)))
        }
    }
}

fn empty() -> Response<Content> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

impl Link for Server {
    fn address(&mut self) -> Result<Vec<u8>> {
        let listener = self.listener.as_ref().ok_or_else(|| Error::failed("connected already"))?;
        let address = listener.local_addr().map_err(|error| Error::os("asking for a socket's address", error))?;
        Ok(to_peer(address))
    }

    fn connect(&mut self, peers: &[Vec<u8>], timeout_ns: u64) -> Result<()> {
        let leader = os::of_peer(peers.first().map_or(&[], Vec::as_slice))?;
        let listener = self.listener.take().ok_or_else(|| Error::failed("connected already"))?;
        let failed = |error| Error::os("preparing the listener", error);
        listener.set_nonblocking(true).map_err(failed)?;
        let after = listener.try_clone().map_err(failed)?;
        let requests = match &self.host {
            Some(host) => RequestSink::Host(host.clone()),
            None => {
                let (queue, arrived) = unbounded_channel();
                self.arrived = Some(Ordered::new(arrived, 0));
                RequestSink::Queue(queue)
            }
        };
        let greeted = Arc::new(Notify::new());
        let handler = Handler { requests, buffers: self.buffers.clone(), greeted: greeted.clone(), next: Cell::new(0) };
        self.driver.finish(timeout_ns, "a connection from the leader", async {
            let listener = TcpListener::from_std(listener).map_err(failed)?;
            let stream = accept(&listener, leader).await?;
            serve(stream, self.tls.as_ref(), &self.settings, move |request| handler.answer(request)).await?;
            greeted.notified().await;
            Ok(())
        })?;
        if self.settings.tls {
            let (tls, settings) = (self.tls.take(), self.settings);
            // Greets accepted peers.
            let greet = move |stream| {
                let tls = tls.clone();
                async move { drop(serve(stream, tls.as_ref(), &settings, |_| async { empty() }).await) }
            };
            self.acceptor = Some(Acceptor::start(after, "http-accept", greet)?);
        }
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
        let arrived = self.arrived.as_mut().ok_or_else(|| Error::failed("nobody is connected"))?;
        let found = self.driver.wait(timeout_ns, |context| arrived.poll_next(context));
        let Some(found) = found else { return Ok(None) };
        let request = found.ok_or_else(|| Error::closed("the leader has closed the connection"))?;
        let body = request.body?;
        let message = body.message()?;
        self.held = Some((body, Some(request.answer)));
        Ok(Some(message))
    }

    fn release(&mut self, _message: Message) {
        // Confirms a request without an answer.
        self.held = None;
    }
}

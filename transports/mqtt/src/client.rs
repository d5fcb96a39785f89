//! Client of the broker: rumqttc's event loop on its own runtime, driven by the thread that waits.

use crate::broker::Address;
use crate::credentials::USER;
use crate::settings::Settings;
use rumqttc::{
    AsyncClient, ConnectionError, Event, EventLoop, MqttOptions, Outgoing, Packet, Publish, StateError,
    SubscribeReasonCode, TlsConfiguration, Transport,
};
use rustls::ClientConfig;
use std::future::{Future, poll_fn};
use std::io::ErrorKind;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tokio::runtime::{self, Runtime};
use tokio::sync::oneshot;
use tokio_util::sync::ReusableBoxFuture;
use tripmeter_abi::os::Deadline;
use tripmeter_abi::{Error, Result};

/// Longest possible: only messages travel during a run.
const KEEP_ALIVE: Duration = Duration::from_secs(u16::MAX as u64);
/// Longest time for rumqttc to connect, or to finish a send.
const NETWORK_TIME_S: u64 = 30;
/// Longest time for a broker that we did not start to accept a client and its subscription.
const ACCEPTING_TIME: Duration = Duration::from_secs(10);
const PACKET_EXTRA_BYTES: usize = 1024;
/// Requests that may wait for the event loop; rumqttc's own default.
const MOST_REQUESTS: u16 = 10;

pub(crate) struct Identity {
    pub name: String,
    pub settings: Settings,
    pub at: Address,
    pub password: Option<String>,
    pub tls: Option<Arc<ClientConfig>>,
}

/// Meaning of an event of the loop.
pub(crate) enum Heard {
    Message(Publish),
    /// One of our messages was sent.
    Sent,
    /// One of our messages was finally acknowledged.
    Acknowledged,
    /// The broker answered a subscription; true if it was granted.
    Subscribed(bool),
    Other,
}

impl From<Event> for Heard {
    fn from(event: Event) -> Self {
        match event {
            Event::Incoming(Packet::Publish(publish)) => Heard::Message(publish),
            Event::Outgoing(Outgoing::Publish(_)) => Heard::Sent,
            Event::Incoming(Packet::PubAck(_) | Packet::PubComp(_)) => Heard::Acknowledged,
            Event::Incoming(Packet::SubAck(answer)) => {
                Heard::Subscribed(answer.return_codes.iter().all(|code| *code != SubscribeReasonCode::Failure))
            }
            _ => Heard::Other,
        }
    }
}

pub(crate) struct Client {
    runtime: Runtime,
    requests: AsyncClient,
    steps: Steps,
    identity: Box<Identity>,
    failure: Option<Error>,
}

impl Client {
    /// Connects, and subscribes to `topic`; returns once the broker has granted it, or fails after the deadline.
    pub(crate) fn connect(identity: Identity, topic: &str, deadline: Deadline) -> Result<Self> {
        let Identity { name, settings, at, password, tls } = &identity;
        let packet_bytes = settings.payload_bytes as usize + PACKET_EXTRA_BYTES;
        let mut options = MqttOptions::new(name, at.at.ip().to_string(), at.at.port());
        options.set_keep_alive(KEEP_ALIVE).set_clean_session(true).set_inflight(settings.in_flight);
        options.set_max_packet_size(packet_bytes, packet_bytes);
        if let Some(password) = password {
            options.set_credentials(USER, password);
        }
        if let Some(config) = tls {
            options.set_transport(Transport::tls_with_config(TlsConfiguration::Rustls(config.clone())));
        }
        let (requests, mut event_loop) = AsyncClient::new(options, MOST_REQUESTS.min(settings.in_flight).into());
        event_loop.network_options.set_tcp_nodelay(settings.is_undelayed);
        event_loop.network_options.set_connection_timeout(NETWORK_TIME_S);
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Error::os("making a runtime", error))?;
        let (steps, qos, is_running) = (Steps::new(event_loop), settings.qos, settings.is_running);
        let mut client = Self { runtime, requests, steps, identity: Box::new(identity), failure: None };
        let subscribed = client.requests.try_subscribe(topic, qos);
        subscribed.map_err(|error| client.lost(&error.to_string()))?;
        let left = deadline.left().unwrap_or_default();
        let time = if is_running { left.min(ACCEPTING_TIME) } else { left };
        let deadline = Deadline::after(time.as_nanos() as u64);
        loop {
            match client.next(deadline)? {
                Some(Heard::Subscribed(true)) => return Ok(client),
                Some(Heard::Subscribed(false)) => return Err(client.lost("it refused the subscription")),
                Some(_) => {}
                None => {
                    let why = format!("it did not answer within {} s; is it an MQTT broker?", time.as_secs());
                    return Err(Error::failed(client.lost(&why).to_string()));
                }
            }
        }
    }

    pub(crate) fn requests(&self) -> AsyncClient {
        self.requests.clone()
    }

    /// Next event, or `None` after the deadline. Fails with `Closed` if the connection is lost.
    pub(crate) fn next(&mut self, deadline: Deadline) -> Result<Option<Heard>> {
        self.event(async |steps| {
            let left = deadline.left().unwrap_or_default();
            tokio::time::timeout(left, steps.next()).await.ok()
        })
    }

    /// Next event, if there is one now. Fails as [`Client::next`].
    pub(crate) fn look(&mut self) -> Result<Option<Heard>> {
        self.event(async |steps| {
            if let Some(event) = steps.peek().await {
                return Some(event);
            }
            // Lets the runtime poll the socket.
            tokio::task::yield_now().await;
            steps.peek().await
        })
    }

    fn event(
        &mut self,
        wait: impl AsyncFnOnce(&mut Steps) -> Option<std::result::Result<Event, ConnectionError>>,
    ) -> Result<Option<Heard>> {
        // Polled again, the event loop would reconnect.
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        match self.runtime.block_on(wait(&mut self.steps)) {
            None => Ok(None),
            Some(Ok(event)) => Ok(Some(event.into())),
            Some(Err(error)) => {
                let error = self.lost(&explained(&error));
                self.failure = Some(error.clone());
                Err(error)
            }
        }
    }

    /// Most messages on the way from [`Client::requests`] to the kernel.
    pub(crate) fn most_requests(&self) -> usize {
        MOST_REQUESTS.min(self.identity.settings.in_flight).into()
    }

    /// Drives the loop, and passes its events on, until `stop`. Fails with `Closed` if the connection is lost.
    pub(crate) fn run(&mut self, mut handle: impl FnMut(Heard), stop: oneshot::Receiver<()>) -> Result<()> {
        let steps = &mut self.steps;
        let serve = async {
            loop {
                match steps.next().await {
                    Ok(event) => handle(event.into()),
                    Err(error) => break error,
                }
            }
        };
        let error = self.runtime.block_on(async {
            tokio::select! {
                _ = stop => None,
                error = serve => Some(error),
            }
        });
        error.map_or(Ok(()), |error| Err(self.lost(&error.to_string())))
    }

    fn lost(&self, why: &str) -> Error {
        let Identity { settings, at, .. } = &*self.identity;
        Error::closed(at.explain(settings.kind, why))
    }
}

/// Error text of the library for a failed connection, in plain words.
fn explained(error: &ConnectionError) -> String {
    let is_unreadable = match error {
        ConnectionError::MqttState(StateError::Deserialization(_)) => true,
        ConnectionError::Io(error) => error.kind() == ErrorKind::InvalidData,
        _ => false,
    };
    let text = error.to_string();
    // Data that was cut off cannot be parsed either.
    let is_cut = ["reset by peer", "closed", "Broken pipe"].iter().any(|word| text.contains(word));
    if is_unreadable && !is_cut { format!("its answer is not MQTT, but perhaps TLS ({text})") } else { text }
}

/// Event loop on the way to its next event. Its future is never dropped, as a message could be half sent.
struct Steps(ReusableBoxFuture<'static, Step>);

type Step = (Box<EventLoop>, std::result::Result<Event, ConnectionError>);

async fn step(mut event_loop: Box<EventLoop>) -> Step {
    let event = event_loop.poll().await;
    (event_loop, event)
}

impl Steps {
    fn new(event_loop: EventLoop) -> Self {
        Self(ReusableBoxFuture::new(step(Box::new(event_loop))))
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<std::result::Result<Event, ConnectionError>> {
        let (event_loop, event) = ready!(self.0.poll(context));
        self.0.set(step(event_loop));
        Poll::Ready(event)
    }

    async fn next(&mut self) -> std::result::Result<Event, ConnectionError> {
        poll_fn(|context| self.poll(context)).await
    }

    /// Next event, if there is one now.
    async fn peek(&mut self) -> Option<std::result::Result<Event, ConnectionError>> {
        poll_fn(|context| match self.poll(context) {
            Poll::Ready(event) => Poll::Ready(Some(event)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }
}

/// Output of a future that is ready at once.
pub(crate) fn at_once<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

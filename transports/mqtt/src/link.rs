//! A link: a connection to the broker, a topic to publish to and one to subscribe to.

use crate::broker::Address;
use crate::client::{Client, Heard, Identity, at_once};
use crate::credentials;
use crate::settings::Settings;
use bytes::Bytes;
use rumqttc::{AsyncClient, Publish, QoS};
use std::cell::Cell;
use std::collections::VecDeque;
use std::ptr::null_mut;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::{self, Runtime};
use tokio::sync::{Semaphore, TryAcquireError, oneshot};
use tripmeter_abi::blocks::Blocks;
use tripmeter_abi::os::Deadline;
use tripmeter_abi::{
    Callback, Error, Link, LinkOptions, Loan, Message, NodeOptions, Pattern, Result, Role, UnauthorizedPeer, Wait,
};

/// Link of either kind, chosen when it connects.
pub struct MqttLink {
    options: NodeOptions,
    settings: Settings,
    index: u32,
    callback: Option<Callback>,
    /// Address of the broker; the end that holds it knows it from the start.
    at: Option<Address>,
    blocks: Blocks,
    publisher: Publisher,
    way: Way,
}

enum Way {
    Unconnected,
    /// Driven by the thread that publishes and takes.
    Driven(Driven),
    /// Driven by a thread of its own.
    Threaded(Threaded),
}

struct Publisher {
    topic: String,
    qos: QoS,
}

impl Publisher {
    async fn publish(&self, requests: &AsyncClient, payload: Bytes) -> bool {
        requests.publish_bytes(self.topic.as_str(), self.qos, false, payload).await.is_ok()
    }
}

/// Topic of a link in one direction; several publishers share one.
fn topic(options: &NodeOptions, link: u32, direction: &str) -> String {
    format!("{}/{}/{direction}", options.run_id, options.topic_of(link))
}

impl MqttLink {
    /// `at` is the broker's address, at the end that holds it.
    pub(crate) fn new(options: NodeOptions, settings: Settings, link: &LinkOptions, at: Option<Address>) -> Self {
        let direction = if options.role == Role::Leader { "down" } else { "up" };
        let publisher = Publisher { topic: topic(&options, link.index, direction), qos: settings.qos };
        let blocks = Blocks::new(options.max_payload_bytes);
        let (index, callback) = (link.index, link.callback);
        Self { options, settings, index, callback, at, blocks, publisher, way: Way::Unconnected }
    }

    fn identity(&self, at: Address, told: Option<String>) -> Result<Identity> {
        let NodeOptions { run_id, role, follower_index, unauthorized_peer, .. } = &self.options;
        let who = match (unauthorized_peer, role) {
            // A different name: the broker would drop the true client for one of the same name.
            (Some(unauthorized_peer), _) => format!("{unauthorized_peer}"),
            (None, Role::Leader) => "leader".to_owned(),
            (None, Role::Follower) => format!("follower-{follower_index}"),
        };
        let is_encrypted = self.settings.is_secured && *unauthorized_peer != Some(UnauthorizedPeer::Plain);
        let folder = self.options.agreed_folder();
        let tls = is_encrypted.then(|| credentials::client(&folder, *unauthorized_peer)).transpose()?;
        let password = if self.settings.is_running { None } else { told.or_else(|| credentials::password(&folder)) };
        Ok(Identity { name: format!("{run_id}-{who}-{}", self.index), settings: self.settings, at, password, tls })
    }

    /// True if the host only publishes here, so that nobody else would read the broker's acknowledgements.
    fn only_publishes(&self) -> bool {
        let is_one_way = matches!(self.options.pattern, Pattern::Publish | Pattern::Throughput | Pattern::Log);
        is_one_way && self.options.role == Role::Leader
    }
}

impl Link for MqttLink {
    fn address(&mut self) -> Result<Vec<u8>> {
        let Some(at) = self.at else { return Ok(Vec::new()) };
        // Process numbers mean nothing on another host.
        let process = if self.options.local_address.is_some() { 0 } else { at.process };
        let mut told = Address { process, ..at }.to_bytes();
        // The leader does not see the follower's files on another host.
        let password = credentials::password(&self.options.agreed_folder());
        if let (Role::Follower, Some(password)) = (self.options.role, password) {
            told.extend(format!(" {password}").into_bytes());
        }
        Ok(told)
    }

    fn connect(&mut self, peers: &[Vec<u8>], timeout_ns: u64) -> Result<()> {
        let (at, password) = match self.at {
            Some(at) => (at, None),
            None => Address::from_bytes(peers.first().map_or(&[] as &[u8], Vec::as_slice))?,
        };
        let direction = if self.options.role == Role::Leader { "up" } else { "down" };
        let topic = topic(&self.options, self.index, direction);
        let client = Client::connect(self.identity(at, password)?, &topic, Deadline::after(timeout_ns))?;
        self.way = if self.callback.is_some() || self.only_publishes() {
            Way::Threaded(Threaded::start(client, self.callback)?)
        } else {
            Way::Driven(Driven::new(client, &self.settings, self.options.wait == Wait::Poll))
        };
        Ok(())
    }

    fn loan(&mut self, length: usize, _in_reply_to: Option<&Message>) -> Result<Loan> {
        self.blocks.lend(length)
    }

    fn publish(&mut self, _loan: Loan, timeout_ns: u64) -> Result<bool> {
        let payload = Bytes::from_owner(self.blocks.give()?);
        match &mut self.way {
            Way::Driven(driven) => driven.publish(&self.publisher, payload, timeout_ns),
            Way::Threaded(threaded) => threaded.publish(&self.publisher, payload, timeout_ns),
            Way::Unconnected => Err(unconnected()),
        }
    }

    fn discard(&mut self, _loan: Loan) {
        self.blocks.discard();
    }

    fn take(&mut self, timeout_ns: u64) -> Result<Option<Message>> {
        match &mut self.way {
            Way::Driven(driven) => driven.take(timeout_ns),
            Way::Threaded(_) => Err(Error::failed("messages arrive by callback, or not at all")),
            Way::Unconnected => Err(unconnected()),
        }
    }

    fn release(&mut self, _message: Message) {
        if let Way::Driven(driven) = &mut self.way {
            driven.held = None;
        }
    }
}

fn unconnected() -> Error {
    Error::failed("the link is not connected")
}

fn message(publish: &Publish) -> Message {
    Message { data: publish.payload.as_ptr(), length: publish.payload.len(), token: null_mut() }
}

/// Connection that makes progress while the host publishes or takes.
struct Driven {
    client: Client,
    requests: AsyncClient,
    polls: bool,
    /// Messages that the broker has not acknowledged, and their limit; not counted under QoS 0.
    unacknowledged: u16,
    most_unacknowledged: u16,
    counts: bool,
    is_sent: bool,
    arrived: VecDeque<Publish>,
    held: Option<Publish>,
}

impl Driven {
    fn new(client: Client, settings: &Settings, polls: bool) -> Self {
        Self {
            requests: client.requests(),
            client,
            polls,
            unacknowledged: 0,
            most_unacknowledged: settings.in_flight,
            counts: settings.qos != QoS::AtMostOnce,
            is_sent: false,
            arrived: VecDeque::with_capacity(16),
            held: None,
        }
    }

    fn hear(&mut self, heard: Heard) {
        match heard {
            Heard::Message(publish) => self.arrived.push_back(publish),
            Heard::Sent => {
                self.is_sent = true;
                self.unacknowledged += u16::from(self.counts);
            }
            Heard::Acknowledged => self.unacknowledged = self.unacknowledged.saturating_sub(1),
            Heard::Subscribed(_) | Heard::Other => {}
        }
    }

    /// Returns when the kernel has the whole message.
    fn publish(&mut self, publisher: &Publisher, payload: Bytes, timeout_ns: u64) -> Result<bool> {
        let deadline = Deadline::after(timeout_ns);
        while self.unacknowledged >= self.most_unacknowledged {
            match self.client.next(deadline)? {
                Some(heard) => self.hear(heard),
                None => return Ok(false),
            }
        }
        let length = payload.len();
        // The queue is empty: each request was waited for.
        if at_once(publisher.publish(&self.requests, payload)) != Some(true) {
            return Err(Error::failed("the client's event loop takes no message"));
        }
        self.is_sent = false;
        while !self.is_sent {
            match self.client.next(deadline)? {
                Some(heard) => self.hear(heard),
                None => {
                    let ms = timeout_ns / 1_000_000;
                    let text = format!("the broker has not taken a message of {length} bytes within {ms} ms");
                    return Err(Error::failed(text));
                }
            }
        }
        Ok(true)
    }

    fn take(&mut self, timeout_ns: u64) -> Result<Option<Message>> {
        if self.arrived.is_empty() {
            let deadline = if self.polls { None } else { Some(Deadline::after(timeout_ns)) };
            while self.arrived.is_empty() {
                let heard = match deadline {
                    Some(deadline) => self.client.next(deadline)?,
                    None => self.client.look()?,
                };
                match heard {
                    Some(heard) => self.hear(heard),
                    None => return Ok(None),
                }
            }
        }
        // The payload stays in place when this moves.
        self.held = self.arrived.pop_front();
        Ok(self.held.as_ref().map(message))
    }
}

thread_local! {
    /// True if this thread drives a connection, and must not wait for itself.
    static DRIVES: Cell<bool> = const { Cell::new(false) };
}

/// Connection with its own driving thread.
struct Threaded {
    requests: AsyncClient,
    /// A permit for each place in the queue. A wait for a permit can be cancelled with nothing sent; a wait for the
    /// queue cannot, as the message may be taken out at that moment.
    room: Arc<Semaphore>,
    /// Runs the wait for room in the queue.
    runtime: Runtime,
    failure: Arc<OnceLock<Error>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Threaded {
    fn start(mut client: Client, callback: Option<Callback>) -> Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(|error| Error::os("making a runtime", error))?;
        let (requests, failure) = (client.requests(), Arc::<OnceLock<Error>>::default());
        let room = Arc::new(Semaphore::new(client.most_requests()));
        let (stop, stopped) = oneshot::channel();
        let (noted, left) = (failure.clone(), room.clone());
        let drive = move || {
            DRIVES.set(true);
            let handle = |heard: Heard| match (heard, callback) {
                (Heard::Sent, _) => left.add_permits(1),
                (Heard::Message(publish), Some(callback)) => callback.call(&message(&publish)),
                _ => {}
            };
            if let Err(error) = client.run(handle, stopped) {
                // Set before the queue is closed, so that senders who find it closed find the reason.
                let _ = noted.set(error);
            }
            left.close();
        };
        let thread = std::thread::Builder::new().name("mqtt".to_owned()).spawn(drive);
        let thread = thread.map_err(|error| Error::os("starting the client's thread", error))?;
        Ok(Self { requests, room, runtime, failure, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns when the message is in the queue of the event loop.
    fn publish(&self, publisher: &Publisher, payload: Bytes, timeout_ns: u64) -> Result<bool> {
        let time = Duration::from_nanos(timeout_ns);
        let permit = match self.room.try_acquire() {
            Ok(permit) => Ok(permit),
            Err(TryAcquireError::NoPermits) if DRIVES.get() => return Ok(false),
            Err(_) => match self.runtime.block_on(async { tokio::time::timeout(time, self.room.acquire()).await }) {
                Ok(acquired) => acquired,
                Err(_) => return Ok(false),
            },
        };
        if let Ok(permit) = permit {
            permit.forget();
            if at_once(publisher.publish(&self.requests, payload)) == Some(true) {
                return Ok(true);
            }
        }
        Err(self.failure.get().cloned().unwrap_or_else(|| Error::closed("the client's thread has ended")))
    }
}

impl Drop for Threaded {
    fn drop(&mut self) {
        // Both fail only if the thread has ended already.
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

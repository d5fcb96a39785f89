//! A link: publisher and subscriber, over any memory and any way to receive.

use crate::memory::Memory;
use crate::session::{Meeting, failed};
use std::collections::BTreeSet;
use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tripmeter_abi::{Callback, Error, Link, Loan, Message, NodeOptions, Result, Role, Wait as Waiting};
use zenoh::Session;
use zenoh::Wait;
use zenoh::bytes::ZBytes;
use zenoh::handlers::{FifoChannel, FifoChannelHandler};
use zenoh::liveliness::LivelinessToken;
use zenoh::pubsub::{Publisher, Subscriber};
use zenoh::qos::CongestionControl;
use zenoh::sample::{Sample, SampleKind};

/// Options that a link needs to connect.
pub(crate) struct Answer {
    pub options: NodeOptions,
    /// Index of the topic or client.
    pub index: u32,
    pub express: bool,
}

pub(crate) trait Arrivals: Send {
    fn listen(&mut self, session: &Session, key: String) -> Result<()>;
    fn take(&mut self, timeout_ns: u64) -> Result<Option<Message>>;
    fn release(&mut self);
}

/// Payload in one piece: in zenoh's buffer if possible, else copied into `room`.
pub(crate) fn whole(payload: &ZBytes, room: impl FnOnce(&mut dyn FnMut(&mut Vec<u8>))) -> Message {
    let mut slices = payload.slices();
    let first = slices.next().unwrap_or_default();
    if first.len() == payload.len() {
        return Message { data: first.as_ptr(), length: first.len(), token: null_mut() };
    }
    let mut message = Message { data: first.as_ptr(), length: payload.len(), token: null_mut() };
    room(&mut |room| {
        room.clear();
        payload.slices().for_each(|slice| room.extend_from_slice(slice));
        message.data = room.as_ptr();
    });
    message
}

/// Passes messages to the host in zenoh's own thread.
pub(crate) struct Called {
    callback: Callback,
    most_bytes: usize,
    /// True if messages come from several peers, each with its own thread of zenoh's.
    is_shared: bool,
    subscriber: Option<Subscriber<()>>,
}

impl Called {
    pub(crate) fn new(callback: Callback, options: &NodeOptions) -> Self {
        let is_shared = options.role == Role::Leader && options.follower_count > 1;
        Self { callback, most_bytes: options.max_payload_bytes as usize, is_shared, subscriber: None }
    }
}

impl Arrivals for Called {
    fn listen(&mut self, session: &Session, key: String) -> Result<()> {
        let callback = self.callback;
        // Locked only for a message in pieces, and without contention, as zenoh delivers one message at a time per
        // peer.
        let room = Mutex::new(Vec::with_capacity(self.most_bytes));
        let turn = self.is_shared.then(|| Mutex::new(()));
        let deliver = move |sample: Sample| {
            let _turn = turn.as_ref().map(|turn| turn.lock().unwrap_or_else(PoisonError::into_inner));
            let message =
                whole(sample.payload(), |copy| copy(&mut room.lock().unwrap_or_else(PoisonError::into_inner)));
            callback.call(&message);
        };
        let subscriber = session.declare_subscriber(key).callback(deliver).wait();
        self.subscriber = Some(subscriber.map_err(failed("subscribing"))?);
        Ok(())
    }

    fn take(&mut self, _timeout_ns: u64) -> Result<Option<Message>> {
        Err(Error::failed("messages arrive by callback"))
    }

    fn release(&mut self) {}
}

/// Takes messages from zenoh's queue.
pub(crate) struct Queued {
    sleeps: bool,
    room: Vec<u8>,
    held: Option<Sample>,
    subscriber: Option<Subscriber<FifoChannelHandler<Sample>>>,
}

impl Queued {
    /// Most messages in the channel; zenoh's default.
    pub(crate) const CAPACITY: usize = 256;

    pub(crate) fn new(options: &NodeOptions) -> Self {
        let room = Vec::with_capacity(options.max_payload_bytes as usize);
        Self { sleeps: options.wait == Waiting::Block, room, held: None, subscriber: None }
    }
}

impl Arrivals for Queued {
    fn listen(&mut self, session: &Session, key: String) -> Result<()> {
        let subscriber = session.declare_subscriber(key).with(FifoChannel::new(Self::CAPACITY)).wait();
        self.subscriber = Some(subscriber.map_err(failed("subscribing"))?);
        Ok(())
    }

    fn take(&mut self, timeout_ns: u64) -> Result<Option<Message>> {
        let Some(channel) = &self.subscriber else { return Ok(None) };
        let sample =
            if self.sleeps { channel.recv_timeout(Duration::from_nanos(timeout_ns)) } else { channel.try_recv() };
        let Some(sample) = sample.map_err(|error| Error::closed(format!("zenoh: {error}")))? else { return Ok(None) };
        // The payload stays in place when the sample moves.
        let message = whole(sample.payload(), |copy| copy(&mut self.room));
        self.held = Some(sample);
        Ok(Some(message))
    }

    fn release(&mut self) {
        self.held = None;
    }
}

pub(crate) struct TypedLink<M, A> {
    meeting: Meeting,
    answer: Answer,
    memory: M,
    arrivals: A,
    publisher: Option<Publisher<'static>>,
    /// Keeps one of several followers announced as ready.
    ready: Option<LivelinessToken>,
}

impl<M: Memory, A: Arrivals> TypedLink<M, A> {
    pub(crate) fn new(meeting: Meeting, answer: Answer, memory: M, arrivals: A) -> Self {
        Self { meeting, answer, memory, arrivals, publisher: None, ready: None }
    }

    /// Waits until all of several followers are ready. Each declares a token once it has subscribed: zenoh does not
    /// tell if all subscribers match.
    fn gather(&mut self, session: &Session, begin: Instant, timeout: Duration) -> Result<()> {
        let NodeOptions { run_id, role, follower_count, follower_index, .. } = &self.answer.options;
        let key = |which: &str| format!("{run_id}/{}/ready/{which}", self.answer.index);
        if *role == Role::Follower {
            let token = session.liveliness().declare_token(key(&follower_index.to_string())).wait();
            self.ready = Some(token.map_err(failed("declaring a token"))?);
            return Ok(());
        }
        let room = FifoChannel::new(Queued::CAPACITY);
        let tokens = session.liveliness().declare_subscriber(key("*")).history(true).with(room).wait();
        let (tokens, mut ready) = (tokens.map_err(failed("listening for tokens"))?, BTreeSet::new());
        while ready.len() < *follower_count as usize {
            let left = timeout.saturating_sub(begin.elapsed());
            match tokens.recv_timeout(left).map_err(failed("listening for tokens"))? {
                Some(token) if token.kind() == SampleKind::Put => drop(ready.insert(token.key_expr().to_string())),
                Some(_) => {}
                None => {
                    let (count, ms) = (ready.len(), timeout.as_millis());
                    return Err(Error::failed(format!(
                        "zenoh: {count} of {follower_count} followers subscribed within {ms} ms"
                    )));
                }
            }
        }
        Ok(())
    }

    fn keys(&self) -> [String; 2] {
        let key = |direction| format!("{}/{}/{direction}", self.answer.options.run_id, self.answer.index);
        match self.answer.options.role {
            Role::Leader => [key("up"), key("down")],
            Role::Follower => [key("down"), key("up")],
        }
    }
}

impl<M: Memory, A: Arrivals> Link for TypedLink<M, A> {
    fn address(&mut self) -> Result<Vec<u8>> {
        self.meeting.address()
    }

    fn connect(&mut self, peers: &[Vec<u8>], timeout_ns: u64) -> Result<()> {
        let (begin, timeout) = (Instant::now(), Duration::from_nanos(timeout_ns));
        let session = self.meeting.session(peers.first().map_or(&[], Vec::as_slice))?;
        let [out, back] = self.keys();
        self.arrivals.listen(&session, back)?;
        if self.answer.options.follower_count > 1 {
            self.gather(&session, begin, timeout)?;
        }
        let publisher = session
            .declare_publisher(out)
            .congestion_control(CongestionControl::Block)
            .express(self.answer.express)
            .wait()
            .map_err(failed("declaring a publisher"))?;
        while !publisher.matching_status().wait().map_err(failed("asking for subscribers"))?.matching() {
            if begin.elapsed() >= timeout {
                return Err(Error::failed(format!("zenoh: no subscriber within {} ms", timeout.as_millis())));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.publisher = Some(publisher);
        self.meeting.note_segments()
    }

    fn loan(&mut self, length: usize, _in_reply_to: Option<&Message>) -> Result<Loan> {
        Ok(Loan { data: self.memory.lend(length)?, length, token: null_mut() })
    }

    fn publish(&mut self, _loan: Loan, _timeout_ns: u64) -> Result<bool> {
        let (Some(publisher), Some(payload)) = (&self.publisher, self.memory.give()) else {
            return Err(Error::failed("zenoh: nothing is on loan, or nobody is connected"));
        };
        publisher.put(payload).wait().map_err(failed("sending"))?;
        Ok(true)
    }

    fn discard(&mut self, _loan: Loan) {
        self.memory.discard();
    }

    fn take(&mut self, timeout_ns: u64) -> Result<Option<Message>> {
        self.arrivals.take(timeout_ns)
    }

    fn release(&mut self, _message: Message) {
        self.arrivals.release();
    }
}

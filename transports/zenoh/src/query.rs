//! Variant `query`: the leader's querier sends queries, and the follower's queryable replies to each.
#![expect(unsafe_code, reason = "memory that is lent or shared")]

use crate::link::{Answer, Queued, whole};
use crate::memory::{Heap, Memory};
use crate::session::{Meeting, failed};
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicPtr, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tripmeter_abi::{Callback, Error, Link, Loan, Message, Result, Role, Wait as Waiting};
use zenoh::Wait;
use zenoh::bytes::ZBytes;
use zenoh::handlers::{FifoChannel, FifoChannelHandler};
use zenoh::qos::CongestionControl;
use zenoh::query::{ConsolidationMode, Querier, Query, Queryable, Reply};
use zenoh::sample::Sample;

/// Time-out of a query. It is longer than the host's, so that the host gives up first and counts the message as lost.
const PATIENCE: Duration = Duration::from_secs(600);

pub(crate) fn open(meeting: Meeting, answer: Answer, callback: Option<Callback>) -> Box<dyn Link> {
    let memory = Heap::new(&answer.options);
    let room = Vec::with_capacity(answer.options.max_payload_bytes as usize);
    let sleeps = answer.options.wait == Waiting::Block;
    match answer.options.role {
        Role::Leader => {
            let (querier, replies, held) = (None, None, None);
            let room = Arc::new(Mutex::new(room));
            Box::new(Asking { meeting, answer, callback, memory, room, sleeps, querier, replies, held })
        }
        Role::Follower => {
            let (queries, held, current) = (None, None, Arc::default());
            Box::new(Answering { meeting, answer, callback, memory, room, sleeps, queries, held, current })
        }
    }
}

fn key(answer: &Answer) -> String {
    format!("{}/{}/query", answer.options.run_id, answer.index)
}

#[cold]
fn unconnected() -> Error {
    Error::failed("zenoh: nothing is on loan, or nobody is connected")
}

/// Next item of a channel: waits if `sleeps`, else polls.
fn next<T>(channel: &FifoChannelHandler<T>, sleeps: bool, timeout_ns: u64) -> zenoh::Result<Option<T>> {
    if sleeps { channel.recv_timeout(Duration::from_nanos(timeout_ns)) } else { channel.try_recv() }
}

/// Leader's end: one query after the other.
struct Asking {
    meeting: Meeting,
    answer: Answer,
    callback: Option<Callback>,
    memory: Heap,
    room: Arc<Mutex<Vec<u8>>>,
    sleeps: bool,
    querier: Option<Querier<'static>>,
    /// Replies to the latest query only.
    replies: Option<FifoChannelHandler<Reply>>,
    held: Option<Sample>,
}

fn in_room(sample: &Sample, room: &Mutex<Vec<u8>>) -> Message {
    whole(sample.payload(), |copy| copy(&mut room.lock().unwrap_or_else(PoisonError::into_inner)))
}

impl Link for Asking {
    fn address(&mut self) -> Result<Vec<u8>> {
        self.meeting.address()
    }

    fn connect(&mut self, peers: &[Vec<u8>], timeout_ns: u64) -> Result<()> {
        let (begin, timeout) = (Instant::now(), Duration::from_nanos(timeout_ns));
        let session = self.meeting.session(peers.first().map_or(&[], Vec::as_slice))?;
        let querier = session
            .declare_querier(key(&self.answer))
            // There is only one reply; with consolidation, zenoh would hold it back until no other can come.
            .consolidation(ConsolidationMode::None)
            .congestion_control(CongestionControl::Block)
            .express(self.answer.express)
            .timeout(PATIENCE)
            .wait()
            .map_err(failed("declaring a querier"))?;
        while !querier.matching_status().wait().map_err(failed("asking for queryables"))?.matching() {
            if begin.elapsed() >= timeout {
                return Err(Error::failed(format!("zenoh: no queryable within {} ms", timeout.as_millis())));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.querier = Some(querier);
        Ok(())
    }

    fn loan(&mut self, length: usize, _in_reply_to: Option<&Message>) -> Result<Loan> {
        Ok(Loan { data: self.memory.lend(length)?, length, token: null_mut() })
    }

    fn publish(&mut self, _loan: Loan, _timeout_ns: u64) -> Result<bool> {
        let (Some(querier), Some(payload)) = (&self.querier, self.memory.give()) else { return Err(unconnected()) };
        let query = querier.get().payload(payload);
        if let Some(callback) = self.callback {
            let room = self.room.clone();
            // A query that ends by an error has no reply: the host's time-out counts it.
            let deliver = move |reply: Reply| {
                if let Ok(sample) = reply.result() {
                    callback.call(&in_room(sample, &room));
                }
            };
            return query.callback(deliver).wait().map(|()| true).map_err(failed("asking"));
        }
        self.replies = Some(query.with(FifoChannel::new(1)).wait().map_err(failed("asking"))?);
        Ok(true)
    }

    fn discard(&mut self, _loan: Loan) {
        self.memory.discard();
    }

    fn take(&mut self, timeout_ns: u64) -> Result<Option<Message>> {
        let Some(replies) = &self.replies else {
            // Nothing can arrive between two queries.
            if self.sleeps {
                std::thread::sleep(Duration::from_nanos(timeout_ns));
            }
            return Ok(None);
        };
        let reply = match next(replies, self.sleeps, timeout_ns) {
            Ok(None) => return Ok(None),
            Ok(Some(reply)) => reply,
            // The query ended without a reply.
            Err(_) => {
                self.replies = None;
                return Ok(None);
            }
        };
        self.replies = None;
        let sample = reply.into_result().map_err(|error| {
            Error::failed(format!("the query failed: {}", error.payload().try_to_string().unwrap_or_default()))
        })?;
        // The payload stays in place when the sample moves.
        let message = in_room(&sample, &self.room);
        self.held = Some(sample);
        Ok(Some(message))
    }

    fn release(&mut self, _message: Message) {
        self.held = None;
    }
}

enum Queries {
    Queued(Queryable<FifoChannelHandler<Query>>),
    Called { _queryable: Queryable<()> },
}

/// The query that zenoh's thread is handling.
#[derive(Default)]
struct Current {
    query: AtomicPtr<Query>,
    /// Number of the query, from 1.
    number: AtomicUsize,
}

/// Follower's end: replies to the query that the host holds.
struct Answering {
    meeting: Meeting,
    answer: Answer,
    callback: Option<Callback>,
    memory: Heap,
    room: Vec<u8>,
    sleeps: bool,
    queries: Option<Queries>,
    held: Option<Query>,
    current: Arc<Current>,
}

fn reply(query: &Query, payload: ZBytes, express: bool) -> Result<()> {
    query.reply(query.key_expr(), payload).express(express).wait().map_err(failed("replying"))
}

fn payload(query: &Query, room: impl FnOnce(&mut dyn FnMut(&mut Vec<u8>)), number: usize) -> Message {
    let message = query.payload().map(|payload| whole(payload, room));
    let message = message.unwrap_or(Message { data: std::ptr::dangling(), length: 0, token: null_mut() });
    Message { token: without_provenance_mut(number), ..message }
}

impl Link for Answering {
    fn connect(&mut self, peers: &[Vec<u8>], _timeout_ns: u64) -> Result<()> {
        let session = self.meeting.session(peers.first().map_or(&[], Vec::as_slice))?;
        let queryable = session.declare_queryable(key(&self.answer));
        let declaring = "declaring a queryable";
        self.queries = Some(match self.callback {
            None => {
                let queued = queryable.with(FifoChannel::new(Queued::CAPACITY)).wait();
                Queries::Queued(queued.map_err(failed(declaring))?)
            }
            Some(callback) => {
                let (current, room) = (self.current.clone(), Mutex::new(std::mem::take(&mut self.room)));
                let deliver = move |query: Query| {
                    let number = current.number.fetch_add(1, Relaxed) + 1;
                    let copy = |copy: &mut dyn FnMut(&mut Vec<u8>)| {
                        copy(&mut room.lock().unwrap_or_else(PoisonError::into_inner));
                    };
                    let message = payload(&query, copy, number);
                    current.query.store((&raw const query).cast_mut(), Relaxed);
                    callback.call(&message);
                    current.query.store(null_mut(), Relaxed);
                };
                Queries::Called { _queryable: queryable.callback(deliver).wait().map_err(failed(declaring))? }
            }
        });
        Ok(())
    }

    fn loan(&mut self, length: usize, in_reply_to: Option<&Message>) -> Result<Loan> {
        let number = self.current.number.load(Relaxed);
        if in_reply_to.is_some_and(|request| request.token.addr() != number) {
            return Err(Error::failed("zenoh: the query to reply to has been released"));
        }
        Ok(Loan { data: self.memory.lend(length)?, length, token: null_mut() })
    }

    fn publish(&mut self, _loan: Loan, _timeout_ns: u64) -> Result<bool> {
        let payload = self.memory.give().ok_or_else(unconnected)?;
        // SAFETY: the pointer is of a query that lives in the callback, within which alone it is not null; the host
        // answers there, in the same thread.
        let current = unsafe { self.current.query.load(Relaxed).as_ref() };
        let query =
            current.or(self.held.as_ref()).ok_or_else(|| Error::failed("zenoh: there is no query to reply to"))?;
        reply(query, payload, self.answer.express).map(|()| true)
    }

    fn discard(&mut self, _loan: Loan) {
        self.memory.discard();
    }

    fn take(&mut self, timeout_ns: u64) -> Result<Option<Message>> {
        let Some(Queries::Queued(queryable)) = &self.queries else {
            return Err(Error::failed("queries arrive by callback, or nobody is connected"));
        };
        let query = next(queryable.handler(), self.sleeps, timeout_ns);
        let Some(query) = query.map_err(|error| Error::closed(format!("zenoh: {error}")))? else { return Ok(None) };
        let number = self.current.number.fetch_add(1, Relaxed) + 1;
        let message = payload(&query, |copy| copy(&mut self.room), number);
        self.held = Some(query);
        Ok(Some(message))
    }

    fn release(&mut self, _message: Message) {
        // Ends the query.
        self.held = None;
    }
}

//! zenoh, peer to peer: the leader listens, the follower connects, without discovery or routing.
//!
//! | Variant | A message travels |
//! |---|---|
//! | `tcp`, `udp`, `unix` | over one link of that kind |
//! | `shm` | in a chunk of the sender's shared memory, which the receiver maps; a TCP link carries its description |
//! | `query` | over a TCP link, as a query that is replied to |
//!
//! Each direction has a publisher and a subscriber; `query` has a querier and a queryable. A message arrives by
//! callback in zenoh's own thread, or in a channel that is polled or waited on.

mod link;
mod memory;
mod query;
mod segments;
mod session;

use link::{Answer, Arrivals, Called, Queued};
use memory::{Heap, Shared};
use session::Meeting;
use tripmeter_abi::{
    Description, Error, Limits, Link, LinkOptions, Names, Node, NodeOptions, Path, Pattern, Result, Setting, Status,
    System, Variant, Wait, export_transport, locked_version,
};

/// Most bytes of a message under zenoh's default `max_message_size`.
const MOST_BYTES: u64 = 1 << 30;

/// System `zenoh`.
#[derive(Default)]
pub struct Zenoh;

export_transport!(Zenoh);

impl System for Zenoh {
    type Node = ZenohNode;

    fn description(&self) -> Description {
        let variant = |name, summary, path| {
            let mut variant = Variant::new(name, summary, path);
            variant.patterns = vec![Pattern::Ping, Pattern::Publish, Pattern::Call, Pattern::Throughput];
            variant.waits = vec![Wait::Callback, Wait::Block, Wait::Poll];
            variant.own_threads = true;
            variant.fan_out = true;
            variant.publishers = true;
            variant
        };
        let mut udp = variant("udp", "a UDP link", Path::Udp);
        udp.lossy = true;
        udp.remote = true;
        let mut shared = variant("shm", "chunks of an explicit shared-memory provider", Path::SharedMemory);
        shared.zero_copy = true;
        // Its watchdog reclaims the chunk of a message in flight if its threads are delayed too long.
        shared.lossy = true;
        let mut query = variant("query", "a query over a TCP link, and the reply to it", Path::Tcp);
        query.patterns = vec![Pattern::Ping, Pattern::Call];
        query.fan_out = false;
        query.publishers = false;
        query.remote = true;
        let mut tcp = variant("tcp", "a TCP link", Path::Tcp);
        tcp.remote = true;
        Description {
            system: "zenoh".to_owned(),
            summary: "peer to peer: TCP, UDP, Unix sockets, shared memory".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            system_version: format!("zenoh {}", locked_version(include_str!("../Cargo.lock"), "zenoh")),
            variants: vec![tcp, udp, variant("unix", "a Unix stream socket", Path::UnixStream), shared, query],
            settings: vec![Setting::new(
                "express",
                "on",
                "on | off",
                "send every message at once; off lets zenoh wait for more to send together",
                Names::Nothing,
            )],
            daemon: None,
        }
    }

    fn probe(&self, options: &NodeOptions) -> Result<Limits> {
        is_express(options)?;
        let max_payload_bytes = match options.variant.as_str() {
            "tcp" | "unix" | "query" => MOST_BYTES,
            "udp" => session::udp_payload_bytes()?,
            "shm" => memory::largest_payload_bytes(options)?.min(MOST_BYTES),
            other => return Err(Error::new(Status::Invalid, format!("zenoh has no variant '{other}'"))),
        };
        Ok(Limits { max_payload_bytes, packet_bytes: 0, unauthorized_peers: 0 })
    }

    fn open(&self, options: &NodeOptions) -> Result<ZenohNode> {
        let (bytes, limit) = (options.max_payload_bytes, self.probe(options)?.max_payload_bytes);
        if bytes > limit {
            let message = format!("payload of {bytes} bytes, {limit} at most over zenoh/{}", options.variant);
            return Err(Error::new(Status::Limit, message));
        }
        Ok(ZenohNode { options: options.clone(), meeting: Meeting::new(options)? })
    }
}

fn is_express(options: &NodeOptions) -> Result<bool> {
    match options.setting("express") {
        "on" | "" => Ok(true),
        "off" => Ok(false),
        other => Err(Error::new(Status::Invalid, format!("express={other}: give on or off"))),
    }
}

/// One session of zenoh, for all links.
pub struct ZenohNode {
    options: NodeOptions,
    meeting: Meeting,
}

impl Node for ZenohNode {
    type Link = Box<dyn Link>;

    fn link(&mut self, options: &LinkOptions) -> Result<Box<dyn Link>> {
        let answer = Answer {
            options: self.options.clone(),
            index: self.options.topic_of(options.index),
            express: is_express(&self.options)?,
        };
        let meeting = self.meeting.clone();
        if self.options.variant == "query" {
            return Ok(query::open(meeting, answer, options.callback));
        }
        let is_shared = self.options.variant == "shm";
        Ok(match (options.callback, is_shared) {
            (Some(callback), false) => {
                open(meeting, answer, Heap::new(&self.options), Called::new(callback, &self.options))
            }
            (Some(callback), true) => {
                open(meeting, answer, Shared::new(&self.options)?, Called::new(callback, &self.options))
            }
            (None, false) => open(meeting, answer, Heap::new(&self.options), Queued::new(&self.options)),
            (None, true) => open(meeting, answer, Shared::new(&self.options)?, Queued::new(&self.options)),
        })
    }
}

impl Drop for ZenohNode {
    fn drop(&mut self) {
        if self.options.variant == "shm" {
            segments::Turn::wait().keep();
        }
    }
}

fn open<M: memory::Memory + 'static, A: Arrivals + 'static>(
    meeting: Meeting,
    answer: Answer,
    memory: M,
    arrivals: A,
) -> Box<dyn Link> {
    Box::new(link::TypedLink::new(meeting, answer, memory, arrivals))
}

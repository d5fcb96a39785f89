//! Transport `inmem`: reference implementation of the contract, and test double of the measuring loop.
//!
//! Leader and follower are threads of one process, connected by queues of preallocated buffers. Faults are injected
//! by message number, so that a test knows the exact numbers to expect. [`scripted()`] works without threads, on a
//! [`FakeClock`].

mod faults;
mod link;
mod log;
mod queue;
mod scripted;
mod stage;

pub use link::{InmemNode, QueueLink};
pub use log::LogLink;
pub use scripted::{FakeClock, Script, ScriptedLink, scripted};

use faults::FaultsAt;
use tripmeter_abi::{
    Description, EitherLink, Error, Limits, LinkOptions, Names, Node, NodeOptions, Path, Pattern, Result, Role,
    Setting, Status, System, Variant, Wait,
};

/// Messages in flight per direction.
const DEPTH: std::ops::RangeInclusive<u64> = 4..=1024;
/// 1 TiB, more than any machine has: memory runs out earlier, with an error.
const MAX_PAYLOAD_BYTES: u64 = 1 << 40;

#[derive(Clone, Copy, Debug, Default)]
pub struct Inmem;

impl System for Inmem {
    type Node = InmemNode;

    fn description(&self) -> Description {
        let mut queue =
            Variant::new("queue", "buffers passed between two threads, with faults on demand", Path::Memory);
        queue.patterns = vec![Pattern::Ping, Pattern::Publish, Pattern::Call, Pattern::Throughput];
        queue.waits = vec![Wait::Poll, Wait::Block, Wait::Callback];
        queue.zero_copy = true;
        queue.lossy = true;
        queue.same_process = true;
        queue.own_threads = true;
        queue.fan_out = true;
        queue.publishers = true;
        let mut log = Variant::new("log", "lines written to a file one by one, with faults on demand", Path::File);
        (log.patterns, log.waits, log.lossy) = (vec![Pattern::Log], vec![Wait::Block], true);
        let depth = "messages on their way per direction";
        let mut settings = vec![Setting::new("depth", "16", "messages, 4 to 1024", depth, Names::Nothing)];
        settings.extend(faults::settings());
        Description {
            system: "inmem".into(),
            summary: "reference and test double, inside one process".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            system_version: env!("CARGO_PKG_VERSION").into(),
            variants: vec![queue, log],
            settings,
            daemon: None,
        }
    }

    fn probe(&self, options: &NodeOptions) -> Result<Limits> {
        check(options)?;
        if options.max_payload_bytes > MAX_PAYLOAD_BYTES {
            let text = format!("a payload of {} bytes is over {MAX_PAYLOAD_BYTES} bytes", options.max_payload_bytes);
            return Err(Error::new(Status::Limit, text));
        }
        Ok(Limits { max_payload_bytes: MAX_PAYLOAD_BYTES, packet_bytes: 0, unauthorized_peers: 0 })
    }

    fn open(&self, options: &NodeOptions) -> Result<InmemNode> {
        let is_log = match options.variant.as_str() {
            "queue" => false,
            "log" => true,
            other => return Err(Error::new(Status::Invalid, format!("system 'inmem' has no variant '{other}'"))),
        };
        if is_log != (options.pattern == Pattern::Log) || (is_log && options.role != Role::Leader) {
            let text = format!("'inmem/{}' cannot carry pattern '{}'", options.variant, options.pattern);
            return Err(Error::new(Status::Invalid, text));
        }
        let (depth, faults) = check(options)?;
        Ok(InmemNode { options: options.clone(), depth, faults, event_counts: Vec::new() })
    }
}

fn check(options: &NodeOptions) -> Result<(usize, FaultsAt)> {
    let count = options.follower_count.max(options.publisher_count).max(1);
    let faults = FaultsAt::parse(|name| options.setting(name), count)?;
    if options.follower_count > 1 && faults.directions[0].damages() {
        let is_one_way = matches!(options.pattern, Pattern::Publish | Pattern::Throughput);
        let fix = if is_one_way { "one follower" } else { "one follower, or side=follower" };
        let text = format!(
            "several followers read the leader's messages in the same memory, which cannot be damaged for one of them; \
             take {fix}"
        );
        return Err(Error::new(Status::Invalid, text));
    }
    Ok((options.number("depth", DEPTH)? as usize, faults))
}

impl Node for InmemNode {
    type Link = InmemLink;

    fn link(&mut self, options: &LinkOptions) -> Result<InmemLink> {
        if self.options.pattern == Pattern::Log {
            return Ok(EitherLink::B(Box::new(LogLink::open(&self.options, self.faults.directions.clone())?)));
        }
        if self.event_counts.is_empty() || !self.options.has_publishers() {
            self.event_counts = link::event_counts(&self.options);
        }
        Ok(EitherLink::A(Box::new(QueueLink::open(self, options)?)))
    }
}

/// Link of variant `queue`, or `log`.
pub type InmemLink = EitherLink<Box<QueueLink>, Box<LogLink>>;

#[cfg(test)]
mod tests;

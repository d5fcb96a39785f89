//! Transport `inmem`: the reference implementation of the contract, and the test double of the measuring loop.
//!
//! Leader and follower are threads of one process, connected by queues of preallocated buffers. Faults are injected by
//! message number, so that a test knows exactly what the report must say. [`scripted()`] is the same without threads, on a
//! [`FakeClock`].

mod faults;
mod futex;
mod link;
mod queue;
mod scripted;
mod stage;

pub use link::InmemLink;
pub use scripted::{FakeClock, Script, ScriptedLink, scripted};

use faults::{Faults, FaultsAt};
use tripmeter_abi::{
    Description, Error, Limits, LinkOptions, Node, NodeOptions, Path, Pattern, Result, Setting, Status, System,
    Variant, Wait,
};

/// Messages on their way per direction.
const DEPTH: std::ops::RangeInclusive<u64> = 4..=1024;
/// Beyond any machine; memory runs out earlier, and is then reported as such.
const MAX_PAYLOAD_BYTES: u64 = 1 << 40;

/// The system `inmem`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inmem;

impl System for Inmem {
    type Node = InmemNode;

    fn description(&self) -> Description {
        let mut queue =
            Variant::new("queue", "buffers passed between two threads, with faults on demand", Path::Memory);
        queue.patterns = vec![Pattern::PingPong, Pattern::Channel, Pattern::Rpc, Pattern::Throughput];
        queue.waits = vec![Wait::Poll, Wait::Block, Wait::Callback];
        queue.zero_copy = true;
        queue.lossy = true;
        queue.same_process = true;
        queue.own_threads = true;
        queue.fan_out = true;
        let depth = "messages on their way per direction";
        let mut settings = vec![Setting::new("depth", "16", "messages, 4 to 1024", depth)];
        settings.extend(faults::settings());
        Description {
            system: "inmem".into(),
            summary: "reference and test double, inside one process".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            system_version: env!("CARGO_PKG_VERSION").into(),
            variants: vec![queue],
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
        Ok(Limits { max_payload_bytes: MAX_PAYLOAD_BYTES, packet_bytes: 0, intruders: 0 })
    }

    fn open(&self, options: &NodeOptions) -> Result<InmemNode> {
        if options.variant != "queue" {
            return Err(Error::new(Status::Invalid, format!("system 'inmem' has no variant '{}'", options.variant)));
        }
        let (depth, faults) = check(options)?;
        Ok(InmemNode { options: options.clone(), depth, faults })
    }
}

fn check(options: &NodeOptions) -> Result<(usize, FaultsAt)> {
    let faults = FaultsAt {
        directions: Faults::parse(|name| options.setting(name))?,
        only: Faults::only(options.setting("at"))?,
    };
    if options.follower_count > 1 && faults.directions[0].damages() {
        let text = "several followers read the leader's messages in the same memory, which cannot be damaged for one of \
                    them; take side=follower";
        return Err(Error::new(Status::Invalid, text));
    }
    Ok((options.number("depth", DEPTH)? as usize, faults))
}

/// One end, a thread or more of the process.
pub struct InmemNode {
    options: NodeOptions,
    depth: usize,
    faults: FaultsAt,
}

impl Node for InmemNode {
    type Link = InmemLink;

    fn link(&mut self, options: &LinkOptions) -> Result<InmemLink> {
        InmemLink::open(&self.options, options.index, options.callback, self.depth, self.faults.clone())
    }
}

#[cfg(test)]
mod tests;

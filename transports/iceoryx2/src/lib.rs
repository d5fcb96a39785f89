//! iceoryx2: messages loaned from shared memory, passed by reference.
//!
//! | Variant | A message is |
//! |---|---|
//! | `publish-subscribe` | a sample of one of two services, one per direction |
//! | `request-response` | a request of the leader, or the follower's response to the latest one |
//!
//! Both wait by polling, or by an event service per direction, with a notification after every message.

mod publish_subscribe;
mod request_response;
mod session;
mod wake;

use iceoryx2::prelude::{LogLevel, set_log_level_from_env_or};
use iceoryx2_bb_elementary::package_version::PackageVersion;
use publish_subscribe::PublishSubscribe;
use request_response::{Client, Server};
use session::{Session, largest_payload_bytes};
use tripmeter_abi::{
    Description, Error, Limits, Link, LinkOptions, Node, NodeOptions, Path, Pattern, Result, Role, Status, System,
    Variant, Wait, export_transport,
};
use wake::{Events, Spin};

const PUBLISH_SUBSCRIBE: &str = "publish-subscribe";
const REQUEST_RESPONSE: &str = "request-response";

/// System `iceoryx2`.
#[derive(Default)]
pub struct Iceoryx2;

export_transport!(Iceoryx2);

impl System for Iceoryx2 {
    type Node = Iceoryx2Node;

    fn description(&self) -> Description {
        let zero_copy = |name, summary, patterns| {
            let mut variant = Variant::new(name, summary, Path::SharedMemory);
            variant.zero_copy = true;
            variant.patterns = patterns;
            variant
        };
        let one_way_too = vec![Pattern::Ping, Pattern::Publish, Pattern::Throughput];
        Description {
            system: "iceoryx2".to_owned(),
            summary: "loaned messages through shared memory, without a daemon".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            system_version: format!("iceoryx2 {}", PackageVersion::get_str()),
            variants: vec![
                Variant {
                    fan_out: true,
                    publishers: true,
                    ..zero_copy(PUBLISH_SUBSCRIBE, "a publisher and a subscriber in each direction", one_way_too)
                },
                zero_copy(REQUEST_RESPONSE, "a client and a server", vec![Pattern::Ping, Pattern::Call]),
            ],
            settings: Vec::new(),
            daemon: None,
        }
    }

    fn probe(&self, options: &NodeOptions) -> Result<Limits> {
        check(options)?;
        Ok(Limits { max_payload_bytes: largest_payload_bytes(options)?, packet_bytes: 0, unauthorized_peers: 0 })
    }

    fn open(&self, options: &NodeOptions) -> Result<Iceoryx2Node> {
        check(options)?;
        let (bytes, limit) = (options.max_payload_bytes, largest_payload_bytes(options)?);
        if bytes > limit {
            let message = format!("payload of {bytes} bytes, {limit} at most: 1 GiB, or what /dev/shm has free");
            return Err(Error::new(Status::Limit, message));
        }
        // Failures are reported as errors of the call; iceoryx2's own log is enabled by `IOX2_LOG_LEVEL`.
        set_log_level_from_env_or(LogLevel::Fatal);
        Ok(Iceoryx2Node { options: options.clone() })
    }
}

fn check(options: &NodeOptions) -> Result<()> {
    if ![PUBLISH_SUBSCRIBE, REQUEST_RESPONSE].contains(&options.variant.as_str()) {
        return Err(Error::new(Status::Invalid, format!("iceoryx2 has no variant '{}'", options.variant)));
    }
    if options.variant == REQUEST_RESPONSE && options.follower_count > 1 {
        let message =
            format!("{} followers: a request goes to 1 server; use {PUBLISH_SUBSCRIBE}", options.follower_count);
        return Err(Error::new(Status::Limit, message));
    }
    if options.wait == Wait::Callback {
        return Err(Error::new(Status::Invalid, "iceoryx2 cannot wait by callback; use poll or block"));
    }
    Ok(())
}

/// Opens links, each with its own iceoryx2 node, so that each can be used from its own thread.
pub struct Iceoryx2Node {
    options: NodeOptions,
}

impl Node for Iceoryx2Node {
    type Link = Box<dyn Link>;

    fn link(&mut self, options: &LinkOptions) -> Result<Box<dyn Link>> {
        let session = Session::open(&self.options, options.index)?;
        Ok(match (self.options.wait, self.options.variant.as_str(), self.options.role) {
            (Wait::Poll, PUBLISH_SUBSCRIBE, _) => Box::new(PublishSubscribe::open(session, Spin::open)?),
            (_, PUBLISH_SUBSCRIBE, _) => Box::new(PublishSubscribe::open(session, Events::open)?),
            (Wait::Poll, _, Role::Leader) => Box::new(Client::open(session, Spin::open)?),
            (_, _, Role::Leader) => Box::new(Client::open(session, Events::open)?),
            (Wait::Poll, _, Role::Follower) => Box::new(Server::open(session, Spin::open)?),
            (_, _, Role::Follower) => Box::new(Server::open(session, Events::open)?),
        })
    }
}

//! gRPC over TCP, on one host or between two, by tonic: the leader is the client, the follower the service.
//!
//! | Variant | A message is |
//! |---|---|
//! | `unary` | the request of a call, its answer the response; without an answer the response is empty |
//! | `stream` | a message of one bidirectional stream that lasts as long as the run |
//!
//! Both ends run tonic in the calling thread, within `publish` and `take`. The leader of a one-way pattern has a
//! thread of tokio's instead: messages in flight progress when the host no longer calls. Under wait `callback` each
//! link has a runtime with its own thread, and the host handles a message there, within the task that received it.

mod follower;
mod leader;
mod stream;
mod wire;

use follower::Handler;
use leader::Calls;
use stream::StreamEnd;
use tripmeter_abi::{Description, Limits, NodeOptions, Result, System, export_transport, locked_version};
use tripmeter_web::node::{MakeLink, WebNode, calling};
use tripmeter_web::settings::{WebSettings, settings, variant};

const UNARY: &str = "unary";
const STREAM: &str = "stream";

/// System `grpc`.
#[derive(Default)]
pub struct Grpc;

export_transport!(Grpc);

impl Grpc {
    fn settings(&self, options: &NodeOptions) -> Result<WebSettings> {
        WebSettings::read(&self.description(), options, true)
    }
}

impl System for Grpc {
    type Node = WebNode;

    fn description(&self) -> Description {
        Description {
            system: "grpc".to_owned(),
            summary: "calls or a stream over TCP, with and without TLS".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            system_version: format!("tonic {}", locked_version(include_str!("../Cargo.lock"), "tonic")),
            variants: vec![
                variant(UNARY, "a unary call per message"),
                variant(STREAM, "one bidirectional stream for all messages"),
            ],
            settings: settings(
                "HTTP/2",
                "unary: calls without a response before the leader waits; stream: messages queued; default: 16",
            ),
            daemon: None,
        }
    }

    fn probe(&self, options: &NodeOptions) -> Result<Limits> {
        Ok(self.settings(options)?.limits())
    }

    fn open(&self, options: &NodeOptions) -> Result<WebNode> {
        let is_stream = options.variant == STREAM;
        let make_link: MakeLink = if is_stream { StreamEnd::link } else { calling::<Calls, Handler> };
        WebNode::open(options, self.settings(options)?, make_link)
    }
}

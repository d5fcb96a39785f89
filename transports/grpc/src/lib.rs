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
mod settings;
mod stream;
mod unary;
mod wire;

use follower::Called;
use leader::Caller;
use settings::{STREAM, Settings, UNARY};
use std::sync::Arc;
use stream::{Opening, StreamEnd};
use tokio::runtime::Runtime;
use tripmeter_abi::os;
use tripmeter_abi::{
    Description, Limits, Link, LinkOptions, Names, Node, NodeOptions, Path, Pattern, Result, Role, Setting, System,
    UnauthorizedPeer, Variant, Wait, export_transport, locked_version, raw,
};
use tripmeter_web::driver::{self, Driver};
use tripmeter_web::tls;
use unary::{Client, Service};

/// Most bytes of a message: gRPC counts them with 32 bits, the host has this limit.
const MOST_BYTES: u64 = 1 << 30;

/// System `grpc`.
#[derive(Default)]
pub struct Grpc;

export_transport!(Grpc);

impl System for Grpc {
    type Node = GrpcNode;

    fn description(&self) -> Description {
        let variant = |name, summary| Variant {
            patterns: vec![Pattern::Ping, Pattern::Publish, Pattern::Call, Pattern::Throughput],
            waits: vec![Wait::Block, Wait::Poll, Wait::Callback],
            secure: true,
            own_threads: true,
            remote: true,
            ..Variant::new(name, summary, Path::Tcp)
        };
        Description {
            system: "grpc".to_owned(),
            summary: "calls or a stream over TCP, with and without TLS".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            system_version: format!("tonic {}", locked_version(include_str!("../Cargo.lock"), "tonic")),
            variants: vec![
                variant(UNARY, "a unary call per message"),
                variant(STREAM, "one bidirectional stream for all messages"),
            ],
            settings: vec![
                Setting::new(
                    "tls",
                    "off",
                    "on | off",
                    "TLS 1.3, both ends with certificates made for the run",
                    Names::Nothing,
                ),
                Setting::new(
                    "nodelay",
                    "on",
                    "on | off",
                    "TCP_NODELAY: send at once, without Nagle's algorithm",
                    Names::Nothing,
                ),
                // Defaults of hyper's clients.
                Setting::new(
                    "stream_window",
                    "2097152",
                    "bytes, 65535 to 2147483647",
                    "HTTP/2 initial flow-control window of a stream at both ends",
                    Names::Nothing,
                ),
                Setting::new(
                    "connection_window",
                    "5242880",
                    "bytes, 65535 to 2147483647",
                    "HTTP/2 initial flow-control window of the connection at both ends",
                    Names::Nothing,
                ),
                Setting::new(
                    "in_flight",
                    "default",
                    "default | 1 to 100",
                    "unary: calls without a response before the leader waits; stream: messages queued; default: 16",
                    Names::Nothing,
                ),
            ],
            daemon: None,
        }
    }

    fn probe(&self, options: &NodeOptions) -> Result<Limits> {
        let settings = Settings::read(&self.description(), options)?;
        let refused = UnauthorizedPeer::Plain.code() | UnauthorizedPeer::Foreign.code() | raw::TM_UNAUTHORIZED_LEADS;
        let unauthorized_peers = if settings.tls { refused } else { 0 };
        Ok(Limits { max_payload_bytes: MOST_BYTES, packet_bytes: 0, unauthorized_peers })
    }

    fn open(&self, options: &NodeOptions) -> Result<GrpcNode> {
        let settings = Settings::read(&self.description(), options)?;
        os::check_payload(options, MOST_BYTES)?;
        let credentials = if settings.tls { tls::credentials(options)? } else { None };
        let one_way = matches!(options.pattern, Pattern::Publish | Pattern::Throughput);
        // Started before the measuring thread is bound to its CPU.
        let background = (options.role == Role::Leader && one_way).then(driver::background).transpose()?;
        Ok(GrpcNode { options: options.clone(), settings, credentials, background })
    }
}

/// Shared by all links of an end, each with its own connection.
pub struct GrpcNode {
    options: NodeOptions,
    settings: Settings,
    credentials: Option<tls::Credentials>,
    background: Option<Arc<Runtime>>,
}

impl Node for GrpcNode {
    type Link = Box<dyn Link>;

    fn link(&mut self, options: &LinkOptions) -> Result<Box<dyn Link>> {
        let polls = self.options.wait == Wait::Poll;
        // A leader that only publishes receives nothing.
        let callback = options.callback.filter(|_| self.background.is_none());
        let driver = match (&self.background, callback) {
            (Some(runtime), _) => Driver::with_runtime(runtime.clone(), polls),
            (None, Some(_)) => Driver::running()?,
            (None, None) => Driver::new(polls)?,
        };
        let most_bytes = self.options.max_payload_bytes;
        let (settings, credentials) = (self.settings, self.credentials.as_ref());
        Ok(match self.options.role {
            Role::Leader => {
                let caller =
                    Caller::open(&self.options, settings, credentials.map(|own| own.connector("h2")).transpose()?)?;
                if settings.streams {
                    Box::new(StreamEnd::new(driver, Opening::Leader(caller), settings, most_bytes, callback))
                } else {
                    Box::new(Client::new(driver, caller, &self.options, settings, callback))
                }
            }
            Role::Follower => {
                let called =
                    Called::open(&self.options, settings, credentials.map(|own| own.acceptor("h2")).transpose()?)?;
                if settings.streams {
                    Box::new(StreamEnd::new(driver, Opening::Follower(called), settings, most_bytes, callback))
                } else {
                    Box::new(Service::new(driver, called, settings, most_bytes, callback))
                }
            }
        })
    }
}

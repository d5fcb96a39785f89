//! HTTP over TCP, on one host or between two, by hyper: the leader is the client, the follower the server.
//!
//! A message is the body of a POST, and the follower's answer the body of its response. Unanswered messages, as in
//! one-way patterns, get an empty response (204) once the host releases them.
//!
//! | Variant | Protocol | Requests in flight |
//! |---|---|---|
//! | `http1` | HTTP/1.1 over a connection that is kept alive | 1 |
//! | `http2` | HTTP/2 with prior knowledge | as many as `in_flight` allows |
//!
//! Both ends run hyper in the calling thread, within `publish` and `take`. The leader of a one-way pattern has a
//! thread of tokio's instead: requests in flight progress when the host no longer calls. Under wait `callback` each
//! link has a runtime with its own thread, and the host handles a message there, within the task that received it.

mod buffer_pool;
mod client;
mod connection;
mod server;
mod settings;

use client::Client;
use server::Server;
use settings::{HTTP1, HTTP2, Settings};
use std::sync::Arc;
use tokio::runtime::Runtime;
use tripmeter_abi::os;
use tripmeter_abi::{
    Description, Limits, Link, LinkOptions, Names, Node, NodeOptions, Path, Pattern, Result, Role, Setting, System,
    UnauthorizedPeer, Variant, Wait, export_transport, locked_version, raw,
};
use tripmeter_web::driver::{self, Driver};
use tripmeter_web::tls;

/// HTTP has no limit; this is the host's.
const MOST_BYTES: u64 = 1 << 30;

/// System `http`.
#[derive(Default)]
pub struct Http;

export_transport!(Http);

impl System for Http {
    type Node = HttpNode;

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
            system: "http".to_owned(),
            summary: "a POST and its response over TCP, with and without TLS".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            system_version: format!("hyper {}", locked_version(include_str!("../Cargo.lock"), "hyper")),
            variants: vec![
                variant(HTTP1, "HTTP/1.1 over a connection that is kept alive"),
                variant(HTTP2, "HTTP/2 with prior knowledge"),
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
                    "http2: initial flow-control window of a stream at both ends",
                    Names::Nothing,
                ),
                Setting::new(
                    "connection_window",
                    "5242880",
                    "bytes, 65535 to 2147483647",
                    "http2: initial flow-control window of the connection at both ends",
                    Names::Nothing,
                ),
                Setting::new(
                    "in_flight",
                    "default",
                    "default | 1 to 100",
                    "http2: requests without a response before the leader waits; default: 16",
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

    fn open(&self, options: &NodeOptions) -> Result<HttpNode> {
        let settings = Settings::read(&self.description(), options)?;
        os::check_payload(options, MOST_BYTES)?;
        let credentials = if settings.tls { tls::credentials(options)? } else { None };
        let one_way = matches!(options.pattern, Pattern::Publish | Pattern::Throughput);
        // Started before the measuring thread is bound to its CPU.
        let background = (options.role == Role::Leader && one_way).then(driver::background).transpose()?;
        Ok(HttpNode { options: options.clone(), settings, credentials, background })
    }
}

/// Shared by all links of an end, each with its own connection.
pub struct HttpNode {
    options: NodeOptions,
    settings: Settings,
    credentials: Option<tls::Credentials>,
    background: Option<Arc<Runtime>>,
}

impl Node for HttpNode {
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
        Ok(match self.options.role {
            Role::Leader => {
                let tls = self.credentials.as_ref().map(|own| own.connector(self.settings.protocol())).transpose()?;
                Box::new(Client::open(driver, &self.options, self.settings, tls, callback)?)
            }
            Role::Follower => {
                let tls = self.credentials.as_ref().map(|own| own.acceptor(self.settings.protocol())).transpose()?;
                Box::new(Server::open(driver, &self.options, self.settings, tls, callback)?)
            }
        })
    }
}

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
mod server;

use client::Requests;
use server::Handler;
use tripmeter_abi::{
    Description, Error, Limits, NodeOptions, Result, Setting, Status, System, export_transport, locked_version,
};
use tripmeter_web::node::{WebNode, calling};
use tripmeter_web::settings::{WebSettings, settings, variant};

const HTTP1: &str = "http1";
const HTTP2: &str = "http2";

/// System `http`.
#[derive(Default)]
pub struct Http;

export_transport!(Http);

impl Http {
    /// Fails with `Invalid` or `Limit` for settings that are unknown, out of range, or without effect.
    fn settings(&self, options: &NodeOptions) -> Result<WebSettings> {
        let description = self.description();
        let is_set = |setting: &&Setting| options.setting(&setting.name) != setting.default;
        let mut set = description.settings.iter().filter(is_set).map(|setting| setting.name.as_str());
        let of_http2 = |name: &&str| ["stream_window", "connection_window", "in_flight"].contains(name);
        if options.variant == HTTP1
            && let Some(name) = set.find(of_http2)
        {
            let text = format!("setting '{name}' does nothing over {HTTP1}; leave it out, or use {HTTP2}");
            return Err(Error::new(Status::Invalid, text));
        }
        WebSettings::read(&description, options, options.variant == HTTP2)
    }
}

impl System for Http {
    type Node = WebNode;

    fn description(&self) -> Description {
        Description {
            system: "http".to_owned(),
            summary: "a POST and its response over TCP, with and without TLS".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            system_version: format!("hyper {}", locked_version(include_str!("../Cargo.lock"), "hyper")),
            variants: vec![
                variant(HTTP1, "HTTP/1.1 over a connection that is kept alive"),
                variant(HTTP2, "HTTP/2 with prior knowledge"),
            ],
            settings: settings("http2:", "http2: requests without a response before the leader waits; default: 16"),
            daemon: None,
        }
    }

    fn probe(&self, options: &NodeOptions) -> Result<Limits> {
        Ok(self.settings(options)?.limits())
    }

    fn open(&self, options: &NodeOptions) -> Result<WebNode> {
        WebNode::open(options, self.settings(options)?, calling::<Requests, Handler>)
    }
}

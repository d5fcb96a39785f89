//! Variants, settings and limits of the transports over HTTP.

use tripmeter_abi::{
    Description, Limits, Names, NodeOptions, Path, Pattern, Result, Setting, UnauthorizedPeer, Variant, Wait, os, raw,
};

/// Largest message: the host's limit. gRPC counts bytes with 32 bits, HTTP has no limit.
pub(crate) const MOST_BYTES: u64 = 1 << 30;

/// Default number of messages in flight over HTTP/2.
const IN_FLIGHT: u64 = 16;
/// Most bytes of all messages in flight; a larger message is sent alone.
const MOST_BYTES_IN_FLIGHT: u64 = 64 << 20;

/// HTTP/2's default initial window to its largest one.
const WINDOW_BYTES: std::ops::RangeInclusive<u64> = 65_535..=(1 << 31) - 1;

/// Variant of a transport over HTTP.
pub fn variant(name: &str, summary: &str) -> Variant {
    Variant {
        patterns: vec![Pattern::Ping, Pattern::Publish, Pattern::Call, Pattern::Throughput],
        waits: vec![Wait::Block, Wait::Poll, Wait::Callback],
        secure: true,
        own_threads: true,
        remote: true,
        ..Variant::new(name, summary, Path::Tcp)
    }
}

/// Settings of a transport. `http2` begins the descriptions of windows; `in_flight` is the description of that setting.
pub fn settings(http2: &str, in_flight: &str) -> Vec<Setting> {
    let window = |of: &str| format!("{http2} initial flow-control window of {of} at both ends");
    let bytes = "bytes, 65535 to 2147483647";
    let tls = "TLS 1.3, both ends with certificates made for the run";
    let nodelay = "TCP_NODELAY: send at once, without Nagle's algorithm";
    vec![
        Setting::new("tls", "off", "on | off", tls, Names::Nothing),
        Setting::new("nodelay", "on", "on | off", nodelay, Names::Nothing),
        // Defaults of hyper's clients.
        Setting::new("stream_window", "2097152", bytes, &window("a stream"), Names::Nothing),
        Setting::new("connection_window", "5242880", bytes, &window("the connection"), Names::Nothing),
        Setting::new("in_flight", "default", "default | 1 to 100", in_flight, Names::Nothing),
    ]
}

/// Options of a node that its links use.
#[derive(Clone, Copy)]
pub struct WebSettings {
    /// HTTP/2 instead of HTTP/1.1.
    pub is_http2: bool,
    /// TLS at both ends.
    pub tls: bool,
    /// Send without Nagle's algorithm.
    pub nodelay: bool,
    /// Initial window of a stream of HTTP/2, in bytes.
    pub stream_window: u32,
    /// Initial window of a connection of HTTP/2, in bytes.
    pub connection_window: u32,
    /// Most messages without a response, or queued in a stream.
    pub in_flight: usize,
    /// Largest message, in bytes.
    pub max_payload_bytes: u64,
    /// True if the leader expects no answers.
    pub is_one_way: bool,
}

impl WebSettings {
    /// Fails with `Invalid` or `Limit` for settings that are unknown or out of range.
    pub fn read(description: &Description, options: &NodeOptions, is_http2: bool) -> Result<Self> {
        os::check(description, options)?;
        let in_flight = os::number_or(options, "in_flight", "default", 1..=100)?;
        let fitting = MOST_BYTES_IN_FLIGHT / options.max_payload_bytes.max(1);
        let in_flight = if is_http2 { in_flight.unwrap_or(IN_FLIGHT).min(fitting).max(1) } else { 1 };
        Ok(Self {
            is_http2,
            tls: options.is_on("tls", false)?,
            nodelay: options.is_on("nodelay", true)?,
            stream_window: options.number("stream_window", WINDOW_BYTES)? as u32,
            connection_window: options.number("connection_window", WINDOW_BYTES)? as u32,
            in_flight: in_flight as usize,
            max_payload_bytes: options.max_payload_bytes,
            is_one_way: matches!(options.pattern, Pattern::Publish | Pattern::Throughput),
        })
    }

    /// Protocol name in TLS (ALPN).
    pub(crate) fn protocol(&self) -> &'static str {
        if self.is_http2 { "h2" } else { "http/1.1" }
    }

    /// Limits of a variant with these settings.
    pub fn limits(&self) -> Limits {
        let refused = UnauthorizedPeer::Plain.code() | UnauthorizedPeer::Foreign.code() | raw::TM_UNAUTHORIZED_LEADS;
        let unauthorized_peers = if self.tls { refused } else { 0 };
        Limits { max_payload_bytes: MOST_BYTES, packet_bytes: 0, unauthorized_peers }
    }
}

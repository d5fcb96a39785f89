use tripmeter_abi::os;
use tripmeter_abi::{Description, Error, NodeOptions, Result, Status};

pub(crate) const HTTP1: &str = "http1";
pub(crate) const HTTP2: &str = "http2";

/// Default number of requests in flight over HTTP/2.
const IN_FLIGHT: u64 = 16;
/// Most bytes of all requests in flight; a larger message is sent alone.
const MOST_BYTES_IN_FLIGHT: u64 = 64 << 20;

/// HTTP/2's default initial window to its largest one.
const WINDOW_BYTES: std::ops::RangeInclusive<u64> = 65_535..=(1 << 31) - 1;

#[derive(Clone, Copy)]
pub(crate) struct Settings {
    pub is_http2: bool,
    pub tls: bool,
    pub nodelay: bool,
    pub stream_window: u32,
    pub connection_window: u32,
    /// Most requests without a response.
    pub in_flight: usize,
}

impl Settings {
    /// Fails with `Invalid` or `Limit` for settings that are unknown, out of range, or without effect.
    pub(crate) fn read(description: &Description, options: &NodeOptions) -> Result<Self> {
        os::check(description, options)?;
        let is_http2 = options.variant == HTTP2;
        let in_flight = os::number_or(options, "in_flight", "default", 1..=100)?;
        for setting in &description.settings {
            let name = setting.name.as_str();
            let is_of_http2 = ["stream_window", "connection_window", "in_flight"].contains(&name);
            if is_of_http2 && !is_http2 && options.setting(name) != setting.default {
                let text = format!("setting '{name}' does nothing over {HTTP1}; leave it out, or use {HTTP2}");
                return Err(Error::new(Status::Invalid, text));
            }
        }
        let fitting = MOST_BYTES_IN_FLIGHT / options.max_payload_bytes.max(1);
        let in_flight = if is_http2 { in_flight.unwrap_or(IN_FLIGHT).min(fitting).max(1) } else { 1 };
        Ok(Self {
            is_http2,
            tls: options.is_on("tls", false)?,
            nodelay: options.is_on("nodelay", true)?,
            stream_window: options.number("stream_window", WINDOW_BYTES)? as u32,
            connection_window: options.number("connection_window", WINDOW_BYTES)? as u32,
            in_flight: in_flight as usize,
        })
    }

    /// Protocol name in TLS (ALPN).
    pub(crate) fn protocol(&self) -> &'static str {
        if self.is_http2 { "h2" } else { "http/1.1" }
    }
}

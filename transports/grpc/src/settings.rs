use tripmeter_abi::os;
use tripmeter_abi::{Description, NodeOptions, Result};

pub(crate) const UNARY: &str = "unary";
pub(crate) const STREAM: &str = "stream";

/// Default number of calls in flight, or of queued messages.
const IN_FLIGHT: u64 = 16;
/// Most bytes of all calls in flight; a larger message is sent alone.
const MOST_BYTES_IN_FLIGHT: u64 = 64 << 20;

/// HTTP/2's default initial window to its largest one.
const WINDOW_BYTES: std::ops::RangeInclusive<u64> = 65_535..=(1 << 31) - 1;

#[derive(Clone, Copy)]
pub(crate) struct Settings {
    pub streams: bool,
    pub tls: bool,
    pub nodelay: bool,
    pub stream_window: u32,
    pub connection_window: u32,
    /// Most calls without a response, or messages that wait for tonic.
    pub in_flight: usize,
}

impl Settings {
    /// Fails with `Invalid` or `Limit` for settings that are unknown or out of range.
    pub(crate) fn read(description: &Description, options: &NodeOptions) -> Result<Self> {
        os::check(description, options)?;
        let in_flight = os::number_or(options, "in_flight", "default", 1..=100)?.unwrap_or(IN_FLIGHT);
        let fitting = MOST_BYTES_IN_FLIGHT / options.max_payload_bytes.max(1);
        Ok(Self {
            streams: options.variant == STREAM,
            tls: options.is_on("tls", false)?,
            nodelay: options.is_on("nodelay", true)?,
            stream_window: options.number("stream_window", WINDOW_BYTES)? as u32,
            connection_window: options.number("connection_window", WINDOW_BYTES)? as u32,
            in_flight: in_flight.min(fitting).max(1) as usize,
        })
    }
}

//! The settings of a run, and what they mean for tonic.

use tripmeter_abi::os;
use tripmeter_abi::{Description, NodeOptions, Result};

pub(crate) const UNARY: &str = "unary";
pub(crate) const STREAM: &str = "stream";

/// Calls under way, or messages queued, unless told otherwise.
const IN_FLIGHT: u64 = 16;
/// Bytes of all of them; a larger message goes alone.
const MOST_BYTES_IN_FLIGHT: u64 = 64 << 20;

/// From HTTP/2's own initial window to its largest one.
const WINDOW_BYTES: std::ops::RangeInclusive<u64> = 65_535..=(1 << 31) - 1;

/// Everything that was set, understood.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    pub streams: bool,
    pub tls: bool,
    pub nodelay: bool,
    /// Initial flow-control windows in bytes, at both ends.
    pub stream_window: u32,
    pub connection_window: u32,
    /// Calls that may be without a response, or messages that wait for tonic.
    pub in_flight: usize,
}

impl Settings {
    /// # Errors
    /// `Invalid` or `Limit` for what is not understood or cannot be.
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

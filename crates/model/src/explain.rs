//! Parts of a message's time, as `tripmeter explain` measures them: `explain.json` of a results folder.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name of the file in the results folder.
pub const FILE: &str = "explain.json";
/// Version of the file.
pub const SCHEMA_VERSION: &str = "1.2";

/// System calls of one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCount {
    /// Calls that succeeded.
    pub calls: u64,
    /// Calls that failed or found nothing, mostly because there was nothing to receive yet.
    pub in_vain: u64,
    /// Bytes that successful calls copied into or out of the kernel, where the call tells.
    pub bytes: u64,
}

impl CallCount {
    /// Adds the counts of another.
    pub fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.in_vain += other.in_vain;
        self.bytes += other.bytes;
    }
}

/// Findings of `tripmeter explain`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// See [`SCHEMA_VERSION`].
    pub schema_version: String,
    /// Bytes of each message.
    pub payload_bytes: u64,
    /// Cost of one reading of the clock, in nanoseconds.
    pub clock_read_ns: f64,
    /// Each transport; the floor is the last.
    pub transports: Vec<ExplainedTransport>,
    /// Why no system calls were counted anywhere, and what to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_system_calls: Option<String>,
    /// Why no cycles and instructions were counted anywhere, and what to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_counters: Option<String>,
    /// Cycles and instructions exclude those in the kernel, which does not allow counting them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub are_counters_without_kernel: bool,
}

/// Where the time of one transport's messages goes. All times are per message, which is half of a round trip, in
/// nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedTransport {
    /// The transport, as it is named in commands.
    pub transport: String,
    /// It is the floor that the others are compared with.
    pub is_floor: bool,
    /// Each way to wait that it has.
    pub waits: Vec<ExplainedWait>,
    /// Time that touching each byte adds: median of half a round trip with touch `full`, less that with `none`, with the first
    /// of the waits; absent if that is `poll` on a shared CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub touch_ns: Option<f64>,
    /// Time that waking up adds: median of half a round trip under `block`, less that under `poll`. Below 0 where polling is
    /// slower; absent if `poll` shared a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_over_poll_ns: Option<f64>,
    /// Resources used by both sides together, with the first of the waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<MessageCost>,
    /// System calls of both sides together, the most frequent first, with the first of the waits; absent if they were not
    /// counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_calls: Option<Vec<SystemCall>>,
    /// Missing parts, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Notes on its figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Times under one way to wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedWait {
    /// The way.
    pub wait: crate::Wait,
    /// A side polled on a shared CPU, so these are times of scheduler time slices.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub polls_on_shared_cpu: bool,
    /// Median of half a round trip, undisturbed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undisturbed_ns: Option<f64>,
    /// The parts; absent if they could not be measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<Parts>,
    /// Median of a send call, from its begin to its return.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_call_ns: Option<f64>,
    /// Median from the return of the send call to that of the receive call; below 0 if the message is there before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_to_received_ns: Option<f64>,
    /// Median of the receive call that returned the message, since that was sent; absent under `callback`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_call_ns: Option<f64>,
}

/// Parts of the time of a message, which add up to `total_ns`. Each moment is in one part.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Parts {
    /// A side gets a buffer and writes the header.
    pub prepare_ns: f64,
    /// In a send call.
    pub send_ns: f64,
    /// In no call: from the return of the send call to the begin of the receive call that returns the message.
    pub way_ns: f64,
    /// In that receive call; under `block` with the wake-up, as far as that is not in `wakeup_ns`.
    pub receive_ns: f64,
    /// Extra time of transit and receive under `block` compared with `poll`, at most `block_over_poll_ns`; 0 if that is
    /// absent.
    pub wakeup_ns: f64,
    /// In Tripmeter's own code, which checks messages and turns around, and in the transport's release of a message.
    pub own_ns: f64,
    /// The sum: mean of the middle fifth of the traced round trips.
    pub total_ns: f64,
}

/// Resources used by both sides together per message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MessageCost {
    /// CPU time, in nanoseconds.
    pub cpu_ns: f64,
    /// CPU time in the kernel, in nanoseconds, where the kernel accounts it exactly; under 1.0 it may be sampled by ticks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_ns: Option<f64>,
    /// Times that a thread gave up its CPU.
    pub voluntary_switches: f64,
    /// Times that a thread lost its CPU.
    pub involuntary_switches: f64,
    /// Page faults.
    pub page_faults: f64,
    /// CPU cycles, where they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycles: Option<f64>,
    /// CPU instructions, where they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<f64>,
}

/// System calls of one name, per message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SystemCall {
    /// The call.
    pub name: String,
    /// Those that succeeded.
    pub calls: f64,
    /// Calls that failed or found nothing: mostly polls before a message was there.
    pub in_vain: f64,
    /// Bytes copied into the kernel or out of it, where the call tells.
    pub bytes: f64,
}

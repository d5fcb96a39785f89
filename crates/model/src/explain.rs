//! Parts of a message's time, as `tripmeter explain` measures them: `explain.json` of a results folder.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name of the file in the results folder.
pub const FILE: &str = "explain.json";
/// Version of the file.
pub const SCHEMA_VERSION: &str = "1.2";

/// Counts of system calls of one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCount {
    /// Calls that succeeded.
    pub calls: u64,
    /// Calls that failed or found nothing: mostly polls before a message arrived.
    pub in_vain: u64,
    /// Bytes that successful calls copied into or out of the kernel, for calls that return this.
    pub bytes: u64,
}

impl CallCount {
    /// Adds other counts to these.
    pub fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.in_vain += other.in_vain;
        self.bytes += other.bytes;
    }
}

/// Findings of `tripmeter explain`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema_version: String,
    /// Bytes of each message.
    pub payload_bytes: u64,
    /// Cost of one reading of the clock, in nanoseconds.
    pub clock_read_ns: f64,
    /// Explained transports; the floor is the last.
    pub transports: Vec<ExplainedTransport>,
    /// Reason that no system calls were counted for any transport, and what to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_system_calls: Option<String>,
    /// Reason that no cycles and instructions were counted for any transport, and what to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_counters: Option<String>,
    /// True if cycles and instructions exclude those in the kernel, which does not allow counting them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub are_counters_without_kernel: bool,
}

/// Times and costs of one transport's messages. All times are in nanoseconds per message, which is half of a round
/// trip.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedTransport {
    /// Name of the transport, as in commands.
    pub transport: String,
    /// True for the floor, which the others are compared with.
    pub is_floor: bool,
    /// Times for each of its wait strategies.
    pub waits: Vec<ExplainedWait>,
    /// Time that touching each byte adds: median of half a round trip with touch `full` minus that with `none`, under
    /// the first wait strategy. Absent if that is `poll` on a shared CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub touch_ns: Option<f64>,
    /// Time that waking up adds: median of half a round trip under `block` minus that under `poll`. Below 0 if polling
    /// is slower; absent if `poll` shared a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_over_poll_ns: Option<f64>,
    /// Resources used by both sides together, under the first wait strategy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<MessageCost>,
    /// System calls of both sides together under the first wait strategy, the most frequent first; absent if not
    /// counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_calls: Option<Vec<SystemCall>>,
    /// Parts that could not be measured, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Notes on its figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Times under one wait strategy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedWait {
    /// The wait strategy.
    pub wait: crate::Wait,
    /// True if a side polled on a shared CPU, so that the times are those of scheduler time slices.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub polls_on_shared_cpu: bool,
    /// Median of half a round trip, measured without time stamps of its parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undisturbed_ns: Option<f64>,
    /// Parts of the time; absent if they could not be measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<Parts>,
    /// Median duration of a send call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_call_ns: Option<f64>,
    /// Median time from the return of the send call to that of the receive call; below 0 if the message arrives before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_to_received_ns: Option<f64>,
    /// Median duration of the receive call that returned the message, counted from the send; absent under `callback`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_call_ns: Option<f64>,
}

/// Parts of the time of a message. Each moment belongs to one part, so they add up to `total_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Parts {
    /// Time in which a side gets a buffer and writes the header.
    pub prepare_ns: f64,
    /// Time in a send call.
    pub send_ns: f64,
    /// Time in no call: from the return of the send call to the start of the receive call that returns the message.
    pub way_ns: f64,
    /// Time in that receive call; under `block` with the part of the wake-up that is not in `wakeup_ns`.
    pub receive_ns: f64,
    /// Extra time of transit and receive under `block` compared with `poll`, at most `block_over_poll_ns`; 0 if that is
    /// absent.
    pub wakeup_ns: f64,
    /// Time in Tripmeter's own code, which checks and answers messages, and in the transport's release of messages.
    pub own_ns: f64,
    /// Sum of the parts: mean of the middle fifth of the traced round trips.
    pub total_ns: f64,
}

/// Resources used by both sides together per message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MessageCost {
    /// CPU time, in nanoseconds.
    pub cpu_ns: f64,
    /// CPU time in the kernel, in nanoseconds, if accounted exactly; in files of version 1.0 it may be sampled by
    /// ticks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_ns: Option<f64>,
    /// Number of times that a thread gave up its CPU.
    pub voluntary_switches: f64,
    /// Number of times that a thread lost its CPU.
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
    /// Name of the system call.
    pub name: String,
    /// Calls that succeeded.
    pub calls: f64,
    /// Calls that failed or found nothing: mostly polls before a message arrived.
    pub in_vain: f64,
    /// Bytes copied into the kernel or out of it, for calls that return this.
    pub bytes: f64,
}

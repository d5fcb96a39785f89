//! Path proof: which path a payload really took, by counters and maps of the operating system.
//!
//! Before a sub-experiment is measured, the engine exchanges a few messages while each side observes itself:
//!
//! ```text
//! Observer::baseline        before the transport is opened
//! Observer::start           both sides, before the first message; the leader then waits for the follower
//! sent / received           every message, both sides
//! parked                    follower, while the first message waits to be taken; checks for 20 ms at most
//! finish -> Evidence        both sides, after the last message and before anything else is sent
//! judge                     leader
//! ```
//!
//! In this phase every byte of every message must be written and read; [`messages_for`] returns their number.
//!
//! # Evidence
//!
//! | Evidence | Scope | Says |
//! |---|---|---|
//! | address of loan and message, as (device, inode, offset) | process | both are the same memory: nothing was copied |
//! | `Referenced` in `smaps`, after `clear_refs` at the eighth message | process | how much of a shared mapping it touched |
//! | `TCP_INFO` of the own sockets | socket | bytes over TCP, exactly |
//! | ends of these sockets, and the peer process | socket | the program that a broker's messages went through |
//! | `rchar`, `wchar` | process | bytes by `read` and `write`, over anything; `send` and `mq_send` are not counted |
//! | `FIONREAD`, `QSIZE` of the own descriptors | descriptor | the object that the first message waits in, and so its carrier |
//! | `/proc/sysvipc/msg`: bytes, last sender, last receiver | IPC namespace | as above, for System V queues that the process used |
//! | loopback bytes, UDP datagrams | network namespace | an upper limit of what went over UDP |
//! | bytes of the interface that has the address asked for | network namespace | an upper limit of what went to another host |
//!
//! Counters of the namespace include the traffic of other programs. On their own, they can refute a claim, such as UDP
//! if the loopback carried nothing. They prove a claim only if no evidence of the processes contradicts it, and the
//! loopback was not crowded or the sides share nothing else. They rule out a UDP socket that both sides hold only if
//! the bytes or datagrams of all programs are too few.
//!
//! Objects from before the transport was opened, such as the engine's control socket and core-to-core page, are in the
//! [`Baseline`] and are ignored.
//!
//! # Limits
//!
//! Message queues, and Unix sockets used with `sendmsg`, have no byte counters. They are proven by the first message,
//! seen waiting in them. If a system's own threads take it at once, nothing is seen. Then a Unix socket is proven only
//! if both sides hold no other carrier, share no memory, and the loopback was quiet. UDP on a crowded loopback is proven
//! in the same way.
//!
//! If the System V queues cannot be listed, a claim of message queues without POSIX queues is not visible. If the
//! evidence does not decide, the verdict is [`Verdict::NotVisible`](tripmeter_model::manifest::Verdict::NotVisible).
//! The engine then retries, at most twice, as other traffic may pass.

mod between_hosts;
mod evidence;
mod finding;
mod followers;
mod interface;
mod judge;
pub mod log;
mod maps;
mod observations;
mod observer;
mod peer;
mod queues;
mod refusal;
mod sys;
#[cfg(test)]
mod tests;

pub use evidence::Evidence;
pub use followers::of_all;
pub use judge::judge;
pub use observer::{Baseline, Observer};
pub(crate) use peer::{connected_elsewhere, is_connected};
pub use refusal::with_unauthorized_peers;

use tripmeter_abi::Path;

/// Claims of a transport, and the messages sent to check them.
#[derive(Clone, Debug)]
pub struct Claim {
    pub path: Path,
    /// True if loan and message are the same memory.
    pub zero_copy: bool,
    pub same_process: bool,
    /// True if messages go through a third process.
    pub broker: bool,
    pub between_hosts: bool,
    pub followers: u32,
    /// Messages sent in each direction.
    pub messages: u64,
    pub payload_bytes: u64,
}

/// Largest payload of a proof: it fits into one or two datagrams, and is well above any control message.
pub const MOST_PAYLOAD_BYTES: u64 = 64 * 1024;

/// Smallest number of bytes per direction that stands out from background traffic. Heartbeats, log lines and wake-ups
/// amount to some ten kilobytes in this time.
const LEAST_BYTES: u64 = 256 * 1024;

/// Smallest number of messages, so that one or two that took another path or were lost do not decide.
const LEAST_MESSAGES: u64 = 32;

/// Smallest number of waiting bytes that show a message and not a wake-up: the smallest fragment of a message.
const LEAST_PARKED_BYTES: u64 = 1024;

/// Largest number of addresses kept per direction: enough to see every chunk of a pool, and few enough for JSON.
const MOST_ADDRESSES: usize = 256;

/// Messages, in both directions, before a process starts to count the pages that it touches.
pub const FAULTING_MESSAGES: u64 = 8;

pub fn messages_for(payload_bytes: u64) -> u64 {
    LEAST_MESSAGES.max(LEAST_BYTES.div_ceil(payload_bytes.max(1)))
}

/// Passes a text to every parser of `/proc` in this module.
pub(crate) fn read_by_all(text: &str) {
    let maps = maps::Maps::parse(text);
    let _ = (maps.shared_objects(), maps.place(0, u64::MAX), maps.place(1 << 47, 1), queues::read_text(text));
}

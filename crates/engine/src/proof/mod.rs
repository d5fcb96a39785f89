//! Proof of the path: which way a payload really travelled, from the operating system's own counters and maps.
//!
//! Before a sub-experiment is measured, the engine exchanges a few messages, while each side observes itself:
//!
//! ```text
//! Observer::baseline        before the transport is opened
//! Observer::start           both sides, before the first message; the leader then waits for the follower's word
//! sent / received           every message, both sides
//! parked                    follower, while the first message waits to be taken; looks for 20 ms at most
//! finish -> Evidence        both sides, after the last message and before anything else is sent
//! judge                     leader
//! ```
//!
//! In this phase every byte of every message must be written and read, and [`messages_for`] says how many are needed.
//!
//! # What is evidence of what
//!
//! | Evidence | Scope | Says |
//! |---|---|---|
//! | address of loan and message, as (device, inode, offset) | process | both are the same memory: nothing was copied |
//! | `Referenced` in `smaps`, after `clear_refs` at the eighth message | process | how much of a shared mapping it touched |
//! | `TCP_INFO` of the own sockets | socket | bytes over TCP, exactly |
//! | both ends of these, and who holds the other one | socket | through which program a broker's messages went |
//! | `rchar`, `wchar` | process | bytes by `read` and `write`, over anything; `send` and `mq_send` are not in it |
//! | `FIONREAD`, `QSIZE` of the own descriptors | descriptor | where the first message waits, and so which object carries it |
//! | `/proc/sysvipc/msg`: bytes, last sender, last receiver | IPC namespace | the same of the System V queues that the process used |
//! | loopback bytes, UDP datagrams | network namespace | an upper limit of what went over UDP |
//! | bytes of the interface that has the address asked for | network namespace | the same of what went to another host |
//!
//! The counters of the namespace include what other programs did at the same time. They alone can refute a claim (UDP,
//! and the loopback carried nothing). They prove one only where nothing of the processes themselves speaks against it, and
//! the loopback was not crowded or there is nothing else that they hold. A UDP socket that both hold is ruled out by them
//! only where the bytes, or the datagrams, of all programs together are too few for the messages.
//!
//! Objects that existed before the transport was opened, such as the engine's own control socket and hand-over page, are in
//! the [`Baseline`] and count for nothing.
//!
//! # Limits
//!
//! A Unix socket used with `sendmsg` and a message queue have no byte counters. They are proven by the first message seen
//! waiting in them. A system whose own threads take it at once shows nothing; then a Unix socket is proven only where both
//! sides hold nothing else that could have carried the payload, no shared memory of any size either, and the loopback was
//! quiet. Where the System V queues cannot be listed, a claim of message queues without POSIX queues is not visible. UDP on a crowded loopback is proven in the same way. Otherwise the verdict is
//! [`Verdict::NotVisible`](tripmeter_model::manifest::Verdict::NotVisible). As the traffic of others passes, the engine then
//! looks again, twice at most.

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

/// What a transport says of itself, and what was sent to check it.
#[derive(Clone, Debug)]
pub struct Claim {
    /// What the payload travels through.
    pub path: Path,
    /// Loan and message are the same memory.
    pub zero_copy: bool,
    /// Leader and follower are threads of one process.
    pub same_process: bool,
    /// Messages go through a third process.
    pub broker: bool,
    /// Leader and follower are on different hosts.
    pub between_hosts: bool,
    /// Followers that each of the leader's messages goes to.
    pub followers: u32,
    /// Messages sent, per direction.
    pub messages: u64,
    /// Bytes of every message.
    pub payload_bytes: u64,
}

/// Largest payload worth sending: one datagram or two hold it, and it is well above any control message.
pub const MOST_PAYLOAD_BYTES: u64 = 64 * 1024;

/// Least bytes per direction that can be distinguished from what a system sends by itself, such as heartbeats, log
/// lines and wake-ups, some ten kilobytes in this time.
const LEAST_BYTES: u64 = 256 * 1024;

/// Fewest messages, so that one or two that went another way, or were lost, do not decide.
const LEAST_MESSAGES: u64 = 32;

/// Bytes waiting that show a message rather than a wake-up: the smallest packet that a message is split into.
const LEAST_PARKED_BYTES: u64 = 1024;

/// Addresses kept per direction: enough for every chunk of a pool to come round, few enough to send as JSON.
const MOST_ADDRESSES: usize = 256;

/// Messages, of both directions, after which a process begins to count the pages that it touches.
pub const FAULTING_MESSAGES: u64 = 8;

/// Messages per direction that a proof with this payload needs.
pub fn messages_for(payload_bytes: u64) -> u64 {
    LEAST_MESSAGES.max(LEAST_BYTES.div_ceil(payload_bytes.max(1)))
}

/// Has every reader of texts of `/proc` in this module read one.
pub(crate) fn read_by_all(text: &str) {
    let maps = maps::Maps::parse(text);
    let _ = (maps.shared_objects(), maps.place(0, u64::MAX), maps.place(1 << 47, 1), queues::read_text(text));
}

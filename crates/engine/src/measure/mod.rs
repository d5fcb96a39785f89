//! Measuring loops: the only code that runs between two clock readings.
//!
//! There is one clock reading per trip. A sample lasts from the reading at the end of the previous trip to the one at
//! the end of this trip. So the samples leave no gaps, and add up to the time that passed.

pub mod answers;
pub mod arrivals;
pub mod callback;
pub mod calls;
pub mod delayed;
pub mod echo;
pub mod inbox;
pub mod interrupter;
pub mod ledger;
pub mod logging;
pub mod notes;
pub mod publish;
pub mod sampling;
pub mod setting;
pub mod several_followers;
pub mod sink;
pub mod stamped;
pub mod stamps;
pub mod stream;
mod tap;
mod tracker;
pub mod trips;

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
pub use tap::Tap;
use thiserror::Error;
pub use tracker::Tracker;

/// Number of messages in a row without an intact answer at which the path counts as dead.
pub const MOST_SILENT: u32 = 10;

/// Longest time, in nanoseconds, that one receive call sleeps before the loop checks the flags.
pub const TAKE_TIMEOUT_NS: u64 = 50_000_000;

/// State that the measuring thread shares with the threads that watch it.
#[derive(Debug, Default)]
pub struct Shared {
    /// True if the loop must end as soon as it can.
    pub stop: AtomicBool,
    /// Number of the last message of a stream; valid once [`Shared::stop`] is set.
    pub last: AtomicU64,
    /// True if control messages are handled in the measuring thread: the end of the stream must interrupt it.
    pub is_alone: AtomicBool,
    pub peer_gone: AtomicBool,
    /// True if a signal can, and must, interrupt the transport's blocking calls.
    pub interrupt: AtomicBool,
    /// Sequence number of the message in flight; written once per trip, read only to detect progress.
    pub sequence: AtomicU64,
    /// Tick at which a waiting loop gives up because its time is over; 0 for no limit. Read only while idle.
    pub capped: AtomicU64,
}

impl Shared {
    /// True if the time of the loop is over at tick `now`.
    #[cold]
    pub fn is_capped(&self, now: u64) -> bool {
        let capped = self.capped.load(Relaxed);
        capped != 0 && now >= capped
    }

    /// Reason why a loop ended before its deadline: the user has asked to stop, or its time is over.
    pub fn early_end(&self) -> LoopEnd {
        if self.stop.load(Relaxed) { LoopEnd::Stopped } else { LoopEnd::Deadline }
    }

    /// True if a refused message must be retried; false if the user has asked to stop, or the time is over. The transport was
    /// full `count` times in a row, for `timeout_ns` each, until tick `now`.
    /// Fails if the other side has gone, or [`MOST_SILENT`] is reached.
    #[cold]
    pub fn after_refusal(&self, count: u32, timeout_ns: u64, now: u64) -> Result<bool, Failure> {
        if self.peer_gone.load(Relaxed) {
            return Err(Failure::PeerGone);
        }
        if self.is_capped(now) {
            return Ok(false);
        }
        if count >= MOST_SILENT {
            return Err(Failure::Full { count, timeout_ms: timeout_ns / 1_000_000 });
        }
        Ok(!self.stop.load(Relaxed))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopEnd {
    Full,
    Deadline,
    Stopped,
}

/// Reason why a loop cannot go on.
#[derive(Debug, Error)]
pub enum Failure {
    #[error("{0}")]
    Transport(#[from] tripmeter_abi::Error),
    #[error("the transport is full: it took no message for {timeout_ms} ms, {count} times in a row")]
    Full {
        /// Refusals in a row.
        count: u32,
        timeout_ms: u64,
    },
    #[error("{}", damaged(*count, *bytes, *expected))]
    Damaged {
        /// Damaged messages in a row.
        count: u32,
        /// Length of the last damaged message, in bytes.
        bytes: usize,
        expected: usize,
    },
    #[error("the other side has gone")]
    PeerGone,
    /// No answers, although the other process lives.
    #[error("no answer{} to {count} messages in a row, each waited for {timeout_ms} ms", follower_suffix(*follower))]
    Silent {
        /// Index of the silent follower, if there are several.
        follower: Option<u32>,
        count: u32,
        timeout_ms: u64,
    },
}

fn damaged(count: u32, bytes: usize, expected: usize) -> String {
    if bytes == expected {
        format!("{count} messages in a row came damaged")
    } else {
        format!("the message had {bytes} bytes, {expected} expected, and {count} messages in a row came damaged")
    }
}

fn follower_suffix(follower: Option<u32>) -> String {
    follower.map_or_else(String::new, |follower| format!(" from follower {follower}"))
}

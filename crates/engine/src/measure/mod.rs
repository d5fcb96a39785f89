//! The measuring loops: the only code that runs between two clock readings.
//!
//! One clock reading per trip: a sample lasts from the reading that ended the trip before to the one that ends this trip,
//! so that nothing between two samples is left out, and the samples add up to the time that passed.

pub mod answers;
pub mod arrivals;
pub mod callback;
pub mod calls;
pub mod delayed;
pub mod echo;
pub mod interrupter;
pub mod ledger;
pub mod logging;
pub mod notes;
pub mod publish;
pub mod sampling;
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

/// How many messages in a row may go without an intact answer before the path counts as dead.
pub const MOST_SILENT: u32 = 10;

/// How long one receive may sleep before it looks around; a message normally comes long before.
pub const TAKE_TIMEOUT_NS: u64 = 50_000_000;

/// What the measuring thread shares with the threads that watch it.
#[derive(Debug, Default)]
pub struct Shared {
    /// Ask it to end as soon as it can.
    pub stop: AtomicBool,
    /// Number of the last message of a stream; valid once [`Shared::stop`] is set.
    pub last: AtomicU64,
    /// The measuring loop runs in the thread that hears the other side: the end of the messages must interrupt it.
    pub is_alone: AtomicBool,
    /// The other side has gone.
    pub peer_gone: AtomicBool,
    /// The transport's blocking calls may be, and need to be, interrupted by a signal.
    pub interrupt: AtomicBool,
    /// Sequence number of the message in flight; written once per trip, read only to see whether it moves.
    pub sequence: AtomicU64,
    /// Tick at which a loop that waits gives up, as its time is over; 0: none. Read only while nothing comes.
    pub capped: AtomicU64,
}

impl Shared {
    /// True if the time of the loop is over at the tick `now`.
    #[cold]
    pub fn is_capped(&self, now: u64) -> bool {
        let capped = self.capped.load(Relaxed);
        capped != 0 && now >= capped
    }

    /// Why a loop ended that has given up before its deadline: the user has asked to stop, or its time is over.
    pub fn early_end(&self) -> LoopEnd {
        if self.stop.load(Relaxed) { LoopEnd::Stopped } else { LoopEnd::Deadline }
    }

    /// The transport was full, `count` times in a row and for so long each time, until the tick `now`: whether to try again.
    /// False if the user has asked to stop, or the time is over.
    ///
    /// # Errors
    /// If the other side has gone, or [`MOST_SILENT`] is reached.
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

/// Why a loop returned before its buffer was full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopEnd {
    /// The buffer is full.
    Full,
    /// The deadline has passed.
    Deadline,
    /// [`Shared::stop`] was set.
    Stopped,
}

/// Why a loop cannot go on.
#[derive(Debug, Error)]
pub enum Failure {
    /// The transport failed.
    #[error("{0}")]
    Transport(#[from] tripmeter_abi::Error),
    /// The other side takes no messages.
    #[error("no message was taken for {count} times {timeout_ms} ms: the transport is full")]
    Full {
        /// Times that it was refused.
        count: u32,
        /// The time-out of each.
        timeout_ms: u64,
    },
    /// What comes back is not what was sent.
    #[error("{}", damaged(*count, *bytes, *expected))]
    Damaged {
        /// Messages in a row.
        count: u32,
        /// Bytes of the last.
        bytes: usize,
        /// Bytes that it should have had.
        expected: usize,
    },
    /// The other process has ended.
    #[error("the other side has gone")]
    PeerGone,
    /// The other process lives but does not answer.
    #[error("no answer{} to {count} messages in a row, each waited for {timeout_ms} ms", of(*follower))]
    Silent {
        /// Who was silent, of several followers.
        follower: Option<u32>,
        /// Messages without an answer.
        count: u32,
        /// The time-out of each.
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

fn of(follower: Option<u32>) -> String {
    follower.map_or_else(String::new, |follower| format!(" of follower {follower}"))
}

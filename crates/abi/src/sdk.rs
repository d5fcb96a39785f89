//! The three traits of a transport, mirroring the C table.

use crate::{Description, LinkOptions, Loan, Message, NodeOptions, Result};
use serde::{Deserialize, Serialize};

/// What a variant can carry here and now.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Limits {
    /// The largest message, in bytes.
    pub max_payload_bytes: u64,
    /// Most bytes per system send; a larger message is split. 0: never split.
    pub packet_bytes: u64,
    /// Who must not be let in: bits of [`UnauthorizedPeer`](crate::UnauthorizedPeer), and
    /// [`raw::TM_UNAUTHORIZED_LEADS`]; 0: not secured with these settings.
    #[serde(default)]
    pub unauthorized_peers: u32,
}

/// The command line of a daemon.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DaemonCommand {
    /// Looked up in `PATH`.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
}

/// A system, and how to join it. One value serves the whole process.
pub trait System: Send + Sync + 'static {
    /// A joined node.
    type Node: Node;

    /// What this transport is; needs no daemon and no device.
    fn description(&self) -> Description;

    /// Can the variant run here with these settings? Starts nothing.
    ///
    /// # Errors
    /// `Unavailable`, `NoDaemon`, `Limit` or `Invalid`, with what to do.
    fn probe(&self, options: &NodeOptions) -> Result<Limits>;

    /// How to start its daemon; `None` if it has none. `run_id` is empty if it is started now, as it is of no single run; else
    /// the host only asks whether it could be.
    ///
    /// # Errors
    /// If a configuration file cannot be written.
    fn daemon_command(&self, _options: &NodeOptions) -> Result<Option<DaemonCommand>> {
        Ok(None)
    }

    /// Joins the system.
    ///
    /// # Errors
    /// Anything that keeps it from joining; it has left nothing behind then.
    fn open(&self, options: &NodeOptions) -> Result<Self::Node>;
}

/// One process's end of a system. Dropping it leaves the system and frees everything; links are dropped before.
pub trait Node: Sized {
    /// One topic or client.
    type Link: Link;

    /// Opens a link.
    ///
    /// # Errors
    /// Anything that keeps it from opening.
    fn link(&mut self, options: &LinkOptions) -> Result<Self::Link>;
}

/// One topic or client, used by one thread at a time. Dropping it closes it.
///
/// | call | returns | time |
/// |---|---|---|
/// | `loan` | a buffer of exactly the length asked for | at once |
/// | `publish` | `false` if nothing was sent within the time-out | at most the time-out |
/// | `take` | `None` after the time-out (`block`), at once (`poll`), or earlier | at most the time-out, or until a signal |
pub trait Link: Send {
    /// The address that a peer needs; opaque, may be empty.
    ///
    /// # Errors
    /// If the address cannot be told.
    fn address(&mut self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    /// Completes the connection while all peers do the same. A follower gets one peer, a leader one per follower.
    ///
    /// # Errors
    /// If it does not come about within the time-out.
    fn connect(&mut self, peers: &[Vec<u8>], timeout_ns: u64) -> Result<()>;

    /// A buffer for one message; `in_reply_to` is the request, under `rpc` at the follower.
    ///
    /// # Errors
    /// If there is no buffer, or `length` is over a limit.
    fn loan(&mut self, length: usize, in_reply_to: Option<&Message>) -> Result<Loan>;

    /// Sends a loan and takes it back, whatever is returned.
    ///
    /// # Errors
    /// `Closed` if the peer has gone; anything else that kept it from being sent whole.
    fn publish(&mut self, loan: Loan, timeout_ns: u64) -> Result<bool>;

    /// Takes a loan back unsent.
    fn discard(&mut self, loan: Loan);

    /// The next message, by reference; it is released before the next one is taken.
    ///
    /// # Errors
    /// `Closed` if the peer has gone.
    fn take(&mut self, timeout_ns: u64) -> Result<Option<Message>>;

    /// Gives a message back.
    fn release(&mut self, message: Message);
}

/// A link whose type is chosen at its opening.
impl<L: Link + ?Sized> Link for Box<L> {
    fn address(&mut self) -> Result<Vec<u8>> {
        (**self).address()
    }

    fn connect(&mut self, peers: &[Vec<u8>], timeout_ns: u64) -> Result<()> {
        (**self).connect(peers, timeout_ns)
    }

    #[inline]
    fn loan(&mut self, length: usize, in_reply_to: Option<&Message>) -> Result<Loan> {
        (**self).loan(length, in_reply_to)
    }

    #[inline]
    fn publish(&mut self, loan: Loan, timeout_ns: u64) -> Result<bool> {
        (**self).publish(loan, timeout_ns)
    }

    #[inline]
    fn discard(&mut self, loan: Loan) {
        (**self).discard(loan);
    }

    #[inline]
    fn take(&mut self, timeout_ns: u64) -> Result<Option<Message>> {
        (**self).take(timeout_ns)
    }

    #[inline]
    fn release(&mut self, message: Message) {
        (**self).release(message);
    }
}

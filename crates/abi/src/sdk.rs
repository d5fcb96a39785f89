//! Traits of a transport, which mirror the C table.

use crate::{Description, LinkOptions, Loan, Message, NodeOptions, Result};
use serde::{Deserialize, Serialize};

/// Limits of a variant on this machine, now.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Limits {
    /// Largest message, in bytes.
    pub max_payload_bytes: u64,
    /// Most bytes per system send; a larger message is split. 0: never split.
    pub packet_bytes: u64,
    /// Peers to refuse: bits of [`UnauthorizedPeer`](crate::UnauthorizedPeer), and `TM_UNAUTHORIZED_LEADS`; 0 if
    /// these settings do not secure it.
    #[serde(default)]
    pub unauthorized_peers: u32,
}

/// Command line of a daemon.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DaemonCommand {
    /// Program, looked up in `PATH`.
    pub program: String,
    /// Arguments, without the program.
    pub arguments: Vec<String>,
}

/// Transport of a system; one value serves the whole process.
pub trait System: Send + Sync + 'static {
    /// A joined node.
    type Node: Node;

    /// Describes the transport; needs no daemon and no device.
    fn description(&self) -> Description;

    /// Checks if the variant can run here with these settings; starts nothing.
    ///
    /// # Errors
    /// `Unavailable`, `NoDaemon`, `Limit` or `Invalid`, with what to do.
    fn probe(&self, options: &NodeOptions) -> Result<Limits>;

    /// Command that starts its daemon; `None` if it has none. An empty `run_id` means that the host starts it now, for
    /// more than one run; otherwise it only checks that it could.
    ///
    /// # Errors
    /// If a configuration file cannot be written.
    fn daemon_command(&self, _options: &NodeOptions) -> Result<Option<DaemonCommand>> {
        Ok(None)
    }

    /// Joins the system.
    ///
    /// # Errors
    /// If it cannot join; then it leaves nothing behind.
    fn open(&self, options: &NodeOptions) -> Result<Self::Node>;
}

/// One process's end of a system. Dropping it leaves the system and frees everything; links are dropped before.
pub trait Node: Sized {
    /// Link of one topic or client.
    type Link: Link;

    /// Opens a link.
    fn link(&mut self, options: &LinkOptions) -> Result<Self::Link>;
}

/// Link of one topic or client, used by one thread at a time. Dropping it closes it.
///
/// | call | returns | time |
/// |---|---|---|
/// | `loan` | a buffer of exactly the length asked for | at once |
/// | `publish` | `false` if nothing was sent within the time-out | at most the time-out |
/// | `take` | `None` after the time-out (`block`), at once (`poll`), or earlier | at most the time-out, or until a signal |
pub trait Link: Send {
    /// Address for a peer; opaque, may be empty.
    ///
    /// # Errors
    /// If the address is unknown.
    fn address(&mut self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    /// Completes the connection, while all peers are in this call. A follower gets one peer, a leader one per follower.
    ///
    /// # Errors
    /// If it is not connected within the time-out.
    fn connect(&mut self, peers: &[Vec<u8>], timeout_ns: u64) -> Result<()>;

    /// Buffer for one message; `in_reply_to` is the request, under `call` at the follower.
    ///
    /// # Errors
    /// If there is no buffer, or `length` exceeds a limit.
    fn loan(&mut self, length: usize, in_reply_to: Option<&Message>) -> Result<Loan>;

    /// Sends a loan and takes it back, whatever the result.
    ///
    /// # Errors
    /// `Closed` if the peer is gone; any other error if it was not sent whole.
    fn publish(&mut self, loan: Loan, timeout_ns: u64) -> Result<bool>;

    /// Takes a loan back unsent.
    fn discard(&mut self, loan: Loan);

    /// Next message, by reference; the host releases it before it takes the next one.
    ///
    /// # Errors
    /// `Closed` if the peer is gone.
    fn take(&mut self, timeout_ns: u64) -> Result<Option<Message>>;

    /// Gives a message back, whose memory may be reused.
    fn release(&mut self, message: Message);
}

/// Methods of [`Link`] that call the same method of another link.
macro_rules! forward {
    ($($this:pat => $link:expr),+) => {
        fn address(&mut self) -> Result<Vec<u8>> {
            match self { $($this => $link.address()),+ }
        }

        fn connect(&mut self, peers: &[Vec<u8>], timeout_ns: u64) -> Result<()> {
            match self { $($this => $link.connect(peers, timeout_ns)),+ }
        }

        #[inline]
        fn loan(&mut self, length: usize, in_reply_to: Option<&Message>) -> Result<Loan> {
            match self { $($this => $link.loan(length, in_reply_to)),+ }
        }

        #[inline]
        fn publish(&mut self, loan: Loan, timeout_ns: u64) -> Result<bool> {
            match self { $($this => $link.publish(loan, timeout_ns)),+ }
        }

        #[inline]
        fn discard(&mut self, loan: Loan) {
            match self { $($this => $link.discard(loan)),+ }
        }

        #[inline]
        fn take(&mut self, timeout_ns: u64) -> Result<Option<Message>> {
            match self { $($this => $link.take(timeout_ns)),+ }
        }

        #[inline]
        fn release(&mut self, message: Message) {
            match self { $($this => $link.release(message)),+ }
        }
    };
}

/// Link whose type is chosen when it is opened, from any number.
impl<L: Link + ?Sized> Link for Box<L> {
    forward!(link => (**link));
}

/// Link whose type is chosen when it is opened, from two. Unlike a `Box<dyn Link>` its calls can be inlined.
pub enum EitherLink<A, B> {
    /// The first type.
    A(A),
    /// The second type.
    B(B),
}

impl<A: Link, B: Link> Link for EitherLink<A, B> {
    forward!(Self::A(link) => link, Self::B(link) => link);
}

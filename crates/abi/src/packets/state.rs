//! State of a link, and its errors.

use crate::os::os_error;
use crate::{Error, Result, Status};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum State {
    Ready,
    /// The host holds the receive buffer.
    Held,
    Closed,
}

impl State {
    #[cold]
    pub fn refuse_take(self) -> Error {
        match self {
            State::Closed => peer_gone(),
            _ => Error::failed("take before the last message was released; this transport has one receive buffer"),
        }
    }
}

/// The only peer of a link; an error if there are more or none.
pub(super) fn only_peer(peers: &[Vec<u8>]) -> Result<&[u8]> {
    match peers {
        [peer] => Ok(peer),
        _ => {
            let text = format!("this transport reaches 1 follower per link, {} given; use 1", peers.len());
            Err(Error::new(Status::Limit, text))
        }
    }
}

#[cold]
pub(super) fn peer_gone() -> Error {
    Error::closed("the peer has closed its end; see its log")
}

#[cold]
pub(super) fn too_long(length: usize, capacity: usize) -> Error {
    Error::new(Status::Limit, format!("message of {length} bytes, {capacity} at most were announced"))
}

#[cold]
pub(super) fn sent_in_part(sent: usize, length: usize, timeout_ns: u64) -> Error {
    let timeout_s = timeout_ns as f64 / 1e9;
    Error::failed(format!(
        "{sent} of {length} bytes sent, then the peer took nothing for {timeout_s} s; use a longer --loss-timeout"
    ))
}

#[cold]
pub(super) fn sent_short(sent: usize, length: usize) -> Error {
    Error::failed(format!("the system took {sent} of the {length} bytes of a packet"))
}

/// Result of a failed receive: `None` without data, or after a signal.
#[inline]
pub(super) fn nothing_received<T>(errno: i32) -> Result<Option<T>> {
    match errno {
        libc::EAGAIN | libc::EINTR => Ok(None),
        _ => Err(os_error("receiving from the peer", errno)),
    }
}

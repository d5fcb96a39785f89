//! What transports of the operating system share: ports, deadlines and settings.
//!
//! Nothing here allocates, reads a clock or makes a system call of its own while messages pass; connecting may.
#![expect(unsafe_code, reason = "the C boundary")]

mod deadline;
mod errno;
mod event_count;
mod futex;
mod settings;
mod socket;

pub use deadline::Deadline;
pub use errno::{errno, os_error};
pub use event_count::{EventCount, Waited};
pub use settings::{check, check_payload, number_or};
pub use socket::{SocketAddress, accept, bind, bind_to_address, buffer_setting, connect, internet_socket, listen};
pub use socket::{local_address, set_socket_option, socket, socket_option};

use crate::{Error, Result, Status};
use std::ffi::c_int;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Number of bytes moved, or the `errno` of the system call.
pub type Io = std::result::Result<usize, c_int>;

/// Both directions of a connection, one system call per call.
pub trait Port: Send {
    /// Sends bytes; fewer than given only on a stream.
    ///
    /// # Errors
    /// The `errno` of the system call.
    fn send(&self, bytes: &[u8]) -> Io;

    /// Receives at most as many bytes as `room` has; 0 at the end of a connection.
    ///
    /// # Errors
    /// The `errno` of the system call.
    fn receive(&self, room: &mut [u8]) -> Io;
}

impl Port for OwnedFd {
    #[inline]
    fn send(&self, bytes: &[u8]) -> Io {
        write(self.as_raw_fd(), bytes)
    }

    #[inline]
    fn receive(&self, room: &mut [u8]) -> Io {
        read(self.as_raw_fd(), room)
    }
}

/// A [`Port`] and how it is joined to its peer's.
pub trait Endpoint: Port {
    /// What the peer needs; may be empty.
    ///
    /// # Errors
    /// If the operating system does not tell.
    fn address(&mut self) -> Result<Vec<u8>>;

    /// Joins the peer, and from then on waits as the node was told.
    ///
    /// # Errors
    /// If that does not come about before the deadline.
    fn connect(&mut self, peer: &[u8], deadline: Deadline) -> Result<()>;

    /// Hears the publishers with these addresses, each of which connects to this end's, and nobody else; from then on waits
    /// as the node was told.
    ///
    /// # Errors
    /// `Limit` if it has one peer.
    fn hear_publishers(&mut self, publishers: &[Vec<u8>]) -> Result<()> {
        let count = publishers.len();
        Err(Error::new(Status::Limit, format!("this transport has 1 peer per link, {count} given; use 1")))
    }

    /// Whether the peer learns only from a last packet that this end has gone, since there is no end of file.
    fn needs_farewell(&self) -> bool {
        false
    }

    /// Makes calls return at once with `EAGAIN` instead of sleeping.
    fn stop_blocking(&self) {}

    /// Whether a receive would find something without sleeping; asked only by a send that has no room for long.
    fn has_arrived(&self) -> bool;
}

/// `write(2)`.
///
/// # Errors
/// Its `errno`.
#[inline]
pub fn write(fd: RawFd, bytes: &[u8]) -> Io {
    // SAFETY: `bytes` is readable for its length; a bad descriptor is an error of the call, not undefined.
    let sent = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
    usize::try_from(sent).map_err(|_| errno())
}

/// `read(2)`.
///
/// # Errors
/// Its `errno`.
#[inline]
pub fn read(fd: RawFd, room: &mut [u8]) -> Io {
    // SAFETY: `room` is writable for its length; a bad descriptor is an error of the call, not undefined.
    let got = unsafe { libc::read(fd, room.as_mut_ptr().cast(), room.len()) };
    usize::try_from(got).map_err(|_| errno())
}

/// Whether a receive from `fd` would not sleep, at its end of file either.
pub fn is_readable(fd: RawFd) -> bool {
    let mut entry = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid entry.
    unsafe { libc::poll(&mut entry, 1, 0) == 1 }
}

/// Sets or clears `O_NONBLOCK`.
///
/// # Errors
/// That of `fcntl(2)`.
pub fn set_nonblocking(fd: RawFd, on: bool) -> Result<()> {
    // SAFETY: F_GETFL and F_SETFL take and return integers only.
    let done = unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        let wanted = if on { flags | libc::O_NONBLOCK } else { flags & !libc::O_NONBLOCK };
        flags >= 0 && libc::fcntl(fd, libc::F_SETFL, wanted) >= 0
    };
    if done { Ok(()) } else { Err(Error::last_os("setting O_NONBLOCK")) }
}

/// Decides whether a send that did not succeed is tried again.
///
/// The clock is read after 1024 failed tries and at interruptions only, and the time-out runs from the first reading, so
/// that a send that succeeds costs nothing but itself.
pub(crate) struct Patience {
    timeout_ns: u64,
    tries: u32,
    deadline: Option<Deadline>,
}

impl Patience {
    #[inline]
    pub fn new(timeout_ns: u64) -> Self {
        Self { timeout_ns, tries: 0, deadline: None }
    }

    /// `Ok(false)`: the time-out has passed.
    #[inline]
    pub fn again(&mut self, errno: c_int) -> Result<bool> {
        match errno {
            libc::EAGAIN | libc::ENOBUFS => {
                self.tries += 1;
                if self.tries < 1024 {
                    return Ok(true);
                }
                self.tries = 0;
                Ok(self.time_left())
            }
            libc::EINTR => {
                self.tries = 0;
                Ok(self.time_left())
            }
            _ => Err(os_error("sending to the peer", errno)),
        }
    }

    /// Something went: the time-out counts from here.
    #[inline]
    pub fn renew(&mut self) {
        self.tries = 0;
        self.deadline = None;
    }

    /// Whether the latest failed try led to a look at the clock, which few do.
    #[inline]
    pub fn has_looked(&self) -> bool {
        self.tries == 0
    }

    #[cold]
    fn time_left(&mut self) -> bool {
        let timeout_ns = self.timeout_ns;
        self.deadline.get_or_insert_with(|| Deadline::after(timeout_ns)).left().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_ends_after_the_time_out_and_not_before() {
        let mut patience = Patience::new(0);
        assert!((0..1023).all(|_| patience.again(libc::EAGAIN).unwrap()));
        assert!(!patience.again(libc::EAGAIN).unwrap());
        assert!(!patience.again(libc::EINTR).unwrap());
        let mut patience = Patience::new(u64::MAX);
        assert!((0..5000).all(|_| patience.again(libc::EAGAIN).unwrap() && patience.again(libc::EINTR).unwrap()));
        assert_eq!(patience.again(libc::EPIPE).unwrap_err().status, Status::Closed);
    }
}

//! Shared parts of the operating system's transports: ports, deadlines and settings.
//!
//! While messages pass, nothing here allocates, reads a clock or makes its own system call; connecting may.
#![expect(unsafe_code, reason = "the C boundary")]

mod deadline;
mod errno;
mod event_count;
mod futex;
mod peer;
mod settings;
#[cfg(feature = "sockets")]
mod socket;

pub use deadline::Deadline;
pub use errno::{errno, os_error};
pub use event_count::{EventCount, Waited};
pub use peer::{of_peer, to_peer};
pub use settings::{check, check_payload, number_or};
#[cfg(feature = "sockets")]
pub use socket::{
    accept, bind, bind_to_address, buffer_setting, connect, internet_socket, listen, local_address, receive_buffer,
    send_buffer, set_receive_buffer, socket, socket_pair, unix_address,
};

use crate::{Error, Result, Status};
use std::ffi::c_int;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Number of bytes transferred, or the `errno` of the system call.
pub type Io = std::result::Result<usize, c_int>;

/// Both directions of a connection; each call makes one system call.
pub trait Port: Send {
    /// Sends bytes; a stream may send fewer than given. Fails with the `errno` of the system call.
    fn send(&self, bytes: &[u8]) -> Io;

    /// Receives at most as many bytes as `room` has; 0 at the end of a connection. Fails with the `errno` of the system
    /// call.
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

/// [`Port`] that connects to its peer.
pub trait Endpoint: Port {
    /// Address for the peer; may be empty.
    ///
    /// # Errors
    /// If the operating system does not report it.
    fn address(&mut self) -> Result<Vec<u8>>;

    /// Connects to the peer. Afterwards, calls wait as the node's options request.
    ///
    /// # Errors
    /// If it is not connected before the deadline.
    fn connect(&mut self, peer: &[u8], deadline: Deadline) -> Result<()>;

    /// Receives only from the publishers with these addresses, each of which connects to this end. Afterwards, calls
    /// wait as the node's options request.
    ///
    /// # Errors
    /// `Limit` if it supports only one peer.
    fn hear_publishers(&mut self, publishers: &[Vec<u8>]) -> Result<()> {
        let count = publishers.len();
        Err(Error::new(Status::Limit, format!("this transport has 1 peer per link, {count} given; use 1")))
    }

    /// True if the peer sees no end of file, so that a last packet must tell it that this end is gone.
    fn needs_farewell(&self) -> bool {
        false
    }

    /// Makes calls return at once with `EAGAIN` instead of sleeping.
    fn stop_blocking(&self) {}

    /// True if a receive would find data without sleeping; called only after many sends have found no room.
    fn has_arrived(&self) -> bool;
}

/// Calls `write(2)`; fails with its `errno`.
#[inline]
pub fn write(fd: RawFd, bytes: &[u8]) -> Io {
    // SAFETY: `bytes` is readable for its length; a bad descriptor is an error of the call, not undefined.
    let sent = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
    usize::try_from(sent).map_err(|_| errno())
}

/// Calls `read(2)`; fails with its `errno`.
#[inline]
pub fn read(fd: RawFd, room: &mut [u8]) -> Io {
    // SAFETY: `room` is writable for its length; a bad descriptor is an error of the call, not undefined.
    let got = unsafe { libc::read(fd, room.as_mut_ptr().cast(), room.len()) };
    usize::try_from(got).map_err(|_| errno())
}

/// True if a receive from `fd` would not sleep, including at its end of file.
pub fn is_readable(fd: RawFd) -> bool {
    let mut entry = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid entry.
    unsafe { libc::poll(&mut entry, 1, 0) == 1 }
}

/// Sets or clears `O_NONBLOCK` by `fcntl(2)`.
pub fn set_nonblocking(fd: RawFd, on: bool) -> Result<()> {
    // SAFETY: F_GETFL and F_SETFL take and return integers only.
    let done = unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        let wanted = if on { flags | libc::O_NONBLOCK } else { flags & !libc::O_NONBLOCK };
        flags >= 0 && libc::fcntl(fd, libc::F_SETFL, wanted) >= 0
    };
    if done { Ok(()) } else { Err(Error::last_os("setting O_NONBLOCK")) }
}

/// Decides if a failed send is retried.
///
/// The clock is read only after 1024 failed tries and after signals, so that a successful send costs nothing extra. The
/// time-out starts at the first reading.
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

    /// True to retry; `Ok(false)` after the time-out.
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

    /// Restarts the time-out after progress.
    #[inline]
    pub fn renew(&mut self) {
        self.tries = 0;
        self.deadline = None;
    }

    /// True if the latest failed try read the clock: at most one in 1024, except after signals.
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

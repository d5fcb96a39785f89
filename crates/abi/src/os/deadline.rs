//! Deadlines for connecting.
#![expect(unsafe_code, reason = "the C boundary")]

use super::errno::errno;
use crate::{Error, Result};
use std::ffi::c_int;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// Latest time for connecting.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// Deadline `timeout_ns` from now; unlimited if the clock cannot express it.
    pub fn after(timeout_ns: u64) -> Self {
        Self(Instant::now().checked_add(Duration::from_nanos(timeout_ns)))
    }

    /// Time left; `None` after the deadline, an hour if unlimited.
    pub fn left(self) -> Option<Duration> {
        match self.0 {
            None => Some(Duration::from_secs(3600)),
            Some(end) => end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()),
        }
    }

    /// Sleeps for a millisecond; `false` if the deadline has passed.
    pub fn nap(self) -> bool {
        let going_on = self.left().is_some();
        if going_on {
            std::thread::sleep(Duration::from_millis(1));
        }
        going_on
    }

    /// Sleeps until `fd` is ready for `events` of `poll(2)`.
    ///
    /// # Errors
    /// After the deadline; the text begins with `what`.
    pub fn wait(self, fd: RawFd, events: i16, what: &str) -> Result<()> {
        while let Some(left) = self.left() {
            let mut entry = libc::pollfd { fd, events, revents: 0 };
            let milliseconds = left.as_millis().clamp(1, 1000) as c_int;
            // SAFETY: one valid entry.
            match unsafe { libc::poll(&mut entry, 1, milliseconds) } {
                0 => {}
                count if count > 0 => return Ok(()),
                _ if errno() == libc::EINTR => {}
                _ => return Err(Error::last_os(what)),
            }
        }
        Err(Error::failed(format!("{what} timed out; is the peer running?")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadline_passes() {
        assert!(Deadline::after(0).left().is_none());
        assert!(!Deadline::after(0).nap());
        assert!(Deadline::after(u64::MAX).left().is_some());
    }
}

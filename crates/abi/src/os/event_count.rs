//! Sleeping on a word that another thread or process changes.
#![expect(unsafe_code, reason = "the C boundary")]

use std::io;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// How a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// Woken, or the word had changed already.
    Changed,
    /// The time-out is over, or a signal came.
    Not,
}

/// One side's event count: 1 while its owner sleeps, or is about to. `SHARED`: the word is in memory that processes share.
///
/// The owner sets it and looks again for its condition before it sleeps; the other side fulfils the condition and then
/// looks at the event count. Both orders are sequentially consistent, so that at least one of the two sees the other.
#[derive(Default)]
#[repr(transparent)]
pub struct EventCount<const SHARED: bool>(AtomicU32);

impl<const SHARED: bool> EventCount<SHARED> {
    const FLAGS: libc::c_int = if SHARED { 0 } else { libc::FUTEX_PRIVATE_FLAG };

    /// Announces a sleep; the condition must be checked once more before [`EventCount::wait`].
    #[inline]
    pub fn prepare_wait(&self) {
        self.0.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Takes the announcement back.
    #[inline]
    pub fn cancel(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Sleeps until woken, for `timeout_ns` at most.
    pub fn wait(&self, timeout_ns: u64) -> Waited {
        let timeout = libc::timespec {
            tv_sec: (timeout_ns / 1_000_000_000).min(i32::MAX as u64) as libc::time_t,
            tv_nsec: (timeout_ns % 1_000_000_000) as libc::c_long,
        };
        let operation = libc::FUTEX_WAIT | Self::FLAGS;
        // SAFETY: FUTEX_WAIT reads the word and the relative time-out, which both outlive the call.
        let result =
            unsafe { libc::syscall(libc::SYS_futex, self.0.as_ptr(), operation, 1, &raw const timeout, 0_usize, 0) };
        let changed = result == 0 || io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN);
        if changed { Waited::Changed } else { Waited::Not }
    }

    /// Wakes the owner if it sleeps; a system call only then.
    #[inline]
    pub fn notify(&self) {
        fence(Ordering::SeqCst);
        if self.0.load(Ordering::Relaxed) != 0 {
            self.call_out();
        }
    }

    #[cold]
    fn call_out(&self) {
        self.0.store(0, Ordering::Relaxed);
        // SAFETY: FUTEX_WAKE only uses the address of the word as a key.
        unsafe { libc::syscall(libc::SYS_futex, self.0.as_ptr(), libc::FUTEX_WAKE | Self::FLAGS, 1) };
    }
}

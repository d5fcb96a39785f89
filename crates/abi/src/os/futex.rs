//! Futex calls of the kernel. `tests/models` replaces this module by one that tries every order of the threads'
//! operations.

use std::io;
pub(super) use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Sleeps while the word is 1, for at most `timeout_ns`; false after the time-out or a signal.
pub(super) fn wait(word: &AtomicU32, is_shared: bool, timeout_ns: u64) -> bool {
    let timeout = libc::timespec {
        tv_sec: (timeout_ns / 1_000_000_000).min(i32::MAX as u64) as libc::time_t,
        tv_nsec: (timeout_ns % 1_000_000_000) as libc::c_long,
    };
    let operation = libc::FUTEX_WAIT | flags(is_shared);
    // SAFETY: FUTEX_WAIT reads the word and the relative time-out, which both outlive the call.
    let result = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, 1, &raw const timeout, 0_usize, 0) };
    result == 0 || io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN)
}

/// Wakes one thread that sleeps on the word.
pub(super) fn wake(word: &AtomicU32, is_shared: bool) {
    // SAFETY: FUTEX_WAKE only uses the address of the word as a key.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | flags(is_shared), 1) };
}

fn flags(is_shared: bool) -> libc::c_int {
    if is_shared { 0 } else { libc::FUTEX_PRIVATE_FLAG }
}

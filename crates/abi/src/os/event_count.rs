//! Sleeps until another thread or process changes a memory word.

use super::futex::{self, AtomicU32, Ordering, fence};

/// Outcome of a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// Woken, or the word had already changed.
    Changed,
    /// Time-out or signal.
    Not,
}

/// Event count of one side: 1 while its owner sleeps or is about to. `SHARED` if in memory shared by processes.
///
/// The owner sets it, and checks its condition again before it sleeps. The other side fulfils the condition, and then
/// checks the event count. Both orders are sequentially consistent, so that at least one side sees the other's change.
#[derive(Default)]
#[repr(transparent)]
pub struct EventCount<const SHARED: bool>(AtomicU32);

impl<const SHARED: bool> EventCount<SHARED> {
    /// Announces a sleep; check the condition again before [`EventCount::wait`].
    #[inline]
    pub fn prepare_wait(&self) {
        self.0.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Cancels the announced sleep.
    #[inline]
    pub fn cancel(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Sleeps until woken, for `timeout_ns` at most.
    pub fn wait(&self, timeout_ns: u64) -> Waited {
        if futex::wait(&self.0, SHARED, timeout_ns) { Waited::Changed } else { Waited::Not }
    }

    /// Wakes the owner if it sleeps; makes a system call only then.
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
        futex::wake(&self.0, SHARED);
    }
}

//! Sleeping on a word that another thread or process changes.

use super::futex::{self, AtomicU32, Ordering, fence};

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
        if futex::wait(&self.0, SHARED, timeout_ns) { Waited::Changed } else { Waited::Not }
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
        futex::wake(&self.0, SHARED);
    }
}

//! Atomics of a model, whose orderings can be weakened to check that the model finds the fault.

pub(crate) use crate::event_count::{EventCount, Waited};
pub(crate) use loom::sync::atomic::Ordering;
use std::cell::Cell;

/// Ordering that the program needs, and that a model leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weakened {
    /// Store of a sequence number, or of the count of returned messages.
    Release,
    /// Load of a sequence number, or of the count of returned messages.
    Acquire,
    /// Fence before a thread checks its condition again and sleeps.
    FenceOfSleeper,
    /// Fence before a thread checks for a sleeper to wake.
    FenceOfWaker,
}

thread_local! {
    /// Thread-local is enough: all threads of a model are coroutines of one thread.
    static WEAKENED: Cell<Option<Weakened>> = const { Cell::new(None) };
}

pub(crate) fn weaken(what: Option<Weakened>) {
    WEAKENED.set(what);
}

pub(crate) fn is_weakened(what: Weakened) -> bool {
    WEAKENED.get() == Some(what)
}

#[derive(Default)]
pub(crate) struct AtomicU64(loom::sync::atomic::AtomicU64);

impl AtomicU64 {
    #[track_caller]
    pub fn load(&self, order: Ordering) -> u64 {
        let is_weak = order == Ordering::Acquire && is_weakened(Weakened::Acquire);
        self.0.load(if is_weak { Ordering::Relaxed } else { order })
    }

    #[track_caller]
    pub fn store(&self, value: u64, order: Ordering) {
        let is_weak = order == Ordering::Release && is_weakened(Weakened::Release);
        self.0.store(value, if is_weak { Ordering::Relaxed } else { order });
    }
}

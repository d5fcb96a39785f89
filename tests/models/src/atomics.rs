//! Atomics of a model, whose orderings can be weakened: then the model must find the fault.

pub(crate) use crate::event_count::{EventCount, Waited};
pub(crate) use loom::sync::atomic::Ordering;
use std::cell::Cell;

/// An ordering that the program needs, and that a model leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weakened {
    /// A store of a sequence or of what was given back.
    Release,
    /// A load of one.
    Acquire,
    /// The fence before the second look of who is going to sleep.
    FenceOfSleeper,
    /// The fence before the look for a sleeper.
    FenceOfWaker,
}

thread_local! {
    /// All threads of a model are coroutines of one thread.
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

//! Sleeping and waking as in the kernel: checking the word and queuing the sleeper is one atomic step.

use crate::atomics::{Weakened, is_weakened};
pub(crate) use loom::sync::atomic::Ordering;
use loom::sync::{Condvar, Mutex};
use std::cell::Cell;

/// A futex word and its sleepers.
#[derive(Default)]
pub(crate) struct AtomicU32 {
    word: loom::sync::atomic::AtomicU32,
    /// Wakes so far.
    wakes: Mutex<u32>,
    woken: Condvar,
}

thread_local! {
    /// True if the last store announced a sleep, so that the next fence is the sleeper's.
    static ANNOUNCED: Cell<bool> = const { Cell::new(false) };
}

impl AtomicU32 {
    #[track_caller]
    pub fn load(&self, order: Ordering) -> u32 {
        self.word.load(order)
    }

    #[track_caller]
    pub fn store(&self, value: u32, order: Ordering) {
        self.word.store(value, order);
        // No other thread of the model runs before the next access.
        ANNOUNCED.set(value == 1);
    }
}

/// Executes a fence, unless it is the weakened one.
#[track_caller]
pub(crate) fn fence(order: Ordering) {
    let is_of_sleeper = ANNOUNCED.replace(false);
    let of = if is_of_sleeper { Weakened::FenceOfSleeper } else { Weakened::FenceOfWaker };
    if !is_weakened(of) {
        loom::sync::atomic::fence(order);
    }
}

/// Sleeps while the word is 1. No time passes in a model: a thread that is not woken sleeps forever, which loom
/// reports.
pub(crate) fn wait(word: &AtomicU32, _is_shared: bool, _timeout_ns: u64) -> bool {
    let wakes = word.wakes.lock().expect("no thread of a model panics");
    if word.word.load(Ordering::Relaxed) == 1 {
        let before = *wakes;
        let mut wakes = wakes;
        while *wakes == before {
            wakes = word.woken.wait(wakes).expect("no thread of a model panics");
        }
    }
    true
}

pub(crate) fn wake(word: &AtomicU32, _is_shared: bool) {
    *word.wakes.lock().expect("no thread of a model panics") += 1;
    word.woken.notify_one();
}

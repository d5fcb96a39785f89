//! Interrupts a blocking receive that is overdue, so that a transport needs no time-out of its own in its blocking call.

use super::Shared;
use crate::os::Target;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// While set, the thread is interrupted whenever a period passes in which the sequence number has not moved.
///
/// Its own thread sleeps otherwise: it wakes once per period, which is half a second or so while a cell is measured.
pub struct Interrupter {
    state: Arc<(Mutex<InterrupterState>, Condvar)>,
}

#[derive(Default)]
struct InterrupterState {
    period: Option<Duration>,
    ended: bool,
}

impl Interrupter {
    /// An alarm, not set, for `target`.
    ///
    /// # Errors
    /// If there can be no other thread.
    pub fn new(shared: Arc<Shared>, target: Target) -> io::Result<Self> {
        let state = Arc::new((Mutex::new(InterrupterState::default()), Condvar::new()));
        let watched = state.clone();
        let watch = move || watch(&watched, &shared, &target);
        // Its name tells it from threads that measure, see `os::schedule_process`.
        std::thread::Builder::new().name("interrupter".to_owned()).spawn(watch)?;
        Ok(Self { state })
    }

    /// Sets or, with `None`, clears it.
    pub fn set(&self, period: Option<Duration>) {
        self.change(|state| state.period = period);
    }

    fn change(&self, change: impl FnOnce(&mut InterrupterState)) {
        change(&mut self.state.0.lock().unwrap_or_else(PoisonError::into_inner));
        self.state.1.notify_one();
    }
}

impl Drop for Interrupter {
    fn drop(&mut self) {
        self.change(|state| state.ended = true);
    }
}

fn watch((state, changed): &(Mutex<InterrupterState>, Condvar), shared: &Shared, target: &Target) {
    const UNSET: Duration = Duration::from_secs(3600);
    let mut latest = 0;
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    while !state.ended {
        let period = state.period.unwrap_or(UNSET);
        let waited = changed.wait_timeout(state, period).unwrap_or_else(PoisonError::into_inner);
        state = waited.0;
        let sequence = shared.sequence.load(Relaxed);
        if waited.1.timed_out() && state.period.is_some() && sequence == latest {
            target.interrupt(shared.interrupt.load(Relaxed));
        }
        latest = sequence;
    }
}

//! Interrupts an overdue blocking receive, so that a transport needs no time-out in its blocking call.

use super::Shared;
use crate::os::Target;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Thread that, while armed, interrupts another one if the sequence number has not moved for a period.
///
/// It wakes once per period, which is about half a second while a cell is measured.
pub struct Interrupter {
    state: Arc<(Mutex<InterrupterState>, Condvar)>,
}

#[derive(Default)]
struct InterrupterState {
    period: Option<Duration>,
    ended: bool,
}

impl Interrupter {
    /// Interrupter of `target`, not armed.
    pub fn new(shared: Arc<Shared>, target: Target) -> io::Result<Self> {
        let state = Arc::new((Mutex::new(InterrupterState::default()), Condvar::new()));
        let watched = state.clone();
        let watch = move || watch(&watched, &shared, &target);
        // `os::schedule_process` distinguishes it by this name from threads that measure.
        std::thread::Builder::new().name("interrupter".to_owned()).spawn(watch)?;
        Ok(Self { state })
    }

    /// Arms the interrupter with a period, or disarms it with `None`.
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

//! How long another end has said nothing.

use std::time::{Duration, Instant};

/// The time since the other end has said anything, whatever it was.
pub(crate) struct Silence {
    heard: Instant,
    longest: Duration,
}

impl Silence {
    /// Begins now, and may last that long.
    pub fn of(longest: Duration) -> Self {
        Self { heard: Instant::now(), longest }
    }

    /// Begins anew if something was heard.
    pub fn note(&mut self, was_heard: bool) {
        if was_heard {
            self.heard = Instant::now();
        }
    }

    /// Whether it has lasted too long.
    pub fn is_over(&self) -> bool {
        self.heard.elapsed() > self.longest
    }
}

//! How long another end has said nothing.

use std::time::{Duration, Instant};

/// After so long a silence the other end is given up.
pub(crate) const LONGEST_SILENCE: Duration = Duration::from_secs(15);
/// Between two signs of life.
pub(crate) const SIGN_OF_LIFE: Duration = Duration::from_secs(1);

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

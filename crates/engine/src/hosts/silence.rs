//! Detection of a peer that has fallen silent.

use std::time::{Duration, Instant};

/// Silence after which a peer is given up.
pub(crate) const LONGEST_SILENCE: Duration = Duration::from_secs(15);
pub(crate) const SIGN_OF_LIFE: Duration = Duration::from_secs(1);

pub(crate) struct Silence {
    heard: Instant,
    longest: Duration,
}

impl Silence {
    pub fn new(longest: Duration) -> Self {
        Self { heard: Instant::now(), longest }
    }

    pub fn note(&mut self, was_heard: bool) {
        if was_heard {
            self.heard = Instant::now();
        }
    }

    pub fn is_over(&self) -> bool {
        self.heard.elapsed() > self.longest
    }
}

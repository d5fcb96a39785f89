//! Whether a leader that says that it lives goes on with its work.

use crate::wire::FromLeader;
use std::time::{Duration, Instant};

/// What the leader last said of its work, and since when it has said nothing else.
#[derive(Debug)]
pub(super) struct Movement {
    moves: u64,
    phase: String,
    since: Instant,
}

impl Movement {
    /// Nothing has been said yet.
    pub fn new(now: Instant) -> Self {
        Self { moves: 0, phase: String::new(), since: now }
    }

    /// A sign of life, or a phase that it is in already, is no movement.
    pub fn hear(&mut self, said: &FromLeader, now: Instant) {
        let has_moved = match said {
            FromLeader::Progress { moves, .. } => std::mem::replace(&mut self.moves, *moves) != *moves,
            FromLeader::Phase(phase) if *phase == self.phase => false,
            FromLeader::Phase(phase) => {
                self.phase.clone_from(phase);
                true
            }
            _ => true,
        };
        if has_moved {
            self.since = now;
        }
    }

    /// How long it has not moved.
    pub fn stood(&self, now: Instant) -> Duration {
        now.duration_since(self.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_of_life_alone_are_no_movement() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut movement = Movement::new(begin);
        let progress = |moves| FromLeader::Progress { samples: 0, moves };
        let phase = |name: &str| FromLeader::Phase(name.to_owned());
        movement.hear(&phase("connect"), at(1));
        movement.hear(&phase("connect"), at(2));
        movement.hear(&progress(0), at(3));
        assert_eq!(movement.stood(at(3)), Duration::from_secs(2));
        movement.hear(&progress(7), at(4));
        movement.hear(&progress(7), at(9));
        assert_eq!(movement.stood(at(9)), Duration::from_secs(5));
        movement.hear(&phase("measure"), at(10));
        assert_eq!(movement.stood(at(10)), Duration::ZERO);
    }
}

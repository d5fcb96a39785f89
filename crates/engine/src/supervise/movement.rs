//! Progress of a leader: signs of life alone do not count.

use crate::wire::FromLeader;
use std::time::{Duration, Instant};

/// Most reports that count as progress while messages and payloads stand still. A correct leader has a dozen phases.
const MOST_WORDS: u32 = 100;

/// Latest reports on the leader's work, and the time of the last change.
#[derive(Debug)]
pub(super) struct Movement {
    moves: u64,
    phase: String,
    /// Number of reports that may still count as progress.
    words_left: u32,
    since: Instant,
    /// Payload under way.
    payload_bytes: Option<u64>,
    /// Start of the payload under way, or end of the previous one.
    payload_since: Instant,
    /// Payloads that may still be started or finished.
    left: u64,
}

impl Movement {
    /// Movement before any report. Payloads are measured at most `payloads` times in all.
    pub fn new(payloads: u64, now: Instant) -> Self {
        Self {
            moves: 0,
            phase: String::new(),
            words_left: MOST_WORDS,
            since: now,
            payload_bytes: None,
            payload_since: now,
            left: payloads,
        }
    }

    /// Notes a report. Signs of life, repeated phases and repeated payloads are not progress. Nor are endless reports
    /// of anything but messages and payloads.
    pub fn hear(&mut self, said: &FromLeader, now: Instant) {
        let is_word = !matches!(
            said,
            FromLeader::Progress { .. }
                | FromLeader::CellStarted { .. }
                | FromLeader::CellFinished(_)
                | FromLeader::CellAgain(_)
        );
        let has_moved = match said {
            FromLeader::Progress { moves, .. } => std::mem::replace(&mut self.moves, *moves) != *moves,
            FromLeader::Phase(phase) if *phase == self.phase => false,
            FromLeader::Phase(phase) => {
                self.phase.clone_from(phase);
                self.words_left > 0
            }
            FromLeader::CellStarted { payload_bytes } => {
                let is_new = self.payload_bytes.is_none();
                if is_new {
                    (self.payload_bytes, self.payload_since) = (Some(*payload_bytes), now);
                }
                is_new
            }
            FromLeader::CellFinished(_) | FromLeader::CellAgain(_) => {
                let is_planned = self.left > 0;
                if is_planned {
                    (self.left, self.payload_bytes, self.payload_since) = (self.left - 1, None, now);
                }
                is_planned
            }
            _ => self.words_left > 0,
        };
        if has_moved {
            self.since = now;
            self.words_left = if is_word { self.words_left - 1 } else { MOST_WORDS };
        }
    }

    /// Time since the payload began or, between two payloads, since the previous one was finished.
    pub fn lasted(&self, now: Instant) -> Duration {
        now.duration_since(self.payload_since)
    }

    /// Time without progress.
    pub fn stood(&self, now: Instant) -> Duration {
        now.duration_since(self.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_before_the_first_payload_are_movement() {
        let begin = Instant::now();
        let later = begin + Duration::from_secs(100);
        let mut movement = Movement::new(1, begin);
        movement.hear(&FromLeader::Phase("prove its path".to_owned()), begin);
        movement.hear(&FromLeader::Progress { samples: 0, moves: 7 }, later);
        assert_eq!(movement.stood(later), Duration::ZERO);
    }

    #[test]
    fn signs_of_life_alone_are_no_movement() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut movement = Movement::new(2, begin);
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
        // Phases that change for ever.
        (11..1000).for_each(|seconds| movement.hear(&phase(&seconds.to_string()), at(seconds)));
        assert!(movement.stood(at(1000)) > Duration::from_secs(800));
        movement.hear(&progress(8), at(1001));
        movement.hear(&phase("close"), at(1002));
        assert_eq!(movement.stood(at(1002)), Duration::ZERO);
    }

    #[test]
    fn a_payload_lasts_from_its_start_to_its_end_whatever_is_said_meanwhile() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut movement = Movement::new(2, begin);
        let started = |payload_bytes| FromLeader::CellStarted { payload_bytes };
        let finished = || FromLeader::CellFinished(Box::default());
        movement.hear(&started(1024), at(1));
        for (seconds, said) in [(2, started(1024)), (3, started(2048)), (4, FromLeader::Phase("x".to_owned()))] {
            movement.hear(&said, at(seconds));
            assert_eq!(movement.lasted(at(seconds)), Duration::from_secs(seconds - 1));
        }
        movement.hear(&started(1024), at(9));
        assert_eq!(movement.stood(at(9)), Duration::from_secs(5));
        for seconds in [10, 20] {
            movement.hear(&finished(), at(seconds));
            movement.hear(&started(2048), at(seconds + 1));
            assert_eq!(movement.lasted(at(seconds + 1)), Duration::ZERO);
        }
        // More payloads than planned.
        movement.hear(&finished(), at(30));
        assert_eq!((movement.stood(at(30)).as_secs(), movement.lasted(at(30)).as_secs()), (9, 9));
    }
}

//! Time cap of a payload: it ends loops by the clock, in every pattern, and leaves time to measure after a warm-up.

use super::Error;
use super::leader::Leader;
use crate::measure::LoopEnd;
use std::sync::atomic::Ordering::Relaxed;
use tripmeter_model::cut_short::CutShort;

/// Share of the remaining time that a warm-up may take.
const WARMUP_SHARE: f64 = 0.2;

/// End of a warm-up that begins at tick `now`, if the time is over at tick `capped`.
pub(super) fn warmup_end(now: u64, capped: u64) -> u64 {
    if capped == u64::MAX { capped } else { now + (capped.saturating_sub(now) as f64 * WARMUP_SHARE) as u64 }
}

impl Leader {
    /// Tick at which the time of this attempt is over.
    pub(super) fn capped(&self) -> u64 {
        let (base, cap_ns) = (self.job.timebase, self.job.sub_experiment.time_cap_ns);
        self.attempts.left_of(cap_ns).map_or(u64::MAX, |cap| base.now() + base.to_ticks(cap))
    }

    /// Ends waits of loops in the main thread at tick `capped`; 0 for never.
    pub(super) fn give_up_at(&self, capped: u64) {
        self.shared.capped.store(capped, Relaxed);
    }

    /// Reason why a trial ended before its time; `None` if it did not.
    pub(super) fn cut_short(&self, end: LoopEnd, broken: Option<&Error>) -> Option<CutShort> {
        match (broken, end) {
            (Some(error), _) => Some(error.into()),
            (None, LoopEnd::Full) => None,
            (None, LoopEnd::Stopped) => Some(CutShort::Interrupted),
            (None, LoopEnd::Deadline) => Some(CutShort::at_cap(self.job.sub_experiment.time_cap_ns)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warmup_leaves_four_fifths_of_the_time_that_is_left() {
        assert_eq!([warmup_end(100, 1100), warmup_end(600, 1100)], [300, 700]);
        assert_eq!([warmup_end(1100, 1100), warmup_end(2000, 1100)], [1100, 2000], "nothing is left");
        assert_eq!(warmup_end(7, u64::MAX), u64::MAX, "there is no cap");
    }
}

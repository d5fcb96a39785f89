//! Time cap of a payload: it ends loops by the clock, in every pattern, and leaves time to measure after a warm-up.

use super::leader::Leader;

/// Share of the remaining time that a warm-up may take.
const WARMUP_SHARE: f64 = 0.2;

/// End of a warm-up that begins at tick `now`, if the time is over at tick `capped`.
pub(super) fn warmup_end(now: u64, capped: u64) -> u64 {
    if capped == u64::MAX { capped } else { now + (capped.saturating_sub(now) as f64 * WARMUP_SHARE) as u64 }
}

/// Tick at which the time of this attempt is over.
pub(super) fn capped(leader: &Leader) -> u64 {
    let (base, cap_ns) = (leader.job.timebase, leader.job.sub_experiment.time_cap_ns);
    leader.attempts.left_of(cap_ns).map_or(u64::MAX, |cap| base.now() + base.to_ticks(cap))
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

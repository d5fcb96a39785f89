//! Detects that the date was set during a run: libraries that wait until a date then fail, and do not say why.

use crate::results::local_time;
use std::time::{Duration, Instant, SystemTime};

/// Smallest step to report; the kernel corrects smaller ones all the time.
const STEP: Duration = Duration::from_secs(1);

/// Point in time, by the monotonic clock and by the date.
pub(super) struct Moment {
    steady: Instant,
    date: SystemTime,
}

impl Moment {
    pub(super) fn now() -> Self {
        Self { steady: Instant::now(), date: SystemTime::now() }
    }

    /// Adds to an error how far the date has moved since, if it was set.
    pub(super) fn with_step(&self, why: String) -> String {
        with_step(why, self.date + self.steady.elapsed(), SystemTime::now())
    }
}

/// Local time in the format of manifests.
pub(super) fn now() -> String {
    local_time().strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
}

fn with_step(why: String, expected: SystemTime, found: SystemTime) -> String {
    let (step, direction) = match found.duration_since(expected) {
        Ok(forward) => (forward, "forward"),
        Err(error) => (error.duration(), "back"),
    };
    if step < STEP {
        return why;
    }
    format!("{why}; meanwhile the date of this machine was set {direction} by {} s, or it slept", step.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_the_date_is_named() {
        let (now, hour) = (SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30), Duration::from_secs(3600));
        let said = |found| with_step("no answer".to_owned(), now, found);
        assert_eq!(said(now + STEP / 2), "no answer");
        assert_eq!(
            said(now + hour),
            "no answer; meanwhile the date of this machine was set forward by 3600 s, or it slept"
        );
        assert_eq!(
            said(now - hour),
            "no answer; meanwhile the date of this machine was set back by 3600 s, or it slept"
        );
    }
}

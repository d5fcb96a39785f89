//! How long a leader waits for a follower's word.

use super::{ANSWER_TIMEOUT, OPEN_TIMEOUT};
use crate::os;
use std::time::{Duration, Instant};

/// What a process is that was sent SIGSTOP.
pub(super) const STOPPED: &str = "stopped by a signal";
/// Between two signs of life.
pub(super) const SIGN_OF_LIFE: Duration = Duration::from_secs(1);
/// Longest that a follower may go on taking what was sent, in addition to the loss time-out.
const LONGEST_TAKING: Duration = Duration::from_secs(60);
/// Longest that one may take for what takes no work: others may keep it from the CPUs, and from the disk.
const LONGEST_ANSWER: Duration = Duration::from_secs(60);

/// How long a follower is waited for.
#[derive(Clone, Copy)]
pub(super) struct FollowerPatience {
    /// While its process does nothing, though it could.
    pub(super) still: Duration,
    /// In all.
    pub(super) whole: Duration,
    /// What it has not done then, for people.
    pub(super) what: &'static str,
}

impl FollowerPatience {
    /// For an answer that takes no work.
    pub(super) const ANSWER: Self = Self { still: ANSWER_TIMEOUT, whole: LONGEST_ANSWER, what: "did not answer" };
    /// For a side of a transport to open, or to be connected.
    pub(super) const OPENING: Self = Self { still: OPEN_TIMEOUT, whole: OPEN_TIMEOUT, what: "did not answer" };

    /// Until it has taken what was sent: one that waits for messages wakes at every time-out of a call.
    pub(super) fn taking(loss_timeout_ns: u64) -> Self {
        let loss_timeout = Duration::from_nanos(loss_timeout_ns);
        let what = "was still taking messages";
        Self { still: ANSWER_TIMEOUT + loss_timeout, whole: LONGEST_TAKING + loss_timeout, what }
    }

    /// The same after a failure.
    pub(super) fn taking_after_failure(loss_timeout_ns: u64) -> Self {
        let taking = Self::taking(loss_timeout_ns);
        Self { whole: taking.still, ..taking }
    }
}

/// How long a process has used no CPU time, and not waited for a CPU or a disk.
pub(super) struct Stillness {
    pid: u32,
    used_ns: Option<u64>,
    since: Instant,
}

impl Stillness {
    pub(super) fn of(pid: u32) -> Self {
        Self { pid, used_ns: os::process_cpu_ns(pid), since: Instant::now() }
    }

    /// How long it has stood still by now; nothing if that is not known.
    pub(super) fn look(&mut self) -> Duration {
        let used_ns = os::process_cpu_ns(self.pid);
        if used_ns.is_none() || used_ns != self.used_ns || os::is_kept_waiting(self.pid) {
            *self = Self { used_ns, since: Instant::now(), ..*self };
        }
        self.since.elapsed()
    }

    /// What is known of the cause.
    pub(super) fn why(&self) -> String {
        if os::is_stopped(self.pid) { format!(" ({STOPPED})") } else { String::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_that_sleeps_stands_still_and_one_that_works_does_not() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let mut asleep = Stillness::of(child.id());
        let mut own = Stillness::of(std::process::id());
        // Until it sleeps, it starts.
        while asleep.look() < Duration::from_millis(200) {
            std::thread::sleep(Duration::from_millis(50));
        }
        let begin = own.since;
        own.look();
        assert!(own.since > begin && asleep.why().is_empty());
        os::signal(&os::ProcessIdentity::of(child.id()).unwrap(), os::Signal::STOP);
        while asleep.why().is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(asleep.look() < Duration::from_millis(200), "of one that has ended nothing is known");
    }
}

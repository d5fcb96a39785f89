//! Time limits for a follower's answer.

use crate::os;
use std::time::{Duration, Instant};

/// Longest wait for the other side while it opens or connects a transport.
pub const OPEN_TIMEOUT: Duration = Duration::from_secs(35);
/// Longest wait for an answer that takes no work, while the other side gets CPU and disk.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// State of a process after SIGSTOP, for errors.
pub(super) const STOPPED: &str = "stopped by a signal";
pub(super) const SIGN_OF_LIFE: Duration = Duration::from_secs(1);
/// Longest time that a follower takes messages already sent, plus the loss time-out.
const LONGEST_TAKING: Duration = Duration::from_secs(60);
/// Longest time for an answer that takes no work, as other programs may keep CPUs and disk busy.
const LONGEST_ANSWER: Duration = Duration::from_secs(60);

#[derive(Clone, Copy)]
pub(super) struct FollowerPatience {
    /// Limit while the follower's process is idle, and waits for neither CPU nor disk.
    pub(super) still: Duration,
    /// Limit in total.
    pub(super) whole: Duration,
    /// Description of the overdue step, for errors.
    pub(super) what: &'static str,
}

impl FollowerPatience {
    /// Limits for an answer that takes no work.
    pub(super) const ANSWER: Self = Self { still: ANSWER_TIMEOUT, whole: LONGEST_ANSWER, what: "did not answer" };
    /// Limits for a side of a transport to open or connect.
    pub(super) const OPENING: Self = Self { still: OPEN_TIMEOUT, whole: OPEN_TIMEOUT, what: "did not answer" };

    /// Limits for taking messages already sent: a follower that waits for messages wakes at every time-out of a call.
    pub(super) fn taking(loss_timeout_ns: u64) -> Self {
        let loss_timeout = Duration::from_nanos(loss_timeout_ns);
        let what = "was still taking messages";
        Self { still: ANSWER_TIMEOUT + loss_timeout, whole: LONGEST_TAKING + loss_timeout, what }
    }

    pub(super) fn taking_after_failure(loss_timeout_ns: u64) -> Self {
        let taking = Self::taking(loss_timeout_ns);
        Self { whole: taking.still, ..taking }
    }
}

/// Time in which a process has used no CPU time, and not waited for a CPU or a disk.
pub(super) struct Stillness {
    pid: u32,
    used_ns: Option<u64>,
    since: Instant,
}

impl Stillness {
    pub(super) fn new(pid: u32) -> Self {
        Self { pid, used_ns: os::process_cpu_ns(pid), since: Instant::now() }
    }

    /// Time without activity so far; zero if unknown.
    pub(super) fn look(&mut self) -> Duration {
        let used_ns = os::process_cpu_ns(self.pid);
        if used_ns.is_none() || used_ns != self.used_ns || os::is_kept_waiting(self.pid) {
            *self = Self { used_ns, since: Instant::now(), ..*self };
        }
        self.since.elapsed()
    }

    /// Known cause, as text for an error.
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
        let mut asleep = Stillness::new(child.id());
        let mut own = Stillness::new(std::process::id());
        // It uses CPU time until it sleeps.
        while asleep.look() < Duration::from_millis(200) {
            std::thread::sleep(Duration::from_millis(50));
        }
        let begin = own.since;
        own.look();
        assert!(own.since > begin && asleep.why().is_empty());
        os::signal(&os::ProcessIdentity::from_pid(child.id()).unwrap(), os::Signal::STOP);
        while asleep.why().is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(asleep.look() < Duration::from_millis(200), "of one that has ended nothing is known");
    }
}

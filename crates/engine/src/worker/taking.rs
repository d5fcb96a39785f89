//! What the leader hears while its follower still takes what was sent.

use super::leader::Leader;
use super::{ANSWER_TIMEOUT, Error, Result};
use crate::os;
use crate::wire::{FromFollower, FromLeader, Report};
use std::time::{Duration, Instant};

/// Between two signs of life.
pub(super) const SIGN_OF_LIFE: Duration = Duration::from_secs(1);
/// Longest that a follower may go on taking what was sent, besides the loss time-out.
pub(super) const LONGEST_TAKING: Duration = Duration::from_secs(60);

impl Leader {
    /// The follower's report, once it has taken what was sent; signs of life for the supervisor until then.
    ///
    /// # Errors
    /// If it does not come in time, or the follower's process does nothing for [`ANSWER_TIMEOUT`] and the loss time-out: one
    /// that waits for messages wakes at every time-out of a call.
    pub(super) fn hear_taken(&mut self, patience: Duration) -> Result<Report> {
        let most_still = ANSWER_TIMEOUT + Duration::from_nanos(self.job.loss_timeout_ns);
        let begin = Instant::now();
        let mut stillness = self.controls[0].peer_pid().map(Stillness::of);
        loop {
            match self.hear_within(0, SIGN_OF_LIFE)? {
                Some(FromFollower::Report(report)) => return Ok(*report),
                Some(_) => return Err(Error::Failed("the follower's messages are out of order".to_owned())),
                None => {}
            }
            let still = stillness.as_mut().map_or(Duration::ZERO, Stillness::look);
            if still > most_still {
                let (seconds, why) = (still.as_secs(), stillness.as_ref().map_or("", Stillness::why));
                return Err(self.failed(&format!(
                    "the follower stands still: it has said nothing for {seconds} s, and its process did nothing{why}"
                )));
            }
            if begin.elapsed() > patience {
                let seconds = patience.as_secs();
                let why = format!("the follower was still taking messages {seconds} s after the last was sent");
                return Err(Error::Failed(why));
            }
            self.report(&FromLeader::Progress { samples: 0, moves: 0 });
        }
    }
}

/// How long a process has used no CPU time.
struct Stillness {
    pid: u32,
    used_ns: Option<u64>,
    since: Instant,
}

impl Stillness {
    fn of(pid: u32) -> Self {
        Self { pid, used_ns: os::process_cpu_ns(pid), since: Instant::now() }
    }

    /// How long it has stood still by now; nothing if that is not known.
    fn look(&mut self) -> Duration {
        let used_ns = os::process_cpu_ns(self.pid);
        if used_ns.is_none() || used_ns != self.used_ns {
            *self = Self { used_ns, since: Instant::now(), ..*self };
        }
        self.since.elapsed()
    }

    /// What is known of the cause.
    fn why(&self) -> &'static str {
        if os::is_stopped(self.pid) { " (stopped by a signal)" } else { "" }
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

//! Distinguishes a silent worker that gets no CPU from one that hangs.

use crate::os;
use procfs::process::Process;

/// Fewest checks for a verdict.
const FEWEST_LOOKS: u32 = 3;

/// Checks of a worker since its last report.
#[derive(Debug, Default)]
pub(super) struct CpuWait {
    /// CPU time at the last check, in nanoseconds.
    used: Option<u64>,
    looks: u32,
    /// Checks at which a thread was ready to run, while all had used no CPU time since the check before.
    waited: u32,
}

impl CpuWait {
    /// Checks this process, if it exists.
    pub fn look(&mut self, pid: u32) {
        let Ok(process) = i32::try_from(pid).map_err(drop).and_then(|pid| Process::new(pid).map_err(drop)) else {
            return;
        };
        let is_ready = process
            .tasks()
            .is_ok_and(|tasks| tasks.flatten().filter_map(|task| task.stat().ok()).any(|thread| thread.state == 'R'));
        // Ticks miss a thread that runs between them.
        if let Some(used_ns) = os::process_cpu_ns(pid) {
            self.note(used_ns, is_ready);
        }
    }

    fn note(&mut self, used: u64, is_ready: bool) {
        if let Some(before) = self.used.replace(used) {
            self.looks += 1;
            self.waited += u32::from(is_ready && before == used);
        }
    }

    /// True if it waited for a CPU at most checks.
    pub fn is_starved(&self) -> bool {
        self.looks >= FEWEST_LOOKS && 2 * self.waited > self.looks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_worker_that_is_ready_and_uses_nothing_is_starved() {
        let after = |looks: &[(u64, bool)]| {
            let mut wait = CpuWait::default();
            looks.iter().for_each(|&(used, is_ready)| wait.note(used, is_ready));
            wait.is_starved()
        };
        assert!(after(&[(7, true); 4]));
        assert!(after(&[(7, false), (7, true), (7, true), (8, true)]));
        // Too few checks; asleep; spinning; running at most checks.
        assert!(!after(&[(7, true); 3]) && !after(&[(7, false); 9]));
        assert!(!after(&[(7, true), (8, true), (9, true), (10, true)]));
        assert!(!after(&[(7, true), (7, true), (8, true), (9, true)]));
    }

    #[test]
    fn a_process_that_sleeps_is_not_starved_and_one_that_is_gone_is_none() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        // It uses a CPU until it sleeps, and may have to wait for one.
        let state = || Process::new(child.id() as i32).unwrap().stat().unwrap();
        while state().state != 'S' || state().comm != "sleep" {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let mut wait = CpuWait::default();
        (0..6).for_each(|_| wait.look(child.id()));
        assert!(wait.looks >= FEWEST_LOOKS && !wait.is_starved(), "{wait:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        let mut wait = CpuWait::default();
        wait.look(child.id());
        assert_eq!((wait.looks, wait.used), (0, None));
    }
}

//! Distinguishes a silent worker that gets no CPU from one that hangs.

use crate::os;
use procfs::process::Process;
use std::collections::BTreeMap;

/// Fewest checks for a verdict.
const FEWEST_LOOKS: u32 = 3;

/// Checks of a worker since its last report.
#[derive(Debug, Default)]
pub(super) struct CpuWait {
    last: Option<CpuReading>,
    looks: u32,
    /// Checks at which a thread waited for a CPU.
    waited: u32,
}

#[derive(Debug)]
struct CpuReading {
    /// CPU time of all threads, in nanoseconds.
    used_ns: u64,
    /// CPU time of each thread that is ready to run, where the kernel tells it. It may lag by a tick.
    ready_ns: BTreeMap<i32, Option<u64>>,
}

impl CpuWait {
    /// Checks process `pid`, if it exists. A worker may be silent because one of its threads gets no CPU.
    pub fn look(&mut self, pid: u32) {
        let Some(tasks) = i32::try_from(pid).ok().and_then(|pid| Process::new(pid).ok()?.tasks().ok()) else { return };
        let ready = tasks.flatten().filter(|task| task.stat().is_ok_and(|thread| thread.state == 'R'));
        let ready_ns =
            ready.map(|task| (task.tid, task.schedstat().ok().map(|times| times.sum_exec_runtime))).collect();
        if let Some(used_ns) = os::process_cpu_ns(pid) {
            self.note(CpuReading { used_ns, ready_ns });
        }
    }

    fn note(&mut self, now: CpuReading) {
        if let Some(before) = &self.last {
            self.looks += 1;
            let has_waited = |(id, ns): (&i32, &Option<u64>)| ns.is_some() && before.ready_ns.get(id) == Some(ns);
            let have_all_waited = !now.ready_ns.is_empty() && before.used_ns == now.used_ns;
            let has_one_waited = now.ready_ns.len() > 1 && now.ready_ns.iter().any(has_waited);
            self.waited += u32::from(have_all_waited || has_one_waited);
        }
        self.last = Some(now);
    }

    /// True if a thread waited for a CPU at more than half of the checks.
    pub fn is_starved(&self) -> bool {
        self.looks >= FEWEST_LOOKS && 2 * self.waited > self.looks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_worker_with_a_thread_that_is_ready_and_uses_nothing_is_starved() {
        let of_threads = |looks: &[&[(u64, bool)]]| {
            let mut wait = CpuWait::default();
            for threads in looks {
                let used_ns = threads.iter().map(|thread| thread.0).sum();
                let ready = (7..).zip(*threads).filter(|(_, thread)| thread.1);
                wait.note(CpuReading { used_ns, ready_ns: ready.map(|(id, thread)| (id, Some(thread.0))).collect() });
            }
            wait.is_starved()
        };
        let after = |looks: &[(u64, bool)]| of_threads(&looks.iter().map(std::slice::from_ref).collect::<Vec<_>>());
        assert!(after(&[(7, true); 4]));
        assert!(after(&[(7, false), (7, true), (7, true), (8, true)]));
        // Too few checks; asleep; spinning; running at most checks.
        assert!(!after(&[(7, true); 3]) && !after(&[(7, false); 9]));
        assert!(!after(&[(7, true), (8, true), (9, true), (10, true)]));
        assert!(!after(&[(7, true), (7, true), (8, true), (9, true)]));
        // One of two threads gets no CPU; both run in turn; one runs while the other sleeps.
        assert!(of_threads(&[
            &[(7, true), (1, true)],
            &[(7, true), (2, true)],
            &[(7, true), (3, true)],
            &[(7, true), (4, true)]
        ]));
        assert!(!of_threads(&[
            &[(7, true), (1, true)],
            &[(8, true), (2, true)],
            &[(9, true), (3, true)],
            &[(9, false), (4, true)]
        ]));
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
        assert!(wait.looks == 0 && wait.last.is_none());
    }
}

//! Distinguishes a silent worker that gets no CPU from one that hangs.

use procfs::process::Process;
use std::collections::BTreeMap;

/// Fewest checks for a verdict.
const FEWEST_LOOKS: u32 = 3;

/// Checks of a worker since its last report.
#[derive(Debug, Default)]
pub(super) struct CpuWait {
    /// Threads at the last check, by thread ID.
    threads: BTreeMap<i32, Thread>,
    looks: u32,
    /// Checks at which a thread was ready to run, but had not run since the check before.
    waited: u32,
}

#[derive(Clone, Copy, Debug)]
struct Thread {
    is_ready: bool,
    cpu_time_ns: u64,
}

impl CpuWait {
    /// Checks process `pid`, if it exists. A worker may be silent because one of its threads gets no CPU.
    pub fn look(&mut self, pid: u32) {
        let Some(tasks) = i32::try_from(pid).ok().and_then(|pid| Process::new(pid).ok()?.tasks().ok()) else { return };
        let threads = tasks.flatten().filter_map(|task| {
            // CPU time in `stat` is in ticks, which miss a thread that runs between them.
            let cpu_time_ns = task.schedstat().ok()?.sum_exec_runtime;
            Some((task.tid, Thread { is_ready: task.stat().ok()?.state == 'R', cpu_time_ns }))
        });
        self.note(threads.collect());
    }

    fn note(&mut self, threads: BTreeMap<i32, Thread>) {
        if threads.is_empty() {
            return;
        }
        if !self.threads.is_empty() {
            self.looks += 1;
            let has_not_run = |(id, now): (&i32, &Thread)| {
                now.is_ready && self.threads.get(id).is_some_and(|before| before.cpu_time_ns == now.cpu_time_ns)
            };
            self.waited += u32::from(threads.iter().any(has_not_run));
        }
        self.threads = threads;
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
                let thread = |&(cpu_time_ns, is_ready): &(u64, bool)| Thread { is_ready, cpu_time_ns };
                wait.note((7..).zip(threads.iter().map(thread)).collect());
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
        assert!(wait.looks == 0 && wait.threads.is_empty());
    }
}

//! Jobs in parallel, at most one per host.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Condvar, Mutex, PoisonError};

struct WaitingJobs<'a, J> {
    waiting: Vec<&'a J>,
    busy: BTreeSet<String>,
}

/// Runs all jobs, at most `most` at once, and never two on the same host. The first job whose hosts are free starts
/// next. None starts once `stop` is set.
pub fn take_turns<J: Sync>(
    jobs: &[J],
    most: usize,
    stop: &AtomicBool,
    hosts_of: impl Fn(&J) -> Vec<String> + Sync,
    work: impl Fn(&J) + Sync,
) {
    let turns = Mutex::new(WaitingJobs { waiting: jobs.iter().collect(), busy: BTreeSet::new() });
    let changed = Condvar::new();
    let next = || {
        let mut turns = turns.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if turns.waiting.is_empty() || stop.load(Relaxed) {
                return None;
            }
            let is_free = |job: &&J| !hosts_of(job).iter().any(|host| turns.busy.contains(host));
            if let Some(place) = turns.waiting.iter().position(is_free) {
                let job = turns.waiting.remove(place);
                turns.busy.extend(hosts_of(job));
                return Some(job);
            }
            turns = changed.wait(turns).unwrap_or_else(PoisonError::into_inner);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..most.min(jobs.len()) {
            scope.spawn(|| {
                while let Some(job) = next() {
                    work(job);
                    let mut turns = turns.lock().unwrap_or_else(PoisonError::into_inner);
                    for host in hosts_of(job) {
                        turns.busy.remove(&host);
                    }
                    drop(turns);
                    changed.notify_all();
                }
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    fn pairs(hosts: usize) -> Vec<[usize; 2]> {
        (0..hosts).flat_map(|a| (a + 1..hosts).map(move |b| [a, b])).collect()
    }

    fn names(pair: &[usize; 2]) -> Vec<String> {
        pair.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn all_jobs_are_done_and_no_host_has_two_at_once() {
        let (jobs, stop) = (pairs(7), AtomicBool::new(false));
        let busy: Vec<AtomicUsize> = (0..7).map(|_| AtomicUsize::new(0)).collect();
        let (now, most, done) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        take_turns(&jobs, 3, &stop, names, |pair| {
            most.fetch_max(now.fetch_add(1, Relaxed) + 1, Relaxed);
            for host in pair {
                assert_eq!(busy[*host].fetch_add(1, Relaxed), 0, "host {host} is busy");
            }
            std::thread::yield_now();
            for host in pair {
                busy[*host].fetch_sub(1, Relaxed);
            }
            now.fetch_sub(1, Relaxed);
            done.fetch_add(1, Relaxed);
        });
        assert!(done.into_inner() == 21 && most.into_inner() <= 3);
    }

    #[test]
    fn jobs_that_share_no_host_are_done_at_once() {
        let barrier = std::sync::Barrier::new(2);
        take_turns(&[[0, 1], [0, 2], [2, 3], [1, 3]], 2, &AtomicBool::new(false), names, |_| {
            // Each job waits for another one.
            barrier.wait();
        });
    }

    #[test]
    fn nothing_begins_once_it_is_stopped() {
        let (stop, done) = (AtomicBool::new(false), AtomicUsize::new(0));
        take_turns(&pairs(4), 1, &stop, names, |_| {
            done.fetch_add(1, Relaxed);
            stop.store(true, Relaxed);
        });
        assert_eq!(done.into_inner(), 1);
    }
}

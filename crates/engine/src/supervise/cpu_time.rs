//! CPU time of a measuring process, read by the supervisor, so that the process spends no time on it.

use crate::clock::monotonic_ns;
use crate::os;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tripmeter_model::figure::Figure;
use tripmeter_model::manifest::PayloadResult;
use tripmeter_model::metric::{Process, Stream};

const PERIOD: Duration = Duration::from_millis(100);

/// Reading: CLOCK_MONOTONIC, and CPU time so far, both in nanoseconds.
type CpuTimeReading = (u64, u64);

/// Thread that reads the CPU time every 100 ms, until it is dropped or the process has ended.
pub(super) struct CpuTimeWatch {
    looks: Arc<Mutex<Vec<CpuTimeReading>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl CpuTimeWatch {
    /// Starts to watch process `pid`; `None` if the thread cannot be started.
    pub(super) fn watch(pid: u32) -> Option<Self> {
        let (looks, stop) = (Arc::<Mutex<Vec<CpuTimeReading>>>::default(), Arc::<AtomicBool>::default());
        let (noted, stopped) = (looks.clone(), stop.clone());
        let look = move || {
            while !stopped.load(Relaxed) {
                let Some(used) = os::process_cpu_ns(pid) else { return };
                noted.lock().unwrap_or_else(PoisonError::into_inner).push((monotonic_ns(), used));
                std::thread::park_timeout(PERIOD);
            }
        };
        let thread = std::thread::Builder::new().name("cpu-time".to_owned()).spawn(look).ok()?;
        Some(Self { looks, stop, thread: Some(thread) })
    }

    /// Peak CPU use between two readings within that time, in percent of one core; `None` without two readings. Forgets earlier
    /// readings.
    pub(super) fn most_percent(&self, begin_ns: u64, end_ns: u64) -> Option<f64> {
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        looks.retain(|look| look.0 >= begin_ns);
        most_percent(&looks, end_ns)
    }
}

impl Drop for CpuTimeWatch {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread cannot panic, and returns nothing.
            let _ = thread.join();
        }
    }
}

fn most_percent(looks: &[CpuTimeReading], end_ns: u64) -> Option<f64> {
    let within = looks.windows(2).filter(|pair| pair[1].0 <= end_ns && pair[1].0 > pair[0].0);
    let share = |pair: &[CpuTimeReading]| (pair[1].1 - pair[0].1) as f64 * 100.0 / (pair[1].0 - pair[0].0) as f64;
    within.map(share).reduce(f64::max)
}

/// CPU time of a leader under pattern `log`, read by the supervisor.
pub(super) struct LoggerWatch {
    /// Readings; `None` under other patterns, or if the thread cannot be started.
    pub cpu_time: Option<CpuTimeWatch>,
    /// Start and end of the logger's use, in nanoseconds of CLOCK_MONOTONIC.
    pub used: (u64, u64),
}

impl LoggerWatch {
    /// Adds the leader's CPU peak to the cell of a logger.
    pub(super) fn put(&self, cell: &mut PayloadResult) {
        let Some((trial, seen)) = cell.trials.first_mut().zip(self.cpu_time.as_ref()) else { return };
        let ((begin_ns, end_ns), leader) = (self.used, Stream::process(Process::Leader));
        let used = |figure| trial.value(&leader, figure).unwrap_or(0.0);
        let all = used(Figure::CpuTime) / used(Figure::Window).max(1.0);
        let most = seen.most_percent(begin_ns, end_ns).map(|most| most / 100.0);
        trial.put(&leader, Figure::CpuPeak, most.unwrap_or(all).max(all));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_of_all_periods_within_the_time() {
        let looks = [(0, 0), (100, 10), (200, 90), (300, 100), (400, 200)];
        assert_eq!(most_percent(&looks, 400), Some(100.0));
        assert_eq!(most_percent(&looks, 399), Some(80.0));
        assert_eq!(most_percent(&looks[1..], 199), None);
        assert_eq!(most_percent(&[], 100), None);
    }

    #[test]
    fn a_process_that_works_is_seen_and_one_that_has_ended_is_not() {
        let watched = CpuTimeWatch::watch(std::process::id()).unwrap();
        let begin = monotonic_ns();
        while watched.looks.lock().unwrap().len() < 4 {
            std::hint::black_box(os::process_cpu_ns(std::process::id()));
        }
        assert!(watched.most_percent(begin, monotonic_ns()).unwrap() > 0.0);
        assert_eq!(os::process_cpu_ns(u32::MAX), None);
    }
}

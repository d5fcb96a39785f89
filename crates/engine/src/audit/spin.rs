//! Hiccup spin: one thread per CPU does nothing but read the clock. A gap between two readings means that something
//! else ran there.

use super::process;
use crate::clock::{Clock, ClockSource, Monotonic, Timebase, Tsc};
use crate::os;
use hdrhistogram::Histogram;
use std::thread::Builder;
use std::time::Duration;
use tripmeter_model::audit::{Hiccups, ProcessActivity};
use tripmeter_model::manifest::ClockInfo;

/// Shortest gap that counts as a hiccup.
const THRESHOLD_NS: u64 = 1000;
/// Threshold as a number of clock readings: some clocks are slow to read.
const THRESHOLD_READINGS: f64 = 20.0;
/// Largest gap that the histogram resolves.
const LONGEST_NS: u64 = 600_000_000_000;

pub(super) fn spin(
    cpus: &[usize],
    duration: Duration,
    timebase: &Timebase,
    clock: &ClockInfo,
) -> (Vec<Hiccups>, Vec<ProcessActivity>) {
    let readings_ns = clock.read_cost_ns.max(clock.granularity_ns) * THRESHOLD_READINGS;
    let threshold_ns = THRESHOLD_NS.max(readings_ns as u64);
    let one = |cpu: usize| {
        let not_bound = os::pin_thread(cpu).err().map(|error| error.to_string());
        let mut hiccups = match timebase.source {
            ClockSource::Tsc => gaps(&Tsc, timebase, duration, threshold_ns),
            ClockSource::Monotonic => gaps(&Monotonic, timebase, duration, threshold_ns),
        };
        (hiccups.cpu, hiccups.not_bound) = (cpu, not_bound);
        (hiccups, process::this_thread(&format!("spin on CPU {cpu}"), os::Whose::Thread))
    };
    std::thread::scope(|scope| {
        // A thread that does not start is missing from the result.
        let start = |cpu: usize| Builder::new().spawn_scoped(scope, move || one(cpu)).ok();
        let threads: Vec<_> = cpus.iter().filter_map(|&cpu| start(cpu)).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).unzip()
    })
}

fn gaps(clock: &impl Clock, timebase: &Timebase, duration: Duration, threshold_ns: u64) -> Hiccups {
    let mut histogram = Histogram::<u64>::new_with_bounds(1, LONGEST_NS, 3).expect("the bounds are in order");
    let (threshold, ticks) = (timebase.to_ticks(threshold_ns), timebase.to_ticks(duration.as_nanos() as u64));
    let (mut gaps, mut longest, mut lost) = (0, 0, 0);
    let start = clock.now();
    let mut previous = start;
    while previous - start < ticks {
        let now = clock.now();
        let gap = now.saturating_sub(previous);
        if gap > threshold {
            gaps += 1;
            longest = longest.max(gap);
            lost += gap;
            histogram.saturating_record(timebase.to_ns(gap).max(1));
        }
        previous = now.max(previous);
    }
    let max_ns = timebase.to_ns(longest);
    Hiccups {
        cpu: 0,
        duration_ns: timebase.to_ns(previous - start),
        threshold_ns,
        gaps,
        p99_ns: if gaps == 0 { 0 } else { histogram.value_at_quantile(0.99).min(max_ns) },
        max_ns,
        lost_ns: timebase.to_ns(lost),
        not_bound: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Clock that advances by 10 a reading, and by the given number at each stall.
    struct Scripted {
        reading: Cell<u64>,
        now: Cell<u64>,
        stalls: &'static [(u64, u64)],
    }

    impl Clock for Scripted {
        fn now(&self) -> u64 {
            let reading = self.reading.replace(self.reading.get() + 1);
            let stall = self.stalls.iter().find(|(at, _)| *at == reading).map_or(10, |(_, ns)| *ns);
            self.now.set(self.now.get() + stall);
            self.now.get()
        }
    }

    #[test]
    fn every_stall_is_found_and_nothing_else() {
        let stalls = &[(3, 5000), (50, 1000), (70, 2000), (90, 40_000)];
        let clock = Scripted { reading: Cell::new(0), now: Cell::new(0), stalls };
        let seen = gaps(&clock, &Timebase::NANOSECONDS, Duration::from_micros(100), 1000);
        assert_eq!((seen.gaps, seen.max_ns, seen.lost_ns), (3, 40_000, 47_000));
        assert_eq!(seen.p99_ns, 40_000);
        assert!(seen.duration_ns >= 100_000, "{seen:?}");
        let clock = Scripted { reading: Cell::new(0), now: Cell::new(0), stalls: &[] };
        let seen = gaps(&clock, &Timebase::NANOSECONDS, Duration::from_micros(100), 1000);
        assert_eq!((seen.gaps, seen.p99_ns, seen.max_ns, seen.lost_ns), (0, 0, 0, 0));
    }
}

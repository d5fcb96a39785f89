//! CPU cycles and instructions of this process.

use perf_event::events::{Event, Hardware};
use perf_event::{Builder, Counter};
use rustix::io::Errno;
use std::{fs, io};

/// Counters of all threads of this process, and of threads that they start.
pub struct CpuCounters {
    counters: [Vec<Counter>; 2],
    has_kernel: bool,
}

impl CpuCounters {
    /// Starts counting, including the kernel if that is permitted.
    pub fn of_process() -> io::Result<Self> {
        let open = |has_kernel| Self::open([Hardware::CPU_CYCLES, Hardware::INSTRUCTIONS], has_kernel);
        open(true).or_else(|error| if is_refused(&error) { open(false) } else { Err(error) })
    }

    fn open<E: Event + Clone>(events: [E; 2], has_kernel: bool) -> io::Result<Self> {
        let mut opened = Self { counters: [Vec::new(), Vec::new()], has_kernel };
        for thread in fs::read_dir("/proc/self/task")? {
            let name = thread?.file_name();
            let Some(thread) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
            for (event, counters) in events.iter().zip(&mut opened.counters) {
                let mut builder = Builder::new(event.clone());
                builder.observe_pid(thread).any_cpu().inherit(true).exclude_kernel(!has_kernel);
                match builder.build() {
                    Ok(mut counter) => {
                        counter.enable()?;
                        counters.push(counter);
                    }
                    // The thread has just ended.
                    Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(opened)
    }

    pub fn read(&mut self) -> io::Result<(u64, u64)> {
        let [cycles, instructions] = &mut self.counters;
        Ok((sum(cycles)?, sum(instructions)?))
    }

    /// True if the kernel can be counted too; the error has reason and fix.
    pub fn check() -> Result<bool, String> {
        Self::of_process().map(|counters| counters.has_kernel).map_err(|error| refusal(&error))
    }
}

/// Sum of the counters. A multiplexed counter is scaled to the whole time.
fn sum(counters: &mut [Counter]) -> io::Result<u64> {
    let mut total = 0;
    for counter in counters {
        let read = counter.read_count_and_time()?;
        if read.time_running > 0 {
            total += (u128::from(read.count) * u128::from(read.time_enabled) / u128::from(read.time_running)) as u64;
        } else if read.time_enabled > 0 {
            return Err(io::Error::other("the counters were in use by others"));
        }
    }
    Ok(total)
}

fn is_refused(error: &io::Error) -> bool {
    [Errno::ACCESS, Errno::PERM].map(|errno| Some(errno.raw_os_error())).contains(&error.raw_os_error())
}

fn refusal(error: &io::Error) -> String {
    const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";
    if is_refused(error) {
        let level = fs::read_to_string(PARANOID).map_or_else(|_| "unknown".to_owned(), |level| level.trim().to_owned());
        return format!(
            "the kernel refuses perf_event_open (kernel.perf_event_paranoid is {level}); \
             `sudo sysctl kernel.perf_event_paranoid=1` allows it; in a container, so must its seccomp profile"
        );
    }
    let is = |errno: Errno| error.raw_os_error() == Some(errno.raw_os_error());
    if is(Errno::NOENT) || is(Errno::OPNOTSUPP) || is(Errno::NODEV) {
        return "this CPU shows no counters, as in most virtual machines; measure on the host, or give the guest a \
                virtual PMU (KVM: `-cpu host,pmu=on`)"
            .to_owned();
    }
    if is(Errno::NOSYS) {
        return "this kernel has no perf_event_open; one with CONFIG_PERF_EVENTS has".to_owned();
    }
    format!("perf_event_open failed: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf_event::events::Software;
    use std::sync::Barrier;

    fn work() {
        (0..1_000_000_u64).for_each(|step| {
            std::hint::black_box(step);
        });
    }

    #[test]
    fn counters_count_or_say_why_not() {
        match CpuCounters::of_process() {
            Ok(mut counters) => {
                let before = counters.read().unwrap();
                work();
                let after = counters.read().unwrap();
                assert!(after.0 > before.0 && after.1 - before.1 > 1_000_000, "{before:?} {after:?}");
            }
            Err(error) => assert_eq!(CpuCounters::check(), Err(refusal(&error))),
        }
    }

    /// Uses the kernel's task clock, because the CPU may show no counters.
    #[test]
    fn threads_are_counted_that_are_there_and_that_come() {
        let (begin, end) = (Barrier::new(2), Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                begin.wait();
                begin.wait();
                work();
                end.wait();
            });
            begin.wait();
            let mut counters = match CpuCounters::open([Software::TASK_CLOCK, Software::TASK_CLOCK], false) {
                Ok(counters) => counters,
                Err(error) => {
                    eprintln!("skipped: {}", refusal(&error));
                    begin.wait();
                    end.wait();
                    return;
                }
            };
            assert!(counters.counters[0].len() > 1, "each thread has one");
            let before = counters.read().unwrap();
            begin.wait();
            end.wait();
            let one = counters.read().unwrap();
            std::thread::spawn(work).join().unwrap();
            let both = counters.read().unwrap();
            assert!(before.0 < one.0 && one.0 < both.0, "{before:?} {one:?} {both:?}");
        });
    }

    #[test]
    fn each_refusal_has_its_remedy() {
        let why = |errno: Errno| refusal(&io::Error::from_raw_os_error(errno.raw_os_error()));
        assert!(why(Errno::ACCESS).contains("sysctl kernel.perf_event_paranoid=1"));
        assert!(why(Errno::NOENT).contains("virtual PMU"));
        assert!(why(Errno::NOSYS).contains("CONFIG_PERF_EVENTS"));
        assert!(why(Errno::MFILE).starts_with("perf_event_open failed: "));
    }
}

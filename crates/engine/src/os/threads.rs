#![expect(unsafe_code, reason = "system calls")]

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{self, ClockId, CpuSet, Timespec};
use std::io;
use std::num::NonZeroU64;
use std::sync::OnceLock;
use std::thread::Thread;

/// Signal that interrupts an overdue blocking call of a measuring thread.
pub(super) const INTERRUPT: libc::c_int = libc::SIGUSR2;

/// CPUs that the first pinned thread could use before it was pinned.
static UNBOUND: OnceLock<Vec<usize>> = OnceLock::new();

pub fn allowed_cpus() -> Vec<usize> {
    let set = thread::sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

/// CPUs that any thread of this process may use.
pub fn allowed_by_any_thread() -> io::Result<Vec<usize>> {
    let mut all = CpuSet::new();
    for entry in std::fs::read_dir("/proc/self/task")? {
        let Ok(thread) = entry?.file_name().to_string_lossy().parse() else { continue };
        match thread::sched_getaffinity(Pid::from_raw(thread)) {
            Ok(set) => (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).for_each(|cpu| all.set(cpu)),
            // The thread has just ended.
            Err(Errno::SRCH) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| all.is_set(cpu)).collect())
}

pub fn online_cpus() -> usize {
    // rustix has no sysconf(3), and the standard library counts only allowed CPUs.
    // SAFETY: asks for a number.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1)
}

/// Pins this thread, and threads that it starts later, to one CPU.
pub fn pin_thread(cpu: usize) -> io::Result<()> {
    UNBOUND.get_or_init(allowed_cpus);
    confine(None, &[cpu])
}

/// CPUs that this process could use before it pinned any thread.
pub(super) fn unbound_cpus() -> Vec<usize> {
    UNBOUND.get().cloned().unwrap_or_else(allowed_cpus)
}

/// Confines this thread, and threads that it starts later, to these CPUs.
pub fn confine_thread(cpus: &[usize]) -> io::Result<()> {
    confine(None, cpus)
}

/// Confines a thread, and threads that it starts later; `None` is the calling thread.
fn confine(thread: Option<Pid>, cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    Ok(thread::sched_setaffinity(thread, &set)?)
}

/// Confines all threads of this process, and threads that they start later.
pub fn confine_process(cpus: &[usize]) -> io::Result<()> {
    // The second pass is for threads that were started during the first.
    for _ in 0..2 {
        for entry in std::fs::read_dir("/proc/self/task")? {
            let Ok(thread) = entry?.file_name().to_string_lossy().parse() else { continue };
            match confine(Pid::from_raw(thread), cpus) {
                // The thread has just ended.
                Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => {}
                confined => confined?,
            }
        }
    }
    Ok(())
}

/// Thread that can be woken from any wait.
#[derive(Clone, Debug)]
pub struct Target {
    thread: Thread,
    tid: i32,
}

impl Target {
    pub fn current() -> Self {
        Self { thread: std::thread::current(), tid: thread::gettid().as_raw_nonzero().get() }
    }

    /// Unparks the thread; with `by_signal`, also interrupts its blocking call.
    pub fn interrupt(&self, by_signal: bool) {
        self.thread.unpark();
        if !by_signal {
            return;
        }
        // rustix signals only processes and their groups.
        // SAFETY: signals a thread of this process; an error, as it has ended, does not matter.
        unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), self.tid, INTERRUPT) };
    }
}

/// Minimises the timer slack of this thread, and of threads that it starts later. The default lets the kernel delay
/// wake-ups by up to 50 µs.
pub fn sleep_precisely() {
    // Without permission, the default slack stays.
    let _ = thread::set_current_timer_slack(Some(NonZeroU64::MIN));
}

/// Timer slack of this thread, in nanoseconds; `None` if the kernel does not tell it.
pub fn timer_slack_ns() -> Option<u64> {
    thread::current_timer_slack().ok()
}

/// Sleeps until a time of CLOCK_MONOTONIC, in nanoseconds, or until a signal.
pub fn sleep_until(until_ns: u64) {
    let until = Timespec { tv_sec: (until_ns / 1_000_000_000) as i64, tv_nsec: (until_ns % 1_000_000_000) as i64 };
    // Only a signal makes it fail.
    let _ = thread::clock_nanosleep_absolute(ClockId::Monotonic, &until);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_can_be_pinned_to_each_allowed_cpu_only() {
        for cpu in allowed_cpus() {
            std::thread::spawn(move || {
                pin_thread(cpu).unwrap();
                assert_eq!(allowed_cpus(), [cpu]);
            })
            .join()
            .unwrap();
        }
        assert!(pin_thread(1023).is_err());
    }
}

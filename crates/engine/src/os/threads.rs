//! Threads, and the CPUs that they may use.
#![expect(unsafe_code, reason = "system calls")]

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{self, ClockId, CpuSet, Timespec};
use std::io;
use std::num::NonZeroU64;
use std::sync::OnceLock;
use std::thread::Thread;

/// The signal that interrupts an overdue blocking call of a measuring thread.
pub(super) const INTERRUPT: libc::c_int = libc::SIGUSR2;

/// CPUs of the first thread that was bound to one, before that.
static UNBOUND: OnceLock<Vec<usize>> = OnceLock::new();

/// CPUs that this thread may use, ascending.
pub fn allowed_cpus() -> Vec<usize> {
    let set = thread::sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

/// CPUs that any thread of this process may use.
///
/// # Errors
/// If the threads cannot be listed, or one cannot be asked.
pub fn allowed_by_any_thread() -> io::Result<Vec<usize>> {
    let mut all = CpuSet::new();
    for entry in std::fs::read_dir("/proc/self/task")? {
        let Ok(thread) = entry?.file_name().to_string_lossy().parse() else { continue };
        match thread::sched_getaffinity(Pid::from_raw(thread)) {
            Ok(set) => (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).for_each(|cpu| all.set(cpu)),
            // It has ended meanwhile.
            Err(Errno::SRCH) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| all.is_set(cpu)).collect())
}

/// Number of CPUs of the machine.
pub fn online_cpus() -> usize {
    // rustix has no such call, and what the standard library counts are the allowed ones.
    // SAFETY: asks for a number.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1)
}

/// Binds this thread, and threads that it starts later, to one CPU.
///
/// # Errors
/// If the CPU does not exist or is not allowed.
pub fn pin_thread(cpu: usize) -> io::Result<()> {
    UNBOUND.get_or_init(allowed_cpus);
    confine(None, &[cpu])
}

/// The CPUs that this process might use before one of its threads was bound, or may use still.
pub(super) fn unbound_cpus() -> Vec<usize> {
    UNBOUND.get().cloned().unwrap_or_else(allowed_cpus)
}

/// Lets this thread, and threads that it starts later, run on these CPUs only.
///
/// # Errors
/// If none of them exists and is allowed.
pub fn confine_thread(cpus: &[usize]) -> io::Result<()> {
    confine(None, cpus)
}

/// Lets a thread, and those that it starts later, run on these CPUs only; none is the calling one.
fn confine(thread: Option<Pid>, cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    Ok(thread::sched_setaffinity(thread, &set)?)
}

/// Lets all threads of this process, and those that they start later, run on these CPUs only.
///
/// # Errors
/// If none of them exists and is allowed, or the threads cannot be listed.
pub fn confine_process(cpus: &[usize]) -> io::Result<()> {
    // The second time for those that one of them started during the first.
    for _ in 0..2 {
        for entry in std::fs::read_dir("/proc/self/task")? {
            let Ok(thread) = entry?.file_name().to_string_lossy().parse() else { continue };
            match confine(Pid::from_raw(thread), cpus) {
                // It has ended meanwhile.
                Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => {}
                confined => confined?,
            }
        }
    }
    Ok(())
}

/// A thread that can be woken from whatever it waits in.
#[derive(Clone, Debug)]
pub struct Target {
    thread: Thread,
    tid: i32,
}

impl Target {
    /// The calling thread.
    pub fn current() -> Self {
        Self { thread: std::thread::current(), tid: thread::gettid().as_raw_nonzero().get() }
    }

    /// Ends its parking, and, by a signal, its blocking call, if it is in one.
    pub fn interrupt(&self, by_signal: bool) {
        self.thread.unpark();
        if !by_signal {
            return;
        }
        // rustix signals processes and their groups only.
        // SAFETY: signals a thread of this process; one that has ended is an error that does not matter.
        unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), self.tid, INTERRUPT) };
    }
}

/// Lets sleeps of this thread, and of threads that it starts later, end as soon after their time as the kernel can; without,
/// it takes up to 50 us more, so that several can end at once.
pub fn sleep_precisely() {
    // A thread that may not has the usual slack.
    let _ = thread::set_current_timer_slack(Some(NonZeroU64::MIN));
}

/// Sleeps until that time of CLOCK_MONOTONIC, in nanoseconds, or until a signal comes.
pub fn sleep_until(until_ns: u64) {
    let until = Timespec { tv_sec: (until_ns / 1_000_000_000) as i64, tv_nsec: (until_ns % 1_000_000_000) as i64 };
    // It fails only by a signal.
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

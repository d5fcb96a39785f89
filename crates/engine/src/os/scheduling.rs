#![expect(unsafe_code, reason = "system calls")]

use super::threads::{allowed_cpus, confine_thread, unbound_cpus};
use rustix::io::Errno;
use rustix::thread::gettid;
use std::fs;
use std::io;
use tripmeter_model::interference::Sched;

/// Names of our threads that never measure. They keep their scheduling, and use the CPU time that other threads leave.
pub(crate) const HELPERS: [&str; 2] = ["control", "interrupter"];

/// Schedules the calling thread by `sched`, and the others of this process by `others`, except `HELPERS`. Threads that
/// they start later inherit the scheduling.
pub fn schedule_process(sched: Sched, others: Sched) -> io::Result<()> {
    let own = gettid().as_raw_nonzero().get();
    // The second pass is for threads that were started during the first.
    for _ in 0..2 {
        for entry in fs::read_dir("/proc/self/task")? {
            let path = entry?.path();
            let Some(thread) = path.file_name().and_then(|name| name.to_str()?.parse().ok()) else { continue };
            let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
            if HELPERS.contains(&name.trim()) {
                continue;
            }
            let sched = if thread == own { sched } else { others };
            match schedule(thread, sched) {
                // The thread has just ended.
                Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => {}
                scheduled => scheduled
                    .map_err(|error| io::Error::new(error.kind(), format!("'{sched}' is not permitted: {error}")))?,
            }
        }
    }
    Ok(())
}

/// Guard of a thread that only supervises threads with real-time scheduling, which may keep their CPUs busy. While the
/// guard lives, the thread has normal scheduling, on any CPU. Dropping it restores the former scheduling.
#[must_use]
#[derive(Debug)]
pub struct Aside {
    sched: Sched,
    cpus: Vec<usize>,
}

/// Creates an `Aside`; to be called once the other threads have been started.
pub fn step_aside(sched: Sched) -> Aside {
    let aside = Aside { sched, cpus: allowed_cpus() };
    if !sched.is_other() {
        // Fewer privileges are always permitted, and so are the former CPUs.
        let _ = (confine_thread(&unbound_cpus()), schedule(0, Sched::Other));
    }
    aside
}

impl Drop for Aside {
    fn drop(&mut self) {
        if !self.sched.is_other() {
            // Both were permitted before. In this order, the thread need not wait for a busy CPU.
            let _ = (schedule(0, self.sched), confine_thread(&self.cpus));
        }
    }
}

/// Tests in a new thread if this process may use the scheduling `sched`.
pub fn may_schedule(sched: Sched) -> io::Result<()> {
    let tried = std::thread::Builder::new().name("try".to_owned()).spawn(move || schedule(0, sched))?;
    tried.join().unwrap_or_else(|_| Err(io::Error::other("the thread that tried it has ended")))
}

/// Microseconds of each second that real-time threads may run (`sched_rt_runtime_us`, for the default period). -1 means
/// no limit; `None` if it is not visible.
pub fn real_time_limit_us() -> Option<i64> {
    fs::read_to_string("/proc/sys/kernel/sched_rt_runtime_us").ok()?.trim().parse().ok()
}

/// Schedules a thread of this process; 0 is the calling one.
fn schedule(thread: libc::pid_t, sched: Sched) -> io::Result<()> {
    let (policy, priority) = match sched {
        Sched::Other => (libc::SCHED_OTHER, 0),
        Sched::Fifo(priority) => (libc::SCHED_FIFO, libc::c_int::from(priority)),
    };
    // rustix has no sched_setscheduler(2).
    let param = libc::sched_param { sched_priority: priority };
    // SAFETY: `param` is valid for reading.
    let result = unsafe { libc::sched_setscheduler(thread, policy, &param) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_usual_is_always_allowed_and_changes_nothing() {
        may_schedule(Sched::Other).unwrap();
        schedule_process(Sched::Other, Sched::Other).unwrap();
        let policy = || fs::read_to_string("/proc/thread-self/stat").unwrap();
        let field = |text: &str| text.rsplit(')').next().unwrap().split_whitespace().nth(38).map(str::to_owned);
        assert_eq!(field(&policy()).as_deref(), Some("0"));
    }
}

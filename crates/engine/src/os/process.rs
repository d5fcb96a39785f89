#![expect(unsafe_code, reason = "system calls")]

use super::threads::INTERRUPT;
use procfs::ProcError;
use procfs::process::{MMapPath, Process, Stat, Task};
use rustix::io::Errno;
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid};
use rustix::process::{
    Resource, Rlimit, getrlimit, kill_process_group, set_parent_process_death_signal, setrlimit, test_kill_process,
};
use std::collections::HashSet;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tripmeter_model::name::process_place;
use tripmeter_model::used::Used;

/// Locks all memory that this process has now, or nothing if the limit of locked memory is too low.
pub fn lock_memory() -> io::Result<()> {
    Ok(mlockall(MlockAllFlags::CURRENT)?)
}

/// Turns writes beyond the file size limit (`ulimit -f`) into errors, instead of SIGXFSZ, in this process and its
/// children.
pub fn full_files_are_errors() {
    // SAFETY: a plain system call, which the standard library lacks.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Smallest stack of the main thread, in bytes: a debug build needs 300 kB for its arguments alone.
const LEAST_STACK_BYTES: u64 = 1 << 20;
/// Linux's default stack size.
const USUAL_STACK_BYTES: u64 = 8 << 20;

/// Raises the stack limit of this process if it is too low; the kernel applies it whenever the stack grows. The error
/// has value, limit and fix.
pub fn ensure_stack() -> Result<(), String> {
    let Rlimit { current, maximum } = getrlimit(Resource::Stack);
    let Some(bytes) = current.filter(|bytes| *bytes < LEAST_STACK_BYTES) else { return Ok(()) };
    let raised = maximum.map_or(USUAL_STACK_BYTES, |most| most.min(USUAL_STACK_BYTES));
    let is_enough = raised >= LEAST_STACK_BYTES;
    if is_enough && setrlimit(Resource::Stack, Rlimit { current: Some(raised), maximum }).is_ok() {
        return Ok(());
    }
    Err(format!("the stack limit is {bytes} bytes, but {LEAST_STACK_BYTES} are needed; raise it with `ulimit -s 8192`"))
}

/// Prepares this process as a worker: it dies with its parent, ignores SIGINT, and its blocking calls can be
/// interrupted.
pub fn become_worker() {
    full_files_are_errors();
    extern "C" fn nothing(_: libc::c_int) {}
    // Fails only for an invalid signal.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    // Neither rustix nor the standard library sets signal handlers.
    // SAFETY: plain system calls; the handler does nothing, and without SA_RESTART it interrupts blocking calls.
    unsafe {
        libc::signal(libc::SIGINT, libc::SIG_IGN);
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
        libc::sigaction(INTERRUPT, &action, std::ptr::null_mut());
    }
}

pub fn peak_memory_bytes() -> u64 {
    let status = Process::myself().and_then(|own| own.status());
    status.ok().and_then(|status| status.vmhwm).map_or(0, |kb| kb * 1024)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    Process,
    /// Children that have ended.
    Children,
    Thread,
}

/// Resources used since the start; wall time and peak memory are not set.
pub fn usage(whose: Whose) -> Used {
    let whose = match whose {
        Whose::Process => libc::RUSAGE_SELF,
        Whose::Children => libc::RUSAGE_CHILDREN,
        Whose::Thread => libc::RUSAGE_THREAD,
    };
    // rustix has no getrusage(2).
    let mut used = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `used` is valid for writing, and all-zero is a valid answer.
    let used = unsafe {
        libc::getrusage(whose, used.as_mut_ptr());
        used.assume_init()
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    Used {
        cpu_time_ns: ns(used.ru_utime) + ns(used.ru_stime),
        kernel_time_ns: Some(ns(used.ru_stime)),
        voluntary_switches: used.ru_nvcsw as u64,
        involuntary_switches: used.ru_nivcsw as u64,
        minor_faults: used.ru_minflt as u64,
        major_faults: used.ru_majflt as u64,
        ..Used::default()
    }
}

/// CPU time of all threads of another process, in nanoseconds; `None` if it has ended.
pub fn process_cpu_ns(pid: u32) -> Option<u64> {
    // rustix has no CPU clocks of processes.
    let (mut clock, mut time) = (0, libc::timespec { tv_sec: 0, tv_nsec: 0 });
    // SAFETY: both are valid for writing.
    let known = unsafe {
        libc::clock_getcpuclockid(pid.try_into().ok()?, &mut clock) == 0 && libc::clock_gettime(clock, &mut time) == 0
    };
    // A preloaded library may step this clock, too.
    let [seconds, rest] = [time.tv_sec, time.tv_nsec].map(|part| u64::try_from(part).unwrap_or(0));
    known.then_some(seconds.saturating_mul(1_000_000_000).saturating_add(rest))
}

/// Kills a child that is not reaped yet. If it leads a process group, the whole group is killed.
pub(crate) fn kill_group(pid: u32) {
    let group = i32::try_from(pid).ok().and_then(Pid::from_raw);
    // An error means that all of them have just ended.
    let _ = group.map(|group| kill_process_group(group, Signal::KILL));
}

/// Sends a signal to a process, but only if its PID certainly still belongs to it.
pub(crate) fn signal(process: &ProcessIdentity, signal: Signal) {
    let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) else { return };
    // The descriptor keeps referring to this process, even if the PID is reused.
    let Ok(opened) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    if process.is_alive() {
        // An error means that the process has just ended.
        let _ = pidfd_send_signal(opened, signal);
    }
}

/// True if the process runs, and this user may not signal it.
pub fn is_beyond_signals(process: &ProcessIdentity) -> bool {
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::PERM)) && process.is_alive()
}

/// Effective user ID, which owns new files.
pub fn user_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

pub fn is_zombie(pid: u32) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| waitid(WaitId::Pid(pid), options).is_ok_and(|status| status.is_some()))
}

pub fn is_stopped(pid: u32) -> bool {
    stat(pid).is_some_and(|stat| matches!(stat.state, 'T' | 't'))
}

/// True if a process handles or ignores the signal.
pub(crate) fn handles(pid: u32, signal: Signal) -> bool {
    let status = Process::new(pid as i32).and_then(|process| process.status());
    status.is_ok_and(|status| (status.sigcgt | status.sigign) >> (signal.as_raw() - 1) & 1 == 1)
}

/// Files below a folder that are mapped by any process that this user may inspect.
pub fn mapped_below(folder: &Path) -> HashSet<PathBuf> {
    let maps =
        procfs::process::all_processes().into_iter().flatten().flatten().filter_map(|process| process.maps().ok());
    let paths =
        maps.flatten().filter_map(|map| if let MMapPath::Path(path) = map.pathname { Some(path) } else { None });
    paths.filter(|path| path.starts_with(folder)).collect()
}

/// True if a thread of the process is ready to run, or waits for a disk.
pub fn is_kept_waiting(pid: u32) -> bool {
    let threads = i32::try_from(pid).ok().and_then(|pid| Process::new(pid).and_then(|process| process.tasks()).ok());
    let is_kept = |thread: Task| thread.stat().is_ok_and(|stat| matches!(stat.state, 'R' | 'D'));
    threads.into_iter().flatten().flatten().any(is_kept)
}

fn stat(pid: u32) -> Option<Stat> {
    Process::new(pid.try_into().ok()?).and_then(|process| process.stat()).ok()
}

/// Unique ID of this boot of the machine.
pub fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// True if `/proc` belongs to the PID namespace of this process.
fn shows_own_processes() -> bool {
    static SHOWN: OnceLock<bool> = OnceLock::new();
    *SHOWN
        .get_or_init(|| fs::read_link("/proc/self").is_ok_and(|own| own == Path::new(&std::process::id().to_string())))
}

/// Unique identity of a process: boot and PID namespace, PID and start time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessIdentity {
    place: u64,
    pid: u32,
    start_ticks: u64,
}

impl ProcessIdentity {
    pub fn own() -> Self {
        let pid = std::process::id();
        let start_ticks = if let Some(Start::At(ticks)) = start_of(pid) { ticks } else { UNKNOWN };
        Self { place: process_place(), pid, start_ticks }
    }

    /// Identity of a process in this PID namespace; `None` if there is none.
    pub fn from_pid(pid: u32) -> Option<Self> {
        let Some(Start::At(start_ticks)) = start_of(pid) else { return None };
        Some(Self { place: process_place(), pid, start_ticks })
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    pub fn is(&self, pid: u32) -> bool {
        self.pid == pid
    }

    /// Parses the output of [`Display`](std::fmt::Display) at the start of `text`; also returns the rest.
    pub fn parse_prefix(text: &str) -> Option<(Self, &str)> {
        let mut parts = text.strip_prefix("tripmeter-")?.splitn(3, '-');
        let place = u64::from_str_radix(parts.next()?, 16).ok()?;
        let pid = parts.next()?.parse().ok()?;
        let rest = parts.next()?;
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        Some((Self { place, pid, start_ticks: rest[..end].parse().ok()? }, &rest[end..]))
    }

    /// True if this process can check whether it runs: boot and namespace are ours, and its start is known.
    pub fn is_visible(&self) -> bool {
        self.place == process_place() && self.start_ticks != UNKNOWN && shows_own_processes()
    }

    /// True if it certainly has ended; false if it is not visible.
    pub fn is_dead(&self) -> bool {
        self.is_visible()
            && match start_of(self.pid) {
                Some(Start::At(ticks)) => ticks != self.start_ticks,
                Some(Start::Ended) => true,
                None => false,
            }
    }

    pub fn is_alive(&self) -> bool {
        self.is_visible() && matches!(start_of(self.pid), Some(Start::At(ticks)) if ticks == self.start_ticks)
    }
}

impl std::fmt::Display for ProcessIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "tripmeter-{:x}-{}-{}", self.place, self.pid, self.start_ticks)
    }
}

/// Value of `start_ticks` if it could not be read; the state of the process then stays unknown.
const UNKNOWN: u64 = 0;

enum Start {
    At(u64),
    Ended,
}

fn start_of(pid: u32) -> Option<Start> {
    if !shows_own_processes() {
        return None;
    }
    match Process::new(pid.try_into().ok()?).and_then(|process| process.stat()) {
        Ok(stat) if matches!(stat.state, 'Z' | 'X') => Some(Start::Ended),
        Ok(stat) => Some(Start::At(stat.starttime)),
        Err(ProcError::NotFound(_)) => Some(Start::Ended),
        Err(ProcError::Io(error, _)) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => Some(Start::Ended),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_read_back_and_alive() {
        let own = ProcessIdentity::own();
        let name = format!("{own}-3-queue");
        let (read, rest) = ProcessIdentity::parse_prefix(&name).unwrap();
        assert_eq!((read, rest), (own.clone(), "-3-queue"));
        assert!(own.is_alive() && !own.is_dead());
        assert!(ProcessIdentity { start_ticks: own.start_ticks + 1, ..own.clone() }.is_dead());
        let foreign = ProcessIdentity { place: 1, ..own.clone() };
        // Identity of a process that could not read its own start.
        let unknown = ProcessIdentity { start_ticks: UNKNOWN, ..own };
        for unseen in [foreign, unknown] {
            assert!(!unseen.is_visible() && !unseen.is_dead() && !unseen.is_alive());
        }
        assert_eq!(ProcessIdentity::parse_prefix("fastrtps_1234"), None);
    }
}

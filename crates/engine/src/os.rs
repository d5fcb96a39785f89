//! What the engine asks of the operating system: processors, memory, signals, process identity.

use std::ffi::CString;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread::Thread;
use std::time::Duration;

/// The signal that interrupts an overdue blocking call of a measuring thread.
const INTERRUPT: libc::c_int = libc::SIGUSR2;

/// Processors that this thread may use, ascending.
pub fn allowed_cpus() -> Vec<usize> {
    let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
    // SAFETY: `set` is valid for writing and all-zero is a valid set.
    let set = unsafe {
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), set.as_mut_ptr());
        set.assume_init()
    };
    // SAFETY: indices are below the set's size.
    (0..libc::CPU_SETSIZE as usize).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) }).collect()
}

/// Number of processors of the machine.
pub fn online_cpus() -> usize {
    // SAFETY: asks for a number.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1)
}

/// Binds this thread, and threads that it starts later, to one processor.
///
/// # Errors
/// If the processor does not exist or is not allowed.
pub fn pin_thread(cpu: usize) -> io::Result<()> {
    confine(0, &[cpu])
}

/// Lets a thread, and those that it starts later, run on these processors only; 0 is the calling one.
fn confine(thread: libc::pid_t, cpus: &[usize]) -> io::Result<()> {
    let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
    // SAFETY: all-zero is a valid set, and CPU_SET checks its index against the set's size.
    let result = unsafe {
        cpus.iter().for_each(|cpu| libc::CPU_SET(*cpu, set.assume_init_mut()));
        libc::sched_setaffinity(thread, size_of::<libc::cpu_set_t>(), set.as_ptr())
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Lets all threads of this process, and those that they start later, run on these processors only.
///
/// # Errors
/// If none of them exists and is allowed, or the threads cannot be listed.
pub fn confine_process(cpus: &[usize]) -> io::Result<()> {
    // The second time for those that one of them started during the first.
    for _ in 0..2 {
        for entry in std::fs::read_dir("/proc/self/task")? {
            let Ok(thread) = entry?.file_name().to_string_lossy().parse() else { continue };
            match confine(thread, cpus) {
                // It has ended meanwhile.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                confined => confined?,
            }
        }
    }
    Ok(())
}

/// Locks all memory that this process has by now.
///
/// # Errors
/// If the limit of locked memory is too low; nothing is locked then.
pub fn lock_memory() -> io::Result<()> {
    // SAFETY: locking changes nothing that the program can see.
    if unsafe { libc::mlockall(libc::MCL_CURRENT) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Prepares this process as a worker: it dies with its parent, ignores what is meant for its parent, and its blocking
/// calls can be interrupted.
pub fn become_worker() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: plain system calls; the handler does nothing, and without SA_RESTART it interrupts blocking calls.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::signal(libc::SIGINT, libc::SIG_IGN);
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        // A file at its limit is then an error of the call that writes.
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
        libc::sigaction(INTERRUPT, &action, std::ptr::null_mut());
    }
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
        // SAFETY: takes nothing and cannot fail.
        let tid = unsafe { libc::syscall(libc::SYS_gettid) } as i32;
        Self { thread: std::thread::current(), tid }
    }

    /// Ends its parking, and, by a signal, its blocking call, if it is in one.
    pub fn interrupt(&self, by_signal: bool) {
        self.thread.unpark();
        if !by_signal {
            return;
        }
        // SAFETY: signals a thread of this process; one that has ended is an error that does not matter.
        unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), self.tid, INTERRUPT) };
    }
}

/// Lets sleeps of this thread, and of threads that it starts later, end as soon after their time as the kernel can; without,
/// it takes up to 50 us more, so that several can end at once.
pub fn sleep_precisely() {
    // SAFETY: sets a number of this thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_usize) };
}

/// Sleeps until that time of CLOCK_MONOTONIC, in nanoseconds, or until a signal comes.
pub fn sleep_until(until_ns: u64) {
    let until = libc::timespec {
        tv_sec: (until_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (until_ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: reads a valid time.
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &until, std::ptr::null_mut()) };
}

/// While it lives, what this process makes is for its user only.
#[derive(Debug)]
pub struct ForThisUser(());

/// How many there are, for leader and follower may be threads of one process, and what the umask was before the first.
static FOR_THIS_USER: Mutex<(u32, libc::mode_t)> = Mutex::new((0, 0));

impl ForThisUser {
    /// From here on.
    pub fn begin() -> Self {
        let mut state = FOR_THIS_USER.lock().unwrap_or_else(PoisonError::into_inner);
        if state.0 == 0 {
            // SAFETY: sets a number of this process.
            state.1 = unsafe { libc::umask(0o077) };
        }
        state.0 += 1;
        Self(())
    }
}

impl Drop for ForThisUser {
    fn drop(&mut self) {
        let mut state = FOR_THIS_USER.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 -= 1;
        if state.0 == 0 {
            // SAFETY: sets a number of this process.
            unsafe { libc::umask(state.1) };
        }
    }
}

/// Lets this process open as many files as it ever may.
pub fn raise_file_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for writing, then for reading; a limit that cannot be raised stays.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}

/// Most memory that this process has had at a time, in bytes; 0 if the kernel does not tell.
pub fn peak_memory_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().map_or(0, |kb| kb * 1024)
}

/// Waits until one of the streams can be read, or the time is over, or a signal comes. True per stream that can be read.
///
/// # Errors
/// If the operating system refuses.
pub fn wait_readable(streams: &[&dyn AsRawFd], time: Duration) -> io::Result<Vec<bool>> {
    let mut polls: Vec<libc::pollfd> = streams
        .iter()
        .map(|stream| libc::pollfd { fd: stream.as_raw_fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    let timeout = time.as_millis().min(i32::MAX as u128) as i32;
    // SAFETY: `polls` is valid for its length.
    let ready = unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, timeout) };
    if ready < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::Interrupted { Ok(vec![false; streams.len()]) } else { Err(error) };
    }
    Ok(polls.iter().map(|poll| poll.revents != 0).collect())
}

/// Removes a message queue; one that is not there needs no removing.
pub fn unlink_queue(name: &str) {
    if let Ok(name) = CString::new(name) {
        // SAFETY: the name is NUL-terminated.
        unsafe { libc::mq_unlink(name.as_ptr()) };
    }
}

/// Takes or changes a lock on a whole file, without waiting. False if another process's lock stands against it.
///
/// # Errors
/// If the file cannot be locked at all.
pub fn lock_file(file: &fs::File, exclusive: bool) -> io::Result<bool> {
    let kind = if exclusive { libc::LOCK_EX } else { libc::LOCK_SH };
    // SAFETY: the descriptor is open.
    if unsafe { libc::flock(file.as_raw_fd(), kind | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::WouldBlock { Ok(false) } else { Err(error) }
}

/// Takes a lock on a file that excludes other takers of this lock, beside the one of [`lock_file`], without waiting. It ends
/// when the file is closed.
///
/// # Errors
/// If the file cannot be locked at all.
pub fn lock_file_to_start(file: &fs::File) -> io::Result<bool> {
    // SAFETY: all-zero is a valid lock description: the whole file, no process.
    let mut whole: libc::flock = unsafe { std::mem::zeroed() };
    whole.l_type = libc::F_WRLCK as libc::c_short;
    whole.l_whence = libc::SEEK_SET as libc::c_short;
    // SAFETY: the descriptor is open and writable, and the description is valid.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &whole) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    let is_held = matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES));
    if is_held { Ok(false) } else { Err(error) }
}

/// Whose use of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// All threads of this process.
    Process,
    /// Its children that have ended.
    Children,
    /// The calling thread.
    Thread,
}

/// What has been used since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Processor time in nanoseconds.
    pub cpu_time_ns: u64,
    /// How often a processor was given up.
    pub voluntary_switches: u64,
    /// How often a processor was taken away.
    pub involuntary_switches: u64,
    /// Page faults served from memory.
    pub minor_faults: u64,
    /// Page faults that waited for a disk.
    pub major_faults: u64,
}

/// What has been used so far.
pub fn usage(whose: Whose) -> Usage {
    let whose = match whose {
        Whose::Process => libc::RUSAGE_SELF,
        Whose::Children => libc::RUSAGE_CHILDREN,
        Whose::Thread => libc::RUSAGE_THREAD,
    };
    let mut used = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `used` is valid for writing, and all-zero is a valid answer.
    let used = unsafe {
        libc::getrusage(whose, used.as_mut_ptr());
        used.assume_init()
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    Usage {
        cpu_time_ns: ns(used.ru_utime) + ns(used.ru_stime),
        voluntary_switches: used.ru_nvcsw as u64,
        involuntary_switches: used.ru_nivcsw as u64,
        minor_faults: used.ru_minflt as u64,
        major_faults: used.ru_majflt as u64,
    }
}

/// Size of the file system that a folder is on, and what is free of it, in bytes; `None` if there is no such folder.
pub fn space(folder: &Path) -> Option<(u64, u64)> {
    let folder = CString::new(folder.as_os_str().as_bytes()).ok()?;
    let mut found = MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: the name is NUL-terminated, and `found` is valid for writing.
    if unsafe { libc::statvfs(folder.as_ptr(), found.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: it was written above.
    let found = unsafe { found.assume_init() };
    Some((found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail))
}

/// Most bytes that a file of this process may have; `None`: no limit.
pub fn file_size_limit() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for writing.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } == 0;
    (known && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// Processor time of another process so far, all its threads, in nanoseconds; `None` if it has ended.
pub fn process_cpu_ns(pid: u32) -> Option<u64> {
    let (mut clock, mut time) = (0, libc::timespec { tv_sec: 0, tv_nsec: 0 });
    // SAFETY: both are valid for writing.
    let known = unsafe {
        libc::clock_getcpuclockid(pid.try_into().ok()?, &mut clock) == 0 && libc::clock_gettime(clock, &mut time) == 0
    };
    known.then_some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Makes a FIFO for this user.
///
/// # Errors
/// If there is such a file already, or none can be made.
pub fn make_fifo(file: &Path) -> io::Result<()> {
    let name = CString::new(file.as_os_str().as_bytes())?;
    // SAFETY: the name is NUL-terminated.
    if unsafe { libc::mkfifo(name.as_ptr(), 0o600) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sends a signal to a process, if it is known to be still the one meant.
pub fn signal(process: &ProcessIdentity, signal: libc::c_int) {
    if process.is_alive()
        && let Ok(pid) = i32::try_from(process.pid)
    {
        // SAFETY: plain system call.
        unsafe { libc::kill(pid, signal) };
    }
}

/// True if it is known to run, and to be somebody's who does not let this process send it signals.
pub fn is_beyond_signals(process: &ProcessIdentity) -> bool {
    let Ok(pid) = i32::try_from(process.pid) else { return false };
    // SAFETY: plain system call; signal 0 only asks.
    let denied = unsafe { libc::kill(pid, 0) } != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EPERM);
    denied && process.is_alive()
}

/// This user's number, by which files are made.
pub fn user_id() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Makes sure that the process at the other end of a socket is this user's.
///
/// # Errors
/// If it is another user's, or nobody's that is known.
pub fn check_peer(stream: &UnixStream) -> io::Result<()> {
    let peer = peer(stream)?;
    if peer.uid == user_id() {
        return Ok(());
    }
    let (other, own) = (peer.uid, user_id());
    let text = format!("the process at the other end is of user {other}, this one of user {own}");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

/// Number of the process that made the other end of a socket; `None` if it is not visible here.
pub fn peer_pid(stream: &UnixStream) -> Option<u32> {
    u32::try_from(peer(stream).ok()?.pid).ok().filter(|&pid| pid != 0)
}

fn peer(stream: &UnixStream) -> io::Result<libc::ucred> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
    let to = (&raw mut peer).cast();
    // SAFETY: the descriptor is open, and both places are valid for writing that many bytes.
    let result = unsafe { libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, to, &mut bytes) };
    if result == 0 { Ok(peer) } else { Err(io::Error::last_os_error()) }
}

/// Whether a process is stopped, by a signal or a debugger.
pub fn is_stopped(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The command, in parentheses, may itself contain blanks and parentheses.
    stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with(['T', 't']))
}

/// Names of what is in a folder; none if it cannot be read.
pub fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// The machine since its start, by a name that no other has.
pub fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Identity of a process that is never used twice on a running machine: process namespace, id and start time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessIdentity {
    namespace: u64,
    pid: u32,
    start_ticks: u64,
}

impl ProcessIdentity {
    /// The calling process.
    pub fn own() -> Self {
        let pid = std::process::id();
        Self { namespace: process_namespace(), pid, start_ticks: start_ticks(pid).unwrap_or(0) }
    }

    /// A process of this namespace; `None` if there is none.
    pub fn of(pid: u32) -> Option<Self> {
        Some(Self { namespace: process_namespace(), pid, start_ticks: start_ticks(pid)? })
    }

    /// Its process number, in its namespace.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// True if that is its process number.
    pub fn is(&self, pid: u32) -> bool {
        self.pid == pid
    }

    /// Reads what [`Display`](std::fmt::Display) wrote, if `text` begins with it; and the rest of the text.
    pub fn parse_prefix(text: &str) -> Option<(Self, &str)> {
        let mut parts = text.strip_prefix("tripmeter-")?.splitn(3, '-');
        let namespace = u64::from_str_radix(parts.next()?, 16).ok()?;
        let pid = parts.next()?.parse().ok()?;
        let rest = parts.next()?;
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        Some((Self { namespace, pid, start_ticks: rest[..end].parse().ok()? }, &rest[end..]))
    }

    /// True if it can be seen from here: only then is it known whether it runs.
    pub fn is_visible(&self) -> bool {
        self.namespace == process_namespace()
    }

    /// True if it is known to have ended: its namespace is ours and no such process runs in it.
    pub fn is_dead(&self) -> bool {
        self.is_visible() && start_ticks(self.pid) != Some(self.start_ticks)
    }

    /// True if it is known to run.
    pub fn is_alive(&self) -> bool {
        self.is_visible() && !self.is_dead()
    }
}

impl std::fmt::Display for ProcessIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "tripmeter-{:x}-{}-{}", self.namespace, self.pid, self.start_ticks)
    }
}

fn process_namespace() -> u64 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino())
}

/// Start of a process in clock ticks since boot; `None` if there is no such process.
fn start_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command, in parentheses, may itself contain blanks and parentheses.
    let after_command = &stat[stat.rfind(')')? + 2..];
    let mut fields = after_command.split(' ');
    let state = fields.next()?;
    let start = fields.nth(18)?.parse().ok()?;
    (state != "Z" && state != "X").then_some(start)
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
        let foreign = ProcessIdentity { namespace: 1, ..own };
        assert!(!foreign.is_visible() && !foreign.is_dead() && !foreign.is_alive());
        assert_eq!(ProcessIdentity::parse_prefix("fastrtps_1234"), None);
    }

    #[test]
    fn a_thread_can_be_pinned_to_each_allowed_processor_only() {
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

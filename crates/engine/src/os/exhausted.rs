//! Exhausted resources of a process: libraries often fail for lack of one, and do not say which.

use super::files::space;
use procfs::process::{Limit, LimitValue, Limits, Process};
use rustix::process::{Resource, getrlimit};
use std::fs;
use std::io;
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use tripmeter_abi::Path as NetworkPath;

/// Fewer free file descriptors suggest a lack of them; a library may close some before it gives up.
const FEW_DESCRIPTORS: u64 = 8;
/// Limit of file descriptors below which failures are likely: middleware opens dozens of files and sockets.
const FEW_DESCRIPTORS_IN_ALL: u64 = 128;
/// Limit of threads below which failures are likely: middleware starts dozens.
const FEW_THREADS: u64 = 128;
/// Free shared memory that is too little for a transport, in bytes.
const LITTLE_SHARED_MEMORY: u64 = 64 << 10;
/// System errors for lack of memory, which may be free again by now.
const REFUSALS: [&str; 2] = ["Cannot allocate memory", "Resource temporarily unavailable"];
/// Free address space that is too little for a thread with stack and heap, in bytes.
const LITTLE_ADDRESS_SPACE: u64 = 80 << 20;

/// Adds to an error the resources that this process or machine lacks, or a stopped child. Disk space is not checked.
pub fn with_lack(why: String) -> String {
    let own = Path::new("/proc/self");
    let limits = [Resource::Nofile, Resource::As].map(|resource| getrlimit(resource).current);
    let memory = address_space(own, limits[1], |left| {
        left < LITTLE_ADDRESS_SPACE || REFUSALS.iter().any(|refusal| why.contains(refusal))
    });
    // A thread started with the last of the memory fails, and ends or blocks this process.
    let has_room = limits[1]
        .is_none_or(|most| mapped_bytes(own).is_some_and(|used| most.saturating_sub(used) >= LITTLE_ADDRESS_SPACE));
    with(why, [descriptors(own, limits[0]), memory, threads(has_room), shared_memory(), stopped_child()])
}

/// Adds to an error the resources that another running process of this user lacks. It may have freed memory since, so
/// any limit below the memory of the machine is named.
pub fn with_lack_of(pid: u32, why: String) -> String {
    let Some(limits) = limits(pid) else { return why };
    let process = PathBuf::from(format!("/proc/{pid}"));
    let (most_open, most_mapped) = (soft(limits.max_open_files), soft(limits.max_address_space));
    let memory = address_space(&process, most_mapped.filter(is_tight), |_| true);
    with(why, [descriptors(&process, most_open), memory, None, shared_memory(), None])
}

/// Resource limits that make a process of this user fail early, if it has any. The process may be a zombie.
pub fn tight_limits(pid: u32) -> Option<String> {
    let limits = limits(pid)?;
    let memory = soft(limits.max_address_space)
        .filter(is_tight)
        .map(|most| format!("{most} bytes of memory at most (RLIMIT_AS)"));
    let descriptors = soft(limits.max_open_files).filter(|most| *most < FEW_DESCRIPTORS_IN_ALL);
    let descriptors = descriptors.map(|most| format!("{most} file descriptors at most (RLIMIT_NOFILE)"));
    let all: Vec<String> = memory.into_iter().chain(descriptors).collect();
    (!all.is_empty()).then(|| all.join(" and "))
}

/// True if a memory limit is below the memory of the machine; larger limits hardly ever cause failures.
fn is_tight(most: &u64) -> bool {
    let machine = rustix::system::sysinfo();
    *most < (machine.totalram as u64).saturating_mul(u64::from(machine.mem_unit))
}

fn limits(pid: u32) -> Option<Limits> {
    Process::new(pid.try_into().ok()?).and_then(|process| process.limits()).ok()
}

fn soft(limit: Limit) -> Option<u64> {
    if let LimitValue::Value(most) = limit.soft_limit { Some(most) } else { None }
}

fn with(why: String, lack: [Option<String>; 5]) -> String {
    // Another process of this run may have reported the same lack, with its own numbers.
    let remedy = |lack: &str| lack.rsplit_once("; ").map_or(lack, |(_, remedy)| remedy).to_owned();
    let new: Vec<String> = lack.into_iter().flatten().filter(|lack| !why.contains(&remedy(lack))).collect();
    if new.is_empty() { why } else { format!("{why} ({})", new.join("; ")) }
}

fn descriptors(process: &Path, most: Option<u64>) -> Option<String> {
    let most = most?;
    let open = match fs::read_dir(process.join("fd")) {
        Ok(open) => open.count() as u64,
        // Reading the folder needs a descriptor, and none is left.
        Err(error) if error.raw_os_error() == Some(libc::EMFILE) => most,
        Err(_) => return None,
    };
    if most.saturating_sub(open) < FEW_DESCRIPTORS {
        return Some(format!("{open} of {most} file descriptors are open; raise the limit with `ulimit -n`"));
    }
    // The library that failed may have closed its files.
    (most < FEW_DESCRIPTORS_IN_ALL).then(|| {
        format!("{open} of {most} file descriptors are open now; if more were, raise the limit with `ulimit -n`")
    })
}

/// Note on the limit of address space, if `is_little` is true for the bytes left.
fn address_space(process: &Path, most: Option<u64>, is_little: impl Fn(u64) -> bool) -> Option<String> {
    let (most, used) = (most?, mapped_bytes(process)?);
    is_little(most.saturating_sub(used))
        .then(|| format!("{used} of {most} bytes of memory are mapped (RLIMIT_AS); raise the limit with `ulimit -v`"))
}

fn mapped_bytes(process: &Path) -> Option<u64> {
    let pages: u64 = fs::read_to_string(process.join("statm")).ok()?.split(' ').next()?.parse().ok()?;
    Some(pages.saturating_mul(rustix::param::page_size() as u64))
}

/// Note on the limit of threads, if it is low or no thread can be started. Starting one is tried if `may_try`.
fn threads(may_try: bool) -> Option<String> {
    let most = getrlimit(Resource::Nproc).current?;
    let started = may_try.then(|| std::thread::Builder::new().spawn(|| ()));
    if let Some(Err(error)) = started.map(|started| started.map(|thread| drop(thread.join()))) {
        return Some(format!(
            "no thread can be started: {error} (limit of this user {most}); raise it with `ulimit -u`"
        ));
    }
    // Root may exceed the limit. Threads that reached it may have ended since.
    (most < FEW_THREADS && rustix::process::geteuid().as_raw() != 0)
        .then(|| format!("this user may have {most} threads and processes; raise the limit with `ulimit -u`"))
}

/// Note on a child of this process, such as a broker, that was stopped.
pub fn stopped_child() -> Option<String> {
    let own = std::process::id().cast_signed();
    let mut stats = procfs::process::all_processes().ok()?.flatten().filter_map(|process| process.stat().ok());
    let child = stats.find(|stat| stat.ppid == own && matches!(stat.state, 'T' | 't'))?;
    Some(format!("its process {} ('{}') was stopped by a signal", child.pid, child.comm))
}

/// Note if the kernel has no free TCP or UDP port at this address. Libraries then go on without a socket or retry
/// forever, and wait for a peer in vain.
pub fn no_port(path: NetworkPath, address: IpAddr) -> Option<String> {
    let any = (address, 0);
    let (kind, error) = match path {
        NetworkPath::Tcp => ("TCP", TcpListener::bind(any).err()?),
        NetworkPath::Udp => ("UDP", UdpSocket::bind(any).err()?),
        _ => return None,
    };
    if error.kind() != io::ErrorKind::AddrInUse {
        return None;
    }
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let range = range.split_whitespace().collect::<Vec<_>>().join(" to ");
    Some(format!(
        "no {kind} port of {address} from {range} is free; end the programs that use them (`ss -anp` lists them)"
    ))
}

/// Note if `/dev/shm` is full.
pub fn shared_memory() -> Option<String> {
    let (_, free) = space(Path::new("/dev/shm"))?;
    (free < LITTLE_SHARED_MEMORY).then(|| format!("{free} bytes are free in /dev/shm"))
}

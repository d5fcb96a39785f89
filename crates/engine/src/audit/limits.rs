//! Checks of resource limits.

use super::check::{MachineCheck, MachineObservations, Reading};
use super::parse;
use super::root::Hidden;
use crate::os;
use tripmeter_model::audit::{CheckInfo, ProcessActivity};
use tripmeter_model::payload::display_size;

const MIB: u64 = 1 << 20;
/// Memory that both processes lock: their code, their libraries and the buffers of a usual run.
const LEAST_LOCKED: u64 = 64 * MIB;
/// Docker gives 64 MiB, too little for large payloads.
const LEAST_SHARED: u64 = 256 * MIB;
/// Linux's default, enough for 24 queues of 8 messages of 4 KiB.
const LEAST_QUEUES: u64 = 819_200;
const LEAST_MESSAGES: u64 = 10;
const LEAST_MESSAGE_BYTES: u64 = 8192;
/// Linux's default. DDS and other middleware over UDP ask for several MiB.
const LEAST_SOCKET_BYTES: u64 = 212_992;
const AMPLE_SOCKET_BYTES: u64 = 4 * MIB;
/// Capability that permits locking any amount of memory.
const CAP_IPC_LOCK: u32 = 14;
/// Capability that permits any scheduling priority.
const CAP_SYS_NICE: u32 = 23;
/// `uid_map` of the initial user namespace.
const ALL_USERS: [&str; 3] = ["0", "0", "4294967295"];

pub(super) const CHECKS: &[MachineCheck] = &[
    MachineCheck {
        info: CheckInfo {
            name: "limit-memlock",
            source: "/proc/self/limits: Max locked memory; /proc/self/status: CapEff; /proc/self/uid_map",
            limit: "warns below 64M",
            fix: "ulimit -l unlimited (as root, or by 'memlock' in /etc/security/limits.conf)",
        },
        read: locked,
    },
    MachineCheck {
        info: CheckInfo {
            name: "limit-rtprio",
            source: "/proc/self/limits: Max realtime priority; /proc/self/status: CapEff; /proc/self/uid_map",
            limit: "info only: --sched fifo:N needs N, and middleware may need some",
            fix: "ulimit -r 99 (as root, or by 'rtprio' in /etc/security/limits.conf)",
        },
        read: priority,
    },
    MachineCheck {
        info: CheckInfo {
            name: "realtime-throttling",
            source: "/proc/sys/kernel/{sched_rt_runtime_us,sched_rt_period_us}",
            limit: "warns if there is no limit: polling loops under --sched fifo would then never release their CPUs",
            fix: "sudo sysctl kernel.sched_rt_runtime_us=950000",
        },
        read: throttling,
    },
    MachineCheck {
        info: CheckInfo {
            name: "limit-message-queues",
            source: "/proc/self/limits: Max msgqueue size; /proc/sys/fs/mqueue/{msg_max,msgsize_max}",
            limit: "warns below Linux's defaults: 819200 bytes, 10 messages, 8192 bytes each",
            fix: "ulimit -q 819200; sudo sysctl fs.mqueue.msg_max=10 fs.mqueue.msgsize_max=8192",
        },
        read: queues,
    },
    MachineCheck {
        info: CheckInfo {
            name: "limit-shared-memory",
            source: "size of and space in /dev/shm",
            limit: "warns if less than 256M are free",
            fix: "sudo mount -o remount,size=2G /dev/shm (docker: --shm-size=2g)",
        },
        read: shared,
    },
    MachineCheck {
        info: CheckInfo {
            name: "limit-socket-buffers",
            source: "/proc/sys/net/core/{rmem_max,wmem_max}",
            limit: "warns below Linux's default, 212992; middleware for UDP asks for 4M and more",
            fix: "sudo sysctl net.core.rmem_max=8388608 net.core.wmem_max=8388608",
        },
        read: sockets,
    },
];

/// Soft limit of this process; `None` if unlimited.
fn soft(observed: &MachineObservations<'_>, name: &str) -> Result<Option<u64>, Hidden> {
    observed.root.parsed("proc/self/limits", |text| parse::limit(text, name))
}

/// True if this process has the capability for the whole machine, not only inside a user namespace.
fn is_capable(observed: &MachineObservations<'_>, capability: u32) -> bool {
    let bits = observed.root.parsed("proc/self/status", |text| {
        let line = text.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
        u64::from_str_radix(line.trim(), 16).ok()
    });
    // A kernel without user namespaces has no such file.
    let users = observed.root.parsed("proc/self/uid_map", |text| Some(text.split_whitespace().eq(ALL_USERS)));
    bits.is_ok_and(|bits| bits & (1 << capability) != 0) && users.unwrap_or(true)
}

fn locked(observed: &MachineObservations<'_>) -> Result<Reading, Hidden> {
    if is_capable(observed, CAP_IPC_LOCK) {
        return Ok(Reading::good("unlimited, by the capability CAP_IPC_LOCK"));
    }
    Ok(match soft(observed, "Max locked memory")? {
        None => Reading::good("unlimited"),
        Some(bytes) => Reading::good_if(bytes >= LEAST_LOCKED, display_size(bytes)),
    })
}

fn priority(observed: &MachineObservations<'_>) -> Result<Reading, Hidden> {
    if is_capable(observed, CAP_SYS_NICE) {
        return Ok(Reading::good("unlimited, by the capability CAP_SYS_NICE"));
    }
    Ok(match soft(observed, "Max realtime priority")? {
        None => Reading::good("unlimited"),
        Some(0) => Reading::note("0: no real-time priority"),
        Some(most) => Reading::good(most.to_string()),
    })
}

/// With real-time scheduling, the kernel stops a polling loop for the rest of each period if another task waits for its
/// CPU.
fn throttling(observed: &MachineObservations<'_>) -> Result<Reading, Hidden> {
    let number =
        |name: &str| observed.root.parsed(&format!("proc/sys/kernel/{name}"), |text| text.trim().parse::<i64>().ok());
    let (runtime_us, period_us) = (number("sched_rt_runtime_us")?, number("sched_rt_period_us")?);
    if runtime_us < 0 || runtime_us >= period_us {
        return Ok(Reading::warn("no limit"));
    }
    let value = format!("{runtime_us} of {period_us} µs");
    let left_ms = (period_us - runtime_us) as f64 / 1e3;
    let is_real_time =
        |process: &&ProcessActivity| process.policy.as_ref().is_some_and(|policy| policy.starts_with("fifo"));
    Ok(match observed.processes.iter().find(is_real_time) {
        Some(_) => Reading::good(format!(
            "{value}; in real time, a polling loop is paused for up to {left_ms} ms of each period, which raises its \
             largest latencies"
        )),
        None => Reading::good(value),
    })
}

fn queues(observed: &MachineObservations<'_>) -> Result<Reading, Hidden> {
    let all = soft(observed, "Max msgqueue size")?.unwrap_or(u64::MAX);
    let messages = observed.root.number("proc/sys/fs/mqueue/msg_max")?;
    let bytes = observed.root.number("proc/sys/fs/mqueue/msgsize_max")?;
    let total = if all == u64::MAX { "unlimited".to_owned() } else { format!("{all} bytes") };
    let value = format!("{total} in all; {messages} messages of {bytes} bytes per queue");
    let is_good = all >= LEAST_QUEUES && messages >= LEAST_MESSAGES && bytes >= LEAST_MESSAGE_BYTES;
    Ok(Reading::good_if(is_good, value))
}

fn shared(observed: &MachineObservations<'_>) -> Result<Reading, Hidden> {
    let (size_bytes, free_bytes) = os::space(&observed.root.path("dev/shm")).ok_or("/dev/shm is not there")?;
    let value = format!("{} MiB, of which {} are free", size_bytes / MIB, free_bytes / MIB);
    Ok(Reading::good_if(free_bytes >= LEAST_SHARED, value))
}

fn sockets(observed: &MachineObservations<'_>) -> Result<Reading, Hidden> {
    let receive = observed.root.number("proc/sys/net/core/rmem_max")?;
    let send = observed.root.number("proc/sys/net/core/wmem_max")?;
    let value = format!("{} to receive, {} to send", display_size(receive), display_size(send));
    Ok(match receive.min(send) {
        least if least < LEAST_SOCKET_BYTES => Reading::warn(value),
        least if least < AMPLE_SOCKET_BYTES => Reading::note(value),
        _ => Reading::good(value),
    })
}

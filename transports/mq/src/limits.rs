//! Queues within the kernel's limits.
#![expect(unsafe_code, reason = "a system call")]

use tripmeter_abi::os::{self, number_or};
use tripmeter_abi::packets::{self, LEAST_PACKET_BYTES};
use tripmeter_abi::{Error, NodeOptions, Result, Status};

/// Kernel's overhead per message, rounded up: two small structures.
const MESSAGE_OVERHEAD_BYTES: u64 = 128;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shape {
    pub packet: usize,
    pub depth: u64,
}

impl Shape {
    pub(crate) fn find(options: &NodeOptions) -> Result<Self> {
        let kernel = Kernel::read()?;
        let packet = packets::packet_bytes(options, u32::MAX.into())?.map_or(kernel.msgsize_max, |bytes| bytes as u64);
        let depth = number_or(options, "depth", "native", 1..=1 << 16)?;
        kernel.shape(packet, depth, options.link_count.max(1).into())
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel {
    pub msg_max: u64,
    pub msgsize_max: u64,
    pub rlimit_bytes: u64,
}

impl Kernel {
    fn read() -> Result<Self> {
        Ok(Self { msg_max: sysctl("msg_max")?, msgsize_max: sysctl("msgsize_max")?, rlimit_bytes: rlimit_bytes()? })
    }

    /// Shape of two queues per link, with packets of `packet` bytes; depth `None` means the greatest that fits.
    pub(crate) fn shape(&self, packet: u64, depth: Option<u64>, links: u64) -> Result<Shape> {
        let queues = 2 * links;
        let room = self.rlimit_bytes / queues / (packet + MESSAGE_OVERHEAD_BYTES);
        let depth = depth.unwrap_or(self.msg_max.min(room.max(1)));
        if packet > self.msgsize_max {
            return Err(limit(format!(
                "setting 'packet={packet}' is outside {LEAST_PACKET_BYTES} to {}; \
                 raise sysctl fs.mqueue.msgsize_max to {packet}",
                self.msgsize_max
            )));
        }
        if depth > self.msg_max {
            return Err(limit(format!(
                "setting 'depth={depth}' is outside 1 to {}; raise sysctl fs.mqueue.msg_max to {depth}",
                self.msg_max
            )));
        }
        if depth > room {
            return Err(self.too_little_memory(packet, depth, queues));
        }
        Ok(Shape { packet: packet as usize, depth })
    }

    fn too_little_memory(&self, packet: u64, depth: u64, queues: u64) -> Error {
        let needed = queues * depth * (packet + MESSAGE_OVERHEAD_BYTES);
        limit(format!(
            "{queues} queues of {depth} x {packet} bytes need {needed} bytes of RLIMIT_MSGQUEUE, which is {}; \
             raise it (`ulimit -q {needed}`), or use smaller 'packet' or 'depth'",
            self.rlimit_bytes
        ))
    }
}

fn limit(text: String) -> Error {
    Error::new(Status::Limit, text)
}

fn sysctl(name: &str) -> Result<u64> {
    let path = format!("/proc/sys/fs/mqueue/{name}");
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    text.trim().parse().map_err(|_| {
        Error::new(Status::Unavailable, format!("no POSIX message queues in this kernel: cannot read {path}"))
    })
}

fn rlimit_bytes() -> Result<u64> {
    let mut found = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writable.
    if unsafe { libc::getrlimit(libc::RLIMIT_MSGQUEUE, &mut found) } != 0 {
        return Err(Error::last_os("reading RLIMIT_MSGQUEUE"));
    }
    Ok(found.rlim_cur)
}

/// Error of a refused queue: limit, value needed, and remedy.
pub(crate) fn refusal(shape: &Shape, links: u64) -> Error {
    let (errno, Shape { packet, depth }) = (os::errno(), *shape);
    let queues = 2 * links;
    match errno {
        libc::EMFILE => {
            let needed = queues * depth * (packet as u64 + MESSAGE_OVERHEAD_BYTES);
            let found = rlimit_bytes().unwrap_or(0);
            limit(format!(
                "no room for {queues} queues of {depth} x {packet} bytes beside those that this user has: RLIMIT_MSGQUEUE \
                 is {found}, {needed} more are needed; raise it (`ulimit -q {}`), or use smaller 'packet' or 'depth'",
                found.saturating_add(needed)
            ))
        }
        libc::ENOSPC => {
            let most = sysctl("queues_max").unwrap_or(0);
            limit(format!(
                "{queues} queues are needed, and all {most} of this host are in use; raise sysctl fs.mqueue.queues_max \
                 to {}, or remove stale queues",
                most + queues
            ))
        }
        libc::EINVAL => limit(format!(
            "the kernel refuses a queue of {depth} x {packet} bytes; raise sysctl fs.mqueue.msg_max to {depth} and \
             fs.mqueue.msgsize_max to {packet}"
        )),
        libc::ENOSYS => Error::new(Status::Unavailable, "no POSIX message queues in this kernel"),
        _ => os::os_error("making a message queue", errno),
    }
}

//! Pair of queues: `a` from the leader to the follower, `b` back.
#![expect(unsafe_code, reason = "a system call")]

use crate::limits::{Shape, refusal};
use std::ffi::CString;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use tripmeter_abi::os::{self, Deadline, Endpoint, Io, Port};
use tripmeter_abi::{Error, NodeOptions, Result, Role, Wait};

/// The follower's first message; shorter than any packet.
const HELLO: [u8; 1] = [0x54];

pub struct QueuePair {
    reader: Option<OwnedFd>,
    writer: Option<OwnedFd>,
    role: Role,
    nonblocking: bool,
    shape: Shape,
    a: Name,
    b: Name,
}

/// Name of a queue, which is unlinked when dropped if this end created the queue.
struct Name {
    text: CString,
    made: bool,
}

impl Name {
    fn new(run_id: &str, suffix: &str) -> Result<Self> {
        let text =
            CString::new(format!("/{run_id}-{suffix}")).map_err(|_| Error::failed("the run's name has a zero byte"))?;
        Ok(Self { text, made: false })
    }

    /// Creates the queue. Records its name first, so that it can be removed even if this process is killed.
    fn make(&mut self, options: &NodeOptions, shape: &Shape, mode: i32) -> Result<OwnedFd> {
        note(options, &self.text)?;
        // SAFETY: all zeroes are valid attributes.
        let mut attributes: libc::mq_attr = unsafe { std::mem::zeroed() };
        attributes.mq_maxmsg = shape.depth as libc::c_long;
        attributes.mq_msgsize = shape.packet as libc::c_long;
        let flags = mode | libc::O_CREAT | libc::O_EXCL | libc::O_NONBLOCK | libc::O_CLOEXEC;
        // SAFETY: a NUL-terminated name, and the two arguments that O_CREAT needs.
        let queue = unsafe { libc::mq_open(self.text.as_ptr(), flags, 0o600 as libc::mode_t, &raw const attributes) };
        if queue < 0 {
            return Err(refusal(shape, options.link_count.max(1).into()));
        }
        self.made = true;
        // SAFETY: on Linux a queue descriptor is a file descriptor; nothing else owns this new one.
        Ok(unsafe { OwnedFd::from_raw_fd(queue) })
    }

    fn open(&self, mode: i32, deadline: Deadline) -> Result<OwnedFd> {
        loop {
            // SAFETY: a NUL-terminated name.
            let queue = unsafe { libc::mq_open(self.text.as_ptr(), mode | libc::O_NONBLOCK | libc::O_CLOEXEC) };
            if queue >= 0 {
                // SAFETY: as in `make`.
                return Ok(unsafe { OwnedFd::from_raw_fd(queue) });
            }
            let error = Error::last_os(&format!("opening message queue {}", self.text.to_string_lossy()));
            if os::errno() != libc::ENOENT || !deadline.nap() {
                return Err(error);
            }
        }
    }

    fn unlink(&mut self) {
        if std::mem::take(&mut self.made) {
            // SAFETY: a NUL-terminated name.
            unsafe { libc::mq_unlink(self.text.as_ptr()) };
        }
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        self.unlink();
    }
}

/// Adds a name to the list of queues that the host removes after a crash.
fn note(options: &NodeOptions, name: &CString) -> Result<()> {
    let path = options.scratch_dir.join("queues");
    let mut line = name.to_string_lossy().into_owned();
    line.push('\n');
    std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(&path)
        .and_then(|mut file| file.write_all(line.as_bytes()))
        .map_err(|error| Error::os(&format!("noting a queue in {}", path.display()), error))
}

/// Creates all queues of the node to test the kernel's limits, and removes them.
pub(crate) fn try_shape(options: &NodeOptions, shape: &Shape) -> Result<()> {
    let count = 2 * options.link_count.max(1);
    let mut queues = Vec::new();
    for index in 0..count {
        let mut name = Name::new(&options.run_id, &format!("probe-{index}"))?;
        queues.push(name.make(options, shape, libc::O_RDWR)?);
    }
    Ok(())
}

impl QueuePair {
    pub(crate) fn new(options: &NodeOptions, index: u32, shape: Shape) -> Result<Self> {
        let mut pair = Self {
            reader: None,
            writer: None,
            role: options.role,
            nonblocking: options.wait == Wait::Poll,
            shape,
            a: Name::new(&options.run_id, &format!("{index}-a"))?,
            b: Name::new(&options.run_id, &format!("{index}-b"))?,
        };
        if options.role == Role::Leader {
            pair.writer = Some(pair.a.make(options, &shape, libc::O_WRONLY)?);
            pair.reader = Some(pair.b.make(options, &shape, libc::O_RDONLY)?);
        }
        Ok(pair)
    }

    /// Waits for the follower's greeting, after which the queues need no names.
    fn connect_leader(&mut self, deadline: Deadline) -> Result<()> {
        let mut room = vec![0; self.shape.packet];
        deadline.wait(raw(&self.reader), libc::POLLIN, "the follower's greeting")?;
        match self.receive(&mut room) {
            Ok(1) if room[0] == HELLO[0] => {}
            Ok(_) => return Err(Error::failed("the follower's greeting is not understood; is it of this version?")),
            Err(errno) => return Err(os::os_error("receiving the follower's greeting", errno)),
        }
        self.a.unlink();
        self.b.unlink();
        Ok(())
    }

    fn connect_follower(&mut self, deadline: Deadline) -> Result<()> {
        self.reader = Some(self.a.open(libc::O_RDONLY, deadline)?);
        self.writer = Some(self.b.open(libc::O_WRONLY, deadline)?);
        self.send(&HELLO).map(drop).map_err(|errno| os::os_error("greeting the leader", errno))
    }
}

#[inline]
fn raw(queue: &Option<OwnedFd>) -> RawFd {
    queue.as_ref().map_or(-1, AsRawFd::as_raw_fd)
}

impl Port for QueuePair {
    #[inline]
    fn send(&self, bytes: &[u8]) -> Io {
        // SAFETY: `bytes` is readable for its length; a bad descriptor is an error of the call, not undefined.
        match unsafe { libc::mq_send(raw(&self.writer), bytes.as_ptr().cast(), bytes.len(), 0) } {
            0 => Ok(bytes.len()),
            _ => Err(os::errno()),
        }
    }

    #[inline]
    fn receive(&self, room: &mut [u8]) -> Io {
        let no_priority = std::ptr::null_mut();
        // SAFETY: `room` is writable for its length; a bad descriptor is an error of the call, not undefined.
        let got = unsafe { libc::mq_receive(raw(&self.reader), room.as_mut_ptr().cast(), room.len(), no_priority) };
        usize::try_from(got).map_err(|_| os::errno())
    }
}

impl Endpoint for QueuePair {
    fn address(&mut self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn connect(&mut self, _peer: &[u8], deadline: Deadline) -> Result<()> {
        match self.role {
            Role::Leader => self.connect_leader(deadline)?,
            Role::Follower => self.connect_follower(deadline)?,
        }
        os::set_nonblocking(raw(&self.reader), self.nonblocking)?;
        os::set_nonblocking(raw(&self.writer), self.nonblocking)
    }

    fn needs_farewell(&self) -> bool {
        true
    }

    fn stop_blocking(&self) {
        // The queue is about to be closed.
        let _ = os::set_nonblocking(raw(&self.writer), true);
    }

    fn has_arrived(&self) -> bool {
        os::is_readable(raw(&self.reader))
    }
}

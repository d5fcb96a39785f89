//! Pair of FIFOs, which both ends open without blocking each other in `open(2)`.
//!
//! The leader creates both and opens the reading end of `b`. The follower opens the writing end of `b`, then the
//! reading end of `a`. Once the leader can open the writing end of `a`, everything is open. It then sends one byte,
//! before which the follower would take the missing writer for an end of file.

use rustix::fs::{CWD, Mode, OFlags, mkfifoat};
use rustix::io::Errno;
use rustix::param::page_size;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use tripmeter_abi::os::{self, Deadline, Endpoint, Io, Port};
use tripmeter_abi::{Error, NodeOptions, Result, Role, Status, Wait};

const HELLO: [u8; 1] = [0x54];

/// Two FIFOs: `a` from the leader to the follower, `b` back.
pub struct FifoPair {
    reader: Option<OwnedFd>,
    writer: Option<OwnedFd>,
    role: Role,
    nonblocking: bool,
    buffer: Option<u64>,
    /// True if this end must remove the two paths.
    made: bool,
    a: PathBuf,
    b: PathBuf,
}

impl FifoPair {
    pub(crate) fn new(options: &NodeOptions, index: u32, buffer: Option<u64>) -> Result<Self> {
        let path = |side: char| options.scratch_dir.join(format!("fifo-{index}-{side}"));
        let mut pair = Self {
            reader: None,
            writer: None,
            role: options.role,
            nonblocking: options.wait == Wait::Poll,
            buffer,
            made: false,
            a: path('a'),
            b: path('b'),
        };
        if options.role == Role::Leader {
            pair.made = true;
            make(&pair.a)?;
            make(&pair.b)?;
            pair.reader = open(&pair.b, OFlags::RDONLY)?;
        }
        Ok(pair)
    }

    fn unlink(&mut self) {
        if std::mem::take(&mut self.made) {
            for path in [&self.a, &self.b] {
                // Whether it still existed does not matter.
                let _ = std::fs::remove_file(path);
            }
        }
    }

    fn connect_leader(&mut self, deadline: Deadline) -> Result<()> {
        let writer = open_when_there(&self.a, OFlags::WRONLY, deadline)?;
        self.unlink();
        set_buffer(&writer, self.buffer)?;
        os::write(writer.as_raw_fd(), &HELLO).map_err(|errno| os::os_error("greeting the follower", errno))?;
        self.writer = Some(writer);
        Ok(())
    }

    fn connect_follower(&mut self, deadline: Deadline) -> Result<()> {
        let writer = open_when_there(&self.b, OFlags::WRONLY, deadline)?;
        set_buffer(&writer, self.buffer)?;
        let reader = open_when_there(&self.a, OFlags::RDONLY, deadline)?;
        let mut hello = [0];
        loop {
            deadline.wait(reader.as_raw_fd(), libc::POLLIN, "the leader's greeting")?;
            match os::read(reader.as_raw_fd(), &mut hello) {
                Ok(1) if hello == HELLO => break,
                // poll(2) may report a hang-up while the writer opens the FIFO.
                Err(libc::EAGAIN) => {}
                _ => return Err(Error::closed("the leader went away while connecting; see its log")),
            }
        }
        (self.reader, self.writer) = (Some(reader), Some(writer));
        Ok(())
    }
}

fn make(path: &Path) -> Result<()> {
    let made = mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR);
    made.map_err(|errno| Error::os(&format!("making FIFO {}", path.display()), errno.into()))
}

/// Opens without blocking; `None` if the FIFO does not exist or, for writing, has no reader.
fn open(path: &Path, mode: OFlags) -> Result<Option<OwnedFd>> {
    match rustix::fs::open(path, mode | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()) {
        Ok(fd) => Ok(Some(fd)),
        Err(Errno::NXIO | Errno::NOENT | Errno::INTR) => Ok(None),
        Err(errno) => Err(Error::os(&format!("opening FIFO {}", path.display()), errno.into())),
    }
}

fn open_when_there(path: &Path, mode: OFlags, deadline: Deadline) -> Result<OwnedFd> {
    loop {
        if let Some(fd) = open(path, mode)? {
            return Ok(fd);
        }
        if !deadline.nap() {
            let text = format!("no peer at FIFO {} within the time-out; is it running?", path.display());
            return Err(Error::failed(text));
        }
    }
}

fn set_buffer(pipe: &OwnedFd, buffer: Option<u64>) -> Result<()> {
    buffer.map_or(Ok(()), |bytes| resize(pipe, bytes, None))
}

/// Fails as [`refusal`].
fn resize(pipe: &OwnedFd, bytes: u64, fits: Option<(u32, u32)>) -> Result<()> {
    fcntl_setpipe_size(pipe, bytes as usize).map(drop).map_err(|errno| refusal(bytes, errno, fits))
}

fn sysctl(name: &str) -> Option<u64> {
    std::fs::read_to_string(format!("/proc/sys/fs/{name}")).ok()?.trim().parse().ok()
}

/// Most pages of all pipes of an unprivileged user, and the sysctl that sets it; `None` if there is no limit.
fn user_pages() -> Option<(u64, &'static str)> {
    let limits = ["pipe-user-pages-soft", "pipe-user-pages-hard"].map(|name| (sysctl(name).unwrap_or(0), name));
    limits.into_iter().filter(|(pages, _)| *pages > 0).min()
}

fn pages_of(bytes: u64) -> u64 {
    bytes.next_power_of_two().div_ceil(page_size() as u64)
}

/// Error of a pipe that cannot have `bytes` bytes, with the sysctl that limits it. `fits`: number of pipes that got
/// them, of all.
///
/// # Source
/// pipe(7): `/proc/sys/fs/pipe-max-size`, and the pages of all pipes of a user
fn refusal(bytes: u64, errno: Errno, fits: Option<(u32, u32)>) -> Error {
    let (head, error) = (format!("setting 'buffer={bytes}'"), std::io::Error::from(errno));
    let most = sysctl("pipe-max-size").unwrap_or(u64::MAX);
    let text = if errno != Errno::PERM {
        format!("{head}: {error}; take a smaller one")
    } else if bytes.next_power_of_two() > most {
        format!("{head}: {error}; without privilege {most} bytes at most, raise sysctl fs.pipe-max-size")
    } else {
        let (pages, name) = user_pages().unwrap_or((0, "pipe-user-pages-soft"));
        let page_bytes = page_size();
        let fits = match fits {
            Some((fits, all)) => format!("{fits} of {all} pipes fit"),
            None => format!("{} pipes of this user fit", pages / pages_of(bytes)),
        };
        format!(
            "{head}: {error}; {fits} into {pages} pages of {page_bytes} bytes, raise sysctl fs.{name}, or take fewer links or a \
             smaller buffer"
        )
    };
    Error::new(Status::Limit, text)
}

/// Tests the buffer on `count` temporary pipes.
pub(crate) fn try_buffer(buffer: Option<u64>, count: u32) -> Result<()> {
    let mut pipes = Vec::new();
    // A user who gets more pages than the limit has no limit.
    let most = buffer.zip(user_pages()).map_or(1, |(bytes, (pages, _))| pages / pages_of(bytes) + 1);
    for made in 0..count.min(u32::try_from(most).unwrap_or(u32::MAX)) {
        let reader = match pipe_with(PipeFlags::CLOEXEC) {
            Ok((reader, _writer)) => reader,
            // Workers may open more files, and each has one end only.
            Err(Errno::MFILE) if made > 0 => return Ok(()),
            Err(errno) => return Err(Error::os("making a pipe", errno.into())),
        };
        if let Some(bytes) = buffer {
            resize(&reader, bytes, Some((made, count)))?;
        }
        pipes.push(reader);
    }
    Ok(())
}

#[inline]
fn raw(fd: &Option<OwnedFd>) -> RawFd {
    fd.as_ref().map_or(-1, AsRawFd::as_raw_fd)
}

impl Port for FifoPair {
    #[inline]
    fn send(&self, bytes: &[u8]) -> Io {
        os::write(raw(&self.writer), bytes)
    }

    #[inline]
    fn receive(&self, room: &mut [u8]) -> Io {
        os::read(raw(&self.reader), room)
    }
}

impl Endpoint for FifoPair {
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

    fn has_arrived(&self) -> bool {
        os::is_readable(raw(&self.reader))
    }
}

impl Drop for FifoPair {
    fn drop(&mut self) {
        self.unlink();
    }
}

//! Bare ping-pong loops between two processes, without anything of Tripmeter: what its own overhead is measured against.
//!
//! They do what a loop by hand would: one clock reading per trip, a sequence number that is verified, no transport
//! interface, no accounting of lost messages, no watchdog but a time-out.

use crate::clock::{Calibration, Timebase};
use crate::handover::Page;
use crate::os::pin_thread;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long one message may take, the first with the start of the other process on a busy machine.
const MOST_TIME: Duration = Duration::from_secs(30);

/// Over what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarePath {
    /// A pair of Unix datagram sockets, polled.
    Uds,
    /// One cache line of shared memory, polled.
    Shm,
}

impl BarePath {
    /// As the command line names it.
    pub fn as_str(self) -> &'static str {
        match self {
            BarePath::Uds => "uds",
            BarePath::Shm => "shm",
        }
    }
}

/// What is to be done.
#[derive(Clone, Copy, Debug)]
pub struct BareTask {
    /// Over what.
    pub kind: BarePath,
    /// Round trips.
    pub trips: u64,
    /// Bytes of a message; with shared memory only its header is touched.
    pub payload_bytes: usize,
    /// CPU of this side; `None` leaves it to the kernel.
    pub cpu: Option<usize>,
}

/// Round trips in nanoseconds, in order; the other side is started by `follower` with our end of what connects us as its
/// standard input.
///
/// # Errors
/// If the other side cannot be started, or does not answer.
pub fn lead(task: &BareTask, follower: &mut Command) -> io::Result<Vec<u64>> {
    task.cpu.map_or(Ok(()), pin_thread)?;
    let timebase = Calibration::new().timebase;
    let (ticks, mut child) = match task.kind {
        BarePath::Uds => {
            let (own, other) = UnixDatagram::pair()?;
            own.set_nonblocking(true)?;
            let child = follower.stdin(Stdio::from(OwnedFd::from(other))).spawn()?;
            (datagrams(&own, &timebase, task), child)
        }
        BarePath::Shm => {
            let page = Page::create()?;
            let child = follower.stdin(Stdio::from(page.file()?)).spawn()?;
            let none = || io::Error::new(ErrorKind::TimedOut, "the other side does not answer");
            (page.exchange(&timebase, task.trips).ok_or_else(none), child)
        }
    };
    if ticks.is_err() {
        // It ends by itself after its time-out, too.
        let _ = child.kill();
    }
    child.wait()?;
    Ok(ticks?.into_iter().map(|ticks| timebase.to_ns(ticks)).collect())
}

/// The other half, with standard input for what connects both.
///
/// # Errors
/// If the leader does not go on.
pub fn follow(task: &BareTask) -> io::Result<()> {
    task.cpu.map_or(Ok(()), pin_thread)?;
    match task.kind {
        BarePath::Uds => {
            let socket = UnixDatagram::from(io::stdin().as_fd().try_clone_to_owned()?);
            socket.set_nonblocking(true)?;
            let mut message = vec![0; task.payload_bytes];
            for trip in 0..task.trips {
                receive(&socket, &mut message, trip)?;
                send(&socket, &mut message, trip)?;
            }
            Ok(())
        }
        BarePath::Shm => match Page::of(io::stdin().as_fd().try_clone_to_owned()?.into())?.answer(task.trips) {
            true => Ok(()),
            false => Err(io::Error::new(ErrorKind::TimedOut, "the leader does not go on")),
        },
    }
}

fn datagrams(socket: &UnixDatagram, timebase: &Timebase, task: &BareTask) -> io::Result<Vec<u64>> {
    let mut message = vec![0; task.payload_bytes];
    let mut samples = vec![0; task.trips as usize];
    let mut previous = timebase.now();
    for (trip, sample) in (0..).zip(&mut samples) {
        send(socket, &mut message, trip)?;
        receive(socket, &mut message, trip)?;
        let now = timebase.now();
        *sample = now - previous;
        previous = now;
    }
    Ok(samples)
}

fn send(socket: &UnixDatagram, message: &mut [u8], trip: u64) -> io::Result<()> {
    message[..8].copy_from_slice(&trip.to_le_bytes());
    until_done(|| socket.send(message).map(drop))
}

fn receive(socket: &UnixDatagram, message: &mut [u8], trip: u64) -> io::Result<()> {
    until_done(|| socket.recv(message).map(drop))?;
    if message[..8] == trip.to_le_bytes() {
        return Ok(());
    }
    Err(io::Error::new(ErrorKind::InvalidData, "a message is not the one that was sent"))
}

/// Spins while it would block, for [`MOST_TIME`] at most.
fn until_done(mut attempt: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    const SPINS: u32 = 1 << 16;
    let mut begin = None;
    loop {
        for _ in 0..SPINS {
            match attempt() {
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                done => return done,
            }
        }
        if begin.get_or_insert_with(Instant::now).elapsed() > MOST_TIME {
            return Err(io::Error::new(ErrorKind::TimedOut, "the other side does not answer"));
        }
    }
}

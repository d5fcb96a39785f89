//! Bare ping-pong loops between two processes, against which Tripmeter's own overhead is measured.
//! They are what one would write by hand: one clock reading and one verified sequence number per round trip. There is
//! no transport interface and no accounting of losses; a timeout is the only watchdog.

use crate::clock::{Calibration, Timebase};
use crate::core_to_core::Page;
use crate::os::pin_thread;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use strum::Display;

/// Timeout for a message; the first one includes the start of the other process on a busy machine.
const MOST_TIME: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Display)]
#[strum(serialize_all = "lowercase")]
pub enum BarePath {
    /// A pair of Unix datagram sockets, polled.
    Uds,
    /// One cache line of shared memory, polled.
    Shm,
}

#[derive(Clone, Copy, Debug)]
pub struct BareTask {
    pub kind: BarePath,
    pub trips: u64,
    /// Bytes of a message; shared memory touches only its header.
    pub payload_bytes: usize,
    /// CPU of this side; `None` leaves the choice to the kernel.
    pub cpu: Option<usize>,
}

/// Runs the leader; returns round trips in nanoseconds, in order. `follower` starts the other side with its end of the
/// connection as standard input.
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
        // The follower would otherwise run until its timeout.
        let _ = child.kill();
    }
    child.wait()?;
    Ok(ticks?.into_iter().map(|ticks| timebase.to_ns(ticks)).collect())
}

/// Runs the follower over the connection in standard input.
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
        BarePath::Shm => match Page::map(io::stdin().as_fd().try_clone_to_owned()?.into())?.answer(task.trips) {
            true => Ok(()),
            false => Err(io::Error::new(ErrorKind::TimedOut, "the leader has stopped")),
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

/// Retries while the call would block, for at most [`MOST_TIME`].
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

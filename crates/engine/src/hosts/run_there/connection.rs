//! Connection to a command on another host: its heartbeats, and its end.

use crate::os::wait_readable;
use crate::spawn::{ended_within, kill};
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{self, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, ExitStatus};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

const LOOKING: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug)]
pub(super) struct HostPatience {
    /// Time between two lines that the host must answer.
    pub asking: Duration,
    pub silence: Duration,
    /// Time for the process to end: first by itself, then after SIGTERM.
    pub ending: Duration,
}

impl HostPatience {
    /// Times for hosts that may have no CPU to spare while they measure.
    pub const USUAL: Self =
        Self { asking: Duration::from_secs(5), silence: Duration::from_secs(60), ending: Duration::from_secs(20) };
}

pub(super) struct HostConnection {
    patience: HostPatience,
    /// True if a scheduler may keep the command in its queue, for days.
    is_scheduled: bool,
    has_begun: AtomicBool,
    has_ended: AtomicBool,
    /// True once standard input is to be closed.
    is_over: AtomicBool,
    was_silent: AtomicBool,
}

impl HostConnection {
    pub fn new(patience: HostPatience, is_scheduled: bool) -> Self {
        let [has_begun, has_ended, is_over, was_silent] = [(); 4].map(|()| AtomicBool::new(false));
        Self { patience, is_scheduled, has_begun, has_ended, is_over, was_silent }
    }

    pub fn finish(&self) {
        self.is_over.store(true, Relaxed);
    }

    /// True if the host was given up because of its silence.
    pub fn was_silent(&self) -> bool {
        self.was_silent.load(Relaxed)
    }

    /// Sends the script, then lines that the host answers, until the connection is over. Closes standard input.
    pub fn feed(&self, mut input: ChildStdin, script: &str) {
        // A broken connection is reported by its exit status.
        let mut is_open = input.write_all(script.as_bytes()).is_ok();
        let mut asked = Instant::now();
        while is_open && !self.is_over.load(Relaxed) {
            std::thread::sleep(LOOKING);
            if asked.elapsed() > self.patience.asking && self.has_begun.load(Relaxed) {
                (is_open, asked) = (input.write_all(b"\n").is_ok(), Instant::now());
            }
        }
    }

    /// Waits until the connection is over or stopped, then ends its process. Returns `None` if the process does not
    /// end.
    pub fn watch(&self, child: &mut Child, stop: &AtomicBool) -> Option<ExitStatus> {
        let pid = Pid::from_child(child);
        let mut status = None;
        while status.is_none() && !stop.load(Relaxed) && !self.is_over.load(Relaxed) {
            std::thread::sleep(LOOKING);
            status = child.try_wait().ok().flatten();
        }
        if status.is_none() {
            self.is_over.store(true, Relaxed);
            for signal in [Signal::TERM, Signal::KILL] {
                status = status.or_else(|| ended_within(child, self.patience.ending, LOOKING));
                if status.is_none() {
                    // It may have ended just now.
                    let _ = kill_process_group(pid, signal);
                }
            }
            status = status.or_else(|| kill(child));
        }
        self.has_ended.store(true, Relaxed);
        status
    }
}

/// Standard output of the connection; times out after too long a silence.
pub(super) struct WatchedOutput<'a> {
    output: ChildStdout,
    connection: &'a HostConnection,
}

impl<'a> WatchedOutput<'a> {
    pub fn new(output: ChildStdout, connection: &'a HostConnection) -> Self {
        Self { output, connection }
    }
}

impl Read for WatchedOutput<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let begin = Instant::now();
        while !wait_readable(&[&self.output], LOOKING)?[0] {
            let connection = self.connection;
            let may_wait =
                connection.is_scheduled && !connection.has_begun.load(Relaxed) && !connection.has_ended.load(Relaxed);
            if !may_wait && begin.elapsed() > connection.patience.silence {
                connection.was_silent.store(true, Relaxed);
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        let bytes = self.output.read(room)?;
        self.connection.has_begun.store(true, Relaxed);
        Ok(bytes)
    }
}

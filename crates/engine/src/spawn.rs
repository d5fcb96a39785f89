//! A worker process: its start, its channel, its end.

use crate::channel::{Heard, Incoming, send};
use crate::os::{self, Signal};
use crate::received::BoundedMessage;
use crate::system_calls::traced;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tripmeter_model::exit;

/// The hidden command that makes a process a worker.
pub const WORKER_COMMAND: &str = "worker";

/// Working directory of processes that have no folder of their own and may load code of others: only root can put a file there.
/// Libraries obey configuration files in the working directory, which anybody may have put into that of the user.
pub(crate) const ROOT: &str = "/";

/// A running worker. Dropping it kills it.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    /// Its standard input, which is a socket that carries messages both ways.
    pub stream: UnixStream,
    status: Option<ExitStatus>,
    /// Its limits when it ended, if they were tight.
    tight_limits: Option<String>,
    /// It was killed, and did not end in its time: it is not waited for again.
    is_stuck: bool,
}

impl Worker {
    /// Starts one. What it prints goes to `log`, or to our standard error.
    ///
    /// It gets a process group of its own, so that a Ctrl-C in the terminal does not reach it, and `environment` is added
    /// to ours. Its working directory is `folder`, where nobody else can write; see [`ROOT`]. If there is a file `trace`, its
    /// system calls are written there.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn spawn(
        tripmeter: &Path,
        folder: &Path,
        environment: &BTreeMap<String, String>,
        log: Option<&File>,
        trace: Option<&Path>,
    ) -> io::Result<Self> {
        let (stream, other) = UnixStream::pair()?;
        let output = || log.map_or_else(|| Ok(Stdio::from(io::stderr())), |log| log.try_clone().map(Stdio::from));
        let mut command = trace.map_or_else(|| Command::new(tripmeter), |file| traced(tripmeter, file));
        let child = command
            .arg(WORKER_COMMAND)
            .envs(environment)
            .current_dir(folder)
            .stdin(OwnedFd::from(other))
            .stdout(output()?)
            .stderr(output()?)
            .process_group(0)
            .spawn()?;
        Ok(Self { child, stream, status: None, tight_limits: None, is_stuck: false })
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Tells it something.
    ///
    /// # Errors
    /// If it has gone.
    pub fn send<T: Serialize>(&mut self, message: &T) -> io::Result<()> {
        send(&mut self.stream, message)
    }

    /// True once it has ended.
    pub fn has_ended(&mut self) -> bool {
        // Known until it is waited for.
        if self.status.is_none() && os::is_zombie(self.pid()) {
            self.tight_limits = os::tight_limits(self.pid());
        }
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status.is_some()
    }

    /// Waits for its end and kills it if it does not come in time. True if it was killed by us.
    pub fn end(&mut self, time: Duration) -> bool {
        let begin = Instant::now();
        while !self.has_ended() && !self.is_stuck {
            if begin.elapsed() >= time {
                self.status = kill(&mut self.child);
                self.is_stuck = self.status.is_none();
                return true;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.is_stuck
    }

    /// True if it has ended as somebody asked it to.
    pub fn was_terminated(&self) -> bool {
        self.status.is_some_and(|status| status.signal() == Some(Signal::TERM.as_raw()))
    }

    /// True if it has ended by a signal.
    pub fn was_signalled(&self) -> bool {
        self.status.is_some_and(|status| status.signal().is_some())
    }

    /// How it ended, if not by itself: by a signal, or in the middle of a system that ends its process.
    pub fn crash(&self) -> Option<String> {
        let code = self.status?.code();
        if code.is_some_and(|code| [exit::GOOD, exit::SOFTWARE].map(i32::from).contains(&code)) {
            return None;
        }
        self.failure()
    }

    /// How it ended, if not in order.
    pub fn failure(&self) -> Option<String> {
        let status = self.status.filter(|status| !status.success())?;
        let limit = self.tight_limits.as_ref().map_or_else(String::new, |limits| format!(" with {limits}"));
        if let Some(code) = status.code() {
            return Some(format!("ended with exit code {code}{limit}"));
        }
        let signal = status.signal()?;
        let name = match Signal::from_named_raw(signal) {
            Some(Signal::SEGV) => " (segmentation fault)",
            Some(Signal::ABORT) => " (abort)",
            Some(Signal::BUS) => " (bus error: a mapped file was cut, or has no room, as in a full /dev/shm)",
            Some(Signal::ILL) => " (illegal instruction)",
            Some(Signal::FPE) => " (arithmetic error)",
            Some(Signal::KILL) => " (kill)",
            _ => "",
        };
        Some(format!("was ended by signal {signal}{name}{limit}"))
    }

    /// What it told us last, unasked, before it ended.
    pub fn last_word<T: BoundedMessage>(&self) -> Option<T> {
        const SHORTLY: Duration = Duration::from_millis(100);
        let (mut incoming, end) = (Incoming::new(self.stream.try_clone().ok()?), Instant::now() + SHORTLY);
        loop {
            match incoming.next(end.saturating_duration_since(Instant::now())) {
                Ok(Heard::Message(word)) => return Some(word),
                Ok(Heard::Nothing) if Instant::now() < end => {}
                _ => return None,
            }
        }
    }
}

/// How long a process that was killed may take to end: one that waits for a dead disk or network ends when that does.
const MOST_DYING: Duration = Duration::from_secs(10);

/// Kills a child, and reaps it unless the kernel does not let it go; its status.
pub(crate) fn kill(child: &mut Child) -> Option<ExitStatus> {
    // It may have ended just now: either way it is reaped.
    let _ = child.kill();
    let begin = Instant::now();
    while begin.elapsed() < MOST_DYING {
        match child.try_wait() {
            Ok(None) => std::thread::sleep(Duration::from_millis(2)),
            ended => return ended.ok().flatten(),
        }
    }
    None
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}

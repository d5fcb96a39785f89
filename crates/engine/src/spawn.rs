//! Worker process: start, channel and end.

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

/// Hidden command that makes a process a worker.
pub const WORKER_COMMAND: &str = "worker";

/// Working directory of processes that may load foreign code and have no folder of their own. Only root can write
/// there. Libraries obey configuration files in the working directory; anybody may have put some into the user's own.
pub(crate) const ROOT: &str = "/";

/// Running worker. Dropping it kills it.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    /// Its standard input: a socket for messages in both directions.
    pub stream: UnixStream,
    status: Option<ExitStatus>,
    /// Tight resource limits that the process had when it ended, if any.
    tight_limits: Option<String>,
    /// True if it was killed and did not end in time; it is not waited for again.
    is_stuck: bool,
}

impl Worker {
    /// Starts a worker. Its output goes to `log`, or to our standard error.
    ///
    /// It has its own process group, so that Ctrl-C in the terminal does not reach it. `environment` is added to ours.
    /// `folder`, where nobody else can write, becomes its working directory; see [`ROOT`]. System calls are traced into
    /// `trace`, if given.
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

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn send<T: Serialize>(&mut self, message: &T) -> io::Result<()> {
        send(&mut self.stream, message)
    }

    pub fn has_ended(&mut self) -> bool {
        // Limits are visible until the process is reaped.
        if self.status.is_none() && os::is_zombie(self.pid()) {
            self.tight_limits = os::tight_limits(self.pid());
        }
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status.is_some()
    }

    /// Waits for it to end, and kills it after `time`. Returns true if it was killed.
    pub fn end(&mut self, time: Duration) -> bool {
        let begin = Instant::now();
        while !self.has_ended() && !self.is_stuck {
            if begin.elapsed() >= time {
                // The whole group is killed: strace first starts a test process of its own, which would otherwise stay.
                os::kill_group(self.pid());
                self.status = kill(&mut self.child);
                self.is_stuck = self.status.is_none();
                return true;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.is_stuck
    }

    /// True if SIGTERM ended it.
    pub fn was_terminated(&self) -> bool {
        self.status.is_some_and(|status| status.signal() == Some(Signal::TERM.as_raw()))
    }

    pub fn was_signalled(&self) -> bool {
        self.status.is_some_and(|status| status.signal().is_some())
    }

    /// Description of a crash: a signal, or an exit by the system that it drives. `None` if the worker ended by itself.
    pub fn crash(&self) -> Option<String> {
        let code = self.status?.code();
        if code.is_some_and(|code| [exit::GOOD, exit::SOFTWARE].map(i32::from).contains(&code)) {
            return None;
        }
        self.failure()
    }

    /// Description of how the worker ended; `None` if it succeeded or still runs.
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

    /// Next unread message that it sent; `None` if there is none.
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

/// Longest wait for a killed process to end: a process that waits for a dead disk or network cannot end before that.
const MOST_DYING: Duration = Duration::from_secs(10);

/// Kills and reaps a child; returns its status. `None` if the kernel does not let it end.
pub(crate) fn kill(child: &mut Child) -> Option<ExitStatus> {
    // It may have just ended; it is reaped either way.
    let _ = child.kill();
    ended_within(child, MOST_DYING, Duration::from_millis(2))
}

/// Waits for a child to end; returns its status. `None` if it still runs after `time`.
pub(crate) fn ended_within(child: &mut Child, time: Duration, pause: Duration) -> Option<ExitStatus> {
    wait_until(time, pause, || child.try_wait().transpose())?.ok()
}

/// Looks every `pause` until `look` finds something; `None` after `time`.
pub(crate) fn wait_until<T>(time: Duration, pause: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let begin = Instant::now();
    loop {
        match look() {
            None if begin.elapsed() < time => std::thread::sleep(pause),
            found => return found,
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_worker_that_is_killed_leaves_no_process_behind() {
        let folder = tempfile::tempdir().unwrap();
        let (program, started) = (folder.path().join("program"), folder.path().join("started"));
        fs::write(&program, "#!/bin/sh\nsleep 1000 &\necho $! >started.part\nmv started.part started\nwait\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let mut worker = Worker::spawn(&program, folder.path(), &BTreeMap::new(), None, None).unwrap();
        while !started.exists() {
            std::thread::sleep(Duration::from_millis(2));
        }
        let pid: u32 = fs::read_to_string(&started).unwrap().trim().parse().unwrap();
        assert!(worker.end(Duration::ZERO) && worker.was_signalled());
        let is_alive = || Path::new(&format!("/proc/{pid}")).exists() && !os::is_zombie(pid);
        while is_alive() {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

//! Daemons that transports need: found running, or started by Tripmeter and stopped by the last experiment that uses
//! them.
//!
//! Every experiment that uses a daemon holds a shared lock on a file with its name. The file holds the identity of a
//! daemon that Tripmeter started. The last user is whoever gets the exclusive lock; it stops the daemon.
//!
//! A second lock on the same file lets one experiment at a time start the daemon, or replace one that died while others
//! use it.

use crate::bounded_log::BoundedLog;
use crate::os::{self, ProcessIdentity, Signal};
use crate::private::Private;
use crate::registry::{Entry, RegistryError};
use crate::spawn::{ROOT, wait_until};
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use thiserror::Error;
use tripmeter_abi::{NodeOptions, Status};
use tripmeter_model::folder_handle::FolderHandle;
use tripmeter_model::plan::Daemons;

/// Largest size of a lease file: a line for our own daemon, and one for each daemon that cannot be checked from here.
const MOST_NOTED_BYTES: u64 = 4096;
/// Timeout for the start of a daemon: it may have to prepare gigabytes of memory.
const STARTING_TIME: Duration = Duration::from_secs(60);
/// Longest time from the start of a daemon until it handles SIGTERM.
const BEGINNING_TIME: Duration = Duration::from_secs(1);
/// Longest wait for a daemon to end, after SIGTERM and again after SIGKILL.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest time that another experiment holds the lock while it stops the daemon.
const STOPPING_TIME: Duration = Duration::from_secs(2 * PATIENCE.as_secs() + 6);

#[derive(Debug, Error)]
pub enum DaemonError {
    #[error("{0}")]
    NotRunning(String),
    #[error("daemon '{name}' was started, but is not ready after {seconds} s; see {}", log.display())]
    NotReady {
        name: String,
        /// Wait, in seconds.
        seconds: u64,
        log: PathBuf,
    },
    #[error("daemon '{name}' ended at its start ({status}){said}; see {}", log.display())]
    Ended {
        name: String,
        status: String,
        /// Its last output, quoted.
        said: String,
        log: PathBuf,
    },
    #[error("daemon '{name}' cannot be started: {why}")]
    System {
        name: String,
        /// Reason, as shown in the message.
        why: String,
    },
    #[error("interrupted while waiting for daemon '{0}'")]
    Interrupted(String),
}

/// Daemons in use by this experiment. Dropping it releases them.
#[derive(Debug, Default)]
pub struct DaemonLeases {
    leases: Vec<Lease>,
}

#[derive(Debug)]
struct Lease {
    name: String,
    private: Private,
    lock: File,
    /// Set when the user stops waiting.
    stop: Arc<AtomicBool>,
    child: Option<Child>,
    /// Output of the daemon, if we started it.
    log: Option<BoundedLog>,
    /// Identity of the daemon, if Tripmeter started it.
    daemon: Option<ProcessIdentity>,
    /// True once the lease is released, so that `drop` does not wait again for a daemon that did not end.
    is_given_up: bool,
}

impl DaemonLeases {
    /// Ensures that the daemon of a transport runs. Returns a note for the user if it was started.
    pub fn ensure(
        &mut self,
        entry: &Entry,
        name: &str,
        options: &NodeOptions,
        policy: Daemons,
        logs: &FolderHandle,
        stop: &Arc<AtomicBool>,
    ) -> Result<Option<String>, DaemonError> {
        let is_held = self.leases.iter().any(|lease| lease.name == name);
        if is_held && daemon_missing(entry, options).is_none() {
            return Ok(None);
        }
        // A lease on a dead daemon is useless.
        self.leases.retain(|lease| lease.name != name);
        let mut lease = Lease::take(name, stop).map_err(|error| failed(name, error))?;
        // Checked with the lease held, when nobody else can stop the daemon.
        let missing = daemon_missing(entry, options);
        let started = match missing {
            Some(missing) if policy == Daemons::Require => return Err(DaemonError::NotRunning(missing)),
            Some(_) => lease.start(entry, options, logs)?,
            None => false,
        };
        lease.daemon = lease.started_by_us();
        self.leases.push(lease);
        Ok(started.then(|| format!("started {name}; it is stopped at the end")))
    }

    /// Cuts the middle out of logs that are too long. Returns true if at least one was too long.
    pub fn bound_logs(&mut self) -> bool {
        let logs = self.leases.iter_mut().filter_map(|lease| lease.log.as_mut());
        // `any` would stop at the first log that is too long.
        logs.map(|log| log.bound()).filter(|is_long| *is_long).count() > 0
    }

    /// Releases all daemons, and returns notes about those that still run. After a stop by the user, a second stop ends
    /// this wait.
    pub fn end(&mut self, stop: &AtomicBool) -> Vec<String> {
        let was_stopped = stop.swap(false, Relaxed);
        let left = self.leases.drain(..).filter_map(|mut lease| lease.give_up()).collect();
        stop.fetch_or(was_stopped, Relaxed);
        left
    }

    /// Note if the daemon has ended since [`DaemonLeases::ensure`], even if another one replaced it. Waits up to
    /// `patience`, because an ending daemon may end its clients first.
    pub fn ended(&self, entry: &Entry, name: &str, options: &NodeOptions, patience: Duration) -> Option<String> {
        let lease = self.leases.iter().find(|lease| lease.name == name)?;
        wait_until(patience, Duration::from_millis(100), || match &lease.daemon {
            Some(daemon) => daemon.is_dead().then(|| format!("'{name}' is no longer running")),
            None => daemon_missing(entry, options),
        })
    }

    /// True if Tripmeter started the daemon and a signal, such as SIGSTOP, has paused it.
    pub fn is_stopped(&self, name: &str) -> bool {
        let daemon = self.leases.iter().find(|lease| lease.name == name).and_then(|lease| lease.daemon.as_ref());
        daemon.is_some_and(|daemon| !daemon.is_dead() && os::is_stopped(daemon.pid()))
    }
}

fn daemon_missing(entry: &Entry, options: &NodeOptions) -> Option<String> {
    match entry.probe(options) {
        Err(RegistryError::Refused(error)) if error.status == Status::NoDaemon => Some(error.to_string()),
        // Other failures are reported by the sub-experiment.
        _ => None,
    }
}

fn failed(name: &str, error: io::Error) -> DaemonError {
    match error.kind() {
        io::ErrorKind::Interrupted => DaemonError::Interrupted(name.to_owned()),
        _ => DaemonError::System { name: name.to_owned(), why: error.to_string() },
    }
}

/// Daemons in a lease file, started by Tripmeter since the machine booted.
#[derive(Default)]
struct Noted {
    /// Daemon whose PID is valid in this PID namespace; running or not.
    known: Option<ProcessIdentity>,
    /// Lines about daemons in other PID namespaces, whose PIDs mean other processes here, and about [`Self::denied`].
    unknown: String,
    /// Running daemon that this user must not signal.
    denied: Option<ProcessIdentity>,
}

const PREFIX: &str = "daemon-";

impl Lease {
    fn open(name: &str, stop: &Arc<AtomicBool>) -> io::Result<Self> {
        let (lock, private) = Private::with(|private| Ok((private.file(&format!("{PREFIX}{name}"))?, private)))?;
        Ok(Self {
            name: name.to_owned(),
            private,
            lock,
            stop: stop.clone(),
            child: None,
            log: None,
            daemon: None,
            is_given_up: false,
        })
    }

    /// Path of the lease file: as opened, and as shown in messages.
    fn file(&self) -> (PathBuf, PathBuf) {
        let name = format!("{PREFIX}{}", self.name);
        (self.private.at(&name), self.private.shown(&name))
    }

    /// Opens and locks a lease. If its last user removed the file during the wait for the lock, tries again with the
    /// new file.
    fn take(name: &str, stop: &Arc<AtomicBool>) -> io::Result<Self> {
        loop {
            let lease = Self::open(name, stop)?;
            lease.wait_for(|| os::lock_file(&lease.lock, false), STOPPING_TIME)?;
            if lease.is_current() {
                return Ok(lease);
            }
        }
    }

    fn wait_for(&self, lock: impl Fn() -> io::Result<bool>, time: Duration) -> io::Result<()> {
        let look = || match lock() {
            Ok(false) if self.is_stopped() => Some(Err(io::ErrorKind::Interrupted.into())),
            Ok(is_locked) => is_locked.then_some(Ok(())),
            Err(error) => Some(Err(error)),
        };
        wait_until(time, Duration::from_millis(50), look).unwrap_or_else(|| {
            let (file, seconds) = (self.file().1, time.as_secs());
            let file = file.display();
            let text = format!("another experiment has held its lock '{file}' for {seconds} s; wait until it ends");
            Err(io::Error::other(text))
        })
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    fn is_current(&self) -> bool {
        let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let (own, named) = (self.lock.metadata().map(identity), fs::symlink_metadata(self.file().0).map(identity));
        matches!((own, named), (Ok(own), Ok(named)) if own == named)
    }

    /// Starts the daemon; false if another experiment did.
    fn start(&mut self, entry: &Entry, options: &NodeOptions, logs: &FolderHandle) -> Result<bool, DaemonError> {
        // A separate open file: this lock ends when it is closed.
        let starting = self.private.file(&format!("{PREFIX}{}", self.name)).map_err(|error| self.system(error))?;
        let locked = self.wait_for(|| os::lock_file_to_start(&starting), STARTING_TIME + STOPPING_TIME);
        locked.map_err(|error| self.system(error))?;
        if daemon_missing(entry, options).is_none() {
            return Ok(false);
        }
        // A daemon that the lease file names but that is not ready was abandoned: its starter gave up or was killed.
        if let Some(unready) = self.started_by_us().filter(ProcessIdentity::is_alive)
            && !self.stop(&unready)
        {
            return Err(match self.is_stopped() {
                true => DaemonError::Interrupted(self.name.clone()),
                false => self.system(io::Error::other("the previous one was killed, but has not ended")),
            });
        }
        let log = BoundedLog::open(logs, &format!("daemon_{}.log", self.name)).map_err(|error| self.system(error))?;
        let child = self.spawn(entry, options, log.file())?;
        let identity = ProcessIdentity::from_pid(child.id());
        self.child = Some(child);
        self.note(identity.as_ref()).map_err(|error| self.system(error))?;
        self.await_ready(entry, options, log)?;
        Ok(true)
    }

    fn spawn(&self, entry: &Entry, options: &NodeOptions, log: &File) -> Result<Child, DaemonError> {
        let command = entry.daemon_command(options).map_err(|error| self.system(io::Error::other(error)))?;
        let Some(command) = command else {
            return Err(self.system(io::Error::other("the transport gives no command that starts it")));
        };
        let output = || log.try_clone().map_err(|error| self.system(error));
        let (output, errors) = (output()?, output()?);
        let spawned = Command::new(&command.program)
            .args(&command.arguments)
            .current_dir(ROOT)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .process_group(0)
            .spawn();
        spawned.map_err(|error| self.system(io::Error::other(format!("{}: {error}", command.program))))
    }

    fn await_ready(&mut self, entry: &Entry, options: &NodeOptions, mut log: BoundedLog) -> Result<(), DaemonError> {
        let begin = Instant::now();
        while daemon_missing(entry, options).is_some() {
            let (name, is_stopped) = (self.name.clone(), self.is_stopped());
            let child = self.child.as_mut().expect("it was just started");
            if let Ok(Some(status)) = child.try_wait() {
                let (said, log) = (log.last_words(&[]), log.path().to_path_buf());
                return Err(DaemonError::Ended { name, status: status.to_string(), said, log });
            }
            if is_stopped {
                return Err(DaemonError::Interrupted(name));
            }
            if begin.elapsed() > STARTING_TIME {
                return Err(DaemonError::NotReady {
                    name,
                    seconds: STARTING_TIME.as_secs(),
                    log: log.path().to_path_buf(),
                });
            }
            log.bound();
            std::thread::sleep(Duration::from_millis(50));
        }
        self.log = Some(log);
        Ok(())
    }

    fn system(&self, error: io::Error) -> DaemonError {
        failed(&self.name, error)
    }

    /// Writes the identity of the daemon into the lease file, for its last user.
    fn note(&mut self, identity: Option<&ProcessIdentity>) -> io::Result<()> {
        let own = identity.map_or_else(String::new, |identity| format!("{} {identity}\n", os::boot()));
        let mut text = own;
        // Our line comes first: daemons on lines that do not fit could not be stopped from here anyway.
        for line in self.noted().unknown.split_inclusive('\n') {
            if text.len() + line.len() <= MOST_NOTED_BYTES as usize {
                text += line;
            }
        }
        // If this process is killed between these calls, a truncated line is left, which names no daemon.
        self.lock.write_all_at(text.as_bytes(), 0)?;
        self.lock.set_len(text.len() as u64)
    }

    fn noted(&mut self) -> Noted {
        let (mut text, mut noted) = (String::new(), Noted::default());
        let read = self.lock.rewind().and_then(|()| (&self.lock).take(MOST_NOTED_BYTES).read_to_string(&mut text));
        for line in text.lines().filter(|_| read.is_ok()) {
            let identity = line.split_once(' ').filter(|(boot, _)| *boot == os::boot());
            match identity.and_then(|(_, identity)| ProcessIdentity::parse_prefix(identity)) {
                None => {}
                Some((daemon, _)) if os::is_beyond_signals(&daemon) => {
                    noted.unknown += &format!("{line}\n");
                    noted.denied = Some(daemon);
                }
                Some((daemon, _)) if daemon.is_visible() => noted.known = Some(daemon),
                Some(_) => noted.unknown += &format!("{line}\n"),
            }
        }
        noted
    }

    fn started_by_us(&mut self) -> Option<ProcessIdentity> {
        self.noted().known
    }

    /// Ends the daemon with SIGTERM, then SIGKILL. Returns false if it still runs, or the user stopped the wait.
    fn stop(&mut self, daemon: &ProcessIdentity) -> bool {
        // The wait is never cut short: until the daemon handles SIGTERM, the signal would kill it and leave its files.
        if self.child.as_ref().is_some_and(|child| daemon.is(child.id())) {
            self.wait(daemon, BEGINNING_TIME, || os::handles(daemon.pid(), Signal::TERM));
        }
        let stop = self.stop.clone();
        for signal in [Signal::TERM, Signal::KILL] {
            os::signal(daemon, signal);
            if self.wait(daemon, PATIENCE, || stop.load(Relaxed)) {
                return true;
            }
            if self.is_stopped() {
                return false;
            }
        }
        false
    }

    /// Waits until the daemon has ended, `is_enough` returns true, or the time is over. Returns true if it has ended.
    fn wait(&mut self, daemon: &ProcessIdentity, time: Duration, is_enough: impl Fn() -> bool) -> bool {
        let look = || {
            let has_ended = match &mut self.child {
                Some(child) if daemon.is(child.id()) => !matches!(child.try_wait(), Ok(None)),
                _ => daemon.is_dead(),
            };
            (has_ended || is_enough()).then_some(has_ended)
        };
        wait_until(time, Duration::from_millis(20), look).unwrap_or(false)
    }

    /// Releases the lease. Its last user stops the daemon and removes the file. Returns a note if the daemon may still
    /// run.
    fn give_up(&mut self) -> Option<String> {
        self.is_given_up = true;
        if !matches!(os::lock_file(&self.lock, true), Ok(true)) || !self.is_current() {
            return None;
        }
        let Noted { known, unknown, denied } = self.noted();
        if known.is_some_and(|daemon| !self.stop(&daemon)) {
            return Some(format!("daemon '{}' is still running after SIGTERM; the next run will stop it", self.name));
        }
        if !unknown.is_empty() {
            // If this fails, the file still names a process that has ended.
            let _ = self.note(None);
            let file = self.file().1;
            if let Some(daemon) = denied {
                return Some(format!(
                    "daemon '{}' (process {}, according to '{}') belongs to another user and keeps running; end it as \
                     its owner, or remove that file",
                    self.name,
                    daemon.pid(),
                    file.display()
                ));
            }
            return Some(format!(
                "daemon '{}' was started in another PID namespace, according to '{}', so it is not visible here and \
                 keeps running; if it has ended, remove that file",
                self.name,
                file.display()
            ));
        }
        // An error means that another process has removed it.
        let _ = fs::remove_file(self.file().0);
        None
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.is_given_up {
            self.give_up();
        }
    }
}

/// Stops daemons that Tripmeter started and whose last user was killed. Returns notes about those still running.
pub fn stop_leftovers(stop: &Arc<AtomicBool>) -> Vec<String> {
    let names = Private::with(|private| Ok(private.names())).unwrap_or_default();
    let leases = names.iter().filter_map(|name| Lease::open(name.strip_prefix(PREFIX)?, stop).ok());
    leases.filter_map(|mut lease| lease.give_up()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn never() -> Arc<AtomicBool> {
        Arc::new(AtomicBool::new(false))
    }

    fn take(name: &str) -> Lease {
        Lease::take(name, &never()).unwrap()
    }

    /// Drops a lease until `is_done`. A process that another test forks holds our lock until it calls exec, which makes
    /// it the last user. The lease is then opened and dropped again, as in [`stop_leftovers`].
    fn drop_last(lease: Lease, is_done: impl Fn() -> bool) {
        let (name, start) = (lease.name.clone(), Instant::now());
        drop(lease);
        while !is_done() {
            assert!(start.elapsed() < Duration::from_secs(120), "the last user of '{name}' did not remove it");
            drop(take(&name));
        }
    }

    #[test]
    fn the_last_user_of_a_lease_removes_it_and_nobody_else_does() {
        let name = format!("test-{}", std::process::id());
        let (first, second) = (take(&name), take(&name));
        let file = first.file().1;
        drop(first);
        assert!(file.exists() && second.is_current());
        drop_last(second, || !file.exists());
    }

    #[test]
    fn a_lease_whose_file_was_removed_is_not_kept() {
        let name = format!("test-removed-{}", std::process::id());
        // Other experiments of this user check all leases, and remove those that are not locked.
        let old = loop {
            let old = Lease::open(&name, &never()).unwrap();
            if os::lock_file(&old.lock, true).unwrap() && old.is_current() {
                break old;
            }
        };
        fs::remove_file(old.file().0).unwrap();
        let new = take(&name);
        assert!(!old.is_current() && new.is_current());
        drop(old);
        assert!(new.is_current());
    }

    #[test]
    fn a_daemon_that_nobody_uses_is_stopped() {
        let name = format!("test-daemon-{}", std::process::id());
        let mut lease = take(&name);
        let child = Command::new("sleep").arg("1000").spawn().unwrap();
        let identity = ProcessIdentity::from_pid(child.id()).unwrap();
        lease.child = Some(child);
        lease.note(Some(&identity)).unwrap();
        let other = take(&name);
        drop(lease);
        assert!(!identity.is_dead());
        drop_last(other, || identity.is_dead());
    }

    #[test]
    fn a_daemon_that_has_just_begun_is_asked_to_end_when_it_can_clean_up() {
        let folder = tempfile::tempdir().unwrap();
        let made = folder.path().join("made");
        fs::write(&made, "").unwrap();
        let mut lease = take(&format!("test-beginning-{}", std::process::id()));
        // A stop by the user does not shorten the wait.
        lease.stop = Arc::new(AtomicBool::new(true));
        let child = Command::new("sh")
            .args(["-c", "sleep 0.05; trap 'rm \"$0\"; exit' TERM; while :; do sleep 0.05; done"])
            .arg(&made)
            .spawn()
            .unwrap();
        let identity = ProcessIdentity::from_pid(child.id()).unwrap();
        lease.child = Some(child);
        lease.stop(&identity);
        lease.child.as_mut().unwrap().wait().unwrap();
        assert!(!made.exists());
        drop_last(lease, || true);
    }

    #[test]
    fn a_daemon_of_another_namespace_or_boot_is_nobody_to_kill() {
        let name = format!("test-foreign-{}", std::process::id());
        let mut lease = take(&name);
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let identity = ProcessIdentity::from_pid(child.id()).unwrap().to_string();
        let (_, number) = identity.split_once("tripmeter-").unwrap().1.split_once('-').unwrap();
        let write = |lease: &mut Lease, text: &str| {
            lease.lock.set_len(0).unwrap();
            lease.lock.write_all_at(text.as_bytes(), 0).unwrap();
        };
        write(&mut lease, &format!("{} tripmeter-1-{number}", os::boot()));
        let told = lease.give_up();
        assert!(told.is_some_and(|told| told.contains("another PID namespace")) && lease.file().1.exists());
        // The line also stays when a daemon of ours starts and ends.
        let mut ours = Command::new("sleep").arg("1000").spawn().unwrap();
        lease.note(ProcessIdentity::from_pid(ours.id()).as_ref()).unwrap();
        assert!(lease.noted().known.is_some_and(|daemon| daemon.is(ours.id())));
        ours.kill().unwrap();
        ours.wait().unwrap();
        assert!(lease.give_up().is_some() && lease.noted().known.is_none() && !lease.noted().unknown.is_empty());
        // A daemon of an earlier boot is ignored.
        write(&mut lease, &format!("another-boot {identity}"));
        assert_eq!(lease.give_up(), None);
        assert!(matches!(child.try_wait(), Ok(None)));
        child.kill().unwrap();
        child.wait().unwrap();
        drop_last(lease, || true);
    }

    #[test]
    fn a_daemon_that_does_not_end_is_left_with_its_lease_when_the_user_stops_it_again() {
        let (name, stop) = (format!("test-stubborn-{}", std::process::id()), Arc::new(AtomicBool::new(true)));
        let mut lease = take(&name);
        // The child prints a line once it ignores SIGTERM.
        let mut child = Command::new("sh")
            .args(["-c", "trap '' TERM; echo ready; exec sleep 1000"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0; 5]).unwrap();
        let identity = ProcessIdentity::from_pid(child.id()).unwrap();
        lease.note(Some(&identity)).unwrap();
        (lease.stop, lease.child) = (stop.clone(), Some(child));
        let file = lease.file().1;
        let mut daemons = DaemonLeases { leases: vec![lease] };
        let ending = std::thread::spawn({
            let stop = stop.clone();
            move || daemons.end(&stop)
        });
        // `end` clears an earlier stop, which must not end its wait.
        while stop.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        stop.store(true, Relaxed);
        let told = ending.join().unwrap();
        assert!(told.len() == 1 && told[0].contains("still running after SIGTERM"), "{told:?}");
        assert!(stop.load(Relaxed) && identity.is_alive() && file.exists());
        os::signal(&identity, Signal::KILL);
        drop_last(take(&name), || !file.exists());
    }

    #[test]
    fn a_wait_ends_when_the_user_stops_it() {
        let name = format!("test-stopped-{}", std::process::id());
        let lease = take(&name);
        assert!(os::lock_file(&lease.lock, true).unwrap());
        let stopped = Lease::take(&name, &Arc::new(AtomicBool::new(true))).map(drop);
        assert_eq!(stopped.unwrap_err().kind(), io::ErrorKind::Interrupted);
    }
}

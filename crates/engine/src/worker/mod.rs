//! Worker processes: leader, follower and their helpers. Each reads its task from standard input, which is a socket.

pub mod access;
mod account;
mod agreed;
mod attempts;
mod cap;
mod closed_loop;
mod controls;
mod follower;
mod host_clocks;
mod lead;
mod leader;
mod links;
mod load;
pub(crate) mod logging;
mod measured;
mod patience;
mod payload;
mod pool;
mod probe;
mod read_log;
mod relay;
mod reports;
mod saturating;
mod scheduled;
pub(crate) mod search;
mod serve;
mod threads;
mod trial;

use crate::audit;
use crate::channel::{NoMessage, receive, send};
use crate::lanes::AnySystem;
use crate::memory::OutOfMemory;
use crate::os::{self, Whose};
use crate::wire::{Follow, FromFollower, ToWorker};
use std::io::{self, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thiserror::Error;
use tripmeter_abi::LoadError;
use tripmeter_model::cut_short::CutShort;
use tripmeter_model::exit;
use tripmeter_model::printable::line;

/// Longest wait for the other side while it opens or connects a transport.
pub const OPEN_TIMEOUT: Duration = Duration::from_secs(35);
/// Longest wait for an answer that takes no work, while the other side could work.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Number of links above which a process may need more files than it usually may open.
const MANY_LINKS: u32 = 64;

/// Reason why a worker ended early.
#[derive(Debug, Error)]
pub enum Error {
    /// Failure, as one line for people.
    #[error("{0}")]
    Failed(String),
    #[error("interrupted")]
    Interrupted,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn of(what: &str, why: impl std::fmt::Display) -> Self {
        Error::Failed(format!("{what}: {why}"))
    }
}

impl From<&Error> for CutShort {
    fn from(error: &Error) -> Self {
        match error {
            Error::Failed(why) => Self::Broken(why.clone()),
            Error::Interrupted => Self::Interrupted,
        }
    }
}

impl From<OutOfMemory> for Error {
    fn from(error: OutOfMemory) -> Self {
        Error::Failed(error.to_string())
    }
}

impl From<NoMessage> for Error {
    fn from(error: NoMessage) -> Self {
        Error::Failed(match error {
            NoMessage::Closed => "the other side has gone".to_owned(),
            NoMessage::TimedOut => "the other side does not answer".to_owned(),
            NoMessage::Junk(junk) => junk.to_string(),
        })
    }
}

/// Transports linked into this program, with the loops compiled for them. These are in a crate of their own, which is
/// optimised for speed where this one is for size.
#[derive(Clone, Copy)]
pub struct BuiltIn<'a> {
    pub systems: &'a [Arc<dyn AnySystem>],
    pub plugin: fn(&Path) -> std::result::Result<Arc<dyn AnySystem>, LoadError>,
}

/// Entry of the hidden command `worker`: reads its task from standard input and does it. Returns the exit code.
pub fn main(built_in: BuiltIn<'_>) -> u8 {
    os::become_worker();
    let stream = os::stdin_socket();
    // Unbuffered: bytes after the first message are for the task itself.
    let part = receive::<ToWorker>(&mut BufReader::with_capacity(1, &stream));
    let ended = match part {
        Ok(Some(ToWorker::Lead(job))) => lead::lead(*job, stream, built_in),
        Ok(Some(ToWorker::Follow(part))) => follow(&part, stream, built_in),
        Ok(Some(ToWorker::Relay(part))) => relay::relay(&part, stream),
        Ok(Some(ToWorker::Load(part))) => load::load(&part, stream),
        Ok(Some(ToWorker::AttemptAccess(attempt))) => access::attempt_access(&attempt, stream, built_in),
        Ok(Some(ToWorker::Stop | ToWorker::Continue | ToWorker::AccessAttempted(_)) | None) => Ok(()),
        Err(error) => Err(Error::of("no part was given", error)),
    };
    match ended {
        Ok(()) => exit::GOOD,
        Err(error) => {
            // The error may quote the other side, and this may be a terminal.
            // A full log has no room for it.
            let _ = writeln!(io::stderr(), "{}", line(&error.to_string()));
            exit::SOFTWARE
        }
    }
}

fn follow(part: &Follow, mut supervisor: UnixStream, built_in: BuiltIn<'_>) -> Result<()> {
    let result = connect(&part.control, ANSWER_TIMEOUT)
        .and_then(|stream| os::check_peer(&stream).map(|()| stream))
        .map_err(|error| Error::of("the leader cannot be reached", error))
        .and_then(|stream| serve::follow(stream, part, built_in));
    let last_word = match &result {
        Ok(()) => FromFollower::Used(audit::this_thread("follower", Whose::Process)),
        // The supervisor reads this if the leader waits within its transport, and cannot pass it on.
        Err(error) => FromFollower::Failed(os::with_lack(error.to_string())),
    };
    // Nobody reads it from a follower that was started by hand.
    let _ = send(&mut supervisor, &last_word);
    result
}

/// Connects to a socket that may not exist yet.
fn connect(path: &Path, time: Duration) -> io::Result<UnixStream> {
    let start = Instant::now();
    loop {
        match UnixStream::connect(path) {
            Err(error) if start.elapsed() > time => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(2)),
            Ok(stream) => return Ok(stream),
        }
    }
}

fn confine(cpus: &[usize]) -> Result<()> {
    let confined = if cpus.is_empty() { Ok(()) } else { os::confine_process(cpus) };
    confined.map_err(|error| Error::of(&format!("CPUs {cpus:?} cannot be used"), error))
}

/// System of that name: the plugin, if a file is given, else a built-in one.
fn find(system: &str, plugin: Option<&Path>, built_in: BuiltIn<'_>) -> Result<Arc<dyn AnySystem>> {
    if let Some(file) = plugin {
        return (built_in.plugin)(file).map_err(|error| Error::Failed(error.to_string()));
    }
    let found = built_in.systems.iter().find(|candidate| candidate.description().system == system);
    found
        .cloned()
        .ok_or_else(|| Error::Failed(format!("system '{system}' is not known here; name its plugin (--plugin)")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_that_this_side_has_not_is_not_loaded() {
        let built_in = BuiltIn { systems: &[], plugin: |_| unreachable!("no file is given") };
        let found = find("ecal", None, built_in);
        assert!(matches!(found, Err(Error::Failed(why)) if why.contains("system 'ecal' is not known here")));
    }
}

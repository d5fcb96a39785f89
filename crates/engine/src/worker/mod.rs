//! The two measuring processes, and unauthorized peers. Each reads what to do from its standard input, which is a socket.

pub mod access;
mod agreed;
mod attempts;
mod cap;
mod controls;
mod follower;
mod host_clocks;
mod instruments;
mod lead;
mod leader;
mod load;
pub(crate) mod logging;
mod outcome;
mod parallel;
mod patience;
mod payload;
mod pool;
mod probe;
mod read_log;
mod receive;
mod relay;
mod replay;
mod rpc;
mod saturate;
pub(crate) mod search;
mod serve;
mod timed;
mod trips;
mod workload;

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
/// Longest wait for an answer that takes the other side no work, while it could work.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// With more links than this, a process may need more files than it usually may open.
const MANY_LINKS: u32 = 64;

/// Why a half of a sub-experiment ended early.
#[derive(Debug, Error)]
pub enum Error {
    /// It failed; one line for people.
    #[error("{0}")]
    Failed(String),
    /// It was asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// The result of a worker's step.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// `what` failed because of `why`.
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

/// What is linked into this program, with the loops that are compiled for it: these are in a crate of their own, which is
/// optimised for speed where this one is for size.
#[derive(Clone, Copy)]
pub struct BuiltIn<'a> {
    /// The transports.
    pub systems: &'a [Arc<dyn AnySystem>],
    /// Loads a plugin.
    pub plugin: fn(&Path) -> std::result::Result<Arc<dyn AnySystem>, LoadError>,
}

/// Entry of the hidden command `worker`: reads its part from standard input and does it. Returns the exit code.
pub fn main(built_in: BuiltIn<'_>) -> u8 {
    os::become_worker();
    let stream = os::stdin_socket();
    // Unbuffered: what follows the first message is for the part itself.
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
            // It may quote the other side, and this may be a terminal.
            // A log that is full has no room for it.
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
        // Read if the leader cannot pass it on, because it waits within its transport.
        Err(error) => FromFollower::Failed(os::with_lack(error.to_string())),
    };
    // A follower that is started by hand is not listened to.
    let _ = send(&mut supervisor, &last_word);
    result
}

/// Connects to a socket that may not be there yet.
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

/// Confines this process, if the plan says so.
fn confine(cpus: &[usize]) -> Result<()> {
    let confined = if cpus.is_empty() { Ok(()) } else { os::confine_process(cpus) };
    confined.map_err(|error| Error::of(&format!("CPUs {cpus:?} cannot be used"), error))
}

/// The system of that name: the plugin, if a file is given, else what is built in.
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

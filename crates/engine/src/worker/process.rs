//! Entry point of a worker process.

use super::error::{Error, Result};
use super::patience::ANSWER_TIMEOUT;
use super::start::{BuiltIn, connect};
use super::{access, background, lead, relay, serve};
use crate::audit;
use crate::channel::{receive, send};
use crate::os::{self, Whose};
use crate::wire::{Follow, FromFollower, ToWorker};
use std::io::{self, BufReader, Write};
use std::os::unix::net::UnixStream;
use tripmeter_model::exit;
use tripmeter_model::printable::line;

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
        Ok(Some(ToWorker::Background(part))) => background::load(&part, stream),
        Ok(Some(ToWorker::AttemptAccess(attempt))) => access::attempt_access(&attempt, stream, built_in),
        Ok(Some(ToWorker::Stop | ToWorker::Continue | ToWorker::AccessAttempted(_)) | None) => Ok(()),
        Err(error) => Err(Error::failed("no task was given", error)),
    };
    match ended {
        Ok(()) => exit::GOOD,
        Err(error) => {
            // The error may quote the other side, and this may be a terminal. The write may fail if the log is full.
            let _ = writeln!(io::stderr(), "{}", line(&error.to_string()));
            exit::SOFTWARE
        }
    }
}

fn follow(part: &Follow, mut supervisor: UnixStream, built_in: BuiltIn<'_>) -> Result<()> {
    let result = connect(&part.control, ANSWER_TIMEOUT)
        .and_then(|stream| os::check_peer(&stream).map(|()| stream))
        .map_err(|error| Error::failed("the leader cannot be reached", error))
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

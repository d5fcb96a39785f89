//! Worker that stands in for a follower on another host.

use super::{ANSWER_TIMEOUT, Error, Result, connect};
use crate::channel::{receive_line, send};
use crate::hosts::{FromHost, LONGEST_SILENCE, SIGN_OF_LIFE, Silence, Ssh, ToHost};
use crate::os;
use crate::wire::{FromFollower, Relay};
use std::io::BufReader;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};

/// Starts the follower on the remote host, and forwards the control channel until it has ended. After an early end, the
/// cause is sent to the leader and to `supervisor`.
pub(super) fn relay(part: &Relay, mut supervisor: UnixStream) -> Result<()> {
    let leader = connect(&part.control, ANSWER_TIMEOUT)
        .and_then(|stream| os::check_peer(&stream).map(|()| stream))
        .map_err(|error| Error::failed("the leader cannot be reached", error))?;
    let failed = |why: String| Error::Failed(format!("host '{}': {why}", part.to));
    let result = carry(part, &leader).map_err(failed);
    let word = match &result {
        Ok(word) => word.clone(),
        Err(error) => Some(FromFollower::Failed(error.to_string())),
    };
    if let Some(word) = word {
        if let (FromFollower::Failed(_), Ok(mut leader)) = (&word, leader.try_clone()) {
            // The leader may have ended.
            let _ = send(&mut leader, &word);
        }
        let _ = send(&mut supervisor, &word);
    }
    result.map(|_| ())
}

/// Forwards the control channel, and returns the follower's last report.
fn carry(part: &Relay, leader: &UnixStream) -> std::result::Result<Option<FromFollower>, String> {
    let (mut ssh, _) = Ssh::open(&part.to, &part.pushed)?;
    let gone = |error: std::io::Error| format!("its connection has ended: {error}");
    ssh.send(&ToHost::Start { address: part.address, cpu: part.cpu }).map_err(gone)?;
    let (words, sent) = channel();
    let reader = leader.try_clone().map_err(gone)?;
    std::thread::spawn(move || pass_on(reader, &words));
    let mut stream = ssh.stream().map_err(gone)?;
    std::thread::spawn(move || {
        loop {
            let message = match sent.recv_timeout(SIGN_OF_LIFE) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => ToHost::Alive,
                // The leader has gone, so its follower must end.
                Err(RecvTimeoutError::Disconnected) => {
                    let _ = stream.shutdown(std::net::Shutdown::Write);
                    return;
                }
            };
            if send(&mut stream, &message).is_err() {
                return;
            }
        }
    });
    let (mut silence, mut writer) = (Silence::new(LONGEST_SILENCE), leader.try_clone().map_err(gone)?);
    loop {
        let message = ssh.next(SIGN_OF_LIFE)?;
        silence.note(message.is_some());
        if silence.is_over() {
            return Err(format!("it has sent nothing for {} s; is the link cut?", LONGEST_SILENCE.as_secs()));
        }
        match message {
            Some(FromHost::Control(line)) => {
                use std::io::Write;
                // A leader that has gone is noticed by the other thread.
                let _ = writer.write_all(format!("{line}\n").as_bytes());
            }
            Some(FromHost::Ended(word)) => return Ok(word),
            Some(FromHost::Failed(why)) => return Err(why),
            Some(FromHost::Alive | FromHost::Prepared(_) | FromHost::Systems(_) | FromHost::Clock(_)) | None => {}
        }
    }
}

/// Forwards the messages of the leader.
fn pass_on(leader: UnixStream, words: &Sender<ToHost>) {
    let mut reader = BufReader::new(leader);
    while let Ok(Some(line)) = receive_line(&mut reader) {
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        if words.send(ToHost::Control(text)).is_err() {
            break;
        }
    }
}

//! Connection to another host by the system's own `ssh`.

use super::bounded::ErrorLines;
use super::silence::{LONGEST_SILENCE, Silence};
use super::words::{FromHost, Hello, ToHost};
use crate::channel::{Heard, Incoming, Versions, send};
use crate::received::{BoundedMessage, cut_text};
use crate::spawn::kill;
use serde::Deserialize;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const REMOTE_COMMAND: &str = "remote";
/// Environment variable that replaces the command `ssh`, for example by `ssh -F FILE`.
const SSH_VARIABLE: &str = "TRIPMETER_SSH";
/// Longest wait for the greeting, which a jump host, a slow shell and busy CPUs may delay.
const HELLO_TIME: Duration = Duration::from_secs(60);
const MOST_HELLO_BYTES: usize = 1 << 20;
const LAST_WORDS_TIME: Duration = Duration::from_secs(1);

/// Part of a script for `sh` that sets `p` to tripmeter on the host: the pushed one, or else the one in the path. If
/// there is none, it prints `advice`. It has no single quotes.
pub(super) fn program(pushed: &str, advice: &str) -> String {
    format!(
        "d=\"${{XDG_CACHE_HOME:-$HOME/.cache}}/tripmeter/{pushed}\"; p=$d/tripmeter; \
         if [ -x \"$p\" ]; then TRIPMETER_TRANSPORTS=$d; export TRIPMETER_TRANSPORTS; else p=tripmeter; fi; \
         command -v \"$p\" >/dev/null || {{ echo \"no tripmeter there; {advice}\" >&2; exit 69; }}; "
    )
}

/// Advice for a host without tripmeter.
pub(super) const PUSH_IT: &str = "--push copies it";

/// Command for the host's login shell, whichever it is: it starts `sh`.
fn script(pushed: &str) -> String {
    format!("exec sh -c '{}exec \"$p\" {REMOTE_COMMAND}'", program(pushed, PUSH_IT))
}

/// `ssh` that never prompts. Keys, agents, jump hosts and `~/.ssh/config` are taken from the user.
pub(super) fn command(to: &str) -> Command {
    let words = std::env::var(SSH_VARIABLE).unwrap_or_else(|_| "ssh".to_owned());
    let mut words = words.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or("ssh"));
    command.args(words).args(["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]);
    command.args(["-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "--", to]);
    command
}

pub(crate) struct Ssh {
    child: Child,
    stream: UnixStream,
    incoming: Incoming,
    /// Errors from ssh and from the host's shell; never shown unfiltered.
    said: ErrorLines,
    to: String,
}

/// First line from tripmeter on the host, or from the shell before it.
#[derive(Deserialize)]
#[serde(untagged)]
enum First {
    Hello(Hello),
    OfAnotherVersion { versions: Versions },
    Other(serde::de::IgnoredAny),
}

impl Ssh {
    /// Starts tripmeter on the host, and reads its greeting.
    pub(crate) fn open(to: &str, pushed: &str) -> Result<(Self, Hello), String> {
        let pair =
            UnixStream::pair().and_then(|(stream, other)| Ok((stream.try_clone()?, stream, other.try_clone()?, other)));
        let (incoming, stream, input, output) = pair.map_err(|error| format!("control channel: {error}"))?;
        let started = command(to)
            .arg(script(pushed))
            .stdin(OwnedFd::from(input))
            .stdout(OwnedFd::from(output))
            .stderr(Stdio::piped())
            .spawn();
        let mut child = started.map_err(|error| match error.kind() {
            ErrorKind::NotFound => "no `ssh` here: install openssh-client".to_owned(),
            _ => format!("ssh cannot be started: {error}"),
        })?;
        let Some(errors) = child.stderr.take() else { unreachable!("it is a pipe") };
        let said = ErrorLines::read(errors);
        let mut ssh = Self { child, stream, incoming: Incoming::new(incoming), said, to: to.to_owned() };
        let hello = ssh.hello()?;
        Ok((ssh, hello))
    }

    fn hello(&mut self) -> Result<Hello, String> {
        let begin = Instant::now();
        loop {
            if begin.elapsed() > HELLO_TIME {
                return Err(format!("no greeting from `tripmeter` within {} s", HELLO_TIME.as_secs()));
            }
            match self.incoming.next_line(Duration::from_millis(200)) {
                // The shell may print lines before the greeting.
                Ok(Heard::Message(said)) if said.len() <= MOST_HELLO_BYTES => match serde_json::from_slice(&said) {
                    Ok(First::Hello(hello)) if hello.versions == Versions::own() => {
                        return hello.within_bounds().map_err(sent);
                    }
                    Ok(First::Hello(Hello { versions, .. }) | First::OfAnotherVersion { versions }) => {
                        return Err(cut_text(versions.differ(&format!("program on '{}'", self.to), "one")));
                    }
                    Ok(First::Other(_)) | Err(_) => {}
                },
                Ok(Heard::Message(_)) => {}
                Ok(Heard::Nothing) => {}
                Ok(Heard::End) => return Err(self.why_it_ended()),
                Err(error) => return Err(self.why_it_failed(&error)),
            }
        }
    }

    /// Last error of ssh, or its exit status. Kills an ssh that has closed its output but runs on.
    fn why_it_ended(&mut self) -> String {
        let said = self.said.last(LAST_WORDS_TIME);
        let status = self.child.try_wait().ok().flatten();
        match (said, status, kill(&mut self.child)) {
            (Some(said), ..) => said,
            (None, Some(status), _) => format!("ssh ended with {status}"),
            (None, None, Some(_)) => "its connection was closed, but ssh did not end and was killed".to_owned(),
            (None, None, None) => "ssh does not end".to_owned(),
        }
    }

    /// Error text: the input that is not a message, or the reason why ssh ended.
    fn why_it_failed(&mut self, error: &std::io::Error) -> String {
        if error.kind() == ErrorKind::InvalidData { sent(error) } else { self.why_it_ended() }
    }

    pub(crate) fn send(&mut self, message: &ToHost) -> std::io::Result<()> {
        send(&mut self.stream, message)
    }

    /// Duplicate of the stream, for a thread that sends.
    pub(crate) fn stream(&self) -> std::io::Result<UnixStream> {
        self.stream.try_clone()
    }

    pub(crate) fn next(&mut self, time: Duration) -> Result<Option<FromHost>, String> {
        match self.incoming.next(time) {
            Ok(Heard::Message(message)) => Ok(Some(message)),
            Ok(Heard::Nothing) => Ok(None),
            Ok(Heard::End) => Err(self.why_it_ended()),
            Err(error) => Err(self.why_it_failed(&error)),
        }
    }

    /// Waits for a message other than a heartbeat.
    ///
    /// # Errors
    /// Those of [`next`](Self::next); also after `time`, or after too long a silence.
    pub(crate) fn wait(&mut self, time: Duration) -> Result<FromHost, String> {
        let (begin, mut silence) = (Instant::now(), Silence::new(LONGEST_SILENCE));
        loop {
            let message = self.next(Duration::from_millis(500))?;
            silence.note(message.is_some());
            if silence.is_over() || begin.elapsed() > time {
                return Err(format!("'{}' does not answer", self.to));
            }
            match message {
                Some(FromHost::Alive) | None => {}
                Some(message) => return Ok(message),
            }
        }
    }
}

fn sent(what: impl std::fmt::Display) -> String {
    format!("it sent {what}")
}

impl Drop for Ssh {
    fn drop(&mut self) {
        // End of input ends ssh, and tripmeter on the host.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        kill(&mut self.child);
    }
}

/// Checks that a host has the same version of tripmeter, in the folder `pushed` or in its path.
pub fn reach(to: &str, pushed: &str) -> Result<(), String> {
    Ssh::open(to, pushed).map(drop)
}

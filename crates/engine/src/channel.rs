//! Control channel between leader, follower and supervisor: one JSON value per line, over Unix sockets.

use crate::measure::Shared;
use crate::os::{self, Target, wait_readable};
use crate::received::BoundedMessage;
use crate::wire::PROTOCOL;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;
use tripmeter_model::printable;

pub fn send<T: Serialize>(stream: &mut UnixStream, message: &T) -> io::Result<()> {
    let mut line = serde_json::to_vec(message).map_err(io::Error::other)?;
    line.push(b'\n');
    stream.write_all(&line)
}

const MOST_MESSAGE_BYTES: usize = 64 << 20;

pub(crate) fn parse<T: BoundedMessage>(line: &[u8]) -> io::Result<T> {
    let message: T = serde_json::from_slice(line).map_err(|_| Junk::from_line(&String::from_utf8_lossy(line)))?;
    Ok(message.within_bounds().map_err(Junk::over)?)
}

fn too_long() -> io::Error {
    Junk::over(format!("a message of more than {MOST_MESSAGE_BYTES} bytes, the limit of a line")).into()
}

/// Reads one message; `None` at the end of the stream.
///
/// # Errors
/// If the stream breaks, the line is too long, or the line is not a message of this type.
pub fn receive<T: BoundedMessage>(reader: &mut impl BufRead) -> io::Result<Option<T>> {
    receive_line(reader)?.map(|line| parse(&line)).transpose()
}

/// Reads one line without parsing it; `None` at the end of the stream.
pub(crate) fn receive_line(reader: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    reader.take(MOST_MESSAGE_BYTES as u64).read_until(b'\n', &mut line)?;
    match line.len() {
        MOST_MESSAGE_BYTES => Err(too_long()),
        // A writer that was killed leaves half a line; it is ignored.
        _ => Ok((line.last() == Some(&b'\n')).then_some(line)),
    }
}

/// Outcome of a read from a stream of messages.
#[derive(Debug)]
pub enum Heard<T> {
    Message(T),
    /// No message yet, or only a part of one.
    Nothing,
    End,
}

/// Message reader that does not wait for the rest of an incomplete message.
#[derive(Debug)]
pub struct Incoming {
    stream: UnixStream,
    /// Bytes that were read, but not returned yet.
    read: VecDeque<u8>,
    /// Length of the prefix of `read` without a line end.
    searched: usize,
}

impl Incoming {
    pub fn new(stream: UnixStream) -> Self {
        Self { stream, read: VecDeque::new(), searched: 0 }
    }

    /// Next message, if it is complete within `time`. A signal ends the wait early.
    pub fn next<T: BoundedMessage>(&mut self, time: Duration) -> io::Result<Heard<T>> {
        Ok(match self.next_line(time)? {
            Heard::Message(line) => Heard::Message(parse(&line)?),
            Heard::Nothing => Heard::Nothing,
            Heard::End => Heard::End,
        })
    }

    pub(crate) fn next_line(&mut self, time: Duration) -> io::Result<Heard<Vec<u8>>> {
        const PIECE_BYTES: usize = 64 << 10;
        if let Some(line) = self.whole() {
            return Ok(Heard::Message(line));
        }
        if !wait_readable(&[&self.stream], time)?[0] {
            return Ok(Heard::Nothing);
        }
        let mut piece = vec![0; PIECE_BYTES];
        let bytes = self.stream.read(&mut piece)?;
        self.read.extend(&piece[..bytes]);
        match self.whole() {
            // The line end may come in the piece that exceeds the limit.
            Some(line) if line.len() > MOST_MESSAGE_BYTES => Err(too_long()),
            Some(line) => Ok(Heard::Message(line)),
            None if bytes == 0 => Ok(Heard::End),
            None if self.read.len() > MOST_MESSAGE_BYTES => Err(too_long()),
            None => Ok(Heard::Nothing),
        }
    }

    fn whole(&mut self) -> Option<Vec<u8>> {
        let end = memchr::memchr(b'\n', &self.read.make_contiguous()[self.searched..]);
        let Some(end) = end.map(|end| self.searched + end) else {
            self.searched = self.read.len();
            return None;
        };
        self.searched = 0;
        Some(self.read.drain(..=end).collect())
    }
}

/// Versions in the peer's first message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    pub protocol: u32,
    /// Version of tripmeter; older ones do not send it.
    pub tripmeter: Option<String>,
}

impl Versions {
    pub fn own() -> Self {
        Self { protocol: PROTOCOL, tripmeter: Some(env!("CARGO_PKG_VERSION").to_owned()) }
    }

    /// Error text for a peer with these versions.
    pub fn differ(&self, other: &str, own: &str) -> String {
        let theirs = printable::line(self.tripmeter.as_deref().unwrap_or("of unknown version"));
        let version = env!("CARGO_PKG_VERSION");
        format!(
            "the {other} has protocol {} (tripmeter {theirs}), but this {own} has protocol {PROTOCOL} (tripmeter \
             {version}); use the same tripmeter on both sides",
            self.protocol
        )
    }
}

/// Error for input from the peer that is not a valid message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Junk {
    /// Error text, to be put after "it sent".
    what: String,
    /// Versions of the peer, if the line is the setup message of a follower, perhaps in the format of another version.
    pub versions: Option<Versions>,
}

impl Junk {
    fn over(what: String) -> Self {
        Self { what, versions: None }
    }

    #[cold]
    fn from_line(line: &str) -> Self {
        const MOST_CHARACTERS: usize = 80;
        #[derive(Deserialize)]
        struct Greeting {
            #[serde(rename = "Setup")]
            setup: Versions,
        }
        let text: String = line.chars().filter(|letter| !letter.is_control()).take(MOST_CHARACTERS).collect();
        let what = format!("junk on the control channel: \"{}\"", printable::line(&text));
        Self { what, versions: serde_json::from_str::<Greeting>(line).ok().map(|greeting| greeting.setup) }
    }
}

impl From<Junk> for io::Error {
    fn from(junk: Junk) -> Self {
        io::Error::new(io::ErrorKind::InvalidData, junk)
    }
}

impl From<io::Error> for Junk {
    fn from(error: io::Error) -> Self {
        let what = error.to_string();
        error.downcast().unwrap_or(Junk { what, versions: None })
    }
}

/// Capacity of the queue of incoming messages, more than are ever sent at once; the peer waits while it is full.
const MOST_UNHEARD: usize = 1024;

/// One end of a control channel. A thread reads incoming messages, and sleeps between them.
pub struct Channel<In> {
    writer: UnixStream,
    incoming: Receiver<Result<In, Junk>>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum NoMessage {
    Closed,
    TimedOut,
    /// The peer sent something other than a message; nothing more is read.
    Junk(Junk),
}

impl<In: BoundedMessage + Send + 'static> Channel<In> {
    /// Starts the reading thread. If `stops` returns a number for a message, the thread stores it in [`Shared::last`]
    /// and sets [`Shared::stop`]. It then interrupts `target` until it reacts. The end of the stream sets
    /// [`Shared::peer_gone`] and interrupts `target` once.
    pub fn new(
        stream: UnixStream,
        shared: Arc<Shared>,
        target: Target,
        stops: impl Fn(&In, &Shared) -> Option<u64> + Send + 'static,
    ) -> io::Result<Self> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let (sender, incoming) = sync_channel(MOST_UNHEARD);
        std::thread::Builder::new().name("control".to_owned()).spawn(move || {
            loop {
                let message = match receive::<In>(&mut reader) {
                    Ok(Some(message)) => message,
                    Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                        // An error means that the receiver is gone.
                        let _ = sender.send(Err(error.into()));
                        break;
                    }
                    Ok(None) | Err(_) => break,
                };
                if let Some(last) = stops(&message, &shared) {
                    shared.last.store(last, Relaxed);
                    stop(shared.clone(), target.clone());
                } else if sender.send(Ok(message)).is_err() {
                    break;
                }
            }
            shared.peer_gone.store(true, Relaxed);
            drop(sender);
            remind(&shared, &target, || false);
        })?;
        Ok(Self { writer: stream, incoming })
    }

    pub fn send<T: Serialize>(&mut self, message: &T) -> io::Result<()> {
        send(&mut self.writer, message)
    }

    pub fn peer_pid(&self) -> Option<u32> {
        os::peer_pid(&self.writer)
    }

    /// Closes the channel; the peer reads end of file.
    pub fn hang_up(&self) {
        // An error means that it is closed already.
        let _ = self.writer.shutdown(Shutdown::Both);
    }

    /// Next message, if one comes within `time`.
    pub fn receive(&self, time: Duration) -> Result<In, NoMessage> {
        match self.incoming.recv_timeout(time) {
            Ok(heard) => heard.map_err(NoMessage::Junk),
            Err(RecvTimeoutError::Timeout) => Err(NoMessage::TimedOut),
            Err(RecvTimeoutError::Disconnected) => Err(NoMessage::Closed),
        }
    }
}

/// Pauses between interrupts of a measuring thread: short at first. They last 120 s in total, as a follower may still
/// receive for that long.
fn pauses() -> impl Iterator<Item = Duration> {
    const MANY: usize = 20;
    const LONGEST: Duration = Duration::from_millis(100);
    const WHOLE: Duration = Duration::from_secs(120);
    let growing = std::iter::successors(Some(Duration::from_millis(1)), |pause| Some((*pause * 2).min(LONGEST)));
    let pauses = std::iter::repeat_n(Duration::from_millis(1), MANY).chain(growing);
    pauses.scan(Duration::ZERO, |passed, pause| {
        *passed += pause;
        (*passed < WHOLE).then_some(pause)
    })
}

/// Sets [`Shared::stop`], and interrupts `target` from a new thread so that reading continues.
fn stop(shared: Arc<Shared>, target: Target) {
    shared.stop.store(true, Release);
    let remind = move || remind(&shared, &target, || !shared.stop.load(Relaxed));
    let spawned = std::thread::Builder::new().spawn(remind.clone());
    // If no thread can be started, reading waits.
    spawned.map_or_else(|_| remind(), drop);
}

/// Interrupts the thread until it reacts: a single signal may come too early, just before the blocking call.
fn remind(shared: &Shared, target: &Target, noted: impl Fn() -> bool) {
    for pause in pauses() {
        if noted() {
            return;
        }
        target.interrupt(shared.interrupt.load(Relaxed));
        std::thread::sleep(pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl BoundedMessage for u64 {}

    const SHORTLY: Duration = Duration::from_millis(1);
    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn reminders_begin_soon_last_long_and_are_few() {
        let all: Vec<Duration> = pauses().collect();
        let whole: Duration = all.iter().sum();
        assert!(all[..20].iter().all(|pause| *pause == Duration::from_millis(1)));
        assert!(whole > Duration::from_secs(119) && all.len() < 1300, "{} in {whole:?}", all.len());
    }

    #[test]
    fn a_message_that_is_begun_keeps_nobody_waiting() {
        let (mut other, stream) = UnixStream::pair().unwrap();
        let mut incoming = Incoming::new(stream);
        assert!(matches!(incoming.next::<u64>(SHORTLY), Ok(Heard::Nothing)));
        other.write_all(b"4").unwrap();
        assert!(matches!(incoming.next::<u64>(LONG), Ok(Heard::Nothing)));
        other.write_all(b"2\n7\n").unwrap();
        assert!(matches!(incoming.next::<u64>(LONG), Ok(Heard::Message(42))));
        assert!(matches!(incoming.next::<u64>(SHORTLY), Ok(Heard::Message(7))));
        drop(other);
        assert!(matches!(incoming.next::<u64>(LONG), Ok(Heard::End)));
    }

    #[test]
    fn what_the_other_side_says_cannot_act_on_a_terminal() {
        let hostile = "a\u{1b}[31m\u{202e}\n".to_owned();
        let junk = Junk::from_line(&hostile).to_string();
        let differ = Versions { protocol: 1, tripmeter: Some(hostile) }.differ("leader", "follower");
        for text in [junk, differ] {
            assert_eq!(printable::line(&text), text);
        }
    }

    #[test]
    fn junk_is_quoted_and_an_endless_line_is_an_error() {
        let (mut other, stream) = UnixStream::pair().unwrap();
        other.write_all(b"\x1b[2J\n").unwrap();
        let mut incoming = Incoming::new(stream);
        let error = incoming.next::<u64>(LONG).unwrap_err().to_string();
        assert_eq!(error, "junk on the control channel: \"[2J\"");
        let endless = std::thread::spawn(move || while other.write_all(&[b'x'; 1 << 16]).is_ok() {});
        let error = loop {
            match incoming.next::<u64>(LONG) {
                Ok(Heard::Nothing) => assert!(incoming.read.len() <= MOST_MESSAGE_BYTES),
                Ok(heard) => panic!("{heard:?}"),
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.contains("more than 67108864 bytes"), "{error}");
        drop(incoming);
        endless.join().unwrap();
        let (mut other, stream) = UnixStream::pair().unwrap();
        let read = vec![b'x'; MOST_MESSAGE_BYTES].into();
        let mut incoming = Incoming { stream, read, searched: MOST_MESSAGE_BYTES };
        other.write_all(b"x\n").unwrap();
        let error = incoming.next_line(LONG).unwrap_err().to_string();
        assert!(error.contains("more than 67108864 bytes"), "its end comes with the rest: {error}");
        let mut endless = BufReader::new(std::io::repeat(b'x'));
        assert!(receive::<u64>(&mut endless).unwrap_err().to_string().contains("more than 67108864 bytes"));
    }
}

//! What leader, follower and supervisor say to each other: one JSON value per line, over Unix sockets.
//!
//! Nothing is said while a cell is measured, save one sign of life per second.

use crate::clock::{Source, Timebase};
use crate::measure::Shared;
use crate::measure::arrivals::Arrived;
use crate::os::{self, Target, wait_readable};
use crate::proof::Evidence;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;
use tripmeter_abi::{Intruder, NodeOptions};
use tripmeter_model::audit::ProcessActivity;
use tripmeter_model::channel::Used;
use tripmeter_model::log::Lines;
use tripmeter_model::manifest::{Cell, Counts, IntruderTrial, PathProof};
use tripmeter_model::plan::{Raw, SubExperiment};
use tripmeter_model::{Touch, printable};

/// Version of these messages; leader and follower must have the same.
pub const PROTOCOL: u32 = 9;

/// Phases of a leader, as it names them, before it gives signs of life.
pub const OPENING: [&str; 3] = ["start", "open", "connect"];
/// Phase in which it writes samples, many perhaps.
pub const WRITING: &str = "write its samples";
/// The leader's last phase.
pub const CLOSING: &str = "close";

/// From the supervisor to a leader: all that it is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// What to measure.
    pub sub_experiment: SubExperiment,
    /// Where its transport is, if it is not built in.
    pub plugin: Option<PathBuf>,
    /// Prefix of every name it creates.
    pub run_id: String,
    /// For sockets and the like.
    pub scratch_dir: PathBuf,
    /// Where results go.
    pub results_dir: PathBuf,
    /// Where each follower comes to, by its index.
    pub controls: Vec<PathBuf>,
    /// The folder of the recording's schedule, if one is played.
    pub schedule: Option<PathBuf>,
    /// The clock.
    pub timebase: Timebase,
    /// What is kept.
    pub raw: Raw,
    /// See the plan.
    pub attempts: u32,
    /// See the plan.
    pub loss_timeout_ns: u64,
    /// See the plan.
    pub leader_cpu: Option<usize>,
    /// Each follower's processor.
    pub follower_cpus: Vec<Option<usize>>,
    /// See the plan.
    pub cpus: Vec<usize>,
}

/// To an intruder: where it is to try to get in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Intrusion {
    /// What it is.
    pub kind: Intruder,
    /// The system.
    pub system: String,
    /// Where its transport is, if it is not built in.
    pub plugin: Option<PathBuf>,
    /// For its node: those of the true one, but for [`NodeOptions::intruder`].
    pub options: NodeOptions,
    /// Address of the true node that it comes to.
    pub peer: Vec<u8>,
    /// How long it tries to connect.
    pub timeout_ns: u64,
}

/// To a follower: what it does not take from its leader.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Follow {
    /// Where its leader listens.
    pub control: PathBuf,
    /// Where transports are that are not built in, by their systems: it loads no others.
    pub plugins: BTreeMap<String, PathBuf>,
}

/// From the supervisor to a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ToWorker {
    /// To a leader, first.
    Lead(Box<Job>),
    /// To a follower, first.
    Follow(Follow),
    /// To an intruder, first; it answers with an [`IntruderTrial`].
    Intrude(Box<Intrusion>),
    /// To a leader: what came of the intrusions that it asked for.
    Intruded(Vec<IntruderTrial>),
    /// To a leader: its finished cell has been noted.
    Continue,
    /// End early and keep what was measured.
    Stop,
}

/// From a leader to its supervisor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum FromLeader {
    /// What it does from now on; also a sign of life.
    Phase(String),
    /// The transport is open.
    Opened {
        /// Version of the transport.
        transport_version: String,
        /// Version of what it drives.
        system_version: String,
        /// Leader and follower are threads of one process.
        same_process: bool,
        /// Outcome of locking memory.
        memory_lock: String,
    },
    /// These are to be tried now, one after the other; answered with [`ToWorker::Intruded`].
    Intrude(Vec<Intrusion>),
    /// The path was checked.
    Proof(PathProof),
    /// A payload begins.
    CellStarted {
        /// Its size.
        payload_bytes: u64,
    },
    /// Samples of this payload so far; about once a second.
    Progress {
        /// Their number.
        samples: u64,
        /// Changes with every message or call.
        moves: u64,
    },
    /// A logger was used in this time of CLOCK_MONOTONIC, in nanoseconds; its cell follows.
    Logged {
        /// The first call.
        begin_ns: u64,
        /// All was written out.
        end_ns: u64,
    },
    /// A payload is finished and on disk.
    CellFinished(Box<Cell>),
    /// The same, and it is measured again from here.
    CellAgain(Box<Cell>),
    /// What its process did; shortly before the end.
    Used(ProcessActivity),
    /// All is done.
    Done,
    /// It was asked to stop, and has.
    Interrupted,
    /// It cannot go on.
    Failed(String),
}

/// From leader to follower. The follower takes all its settings from here.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ToFollower {
    /// First of all.
    Setup(Box<Setup>),
    /// The address of each of the leader's links; both connect now.
    Connect(Vec<Vec<u8>>),
    /// Answer this many messages while watching where they travel, then send the evidence.
    Probe(ProbePlan),
    /// Take part in one hand-over probe.
    Handover,
    /// Answer messages of this payload until told to stop.
    Cell {
        /// Bytes of each.
        payload_bytes: u64,
        /// Number of the first of them.
        first: u64,
        /// How many arrivals are to be noted, from that one on.
        noted: u64,
    },
    /// Count the messages from this number on, until told how many there are.
    Count {
        /// Number of the first.
        first: u64,
    },
    /// Note the messages of every topic, or of every publisher of the one, until told how many there are.
    Receive {
        /// Number of the first of each.
        first: u64,
        /// Most messages of each.
        messages: Vec<u64>,
    },
    /// Answer the requests of every client, until told that there are no more.
    Answer,
    /// Stop answering.
    Stop,
    /// There are no messages after this one: say what has come.
    StopAfter {
        /// Number of the last.
        last: u64,
    },
    /// All messages of every topic or publisher have been sent, or all calls of every client have ended: say what has come.
    Sent {
        /// Number of the last of each.
        last: Vec<u64>,
    },
    /// Read the lines that will be logged, and check them.
    ReadLog {
        /// Bytes of each text.
        payload_bytes: u64,
        /// Most lines.
        most: u64,
        /// Through a pipe, while they are logged; else from a file afterwards.
        pipe: bool,
    },
    /// The logger has closed its file or pipe: say what there is.
    LogClosed {
        /// Calls of the logger.
        calls: u64,
    },
    /// Close everything and end.
    Bye,
}

/// Settings of a follower.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// Must be [`PROTOCOL`].
    pub protocol: u32,
    /// Version of the leader's tripmeter.
    #[serde(default)]
    pub tripmeter: String,
    /// The system.
    pub system: String,
    /// The clock that arrivals are noted by; `None` if they are not.
    pub arrivals: Option<Source>,
    /// For its node.
    pub options: NodeOptions,
    /// What to do with payloads.
    pub touch: Touch,
    /// Its processor.
    pub cpu: Option<usize>,
    /// All that its process may use; empty: any.
    pub cpus: Vec<usize>,
    /// The system's own threads must not be bound to that processor.
    pub own_threads: bool,
    /// Overdue blocking calls are interrupted by a signal.
    pub interrupt: bool,
    /// The clock.
    pub timebase: Timebase,
    /// How long it spins before each answer.
    #[serde(default)]
    pub answer_delay_ns: u64,
    /// The page of the hand-over probe.
    pub handover: PathBuf,
    /// How long one receive may wait.
    pub loss_timeout_ns: u64,
}

/// Extent of a path proof.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct ProbePlan {
    /// Messages in each direction.
    pub messages: u64,
    /// Bytes of each.
    pub payload_bytes: u64,
}

/// From follower to leader.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum FromFollower {
    /// The transport is open.
    Opened {
        /// Of each link, for the leader's of the same index.
        addresses: Vec<Vec<u8>>,
    },
    /// The link is connected.
    Connected {
        /// Outcome of locking memory.
        memory_lock: String,
    },
    /// Ready for what was asked.
    Ready,
    /// It has stopped answering.
    Stopped,
    /// What has come of the messages that it was to count.
    Arrived(Arrived),
    /// What has come of the messages of every topic; when they came is in its file. Or the calls have been answered.
    Received {
        /// Of each topic; of calls none, which the leader counts.
        arrived: Vec<Arrived>,
        /// What its process used until the last message was sent.
        used: Used,
        /// Why it could not go on, if so: what came until then is told nevertheless.
        failed: Option<String>,
    },
    /// What has come of the calls of a logger.
    Lines {
        /// Of its calls and lines.
        counts: Counts,
        /// As they were found.
        lines: Lines,
    },
    /// What it saw during a probe.
    Evidence(Box<Evidence>),
    /// What its process did; its last word, to the supervisor.
    Used(ProcessActivity),
    /// It cannot go on.
    Failed(String),
}

/// Writes one message.
///
/// # Errors
/// If the other side has gone.
pub fn send<T: Serialize>(stream: &mut UnixStream, message: &T) -> io::Result<()> {
    let mut line = serde_json::to_vec(message).map_err(io::Error::other)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Most bytes of one message.
const MOST_MESSAGE_BYTES: usize = 64 << 20;

fn parse<T: DeserializeOwned>(line: &[u8]) -> io::Result<T> {
    serde_json::from_slice(line).map_err(|_| Junk::of(&String::from_utf8_lossy(line)).into())
}

fn too_long() -> io::Error {
    Junk { text: format!("a message of more than {MOST_MESSAGE_BYTES} bytes"), versions: None }.into()
}

/// Reads one message; `None` at the end of the stream.
///
/// # Errors
/// If the stream breaks, or the line is no such message, or too long for one.
pub fn receive<T: DeserializeOwned>(reader: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    reader.take(MOST_MESSAGE_BYTES as u64).read_until(b'\n', &mut line)?;
    match line.len() {
        MOST_MESSAGE_BYTES => Err(too_long()),
        // Whoever was killed while it wrote has said nothing.
        _ if line.last() != Some(&b'\n') => Ok(None),
        _ => parse(&line).map(Some),
    }
}

/// What has come of a stream of messages.
#[derive(Debug)]
pub enum Heard<T> {
    /// A message.
    Message(T),
    /// None, or only a part of one.
    Nothing,
    /// The end.
    End,
}

/// Messages as far as they have come: one that is begun and not ended keeps nobody waiting.
#[derive(Debug)]
pub struct Incoming {
    stream: UnixStream,
    /// Read, and not returned.
    read: VecDeque<u8>,
    /// Bytes of it that hold no end of a line.
    searched: usize,
}

impl Incoming {
    /// Of this stream.
    pub fn new(stream: UnixStream) -> Self {
        Self { stream, read: VecDeque::new(), searched: 0 }
    }

    /// The next message, if all of it has come before the time is over or a signal comes.
    ///
    /// # Errors
    /// As [`receive`].
    pub fn next<T: DeserializeOwned>(&mut self, time: Duration) -> io::Result<Heard<T>> {
        const PIECE_BYTES: usize = 64 << 10;
        if let Some(message) = self.whole()? {
            return Ok(Heard::Message(message));
        }
        if !wait_readable(&[&self.stream], time)?[0] {
            return Ok(Heard::Nothing);
        }
        let mut piece = vec![0; PIECE_BYTES];
        let bytes = self.stream.read(&mut piece)?;
        self.read.extend(&piece[..bytes]);
        match self.whole()? {
            Some(message) => Ok(Heard::Message(message)),
            None if bytes == 0 => Ok(Heard::End),
            None if self.read.len() > MOST_MESSAGE_BYTES => Err(too_long()),
            None => Ok(Heard::Nothing),
        }
    }

    fn whole<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let end = self.read.iter().skip(self.searched).position(|byte| *byte == b'\n');
        let Some(end) = end.map(|end| self.searched + end) else {
            self.searched = self.read.len();
            return Ok(None);
        };
        self.searched = 0;
        let line: Vec<u8> = self.read.drain(..=end).collect();
        parse(&line).map(Some)
    }
}

/// Versions that the other side names, whatever else it says.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Versions {
    /// Of the messages.
    pub protocol: u32,
    /// Of its tripmeter; older ones do not name it.
    pub tripmeter: Option<String>,
}

impl Versions {
    /// What a follower says whose leader has these versions.
    pub fn differ(&self) -> String {
        let leader = printable::line(self.tripmeter.as_deref().unwrap_or("of unknown version"));
        let own = env!("CARGO_PKG_VERSION");
        format!(
            "the leader has protocol {} (tripmeter {leader}), this follower protocol {PROTOCOL} (tripmeter {own}); use the \
             same tripmeter on both sides",
            self.protocol
        )
    }
}

/// What came instead of a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("junk on the control channel: \"{text}\"")]
pub struct Junk {
    text: String,
    /// It is the settings of a follower, perhaps of another version.
    pub versions: Option<Versions>,
}

impl Junk {
    #[cold]
    fn of(line: &str) -> Self {
        const MOST_CHARACTERS: usize = 80;
        #[derive(Deserialize)]
        struct Greeting {
            #[serde(rename = "Setup")]
            setup: Versions,
        }
        let text: String = line.chars().filter(|letter| !letter.is_control()).take(MOST_CHARACTERS).collect();
        let text = printable::line(&text).into_owned();
        Self { text, versions: serde_json::from_str::<Greeting>(line).ok().map(|greeting| greeting.setup) }
    }
}

impl From<Junk> for io::Error {
    fn from(junk: Junk) -> Self {
        io::Error::new(io::ErrorKind::InvalidData, junk)
    }
}

impl From<io::Error> for Junk {
    fn from(error: io::Error) -> Self {
        let text = error.to_string();
        error.downcast().unwrap_or(Junk { text, versions: None })
    }
}

/// One end of a channel whose incoming side is read by a thread that sleeps all the time.
pub struct Channel<In> {
    writer: UnixStream,
    incoming: Receiver<Result<In, Junk>>,
}

/// Why a message was awaited in vain.
#[derive(Debug, PartialEq, Eq)]
pub enum NoMessage {
    /// The other side has gone.
    Closed,
    /// It did not answer in time.
    TimedOut,
    /// It sent what is no message; nothing more is heard of it.
    Junk(Junk),
}

impl<In: DeserializeOwned + Send + 'static> Channel<In> {
    /// Starts reading. A message of which `stops` gives a number sets [`Shared::last`] to it and [`Shared::stop`], and
    /// interrupts `target` until it has taken note; the end of the stream sets [`Shared::peer_gone`] and interrupts it once.
    ///
    /// # Errors
    /// If the stream cannot be used from two threads.
    pub fn new(
        stream: UnixStream,
        shared: Arc<Shared>,
        target: Target,
        stops: fn(&In) -> Option<u64>,
    ) -> io::Result<Self> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let (sender, incoming) = channel();
        std::thread::Builder::new().name("control".to_owned()).spawn(move || {
            loop {
                let message = match receive::<In>(&mut reader) {
                    Ok(Some(message)) => message,
                    Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                        // Whoever does not listen any more need not be told.
                        let _ = sender.send(Err(error.into()));
                        break;
                    }
                    Ok(None) | Err(_) => break,
                };
                if let Some(last) = stops(&message) {
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

    /// Sends one message.
    ///
    /// # Errors
    /// If the other side has gone.
    pub fn send<T: Serialize>(&mut self, message: &T) -> io::Result<()> {
        send(&mut self.writer, message)
    }

    /// Number of the process at the other side; `None` if it is not visible here.
    pub fn peer_pid(&self) -> Option<u32> {
        os::peer_pid(&self.writer)
    }

    /// Says no more, and hears no more; the other side sees that this one has gone.
    pub fn hang_up(&self) {
        // One that is closed needs no closing.
        let _ = self.writer.shutdown(Shutdown::Both);
    }

    /// The next message, if it comes within `time`.
    ///
    /// # Errors
    /// If it does not, or the stream has ended.
    pub fn receive(&self, time: Duration) -> Result<In, NoMessage> {
        match self.incoming.recv_timeout(time) {
            Ok(heard) => heard.map_err(NoMessage::Junk),
            Err(RecvTimeoutError::Timeout) => Err(NoMessage::TimedOut),
            Err(RecvTimeoutError::Disconnected) => Err(NoMessage::Closed),
        }
    }
}

/// Pauses between reminders of a measuring thread: short at first, and all together as long as a follower may go on taking
/// what was sent.
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

/// Reminds from a thread of its own: the reading goes on, whatever the measuring thread waits for.
fn stop(shared: Arc<Shared>, target: Target) {
    shared.stop.store(true, Release);
    std::thread::spawn(move || remind(&shared, &target, || !shared.stop.load(Relaxed)));
}

/// Interrupts the thread until it has taken note: one signal may come just before the blocking call that it is to
/// interrupt.
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
        let junk = Junk::of(&hostile).to_string();
        let differ = Versions { protocol: 1, tripmeter: Some(hostile) }.differ();
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
        let mut endless = BufReader::new(std::io::repeat(b'x'));
        assert!(receive::<u64>(&mut endless).unwrap_err().to_string().contains("more than 67108864 bytes"));
    }
}

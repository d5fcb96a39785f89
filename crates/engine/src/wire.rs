//! Messages between leader, follower and supervisor, carried by [`crate::channel`].
//!
//! No message is sent while a cell is measured, except one heartbeat per second.

use crate::clock::Timebase;
use crate::os::MemoryFile;
use crate::proof::Evidence;
use crate::received::{BoundedMessage, cut_text};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use tripmeter_abi::{NodeOptions, UnauthorizedPeer};
use tripmeter_model::Touch;
use tripmeter_model::audit::ProcessActivity;
use tripmeter_model::bounds::{MOST_SAID_ELEMENTS, said};
use tripmeter_model::folder_handle::FolderIdentity;
use tripmeter_model::interference::{BackgroundLoad, Sched};
use tripmeter_model::kernel_queue::KernelQueues;
use tripmeter_model::log::Lines;
use tripmeter_model::manifest::{Counts, PathProof, PayloadResult, RefusalTrial};
use tripmeter_model::plan::{Instrument, Raw, Streams, SubExperiment};
use tripmeter_model::used::Used;

/// Version of these messages, which must be equal on both sides.
pub const PROTOCOL: u32 = 25;

/// Phases of a leader before it sends heartbeats.
pub const OPENING: [&str; 3] = ["start", "open", "connect"];
/// Phase in which a leader writes its samples, which may be many.
pub const WRITING: &str = "write its samples";
pub const CLOSING: &str = "close";
/// Text for a follower that closed its channel without a reason.
pub const GONE: &str = "has gone";

/// Order from the supervisor to a leader.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    pub sub_experiment: SubExperiment,
    pub done: EarlierPayloads,
    /// Plugin of the transport, unless the transport is built in.
    pub plugin: Option<PathBuf>,
    pub run_id: String,
    pub scratch_dir: PathBuf,
    pub results: FolderIdentity,
    /// Round, from 1.
    pub round: u32,
    /// Control socket for each follower.
    pub controls: Vec<PathBuf>,
    /// Folder with the schedule of a recording, if one is replayed.
    pub schedule: Option<PathBuf>,
    pub timebase: Timebase,
    pub raw: Raw,
    pub streams: Streams,
    pub attempts: u32,
    pub loss_timeout_ns: u64,
    pub cpus: PlannedCpus,
    pub hosts: OtherHosts,
    pub max_clock_error_ns: u64,
}

/// Measurements completed before an interruption.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EarlierPayloads {
    pub payloads: Vec<u64>,
    /// Number of the last trial.
    pub trials: u32,
}

/// CPUs of a sub-experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlannedCpus {
    pub leader: Option<usize>,
    pub followers: Vec<Option<usize>>,
    /// CPUs that both processes are confined to; empty for no limit.
    pub all: Vec<usize>,
}

/// Other hosts with followers; empty if all followers are on this host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OtherHosts {
    /// Own address for messages to and from these hosts.
    pub local_address: Option<IpAddr>,
    /// Host names, as given to ssh.
    pub names: Vec<String>,
    pub addresses: Vec<IpAddr>,
}

impl Job {
    /// Payloads still to be measured, in order.
    pub fn rest(&self) -> Vec<u64> {
        self.sub_experiment.payloads.iter().copied().filter(|payload| !self.done.payloads.contains(payload)).collect()
    }
}

/// Order to an unauthorized peer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AccessAttempt {
    pub kind: UnauthorizedPeer,
    pub system: String,
    pub plugin: Option<PathBuf>,
    /// Options of the authorized node, except [`NodeOptions::unauthorized_peer`].
    pub options: NodeOptions,
    /// Address of the authorized node.
    pub peer: Vec<u8>,
    pub timeout_ns: u64,
}

/// Order to a follower, with the settings that its leader does not send.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Follow {
    pub control: PathBuf,
    /// Plugin files by name of the system; no others are loaded.
    pub plugins: BTreeMap<String, PathBuf>,
    /// Settings that replace the leader's if the leader is on another host.
    #[serde(default)]
    pub place: Option<FollowerPlace>,
}

/// Settings of a follower's host, which the leader does not know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FollowerPlace {
    pub scratch_dir: PathBuf,
    /// Address of the interface that the leader reaches.
    pub address: IpAddr,
    /// CPU of the follower, if the plan names none.
    pub cpu: Option<usize>,
}

/// Order to a worker that represents a follower on another host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Relay {
    pub control: PathBuf,
    pub to: String,
    pub pushed: String,
    pub address: IpAddr,
    pub cpu: Option<usize>,
}

/// Order to a worker that creates a background load.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct BackgroundPart {
    pub load: BackgroundLoad,
    /// Time after which the load ends by itself.
    pub limit_ns: u64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct BackgroundReading {
    /// Time by CLOCK_MONOTONIC.
    pub at_ns: u64,
    pub cpu_time_ns: u64,
    pub memory_bytes: u64,
    /// Bytes received over the loopback interface.
    pub network_bytes: u64,
    /// Reason why the load does nothing; `None` if it works.
    pub failed: Option<String>,
}

/// UDP address of a clock server, and the token that identifies questions meant for it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ClockAddress {
    pub at: SocketAddr,
    pub token: [u8; 16],
}

impl ClockAddress {
    /// Refuses a clock that is not on `host`: its address could be anybody's.
    pub fn check(&self, host: IpAddr) -> Result<(), String> {
        let at = self.at.ip();
        (at == host).then_some(()).ok_or_else(|| format!("its clock is at {at}, but messages go to {host}"))
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum ToWorker {
    Lead(Box<Job>),
    Follow(Follow),
    /// First message to a worker that represents a follower on another host.
    Relay(Relay),
    /// First message to an unauthorized peer, which answers with a [`RefusalTrial`].
    AttemptAccess(Box<AccessAttempt>),
    /// First message to a background load, which answers each `Continue` with a [`BackgroundReading`].
    Background(BackgroundPart),
    /// Results of the access attempts that a leader asked for.
    AccessAttempted(Vec<RefusalTrial>),
    /// Permission for a leader to continue, for example after a finished cell.
    Continue,
    /// Stop early, and keep the results.
    Stop,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum FromLeader {
    /// Current phase; also serves as heartbeat.
    Phase(String),
    Opened {
        transport_version: String,
        /// Version of the system that the transport drives.
        system_version: String,
        /// True if leader and follower are threads of one process.
        same_process: bool,
        memory_lock: String,
        /// Capacities of kernel queues on both sides.
        #[serde(default)]
        queues: Vec<KernelQueues>,
    },
    /// A failure; nothing more is measured, and the leader closes what is open.
    Broken(String),
    /// Request for access attempts, one after the other; answered with `ToWorker::AccessAttempted`.
    AttemptAccess(Vec<AccessAttempt>),
    Proof(PathProof),
    /// Start or end of the background load; answered with `ToWorker::Continue`.
    LoadMark {
        /// True at the start of a payload.
        begins: bool,
    },
    CellStarted {
        payload_bytes: u64,
    },
    /// Progress of the payload; about once a second.
    Progress {
        samples: u64,
        /// Number that changes with every message or call.
        moves: u64,
    },
    /// Period in which a logger was used, in nanoseconds of CLOCK_MONOTONIC; its cell follows.
    Logged {
        /// Time of the first call.
        begin_ns: u64,
        /// Time when all writes had ended.
        end_ns: u64,
    },
    /// A payload is finished, and on the disk.
    CellFinished(Box<PayloadResult>),
    /// An attempt is finished, and its payload is measured again.
    CellAgain(Box<PayloadResult>),
    /// The leader is about to move away the files of the discarded attempt; answered with `ToWorker::Continue`.
    Replacing,
    /// Resource usage of the leader's process, sent shortly before its end.
    Used(ProcessActivity),
    Done,
    /// The leader has stopped as requested.
    Interrupted,
    Failed(String),
}

/// Message from a leader to a follower. The follower takes all its settings from these messages.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ToFollower {
    Setup(Box<Setup>),
    /// Files of the leader's node in base64, for a follower on another host; sent before it opens the transport.
    Agreed(BTreeMap<String, String>),
    /// Address of each of the leader's links; both sides connect now.
    Connect(Vec<Vec<u8>>),
    /// Take part in one core-to-core probe.
    CoreToCore,
    /// Serve the clock to the leader on another host; answered with `FromFollower::Clock`.
    Clock,
    /// Handle messages until [`ToFollower::End`]; answered with `FromFollower::Ready`.
    Begin(Begin),
    /// All messages are sent; answered with `FromFollower::Report`.
    End {
        /// Last sequence number of each stream, or number of calls to a logger. Empty if nothing is counted.
        last: Vec<u64>,
    },
    Bye,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Begin {
    pub task: Task,
    /// Sequence number of the first message of each stream.
    pub first: u64,
    /// Bytes of each message; 0 if they differ.
    pub payload_bytes: u64,
    /// Largest number of messages of each stream; empty if unknown.
    pub most: Vec<u64>,
    /// Memory for the arrival times of these messages, if they are recorded.
    pub arrivals: Option<ArrivalPlace>,
    /// True to observe the path over the first link, and report the evidence.
    pub observe: bool,
    pub instrument: Option<Instrument>,
}

impl Begin {
    /// Handles messages of that size from sequence number `first` on, without records or observation.
    pub fn new(task: Task, first: u64, payload_bytes: u64) -> Self {
        Self { task, first, payload_bytes, most: Vec::new(), arrivals: None, observe: false, instrument: None }
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum ArrivalPlace {
    Leader(MemoryFile),
    /// Memory of a follower on another host; it sends the arrivals before its [`Report`].
    Follower,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    pub reply: TaskReply,
    /// True to serve every link: with a thread for each, or in turns if polling. False to serve the first link only, in
    /// the thread that handles control messages.
    pub serves_all: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskReply {
    /// Messages are counted.
    Nothing {
        /// True to record the arrivals of sampled messages, if there is memory for them; false to record every arrival.
        is_sampled: bool,
    },
    /// Messages are answered.
    Answer {
        /// True if the answer names its request to the transport.
        names_request: bool,
    },
    /// Lines of a log are checked.
    Lines {
        /// True if the log is a pipe, read during logging; otherwise a file, read afterwards.
        is_pipe: bool,
    },
}

impl Task {
    /// Counts over the first link.
    pub const COUNT: Self = Self { reply: TaskReply::Nothing { is_sampled: true }, serves_all: false };
    /// Counts over every link.
    pub const COUNT_ALL: Self = Self { serves_all: true, ..Self::COUNT };
    /// Records every arrival over every link.
    pub const NOTE: Self = Self { reply: TaskReply::Nothing { is_sampled: false }, serves_all: true };
    /// Answers over the first link.
    pub const ANSWER: Self = Self { reply: TaskReply::Answer { names_request: false }, serves_all: false };
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// Must be [`PROTOCOL`].
    pub protocol: u32,
    #[serde(default)]
    pub tripmeter: String,
    pub system: String,
    pub options: NodeOptions,
    pub touch: Touch,
    /// Scheduling of the follower's process during a measurement.
    #[serde(default)]
    pub sched: Sched,
    /// Scheduling of the system's own threads in that process.
    #[serde(default)]
    pub library_sched: Sched,
    pub cpu: Option<usize>,
    /// CPUs that the whole process may use; empty for any.
    pub cpus: Vec<usize>,
    /// True if the system's own threads must not be pinned to `cpu`.
    pub own_threads: bool,
    /// True if overdue blocking calls are interrupted by a signal.
    pub interrupt: bool,
    pub timebase: Timebase,
    /// Time for which the follower spins before each answer.
    #[serde(default)]
    pub answer_delay_ns: u64,
    /// Page of the core-to-core probe; `None` between hosts.
    pub core_to_core: Option<MemoryFile>,
    /// Timeout of a receive call.
    pub loss_timeout_ns: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum FromFollower {
    Opened {
        /// Address of each link, for the leader's link of the same index.
        addresses: Vec<Vec<u8>>,
    },
    Connected {
        memory_lock: String,
        /// Capacities of kernel queues on the follower's side.
        #[serde(default)]
        queues: Vec<KernelQueues>,
    },
    Clock(ClockAddress),
    /// Next piece of the recorded arrivals, in base64.
    Arrivals(String),
    Ready,
    /// Results after [`ToFollower::End`].
    Report(Box<Report>),
    /// Resource usage of its process; the last message, sent to the supervisor.
    Used(ProcessActivity),
    Failed(String),
}

impl BoundedMessage for ToWorker {}

impl BoundedMessage for ToFollower {}

impl BoundedMessage for FromLeader {
    fn within_bounds(self) -> Result<Self, String> {
        Ok(match self {
            Self::Phase(phase) => Self::Phase(cut_text(phase)),
            Self::Opened { transport_version, system_version, same_process, memory_lock, queues } => Self::Opened {
                transport_version: cut_text(transport_version),
                system_version: cut_text(system_version),
                same_process,
                memory_lock: cut_text(memory_lock),
                queues: KernelQueues::joined(queues),
            },
            Self::Broken(why) => Self::Broken(cut_text(why)),
            Self::Proof(proof) => Self::Proof(said(proof)?),
            Self::Used(activity) => Self::Used(said(activity)?),
            Self::Failed(why) => Self::Failed(cut_text(why)),
            message => message,
        })
    }
}

impl BoundedMessage for FromFollower {
    fn within_bounds(self) -> Result<Self, String> {
        Ok(match self {
            Self::Connected { memory_lock, queues } => {
                Self::Connected { memory_lock: cut_text(memory_lock), queues: KernelQueues::joined(queues) }
            }
            Self::Report(mut report) => {
                if report.arrived.len() > MOST_SAID_ELEMENTS {
                    let streams = report.arrived.len();
                    return Err(format!("counts of {streams} streams (limit {MOST_SAID_ELEMENTS})"));
                }
                report.failed = report.failed.map(cut_text);
                report.evidence = report.evidence.map(said).transpose()?;
                Self::Report(report)
            }
            Self::Used(activity) => Self::Used(said(activity)?),
            Self::Failed(why) => Self::Failed(cut_text(why)),
            message => message,
        })
    }
}

impl BoundedMessage for RefusalTrial {
    fn within_bounds(self) -> Result<Self, String> {
        said(self)
    }
}

impl BoundedMessage for BackgroundReading {
    fn within_bounds(self) -> Result<Self, String> {
        said(self)
    }
}

/// Report of a follower on the messages since [`ToFollower::Begin`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Counts of each stream, except for arrivals recorded in the leader's memory. Empty if messages were answered: the
    /// leader counts those itself.
    pub arrived: Vec<Arrived>,
    /// Resource usage of its process until the last message was sent; zero if one thread counts both sides.
    pub used: Used,
    /// Counts of a logger's calls, and statistics of its lines.
    pub log: Option<(Counts, Lines)>,
    /// Evidence of the path, if it was observed.
    pub evidence: Option<Evidence>,
    /// Reason why the follower could not go on; the other fields are from before.
    pub failed: Option<String>,
}

impl Report {
    pub fn damaged(&self) -> u64 {
        self.arrived.iter().map(|arrived| arrived.damaged).fold(0, u64::saturating_add)
    }
}

/// Outcome of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrived {
    /// Intact messages, each counted once.
    pub received: u64,
    pub duplicated: u64,
    /// Messages that arrived after a later one.
    pub reordered: u64,
    /// Messages with a damaged header or touched payload.
    pub damaged: u64,
    /// Messages of an earlier stream.
    pub earlier: u64,
    /// Arrival of the latest message, in ticks; `None` if none arrived.
    pub latest: Option<u64>,
}

impl Arrived {
    pub fn add(&mut self, other: &Arrived) {
        self.received = self.received.saturating_add(other.received);
        self.duplicated = self.duplicated.saturating_add(other.duplicated);
        self.reordered = self.reordered.saturating_add(other.reordered);
        self.damaged = self.damaged.saturating_add(other.damaged);
        self.earlier = self.earlier.saturating_add(other.earlier);
        self.latest = self.latest.max(other.latest);
    }
}

//! The messages between leader, follower and supervisor. [`crate::channel`] carries them.
//!
//! None is sent while a cell is measured, but for one sign of life per second.

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

/// Version of these messages; leader and follower must have the same.
pub const PROTOCOL: u32 = 21;

/// Phases of a leader, as it names them, before it gives signs of life.
pub const OPENING: [&str; 3] = ["start", "open", "connect"];
/// Phase in which it writes samples, many perhaps.
pub const WRITING: &str = "write its samples";
/// The leader's last phase.
pub const CLOSING: &str = "close";
/// What a leader says of a follower that has closed its channel, and has not said why.
pub const GONE: &str = "has gone";

/// From the supervisor to a leader: all that it is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// What to measure.
    pub sub_experiment: SubExperiment,
    /// Payloads that were measured before it was interrupted.
    pub done: Vec<u64>,
    /// The number of the last trial of those.
    pub trials: u32,
    /// Where its transport is, if it is not built in.
    pub plugin: Option<PathBuf>,
    /// Prefix of every name it creates.
    pub run_id: String,
    /// For sockets and the like.
    pub scratch_dir: PathBuf,
    /// Where results go.
    pub results: FolderIdentity,
    /// 1-based.
    pub round: u32,
    /// Where each follower comes to, by its index.
    pub controls: Vec<PathBuf>,
    /// The folder of the recording's schedule, if one is played.
    pub schedule: Option<PathBuf>,
    /// The clock.
    pub timebase: Timebase,
    /// What is kept.
    pub raw: Raw,
    /// See the plan.
    pub streams: Streams,
    /// See the plan.
    pub attempts: u32,
    /// See the plan.
    pub loss_timeout_ns: u64,
    /// See the plan.
    pub leader_cpu: Option<usize>,
    /// Each follower's CPU.
    pub follower_cpus: Vec<Option<usize>>,
    /// See the plan.
    pub cpus: Vec<usize>,
    /// The address that followers on other hosts reach; `None` if all are on this one.
    pub local_address: Option<IpAddr>,
    /// Their hosts, as ssh takes them; empty if that is this one.
    pub hosts: Vec<String>,
    /// The address of each follower; empty if all are on this host.
    pub follower_addresses: Vec<IpAddr>,
    /// See the plan.
    pub max_clock_error_ns: u64,
}

impl Job {
    /// Payloads that are still to be measured, in order.
    pub fn rest(&self) -> Vec<u64> {
        self.sub_experiment.payloads.iter().copied().filter(|payload| !self.done.contains(payload)).collect()
    }
}

/// To an unauthorized peer: where it is to try to get in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AccessAttempt {
    /// What it is.
    pub kind: UnauthorizedPeer,
    /// The system.
    pub system: String,
    /// Where its transport is, if it is not built in.
    pub plugin: Option<PathBuf>,
    /// Options of its node: as the true one has, but for [`NodeOptions::unauthorized_peer`].
    pub options: NodeOptions,
    /// Address of the true node that it comes to.
    pub peer: Vec<u8>,
    /// How long it tries to connect.
    pub timeout_ns: u64,
}

/// To a follower: what it does not take from its leader.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Follow {
    /// Where its leader listens.
    pub control: PathBuf,
    /// Where transports are that are not built in, by their systems: it loads no others.
    pub plugins: BTreeMap<String, PathBuf>,
    /// What of the leader's settings does not hold here, if the leader is on another host.
    #[serde(default)]
    pub place: Option<FollowerPlace>,
}

/// Where a follower is, which its leader does not know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FollowerPlace {
    /// For sockets and the like.
    pub scratch_dir: PathBuf,
    /// Of the interface that the leader reaches.
    pub address: IpAddr,
    /// The CPU, if the plan names none.
    pub cpu: Option<usize>,
}

/// To a worker that stands for a follower on another host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Relay {
    /// Where its leader listens.
    pub control: PathBuf,
    /// The host, as ssh takes it.
    pub to: String,
    /// Name of the folder that the program was pushed to.
    pub pushed: String,
    /// The address that the follower listens at.
    pub address: IpAddr,
    /// Its CPU, if the plan names none.
    pub cpu: Option<usize>,
}

/// To a worker that is to disturb a measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LoadPart {
    /// How.
    pub load: BackgroundLoad,
    /// When it ends by itself.
    pub limit_ns: u64,
}

/// From that worker: what it has done so far.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct LoadReading {
    /// By CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Of all its threads.
    pub cpu_time_ns: u64,
    /// Copied in memory.
    pub memory_bytes: u64,
    /// Received over the loopback interface.
    pub network_bytes: u64,
    /// Why it does nothing, if so.
    pub failed: Option<String>,
}

/// Where a clock is asked for, and the word by which its own are told from strangers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ClockAddress {
    /// A UDP socket.
    pub at: SocketAddr,
    /// The word.
    pub token: [u8; 16],
}

impl ClockAddress {
    /// Refuses another address than that of its host: it could be anybody's.
    ///
    /// # Errors
    /// Names both.
    pub fn check(&self, host: IpAddr) -> Result<(), String> {
        let at = self.at.ip();
        (at == host).then_some(()).ok_or_else(|| format!("its clock is to be asked at {at}, and messages go to {host}"))
    }
}

/// From the supervisor to a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum ToWorker {
    /// To a leader, first.
    Lead(Box<Job>),
    /// To a follower, first.
    Follow(Follow),
    /// To one that stands for a follower on another host, first.
    Relay(Relay),
    /// To an unauthorized peer, first; it answers with a [`RefusalTrial`].
    AttemptAccess(Box<AccessAttempt>),
    /// To one that is to disturb a measurement, first; it answers each `Continue` with a [`LoadReading`].
    Load(LoadPart),
    /// To a leader: the results of the attempts that it asked for.
    AccessAttempted(Vec<RefusalTrial>),
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
        /// Capacity of what messages wait in, at both sides.
        #[serde(default)]
        queues: Vec<KernelQueues>,
    },
    /// Nothing more is measured, as this has failed; what is open is closed now.
    Broken(String),
    /// These are to be tried now, one after the other; answered with `ToWorker::AccessAttempted`.
    AttemptAccess(Vec<AccessAttempt>),
    /// The path was checked.
    Proof(PathProof),
    /// The load is to run from here on, or what it did until here counts; answered with `ToWorker::Continue`.
    LoadMark {
        /// The payload begins.
        begins: bool,
    },
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
    CellFinished(Box<PayloadResult>),
    /// The same, and it is measured again from here.
    CellAgain(Box<PayloadResult>),
    /// What was written of the payload that is measured again is moved out of the way now; answered with
    /// `ToWorker::Continue`.
    Replacing,
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
    /// To one on another host, before it opens the transport: files that the leader's node has left for it, in base64.
    Agreed(BTreeMap<String, String>),
    /// The address of each of the leader's links; both connect now.
    Connect(Vec<Vec<u8>>),
    /// Take part in one hand-over probe.
    Handover,
    /// Answer for the clock, on another host; answered with `FromFollower::Clock`.
    Clock,
    /// Handle the messages from now on until [`ToFollower::End`]; answered with `FromFollower::Ready`.
    Begin(Begin),
    /// The leader has sent all; answered with `FromFollower::Report`.
    End {
        /// Number of the last message of each stream; of a logger its calls. Empty where nothing is counted.
        last: Vec<u64>,
    },
    /// Close everything and end.
    Bye,
}

/// What a follower does with messages.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Begin {
    /// What it does with each.
    pub task: Task,
    /// Number of the first message of each stream.
    pub first: u64,
    /// Bytes of each message; 0 if they differ.
    pub payload_bytes: u64,
    /// Most messages of each stream; empty if it is not known.
    pub most: Vec<u64>,
    /// Where arrivals of so many are kept, if they are.
    pub arrivals: Option<ArrivalPlace>,
    /// Watch where the messages travel, over the first link, and report the evidence.
    pub observe: bool,
    /// What to look at beside them, of those that are answered.
    pub instrument: Option<Instrument>,
}

impl Begin {
    /// Messages of that size from that number on, of which nothing is kept or observed.
    pub fn new(task: Task, first: u64, payload_bytes: u64) -> Self {
        Self { task, first, payload_bytes, most: Vec::new(), arrivals: None, observe: false, instrument: None }
    }
}

/// Where arrivals are kept.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum ArrivalPlace {
    /// In memory of the leader.
    Leader(MemoryFile),
    /// At the follower, which is on another host: they come before its [`Report`].
    Follower,
}

/// What a follower does with each message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Task {
    /// Answer it, over the first link.
    Answer,
    /// Answer it, over every link; the answer names the request to the transport.
    AnswerCalls,
    /// Count it, over the first link.
    Count,
    /// Note when it came, over every link.
    Note,
    /// Check it as a line of the log.
    ReadLog {
        /// The log is a pipe, read while lines are logged; else a file, read afterwards.
        is_pipe: bool,
    },
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
    /// For its node.
    pub options: NodeOptions,
    /// What to do with payloads.
    pub touch: Touch,
    /// How its process is scheduled while it measures.
    #[serde(default)]
    pub sched: Sched,
    /// How other threads of it are, which are the system's.
    #[serde(default)]
    pub library_sched: Sched,
    /// Its CPU.
    pub cpu: Option<usize>,
    /// All that its process may use; empty: any.
    pub cpus: Vec<usize>,
    /// The system's own threads must not be bound to that CPU.
    pub own_threads: bool,
    /// Overdue blocking calls are interrupted by a signal.
    pub interrupt: bool,
    /// The clock.
    pub timebase: Timebase,
    /// How long it spins before each answer.
    #[serde(default)]
    pub answer_delay_ns: u64,
    /// The page of the hand-over probe; none between hosts.
    pub handover: Option<MemoryFile>,
    /// How long one receive may wait.
    pub loss_timeout_ns: u64,
}

/// From follower to leader.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum FromFollower {
    /// The transport is open.
    Opened {
        /// Of each link, for the leader's of the same index.
        addresses: Vec<Vec<u8>>,
    },
    /// The link is connected.
    Connected {
        /// Outcome of locking memory.
        memory_lock: String,
        /// Capacity of what messages wait in, at its side.
        #[serde(default)]
        queues: Vec<KernelQueues>,
    },
    /// Where its clock is asked for.
    Clock(ClockAddress),
    /// A piece of its arrivals, in base64, in order.
    Arrivals(String),
    /// Ready for what was asked.
    Ready,
    /// What has come of the messages, after [`ToFollower::End`].
    Report(Box<Report>),
    /// What its process did; its last word, to the supervisor.
    Used(ProcessActivity),
    /// It cannot go on.
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
                    return Err(format!("counts of {streams} streams, at most {MOST_SAID_ELEMENTS} are taken"));
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

impl BoundedMessage for LoadReading {
    fn within_bounds(self) -> Result<Self, String> {
        said(self)
    }
}

/// What a follower has seen of the messages since [`ToFollower::Begin`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Counts of each stream; empty where messages were answered, which the leader counts. Arrivals are in the leader's memory.
    pub arrived: Vec<Arrived>,
    /// Cost of its process until the last message was sent.
    pub used: Used,
    /// Calls and lines of a log.
    pub log: Option<(Counts, Lines)>,
    /// Where the messages travelled, if that was to be observed.
    pub evidence: Option<Evidence>,
    /// Why it could not go on, if so: the rest is what came until then.
    pub failed: Option<String>,
}

impl Report {
    /// Messages of all streams that came damaged.
    pub fn damaged(&self) -> u64 {
        self.arrived.iter().map(|arrived| arrived.damaged).fold(0, u64::saturating_add)
    }
}

/// What has come of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrived {
    /// Intact, each counted once.
    pub received: u64,
    /// Came again.
    pub duplicated: u64,
    /// Came after a later one.
    pub reordered: u64,
    /// Header or touched payload was not what was written.
    pub damaged: u64,
    /// Of an earlier stream.
    pub earlier: u64,
    /// Clock when the latest message came, in ticks; `None` if none did.
    pub latest: Option<u64>,
}

impl Arrived {
    /// Adds what another counted, or counted later.
    pub fn add(&mut self, other: &Arrived) {
        self.received = self.received.saturating_add(other.received);
        self.duplicated = self.duplicated.saturating_add(other.duplicated);
        self.reordered = self.reordered.saturating_add(other.reordered);
        self.damaged = self.damaged.saturating_add(other.damaged);
        self.earlier = self.earlier.saturating_add(other.earlier);
        self.latest = self.latest.max(other.latest);
    }
}

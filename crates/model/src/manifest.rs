//! `manifest.json`: the plan, the environment, and the state and results of every sub-experiment.

use crate::plan::Plan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the manifest's format; raised when a reader must know.
pub const SCHEMA_VERSION: u32 = 1;

/// The whole file.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "Tripmeter manifest")]
pub struct Manifest {
    /// [`SCHEMA_VERSION`] of its writer.
    pub schema_version: u32,
    /// Version of tripmeter.
    pub tripmeter_version: String,
    /// Local time of the start, RFC 3339.
    pub started: String,
    /// Local time of the end; missing while it runs, or if it was killed.
    pub ended: Option<String>,
    /// State of the whole.
    pub status: Status,
    /// What was asked for.
    pub plan: Plan,
    /// The machine.
    pub environment: Environment,
    /// What was measured, in the order of the plan, round by round.
    pub sub_experiments: Vec<SubExperimentResult>,
}

/// State of an experiment or a sub-experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Not begun.
    Planned,
    /// Begun and not ended; if nothing runs any more, it was killed.
    Running,
    /// All that was asked for is there.
    Complete,
    /// Ended by an error; what was finished before is there.
    Failed,
    /// Ended by the user; what was measured before is there.
    Interrupted,
}

/// The machine and the clock.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    /// Kernel release.
    pub kernel: String,
    /// Processor model.
    pub cpu_model: String,
    /// Processors that this process may use.
    pub cpus: Vec<usize>,
    /// True under a hypervisor.
    pub virtual_machine: bool,
    /// Physical memory in bytes.
    pub memory_bytes: u64,
    /// The clock that all samples were read from.
    pub clock: ClockInfo,
    /// State before the first sub-experiment.
    pub before: LoadSnapshot,
    /// State after the last.
    pub after: Option<LoadSnapshot>,
}

/// A clock, as measured at the start.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ClockInfo {
    /// `tsc` (invariant, calibrated) or `monotonic` (CLOCK_MONOTONIC).
    pub source: String,
    /// Why it is not the TSC, if it is not.
    pub reason: Option<String>,
    /// Ticks per second.
    pub frequency_hz: f64,
    /// Median cost of one reading, in nanoseconds.
    pub read_cost_ns: f64,
    /// Smallest difference between two readings that differ, in nanoseconds.
    pub granularity_ns: f64,
    /// Calibration at the start against all the time to the end, in parts per million; for `tsc` only.
    pub drift_ppm: Option<f64>,
}

/// How busy the machine is.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LoadSnapshot {
    /// Load average of the last minute.
    pub load_1min: f64,
    /// Time stolen by the hypervisor since boot, in nanoseconds, over all processors.
    pub steal_ns: u64,
}

/// One sub-experiment in one round.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SubExperimentResult {
    /// Its name in the plan.
    pub name: String,
    /// 1-based.
    pub round: u32,
    /// State.
    pub status: Status,
    /// What ended it, if it failed.
    pub error: Option<String>,
    /// Version of the transport.
    pub transport_version: String,
    /// Version of the library or kernel it drives.
    pub system_version: String,
    /// Leader and follower were threads of one process.
    pub same_process: bool,
    /// The proof of its path.
    pub path_proof: Option<PathProof>,
    /// Memory of both processes was locked; else why not.
    pub memory_lock: Option<String>,
    /// Payloads finished so far, in order.
    pub cells: Vec<Cell>,
}

/// Whether the payload went the way that the transport claims.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathProof {
    /// The path claimed.
    pub claim: tripmeter_abi::Path,
    /// The verdict.
    pub verdict: Verdict,
    /// What the operating system showed, in one line.
    pub evidence: String,
}

/// Outcome of a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The claim holds.
    Proven,
    /// The claim does not hold; the figures are of something else.
    Failed,
    /// The operating system shows too little here.
    NotVisible,
}

/// What was measured at one payload.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// Bytes of every message, our header included.
    pub payload_bytes: u64,
    /// Samples recorded.
    pub samples: u64,
    /// Samples asked for.
    pub samples_planned: u64,
    /// Trips before the first sample, not recorded.
    pub warmup: u64,
    /// Why there are fewer samples than planned, if so.
    pub cut_short: Option<String>,
    /// Most bytes per system send; 0 if messages are not split.
    pub packet_bytes: u64,
    /// What happened to the messages, warm-up included.
    pub counts: Counts,
    /// Full round trips.
    pub rtt_ns: Option<Figures>,
    /// Half of each round trip: what the published tables call latency.
    pub rtt_half_ns: Option<Figures>,
    /// The figures come from a histogram of three digits, because raw samples were not kept.
    pub from_histogram: bool,
    /// One cache line handed over and back between the two processors.
    pub handover_ns: Handovers,
    /// Time from first to last sample.
    pub duration_ns: u64,
}

/// What happened to the messages of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Sent by the leader.
    pub sent: u64,
    /// Answered in time and intact.
    pub received: u64,
    /// Never answered.
    pub lost: u64,
    /// Answered after the time-out; not among the samples, and not lost.
    pub late: u64,
    /// Answers that came again.
    pub duplicated: u64,
    /// Answers that came after the answer to a later message.
    pub reordered: u64,
    /// Answers, or messages at the follower, whose header or touched payload was not what was written.
    pub damaged: u64,
}

/// The hand-over probe before and after a cell.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Handovers {
    /// Before the warm-up.
    pub before: Option<Handover>,
    /// After the last sample.
    pub after: Option<Handover>,
}

/// One hand-over probe: round trips of one cache line.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Handover {
    /// Round trips.
    pub samples: u64,
    /// Smallest round trip, in nanoseconds.
    pub min_ns: f64,
    /// Median round trip, in nanoseconds.
    pub median_ns: f64,
}

/// The figures of one distribution, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// Smallest.
    pub min: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation, dividing by n.
    pub stdev: f64,
    /// Half of the samples are below.
    pub median: f64,
    /// 90 % are below.
    pub p90: f64,
    /// 99 % are below.
    pub p99: f64,
    /// 99.99 % are below.
    pub p9999: f64,
    /// Largest.
    pub max: f64,
}

impl Figures {
    /// Every figure times `factor`.
    pub fn scaled(&self, factor: f64) -> Figures {
        let Figures { min, mean, stdev, median, p90, p99, p9999, max } = *self;
        let [min, mean, stdev, median] = [min, mean, stdev, median].map(|figure| figure * factor);
        let [p90, p99, p9999, max] = [p90, p99, p9999, max].map(|figure| figure * factor);
        Figures { min, mean, stdev, median, p90, p99, p9999, max }
    }
}

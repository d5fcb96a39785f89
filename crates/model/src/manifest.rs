//! `manifest.json`: the plan, the environment, and the state and results of every sub-experiment.

use crate::audit::{Audit, ProcessActivity};
use crate::channel::ChannelTrial;
pub use crate::handover::{Handover, Handovers, ModeChange, OverHandover, TrialOverHandover};
use crate::log::LogCalls;
use crate::name::is_name;
use crate::plan::{MOST_ROUNDS, Plan};
use crate::rpc::RpcTrial;
use crate::series::Series;
use crate::throughput::Trial;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
pub use tripmeter_abi::UnauthorizedPeer;

/// Version of the files of a results folder, `major.minor`: readers ignore fields that they do not know, and refuse another
/// major version.
pub const SCHEMA_VERSION: &str = "2.0";

/// The whole file.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "Tripmeter manifest")]
pub struct Manifest {
    /// [`SCHEMA_VERSION`] of its writer.
    pub schema_version: String,
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
    /// When it went on after it had been killed or interrupted, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resumptions: Vec<Resumption>,
}

/// Most bytes of the file: more than 1,000 rounds of two sides with all payloads make (2 kB for each payload).
pub const MOST_BYTES: u64 = 64 << 20;
/// Most elements of all lists in it. A real manifest has 280 bytes or more for each (`docs/results`).
pub const MOST_ELEMENTS: usize = 250_000;
/// Most members of all its objects, but for the first of each.
pub const MOST_MEMBERS: usize = 4_000_000;
/// Most bytes of a text in it.
pub const MOST_TEXT_BYTES: usize = 64 << 10;

impl Manifest {
    /// Everything as one JSON value: with the cells and processes of each sub-experiment and the audits of the
    /// environment, which have files of their own in a results folder.
    pub fn whole(&self) -> serde_json::Value {
        let json = |value: serde_json::Result<serde_json::Value>| value.unwrap_or_default();
        let mut whole = json(serde_json::to_value(self));
        let audits = [("audit_before", &self.environment.audit_before), ("audit_after", &self.environment.audit_after)];
        for (name, audit) in audits.into_iter().filter(|(_, audit)| audit.is_some()) {
            whole["environment"][name] = json(serde_json::to_value(audit));
        }
        for (index, result) in self.sub_experiments.iter().enumerate() {
            let whole = &mut whole["sub_experiments"][index];
            whole["cells"] = json(serde_json::to_value(&result.cells));
            whole["processes"] = json(serde_json::to_value(&result.processes));
        }
        whole
    }

    /// Checks what the types do not say: names become parts of paths, and lists are made of rounds.
    ///
    /// # Errors
    /// What is wrong with which field, in one line.
    pub fn check(&self) -> Result<(), String> {
        let rounds = self.plan.rounds;
        if rounds > MOST_ROUNDS {
            return Err(format!("has {rounds} rounds, and the most are {MOST_ROUNDS}"));
        }
        let planned = self.plan.sub_experiments.iter().map(|planned| &planned.name);
        let measured = self.sub_experiments.iter().map(|result| &result.name);
        if let Some(name) = planned.chain(measured).find(|name| !is_name(name)) {
            return Err(format!(
                "has a sub-experiment '{}', which is no name: 1 to {} letters, digits and _.=-, without . or - in front",
                name.chars().take(200).collect::<String>(),
                crate::name::MOST_BYTES
            ));
        }
        let planned = self.plan.sub_experiments.iter().map(|planned| (0, &planned.name));
        let measured = self.sub_experiments.iter().map(|result| (result.round, &result.name));
        let mut seen = BTreeSet::new();
        if let Some((_, name)) = planned.chain(measured).find(|one| !seen.insert(*one)) {
            return Err(format!("has two sub-experiments '{name}'"));
        }
        match self.sub_experiments.iter().find(|result| !(1..=MOST_ROUNDS).contains(&result.round)) {
            Some(SubExperimentResult { name, round, .. }) => {
                Err(format!("has round {round} of '{name}', and rounds are 1 to {MOST_ROUNDS}"))
            }
            None => Ok(()),
        }
    }
}

/// That a run of several rounds went on after a kill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Resumption {
    /// Local time, RFC 3339.
    pub at: String,
    /// Rounds that were there already; later ones were measured after it.
    pub after_round: u32,
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
    /// Who made the machine, as its firmware says; absent if it does not.
    #[serde(default)]
    pub manufacturer: Option<String>,
    /// What the maker calls it.
    #[serde(default)]
    pub model: Option<String>,
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
    /// What disturbs measuring here, audited before the first sub-experiment; in a file of its own.
    #[serde(default, skip_serializing)]
    #[schemars(skip)]
    pub audit_before: Option<Audit>,
    /// The same after the last, with what happened in between.
    #[serde(default, skip_serializing)]
    #[schemars(skip)]
    pub audit_after: Option<Audit>,
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
    /// Payloads finished so far, in order; each is a line of `trials.jsonl`.
    #[serde(default, skip_serializing)]
    #[schemars(skip)]
    pub cells: Vec<Cell>,
    /// What its processes were allowed and did, if they came to their end; a follower started by hand is not among them. It
    /// stands in `audit.json`.
    #[serde(default, skip_serializing)]
    #[schemars(skip)]
    pub processes: Vec<ProcessActivity>,
}

impl SubExperimentResult {
    /// Messages of all cells that were not what was sent; failed calls are none.
    pub fn damaged(&self) -> u64 {
        let cells = self.cells.iter().filter(|cell| cell.rpc.is_empty());
        let proof = self.path_proof.as_ref().map_or(0, |proof| proof.damaged);
        cells.map(Cell::damaged).fold(proof, u64::saturating_add)
    }
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
    /// Messages of the proof itself that came damaged.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub damaged: u64,
    /// Who tried to get into a secured transport, after the true pair had; empty if it is not secured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unauthorized_peers: Vec<RefusalTrial>,
}

impl PathProof {
    /// One without damage, of a transport that nobody else tried to get into.
    pub fn new(claim: tripmeter_abi::Path, verdict: Verdict, evidence: String) -> Self {
        Self { claim, verdict, evidence, damaged: 0, unauthorized_peers: Vec::new() }
    }
}

/// Somebody who must not be let in by a secured transport, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RefusalTrial {
    /// Who it was.
    pub kind: UnauthorizedPeer,
    /// False if it was let in; null if it could not try, e.g. because it crashed.
    pub refused: Option<bool>,
    /// How long it tried, in nanoseconds.
    pub waited_ns: u64,
    /// How it was refused, or why it could not try; empty if it was let in.
    pub why: String,
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
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
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
    /// What happened to the messages, warm-up included; under `throughput`, `channel` and `rpc` without it; of
    /// calls, those that timed out are lost, and those that failed are damaged.
    pub counts: Counts,
    /// Full round trips.
    pub rtt_ns: Option<Figures>,
    /// Half of each round trip: what the published tables call latency.
    pub rtt_half_ns: Option<Figures>,
    /// Intervals of the quantiles of `rtt_half_ns` within this run; absent where samples were not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_half_within_run_ns: Option<WithinRun>,
    /// Intervals of the quantiles of `one_way_ns` within this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way_within_run_ns: Option<WithinRun>,
    /// Those of `one_way_last_ns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way_last_within_run_ns: Option<WithinRun>,
    /// From sending a message to its arrival at the follower, two readings of one clock, of the messages that were answered;
    /// absent if it was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way_ns: Option<Figures>,
    /// With several followers: from sending a message to its arrival at the last of them, of messages that all answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way_last_ns: Option<Figures>,
    /// Samples without a latency one way, as their arrival at a follower was not noted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub one_way_missing: u64,
    /// With several followers: what happened at each. Round trips last until the last answer then; `counts.received` are
    /// the messages that all have answered, and its other counts but `sent` are totals of the followers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub followers: Vec<AtFollower>,
    /// What the audit of the samples of `rtt_half_ns` found, in the order of their measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<Series>,
    /// The figures come from a histogram of three digits, because raw samples were not kept.
    pub from_histogram: bool,
    /// One cache line handed over and back between the two processors.
    pub handover_ns: Handovers,
    /// That the hand-over probe did not show the same before and after; absent if it did, or if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handover_changed: Option<ModeChange>,
    /// The latencies less the hand-over; absent without a probe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_handover_ns: Option<OverHandover>,
    /// What was measured of this payload before, in order, and set aside because the hand-over probe changed. The figures
    /// of the cell itself are always those of the last attempt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_attempts: Vec<Cell>,
    /// Time from first to last sample; under `throughput`, `channel` and `rpc`, of all trials.
    pub duration_ns: u64,
    /// Under pattern `throughput`: the trials, in order. `samples` are then the messages received, and there are no round
    /// trips.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trials: Vec<Trial>,
    /// Under pattern `channel`: a trial for each rate, in order. `samples` are then the messages received, and there are no
    /// round trips.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channel: Vec<ChannelTrial>,
    /// Under pattern `log`: the calls, and the lines that came of them. `samples` are then calls, and there are no round
    /// trips.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogCalls>,
    /// Under pattern `rpc`, and of round trips at a rate: one trial under `bench`, else one for each rate, in order. `samples`
    /// are then the calls that succeeded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rpc: Vec<RpcTrial>,
}

pub(crate) fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Cell {
    /// Whether a message came that was not what was sent, in an attempt that was set aside too.
    pub fn is_damaged(&self) -> bool {
        self.damaged() > 0
    }

    /// How many, in all attempts.
    pub fn damaged(&self) -> u64 {
        self.earlier_attempts.iter().map(Self::damaged).fold(self.counts.damaged, u64::saturating_add)
    }

    /// Of those, messages that are in none of its trials: of warm-ups, and of attempts that were set aside.
    pub fn damaged_beside(&self) -> u64 {
        let throughput = self.trials.iter().flat_map(|trial| &trial.followers).map(|at| at.damaged);
        let channel = self.channel.iter().map(|trial| trial.counts.damaged);
        let rpc = self.rpc.iter().map(|trial| trial.counts.failed);
        self.damaged().saturating_sub(throughput.chain(channel).chain(rpc).fold(0, u64::saturating_add))
    }

    /// Whether, in a trial or at a follower, nothing came of what was sent.
    pub fn is_all_lost(&self) -> bool {
        let nothing = |sent: u64, received: u64| sent > 0 && received == 0;
        self.counts.is_all_lost()
            || self.followers.iter().any(|at| at.counts.is_all_lost())
            || self.trials.iter().any(|trial| trial.followers.iter().any(|at| nothing(trial.sent, at.received)))
            || self.channel.iter().any(ChannelTrial::is_all_lost)
            || self.rpc.iter().any(|trial| nothing(trial.counts.made, trial.counts.succeeded))
    }
}

/// One of several followers, in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AtFollower {
    /// Its index, from 0.
    pub follower: u32,
    /// What happened to the messages to it and to its answers, warm-up included.
    pub counts: Counts,
    /// From sending a message to its arrival here, of messages that all followers answered.
    pub one_way_ns: Option<Figures>,
    /// Intervals of its quantiles within this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way_within_run_ns: Option<WithinRun>,
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
    /// Answers, or one-way messages, that came again.
    pub duplicated: u64,
    /// Answers that came after the answer to a later message, or one-way messages that came after a later one.
    pub reordered: u64,
    /// Answers, or messages at the follower, whose header or touched payload was not what was written.
    pub damaged: u64,
}

impl Counts {
    /// Whether nothing came of what was sent.
    pub fn is_all_lost(&self) -> bool {
        self.sent > 0 && self.received == 0
    }
}

impl std::ops::Add for Counts {
    type Output = Counts;

    fn add(self, other: Counts) -> Counts {
        Counts {
            sent: self.sent.saturating_add(other.sent),
            received: self.received.saturating_add(other.received),
            lost: self.lost.saturating_add(other.lost),
            late: self.late.saturating_add(other.late),
            duplicated: self.duplicated.saturating_add(other.duplicated),
            reordered: self.reordered.saturating_add(other.reordered),
            damaged: self.damaged.saturating_add(other.damaged),
        }
    }
}

/// Intervals at 95 % of the quantiles of one run, by counting its samples. They say nothing of other runs, and are too
/// narrow as far as each sample is like the one before.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WithinRun {
    /// Of the median.
    pub median: Bounds,
    /// Of the 90th percentile.
    pub p90: Bounds,
    /// Of the 99th percentile.
    pub p99: Bounds,
    /// Of the 99.99th percentile.
    pub p9999: Bounds,
}

impl WithinRun {
    /// Every bound times `factor`.
    pub fn scaled(&self, factor: f64) -> WithinRun {
        let scaled = |bounds: Bounds| bounds.map(|ns| ns * factor);
        let WithinRun { median, p90, p99, p9999 } = *self;
        let [median, p90, p99, p9999] = [median, p90, p99, p9999].map(scaled);
        WithinRun { median, p90, p99, p9999 }
    }
}

/// An interval in nanoseconds; an end is null if there are too few samples for it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bounds {
    /// The lower end.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
}

impl Bounds {
    /// Both ends changed alike.
    pub fn map(self, change: impl Fn(f64) -> f64) -> Bounds {
        Bounds { low: self.low.map(&change), high: self.high.map(&change) }
    }
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

    /// Every figure less `ns`, but for the standard deviation, which stays.
    pub fn less(&self, ns: f64) -> Figures {
        let Figures { min, mean, stdev, median, p90, p99, p9999, max } = *self;
        let [min, mean, median, p90, p99, p9999, max] =
            [min, mean, median, p90, p99, p9999, max].map(|figure| figure - ns);
        Figures { min, mean, stdev, median, p90, p99, p9999, max }
    }
}

//! Results of a run. `manifest.json` has plan, environment and overall state; other files have the measurements.

use crate::audit::{Audit, ProcessActivity};
pub use crate::core_to_core::{CoreToCoreProbe, CoreToCoreProbes, ModeChange};
use crate::count;
pub use crate::counts::Counts;
use crate::cut_short::CutShort;
use crate::figure::{Figure, Statistic};
use crate::kernel_queue::KernelQueues;
use crate::metric::{Probe, Stream};
use crate::name::{self, is_name};
use crate::payload::size_text;
use crate::plan::{MOST_ROUNDS, Plan, SubExperiment};
use crate::transport::Transport;
use crate::trial::Trial;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::collections::BTreeSet;
pub use tripmeter_abi::UnauthorizedPeer;

/// Version of the files of a results folder, `major.minor`. Readers ignore unknown fields, and refuse other major
/// versions except 2, which has other names for patterns.
pub const SCHEMA_VERSION: &str = "3.0";

/// Variant of sockets whose messages stay on this host unless the plan has other hosts.
const LOOPBACK: &str = "loopback";

/// Contents of `manifest.json`; in memory also the results.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "Tripmeter manifest")]
pub struct Manifest {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema_version: String,
    /// Version of tripmeter.
    pub tripmeter_version: String,
    /// Local time of the start, RFC 3339.
    pub started: String,
    /// Local time of the end; missing while the run lasts, or if it was killed.
    pub ended: Option<String>,
    /// State of the whole run.
    pub status: RunStatus,
    /// Plan, as requested and resolved.
    pub plan: Plan,
    /// Machine of the leader.
    pub environment: Environment,
    /// Number of sub-experiment results in `trials.jsonl` when the run ended; 0 before.
    #[serde(default)]
    pub results: u32,
    /// Results from `trials.jsonl`, in the order of the plan, round by round.
    #[serde(default, skip_serializing)]
    #[schemars(skip)]
    pub sub_experiments: Vec<SubExperimentResult>,
    /// Resumptions of the run after a kill or an interruption, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resumptions: Vec<Resumption>,
    /// Old name of each sub-experiment that was renamed, by its current name; its files keep the old one.
    #[serde(skip)]
    #[schemars(skip)]
    pub written_names: BTreeMap<String, String>,
}

impl Manifest {
    /// Renames transports for tables: between hosts no message uses the loopback, so `tcp/loopback` becomes `tcp`, an
    /// alias in commands.
    #[must_use]
    pub fn named_for_people(mut self) -> Self {
        if !self.plan.hosts.is_empty() {
            let transports = self.plan.sub_experiments.iter_mut().map(|sub| &mut sub.transport);
            transports.filter(|one| one.variant == LOOPBACK).for_each(|one| one.variant.clear());
        }
        self
    }

    /// Gives sub-experiments their current default names, where schema 2 had others. Their files keep the old names,
    /// [`Manifest::written_name`].
    #[must_use]
    pub fn named_as_today(mut self) -> Self {
        for place in 0..self.plan.sub_experiments.len() {
            let planned = &self.plan.sub_experiments[place];
            let (written, today) = (planned.name.clone(), self.name_today(planned));
            // Two sub-experiments must not get one name.
            if written == today || self.plan.sub_experiments.iter().any(|other| other.name == today) {
                continue;
            }
            let results = self.sub_experiments.iter_mut().filter(|result| result.name == written);
            results.for_each(|result| result.name.clone_from(&today));
            self.plan.sub_experiments[place].name.clone_from(&today);
            self.written_names.insert(today, written);
        }
        self
    }

    fn name_today(&self, planned: &SubExperiment) -> String {
        let Transport { system, variant, .. } = &planned.transport;
        let begin = format!("{system}_{}_", if variant.is_empty() { LOOPBACK } else { variant });
        match planned.name.contains(&begin) {
            true if self.plan.hosts.is_empty() => name::of_today(&planned.name),
            true => name::without_loopback(&name::of_today(&planned.name)),
            // A name that the user chose is kept, except for the load that was appended to it.
            false if planned.background.is_none() => planned.name.clone(),
            false => name::with_background(&planned.name),
        }
    }

    /// Name of a sub-experiment in its written files.
    pub fn written_name<'a>(&'a self, name: &'a str) -> &'a str {
        self.written_names.get(name).map_or(name, String::as_str)
    }

    /// True if kernel times may be sampled by timer ticks; from schema 2.1 on they are exact.
    pub fn may_sample_kernel_time(&self) -> bool {
        self.schema_version == "2.0"
    }

    /// Everything as one JSON value, including sub-experiments, cells and audits, which are in other files of a results
    /// folder.
    pub fn whole(&self) -> serde_json::Value {
        let mut whole = json(self);
        whole["environment"] = self.environment.whole();
        whole["sub_experiments"] = json(&self.sub_experiments);
        for (index, result) in self.sub_experiments.iter().enumerate() {
            whole["sub_experiments"][index]["cells"] = json(&result.cells);
        }
        whole
    }

    /// Checks rules beyond types: names, which become parts of paths, and rounds, which become lengths of lists.
    ///
    /// # Errors
    /// Field and error, in one line.
    pub fn check(&self) -> Result<(), String> {
        let rounds = self.plan.rounds;
        if rounds > MOST_ROUNDS {
            return Err(format!("has {rounds} rounds (limit {MOST_ROUNDS})"));
        }
        let planned = self.plan.sub_experiments.iter().map(|planned| &planned.name);
        let measured = self.sub_experiments.iter().map(|result| &result.name);
        if let Some(name) = planned.chain(measured).find(|name| !is_name(name)) {
            return Err(format!(
                "has a sub-experiment '{}', which is not a valid name: 1 to {} letters, digits and _.=-, not beginning \
                 with . or -",
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
                Err(format!("has round {round} of '{name}'; rounds are 1 to {MOST_ROUNDS}"))
            }
            None => Ok(()),
        }
    }
}

/// A resumption of a run after a kill, an interruption or a failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Resumption {
    /// Local time, RFC 3339.
    pub at: String,
    /// Number of rounds measured before it; later rounds were measured after it.
    pub after_round: u32,
    /// Sub-experiments of started rounds that were measured, at least in part, after it: `NAME`, `NAME, round N` or
    /// `NAME, rounds N to M`. Then `all from round N on` if more rounds were planned. Empty under `tripmeter ab`, where
    /// every later round was measured whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rest: Vec<String>,
}

/// State of an experiment or a sub-experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunStatus {
    /// Not begun.
    Planned,
    /// Begun and not ended; if no process runs any more, it was killed.
    Running,
    /// Everything requested was measured.
    Complete,
    /// Ended by an error; payloads finished before it have results.
    Failed,
    /// Ended by the user; results so far are kept.
    Interrupted,
}

/// Machine and clock.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    /// Manufacturer of the machine, from its firmware; absent if unknown.
    #[serde(default)]
    pub manufacturer: Option<String>,
    /// Model name of the machine, from its firmware.
    #[serde(default)]
    pub model: Option<String>,
    /// Kernel release.
    pub kernel: String,
    /// CPU model.
    pub cpu_model: String,
    /// CPUs that this process may use.
    pub cpus: Vec<usize>,
    /// True under a hypervisor.
    pub virtual_machine: bool,
    /// Physical memory in bytes.
    pub memory_bytes: u64,
    /// Clock of all samples.
    pub clock: ClockInfo,
    /// Times of memory copies before the first sub-experiment, by ascending size; empty if not measured.
    #[serde(default)]
    pub memory_copy: Vec<MemoryCopy>,
    /// Load of the machine before the first sub-experiment.
    pub before: LoadSnapshot,
    /// Load of the machine after the last sub-experiment.
    pub after: Option<LoadSnapshot>,
    /// Audit before the first sub-experiment; in another file.
    #[serde(default, skip_serializing)]
    #[schemars(skip)]
    pub audit_before: Option<Audit>,
    /// Audit after the last sub-experiment, with the activity since the first audit.
    #[serde(default, skip_serializing)]
    #[schemars(skip)]
    pub audit_after: Option<Audit>,
    /// Hosts of the followers, if other than this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostEnvironment>,
}

impl Environment {
    fn whole(&self) -> serde_json::Value {
        let mut whole = json(self);
        let audits = [("audit_before", &self.audit_before), ("audit_after", &self.audit_after)];
        for (name, audit) in audits.into_iter().filter(|(_, audit)| audit.is_some()) {
            whole[name] = json(audit);
        }
        for (index, host) in self.hosts.iter().enumerate() {
            let whole = &mut whole["hosts"][index];
            whole["environment"] = host.environment.whole();
            (whole["here"], whole["there"]) = (json(&host.here), json(&host.there));
        }
        whole
    }
}

fn json(value: &impl Serialize) -> serde_json::Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// Another host, which a follower ran on.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HostEnvironment {
    /// Destination for ssh.
    pub to: String,
    /// Host name of the machine.
    pub name: String,
    /// Environment, as the machine reports it.
    pub environment: Box<Environment>,
    /// Interface of this host that messages used; in the file of audits.
    #[serde(default, skip_serializing)]
    #[schemars(skip)]
    pub here: Network,
    /// Interface of that host.
    #[serde(default, skip_serializing)]
    #[schemars(skip)]
    pub there: Network,
}

/// Network interface, with counters of it and of the protocols above it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Network {
    /// Name of the interface.
    pub interface: String,
    /// Address of the interface that messages went to.
    pub address: String,
    /// Kind, MTU, state, speed, driver, offloads, coalescing, chrony and PTP, by the names that the system's tools use.
    pub facts: BTreeMap<String, String>,
    /// Counters that are not visible, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<String>,
    /// Counters before the first sub-experiment: packets dropped or wrong, retransmissions, datagrams without room.
    pub before: BTreeMap<String, u64>,
    /// Counters after the last sub-experiment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub after: BTreeMap<String, u64>,
}

impl Network {
    /// Counters that rose between `before` and `after`, with their increases.
    pub fn counted(&self) -> Vec<(&str, u64)> {
        let added = self.after.iter().map(|(name, after)| {
            let before = self.before.get(name).copied().unwrap_or(0);
            (name.as_str(), after.saturating_sub(before))
        });
        added.filter(|(_, count)| *count > 0).collect()
    }
}

/// Clock, as measured at the start.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ClockInfo {
    /// `tsc` (invariant, calibrated) or `monotonic` (CLOCK_MONOTONIC).
    pub source: String,
    /// Reason that the clock is not the TSC, if so.
    pub reason: Option<String>,
    /// Ticks per second.
    pub frequency_hz: f64,
    /// Median cost of one reading, in nanoseconds.
    pub read_cost_ns: f64,
    /// Smallest difference between two readings that differ, in nanoseconds.
    pub granularity_ns: f64,
    /// Difference between the calibration at the start and the calibration over the whole run, in parts per million;
    /// only for `tsc`.
    pub drift_ppm: Option<f64>,
}

/// Copy of memory in one thread, between two buffers that were written before.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryCopy {
    /// Bytes per copy.
    pub bytes: u64,
    /// Median time of a copy, in nanoseconds, at least 1.
    pub copy_ns: f64,
}

/// Load of the machine at one time.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LoadSnapshot {
    /// Load average of the last minute.
    pub load_1min: f64,
    /// Time stolen by the hypervisor since boot, in nanoseconds, over all CPUs.
    pub steal_ns: u64,
}

/// Result of one sub-experiment in one round.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SubExperimentResult {
    /// Name of the sub-experiment in the plan.
    pub name: String,
    /// Round, from 1.
    pub round: u32,
    /// State.
    pub status: RunStatus,
    /// Error that ended it, if it failed.
    pub error: Option<String>,
    /// Version of the transport.
    pub transport_version: String,
    /// Version of the library or kernel it drives.
    pub system_version: String,
    /// True if leader and follower were threads of one process.
    pub same_process: bool,
    /// Proof of its path.
    pub path_proof: Option<PathProof>,
    /// State of the memory lock of both processes; if they have none, the reason.
    pub memory_lock: Option<String>,
    /// Capacity of pipes, queues and sockets of its path, as the kernel granted it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<KernelQueues>,
    /// True if its daemon ended during the measurement, so that any payload may have been measured without it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub unreliable: bool,
    /// Number of payloads that were finished when it ended; 0 before.
    #[serde(default)]
    pub payloads: u32,
    /// Payloads finished so far, in order, from their own lines in `trials.jsonl`.
    #[serde(default, skip_serializing)]
    #[schemars(skip)]
    pub cells: Vec<PayloadResult>,
    /// Activity of its processes, if they finished; without a follower started by hand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<ProcessActivity>,
}

impl SubExperimentResult {
    /// Damaged messages of all cells and of the path proof; failed calls do not count.
    pub fn damaged(&self) -> u64 {
        let cells = self.cells.iter().filter(|cell| !cell.is_of_calls());
        let proof = self.path_proof.as_ref().map_or(0, |proof| proof.damaged);
        cells.map(PayloadResult::damaged).fold(proof, u64::saturating_add)
    }
}

/// Proof that the payload took the path that the transport claims.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathProof {
    /// Path that the transport claims.
    pub claim: tripmeter_abi::Path,
    /// Outcome of the proof.
    pub verdict: Verdict,
    /// Evidence of the operating system, in one line.
    pub evidence: String,
    /// Messages of the proof itself that arrived damaged.
    #[serde(default, skip_serializing_if = "count::is_zero", deserialize_with = "count::read")]
    pub damaged: u64,
    /// Attempts of unauthorized peers to join a secured transport after the true pair; empty if it is not secured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unauthorized_peers: Vec<RefusalTrial>,
}

impl PathProof {
    /// Proof without damage, and without unauthorized peers.
    pub fn new(claim: tripmeter_abi::Path, verdict: Verdict, evidence: String) -> Self {
        Self { claim, verdict, evidence, damaged: 0, unauthorized_peers: Vec::new() }
    }
}

/// Attempt of a peer that a secured transport must refuse, and its outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RefusalTrial {
    /// Kind of the peer.
    pub kind: UnauthorizedPeer,
    /// False if it was let in; null if it could not try, e.g. because it crashed.
    pub refused: Option<bool>,
    /// Duration of the attempt, in nanoseconds.
    pub waited_ns: u64,
    /// Text of the refusal, or reason that it could not try; empty if it was let in.
    pub why: String,
}

/// Outcome of a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The claim holds.
    Proven,
    /// The claim does not hold; the figures do not measure this transport.
    Failed,
    /// The operating system shows too little to decide.
    NotVisible,
}

/// Results at one payload.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct PayloadResult {
    /// Bytes of every message, including Tripmeter's header.
    #[serde(deserialize_with = "count::read")]
    pub payload_bytes: u64,
    /// Number of round trips, messages received, calls that succeeded, or calls of a logger, in all trials.
    #[serde(deserialize_with = "count::read")]
    pub samples: u64,
    /// Number of samples requested.
    #[serde(deserialize_with = "count::read")]
    pub samples_planned: u64,
    /// Number of messages before the first sample, not recorded.
    #[serde(deserialize_with = "count::read")]
    pub warmup: u64,
    /// Damaged messages and failed calls of the warm-up, if the counts of the trials exclude it.
    #[serde(default, skip_serializing_if = "count::is_zero", deserialize_with = "count::read")]
    pub warmup_damaged: u64,
    /// Reason that there are fewer samples than planned, if so.
    pub cut_short: Option<CutShort>,
    /// True if it was unfinished when the sub-experiment failed or was interrupted, or if its rows had been moved for
    /// another attempt. A resumed run measures it again.
    #[serde(default, skip_serializing_if = "is_false")]
    pub unfinished: bool,
    /// Largest system send, in bytes; 0 if messages are not split.
    #[serde(deserialize_with = "count::read")]
    pub packet_bytes: u64,
    /// True if the figures come from a histogram with three digits, because raw samples were not kept.
    pub from_histogram: bool,
    /// Core-to-core probes: round trips of one cache line between the two CPUs.
    #[serde(alias = "handover_ns")]
    pub core_to_core_ns: CoreToCoreProbes,
    /// Difference between the core-to-core probes before and after; absent if they agree, or if there are none.
    #[serde(default, alias = "handover_changed", skip_serializing_if = "Option::is_none")]
    pub core_to_core_changed: Option<ModeChange>,
    /// Earlier attempts at this payload, in order. They do not count, because the core-to-core probe changed; the
    /// payload's own figures are from the last attempt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    pub earlier_attempts: Vec<PayloadResult>,
    /// Duration of all trials, in nanoseconds.
    pub duration_ns: u64,
    /// Trials, one for each offered load, in the order of the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    pub trials: Vec<Trial>,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// True if the messages of a payload have several sizes, the largest of which is the payload. Also true for a recording
/// without measurements, because it may have several.
pub fn has_several_sizes<'a>(plan: &SubExperiment, measured: impl IntoIterator<Item = &'a PayloadResult>) -> bool {
    let mut trials = measured.into_iter().flat_map(|cell| &cell.trials).peekable();
    if trials.peek().is_none() { plan.workload.is_recorded() } else { trials.any(Trial::has_several_sizes) }
}

impl PayloadResult {
    /// Sum of the counts of all trials, without the warm-up.
    pub fn counts(&self) -> Counts {
        let of_trials = self.trials.iter().map(|trial| trial.counts(&Stream::all()));
        of_trials.fold(Counts::default(), |sum, counts| sum + counts)
    }

    /// Recorded change of the core-to-core probe, or that computed from the probes.
    pub fn mode_change(&self) -> Option<ModeChange> {
        self.core_to_core_changed.or_else(|| self.core_to_core_ns.change())
    }

    /// True if its messages were calls.
    pub fn is_of_calls(&self) -> bool {
        self.trials.iter().any(Trial::is_of_calls)
    }

    /// True if a message was damaged, also in a discarded attempt.
    pub fn is_damaged(&self) -> bool {
        self.damaged() > 0
    }

    /// Damaged messages, or failed calls, of all attempts and warm-ups.
    pub fn damaged(&self) -> u64 {
        self.damaged_beside().saturating_add(self.counts().damaged)
    }

    /// Damaged messages outside of its trials, from warm-ups and discarded attempts.
    pub fn damaged_beside(&self) -> u64 {
        self.earlier_attempts.iter().map(Self::damaged).fold(self.warmup_damaged, u64::saturating_add)
    }

    /// True if a failure or the user ended it early; a time cap is planned.
    pub fn is_cut_off(&self) -> bool {
        self.cut_short.is_some() && !self.is_capped()
    }

    /// True if its time cap ended it.
    pub fn is_capped(&self) -> bool {
        self.cut_short.as_ref().is_some_and(CutShort::is_cap)
    }

    /// Reason that it has fewer samples than planned, with both numbers.
    pub fn shortfall(&self, plan: &SubExperiment) -> Option<String> {
        let (samples, planned) = (self.samples, self.samples_planned);
        let of = if samples < planned { format!(", {samples} of {planned} samples") } else { String::new() };
        self.cut_short
            .as_ref()
            .map(|why| format!("{}: {why}{of}", size_text(self.payload_bytes, has_several_sizes(plan, [self]))))
    }

    /// Reason that it has no latencies, for tables.
    pub fn why_silent(&self) -> &'static str {
        let all = Stream::all();
        let is_withheld =
            |trial: &Trial| trial.count(&all, Figure::Received) > 0 && trial.value(&all, Figure::ClockError).is_some();
        if self.trials.iter().any(is_withheld) {
            "one-way latencies omitted: the clock error between the hosts exceeds --max-clock-error"
        } else {
            "no message was answered or arrived"
        }
    }

    /// True if no message of a trial, or of one of its streams, arrived.
    pub fn is_all_lost(&self) -> bool {
        self.trials.iter().any(Trial::is_all_lost)
    }

    /// Trials with further figures: core-to-core probes of the payload, and flags for missed rates and early ends.
    pub fn flat_trials(&self) -> impl Iterator<Item = Trial> {
        self.trials.iter().cloned().map(|mut trial| {
            for (figure, is) in [(Figure::RateMissed, trial.rate_missed), (Figure::CutShort, trial.cut_short.is_some())]
            {
                is.then(|| trial.put(&Stream::all(), figure, 1.0));
            }
            for (probe, found) in
                [(Probe::Before, self.core_to_core_ns.before), (Probe::After, self.core_to_core_ns.after)]
            {
                let Some(CoreToCoreProbe { samples, min_ns, median_ns }) = found else { continue };
                let said = [(Statistic::N, samples as f64), (Statistic::Min, min_ns), (Statistic::P50, median_ns)];
                for (statistic, value) in said {
                    trial.put_statistic(&Stream::probe(probe), Figure::CoreToCore, statistic, value, None);
                }
            }
            trial
        })
    }
}

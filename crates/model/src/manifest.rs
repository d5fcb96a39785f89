//! A run: `manifest.json` holds the plan, the environment and the overall state; other files hold the rest.

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

/// Version of the files of a results folder, `major.minor`. Readers ignore unknown fields, and refuse another major
/// version but 2, which has other words for patterns.
pub const SCHEMA_VERSION: &str = "3.0";

/// Variant of sockets whose messages stay on this host unless there are others.
const LOOPBACK: &str = "loopback";

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
    pub status: RunStatus,
    /// Plan, as requested and resolved.
    pub plan: Plan,
    /// The machine.
    pub environment: Environment,
    /// Results of sub-experiments that `trials.jsonl` had when the run ended; 0 before.
    #[serde(default)]
    pub results: u32,
    /// Results, in the order of the plan, round by round; lines of `trials.jsonl`.
    #[serde(default, skip_serializing)]
    #[schemars(skip)]
    pub sub_experiments: Vec<SubExperimentResult>,
    /// Its resumptions after a kill or an interruption, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resumptions: Vec<Resumption>,
    /// Names by which files were written, by the names of today, where both differ.
    #[serde(skip)]
    #[schemars(skip)]
    pub written_names: BTreeMap<String, String>,
}

impl Manifest {
    /// Names transports for people: between hosts no message uses the loopback, so `tcp/loopback` becomes `tcp`, an
    /// alias in commands.
    #[must_use]
    pub fn named_for_people(mut self) -> Self {
        if !self.plan.hosts.is_empty() {
            let transports = self.plan.sub_experiments.iter_mut().map(|sub| &mut sub.transport);
            transports.filter(|one| one.variant == LOOPBACK).for_each(|one| one.variant.clear());
        }
        self
    }

    /// Gives sub-experiments the default names that they would have today, where schema 2 had others. Their files keep
    /// theirs, [`Manifest::written_name`].
    #[must_use]
    pub fn named_as_today(mut self) -> Self {
        for place in 0..self.plan.sub_experiments.len() {
            let planned = &self.plan.sub_experiments[place];
            let (written, today) = (planned.name.clone(), self.name_today(planned));
            // Two must not become one.
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
            // A name that somebody gave stays, but for the load that was added to it.
            false if planned.background.is_none() => planned.name.clone(),
            false => name::with_background(&planned.name),
        }
    }

    /// Name by which the files of a sub-experiment were written.
    pub fn written_name<'a>(&'a self, name: &'a str) -> &'a str {
        self.written_names.get(name).map_or(name, String::as_str)
    }

    /// True if kernel times may be sampled by timer ticks; from schema 2.1 on they are exact.
    pub fn may_sample_kernel_time(&self) -> bool {
        self.schema_version == "2.0"
    }

    /// Everything as one JSON value, including sub-experiments, cells and audits, which have files of their own in
    /// a results folder.
    pub fn whole(&self) -> serde_json::Value {
        let mut whole = json(self);
        whole["environment"] = self.environment.whole();
        whole["sub_experiments"] = json(&self.sub_experiments);
        for (index, result) in self.sub_experiments.iter().enumerate() {
            whole["sub_experiments"][index]["cells"] = json(&result.cells);
        }
        whole
    }

    /// Checks the rules beyond types: names become parts of paths, and lists are made of rounds.
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
    /// Rounds that were there already; later ones were measured after it.
    pub after_round: u32,
    /// For rounds that had begun: the sub-experiments of which anything was measured after it, as `NAME`, `NAME, round
    /// N` or `NAME, rounds N to M`; then `all from round N on` if later ones were to come. Empty of `tripmeter ab`,
    /// where that is all of every later round.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rest: Vec<String>,
}

/// State of an experiment or a sub-experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunStatus {
    /// Not begun.
    Planned,
    /// Begun and not ended; if nothing runs any more, it was killed.
    Running,
    /// Everything requested was measured.
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
    /// Name that its maker gave it.
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
    /// The clock that all samples were read from.
    pub clock: ClockInfo,
    /// How long copies of memory took before the first sub-experiment, by rising size; empty where it was not measured.
    #[serde(default)]
    pub memory_copy: Vec<MemoryCopy>,
    /// State before the first sub-experiment.
    pub before: LoadSnapshot,
    /// State after the last.
    pub after: Option<LoadSnapshot>,
    /// Audit of what disturbs measuring here, before the first sub-experiment; in a file of its own.
    #[serde(default, skip_serializing)]
    #[schemars(skip)]
    pub audit_before: Option<Audit>,
    /// Audit after the last, with the activity in between.
    #[serde(default, skip_serializing)]
    #[schemars(skip)]
    pub audit_after: Option<Audit>,
    /// The hosts of the followers, if other than this one.
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

/// Another host that a follower ran on.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HostEnvironment {
    /// Named as for ssh.
    pub to: String,
    /// Host name of the machine.
    pub name: String,
    /// Environment, as the machine reports it.
    pub environment: Box<Environment>,
    /// The interface here that data went over; in the file of the audits.
    #[serde(default, skip_serializing)]
    #[schemars(skip)]
    pub here: Network,
    /// The interface there.
    #[serde(default, skip_serializing)]
    #[schemars(skip)]
    pub there: Network,
}

/// An interface, and what was counted at it and in the protocols above.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Network {
    /// Its name.
    pub interface: String,
    /// Its address that data went to.
    pub address: String,
    /// Kind, MTU, state, speed, driver, offloads, coalescing, chrony and PTP, as the tools of the system name them.
    pub facts: BTreeMap<String, String>,
    /// Counters that are not visible, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<String>,
    /// Packets dropped and wrong, segments sent again, datagrams without room: before the first sub-experiment.
    pub before: BTreeMap<String, u64>,
    /// State after the last.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub after: BTreeMap<String, u64>,
}

impl Network {
    /// Counters that rose in between, with their increases.
    pub fn counted(&self) -> Vec<(&str, u64)> {
        let added = self.after.iter().map(|(name, after)| {
            let before = self.before.get(name).copied().unwrap_or(0);
            (name.as_str(), after.saturating_sub(before))
        });
        added.filter(|(_, count)| *count > 0).collect()
    }
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
    /// Difference between the calibration at the start and that over the whole run, in parts per million; for `tsc`
    /// only.
    pub drift_ppm: Option<f64>,
}

/// A copy of memory in one thread, between two buffers that were written before.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryCopy {
    /// Bytes that are copied at once.
    pub bytes: u64,
    /// Median time of a copy, in nanoseconds, at least 1.
    pub copy_ns: f64,
}

/// How busy the machine is.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LoadSnapshot {
    /// Load average of the last minute.
    pub load_1min: f64,
    /// Time stolen by the hypervisor since boot, in nanoseconds, over all CPUs.
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
    pub status: RunStatus,
    /// Error that ended it, if it failed.
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
    /// Capacity of pipes, queues and sockets of its path, as the kernel granted it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<KernelQueues>,
    /// Its daemon ended during the measurement, and nothing shows which payloads were measured without it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub unreliable: bool,
    /// Payloads that were finished when it ended; 0 before.
    #[serde(default)]
    pub payloads: u32,
    /// Payloads finished so far, in order; lines of their own in `trials.jsonl`.
    #[serde(default, skip_serializing)]
    #[schemars(skip)]
    pub cells: Vec<PayloadResult>,
    /// Limits and activity of its processes, if they finished; without a follower started by hand.
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
    /// The path claimed.
    pub claim: tripmeter_abi::Path,
    /// The verdict.
    pub verdict: Verdict,
    /// Evidence of the operating system, in one line.
    pub evidence: String,
    /// Messages of the proof itself that came damaged.
    #[serde(default, skip_serializing_if = "count::is_zero", deserialize_with = "count::read")]
    pub damaged: u64,
    /// Unauthorized peers that tried to join a secured transport after the true pair; empty if it is not secured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unauthorized_peers: Vec<RefusalTrial>,
}

impl PathProof {
    /// Proof without damage, and without unauthorized peers.
    pub fn new(claim: tripmeter_abi::Path, verdict: Verdict, evidence: String) -> Self {
        Self { claim, verdict, evidence, damaged: 0, unauthorized_peers: Vec::new() }
    }
}

/// An attempt of a peer that a secured transport must refuse, and its outcome.
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
    /// The claim does not hold; the figures do not measure this transport.
    Failed,
    /// The operating system shows too little here.
    NotVisible,
}

/// Results at one payload.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct PayloadResult {
    /// Bytes of every message, our header included.
    #[serde(deserialize_with = "count::read")]
    pub payload_bytes: u64,
    /// Round trips, messages received, calls that succeeded, or calls of a logger, of all trials.
    #[serde(deserialize_with = "count::read")]
    pub samples: u64,
    /// Samples asked for.
    #[serde(deserialize_with = "count::read")]
    pub samples_planned: u64,
    /// Messages before the first sample, not recorded.
    #[serde(deserialize_with = "count::read")]
    pub warmup: u64,
    /// Of them, messages that came damaged and calls that failed, where the counts of the trials are without the
    /// warm-up.
    #[serde(default, skip_serializing_if = "count::is_zero", deserialize_with = "count::read")]
    pub warmup_damaged: u64,
    /// Why there are fewer samples than planned, if so.
    pub cut_short: Option<CutShort>,
    /// It was unfinished when the sub-experiment failed or was interrupted, or its rows had been moved for a further
    /// attempt; a resumed run measures it again.
    #[serde(default, skip_serializing_if = "is_false")]
    pub unfinished: bool,
    /// Most bytes per system send; 0 if messages are not split.
    #[serde(deserialize_with = "count::read")]
    pub packet_bytes: u64,
    /// The figures come from a histogram of three digits, because raw samples were not kept.
    pub from_histogram: bool,
    /// One cache line handed over and back between the two CPUs.
    #[serde(alias = "handover_ns")]
    pub core_to_core_ns: CoreToCoreProbes,
    /// How the core-to-core probes before and after differ; absent if they agree, or if there are none.
    #[serde(default, alias = "handover_changed", skip_serializing_if = "Option::is_none")]
    pub core_to_core_changed: Option<ModeChange>,
    /// Earlier attempts at this payload, in order, which do not count because the core-to-core probe changed. The
    /// payload's own figures are always from the last attempt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    pub earlier_attempts: Vec<PayloadResult>,
    /// How long all trials took.
    pub duration_ns: u64,
    /// A trial for each offered load, in the order of the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    pub trials: Vec<Trial>,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// True if the messages of a payload have several sizes, of which it is the largest. Also true for a recording
/// without measurements, which may have several.
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

    /// Change of the core-to-core probe that was recorded, or that the probes show.
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

    /// Damaged messages outside of its trials: of warm-ups and discarded attempts.
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

    /// Reason that it has fewer samples than planned, with their number.
    pub fn shortfall(&self, plan: &SubExperiment) -> Option<String> {
        let (samples, planned) = (self.samples, self.samples_planned);
        let of = if samples < planned { format!(", {samples} of {planned} samples") } else { String::new() };
        self.cut_short
            .as_ref()
            .map(|why| format!("{}: {why}{of}", size_text(self.payload_bytes, has_several_sizes(plan, [self]))))
    }

    /// Reason that it has no latencies, for people.
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

    /// Trials with the payload's own values, and how they ended, as figures.
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

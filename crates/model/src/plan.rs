//! An experiment resolved: everything that will run. Nothing starts before the whole plan is made.

use crate::interference::{BackgroundLoad, Sched};
pub use crate::kept::{Raw, RawFormat, Streams};
use crate::pattern::{AllowedWorkload, PatternFacts, TrialEnd, facts};
use crate::recording::Recording;
use crate::table_kind::TableKind;
use crate::transport::Transport;
use crate::workload::Workload;
use crate::{Pattern, Touch, Wait, count};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most rounds of an experiment: one a minute for a week. [`Plan::most_rounds`] is less where a round has many trials.
pub const MOST_ROUNDS: u32 = 10_080;
/// Most trials of all rounds, as many as readers accept in `trials.jsonl`.
pub const MOST_TRIALS: u64 = 100_000;

/// Policy for daemons: start them, or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Daemons {
    /// One that is not running is started and stopped.
    #[default]
    Start,
    /// One that is not running is an error.
    Require,
}

/// Instrument of a pass of `tripmeter explain`. Tracing takes time, so its samples are disturbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Instrument {
    /// When each call of the transport begins and returns, on both sides.
    Stamps,
    /// Use of resources by both processes: context switches, page faults, and cycles and instructions where they can be counted.
    Counters,
    /// The system calls of both processes, by `strace`.
    SystemCalls,
}

/// Another number of samples for large payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SamplesAbove {
    /// For payloads larger than this.
    pub payload_bytes: u64,
    /// Round trips per payload.
    pub samples: u64,
}

/// One transport under one pattern, over a list of payloads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SubExperiment {
    /// Its name, the stem of its files; unique in the plan.
    pub name: String,
    /// The title of its table.
    pub title: String,
    /// Transport that is measured.
    pub transport: Transport,
    /// Pattern: the name of its workload.
    pub pattern: Pattern,
    /// Messages that are sent at each payload, and their replies.
    #[serde(default, skip_serializing_if = "is_default")]
    pub workload: Workload,
    /// How both sides wait.
    pub wait: Wait,
    /// Reads and writes of the payload.
    pub touch: Touch,
    /// Payloads in bytes, in order.
    pub payloads: Vec<u64>,
    /// Round trips per payload; under `throughput` 0, under `publish` messages per topic and rate,
    /// under `call` calls per client and trial; at a rate, round trips per trial.
    pub samples: u64,
    /// Other numbers for payloads above some sizes, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples_above: Vec<SamplesAbove>,
    /// Round trips, or one-way messages, before those, not counted.
    pub warmup: u64,
    /// True if arrivals at the follower are recorded, for one-way latency.
    #[serde(default)]
    pub one_way: bool,
    /// With several followers: the CPU of each; empty leaves them to the kernel. One follower's is the plan's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub follower_cpus: Vec<usize>,
    /// Most time that one payload may take, in nanoseconds.
    pub time_cap_ns: Option<u64>,
    /// How both processes are scheduled while they measure.
    #[serde(default, skip_serializing_if = "Sched::is_other")]
    #[schemars(with = "String")]
    pub sched: Sched,
    /// Load that a process of ours creates meanwhile, to disturb it.
    #[serde(default, alias = "load", skip_serializing_if = "BackgroundLoad::is_none")]
    #[schemars(with = "String")]
    pub background: BackgroundLoad,
    /// Variables that its processes have in addition to tripmeter's environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Nanoseconds that the follower spins between taking a message and answering it: a delay outside the transport,
    /// which `tripmeter selftest` injects to check that it is found; 0 in all measurements.
    #[serde(default, skip_serializing_if = "count::is_zero")]
    pub answer_delay_ns: u64,
    /// Instrument of `tripmeter explain`; absent in all measurements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instrument: Option<Instrument>,
    /// True if it was added as the floor.
    pub added_as_floor: bool,
}

fn is_none_known(cpus: &usize) -> bool {
    *cpus == 0
}

fn one() -> u32 {
    1
}

fn is_default(workload: &Workload) -> bool {
    *workload == Workload::default()
}

impl SubExperiment {
    /// Round trips for a payload of this size.
    pub fn samples_of(&self, payload_bytes: u64) -> u64 {
        let above = self.samples_above.iter().rfind(|above| payload_bytes > above.payload_bytes);
        above.map_or(self.samples, |above| above.samples)
    }

    /// Facts of its pattern.
    pub fn facts(&self) -> &'static PatternFacts {
        facts(self.pattern)
    }

    /// Description of its workload; `None` if its pattern does not allow that.
    pub fn allowed(&self) -> Option<&'static AllowedWorkload> {
        self.facts().allowed_as(&self.workload)
    }

    /// Condition that ends its trials; `None` if its pattern does not allow its workload.
    pub fn trial_end(&self) -> Option<TrialEnd> {
        self.allowed().map(|allowed| allowed.end)
    }

    /// True if arrivals at followers are recorded: one-way latencies are measured.
    pub fn records_arrivals(&self) -> bool {
        self.one_way || self.workload.is_publication()
    }

    /// True if both have the same pattern, wait, touch and scheduling.
    pub fn has_conditions_of(&self, other: &Self) -> bool {
        let conditions = |sub: &Self| (sub.pattern, sub.wait, sub.touch, sub.sched);
        conditions(self) == conditions(other)
    }

    /// True for round trips: in a closed loop, at a rate or of several clients.
    pub fn are_round_trips(&self) -> bool {
        self.pattern == Pattern::Ping
    }

    /// Transport, with conditions that are not the default: `uds/stream (fifo:80, background load cpu:1)`.
    pub fn transport_text(&self) -> String {
        let conditions = self.conditions();
        if conditions.is_empty() { self.transport.to_string() } else { format!("{} ({conditions})", self.transport) }
    }

    /// Scheduling and background load that are not the default, for people; empty if both are.
    pub fn conditions(&self) -> String {
        let sched = (!self.sched.is_other()).then(|| self.sched.to_string());
        let background = (!self.background.is_none()).then(|| format!("background load {}", self.background));
        sched.into_iter().chain(background).collect::<Vec<_>>().join(", ")
    }

    /// True if `tripmeter explain` instruments it, which disturbs its figures.
    pub fn is_disturbed(&self) -> bool {
        self.instrument.is_some()
    }
}

/// Another host, which one follower runs on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Named as for ssh: `USER@HOST`, or a name from its configuration.
    pub to: String,
    /// The address or the name of the interface there that data goes to; default: that of ssh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
}

/// A whole experiment.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// Name of the preset or file, or `flags`.
    pub source: String,
    /// The sub-experiments in the order written.
    pub sub_experiments: Vec<SubExperiment>,
    /// Number of rounds; with `for_ns`, the present estimate.
    pub rounds: u32,
    /// True if rounds have folders of their own although there is one, as more were planned.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub round_folders: bool,
    /// How long rounds are repeated, in nanoseconds, if time rather than a number ends them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_ns: Option<u64>,
    /// Seed of the random order of sub-experiments, used where there is more than one round.
    pub seed: u64,
    /// Files of samples that are kept, in addition to histograms.
    pub raw: Raw,
    /// Newest rounds whose files of samples are kept; all if absent. Older ones are removed when a round ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_samples: Option<u32>,
    /// Which streams have figures of their own.
    #[serde(default)]
    pub streams: Streams,
    /// Policy for daemons: start them, or not.
    pub daemons: Daemons,
    /// Most attempts at a payload whose core-to-core probe changes.
    #[serde(default = "one")]
    pub attempts: u32,
    /// Nanoseconds without an answer after which a message counts as lost; calls have their own time-out.
    pub loss_timeout_ns: u64,
    /// The leader's CPU; `None` leaves it to the kernel.
    pub leader_cpu: Option<usize>,
    /// The follower's CPU.
    pub follower_cpu: Option<usize>,
    /// Under patterns `publish` and `call`: the CPUs that both processes are confined to; empty if they are not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<usize>,
    /// Number of CPUs that this program might use; 0 in older results.
    #[serde(default, skip_serializing_if = "is_none_known")]
    pub allowed_cpus: usize,
    /// Other hosts, one for each follower; empty if all is on this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<Host>,
    /// True if this program and its plugins are copied to hosts that lack them, also when the run is resumed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub push: bool,
    /// The address or the name of the interface here that those hosts reach; default: that of ssh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// One-way latencies between hosts are omitted if the clock error exceeds this, in nanoseconds.
    #[serde(default, skip_serializing_if = "count::is_zero")]
    pub max_clock_error_ns: u64,
    /// The recording whose messages are published or called, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<Recording>,
    /// Tables printed at the end.
    #[schemars(skip)]
    #[serde(skip, default)]
    pub tables: Vec<TableKind>,
    /// Requested transports that cannot run here or cannot do what was asked, and why: one line each.
    pub left_out: Vec<String>,
    /// Systems that `*` leaves out because they are not installed here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_installed: Vec<String>,
    /// Those requested by name, not only by `*`.
    #[serde(default)]
    pub missing: Vec<String>,
}

impl Plan {
    /// True if each round has its own folder in the results folder.
    pub fn has_round_folders(&self) -> bool {
        self.rounds > 1 || self.round_folders
    }

    /// Changes the number of rounds after the results folder was made.
    pub fn change_rounds(&mut self, rounds: u32) {
        self.round_folders = self.has_round_folders() && rounds == 1;
        self.rounds = rounds;
    }

    /// Trials of a round: one per payload, or per payload and load.
    pub fn trials_of_round(&self) -> u64 {
        let of = |sub: &SubExperiment| (sub.payloads.len() * sub.workload.loads.len().max(1)) as u64;
        self.sub_experiments.iter().map(of).sum()
    }

    /// Most rounds whose trials can all be read again; 0 if one round has too many.
    pub fn most_rounds(&self) -> u32 {
        (MOST_TRIALS / self.trials_of_round().max(1)).min(MOST_ROUNDS.into()) as u32
    }

    /// Systems that are not installed, and the command that installs them; `None` if all are.
    pub fn not_installed(&self) -> Option<String> {
        let names = self.not_installed.join(", ");
        (!names.is_empty()).then(|| format!("not installed: {names}; install them with `tripmeter install --all`"))
    }

    /// True if sides on this host share a CPU. `follower_cpus` has the CPU of each of several followers, and is
    /// empty for one.
    pub fn shares_cpus(&self, follower_cpus: &[usize]) -> bool {
        if !self.hosts.is_empty() {
            return false;
        }
        let one = if follower_cpus.is_empty() { self.follower_cpu } else { None };
        let mut sides: Vec<usize> = follower_cpus.iter().copied().chain(self.leader_cpu).chain(one).collect();
        let count = sides.len();
        sides.sort_unstable();
        sides.dedup();
        sides.len() < count || self.cpus.len() == 1
    }

    /// True if loops that poll share a CPU, so that their times and rates are of scheduler time slices.
    pub fn polls_on_shared_cpu(&self, plan: &SubExperiment) -> bool {
        let shares = || self.shares_cpus(&plan.follower_cpus) || self.more_loops_than_cpus(plan).is_some();
        plan.wait == Wait::Poll && !plan.workload.is_log() && shares()
    }

    /// Polling loops of a sub-experiment, and the CPUs for them, if those are fewer. A follower has one for all links.
    fn more_loops_than_cpus(&self, plan: &SubExperiment) -> Option<(usize, usize)> {
        let leader = plan.workload.polling_loops() as usize;
        // Each host assigns CPUs to its side.
        if !self.hosts.is_empty() {
            return None;
        }
        if self.leader_cpu.is_some() && leader > 1 {
            return Some((leader, 1));
        }
        let bound = self.leader_cpu.iter().chain(&self.follower_cpu).chain(&plan.follower_cpus);
        let all = leader + plan.workload.followers() as usize;
        let cpus = if self.cpus.is_empty() { self.allowed_cpus } else { self.cpus.len() };
        // Where all are bound, it is known who shares.
        (cpus > 0 && bound.count() < 2 && all > cpus).then_some((all, cpus))
    }

    /// Sentence about sides that poll on a shared CPU, or about several followers that share CPUs.
    pub fn shared_cpus(&self, plan: &SubExperiment) -> Option<String> {
        let polls = self.polls_on_shared_cpu(plan);
        let shares = self.shares_cpus(&plan.follower_cpus);
        if let Some((loops, cpus)) = self.more_loops_than_cpus(plan).filter(|_| polls && !shares) {
            let on = if cpus == 1 { "one CPU".to_owned() } else { format!("{cpus} CPUs") };
            return Some(format!(
                "{loops} loops that poll share {on}, so its times and rates are of scheduler time slices and are not \
                 ranked; use --wait block or callback, or more CPUs (--cpus)"
            ));
        }
        let takes_turns = plan.workload.is_fan_out() && shares;
        if !polls && !takes_turns {
            return None;
        }
        let mut cpus = plan.follower_cpus.clone();
        cpus.sort_unstable();
        cpus.dedup();
        let numbers = |cpus: &[usize]| cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        let plural = if cpus.len() > 1 { "s" } else { "" };
        let with_leader = self.leader_cpu.filter(|leader| cpus.contains(leader));
        let leader = match with_leader {
            Some(_) if cpus.len() == 1 => " with the leader".to_owned(),
            Some(cpu) => format!(" ({cpu} with the leader)"),
            None => String::new(),
        };
        let who = match (plan.follower_cpus.len(), self.leader_cpu.or(self.cpus.first().copied())) {
            (0, Some(cpu)) => format!("leader and follower share CPU {cpu}"),
            (0, None) => "leader and follower share a CPU".to_owned(),
            (count, _) => format!("its {count} followers share CPU{plural} {}{leader}", numbers(&cpus)),
        };
        Some(match polls {
            true => format!(
                "{who} and poll, so its times and rates are of scheduler time slices and are not ranked; use --wait \
                 block or callback, or a CPU for each (--leader-cpu, --follower-cpu)"
            ),
            false => format!("{who}, which adds to their latency"),
        })
    }

    /// Time without an answer, in nanoseconds, after which a message of this sub-experiment counts as lost.
    pub fn loss_timeout_ns_of(&self, plan: &SubExperiment) -> u64 {
        plan.workload.timeout_ns.unwrap_or(self.loss_timeout_ns)
    }

    /// Files of samples kept of this sub-experiment.
    pub fn raw_of(&self, plan: &SubExperiment) -> Raw {
        // Writes of samples would be among the system calls.
        if plan.instrument == Some(Instrument::SystemCalls) { Raw::NONE } else { self.raw }
    }

    /// Default warm-up: 1,000 or a tenth of the samples, whichever is less.
    pub fn default_warmup(samples: u64) -> u64 {
        (samples / 10).min(1000)
    }
}

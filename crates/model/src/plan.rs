//! A resolved experiment: everything that will run. Nothing starts before the plan is complete.

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

/// Most rounds of an experiment: one per minute for a week. [`Plan::most_rounds`] is less if a round has many trials.
pub const MOST_ROUNDS: u32 = 10_080;
/// Most trials over all rounds, as many as readers accept in `trials.jsonl`.
pub const MOST_TRIALS: u64 = 100_000;

/// Policy for daemons that are not running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Daemons {
    /// Missing daemons are started, and stopped afterwards.
    #[default]
    Start,
    /// A missing daemon is an error.
    Require,
}

/// Instrument that `tripmeter explain` uses in one pass. It takes time, so the samples of this pass are disturbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Instrument {
    /// Time stamps at the start and the return of each call of the transport, on both sides.
    Stamps,
    /// Resources used by both processes: context switches, page faults and, if countable, cycles and instructions.
    Counters,
    /// System calls of both processes, traced by `strace`.
    SystemCalls,
}

/// Number of samples for payloads above a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SamplesAbove {
    /// Size above which the number applies, in bytes.
    pub payload_bytes: u64,
    /// Round trips per payload.
    pub samples: u64,
}

/// Measurement of one transport under one pattern, over a list of payloads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SubExperiment {
    /// Name, also of its files; unique in the plan.
    pub name: String,
    /// Title of its table.
    pub title: String,
    /// Transport that is measured.
    pub transport: Transport,
    /// Pattern, which names the workload.
    pub pattern: Pattern,
    /// Messages that are sent at each payload, and their replies.
    #[serde(default, skip_serializing_if = "is_default")]
    pub workload: Workload,
    /// Wait strategy of both sides.
    pub wait: Wait,
    /// Reads and writes of the payload.
    pub touch: Touch,
    /// Payloads in bytes, in order.
    pub payloads: Vec<u64>,
    /// Number of samples. In a closed loop: round trips per payload. `publish`: messages per topic and rate. `call`:
    /// calls per client and trial. Round trips at a rate: per trial. `throughput`: 0.
    pub samples: u64,
    /// Numbers of samples for payloads above given sizes, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples_above: Vec<SamplesAbove>,
    /// Warm-up: round trips or one-way messages before the samples, not counted.
    pub warmup: u64,
    /// True if arrivals at the follower are recorded, for one-way latency.
    #[serde(default)]
    pub one_way: bool,
    /// CPU of each of several followers; empty if the kernel chooses. The CPU of a single follower is in the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub follower_cpus: Vec<usize>,
    /// Longest time for one payload, in nanoseconds; absent if unlimited.
    pub time_cap_ns: Option<u64>,
    /// Scheduling of both processes while they measure.
    #[serde(default, skip_serializing_if = "Sched::is_other")]
    #[schemars(with = "String")]
    pub sched: Sched,
    /// Background load that a process of Tripmeter creates, to disturb the measurement.
    #[serde(default, alias = "load", skip_serializing_if = "BackgroundLoad::is_none")]
    #[schemars(with = "String")]
    pub background: BackgroundLoad,
    /// Environment variables of its processes, in addition to those of tripmeter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Delay, in nanoseconds, for which the follower spins before it answers a message. `tripmeter selftest` injects
    /// it, and checks that it is found; 0 in all measurements.
    #[serde(default, skip_serializing_if = "count::is_zero")]
    pub answer_delay_ns: u64,
    /// Instrument of `tripmeter explain`; absent in all measurements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instrument: Option<Instrument>,
    /// True if it was added as the floor of the others.
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
    /// Number of samples for a payload of this size.
    pub fn samples_of(&self, payload_bytes: u64) -> u64 {
        let above = self.samples_above.iter().rfind(|above| payload_bytes > above.payload_bytes);
        above.map_or(self.samples, |above| above.samples)
    }

    /// Properties of its pattern.
    pub fn facts(&self) -> &'static PatternFacts {
        facts(self.pattern)
    }

    /// Allowed workload that matches; `None` if the pattern does not allow the workload.
    pub fn allowed(&self) -> Option<&'static AllowedWorkload> {
        self.facts().allowed_as(&self.workload)
    }

    /// Condition that ends its trials; `None` if the pattern does not allow the workload.
    pub fn trial_end(&self) -> Option<TrialEnd> {
        self.allowed().map(|allowed| allowed.end)
    }

    /// True if arrivals at followers are recorded, so that there are one-way latencies.
    pub fn records_arrivals(&self) -> bool {
        self.one_way || self.workload.is_publication()
    }

    /// True if both sub-experiments have the same pattern, wait, touch and scheduling.
    pub fn has_conditions_of(&self, other: &Self) -> bool {
        let conditions = |sub: &Self| (sub.pattern, sub.wait, sub.touch, sub.sched);
        conditions(self) == conditions(other)
    }

    /// True for pattern `ping`: round trips in a closed loop, at a rate or of several clients.
    pub fn are_round_trips(&self) -> bool {
        self.pattern == Pattern::Ping
    }

    /// Transport, with conditions that are not the default: `uds/stream (fifo:80, background load cpu:1)`.
    pub fn transport_text(&self) -> String {
        let conditions = self.conditions();
        if conditions.is_empty() { self.transport.to_string() } else { format!("{} ({conditions})", self.transport) }
    }

    /// Scheduling and background load as text, if they are not the default; empty if both are.
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

/// Another host, which one of the followers runs on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Destination for ssh: `USER@HOST`, or a name from its configuration.
    pub to: String,
    /// Address or interface of that host that messages go to; default: that of ssh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
}

/// A whole experiment.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// Name of the preset or file, or `flags`.
    pub source: String,
    /// Sub-experiments, in the order written.
    pub sub_experiments: Vec<SubExperiment>,
    /// Number of rounds; with `for_ns`, the current estimate.
    pub rounds: u32,
    /// True if the only round has its own folder, because more rounds were planned.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub round_folders: bool,
    /// Time for which rounds are repeated, in nanoseconds, if not their number but time ends them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_ns: Option<u64>,
    /// Seed of the random order of sub-experiments, used if there is more than one round.
    pub seed: u64,
    /// Files of samples that are kept, in addition to histograms.
    pub raw: Raw,
    /// Number of newest rounds whose files of samples are kept, older ones are removed; all are kept if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_samples: Option<u32>,
    /// Streams that have their own figures.
    #[serde(default)]
    pub streams: Streams,
    /// Policy for daemons that are not running.
    pub daemons: Daemons,
    /// Most attempts at a payload while its core-to-core probe changes.
    #[serde(default = "one")]
    pub attempts: u32,
    /// Time-out, in nanoseconds, after which a message without an answer counts as lost; calls have another.
    pub loss_timeout_ns: u64,
    /// CPU of the leader; `None` if the kernel chooses.
    pub leader_cpu: Option<usize>,
    /// CPU of a single follower; `None` if the kernel chooses.
    pub follower_cpu: Option<usize>,
    /// CPUs that both processes may use, under patterns `publish` and `call`; empty if unrestricted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<usize>,
    /// Number of CPUs that this program was allowed to use; 0 in older results.
    #[serde(default, skip_serializing_if = "is_none_known")]
    pub allowed_cpus: usize,
    /// Other hosts, one for each follower; empty if all followers are on this host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<Host>,
    /// True to copy this program and its plugins to hosts that lack them, also when the run is resumed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub push: bool,
    /// Address or interface of this host that the other hosts reach; default: that of ssh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Largest clock error, in nanoseconds, at which one-way latencies between hosts are reported.
    #[serde(default, skip_serializing_if = "count::is_zero")]
    pub max_clock_error_ns: u64,
    /// Recording whose messages are published or called, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<Recording>,
    /// Tables printed at the end.
    #[schemars(skip)]
    #[serde(skip, default)]
    pub tables: Vec<TableKind>,
    /// Requested transports that cannot run here or cannot carry the workload, one line each with the reason.
    pub left_out: Vec<String>,
    /// Systems that `*` omits because they are not installed here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_installed: Vec<String>,
    /// Transports in `left_out` that were requested by name, not only by `*`.
    #[serde(default)]
    pub missing: Vec<String>,
}

impl Plan {
    /// True if each round has its own folder in the results folder.
    pub fn has_round_folders(&self) -> bool {
        self.rounds > 1 || self.round_folders
    }

    /// Changes the number of rounds after the results folder was created.
    pub fn change_rounds(&mut self, rounds: u32) {
        self.round_folders = self.has_round_folders() && rounds == 1;
        self.rounds = rounds;
    }

    /// Number of trials of a round: one per payload and offered load.
    pub fn trials_of_round(&self) -> u64 {
        let of = |sub: &SubExperiment| (sub.payloads.len() * sub.workload.loads.len().max(1)) as u64;
        self.sub_experiments.iter().map(of).sum()
    }

    /// Largest number of rounds whose trials can all be read back; 0 if one round has too many.
    pub fn most_rounds(&self) -> u32 {
        (MOST_TRIALS / self.trials_of_round().max(1)).min(MOST_ROUNDS.into()) as u32
    }

    /// Systems that are not installed, and the command that installs them; `None` if all are.
    pub fn not_installed(&self) -> Option<String> {
        let names = self.not_installed.join(", ");
        (!names.is_empty()).then(|| format!("not installed: {names}; install them with `tripmeter install --all`"))
    }

    /// True if sides on this host share a CPU. `follower_cpus` lists the CPU of each of several followers, and is empty
    /// for one.
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

    /// True if polling loops share a CPU, so that their times and rates are those of scheduler time slices.
    pub fn polls_on_shared_cpu(&self, plan: &SubExperiment) -> bool {
        let shares = || self.shares_cpus(&plan.follower_cpus) || self.more_loops_than_cpus(plan).is_some();
        plan.wait == Wait::Poll && !plan.workload.is_log() && shares()
    }

    /// Numbers of polling loops and of CPUs for them, if there are fewer CPUs. A follower has one loop for all links.
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
        // If all sides are bound to CPUs, `shares_cpus` knows who shares one.
        (cpus > 0 && bound.count() < 2 && all > cpus).then_some((all, cpus))
    }

    /// Sentence for notes about sides that poll on a shared CPU, or about several followers that share CPUs.
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

    /// Time-out, in nanoseconds, after which a message of this sub-experiment counts as lost.
    pub fn loss_timeout_ns_of(&self, plan: &SubExperiment) -> u64 {
        plan.workload.timeout_ns.unwrap_or(self.loss_timeout_ns)
    }

    /// Files of samples to keep for this sub-experiment.
    pub fn raw_of(&self, plan: &SubExperiment) -> Raw {
        // Writing samples would add to the traced system calls.
        if plan.instrument == Some(Instrument::SystemCalls) { Raw::NONE } else { self.raw }
    }

    /// Default warm-up: 1,000 or a tenth of the samples, whichever is less.
    pub fn default_warmup(samples: u64) -> u64 {
        (samples / 10).min(1000)
    }
}

//! Audit of a machine: what disturbs measuring on it, and the fixes.

use crate::count;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Stands for a value that the machine does not show.
pub const NOT_VISIBLE: &str = "not visible here";

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be, good to know, or not visible.
    Info,
    /// Figures are likely to be worse or less steady than the transport's own.
    Warn,
    /// Figures are likely to show the machine, not the transport.
    Fail,
}

impl Level {
    /// Name in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Fail => "fail",
        }
    }
}

/// Description of a check, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CheckInfo {
    /// Name of the check.
    pub name: &'static str,
    /// File that it reads, or quantity that it measures.
    pub source: &'static str,
    /// Limit from which it warns or fails.
    pub limit: &'static str,
    /// Command that fixes it, or advice where there is none. `CPUS` stands for the CPUs audited, `OTHERS` for all
    /// others.
    pub fix: &'static str,
}

/// Finding of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Name of the check.
    pub check: String,
    /// How much it matters.
    pub level: Level,
    /// False if the machine does not show it. It may be good or bad then.
    pub visible: bool,
    /// Value seen; if it is not visible, the reason.
    pub value: String,
    /// Limits at which it warns or fails.
    pub limit: String,
    /// The command that would fix it, or what to do where no command can; absent if it is as it should be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// Noise floor: interruptions of a thread that was bound to a CPU and only read the clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Hiccups {
    /// The CPU.
    pub cpu: usize,
    /// How long it read, in nanoseconds.
    pub duration_ns: u64,
    /// Two readings further apart than this, in nanoseconds, have a gap between them.
    pub threshold_ns: u64,
    /// Number of gaps.
    pub gaps: u64,
    /// 99th percentile of the gaps, in nanoseconds; 0 without gaps.
    pub p99_ns: u64,
    /// The longest gap, in nanoseconds; 0 without gaps.
    pub max_ns: u64,
    /// Sum of the gaps, in nanoseconds.
    pub lost_ns: u64,
    /// Why the thread could not be bound to the CPU, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_bound: Option<String>,
}

/// Where a process or thread was allowed to run, and how often it was disturbed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessActivity {
    /// `leader`, `follower`, `follower 2` if there are several, or `spin on CPU 3`.
    pub who: String,
    /// CPUs that its measuring thread was allowed to use at the end; absent if that is not visible.
    pub cpus: Option<Vec<usize>>,
    /// CPUs that the plan gave it; absent if the kernel chose.
    #[serde(default)]
    pub planned_cpus: Option<Vec<usize>>,
    /// Scheduling policy of that thread at the end, and its nice value or priority; absent if that is not visible.
    pub policy: Option<String>,
    /// CPU time of all its threads over its whole life, in nanoseconds.
    #[serde(deserialize_with = "count::read")]
    pub cpu_time_ns: u64,
    /// How often its threads gave a CPU up by themselves.
    #[serde(deserialize_with = "count::read")]
    pub voluntary_switches: u64,
    /// How often a CPU was taken from them.
    #[serde(deserialize_with = "count::read")]
    pub involuntary_switches: u64,
    /// Page faults served from memory.
    #[serde(deserialize_with = "count::read")]
    pub minor_faults: u64,
    /// Page faults that waited for a disk.
    #[serde(deserialize_with = "count::read")]
    pub major_faults: u64,
    /// Files of the libraries that it had loaded at its end; only where a sub-experiment has an environment of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub libraries: Vec<String>,
}

/// Differences of the kernel's counters over a time; those that are not visible are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Activity {
    /// Length of that time, in nanoseconds.
    pub duration_ns: u64,
    /// Activity of each audited CPU.
    pub cpus: Vec<CpuActivity>,
    /// CPU time of processes other than Tripmeter's, in nanoseconds, over all CPUs.
    pub others_ns: Option<u64>,
    /// Those that used most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub busiest: Vec<OtherProcess>,
    /// Time in which some task waited for a CPU, memory, or a disk.
    pub pressure: Pressure,
    /// How often, and how long in nanoseconds, the control groups of this process were throttled, over all CPUs.
    pub throttled: Option<Throttled>,
}

/// Activity of a CPU over a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuActivity {
    /// Its number.
    pub cpu: usize,
    /// Time that the hypervisor gave to others while this CPU had work, in nanoseconds.
    pub steal_ns: Option<u64>,
    /// Time that other hardware threads of the same core were busy, in nanoseconds; 0 if there are none.
    pub sibling_busy_ns: Option<u64>,
    /// Interrupts.
    pub interrupts: Option<Interrupts>,
    /// How often it was slowed down by heat.
    pub thermal_throttles: Option<u64>,
}

/// Interrupts of a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Interrupts {
    /// By devices.
    pub device: u64,
    /// By the CPU's own timer.
    pub timer: u64,
    /// All others: mostly by other CPUs.
    pub other: u64,
}

/// A process other than Tripmeter's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OtherProcess {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Its CPU time, in nanoseconds.
    pub cpu_time_ns: u64,
}

/// Time in which some task waited, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pressure {
    /// For a CPU.
    pub cpu_ns: Option<u64>,
    /// For memory.
    pub memory_ns: Option<u64>,
    /// For a disk.
    pub io_ns: Option<u64>,
}

/// How much control groups were throttled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Throttled {
    /// Periods.
    pub periods: u64,
    /// Time, in nanoseconds.
    pub time_ns: u64,
}

/// One audit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Audit {
    /// The CPUs audited: those that leader and follower use.
    pub cpus: Vec<usize>,
    /// One for each check, in the order of the list of checks.
    pub findings: Vec<Finding>,
    /// Activity meanwhile: before an experiment, during the hiccup spin (empty without one); after it, since its start.
    pub activity: Activity,
    /// The noise floor of each CPU, all at the same time; after an experiment only if that took four seconds or more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hiccups: Vec<Hiccups>,
    /// The threads that saw them; processes that measured stand at their sub-experiment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<ProcessActivity>,
}

impl Audit {
    /// Findings of a level.
    pub fn at(&self, level: Level) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |finding| finding.level == level)
    }

    /// Findings that a strict audit refuses: failures, then warnings.
    pub fn refused(&self) -> Vec<&Finding> {
        self.at(Level::Fail).chain(self.at(Level::Warn)).collect()
    }
}

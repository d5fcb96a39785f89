//! Audit of a machine: settings and activity that disturb measurements, and their fixes.

use crate::count;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::Display;

/// Text in place of a value that the machine does not show.
pub const NOT_VISIBLE: &str = "not visible here";

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema, Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Level {
    /// Good, informative, or not visible.
    Info,
    /// Figures are likely to be worse or less steady than the transport's own.
    Warn,
    /// Figures are likely to show the machine, not the transport.
    Fail,
}

/// Description of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CheckInfo {
    /// Name of the check.
    pub name: &'static str,
    /// File that it reads, or quantity that it measures.
    pub source: &'static str,
    /// Limit from which it warns or fails.
    pub limit: &'static str,
    /// Command that fixes the setting, or advice if no command can. `CPUS` stands for the audited CPUs, `OTHERS` for
    /// all others.
    pub fix: &'static str,
}

/// Finding of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Name of the check.
    pub check: String,
    /// Severity.
    pub level: Level,
    /// False if the machine does not show the value, so that it may be good or bad.
    pub visible: bool,
    /// Value found; the reason if it is not visible.
    pub value: String,
    /// Limits at which it warns or fails.
    pub limit: String,
    /// Command that fixes the setting, or advice if no command can; absent if the setting is good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// Noise floor: interruptions of a thread that was bound to a CPU and only read the clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Hiccups {
    /// Number of the CPU.
    pub cpu: usize,
    /// Duration of the spin, in nanoseconds.
    pub duration_ns: u64,
    /// Shortest gap, in nanoseconds: a longer time between two readings counts as a gap.
    pub threshold_ns: u64,
    /// Number of gaps.
    pub gaps: u64,
    /// 99th percentile of the gaps, in nanoseconds; 0 without gaps.
    pub p99_ns: u64,
    /// The longest gap, in nanoseconds; 0 without gaps.
    pub max_ns: u64,
    /// Sum of the gaps, in nanoseconds.
    pub lost_ns: u64,
    /// Reason if the thread could not be bound to the CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_bound: Option<String>,
}

/// CPUs that a process or thread was allowed to use, and how often it was disturbed.
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
    /// Time by which the kernel may delay timers of that thread, in nanoseconds; absent if that is not visible.
    #[serde(default)]
    pub timer_slack_ns: Option<u64>,
    /// CPU time of all its threads over its whole life, in nanoseconds.
    #[serde(deserialize_with = "count::read")]
    pub cpu_time_ns: u64,
    /// Number of times that its threads gave up a CPU, e.g. to wait.
    #[serde(deserialize_with = "count::read")]
    pub voluntary_switches: u64,
    /// Number of times that the kernel took a CPU from its threads.
    #[serde(deserialize_with = "count::read")]
    pub involuntary_switches: u64,
    /// Page faults served from memory.
    #[serde(deserialize_with = "count::read")]
    pub minor_faults: u64,
    /// Page faults that waited for a disk.
    #[serde(deserialize_with = "count::read")]
    pub major_faults: u64,
    /// Files of the libraries that were loaded at its end; only if a sub-experiment has its own environment variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub libraries: Vec<String>,
}

/// Increases of the kernel's counters over an interval; counters that are not visible are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Activity {
    /// Length of the interval, in nanoseconds.
    pub duration_ns: u64,
    /// Activity of each audited CPU.
    pub cpus: Vec<CpuActivity>,
    /// CPU time of processes other than Tripmeter's, in nanoseconds, over all CPUs.
    pub others_ns: Option<u64>,
    /// Other processes that used most CPU time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub busiest: Vec<OtherProcess>,
    /// Time in which some task waited for a CPU, memory, or a disk.
    pub pressure: Pressure,
    /// Throttling of the control groups of this process, over all CPUs.
    pub throttled: Option<Throttled>,
}

/// Activity of a CPU over an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuActivity {
    /// Number of the CPU.
    pub cpu: usize,
    /// Time that the hypervisor gave to other machines while this CPU had work, in nanoseconds.
    pub steal_ns: Option<u64>,
    /// Time that other hardware threads of the same core were busy, in nanoseconds; 0 if there are none.
    pub sibling_busy_ns: Option<u64>,
    /// Interrupts.
    pub interrupts: Option<Interrupts>,
    /// Number of times that heat slowed the CPU down.
    pub thermal_throttles: Option<u64>,
}

/// Interrupts of a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Interrupts {
    /// Interrupts by devices.
    pub device: u64,
    /// Interrupts by the CPU's own timer.
    pub timer: u64,
    /// All other interrupts, mostly by other CPUs.
    pub other: u64,
}

/// A process other than Tripmeter's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OtherProcess {
    /// Process id.
    pub pid: u32,
    /// Name of the process.
    pub name: String,
    /// CPU time of the process, in nanoseconds.
    pub cpu_time_ns: u64,
}

/// Time in which some task waited, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pressure {
    /// Time in which some task waited for a CPU.
    pub cpu_ns: Option<u64>,
    /// Time in which some task waited for memory.
    pub memory_ns: Option<u64>,
    /// Time in which some task waited for a disk.
    pub io_ns: Option<u64>,
}

/// Throttling of control groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Throttled {
    /// Number of throttled periods.
    pub periods: u64,
    /// Throttled time, in nanoseconds.
    pub time_ns: u64,
}

/// One audit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Audit {
    /// Audited CPUs: those that leader and follower use.
    pub cpus: Vec<usize>,
    /// Findings, one per check, in the order of the list of checks.
    pub findings: Vec<Finding>,
    /// Activity during the hiccup spin, empty without one; in the audit after an experiment, since its start.
    pub activity: Activity,
    /// Noise floor of each CPU, measured at the same time; after an experiment only if it took at least four seconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hiccups: Vec<Hiccups>,
    /// Threads that measured the noise floor. Measuring processes are listed at their sub-experiment.
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

//! Pattern `channel`: messages published at a fixed rate, in bursts, or as they were recorded, and when they arrived.

use crate::figure::Figure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many followers are shown one by one: in tables, in figures over rounds and in the evidence of the path.
pub const SHOWN_FOLLOWERS: usize = 16;

/// Cost of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Used {
    /// In this time, in nanoseconds.
    pub window_ns: u64,
    /// Processor time, user and system, in nanoseconds.
    pub cpu_time_ns: u64,
    /// How often a processor was given up.
    pub voluntary_switches: u64,
    /// How often a processor was taken away.
    pub involuntary_switches: u64,
    /// Page faults, served from memory or from a disk.
    #[serde(default)]
    pub page_faults: u64,
    /// Most memory that the process has had so far (`VmHWM`), in bytes: with our own buffers of samples.
    pub peak_memory_bytes: u64,
}

impl Used {
    /// Processor time in per cent of one core.
    pub fn cpu_percent(&self) -> f64 {
        self.cpu_time_ns as f64 * 100.0 / self.window_ns.max(1) as f64
    }

    /// Its figures, of one trial.
    pub fn figures(&self) -> impl Iterator<Item = (Figure, f64)> {
        [
            (Figure::Window, self.window_ns),
            (Figure::CpuTime, self.cpu_time_ns),
            (Figure::VoluntarySwitches, self.voluntary_switches),
            (Figure::InvoluntarySwitches, self.involuntary_switches),
            (Figure::PageFaults, self.page_faults),
            (Figure::PeakMemory, self.peak_memory_bytes),
        ]
        .map(|(figure, value)| (figure, value as f64))
        .into_iter()
    }

    /// Context switches of either kind per second.
    pub fn switches_hz(&self) -> f64 {
        self.voluntary_switches.saturating_add(self.involuntary_switches) as f64 * 1e9 / self.window_ns.max(1) as f64
    }
}

impl Used {
    /// Sum of the cost of two processes at the same time. Memory, part of which may be shared, is the larger of both.
    pub fn beside(self, other: Self) -> Self {
        let window_ns = self.window_ns.max(other.window_ns);
        let mut both = self;
        both += other;
        Self { window_ns, ..both }
    }
}

impl std::ops::AddAssign for Used {
    fn add_assign(&mut self, other: Used) {
        self.window_ns += other.window_ns;
        self.cpu_time_ns += other.cpu_time_ns;
        self.voluntary_switches += other.voluntary_switches;
        self.involuntary_switches += other.involuntary_switches;
        self.page_faults += other.page_faults;
        self.peak_memory_bytes = self.peak_memory_bytes.max(other.peak_memory_bytes);
    }
}

/// Status of a message in `channel_<name>.csv`, or of a call in `rpc_<name>.csv`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryStatus {
    /// Came in time and intact.
    Ok,
    /// Came in time and intact, after a later message.
    Reordered,
    /// Came in time and intact, and then again.
    Duplicated,
    /// Came later than the loss time-out after it was sent.
    Late,
    /// Its touched payload was not what was written.
    Damaged,
    /// Never came, or with a header that nobody can read.
    Lost,
}

impl DeliveryStatus {
    /// The word in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            DeliveryStatus::Ok => "ok",
            DeliveryStatus::Reordered => "reordered",
            DeliveryStatus::Duplicated => "duplicated",
            DeliveryStatus::Late => "late",
            DeliveryStatus::Damaged => "damaged",
            DeliveryStatus::Lost => "lost",
        }
    }

    /// The word in the file of calls, which fail where messages come damaged, and time out where messages get lost.
    pub fn of_call(self) -> &'static str {
        match self {
            DeliveryStatus::Damaged => "failed",
            DeliveryStatus::Lost | DeliveryStatus::Late => "timed_out",
            other => other.as_str(),
        }
    }

    /// It came in time and intact, so that its latencies count.
    pub fn is_received(self) -> bool {
        matches!(self, DeliveryStatus::Ok | DeliveryStatus::Reordered | DeliveryStatus::Duplicated)
    }
}

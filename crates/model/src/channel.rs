//! What happened to a message or call, and what a process used meanwhile.

use crate::figure::Figure;
use serde::{Deserialize, Serialize};

/// How many followers are shown one by one: in tables, in figures over rounds and in the evidence of the path.
pub const SHOWN_FOLLOWERS: usize = 16;

/// What a process used in a time, or since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Used {
    /// The time, in nanoseconds.
    pub window_ns: u64,
    /// CPU time, user and system, in nanoseconds.
    pub cpu_time_ns: u64,
    /// CPU time in the kernel, in nanoseconds.
    pub kernel_time_ns: u64,
    /// How often it gave up its CPU.
    pub voluntary_switches: u64,
    /// How often it lost its CPU.
    pub involuntary_switches: u64,
    /// Page faults served from memory.
    pub minor_faults: u64,
    /// Page faults that waited for a disk.
    pub major_faults: u64,
    /// Most memory that the process has had so far (`VmHWM`), in bytes: with our own buffers of samples.
    pub peak_memory_bytes: u64,
}

impl Used {
    /// Its figures, of one trial.
    pub fn figures(&self) -> impl Iterator<Item = (Figure, f64)> {
        [
            (Figure::Window, self.window_ns),
            (Figure::CpuTime, self.cpu_time_ns),
            (Figure::KernelTime, self.kernel_time_ns),
            (Figure::VoluntarySwitches, self.voluntary_switches),
            (Figure::InvoluntarySwitches, self.involuntary_switches),
            (Figure::PageFaults, self.minor_faults + self.major_faults),
            (Figure::PeakMemory, self.peak_memory_bytes),
        ]
        .map(|(figure, value)| (figure, value as f64))
        .into_iter()
    }

    /// Each but the peak of memory put together with the other.
    fn with(self, other: Self, of: fn(u64, u64) -> u64) -> Self {
        Self {
            window_ns: of(self.window_ns, other.window_ns),
            cpu_time_ns: of(self.cpu_time_ns, other.cpu_time_ns),
            kernel_time_ns: of(self.kernel_time_ns, other.kernel_time_ns),
            voluntary_switches: of(self.voluntary_switches, other.voluntary_switches),
            involuntary_switches: of(self.involuntary_switches, other.involuntary_switches),
            minor_faults: of(self.minor_faults, other.minor_faults),
            major_faults: of(self.major_faults, other.major_faults),
            peak_memory_bytes: self.peak_memory_bytes.max(other.peak_memory_bytes),
        }
    }

    /// What was used since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        self.with(before, u64::saturating_sub)
    }

    /// Sum of the cost of two processes at the same time. Memory, part of which may be shared, is the larger of both.
    #[must_use]
    pub fn beside(self, other: Self) -> Self {
        Self { window_ns: self.window_ns.max(other.window_ns), ..self.with(other, u64::saturating_add) }
    }
}

impl std::ops::AddAssign for Used {
    fn add_assign(&mut self, other: Used) {
        *self = self.with(other, u64::saturating_add);
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

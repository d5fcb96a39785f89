//! Cost of a process.

use crate::figure::Figure;
use serde::{Deserialize, Serialize};

/// Cost of a process in a time window, or since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Used {
    /// Length of the window, in nanoseconds.
    pub window_ns: u64,
    /// CPU time, user and system, in nanoseconds.
    pub cpu_time_ns: u64,
    /// CPU time in the kernel, in nanoseconds, if the kernel accounts it exactly.
    #[serde(default)]
    pub kernel_time_ns: Option<u64>,
    /// Number of times that it gave up its CPU.
    pub voluntary_switches: u64,
    /// Number of times that it lost its CPU.
    pub involuntary_switches: u64,
    /// Page faults served from memory.
    pub minor_faults: u64,
    /// Page faults that waited for a disk.
    pub major_faults: u64,
    /// Peak memory of the process so far (`VmHWM`), in bytes, including Tripmeter's own buffers of samples.
    pub peak_memory_bytes: u64,
    /// CPU cycles, if they were counted.
    #[serde(default)]
    pub cycles: Option<u64>,
    /// CPU instructions, if they were counted.
    #[serde(default)]
    pub instructions: Option<u64>,
}

impl Used {
    /// Zero cost, to start a sum: optional counts remain if all terms have them.
    pub const NOTHING: Self = Self {
        window_ns: 0,
        cpu_time_ns: 0,
        kernel_time_ns: Some(0),
        voluntary_switches: 0,
        involuntary_switches: 0,
        minor_faults: 0,
        major_faults: 0,
        peak_memory_bytes: 0,
        cycles: Some(0),
        instructions: Some(0),
    };

    /// Figures of one trial.
    pub fn figures(&self) -> impl Iterator<Item = (Figure, f64)> {
        [
            (Figure::Window, self.window_ns),
            (Figure::CpuTime, self.cpu_time_ns),
            (Figure::VoluntarySwitches, self.voluntary_switches),
            (Figure::InvoluntarySwitches, self.involuntary_switches),
            (Figure::PageFaults, self.minor_faults.saturating_add(self.major_faults)),
            (Figure::PeakMemory, self.peak_memory_bytes),
        ]
        .into_iter()
        .chain(self.kernel_time_ns.map(|time| (Figure::KernelTime, time)))
        .chain(self.cycles.map(|cycles| (Figure::Cycles, cycles)))
        .chain(self.instructions.map(|instructions| (Figure::Instructions, instructions)))
        .map(|(figure, value)| (figure, value as f64))
    }

    fn with(self, other: Self, of: fn(u64, u64) -> u64) -> Self {
        let both = |one: Option<u64>, other: Option<u64>| one.zip(other).map(|(one, other)| of(one, other));
        Self {
            window_ns: of(self.window_ns, other.window_ns),
            cpu_time_ns: of(self.cpu_time_ns, other.cpu_time_ns),
            kernel_time_ns: both(self.kernel_time_ns, other.kernel_time_ns),
            voluntary_switches: of(self.voluntary_switches, other.voluntary_switches),
            involuntary_switches: of(self.involuntary_switches, other.involuntary_switches),
            minor_faults: of(self.minor_faults, other.minor_faults),
            major_faults: of(self.major_faults, other.major_faults),
            peak_memory_bytes: self.peak_memory_bytes.max(other.peak_memory_bytes),
            cycles: both(self.cycles, other.cycles),
            instructions: both(self.instructions, other.instructions),
        }
    }

    /// Cost since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        self.with(before, u64::saturating_sub)
    }

    /// Cost of two processes at the same time. Peak memory is the larger of both, because part of it may be shared.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_has_what_all_its_terms_have() {
        let counted = Used { cpu_time_ns: 9, kernel_time_ns: Some(2), cycles: Some(5), ..Used::default() };
        let mut sum = Used::NOTHING;
        sum += counted;
        sum += counted;
        assert_eq!((sum.cpu_time_ns, sum.kernel_time_ns, sum.cycles, sum.instructions), (18, Some(4), Some(10), None));
        assert_eq!(sum.beside(Used::default()).kernel_time_ns, None);
        assert!(!Used::default().figures().any(|(figure, _)| figure == Figure::KernelTime));
    }
}

//! Clock of all samples: the invariant TSC if the CPU has one, otherwise CLOCK_MONOTONIC.
#![expect(unsafe_code, reason = "reads the time-stamp counter")]

use serde::{Deserialize, Serialize};
use std::fs;
use tripmeter_model::manifest::ClockInfo;

/// Source of ticks. The measuring loop is compiled once for each source.
pub trait Clock: Send {
    fn now(&self) -> u64;
}

#[derive(Clone, Copy, Debug)]
pub struct Tsc;

impl Clock for Tsc {
    #[inline(always)]
    fn now(&self) -> u64 {
        read_tsc()
    }
}

/// CLOCK_MONOTONIC; a tick is a nanosecond.
#[derive(Clone, Copy, Debug)]
pub struct Monotonic;

impl Clock for Monotonic {
    #[inline(always)]
    fn now(&self) -> u64 {
        monotonic_ns()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClockSource {
    Tsc,
    Monotonic,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Timebase {
    pub source: ClockSource,
    pub frequency_hz: f64,
}

impl Timebase {
    pub const NANOSECONDS: Timebase = Timebase { source: ClockSource::Monotonic, frequency_hz: 1e9 };

    /// Converts ticks to nanoseconds, rounded to the nearest.
    pub fn to_ns(&self, ticks: u64) -> u64 {
        match self.source {
            ClockSource::Monotonic => ticks,
            ClockSource::Tsc => (ticks as f64 * (1e9 / self.frequency_hz)).round() as u64,
        }
    }

    /// Converts a difference of ticks; between two clocks it may be negative.
    pub fn to_signed_ns(&self, ticks: i64) -> i64 {
        self.to_ns(ticks.unsigned_abs()) as i64 * ticks.signum()
    }

    pub fn ticks_per_ns(&self) -> f64 {
        match self.source {
            ClockSource::Monotonic => 1.0,
            ClockSource::Tsc => self.frequency_hz / 1e9,
        }
    }

    /// Converts nanoseconds to ticks, rounded down.
    pub fn to_ticks(&self, ns: u64) -> u64 {
        match self.source {
            ClockSource::Monotonic => ns,
            ClockSource::Tsc => (ns as f64 * (self.frequency_hz / 1e9)) as u64,
        }
    }

    /// Smallest non-zero difference of 1,000 consecutive readings, in nanoseconds; 0 if none differ.
    pub fn granularity_ns(&self) -> f64 {
        let readings: Vec<u64> = (0..1000).map(|_| self.now()).collect();
        let differences = readings.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
        differences.filter(|ticks| *ticks > 0).min().unwrap_or(0) as f64 / self.ticks_per_ns()
    }

    /// Current tick. Branches on the source, so not for the measured window.
    pub fn now(&self) -> u64 {
        match self.source {
            ClockSource::Monotonic => Monotonic.now(),
            ClockSource::Tsc => Tsc.now(),
        }
    }
}

/// Clock for loops that are compiled once for both sources. It costs a branch per reading, which measurements avoid.
impl Clock for Timebase {
    #[inline(always)]
    fn now(&self) -> u64 {
        Timebase::now(self)
    }
}

/// Time of day in nanoseconds since an epoch that both hosts share; 0 before the epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeOfDay {
    /// Epoch in nanoseconds since 1970.
    pub epoch_ns: u64,
}

impl TimeOfDay {
    /// Clock with an epoch about 13 days ago, so that current readings are exact as floating-point numbers.
    pub(crate) fn recent() -> Self {
        Self { epoch_ns: Self { epoch_ns: 0 }.now().saturating_sub(1 << 50) }
    }
}

impl Clock for TimeOfDay {
    fn now(&self) -> u64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        (since.as_nanos() as u64).saturating_sub(self.epoch_ns)
    }
}

#[inline]
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writing; CLOCK_MONOTONIC exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// TSC, read after all earlier instructions have completed.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn read_tsc() -> u64 {
    let mut cpu = 0;
    // SAFETY: every CPU that reaches here has RDTSCP, which `tsc_refusal` checks; `cpu` is writable.
    unsafe { std::arch::x86_64::__rdtscp(&mut cpu) }
}

#[cfg(not(target_arch = "x86_64"))]
fn read_tsc() -> u64 {
    unreachable!("the TSC is chosen on x86_64 only")
}

#[cfg(target_arch = "x86_64")]
fn tsc_refusal() -> Option<String> {
    use std::arch::x86_64::__cpuid;
    if __cpuid(0x8000_0000).eax < 0x8000_0007 || __cpuid(0x8000_0007).edx & (1 << 8) == 0 {
        return Some("the CPU does not say that its TSC is invariant".to_owned());
    }
    if __cpuid(0x8000_0001).edx & (1 << 27) == 0 {
        return Some("the CPU has no RDTSCP".to_owned());
    }
    let file = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    match fs::read_to_string(file) {
        Ok(source) if source.trim() == "tsc" => None,
        Ok(source) => Some(format!("the kernel's clock source is {}, not tsc", source.trim())),
        Err(error) => Some(format!("{file} cannot be read: {error}")),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn tsc_refusal() -> Option<String> {
    let _ = fs::metadata("/");
    Some("the CPU has no TSC".to_owned())
}

/// Simultaneous readings of the TSC and CLOCK_MONOTONIC: the closest pair of many.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    ticks: u64,
    ns: u64,
}

impl Anchor {
    fn take() -> Self {
        let attempt = || {
            let before = monotonic_ns();
            let ticks = read_tsc();
            let after = monotonic_ns();
            (after - before, Anchor { ticks, ns: before + (after - before) / 2 })
        };
        let tightest = (0..64).map(|_| attempt()).min_by_key(|(width, _)| *width);
        tightest.expect("there are 64 attempts").1
    }

    fn frequency_to(&self, later: &Anchor) -> f64 {
        (later.ticks - self.ticks) as f64 / (later.ns - self.ns) as f64 * 1e9
    }
}

/// Calibrated clock, whose drift can be checked later.
#[derive(Debug)]
pub struct Calibration {
    pub timebase: Timebase,
    reason: Option<String>,
    anchor: Option<Anchor>,
}

impl Calibration {
    /// Chooses the clock and calibrates it for 40 ms. The TSC is refused if two halves differ by more than 100 ppm.
    pub fn new() -> Self {
        let refused = |reason| Self { timebase: Timebase::NANOSECONDS, reason: Some(reason), anchor: None };
        if let Some(reason) = tsc_refusal() {
            return refused(reason);
        }
        let pause = || std::thread::sleep(std::time::Duration::from_millis(20));
        let first = Anchor::take();
        pause();
        let middle = Anchor::take();
        pause();
        let last = Anchor::take();
        let disagreement = first.frequency_to(&middle) / middle.frequency_to(&last) - 1.0;
        if disagreement.abs() > 100e-6 {
            return refused(format!("two calibrations of the TSC differ by {:.0} ppm", disagreement * 1e6));
        }
        let timebase = Timebase { source: ClockSource::Tsc, frequency_hz: first.frequency_to(&last) };
        Self { timebase, reason: None, anchor: Some(first) }
    }

    /// Relative error of the calibrated frequency, measured over the time since; in ppm. `None` for CLOCK_MONOTONIC.
    pub fn drift_ppm(&self) -> Option<f64> {
        let frequency = self.anchor?.frequency_to(&Anchor::take());
        Some((frequency / self.timebase.frequency_hz - 1.0) * 1e6)
    }

    pub fn info(&self) -> ClockInfo {
        let (source, (cost, granularity)) = match self.timebase.source {
            ClockSource::Tsc => ("tsc", cost_and_granularity(&Tsc)),
            ClockSource::Monotonic => ("monotonic", cost_and_granularity(&Monotonic)),
        };
        let tick_ns = 1e9 / self.timebase.frequency_hz;
        ClockInfo {
            source: source.to_owned(),
            reason: self.reason.clone(),
            frequency_hz: self.timebase.frequency_hz,
            read_cost_ns: cost * tick_ns,
            granularity_ns: granularity * tick_ns,
            drift_ppm: None,
        }
    }
}

impl Default for Calibration {
    fn default() -> Self {
        Self::new()
    }
}

/// Cost of a reading and smallest non-zero step, in ticks. The cost is the median of the batch means.
fn cost_and_granularity(clock: &impl Clock) -> (f64, f64) {
    const BATCHES: usize = 101;
    const READINGS: u64 = 100;
    let mut smallest = u64::MAX;
    let mut costs = Vec::with_capacity(BATCHES);
    for _ in 0..BATCHES {
        let start = clock.now();
        let mut previous = start;
        for _ in 0..READINGS {
            let now = clock.now();
            if now > previous {
                smallest = smallest.min(now - previous);
            }
            previous = now;
        }
        costs.push((previous - start) as f64 / READINGS as f64);
    }
    let cost = tripmeter_stats::median(&costs).unwrap_or(0.0);
    (cost, smallest as f64)
}

/// Evaluates `$body` with `$clock` bound to the clock of a [`ClockSource`].
macro_rules! with_clock {
    ($source:expr, $clock:ident => $body:expr) => {
        match $source {
            $crate::clock::ClockSource::Tsc => {
                let $clock = $crate::clock::Tsc;
                $body
            }
            $crate::clock::ClockSource::Monotonic => {
                let $clock = $crate::clock::Monotonic;
                $body
            }
        }
    };
}
pub(crate) use with_clock;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_nanoseconds_and_back() {
        let base = Timebase { source: ClockSource::Tsc, frequency_hz: 2.5e9 };
        assert_eq!(base.to_ns(2500), 1000);
        assert_eq!(base.to_ticks(1000), 2500);
        assert_eq!(Timebase::NANOSECONDS.to_ns(7), 7);
    }

    #[test]
    fn the_clock_in_use_goes_forward_and_agrees_with_the_kernels() {
        let calibration = Calibration::new();
        // Each reading lies between two readings of the kernel's clock, however slow the machine is.
        let look = || (monotonic_ns(), calibration.timebase.now(), monotonic_ns());
        let first = look();
        std::thread::sleep(std::time::Duration::from_millis(30));
        let last = look();
        let (least, most) = ((last.0 - first.2) as f64, (last.2 - first.0) as f64);
        let passed = calibration.timebase.to_ns(last.1 - first.1) as f64;
        assert!(least * 0.99 <= passed && passed <= most * 1.01, "{least} <= {passed} <= {most}");
        let info = calibration.info();
        assert!(info.read_cost_ns > 0.0 && info.granularity_ns > 0.0, "{info:?}");
    }
}

//! The audit: what about this machine disturbs measuring, and what would fix it. It changes nothing.
//!
//! A check is a function from what was seen to a `Reading`. What the machine hides is an error of that function, and
//! becomes a finding that is not visible; it is never taken to be good. To add a check, write the function into the module
//! of its group and a line into that module's list.

mod activity;
mod clock;
mod counters;
mod frequency;
mod kernel;
mod limits;
mod parse;
mod process;
mod root;
mod spin;
mod topology;

pub use counters::Snapshot;
pub(crate) use parse::read_by_all;
pub use parse::{CpuTime, cpu_list, stat};
pub use process::this_thread;
pub use root::Root;

use crate::clock::{Calibration, Timebase};
use crate::os;
use root::Hidden;
use std::ops::RangeInclusive;
use std::time::Duration;
use tripmeter_model::audit::{Activity, Audit, CheckInfo, Finding, Hiccups, Level, NOT_VISIBLE, ProcessActivity};
use tripmeter_model::manifest::ClockInfo;
use tripmeter_model::number::fixed;

/// All groups of checks.
const GROUPS: [&[MachineCheck]; 7] = [
    frequency::CHECKS,
    topology::CHECKS,
    process::CHECKS,
    limits::CHECKS,
    kernel::CHECKS,
    activity::CHECKS,
    clock::CHECKS,
];

/// A check.
struct MachineCheck {
    info: CheckInfo,
    read: fn(&MachineObservations<'_>) -> Result<Reading, Hidden>,
}

/// All that checks look at.
struct MachineObservations<'a> {
    root: &'a Root,
    cpus: &'a [usize],
    clock: &'a ClockInfo,
    /// `None` if nothing was waited for between two readings.
    activity: Option<&'a Activity>,
    /// `None` without a spin.
    hiccups: Option<&'a [Hiccups]>,
    processes: &'a [ProcessActivity],
    /// Loads of our own that ran beside sub-experiments.
    loads: &'a [ProcessActivity],
    /// Processes of this experiment that are not children of this one cannot be distinguished from others.
    by_hand: bool,
}

impl MachineObservations<'_> {
    /// What happened between two readings of the kernel's counters.
    fn activity(&self) -> Result<&Activity, Hidden> {
        self.activity.ok_or_else(|| "nothing was waited for between two readings".to_owned())
    }

    /// CPUs of this machine that are online.
    fn online(&self) -> Vec<usize> {
        self.root.list("sys/devices/system/cpu/online").unwrap_or_else(|_| (0..os::online_cpus()).collect())
    }

    /// Puts numbers of CPUs into a fix, or replaces it where this machine has too few of them.
    fn put_in(&self, fix: &str) -> String {
        let mut others = self.online();
        others.retain(|cpu| !self.cpus.contains(cpu));
        if fix.contains("OTHERS") && others.is_empty() {
            return "stop what else runs, or take a machine with more CPUs".to_owned();
        }
        let fix = fix.replace(topology::ISOLATE, &topology::isolate(self.cpus, !others.is_empty()));
        fix.replace("CPUS", &parse::written(self.cpus)).replace("OTHERS", &parse::written(&others))
    }
}

/// What a check has read.
#[derive(Debug, PartialEq)]
struct Reading {
    level: Level,
    value: String,
    fix: Fix,
}

/// What would fix it.
#[derive(Debug, PartialEq)]
enum Fix {
    None,
    /// As the check says.
    Usual,
    This(String),
}

impl Reading {
    /// As it should be.
    fn good(value: impl Into<String>) -> Self {
        Self { level: Level::Info, value: value.into(), fix: Fix::None }
    }

    /// It may disturb, or could be better.
    fn note(value: impl Into<String>) -> Self {
        Self { fix: Fix::Usual, ..Self::good(value) }
    }

    fn warn(value: impl Into<String>) -> Self {
        Self { level: Level::Warn, ..Self::note(value) }
    }

    fn fail(value: impl Into<String>) -> Self {
        Self { level: Level::Fail, ..Self::note(value) }
    }

    /// Good, or a warning.
    fn good_if(is_good: bool, value: impl Into<String>) -> Self {
        if is_good { Self::good(value) } else { Self::warn(value) }
    }

    /// Good up to the first limit, a failure above the second.
    fn by_limits(figure: f64, warn_above: f64, fail_above: f64, value: impl Into<String>) -> Self {
        match figure {
            _ if figure > fail_above => Self::fail(value),
            _ if figure > warn_above => Self::warn(value),
            _ => Self::good(value),
        }
    }

    /// With this command instead of the usual one.
    fn fixed_by(self, fix: String) -> Self {
        Self { fix: Fix::This(fix), ..self }
    }
}

/// What all checks are about, in order.
pub fn checks() -> impl Iterator<Item = CheckInfo> {
    GROUPS.into_iter().flatten().map(|check| check.info)
}

/// Audits before an experiment, with a hiccup spin of that length, if any, on all of the CPUs at once. Without one,
/// nothing is waited for between two readings, and what happened between them is not visible.
pub fn before(root: &Root, cpus: &[usize], calibration: &Calibration, length: Option<Duration>) -> Audit {
    let clock = calibration.info();
    let spin = |length| {
        let start = Snapshot::take(root, cpus);
        let (hiccups, processes) = spin::spin(cpus, length, &calibration.timebase, &clock);
        (start.until(&Snapshot::take(root, cpus), cpus), hiccups, processes)
    };
    let (activity, hiccups, processes) = length.map(spin).unwrap_or_default();
    let findings = findings(&MachineObservations {
        root,
        cpus,
        clock: &clock,
        activity: length.map(|_| &activity),
        hiccups: seen(&hiccups),
        processes: &processes,
        loads: &[],
        by_hand: false,
    });
    Audit { cpus: cpus.to_vec(), findings, activity, hiccups, processes }
}

/// How the name of a load of our own begins, among processes.
pub const OWN_LOAD: &str = "load ";

/// The spin after an experiment is so much shorter than it,
const SPIN_AFTER: u32 = 20;
/// and has one of these lengths.
const SPINS: RangeInclusive<Duration> = Duration::from_millis(200)..=Duration::from_secs(1);

/// Audits after an experiment that began at `start`, whose processes are given; with a hiccup spin if `spin` is wanted and
/// the experiment took long enough for one.
pub fn after(
    root: &Root,
    cpus: &[usize],
    (clock, timebase): (&ClockInfo, &Timebase),
    start: &Snapshot,
    processes: &[ProcessActivity],
    by_hand: bool,
    spin: bool,
) -> Audit {
    let activity = start.until(&Snapshot::take(root, cpus), cpus);
    let length = (Duration::from_nanos(activity.duration_ns) / SPIN_AFTER).min(*SPINS.end());
    let (hiccups, spun) =
        if spin && SPINS.contains(&length) { spin::spin(cpus, length, timebase, clock) } else { Default::default() };
    let (loads, measured): (Vec<_>, Vec<_>) =
        processes.iter().cloned().partition(|process| process.who.starts_with(OWN_LOAD));
    let findings = findings(&MachineObservations {
        root,
        cpus,
        clock,
        activity: Some(&activity),
        hiccups: seen(&hiccups),
        processes: &measured,
        loads: &loads,
        by_hand,
    });
    Audit { cpus: cpus.to_vec(), findings, activity, hiccups, processes: spun }
}

/// `None` if there was no spin.
fn seen(hiccups: &[Hiccups]) -> Option<&[Hiccups]> {
    Some(hiccups).filter(|hiccups| !hiccups.is_empty())
}

fn findings(observed: &MachineObservations<'_>) -> Vec<Finding> {
    let checks = GROUPS.into_iter().flatten();
    let checks = checks.filter(|check| check.info.name != clock::HICCUPS || observed.hiccups.is_some());
    checks.map(|check| finding(check, observed)).collect()
}

fn finding(check: &MachineCheck, observed: &MachineObservations<'_>) -> Finding {
    let CheckInfo { name, limit, fix, .. } = check.info;
    let (visible, reading) = match (check.read)(observed) {
        Ok(reading) => (true, reading),
        Err(why) => (false, Reading::good(format!("{NOT_VISIBLE}: {why}"))),
    };
    let fix = match reading.fix {
        Fix::None => None,
        Fix::Usual => Some(observed.put_in(fix)),
        Fix::This(fix) => Some(observed.put_in(&fix)),
    };
    let (level, value) = (reading.level, reading.value);
    Finding { check: name.to_owned(), level, visible, value, limit: limit.to_owned(), fix }
}

/// `5.3 %`
fn percent(part_ns: u64, whole_ns: u64) -> String {
    format!("{} %", fixed(share(part_ns, whole_ns) * 100.0, 1))
}

fn share(part_ns: u64, whole_ns: u64) -> f64 {
    part_ns as f64 / whole_ns.max(1) as f64
}

/// What each of the CPUs shows, as `0: this, 1: that`, or once if they all show the same; an error if any shows
/// nothing.
fn of_each<T: PartialEq>(
    cpus: &[usize],
    read: impl Fn(usize) -> Result<T, Hidden>,
    write: impl Fn(&T) -> String,
) -> Result<(Vec<T>, String), Hidden> {
    let values = cpus.iter().map(|&cpu| read(cpu)).collect::<Result<Vec<T>, Hidden>>()?;
    let text = match values.first() {
        Some(first) if values.iter().all(|value| value == first) => write(first),
        _ => {
            let each = cpus.iter().zip(&values).map(|(cpu, value)| format!("{cpu}: {}", write(value)));
            each.collect::<Vec<_>>().join(", ")
        }
    };
    Ok((values, text))
}

/// A prepared tree of files.
#[cfg(test)]
fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, text) in files {
        let file = folder.path().join(name);
        std::fs::create_dir_all(file.parent().expect("it is in the folder")).expect("folders");
        std::fs::write(file, text).expect("a file");
    }
    let root = Root::at(folder.path());
    (folder, root)
}

#[cfg(test)]
mod tests;

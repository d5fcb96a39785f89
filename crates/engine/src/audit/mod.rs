//! Audit of the machine: what disturbs measurements here, and how to fix it. It changes nothing.
//!
//! A check is a function that returns a `Reading`. Its error says what the machine hides: the finding is then not
//! visible, and never taken as good. To add a check, write its function and add a line to the list of its module.

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

const GROUPS: [&[MachineCheck]; 7] = [
    frequency::CHECKS,
    topology::CHECKS,
    process::CHECKS,
    limits::CHECKS,
    kernel::CHECKS,
    activity::CHECKS,
    clock::CHECKS,
];

struct MachineCheck {
    info: CheckInfo,
    read: fn(&MachineObservations<'_>) -> Result<Reading, Hidden>,
}

struct MachineObservations<'a> {
    root: &'a Root,
    cpus: &'a [usize],
    clock: &'a ClockInfo,
    /// `None` unless counters were read twice.
    activity: Option<&'a Activity>,
    hiccups: Option<&'a [Hiccups]>,
    processes: &'a [ProcessActivity],
    /// Loads that Tripmeter itself ran during sub-experiments.
    loads: &'a [ProcessActivity],
    /// True if some processes of this experiment are not children of this one: the audit cannot tell them from others.
    by_hand: bool,
}

impl MachineObservations<'_> {
    fn activity(&self) -> Result<&Activity, Hidden> {
        self.activity.ok_or_else(|| "nothing was waited for between two readings".to_owned())
    }

    fn online(&self) -> Vec<usize> {
        self.root.list("sys/devices/system/cpu/online").unwrap_or_else(|_| (0..os::online_cpus()).collect())
    }

    /// Replaces `CPUS` and `OTHERS` in a fix; returns another fix on a machine that has too few CPUs.
    fn put_in(&self, fix: &str) -> String {
        let mut others = self.online();
        others.retain(|cpu| !self.cpus.contains(cpu));
        if fix.contains("OTHERS") && others.is_empty() {
            return "stop other programs, or use a machine with more CPUs".to_owned();
        }
        let fix = fix.replace(topology::ISOLATE, &topology::isolate(self.cpus, !others.is_empty()));
        fix.replace("CPUS", &parse::written(self.cpus)).replace("OTHERS", &parse::written(&others))
    }
}

#[derive(Debug, PartialEq)]
struct Reading {
    level: Level,
    value: String,
    fix: Fix,
}

#[derive(Debug, PartialEq)]
enum Fix {
    None,
    /// The fix of the check's [`CheckInfo`].
    Usual,
    This(String),
}

impl Reading {
    fn good(value: impl Into<String>) -> Self {
        Self { level: Level::Info, value: value.into(), fix: Fix::None }
    }

    /// Information with a fix: something may disturb, or could be better.
    fn note(value: impl Into<String>) -> Self {
        Self { fix: Fix::Usual, ..Self::good(value) }
    }

    fn warn(value: impl Into<String>) -> Self {
        Self { level: Level::Warn, ..Self::note(value) }
    }

    fn fail(value: impl Into<String>) -> Self {
        Self { level: Level::Fail, ..Self::note(value) }
    }

    fn good_if(is_good: bool, value: impl Into<String>) -> Self {
        if is_good { Self::good(value) } else { Self::warn(value) }
    }

    /// Good up to `warn_above`, a failure beyond `fail_above`.
    fn by_limits(figure: f64, warn_above: f64, fail_above: f64, value: impl Into<String>) -> Self {
        match figure {
            _ if figure > fail_above => Self::fail(value),
            _ if figure > warn_above => Self::warn(value),
            _ => Self::good(value),
        }
    }

    fn fixed_by(self, fix: String) -> Self {
        Self { fix: Fix::This(fix), ..self }
    }
}

pub fn checks() -> impl Iterator<Item = CheckInfo> {
    GROUPS.into_iter().flatten().map(|check| check.info)
}

/// Audits before an experiment. With `length`, all CPUs spin at once for that long to find hiccups. Without it,
/// counters are read only once, and changes in them are not visible.
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

/// Prefix of the names of Tripmeter's own loads among the processes.
pub const OWN_LOAD: &str = "load ";

/// Divisor of the experiment's duration that gives the duration of the spin after it.
const SPIN_AFTER: u32 = 20;
/// Durations of a spin after an experiment; shorter ones are left out, longer ones are cut.
const SPINS: RangeInclusive<Duration> = Duration::from_millis(200)..=Duration::from_secs(1);

/// Audits after an experiment that began at `start`. Spins for hiccups if `spin` is set and the experiment was long
/// enough.
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

fn percent(part_ns: u64, whole_ns: u64) -> String {
    format!("{} %", fixed(share(part_ns, whole_ns) * 100.0, 1))
}

fn share(part_ns: u64, whole_ns: u64) -> f64 {
    part_ns as f64 / whole_ns.max(1) as f64
}

/// Values of the CPUs and their text: `0: this, 1: that`, or one text if they are equal. Fails if any CPU has no value.
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

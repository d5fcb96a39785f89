//! Findings of all checks, before and after an experiment.

use super::check::{Fix, MachineCheck, MachineObservations, Reading};
use super::counters::Snapshot;
use super::root::Root;
use super::{activity, clock, frequency, kernel, limits, parse, process, spin, topology};
use crate::clock::{Calibration, Timebase};
use std::ops::RangeInclusive;
use std::time::Duration;
use tripmeter_model::audit::{Audit, CheckInfo, Finding, Hiccups, NOT_VISIBLE, ProcessActivity};
use tripmeter_model::manifest::ClockInfo;

const GROUPS: [&[MachineCheck]; 7] = [
    frequency::CHECKS,
    topology::CHECKS,
    process::CHECKS,
    limits::CHECKS,
    kernel::CHECKS,
    activity::CHECKS,
    clock::CHECKS,
];

pub fn checks() -> impl Iterator<Item = CheckInfo> {
    GROUPS.into_iter().flatten().map(|check| check.info)
}

/// Audits the machine before an experiment. With `length`, all CPUs spin at once for that long to find hiccups. Without
/// it, counters are read only once, and changes in them are not visible.
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
/// Range for the duration of a spin after an experiment. A spin that would be shorter is skipped, a longer one is cut.
const SPINS: RangeInclusive<Duration> = Duration::from_millis(200)..=Duration::from_secs(1);

/// Audits the machine after an experiment that began at `start`. Spins for hiccups if `spin` is set and the experiment
/// was long enough.
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

pub(super) fn findings(observed: &MachineObservations<'_>) -> Vec<Finding> {
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
        Fix::Usual => Some(put_in(observed, fix)),
        Fix::This(fix) => Some(put_in(observed, &fix)),
    };
    let (level, value) = (reading.level, reading.value);
    Finding { check: name.to_owned(), level, visible, value, limit: limit.to_owned(), fix }
}

/// Replaces `CPUS` and `OTHERS` in a fix; returns another fix on a machine that has too few CPUs.
fn put_in(observed: &MachineObservations<'_>, fix: &str) -> String {
    let mut others = observed.online();
    others.retain(|cpu| !observed.cpus.contains(cpu));
    if fix.contains("OTHERS") && others.is_empty() {
        return "stop other programs, or use a machine with more CPUs".to_owned();
    }
    let fix = fix.replace(topology::ISOLATE, &topology::isolate(observed.cpus, !others.is_empty()));
    fix.replace("CPUS", &parse::written(observed.cpus)).replace("OTHERS", &parse::written(&others))
}

//! Checks of the clock, and of hiccups seen by it.

use super::check::{Fix, MachineCheck, MachineObservations, Reading, percent, share};
use super::root::Hidden;
use tripmeter_model::audit::{CheckInfo, Level};

/// Name of the check that needs a spin.
pub(super) const HICCUPS: &str = "hiccups";
const SOURCE: &str = "sys/devices/system/clocksource/clocksource0/current_clocksource";
const OFFERED: &str = "sys/devices/system/clocksource/clocksource0/available_clocksource";
const TAKE_TSC: &str = "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource";
/// Clock sources that read a device over a slow bus.
const SLOW_SOURCES: [&str; 3] = ["hpet", "acpi_pm", "jiffies"];

pub(super) const CHECKS: &[MachineCheck] = &[
    MachineCheck {
        info: CheckInfo {
            name: "clock-source",
            source: "/sys/devices/system/clocksource/clocksource0/current_clocksource",
            limit: "warns if tripmeter cannot use the CPU's counter; fails if the kernel reads a slow device",
            fix: TAKE_TSC,
        },
        read: source,
    },
    MachineCheck {
        info: CheckInfo {
            name: "clock-cost",
            source: "measured: median time of a reading",
            limit: "warns above 100 ns; fails above 1000 ns",
            fix: TAKE_TSC,
        },
        read: cost,
    },
    MachineCheck {
        info: CheckInfo {
            name: "clock-granularity",
            source: "measured: smallest difference between two readings",
            limit: "warns above 100 ns; fails above 1000 ns",
            fix: TAKE_TSC,
        },
        read: granularity,
    },
    MachineCheck {
        info: CheckInfo {
            name: HICCUPS,
            source: "measured: gaps above 1 µs in reading the clock on all of the CPUs at once",
            limit: "warns above 1 ms, or 1 % of the time in all; fails above 10 % of the time",
            fix: "fix the warnings above; then boot with isolcpus=CPUS nohz_full=CPUS rcu_nocbs=CPUS",
        },
        read: hiccups,
    },
];

fn source(observed: &MachineObservations<'_>) -> Result<Reading, Hidden> {
    let kernel = observed.root.text(SOURCE)?;
    let value = match &observed.clock.reason {
        Some(reason) => format!("kernel {kernel}, ours {}: {reason}", observed.clock.source),
        None => format!("kernel {kernel}, ours {}", observed.clock.source),
    };
    let is_counter = observed.clock.source == "tsc" || kernel == "arch_sys_counter";
    let is_slow = SLOW_SOURCES.contains(&kernel.as_str());
    Ok(feasible(observed, if is_slow { Reading::fail(value) } else { Reading::good_if(is_counter, value) }))
}

/// Replaces the fix if the kernel offers no `tsc`, or already uses it.
fn feasible(observed: &MachineObservations<'_>, reading: Reading) -> Reading {
    let offered = observed.root.text(OFFERED).unwrap_or_default();
    let fix = match observed.root.text(SOURCE) {
        _ if reading.fix == Fix::None => return reading,
        Ok(taken) if taken == "tsc" => "measure on hardware: the kernel already uses tsc".to_owned(),
        _ if offered.is_empty() || offered.split_whitespace().any(|source| source == "tsc") => return reading,
        _ => format!("measure on hardware with a steady tsc: the kernel offers only {offered}"),
    };
    reading.fixed_by(fix)
}

fn cost(observed: &MachineObservations<'_>) -> Result<Reading, Hidden> {
    let ns = observed.clock.read_cost_ns;
    Ok(feasible(observed, Reading::by_limits(ns, 100.0, 1000.0, format!("{ns:.1} ns"))))
}

fn granularity(observed: &MachineObservations<'_>) -> Result<Reading, Hidden> {
    let ns = observed.clock.granularity_ns;
    Ok(feasible(observed, Reading::by_limits(ns, 100.0, 1000.0, format!("{ns:.1} ns"))))
}

fn hiccups(observed: &MachineObservations<'_>) -> Result<Reading, Hidden> {
    let hiccups = observed.hiccups.unwrap_or_default();
    if hiccups.len() < observed.cpus.len() {
        return Err("a thread for each of the CPUs could not be started".to_owned());
    }
    if let Some(not) = hiccups.iter().find_map(|one| Some((one.cpu, one.not_bound.as_ref()?))) {
        return Err(format!("CPU {} cannot be used: {}", not.0, not.1));
    }
    let microseconds = |ns: u64| ns as f64 / 1e3;
    let each = hiccups.iter().map(|one| {
        let lost = percent(one.lost_ns, one.duration_ns);
        let (gaps, p99, max) = (one.gaps, microseconds(one.p99_ns), microseconds(one.max_ns));
        format!("{}: {gaps} gaps, p99 {p99:.1} µs, max {max:.1} µs, {lost} lost", one.cpu)
    });
    let value = each.collect::<Vec<_>>().join("; ");
    let longest_ns = hiccups.iter().map(|one| one.max_ns).max().unwrap_or(0);
    let lost = hiccups.iter().map(|one| share(one.lost_ns, one.duration_ns)).fold(0.0, f64::max);
    let reading = Reading::by_limits(lost, 0.01, 0.1, value);
    let is_long = longest_ns > 1_000_000 && reading.level == Level::Info;
    Ok(if is_long { Reading::warn(reading.value) } else { reading })
}

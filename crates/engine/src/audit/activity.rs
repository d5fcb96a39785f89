//! Checks of other load on the CPUs during the experiment.

use super::check::{MachineCheck, MachineObservations, Reading, percent, share};
use super::counters::control_groups;
use super::kernel::is_guest;
use super::parse::TICK_NS;
use super::root::Hidden;
use tripmeter_model::audit::{CheckInfo, Interrupts};
use tripmeter_model::count::saturating_sum;

/// Largest error of a time that is counted in ticks: one tick at each end.
const BLUR_NS: u64 = 2 * TICK_NS;
/// CPUs that a leader and a follower keep busy when both poll.
const NEEDED_CPUS: f64 = 2.0;

pub(super) const CHECKS: &[MachineCheck] = &[
    MachineCheck {
        info: CheckInfo {
            name: "steal",
            source: "/proc/stat: steal of the CPUs, difference",
            limit: "warns above 1 % of the time; fails above 10 %",
            fix: "measure where CPUs are not shared, or on hardware; no command here can fix this",
        },
        read: steal,
    },
    MachineCheck {
        info: CheckInfo {
            name: "pressure",
            source: "/proc/pressure/{cpu,memory,io}: some, difference",
            limit: "warns if something waits for a CPU more than 10 % of the time, or for memory more than 1 %",
            fix: "find out what runs, and stop it: top -b -n 1 | head -n 20",
        },
        read: pressure,
    },
    MachineCheck {
        info: CheckInfo {
            name: "cgroup-throttling",
            source: "cpu.stat, cpu.max (cpu.cfs_quota_us) of the process's control groups, difference",
            limit: "warns if a quota allows less than two CPUs; fails if it was used up",
            fix: "sudo systemctl set-property --runtime UNIT CPUQuota= (docker: docker update --cpus 0 CONTAINER)",
        },
        read: throttling,
    },
    MachineCheck {
        info: CheckInfo {
            name: "interrupts",
            source: "/proc/interrupts of the CPUs, difference",
            limit: "warns above 100 per second from devices",
            fix: "for irq in /proc/irq/*/smp_affinity_list; do echo OTHERS | sudo tee $irq; done",
        },
        read: interrupts,
    },
    MachineCheck {
        info: CheckInfo {
            name: "load",
            source: "/proc/stat less our own time, and /proc/*/stat, difference",
            limit: "warns if others use more than 10 % of a CPU; fails above half of all CPUs",
            fix: "stop other programs, or bind them elsewhere: taskset -pc OTHERS PID",
        },
        read: load,
    },
];

fn steal(observed: &MachineObservations<'_>) -> Result<Reading, Hidden> {
    let activity = observed.activity()?;
    let stolen: Option<Vec<u64>> = activity.cpus.iter().map(|cpu| cpu.steal_ns).collect();
    let most_ns = stolen.ok_or("/proc/stat does not show the CPUs")?.into_iter().max().unwrap_or(0);
    let never = || observed.root.parsed("proc/stat", steal_since_boot).is_ok_and(|ticks| ticks == 0);
    if is_guest(observed.root).unwrap_or(false) && never() {
        return Err("the hypervisor has reported none since the start; it may never report any".to_owned());
    }
    let value = format!("{} of the time", percent(most_ns, activity.duration_ns));
    let share = if most_ns > BLUR_NS { share(most_ns, activity.duration_ns) } else { 0.0 };
    Ok(Reading::by_limits(share, 0.01, 0.1, value))
}

/// Steal time of all CPUs since boot, in ticks.
///
/// # Source
/// The first line of proc_stat(5).
fn steal_since_boot(stat: &str) -> Option<u64> {
    stat.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace().nth(7)?.parse().ok()
}

fn pressure(observed: &MachineObservations<'_>) -> Result<Reading, Hidden> {
    let activity = observed.activity()?;
    let (pressure, duration_ns) = (&activity.pressure, activity.duration_ns);
    let cpu_ns = pressure.cpu_ns.ok_or("/proc/pressure/cpu cannot be read; boot with psi=1 to have it")?;
    let shown = |ns: Option<u64>| ns.map_or("not visible here".to_owned(), |ns| percent(ns, duration_ns));
    let value =
        format!("CPU {}, memory {}, disk {}", shown(Some(cpu_ns)), shown(pressure.memory_ns), shown(pressure.io_ns));
    let for_memory = share(pressure.memory_ns.unwrap_or(0), duration_ns);
    Ok(Reading::good_if(share(cpu_ns, duration_ns) <= 0.1 && for_memory <= 0.01, value))
}

fn throttling(observed: &MachineObservations<'_>) -> Result<Reading, Hidden> {
    let groups = control_groups(observed.root);
    if groups.is_empty() {
        return Err("no control group of this process shows its limits".to_owned());
    }
    let quotas = groups.iter().filter_map(|group| Some((group.quota?, group.name.as_str())));
    let least = quotas.min_by(|one, other| one.0.total_cmp(&other.0));
    // The root control group has no such file.
    let is_inside = observed.root.text("sys/fs/cgroup/cgroup.events").is_ok();
    let none =
        if is_inside { "no quota; quotas of groups outside the container are not visible here" } else { "no quota" };
    let quota = least.map_or(none.to_owned(), |(cpus, name)| format!("quota of {cpus:.2} CPUs ({name})"));
    let is_enough = least.is_none_or(|(cpus, _)| cpus >= NEEDED_CPUS);
    let throttled = observed.activity().and_then(|activity| {
        let throttled = activity.throttled.ok_or_else(|| format!("{quota}; whether it throttled is unknown"))?;
        Ok((throttled.periods, percent(throttled.time_ns, activity.duration_ns)))
    });
    match throttled {
        Ok((0, _)) => Ok(Reading::good_if(is_enough, format!("not throttled; {quota}"))),
        Ok((periods, share)) => {
            Ok(Reading::fail(format!("throttled {periods} times, for {share} of the time; {quota}")))
        }
        // A quota is visible without a second reading.
        Err(_) if !is_enough => Ok(Reading::warn(format!("{quota}; whether it throttled is not visible here"))),
        Err(hidden) => Err(hidden),
    }
}

fn interrupts(observed: &MachineObservations<'_>) -> Result<Reading, Hidden> {
    let activity = observed.activity()?;
    let counts: Option<Vec<_>> = activity.cpus.iter().map(|cpu| cpu.interrupts).collect();
    let counts = counts.ok_or("/proc/interrupts does not show the CPUs")?;
    let seconds = activity.duration_ns.max(1) as f64 / 1e9;
    let most = |of: fn(&Interrupts) -> u64| counts.iter().map(of).max().unwrap_or(0) as f64 / seconds;
    let (device, timer, other) = (most(|count| count.device), most(|count| count.timer), most(|count| count.other));
    let value = format!("up to {device:.0}/s by devices, {timer:.0}/s by the timer, {other:.0}/s others");
    Ok(Reading::good_if(device <= 100.0, value))
}

fn load(observed: &MachineObservations<'_>) -> Result<Reading, Hidden> {
    if observed.by_hand {
        return Err("a follower started by hand cannot be told apart from other programs".to_owned());
    }
    let activity = observed.activity()?;
    let duration_ns = activity.duration_ns;
    let others_ns = activity.others_ns.ok_or("/proc/stat does not show the CPUs")?;
    let busiest = activity
        .busiest
        .iter()
        .map(|process| format!("{} ({}) {}", process.name, process.pid, percent(process.cpu_time_ns, duration_ns)));
    let busiest = busiest.collect::<Vec<_>>().join(", ");
    let named = if busiest.is_empty() { "no other process is visible here".to_owned() } else { busiest };
    let own_ns = saturating_sum(observed.loads.iter().map(|load| load.cpu_time_ns));
    let own = if observed.loads.is_empty() {
        String::new()
    } else {
        format!("; --background used {}", percent(own_ns, duration_ns))
    };
    let value = format!("others used {} of a CPU: {named}{own}", percent(others_ns, duration_ns));
    let share = if others_ns > BLUR_NS { share(others_ns, duration_ns) } else { 0.0 };
    let half = crate::os::online_cpus() as f64 / 2.0;
    Ok(Reading::by_limits(share, 0.1, half, value))
}

//! Checks of cores, NUMA nodes and idle states.

use super::check::{MachineCheck, MachineObservations, Reading, of_each, percent, share};
use super::kernel::is_guest;
use super::parse;
use super::root::{Hidden, cpu_folder};
use tripmeter_model::audit::CheckInfo;

/// Longest acceptable wake-up from an idle state; a longer one would exceed many round trips.
const LONGEST_WAKING_US: u64 = 10;
const BUSY_SIBLING: f64 = 0.05;
/// Fix for CPUs that are not isolated; see [`isolate`].
pub(super) const ISOLATE: &str = "boot with isolcpus=CPUS nohz_full=CPUS rcu_nocbs=CPUS";
/// CPU that keeps the system time, and so cannot stop its tick.
///
/// # Source
/// Documentation/timers/no_hz.rst of Linux: the boot CPU cannot be adaptive-ticks
const BOOT_CPU: usize = 0;

pub(super) const CHECKS: &[MachineCheck] = &[
    MachineCheck {
        info: CheckInfo {
            name: "smt-siblings",
            source: "/sys/devices/system/cpu/cpu*/topology/thread_siblings_list, and /proc/stat of the siblings, difference",
            limit: "warns if two of the CPUs share a core, or a sibling is busy more than 5 % of the time",
            fix: "tripmeter run --leader-cpu N --follower-cpu M with CPUs of two cores",
        },
        read: siblings,
    },
    MachineCheck {
        info: CheckInfo {
            name: "c-states",
            source: "/sys/devices/system/cpu/cpu*/cpuidle/state*/{latency,disable}",
            limit: "warns if waking takes more than 10 µs",
            fix: "sudo cpupower -c CPUS idle-set -D 10",
        },
        read: idle_states,
    },
    MachineCheck {
        info: CheckInfo {
            name: "isolation",
            source: "/sys/devices/system/cpu/{isolated,nohz_full}",
            limit: "info only: the checks `load` and `hiccups` show the effect",
            fix: ISOLATE,
        },
        read: isolation,
    },
    MachineCheck {
        info: CheckInfo {
            name: "numa",
            source: "/sys/devices/system/node/node*/cpulist, /proc/sys/kernel/numa_balancing",
            limit: "warns if the CPUs are on several nodes",
            fix: "tripmeter run --leader-cpu N --follower-cpu M with CPUs of one node",
        },
        read: numa,
    },
];

fn siblings(observed: &MachineObservations<'_>) -> Result<Reading, Hidden> {
    let read = |cpu: usize| {
        let mut list = observed.root.list(&(cpu_folder(cpu) + "/topology/thread_siblings_list"))?;
        list.retain(|other| *other != cpu);
        Ok::<_, Hidden>(list)
    };
    let lists = observed.cpus.iter().map(|&cpu| read(cpu)).collect::<Result<Vec<_>, _>>()?;
    let among = |list: &Vec<usize>| list.iter().any(|sibling| observed.cpus.contains(sibling));
    if lists.iter().any(among) {
        let reading = Reading::warn(format!("CPUs {} share a core", parse::written(observed.cpus)));
        let has_cores = observed.online().iter().any(|cpu| !lists[0].contains(cpu) && *cpu != observed.cpus[0]);
        let one_core = "use a machine with more cores: this one has one";
        return Ok(if has_cores { reading } else { reading.fixed_by(one_core.to_owned()) });
    }
    let siblings: Vec<usize> = lists.into_iter().flatten().collect();
    if siblings.is_empty() {
        return of_host(observed, "which of its CPUs share a core")?.map_or(Ok(Reading::good("none")), Err);
    }
    let activity = observed.activity()?;
    let busy_ns = activity.cpus.iter().filter_map(|cpu| cpu.sibling_busy_ns).max();
    let files: Vec<String> = siblings.iter().map(|cpu| format!("{}/online", cpu_folder(*cpu))).collect();
    // The boot CPU often lacks this file, and cannot be taken offline.
    let fix = match files.iter().all(|file| observed.root.path(file).exists()) {
        true => format!("echo 0 | sudo tee /{}", files.join(" /")),
        false => {
            "keep them idle (taskset -pc OTHERS PID), or measure on CPUs whose siblings can be taken offline".to_owned()
        }
    };
    let value = format!("siblings {} share their cores", parse::written(&siblings));
    let duration_ns = activity.duration_ns;
    let reading = match busy_ns {
        None => Reading::warn(format!("{value}; how busy they are is not visible here")),
        Some(ns) if share(ns, duration_ns) > BUSY_SIBLING => {
            Reading::warn(format!("{value}, busy for {}", percent(ns, duration_ns)))
        }
        Some(ns) => Reading::note(format!("{value}, busy for {}", percent(ns, duration_ns))),
    };
    Ok(reading.fixed_by(fix))
}

fn idle_states(observed: &MachineObservations<'_>) -> Result<Reading, Hidden> {
    let deepest = |cpu: usize| {
        let folder = cpu_folder(cpu) + "/cpuidle";
        let states = observed.root.names(&folder).into_iter().filter(|name| name.starts_with("state"));
        let read = |state: String| {
            let file = |name: &str| format!("{folder}/{state}/{name}");
            let disabled = observed.root.number(&file("disable")).unwrap_or(0) != 0;
            let latency = observed.root.number(&file("latency")).ok().filter(|_| !disabled)?;
            Some((latency, observed.root.text(&file("name")).unwrap_or(state)))
        };
        states.filter_map(read).max().ok_or_else(|| format!("/{folder} has no states"))
    };
    let (states, text) =
        of_each(observed.cpus, deepest, |(latency, name)| format!("deepest {name}, {latency} µs to wake"))?;
    Ok(Reading::good_if(states.iter().all(|(latency, _)| *latency <= LONGEST_WAKING_US), text))
}

fn isolation(observed: &MachineObservations<'_>) -> Result<Reading, Hidden> {
    let isolated = observed.root.list("sys/devices/system/cpu/isolated")?;
    // The file contains `(null)` if there are none.
    let quiet = observed.root.list("sys/devices/system/cpu/nohz_full").unwrap_or_default();
    let state = |cpu: usize| Ok((isolated.contains(&cpu), quiet.contains(&cpu)));
    let (states, text) = of_each(observed.cpus, state, |(isolated, quiet)| {
        let not = |is: &bool| if *is { "" } else { "not " };
        format!("{}isolated, {}without tick", not(isolated), not(quiet))
    })?;
    let is_best = states.iter().all(|&(isolated, quiet)| isolated && quiet);
    Ok(if is_best { Reading::good(text) } else { Reading::note(text) })
}

/// Fix for CPUs that are not isolated. The kernel needs a CPU that is not isolated, and the boot CPU keeps its tick.
pub(super) fn isolate(cpus: &[usize], has_others: bool) -> String {
    let several = if cpus.len() == 1 { "N" } else { "N,M" };
    match (has_others, cpus.contains(&BOOT_CPU)) {
        (false, _) => {
            "use a machine with more CPUs: all are used for measuring, and the kernel needs one for itself".to_owned()
        }
        (true, true) => {
            let boot = ISOLATE.replace("CPUS", several);
            format!(
                "{boot}, CPUs other than {BOOT_CPU}, which the kernel needs, and measure there (--leader-cpu, --follower-cpu)"
            )
        }
        (true, false) => ISOLATE.to_owned(),
    }
}

/// Reason to distrust the topology that a virtual machine shows, as it may be made up; `None` on hardware.
fn of_host(observed: &MachineObservations<'_>, what: &str) -> Result<Option<Hidden>, Hidden> {
    Ok(is_guest(observed.root)?.then(|| format!("a virtual machine does not show {what}")))
}

fn numa(observed: &MachineObservations<'_>) -> Result<Reading, Hidden> {
    let folder = "sys/devices/system/node";
    let names = observed.root.names(folder);
    let numbered = |name: &str| name.strip_prefix("node").is_some_and(|number| number.parse::<u32>().is_ok());
    let nodes: Vec<String> = names.into_iter().filter(|name| numbered(name)).collect();
    let (mut used, mut has_pair) = (Vec::new(), false);
    for node in &nodes {
        let cpus = observed.root.list(&format!("{folder}/{node}/cpulist"))?;
        has_pair |= cpus.len() > 1;
        if observed.cpus.iter().any(|cpu| cpus.contains(cpu)) {
            used.push(node.as_str());
        }
    }
    if used.is_empty() {
        return Err(format!("/{folder} shows no node of the CPUs"));
    }
    let balancing = match observed.root.number("proc/sys/kernel/numa_balancing") {
        Ok(0) => "off",
        Ok(_) => "on",
        Err(_) => "not visible here",
    };
    let value = format!("{} of {} nodes; balancing {balancing}", used.join(", "), nodes.len());
    if nodes.len() == 1
        && let Some(hidden) = of_host(observed, "on which nodes of its host it is")?
    {
        return Err(hidden);
    }
    Ok(match (used.len(), nodes.len()) {
        (1, 1) => Reading::good(value),
        (1, _) if balancing == "on" => {
            Reading::note(value).fixed_by("echo 0 | sudo tee /proc/sys/kernel/numa_balancing".to_owned())
        }
        (1, _) => Reading::good(value),
        _ if !has_pair => Reading::warn(value).fixed_by("use a machine whose nodes have two CPUs or more".to_owned()),
        _ => Reading::warn(value),
    })
}

//! Where the CPUs are, what shares them, and how they sleep.

use super::kernel::is_guest;
use super::root::{Hidden, cpu_folder};
use super::{MachineCheck, MachineObservations, Reading, of_each, parse, percent, share};
use tripmeter_model::audit::CheckInfo;

/// Waking from deeper states costs more than many a round trip.
const LONGEST_WAKING_US: u64 = 10;
const BUSY_SIBLING: f64 = 0.05;

pub(super) const CHECKS: &[MachineCheck] = &[
    MachineCheck {
        info: CheckInfo {
            name: "smt-siblings",
            source: "/sys/devices/system/cpu/cpu*/topology/thread_siblings_list, and /proc/stat of the siblings, difference",
            limit: "warn if two of the CPUs share a core, or if a sibling is busy for more than 5 % of the time",
            fix: "tripmeter run --leader-cpu N --follower-cpu M with CPUs of two cores",
        },
        read: siblings,
    },
    MachineCheck {
        info: CheckInfo {
            name: "c-states",
            source: "/sys/devices/system/cpu/cpu*/cpuidle/state*/{latency,disable}",
            limit: "warn if waking takes more than 10 µs",
            fix: "sudo cpupower -c CPUS idle-set -D 10",
        },
        read: idle_states,
    },
    MachineCheck {
        info: CheckInfo {
            name: "isolation",
            source: "/sys/devices/system/cpu/{isolated,nohz_full}",
            limit: "info only: the load of others and the hiccups tell what it costs",
            fix: "boot with isolcpus=CPUS nohz_full=CPUS rcu_nocbs=CPUS",
        },
        read: isolation,
    },
    MachineCheck {
        info: CheckInfo {
            name: "numa",
            source: "/sys/devices/system/node/node*/cpulist, /proc/sys/kernel/numa_balancing",
            limit: "warn if the CPUs are of several nodes",
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
        return Ok(Reading::warn(format!("CPUs {} share a core", parse::written(observed.cpus))));
    }
    let siblings: Vec<usize> = lists.into_iter().flatten().collect();
    if siblings.is_empty() {
        return of_host(observed, "which of its CPUs share a core")?.map_or(Ok(Reading::good("none")), Err);
    }
    let activity = observed.activity()?;
    let busy_ns = activity.cpus.iter().filter_map(|cpu| cpu.sibling_busy_ns).max();
    let files = siblings.iter().map(|cpu| format!("/{}/online", cpu_folder(*cpu))).collect::<Vec<_>>().join(" ");
    let fix = format!("echo 0 | sudo tee {files}");
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
    // Says `(null)` where there are none.
    let quiet = observed.root.list("sys/devices/system/cpu/nohz_full").unwrap_or_default();
    let state = |cpu: usize| Ok((isolated.contains(&cpu), quiet.contains(&cpu)));
    let (states, text) = of_each(observed.cpus, state, |(isolated, quiet)| {
        let not = |is: &bool| if *is { "" } else { "not " };
        format!("{}isolated, {}without tick", not(isolated), not(quiet))
    })?;
    let is_best = states.iter().all(|&(isolated, quiet)| isolated && quiet);
    Ok(if is_best { Reading::good(text) } else { Reading::note(text) })
}

/// What a virtual machine does not show of its host: what it shows may be made up.
fn of_host(observed: &MachineObservations<'_>, what: &str) -> Result<Option<Hidden>, Hidden> {
    Ok(is_guest(observed.root)?.then(|| format!("a virtual machine does not show {what}")))
}

fn numa(observed: &MachineObservations<'_>) -> Result<Reading, Hidden> {
    let folder = "sys/devices/system/node";
    let names = observed.root.names(folder);
    let numbered = |name: &str| name.strip_prefix("node").is_some_and(|number| number.parse::<u32>().is_ok());
    let nodes: Vec<String> = names.into_iter().filter(|name| numbered(name)).collect();
    let mut used = Vec::new();
    for node in &nodes {
        let cpus = observed.root.list(&format!("{folder}/{node}/cpulist"))?;
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
        _ => Reading::warn(value),
    })
}

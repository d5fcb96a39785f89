//! Checks of the kernel and the hypervisor.

use super::check::{MachineCheck, MachineObservations, Reading};
use super::parse;
use super::root::{Hidden, Root};
use tripmeter_model::audit::CheckInfo;

const HUGE_PAGES: &str = "sys/kernel/mm/transparent_hugepage";
const WEAKNESSES: &str = "sys/devices/system/cpu/vulnerabilities";
/// Kernel parameters that affect latency; one that ends with a dot is a prefix.
const PARAMETERS: [&str; 24] = [
    "idle",
    "isolcpus",
    "irqaffinity",
    "nohz",
    "nohz_full",
    "rcu_nocbs",
    "rcu_nocb_poll",
    "nosmt",
    "mitigations",
    "maxcpus",
    "nr_cpus",
    "preempt",
    "threadirqs",
    "skew_tick",
    "tsc",
    "clocksource",
    "nmi_watchdog",
    "nowatchdog",
    "transparent_hugepage",
    "intel_pstate",
    "amd_pstate",
    "intel_idle.",
    "processor.",
    "cpuidle",
];

pub(super) const CHECKS: &[MachineCheck] = &[
    MachineCheck {
        info: CheckInfo {
            name: "hypervisor",
            source: "/proc/cpuinfo: flags, /sys/class/dmi/id, /sys/hypervisor/type",
            limit: "warns if there is one",
            fix: "measure on hardware, or where CPUs are not shared; no command here can fix it",
        },
        read: hypervisor,
    },
    MachineCheck {
        info: CheckInfo {
            name: "kernel-command-line",
            source: "/proc/cmdline",
            limit: "info only: kernel parameters that affect latency",
            fix: "",
        },
        read: command_line,
    },
    MachineCheck {
        info: CheckInfo {
            name: "mitigations",
            source: "/sys/devices/system/cpu/vulnerabilities/*",
            limit: "info only: mitigations make system calls slower",
            fix: "boot with mitigations=off, but only where all software is trusted",
        },
        read: mitigations,
    },
    MachineCheck {
        info: CheckInfo {
            name: "transparent-hugepages",
            source: "/sys/kernel/mm/transparent_hugepage/{enabled,defrag}",
            limit: "warns if 'always': the kernel then moves memory in the background",
            fix: "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
        },
        read: huge_pages,
    },
];

pub(super) fn is_guest(root: &Root) -> Result<bool, Hidden> {
    root.parsed("proc/cpuinfo", |text| {
        let line = text.lines().find(|line| line.starts_with("flags"))?;
        Some(line.split_once(':')?.1.split_whitespace().any(|flag| flag == "hypervisor"))
    })
}

fn hypervisor(observed: &MachineObservations<'_>) -> Result<Reading, Hidden> {
    let flags = is_guest(observed.root);
    let names = ["sys/class/dmi/id/sys_vendor", "sys/class/dmi/id/product_name", "sys/hypervisor/type"];
    let names = names.iter().filter_map(|file| observed.root.text(file).ok()).filter(|name| !name.is_empty());
    let names = names.collect::<Vec<_>>().join(", ");
    let named = if names.is_empty() { "its name is not visible here".to_owned() } else { names };
    Ok(if flags? { Reading::warn(format!("yes; {named}")) } else { Reading::good(format!("none; {named}")) })
}

fn command_line(observed: &MachineObservations<'_>) -> Result<Reading, Hidden> {
    let text = observed.root.text("proc/cmdline")?;
    let is_named = |word: &&str| {
        let key = word.split('=').next().unwrap_or_default();
        PARAMETERS.iter().any(|name| key == *name || name.ends_with('.') && key.starts_with(name))
    };
    let found: Vec<&str> = text.split_whitespace().filter(is_named).collect();
    Ok(Reading::good(if found.is_empty() { "none of them".to_owned() } else { found.join(" ") }))
}

fn mitigations(observed: &MachineObservations<'_>) -> Result<Reading, Hidden> {
    let names = observed.root.names(WEAKNESSES);
    let state = |name: &String| observed.root.text(&format!("{WEAKNESSES}/{name}"));
    let states = names.iter().map(state).collect::<Result<Vec<_>, _>>()?;
    if states.is_empty() {
        return Err(format!("/{WEAKNESSES} is not there"));
    }
    let mitigated = names.iter().zip(&states).filter(|(_, state)| state.starts_with("Mitigation"));
    let mitigated: Vec<&str> = mitigated.map(|(name, _)| name.as_str()).collect();
    let open = states.iter().filter(|state| state.starts_with("Vulnerable")).count();
    let value = format!("{} of {} mitigated, {open} vulnerable", mitigated.len(), states.len());
    Ok(if mitigated.is_empty() {
        Reading::good(value)
    } else {
        Reading::note(format!("{value}: {}", mitigated.join(", ")))
    })
}

fn huge_pages(observed: &MachineObservations<'_>) -> Result<Reading, Hidden> {
    let enabled = observed.root.parsed(&format!("{HUGE_PAGES}/enabled"), parse::chosen)?;
    let defrag = observed.root.parsed(&format!("{HUGE_PAGES}/defrag"), parse::chosen);
    let value = format!("{enabled}; defrag {}", defrag.as_deref().unwrap_or("not visible here"));
    Ok(Reading::good_if(enabled != "always", value))
}

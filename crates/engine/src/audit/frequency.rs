//! Checks of CPU frequency.

use super::check::{MachineCheck, MachineObservations, Reading, of_each};
use super::root::{Hidden, cpu_folder};
use tripmeter_model::audit::{CheckInfo, Level};

const NO_TURBO: &str = "sys/devices/system/cpu/intel_pstate/no_turbo";
const PERFORMANCE: &str = "performance";
const BOOST: &str = "sys/devices/system/cpu/cpufreq/boost";

pub(super) const CHECKS: &[MachineCheck] = &[
    MachineCheck {
        info: CheckInfo {
            name: "frequency-governor",
            source: "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
            limit: "warns if not 'performance'",
            fix: "sudo cpupower -c CPUS frequency-set -g performance",
        },
        read: governor,
    },
    MachineCheck {
        info: CheckInfo {
            name: "turbo",
            source: "/sys/devices/system/cpu/cpufreq/boost, …/intel_pstate/no_turbo",
            limit: "warns if on",
            fix: "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost",
        },
        read: turbo,
    },
    MachineCheck {
        info: CheckInfo {
            name: "thermal-throttling",
            source: "/sys/devices/system/cpu/cpu*/thermal_throttle/*_throttle_count, difference",
            limit: "fails above 0",
            fix: "let it cool, or run slower: sudo cpupower -c CPUS frequency-set -u 2GHz",
        },
        read: thermal,
    },
];

fn governor(observed: &MachineObservations<'_>) -> Result<Reading, Hidden> {
    let read = |cpu| observed.root.text(&(cpu_folder(cpu) + "/cpufreq/scaling_governor"));
    let (governors, text) = of_each(observed.cpus, read, String::clone)?;
    let reading = Reading::good_if(governors.iter().all(|governor| governor == PERFORMANCE), text);
    let offers = |cpu: &usize| {
        let offered = observed.root.text(&(cpu_folder(*cpu) + "/cpufreq/scaling_available_governors"));
        offered.map_or(true, |offered| offered.split_whitespace().any(|governor| governor == PERFORMANCE))
    };
    Ok(match reading.level {
        Level::Warn if !observed.cpus.iter().all(offers) => reading
            .fixed_by(format!("boot a kernel with governor '{PERFORMANCE}', or set the frequency in the firmware")),
        _ => reading,
    })
}

fn turbo(observed: &MachineObservations<'_>) -> Result<Reading, Hidden> {
    if let Ok(off) = observed.root.number(NO_TURBO) {
        let fix = format!("echo 1 | sudo tee /{NO_TURBO}");
        return Ok(if off == 1 { Reading::good("off") } else { Reading::warn("on").fixed_by(fix) });
    }
    let on = observed.root.number(BOOST)?;
    Ok(if on == 0 { Reading::good("off") } else { Reading::warn("on") })
}

fn thermal(observed: &MachineObservations<'_>) -> Result<Reading, Hidden> {
    let counts: Option<Vec<u64>> = observed.activity()?.cpus.iter().map(|cpu| cpu.thermal_throttles).collect();
    let times = counts.ok_or("no counts in cpu*/thermal_throttle")?.iter().sum::<u64>();
    let failed = Reading::fail(format!("{times} times"));
    let has_frequency = |cpu: &usize| observed.root.path(&(cpu_folder(*cpu) + "/cpufreq")).exists();
    Ok(match times {
        0 => Reading::good("0 times"),
        _ if observed.cpus.iter().all(has_frequency) => failed,
        _ => failed.fixed_by("let it cool".to_owned()),
    })
}

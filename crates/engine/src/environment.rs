//! What the machine says of itself.

use crate::clock::Calibration;
use crate::os;
use std::fs;
use std::path::Path;
use tripmeter_model::manifest::{Environment, LoadSnapshot};

/// The machine and its clock, before the first sub-experiment.
pub fn environment(calibration: &Calibration) -> Environment {
    let cpu_info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = cpu_info.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let flags = field("flags").unwrap_or_default();
    Environment {
        manufacturer: firmware("sys_vendor"),
        model: firmware("product_name"),
        kernel: tripmeter_abi::kernel_version(),
        cpu_model: field("model name").unwrap_or_else(|| "not visible here".to_owned()),
        cpus: os::allowed_cpus(),
        virtual_machine: flags.split(' ').any(|flag| flag == "hypervisor"),
        memory_bytes: memory_bytes(),
        clock: calibration.info(),
        before: load(),
        after: None,
        audit_before: None,
        audit_after: None,
    }
}

/// What the firmware says, unless that is nothing or a placeholder.
fn firmware(name: &str) -> Option<String> {
    let text = fs::read_to_string(Path::new("/sys/class/dmi/id").join(name)).ok()?;
    let text = text.trim();
    let says_something = !text.is_empty() && !text.starts_with("To Be Filled") && text != "Default string";
    says_something.then(|| text.to_owned())
}

fn memory_bytes() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("MemTotal:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kibibytes.unwrap_or(0) * 1024
}

/// How busy the machine is now.
pub fn load() -> LoadSnapshot {
    const TICK_NS: u64 = 10_000_000;
    let average = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    // The first line sums all processors; steal is its eighth number.
    let steal = stat.lines().next().and_then(|line| line.split_whitespace().nth(8)?.parse::<u64>().ok());
    LoadSnapshot {
        load_1min: average.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0.0),
        steal_ns: steal.unwrap_or(0) * TICK_NS,
    }
}

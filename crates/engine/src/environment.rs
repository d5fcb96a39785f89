use crate::clock::Calibration;
use crate::os;
use procfs::{CpuInfo, Current, CurrentSI, KernelStats, Meminfo};
use std::fs;
use std::path::Path;
use tripmeter_model::manifest::{Environment, LoadSnapshot};

pub fn environment(calibration: &Calibration) -> Environment {
    let cpu_info = CpuInfo::current().ok();
    let field = |name| cpu_info.as_ref()?.get_field(0, name);
    Environment {
        manufacturer: firmware("sys_vendor"),
        model: firmware("product_name"),
        kernel: tripmeter_abi::kernel_version(),
        cpu_model: field("model name").unwrap_or("not visible here").to_owned(),
        cpus: os::allowed_cpus(),
        virtual_machine: field("flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
        memory_bytes: Meminfo::current().map_or(0, |memory| memory.mem_total),
        clock: calibration.info(),
        memory_copy: Vec::new(),
        before: load(),
        after: None,
        audit_before: None,
        audit_after: None,
        hosts: Vec::new(),
    }
}

/// Firmware field in `/sys/class/dmi/id`; `None` if it is empty or a placeholder.
fn firmware(name: &str) -> Option<String> {
    let text = fs::read_to_string(Path::new("/sys/class/dmi/id").join(name)).ok()?;
    let text = text.trim();
    let says_something = !text.is_empty() && !text.starts_with("To Be Filled") && text != "Default string";
    says_something.then(|| text.to_owned())
}

pub fn load() -> LoadSnapshot {
    const TICK_NS: u64 = 10_000_000;
    // procfs parses it as `f32`, which changes the number that the kernel wrote.
    let average = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let steal = KernelStats::current().ok().and_then(|all| all.total.steal);
    LoadSnapshot {
        load_1min: average.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0.0),
        steal_ns: steal.unwrap_or(0) * TICK_NS,
    }
}

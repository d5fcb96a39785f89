//! Parsers of the kernel's formats. Malformed text gives `None`, never a wrong number.
//!
//! Only `process` uses procfs: its other parsers require lines that Tripmeter does not need, and refuse `pressure/cpu`
//! of kernels before 5.13.

use procfs::FromRead;
use procfs::process::Stat;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use tripmeter_model::audit::{Interrupts, Throttled};

/// Unit in which the kernel reports CPU time to programs (USER_HZ).
pub(super) const TICK_NS: u64 = 10_000_000;
/// More CPUs than any kernel supports.
const MOST_CPUS: usize = 1 << 16;

/// CPUs of a list such as `0-2,5`, each once; empty for an empty text.
///
/// # Source
/// The list format of the kernel's cpusets(7).
pub fn cpu_list(text: &str) -> Option<Vec<usize>> {
    let (mut cpus, mut known) = (Vec::new(), BTreeSet::new());
    for item in text.trim().split(',').filter(|_| !text.trim().is_empty()) {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || last >= MOST_CPUS {
            return None;
        }
        // Bounded, even if ranges overlap.
        if cpus.len() < MOST_CPUS {
            cpus.extend((first..=last).filter(|cpu| known.insert(*cpu)));
        }
    }
    Some(cpus)
}

/// List of CPUs in the kernel's format: `0-2,5`.
pub(super) fn written(cpus: &[usize]) -> String {
    let mut sorted = cpus.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let runs = sorted.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [one] => one.to_string(),
        _ => format!("{}-{}", run[0], run[run.len() - 1]),
    });
    runs.collect::<Vec<_>>().join(",")
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuTime {
    /// Time in tasks and interrupts, in nanoseconds.
    pub busy_ns: u64,
    /// Time that the hypervisor gave to other guests, in nanoseconds.
    pub steal_ns: u64,
}

/// CPU time of each CPU since boot.
///
/// # Source
/// `/proc/stat` of proc(5): user, nice, system, idle, iowait, irq, softirq, steal; guest time is part of user and nice.
pub fn stat(text: &str) -> Option<BTreeMap<usize, CpuTime>> {
    let mut cpus = BTreeMap::new();
    for line in text.lines() {
        let Some((name, fields)) = line.strip_prefix("cpu").and_then(|line| line.split_once(' ')) else { continue };
        if name.is_empty() {
            continue;
        }
        let fields = fields.split_whitespace().map(|field| field.parse().ok()).collect::<Option<Vec<u64>>>()?;
        let [user, nice, system, _idle, _iowait, irq, softirq, steal, ..] = fields[..] else { return None };
        let busy = [user, nice, system, irq, softirq].iter().fold(0, |sum: u64, ticks| sum.saturating_add(*ticks));
        let ns = |ticks: u64| ticks.saturating_mul(TICK_NS);
        cpus.insert(name.parse().ok()?, CpuTime { busy_ns: ns(busy), steal_ns: ns(steal) });
    }
    (!cpus.is_empty()).then_some(cpus)
}

/// Time in which at least one task waited, in nanoseconds.
///
/// # Source
/// The kernel's accounting/psi.rst: `total` is in microseconds.
pub(super) fn pressure(text: &str) -> Option<u64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = some.split_whitespace().find_map(|field| field.strip_prefix("total="))?;
    total.parse::<u64>().ok()?.checked_mul(1000)
}

/// Interrupts of each CPU since boot.
///
/// # Source
/// `/proc/interrupts` of proc(5). Numbered lines are devices, except timers of Arm CPUs.
pub(super) fn interrupts(text: &str) -> Option<BTreeMap<usize, Interrupts>> {
    let mut lines = text.lines();
    let columns = lines.next()?.split_whitespace().map(|column| column.strip_prefix("CPU")?.parse().ok());
    let columns = columns.collect::<Option<Vec<usize>>>().filter(|columns| !columns.is_empty())?;
    let mut counts = vec![Interrupts::default(); columns.len()];
    for line in lines {
        let (name, rest) = line.trim().split_once(':')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let numbers: Vec<u64> = fields.iter().map_while(|field| field.parse().ok()).take(columns.len()).collect();
        // Some lines have one number for the whole machine.
        if numbers.len() < columns.len() {
            continue;
        }
        let is_timer = name == "LOC" || fields.contains(&"arch_timer");
        let is_device = name.bytes().all(|byte| byte.is_ascii_digit());
        for (count, number) in counts.iter_mut().zip(numbers) {
            let kind = match (is_timer, is_device) {
                (true, _) => &mut count.timer,
                (_, true) => &mut count.device,
                _ => &mut count.other,
            };
            *kind = kind.saturating_add(number);
        }
    }
    Some(columns.into_iter().zip(counts).collect())
}

/// Soft limit called `name`; `Some(None)` if unlimited.
///
/// # Source
/// `/proc/pid/limits` of proc(5): columns of fixed width.
pub(super) fn limit(text: &str, name: &str) -> Option<Option<u64>> {
    const SOFT: Range<usize> = 26..47;
    let line = text.lines().find(|line| line.get(..SOFT.start).is_some_and(|column| column.trim() == name))?;
    let soft = line.get(SOFT.start..SOFT.end.min(line.len()))?.trim();
    if soft == "unlimited" { Some(None) } else { soft.parse().ok().map(Some) }
}

/// Parses `stat` of a process or thread. procfs panics if the name in parentheses has no blank before or after it.
pub(super) fn process(text: &str) -> Option<Stat> {
    let text = text.trim();
    let (begin, end) = (text.find('(')?, text.rfind(')')?);
    let is_named = begin < end && text[..begin].ends_with(' ') && text[end..].starts_with(") ");
    Stat::from_read(is_named.then_some(text.as_bytes())?).ok()
}

pub(super) fn cpu_time_ns(process: &Stat) -> u64 {
    process.utime.saturating_add(process.stime).saturating_mul(TICK_NS)
}

/// Throttling of a control group; `None` if the group has no limit.
///
/// # Source
/// `cpu.stat` of the kernel's cgroup-v2.rst (`throttled_usec`) and sched-bwc.rst (`throttled_time`, nanoseconds).
pub(super) fn throttled(text: &str) -> Option<Throttled> {
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        line.trim().parse::<u64>().ok()
    };
    let time_ns = value("throttled_time").or_else(|| value("throttled_usec")?.checked_mul(1000))?;
    Some(Throttled { periods: value("nr_throttled")?, time_ns })
}

/// Word in brackets: `madvise` in `always [madvise] never`.
pub(super) fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

/// Passes a text to each parser of this module.
pub(crate) fn read_by_all(text: &str) {
    if let Some(cpus) = cpu_list(text) {
        let is_list = |found: Vec<usize>| found.len() == cpus.len() && found.iter().all(|cpu| cpus.contains(cpu));
        assert!(cpus.len() > 1000 || cpu_list(&written(&cpus)).is_some_and(is_list));
    }
    let _ =
        (stat(text), pressure(text), interrupts(text), limit(text, "Max locked memory"), throttled(text), chosen(text));
    let _ = process(text).map(|process| cpu_time_ns(&process));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read_and_written() {
        assert_eq!(cpu_list(" 0-2,5\n"), Some(vec![0, 1, 2, 5]));
        assert_eq!(cpu_list("5,0-2,1-3,5"), Some(vec![5, 0, 1, 2, 3]));
        assert_eq!(cpu_list("\n"), Some(Vec::new()));
        for wrong in ["(null)", "0-", "-1", "2-0", "1,,2", "0-4294967295", "0-99999999999999999999", "0 1"] {
            assert_eq!(cpu_list(wrong), None, "{wrong}");
        }
        assert_eq!(written(&[5, 0, 2, 1, 1]), "0-2,5");
        assert_eq!(written(&[]), "");
    }

    #[test]
    fn cpu_time_is_read_per_cpu() {
        let text = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 100 100 4 5 6 7 7\ncpu10 0 0 0 0 0 0 0 1 0 0\nintr 5 6\n";
        let cpus = stat(text).unwrap();
        assert_eq!(cpus[&0], CpuTime { busy_ns: 15 * TICK_NS, steal_ns: 6 * TICK_NS });
        assert_eq!(cpus[&10].steal_ns, TICK_NS);
        for wrong in ["", "cpu  1 2 3", "cpu0 1 2 3 4", "cpu0 1 2 3 4 5 6 x 8", "cpux 1 2 3 4 5 6 7 8", "cpu0"] {
            assert_eq!(stat(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn pressure_is_read_in_microseconds() {
        let text = "some avg10=95.20 avg60=83.48 avg300=74.50 total=1460613893\nfull avg10=0.00 total=7\n";
        assert_eq!(pressure(text), Some(1_460_613_893_000));
        for wrong in ["", "full total=7", "some avg10=1", "some total=x", "some total=18446744073709551615"] {
            assert_eq!(pressure(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn interrupts_are_distinguished() {
        let text = "           CPU0       CPU2       \n \
            24:          1          0  IO-APIC   5-edge      ACPI:Ged\n \
            30:        100        200     GICv3  27 Level     arch_timer\n\
            LOC:     705065     688056   Local timer interrupts\n\
            RES:          3          4   Rescheduling interrupts\n\
            ERR:          9\n";
        let cpus = interrupts(text).unwrap();
        assert_eq!(cpus[&0], Interrupts { device: 1, timer: 705_165, other: 3 });
        assert_eq!(cpus[&2], Interrupts { device: 0, timer: 688_256, other: 4 });
        for wrong in ["", "CPU0 CPU1\n no colon", "CPUx\n", "what\n"] {
            assert_eq!(interrupts(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn limits_are_read_from_their_columns() {
        let text = "\
Limit                     Soft Limit           Hard Limit           Units     
Max locked memory         8388608              unlimited            bytes     
Max address space         unlimited            unlimited            bytes     
Max realtime priority     0                    0                    
Max msgqueue size         much                 819200               bytes     
";
        assert_eq!(limit(text, "Max locked memory"), Some(Some(8_388_608)));
        assert_eq!(limit(text, "Max address space"), Some(None));
        assert_eq!(limit(text, "Max realtime priority"), Some(Some(0)));
        assert_eq!(limit(text, "Max msgqueue size"), None);
        assert_eq!(limit(text, "Max"), None);
        assert_eq!(limit("", "Max locked memory"), None);
        assert_eq!(limit("Max locked memory", "Max locked memory"), None);
    }

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let text = "18580 (a ) (b) R 18555 1 1 0 -1 4194304 105 0 0 0 20 30 0 0 39 19 1 0 236522 3133440 418 \
            18446744073709551615 1 1 1 0 0 0 0 0 0 0 0 0 17 1 50 1 0 0 0 1 1 1 1 1 1 1 0";
        let read = process(text).unwrap();
        assert_eq!((read.comm.as_str(), read.ppid, cpu_time_ns(&read)), ("a ) (b", 18555, 50 * TICK_NS));
        assert_eq!((read.nice, read.starttime, read.rt_priority, read.policy), (19, 236_522, Some(50), Some(1)));
        for wrong in ["", "1 (x", "1 (x)", "1 (x) R", ")(", "(x) R", "1 (x) R y 1 1 0 -1 0 0 0 0 0 1 1"] {
            assert!(process(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn throttling_is_read_of_both_versions() {
        let second = "usage_usec 5\nnr_periods 9\nnr_throttled 2\nthrottled_usec 30\n";
        assert_eq!(throttled(second), Some(Throttled { periods: 2, time_ns: 30_000 }));
        let first = "nr_periods 0\nnr_throttled 4\nthrottled_time 70\n";
        assert_eq!(throttled(first), Some(Throttled { periods: 4, time_ns: 70 }));
        assert_eq!(throttled("usage_usec 5\n"), None);
        assert_eq!(throttled("nr_throttled x\nthrottled_usec 30\n"), None);
    }

    #[test]
    fn the_choice_stands_in_brackets() {
        assert_eq!(chosen("always [madvise] never").as_deref(), Some("madvise"));
        assert_eq!(chosen("madvise"), None);
        assert_eq!(chosen("[madvise"), None);
    }
}

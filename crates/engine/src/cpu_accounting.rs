//! Check of how the kernel splits CPU time into user and system: exactly, or by sampling at timer ticks.
#![expect(unsafe_code, reason = "a system call")]

use crate::audit::cpu_list;
use crate::os::{Whose, allowed_by_any_thread, usage};
use std::collections::HashSet;
use std::fs;
use std::hint::black_box;
use std::sync::OnceLock;
use std::thread;

/// CPU time of a probe. It is less than a tick of any kernel (1 ms or more), so at most one tick samples it.
const PROBE_NS: u64 = 300_000;
/// Number of probes that must agree. A preempted probe may see two ticks, by chance one in each state.
const PROBES: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Exact {
    Everywhere(bool),
    /// CPUs in full dynticks mode, where each change between user and kernel is accounted.
    On(HashSet<usize>),
}

/// True if the kernel time of this process is exact wherever its threads may run. With sampling, messages sent in step
/// with timer ticks seem to cost only kernel time, or none.
pub fn is_kernel_time_exact() -> bool {
    static EXACT: OnceLock<Exact> = OnceLock::new();
    let exact = EXACT.get_or_init(|| {
        let full = fs::read_to_string("/sys/devices/system/cpu/nohz_full").ok().and_then(|text| cpu_list(&text));
        match full {
            Some(cpus) if !cpus.is_empty() => Exact::On(cpus.into_iter().collect()),
            _ => Exact::Everywhere(is_exact(&std::array::from_fn::<_, PROBES, _>(|_| probe()))),
        }
    });
    match exact {
        Exact::Everywhere(is_exact) => *is_exact,
        Exact::On(exact) => allowed_by_any_thread().is_ok_and(|cpus| cpus.iter().all(|cpu| exact.contains(cpu))),
    }
}

/// Runs a thread that alternates between user mode and kernel; returns its CPU time and kernel time in nanoseconds.
/// `None` if no thread can be started.
///
/// # Source
/// `cputime_adjust` of the kernel's sched/cputime.c: if one state has no ticks, all time goes to the other.
fn probe() -> Option<(u64, u64)> {
    let work = || {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // The loop is bounded, even if the clock does not advance.
        for _ in 0..PROBE_NS {
            (0..1000_u64).for_each(|step| {
                black_box(step);
            });
            // `rustix` reads this clock too, but does not document whether by a system call.
            // SAFETY: `time` is valid for writing.
            let read = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
            if read != 0 || time.tv_sec > 0 || time.tv_nsec as u64 >= PROBE_NS {
                break;
            }
        }
        let used = usage(Whose::Thread);
        (used.cpu_time_ns, used.kernel_time_ns.unwrap_or(0))
    };
    thread::Builder::new().spawn(work).ok()?.join().ok()
}

fn is_exact(probes: &[Option<(u64, u64)>]) -> bool {
    probes.iter().all(|probe| probe.is_some_and(|(all, kernel)| 0 < kernel && kernel < all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_split_is_exact_only_if_every_probe_was_in_both_states() {
        let (exact, user, kernel) = (Some((300_000, 90_000)), Some((300_000, 0)), Some((304_000, 304_000)));
        assert!(is_exact(&[exact; PROBES]));
        for sampled in [[exact, user], [exact, kernel], [exact, None], [user, user]] {
            assert!(!is_exact(&sampled), "{sampled:?}");
        }
    }

    /// Compares with `/proc/config.gz`, if the kernel provides it.
    #[test]
    fn probes_agree_with_the_configuration_of_the_kernel() {
        let config = Command::new("zcat").arg("/proc/config.gz").output();
        let config = config.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let is_set = |name: &str| config.lines().any(|line| line == format!("{name}=y"));
        match [is_set("CONFIG_TICK_CPU_ACCOUNTING"), is_set("CONFIG_VIRT_CPU_ACCOUNTING_NATIVE")] {
            [false, false] => eprintln!("skipped: the kernel does not say how it accounts CPU time"),
            [_, is_native] => assert_eq!(is_kernel_time_exact(), is_native),
        }
    }
}

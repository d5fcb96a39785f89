//! Snapshots of kernel counters, and the activity between two of them.

use super::parse::{self, CpuTime};
use super::root::{Root, cpu_folder};
use crate::clock::monotonic_ns;
use crate::os::{self, Whose};
use std::collections::{BTreeMap, BTreeSet};
use tripmeter_model::audit::{Activity, CpuActivity, Interrupts, OtherProcess, Pressure, Throttled};

const BUSIEST: usize = 3;

/// Kernel counters at one moment; `None` if the machine hides them.
#[derive(Debug, Default)]
pub struct Snapshot {
    at_ns: u64,
    times: Option<BTreeMap<usize, CpuTime>>,
    interrupts: Option<BTreeMap<usize, Interrupts>>,
    thermal: BTreeMap<usize, u64>,
    siblings: BTreeMap<usize, Vec<usize>>,
    pressure: Pressure,
    throttled: Option<Throttled>,
    own_ns: u64,
    /// CPU time in nanoseconds, by PID and start time.
    others: BTreeMap<(u32, u64), (String, u64)>,
}

impl Snapshot {
    pub fn take(root: &Root, cpus: &[usize]) -> Self {
        let pressure = |what: &str| root.parsed(&format!("proc/pressure/{what}"), parse::pressure).ok();
        let throttles = |cpu: &usize| {
            let folder = cpu_folder(*cpu) + "/thermal_throttle";
            let count = |name: &str| root.number(&format!("{folder}/{name}")).ok();
            let (core, package) = (count("core_throttle_count"), count("package_throttle_count"));
            (core.is_some() || package.is_some())
                .then(|| (*cpu, core.unwrap_or(0).saturating_add(package.unwrap_or(0))))
        };
        let siblings = |cpu: &usize| {
            let mut list = root.list(&(cpu_folder(*cpu) + "/topology/thread_siblings_list")).ok()?;
            list.retain(|other| other != cpu);
            Some((*cpu, list))
        };
        let own = os::usage(Whose::Process).cpu_time_ns + os::usage(Whose::Children).cpu_time_ns;
        Self {
            at_ns: monotonic_ns(),
            times: root.parsed("proc/stat", parse::stat).ok(),
            interrupts: root.parsed("proc/interrupts", parse::interrupts).ok(),
            thermal: cpus.iter().filter_map(throttles).collect(),
            siblings: cpus.iter().filter_map(siblings).collect(),
            pressure: Pressure { cpu_ns: pressure("cpu"), memory_ns: pressure("memory"), io_ns: pressure("io") },
            throttled: control_groups(root).iter().filter_map(|group| group.throttled).reduce(|one, other| Throttled {
                periods: one.periods.saturating_add(other.periods),
                time_ns: one.time_ns.saturating_add(other.time_ns),
            }),
            own_ns: own,
            others: processes(root),
        }
    }

    pub(super) fn until(&self, later: &Snapshot, cpus: &[usize]) -> Activity {
        Activity {
            duration_ns: later.at_ns - self.at_ns,
            cpus: cpus.iter().map(|&cpu| self.on(cpu, later, cpus)).collect(),
            others_ns: self.others_until(later),
            busiest: self.busiest_until(later),
            pressure: Pressure {
                cpu_ns: difference(self.pressure.cpu_ns, later.pressure.cpu_ns),
                memory_ns: difference(self.pressure.memory_ns, later.pressure.memory_ns),
                io_ns: difference(self.pressure.io_ns, later.pressure.io_ns),
            },
            throttled: self.throttled.zip(later.throttled).map(|(before, after)| Throttled {
                periods: after.periods.saturating_sub(before.periods),
                time_ns: after.time_ns.saturating_sub(before.time_ns),
            }),
        }
    }

    fn on(&self, cpu: usize, later: &Snapshot, cpus: &[usize]) -> CpuActivity {
        let times = |of: &Snapshot, cpu: usize| of.times.as_ref()?.get(&cpu).copied();
        let busy = |cpu: usize| {
            difference(times(self, cpu).map(|time| time.busy_ns), times(later, cpu).map(|time| time.busy_ns))
        };
        // Siblings among the audited CPUs are busy with our own work. Offline ones are not in /proc/stat.
        let siblings = self.siblings.get(&cpu).filter(|_| self.times.is_some());
        let of_siblings = |list: &Vec<usize>| {
            list.iter().filter(|sibling| !cpus.contains(sibling)).filter_map(|&sibling| busy(sibling)).sum()
        };
        let interrupts = |of: &Snapshot| of.interrupts.as_ref()?.get(&cpu).copied();
        CpuActivity {
            cpu,
            steal_ns: difference(
                times(self, cpu).map(|time| time.steal_ns),
                times(later, cpu).map(|time| time.steal_ns),
            ),
            sibling_busy_ns: siblings.map(of_siblings),
            interrupts: interrupts(self).zip(interrupts(later)).map(|(before, after)| Interrupts {
                device: after.device.saturating_sub(before.device),
                timer: after.timer.saturating_sub(before.timer),
                other: after.other.saturating_sub(before.other),
            }),
            thermal_throttles: difference(self.thermal.get(&cpu).copied(), later.thermal.get(&cpu).copied()),
        }
    }

    /// CPU time of all CPUs, less that of this process and its children, in nanoseconds.
    fn others_until(&self, later: &Snapshot) -> Option<u64> {
        let busy = |of: &Snapshot| of.times.as_ref().map(|times| times.values().map(|time| time.busy_ns).sum());
        let all = difference(busy(self), busy(later))?;
        Some(all.saturating_sub(later.own_ns.saturating_sub(self.own_ns)))
    }

    fn busiest_until(&self, later: &Snapshot) -> Vec<OtherProcess> {
        let used = later.others.iter().filter_map(|(key, (name, after))| {
            let before = self.others.get(key).map_or(0, |(_, before)| *before);
            let cpu_time_ns = after.saturating_sub(before);
            (cpu_time_ns > 0).then(|| OtherProcess { pid: key.0, name: name.clone(), cpu_time_ns })
        });
        let mut used: Vec<_> = used.collect();
        used.sort_by_key(|process| std::cmp::Reverse(process.cpu_time_ns));
        used.truncate(BUSIEST);
        used
    }
}

fn difference(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    Some(after?.saturating_sub(before?))
}

/// CPU time of each visible process except this one and its children.
fn processes(root: &Root) -> BTreeMap<(u32, u64), (String, u64)> {
    let own = std::process::id();
    let numbers = root.names("proc").into_iter().filter_map(|name| name.parse::<u32>().ok());
    let read = |pid: u32| {
        let process = root.parsed(&format!("proc/{pid}/stat"), parse::process).ok()?;
        let is_ours = pid == own || u32::try_from(process.ppid) == Ok(own);
        let cpu_time_ns = parse::cpu_time_ns(&process);
        (!is_ours).then_some(((pid, process.starttime), (process.comm, cpu_time_ns)))
    };
    numbers.filter_map(read).collect()
}

/// Control group of this process that may limit its CPU time.
pub(super) struct ControlGroup {
    /// Path of its folder, such as `/sys/fs/cgroup`.
    pub name: String,
    /// Throttling since the group was created; `None` if `cpu.stat` does not report it.
    pub throttled: Option<Throttled>,
    /// Allowed CPU time per wall time; `None` without a limit.
    pub quota: Option<f64>,
}

/// Visible control groups of this process, from its own up to the root.
///
/// # Source
/// `/proc/pid/cgroup` of cgroups(7): `id:controllers:path`; version 2 has id 0. `cpu.max` of cgroup-v2.rst, and
/// `cpu.cfs_quota_us` of sched-bwc.rst.
pub(super) fn control_groups(root: &Root) -> Vec<ControlGroup> {
    let text = root.text("proc/self/cgroup").unwrap_or_default();
    let mut folders = BTreeSet::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(id), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let tops: &[&str] = match controllers {
            "" if id == "0" => &["sys/fs/cgroup/unified", "sys/fs/cgroup"],
            _ if controllers.split(',').any(|one| one == "cpu") => &["sys/fs/cgroup/cpu", "sys/fs/cgroup/cpu,cpuacct"],
            _ => continue,
        };
        // One folder may be a link to the other.
        let Some(top) = tops.iter().find(|top| root.path(top).is_dir()) else { continue };
        // A container may see its own group as the root, whatever the path says.
        let mut path = path.trim_end_matches('/');
        loop {
            folders.insert(format!("{top}{path}"));
            let Some((parent, _)) = path.rsplit_once('/') else { break };
            path = parent;
        }
    }
    let groups = folders.into_iter().filter_map(|folder| control_group(root, folder));
    groups.collect()
}

fn control_group(root: &Root, folder: String) -> Option<ControlGroup> {
    let second = |text: &str| {
        let (quota, period) = text.split_once(' ')?;
        Some(quota.parse::<f64>().ok()? / period.trim().parse::<f64>().ok()?)
    };
    let first = || {
        let quota: f64 = root.parsed(&format!("{folder}/cpu.cfs_quota_us"), |text| text.parse().ok()).ok()?;
        let period = root.number(&format!("{folder}/cpu.cfs_period_us")).ok()?;
        (quota > 0.0 && period > 0).then(|| quota / period as f64)
    };
    let throttled = root.parsed(&format!("{folder}/cpu.stat"), parse::throttled).ok();
    let quota = root.parsed(&format!("{folder}/cpu.max"), second).ok().or_else(first).filter(|quota| quota.is_finite());
    (throttled.is_some() || quota.is_some()).then_some(ControlGroup { name: format!("/{folder}"), throttled, quota })
}

#[cfg(test)]
mod tests {
    use super::super::check::tree;
    use super::*;

    #[test]
    fn control_groups_are_followed_upwards_in_both_versions() {
        let (_folder, root) = tree(&[
            ("proc/self/cgroup", "9:name=systemd:/x\n3:cpu,cpuacct:/jobs/one\n0::/a.slice/b\nnonsense\n"),
            ("sys/fs/cgroup/cpu,cpuacct/jobs/cpu.stat", "nr_throttled 1\nthrottled_time 5\n"),
            ("sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_quota_us", "150000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/a.slice/b/cpu.stat", "nr_throttled 2\nthrottled_usec 7\n"),
            ("sys/fs/cgroup/a.slice/b/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/a.slice/cpu.max", "50000 100000\n"),
        ]);
        let groups = control_groups(&root);
        let quotas: Vec<_> = groups.iter().map(|group| (group.name.as_str(), group.quota)).collect();
        assert_eq!(
            quotas,
            [
                ("/sys/fs/cgroup/a.slice", Some(0.5)),
                ("/sys/fs/cgroup/a.slice/b", None),
                ("/sys/fs/cgroup/cpu,cpuacct/jobs", Some(1.5)),
            ]
        );
        let snapshot = Snapshot::take(&root, &[0]);
        assert_eq!(snapshot.throttled, Some(Throttled { periods: 3, time_ns: 7005 }));
    }

    #[test]
    fn what_happened_is_the_difference() {
        // No process has this PID; the PID of this test would be left out.
        let process = |ticks| {
            format!(
                "9999999 (browser) R 1 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 9 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 1 0 0"
            )
        };
        let at = |busy: u64, steal: u64, device: u64, browser: u64| {
            let stat = format!("cpu0 {busy} 0 0 0 0 0 0 {steal}\ncpu1 0 0 0 0 0 0 0 0\ncpu2 {busy} 0 0 0 0 0 0 0\n");
            let (_folder, root) = tree(&[
                ("proc/stat", &stat),
                ("proc/interrupts", &format!(" CPU0 CPU1\n 5: {device} 0 x\nLOC: 9 9 y\n")),
                ("proc/pressure/cpu", &format!("some avg10=0 total={busy}\n")),
                ("proc/9999999/stat", &process(browser)),
                ("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,2\n"),
                ("sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "1,3\n"),
                ("sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", &device.to_string()),
            ]);
            Snapshot::take(&root, &[0, 1])
        };
        let activity = at(1000, 10, 5, 100).until(&at(1600, 13, 905, 150), &[0, 1]);
        let tick = parse::TICK_NS;
        let [first, second] = &activity.cpus[..] else { panic!("{activity:?}") };
        assert_eq!((first.steal_ns, first.sibling_busy_ns), (Some(3 * tick), Some(600 * tick)));
        assert_eq!(first.interrupts, Some(Interrupts { device: 900, timer: 0, other: 0 }));
        assert_eq!((first.thermal_throttles, second.thermal_throttles), (None, Some(900)));
        assert_eq!(second.sibling_busy_ns, Some(0));
        assert_eq!(activity.pressure, Pressure { cpu_ns: Some(600_000), memory_ns: None, io_ns: None });
        // The CPU time of this test is subtracted.
        assert!(activity.others_ns.unwrap() <= 1200 * tick);
        let browser = OtherProcess { pid: 9_999_999, name: "browser".to_owned(), cpu_time_ns: 50 * tick };
        assert_eq!(activity.busiest, [browser]);
    }

    #[test]
    fn nothing_visible_is_nothing_known() {
        let (_folder, root) = tree(&[("proc/stat", "cpu0 what\n"), ("proc/interrupts", "")]);
        let activity = Snapshot::take(&root, &[0]).until(&Snapshot::take(&root, &[0]), &[0]);
        assert_eq!(activity.cpus, [CpuActivity { cpu: 0, ..CpuActivity::default() }]);
        assert_eq!((activity.others_ns, activity.throttled), (None, None));
        assert_eq!(activity.pressure, Pressure::default());
    }
}

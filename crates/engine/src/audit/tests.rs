use super::check::*;
use super::machine::*;
use super::*;
use crate::clock::Calibration;
use crate::os;
use std::time::Duration;
use tripmeter_model::audit::*;
use tripmeter_model::manifest::ClockInfo;

const STATUS: &str = "Name:\ttripmeter\nCapEff:\t0000000000000000\nCpus_allowed_list:\t0-3\n";
const LIMITS: &str = "\
Limit                     Soft Limit           Hard Limit           Units
Max locked memory         8388608              8388608              bytes
Max msgqueue size         819200               819200               bytes
Max realtime priority     0                    0
";
const STAT: &str = "9 (tripmeter) R 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 25 5 1 0 9 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0";

/// Laptop with default settings: CPUs 0 and 2, and 1 and 3, share cores.
const LAPTOP: &[(&str, &str)] = &[
    ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
    ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n"),
    ("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n"),
    ("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,2\n"),
    ("sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "1,3\n"),
    ("sys/devices/system/cpu/cpu0/cpuidle/state0/latency", "0\n"),
    ("sys/devices/system/cpu/cpu0/cpuidle/state0/name", "POLL\n"),
    ("sys/devices/system/cpu/cpu0/cpuidle/state1/latency", "300\n"),
    ("sys/devices/system/cpu/cpu0/cpuidle/state1/name", "C6\n"),
    ("sys/devices/system/cpu/cpu1/cpuidle/state0/latency", "0\n"),
    ("sys/devices/system/cpu/cpu1/cpuidle/state0/name", "POLL\n"),
    ("sys/devices/system/cpu/cpu1/cpuidle/state1/latency", "300\n"),
    ("sys/devices/system/cpu/cpu1/cpuidle/state1/name", "C6\n"),
    ("sys/devices/system/cpu/cpu1/cpuidle/state1/disable", "1\n"),
    ("sys/devices/system/cpu/online", "0-3\n"),
    ("sys/devices/system/cpu/cpu2/online", "1\n"),
    ("sys/devices/system/cpu/cpu3/online", "1\n"),
    ("sys/devices/system/cpu/isolated", "\n"),
    ("sys/devices/system/cpu/nohz_full", "(null)\n"),
    ("sys/devices/system/cpu/vulnerabilities/meltdown", "Mitigation: PTI\n"),
    ("sys/devices/system/cpu/vulnerabilities/srbds", "Not affected\n"),
    ("sys/devices/system/node/node0/cpulist", "0-3\n"),
    ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
    ("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n"),
    ("sys/fs/cgroup/cpu.stat", "usage_usec 1\n"),
    ("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu tsc\n"),
    ("proc/cmdline", "quiet splash mitigations=auto intel_idle.max_cstate=9 isolcpu=1\n"),
    ("proc/self/status", STATUS),
    ("proc/self/limits", LIMITS),
    ("proc/self/stat", STAT),
    ("proc/self/timerslack_ns", "60000\n"),
    ("proc/self/cgroup", "0::/\n"),
    ("proc/sys/fs/mqueue/msg_max", "10\n"),
    ("proc/sys/fs/mqueue/msgsize_max", "8192\n"),
    ("proc/sys/net/core/rmem_max", "4096\n"),
    ("proc/sys/net/core/wmem_max", "4194304\n"),
];

fn clock() -> ClockInfo {
    ClockInfo {
        source: "tsc".to_owned(),
        reason: None,
        frequency_hz: 2e9,
        read_cost_ns: 20.0,
        granularity_ns: 1.0,
        drift_ppm: None,
    }
}

fn audited(files: &[(&str, &str)], cpus: &[usize], activity: &Activity) -> Vec<Finding> {
    let (_folder, root) = tree(files);
    let (clock, hiccups, processes) = (clock(), None, &[]);
    let activity = Some(activity);
    findings(&MachineObservations {
        root: &root,
        cpus,
        clock: &clock,
        activity,
        hiccups,
        processes,
        loads: &[],
        by_hand: false,
    })
}

fn quiet(cpus: &[usize]) -> Activity {
    let cpu = |&cpu: &usize| CpuActivity {
        cpu,
        steal_ns: Some(0),
        sibling_busy_ns: Some(0),
        interrupts: Some(Interrupts { device: 0, timer: 250, other: 3 }),
        thermal_throttles: Some(0),
    };
    Activity { duration_ns: 1_000_000_000, cpus: cpus.iter().map(cpu).collect(), ..Activity::default() }
}

fn find<'a>(findings: &'a [Finding], check: &str) -> &'a Finding {
    findings.iter().find(|finding| finding.check == check).expect("there is a finding of every check")
}

#[test]
fn findings_of_a_laptop_say_what_is_wrong_and_how_to_fix_it() {
    let findings = audited(LAPTOP, &[0, 1], &quiet(&[0, 1]));
    for (check, level, value, fix) in [
        (
            "frequency-governor",
            Level::Warn,
            "0: powersave, 1: performance",
            "cpupower -c 0-1 frequency-set -g performance",
        ),
        ("turbo", Level::Warn, "on", "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo"),
        ("thermal-throttling", Level::Info, "0 times", ""),
        (
            "smt-siblings",
            Level::Info,
            "siblings 2-3 share their cores, busy for 0.0 %",
            "sudo tee /sys/devices/system/cpu/cpu2/online /sys/devices/system/cpu/cpu3/online",
        ),
        ("c-states", Level::Warn, "0: deepest C6, 300 µs to wake, 1: deepest POLL, 0 µs to wake", "idle-set -D 10"),
        ("isolation", Level::Info, "not isolated, not without tick", "isolcpus=N,M"),
        ("numa", Level::Info, "node0 of 1 nodes; balancing not visible here", ""),
        ("affinity", Level::Info, "CPUs 0-3 allowed, 0-1 used", ""),
        ("scheduling-policy", Level::Warn, "other, nice 5", "renice -n 0"),
        ("timer-slack", Level::Warn, "60000 ns", "echo 50000"),
        ("limit-memlock", Level::Warn, "8M", "ulimit -l unlimited"),
        ("limit-rtprio", Level::Info, "0: no real-time priority", "ulimit -r 99"),
        ("limit-message-queues", Level::Info, "819200 bytes in all; 10 messages of 8192 bytes per queue", ""),
        ("limit-socket-buffers", Level::Warn, "4k to receive, 4M to send", "net.core.rmem_max"),
        ("hypervisor", Level::Info, "none; its name is not visible here", ""),
        ("kernel-command-line", Level::Info, "mitigations=auto intel_idle.max_cstate=9", ""),
        ("mitigations", Level::Info, "1 of 2 mitigated, 0 vulnerable: meltdown", "mitigations=off"),
        ("transparent-hugepages", Level::Warn, "always; defrag not visible here", "echo madvise"),
        ("steal", Level::Info, "0.0 % of the time", ""),
        ("interrupts", Level::Info, "up to 0/s by devices, 250/s by the timer, 3/s others", ""),
        ("clock-source", Level::Info, "kernel tsc, ours tsc", ""),
        ("clock-cost", Level::Info, "20.0 ns", ""),
    ] {
        let finding = find(&findings, check);
        assert_eq!((finding.level, finding.value.as_str(), finding.visible), (level, value, true), "{check}");
        let given = finding.fix.as_deref().unwrap_or_default();
        assert!(given.contains(fix) && given.is_empty() == fix.is_empty(), "{check}: {given}");
    }
    // A control group without a limit does not report throttling.
    for check in ["cgroup-throttling", "load", "pressure", "page-faults", "limit-shared-memory"] {
        assert!(!find(&findings, check).visible, "{check}");
    }
}

#[test]
fn a_machine_that_hides_everything_is_never_assumed_fine() {
    let findings =
        audited(&[], &[0, 1], &Activity { duration_ns: 1, ..Snapshot::default().until(&Snapshot::default(), &[0, 1]) });
    for finding in &findings {
        let is_measured = finding.check.starts_with("clock-") && finding.check != "clock-source";
        assert_eq!(finding.visible, is_measured, "{finding:?}");
        assert_eq!(finding.value.starts_with("not visible here: "), !is_measured, "{finding:?}");
        assert_eq!((finding.level, finding.fix.as_ref()), (Level::Info, None), "{finding:?}");
    }
    assert!(findings.len() >= 25);
}

fn laptop(changed: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    let is_kept = |(name, _): &&(&str, &str)| !changed.iter().any(|(other, _)| other == name);
    LAPTOP.iter().filter(is_kept).chain(changed).copied().collect()
}

#[test]
fn fixes_that_this_machine_cannot_follow_are_not_advised() {
    const ONLINE: &str = "sys/devices/system/cpu/online";
    const OFFERED: &str = "sys/devices/system/clocksource/clocksource0/available_clocksource";
    const SOURCE: &str = "sys/devices/system/clocksource/clocksource0/current_clocksource";
    const SIBLINGS_0: &str = "sys/devices/system/cpu/cpu0/topology/thread_siblings_list";
    const SIBLINGS_1: &str = "sys/devices/system/cpu/cpu1/topology/thread_siblings_list";
    const OFFERED_0: &str = "sys/devices/system/cpu/cpu0/cpufreq/scaling_available_governors";
    let fix = |changed: &[(&'static str, &'static str)], cpus: &[usize], check: &str| {
        let findings = audited(&laptop(changed), cpus, &quiet(cpus));
        find(&findings, check).fix.clone().unwrap_or_default()
    };
    // The kernel needs a CPU that is not isolated, and the tick of the boot CPU.
    assert_eq!(fix(&[(ONLINE, "0-3")], &[2, 3], "isolation"), "boot with isolcpus=2-3 nohz_full=2-3 rcu_nocbs=2-3");
    assert!(fix(&[(ONLINE, "0-3")], &[0, 1], "isolation").contains("CPUs other than 0"));
    for (online, cpus) in [("0-1", [0, 1].as_slice()), ("0", &[0])] {
        let all = fix(&[(ONLINE, online)], cpus, "isolation");
        assert!(all.contains("use a machine with more CPUs") && !all.contains("isolcpus"), "{all}");
    }
    for (changed, cpus, check, is_possible) in [
        (vec![(SIBLINGS_0, "0-1"), (SIBLINGS_1, "0-1"), (ONLINE, "0-1")], [0, 1], "smt-siblings", "more cores"),
        (vec![(SIBLINGS_0, "0-1"), (SIBLINGS_1, "0-1")], [0, 1], "smt-siblings", "--leader-cpu N"),
        (vec![(OFFERED_0, "powersave schedutil")], [0, 1], "frequency-governor", "boot a kernel"),
        (vec![(OFFERED_0, "performance powersave")], [0, 1], "frequency-governor", "cpupower -c 0-1"),
        (
            vec![(SOURCE, "hpet"), (OFFERED, "hpet acpi_pm")],
            [0, 1],
            "clock-source",
            "the kernel offers only hpet acpi_pm",
        ),
        (vec![(SOURCE, "hpet"), (OFFERED, "tsc hpet acpi_pm")], [0, 1], "clock-source", "echo tsc"),
    ] {
        let given = fix(&changed, &cpus, check);
        assert!(given.contains(is_possible), "{check}: {given}");
    }
}

#[test]
fn a_sibling_that_cannot_be_taken_offline_is_not_to_be() {
    const SIBLINGS_2: (&str, &str) = ("sys/devices/system/cpu/cpu2/topology/thread_siblings_list", "0,2\n");
    const SIBLINGS_3: (&str, &str) = ("sys/devices/system/cpu/cpu3/topology/thread_siblings_list", "1,3\n");
    let findings = audited(&laptop(&[SIBLINGS_2, SIBLINGS_3]), &[2, 3], &quiet(&[2, 3]));
    let fix = find(&findings, "smt-siblings").fix.clone().unwrap_or_default();
    assert!(!fix.contains("cpu0/online") && fix.contains("keep them idle"), "{fix}");
}

#[test]
fn a_virtual_machine_shows_nothing_of_its_host() {
    let changed = |(name, text): &(&'static str, &'static str)| match *name {
        "proc/cpuinfo" => (*name, "processor\t: 0\nflags\t\t: fpu hypervisor tsc\n"),
        "sys/devices/system/cpu/cpu0/topology/thread_siblings_list" => (*name, "0\n"),
        "sys/devices/system/cpu/cpu1/topology/thread_siblings_list" => (*name, "1\n"),
        _ => (*name, *text),
    };
    let mut files: Vec<(&str, &str)> = LAPTOP.iter().map(changed).collect();
    files.push(("proc/stat", "cpu  50 0 40 900 3 0 2 0 0 0\n"));
    let findings = audited(&files, &[0, 1], &quiet(&[0, 1]));
    assert!(!find(&findings, "steal").visible, "{:?}", find(&findings, "steal"));
    files.retain(|(name, _)| *name != "proc/stat");
    files.push(("proc/stat", "cpu  50 0 40 900 3 0 2 7 0 0\n"));
    assert!(find(&audited(&files, &[0, 1], &quiet(&[0, 1])), "steal").visible);
    for check in ["smt-siblings", "numa"] {
        let finding = find(&findings, check);
        assert!(!finding.visible && finding.value.contains("a virtual machine does not show"), "{finding:?}");
    }
}

#[test]
fn limits_do_not_hold_for_capabilities_but_in_a_user_namespace() {
    let said = |capabilities: &str, users: Option<&str>| {
        let status = format!("Name:\ttripmeter\nCapEff:\t{capabilities}\nCpus_allowed_list:\t0-3\n");
        let kept = LAPTOP.iter().filter(|(name, _)| *name != "proc/self/status").copied();
        let users = users.map(|users| ("proc/self/uid_map", users));
        let files: Vec<_> = kept.chain([("proc/self/status", status.as_str())]).chain(users).collect();
        let findings = audited(&files, &[0, 1], &quiet(&[0, 1]));
        ["limit-memlock", "limit-rtprio"].map(|check| {
            let finding = find(&findings, check);
            assert_eq!(finding.fix.is_none(), finding.value.starts_with("unlimited"), "{finding:?}");
            finding.value.clone()
        })
    };
    let (lock, nice) = ("unlimited, by the capability CAP_IPC_LOCK", "unlimited, by the capability CAP_SYS_NICE");
    let (no_lock, no_nice) = ("8M", "0: no real-time priority");
    let all = Some("         0          0 4294967295\n");
    assert_eq!(said("0000000000800000", all), [no_lock, nice]);
    assert_eq!(said("0000000000004000", all), [lock, no_nice]);
    assert_eq!(said("000001ffffffffff", None), [lock, nice]);
    assert_eq!(said("000001ffffffffff", Some("         0       1000          1\n")), [no_lock, no_nice]);
}

#[test]
fn nonsense_is_not_visible_either() {
    let nonsense: Vec<(&str, &str)> = LAPTOP.iter().map(|(name, _)| (*name, "\u{0}what? -1 ::: [\n")).collect();
    let findings = audited(&nonsense, &[0, 1], &quiet(&[0, 1]));
    for check in ["smt-siblings", "c-states", "isolation", "numa", "affinity", "scheduling-policy", "limit-memlock"] {
        assert!(!find(&findings, check).visible, "{:?}", find(&findings, check));
    }
}

#[test]
fn cpus_of_one_core_or_of_two_nodes_are_warned_of() {
    let mut files = LAPTOP.to_vec();
    files.push(("sys/devices/system/cpu/cpu2/topology/thread_siblings_list", "0,2\n"));
    let findings = audited(&files, &[0, 2], &quiet(&[0, 2]));
    let finding = find(&findings, "smt-siblings");
    assert_eq!((finding.level, finding.value.as_str()), (Level::Warn, "CPUs 0,2 share a core"));
    files.retain(|(name, _)| !name.contains("/node0/"));
    files.extend([
        ("sys/devices/system/node/node0/cpulist", "0-1\n"),
        ("sys/devices/system/node/node1/cpulist", "2-3\n"),
        ("proc/sys/kernel/numa_balancing", "1\n"),
    ]);
    let finding = find(&audited(&files, &[0, 2], &quiet(&[0, 2])), "numa").clone();
    assert_eq!((finding.level, finding.value.as_str()), (Level::Warn, "node0, node1 of 2 nodes; balancing on"));
    let finding = find(&audited(&files, &[0, 1], &quiet(&[0, 1])), "numa").clone();
    assert_eq!((finding.level, finding.fix.is_some()), (Level::Info, true));
}

#[test]
fn what_happened_meanwhile_warns_and_fails_by_its_share() {
    let happened = |change: &dyn Fn(&mut Activity)| {
        let mut activity = quiet(&[0, 1]);
        activity.others_ns = Some(0);
        activity.pressure.cpu_ns = Some(0);
        activity.throttled = Some(Throttled::default());
        change(&mut activity);
        audited(LAPTOP, &[0, 1], &activity)
    };
    let level = |check: &str, change: &dyn Fn(&mut Activity)| find(&happened(change), check).level;
    for check in ["steal", "pressure", "interrupts", "load", "smt-siblings", "thermal-throttling"] {
        assert_eq!(level(check, &|_| ()), Level::Info, "{check}");
    }
    assert_eq!(level("steal", &|activity| activity.cpus[1].steal_ns = Some(50_000_000)), Level::Warn);
    assert_eq!(level("steal", &|activity| activity.cpus[1].steal_ns = Some(500_000_000)), Level::Fail);
    assert_eq!(level("pressure", &|activity| activity.pressure.cpu_ns = Some(200_000_000)), Level::Warn);
    assert_eq!(level("pressure", &|activity| activity.pressure.memory_ns = Some(20_000_000)), Level::Warn);
    assert_eq!(level("load", &|activity| activity.others_ns = Some(150_000_000)), Level::Warn);
    assert_eq!(level("load", &|activity| activity.others_ns = Some(u64::MAX / 2)), Level::Fail);
    assert_eq!(level("smt-siblings", &|activity| activity.cpus[0].sibling_busy_ns = Some(60_000_000)), Level::Warn);
    assert_eq!(level("thermal-throttling", &|activity| activity.cpus[0].thermal_throttles = Some(1)), Level::Fail);
    let device = |activity: &mut Activity| {
        activity.cpus[0].interrupts = Some(Interrupts { device: 1000, timer: 0, other: 0 });
    };
    assert_eq!(level("interrupts", &device), Level::Warn);
    let mut files = LAPTOP.to_vec();
    files.push(("sys/fs/cgroup/cpu.max", "150000 100000\n"));
    let throttled = |periods| {
        let mut activity = quiet(&[0, 1]);
        activity.throttled = Some(Throttled { periods, time_ns: periods * 1_000_000 });
        find(&audited(&files, &[0, 1], &activity), "cgroup-throttling").clone()
    };
    assert_eq!(throttled(0).value, "not throttled; quota of 1.50 CPUs (/sys/fs/cgroup)");
    assert_eq!((throttled(0).level, throttled(9).level), (Level::Warn, Level::Fail));
}

#[test]
fn a_quota_is_a_warning_without_a_second_reading() {
    let read = |quota, activity: Option<&Activity>| {
        let mut files = LAPTOP.to_vec();
        files.push(("sys/fs/cgroup/cpu.max", quota));
        let (_folder, root) = tree(&files);
        let (clock, hiccups, processes, cpus) = (clock(), None, &[], &[0, 1]);
        let observed = MachineObservations {
            root: &root,
            cpus,
            clock: &clock,
            activity,
            hiccups,
            processes,
            loads: &[],
            by_hand: false,
        };
        find(&findings(&observed), "cgroup-throttling").clone()
    };
    // Without a second reading, and with two that lack the counters.
    for activity in [None, Some(&quiet(&[0, 1]))] {
        let least = read("150000 100000\n", activity);
        let value = "quota of 1.50 CPUs (/sys/fs/cgroup); whether it throttled is not visible here";
        assert_eq!((least.level, least.visible, least.value.as_str()), (Level::Warn, true, value));
        assert!(least.fix.is_some_and(|fix| fix.contains("CPUQuota=")));
        for enough in ["200000 100000\n", "max 100000\n"] {
            assert!(!read(enough, activity).visible, "{enough}");
        }
    }
}

#[test]
fn processes_that_left_their_cpus_or_were_disturbed_are_named() {
    let (_folder, root) = tree(LAPTOP);
    let process = |who: &str, cpus: &[usize], involuntary_switches, major_faults| ProcessActivity {
        who: who.to_owned(),
        cpus: Some(cpus.to_vec()),
        policy: Some("other, nice 5".to_owned()),
        cpu_time_ns: 2_000_000_000,
        involuntary_switches,
        major_faults,
        ..ProcessActivity::default()
    };
    let audited = |processes: &[ProcessActivity]| {
        let (clock, activity) = (clock(), quiet(&[0, 1]));
        let (root, activity) = (&root, Some(&activity));
        findings(&MachineObservations {
            root,
            cpus: &[0, 1],
            clock: &clock,
            activity,
            hiccups: None,
            processes,
            loads: &[],
            by_hand: false,
        })
    };
    let good = audited(&[process("leader of uds", &[0], 10, 0), process("follower of uds", &[1], 0, 0)]);
    for check in ["affinity", "context-switches", "page-faults"] {
        assert_eq!(find(&good, check).level, Level::Info, "{check}");
    }
    let bad = audited(&[process("leader of uds", &[0], 400, 3), process("follower of uds", &[0, 1, 2], 0, 0)]);
    assert_eq!(find(&bad, "affinity").level, Level::Fail);
    assert_eq!(find(&bad, "affinity").value, "follower of uds could run on CPUs 0-2");
    // Another host may report any number.
    let most = process("follower of uds", &[1], u64::MAX, u64::MAX);
    assert_eq!(find(&audited(&[most.clone(), most]), "page-faults").level, Level::Warn);
    let planned = |cpus: &[usize], own: Option<usize>| ProcessActivity {
        planned_cpus: own.map(|cpu| vec![cpu]),
        ..process("leader of uds", cpus, 0, 0)
    };
    let of_leader = |leader: ProcessActivity| find(&audited(&[leader]), "affinity").clone();
    let left = of_leader(planned(&[0, 1], Some(0)));
    assert_eq!((left.level, left.value.as_str()), (Level::Fail, "leader of uds could run on CPUs 0-1, not 0"));
    assert_eq!(of_leader(planned(&[0], Some(0))).level, Level::Info);
    let free = of_leader(planned(&[0, 1], None));
    assert_eq!(free.level, Level::Warn);
    assert!(free.value.ends_with("; the kernel could move leader of uds"), "{}", free.value);
    let switches = "400 involuntary, 0 voluntary; most: leader of uds, 200 involuntary per second";
    assert_eq!(
        (find(&bad, "context-switches").level, find(&bad, "context-switches").value.as_str()),
        (Level::Warn, switches)
    );
    assert_eq!(find(&bad, "page-faults").level, Level::Warn);
    let late = ProcessActivity { timer_slack_ns: Some(1_000_000), ..process("follower of uds", &[1], 0, 0) };
    assert_eq!(find(&audited(&[late]), "timer-slack").value, "60000 ns; follower of uds: 1000000 ns");
    let policies = |leader: &str, follower: &str| {
        let with =
            |who: &str, policy: &str| ProcessActivity { policy: Some(policy.to_owned()), ..process(who, &[0], 0, 0) };
        find(&audited(&[with("leader of uds", leader), with("follower of uds", follower)]), "scheduling-policy").clone()
    };
    let in_real_time = policies("fifo, priority 17", "fifo, priority 17");
    assert!(in_real_time.value.ends_with("; leader of uds: fifo, priority 17"), "{}", in_real_time.value);
    let one_not = policies("fifo, priority 17", "batch, nice 0");
    assert_eq!(one_not.level, Level::Warn);
    assert!(one_not.value.ends_with("; follower of uds: batch, nice 0"), "{}", one_not.value);
}

#[test]
fn hiccups_count_by_their_longest_and_their_sum() {
    let hiccups = |max_ns, lost_ns| {
        let one = Hiccups {
            cpu: 0,
            duration_ns: 1_000_000_000,
            threshold_ns: 1000,
            gaps: 1,
            p99_ns: max_ns,
            max_ns,
            lost_ns,
            not_bound: None,
        };
        let (_folder, root) = tree(&[]);
        let (activity, clock) = (Activity::default(), clock());
        let one = [one];
        let (root, activity, clock, hiccups) = (&root, Some(&activity), &clock, Some(&one[..]));
        let observed = MachineObservations {
            root,
            cpus: &[0],
            clock,
            activity,
            hiccups,
            processes: &[],
            loads: &[],
            by_hand: false,
        };
        find(&findings(&observed), "hiccups").level
    };
    assert_eq!(hiccups(900_000, 9_000_000), Level::Info);
    assert_eq!(hiccups(1_100_000, 9_000_000), Level::Warn);
    assert_eq!(hiccups(900_000, 11_000_000), Level::Warn);
    assert_eq!(hiccups(900_000, 110_000_000), Level::Fail);
}

#[test]
fn this_machine_can_be_audited() {
    let cpus = os::allowed_cpus();
    let calibration = Calibration::new();
    let audit = before(&Root::machine(), &cpus, &calibration, Some(Duration::from_millis(20)));
    let names: Vec<&str> = audit.findings.iter().map(|finding| finding.check.as_str()).collect();
    assert_eq!(names, checks().map(|check| check.name).collect::<Vec<_>>());
    assert_eq!(audit.hiccups.iter().map(|hiccups| hiccups.cpu).collect::<Vec<_>>(), cpus);
    for (thread, cpu) in audit.processes.iter().zip(&cpus) {
        assert!(thread.cpus.as_ref().is_none_or(|cpus| cpus == &[*cpu]), "{thread:?}");
    }
    let begin = Snapshot::take(&Root::machine(), &cpus);
    let own = [this_thread("test", os::Whose::Thread)];
    let clock = (&calibration.info(), &calibration.timebase);
    let later = after(&Root::machine(), &cpus, clock, &begin, &own, true, true);
    assert!(!later.findings.iter().any(|finding| finding.check == "hiccups"));
    assert!(!find(&later.findings, "load").visible);
}

#[test]
fn without_a_spin_no_difference_is_visible_and_the_rest_is() {
    let (_folder, root) = tree(LAPTOP);
    let audit = before(&root, &[0, 1], &Calibration::new(), None);
    assert_eq!((audit.activity, audit.hiccups, audit.processes), (Activity::default(), Vec::new(), Vec::new()));
    let why = "not visible here: nothing was waited for between two readings";
    let unread: Vec<&str> =
        audit.findings.iter().filter(|one| one.value == why).map(|one| one.check.as_str()).collect();
    let differences = ["thermal-throttling", "smt-siblings", "steal", "pressure", "interrupts", "load"];
    assert_eq!(unread, differences);
    assert!(audit.findings.iter().all(|one| one.visible != one.value.starts_with("not visible here")));
    // Shared cores are visible without a second reading.
    let mut files = LAPTOP.to_vec();
    files.push(("sys/devices/system/cpu/cpu2/topology/thread_siblings_list", "0,2\n"));
    let (_folder, root) = tree(&files);
    assert_eq!(find(&before(&root, &[0, 2], &Calibration::new(), None).findings, "smt-siblings").level, Level::Warn);
    let names: Vec<&str> = audit.findings.iter().map(|one| one.check.as_str()).collect();
    assert_eq!(names, checks().map(|check| check.name).filter(|name| *name != "hiccups").collect::<Vec<_>>());
}

#[test]
fn names_are_distinct_and_every_check_is_described() {
    let mut names: Vec<&str> = checks().map(|check| check.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), checks().count());
    assert!(checks().all(|check| !check.source.is_empty() && !check.limit.is_empty()));
    assert!(checks().all(|check| !check.fix.is_empty() || check.limit.starts_with("info only")));
}

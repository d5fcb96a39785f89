//! Checks of the measuring processes: their CPUs, scheduling, context switches and page faults.

use super::check::{MachineCheck, MachineObservations, Reading};
use super::parse;
use super::root::{Hidden, Root};
use crate::os::{self, Whose};
use std::collections::BTreeSet;
use tripmeter_model::audit::{CheckInfo, Level, ProcessActivity};
use tripmeter_model::count::saturating_sum;

/// Involuntary switches per second of CPU time. The kernel itself causes a few.
const MOST_SWITCHES_PER_S: f64 = 50.0;
/// Default of Linux. Service managers and shells may pass on more.
const USUAL_SLACK_NS: u64 = 50_000;

pub(super) const CHECKS: &[MachineCheck] = &[
    MachineCheck {
        info: CheckInfo {
            name: "affinity",
            source: "/proc/self/status: Cpus_allowed_list; the same of each process or thread that measured",
            limit: "warns if only one CPU is allowed or processes are not pinned; fails if a process can leave its CPU",
            fix: "start it with more CPUs: taskset -pc 0-1 $$ (docker: --cpuset-cpus=0-1)",
        },
        read: affinity,
    },
    MachineCheck {
        info: CheckInfo {
            name: "scheduling-policy",
            source: "/proc/self/stat; the same of each process or thread that measured",
            limit: "warns if the policy is neither 'other' with nice 0 or less, nor 'fifo' by --sched",
            fix: "in the shell that starts it: chrt --other -p 0 $$; sudo renice -n 0 -p $$",
        },
        read: policy,
    },
    MachineCheck {
        info: CheckInfo {
            name: "context-switches",
            source: "getrusage of each process or thread that measured",
            limit: "warns above 50 involuntary ones per second of CPU time",
            fix: "stop other programs, or bind them elsewhere: taskset -pc OTHERS PID",
        },
        read: switches,
    },
    MachineCheck {
        info: CheckInfo {
            name: "page-faults",
            source: "getrusage of each process or thread that measured",
            limit: "warns if any waited for a disk",
            fix: "give it more memory, or sudo swapoff -a; and ulimit -l unlimited",
        },
        read: faults,
    },
    MachineCheck {
        info: CheckInfo {
            name: "timer-slack",
            source: "/proc/self/timerslack_ns; PR_GET_TIMERSLACK of each process or thread that measured",
            limit: "warns above 50000 ns, Linux's default: time-outs and sleeps may end that much later",
            fix: "in the shell that starts it: echo 50000 > /proc/$$/timerslack_ns",
        },
        read: slack,
    },
];

/// Resource usage of this process or thread, and the scheduling of this thread.
pub fn this_thread(who: &str, whose: Whose) -> ProcessActivity {
    let used = os::usage(whose);
    let root = Root::machine();
    ProcessActivity {
        who: who.to_owned(),
        cpus: allowed(&root, "proc/thread-self").ok(),
        planned_cpus: None,
        policy: scheduling(&root, "proc/thread-self").ok().map(|(text, _)| text),
        timer_slack_ns: os::timer_slack_ns(),
        cpu_time_ns: used.cpu_time_ns,
        voluntary_switches: used.voluntary_switches,
        involuntary_switches: used.involuntary_switches,
        minor_faults: used.minor_faults,
        major_faults: used.major_faults,
        libraries: if whose == Whose::Process { libraries(&root) } else { Vec::new() },
    }
}

/// Shared libraries of this process, sorted. procfs would return none if it could not parse one line of `maps`.
///
/// # Source
/// proc_pid_maps(5): executable mappings of files.
fn libraries(root: &Root) -> Vec<String> {
    let maps = root.text("proc/self/maps").unwrap_or_default();
    let code = maps.lines().filter(|line| line.split_ascii_whitespace().nth(1).is_some_and(|may| may.contains('x')));
    let files = code.filter_map(|line| line.find('/').map(|at| line[at..].to_owned()));
    let libraries: BTreeSet<String> = files.filter(|file| file.contains(".so")).collect();
    libraries.into_iter().collect()
}

/// # Source
/// `Cpus_allowed_list` of proc_pid_status(5).
fn allowed(root: &Root, folder: &str) -> Result<Vec<usize>, Hidden> {
    root.parsed(&format!("{folder}/status"), |text| {
        let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        parse::cpu_list(list).filter(|cpus| !cpus.is_empty())
    })
}

/// Policy and priority as text; true if they are the usual ones.
///
/// # Source
/// sched(7) and the kernel's uapi/linux/sched.h for the numbers.
fn scheduling(root: &Root, folder: &str) -> Result<(String, bool), Hidden> {
    let process = root.parsed(&format!("{folder}/stat"), parse::process)?;
    let number = process.policy.unwrap_or_default();
    let policy = match number {
        0 => "other",
        1 => "fifo",
        2 => "rr",
        3 => "batch",
        5 => "idle",
        6 => "deadline",
        _ => "unknown",
    };
    Ok(match number {
        1 | 2 => (format!("{policy}, priority {}", process.rt_priority.unwrap_or_default()), false),
        0 => (format!("{policy}, nice {}", process.nice), process.nice <= 0),
        _ => (format!("{policy}, nice {}", process.nice), false),
    })
}

fn affinity(observed: &MachineObservations<'_>) -> Result<Reading, Hidden> {
    let fix = || match observed.cpus {
        [cpu] => format!("tripmeter run --leader-cpu {cpu} --follower-cpu {cpu}"),
        cpus => format!("tripmeter run --leader-cpu N --follower-cpu M with two of {}", parse::written(cpus)),
    };
    let elsewhere = |process: &&ProcessActivity| {
        let own = process.planned_cpus.as_deref().unwrap_or(observed.cpus);
        process.cpus.iter().flatten().any(|cpu| !own.contains(cpu))
    };
    if let Some(process) = observed.processes.iter().find(elsewhere) {
        let cpus = parse::written(process.cpus.as_deref().unwrap_or_default());
        let planned =
            process.planned_cpus.as_deref().map_or(String::new(), |own| format!(", not {}", parse::written(own)));
        let value = format!("{} could run on CPUs {cpus}{planned}", process.who);
        return Ok(Reading::fail(value).fixed_by(fix()));
    }
    let allowed = allowed(observed.root, "proc/self")?;
    let value = format!("CPUs {} allowed, {} used", parse::written(&allowed), parse::written(observed.cpus));
    let is_free = |process: &&ProcessActivity| {
        process.planned_cpus.is_none() && process.cpus.as_ref().is_some_and(|cpus| cpus.len() > 1)
    };
    if let Some(process) = observed.processes.iter().find(is_free) {
        return Ok(Reading::good_if(false, format!("{value}; the kernel could move {}", process.who)).fixed_by(fix()));
    }
    let reading = Reading::good_if(allowed.len() > 1, value);
    let has_one = reading.level == Level::Warn && observed.online().len() == 1;
    Ok(if has_one { reading.fixed_by("use a machine with more CPUs: this one has one".to_owned()) } else { reading })
}

fn policy(observed: &MachineObservations<'_>) -> Result<Reading, Hidden> {
    let (own, is_usual) = scheduling(observed.root, "proc/self")?;
    let policies = observed.processes.iter().filter_map(|process| Some((&process.who, process.policy.as_deref()?)));
    let others: Vec<(&String, &str)> = policies.filter(|(_, policy)| *policy != own).collect();
    // Only --sched gives a measuring thread a real-time policy that its parent does not have.
    let not_asked = others.iter().find(|(_, policy)| !policy.starts_with("fifo"));
    let value = match not_asked.or(others.first()) {
        Some((who, policy)) => format!("{own}; {who}: {policy}"),
        None => own.clone(),
    };
    Ok(Reading::good_if(is_usual && not_asked.is_none(), value))
}

fn rate(process: &ProcessActivity) -> f64 {
    // A process that hardly ran was hardly disturbed.
    process.involuntary_switches as f64 / (process.cpu_time_ns as f64 / 1e9).max(0.1)
}

fn switches(observed: &MachineObservations<'_>) -> Result<Reading, Hidden> {
    let worst = observed.processes.iter().max_by(|one, other| rate(one).total_cmp(&rate(other)));
    let worst = worst.ok_or("no measuring process reported its resource usage")?;
    let voluntary = saturating_sum(observed.processes.iter().map(|process| process.voluntary_switches));
    let involuntary = saturating_sum(observed.processes.iter().map(|process| process.involuntary_switches));
    let value = format!(
        "{involuntary} involuntary, {voluntary} voluntary; most: {}, {:.0} involuntary per second",
        worst.who,
        rate(worst)
    );
    Ok(Reading::good_if(rate(worst) <= MOST_SWITCHES_PER_S, value))
}

fn slack(observed: &MachineObservations<'_>) -> Result<Reading, Hidden> {
    let own = ("tripmeter", observed.root.number("proc/self/timerslack_ns")?);
    let processes = observed.processes.iter().filter_map(|process| Some((&*process.who, process.timer_slack_ns?)));
    let (who, ns) = [own].into_iter().chain(processes).max_by_key(|(_, ns)| *ns).unwrap_or(own);
    let value = if ns == own.1 { format!("{ns} ns") } else { format!("{} ns; {who}: {ns} ns", own.1) };
    Ok(Reading::good_if(ns <= USUAL_SLACK_NS, value))
}

fn faults(observed: &MachineObservations<'_>) -> Result<Reading, Hidden> {
    if observed.processes.is_empty() {
        return Err("no measuring process reported its resource usage".to_owned());
    }
    let sum = |of: fn(&ProcessActivity) -> u64| saturating_sum(observed.processes.iter().map(of));
    let (minor, major) = (sum(|process| process.minor_faults), sum(|process| process.major_faults));
    Ok(Reading::good_if(major == 0, format!("{major} waited for a disk, {minor} did not")))
}

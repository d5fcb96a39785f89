//! Checks of polling loops with real-time scheduling, which never release their CPUs.

use super::error::Problem;
use crate::os;
use std::collections::BTreeMap;
use tripmeter_abi::{Variant, Wait};
use tripmeter_model::interference::Sched;
use tripmeter_model::plan::{Plan, SubExperiment};
use tripmeter_model::workload::Workload;

/// Scheduling of a system's own threads in a measuring process. Threads that deliver messages get a higher priority, as
/// a polling loop of equal priority would block them. A logger's threads inherit it from the measuring thread.
pub(crate) fn library_sched(sub: &SubExperiment, variant: &Variant) -> Sched {
    let is_first = variant.own_threads && !variant.same_process && !sub.workload.is_log();
    if is_first { sub.sched.above() } else { sub.sched }
}

/// Checks that this process may use the scheduling, and that polling loops leave a CPU to other threads.
pub(crate) fn check(plan: &Plan, sub: &SubExperiment, variant: &Variant) -> Result<(), Problem> {
    if sub.sched.is_other() {
        return Ok(());
    }
    let most = library_sched(sub, variant);
    os::may_schedule(most).map_err(|error| Problem::NoRealTime { sched: most, why: error.to_string() })?;
    if sub.wait != Wait::Poll {
        return Ok(());
    }
    let loops = loops_here(&sub.workload, plan.hosts.is_empty());
    leaves_cpus(sub.sched, loops, os::allowed_cpus().len(), plan.cpus.len(), os::real_time_limit_us())
}

/// Checks that each of `loops` has one of the `allowed` CPUs. If the kernel sets no real-time limit (-1), one CPU must
/// stay free. `chosen` is the number of requested CPUs, or 0.
fn leaves_cpus(
    sched: Sched,
    loops: usize,
    allowed: usize,
    chosen: usize,
    limit_us: Option<i64>,
) -> Result<(), Problem> {
    if loops > allowed {
        return Err(Problem::TooFewCpus { sched, threads: loops, cpus: allowed });
    }
    let cpus = if chosen == 0 { allowed } else { chosen };
    if loops >= cpus && limit_us == Some(-1) {
        return Err(Problem::Starves { sched, cpus });
    }
    Ok(())
}

/// Refuses polling loops in real time that share a CPU: one loop would keep the others from running forever.
pub(super) fn takes_turns(plan: &Plan, sub: &SubExperiment) -> Result<(), Problem> {
    let (sched, workload) = (sub.sched, &sub.workload);
    if sched.is_other() || sub.wait != Wait::Poll {
        return Ok(());
    }
    // All loops of a process run on its CPU, if it is bound to one.
    let mut loops = BTreeMap::from([(plan.leader_cpu, workload.polling_loops() as usize)]);
    let here = if plan.hosts.is_empty() { workload.followers() as usize } else { 0 };
    for index in 0..here {
        let cpu = sub.follower_cpus.get(index).copied().or(plan.follower_cpu);
        *loops.entry(cpu).or_default() += 1;
    }
    let free = loops.remove(&None).unwrap_or_default();
    if let Some((Some(cpu), _)) = loops.iter().find(|(_, count)| **count > 1) {
        return Err(Problem::TakesTurns { sched, cpu: *cpu });
    }
    let pinned = plan.cpus.iter().filter(|cpu| loops.contains_key(&Some(**cpu))).count();
    if free > 0 && !plan.cpus.is_empty() && free + pinned > plan.cpus.len() {
        return Err(Problem::FewOfCpus { sched, loops: free + pinned, cpus: plan.cpus.len() });
    }
    Ok(())
}

/// Number of polling loops on this host. A polling follower has one loop for all links.
fn loops_here(workload: &Workload, has_followers: bool) -> usize {
    workload.polling_loops() as usize + if has_followers { workload.followers() as usize } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tripmeter_model::pace::OfferedLoad;
    use tripmeter_model::workload::Topology;

    #[test]
    fn loops_that_poll_are_counted_of_each_side_that_is_here() {
        let loads = || vec![OfferedLoad::Closed];
        let loops = |workload: Workload| [true, false].map(|has_followers| loops_here(&workload, has_followers));
        assert_eq!(loops(Workload::default()), [2, 1]);
        assert_eq!(loops(Workload::calls(loads(), 4, 7)), [5, 4], "a follower answers all clients in turns");
        let topics = Workload::publications(loads(), 3, 1);
        assert_eq!(loops(topics.clone()), [2, 1], "publishers sleep");
        assert_eq!(loops(Workload { topology: Topology { followers: 2, ..topics.topology }, ..topics }), [3, 1]);
    }

    #[test]
    fn loops_that_would_keep_all_cpus_for_themselves_are_refused() {
        let of = |loops, chosen, limit_us| leaves_cpus(Sched::Fifo(1), loops, 4, chosen, Some(limit_us));
        assert!(of(3, 0, -1).is_ok());
        assert!(matches!(of(4, 0, -1), Err(Problem::Starves { cpus: 4, .. })));
        assert!(matches!(of(2, 2, -1), Err(Problem::Starves { cpus: 2, .. })), "no CPU beside the chosen ones is used");
        assert!(of(4, 0, 950_000).is_ok());
        assert!(matches!(of(5, 0, 950_000), Err(Problem::TooFewCpus { threads: 5, cpus: 4, .. })));
    }
}

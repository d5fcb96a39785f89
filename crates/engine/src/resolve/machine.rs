//! Properties of this machine that planning needs.

use super::error::Problem;
use super::error::listed;
use crate::audit::cpu_list;
use procfs::FromRead;
use procfs::process::Status;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

pub(super) struct Machine {
    /// CPUs that this process may use, in ascending order.
    pub cpus: Vec<UsableCpu>,
    pub has_program: fn(&str) -> bool,
}

pub(super) struct UsableCpu {
    pub number: usize,
    pub core: Vec<usize>,
}

impl Machine {
    /// # Source
    /// `Cpus_allowed_list` of proc_pid_status(5); `thread_siblings_list` of the kernel's cputopology.rst.
    pub fn this() -> Result<Self, Problem> {
        let status = std::fs::read("/proc/self/status").map_err(|e| Problem::NoCpus(e.to_string()))?;
        let allowed = Status::from_read(&*status).ok().and_then(|status| status.cpus_allowed_list).unwrap_or_default();
        if allowed.is_empty() {
            return Err(Problem::NoCpus("/proc/self/status lists none".to_owned()));
        }
        let allowed = allowed.into_iter().flat_map(|(first, last)| first as usize..=last as usize);
        let cpus = allowed.map(|number| UsableCpu { number, core: core_of(number) }).collect();
        Ok(Self { cpus, has_program })
    }

    /// CPUs of leader and follower: the requested ones, else two of different cores, else any two, else a shared one.
    pub fn place(&self, leader: Option<usize>, follower: Option<usize>) -> Result<(usize, usize), Problem> {
        for (role, cpu) in [("leader", leader), ("follower", follower)] {
            if let Some(cpu) = cpu.filter(|cpu| !self.cpus.iter().any(|one| one.number == *cpu)) {
                let allowed = listed(self.cpus.iter().map(|one| one.number));
                return Err(Problem::Cpu { role, cpu, allowed });
            }
        }
        let leader = leader.or_else(|| follower.map(|cpu| self.apart_from(cpu))).unwrap_or(self.cpus[0].number);
        Ok((leader, follower.unwrap_or_else(|| self.apart_from(leader))))
    }

    /// Parses a list in the kernel's format, without duplicates.
    pub fn list(&self, text: &str) -> Result<Vec<usize>, Problem> {
        let cpus = cpu_list(text).filter(|cpus| !cpus.is_empty());
        let mut cpus = cpus.ok_or_else(|| Problem::NotCpus(text.to_owned()))?;
        cpus.sort_unstable();
        cpus.dedup();
        self.has(&cpus).map(|()| cpus)
    }

    pub fn has(&self, cpus: &[usize]) -> Result<(), Problem> {
        match cpus.iter().find(|cpu| !self.cpus.iter().any(|one| one.number == **cpu)) {
            None => Ok(()),
            Some(cpu) => {
                let allowed = listed(self.cpus.iter().map(|one| one.number));
                Err(Problem::CpuOfList { cpu: *cpu, allowed })
            }
        }
    }

    /// CPUs of several followers: `asked` for all, else any CPU but the leader's, other cores first. CPUs are repeated
    /// if there are too few.
    pub fn spread(&self, leader: usize, asked: Option<usize>, followers: u32) -> Vec<usize> {
        let others = || self.cpus.iter().filter(|other| other.number != leader);
        let (apart, siblings): (Vec<_>, Vec<_>) = others().partition(|other| !other.core.contains(&leader));
        let mut free: Vec<usize> = apart.into_iter().chain(siblings).map(|one| one.number).collect();
        if free.is_empty() {
            free.push(leader);
        }
        free.into_iter().cycle().map(|cpu| asked.unwrap_or(cpu)).take(followers as usize).collect()
    }

    /// CPU of another core, else any other CPU, else the same one.
    fn apart_from(&self, cpu: usize) -> usize {
        let others = || self.cpus.iter().filter(|other| other.number != cpu);
        let other = others().find(|other| !other.core.contains(&cpu)).or_else(|| others().next());
        other.map_or(cpu, |other| other.number)
    }
}

fn core_of(cpu: usize) -> Vec<usize> {
    let file = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    std::fs::read_to_string(file).ok().and_then(|text| cpu_list(&text)).unwrap_or_default()
}

fn has_program(program: &str) -> bool {
    let runs = |file: &Path| {
        file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        return runs(Path::new(program));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| runs(&folder.join(program)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(cores: &[&[usize]]) -> Machine {
        let mut cpus: Vec<UsableCpu> = cores
            .iter()
            .flat_map(|core| core.iter().map(|number| UsableCpu { number: *number, core: core.to_vec() }))
            .collect();
        cpus.sort_by_key(|one| one.number);
        Machine { cpus, has_program: |_| false }
    }

    #[test]
    fn several_followers_are_spread_and_share_only_where_they_must() {
        let machine = machine(&[&[0, 1], &[2, 3]]);
        assert_eq!(machine.spread(0, None, 3), [2, 3, 1]);
        assert_eq!(machine.spread(0, None, 5), [2, 3, 1, 2, 3]);
        assert_eq!(machine.spread(3, Some(1), 2), [1, 1]);
        assert_eq!(self::machine(&[&[7]]).spread(7, None, 2), [7, 7]);
    }

    #[test]
    fn leader_and_follower_are_on_different_cores_where_there_are_two() {
        assert_eq!(machine(&[&[0, 1], &[2, 3]]).place(None, None).unwrap(), (0, 2));
        assert_eq!(machine(&[&[0, 2], &[1, 3]]).place(None, None).unwrap(), (0, 1));
        assert_eq!(machine(&[&[4, 5]]).place(None, None).unwrap(), (4, 5));
        assert_eq!(machine(&[&[7]]).place(None, None).unwrap(), (7, 7));
    }

    #[test]
    fn cpus_asked_for_are_taken_and_the_other_side_keeps_away() {
        let machine = machine(&[&[0, 1], &[2, 3]]);
        assert_eq!(machine.place(Some(3), None).unwrap(), (3, 0));
        assert_eq!(machine.place(None, Some(0)).unwrap(), (2, 0));
        assert_eq!(machine.place(Some(1), Some(1)).unwrap(), (1, 1));
    }

    #[test]
    fn a_cpu_that_is_not_allowed_is_refused_and_the_allowed_ones_are_listed() {
        let error = machine(&[&[0], &[2]]).place(None, Some(1)).unwrap_err().to_string();
        assert!(error.contains("CPU 1 for the follower") && error.ends_with("choose one of 0, 2"), "{error}");
    }

    #[test]
    fn a_list_of_cpus_holds_allowed_ones_only() {
        let machine = machine(&[&[0, 1], &[2, 3]]);
        assert_eq!(machine.list("2,0-1,1").unwrap(), [0, 1, 2]);
        for (text, part) in [("", "--cpus"), ("0-", "'0-'"), ("3-1", "'3-1'"), ("1-4", "CPU 4")] {
            let error = machine.list(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn this_machine_has_cpus() {
        assert!(!Machine::this().unwrap().cpus.is_empty());
    }

    #[test]
    fn programs_are_looked_up_as_the_shell_does() {
        assert!(has_program("sh") && has_program("/bin/sh"));
        assert!(!has_program("no-such-program-of-ours") && !has_program("/etc/passwd"));
    }
}

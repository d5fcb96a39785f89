//! Resolves an experiment into a plan. Everything is checked before anything starts.

mod call;
mod check;
mod defaults;
mod error;
mod floor;
mod load;
mod log;
mod machine;
mod names;
mod planner;
mod publish;
pub(crate) mod real_time;
mod task;
mod topics;
mod topology;
mod transport;
mod workload;

pub use check::{OutOfBounds, check_plan, check_rounds};
pub use defaults::MOST_ATTEMPTS;
pub use error::{PlanError, Problem};
pub use publish::fits_recording;
pub use topics::of_topics;

pub use crate::measure::several_followers::MOST_FOLLOWERS;
use crate::os::{self, ProcessIdentity};
use crate::registry::{Registry, RegistryError};
use crate::scratch::{fresh_run_id, temporary_folder};
use defaults::{DEFAULT_CLOCK_ERROR_US, DEFAULT_LOSS_TIMEOUT_S};
use error::AtTransport;
use machine::Machine;
use names::{background_suffix, check_name, check_names};
use planner::{Candidate, Planner, ResolvedSubExperiment};
use std::collections::{BTreeSet, HashMap};
use std::time::{SystemTime, UNIX_EPOCH};
use task::PlannedTask;
use tripmeter_abi::Description;
use tripmeter_model::count::MOST_COUNT;
use tripmeter_model::experiment::{Common, Experiment, SubExperimentFile, TableKind};
use tripmeter_model::pattern::facts;
use tripmeter_model::plan::{Host, Plan};
use tripmeter_model::transport::Selector;

/// Checks an experiment against systems and machine, and fills in defaults. `source` is the name of the preset or file,
/// or `flags`.
///
/// # Errors
/// The first problem found: its place, value, limit and fix.
pub fn resolve(experiment: &Experiment, source: &str, registry: &Registry) -> Result<Plan, PlanError> {
    let machine = Machine::this().map_err(PlanError::anywhere)?;
    resolve_on(&machine, experiment, source, registry)
}

/// Default CPUs of leader and follower; the first two allowed CPUs if this machine cannot be read.
pub fn usual_cpus() -> Vec<usize> {
    let placed = Machine::this().and_then(|machine| machine.place(None, None));
    let mut cpus = placed.map_or_else(|_| os::allowed_cpus(), |(leader, follower)| vec![leader, follower]);
    cpus.truncate(2);
    cpus.dedup();
    cpus
}

fn resolve_on(
    machine: &Machine,
    experiment: &Experiment,
    source: &str,
    registry: &Registry,
) -> Result<Plan, PlanError> {
    let mut plan = frame(machine, experiment, source).map_err(PlanError::anywhere)?;
    let common = with_hosts(experiment.common(), &plan.hosts).map_err(PlanError::anywhere)?;
    let timeout_ns = experiment.loss_timeout_s.map(|_| plan.loss_timeout_ns);
    PlannedTask::each(&common, &plan, timeout_ns).map_err(PlanError::anywhere)?;
    if experiment.sub_experiments.is_empty() {
        return Err(PlanError::anywhere(Problem::NoSubExperiment));
    }
    // Named after this process, so that a later run can remove it if this one is killed.
    let run_id = fresh_run_id();
    let scratch = temporary_folder(&format!("{}-plan", ProcessIdentity::own()));
    let scratch = scratch.map_err(|error| PlanError::anywhere(Problem::NoScratch(error.to_string())))?;
    let (scratch, made) = (scratch.path(), Vec::new());
    transport::check_secrets(&experiment.settings).map_err(PlanError::anywhere)?;
    let (settings, used, follower_cpu) = (&experiment.settings, BTreeSet::new(), experiment.follower_cpu);
    let mut planner = Planner {
        machine,
        registry,
        scratch,
        run_id,
        settings,
        follower_cpu,
        timeout_ns,
        used,
        plan: &mut plan,
        made,
        places: HashMap::new(),
        refused: Vec::new(),
        is_any_unknown: false,
    };
    for entry in &experiment.sub_experiments {
        planner.add(entry, &common)?;
    }
    let unused = settings.keys().find(|setting| !planner.used.contains(*setting));
    if let Some(setting) = unused.filter(|_| !planner.is_any_unknown) {
        return Err(PlanError::anywhere(Problem::UnusedSetting(setting.clone())));
    }
    if planner.made.is_empty() {
        return Err(planner.nothing_left());
    }
    let made = std::mem::take(&mut planner.made);
    if experiment.floor.unwrap_or(true) {
        floor::add(&mut planner, &made);
    }
    plan.sub_experiments.splice(0..0, made.into_iter().map(|made| made.sub_experiment));
    check_names(&plan.sub_experiments)?;
    check::check_on(machine, &plan).map_err(|error| error.into_plan_error(&plan))?;
    Ok(plan)
}

/// Plan without sub-experiments: everything that they have in common.
fn frame(machine: &Machine, experiment: &Experiment, source: &str) -> Result<Plan, Problem> {
    let rounds = rounds(experiment)?;
    let loss_timeout_s = experiment.loss_timeout_s.unwrap_or(DEFAULT_LOSS_TIMEOUT_S);
    check::loss_timeout(loss_timeout_s)?;
    let attempts = experiment.attempts.unwrap_or(MOST_ATTEMPTS);
    check::attempts(attempts)?;
    let (leader_cpu, follower_cpu) = machine.place(experiment.leader_cpu, experiment.follower_cpu)?;
    let cpus = experiment.cpus.as_deref().map_or(Ok(Vec::new()), |text| machine.list(text))?;
    if !cpus.is_empty() && (experiment.leader_cpu.is_some() || experiment.follower_cpu.is_some()) {
        return Err(Problem::CpusAndCpu);
    }
    let is_bound = cpus.is_empty();
    // Below this limit, JSON readers keep the number exact. Its high bits hardly change between runs.
    let from_clock =
        || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64 % MOST_COUNT);
    experiment.seed.map_or(Ok(()), check::seed)?;
    Ok(Plan {
        source: source.to_owned(),
        sub_experiments: Vec::new(),
        rounds,
        round_folders: false,
        for_ns: experiment.for_s.map(|seconds| (seconds * 1e9).round() as u64),
        seed: experiment.seed.unwrap_or_else(from_clock),
        raw: experiment.raw.unwrap_or_default(),
        keep_samples: experiment.keep_samples,
        streams: experiment.streams.unwrap_or_default(),
        daemons: experiment.daemons.unwrap_or_default(),
        attempts,
        loss_timeout_ns: (loss_timeout_s * 1e9).round() as u64,
        leader_cpu: is_bound.then_some(leader_cpu),
        // Another host has other CPUs, and chooses one itself.
        follower_cpu: if experiment.to.is_some() { experiment.follower_cpu } else { is_bound.then_some(follower_cpu) },
        cpus,
        allowed_cpus: machine.cpus.len(),
        hosts: hosts(experiment)?,
        push: false,
        interface: experiment.interface.clone(),
        max_clock_error_ns: max_clock_error_ns(experiment)?,
        recording: experiment.recording.clone(),
        tables: experiment.tables.clone().unwrap_or_else(|| vec![TableKind::Screen]),
        left_out: Vec::new(),
        not_installed: Vec::new(),
        missing: Vec::new(),
    })
}

/// Number of rounds; 2 for an experiment that ends by time, until the duration of the first is known.
fn rounds(experiment: &Experiment) -> Result<u32, Problem> {
    match (experiment.rounds, experiment.for_s) {
        (Some(_), Some(_)) => Err(Problem::RoundsAndFor),
        (_, Some(seconds)) => check::for_time(seconds).map(|()| 2),
        (rounds, None) => Ok(rounds.unwrap_or(1)),
    }
}

fn max_clock_error_ns(experiment: &Experiment) -> Result<u64, Problem> {
    match experiment.max_clock_error_us.unwrap_or(DEFAULT_CLOCK_ERROR_US) {
        _ if experiment.to.is_none() => Ok(0),
        us => check::clock_error(us).map(|()| (us * 1e3).round() as u64),
    }
}

fn with_hosts(common: Common, hosts: &[Host]) -> Result<Common, Problem> {
    match common.followers {
        _ if hosts.is_empty() => Ok(common),
        Some(followers) if followers as usize != hosts.len() => {
            Err(Problem::FollowersOfHosts { followers, hosts: hosts.len() })
        }
        _ => Ok(Common { followers: Some(hosts.len() as u32), ..common }),
    }
}

fn hosts(experiment: &Experiment) -> Result<Vec<Host>, Problem> {
    let hosts = experiment.to.as_deref().unwrap_or_default();
    let interfaces = experiment.to_interface.as_deref().unwrap_or_default();
    if hosts.is_empty() && (experiment.interface.is_some() || !interfaces.is_empty()) {
        return Err(Problem::InterfaceOfNoHost);
    }
    if !hosts.is_empty() && interfaces.len() > 1 && interfaces.len() != hosts.len() {
        return Err(Problem::Interfaces { interfaces: interfaces.len(), hosts: hosts.len() });
    }
    if hosts.is_empty() && experiment.between_hosts == Some(true) {
        return Err(Problem::NeedsHost);
    }
    hosts.iter().try_for_each(|to| check::host(to))?;
    let of = |at: usize| interfaces.get(at).or(interfaces.first().filter(|_| interfaces.len() == 1)).cloned();
    Ok(hosts.iter().enumerate().map(|(at, to)| Host { to: to.clone(), interface: of(at) }).collect())
}

impl<'a> Planner<'a> {
    fn add(&mut self, entry: &SubExperimentFile, all: &Common) -> Result<(), PlanError> {
        let written = entry.transport.as_str();
        let selector: Selector = written.parse().map_err(|why| PlanError::anywhere(Problem::Selector(why)))?;
        // Checked before the entry is recorded anywhere.
        transport::check_secrets(&selector.settings).map_err(PlanError::anywhere)?;
        let tasks = PlannedTask::each(&entry.common().or(all), self.plan, self.timeout_ns).at(written)?;
        if let Some(name) = &entry.name {
            check_name(name).at(written)?;
        }
        let by_name = selector.system != "*" && selector.variant.as_deref() != Some("*");
        let are_logged = tasks.iter().all(|task| task.workload.is_log());
        let candidates = self.candidates(&selector, written, are_logged)?;
        let mut made = Vec::new();
        for candidate in candidates {
            let selector = self.with_settings(&selector, candidate.description);
            let all: Result<Vec<_>, _> = tasks.iter().map(|task| self.make(&candidate, &selector, task)).collect();
            match all {
                Ok(all) => made.push(all),
                Err(problem) => {
                    let full = format!("{}/{}", candidate.description.system, candidate.variant.name);
                    self.leave_out(if by_name { written } else { &full }, problem, by_name)?;
                }
            }
        }
        if made.len() > 1 && (entry.name.is_some() || entry.title.is_some()) {
            return Err(Problem::NameForSeveral(made.len())).at(written);
        }
        for mut sub_experiment in made.into_iter().flatten() {
            if let Some(name) = &entry.name {
                let several = tasks.iter().any(|task| task.workload != tasks[0].workload);
                let clients =
                    if several { format!("_clients-{}", sub_experiment.workload.links()) } else { String::new() };
                sub_experiment.name = format!("{name}{clients}{}", background_suffix(sub_experiment.background));
                check_name(&sub_experiment.name).at(written)?;
            }
            if let Some(title) = &entry.title {
                sub_experiment.title.clone_from(title);
            }
            self.push(ResolvedSubExperiment { sub_experiment, by_name }).at(written)?;
        }
        Ok(())
    }

    /// Adds those settings of the experiment that the system has, unless the selector has its own value.
    fn with_settings(&mut self, selector: &Selector, description: &Description) -> Selector {
        let mut selector = selector.clone();
        let has = |name: &str| description.settings.iter().any(|setting| setting.name == name);
        for (name, value) in self.settings.iter().filter(|(name, _)| has(name)) {
            self.used.insert(name.clone());
            selector.settings.entry(name.clone()).or_insert_with(|| value.clone());
        }
        selector
    }

    /// Transports that match a selector, and can be described.
    fn candidates(
        &mut self,
        selector: &Selector,
        written: &str,
        are_logged: bool,
    ) -> Result<Vec<Candidate<'a>>, PlanError> {
        let registry = self.registry;
        if selector.system != "*" {
            let entry = registry.get(&selector.system).map_err(Problem::Registry).at(written)?;
            let description = match entry.describe() {
                Ok(description) => description,
                Err(error) => {
                    self.is_any_unknown = true;
                    self.leave_out(written, Problem::Registry(error.clone()), true)?;
                    return Ok(Vec::new());
                }
            };
            let variants = transport::variants(description, selector.variant.as_deref()).at(written)?;
            return Ok(variants.into_iter().map(|variant| Candidate { entry, description, variant }).collect());
        }
        let mut candidates = Vec::new();
        for entry in registry.entries() {
            match entry.describe() {
                // Loggers do not carry messages, so `*` matches either loggers or transports, never both.
                Ok(description) if is_logger(description) != are_logged => {}
                Ok(description) => {
                    // Systems without such a variant do not match.
                    let variants = transport::variants(description, selector.variant.as_deref()).unwrap_or_default();
                    let crossing = variants.into_iter().filter(|variant| !variant.same_process);
                    candidates.extend(crossing.map(|variant| Candidate { entry, description, variant }));
                }
                Err(RegistryError::Missing { .. }) => {
                    let system = entry.system().to_owned();
                    if !self.plan.not_installed.contains(&system) {
                        self.plan.not_installed.push(system);
                    }
                }
                Err(error) => self.leave_out(entry.system(), Problem::Registry(error.clone()), false)?,
            }
        }
        Ok(candidates)
    }
}

fn is_logger(description: &Description) -> bool {
    description.variants.first().is_some_and(|variant| variant.patterns.iter().all(|one| facts(*one).is_log()))
}

#[cfg(test)]
mod tests;

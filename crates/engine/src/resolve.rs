//! From an experiment as written to a plan: everything is checked before anything starts.

mod channel;
mod check;
mod error;
mod floor;
mod load;
mod log;
mod machine;
pub(crate) mod real_time;
mod rpc;
mod transport;
mod workload;

pub use channel::fits_recording;
pub use check::{MOST_ATTEMPTS, OutOfBounds, check_plan, check_rounds};
pub use error::{PlanError, Problem};

pub use crate::measure::answers::MOST_FOLLOWERS;
use crate::os::{self, ProcessIdentity};
use crate::registry::{Entry, Registry, RegistryError};
use crate::scratch::{fresh_run_id, temporary_folder};
use error::AtTransport;
use machine::Machine;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use tripmeter_abi::{Description, Pattern, Variant};
use tripmeter_model::count::MOST_COUNT;
use tripmeter_model::experiment::{Common, Experiment, SubExperimentFile, TableKind};
use tripmeter_model::interference::{BackgroundLoad, Sched};
use tripmeter_model::name::{self, is_name, is_name_byte};
use tripmeter_model::pattern::facts;
use tripmeter_model::plan::{Host, Plan, Raw, SamplesAbove, SubExperiment};
use tripmeter_model::transport::Selector;
use tripmeter_model::workload::Workload;
use tripmeter_model::{Touch, Wait, exit, experiment, payload};

/// Seconds without an answer after which a message is lost, if none are asked for.
const DEFAULT_LOSS_TIMEOUT_S: f64 = 1.0;

/// Microseconds that the clocks of two hosts may be apart, if nothing is asked for.
const DEFAULT_CLOCK_ERROR_US: f64 = 100.0;

/// What to do about a transport that was asked for by name and cannot run here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// Go on with the others, and name it in [`Plan::missing`].
    LeaveOut,
    /// The same, also of those that cannot do what is asked anywhere: for a search among transports.
    LeaveOutUnable,
}

/// Checks an experiment against what is known and what this machine has, and fills in what it leaves open. `source` is the
/// name of the preset or file, or `flags`.
///
/// # Errors
/// The first thing that is wrong: what, where, value against limit, remedy.
pub fn resolve(
    experiment: &Experiment,
    source: &str,
    unavailable: Unavailable,
    registry: &Registry,
) -> Result<Plan, PlanError> {
    let machine = Machine::this().map_err(PlanError::anywhere)?;
    resolve_on(&machine, experiment, source, unavailable, registry)
}

/// The CPUs that leader and follower use if none are asked for; any two where the machine does not show its cores.
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
    unavailable: Unavailable,
    registry: &Registry,
) -> Result<Plan, PlanError> {
    let mut plan = frame(machine, experiment, source).map_err(PlanError::anywhere)?;
    let common = with_hosts(experiment.common(), &plan.hosts).map_err(PlanError::anywhere)?;
    let timeout_ns = experiment.loss_timeout_s.map(|_| plan.loss_timeout_ns);
    PlannedTask::each(&common, &plan, timeout_ns).map_err(PlanError::anywhere)?;
    if experiment.sub_experiments.is_empty() {
        return Err(PlanError::anywhere(Problem::NoSubExperiment));
    }
    // Named so that a later run removes what this process, if killed, leaves.
    let run_id = fresh_run_id();
    let scratch = temporary_folder(&format!("{}-plan", ProcessIdentity::own()));
    let scratch = scratch.map_err(|error| PlanError::anywhere(Problem::NoScratch(error.to_string())))?;
    let (scratch, made) = (scratch.path(), Vec::new());
    transport::check_secrets(&experiment.settings).map_err(PlanError::anywhere)?;
    let (settings, used, follower_cpu) = (&experiment.settings, BTreeSet::new(), experiment.follower_cpu);
    let mut planner = Planner {
        machine,
        registry,
        unavailable,
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
    };
    for entry in &experiment.sub_experiments {
        planner.add(entry, &common)?;
    }
    if let Some(setting) = settings.keys().find(|setting| !planner.used.contains(*setting)) {
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
    check::check_on(machine, &plan).map_err(|error| error.of(&plan))?;
    Ok(plan)
}

/// The plan without its sub-experiments: what holds for all of them.
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
    // Exact in every reader of JSON; only its low bits differ from run to run.
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
        // Another host has other CPUs, and chooses.
        follower_cpu: if experiment.to.is_some() { experiment.follower_cpu } else { is_bound.then_some(follower_cpu) },
        cpus,
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

/// How many rounds there are; of those that end by time two, until the first says how long one takes.
fn rounds(experiment: &Experiment) -> Result<u32, Problem> {
    match (experiment.rounds, experiment.for_s) {
        (Some(_), Some(_)) => Err(Problem::RoundsAndFor),
        (_, Some(seconds)) => check::for_time(seconds).map(|()| 2),
        (rounds, None) => Ok(rounds.unwrap_or(1)),
    }
}

/// How far the clocks of two hosts may be apart; 0 if there is one host.
fn max_clock_error_ns(experiment: &Experiment) -> Result<u64, Problem> {
    match experiment.max_clock_error_us.unwrap_or(DEFAULT_CLOCK_ERROR_US) {
        _ if experiment.to.is_none() => Ok(0),
        us => check::clock_error(us).map(|()| (us * 1e3).round() as u64),
    }
}

/// Each host has one follower.
fn with_hosts(common: Common, hosts: &[Host]) -> Result<Common, Problem> {
    match common.followers {
        _ if hosts.is_empty() => Ok(common),
        Some(followers) if followers as usize != hosts.len() => {
            Err(Problem::FollowersOfHosts { followers, hosts: hosts.len() })
        }
        _ => Ok(Common { followers: Some(hosts.len() as u32), ..common }),
    }
}

/// Where followers run, if not here.
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

/// What is asked of a sub-experiment, whatever its transport.
#[derive(Clone, PartialEq)]
struct PlannedTask {
    pattern: Pattern,
    workload: Workload,
    payloads: Vec<u64>,
    samples: u64,
    samples_above: Vec<SamplesAbove>,
    warmup: u64,
    one_way: bool,
    time_cap_ns: Option<u64>,
    wait: Option<Wait>,
    touch: Touch,
    sched: Sched,
    load: BackgroundLoad,
}

impl PlannedTask {
    /// Samples of a payload of this size; see [`SubExperiment::samples_of`].
    fn samples_of(&self, payload_bytes: u64) -> u64 {
        let above = self.samples_above.iter().rfind(|above| payload_bytes > above.payload_bytes);
        above.map_or(self.samples, |above| above.samples)
    }

    /// One for each load, and for each number of clients, if calls are asked for. `timeout_ns` is what was asked for. If the plan has
    /// a recording, it is what is sent.
    fn each(common: &Common, plan: &Plan, timeout_ns: Option<u64>) -> Result<Vec<Self>, Problem> {
        let loads = common.load.clone().unwrap_or_default();
        if let Some(twice) = (1..loads.len()).find(|index| loads[..*index].contains(&loads[*index])) {
            return Err(Problem::OfferTwice { flags: "--load", trial: twice + 1 });
        }
        let tasks = Self::at_rest(common, plan, timeout_ns)?;
        let loads = if loads.is_empty() { vec![BackgroundLoad::default()] } else { loads };
        Ok(loads.into_iter().flat_map(|load| tasks.iter().map(move |task| Self { load, ..task.clone() })).collect())
    }

    /// The same without a load.
    fn at_rest(common: &Common, plan: &Plan, timeout_ns: Option<u64>) -> Result<Vec<Self>, Problem> {
        if let Some(recording) = &plan.recording {
            let task = Self::of(&channel::with_recording(common, recording)?, plan.raw, timeout_ns)?;
            let task = Self { workload: channel::playing(task.workload, recording), ..task };
            check::hosts(&plan.hosts, plan.raw, task.pattern, &task.workload, task.one_way)?;
            return Ok(vec![task]);
        }
        let each: Vec<Self> =
            rpc::each(common)?.iter().map(|common| Self::of(common, plan.raw, timeout_ns)).collect::<Result<_, _>>()?;
        each.iter()
            .try_for_each(|task| check::hosts(&plan.hosts, plan.raw, task.pattern, &task.workload, task.one_way))?;
        Ok(each)
    }

    fn of(common: &Common, raw: Raw, timeout_ns: Option<u64>) -> Result<Self, Problem> {
        let pattern = common.pattern.unwrap_or(Pattern::PingPong);
        log::check(common, pattern)?;
        let defaults = &facts(pattern).defaults;
        let payloads = payload::parse_list(common.payloads.as_deref().unwrap_or(defaults.payloads))?;
        let mut workload = workload::of(common, pattern, timeout_ns)?;
        let samples = common.samples.unwrap_or(defaults.samples);
        let usual = || workload::default_warmup(&workload, pattern, samples);
        let warmup = common.warmup.unwrap_or_else(usual);
        let samples_above = samples_above(common.samples_above.as_deref().unwrap_or_default())?;
        workload.topology.followers = common.followers.unwrap_or(1);
        check::followers(pattern, &workload, raw)?;
        let one_way = common.one_way.unwrap_or(false);
        if workload.is_saturating() && !samples_above.is_empty() {
            return Err(Problem::NoSamplesAbove);
        }
        let counts = samples_above.iter().map(|above| above.samples).chain([samples]);
        check::samples(counts, warmup, &workload, raw)?;
        check::one_way(one_way, &workload, raw)?;
        common.time_cap_s.map_or(Ok(()), check::time_cap)?;
        Ok(Self {
            pattern,
            payloads,
            samples: if workload.is_saturating() { 0 } else { samples },
            samples_above,
            warmup,
            one_way: one_way || (workload.is_fan_out() && workload.is_round_trips()),
            workload,
            time_cap_ns: common.time_cap_s.map(|cap| (cap * 1e9).ceil() as u64),
            wait: common.wait,
            touch: common.touch.unwrap_or_default(),
            sched: common.sched.unwrap_or_default(),
            load: BackgroundLoad::default(),
        })
    }
}

/// The ranges of an experiment, ascending.
fn samples_above(written: &[experiment::WrittenSamplesAbove]) -> Result<Vec<SamplesAbove>, Problem> {
    let mut ranges = Vec::new();
    for range in written {
        let payload_bytes = payload::parse_list(&range.payload)?.into_iter().max().unwrap_or(0);
        ranges.push(SamplesAbove { payload_bytes, samples: range.samples });
    }
    ranges.sort_by_key(|range| range.payload_bytes);
    Ok(ranges)
}

/// A transport that was asked for, not yet checked.
struct Candidate<'a> {
    entry: &'a Entry,
    description: &'a Description,
    variant: &'a Variant,
}

struct ResolvedSubExperiment {
    sub_experiment: SubExperiment,
    by_name: bool,
}

struct Planner<'a> {
    machine: &'a Machine,
    registry: &'a Registry,
    unavailable: Unavailable,
    scratch: &'a Path,
    run_id: String,
    settings: &'a BTreeMap<String, String>,
    /// The CPU asked for.
    follower_cpu: Option<usize>,
    /// The time-out asked for.
    timeout_ns: Option<u64>,
    /// The `settings` that a transport has.
    used: BTreeSet<String>,
    plan: &'a mut Plan,
    made: Vec<ResolvedSubExperiment>,
    /// Places in it, by transport and payloads: there may be thousands.
    places: HashMap<(String, Vec<u64>), Vec<usize>>,
    /// Errors of those that were asked for by name and are left out.
    refused: Vec<PlanError>,
}

impl<'a> Planner<'a> {
    /// Makes the sub-experiments of one entry of the experiment.
    fn add(&mut self, entry: &SubExperimentFile, all: &Common) -> Result<(), PlanError> {
        let written = entry.transport.as_str();
        let selector: Selector = written.parse().map_err(|why| PlanError::anywhere(Problem::Selector(why)))?;
        // Before anything is noted of it.
        transport::check_secrets(&selector.settings).map_err(PlanError::anywhere)?;
        let tasks = PlannedTask::each(&entry.common().or(all), self.plan, self.timeout_ns).at(written)?;
        if let Some(name) = &entry.name {
            check_name(name).at(written)?;
        }
        let by_name = selector.system != "*" && selector.variant.as_deref() != Some("*");
        let pattern = entry.common().or(all).pattern.unwrap_or(Pattern::PingPong);
        let candidates = self.candidates(&selector, written, pattern)?;
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
                sub_experiment.name = format!("{name}{clients}{}", load_suffix(sub_experiment.load));
                check_name(&sub_experiment.name).at(written)?;
            }
            if let Some(title) = &entry.title {
                sub_experiment.title.clone_from(title);
            }
            self.push(ResolvedSubExperiment { sub_experiment, by_name }).at(written)?;
        }
        Ok(())
    }

    /// The selector with the experiment's settings that this system has, unless it gives its own.
    fn with_settings(&mut self, selector: &Selector, description: &Description) -> Selector {
        let mut selector = selector.clone();
        let has = |name: &str| description.settings.iter().any(|setting| setting.name == name);
        for (name, value) in self.settings.iter().filter(|(name, _)| has(name)) {
            self.used.insert(name.clone());
            selector.settings.entry(name.clone()).or_insert_with(|| value.clone());
        }
        selector
    }

    /// The transports that a selector stands for, as far as they describe themselves.
    fn candidates(
        &mut self,
        selector: &Selector,
        written: &str,
        pattern: Pattern,
    ) -> Result<Vec<Candidate<'a>>, PlanError> {
        let registry = self.registry;
        if selector.system != "*" {
            let entry = registry.get(&selector.system).map_err(Problem::Registry).at(written)?;
            let description = match entry.describe() {
                Ok(description) => description,
                Err(error) => {
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
                // Loggers are another kind of thing than what carries messages: who asks for all of one means none of the
                // other.
                Ok(description) if is_logger(description) != (pattern == Pattern::Log) => {}
                Ok(description) => {
                    // A system without such a variant is not meant.
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

    /// The error of an experiment of which all was left out: of one transport by name its own.
    fn nothing_left(&mut self) -> PlanError {
        let not_installed = self.plan.not_installed();
        let lines: Vec<String> = self.plan.left_out.drain(..).chain(not_installed).collect();
        if lines.len() == 1
            && let Some(only) = self.refused.pop()
        {
            return only;
        }
        let codes: BTreeSet<u8> = self.refused.iter().map(PlanError::exit_code).collect();
        let common = codes.first().filter(|_| codes.len() == 1 && self.refused.len() >= lines.len());
        let code = common.copied().unwrap_or(exit::UNAVAILABLE);
        PlanError::anywhere(Problem::NothingLeft { lines, code })
    }

    /// Notes a transport that cannot run, or refuses the experiment for it.
    fn leave_out(&mut self, transport: &str, problem: Problem, by_name: bool) -> Result<(), PlanError> {
        let goes_on = match self.unavailable {
            Unavailable::LeaveOut => problem.is_of_this_machine(),
            Unavailable::LeaveOutUnable => problem.is_of_this_machine() || problem.is_of_the_transport(),
        };
        if by_name && !goes_on {
            return Err(problem).at(transport);
        }
        let problem = match problem {
            // Which others can is said once.
            Problem::OneHost { path, can: Some(can) } if self.plan.left_out.iter().any(|line| line.contains(&can)) => {
                Problem::OneHost { path, can: None }
            }
            problem => problem,
        };
        let error = PlanError::at(transport, problem);
        let line = error.to_string();
        if !self.plan.left_out.contains(&line) {
            self.plan.left_out.push(line.clone());
        }
        if by_name {
            self.plan.missing.push(line);
            self.refused.push(error);
        }
        Ok(())
    }

    /// Adds a sub-experiment, unless it is there already by `*`.
    fn push(&mut self, new: ResolvedSubExperiment) -> Result<(), Problem> {
        let same = |made: &ResolvedSubExperiment| is_same(&made.sub_experiment, &new.sub_experiment);
        let of = (new.sub_experiment.transport.to_string(), new.sub_experiment.payloads.clone());
        let places = self.places.entry(of).or_default();
        match places.iter().copied().find(|place| same(&self.made[*place])) {
            None => {
                places.push(self.made.len());
                self.made.push(new);
            }
            Some(at) if new.by_name && self.made[at].by_name => return Err(Problem::Repeated(at + 1)),
            Some(at) if new.by_name => self.made[at] = new,
            Some(_) => {}
        }
        Ok(())
    }
}

/// Its default variant does nothing but log.
fn is_logger(description: &Description) -> bool {
    description.variants.first().is_some_and(|variant| variant.patterns == [Pattern::Log])
}

fn is_same(a: &SubExperiment, b: &SubExperiment) -> bool {
    let parts = |s: &SubExperiment| {
        ((s.pattern, s.wait, s.touch, s.samples, s.warmup, s.one_way, s.time_cap_ns), s.sched, s.load)
    };
    let same_samples = a.payloads == b.payloads && a.samples_above == b.samples_above && parts(a) == parts(b);
    same_samples && a.transport == b.transport && a.workload == b.workload
}

fn check_name(name: &str) -> Result<(), Problem> {
    if is_name(name) { Ok(()) } else { Err(Problem::Name(name.to_owned())) }
}

/// `system_variant[_key-value...]_wait[_touch][_pattern][_mode | _bursts][_topics-n | _publishers-n | _recording][_clients-n][_followers-n][_sched][_load]`.
fn default_name(sub_experiment: &SubExperiment) -> String {
    let transport = &sub_experiment.transport;
    let mut name = format!("{}_{}", transport.system, transport.variant);
    for (key, value) in &transport.given {
        name += &format!("_{key}-{value}");
    }
    name += &format!("_{}", sub_experiment.wait);
    if sub_experiment.touch != Touch::None {
        name += &format!("_{}", sub_experiment.touch);
    }
    if sub_experiment.pattern != Pattern::PingPong {
        name += &format!("_{}", sub_experiment.pattern);
    }
    let workload = &sub_experiment.workload;
    if workload.is_timed() && workload.has_bursts() {
        name += "_bursts";
    } else if workload.is_call() && !workload.is_closed() && !workload.is_recorded() {
        name += &format!("_{}", workload.mode());
    }
    if workload.is_recorded() {
        name += "_recording";
    } else if workload.links() > 1 {
        let what = match (workload.is_call(), workload.publishers()) {
            (true, _) => "clients",
            (false, 1) => "topics",
            (false, _) => "publishers",
        };
        name += &format!("_{what}-{}", workload.links());
    }
    if workload.is_fan_out() {
        name += &format!("_followers-{}", workload.followers());
    }
    if !sub_experiment.sched.is_other() {
        name += &format!("_{}", sub_experiment.sched).replace(':', "-");
    }
    name += &load_suffix(sub_experiment.load);
    name.bytes().map(|byte| if is_name_byte(byte) { byte as char } else { '-' }).take(name::MOST_BYTES).collect()
}

/// What a load adds to a name: `_load-cpu-1-memory`; nothing at rest.
fn load_suffix(load: BackgroundLoad) -> String {
    if load.is_none() { String::new() } else { format!("_load-{load}").replace([':', ','], "-") }
}

fn check_names(sub_experiments: &[SubExperiment]) -> Result<(), PlanError> {
    let mut taken: HashMap<&str, &SubExperiment> = HashMap::new();
    for sub_experiment in sub_experiments {
        if let Some(other) = taken.insert(&sub_experiment.name, sub_experiment) {
            let problem = Problem::NameTaken { name: other.name.clone(), other: other.transport.to_string() };
            return Err(problem).at(&sub_experiment.transport.to_string());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;

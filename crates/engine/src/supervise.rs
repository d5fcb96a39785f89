//! Runs a plan: one leader and one follower process per sub-experiment and round, watched from here.
//!
//! This process sleeps while a cell is measured; it wakes about once a second to hear that the leader is alive.

mod access;
mod cpu_time;
mod date;
mod load;
mod long_text;
mod longest;
mod movement;
mod planned_job;
mod resume;
mod sub_experiment;

use self::date::Moment;
use crate::audit::{self, Root, Snapshot};
use crate::by_hand::{self, MeetError, Meeting};
use crate::clock::Calibration;
use crate::daemon::{self, DaemonLeases};
use crate::environment;
use crate::hosts::{self, HostError, Met, Pushed};
use crate::memory_copy::memory_copy;
use crate::os;
use crate::parquet;
use crate::registry::Registry;
use crate::results::{Results, ResultsError, check_size, leave_out_after, local_time};
use crate::scratch::{self, ScratchFolder};
pub use long_text::LongText;
pub use resume::{Begun, unfinished};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use thiserror::Error;
use tripmeter_model::audit::{Audit, Finding, ProcessActivity};
use tripmeter_model::bounds::to_json;
use tripmeter_model::exit;
use tripmeter_model::file::FileError;
use tripmeter_model::folder_handle::FolderHandle;
use tripmeter_model::manifest::{Environment, Manifest, PayloadResult, RunStatus, SCHEMA_VERSION, SubExperimentResult};
use tripmeter_model::plan::{Plan, SubExperiment};

/// Length of the hiccup spin before a run; `tripmeter doctor` takes longer.
const HICCUP_SPIN: Duration = Duration::from_millis(200);

/// Who starts the follower processes.
#[derive(Clone, Debug)]
pub enum Followers {
    /// This process.
    Local,
    /// A `tripmeter follow` in another terminal.
    ByHand {
        /// Name of the place that it comes to; see [`crate::by_hand::rendezvous`].
        rendezvous: String,
        /// How long it is waited for.
        wait: Duration,
    },
}

/// Where results are to be.
#[derive(Clone, Debug, Default)]
pub enum OutputFolder {
    /// In a dated folder below `results`.
    #[default]
    Dated,
    /// In a folder that the user has named.
    Named(PathBuf),
    /// In a folder of this name in one that is open, and in no other that takes its name meanwhile.
    Within(FolderHandle, String),
}

impl OutputFolder {
    fn create(&self, has_rounds: bool) -> Result<Results, ResultsError> {
        match self {
            Self::Dated => Results::create(None, has_rounds),
            Self::Named(path) => Results::create(Some(path), has_rounds),
            Self::Within(parent, name) => Results::create_within(parent, name, has_rounds),
        }
    }
}

impl From<Option<&Path>> for OutputFolder {
    fn from(named: Option<&Path>) -> Self {
        named.map_or(Self::Dated, |path| Self::Named(path.to_owned()))
    }
}

/// How a plan is run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The results folder.
    pub output: OutputFolder,
    /// What of the plan is measured already; its folder is then that of the results.
    pub begun: Option<Begun>,
    /// Who starts the follower processes.
    pub followers: Followers,
    /// Set by the user to stop early and keep what was measured.
    pub stop: Arc<AtomicBool>,
    /// This program, started again as worker.
    pub tripmeter: PathBuf,
    /// How long a worker may show no sign of life.
    pub watchdog: Duration,
    /// Whether to start nothing where the audit warns or fails.
    pub strict: bool,
    /// Whether the audits look for hiccups, with all CPUs busy.
    pub spin: bool,
    /// What makes Parquet of samples, if it is asked for.
    pub parquet: Option<PathBuf>,
}

/// What happens, for progress bars.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// Something people should know.
    Note(String),
    /// Something people should know even if they want no progress.
    Warning(String),
    /// The folder that results go to.
    Results(FolderHandle),
    /// A sub-experiment begins.
    SubExperimentStarted {
        /// 1-based.
        round: u32,
        /// Its name.
        name: String,
        /// 1-based position in its round.
        index: usize,
        /// Sub-experiments in a round.
        of: usize,
        /// Payloads that were finished before the run was resumed.
        finished: Vec<u64>,
    },
    /// A payload begins.
    PayloadStarted {
        /// Its size.
        payload_bytes: u64,
    },
    /// Samples of this payload so far.
    Progress {
        /// Their number.
        done: u64,
        /// Samples asked for.
        planned: u64,
    },
    /// A payload is finished.
    PayloadFinished(Box<PayloadResult>),
    /// A payload was measured while the hand-over probe changed, and is measured again.
    PayloadAgain(Box<PayloadResult>),
    /// All results so far. No process measures until the watcher returns.
    SoFar(&'a Manifest),
    /// There will be so many rounds in all, more or fewer than the plan has.
    RoundsWanted(u32),
    /// A sub-experiment is over.
    SubExperimentFinished {
        /// How.
        status: RunStatus,
        /// Why, if it failed.
        error: Option<String>,
    },
}

/// Why a plan could not be run at all.
#[derive(Debug, Error)]
pub enum RunError {
    /// No place for results.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// No follower.
    #[error(transparent)]
    Meet(#[from] MeetError),
    /// A host that a follower is to run on is not there, or not as it must be.
    #[error(transparent)]
    Host(#[from] HostError),
    /// No place for sockets and the like.
    #[error("temporary folder '{}' cannot be used: {}; set TMPDIR to one that can", .0.display(), .1)]
    Scratch(PathBuf, io::Error),
    /// The manifest could not be read again.
    #[error(transparent)]
    LongText(#[from] LongText),
    /// Readers would refuse the manifest.
    #[error(
        "results would hold {0}, which no reader takes; ask for less at once, or leave a host out that says so much"
    )]
    TooLarge(String),
    /// What was begun has lost something.
    #[error(transparent)]
    Damaged(#[from] FileError),
    /// The machine disturbs measuring, and the run is strict.
    #[error("this machine is refused by --strict: {}; see `tripmeter doctor`, or leave --strict out", listed(.0))]
    Unfit(Vec<Finding>),
    /// What was begun elsewhere is not gone on with here.
    #[error(
        "the rounds so far were measured on another machine, or before it was changed: {what} '{before}', here '{now}'; \
         begin anew in another folder (-o)"
    )]
    OtherMachine {
        /// What differs.
        what: &'static str,
        /// As it was.
        before: String,
        /// As it is.
        now: String,
    },
}

fn listed(findings: &[Finding]) -> String {
    let one = |finding: &Finding| {
        let Finding { check, level, value, limit, .. } = finding;
        format!("{} {check}: {value} ({limit})", level.as_str())
    };
    findings.iter().map(one).collect::<Vec<_>>().join(" | ")
}

impl RunError {
    /// The exit code of its class.
    pub fn exit_code(&self) -> u8 {
        match self {
            RunError::Results(_) | RunError::Scratch(..) => exit::CANNOT_CREATE,
            RunError::Meet(MeetError::Interrupted) => exit::INTERRUPTED,
            RunError::Meet(_) => exit::UNAVAILABLE,
            RunError::Host(error) => error.exit_code(),
            RunError::Damaged(error) => error.exit_code(),
            RunError::Unfit(_) => exit::FINDING,
            RunError::OtherMachine { .. } | RunError::LongText(_) | RunError::TooLarge(_) => exit::DATA,
        }
    }
}

/// What all sub-experiments of a run share.
struct Run<'a> {
    plan: &'a Plan,
    registry_of: &'a dyn Fn(&str) -> &'a Registry,
    options: &'a RunOptions,
    watch: &'a mut dyn FnMut(&Event<'_>),
    results: Results,
    manifest: Manifest,
    // Dropped in this order: daemons are stopped before the scratch folder with their configuration goes.
    meeting: Option<Meeting>,
    /// The host of each follower; empty if all are on this one.
    met: Vec<Met>,
    daemons: DaemonLeases,
    scratch: ScratchFolder,
    calibration: Calibration,
    cpus: Vec<usize>,
    /// When the first sub-experiment began.
    begin: Snapshot,
}

/// Runs a plan and returns its manifest, which is on disk too. A sub-experiment that fails is in there; it ends nothing else.
///
/// # Errors
/// If there is no place for results or scratch files, no follower comes, or a strict run is refused.
pub fn run(
    plan: &Plan,
    registry: &Registry,
    options: &RunOptions,
    watch: &mut dyn FnMut(&Event<'_>),
) -> Result<Manifest, RunError> {
    run_while(plan, &|_| registry, options, watch, &mut |manifest| manifest.plan.rounds)
}

/// As [`run`], with the registry that `registry_of` has for a sub-experiment's name, and with as many rounds as
/// `rounds_wanted` says before the first and after each: it begins with the plan's rounds, at least two if there
/// may be more.
///
/// # Errors
/// As [`run`].
pub fn run_while<'a>(
    plan: &'a Plan,
    registry_of: &'a dyn Fn(&str) -> &'a Registry,
    options: &'a RunOptions,
    watch: &'a mut dyn FnMut(&Event<'_>),
    rounds_wanted: &mut dyn FnMut(&Manifest) -> u32,
) -> Result<Manifest, RunError> {
    LongText::find(plan).map_or(Ok(()), Err)?;
    to_json(plan, true).map_err(RunError::TooLarge)?;
    let (calibration, cpus) = (Calibration::new(), measured_cpus(plan));
    let audit = audit::before(&Root::machine(), &cpus, &calibration, options.spin.then_some(HICCUP_SPIN));
    if options.strict && !audit.refused().is_empty() {
        return Err(RunError::Unfit(audit.refused().into_iter().cloned().collect()));
    }
    for name in scratch::remove_leftovers() {
        watch(&Event::Note(format!("removed '{name}', left by a run that was killed")));
    }
    daemon::stop_leftovers(&options.stop).into_iter().for_each(|left| watch(&Event::Note(left)));
    ignored_environment(plan, registry_of).into_iter().for_each(|note| watch(&Event::Warning(note)));
    let scratch = ScratchFolder::create().map_err(|error| RunError::Scratch(std::env::temp_dir(), error))?;
    let meeting = match &options.followers {
        Followers::Local => None,
        Followers::ByHand { rendezvous, wait } => {
            let shown = by_hand::rendezvous(rendezvous)?;
            watch(&Event::Note(format!("waiting for a follower at '{}'", shown.display())));
            Some(Meeting::wait(rendezvous, *wait, &options.stop)?)
        }
    };
    let met = meet_hosts(plan, options, registry_of, watch)?;
    let mut manifest = new_manifest(plan, &calibration, audit);
    manifest.environment.hosts = met.iter().map(|host| host.environment.clone()).collect();
    check_size(&manifest).map_err(RunError::TooLarge)?;
    let (manifest, results) = match &options.begun {
        Some(begun) => begun.go_on(&manifest.environment)?,
        None => (manifest, options.output.create(plan.has_round_folders())?),
    };
    watch(&Event::Results(results.folder().clone()));
    let daemons = DaemonLeases::default();
    let begin = Snapshot::take(&Root::machine(), &cpus);
    let mut run = Run {
        plan,
        registry_of,
        options,
        watch,
        results,
        manifest,
        meeting,
        met,
        daemons,
        scratch,
        calibration,
        cpus,
        begin,
    };
    run.save()?;
    run.results.write_audits(&run.manifest)?;
    run.results.begin_trials(&run.manifest)?;
    run.results.take_lock()?;
    run.rounds(rounds_wanted)?;
    run.finish()
}

/// Every host of the plan, which has the same as this one.
fn meet_hosts<'a>(
    plan: &Plan,
    options: &RunOptions,
    registry_of: &dyn Fn(&str) -> &'a Registry,
    watch: &mut dyn FnMut(&Event<'_>),
) -> Result<Vec<Met>, HostError> {
    let versions = |system: &str| {
        let sub_experiment = plan.sub_experiments.iter().find(|one| one.transport.system == system)?;
        let description = registry_of(&sub_experiment.name).get(system).ok()?.describe().ok()?;
        Some((description.version.clone(), description.system_version.clone()))
    };
    let mut name = hosts::NOT_PUSHED.to_owned();
    if plan.push && !plan.hosts.is_empty() {
        let plugins = plan.sub_experiments.iter().filter_map(|one| {
            let entry = registry_of(&one.name).get(&one.transport.system).ok()?;
            entry.plugin_file().map(Path::to_path_buf)
        });
        let pushed = Pushed::of(&options.tripmeter, plugins.collect());
        let pushed = pushed.map_err(|error| HostError::not_pushed(&plan.hosts[0].to, error.to_string()))?;
        for host in &plan.hosts {
            if pushed.push(&host.to).map_err(|why| HostError::not_pushed(&host.to, why))? {
                watch(&Event::Note(format!("copied to '{}' what it lacked of this program and its plugins", host.to)));
            }
        }
        name = pushed.name;
    }
    hosts::meet(plan, &name, &versions, &mut |note| watch(&Event::Note(note)))
}

/// One note for each system that ignores variables of the environment that are set.
fn ignored_environment<'a>(plan: &Plan, registry_of: &dyn Fn(&str) -> &'a Registry) -> Vec<String> {
    let mut notes = Vec::new();
    for sub_experiment in &plan.sub_experiments {
        let system = &sub_experiment.transport.system;
        let Ok(entry) = registry_of(&sub_experiment.name).get(system) else { continue };
        if let Some(note) = entry.ignores(&sub_experiment.environment).filter(|note| !notes.contains(note)) {
            notes.push(note);
        }
    }
    notes
}

/// The CPUs that leader and followers are bound to, or else all that they may use.
pub fn measured_cpus(plan: &Plan) -> Vec<usize> {
    if !plan.cpus.is_empty() {
        return plan.cpus.clone();
    }
    let subs = &plan.sub_experiments;
    let is_unbound = |sub: &SubExperiment| sub.workload.is_fan_out() && sub.follower_cpus.is_empty();
    let (Some(leader), Some(follower)) = (plan.leader_cpu, plan.follower_cpu) else { return os::allowed_cpus() };
    if subs.iter().any(is_unbound) {
        return os::allowed_cpus();
    }
    let mut cpus: Vec<usize> = subs.iter().flat_map(|sub| sub.follower_cpus.iter().copied()).collect();
    cpus.extend([leader, follower]);
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

fn new_manifest(plan: &Plan, calibration: &Calibration, audit: Audit) -> Manifest {
    let largest = plan.sub_experiments.iter().flat_map(|sub| sub.payloads.iter().copied()).max().unwrap_or(0);
    let environment = Environment {
        memory_copy: memory_copy(largest),
        audit_before: Some(audit),
        ..environment::environment(calibration)
    };
    Manifest {
        schema_version: SCHEMA_VERSION.to_owned(),
        tripmeter_version: env!("CARGO_PKG_VERSION").to_owned(),
        started: now(),
        ended: None,
        status: RunStatus::Running,
        plan: plan.clone(),
        environment,
        results: 0,
        sub_experiments: Vec::new(),
        resumptions: Vec::new(),
    }
}

/// The local time, and what the machine says of itself.
pub fn machine() -> (String, Environment) {
    (now(), environment::environment(&Calibration::new()))
}

/// Seconds since 1970 of a time as manifests have it, with its offset; `None` if it is none.
pub fn time_of(started: &str) -> Option<i64> {
    Some(started.parse::<jiff::Timestamp>().ok()?.as_second())
}

fn now() -> String {
    local_time().strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
}

impl<'a> Run<'a> {
    fn save(&self) -> Result<(), RunError> {
        Ok(self.results.write(&self.manifest)?)
    }

    /// Writes the state of the running sub-experiment.
    fn save_state(&self) -> Result<(), RunError> {
        let result = self.manifest.sub_experiments.last();
        Ok(result.map_or(Ok(()), |result| self.results.append_state(result))?)
    }

    fn stopped(&self) -> bool {
        self.options.stop.load(Relaxed)
    }

    /// Makes rounds until as many are there as are wanted, which may change with each.
    fn rounds(&mut self, wanted: &mut dyn FnMut(&Manifest) -> u32) -> Result<(), RunError> {
        let mut random = fastrand::Rng::with_seed(self.plan.seed);
        let mut round = self.options.begun.as_ref().map_or(0, Begun::rounds_passed);
        // Those that were measured before a kill have had their share of the random order.
        (0..round).for_each(|_| drop(self.order(&mut random)));
        if round > 0 {
            (self.watch)(&Event::RoundsWanted(self.manifest.plan.rounds));
        }
        self.ask_for_rounds(round, wanted)?;
        let mut rotated = 0;
        while round < self.manifest.plan.rounds && !self.stopped() {
            round += 1;
            self.round(round, &mut random)?;
            self.rotate(&mut rotated, round);
            self.ask_for_rounds(round, wanted)?;
        }
        Ok(())
    }

    /// Removes files of samples of rounds that are older than those to be kept, now that `round` has ended; `rotated` counts
    /// the rounds whose files are removed.
    fn rotate(&mut self, rotated: &mut u32, round: u32) {
        let Some(keep) = self.plan.keep_samples.filter(|_| !self.stopped()) else { return };
        while *rotated < round.saturating_sub(keep) {
            *rotated += 1;
            let names = self.plan.sub_experiments.iter().map(|one| one.name.as_str());
            if let Err(error) = self.results.remove_samples(*rotated, names) {
                let folder = self.results.round_path(*rotated);
                let folder = folder.display();
                (self.watch)(&Event::Warning(format!("samples in '{folder}' stay (--keep-samples): {error}")));
            }
        }
    }

    /// Asks how many rounds there are to be, now that so many are there.
    fn ask_for_rounds(&mut self, round: u32, wanted: &mut dyn FnMut(&Manifest) -> u32) -> Result<(), RunError> {
        let wanted = wanted(&self.manifest).max(round);
        if wanted != self.manifest.plan.rounds && !self.stopped() {
            self.manifest.plan.change_rounds(wanted);
            self.save()?;
            (self.watch)(&Event::RoundsWanted(wanted));
        }
        Ok(())
    }

    /// The order of the next round.
    fn order(&self, random: &mut fastrand::Rng) -> Vec<&'a SubExperiment> {
        let mut order: Vec<&SubExperiment> = self.plan.sub_experiments.iter().collect();
        if self.plan.has_round_folders() {
            random.shuffle(&mut order);
        }
        order
    }

    fn round(&mut self, round: u32, random: &mut fastrand::Rng) -> Result<(), RunError> {
        self.results.begin_round(round)?;
        let mut order = self.order(random);
        if let Some(begun) = &self.options.begun {
            order.retain(|plan| !begun.is_done(&plan.name, round));
        }
        let of = order.len();
        for (index, plan) in order.into_iter().enumerate() {
            if self.stopped() {
                break;
            }
            let mut results = self.manifest.sub_experiments.iter();
            let before = results.find(|result| result.name == plan.name && result.round == round);
            let finished =
                before.map_or_else(Vec::new, |one| one.cells.iter().map(|cell| cell.payload_bytes).collect());
            let (name, index) = (plan.name.clone(), index + 1);
            (self.watch)(&Event::SubExperimentStarted { round, name, index, of, finished });
            if let Some(note) = self.plan.shared_cpus(plan) {
                (self.watch)(&Event::Note(format!("{}: {note}", plan.name)));
            }
            self.one(plan, round)?;
        }
        Ok(())
    }

    /// Runs one sub-experiment; its failure is a result.
    fn one(&mut self, plan: &SubExperiment, round: u32) -> Result<(), RunError> {
        let results = &mut self.manifest.sub_experiments;
        let before = results.iter().position(|result| result.name == plan.name && result.round == round);
        let before = before.map(|place| results.remove(place));
        let version =
            |of: fn(&SubExperimentResult) -> &String| before.as_ref().map_or_else(String::new, |one| of(one).clone());
        results.push(SubExperimentResult {
            name: plan.name.clone(),
            round,
            status: RunStatus::Running,
            error: None,
            transport_version: version(|before| &before.transport_version),
            system_version: version(|before| &before.system_version),
            // Of the payloads that it has; its processes say it again.
            same_process: before.as_ref().is_some_and(|before| before.same_process),
            path_proof: before.as_ref().and_then(|before| before.path_proof.clone()),
            memory_lock: before.as_ref().and_then(|before| before.memory_lock.clone()),
            queues: before.as_ref().map_or_else(Vec::new, |before| before.queues.clone()),
            unreliable: false,
            payloads: 0,
            cells: before.map_or_else(Vec::new, |before| before.cells),
            processes: Vec::new(),
        });
        self.save_state()?;
        let begin = Moment::now();
        let outcome = sub_experiment::run(self, plan, round);
        let (status, error) = match outcome {
            Ok(status) => (status, None),
            Err(why) => (RunStatus::Failed, Some(begin.with_step(why))),
        };
        let result = self.current();
        (result.status, result.error) = (status, error.clone());
        result.payloads = result.cells.len() as u32;
        self.save_state()?;
        self.make_parquet(plan, round);
        (self.watch)(&Event::SoFar(&self.manifest));
        (self.watch)(&Event::SubExperimentFinished { status, error });
        Ok(())
    }

    /// Makes Parquet of the samples of a sub-experiment that has ended, if it is asked for. If that fails, they stay CSV.
    fn make_parquet(&mut self, plan: &SubExperiment, round: u32) {
        let Some(program) = self.options.parquet.as_ref().filter(|_| self.plan.raw.parquet) else { return };
        // What is not whole may be resumed, and that needs the CSV.
        let is_whole = self.manifest.sub_experiments.last().is_some_and(|result| result.status == RunStatus::Complete);
        let keeps_csv = self.plan.raw.samples || !is_whole;
        // That it is whole is on the disk before the CSV goes.
        let synced = if keeps_csv { Ok(()) } else { self.results.sync_trials().map_err(|error| error.to_string()) };
        let folder = self.results.round(round).map_err(|error| error.to_string());
        let converted = synced.and(folder).and_then(|folder| {
            let converted = parquet::convert_in(&folder, &plan.name, program, keeps_csv, &self.options.stop);
            converted.map_err(|error| error.to_string())
        });
        if let Err(error) = converted {
            (self.watch)(&Event::Warning(format!("samples of '{}' stay CSV: {error}", plan.name)));
        }
    }

    /// What happened on the machine since the first sub-experiment began.
    fn audit(&self) -> Audit {
        let of = |result: &SubExperimentResult, process: &ProcessActivity| {
            let who = format!("{} of {}", process.who, result.name);
            ProcessActivity { who, ..process.clone() }
        };
        let results = self.manifest.sub_experiments.iter();
        let processes = results.flat_map(|result| result.processes.iter().map(move |process| of(result, process)));
        let processes: Vec<ProcessActivity> = processes.collect();
        let clock = (&self.manifest.environment.clock, &self.calibration.timebase);
        let (is_by_hand, spin) = (self.meeting.is_some(), self.options.spin && !self.options.stop.load(Relaxed));
        audit::after(&Root::machine(), &self.cpus, clock, &self.begin, &processes, is_by_hand, spin)
    }

    /// Adds what a process of the running sub-experiment did.
    fn add_process(&mut self, mut activity: ProcessActivity) {
        // Which libraries are loaded is asked where sides may differ in it.
        if self.manifest.plan.sub_experiments.iter().all(|plan| plan.environment.is_empty()) {
            activity.libraries.clear();
        }
        let processes = &mut self.current().processes;
        processes.push(activity);
        // A follower that ends early tells first.
        processes.sort_by_key(|process| (process.who != "leader", process.who.len(), process.who.clone()));
    }

    /// The result of the running sub-experiment.
    fn current(&mut self) -> &mut SubExperimentResult {
        self.manifest.sub_experiments.last_mut().expect("a sub-experiment is running")
    }

    fn finish(mut self) -> Result<Manifest, RunError> {
        let all_good = self.manifest.sub_experiments.iter().all(|result| result.status == RunStatus::Complete);
        self.manifest.status = match (self.stopped(), all_good) {
            (true, _) => RunStatus::Interrupted,
            (false, true) => RunStatus::Complete,
            (false, false) => RunStatus::Failed,
        };
        self.manifest.ended = Some(now());
        self.manifest.results = self.manifest.sub_experiments.len() as u32;
        let unreached = hosts::look_again(&self.met, &mut self.manifest.environment.hosts);
        unreached.into_iter().for_each(|note| (self.watch)(&Event::Note(note)));
        self.manifest.environment.after = Some(environment::load());
        self.manifest.environment.clock.drift_ppm = self.calibration.drift_ppm();
        self.manifest.environment.audit_after = Some(self.audit());
        if let Some(what) = leave_out_after(&mut self.manifest) {
            let text = format!("nothing that was seen at the end of the run is stored: with it there would be {what}");
            (self.watch)(&Event::Warning(text));
        }
        self.results.sync()?;
        self.results.write_audits(&self.manifest)?;
        self.save()?;
        self.results.remove_empty_logs(self.manifest.plan.rounds);
        for left in self.daemons.end(&self.options.stop) {
            (self.watch)(&Event::Note(left));
        }
        Ok(self.manifest)
    }
}

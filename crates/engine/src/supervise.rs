//! Runs a plan: one leader process and its followers per sub-experiment and round, watched from here.
//!
//! This process sleeps while a cell is measured. It wakes about once a second to check that the leader is alive.

mod access;
mod attempts;
mod background;
mod cpu_time;
mod cpu_wait;
mod date;
mod error;
mod event;
mod long_text;
mod longest;
mod movement;
mod options;
mod planned_job;
mod resume;
mod state;
mod sub_experiment;

use self::date::{Moment, now};
use crate::audit::{self, Root, Snapshot};
use crate::by_hand::{self, Meeting};
use crate::clock::Calibration;
use crate::daemon::{self, DaemonLeases};
use crate::environment;
use crate::hosts::{self, HostError, Met, Pushed};
use crate::memory_copy::memory_copy;
use crate::os;
use crate::parquet;
use crate::registry::Registry;
use crate::results::{check_size, leave_out_after};
use crate::scratch::{self, ScratchFolder};
pub use error::RunError;
pub use event::Event;
pub use long_text::LongText;
pub use options::{Followers, OutputFolder, RunOptions};
pub use resume::{Begun, unfinished};
use state::Run;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tripmeter_model::audit::{Audit, ProcessActivity};
use tripmeter_model::bounds::to_json;
use tripmeter_model::manifest::{Environment, Manifest, RunStatus, SCHEMA_VERSION, SubExperimentResult};
use tripmeter_model::plan::{Plan, SubExperiment};

/// Hiccup spin before a run; `tripmeter doctor` spins longer.
const HICCUP_SPIN: Duration = Duration::from_millis(200);

/// Runs a plan and returns its manifest, which is also on disk. A failed sub-experiment does not end the run.
/// Fails if results or scratch files cannot be written, no follower comes, or a strict run is refused.
pub fn run(
    plan: &Plan,
    registry: &Registry,
    options: &RunOptions,
    watch: &mut dyn FnMut(&Event<'_>),
) -> Result<Manifest, RunError> {
    run_while(plan, &|_| registry, options, watch, &mut |manifest| manifest.plan.rounds)
}

/// Runs a plan as [`run`] does. `registry_of` gives the registry of a sub-experiment by name. `rounds_wanted` gives the
/// number of rounds, before the first and after each. If it may exceed 1, the plan needs at least two rounds.
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

/// Connects to every host of the plan, and checks that it has the same versions as this one.
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
        let pushed = Pushed::collect(&options.tripmeter, plugins.collect());
        let pushed = pushed.map_err(|error| HostError::not_pushed(&plan.hosts[0].to, error.to_string()))?;
        for host in &plan.hosts {
            if pushed.push(&host.to).map_err(|why| HostError::not_pushed(&host.to, why))? {
                watch(&Event::Note(format!(
                    "copied the missing files of this program and its plugins to '{}'",
                    host.to
                )));
            }
        }
        name = pushed.name;
    }
    hosts::meet(plan, &name, &versions, &mut |note| watch(&Event::Note(note)))
}

/// Notes on systems that ignore environment variables that are set, one per system.
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

/// CPUs that leader and followers are bound to, or else all that they may use.
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
        written_names: BTreeMap::new(),
    }
}

/// Local time, and description of this machine.
pub fn machine() -> (String, Environment) {
    (now(), environment::environment(&Calibration::new()))
}

/// Seconds since 1970 of a manifest's time stamp; `None` if the text is not a time.
pub fn time_of(started: &str) -> Option<i64> {
    Some(started.parse::<jiff::Timestamp>().ok()?.as_second())
}

impl<'a> Run<'a> {
    /// Runs rounds until there are as many as wanted, which may change with each.
    fn rounds(&mut self, wanted: &mut dyn FnMut(&Manifest) -> u32) -> Result<(), RunError> {
        let mut random = fastrand::Rng::with_seed(self.plan.seed);
        let mut round = self.options.begun.as_ref().map_or(0, Begun::rounds_passed);
        // Rounds of the run before it was resumed have used their part of the random numbers.
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

    /// Removes sample files of rounds older than those to keep, now that `round` has ended; `rotated` counts the rounds whose
    /// files are removed.
    fn rotate(&mut self, rotated: &mut u32, round: u32) {
        let Some(keep) = self.plan.keep_samples.filter(|_| !self.stopped()) else { return };
        while *rotated < round.saturating_sub(keep) {
            *rotated += 1;
            let names = self.plan.sub_experiments.iter().map(|one| one.name.as_str());
            if let Err(error) = self.results.remove_samples(*rotated, names) {
                let folder = self.results.round_path(*rotated);
                let folder = folder.display();
                (self.watch)(&Event::Warning(format!(
                    "samples in '{folder}' cannot be removed (--keep-samples): {error}"
                )));
            }
        }
    }

    /// Asks how many rounds are wanted, once `round` rounds are complete.
    fn ask_for_rounds(&mut self, round: u32, wanted: &mut dyn FnMut(&Manifest) -> u32) -> Result<(), RunError> {
        let wanted = wanted(&self.manifest).max(round);
        if wanted != self.manifest.plan.rounds && !self.stopped() {
            self.manifest.plan.change_rounds(wanted);
            self.save()?;
            (self.watch)(&Event::RoundsWanted(wanted));
        }
        Ok(())
    }

    /// Order of the sub-experiments in the next round.
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

    /// Runs one sub-experiment, and records a failure in its result.
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
            // Values of the payloads measured before; the new processes report them again.
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

    /// Converts the samples of an ended sub-experiment to Parquet, if asked for. If that fails, they stay CSV.
    fn make_parquet(&mut self, plan: &SubExperiment, round: u32) {
        let Some(program) = self.options.parquet.as_ref().filter(|_| self.plan.raw.parquet) else { return };
        // A sub-experiment that is not complete may be resumed, which needs the CSV.
        let is_whole = self.manifest.sub_experiments.last().is_some_and(|result| result.status == RunStatus::Complete);
        let keeps_csv = self.plan.raw.samples || !is_whole;
        // The status must be on disk before the CSV is removed.
        let synced = if keeps_csv { Ok(()) } else { self.results.sync_trials().map_err(|error| error.to_string()) };
        let folder = self.results.round(round).map_err(|error| error.to_string());
        let converted = synced.and(folder).and_then(|folder| {
            let converted = parquet::convert_in(&folder, &plan.name, program, keeps_csv, &self.options.stop);
            converted.map_err(|error| error.to_string())
        });
        if let Err(error) = converted {
            (self.watch)(&Event::Warning(format!("samples of '{}' stay CSV, Parquet failed: {error}", plan.name)));
        }
    }

    /// Audit of the machine since the first sub-experiment began.
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
            let text = format!(
                "the machine's state at the end of the run was not stored, because the manifest would then have {what}"
            );
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

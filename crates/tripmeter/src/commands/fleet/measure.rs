//! Jobs of a fleet: checks the hosts first, and then measures in parallel.

use super::asked::FleetAsked;
use crate::commands::{report, show};
use crate::error::CliError;
use crate::output;
use crate::results::is_results;
use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tripmeter_engine::hosts::{CommandThere, NOT_PUSHED, Pushed, WayThere, reach, run_there, take_turns};
use tripmeter_model::exit;
use tripmeter_model::fleet::{FILE, Fleet, FleetHost, FleetJob, FleetMode, FleetState};
use tripmeter_model::folder_handle::FolderHandle;

/// Prefix of the folders into which results are unpacked.
pub const FETCHED: &str = ".fetched-";
/// Default maximum of jobs in parallel.
const MOST: usize = 64;
/// Results folder within the folder of a job.
const RESULTS: &str = "results";
/// Maximum number of hosts that are checked in parallel.
const LOOKED_AT: usize = 16;

/// Measures what is missing, and reports progress. Fails if `fleet.json` cannot be written.
pub fn measure(
    asked: &FleetAsked<'_>,
    pushed: Option<&Pushed>,
    folder: &FolderHandle,
    fleet: &mut Fleet,
    stop: &AtomicBool,
) -> Result<(), CliError> {
    let waiting = |fleet: &Fleet| -> Vec<FleetJob> {
        fleet.jobs.iter().filter(|job| job.state == FleetState::Waiting).cloned().collect()
    };
    // A scheduler knows which hosts are down, and allows no login before a job.
    let is_scheduled = asked.args.scheduler.is_some();
    let unusable = if is_scheduled { BTreeMap::new() } else { unusable(asked, pushed, &waiting(fleet), stop) };
    for job in fleet.jobs.iter_mut().filter(|job| job.state == FleetState::Waiting) {
        let problem = job.hosts().find_map(|host| Some(format!("host '{host}': {}", unusable.get(host)?)));
        if problem.is_some() && !stop.load(Relaxed) {
            (job.state, job.problem) = (FleetState::Failed, problem);
        }
    }
    folder.write_json(FILE, fleet)?;
    let mut jobs = waiting(fleet);
    // Random order, so that a drift over the hours does not look like a slow host.
    fastrand::shuffle(&mut jobs);
    let usual = if is_scheduled || asked.args.mode == FleetMode::Hosts { jobs.len().min(MOST) } else { 1 };
    let most = asked.args.jobs.map_or(usual, usize::from);
    let all = jobs.len();
    let state = Mutex::new(JobsDone { fleet, done: 0, failed: None });
    let begin = Instant::now();
    let hosts_of = |job: &FleetJob| job.hosts().map(str::to_owned).collect();
    take_turns(&jobs, most, stop, hosts_of, |job| {
        let started = Instant::now();
        let (mut done, fetched) = one(asked, pushed, folder, job, stop);
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        if done.state == FleetState::Waiting {
            return;
        }
        state.keep(folder, &mut done, fetched.as_ref(), stop);
        if !asked.args.quiet {
            output::say(&line(&done, [state.done, all], started.elapsed(), begin.elapsed()));
        }
    });
    let failed = state.into_inner().unwrap_or_else(PoisonError::into_inner).failed;
    failed.map_or(Ok(()), Err)
}

struct JobsDone<'a> {
    fleet: &'a mut Fleet,
    done: usize,
    failed: Option<CliError>,
}

impl JobsDone<'_> {
    /// Records a job, and then renames its results. A job that is recorded but has no results, e.g. after a kill in
    /// between, is measured again.
    fn keep(&mut self, folder: &FolderHandle, done: &mut FleetJob, fetched: Option<&TempDir>, stop: &AtomicBool) {
        self.done += 1;
        self.note(folder, done, stop);
        let Some(fetched) = fetched.filter(|_| done.state == FleetState::Measured && self.failed.is_none()) else {
            return;
        };
        let name = folder.at(&done.name()).map_err(std::io::Error::from);
        if let Err(error) = name.and_then(|name| fs::rename(fetched.path().join(RESULTS), name)) {
            *done = failed(done, format!("'{}' cannot be created: {error}", folder.path().join(done.name()).display()));
            self.note(folder, done, stop);
        }
    }

    fn note(&mut self, folder: &FolderHandle, done: &FleetJob, stop: &AtomicBool) {
        if let Some(job) = self.fleet.jobs.iter_mut().find(|job| job.is_like(done)) {
            job.clone_from(done);
        }
        if let Err(error) = folder.write_json(FILE, self.fleet) {
            self.failed = Some(error.into());
            stop.store(true, Relaxed);
        }
    }
}

fn failed(job: &FleetJob, problem: String) -> FleetJob {
    FleetJob { state: FleetState::Failed, problem: Some(problem), ..job.clone() }
}

/// Hosts that cannot be used, with the reason. Copies the program if requested, then checks that each host has this
/// version.
fn unusable(
    asked: &FleetAsked<'_>,
    pushed: Option<&Pushed>,
    jobs: &[FleetJob],
    stop: &AtomicBool,
) -> BTreeMap<String, String> {
    let is_needed = |host: &&FleetHost| jobs.iter().any(|job| job.hosts().any(|name| name == host.name));
    let hosts: Vec<&FleetHost> = asked.fleet.hosts.iter().filter(is_needed).collect();
    let unusable = Mutex::new(BTreeMap::new());
    take_turns(
        &hosts,
        LOOKED_AT,
        stop,
        |host| vec![host.name.clone()],
        |host| {
            let copied = pushed.map_or(Ok(false), |pushed| pushed.push(host.ssh()));
            if copied == Ok(true) && !asked.args.quiet {
                output::say(&format!("copied this program and its plugins to '{}'", host.name));
            }
            let name = pushed.map_or(NOT_PUSHED, |pushed| &pushed.name);
            if let Err(why) = copied.and_then(|_| reach(host.ssh(), name)) {
                output::say(&format!("host '{}' is left out: {why}", host.name));
                unusable.lock().unwrap_or_else(PoisonError::into_inner).insert(host.name.clone(), why);
            }
        },
    );
    unusable.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Measures one host or pair, and fetches its results next to their final folder; the job stays waiting if stopped.
fn one(
    asked: &FleetAsked<'_>,
    pushed: Option<&Pushed>,
    folder: &FolderHandle,
    job: &FleetJob,
    stop: &AtomicBool,
) -> (FleetJob, Option<TempDir>) {
    let fetched = || {
        let fetched = tempfile::Builder::new().prefix(FETCHED).tempdir_in(folder.at("")?)?;
        let name = fetched.path().file_name().unwrap_or_default().to_string_lossy();
        Ok::<_, std::io::Error>((folder.inside(&name)?.enter(RESULTS)?, fetched))
    };
    match fetched() {
        Ok((results, fetched)) => (measured(asked, pushed, &results, job, stop), Some(fetched)),
        Err(error) => (failed(job, format!("'{}' cannot be written: {error}", folder.path().display())), None),
    }
}

fn measured(
    asked: &FleetAsked<'_>,
    pushed: Option<&Pushed>,
    results: &FolderHandle,
    job: &FleetJob,
    stop: &AtomicBool,
) -> FleetJob {
    let words = asked.words(job);
    let (nodes, is_scheduled) = (job.hosts().collect::<Vec<_>>(), asked.args.scheduler.is_some());
    let command = CommandThere {
        way: if is_scheduled { WayThere::Slurm(&nodes) } else { WayThere::Ssh(asked.host(&job.from).ssh()) },
        pushed: pushed.map_or(NOT_PUSHED, |pushed| &pushed.name),
        words: &words,
        file: asked.file(),
    };
    let ended = match results.at("") {
        Ok(into) => run_there(&command, &into, stop).map_err(|why| results.shown(&why)),
        Err(gone) => Err(gone.to_string()),
    };
    if stop.load(Relaxed) {
        return job.clone();
    }
    let ended = match ended {
        Ok(ended) => ended,
        Err(why) => return failed(job, format!("host '{}': {why}", job.from)),
    };
    let code = Some(ended.code);
    if ended.code == exit::INTERRUPTED || !is_results(results.path()) {
        let why = ended.error.unwrap_or_else(|| format!("it ended with exit code {} and without results", ended.code));
        return FleetJob { exit_code: code, ..failed(job, why) };
    }
    let read = show::read(results.path()).map_err(|why| format!("its results cannot be read: {why}"));
    let paged = read.and_then(|manifest| {
        report::of_fetched(&manifest, results, asked.has_pages).map_err(|error| error.to_string())
    });
    match paged {
        Ok(()) => FleetJob { state: FleetState::Measured, exit_code: code, problem: None, ..job.clone() },
        Err(why) => FleetJob { exit_code: code, ..failed(job, why) },
    }
}

/// Progress line: `3 of 190: a--b: measured, 4 s; about 5 minutes left`.
fn line(job: &FleetJob, [done, all]: [usize; 2], took: Duration, since: Duration) -> String {
    let what = match (&job.problem, job.exit_code) {
        (Some(why), _) => format!("failed: {why}"),
        (None, Some(code)) if code != exit::GOOD => format!("measured, exit code {code}"),
        (None, _) => format!("measured, {:.0} s", took.as_secs_f64()),
    };
    let left = match all - done {
        0 => String::new(),
        left => format!("; about {:#} left", indicatif::HumanDuration(since / done as u32 * left as u32)),
    };
    format!("{done} of {all}: {}: {what}{left}", job.name())
}

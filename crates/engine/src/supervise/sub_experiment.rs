//! One sub-experiment: its processes, their reports, and their end.

use super::access;
use super::attempts::EarlierAttempts;
use super::background::RunningBackground;
use super::cpu_time::{CpuTimeWatch, LoggerWatch};
use super::cpu_wait::CpuWait;
use super::event::Event;
use super::longest::{longest_pause, longest_payload, writing_time};
use super::movement::Movement;
use super::planned_job::{is_same_process, job, planned_cpus, variant};
use super::state::Run;
use crate::bounded_log::BoundedLog;
use crate::channel::{Heard, Incoming};
use crate::hosts::Met;
use crate::node_options::node_options;
use crate::os;
use crate::registry::Entry;
use crate::resolve::real_time;
use crate::results::ResultsError;
use crate::scratch::Part;
use crate::spawn::Worker;
use crate::system_calls::trace_file;
use crate::wire::{CLOSING, Follow, FromFollower, FromLeader, GONE, OPENING, ToWorker, WRITING};
use crate::worker::OPEN_TIMEOUT;
use crate::worker::logging::LONGEST_READING;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tripmeter_abi::{NodeOptions, Role};
use tripmeter_model::folder::LOGS;
use tripmeter_model::folder_handle::FolderHandle;
use tripmeter_model::manifest::{PayloadResult, RunStatus, SubExperimentResult};
use tripmeter_model::plan::{Instrument, SubExperiment};

/// Longest time that processes take to end after their last report.
const ENDING_TIME: Duration = Duration::from_secs(5);
/// Longest time that a leader takes to notice that its follower has ended, plus the loss time-out.
const NOTICING_TIME: Duration = Duration::from_secs(5);
/// Limit if the follower has reported why it ended; with a signal, plus the loss time-out.
const EXPLAINING_TIME: Duration = Duration::from_secs(3);
/// Interval between checks of a silent leader once a follower has ended.
const LOOKING_TIME: Duration = Duration::from_millis(100);
/// Longest time that a leader takes to stop when asked to, plus the loss time-out.
const STOPPING_TIME: Duration = Duration::from_secs(5);
/// Longest time that a transport takes to open and connect, even if the watchdog is shorter.
const OPENING_TIME: Duration = OPEN_TIMEOUT.saturating_add(STOPPING_TIME);
/// Most unauthorized peers; there are two kinds of them.
const MOST_ACCESS_ATTEMPTS: usize = 8;

/// Outcome if results cannot be written.
fn failed<E: std::fmt::Display>(written: Result<(), E>) -> Option<LeaderOutcome> {
    written.err().map(|error| LeaderOutcome::Killed(error.to_string()))
}

/// Runs a sub-experiment to its end; the results folder always has the results so far.
/// The error is the cause, in one line.
pub(super) fn run(run: &mut Run<'_>, plan: &SubExperiment, round: u32) -> Result<RunStatus, String> {
    let entry = (run.registry_of)(&plan.name).get(&plan.transport.system).map_err(|error| error.to_string())?;
    // A resumed run may be another user's, or the machine may have changed.
    if let Some(variant) = variant(plan, entry) {
        real_time::check(run.plan, plan, variant)
            .map_err(|problem| format!("transport '{}': {problem}", plan.transport))?;
    }
    let logs = run.results.round(round).and_then(|folder| folder.inside(LOGS));
    let logs = logs.map_err(|error| ResultsError::unfinished(run.results.round_path(round), error).to_string())?;
    let part = run.scratch.part().map_err(|error| format!("scratch folder: {error}"))?;
    let result = ensure_daemon(run, plan, entry, &logs).and_then(|daemon| {
        let mut group = ProcessGroup::start(run, plan, entry, &part, round, &logs)?;
        let outcome = group.watch(run);
        let status = group.end(run, outcome);
        let stopped = daemon.as_ref().map(|(name, _)| name.clone()).filter(|name| run.daemons.is_stopped(name));
        let asked = group.leader.was_terminated() || group.followers.iter().any(Worker::was_terminated);
        let patience = if asked { ENDING_TIME } else { Duration::ZERO };
        let ended = daemon.and_then(|(name, options)| run.daemons.ended(entry, &name, &options, patience));
        // Results are unreliable without the daemon, even if the transport continued.
        run.current().unreliable |= ended.is_some();
        let status = match (status, &ended) {
            (Err(why), Some(what)) => return Err(format!("its daemon has gone: {what}; {why}")),
            (Err(why), None) => {
                let stopped =
                    stopped.map_or_else(String::new, |name| format!("; its daemon '{name}' was stopped by a signal"));
                return Err(format!("{why}{stopped}"));
            }
            (Ok(status), _) => status,
        };
        match ended {
            Some(what) if status == RunStatus::Complete => Err(format!(
                "its daemon ended during the measurement: {what}; the figures are kept, but do not rely on them"
            )),
            _ => Ok(status),
        }
    });
    part.remove();
    result
}

/// Ensures that the transport's daemon runs, if it has one. Returns its name, and the options to check it later.
fn ensure_daemon(
    run: &mut Run<'_>,
    plan: &SubExperiment,
    entry: &Entry,
    logs: &FolderHandle,
) -> Result<Option<(String, NodeOptions)>, String> {
    let description = entry.describe().map_err(ToString::to_string)?;
    let Some(name) = &description.daemon else { return Ok(None) };
    let scratch_dir = run.scratch.folder().to_path_buf();
    let mut options = NodeOptions { scratch_dir, ..node_options(plan, Role::Leader) };
    // The daemon is started once, so it must suit all sub-experiments that use it.
    for other in run.plan.sub_experiments.iter().filter(|other| uses_daemon(run, other, name)) {
        let other = node_options(other, Role::Leader);
        options.max_payload_bytes = options.max_payload_bytes.max(other.max_payload_bytes);
        options.link_count = options.link_count.max(other.link_count);
        options.publisher_count = options.publisher_count.max(other.publisher_count);
        options.follower_count = options.follower_count.max(other.follower_count);
    }
    let stop = &run.options.stop;
    let ensured = run.daemons.ensure(entry, name, &options, run.plan.daemons, logs, stop);
    if let Some(note) = ensured.map_err(|error| os::with_lack(error.to_string()))? {
        (run.watch)(&Event::Note(note));
    }
    Ok(Some((name.clone(), options)))
}

fn uses_daemon(run: &Run<'_>, plan: &SubExperiment, name: &str) -> bool {
    let entry = (run.registry_of)(&plan.name).get(&plan.transport.system).ok();
    let description = entry.and_then(|entry| entry.describe().ok());
    description.is_some_and(|description| description.daemon.as_deref() == Some(name))
}

fn unstarted(what: &str, error: &std::io::Error) -> String {
    os::with_lack(format!("{what} cannot be started: {error}"))
}

/// Starts the followers with `spawn`, or relays to followers on other hosts. Starts none if they are threads of the
/// leader, or started by hand.
fn start_followers(
    run: &mut Run<'_>,
    plan: &SubExperiment,
    entry: &Entry,
    controls: Vec<PathBuf>,
    log: &BoundedLog,
    spawn: &dyn Fn(&str) -> std::io::Result<Worker>,
) -> Result<Vec<Worker>, String> {
    let failed = |error: std::io::Error| unstarted("follower", &error);
    if is_same_process(plan, entry) {
        return Ok(Vec::new());
    }
    if !run.met.is_empty() {
        let start = |(control, host): (PathBuf, &Met)| {
            // A relay loads no plugin. It starts ssh, which may be named by a relative path.
            let here = Path::new(".");
            let mut relay = Worker::spawn(&run.options.tripmeter, here, &BTreeMap::new(), Some(log.file()), None)?;
            relay.send(&ToWorker::Relay(host.relay(control)))?;
            Ok(relay)
        };
        return controls.into_iter().zip(&run.met).map(start).collect::<Result<_, _>>().map_err(failed);
    }
    if let Some(meeting) = &mut run.meeting {
        meeting.start(&plan.transport.system, &controls[0]).map_err(|error| error.to_string())?;
        return Ok(Vec::new());
    }
    let plugin = entry.plugin_file().map(|file| (plan.transport.system.clone(), file.to_path_buf()));
    let plugins: BTreeMap<_, _> = plugin.into_iter().collect();
    let start = |control| {
        let mut follower = spawn("follower")?;
        follower.send(&ToWorker::Follow(Follow { control, plugins: plugins.clone(), place: None }))?;
        Ok(follower)
    };
    controls.into_iter().map(start).collect::<Result<_, _>>().map_err(failed)
}

struct ProcessGroup {
    log: BoundedLog,
    leader: Worker,
    incoming: Incoming,
    /// Followers by index; none if they are threads of the leader, or started by hand.
    followers: Vec<Worker>,
    /// First follower seen to have ended: index, time, and its reason if it failed.
    follower_ended: Option<(usize, Instant, Option<String>)>,
    /// Time of the request to stop, and start of the time allowed for it.
    told_to_stop: Option<(Instant, Instant)>,
    phase: String,
    plan: SubExperiment,
    /// Planned samples of the current payload.
    planned: u64,
    attempts: EarlierAttempts,
    /// Background load, from the first payload on.
    background: Option<RunningBackground>,
    logger: LoggerWatch,
    part: GrowingPart,
    said: SaidOnce,
    movement: Movement,
}

/// Messages that the leader may send only once.
#[derive(Default)]
struct SaidOnce {
    /// True if the leader has reported its resource use.
    used: bool,
    /// True if the leader has requested unauthorized peers.
    access: bool,
    /// Reason why it measures nothing more.
    broken: Option<String>,
}

/// Part of the scratch folder that other users may access while a system creates files there.
struct GrowingPart {
    part: Part,
    /// True if this payload may have made shared memory grow, so that others may have access.
    is_growing: bool,
}

impl GrowingPart {
    /// Notes that a payload begins: larger messages may need more memory.
    fn begin(&mut self) {
        self.part.close();
        self.is_growing = true;
    }

    /// Revokes others' access; once more after the first message, which may be sent during this check.
    fn look(&mut self, sent: u64) {
        self.is_growing = self.is_growing && (self.part.close() || sent == 0);
    }
}

/// Last report of the leader, or the reason why there was none.
enum LeaderOutcome {
    Done,
    Interrupted,
    Failed(String),
    /// Ended without a report.
    Vanished,
    Killed(String),
}

impl ProcessGroup {
    fn start(
        run: &mut Run<'_>,
        plan: &SubExperiment,
        entry: &Entry,
        part: &Part,
        round: u32,
        logs: &FolderHandle,
    ) -> Result<Self, String> {
        let lacking = |error| ResultsError::unfinished(logs.path().to_path_buf(), error).to_string();
        let log = BoundedLog::open(logs, &format!("{}.log", plan.name)).map_err(lacking)?;
        let results = run.results.round(round).and_then(|folder| folder.identity()).map_err(lacking)?;
        let job = job(run, plan, entry, part, results, round);
        let is_traced = plan.instrument == Some(Instrument::SystemCalls);
        let traces = is_traced.then(|| logs.at_for_children("")).transpose().map_err(lacking)?;
        let spawn = |worker: &str| {
            let trace = traces.as_ref().map(|logs| trace_file(logs, &plan.name, worker));
            let (program, log) = (&run.options.tripmeter, Some(log.file()));
            Worker::spawn(program, &part.folder, &plan.environment, log, trace.as_deref())
        };
        let mut leader = spawn("leader").map_err(|error| unstarted("leader", &error))?;
        let controls = job.controls.clone();
        leader.send(&ToWorker::Lead(Box::new(job))).map_err(|error| unstarted("leader", &error))?;
        let followers = start_followers(run, plan, entry, controls, &log, &spawn)?;
        let incoming = Incoming::new(leader.stream.try_clone().map_err(|error| unstarted("leader", &error))?);
        let cells = plan.payloads.len() as u64 * u64::from(run.plan.attempts.max(1));
        let is_log = plan.workload.is_log();
        let cpu_time = is_log.then(|| CpuTimeWatch::watch(leader.pid())).flatten();
        Ok(Self {
            log,
            leader,
            incoming,
            followers,
            follower_ended: None,
            told_to_stop: None,
            phase: "start".to_owned(),
            plan: plan.clone(),
            planned: plan.samples,
            attempts: EarlierAttempts::default(),
            background: None,
            logger: LoggerWatch { cpu_time, used: (0, 0) },
            part: GrowingPart { part: part.clone(), is_growing: false },
            said: SaidOnce::default(),
            movement: Movement::new(cells, Instant::now()),
        })
    }

    /// Name of a follower, as in messages.
    fn who(&self, follower: usize) -> String {
        if self.plan.workload.is_fan_out() { format!("follower {follower}") } else { "the follower".to_owned() }
    }

    /// Handles the reports of the leader until its end.
    fn watch(&mut self, run: &mut Run<'_>) -> LeaderOutcome {
        let (mut heard, mut cpu_wait) = (Instant::now(), CpuWait::default());
        loop {
            if run.stopped() && self.told_to_stop.is_none() {
                self.told_to_stop = Some((Instant::now(), Instant::now()));
                // A leader that has gone is noticed below.
                let _ = self.leader.send(&ToWorker::Stop);
            }
            if let Some(gone) = failed(run.results.folder().check()) {
                return gone;
            }
            // A long log is checked more often, as it may grow fast.
            let is_long = self.log.bound() | run.daemons.bound_logs();
            let is_short = is_long || self.follower_ended.is_some();
            let wait = if is_short { LOOKING_TIME } else { Duration::from_secs(1) };
            match self.incoming.next(wait) {
                Ok(Heard::Message(event)) => {
                    self.movement.hear(&event, Instant::now());
                    if let Some(outcome) = self.take_note(run, event) {
                        return outcome;
                    }
                    (heard, cpu_wait) = (Instant::now(), CpuWait::default());
                }
                Ok(Heard::Nothing) => cpu_wait.look(self.leader.pid()),
                Err(error) if error.kind() == ErrorKind::InvalidData => {
                    let (transport, phase) = (&self.plan.transport, &self.phase);
                    return LeaderOutcome::Killed(format!(
                        "the leader of '{transport}' sent {error} in step '{phase}'; it was killed"
                    ));
                }
                Ok(Heard::End) | Err(_) => return LeaderOutcome::Vanished,
            }
            // Checked on every turn: a leader that reports all the time must not escape.
            if let Some(outcome) = self.overdue(run, heard, &cpu_wait).or_else(|| self.standing(run)) {
                return outcome;
            }
        }
    }

    /// Outcome if the leader only claims to be alive: nothing moves for too long, or its payload does not end.
    fn standing(&self, run: &Run<'_>) -> Option<LeaderOutcome> {
        let (now, transport, phase) = (Instant::now(), &self.plan.transport, &self.phase);
        let writing = writing_time(&self.plan);
        // Reading logs may take long.
        let reading = if self.plan.workload.is_log() { LONGEST_READING } else { Duration::ZERO };
        let standing = 2 * (writing + reading + longest_pause(&self.plan));
        if self.movement.stood(now) > standing {
            let seconds = standing.as_secs();
            return Some(LeaderOutcome::Killed(format!(
                "the leader of '{transport}' made no progress for {seconds} s, although it reported signs of life, \
                 in step '{phase}'; it was killed"
            )));
        }
        let lasting = longest_payload(run.plan, &self.plan).saturating_add(standing).saturating_add(writing);
        (self.movement.lasted(now) > lasting).then(|| {
            LeaderOutcome::Killed(format!(
                "the leader of '{transport}' does not finish its payload: it still reports progress after {} s (limit \
                 {} s by the plan's time cap or samples) in step '{phase}'; it was killed",
                self.movement.lasted(now).as_secs(),
                lasting.as_secs()
            ))
        })
    }

    fn overdue(&mut self, run: &mut Run<'_>, heard: Instant, cpu_wait: &CpuWait) -> Option<LeaderOutcome> {
        let loss_timeout = Duration::from_nanos(run.plan.loss_timeout_ns_of(&self.plan));
        if let (Some((told, since)), WRITING) = (&mut self.told_to_stop, self.phase.as_str())
            && told.elapsed() < writing_time(&self.plan)
        {
            // The time allowed for the stop begins once the results are written.
            *since = Instant::now();
        }
        if self.told_to_stop.is_some_and(|(_, since)| since.elapsed() > STOPPING_TIME + loss_timeout) {
            return Some(LeaderOutcome::Interrupted);
        }
        let silence = heard.elapsed();
        let watchdog = match self.phase.as_str() {
            phase if OPENING.contains(&phase) => run.options.watchdog.max(OPENING_TIME),
            WRITING => run.options.watchdog.max(writing_time(&self.plan)),
            _ => run.options.watchdog + loss_timeout,
        };
        if silence > watchdog {
            let (seconds, limit) = (silence.as_secs(), watchdog.as_secs());
            let (what, remedy) = match cpu_wait.is_starved() {
                true => (
                    "gets no CPU: it is ready to run, but gave",
                    "stop what loads the CPUs, or give it others (--leader-cpu)",
                ),
                false => ("hangs:", "fix the transport, or leave it out"),
            };
            let why = format!(
                "the leader of '{}' {what} no sign of life for {seconds} s (limit {limit} s) in step '{}'; it was \
                 killed; {remedy}",
                self.plan.transport, self.phase
            );
            return Some(LeaderOutcome::Killed(os::with_lack_of(self.leader.pid(), why)));
        }
        if self.follower_ended.is_none() {
            let index = self.followers.iter_mut().position(Worker::has_ended)?;
            let word = self.hear_out(run, index);
            self.follower_ended = Some((index, Instant::now(), word));
        }
        // A leader that writes is saving what was measured before.
        let (index, ended, word) = self.follower_ended.as_ref().filter(|_| self.phase != WRITING)?;
        let limit = match word {
            Some(_) => EXPLAINING_TIME,
            None if self.followers[*index].was_signalled() => EXPLAINING_TIME + loss_timeout,
            None => NOTICING_TIME + loss_timeout,
        };
        if ended.elapsed() <= limit {
            return None;
        }
        let (who, transport, phase) = (self.who(*index), &self.plan.transport, &self.phase);
        Some(LeaderOutcome::Killed(match word {
            Some(why) => format!("transport '{transport}' failed to {phase}: {who} failed: {why}"),
            None if phase == CLOSING && !self.followers[*index].was_signalled() => format!(
                "the leader of '{transport}' still had not closed {} s after {who} had ended as it should; it was \
                 killed; what was measured before is kept",
                ended.elapsed().as_secs()
            ),
            None => format!("{who} ended in the leader's step '{phase}'"),
        }))
    }

    /// Handles the last report of a follower. Returns the reason if it failed.
    fn hear_out(&self, run: &mut Run<'_>, index: usize) -> Option<String> {
        match self.followers[index].last_word()? {
            FromFollower::Failed(why) => return Some(why),
            FromFollower::Used(mut activity) => {
                if run.met.is_empty() {
                    activity.planned_cpus = planned_cpus(run, &self.plan, Some(index));
                }
                if self.plan.workload.is_fan_out() {
                    activity.who = self.who(index);
                }
                run.add_process(activity);
            }
            _ => {}
        }
        None
    }

    fn take_note(&mut self, run: &mut Run<'_>, event: FromLeader) -> Option<LeaderOutcome> {
        match event {
            FromLeader::Phase(phase) => self.phase = phase,
            FromLeader::Opened { transport_version, system_version, same_process, memory_lock, queues } => {
                self.part.part.close();
                let result = run.current();
                (result.same_process, result.memory_lock, result.queues) = (same_process, Some(memory_lock), queues);
                return self.note_versions(result, transport_version, system_version);
            }
            FromLeader::Broken(why) => self.said.broken = Some(why),
            FromLeader::AttemptAccess(_) if std::mem::replace(&mut self.said.access, true) => {
                return Some(LeaderOutcome::Killed("the leader asked for unauthorized peers twice".to_owned()));
            }
            FromLeader::AttemptAccess(attempts) => {
                let (environment, log) = (&self.plan.environment, self.log.file());
                let attempts = attempts.iter().take(MOST_ACCESS_ATTEMPTS);
                let trials = attempts.map(|one| access::attempt(run, one, environment, log)).collect();
                return self.answer(&ToWorker::AccessAttempted(trials));
            }
            FromLeader::Proof(proof) => {
                self.part.part.close();
                run.current().path_proof = Some(proof);
                return failed(run.save_state());
            }
            FromLeader::LoadMark { begins } => {
                if let Err(why) = self.mark_load(run, begins) {
                    return Some(LeaderOutcome::Killed(why));
                }
                return self.answer(&ToWorker::Continue);
            }
            FromLeader::CellStarted { payload_bytes } => {
                self.part.begin();
                self.planned = self.plan.samples_of(payload_bytes);
                (run.watch)(&Event::PayloadStarted { payload_bytes });
            }
            FromLeader::Progress { samples, .. } => {
                self.part.look(samples);
                (run.watch)(&Event::Progress { done: samples, planned: self.planned });
            }
            FromLeader::Logged { begin_ns, end_ns } => self.logger.used = (begin_ns, end_ns),
            FromLeader::CellFinished(cell) => return self.note(run, cell, false),
            FromLeader::CellAgain(cell) => return self.note(run, cell, true),
            FromLeader::Replacing => {
                return failed(self.attempts.replace(run)).or_else(|| self.answer(&ToWorker::Continue));
            }
            FromLeader::Used(mut activity) if !std::mem::replace(&mut self.said.used, true) => {
                activity.planned_cpus = planned_cpus(run, &self.plan, None);
                run.add_process(activity);
            }
            FromLeader::Used(_) => {
                return Some(LeaderOutcome::Killed("the leader reported its resource use twice".to_owned()));
            }
            FromLeader::Done => return Some(LeaderOutcome::Done),
            FromLeader::Interrupted => return Some(LeaderOutcome::Interrupted),
            FromLeader::Failed(why) => return Some(LeaderOutcome::Failed(why)),
        }
        None
    }

    fn answer(&mut self, message: &ToWorker) -> Option<LeaderOutcome> {
        self.leader.send(message).is_err().then_some(LeaderOutcome::Vanished)
    }

    /// Takes the versions of transport and system, which are the same for all payloads.
    fn note_versions(
        &self,
        result: &mut SubExperimentResult,
        transport_version: String,
        system_version: String,
    ) -> Option<LeaderOutcome> {
        let (before, now) =
            ([&result.transport_version, &result.system_version], [&transport_version, &system_version]);
        if !result.cells.is_empty() && before != now {
            return Some(LeaderOutcome::Killed(format!(
                "transport '{}' has version {} now, but had {} when its first payloads were measured; install \
                         that, or measure again in another folder (-o)",
                self.plan.transport,
                now.map(String::as_str).join(" of "),
                before.map(String::as_str).join(" of ")
            )));
        }
        (result.transport_version, result.system_version) = (transport_version, system_version);
        None
    }

    /// Starts the load if it does not run yet, and takes its reading when a payload begins or ends.
    fn mark_load(&mut self, run: &Run<'_>, begins: bool) -> Result<(), String> {
        let load = match &mut self.background {
            Some(load) => load,
            none => {
                let payloads = u32::try_from(self.plan.payloads.len()).unwrap_or(u32::MAX);
                let each = longest_payload(run.plan, &self.plan).saturating_add(2 * writing_time(&self.plan));
                let limit = each.saturating_mul(payloads);
                none.insert(RunningBackground::start(
                    &run.options.tripmeter,
                    self.plan.background,
                    limit,
                    self.log.file(),
                )?)
            }
        };
        if begins { load.begin() } else { load.end() }
    }

    /// Records a measured cell; with `again`, it will be measured again.
    fn note(&mut self, run: &mut Run<'_>, mut cell: Box<PayloadResult>, again: bool) -> Option<LeaderOutcome> {
        // A payload may end without a progress report.
        self.part.part.close();
        self.logger.put(&mut cell);
        self.background.iter().for_each(|load| load.put(&mut cell));
        let attempts = run.plan.attempts.max(1) as usize;
        let (cells, planned) = (&mut run.current().cells, self.plan.payloads.len());
        self.attempts.join(&mut cell, cells, again);
        if cells.len() >= planned {
            return Some(LeaderOutcome::Killed(format!(
                "the leader reported more payloads than the {planned} of the plan"
            )));
        }
        let is_too_often = cell.earlier_attempts.len() + usize::from(again) >= attempts;
        cells.push((*cell).clone());
        if let Err(error) = self.attempts.append(run, again) {
            return Some(LeaderOutcome::Killed(error.to_string()));
        }
        if is_too_often {
            let why = format!("the leader measured a payload more often than the plan's {attempts} attempts");
            return Some(LeaderOutcome::Killed(why));
        }
        (run.watch)(&if again { Event::PayloadAgain(cell) } else { Event::PayloadFinished(cell) });
        if !again {
            (run.watch)(&Event::SoFar(&run.manifest));
        }
        // The leader waits for this, so that none of the above falls into its next cell.
        self.answer(&ToWorker::Continue)
    }

    /// Ends all processes, and returns the status or the cause of a failure.
    fn end(&mut self, run: &mut Run<'_>, outcome: LeaderOutcome) -> Result<RunStatus, String> {
        if let Err(error) = self.attempts.end(run) {
            (run.watch)(&Event::Warning(error.to_string()));
        }
        // Read before the other processes end and free their share.
        let was_full = matches!(outcome, LeaderOutcome::Vanished).then(os::shared_memory).flatten();
        let patience = if matches!(outcome, LeaderOutcome::Killed(_)) { Duration::ZERO } else { ENDING_TIME };
        let mut stopped: Vec<String> = Vec::new();
        stopped.extend(os::is_stopped(self.leader.pid()).then(|| "the leader".to_owned()));
        if matches!(outcome, LeaderOutcome::Vanished) {
            let followers = self.followers.iter().map(Worker::pid).enumerate().filter(|(_, pid)| os::is_stopped(*pid));
            stopped.extend(followers.map(|(index, _)| self.who(index)));
        }
        let leader_hung = self.leader.end(patience);
        // Followers end in parallel: while one is waited for, the others end too.
        let hung: Vec<bool> = self.followers.iter_mut().map(|follower| follower.end(patience)).collect();
        if let Some(load) = self.background.take() {
            run.add_process(load.finish());
        }
        if let Some(meeting) = &mut run.meeting {
            meeting.finish();
        }
        let broken = self.said.broken.take();
        let outcome = match (outcome, &broken) {
            (LeaderOutcome::Done, Some(why)) => LeaderOutcome::Failed(why.clone()),
            (LeaderOutcome::Interrupted, Some(why)) => {
                (run.watch)(&Event::Note(format!("before it was interrupted: {why}")));
                LeaderOutcome::Interrupted
            }
            (outcome, _) => outcome,
        };
        let why = match outcome {
            LeaderOutcome::Done => {
                for index in 0..self.followers.len() {
                    self.hear_out(run, index);
                }
                let followers = hung.iter().enumerate().map(|(index, hung)| (*hung, self.who(index)));
                let all = [(leader_hung, "the leader".to_owned())].into_iter().chain(followers);
                for (_, who) in all.filter(|(hung, _)| *hung) {
                    let note = format!("{who} did not end by itself after its work, and was killed");
                    (run.watch)(&Event::Note(note));
                }
                return Ok(RunStatus::Complete);
            }
            LeaderOutcome::Interrupted => return Ok(RunStatus::Interrupted),
            outcome => self.cause(outcome, &hung),
        };
        let is_crash = self.leader.crash().is_some() || self.crash_of_follower(&hung).is_some();
        let why = if is_crash { os::with_lack(why) } else { why };
        let why = match was_full.filter(|_| is_crash && !why.contains("free in /dev/shm")) {
            Some(was_full) => format!("{why} (at its end, {was_full})"),
            None => why,
        };
        let stopped: String = stopped.iter().map(|who| format!("; {who} was stopped by a signal")).collect();
        let why = format!("{why}{stopped}");
        // The leader had reported why it measures nothing more, and then failed to end normally.
        let why = match broken {
            Some(broken) if !why.contains(&broken) => format!("{broken}; then {why}"),
            _ => why,
        };
        let log = &self.log;
        Err(if log.is_empty() { why } else { format!("{why}; its log is '{}'", log.path().display()) })
    }

    /// Cause of a failure, from the leader's report or from the end of a process.
    fn cause(&self, outcome: LeaderOutcome, hung: &[bool]) -> String {
        match outcome {
            LeaderOutcome::Failed(why) | LeaderOutcome::Killed(why) => {
                // A follower that ended may tell the cause. If there are several, others end because one has.
                let without_a_word = || {
                    let is_alone = why.contains(GONE) && self.followers.len() == 1;
                    self.end_of_follower(hung, Worker::failure).filter(|_| is_alone)
                };
                match self.crash_of_follower(hung).or_else(without_a_word) {
                    Some(how) => format!("{why}; {how}{}", self.last_words()),
                    None => why,
                }
            }
            LeaderOutcome::Vanished => {
                // A library may crash because it has lost its peer.
                let cause = self.crash_of_follower(hung).map_or_else(String::new, |how| format!("{how}, then "));
                match self.leader.crash() {
                    Some(how) => {
                        let last_words = self.last_words();
                        format!("{cause}the leader process {how} in step '{}'{last_words}", self.phase)
                    }
                    None => format!("{cause}the leader process ended without a report in step '{}'", self.phase),
                }
            }
            LeaderOutcome::Done | LeaderOutcome::Interrupted => String::new(),
        }
    }

    /// Description of a follower's crash, if there was one.
    fn crash_of_follower(&self, killed_by_us: &[bool]) -> Option<String> {
        self.end_of_follower(killed_by_us, Worker::crash)
    }

    /// Description of how a follower ended: the first for which `how` has one.
    fn end_of_follower(&self, killed_by_us: &[bool], how: fn(&Worker) -> Option<String>) -> Option<String> {
        let ended = self.followers.iter().zip(killed_by_us).enumerate().filter(|(_, (_, killed))| !**killed);
        let (index, how) = ended.filter_map(|(index, (follower, _))| Some((index, how(follower)?))).next()?;
        let is_one = !self.plan.workload.is_fan_out();
        Some(if is_one {
            format!("the follower process {how}")
        } else {
            format!("the process of follower {index} {how}")
        })
    }

    /// Last line in the log, if any: libraries print there before they abort. All processes write there, so lines that
    /// followers have reported are skipped.
    fn last_words(&self) -> String {
        let told = |follower: &Worker| match follower.last_word()? {
            FromFollower::Failed(why) => Some(why),
            _ => None,
        };
        let heard = self.follower_ended.iter().filter_map(|(_, _, word)| word.clone());
        let words: Vec<String> = self.followers.iter().filter_map(told).chain(heard).collect();
        self.log.last_words(&words)
    }
}

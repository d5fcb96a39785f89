//! Loggers: their opening and path proof, the reader of their lines, and the driver of their calls.

use super::account::{Account, RowsOfLinks};
use super::controls::Controls;
use super::leader::{Leader, Session};
use super::leg::{Leg, LegEnd, PreparedLeg, ReadyLeg, ReportedLeg, RunningLeg, SentLeg, unprepared};
use super::measured::Samples;
use super::patience::{FollowerPatience, SIGN_OF_LIFE};
use super::reports::end_followers;
use super::trial::Driver;
use super::{Error, OPEN_TIMEOUT, Result};
use crate::clock::monotonic_ns;
use crate::core_to_core::Page;
use crate::lanes::{AnySystem, Lane, Logging, LoopSetting};
use crate::log_check::LogText;
use crate::measure::callback::Inbox;
use crate::measure::{Failure, LoopEnd};
use crate::os;
use crate::proof::log::{Held, LogObserver, LogProbe, judge_log};
use crate::record::Recorder;
use crate::wire::{Begin, FromLeader, Task, TaskReply, ToFollower};
use std::path::{Path, PathBuf};
use std::thread::Builder;
use std::time::{Duration, Instant};
use tripmeter_abi::{Path as Claim, Role, panicked};
use tripmeter_model::figure::Figure;
use tripmeter_model::log::Lines;
use tripmeter_model::manifest::Counts;
use tripmeter_model::manifest::PathProof;
use tripmeter_model::metric::Stream;
use tripmeter_model::plan::Raw;

/// Longest time that a logger keeps its file open after it was closed.
const LONGEST_CLOSING: Duration = Duration::from_secs(60);
/// Longest time that the reader takes for lines written before.
pub(crate) const LONGEST_READING: Duration = Duration::from_secs(600);
/// Interval between checks that the logger has closed its file.
const CLOSING_LOOK: Duration = Duration::from_millis(2);
/// Bytes logged to prove the path.
const PROBE_BYTES: u64 = 64 * 1024;
/// Fewest lines logged to prove the path.
const PROBE_LINES: u64 = 32;
/// Pause between two of these lines, so that a logger with a short queue loses none.
const PROBE_PAUSE: Duration = Duration::from_micros(500);

/// Limits for the report of the reader.
const READING: FollowerPatience =
    FollowerPatience { still: LONGEST_READING, whole: LONGEST_READING, what: "did not finish reading" };

/// Calls of a logger that is opened for each leg, in a thread of its own.
pub(super) struct LoggedLines<'a> {
    system: &'a dyn AnySystem,
    calls: Option<LoggedCalls>,
}

struct LoggedCalls {
    file: PathBuf,
    /// Claim of the variant: a pipe, or a file.
    path: Claim,
    text: LogText,
    warm: Recorder,
    samples: Recorder,
    refused: u64,
    /// Time from the last call to the end of all writes.
    flush_ns: u64,
}

impl LoggedCalls {
    /// Calls the logger until the recorder is full, the leg is over, or a call fails. Sends signs of life, with the
    /// number of samples if `counts`.
    fn fill(
        &mut self,
        leader: &mut Leader,
        (lane, setting): (&mut dyn Lane, LoopSetting<'_>),
        log: &mut Logging<'_>,
        running: &mut RunningLeg,
        counts: bool,
    ) -> std::result::Result<(), Failure> {
        let recorder = if counts { &mut self.samples } else { &mut self.warm };
        // A piece of the recorder may be full long before a batch ends.
        while !recorder.free().is_empty() {
            let Some(until) = running.until(leader) else { break };
            let (stored, end) = lane.log(setting, log, recorder.free(), until)?;
            recorder.advance(stored);
            if end == LoopEnd::Stopped {
                running.stopped();
            }
            running.sign_of_life(leader, if counts { recorder.count() } else { 0 }, log.sequence);
        }
        Ok(())
    }
}

impl<'a> LoggedLines<'a> {
    pub(super) fn new(system: &'a dyn AnySystem) -> Self {
        Self { system, calls: None }
    }
}

impl Driver for LoggedLines<'_> {
    fn prepare(&mut self, leader: &Leader, _: &Session<'_>, leg: &Leg) -> Result<PreparedLeg> {
        let LegEnd::Messages(messages) = leg.end else { return Err(unprepared()) };
        let plan = &leader.job.sub_experiment;
        let (file, begin) = prepare_log(leader, leg.payload_bytes, plan.warmup + messages)?;
        let samples = Recorder::new(leader.job.timebase, leader.job.raw, messages)?;
        let warm = Recorder::new(leader.job.timebase, Raw::NONE, plan.warmup)?;
        let (text, path) = (LogText::new(leg.payload_bytes as usize), leader.variant.path);
        self.calls = Some(LoggedCalls { file, path, text, warm, samples, refused: 0, flush_ns: 0 });
        Ok(PreparedLeg { begin, memory: None, patience: READING, patience_after_failure: Some(READING) })
    }

    fn drive(&mut self, leader: &mut Leader, session: &mut Session<'_>, ready: ReadyLeg) -> Result<SentLeg> {
        let calls = self.calls.as_mut().ok_or_else(unprepared)?;
        let (base, shared, length) = (leader.job.timebase, leader.shared.clone(), ready.leg.payload_bytes as usize);
        let mut running = ready.begin(leader)?;
        let (mut begin, mut begin_ns, mut sequence) = (0, 0, 0);
        let text = std::mem::replace(&mut calls.text, LogText::new(0));
        let call = |leader: &mut Leader, lane: &mut dyn Lane, inbox: &Inbox| {
            let setting = leader.setting(inbox, &shared);
            let mut log = Logging { text: &text, length, sequence: 0, refused: 0 };
            running.begin_warm_up(leader);
            let warmed = calls.fill(leader, (&mut *lane, setting), &mut log, &mut running, false);
            running.end_warm_up();
            (begin, begin_ns) = (base.now(), monotonic_ns());
            running.cost_from_here();
            let ended = warmed.and_then(|()| calls.fill(leader, (lane, setting), &mut log, &mut running, true));
            (sequence, calls.refused) = (log.sequence, log.refused);
            Ok((ended.err(), base.now(), monotonic_ns()))
        };
        let (failure, until, last_call_ns) = with_logger(leader, self.system, call)?;
        let mut broken = await_let_go(leader, &calls.file).err();
        let (used, cut) = running.end(leader);
        let end_ns = monotonic_ns();
        // The background load is read before the lines are checked, which takes longer than logging them.
        if let Err(error) = leader.mark_load(false) {
            broken.get_or_insert(error);
        }
        calls.flush_ns = end_ns.saturating_sub(last_call_ns);
        leader.controls.report(&FromLeader::Logged { begin_ns, end_ns });
        let (counted, refused, last) = (calls.samples.count(), calls.refused, vec![sequence]);
        let sequence = session.sequence;
        let warmed = calls.warm.count();
        Ok(SentLeg { begin, until, last, sequence, warmed, counted, used, refused, cut, failure, broken })
    }

    fn account(
        &mut self,
        controls: &Controls,
        leg: &mut ReportedLeg,
        account: &mut Account,
        _: Option<&mut RowsOfLinks<'_>>,
    ) -> Result<()> {
        let LoggedCalls { file, path, samples, refused, flush_ns, .. } = self.calls.take().ok_or_else(unprepared)?;
        let log = leg.reports.first_mut().and_then(Option::take).and_then(|report| report.log);
        let Some((counts, lines)) = log else {
            let unchecked = || controls.failed("the reader has checked no line");
            return Err(leg.broken.take().unwrap_or_else(unchecked));
        };
        if path == Claim::File
            && let Some(lack) = lack_of_room(&file, &counts, &lines)
        {
            leg.broken.get_or_insert(controls.failed(&lack));
        }
        remove(&file)?;
        let (begin, all) = (leg.sent.begin, Stream::all());
        let mut recorded = samples.finish();
        recorded.times.put(&mut account.trial, &all, Figure::Call);
        account.trial.put_counts(&all, &counts, false);
        for (figure, value) in [
            (Figure::Refused, refused),
            (Figure::LinesWritten, lines.written),
            (Figure::LinesBytes, lines.bytes),
            (Figure::ShortestPrefix, lines.shortest_prefix_bytes),
            (Figure::LongestPrefix, lines.longest_prefix_bytes),
            (Figure::Flush, flush_ns),
            (Figure::Duration, account.timebase().to_ns(leg.sent.until - begin)),
        ] {
            account.trial.put(&all, figure, value as f64);
        }
        account.trial.put_series(&all, Figure::Call, recorded.series.take());
        let (others, rows, one_way) = (Vec::new(), Vec::new(), None);
        account.unwritten = Some(Samples { recorded, others, rows, one_way, begin: 0, first: 1 });
        Ok(())
    }
}

/// Prepares the system, proves the path of its lines, and returns the bytes of its packets.
pub(super) fn open_log(leader: &mut Leader, system: &dyn AnySystem) -> Result<u64> {
    leader.controls.set_phase("open");
    let page = Page::create().map_err(|error| leader.controls.failed(&error.to_string()))?;
    let setup = leader.setup(Some(&page), 0);
    leader.controls.send_all(&ToFollower::Setup(Box::new(setup)))?;
    let limits = system
        .probe(&leader.node_options(Role::Leader, 0))
        .map_err(|error| leader.controls.transport_failed(&error))?;
    let memory_lock = os::lock_memory().map_or_else(|error| error.to_string(), |()| "locked".to_owned());
    leader.controls.report(&FromLeader::Opened {
        transport_version: leader.description.version.clone(),
        system_version: leader.description.system_version.clone(),
        same_process: false,
        memory_lock: format!("leader: {memory_lock}; what the logger allocates later is not"),
        queues: Vec::new(),
    });
    let proof = prove_log(leader, system)?;
    leader.controls.report(&FromLeader::Proof(proof));
    Ok(limits.packet_bytes)
}

/// Logs a few lines, and finds out if they went to a file or a pipe.
fn prove_log(leader: &mut Leader, system: &dyn AnySystem) -> Result<PathProof> {
    leader.controls.set_phase("prove its path");
    let payload_bytes = leader.job.sub_experiment.payloads.iter().copied().max().unwrap_or(PROBE_BYTES);
    let calls = PROBE_LINES.max(PROBE_BYTES.div_ceil(payload_bytes));
    let (file, begin) = prepare_log(leader, payload_bytes, calls)?;
    leader.controls.ask_all(&ToFollower::Begin(begin))?;
    let observer = LogObserver::start(&file);
    let (text, shared) = (LogText::new(payload_bytes as usize), leader.shared.clone());
    let held = with_logger(leader, system, |leader, lane, inbox| {
        let setting = leader.setting(inbox, &shared);
        let mut log = Logging { text: &text, length: payload_bytes as usize, sequence: 0, refused: 0 };
        let mut ticks = vec![0; calls as usize];
        for one in ticks.chunks_mut(1) {
            std::thread::sleep(PROBE_PAUSE);
            lane.log(setting, &mut log, one, u64::MAX).map_err(|failure| leader.controls.diagnose(failure))?;
        }
        leader.check_stop()?;
        Ok(Held::by_this_process(&file))
    })?;
    await_let_go(leader, &file)?;
    let seen = observer.finish();
    let mut reports = end_followers(leader, vec![calls], READING, None);
    reports.broken.map_or(Ok(()), Err)?;
    let log = reports.reports.swap_remove(0).and_then(|report| report.log);
    let (counts, lines) = log.ok_or_else(|| leader.controls.failed("the reader has checked no line"))?;
    remove(&file)?;
    let claim = leader.variant.path;
    let probe = LogProbe { claim, lossy: leader.variant.lossy, calls, payload_bytes };
    Ok(judge_log(&probe, &seen, held, &counts, &lines))
}

/// Makes the FIFO if lines go to one. Returns the destination of the lines, and the task of the reader.
fn prepare_log(leader: &Leader, payload_bytes: u64, most: u64) -> Result<(PathBuf, Begin)> {
    let file = leader.node_options(Role::Leader, 0).log_file();
    remove(&file)?;
    let is_pipe = leader.variant.path == Claim::Pipe;
    if is_pipe {
        os::make_fifo(&file).map_err(|error| Error::failed(&format!("FIFO '{}'", file.display()), error))?;
    }
    let begin = Begin {
        most: vec![most],
        ..Begin::new(Task { reply: TaskReply::Lines { is_pipe }, serves_all: false }, 1, payload_bytes)
    };
    Ok((file, begin))
}

/// Opens the logger in a thread of its own, runs `work` with it, and closes it. Threads that the system starts are
/// bound to the same CPU, unless the variant forbids it.
fn with_logger<R: Send>(
    leader: &mut Leader,
    system: &dyn AnySystem,
    work: impl FnOnce(&mut Leader, &mut dyn Lane, &Inbox) -> Result<R> + Send,
) -> Result<R> {
    let own_threads = leader.variant.own_threads;
    let options = leader.node_options(Role::Leader, 0);
    let sit = move || {
        leader.pin(!own_threads)?;
        let inboxes = [Box::default()];
        let failed = |leader: &Leader, error: &tripmeter_abi::Error| leader.controls.transport_failed(error);
        let mut endpoint = system.open(&options, &inboxes).map_err(|error| failed(leader, &error))?;
        let lane = endpoint.lanes().swap_remove(0);
        let connected = lane.link().connect(&[], OPEN_TIMEOUT.as_nanos() as u64);
        connected.map_err(|error| failed(leader, &error))?;
        leader.pin(own_threads)?;
        work(leader, lane, &inboxes[0])
    };
    std::thread::scope(|scope| {
        let thread = Builder::new().name("logger".to_owned()).spawn_scoped(scope, sit);
        let thread = thread.map_err(|error| Error::failed("a thread for the logger cannot be started", error))?;
        thread.join().map_err(|panic| Error::Failed(panicked("the logging thread", &*panic)))?
    })
}

/// Waits until this process has no open descriptor of the file. A logger may write it in its own thread, and close it after
/// reporting that it was closed.
fn await_let_go(leader: &mut Leader, file: &Path) -> Result<()> {
    let (begin, mut told) = (Instant::now(), Instant::now());
    while Held::by_this_process(file).is_open() {
        if begin.elapsed() > LONGEST_CLOSING {
            let (file, seconds) = (file.display(), LONGEST_CLOSING.as_secs());
            let why = format!("the logger still holds '{file}' open {seconds} s after it was closed");
            return Err(leader.controls.failed(&why));
        }
        if told.elapsed() > SIGN_OF_LIFE {
            leader.controls.report(&FromLeader::Progress { samples: 0, moves: 0 });
            told = Instant::now();
        }
        std::thread::sleep(CLOSING_LOOK);
    }
    Ok(())
}

/// Message about lines that are missing for lack of space, with the remedy.
fn lack_of_room(file: &Path, counts: &Counts, lines: &Lines) -> Option<String> {
    let (lost, calls) = (counts.lost + counts.damaged, counts.sent);
    if lost == 0 {
        return None;
    }
    if let Some(limit) = os::file_size_limit().filter(|limit| lines.bytes >= *limit) {
        return Some(format!(
            "{lost} of {calls} lines are missing or cut: the file has reached the limit of {limit} bytes; raise it \
             (ulimit -f), or log less (-n, --payloads)"
        ));
    }
    let folder = file.parent()?;
    // The space is freed only after this check.
    let (_, free) = os::space(folder).filter(|(_, free)| *free < 1 << 16 && file.exists())?;
    Some(format!(
        "{lost} of {calls} lines are missing or cut: the disk of '{}' has {free} bytes left; make room, or set TMPDIR to a \
         folder on another one",
        folder.display()
    ))
}

fn remove(file: &Path) -> Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::failed(&format!("file '{}' cannot be removed", file.display()), error))
        }
        _ => Ok(()),
    }
}

//! Pattern `log` at the leader: for each payload it opens, calls and closes the logger. The follower process then checks the
//! lines.

use super::cap::warmup_end;
use super::leader::Leader;
use super::outcome::put_process;
use super::payload::{MANY_SAMPLES, MeasuredPayload, Samples};
use super::pool::Window;
use super::{Error, OPEN_TIMEOUT, Result};
use crate::clock::monotonic_ns;
use crate::handover::Page;
use crate::lanes::{AnySystem, Lane, Logging, LoopSetting};
use crate::log_check::LogText;
use crate::measure::callback::Inbox;
use crate::measure::{Failure, LoopEnd};
use crate::os;
use crate::proof::log::{Held, LogObserver, LogProbe, judge_log};
use crate::record::Recorder;
use crate::wire::{Begin, CLOSING, FromFollower, FromLeader, Task, ToFollower, WRITING};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::thread::Builder;
use std::time::{Duration, Instant};
use tripmeter_abi::{Path as Claim, Role, panicked};
use tripmeter_model::cut_short::CutShort;
use tripmeter_model::figure::Figure;
use tripmeter_model::log::Lines;
use tripmeter_model::manifest::{Counts, Handovers, PathProof};
use tripmeter_model::metric::{Process, Stream};
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::plan::Raw;
use tripmeter_model::trial::Trial;

const SIGN_OF_LIFE: Duration = Duration::from_secs(1);
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
/// Pause between two of them, so that a logger with a short queue loses none.
const PROBE_PAUSE: Duration = Duration::from_micros(500);

struct LoggedCalls {
    recorder: Recorder,
    warmup: u64,
    /// All calls, including the warm-up.
    calls: u64,
    refused: u64,
    end: LoopEnd,
    /// First call after the warm-up, of CLOCK_MONOTONIC.
    begin_ns: u64,
    duration_ns: u64,
}

impl Leader {
    /// Opens the logger for every payload, and measures it. After an error, the payloads before are on disk.
    pub(super) fn log(&mut self, system: &dyn AnySystem) -> Result<()> {
        self.controls.set_phase("open");
        let page = Page::create().map_err(|error| self.controls.failed(&error.to_string()))?;
        let setup = self.setup(Some(&page), 0);
        self.controls.send_all(&ToFollower::Setup(Box::new(setup)))?;
        let limits = system
            .probe(&self.node_options(Role::Leader, 0))
            .map_err(|error| self.controls.transport_failed(&error))?;
        let memory_lock = os::lock_memory().map_or_else(|error| error.to_string(), |()| "locked".to_owned());
        self.controls.report(&FromLeader::Opened {
            transport_version: self.description.version.clone(),
            system_version: self.description.system_version.clone(),
            same_process: false,
            memory_lock: format!("leader: {memory_lock}; what the logger allocates later is not"),
            queues: Vec::new(),
        });
        let proof = self.prove_log(system)?;
        self.controls.report(&FromLeader::Proof(proof));
        for payload_bytes in self.job.rest() {
            self.check_stop()?;
            self.measure_log(system, payload_bytes, limits.packet_bytes)?;
        }
        self.controls.set_phase(CLOSING);
        self.controls.send_all(&ToFollower::Bye)
    }

    /// Logs a few lines, and finds out where they went.
    fn prove_log(&mut self, system: &dyn AnySystem) -> Result<PathProof> {
        self.controls.set_phase("prove its path");
        let payload_bytes = self.job.sub_experiment.payloads.iter().copied().max().unwrap_or(PROBE_BYTES);
        let calls = PROBE_LINES.max(PROBE_BYTES.div_ceil(payload_bytes));
        let file = self.begin_log(payload_bytes, calls)?;
        let observer = LogObserver::start(&file);
        let (text, shared) = (LogText::new(payload_bytes as usize), self.shared.clone());
        let held = self.with_logger(system, |leader, lane, inbox| {
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
        self.await_let_go(&file)?;
        let seen = observer.finish();
        let (counts, lines) = self.end_log(calls)?;
        remove(&file)?;
        let probe = LogProbe { claim: self.variant.path, lossy: self.variant.lossy, calls, payload_bytes };
        Ok(judge_log(&probe, &seen, held, &counts, &lines))
    }

    /// Measures one payload, has its lines checked, writes the samples, and reports the cell.
    fn measure_log(&mut self, system: &dyn AnySystem, payload_bytes: u64, packet_bytes: u64) -> Result<()> {
        self.begin_payload(payload_bytes);
        let plan = &self.job.sub_experiment;
        let most = plan.warmup + plan.samples_of(payload_bytes);
        let file = self.begin_log(payload_bytes, most)?;
        self.schedule()?;
        self.mark_load(true)?;
        let (called, window) =
            self.with_logger(system, move |leader, lane, inbox| leader.call_logger(lane, inbox, payload_bytes))?;
        let last_call_ns = called.begin_ns + called.duration_ns;
        self.await_let_go(&file)?;
        let (used, end_ns) = (window.close(), monotonic_ns());
        self.mark_load(false)?;
        let (counts, lines) = self.end_log(called.calls)?;
        self.check_room(&file, &counts, &lines)?;
        remove(&file)?;
        if called.end == LoopEnd::Stopped {
            self.shared.stop.store(false, Relaxed);
            if called.recorder.count() == 0 {
                return Err(Error::Interrupted);
            }
        }
        if called.recorder.count() > MANY_SAMPLES {
            self.controls.set_phase(WRITING);
        }
        let LoggedCalls { recorder, warmup, calls: _, refused, end, begin_ns, duration_ns } = called;
        let mut recorded = recorder.finish();
        let (mut trial, all) = (Trial::new(OfferedLoad::Closed), Stream::all());
        trial.cut_short = self.cut_short(end, None);
        recorded.times.put(&mut trial, &all, Figure::Call);
        trial.put_counts(&all, &counts, false);
        for (figure, value) in [
            (Figure::Refused, refused),
            (Figure::LinesWritten, lines.written),
            (Figure::LinesBytes, lines.bytes),
            (Figure::ShortestPrefix, lines.shortest_prefix_bytes),
            (Figure::LongestPrefix, lines.longest_prefix_bytes),
            (Figure::Flush, end_ns.saturating_sub(last_call_ns)),
            (Figure::Duration, duration_ns),
        ] {
            trial.put(&all, figure, value as f64);
        }
        trial.put_series(&all, Figure::Call, recorded.series.take());
        // The supervisor adds the CPU peak.
        put_process(&mut trial, Process::Leader, &used);
        let mut measured = MeasuredPayload {
            samples: recorded.count,
            samples_planned: self.job.sub_experiment.samples_of(payload_bytes),
            warmup,
            cut_short: trial.cut_short.clone(),
            duration_ns,
            trials: vec![trial],
            unwritten: Some(Samples {
                recorded,
                others: Vec::new(),
                rows: Vec::new(),
                one_way: None,
                begin: 0,
                first: 1,
            }),
            ..MeasuredPayload::default()
        };
        if measured.samples == 0 {
            (measured.trials, measured.unwritten) = (Vec::new(), None);
            measured.cut_short = Some(CutShort::before_loads(0, 1));
        }
        self.write(payload_bytes, &mut measured)?;
        let mut cell = self.cell(payload_bytes, packet_bytes, Handovers::default(), measured);
        cell.unfinished = end == LoopEnd::Stopped;
        self.controls.report(&FromLeader::Logged { begin_ns, end_ns });
        self.controls.report(&FromLeader::CellFinished(Box::new(cell)));
        self.controls.await_noted()?;
        if end == LoopEnd::Stopped { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Prepares the reader, and the FIFO if lines go to one. Returns the destination of the lines.
    fn begin_log(&mut self, payload_bytes: u64, most: u64) -> Result<PathBuf> {
        let file = self.node_options(Role::Leader, 0).log_file();
        let is_pipe = self.variant.path == Claim::Pipe;
        if is_pipe {
            os::make_fifo(&file).map_err(|error| Error::of(&format!("FIFO '{}'", file.display()), error))?;
        }
        let task = Task::ReadLog { is_pipe };
        let begin = Begin { most: vec![most], ..Begin::new(task, 1, payload_bytes) };
        self.controls.ask_all(&ToFollower::Begin(begin))?;
        Ok(file)
    }

    /// Ends the reader, and returns its findings for this number of calls.
    fn end_log(&mut self, calls: u64) -> Result<(Counts, Lines)> {
        self.controls.send_all(&ToFollower::End { last: vec![calls] })?;
        let deadline = Instant::now() + LONGEST_READING;
        loop {
            match self.controls.recv_within(0, SIGN_OF_LIFE)? {
                Some(FromFollower::Report(report)) => {
                    return report.log.ok_or_else(|| self.controls.failed("the reader has checked no line"));
                }
                Some(_) => return Err(self.controls.failed("the reader's messages are out of order")),
                None if Instant::now() > deadline => {
                    let seconds = LONGEST_READING.as_secs();
                    return Err(self.controls.failed(&format!("the reader did not finish reading within {seconds} s")));
                }
                None => self.controls.report(&FromLeader::Progress { samples: 0, moves: 0 }),
            }
        }
    }

    /// Opens the logger in a thread of its own, runs `work` with it, and closes it. Threads that the system starts are bound as
    /// that thread is, unless the variant forbids it.
    fn with_logger<R: Send>(
        &mut self,
        system: &dyn AnySystem,
        work: impl FnOnce(&mut Self, &mut dyn Lane, &Inbox) -> Result<R> + Send,
    ) -> Result<R> {
        let own_threads = self.variant.own_threads;
        let options = self.node_options(Role::Leader, 0);
        let leader = &mut *self;
        let sit = move || {
            leader.pin(!own_threads)?;
            let inboxes = [Box::default()];
            let failed = |leader: &Self, error: &tripmeter_abi::Error| leader.controls.transport_failed(error);
            let mut endpoint = system.open(&options, &inboxes).map_err(|error| failed(leader, &error))?;
            let lane = endpoint.lanes().swap_remove(0);
            let connected = lane.link().connect(&[], OPEN_TIMEOUT.as_nanos() as u64);
            connected.map_err(|error| failed(leader, &error))?;
            leader.pin(own_threads)?;
            work(leader, lane, &inboxes[0])
        };
        std::thread::scope(|scope| {
            let thread = Builder::new().name("logger".to_owned()).spawn_scoped(scope, sit);
            let thread = thread.map_err(|error| Error::of("a thread for the logger cannot be started", error))?;
            thread.join().map_err(|panic| Error::Failed(panicked("the logging thread", &*panic)))?
        })
    }

    /// Calls the logger: warm-up, then samples.
    fn call_logger(&mut self, lane: &mut dyn Lane, inbox: &Inbox, payload_bytes: u64) -> Result<(LoggedCalls, Window)> {
        let plan = &self.job.sub_experiment;
        let (base, shared) = (self.job.timebase, self.shared.clone());
        let mut recorder = Recorder::new(base, self.job.raw, plan.samples_of(payload_bytes))?;
        let mut warm = Recorder::new(base, Raw::NONE, plan.warmup)?;
        let text = LogText::new(payload_bytes as usize);
        let setting = self.setting(inbox, &shared);
        let mut log = Logging { text: &text, length: payload_bytes as usize, sequence: 0, refused: 0 };
        let capped = self.capped();
        self.give_up_at(capped);
        let warmup_capped = warmup_end(base.now(), capped);
        let mut result = self.record(lane, setting, &mut log, &mut warm, warmup_capped, false);
        let (begin_ns, window) = (monotonic_ns(), Window::open());
        if matches!(result, Ok(LoopEnd::Full | LoopEnd::Deadline)) && base.now() < capped {
            result = self.record(lane, setting, &mut log, &mut recorder, capped, true);
        }
        self.give_up_at(0);
        let duration_ns = monotonic_ns() - begin_ns;
        let (sequence, refused) = (log.sequence, log.refused);
        let end = result.map_err(|failure| self.controls.diagnose(failure))?;
        let warmup = warm.count();
        Ok((LoggedCalls { recorder, warmup, calls: sequence, refused, end, begin_ns, duration_ns }, window))
    }

    /// Calls the logger until the recorder is full, the deadline has passed, or the user has asked to stop. Meanwhile it
    /// gives signs of life.
    fn record(
        &mut self,
        lane: &mut dyn Lane,
        setting: LoopSetting<'_>,
        log: &mut Logging<'_>,
        recorder: &mut Recorder,
        deadline: u64,
        is_shown: bool,
    ) -> std::result::Result<LoopEnd, Failure> {
        let base = self.job.timebase;
        let pause = base.to_ticks(SIGN_OF_LIFE.as_nanos() as u64);
        // A piece of the recorder may be full long before.
        let mut next_sign = base.now() + pause;
        while !recorder.free().is_empty() {
            let (stored, end) = lane.log(setting, log, recorder.free(), deadline.min(next_sign))?;
            recorder.advance(stored);
            let now = base.now();
            match end {
                LoopEnd::Full => {}
                LoopEnd::Deadline if now < deadline => {}
                LoopEnd::Deadline | LoopEnd::Stopped => return Ok(end),
            }
            if now >= next_sign {
                let samples = if is_shown { recorder.count() } else { 0 };
                self.controls.report(&FromLeader::Progress { samples, moves: log.sequence });
                next_sign = now + pause;
            }
        }
        Ok(LoopEnd::Full)
    }

    /// Waits until this process has no open descriptor of the file. A logger may write it in its own thread, and close it after
    /// reporting that it was closed.
    fn await_let_go(&mut self, file: &Path) -> Result<()> {
        let (begin, mut told) = (Instant::now(), Instant::now());
        while Held::by_this_process(file).is_open() {
            if begin.elapsed() > LONGEST_CLOSING {
                let (file, seconds) = (file.display(), LONGEST_CLOSING.as_secs());
                let why = format!("the logger still holds '{file}' open {seconds} s after it was closed");
                return Err(self.controls.failed(&why));
            }
            if told.elapsed() > SIGN_OF_LIFE {
                self.controls.report(&FromLeader::Progress { samples: 0, moves: 0 });
                told = Instant::now();
            }
            std::thread::sleep(CLOSING_LOOK);
        }
        Ok(())
    }

    /// Fails if lines are missing because there was no room for them.
    fn check_room(&self, file: &Path, counts: &Counts, lines: &Lines) -> Result<()> {
        if counts.lost + counts.damaged == 0 || self.variant.path != Claim::File {
            return Ok(());
        }
        let (lost, calls, folder) = (counts.lost + counts.damaged, counts.sent, &self.job.scratch_dir);
        if let Some(limit) = os::file_size_limit().filter(|limit| lines.bytes >= *limit) {
            let why = format!(
                "{lost} of {calls} lines are missing or cut: the file has reached the limit of {limit} bytes; raise it \
                 (ulimit -f), or log less (-n, --payloads)"
            );
            return Err(self.controls.failed(&why));
        }
        // The space is freed only after this check.
        let free = os::space(folder).map(|(_, free)| free).filter(|free| *free < 1 << 16);
        if let Some(free) = free.filter(|_| file.exists()) {
            let why = format!(
                "{lost} of {calls} lines are missing or cut: the disk of '{}' has {free} bytes left; make room, or set \
                 TMPDIR to a folder on another one",
                folder.display()
            );
            return Err(self.controls.failed(&why));
        }
        Ok(())
    }
}

fn remove(file: &Path) -> Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::of(&format!("file '{}' cannot be removed", file.display()), error))
        }
        _ => Ok(()),
    }
}

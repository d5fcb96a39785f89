//! One payload under any workload: probes around its trials, its files, and its report.

use super::attempts::{Bounds, not_written};
use super::leader::{Leader, Session};
use super::{Error, Result};
use crate::files::SampleStamps;
use crate::measure::stamps::TripRow;
use crate::record::RecordedSamples;
use crate::replay::Replay;
use crate::wire::FromLeader;
use hdrhistogram::Histogram;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tripmeter_model::cut_short::CutShort;
use tripmeter_model::figure::Figure;
use tripmeter_model::manifest::{Handovers, PayloadResult};
use tripmeter_model::metric::Stream;
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::trial::Trial;

/// Number of samples that take seconds to sort and write.
pub(super) const MANY_SAMPLES: u64 = 1_000_000;

#[derive(Default)]
pub(super) struct MeasuredPayload {
    /// In the order of the plan.
    pub trials: Vec<Trial>,
    pub samples: u64,
    pub samples_planned: u64,
    /// Messages before the first sample.
    pub warmup: u64,
    /// Warm-up messages that came damaged and calls that failed, if no trial counts them.
    pub warmup_damaged: u64,
    /// Reason for fewer samples than planned.
    pub cut_short: Option<CutShort>,
    pub duration_ns: u64,
    pub unwritten: Option<Samples>,
    pub broken: Option<Error>,
}

/// Round trips or logger calls, and histograms of other times with their tags.
pub(super) struct Samples {
    pub recorded: RecordedSamples,
    pub others: Vec<(String, Histogram<u64>)>,
    /// Rows of consecutive round trips; none for calls, which are timed one by one.
    pub rows: Vec<TripRow>,
    /// One-way latencies in ticks, to the last of several followers; `None` if clocks may be too far apart.
    pub one_way: Option<Vec<i64>>,
    /// Tick at which the trial began.
    pub begin: u64,
    /// Number of its first message.
    pub first: u64,
}

impl MeasuredPayload {
    /// Result of `trials` of messages or calls, out of `planned`, since `begun`; `broken` ended them if something failed.
    /// Without a reason, missing trials are due to the time cap or a stop by the user.
    pub(super) fn of(trials: Vec<Trial>, planned: usize, begun: Instant, broken: Option<Error>) -> Self {
        let cut_short = match &broken {
            Some(error) => Some(error.into()),
            None if trials.len() < planned => Some(CutShort::before_loads(trials.len(), planned)),
            None => trials.iter().find_map(|trial| trial.cut_short.clone()),
        };
        let samples = trials.iter().map(|trial| trial.count(&Stream::all(), Figure::Received)).sum();
        let duration_ns = begun.elapsed().as_nanos() as u64;
        Self { trials, samples, cut_short, duration_ns, broken, ..Self::default() }
    }
}

impl Leader {
    pub(super) fn payloads(&mut self, session: &mut Session<'_>) -> Result<()> {
        let replay = self.replay()?;
        for payload_bytes in self.job.rest() {
            self.attempts.begin()?;
            self.payload(session, replay.as_ref(), payload_bytes)?;
            while self.attempts.next() {
                self.payload(session, replay.as_ref(), payload_bytes)?;
            }
        }
        Ok(())
    }

    /// Makes one attempt at one payload: measures it, writes it, and reports it.
    fn payload(&mut self, session: &mut Session<'_>, replay: Option<&Replay>, payload_bytes: u64) -> Result<()> {
        self.check_stop()?;
        self.begin_payload(payload_bytes);
        let workload = &self.job.sub_experiment.workload;
        let (is_timed, is_saturating) = (workload.is_timed(), workload.is_saturating());
        if is_timed {
            // Timed trials write their rows at once.
            self.make_room()?;
        }
        self.schedule()?;
        self.mark_load(true)?;
        let before = self.handover(session)?;
        let mut measured = match replay {
            Some(replay) => self.play(session, replay, payload_bytes)?,
            None if is_timed => self.timed(session, payload_bytes)?,
            None if is_saturating => self.saturate(session, payload_bytes)?,
            None => self.trips(session, payload_bytes)?,
        };
        let mut after = None;
        if measured.broken.is_none() {
            // Results are kept, whatever happens to the probe.
            match self.handover(session) {
                Ok(probe) => after = probe,
                Err(error) => measured.broken = Some(error),
            }
        }
        if let Err(error) = self.mark_load(false) {
            measured.broken.get_or_insert(error);
        }
        let stopped = self.shared.stop.swap(false, Relaxed).then_some(Error::Interrupted);
        let ending = measured.broken.take().or(stopped);
        if let (Some(why), Some(ending)) = (&mut measured.cut_short, &ending) {
            *why = ending.into();
        }
        self.make_room()?;
        self.write(payload_bytes, &mut measured)?;
        let cell = self.cell(payload_bytes, session.packet_bytes, Handovers { before, after }, measured);
        self.finish_cell(cell, ending)
    }

    pub(super) fn begin_payload(&mut self, payload_bytes: u64) {
        self.controls.set_phase(&format!("measure {payload_bytes} bytes"));
        self.controls.report(&FromLeader::CellStarted { payload_bytes });
    }

    /// Makes a trial of each load, until tick `capped`, a stop by the user, or a failure, which is returned with the trials
    /// before it. A load without a message has no trial.
    pub(super) fn each_load(
        &mut self,
        loads: &[OfferedLoad],
        capped: u64,
        mut trial: impl FnMut(&mut Self, OfferedLoad) -> Result<Option<(Trial, Option<Error>)>>,
    ) -> Result<(Vec<Trial>, Option<Error>)> {
        let (mut trials, mut broken) = (Vec::new(), None);
        for load in loads {
            if self.shared.stop.load(Relaxed) || self.job.timebase.now() >= capped || broken.is_some() {
                break;
            }
            match trial(self, *load) {
                Ok(Some((mut trial, ended))) => {
                    broken = ended;
                    trial.number = self.files.next_trial();
                    trials.push(trial);
                }
                Ok(None) => break,
                // The trials before are complete.
                Err(error) if !trials.is_empty() => broken = Some(error),
                Err(error) => return Err(error),
            }
        }
        Ok((trials, broken))
    }

    /// Writes samples that are not in a file yet.
    pub(super) fn write(&mut self, payload_bytes: u64, measured: &mut MeasuredPayload) -> Result<()> {
        let Some(samples) = measured.unwritten.take() else { return Ok(()) };
        let (base, duration) = (self.job.timebase, Duration::from_nanos(measured.duration_ns));
        let mut write = || {
            let lengths = self.files.lengths()?;
            let Samples { recorded, others, rows, one_way, begin, first } = &samples;
            let mut written = self.files.rows(base, payload_bytes, *begin);
            written.add_trips(rows, &recorded.ticks, one_way.as_deref(), *first);
            if rows.is_empty() {
                // Start times of calls were not kept.
                for (index, ticks) in (0..).zip(&recorded.ticks) {
                    let stamps =
                        SampleStamps { sent: *begin, answered: Some(begin + ticks), ..SampleStamps::default() };
                    written.add("all", index, "ok", stamps);
                }
            }
            written.finish().inspect_err(|_| self.files.cut(lengths))?;
            // These times are of one clock.
            let own = recorded.times.histogram().map(|times| (format!("payload_{payload_bytes}"), times));
            let histograms = own.into_iter().chain(others.iter().map(|(tag, other)| (tag.clone(), other)));
            let rtt_ns = recorded.ticks.iter().map(|ticks| base.to_ns(*ticks));
            let appended = self.files.append_payload(payload_bytes, rtt_ns, histograms, duration);
            appended.inspect_err(|_| self.files.cut(lengths))
        };
        write().map_err(not_written(&self.job.results.path))?;
        measured.trials.iter_mut().for_each(|trial| trial.number = self.files.next_trial());
        Ok(())
    }

    pub(super) fn cell(
        &self,
        payload_bytes: u64,
        packet_bytes: u64,
        handover_ns: Handovers,
        of: MeasuredPayload,
    ) -> PayloadResult {
        let MeasuredPayload {
            trials, samples, samples_planned, warmup, warmup_damaged, cut_short, duration_ns, ..
        } = of;
        PayloadResult {
            payload_bytes,
            samples,
            samples_planned,
            warmup,
            warmup_damaged,
            cut_short,
            unfinished: false,
            packet_bytes,
            // Messages of a stream are sampled, and the samples kept.
            from_histogram: self.job.raw.is_none() && !self.job.sub_experiment.workload.is_saturating(),
            handover_ns,
            handover_changed: None,
            earlier_attempts: Vec::new(),
            duration_ns,
            trials,
        }
    }

    /// Reports a measured and written cell, which may be measured again. Fails with `ending` if it is the last one.
    fn finish_cell(&mut self, mut cell: PayloadResult, ending: Option<Error>) -> Result<()> {
        let time_cap = self.job.sub_experiment.time_cap_ns.map(Duration::from_nanos);
        // A background load changes the probe, as it is meant to.
        let attempts = if self.job.sub_experiment.load.is_none() { self.job.attempts } else { 1 };
        let bounds = Bounds { time_cap, attempts };
        cell.unfinished = ending.is_some();
        let again = self.attempts.judge(&mut cell, self.has_handover(), ending.as_ref(), bounds);
        let cell = Box::new(cell);
        self.controls.report(&if again { FromLeader::CellAgain(cell) } else { FromLeader::CellFinished(cell) });
        self.controls.await_noted()?;
        ending.map_or(Ok(()), Err)
    }

    /// Moves the results of the attempt before out of the way. Must be called before any of this one is written.
    fn make_room(&mut self) -> Result<()> {
        if self.attempts.is_written() {
            // A kill from here on leaves a payload that does not count, instead of half of each attempt.
            self.controls.report(&FromLeader::Replacing);
            self.controls.await_noted()?;
        }
        self.attempts.make_room(&mut self.files)
    }
}

//! One payload under any workload: probes around its trials, its files, and its report.

use super::attempts::{Bounds, not_written};
use super::closed_loop::ClosedLoop;
use super::leader::{Leader, Session};
use super::logging::LoggedLines;
use super::measured::{MeasuredPayload, Samples};
use super::saturating::Saturating;
use super::scheduled::Scheduled;
use super::trial::{Driver, TrialRunner};
use super::{Error, Result};
use crate::files::SampleStamps;
use crate::lanes::AnySystem;
use crate::replay::Replay;
use crate::wire::FromLeader;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tripmeter_model::manifest::{CoreToCoreProbes, PayloadResult};
use tripmeter_model::pattern::TrialEnd;
use tripmeter_model::workload::Reply;

/// Measures every payload that is not done, with further attempts where necessary.
pub(super) fn payloads(leader: &mut Leader, session: &mut Session<'_>, system: &dyn AnySystem) -> Result<()> {
    let replay = replay(leader)?;
    let mut driver = driver_of(leader, replay.as_ref(), system);
    for payload_bytes in leader.job.rest() {
        leader.attempts.begin()?;
        payload(leader, session, &mut *driver, payload_bytes)?;
        while leader.attempts.next() {
            payload(leader, session, &mut *driver, payload_bytes)?;
        }
    }
    Ok(())
}

/// Reads the due times of the recording's messages, if one is sent.
fn replay(leader: &mut Leader) -> Result<Option<Replay>> {
    let Some(folder) = leader.job.schedule.clone() else { return Ok(None) };
    leader.controls.set_phase("read the schedule of the recording");
    Replay::load(&folder, &leader.job.timebase).map(Some).map_err(Error::Failed)
}

/// Driver that sends the workload.
fn driver_of<'a>(leader: &Leader, replay: Option<&'a Replay>, system: &'a dyn AnySystem) -> Box<dyn Driver + 'a> {
    let plan = &leader.job.sub_experiment;
    let allowed = plan.allowed();
    match (plan.workload.reply, plan.trial_end()) {
        (Reply::Lines, _) => Box::new(LoggedLines::new(system)),
        (Reply::Answer, _) => Box::new(ClosedLoop::default()),
        (Reply::Nothing, Some(TrialEnd::Bounds)) => Box::new(Saturating::default()),
        _ => Box::new(Scheduled::new(replay, allowed.is_some_and(|allowed| allowed.spins))),
    }
}

/// Makes one attempt at one payload: measures it, writes it, and reports it.
fn payload(leader: &mut Leader, session: &mut Session<'_>, driver: &mut dyn Driver, payload_bytes: u64) -> Result<()> {
    leader.check_stop()?;
    leader.controls.set_phase(&format!("measure {payload_bytes} bytes"));
    leader.controls.report(&FromLeader::CellStarted { payload_bytes });
    leader.schedule()?;
    leader.mark_load(true)?;
    let before = leader.core_to_core(session)?;
    let mut measured = TrialRunner::new(leader, session)?.payload(driver, payload_bytes)?;
    let mut after = None;
    if measured.broken.is_none() {
        // Results are kept, whatever happens to the probe.
        match leader.core_to_core(session) {
            Ok(probe) => after = probe,
            Err(error) => measured.broken = Some(error),
        }
    }
    // A logger's driver has already ended the load's reading, before the lines were checked.
    let is_marked = leader.job.sub_experiment.workload.is_log();
    if let Some(Err(error)) = (!is_marked).then(|| leader.mark_load(false)) {
        measured.broken.get_or_insert(error);
    }
    let stopped = leader.shared.stop.swap(false, Relaxed).then_some(Error::Interrupted);
    let ending = measured.broken.take().or(stopped);
    if let (Some(why), Some(ending)) = (&mut measured.cut_short, &ending) {
        *why = ending.into();
    }
    leader.make_room()?;
    write(leader, payload_bytes, &mut measured)?;
    let cell = cell(leader, payload_bytes, session.packet_bytes, CoreToCoreProbes { before, after }, measured);
    finish_cell(leader, cell, ending)
}

/// Writes samples that are not in a file yet.
fn write(leader: &mut Leader, payload_bytes: u64, measured: &mut MeasuredPayload) -> Result<()> {
    let Some(samples) = measured.unwritten.take() else { return Ok(()) };
    let (base, duration) = (leader.job.timebase, Duration::from_nanos(measured.duration_ns));
    let mut write = || {
        let lengths = leader.files.lengths()?;
        let Samples { recorded, others, rows, one_way, begin, first } = &samples;
        let mut written = leader.files.rows(base, payload_bytes, *begin);
        written.add_trips(rows, &recorded.ticks, one_way.as_deref(), *first);
        if rows.is_empty() {
            // Start times of calls were not kept.
            for (index, ticks) in (0..).zip(&recorded.ticks) {
                let stamps = SampleStamps { sent: *begin, answered: Some(begin + ticks), ..SampleStamps::default() };
                written.add("all", index, "ok", stamps);
            }
        }
        written.finish().inspect_err(|_| leader.files.cut(lengths))?;
        // These times come from one clock.
        let own = recorded.times.histogram().map(|times| (format!("payload_{payload_bytes}"), times));
        let histograms = own.into_iter().chain(others.iter().map(|(tag, other)| (tag.clone(), other)));
        let rtt_ns = recorded.ticks.iter().map(|ticks| base.to_ns(*ticks));
        let appended = leader.files.append_payload(payload_bytes, rtt_ns, histograms, duration);
        appended.inspect_err(|_| leader.files.cut(lengths))
    };
    write().map_err(not_written(&leader.job.results.path))?;
    measured.trials.iter_mut().for_each(|trial| trial.number = leader.files.next_trial());
    Ok(())
}

fn cell(
    leader: &Leader,
    payload_bytes: u64,
    packet_bytes: u64,
    core_to_core_ns: CoreToCoreProbes,
    of: MeasuredPayload,
) -> PayloadResult {
    let MeasuredPayload { trials, samples, samples_planned, warmup, warmup_damaged, cut_short, duration_ns, .. } = of;
    PayloadResult {
        payload_bytes,
        samples,
        samples_planned,
        warmup,
        warmup_damaged,
        cut_short,
        unfinished: false,
        packet_bytes,
        // One-way messages are sampled, and the samples kept.
        from_histogram: leader.job.raw.is_none() && !leader.job.sub_experiment.workload.is_saturating(),
        core_to_core_ns,
        core_to_core_changed: None,
        earlier_attempts: Vec::new(),
        duration_ns,
        trials,
    }
}

/// Reports a measured and written cell, which may be measured again. Fails with `ending`, if there is one.
fn finish_cell(leader: &mut Leader, mut cell: PayloadResult, ending: Option<Error>) -> Result<()> {
    let time_cap = leader.job.sub_experiment.time_cap_ns.map(Duration::from_nanos);
    // A background load changes the probe, as it is meant to.
    let attempts = if leader.job.sub_experiment.background.is_none() { leader.job.attempts } else { 1 };
    let bounds = Bounds { time_cap, attempts };
    cell.unfinished = ending.is_some();
    let again = leader.attempts.judge(&mut cell, leader.has_core_to_core(), ending.as_ref(), bounds);
    let cell = Box::new(cell);
    leader.controls.report(&if again { FromLeader::CellAgain(cell) } else { FromLeader::CellFinished(cell) });
    leader.controls.await_noted()?;
    ending.map_or(Ok(()), Err)
}

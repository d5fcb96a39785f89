//! Runs the trials of every pattern. What differs is in a [`Driver`], which is called once per leg and between batches,
//! never per message.
//!
//! A leg is one begin and one end of the followers: a warm-up, or a piece of a trial. An error before the first message
//! ends the trial; after that, everything measured is kept with the error.

use super::account::{Account, MeasuredTrial, RowsOfLinks};
use super::attempts::not_written;
use super::cap::{self, warmup_end};
use super::controls::Controls;
use super::host_clocks;
use super::leader::{Leader, Session};
use super::leg::{Leg, LegEnd, PreparedLeg, ReadyLeg, ReportedLeg, SentLeg};
use super::measured::{MANY_SAMPLES, MeasuredPayload};
use super::reports::{self, FollowerReports};
use super::search::search;
use super::{Error, Result};
use crate::files::Lengths;
use crate::wire::WRITING;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
use tripmeter_model::counted;
use tripmeter_model::cut_short::CutShort;
use tripmeter_model::figure::Figure;
use tripmeter_model::metric::Stream;
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::pattern::{AllowedWorkload, TrialEnd, WarmUpPlan};
use tripmeter_model::plan::Instrument;
use tripmeter_model::trial::Trial;

/// Divisor of a trial's duration that gives its longest warm-up.
const WARMUP_SHARE: u64 = 5;
/// Longest warm-up of a trial that ends by its bounds, if no time bounds it.
const LONGEST_WARMUP_NS: u64 = 1_000_000_000;
/// Most stamps of all streams that are kept at a time, without raw samples.
const MOST_STAMPS: u64 = 1 << 22;
/// Most stamps per stream in a leg. Longer trials have several legs, each long enough to keep percentiles unchanged.
const MOST_STAMPS_OF_A_STREAM: u64 = 1 << 17;

/// Sender of one kind of workload. Its state belongs to one leg, and its memory is allocated before the leg begins.
pub(super) trait Driver {
    /// Prepares the memory of a leg, and the request to the followers.
    fn prepare(&mut self, leader: &Leader, session: &Session<'_>, leg: &Leg) -> Result<PreparedLeg>;

    /// Sends the messages. Begins the leg once all of its threads are ready, and checks on it between batches.
    fn drive(&mut self, leader: &mut Leader, session: &mut Session<'_>, ready: ReadyLeg) -> Result<SentLeg>;

    /// Takes messages that still come back. Called after a failure, too, where nothing more can come.
    fn drain(&mut self, _: &Leader, _: &mut Session<'_>, _: &mut SentLeg) {}

    /// Joins the notes of both sides, and adds them to the account.
    fn account(
        &mut self,
        controls: &Controls,
        leg: &mut ReportedLeg,
        account: &mut Account,
        rows: Option<&mut RowsOfLinks<'_>>,
    ) -> Result<()>;
}

/// A trial with further legs to come.
struct OpenTrial {
    account: Account,
    /// Stream of each link, as in rows of samples.
    streams: Vec<String>,
    has_rows: bool,
    /// Lengths of the results files before its first row, to which they are cut if writing fails.
    lengths: Option<Lengths>,
}

pub(super) struct TrialRunner<'l, 's> {
    leader: &'l mut Leader,
    session: &'l mut Session<'s>,
    allowed: &'static AllowedWorkload,
    /// Messages of the longest warm-up inside a trial.
    warmed: u64,
}

impl<'l, 's> TrialRunner<'l, 's> {
    /// Fails if the pattern does not allow the workload, as can happen with an edited plan.
    pub(super) fn new(leader: &'l mut Leader, session: &'l mut Session<'s>) -> Result<Self> {
        let allowed = leader.job.sub_experiment.allowed();
        let allowed = allowed.ok_or_else(|| Error::Failed("its pattern does not allow the workload".to_owned()))?;
        Ok(Self { leader, session, allowed, warmed: 0 })
    }

    /// Measures every offered load at one payload, with warm-ups.
    pub(super) fn payload(&mut self, driver: &mut dyn Driver, payload_bytes: u64) -> Result<MeasuredPayload> {
        let plan = &self.leader.job.sub_experiment;
        let (loads, links) = (plan.workload.loads.clone(), u64::from(plan.workload.links()));
        let end = match self.allowed.end {
            TrialEnd::Samples => LegEnd::Messages(plan.samples_of(payload_bytes)),
            TrialEnd::Bounds => {
                LegEnd::Bounds { messages: plan.workload.most_messages, duration_ns: plan.workload.duration_ns }
            }
            TrialEnd::Recording => LegEnd::Recording,
        };
        let recorded = plan.workload.recorded.map_or(0, |recorded| recorded.messages);
        let (begun, capped) = (Instant::now(), cap::capped(self.leader));
        let mut measured = MeasuredPayload::default();
        if let WarmUpPlan::Once { hz } = self.allowed.warm_up {
            let load = OfferedLoad::Rate { hz };
            self.warm_up(driver, Leg { payload_bytes, load, end, capped }, &mut measured)?;
        }
        for load in &loads {
            if self.leader.shared.stop.load(Relaxed)
                || self.leader.job.timebase.now() >= capped
                || measured.broken.is_some()
            {
                break;
            }
            let leg = Leg { payload_bytes, load: *load, end, capped };
            match self.load(driver, leg, &mut measured) {
                Ok(None) => break,
                Ok(Some(trial)) => {
                    measured.samples += trial.samples;
                    measured.duration_ns += trial.duration_ns;
                    measured.unwritten = trial.unwritten;
                    measured.broken = trial.broken;
                    measured.trials.push(trial.trial);
                }
                // The trials before are complete.
                Err(error) if !measured.trials.is_empty() => measured.broken = Some(error),
                Err(error) => return Err(error),
            }
        }
        measured.warmup = measured.warmup.max(self.warmed);
        let done = measured.trials.len();
        measured.cut_short = match &measured.broken {
            Some(error) => Some(error.into()),
            None if done < loads.len() => Some(CutShort::before_loads(done, loads.len())),
            None => measured.trials.iter().find_map(|trial| trial.cut_short.clone()),
        };
        measured.samples_planned = match end {
            LegEnd::Messages(messages) => messages * links * loads.len() as u64,
            LegEnd::Bounds { .. } => measured.samples,
            LegEnd::Recording => recorded,
        };
        if !self.keeps_samples() {
            measured.duration_ns = begun.elapsed().as_nanos() as u64;
        }
        Ok(measured)
    }

    /// Sends a warm-up, whose messages count only if they come damaged.
    fn warm_up(&mut self, driver: &mut dyn Driver, leg: Leg, measured: &mut MeasuredPayload) -> Result<()> {
        let warmup = self.leader.job.sub_experiment.warmup;
        if warmup == 0 {
            return Ok(());
        }
        self.set_phase(&leg);
        let end = match leg.end {
            LegEnd::Bounds { duration_ns, .. } => {
                let duration_ns =
                    duration_ns.map_or(LONGEST_WARMUP_NS, |ns| (ns / WARMUP_SHARE).min(LONGEST_WARMUP_NS));
                LegEnd::Bounds { messages: Some(warmup), duration_ns: Some(duration_ns) }
            }
            _ => LegEnd::Messages(warmup),
        };
        let leg = Leg { end, capped: warmup_end(self.leader.job.timebase.now(), leg.capped), ..leg };
        let mut reported = self.leg(driver, leg)?;
        let mut account = Account::new(self.leader, leg.load);
        driver.account(&self.leader.controls, &mut reported, &mut account, None)?;
        measured.warmup = measured.warmup.max(reported.sent.counted);
        measured.warmup_damaged += account.damaged();
        reported.broken.map_or(Ok(()), Err)
    }

    /// Measures one offered load; for a search, the highest rate that it finds.
    fn load(
        &mut self,
        driver: &mut dyn Driver,
        leg: Leg,
        measured: &mut MeasuredPayload,
    ) -> Result<Option<MeasuredTrial>> {
        if self.allowed.warm_up == WarmUpPlan::AtLoad {
            self.warm_up(driver, leg, measured)?;
        }
        match leg.load {
            OfferedLoad::Search { loss_bound } => self.search(driver, leg, loss_bound),
            _ => self.trial(driver, leg, true),
        }
    }

    fn search(&mut self, driver: &mut dyn Driver, leg: Leg, loss_bound: f64) -> Result<Option<MeasuredTrial>> {
        let plan = &self.leader.job.sub_experiment;
        let (messages, full_ns) = (plan.workload.most_messages, plan.workload.duration_ns);
        let links = f64::from(plan.workload.links());
        let mut broken = None;
        let mut run = |rate_hz: Option<f64>, ns: u64| {
            // The rate is of all streams together.
            let load = rate_hz.map_or(OfferedLoad::Max, |hz| OfferedLoad::Rate { hz: hz / links });
            let end = LegEnd::Bounds { messages, duration_ns: Some(ns) };
            let Some(step) = self.trial(driver, Leg { load, end, ..leg }, false)? else {
                let mut nothing = Trial::new(load);
                nothing.cut_short = Some(CutShort::at_cap(self.leader.job.sub_experiment.time_cap_ns));
                return Ok::<_, Error>(nothing);
            };
            broken = step.broken;
            Ok(step.trial)
        };
        let found = search(loss_bound, full_ns.unwrap_or(LONGEST_WARMUP_NS), &mut run)?;
        let mut trial = found.trial;
        if trial.count(&Stream::all(), Figure::Sent) == 0 {
            return broken.map_or(Ok(None), Err);
        }
        (trial.load, trial.rate_missed) = (leg.load, false);
        if !found.passed {
            let (percent, trials) = (loss_bound * 100.0, counted(trial.steps.len(), "trial"));
            let before = trial.cut_short.take().map_or_else(String::new, |why| format!(" ({why})"));
            let why = format!("no rate with a loss of at most {percent} % was found in {trials}{before}");
            trial.cut_short = Some(CutShort::Broken(why));
        }
        trial.number = self.leader.files.next_trial();
        let samples = trial.count(&Stream::all(), Figure::Received);
        Ok(Some(MeasuredTrial { samples, broken, ..MeasuredTrial::new(trial) }))
    }

    /// Makes one trial: in one leg, or in several if only histograms are kept. `None` if no message that counts was
    /// sent in time.
    fn trial(&mut self, driver: &mut dyn Driver, whole: Leg, has_rows: bool) -> Result<Option<MeasuredTrial>> {
        let account = Account::new(self.leader, whole.load);
        let streams = account.streams_of_links();
        let has_rows = has_rows && !self.keeps_samples();
        let mut open = OpenTrial { account, streams, has_rows, lengths: None };
        let (mut left, mut broken) = (whole.end, None);
        while broken.is_none() {
            let (end, rest) = self.split(left, whole.load);
            let is_first = left == whole.end;
            match self.piece(driver, Leg { end, ..whole }, &mut open, is_first) {
                Ok(None) => return Ok(None),
                Ok(Some(ended)) => broken = ended,
                Err(error) if is_first => return Err(error),
                Err(error) => broken = Some(error),
            }
            match rest {
                Some(rest) if !open.account.is_cut() => left = rest,
                _ => break,
            }
        }
        let OpenTrial { account, lengths, .. } = open;
        if account.has_no_samples() {
            broken.take().map_or(Ok(()), Err)?;
            self.leader.check_stop()?;
        }
        let written = account.write_histograms(&mut self.leader.files, whole.payload_bytes);
        self.or_cut(written, lengths)?;
        let mut measured = account.close(broken.as_ref());
        if has_rows && measured.unwritten.is_none() {
            measured.trial.number = self.leader.files.next_trial();
        }
        Ok(Some(MeasuredTrial { broken, ..measured }))
    }

    /// Makes one leg of a trial, and adds it to the account. Returns the failure that ended it; `None` if the trial has
    /// sent no message that counts.
    fn piece(
        &mut self,
        driver: &mut dyn Driver,
        leg: Leg,
        open: &mut OpenTrial,
        is_first: bool,
    ) -> Result<Option<Option<Error>>> {
        self.set_phase(&leg);
        let mut reported = self.leg(driver, leg)?;
        self.warmed = self.warmed.max(reported.sent.warmed);
        if reported.sent.counted == 0 && is_first {
            reported.broken.map_or(Ok(()), Err)?;
            if self.keeps_samples() {
                self.leader.check_stop()?;
            }
            return Ok(None);
        }
        let streams = open.streams.len() as u64 * u64::from(self.leader.controls.followers());
        let is_sampled = matches!(leg.end, LegEnd::Bounds { .. });
        let noted = if is_sampled { 0 } else { reported.sent.counted * streams };
        if noted > MANY_SAMPLES || reported.broken.is_some() {
            self.leader.controls.set_phase(WRITING);
        }
        let mut rows = None;
        if open.has_rows {
            // The previous attempt counts until there is something to write.
            self.leader.make_room()?;
            let now = self.leader.files.lengths();
            open.lengths.get_or_insert(now.map_err(not_written(&self.leader.job.results.path))?);
            let rows_of = self.leader.files.rows(self.leader.job.timebase, leg.payload_bytes, reported.sent.begin);
            rows = Some(RowsOfLinks::new(rows_of, &open.streams, &open.account));
        }
        driver.account(&self.leader.controls, &mut reported, &mut open.account, rows.as_mut())?;
        let written = rows.map_or(Ok(()), RowsOfLinks::finish);
        self.or_cut(written, open.lengths)?;
        // The reader's cost is not part of the logger's cost.
        let has_other_process = !self.leader.is_same_process() && !self.leader.job.sub_experiment.workload.is_log();
        open.account.add_leg(&reported, has_other_process);
        Ok(Some(reported.broken))
    }

    /// True if a trial is one leg whose samples are written after it.
    fn keeps_samples(&self) -> bool {
        self.allowed.warm_up == WarmUpPlan::Inside
    }

    fn set_phase(&mut self, whole: &Leg) {
        self.leader.controls.set_phase(&match whole.end {
            LegEnd::Recording => "play the recording".to_owned(),
            _ => format!("measure {} bytes", whole.payload_bytes),
        });
    }

    /// Fails if files were not written, and cuts off what was written of the trial.
    fn or_cut(&self, written: io::Result<()>, lengths: Option<Lengths>) -> Result<()> {
        let cut = |_: &io::Error| lengths.iter().for_each(|lengths| self.leader.files.cut(*lengths));
        written.inspect_err(cut).map_err(not_written(&self.leader.job.results.path))
    }

    /// Splits off the next leg: without raw samples there is room for some messages at a time.
    fn split(&self, left: LegEnd, load: OfferedLoad) -> (LegEnd, Option<LegEnd>) {
        let LegEnd::Messages(messages) = left else { return (left, None) };
        if !self.leader.job.raw.is_none() || self.keeps_samples() {
            return (left, None);
        }
        let workload = &self.leader.job.sub_experiment.workload;
        let streams = u64::from(workload.links()) * u64::from(workload.followers());
        // A burst is sent in one leg, if there is room for it.
        let burst = load.burst().map_or(1, |burst| burst.size);
        let most = (MOST_STAMPS / streams).clamp(1, MOST_STAMPS_OF_A_STREAM.max(burst));
        let most = if most > burst { most - most % burst } else { most };
        let rest = messages.checked_sub(most).filter(|rest| *rest > 0).map(LegEnd::Messages);
        (LegEnd::Messages(messages.min(most)), rest)
    }

    fn leg(&mut self, driver: &mut dyn Driver, leg: Leg) -> Result<ReportedLeg> {
        let (leader, session) = (&mut *self.leader, &mut *self.session);
        let PreparedLeg { begin, mut memory, patience, patience_after_failure } =
            driver.prepare(leader, session, &leg)?;
        let before = host_clocks::read_clocks(leader)?;
        // Followers that only answer would wait idly while the leader drains.
        let ends_before_drain = begin.instrument == Some(Instrument::Counters);
        let mut sent = driver.drive(leader, session, ReadyLeg { leg, begin })?;
        let mut early = None;
        if ends_before_drain && sent.failure.is_none() {
            early = Some(reports::end_followers(leader, sent.last.clone(), patience, patience_after_failure));
        }
        driver.drain(leader, session, &mut sent);
        session.sequence = sent.sequence;
        let (failure, known) = (sent.failure.take(), sent.broken.take());
        let FollowerReports { reports, mut broken } = match (early, failure) {
            (Some(FollowerReports { reports, broken }), failure) => {
                let broken = failure.map(|failure| leader.controls.diagnose(failure)).or(broken);
                FollowerReports { reports, broken }
            }
            (None, None) => reports::end_followers(leader, sent.last.clone(), patience, patience_after_failure),
            (None, Some(failure)) => {
                reports::end_after_failure(leader, sent.last.clone(), failure, patience_after_failure)
            }
        };
        broken = known.or(broken);
        let clocks = host_clocks::clocks_since(leader, before, &mut broken);
        if let Some(memory) = &mut memory {
            host_clocks::settle(leader, &clocks, memory)?;
        }
        Ok(ReportedLeg { leg, sent, reports, memory, clocks, broken })
    }
}

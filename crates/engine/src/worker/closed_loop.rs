//! Driver of round trips that follow each other, in the main thread.

use super::Result;
use super::account::{Account, RowsOfLinks};
use super::controls::Controls;
use super::leader::{Leader, Session};
use super::leg::{Leg, LegEnd, PreparedLeg, ReadyLeg, ReportedLeg, RunningLeg, SentLeg, unprepared};
use super::measured::Samples;
use super::patience::FollowerPatience;
use super::trial::Driver;
use crate::lanes::{Lane, LoopSetting, RoundTrips};
use crate::measure::notes::ArrivalMemory;
use crate::measure::stamped::{STAMPS, StampLog};
use crate::measure::stamps::{self, MISSING, TripRow};
use crate::measure::{Failure, LoopEnd};
use crate::memory::{OutOfMemory, reserved};
use crate::parts;
use crate::record::{ClockError, Recorder};
use crate::wire::{ArrivalPlace, Begin};
use hdrhistogram::Histogram;
use std::ops::Range;
use tripmeter_model::figure::Figure;
use tripmeter_model::manifest::Counts;
use tripmeter_model::metric::Stream;
use tripmeter_model::plan::{Instrument, Raw};

/// One message in flight over the first link, to all followers.
#[derive(Default)]
pub(super) struct ClosedLoop(Option<ClosedTrips>);

struct ClosedTrips {
    warm: Recorder,
    samples: Recorder,
    trips: RoundTrips,
    /// Send times of the messages that count.
    rows: Vec<TripRow>,
    /// Sequence number of the latest message before the leg; `warmed`: before the samples.
    before: u64,
    warmed: u64,
    stamps: Option<StampMemory>,
    /// True if a failure ended the trips: messages under way are lost.
    is_broken_off: bool,
}

/// Stamps of `tripmeter explain` around each call of the link.
struct StampMemory {
    first: u64,
    leader: ArrivalMemory,
    follower: ArrivalMemory,
}

/// Follower at which a one-way latency ends.
#[derive(Clone, Copy)]
enum Recipient {
    Only,
    /// One of several followers.
    At(u32),
    /// Last of several followers to receive each message.
    Last,
}

impl Recipient {
    fn stream(self) -> Stream {
        match self {
            Recipient::Only => Stream::all(),
            Recipient::At(follower) => Stream::follower(follower),
            Recipient::Last => Stream::last(),
        }
    }

    fn tag(self, payload_bytes: u64) -> String {
        match self {
            Recipient::Only => format!("one_way_{payload_bytes}"),
            Recipient::At(follower) => format!("one_way_{payload_bytes}_follower_{follower}"),
            Recipient::Last => format!("one_way_{payload_bytes}_last"),
        }
    }
}

impl ClosedTrips {
    /// Records until the recorder is full, the leg is over, or a trip fails. Sends signs of life, with the number of
    /// samples if `counts`.
    fn fill(
        &mut self,
        leader: &mut Leader,
        (lane, setting): (&mut dyn Lane, LoopSetting<'_>),
        running: &mut RunningLeg,
        counts: bool,
    ) -> std::result::Result<(), Failure> {
        let Self { warm, samples, trips, rows, stamps, .. } = self;
        let recorder = if counts { samples } else { warm };
        let mut stamps = stamps.as_mut().and_then(StampMemory::log);
        rows.clear();
        // A piece of the recorder may be full long before a batch ends.
        while !recorder.free().is_empty() {
            let Some(until) = running.until(leader) else { break };
            let (stored, end) = match &mut stamps {
                Some(stamps) => lane.stamped_trips(setting, trips, recorder.free(), until, stamps),
                None => lane.round_trips(setting, trips, recorder.free(), until, None),
            };
            let before = recorder.count() as usize;
            rows.extend(trips.rows().iter().map(|row| TripRow { first_sample: before + row.first_sample, ..*row }));
            recorder.advance(stored);
            if end? == LoopEnd::Stopped {
                running.stopped();
            }
            running.sign_of_life(leader, if counts { recorder.count() } else { 0 }, trips.sequence());
        }
        Ok(())
    }

    /// Counts of all followers, and at each of several.
    fn counts(&self, received: u64) -> (Counts, Vec<Counts>) {
        let answers = self.trips.answers();
        let sent = self.trips.sequence() - self.before - answers.abandoned();
        let each = answers.at_followers().into_iter().map(|counts| Counts { sent, ..counts });
        let mut each: Vec<Counts> = each.collect();
        let mut counts = Counts { sent, received, ..answers.counts() };
        if self.is_broken_off {
            let lost = |at: &Counts| at.sent.saturating_sub(at.received + at.late + at.damaged);
            each.iter_mut().for_each(|at| at.lost = lost(at));
            let totals = each.iter().map(|at| at.lost);
            counts.lost = if totals.len() > 0 { totals.sum() } else { lost(&counts) };
        }
        (counts, each)
    }
}

impl Driver for ClosedLoop {
    fn prepare(&mut self, leader: &Leader, session: &Session<'_>, leg: &Leg) -> Result<PreparedLeg> {
        let LegEnd::Messages(messages) = leg.end else { return Err(unprepared()) };
        let (plan, base, sequence) = (&leader.job.sub_experiment, leader.job.timebase, session.sequence);
        let samples = Recorder::new(base, leader.job.raw, messages)?;
        let warm = Recorder::new(base, Raw::NONE, plan.warmup)?;
        if plan.one_way {
            // Checks that there is memory for the latencies computed at the end, so that a lack shows now.
            let values = messages.saturating_mul(2 + 4 * u64::from(plan.workload.followers()));
            drop(reserved::<u64>(values, "values of one-way latencies")?);
        }
        let mut trips = RoundTrips::new(leader.controls.followers(), None, sequence, leg.payload_bytes as usize);
        if session.abandoned > 0 {
            trips.abandon(session.abandoned);
        }
        let mut begin = Begin::new(leader.answer_task(), sequence + 1, leg.payload_bytes);
        begin.instrument = plan.instrument;
        // Twice as many as planned, as some may be lost; more are not noted.
        let most = 2 * (plan.warmup + messages);
        begin.most = vec![most; usize::from(plan.one_way)];
        let memory = plan.one_way.then(|| ArrivalMemory::create(begin.most.clone(), leader.controls.followers()));
        let memory = memory.transpose()?;
        begin.arrivals = memory.as_ref().map(|memory| leader.arrival_place(memory));
        let stamps = StampMemory::for_instrument(plan.instrument, begin.first, most)?;
        if let Some(stamps) = &stamps {
            begin.arrivals = Some(ArrivalPlace::Leader(stamps.follower.place()));
            begin.most = stamps.follower.counts().to_vec();
        }
        self.0 = Some(ClosedTrips {
            warm,
            samples,
            trips,
            rows: Vec::new(),
            before: sequence,
            warmed: sequence,
            stamps,
            is_broken_off: false,
        });
        // The leader counts: after a failure, followers have nothing to add.
        let patience = FollowerPatience::ANSWER;
        Ok(PreparedLeg { begin, memory, patience, patience_after_failure: None })
    }

    fn drive(&mut self, leader: &mut Leader, session: &mut Session<'_>, ready: ReadyLeg) -> Result<SentLeg> {
        let state = self.0.as_mut().ok_or_else(unprepared)?;
        let (base, shared) = (leader.job.timebase, leader.shared.clone());
        let setting = leader.setting(&session.inboxes[0], &shared);
        let lane = &mut *session.lanes[0];
        let mut running = ready.begin(leader)?;
        leader.arm();
        running.begin_warm_up(leader);
        let warmed = state.fill(leader, (&mut *lane, setting), &mut running, false);
        running.end_warm_up();
        (state.warmed, state.rows) = (state.trips.sequence(), Vec::new());
        let begin = base.now();
        let ended = warmed.and_then(|()| state.fill(leader, (lane, setting), &mut running, true));
        let until = base.now();
        let (used, cut) = running.end(leader);
        leader.disarm();
        let sequence = state.trips.sequence();
        let failure = ended.err();
        Ok(SentLeg {
            begin,
            until,
            last: Vec::new(),
            sequence,
            warmed: state.warm.count(),
            counted: 0,
            used,
            refused: 0,
            cut,
            failure,
            broken: None,
        })
    }

    fn drain(&mut self, leader: &Leader, session: &mut Session<'_>, sent: &mut SentLeg) {
        let Some(state) = &mut self.0 else { return };
        if sent.failure.is_none() {
            leader.arm_briefly();
            let setting = leader.setting(&session.inboxes[0], &leader.shared);
            sent.failure = session.lanes[0].drain(setting, &mut state.trips).err();
            leader.disarm();
        }
        let abandoned = state.trips.answers().abandoned();
        if abandoned > 0 {
            session.abandoned = sent.sequence;
        }
        // The message that was given up may be of the warm-up.
        sent.counted = (sent.sequence - state.warmed).saturating_sub(abandoned);
        state.is_broken_off = sent.failure.is_some();
    }

    fn account(
        &mut self,
        _: &Controls,
        leg: &mut ReportedLeg,
        account: &mut Account,
        _: Option<&mut RowsOfLinks<'_>>,
    ) -> Result<()> {
        let mut state = self.0.take().ok_or_else(unprepared)?;
        let all = Stream::all();
        let (counts, at_followers) = state.counts(leg.sent.warmed + state.samples.count());
        let mut recorded = state.samples.finish();
        recorded.times.put_scaled(&mut account.trial, &all, Figure::RttHalf, 0.5);
        account.trial.put_series(&all, Figure::RttHalf, recorded.series.take().map(|series| series.scaled(0.5)));
        account.trial.put_counts(&all, &counts, false);
        for (follower, counts) in (0..).zip(&at_followers) {
            account.trial.put_counts(&Stream::follower(follower), counts, false);
        }
        account.trial.put(&all, Figure::Duration, account.timebase().to_ns(leg.sent.until - leg.sent.begin) as f64);
        leg.clocks.put(&mut account.trial);
        let mut latencies: Vec<Vec<i64>> = Vec::new();
        if let Some(memory) = &mut leg.memory {
            for follower in 0..at_followers.len().max(1) as u32 {
                let (rows, trips, two_clocks) = (&state.rows, &recorded.ticks, leg.clocks.are_two());
                let latency = |ticks| stamps::one_way(rows, trips, state.before + 1, ticks, two_clocks);
                latencies.extend(memory.logs(follower).iter().map(|log| latency(log.ticks)));
            }
        }
        let last = stamps::last(&latencies);
        let others = put_one_way(account, leg, &latencies, &last);
        let (first, begin) = (state.warmed + 1, leg.sent.begin);
        let messages = first..first + recorded.count + counts.lost;
        if let Some(stamps) = &mut state.stamps {
            stamps.put(account, messages);
        }
        let are_known = !latencies.is_empty() && !leg.clocks.largest_error().is_too_large;
        let one_way = are_known.then_some(last);
        account.unwritten = Some(Samples { recorded, others, rows: state.rows, one_way, begin, first });
        Ok(())
    }
}

/// Puts one-way latencies to each follower, and to the last of several, into the trial. Returns their histograms.
fn put_one_way(
    account: &mut Account,
    leg: &ReportedLeg,
    each: &[Vec<i64>],
    last: &[i64],
) -> Vec<(String, Histogram<u64>)> {
    let clocks = &leg.clocks;
    let mut recipients: Vec<(Recipient, &[i64], ClockError)> = Vec::new();
    match each {
        [] => {}
        [only] => recipients.push((Recipient::Only, only, clocks.error(0))),
        each => {
            let at = (0..).zip(each).map(|(at, ticks)| (Recipient::At(at), &ticks[..], clocks.error(at as usize)));
            recipients.extend(at);
            recipients.push((Recipient::Last, last, clocks.largest_error()));
        }
    }
    let (mut histograms, mut missing) = (Vec::new(), 0);
    for (to, ticks, error) in recipients {
        let known = ticks.iter().map(|ticks| Some(*ticks).filter(|ticks| *ticks != MISSING));
        let one_way = account.put_one_way(&to.stream(), known, (clocks, error), true);
        missing = missing.max(one_way.missing);
        histograms.extend(one_way.histogram().map(|times| (to.tag(leg.leg.payload_bytes), times.clone())));
    }
    account.trial.put(&Stream::all(), Figure::OneWayMissing, missing as f64);
    histograms
}

impl StampMemory {
    /// Room for the stamps of up to `most` messages from number `first` on, if calls are stamped.
    fn for_instrument(
        instrument: Option<Instrument>,
        first: u64,
        most: u64,
    ) -> std::result::Result<Option<Self>, OutOfMemory> {
        let create = || ArrivalMemory::create(vec![most; STAMPS], 1);
        let is_stamped = instrument == Some(Instrument::Stamps);
        is_stamped.then(|| Ok(Self { first, leader: create()?, follower: create()? })).transpose()
    }

    fn log(&mut self) -> Option<StampLog<'_>> {
        StampLog::new(self.first, self.leader.logs(0))
    }

    fn put(&mut self, account: &mut Account, messages: Range<u64>) {
        let logs = StampLog::new(self.first, self.leader.logs(0)).zip(StampLog::new(self.first, self.follower.logs(0)));
        let Some((leader, follower)) = logs else { return };
        for (figure, ticks) in parts::figures(&leader, &follower, messages) {
            account.trial.put(&Stream::all(), figure, ticks / account.timebase().ticks_per_ns());
        }
    }
}

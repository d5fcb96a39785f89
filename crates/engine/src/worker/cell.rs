//! One payload, measured by the leader.

use super::leader::{Leader, Session};
use super::{ANSWER_TIMEOUT, Error, Result};
use crate::clock::Clock;
use crate::control::{FromFollower, FromLeader, ToFollower, WRITING};
use crate::measure::trips::Trips;
use crate::measure::{End, Failure, Watch, callback};
use crate::message::TouchKind;
use crate::record::{Recorded, Recorder};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tripmeter_abi::{Link, Wait};
use tripmeter_model::manifest::{Cell, Counts, Handover, Handovers};
use tripmeter_model::plan::Raw;

/// Between two signs of life.
const SIGN_OF_LIFE_NS: u64 = 1_000_000_000;
/// Share of the time cap that the warm-up may take.
const WARMUP_SHARE: f64 = 0.2;

/// So many take seconds to sort and to write.
const MANY_SAMPLES: u64 = 1_000_000;

/// What came of the trips of a cell.
struct Outcome {
    recorded: Recorded,
    counts: Counts,
    warmup: u64,
    duration_ns: u64,
    end: End,
}

impl Leader {
    /// `None` if both sides have one processor, where handing over would wait for the scheduler.
    fn handover<L, C>(&mut self, session: &Session<'_, L, C>) -> Result<Option<Handover>> {
        let shared_cpu = self.job.leader_cpu.is_some() && self.job.leader_cpu == self.job.follower_cpu;
        if shared_cpu || crate::os::online_cpus() == 1 {
            return Ok(None);
        }
        self.ask_ready(&ToFollower::Handover)?;
        Ok(session.page.lead(&self.job.timebase))
    }

    /// Measures one payload, writes it, and reports it.
    pub(super) fn measure<L: Link, C: Clock + Copy, T: TouchKind>(
        &mut self,
        session: &mut Session<'_, L, C>,
        payload_bytes: u64,
    ) -> Result<()> {
        let before = self.begin(session, payload_bytes)?;
        let plan = &self.job.sub_experiment;
        let (wait, warmup, cap_ns) = (plan.wait, plan.warmup, plan.time_cap_ns);
        let (base, shared) = (self.job.timebase, self.shared.clone());
        let mut recorder = Recorder::new(base, self.job.raw, plan.samples);
        let mut warm = Recorder::new(base, Raw::None, warmup);
        let link = Watch::off(&mut *session.link);
        let mut trips = Trips::new(link, session.clock, &shared, session.loss_timeout, session.idle_mask);
        (trips.sequence, trips.answered) = (session.sequence, session.answered);
        trips.begin(payload_bytes as usize);
        self.arm();
        // Until the recorder is full, the deadline has passed, or the user has asked to stop; with signs of life.
        let mut record = |trips: &mut Trips<'_, L, C, false>, recorder: &mut Recorder, deadline: u64, is_shown| {
            while !recorder.free().is_empty() {
                let pause = deadline.min(base.now() + base.to_ticks(SIGN_OF_LIFE_NS));
                let (stored, end) = match wait {
                    Wait::Callback => callback::trips::<L, C, T, false>(session.inbox, trips, recorder.free(), pause)?,
                    Wait::Poll | Wait::Block => trips.run::<T>(recorder.free(), pause)?,
                };
                recorder.advance(stored);
                match end {
                    End::Full => {}
                    End::Deadline if shared.stop.load(Relaxed) => return Ok(End::Stopped),
                    End::Deadline if base.now() < deadline => {
                        self.report(&FromLeader::Progress { samples: if is_shown { recorder.count() } else { 0 } });
                    }
                    End::Deadline | End::Stopped => return Ok(end),
                }
            }
            Ok(End::Full)
        };
        let first = trips.sequence;
        let start = base.now();
        let end_of = |share: f64| cap_ns.map_or(u64::MAX, |cap| start + base.to_ticks((cap as f64 * share) as u64));
        let mut begin = start;
        let result = record(&mut trips, &mut warm, end_of(WARMUP_SHARE), false).and_then(|end| {
            begin = base.now();
            if end == End::Stopped { Ok(end) } else { record(&mut trips, &mut recorder, end_of(1.0), true) }
        });
        let duration_ns = base.to_ns(base.now() - begin);
        self.arm_briefly();
        let result = result.and_then(|found| drain::<L, C, T>(session.inbox, wait, &mut trips).map(|()| found));
        self.disarm();
        (session.sequence, session.answered) = (trips.sequence, trips.answered);
        let (sent, tracked) = (trips.sequence - first - trips.tracker.abandoned(), trips.tracker.counts);
        let end = result.map_err(|failure| self.blame(failure))?;
        if end == End::Stopped {
            self.shared.stop.store(false, Relaxed);
        }
        if recorder.count() > MANY_SAMPLES {
            self.phase(WRITING);
        }
        let (recorded, warmup) = (recorder.finish(), warm.count());
        let counts = Counts { sent, received: warmup + recorded.count, ..tracked };
        self.finish(session, payload_bytes, before, &Outcome { recorded, counts, warmup, duration_ns, end })
    }

    /// Makes the follower ready; returns the hand-over probe before the cell.
    fn begin<L, C>(&mut self, session: &Session<'_, L, C>, payload_bytes: u64) -> Result<Option<Handover>> {
        self.phase(&format!("measure {payload_bytes} bytes"));
        self.report(&FromLeader::CellStarted { payload_bytes });
        let before = self.handover(session)?;
        self.ask_ready(&ToFollower::Cell { payload_bytes })?;
        Ok(before)
    }

    /// Stops the follower, probes the hand-over again, writes the samples, and reports the cell.
    fn finish<L, C>(
        &mut self,
        session: &Session<'_, L, C>,
        payload_bytes: u64,
        before: Option<Handover>,
        outcome: &Outcome,
    ) -> Result<()> {
        self.tell(&ToFollower::Stop)?;
        let FromFollower::Stopped = self.hear(ANSWER_TIMEOUT)? else {
            return Err(Error::Failed("the follower's messages are out of order".to_owned()));
        };
        let after = self.handover(session)?;
        let cell = self.cell(payload_bytes, session.packet_bytes, outcome, Handovers { before, after });
        self.files
            .append(payload_bytes, &outcome.recorded, Duration::from_nanos(outcome.duration_ns))
            .map_err(|error| Error::of("results cannot be written", error))?;
        self.report(&FromLeader::CellFinished(Box::new(cell)));
        self.await_noted()?;
        if outcome.end == End::Stopped { Err(Error::Interrupted) } else { Ok(()) }
    }

    fn cell(&self, payload_bytes: u64, packet_bytes: u64, outcome: &Outcome, handover_ns: Handovers) -> Cell {
        let plan = &self.job.sub_experiment;
        let cut_short = match outcome.end {
            End::Full => None,
            End::Stopped => Some("interrupted".to_owned()),
            End::Deadline => plan.time_cap_ns.map(|cap| format!("time cap of {} s", cap as f64 / 1e9)),
        };
        Cell {
            payload_bytes,
            samples: outcome.recorded.count,
            samples_planned: plan.samples,
            warmup: outcome.warmup,
            cut_short,
            packet_bytes,
            counts: outcome.counts,
            rtt_ns: outcome.recorded.figures,
            rtt_half_ns: outcome.recorded.figures.map(|figures| figures.scaled(0.5)),
            from_histogram: self.job.raw == Raw::None,
            handover_ns,
            duration_ns: outcome.duration_ns,
        }
    }
}

fn drain<L: Link, C: Clock, T: TouchKind>(
    inbox: &callback::Inbox,
    wait: Wait,
    trips: &mut Trips<'_, L, C, false>,
) -> std::result::Result<(), Failure> {
    if wait == Wait::Callback {
        callback::drain::<L, C, T, false>(inbox, trips);
        return Ok(());
    }
    trips.drain::<T>()
}

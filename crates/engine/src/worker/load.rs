//! One payload under pattern `throughput`, measured by the leader: trial after trial.

use super::leader::{Leader, Session};
use super::output::Output;
use super::patience::{Patience, SIGN_OF_LIFE};
use super::search::search;
use super::{Error, Result};
use crate::clock::Timebase;
use crate::lanes::{Flow, Spaced};
use crate::measure::notes::ArrivalMemory;
use crate::measure::sampling::{self, SampledTimes};
use crate::measure::stream::{Even, Extent, Spacing};
use crate::measure::{End, Failure, Shared};
use crate::record::Distribution;
use crate::wire::{Arrived, Begin, FromLeader, Task, ToFollower};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
use tripmeter_abi::Wait;
use tripmeter_model::manifest::{Cell, Counts, Handovers};
use tripmeter_model::pace::{Burst, OfferedLoad};
use tripmeter_model::plan::Raw;
use tripmeter_model::throughput::{Arrival, OneWaySamples, Trial, per_second};
use tripmeter_model::workload::Workload;

/// As fast as it goes, messages between two looks at the clock, if they are small.
const BURST: u64 = 32;
/// Messages up to this size are small: a burst of them takes some microseconds.
const SMALL_BYTES: u64 = 4096;
/// Spacing of the messages of a warm-up.
const WARMUP_HZ: f64 = 10_000.0;
/// Longest warm-up, as a share of a trial.
const WARMUP_SHARE: u64 = 5;
/// If nothing bounds the time of a trial, its warm-up takes no longer than this.
const LONGEST_WARMUP_NS: u64 = 1_000_000_000;
/// While waiting for a message that is due later than this, the leader sleeps, unless it polls.
const NAP_NS: u64 = 300_000;

/// What bounds one trial.
#[derive(Clone, Copy)]
struct Bounds {
    messages: Option<u64>,
    duration_ns: Option<u64>,
}

impl Bounds {
    /// Most messages of a trial: none takes less than a nanosecond.
    fn most_messages(self) -> u64 {
        self.messages.unwrap_or(u64::MAX).min(self.duration_ns.unwrap_or(u64::MAX))
    }
}

/// A cell under way.
struct Progress {
    begun: Instant,
    /// When its time cap is over, in ticks.
    capped: u64,
    trials: Vec<Trial>,
}

impl Leader {
    /// Measures one payload: every offer, one after the other.
    pub(super) fn measure_load(&mut self, session: &mut Session<'_>, payload_bytes: u64) -> Result<()> {
        let plan = &self.job.sub_experiment;
        let load = plan.workload.clone();
        let (warmup, base) = (plan.warmup, self.job.timebase);
        let capped = self.attempts.left_of(plan.time_cap_ns).map_or(u64::MAX, |cap| base.now() + base.to_ticks(cap));
        self.controls.set_phase(&format!("measure {payload_bytes} bytes"));
        self.controls.report(&FromLeader::CellStarted { payload_bytes });
        let before = self.handover(session)?;
        let mut cell = Progress { begun: Instant::now(), capped, trials: Vec::new() };
        let warm = self.warm_up(session, payload_bytes, &load, warmup)?;
        let mut broken = None;
        for offer in &load.loads {
            if self.shared.stop.load(Relaxed) || base.now() >= capped || broken.is_some() {
                break;
            }
            match self.offer(session, payload_bytes, &load, *offer, &cell) {
                Ok(trial) => cell.trials.push(trial),
                // The trials before are whole.
                Err(error) if !cell.trials.is_empty() => broken = Some(error),
                Err(error) => return Err(error),
            }
        }
        let (after, ending) = self.after_trials(session, broken)?;
        self.make_room()?;
        if let Output::Trials(file) = &mut self.files {
            let appended = file.append(payload_bytes, &cell.trials);
            appended.map_err(|error| Error::of("results cannot be written", error))?;
        }
        let handover_ns = Handovers { before, after };
        let cell = self.load_cell(session, payload_bytes, &load, cell, warm, handover_ns, ending.as_ref());
        self.finish_cell(cell, ending)
    }

    /// Messages of this size at a moderate rate, so that buffers have grown and pages are there; they count for nothing,
    /// unless they come damaged.
    /// Returns how many were sent, and how many of them came damaged.
    fn warm_up(
        &mut self,
        session: &mut Session<'_>,
        payload_bytes: u64,
        load: &Workload,
        messages: u64,
    ) -> Result<(u64, u64)> {
        if messages == 0 {
            return Ok((0, 0));
        }
        let duration_ns = load.duration_ns.map_or(LONGEST_WARMUP_NS, |ns| (ns / WARMUP_SHARE).min(LONGEST_WARMUP_NS));
        let bounds = Bounds { messages: Some(messages), duration_ns: Some(duration_ns) };
        let offer = OfferedLoad::Rate { hz: WARMUP_HZ };
        let trial = self.trial(session, payload_bytes, offer, bounds, u64::MAX)?;
        Ok((trial.sent, counts(&trial).damaged))
    }

    fn offer(
        &mut self,
        session: &mut Session<'_>,
        payload_bytes: u64,
        load: &Workload,
        offer: OfferedLoad,
        cell: &Progress,
    ) -> Result<Trial> {
        let bounds = Bounds { messages: load.most_messages, duration_ns: load.duration_ns };
        let OfferedLoad::Search { loss_bound } = offer else {
            return self.trial(session, payload_bytes, offer, bounds, cell.capped);
        };
        let full_ns = load.duration_ns.unwrap_or(LONGEST_WARMUP_NS);
        let mut run = |rate_hz: Option<f64>, ns: u64| {
            let offer = rate_hz.map_or(OfferedLoad::Max, |hz| OfferedLoad::Rate { hz });
            let bounds = Bounds { duration_ns: Some(ns), ..bounds };
            self.trial(session, payload_bytes, offer, bounds, cell.capped)
        };
        let found = search(loss_bound, full_ns, &mut run)?;
        let mut trial = Trial { offer, ..found.trial };
        if !found.passed && trial.cut_short.is_none() {
            let (percent, trials) = (loss_bound * 100.0, trial.searched.len());
            let why = format!("no rate with a loss of at most {percent} % was found in {trials} trials");
            trial.cut_short = Some(why);
        }
        Ok(trial)
    }

    /// One trial: the follower counts what comes of what is sent.
    fn trial(
        &mut self,
        session: &mut Session<'_>,
        payload_bytes: u64,
        offer: OfferedLoad,
        bounds: Bounds,
        capped: u64,
    ) -> Result<Trial> {
        let first = session.sequence + 1;
        let mut begin = Begin::new(Task::Count, first, payload_bytes);
        let mut flow = self.flow(offer, payload_bytes, session.sequence);
        let mut arrivals = None;
        if self.job.sub_experiment.one_way {
            let places = sampling::places(bounds.most_messages());
            let memory = ArrivalMemory::create(vec![places], 1)?;
            (begin.most, begin.arrivals) = (vec![places], Some(memory.place()));
            (flow.times, arrivals) = (Some(SampledTimes::new(first, places)?), Some(memory));
        }
        self.controls.ask_all(&ToFollower::Begin(begin))?;
        let (base, shared) = (self.job.timebase, self.shared.clone());
        self.arm();
        let begin = base.now();
        let timed = bounds.duration_ns.map_or(u64::MAX, |ns| begin + base.to_ticks(ns));
        let last = bounds.messages.map_or(u64::MAX, |messages| session.sequence + messages);
        let small_burst = if payload_bytes <= SMALL_BYTES { BURST } else { 1 };
        let burst = match offer {
            OfferedLoad::Rate { .. } => 1,
            OfferedLoad::Burst(Burst { size, .. }) => size,
            _ => small_burst,
        };
        let extent = Extent { burst, last, deadline: timed.min(capped) };
        let ended = self.send(session, &shared, &mut flow, extent);
        self.disarm();
        let (end, behind) = match &flow.spaced {
            Spaced::Even(even) => (flow.ended.max(flow.due.min(extent.deadline)), even.behind()),
            Spaced::Unspaced | Spaced::Paused(_) => (flow.ended, 0),
        };
        let (sequence, refused) = (flow.sequence, flow.refused);
        session.sequence = sequence;
        let ended = ended.map_err(|failure| self.controls.diagnose(failure))?;
        let arrived = self.count(sequence)?;
        let sent = sequence + 1 - first;
        let publication_ns = base.to_ns(end.saturating_sub(begin));
        let subscription_ns = base.to_ns(arrived.latest.unwrap_or(0).max(end).saturating_sub(begin));
        let cut_short = match ended {
            End::Stopped => Some("interrupted".to_owned()),
            End::Deadline if capped < timed => Some("time cap".to_owned()),
            End::Deadline | End::Full => None,
        };
        let mut trial = Trial {
            offer,
            offered_hz: if let OfferedLoad::Rate { hz } = offer { Some(hz) } else { None },
            sent,
            publication_ns,
            published_hz: per_second(sent, publication_ns),
            refused,
            behind,
            cut_short,
            followers: vec![arrival(0, sent, payload_bytes, subscription_ns, &arrived)],
            one_way_samples: None,
            searched: Vec::new(),
        };
        if let (Some(times), Some(memory)) = (flow.times, arrivals) {
            add_one_way(&mut trial, base, &times, memory);
        }
        Ok(trial)
    }

    /// Messages of that size, as they are offered; nothing sent yet.
    fn flow(&self, offer: OfferedLoad, payload_bytes: u64, sequence: u64) -> Flow {
        let base = self.job.timebase;
        let spaced = match offer {
            OfferedLoad::Rate { hz } => Spaced::Even(Even::new(base.ticks_per_ns() * 1e9 / hz)),
            OfferedLoad::Burst(Burst { gap_ns, .. }) => Spaced::Paused(base.to_ticks(gap_ns)),
            _ => Spaced::Unspaced,
        };
        let mut flow = Flow::new(spaced, payload_bytes as usize, sequence);
        if self.job.sub_experiment.wait != Wait::Poll {
            flow.nap = base.to_ticks(NAP_NS);
        }
        flow
    }

    /// Sends in pieces, with a sign of life after each.
    fn send(
        &mut self,
        session: &mut Session<'_>,
        shared: &Shared,
        flow: &mut Flow,
        extent: Extent,
    ) -> std::result::Result<End, Failure> {
        let (base, setting) = (self.job.timebase, self.setting(&session.inboxes[0], shared));
        let piece = base.to_ticks(SIGN_OF_LIFE.as_nanos() as u64);
        loop {
            let deadline = extent.deadline.min(base.now() + piece);
            match session.lanes[0].stream(setting, flow, Extent { deadline, ..extent }, None)? {
                End::Deadline if base.now() < extent.deadline => {
                    self.controls.report(&FromLeader::Progress { samples: 0, moves: flow.sequence });
                }
                end => return Ok(end),
            }
        }
    }

    /// Tells the follower how many messages there are, and hears what has come of them.
    fn count(&mut self, last: u64) -> Result<Arrived> {
        self.controls.send_all(&ToFollower::End { last: vec![last] })?;
        let report = self.controls.recv_report(0, Patience::taking(self.job.loss_timeout_ns))?;
        report.arrived.first().copied().ok_or_else(|| self.controls.failed("the follower has counted nothing"))
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of a cell")]
    fn load_cell(
        &self,
        session: &Session<'_>,
        payload_bytes: u64,
        load: &Workload,
        cell: Progress,
        (warmup, damaged): (u64, u64),
        handover_ns: Handovers,
        ending: Option<&Error>,
    ) -> Cell {
        let Progress { begun, trials, .. } = cell;
        let counts_of_warmup = Counts { sent: damaged, damaged, ..Counts::default() };
        let counts = trials.iter().map(counts).fold(counts_of_warmup, |sum, counts| sum + counts);
        let planned = load.loads.len();
        let cut_short = match (ending, trials.len() < planned) {
            (Some(error), _) => Some(error.to_string()),
            (None, true) => Some(format!("time cap: {} of {planned} trials", trials.len())),
            (None, false) => trials.iter().find_map(|trial| trial.cut_short.clone()),
        };
        Cell {
            payload_bytes,
            samples: counts.received,
            samples_planned: counts.received,
            warmup,
            cut_short,
            packet_bytes: session.packet_bytes,
            counts,
            handover_ns,
            duration_ns: begun.elapsed().as_nanos() as u64,
            trials,
            ..Cell::default()
        }
    }
}

/// Adds latencies one way, by what both sides have noted.
fn add_one_way(trial: &mut Trial, base: Timebase, times: &SampledTimes, mut memory: ArrivalMemory) {
    let (every, messages) = (sampling::block_size(trial.sent), sampling::samples(trial.sent).count() as u64);
    trial.one_way_samples = Some(OneWaySamples { every, messages });
    for arrival in &mut trial.followers {
        let mut latencies = Distribution::new(Raw::Csv);
        for log in memory.logs(arrival.follower) {
            times.one_way(log.ticks, trial.sent).for_each(|ticks| latencies.record(base.to_ns(ticks)));
        }
        arrival.one_way_ns = latencies.latency();
    }
}

fn arrival(follower: u32, sent: u64, payload_bytes: u64, subscription_ns: u64, arrived: &Arrived) -> Arrival {
    let Arrived { received, duplicated, reordered, damaged, .. } = *arrived;
    let received_hz = per_second(received, subscription_ns);
    Arrival {
        follower,
        received,
        lost: sent.saturating_sub(received + damaged),
        duplicated,
        reordered,
        damaged,
        subscription_ns,
        received_hz,
        received_bytes_per_s: received_hz * payload_bytes as f64,
        one_way_ns: None,
    }
}

/// Totals over all followers; `sent` counts a message once for each.
fn counts(trial: &Trial) -> Counts {
    let one = |arrival: &Arrival| Counts {
        sent: trial.sent,
        received: arrival.received,
        lost: arrival.lost,
        late: 0,
        duplicated: arrival.duplicated,
        reordered: arrival.reordered,
        damaged: arrival.damaged,
    };
    trial.followers.iter().map(one).fold(Counts::default(), |sum, counts| sum + counts)
}

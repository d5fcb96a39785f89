//! Legs, each between one begin and one end of the followers. Their phases are types, which fixes their order.

use super::cap::{capped, warmup_end};
use super::host_clocks::Clocks;
use super::leader::Leader;
use super::patience::{FollowerPatience, SIGN_OF_LIFE};
use super::pool::Window;
use super::{Error, Result};
use crate::measure::Failure;
use crate::measure::notes::ArrivalMemory;
use crate::wire::{Begin, FromLeader, Report, ToFollower};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tripmeter_model::cut_short::CutShort;
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::plan::Instrument;
use tripmeter_model::used::Used;

/// Messages between one `Begin` and one `End` to the followers.
#[derive(Clone, Copy)]
pub(super) struct Leg {
    pub payload_bytes: u64,
    pub load: OfferedLoad,
    pub end: LegEnd,
    /// Tick at which its time is over.
    pub capped: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LegEnd {
    /// Number of messages that count, over each link.
    Messages(u64),
    /// Number of messages or time, whichever is reached first.
    Bounds {
        messages: Option<u64>,
        duration_ns: Option<u64>,
    },
    Recording,
}

/// Error of a driver that was not prepared.
pub(super) fn unprepared() -> Error {
    Error::Failed("a leg was not prepared".to_owned())
}

pub(super) struct PreparedLeg {
    pub begin: Begin,
    /// Memory for arrivals, if they are noted.
    pub memory: Option<ArrivalMemory>,
    /// Limits for the reports of the followers.
    pub patience: FollowerPatience,
    /// Limits after a failure; `None` if followers know nothing that the leader does not.
    pub patience_after_failure: Option<FollowerPatience>,
}

impl PreparedLeg {
    /// Leg whose followers count or note messages until they have taken all.
    pub(super) fn noting(begin: Begin, memory: Option<ArrivalMemory>, loss_timeout_ns: u64) -> Self {
        Self {
            begin,
            memory,
            patience: FollowerPatience::taking(loss_timeout_ns),
            patience_after_failure: Some(FollowerPatience::taking_after_failure(loss_timeout_ns)),
        }
    }
}

/// Leg that can begin.
pub(super) struct ReadyLeg {
    pub leg: Leg,
    pub begin: Begin,
}

/// Leg with messages under way.
pub(super) struct RunningLeg {
    /// Tick at which the time of the leg, or of its warm-up, is over.
    capped: u64,
    whole: u64,
    window: Option<Window>,
    cut: Option<CutShort>,
    told: Instant,
}

/// Leg whose last message is sent.
pub(super) struct SentLeg {
    /// Tick at which the first message that counts was due or sent.
    pub begin: u64,
    /// Tick at which the last message was sent, or answered.
    pub until: u64,
    /// Number of the last message of each stream; empty if nothing is counted.
    pub last: Vec<u64>,
    /// Number of the last message over all streams.
    pub sequence: u64,
    /// Messages of a warm-up inside the leg.
    pub warmed: u64,
    /// Messages that count, over the busiest link.
    pub counted: u64,
    /// Cost of the leader's process; `None` if instruments would be part of it.
    pub used: Option<Used>,
    pub refused: u64,
    pub cut: Option<CutShort>,
    pub failure: Option<Failure>,
    /// Failure whose cause is known.
    pub broken: Option<Error>,
}

/// Leg that all followers have reported on.
pub(super) struct ReportedLeg {
    pub leg: Leg,
    pub sent: SentLeg,
    /// Report of each follower; `None` if it can no longer report.
    pub reports: Vec<Option<Report>>,
    pub memory: Option<ArrivalMemory>,
    pub clocks: Clocks,
    pub broken: Option<Error>,
}

impl ReadyLeg {
    /// Asks all followers to begin, and observes the cost from then on.
    pub(super) fn begin(self, leader: &mut Leader) -> Result<RunningLeg> {
        let instrument = self.begin.instrument;
        leader.controls.ask_all(&ToFollower::Begin(self.begin))?;
        leader.shared.capped.store(self.leg.capped, Relaxed);
        let window = match instrument {
            Some(Instrument::Counters) => Some(Window::counted()),
            // Stamps would be part of the cost.
            Some(Instrument::Stamps) => None,
            _ => Some(Window::open()),
        };
        let capped = self.leg.capped;
        Ok(RunningLeg { capped, whole: capped, window, cut: None, told: Instant::now() })
    }
}

impl RunningLeg {
    /// True if the user has asked to stop, or the clock has passed the cap.
    pub(super) fn is_over(&mut self, leader: &Leader) -> bool {
        if self.cut.is_none() && leader.shared.stop.load(Relaxed) {
            self.cut = Some(CutShort::Interrupted);
        }
        if self.cut.is_none() && leader.job.timebase.now() >= self.capped {
            self.cut = Some(CutShort::at_cap(leader.job.sub_experiment.time_cap_ns));
        }
        self.cut.is_some()
    }

    /// Tick at which the next batch ends; `None` once the leg is over. Batches are long, as the main thread does other
    /// work between them.
    pub(super) fn until(&mut self, leader: &Leader) -> Option<u64> {
        let base = leader.job.timebase;
        (!self.is_over(leader)).then(|| self.capped.min(base.now() + base.to_ticks(SIGN_OF_LIFE.as_nanos() as u64)))
    }

    /// Time that the main thread may sleep while other threads measure, at most `most`.
    pub(super) fn pause(&self, leader: &Leader, most: Duration) -> Duration {
        let base = leader.job.timebase;
        most.min(Duration::from_nanos(base.to_ns(self.capped.saturating_sub(base.now()))))
    }

    /// Reports progress to the supervisor about once a second.
    pub(super) fn sign_of_life(&mut self, leader: &mut Leader, samples: u64, moves: u64) {
        if self.told.elapsed() >= SIGN_OF_LIFE {
            leader.controls.report(&FromLeader::Progress { samples, moves });
            self.told = Instant::now();
        }
    }

    /// Notes that a loop was stopped.
    pub(super) fn stopped(&mut self) {
        self.cut.get_or_insert(CutShort::Interrupted);
    }

    /// Begins a warm-up inside the leg, which gets a share of the time cap. The cap begins here: by now memory is
    /// prepared, and a logger is open.
    pub(super) fn begin_warm_up(&mut self, leader: &Leader) {
        self.whole = capped(leader);
        self.capped = warmup_end(leader.job.timebase.now(), self.whole);
        leader.shared.capped.store(self.whole, Relaxed);
    }

    /// Ends the warm-up. The samples may use all of the remaining time.
    pub(super) fn end_warm_up(&mut self) {
        self.capped = self.whole;
        self.cut = self.cut.take().filter(|cut| !cut.is_cap());
    }

    /// Observes the cost from here on.
    pub(super) fn cost_from_here(&mut self) {
        self.window = Some(Window::open());
    }

    /// Ends the leg. Returns the cost, and the reason for an early end.
    pub(super) fn end(self, leader: &Leader) -> (Option<Used>, Option<CutShort>) {
        leader.shared.capped.store(0, Relaxed);
        (self.window.map(Window::close), self.cut)
    }
}

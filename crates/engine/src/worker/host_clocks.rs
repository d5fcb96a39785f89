//! The clocks of followers on other hosts, and arrivals that they have stamped, at the leader.

use super::leader::Leader;
use super::patience::FollowerPatience;
use super::{Error, Result};
use crate::measure::notes::{ArrivalMemory, NEVER};
use crate::record::{ClockError, Distribution};
use crate::two_clocks::{ClockLine, ClockReading};
use crate::wire::{ArrivalPlace, Arrived, FromFollower, ToFollower};
use tripmeter_model::figure::Figure;
use tripmeter_model::metric::Stream;
use tripmeter_model::plan::Raw;
use tripmeter_model::trial::Trial;

/// The clock of each follower, read once; empty where all have this host's.
pub(super) type Readings = Vec<ClockReading>;

/// The clock of each follower while a trial lasted; empty where all have this host's.
#[derive(Default)]
pub(super) struct Clocks {
    lines: Vec<ClockLine>,
    ticks_per_ns: f64,
    /// Largest error of which there are figures.
    most_ns: f64,
}

impl Leader {
    /// Where arrivals are kept of which the leader has room in that memory.
    pub(super) fn arrival_place(&self, memory: &ArrivalMemory) -> ArrivalPlace {
        if self.is_on_one_host() { ArrivalPlace::Leader(memory.place()) } else { ArrivalPlace::Follower }
    }

    /// Reads the clocks of followers whose stamps count, if they are on other hosts. They must have nothing else to do.
    pub(super) fn read_clocks(&mut self) -> Result<Readings> {
        let plan = &self.job.sub_experiment;
        let counts = plan.one_way || plan.workload.is_publication() || plan.workload.is_saturating();
        let Some(own) = self.job.local_address.filter(|_| counts) else { return Ok(Vec::new()) };
        let mut readings = Vec::new();
        for follower in 0..self.controls.followers() {
            self.controls.send(follower, &ToFollower::Clock)?;
            let FromFollower::Clock(clock) = self.controls.recv(follower, FollowerPatience::ANSWER)? else {
                return Err(self.controls.failed("the follower's messages are out of order"));
            };
            let refused = self.job.follower_addresses.get(follower as usize).and_then(|host| clock.check(*host).err());
            if let Some(why) = refused {
                return Err(self.controls.failed(&why));
            }
            let reading = ClockReading::take(own, &clock, &self.job.timebase);
            readings.push(reading.map_err(|error| {
                self.controls.failed(&format!("the clock of its follower's host cannot be read: {error}"))
            })?);
        }
        Ok(readings)
    }

    /// The clocks since `before`. One that cannot be read any more, as its follower has gone, is taken to run evenly.
    pub(super) fn clocks_since(&mut self, before: Readings, is_broken: bool) -> Result<Clocks> {
        if before.is_empty() {
            return Ok(Clocks::default());
        }
        let after = if is_broken { before.clone() } else { self.read_clocks()? };
        let lines = before.into_iter().zip(after).map(|(before, after)| ClockLine::new(before, after)).collect();
        let (ticks_per_ns, most_ns) = (self.job.timebase.ticks_per_ns(), self.job.max_clock_error_ns as f64);
        Ok(Clocks { lines, ticks_per_ns, most_ns })
    }

    /// Puts arrivals that followers have sent into memory, as ticks of this clock.
    pub(super) fn settle(&mut self, clocks: &Clocks, memory: &mut ArrivalMemory) -> Result<()> {
        for (follower, clock) in (0..).zip(&clocks.lines) {
            let came = self.controls.take_arrivals(follower);
            if came.is_empty() {
                continue;
            }
            let part = memory.part(follower);
            if came.len() != part.len() {
                let text = format!("it sent {} bytes of arrivals, {} were to come", came.len(), part.len());
                return Err(Error::Failed(text));
            }
            part.copy_from_slice(&came);
            for log in memory.logs(follower) {
                let noted = log.ticks.iter_mut().filter(|ticks| **ticks != NEVER);
                noted.for_each(|ticks| *ticks = clock.here(*ticks));
            }
        }
        Ok(())
    }
}

impl Clocks {
    /// What a follower counted, with its latest tick as one of this clock.
    pub(super) fn arrived(&self, follower: usize, arrived: Arrived) -> Arrived {
        match self.lines.get(follower) {
            Some(clock) => Arrived { latest: arrived.latest.map(|ticks| clock.here(ticks)), ..arrived },
            None => arrived,
        }
    }

    /// How far a stamp of a follower may be off; nothing where all have this host's clock.
    pub(super) fn error(&self, follower: usize) -> ClockError {
        self.lines.get(follower).map_or(ClockError::default(), |line| {
            let ns = line.bound() / self.ticks_per_ns;
            ClockError { ns, is_too_large: ns > self.most_ns }
        })
    }

    /// The same of the last of all.
    pub(super) fn largest_error(&self) -> ClockError {
        let mut largest = ClockError::default();
        (0..self.lines.len()).for_each(|follower| largest.add(self.error(follower)));
        largest
    }

    /// Nothing yet, of latencies that may be off by so much.
    pub(super) fn distribution(&self, raw: Raw, error: ClockError) -> Distribution {
        let mut times = if self.are_two() { Distribution::of_two_clocks(raw) } else { Distribution::new(raw) };
        times.set_clock_error(error);
        times
    }

    /// Puts how far the clock of each follower's host may be off into a trial.
    pub(super) fn put(&self, trial: &mut Trial) {
        if self.are_two() {
            trial.put(&Stream::all(), Figure::ClockError, self.largest_error().ns);
        }
        for follower in (0..self.lines.len()).filter(|_| self.lines.len() > 1) {
            trial.put(&Stream::follower(follower as u32), Figure::ClockError, self.error(follower).ns);
        }
    }

    /// There are two clocks: what came may seem to have come before it was sent.
    pub(super) fn are_two(&self) -> bool {
        !self.lines.is_empty()
    }
}

//! Clocks of followers on other hosts, and arrivals stamped by them, at the leader.

use super::leader::Leader;
use super::patience::FollowerPatience;
use super::{Error, Result};
use crate::measure::notes::{ArrivalMemory, NEVER, SOMETIME};
use crate::record::ClockError;
use crate::two_clocks::{ClockLine, ClockReading};
use crate::wire::{Arrived, FromFollower, ToFollower};
use std::net::IpAddr;
use tripmeter_model::figure::Figure;
use tripmeter_model::metric::Stream;
use tripmeter_model::trial::Trial;

/// One reading of each follower's clock; empty if all use this host's clock.
pub(super) type Readings = Vec<ClockReading>;

/// Clock of each follower during a trial; empty if all use this host's clock.
#[derive(Default)]
pub(super) struct Clocks {
    /// `None` for a follower that had gone before the second reading: the rate of its clock is unknown.
    lines: Vec<Option<ClockLine>>,
    ticks_per_ns: f64,
    /// Largest clock error at which latencies are reported.
    most_ns: f64,
}

/// Reads the clocks of followers on other hosts, if their stamps are used. The followers must be idle.
pub(super) fn read_clocks(leader: &mut Leader) -> Result<Readings> {
    let plan = &leader.job.sub_experiment;
    let counts = plan.one_way || plan.workload.is_one_way();
    let Some(own) = leader.job.hosts.local_address.filter(|_| counts) else { return Ok(Vec::new()) };
    (0..leader.controls.followers()).map(|follower| read_clock(leader, own, follower)).collect()
}

fn read_clock(leader: &mut Leader, own: IpAddr, follower: u32) -> Result<ClockReading> {
    leader.controls.send(follower, &ToFollower::Clock)?;
    let FromFollower::Clock(clock) = leader.controls.recv(follower, FollowerPatience::ANSWER)? else {
        return Err(leader.controls.failed("the follower's messages are out of order"));
    };
    let refused = leader.job.hosts.addresses.get(follower as usize).and_then(|host| clock.check(*host).err());
    if let Some(why) = refused {
        return Err(leader.controls.failed(&why));
    }
    let reading = ClockReading::take(own, &clock, &leader.job.timebase);
    reading
        .map_err(|error| leader.controls.failed(&format!("the clock of its follower's host cannot be read: {error}")))
}

/// Clocks between the readings `before` and now. Once something is `broken`, only followers that have sent arrivals are
/// asked: others have gone, or still answer messages.
pub(super) fn clocks_since(leader: &mut Leader, before: Readings, broken: &mut Option<Error>) -> Clocks {
    let Some(own) = leader.job.hosts.local_address.filter(|_| !before.is_empty()) else { return Clocks::default() };
    let mut lines = Vec::new();
    for (follower, before) in (0..).zip(before) {
        let after = match broken {
            None => read_clock(leader, own, follower).map_err(|error| *broken = Some(error)).ok(),
            Some(_) if leader.controls.has_arrivals(follower) => read_clock(leader, own, follower).ok(),
            Some(_) => None,
        };
        lines.push(after.map(|after| ClockLine::new(before, after)));
    }
    let (ticks_per_ns, most_ns) = (leader.job.timebase.ticks_per_ns(), leader.job.max_clock_error_ns as f64);
    Clocks { lines, ticks_per_ns, most_ns }
}

/// Puts arrivals that followers have sent into memory, as ticks of this clock or [`SOMETIME`].
pub(super) fn settle(leader: &mut Leader, clocks: &Clocks, memory: &mut ArrivalMemory) -> Result<()> {
    for follower in 0..clocks.lines.len() as u32 {
        let came = leader.controls.take_arrivals(follower);
        if came.is_empty() {
            continue;
        }
        let part = memory.part(follower);
        if came.len() != part.len() {
            let text = format!("it sent {} bytes of arrivals, {} were expected", came.len(), part.len());
            return Err(Error::Failed(text));
        }
        part.copy_from_slice(&came);
        for log in memory.logs(follower) {
            let noted = log.ticks.iter_mut().filter(|ticks| **ticks != NEVER);
            noted.for_each(|ticks| *ticks = clocks.here(follower as usize, *ticks).unwrap_or(SOMETIME));
        }
    }
    Ok(())
}

impl Clocks {
    /// Counts of a follower, with its latest arrival in ticks of this host's clock.
    pub(super) fn arrived(&self, follower: usize, arrived: Arrived) -> Arrived {
        Arrived { latest: arrived.latest.and_then(|ticks| self.here(follower, ticks)), ..arrived }
    }

    /// Stamp of a follower in ticks of this host's clock; `None` if unknown.
    fn here(&self, follower: usize, ticks: u64) -> Option<u64> {
        self.lines.get(follower).map_or(Some(ticks), |line| line.map(|line| line.here(ticks)))
    }

    /// Error of a follower's stamps: zero if all use this host's clock, and infinite if unknown.
    pub(super) fn error(&self, follower: usize) -> ClockError {
        self.lines.get(follower).map_or(ClockError::default(), |line| {
            let ns = line.map_or(f64::INFINITY, |line| line.bound() / self.ticks_per_ns);
            ClockError { ns, is_too_large: ns > self.most_ns }
        })
    }

    pub(super) fn largest_error(&self) -> ClockError {
        let mut largest = ClockError::default();
        (0..self.lines.len()).for_each(|follower| largest.add(self.error(follower)));
        largest
    }

    /// Puts the clock error of each follower's host into a trial.
    pub(super) fn put(&self, trial: &mut Trial) {
        if self.are_two() {
            trial.put(&Stream::all(), Figure::ClockError, self.largest_error().ns);
        }
        for follower in (0..self.lines.len()).filter(|_| self.lines.len() > 1) {
            trial.put(&Stream::follower(follower as u32), Figure::ClockError, self.error(follower).ns);
        }
    }

    /// True if there are two clocks: a message may seem to arrive before it was sent.
    pub(super) fn are_two(&self) -> bool {
        !self.lines.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_of_a_clock_that_was_read_once_are_not_known() {
        let reading = |here: f64, there: u64| ClockReading { here, there, bound: 40.0 };
        // The other clock ticks twice as fast.
        let line = ClockLine::new(reading(1000.0, 500), reading(2000.0, 2500));
        let clocks = Clocks { lines: vec![Some(line), None], ticks_per_ns: 2.0, most_ns: 100.0 };
        assert_eq!((clocks.here(0, 1500), clocks.here(1, 1500)), (Some(1500), None));
        let arrived = Arrived { received: 3, latest: Some(2500), ..Arrived::default() };
        let latest = [0, 1].map(|follower| clocks.arrived(follower, arrived));
        assert_eq!(latest.map(|one| (one.received, one.latest)), [(3, Some(2000)), (3, None)]);
        assert_eq!(clocks.error(0), ClockError { ns: 20.0, is_too_large: false });
        let unknown = ClockError { ns: f64::INFINITY, is_too_large: true };
        assert_eq!((clocks.error(1), clocks.largest_error()), (unknown, unknown));
        let mut trial = Trial::new(tripmeter_model::pace::OfferedLoad::Closed);
        clocks.put(&mut trial);
        let of = |stream: &Stream| trial.value(stream, Figure::ClockError);
        assert_eq!((of(&Stream::all()), of(&Stream::follower(0)), of(&Stream::follower(1))), (None, Some(20.0), None));
        assert_eq!(Clocks::default().here(0, 7), Some(7), "all have one clock");
    }
}

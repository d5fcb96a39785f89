//! Instruments of `tripmeter explain`, beside the round trips of a payload.

use super::outcome::put_costs;
use super::pool::Window;
use crate::clock::Timebase;
use crate::measure::notes::ArrivalMemory;
use crate::measure::stamped::{STAMPS, StampLog};
use crate::memory::OutOfMemory;
use crate::os::MemoryFile;
use crate::parts;
use std::ops::Range;
use tripmeter_model::metric::Stream;
use tripmeter_model::plan::Instrument;
use tripmeter_model::trial::Trial;
use tripmeter_model::used::Used;

#[derive(Default)]
pub(super) struct Instruments {
    stamps: Option<StampMemory>,
    window: Option<Window>,
    counts: bool,
    own: Option<Used>,
    others: Option<Used>,
    have_ended: bool,
}

struct StampMemory {
    first: u64,
    leader: ArrivalMemory,
    follower: ArrivalMemory,
}

/// Messages that each log of stamps has room for.
fn room(most: u64) -> Vec<u64> {
    vec![most; STAMPS]
}

impl Instruments {
    /// Starts to observe up to `most` messages from number `first` on.
    pub(super) fn new(instrument: Option<Instrument>, first: u64, most: u64) -> Result<Self, OutOfMemory> {
        let create = || ArrivalMemory::create(room(most), 1);
        let stamps = match instrument {
            Some(Instrument::Stamps) => Some(StampMemory { first, leader: create()?, follower: create()? }),
            _ => None,
        };
        Ok(Self { stamps, ..Self::default() })
    }

    /// Place of the follower's stamps, and room of each log.
    pub(super) fn place(&self) -> Option<(MemoryFile, Vec<u64>)> {
        self.stamps.as_ref().map(|stamps| (stamps.follower.place(), stamps.follower.counts().to_vec()))
    }

    /// Stamps of the leader, if calls are stamped.
    pub(super) fn log(&mut self) -> Option<StampLog<'_>> {
        let StampMemory { first, leader, .. } = self.stamps.as_mut()?;
        StampLog::new(*first, leader.logs(0))
    }

    /// Observes the cost of this process from now on; stamps would be part of it.
    pub(super) fn open_window(&mut self, instrument: Option<Instrument>) {
        self.counts = instrument == Some(Instrument::Counters);
        self.window = match instrument {
            Some(Instrument::Counters) => Some(Window::counted()),
            Some(Instrument::Stamps) => None,
            _ => Some(Window::open()),
        };
    }

    /// Ends the observation; true if cycles and instructions were counted.
    pub(super) fn close_window(&mut self) -> bool {
        self.own = self.window.take().map(Window::close);
        self.counts
    }

    /// Takes the costs of followers in processes of their own.
    pub(super) fn ended(&mut self, used: impl IntoIterator<Item = Used>) {
        self.have_ended = true;
        self.others = used.into_iter().reduce(Used::beside).filter(|_| self.own.is_some());
    }

    /// True if the followers have been told to end, and have.
    pub(super) fn have_ended(&self) -> bool {
        self.have_ended
    }

    /// Puts the observations of these messages into a trial.
    pub(super) fn put(&mut self, trial: &mut Trial, timebase: Timebase, messages: Range<u64>) {
        put_costs(trial, self.own, self.others);
        let Some(StampMemory { first, leader, follower }) = &mut self.stamps else { return };
        let logs = StampLog::new(*first, leader.logs(0)).zip(StampLog::new(*first, follower.logs(0)));
        let Some((leader, follower)) = logs else { return };
        for (figure, ticks) in parts::figures(&leader, &follower, messages) {
            trial.put(&Stream::all(), figure, ticks / timebase.ticks_per_ns());
        }
    }
}

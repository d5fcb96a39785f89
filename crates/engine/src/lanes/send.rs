//! The loops of a leader, over a link of any type.

use super::{Calls, Ended, Flow, Logging, Publication, Published, Setting, Spaced};
use crate::clock::{Clock, with_clock};
use crate::measure::answers::{Answers, Several};
use crate::measure::calls::{Called, Client, Made, called_back};
use crate::measure::publish::{Publisher, Timetable};
use crate::measure::stamps::Row;
use crate::measure::stream::{Extent, Paused, Stream, Unspaced};
use crate::measure::trips::{self, POLL_IDLE_MASK, Stored, Trips};
use crate::measure::{End, Failure, Tracker, Watch, callback, logging};
use crate::message::{TouchFull, TouchKind, with_touch};
use crate::proof::Observer;
use crate::replay::Times;
use tripmeter_abi::{Link, Wait};
use tripmeter_model::manifest::Counts;

/// Round trips between two batches.
pub enum RoundTrips {
    /// With one follower.
    One(trips::Paused<Tracker>),
    /// With several.
    Several(trips::Paused<Several>),
}

impl RoundTrips {
    /// None yet: messages of `length` bytes, numbered from `sequence` + 1 on, to so many followers. If `only` names one of
    /// these, it alone is to answer.
    pub fn new(followers: u32, only: Option<u32>, sequence: u64, length: usize) -> Self {
        match only {
            _ if followers == 1 => RoundTrips::One(trips::Paused::begin(Tracker::default(), sequence, length)),
            None => RoundTrips::Several(trips::Paused::begin(Several::new(followers), sequence, length)),
            Some(only) => RoundTrips::Several(trips::Paused::begin(Several::only(followers, only), sequence, length)),
        }
    }

    /// Number of the latest message sent.
    pub fn sequence(&self) -> u64 {
        match self {
            RoundTrips::One(trips) => trips.sequence,
            RoundTrips::Several(trips) => trips.sequence,
        }
    }

    /// Where the samples of the latest batch begin, and go on after a message that was not answered.
    pub fn rows(&self) -> &[Row] {
        match self {
            RoundTrips::One(trips) => &trips.rows,
            RoundTrips::Several(trips) => &trips.rows,
        }
    }

    /// What became of the messages.
    pub fn answers(&self) -> &dyn Answers {
        match self {
            RoundTrips::One(trips) => &trips.answers,
            RoundTrips::Several(trips) => &trips.answers,
        }
    }
}

fn begin<'a, L: Link, C: Clock, A: Answers, const ON: bool>(
    link: Watch<'a, L, ON>,
    clock: C,
    answers: A,
    setting: &Setting<'a>,
) -> Trips<'a, L, C, A, ON> {
    let loss_timeout = (setting.loss_timeout_ns, setting.timebase.to_ticks(setting.loss_timeout_ns));
    let idle_mask = if setting.wait == Wait::Poll { POLL_IDLE_MASK } else { 0 };
    Trips::new(link, clock, answers, setting.shared, loss_timeout, idle_mask)
}

pub(super) fn round_trips<L: Link>(
    link: &mut L,
    setting: Setting<'_>,
    trips: &mut RoundTrips,
    samples: &mut [u64],
    deadline: u64,
    observer: Option<&mut Observer>,
) -> Stored {
    fn run<L: Link, C: Clock, A: Answers + Default, T: TouchKind, const ON: bool>(
        link: Watch<'_, L, ON>,
        clock: C,
        setting: Setting<'_>,
        paused: &mut trips::Paused<A>,
        samples: &mut [u64],
        deadline: u64,
    ) -> Stored {
        let mut trips = begin(link, clock, A::default(), &setting).resume(std::mem::take(paused));
        let stored = match setting.wait {
            Wait::Callback => callback::trips::<L, C, A, T, ON>(setting.inbox, &mut trips, samples, deadline),
            Wait::Poll | Wait::Block => trips.run::<T>(samples, deadline),
        };
        *paused = trips.pause();
        stored
    }
    fn touching<L: Link, C: Clock, A: Answers + Default>(
        link: &mut L,
        clock: C,
        setting: Setting<'_>,
        paused: &mut trips::Paused<A>,
        samples: &mut [u64],
        deadline: u64,
        observer: Option<&mut Observer>,
    ) -> Stored {
        match observer {
            Some(observer) => {
                let link = Watch::on(link, observer);
                run::<L, C, A, TouchFull, true>(link, clock, setting, paused, samples, deadline)
            }
            None => with_touch!(setting.touch, T => {
                run::<L, C, A, T, false>(Watch::off(link), clock, setting, paused, samples, deadline)
            }),
        }
    }
    with_clock!(setting.timebase.source, clock => match trips {
        RoundTrips::One(paused) => touching(link, clock, setting, paused, samples, deadline, observer),
        RoundTrips::Several(paused) => touching(link, clock, setting, paused, samples, deadline, observer),
    })
}

pub(super) fn drain<L: Link>(link: &mut L, setting: Setting<'_>, trips: &mut RoundTrips) -> Result<(), Failure> {
    fn run<L: Link, C: Clock, A: Answers + Default, T: TouchKind>(
        link: &mut L,
        clock: C,
        setting: Setting<'_>,
        paused: &mut trips::Paused<A>,
    ) -> Result<(), Failure> {
        let mut trips = begin(Watch::off(link), clock, A::default(), &setting).resume(std::mem::take(paused));
        let drained = if setting.wait == Wait::Callback {
            callback::drain::<L, C, A, T, false>(setting.inbox, &mut trips);
            Ok(())
        } else {
            trips.drain::<T>()
        };
        *paused = trips.pause();
        drained
    }
    with_clock!(setting.timebase.source, clock => with_touch!(setting.touch, T => match trips {
        RoundTrips::One(paused) => run::<_, _, _, T>(link, clock, setting, paused),
        RoundTrips::Several(paused) => run::<_, _, _, T>(link, clock, setting, paused),
    }))
}

pub(super) fn call<L: Link>(link: &mut L, setting: Setting<'_>, calls: Calls<'_>, made: &mut Made) -> Ended<Called> {
    fn run<L: Link, C: Clock + Copy, T: TouchKind>(
        link: &mut L,
        clock: C,
        setting: Setting<'_>,
        calls: Calls<'_>,
        made: &mut Made,
    ) -> Ended<Called> {
        let Calls { schedule, rest, length, sequence, deadline, sending, draining } = calls;
        let mut client = Client { clock, rest, schedule, shared: setting.shared, sending, sequence };
        let mut trips = begin(Watch::off(link), clock, Tracker::after(sequence), &setting);
        (trips.sequence, trips.length) = (sequence, length);
        let ended = if setting.wait == Wait::Callback {
            called_back::<L, C, T, _>(setting.inbox, &mut trips, |call| client.run(made, deadline, call))
        } else {
            let ended = client.run(made, deadline, |begun| trips.call::<T>(begun));
            ended.and_then(|ended| {
                draining();
                trips.drain::<T>().map(|()| ended)
            })
        };
        let Counts { late, duplicated, .. } = trips.answers.counts();
        let ((calls, end), failure) = match ended {
            Ok(ended) => (ended, Ok(())),
            Err(failure) => ((client.broken(made, &failure), End::Stopped), Err(failure)),
        };
        (Called { calls, end, late, duplicated, sequence: trips.sequence }, failure)
    }
    with_clock!(setting.timebase.source, clock => with_touch!(setting.touch, T => {
        run::<_, _, T>(link, clock, setting, calls, made)
    }))
}

pub(super) fn publish<L: Link>(
    link: &mut L,
    setting: Setting<'_>,
    plan: Publication<'_>,
    sent: &mut [u64],
) -> Ended<Published> {
    fn run<L: Link, C: Clock, T: TouchKind>(
        link: &mut L,
        clock: C,
        schedule: impl Timetable,
        setting: Setting<'_>,
        plan: Publication<'_>,
        sent: &mut [u64],
    ) -> Ended<Published> {
        let Publication { rest, length, sequence, publisher, deadline, sending, .. } = plan;
        let (shared, timeout_ns, refused) = (setting.shared, setting.loss_timeout_ns, 0);
        let link = &mut Watch::off(link);
        let mut publisher = Publisher {
            link,
            clock,
            rest,
            schedule,
            length,
            sequence,
            publisher,
            shared,
            sending,
            timeout_ns,
            refused,
        };
        let ended = publisher.run::<T>(sent, deadline);
        let (refused, published) = (publisher.refused, (publisher.sequence - sequence) as usize);
        match ended {
            Ok((count, end)) => (Published { count, end, refused }, Ok(())),
            Err(failure) => (Published { count: published, end: End::Stopped, refused }, Err(failure)),
        }
    }
    with_clock!(setting.timebase.source, clock => with_touch!(setting.touch, T => match plan.times {
        Times::Even(schedule) => run::<_, _, T>(link, clock, schedule, setting, plan, sent),
        Times::Recorded(recorded) => run::<_, _, T>(link, clock, recorded, setting, plan, sent),
    }))
}

pub(super) fn stream<L: Link>(
    link: &mut L,
    setting: Setting<'_>,
    flow: &mut Flow,
    extent: Extent,
    observer: Option<&mut Observer>,
) -> Result<End, Failure> {
    fn run<L: Link, C: Clock, T: TouchKind, const ON: bool>(
        link: Watch<'_, L, ON>,
        clock: C,
        setting: Setting<'_>,
        flow: &mut Flow,
        extent: Extent,
    ) -> Result<End, Failure> {
        let mut links = [link];
        let mut stream = Stream::new(&mut links, clock, setting.shared, flow.length, flow.sequence);
        (stream.timeout_ns, stream.ticks_per_ns) = (setting.loss_timeout_ns, setting.timebase.ticks_per_ns());
        (stream.nap, stream.due, stream.ended, stream.refused) = (flow.nap, flow.due, flow.ended, flow.refused);
        let end = match &mut flow.spaced {
            Spaced::Unspaced => stream.run::<T, _>(&mut Unspaced, extent),
            Spaced::Even(even) => stream.run::<T, _>(even, extent),
            Spaced::Paused(period) => stream.run::<T, _>(&mut Paused { period: *period }, extent),
        };
        (flow.sequence, flow.due, flow.ended, flow.refused) =
            (stream.sequence, stream.due, stream.ended, stream.refused);
        end
    }
    with_clock!(setting.timebase.source, clock => match observer {
        Some(observer) => run::<_, _, TouchFull, true>(Watch::on(link, observer), clock, setting, flow, extent),
        None => with_touch!(setting.touch, T => run::<_, _, T, false>(Watch::off(link), clock, setting, flow, extent)),
    })
}

pub(super) fn log<L: Link>(
    link: &mut L,
    setting: Setting<'_>,
    log: &mut Logging<'_>,
    samples: &mut [u64],
    deadline: u64,
) -> Result<(usize, End), Failure> {
    let Logging { text, length, sequence, refused } = *log;
    let (shared, timeout_ns) = (setting.shared, setting.loss_timeout_ns);
    with_clock!(setting.timebase.source, clock => {
        let mut calls = logging::Calls { link, clock, text, length, sequence, shared, timeout_ns, refused };
        let ended = calls.run(samples, deadline);
        (log.sequence, log.refused) = (calls.sequence, calls.refused);
        ended
    })
}

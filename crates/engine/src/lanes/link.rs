//! Every loop over a link, compiled for its type.

use super::lane::{
    Answering, Calls, Ended, Flow, Keeps, Lane, Logging, Publication, Published, Received, Receiving, Spaced, Turns,
};
use super::round_trips::RoundTrips;
use crate::clock::{Clock, with_clock};
use crate::measure::answers::Answers;
use crate::measure::calls::{CallPlan, Called, Client, Made, called_back};
use crate::measure::delayed::Delayed;
use crate::measure::ledger::{Ledger, SeveralPublishers, Single};
use crate::measure::notes::{Arrival, ArrivalLog, EveryMessage, NoNotes, Notes, Places};
use crate::measure::publish::{PublicationPlan, Publisher, Sleep, Timetable};
use crate::measure::sampling::{NoTimes, Sampled, SendTimes};
use crate::measure::setting::LoopSetting;
use crate::measure::sink::{Sink, take_turns};
use crate::measure::stamped::{CallbackStamps, StampLog, Stamped};
use crate::measure::stamps::{self, Kept, NoStamps, Numbered, Requests, Stamps};
use crate::measure::stream::{Extent, StreamSender, Unspaced};
use crate::measure::trips::{StoredSamples, TripState, Trips};
use crate::measure::{Failure, LoopEnd, Tap, Tracker, callback, echo, logging};
use crate::message::TouchLimit;
use crate::proof::Observer;
use crate::replay::Times;
use crate::wire::Arrived;
use std::iter::repeat_with;
use std::marker::PhantomData;
use std::mem::take;
use tripmeter_abi::{Link, Wait};
use tripmeter_model::manifest::Counts;

/// Calls `work` with the loop over a link's round trips; afterwards, stores the loop's state again.
fn with_trips<'a, L: Link, C: Clock, A: Answers + Default, R, const ON: bool>(
    link: Tap<'a, L, ON>,
    clock: C,
    setting: LoopSetting<'a>,
    state: &mut TripState<A>,
    work: impl FnOnce(&mut Trips<'a, L, C, A, ON>) -> R,
) -> R {
    let mut trips = Trips::new(link, clock, setting, take(state));
    let done = work(&mut trips);
    *state = trips.state;
    done
}

fn make_trips<L: Link, C: Clock, A: Answers + Default, const ON: bool>(
    link: Tap<'_, L, ON>,
    clock: C,
    setting: LoopSetting<'_>,
    state: &mut TripState<A>,
    samples: &mut [u64],
    deadline: u64,
) -> StoredSamples {
    with_trips(link, clock, setting, state, |trips| match setting.wait {
        Wait::Callback => callback::trips(trips, samples, deadline),
        Wait::Poll | Wait::Block => trips.run(samples, deadline),
    })
}

/// Ledger that is converted to its result at the end.
trait Keeping: Ledger {
    fn received(self) -> Received;
}

impl<N: Notes> Keeping for Single<'_, N> {
    fn received(self) -> Received {
        Received { streams: vec![self.counts()], nobodys: None }
    }
}

impl<C: Clock, N: Notes> Keeping for SeveralPublishers<'_, C, N> {
    fn received(self) -> Received {
        let (streams, nobodys) = self.into_parts();
        Received { streams, nobodys: Some(nobodys) }
    }
}

/// Kind of notes about a stream. Loops are compiled for each kind.
trait NoteKind {
    type Notes<'a, C: Clock + 'a>: Notes;

    fn notes<'a, C: Clock + 'a>(clock: C, first: u64, log: Option<ArrivalLog<'a>>) -> Self::Notes<'a, C>;
}

/// Arrivals of the messages that have a place in the log.
struct PlacedNotes<P>(PhantomData<P>);

impl<P: Places> NoteKind for PlacedNotes<P> {
    type Notes<'a, C: Clock + 'a> = Arrival<'a, C, P>;

    fn notes<'a, C: Clock + 'a>(clock: C, first: u64, log: Option<ArrivalLog<'a>>) -> Self::Notes<'a, C> {
        Arrival::in_places(clock, first, log.expect("each stream has a log"))
    }
}

impl NoteKind for NoNotes {
    type Notes<'a, C: Clock + 'a> = NoNotes;

    fn notes<'a, C: Clock + 'a>(_: C, _: u64, _: Option<ArrivalLog<'a>>) -> NoNotes {
        NoNotes
    }
}

fn single<'a, K: NoteKind, C: Clock + 'a>(clock: C, receiving: Receiving<'a>) -> Single<'a, K::Notes<'a, C>> {
    let Receiving { first, logs, ends, .. } = receiving;
    Single::new(first, &ends[0], K::notes(clock, first, logs.into_iter().next()))
}

fn several<'a, K: NoteKind, C: Clock + Copy + 'a>(
    clock: C,
    receiving: Receiving<'a>,
) -> SeveralPublishers<'a, C, K::Notes<'a, C>> {
    let Receiving { first, logs, ends, .. } = receiving;
    let logs = logs.into_iter().map(Some).chain(repeat_with(|| None));
    let notes = logs.take(ends.len()).map(|log| K::notes(clock, first, log));
    SeveralPublishers::new(clock, first, notes, ends)
}

fn sink<'a, L: Link, C: Clock + Copy, B: Ledger>(
    link: &'a mut L,
    clock: C,
    setting: LoopSetting<'a>,
    receiving: Receiving<'a>,
    ledger: impl FnOnce(C, Receiving<'a>) -> B,
) -> Sink<'a, L, C, B, false> {
    let (shared, take_timeout_ns) = (&receiving.ends[0], receiving.take_timeout_ns);
    let mut sink = Sink::new(Tap::off(link), clock, LoopSetting { shared, ..setting }, ledger(clock, receiving));
    sink.take_timeout_ns = take_timeout_ns;
    sink
}

impl<L: Link> Lane for L {
    fn link(&mut self) -> &mut dyn Link {
        self
    }

    fn round_trips(
        &mut self,
        setting: LoopSetting<'_>,
        trips: &mut RoundTrips,
        samples: &mut [u64],
        deadline: u64,
        observer: Option<&mut Observer>,
    ) -> StoredSamples {
        fn observed<L: Link, C: Clock, A: Answers + Default>(
            link: &mut L,
            clock: C,
            mut setting: LoopSetting<'_>,
            state: &mut TripState<A>,
            samples: &mut [u64],
            deadline: u64,
            observer: Option<&mut Observer>,
        ) -> StoredSamples {
            match observer {
                Some(observer) => {
                    setting.touch = TouchLimit::FULL;
                    // The path proof is not measured: one compiled loop serves all clocks.
                    make_trips(Tap::on(link, observer), setting.timebase, setting, state, samples, deadline)
                }
                None => make_trips(Tap::off(link), clock, setting, state, samples, deadline),
            }
        }
        with_clock!(setting.timebase.source, clock => match trips {
            RoundTrips::One(state) => observed(self, clock, setting, state, samples, deadline, observer),
            RoundTrips::Several(state) => observed(self, clock, setting, state, samples, deadline, observer),
        })
    }

    fn stamped_trips(
        &mut self,
        mut setting: LoopSetting<'_>,
        trips: &mut RoundTrips,
        samples: &mut [u64],
        deadline: u64,
        stamps: &mut StampLog<'_>,
    ) -> StoredSamples {
        let RoundTrips::One(state) = trips else { return (0, Ok(LoopEnd::Stopped)) };
        setting.touch = TouchLimit::NONE;
        let clock = setting.timebase;
        let mut link = Stamped::new(self, clock, stamps);
        let (stored, end) = make_trips(Tap::off(&mut link), clock, setting, state, samples, deadline);
        if setting.wait == Wait::Callback {
            stamps::ends(&state.rows, &samples[..stored]).for_each(|(sequence, at)| stamps.called_back(sequence, at));
        }
        (stored, end)
    }

    fn drain(&mut self, setting: LoopSetting<'_>, trips: &mut RoundTrips) -> Result<(), Failure> {
        fn run<L: Link, A: Answers + Default>(
            link: &mut L,
            setting: LoopSetting<'_>,
            state: &mut TripState<A>,
        ) -> Result<(), Failure> {
            // Draining is not measured: one compiled loop serves all clocks.
            with_trips(Tap::off(link), setting.timebase, setting, state, |trips| {
                if setting.wait == Wait::Callback {
                    callback::drain(trips);
                    return Ok(());
                }
                trips.drain()
            })
        }
        match trips {
            RoundTrips::One(state) => run(self, setting, state),
            RoundTrips::Several(state) => run(self, setting, state),
        }
    }

    fn call(&mut self, setting: LoopSetting<'_>, calls: Calls<'_>, made: &mut Made) -> Ended<Called> {
        fn run<L: Link, C: Clock + Copy, T: Timetable>(
            link: &mut L,
            clock: C,
            setting: LoopSetting<'_>,
            calls: CallPlan<'_, T, Sleep>,
            made: &mut Made,
        ) -> Ended<Called> {
            let state = TripState::begin(Tracker::default(), calls.sequence, calls.length);
            let mut trips = Trips::new(Tap::off(link), clock, setting, state);
            let mut client = Client { clock, shared: setting.shared, calls };
            let ended = if setting.wait == Wait::Callback {
                called_back::<L, C, T, _>(&mut trips, |call| client.run(made, call))
            } else {
                let ended = client.run(made, |begun, length| {
                    if T::HAS_LENGTHS {
                        trips.state.length = length;
                    }
                    trips.call(begun)
                });
                ended.and_then(|ended| {
                    client.calls.sending.drain();
                    (client.calls.draining)();
                    trips.drain().map(|()| ended)
                })
            };
            let TripState { sequence, answers, .. } = trips.state;
            let Counts { late, duplicated, .. } = answers.counts();
            let ((calls, end), failure) = match ended {
                Ok(ended) => (ended, Ok(())),
                Err(failure) => ((client.broken(made, &failure), LoopEnd::Stopped), Err(failure)),
            };
            (Called { calls, end, late, duplicated, sequence }, failure)
        }
        with_clock!(setting.timebase.source, clock => {
            match calls.times {
                Times::Closed(even) | Times::Even(even) => run(self, clock, setting, calls.at(even), made),
                // One compiled loop serves all other kinds: it branches on the kind between messages.
                _ => run(self, clock, setting, calls, made),
            }
        })
    }

    fn publish_due(&mut self, setting: LoopSetting<'_>, plan: Publication<'_>, sent: &mut [u64]) -> Ended<Published> {
        fn run<L: Link, C: Clock, T: Timetable>(
            link: &mut L,
            clock: C,
            setting: LoopSetting<'_>,
            plan: PublicationPlan<'_, T, Sleep>,
            sent: &mut [u64],
        ) -> Ended<Published> {
            let latest = plan.sequence;
            let mut publisher = Publisher { link, clock, setting, plan, refused: 0 };
            let (end, failure) = match publisher.run(sent) {
                Ok((_, end)) => (end, Ok(())),
                Err(failure) => (LoopEnd::Stopped, Err(failure)),
            };
            let count = (publisher.plan.sequence - latest) as usize;
            (Published { count, end, refused: publisher.refused }, failure)
        }
        with_clock!(setting.timebase.source, clock => {
            match plan.times {
                Times::Closed(even) | Times::Even(even) => run(self, clock, setting, plan.at(even), sent),
                _ => run(self, clock, setting, plan, sent),
            }
        })
    }

    fn stream(
        &mut self,
        mut setting: LoopSetting<'_>,
        flow: &mut Flow,
        extent: Extent,
        observer: Option<&mut Observer>,
    ) -> Result<LoopEnd, Failure> {
        fn spaced<L: Link, C: Clock, M: SendTimes, const ON: bool>(
            stream: &mut StreamSender<'_, L, C, ON>,
            spaced: &mut Spaced,
            extent: Extent,
            times: &mut M,
        ) -> Result<LoopEnd, Failure> {
            match spaced {
                Spaced::Unspaced => stream.run_timed(&mut Unspaced, extent, times),
                Spaced::Even(even) => stream.run_timed(even, extent, times),
                Spaced::Paused(paused) => stream.run_timed(paused, extent, times),
            }
        }
        fn run<L: Link, C: Clock, const ON: bool>(
            link: Tap<'_, L, ON>,
            clock: C,
            setting: LoopSetting<'_>,
            flow: &mut Flow,
            extent: Extent,
        ) -> Result<LoopEnd, Failure> {
            // Copied, not borrowed: with a borrowed flow, the loop had 10 % more instructions.
            let mut stream = StreamSender::new(link, clock, setting.shared, flow.length, flow.sequence);
            (stream.timeout_ns, stream.ticks_per_ns) = (setting.loss_timeout_ns, setting.timebase.ticks_per_ns());
            (stream.touch, stream.publisher) = (setting.touch, flow.publisher);
            (stream.nap, stream.due, stream.ended, stream.refused) = (flow.nap, flow.due, flow.ended, flow.refused);
            let end = match &mut flow.times {
                // Messages of the path proof are not timed.
                _ if ON => spaced(&mut stream, &mut flow.spaced, extent, &mut NoTimes),
                None => spaced(&mut stream, &mut flow.spaced, extent, &mut NoTimes),
                Some(times) => spaced(&mut stream, &mut flow.spaced, extent, times),
            };
            (flow.sequence, flow.due, flow.ended, flow.refused) =
                (stream.sequence, stream.due, stream.ended, stream.refused);
            end
        }
        if let Some(observer) = observer {
            setting.touch = TouchLimit::FULL;
            return run(Tap::on(self, observer), setting.timebase, setting, flow, extent);
        }
        with_clock!(setting.timebase.source, clock => run(Tap::off(self), clock, setting, flow, extent))
    }

    fn log(
        &mut self,
        setting: LoopSetting<'_>,
        log: &mut Logging<'_>,
        samples: &mut [u64],
        deadline: u64,
    ) -> Result<(usize, LoopEnd), Failure> {
        // Copied, not borrowed: a borrowed log needed one more load between both clock readings.
        let Logging { text, length, sequence, refused } = *log;
        let (shared, timeout_ns) = (setting.shared, setting.loss_timeout_ns);
        with_clock!(setting.timebase.source, clock => {
            let mut calls = logging::LogCaller { link: self, clock, text, length, sequence, shared, timeout_ns, refused };
            let ended = calls.run(samples, deadline);
            (log.sequence, log.refused) = (calls.sequence, calls.refused);
            ended
        })
    }

    fn answer(
        &mut self,
        mut setting: LoopSetting<'_>,
        answers: Answering<'_>,
        observer: Option<&mut Observer>,
        listening: &mut dyn FnMut(),
    ) -> Result<(), Failure> {
        fn run<L: Link, const ON: bool>(
            link: &mut Tap<'_, L, ON>,
            setting: LoopSetting<'_>,
            mut stamps: impl Stamps,
            listening: &mut dyn FnMut(),
        ) -> Result<(), Failure> {
            if setting.wait == Wait::Callback {
                return callback::echo(link, setting, &mut stamps, listening);
            }
            listening();
            echo::run(link, setting, &mut stamps)
        }
        fn with_names<L: Link, const ON: bool>(
            link: &mut Tap<'_, L, ON>,
            setting: LoopSetting<'_>,
            (names_request, follower): (bool, Option<u32>),
            stamps: impl Stamps,
            listening: &mut dyn FnMut(),
        ) -> Result<(), Failure> {
            match follower {
                _ if names_request => run(link, setting, Requests(stamps), listening),
                Some(follower) => run(link, setting, Numbered { follower, stamps }, listening),
                None => run(link, setting, stamps, listening),
            }
        }
        let names = (answers.names_request, answers.follower);
        if let Some(observer) = observer {
            setting.touch = TouchLimit::FULL;
            return with_names(&mut Tap::on(self, observer), setting, names, NoStamps, listening);
        }
        if let Some(mut log) = answers.stamps {
            setting.touch = TouchLimit::NONE;
            let clock = setting.timebase;
            let is_called_back = setting.wait == Wait::Callback;
            let come = if is_called_back { log.called_back_log(clock) } else { CallbackStamps::none(clock) };
            let link = &mut Stamped::new(self, clock, &mut log);
            return run(&mut Tap::off(link), setting, come, listening);
        }
        let ticks = setting.timebase.to_ticks(answers.delay_ns);
        match answers.kept {
            None if ticks > 0 => with_clock!(setting.timebase.source, clock => {
                let link = &mut Delayed { link: self, clock, ticks };
                run(&mut Tap::off(link), setting, NoStamps, listening)
            }),
            None => with_names(&mut Tap::off(self), setting, names, NoStamps, listening),
            Some((first, log)) => with_clock!(setting.timebase.source, clock => {
                with_names(&mut Tap::off(self), setting, names, Kept { clock, first, log }, listening)
            }),
        }
    }

    fn count(
        &mut self,
        mut setting: LoopSetting<'_>,
        first: u64,
        kept: Option<ArrivalLog<'_>>,
        observer: Option<&mut Observer>,
        listening: &mut dyn FnMut(),
    ) -> Result<Arrived, Failure> {
        fn run<L: Link, C: Clock, N: Notes, const ON: bool>(
            link: Tap<'_, L, ON>,
            clock: C,
            setting: LoopSetting<'_>,
            notes: N,
            first: u64,
            listening: &mut dyn FnMut(),
        ) -> Result<Arrived, Failure> {
            Sink::new(link, clock, setting, Single::new(first, setting.shared, notes)).receive(listening)
        }
        if let Some(observer) = observer {
            setting.touch = TouchLimit::FULL;
            return run(Tap::on(self, observer), setting.timebase, setting, NoNotes, first, listening);
        }
        with_clock!(setting.timebase.source, clock => match kept {
            None => run(Tap::off(self), clock, setting, NoNotes, first, listening),
            Some(log) => {
                let notes = Arrival::<_, Sampled>::in_places(clock, first, log);
                run(Tap::off(self), clock, setting, notes, first, listening)
            }
        })
    }

    fn receive(
        &mut self,
        setting: LoopSetting<'_>,
        receiving: Receiving<'_>,
        listening: &mut dyn FnMut(),
    ) -> Ended<Received> {
        fn run<L: Link, C: Clock, B: Keeping>(
            mut sink: Sink<'_, L, C, B, false>,
            listening: &mut dyn FnMut(),
        ) -> Ended<Received> {
            let ended = sink.receive(listening);
            (sink.ledger.received(), ended.map(drop))
        }
        fn of_kind<L: Link, C: Clock + Copy, K: NoteKind>(
            link: &mut L,
            clock: C,
            setting: LoopSetting<'_>,
            receiving: Receiving<'_>,
            listening: &mut dyn FnMut(),
        ) -> Ended<Received> {
            match receiving.has_publishers {
                true => run(sink(link, clock, setting, receiving, several::<K, C>), listening),
                false => run(sink(link, clock, setting, receiving, single::<K, C>), listening),
            }
        }
        // Only `Every` has a loop for each clock. The others share one: it is large, and compiled for every system.
        let clock = setting.timebase;
        match receiving.keeps {
            Keeps::Every => with_clock!(setting.timebase.source, clock => {
                of_kind::<L, _, PlacedNotes<EveryMessage>>(self, clock, setting, receiving, listening)
            }),
            Keeps::Sampled => of_kind::<L, _, PlacedNotes<Sampled>>(self, clock, setting, receiving, listening),
            Keeps::Counts => of_kind::<L, _, NoNotes>(self, clock, setting, receiving, listening),
        }
    }
}

pub(super) struct AllLinks<'a, L>(pub &'a mut [L]);

impl<L: Link> Turns for AllLinks<'_, L> {
    fn answer(
        &mut self,
        setting: LoopSetting<'_>,
        names_request: bool,
        kept: Vec<(u64, ArrivalLog<'_>)>,
    ) -> Result<(), Failure> {
        fn run<L: Link, S: Stamps>(
            links: &mut [L],
            setting: LoopSetting<'_>,
            names_request: bool,
            stamps: impl Iterator<Item = S>,
        ) -> Result<(), Failure> {
            match names_request {
                true => echo::take_turns(links, setting, &mut stamps.map(Requests).collect::<Vec<_>>()),
                false => echo::take_turns(links, setting, &mut stamps.collect::<Vec<_>>()),
            }
        }
        if kept.is_empty() {
            let stamps = (0..self.0.len()).map(|_| NoStamps);
            return run(self.0, setting, names_request, stamps);
        }
        with_clock!(setting.timebase.source, clock => {
            let stamps = kept.into_iter().map(|(first, log)| Kept { clock, first, log });
            run(self.0, setting, names_request, stamps)
        })
    }

    fn receive<'a>(&mut self, setting: LoopSetting<'a>, receiving: Vec<Receiving<'a>>) -> Ended<Vec<Received>> {
        fn run<'a, L: Link, C: Clock + Copy, B: Keeping>(
            links: &'a mut [L],
            clock: C,
            setting: LoopSetting<'a>,
            receiving: Vec<Receiving<'a>>,
            ledger: fn(C, Receiving<'a>) -> B,
        ) -> Ended<Vec<Received>> {
            let sinks = links.iter_mut().zip(receiving);
            let mut sinks: Vec<_> =
                sinks.map(|(link, receiving)| sink(link, clock, setting, receiving, ledger)).collect();
            let ended = take_turns(&mut sinks);
            (sinks.into_iter().map(|sink| sink.ledger.received()).collect(), ended)
        }
        fn of_kind<'a, L: Link, C: Clock + Copy, K: NoteKind>(
            links: &'a mut [L],
            clock: C,
            setting: LoopSetting<'a>,
            receiving: Vec<Receiving<'a>>,
        ) -> Ended<Vec<Received>> {
            match receiving.iter().any(|receiving| receiving.has_publishers) {
                true => run(links, clock, setting, receiving, several::<K, C>),
                false => run(links, clock, setting, receiving, single::<K, C>),
            }
        }
        let keeps = receiving.first().map_or(Keeps::Every, |receiving| receiving.keeps);
        let clock = setting.timebase;
        match keeps {
            Keeps::Every => with_clock!(setting.timebase.source, clock => {
                of_kind::<L, _, PlacedNotes<EveryMessage>>(self.0, clock, setting, receiving)
            }),
            Keeps::Sampled => of_kind::<L, _, PlacedNotes<Sampled>>(self.0, clock, setting, receiving),
            Keeps::Counts => of_kind::<L, _, NoNotes>(self.0, clock, setting, receiving),
        }
    }
}

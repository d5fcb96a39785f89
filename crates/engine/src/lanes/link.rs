//! Every loop over a link, compiled for its type.

use super::lane::{
    Answering, Calls, Ended, Flow, Lane, Logging, LoopSetting, Publication, Published, Received, Receiving, Spaced,
    Turns,
};
use super::round_trips::RoundTrips;
use crate::clock::{Clock, with_clock};
use crate::measure::answers::Answers;
use crate::measure::calls::{Called, Client, Made, called_back};
use crate::measure::delayed::Delayed;
use crate::measure::echo::EchoSetting;
use crate::measure::ledger::{Ledger, SeveralPublishers, Single};
use crate::measure::notes::{Arrival, ArrivalLog, NoNotes, Notes};
use crate::measure::publish::{Publisher, Timetable};
use crate::measure::sampling::{NoTimes, Sampled, SendTimes};
use crate::measure::sink::{Sink, take_turns};
use crate::measure::stamped::{CallbackStamps, StampLog, Stamped};
use crate::measure::stamps::{self, Kept, NoStamps, Numbered, Requests, Stamps};
use crate::measure::stream::{Extent, StreamSender, Unspaced};
use crate::measure::trips::{self, POLL_IDLE_MASK, StoredSamples, Trips};
use crate::measure::{Failure, LoopEnd, Shared, Tap, Tracker, callback, echo, logging};
use crate::message::TouchLimit;
use crate::proof::Observer;
use crate::replay::Times;
use crate::wire::Arrived;
use tripmeter_abi::{Link, Wait};
use tripmeter_model::manifest::Counts;

fn begin<'a, L: Link, C: Clock, A: Answers, const ON: bool>(
    link: Tap<'a, L, ON>,
    clock: C,
    answers: A,
    setting: &LoopSetting<'a>,
) -> Trips<'a, L, C, A, ON> {
    let loss_timeout = (setting.loss_timeout_ns, setting.timebase.to_ticks(setting.loss_timeout_ns));
    let idle_mask = if setting.wait == Wait::Poll { POLL_IDLE_MASK } else { 0 };
    let mut trips = Trips::new(link, clock, answers, setting.shared, loss_timeout, idle_mask);
    trips.touch = setting.touch;
    trips
}

fn answering(setting: &LoopSetting<'_>) -> EchoSetting {
    EchoSetting { timeout_ns: setting.loss_timeout_ns, touch: setting.touch }
}

/// Ledger that is turned into its result at the end.
trait Keeping: Ledger {
    fn received(self) -> Received;
}

impl<C: Clock> Keeping for Single<'_, Arrival<'_, C>> {
    fn received(self) -> Received {
        Received { streams: vec![self.counts()], nobodys: None }
    }
}

impl<C: Clock + Copy> Keeping for SeveralPublishers<'_, C> {
    fn received(self) -> Received {
        let (streams, nobodys) = self.into_parts();
        Received { streams, nobodys: Some(nobodys) }
    }
}

fn single<'a, C: Clock>(clock: C, receiving: Receiving<'a>) -> Single<'a, Arrival<'a, C>> {
    let Receiving { first, logs, ends, .. } = receiving;
    let log = logs.into_iter().next().expect("a link without publishers has one stream");
    Single::new(first, &ends[0], Arrival::new(clock, first, log))
}

fn several<C: Clock + Copy>(clock: C, receiving: Receiving<'_>) -> SeveralPublishers<'_, C> {
    SeveralPublishers::new(clock, receiving.first, receiving.logs, receiving.ends)
}

fn sink<'a, 'w, L: Link, C: Clock, B: Ledger>(
    link: &'a mut Tap<'w, L, false>,
    clock: C,
    setting: &LoopSetting<'a>,
    (ends, take_timeout_ns): (&'a [Shared], u64),
    ledger: B,
) -> Sink<'a, 'w, L, C, B, false> {
    let mut sink = Sink::keeping(link, clock, &ends[0], ledger);
    (sink.loss_timeout_ns, sink.take_timeout_ns) = (setting.loss_timeout_ns, take_timeout_ns);
    sink.touch = setting.touch;
    sink.ticks_per_ns = setting.timebase.ticks_per_ns();
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
        fn run<L: Link, C: Clock, A: Answers + Default, const ON: bool>(
            link: Tap<'_, L, ON>,
            clock: C,
            setting: LoopSetting<'_>,
            paused: &mut trips::PausedTrips<A>,
            samples: &mut [u64],
            deadline: u64,
        ) -> StoredSamples {
            let mut trips = begin(link, clock, A::default(), &setting).resume(std::mem::take(paused));
            let stored = match setting.wait {
                Wait::Callback => callback::trips(setting.inbox, &mut trips, samples, deadline),
                Wait::Poll | Wait::Block => trips.run(samples, deadline),
            };
            *paused = trips.pause();
            stored
        }
        fn observed<L: Link, C: Clock, A: Answers + Default>(
            link: &mut L,
            clock: C,
            mut setting: LoopSetting<'_>,
            paused: &mut trips::PausedTrips<A>,
            samples: &mut [u64],
            deadline: u64,
            observer: Option<&mut Observer>,
        ) -> StoredSamples {
            match observer {
                Some(observer) => {
                    setting.touch = TouchLimit::FULL;
                    // The path proof is not measured: one compiled loop serves all clocks.
                    run(Tap::on(link, observer), setting.timebase, setting, paused, samples, deadline)
                }
                None => run(Tap::off(link), clock, setting, paused, samples, deadline),
            }
        }
        with_clock!(setting.timebase.source, clock => match trips {
            RoundTrips::One(paused) => observed(self, clock, setting, paused, samples, deadline, observer),
            RoundTrips::Several(paused) => observed(self, clock, setting, paused, samples, deadline, observer),
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
        let RoundTrips::One(paused) = trips else { return (0, Ok(LoopEnd::Stopped)) };
        setting.touch = TouchLimit::NONE;
        let clock = setting.timebase;
        let mut link = Stamped::new(self, clock, stamps);
        let mut trips = begin(Tap::off(&mut link), clock, Tracker::default(), &setting).resume(std::mem::take(paused));
        let is_called_back = setting.wait == Wait::Callback;
        let (stored, end) = if is_called_back {
            callback::trips(setting.inbox, &mut trips, samples, deadline)
        } else {
            trips.run(samples, deadline)
        };
        *paused = trips.pause();
        if is_called_back {
            stamps::ends(&paused.rows, &samples[..stored]).for_each(|(sequence, at)| stamps.called_back(sequence, at));
        }
        (stored, end)
    }

    fn drain(&mut self, setting: LoopSetting<'_>, trips: &mut RoundTrips) -> Result<(), Failure> {
        // Draining is not measured: one compiled loop serves all clocks.
        fn run<L: Link, A: Answers + Default>(
            link: &mut L,
            setting: LoopSetting<'_>,
            paused: &mut trips::PausedTrips<A>,
        ) -> Result<(), Failure> {
            let mut trips =
                begin(Tap::off(link), setting.timebase, A::default(), &setting).resume(std::mem::take(paused));
            let drained = if setting.wait == Wait::Callback {
                callback::drain(setting.inbox, &mut trips);
                Ok(())
            } else {
                trips.drain()
            };
            *paused = trips.pause();
            drained
        }
        match trips {
            RoundTrips::One(paused) => run(self, setting, paused),
            RoundTrips::Several(paused) => run(self, setting, paused),
        }
    }

    fn call(&mut self, setting: LoopSetting<'_>, calls: Calls<'_>, made: &mut Made) -> Ended<Called> {
        fn run<L: Link, C: Clock + Copy, S: Timetable>(
            link: &mut L,
            clock: C,
            schedule: S,
            setting: LoopSetting<'_>,
            calls: Calls<'_>,
            made: &mut Made,
        ) -> Ended<Called> {
            let Calls { rest, length, sequence, deadline, sending, draining, .. } = calls;
            let mut client = Client { clock, rest, length, schedule, shared: setting.shared, sending, sequence };
            let mut trips = begin(Tap::off(link), clock, Tracker::after(sequence), &setting);
            (trips.sequence, trips.length) = (sequence, length);
            let ended = if setting.wait == Wait::Callback {
                called_back::<L, C, S, _>(setting.inbox, &mut trips, |call| client.run(made, deadline, call))
            } else {
                let ended = client.run(made, deadline, |begun, length| {
                    if S::HAS_LENGTHS {
                        trips.length = length;
                    }
                    trips.call(begun)
                });
                ended.and_then(|ended| {
                    sending.drain();
                    draining();
                    trips.drain().map(|()| ended)
                })
            };
            let Counts { late, duplicated, .. } = trips.answers.counts();
            let ((calls, end), failure) = match ended {
                Ok(ended) => (ended, Ok(())),
                Err(failure) => ((client.broken(made, &failure), LoopEnd::Stopped), Err(failure)),
            };
            (Called { calls, end, late, duplicated, sequence: trips.sequence }, failure)
        }
        with_clock!(setting.timebase.source, clock => {
            match calls.times {
                Times::Closed(even) | Times::Even(even) => run(self, clock, even, setting, calls, made),
                // One compiled loop for all others: their branch per message is taken between messages.
                times => run(self, clock, times, setting, calls, made),
            }
        })
    }

    fn publish_due(&mut self, setting: LoopSetting<'_>, plan: Publication<'_>, sent: &mut [u64]) -> Ended<Published> {
        fn run<L: Link, C: Clock>(
            link: &mut L,
            clock: C,
            schedule: impl Timetable,
            setting: LoopSetting<'_>,
            plan: Publication<'_>,
            sent: &mut [u64],
        ) -> Ended<Published> {
            let Publication { rest, length, sequence, publisher, deadline, sending, .. } = plan;
            let (shared, touch, timeout_ns, refused) = (setting.shared, setting.touch, setting.loss_timeout_ns, 0);
            let link = &mut Tap::off(link);
            let mut publisher = Publisher {
                link,
                clock,
                rest,
                schedule,
                length,
                sequence,
                publisher,
                touch,
                shared,
                sending,
                timeout_ns,
                refused,
            };
            let ended = publisher.run(sent, deadline);
            let (refused, published) = (publisher.refused, (publisher.sequence - sequence) as usize);
            match ended {
                Ok((count, end)) => (Published { count, end, refused }, Ok(())),
                Err(failure) => (Published { count: published, end: LoopEnd::Stopped, refused }, Err(failure)),
            }
        }
        with_clock!(setting.timebase.source, clock => {
            match plan.times {
                Times::Closed(even) | Times::Even(even) => run(self, clock, even, setting, plan, sent),
                times => run(self, clock, times, setting, plan, sent),
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
            let mut stream = StreamSender::new(link, clock, setting.shared, flow.length, flow.sequence);
            (stream.timeout_ns, stream.ticks_per_ns) = (setting.loss_timeout_ns, setting.timebase.ticks_per_ns());
            stream.touch = setting.touch;
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
            let (shared, how) = (setting.shared, answering(&setting));
            if setting.wait == Wait::Callback {
                return callback::echo(setting.inbox, link, shared, how, &mut stamps, listening);
            }
            listening();
            echo::run(link, shared, how, &mut stamps)
        }
        fn with_names<L: Link, const ON: bool>(
            link: &mut Tap<'_, L, ON>,
            setting: LoopSetting<'_>,
            answers: &Answering<'_>,
            listening: &mut dyn FnMut(),
        ) -> Result<(), Failure> {
            match answers.follower {
                _ if answers.names_request => run(link, setting, Requests(NoStamps), listening),
                Some(follower) => run(link, setting, Numbered { follower, stamps: NoStamps }, listening),
                None => run(link, setting, NoStamps, listening),
            }
        }
        if let Some(observer) = observer {
            setting.touch = TouchLimit::FULL;
            return with_names(&mut Tap::on(self, observer), setting, &answers, listening);
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
            None => with_names(&mut Tap::off(self), setting, &answers, listening),
            Some((first, log)) => with_clock!(setting.timebase.source, clock => {
                let (link, stamps) = (&mut Tap::off(self), Kept { clock, first, log });
                match answers.follower {
                    _ if answers.names_request => run(link, setting, Requests(stamps), listening),
                    Some(follower) => run(link, setting, Numbered { follower, stamps }, listening),
                    None => run(link, setting, stamps, listening),
                }
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
            mut link: Tap<'_, L, ON>,
            clock: C,
            setting: LoopSetting<'_>,
            ledger: Single<'_, N>,
            listening: &mut dyn FnMut(),
        ) -> Result<Arrived, Failure> {
            let mut sink = Sink::keeping(&mut link, clock, setting.shared, ledger);
            (sink.loss_timeout_ns, sink.touch) = (setting.loss_timeout_ns, setting.touch);
            sink.ticks_per_ns = setting.timebase.ticks_per_ns();
            if setting.wait == Wait::Callback {
                return sink.run_called_back(setting.inbox, listening);
            }
            listening();
            sink.run()
        }
        if let Some(observer) = observer {
            setting.touch = TouchLimit::FULL;
            let ledger = Single::new(first, setting.shared, NoNotes);
            return run(Tap::on(self, observer), setting.timebase, setting, ledger, listening);
        }
        with_clock!(setting.timebase.source, clock => match kept {
            None => {
                let ledger = Single::new(first, setting.shared, NoNotes);
                run(Tap::off(self), clock, setting, ledger, listening)
            }
            Some(log) => {
                let notes = Arrival::<_, Sampled>::in_places(clock, first, log);
                let ledger = Single::new(first, setting.shared, notes);
                run(Tap::off(self), clock, setting, ledger, listening)
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
            mut sink: Sink<'_, '_, L, C, B, false>,
            setting: LoopSetting<'_>,
            listening: &mut dyn FnMut(),
        ) -> Ended<Received> {
            let ended = if setting.wait == Wait::Callback {
                sink.run_called_back(setting.inbox, listening)
            } else {
                listening();
                sink.run()
            };
            (sink.ledger.received(), ended.map(drop))
        }
        let (mut link, by) = (Tap::off(self), (receiving.ends, receiving.take_timeout_ns));
        with_clock!(setting.timebase.source, clock => if receiving.has_publishers {
            let ledger = several(clock, receiving);
            run(sink(&mut link, clock, &setting, by, ledger), setting, listening)
        } else {
            let ledger = single(clock, receiving);
            run(sink(&mut link, clock, &setting, by, ledger), setting, listening)
        })
    }
}

pub(super) struct AllLinks<'a, L>(pub &'a mut [L]);

impl<L: Link> Turns for AllLinks<'_, L> {
    fn answer(&mut self, setting: LoopSetting<'_>, kept: Vec<(u64, ArrivalLog<'_>)>) -> Result<(), Failure> {
        let (shared, how) = (setting.shared, answering(&setting));
        if kept.is_empty() {
            let mut stamps: Vec<_> = self.0.iter().map(|_| Requests(NoStamps)).collect();
            echo::take_turns(self.0, shared, how, &mut stamps)
        } else {
            with_clock!(setting.timebase.source, clock => {
                let kept = kept.into_iter().map(|(first, log)| Requests(Kept { clock, first, log }));
                let mut stamps: Vec<_> = kept.collect();
                echo::take_turns(self.0, shared, how, &mut stamps)
            })
        }
    }

    fn receive<'a>(&mut self, setting: LoopSetting<'a>, receiving: Vec<Receiving<'a>>) -> Ended<Vec<Received>> {
        fn run<'a, L: Link, C: Clock + Copy, B: Keeping>(
            links: &mut [L],
            clock: C,
            setting: LoopSetting<'a>,
            receiving: Vec<Receiving<'a>>,
            ledger: fn(C, Receiving<'a>) -> B,
        ) -> Ended<Vec<Received>> {
            let mut watches: Vec<_> = links.iter_mut().map(Tap::off).collect();
            let sinks = watches.iter_mut().zip(receiving).map(|(link, receiving)| {
                let by = (receiving.ends, receiving.take_timeout_ns);
                sink(link, clock, &setting, by, ledger(clock, receiving))
            });
            let mut sinks: Vec<_> = sinks.collect();
            let ended = take_turns(&mut sinks);
            (sinks.into_iter().map(|sink| sink.ledger.received()).collect(), ended)
        }
        let has_publishers = receiving.iter().any(|receiving| receiving.has_publishers);
        with_clock!(setting.timebase.source, clock => if has_publishers {
            run(self.0, clock, setting, receiving, several)
        } else {
            run(self.0, clock, setting, receiving, single)
        })
    }
}

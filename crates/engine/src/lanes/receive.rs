//! The loops of a follower, over a link of any type.

use super::{Answering, Ended, Received, Receiving, Setting, Turns};
use crate::clock::{Clock, with_clock};
use crate::measure::callback;
use crate::measure::delayed::Delayed;
use crate::measure::ledger::{Ledger, Several, Single};
use crate::measure::notes::Arrival;
use crate::measure::sink::{Sink, take_turns};
use crate::measure::stamps::{Kept, NoStamps, Numbered, Requests, Stamps};
use crate::measure::{Failure, Watch, echo};
use crate::message::{TouchFull, TouchKind, with_touch};
use crate::proof::Observer;
use crate::wire::Arrived;
use tripmeter_abi::{Link, Wait};

pub(super) fn answer<L: Link>(
    link: &mut L,
    setting: Setting<'_>,
    answers: Answering<'_>,
    observer: Option<&mut Observer>,
    listening: &mut dyn FnMut(),
) -> Result<(), Failure> {
    fn run<L: Link, T: TouchKind, const ON: bool>(
        link: &mut Watch<'_, L, ON>,
        setting: Setting<'_>,
        mut stamps: impl Stamps,
        listening: &mut dyn FnMut(),
    ) -> Result<(), Failure> {
        let (shared, timeout_ns) = (setting.shared, setting.loss_timeout_ns);
        if setting.wait == Wait::Callback {
            return callback::echo::<L, T, _, ON>(setting.inbox, link, shared, timeout_ns, &mut stamps, listening);
        }
        listening();
        echo::run::<_, T>(link, shared, timeout_ns, &mut stamps)
    }
    fn with_names<L: Link, T: TouchKind, const ON: bool>(
        link: &mut Watch<'_, L, ON>,
        setting: Setting<'_>,
        answers: &Answering<'_>,
        listening: &mut dyn FnMut(),
    ) -> Result<(), Failure> {
        match answers.follower {
            _ if answers.names_request => run::<L, T, ON>(link, setting, Requests, listening),
            Some(follower) => run::<L, T, ON>(link, setting, Numbered { follower, stamps: NoStamps }, listening),
            None => run::<L, T, ON>(link, setting, NoStamps, listening),
        }
    }
    if let Some(observer) = observer {
        return with_names::<L, TouchFull, true>(&mut Watch::on(link, observer), setting, &answers, listening);
    }
    let ticks = setting.timebase.to_ticks(answers.delay_ns);
    with_touch!(setting.touch, T => match answers.kept {
        None if ticks > 0 => with_clock!(setting.timebase.source, clock => {
            let link = &mut Delayed { link, clock, ticks };
            run::<_, T, false>(&mut Watch::off(link), setting, NoStamps, listening)
        }),
        None => with_names::<L, T, false>(&mut Watch::off(link), setting, &answers, listening),
        Some((first, log)) => with_clock!(setting.timebase.source, clock => {
            let (link, stamps) = (&mut Watch::off(link), Kept { clock, first, log });
            match answers.follower {
                Some(follower) => run::<L, T, false>(link, setting, Numbered { follower, stamps }, listening),
                None => run::<L, T, false>(link, setting, stamps, listening),
            }
        }),
    })
}

pub(super) fn count<L: Link>(
    link: &mut L,
    setting: Setting<'_>,
    first: u64,
    observer: Option<&mut Observer>,
    listening: &mut dyn FnMut(),
) -> Result<Arrived, Failure> {
    fn run<L: Link, C: Clock, T: TouchKind, const ON: bool>(
        mut link: Watch<'_, L, ON>,
        clock: C,
        setting: Setting<'_>,
        first: u64,
        listening: &mut dyn FnMut(),
    ) -> Result<Arrived, Failure> {
        let mut sink = Sink::new(&mut link, clock, setting.shared, first);
        sink.loss_timeout_ns = setting.loss_timeout_ns;
        sink.ticks_per_ns = setting.timebase.ticks_per_ns();
        if setting.wait == Wait::Callback {
            return sink.run_called_back::<T>(setting.inbox, listening);
        }
        listening();
        sink.run::<T>()
    }
    with_clock!(setting.timebase.source, clock => match observer {
        Some(observer) => run::<_, _, TouchFull, true>(Watch::on(link, observer), clock, setting, first, listening),
        None => with_touch!(setting.touch, T => {
            run::<_, _, T, false>(Watch::off(link), clock, setting, first, listening)
        }),
    })
}

/// Keeps what comes over one link, and gives it away in the end.
trait Keeping: Ledger {
    fn received(self) -> Received;
}

impl<C: Clock> Keeping for Single<'_, Arrival<C>> {
    fn received(self) -> Received {
        Received { streams: vec![(self.counts(), self.notes.log)], nobodys: None }
    }
}

impl<C: Clock + Copy> Keeping for Several<'_, C> {
    fn received(self) -> Received {
        let (streams, nobodys) = self.into_parts();
        Received { streams, nobodys: Some(nobodys) }
    }
}

fn single<'a, C: Clock>(clock: C, receiving: Receiving<'a>) -> Single<'a, Arrival<C>> {
    let Receiving { first, logs, ends, .. } = receiving;
    let log = logs.into_iter().next().expect("a link without publishers has one stream");
    Single::new(first, &ends[0], Arrival::new(clock, first, log))
}

fn several<C: Clock + Copy>(clock: C, receiving: Receiving<'_>) -> Several<'_, C> {
    Several::new(clock, receiving.first, receiving.logs, receiving.ends)
}

fn sink<'a, 'w, L: Link, C: Clock, B: Ledger>(
    link: &'a mut Watch<'w, L, false>,
    clock: C,
    setting: &Setting<'a>,
    (ends, take_timeout_ns): (&'a [crate::measure::Shared], u64),
    ledger: B,
) -> Sink<'a, 'w, L, C, B, false> {
    let mut sink = Sink::keeping(link, clock, &ends[0], ledger);
    (sink.loss_timeout_ns, sink.take_timeout_ns) = (setting.loss_timeout_ns, take_timeout_ns);
    sink.ticks_per_ns = setting.timebase.ticks_per_ns();
    sink
}

pub(super) fn receive<L: Link>(
    link: &mut L,
    setting: Setting<'_>,
    receiving: Receiving<'_>,
    listening: &mut dyn FnMut(),
) -> Ended<Received> {
    fn run<L: Link, C: Clock, B: Keeping, T: TouchKind>(
        mut sink: Sink<'_, '_, L, C, B, false>,
        setting: Setting<'_>,
        listening: &mut dyn FnMut(),
    ) -> Ended<Received> {
        let ended = if setting.wait == Wait::Callback {
            sink.run_called_back::<T>(setting.inbox, listening)
        } else {
            listening();
            sink.run::<T>()
        };
        (sink.ledger.received(), ended.map(drop))
    }
    let (mut link, by) = (Watch::off(link), (receiving.ends, receiving.take_timeout_ns));
    with_clock!(setting.timebase.source, clock => with_touch!(setting.touch, T => if receiving.has_publishers {
        let ledger = several(clock, receiving);
        run::<_, _, _, T>(sink(&mut link, clock, &setting, by, ledger), setting, listening)
    } else {
        let ledger = single(clock, receiving);
        run::<_, _, _, T>(sink(&mut link, clock, &setting, by, ledger), setting, listening)
    }))
}

/// All links of a node.
pub(super) struct AllLinks<'a, L>(pub &'a mut [L]);

impl<L: Link> Turns for AllLinks<'_, L> {
    fn answer(&mut self, setting: Setting<'_>) -> Result<(), Failure> {
        with_touch!(setting.touch, T => {
            echo::take_turns::<L, T>(self.0, setting.shared, setting.loss_timeout_ns)
        })
    }

    fn receive<'a>(&mut self, setting: Setting<'a>, receiving: Vec<Receiving<'a>>) -> Ended<Vec<Received>> {
        fn run<'a, L: Link, C: Clock + Copy, B: Keeping, T: TouchKind>(
            links: &mut [L],
            clock: C,
            setting: Setting<'a>,
            receiving: Vec<Receiving<'a>>,
            ledger: fn(C, Receiving<'a>) -> B,
        ) -> Ended<Vec<Received>> {
            let mut watches: Vec<_> = links.iter_mut().map(Watch::off).collect();
            let sinks = watches.iter_mut().zip(receiving).map(|(link, receiving)| {
                let by = (receiving.ends, receiving.take_timeout_ns);
                sink(link, clock, &setting, by, ledger(clock, receiving))
            });
            let mut sinks: Vec<_> = sinks.collect();
            let ended = take_turns::<L, C, B, T, false>(&mut sinks);
            (sinks.into_iter().map(|sink| sink.ledger.received()).collect(), ended)
        }
        let has_publishers = receiving.iter().any(|receiving| receiving.has_publishers);
        with_clock!(setting.timebase.source, clock => with_touch!(setting.touch, T => if has_publishers {
            run::<_, _, _, T>(self.0, clock, setting, receiving, several)
        } else {
            run::<_, _, _, T>(self.0, clock, setting, receiving, single)
        }))
    }
}

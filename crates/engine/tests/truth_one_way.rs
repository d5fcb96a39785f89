//! Measurement truth of one-way patterns, on a fake clock that advances with each reading.

use std::sync::atomic::Ordering::Relaxed;
use tripmeter_abi::{Link, Loan, Message, Result, Wait};
use tripmeter_engine::clock::{Clock, Timebase};
use tripmeter_engine::measure::inbox::Inbox;
use tripmeter_engine::measure::ledger::Single;
use tripmeter_engine::measure::notes::{Arrival, ArrivalMemory, NoNotes, Notes};
use tripmeter_engine::measure::sampling::{self, Sampled, SampledTimes};
use tripmeter_engine::measure::setting::LoopSetting;
use tripmeter_engine::measure::sink::Sink;
use tripmeter_engine::measure::stream::{Even, Extent, Paused, Spacing, StreamSender, Unspaced};
use tripmeter_engine::measure::{Failure, LoopEnd, MOST_SILENT, Shared, Tap};
use tripmeter_engine::message::TouchLimit;
use tripmeter_engine::wire::Arrived;
use tripmeter_transport_inmem::{FakeClock, Script, ScriptedLink, scripted};

const LENGTH: usize = 256;
const READING_NS: u64 = 10;

#[derive(Clone)]
struct Ticking(FakeClock);

impl Clock for Ticking {
    fn now(&self) -> u64 {
        self.0.advance(READING_NS);
        self.0.now_ns()
    }
}

/// Link that returns messages to their sender after a delay, and may be full.
struct Slow {
    link: ScriptedLink,
    clock: FakeClock,
    publish_ns: u64,
    /// Refuses every n-th attempt to send; 0 refuses none.
    refuses: u64,
    tries: u64,
}

impl Link for Slow {
    fn connect(&mut self, _: &[Vec<u8>], _: u64) -> Result<()> {
        Ok(())
    }

    fn loan(&mut self, length: usize, in_reply_to: Option<&Message>) -> Result<Loan> {
        self.link.loan(length, in_reply_to)
    }

    fn publish(&mut self, loan: Loan, timeout_ns: u64) -> Result<bool> {
        self.tries += 1;
        self.clock.advance(self.publish_ns);
        if self.refuses > 0 && self.tries.is_multiple_of(self.refuses) {
            self.link.discard(loan);
            return Ok(false);
        }
        self.link.publish(loan, timeout_ns)
    }

    fn discard(&mut self, loan: Loan) {
        self.link.discard(loan);
    }

    fn take(&mut self, timeout_ns: u64) -> Result<Option<Message>> {
        self.link.take(timeout_ns)
    }

    fn release(&mut self, message: Message) {
        self.link.release(message);
    }
}

fn slow(settings: &[(&str, &str)], publish_ns: u64, refuses: u64) -> Slow {
    let clock = FakeClock::default();
    let script = Script::new(Wait::Block, 0, settings).expect("the settings are valid");
    Slow { link: scripted(script, clock.clone()), clock, publish_ns, refuses, tries: 0 }
}

/// Latencies by index from the records of both sides, and the counts.
fn timed(link: &mut Slow, count: u64) -> (Vec<u64>, Arrived) {
    let (clock, shared) = (Ticking(link.clock.clone()), Shared::default());
    let places = sampling::places(count);
    let mut times = SampledTimes::new(1, places).expect("there is memory");
    let mut stream = StreamSender::new(Tap::off(&mut *link), clock.clone(), &shared, LENGTH, 0);
    stream.touch = TouchLimit::FULL;
    let extent = Extent { burst: 1, last: count, deadline: u64::MAX };
    let end = stream.run_timed(&mut Unspaced, extent, &mut times);
    assert!(matches!(end, Ok(LoopEnd::Full)));
    let mut memory = ArrivalMemory::create(vec![places], 1).expect("there is memory");
    let log = memory.logs(0).swap_remove(0);
    let arrived = noted(link, count, Arrival::<_, Sampled>::in_places(clock, 1, log));
    let log = memory.logs(0).swap_remove(0);
    (times.one_way(log.ticks, count, false).map(|ticks| ticks as u64).collect(), arrived)
}

struct Sent {
    count: u64,
    ended: u64,
    refused: u64,
    end: std::result::Result<LoopEnd, Failure>,
}

fn send<S: Spacing>(link: &mut Slow, spacing: &mut S, burst: u64, last: u64, deadline: u64) -> Sent {
    let (clock, shared) = (Ticking(link.clock.clone()), Shared::default());
    let mut stream = StreamSender::new(Tap::off(link), clock, &shared, LENGTH, 0);
    stream.touch = TouchLimit::FULL;
    let end = stream.run(spacing, Extent { burst, last, deadline });
    Sent { count: stream.sequence, ended: stream.ended, refused: stream.refused, end }
}

fn take(link: &mut Slow, last: u64) -> Arrived {
    noted(link, last, NoNotes)
}

fn noted(link: &mut Slow, last: u64, notes: impl Notes) -> Arrived {
    let (clock, inbox, shared) = (Ticking(link.clock.clone()), Inbox::default(), Shared::default());
    shared.last.store(last, Relaxed);
    shared.stop.store(true, Relaxed);
    let setting = LoopSetting {
        timebase: Timebase::NANOSECONDS,
        touch: TouchLimit::FULL,
        wait: Wait::Block,
        loss_timeout_ns: 1_000_000_000,
        inbox: &inbox,
        shared: &shared,
    };
    let mut sink = Sink::new(Tap::off(link), clock, setting, Single::new(1, &shared, notes));
    sink.receive(|| ()).expect("the link does not fail")
}

fn passed(settings: &[(&str, &str)], count: u64) -> Arrived {
    let mut link = slow(settings, 0, 0);
    assert_eq!(send(&mut link, &mut Unspaced, 32, count, u64::MAX).count, count);
    Arrived { latest: None, ..take(&mut link, count) }
}

#[test]
fn what_happens_to_messages_is_counted_exactly() {
    let none = Arrived::default();
    assert_eq!(passed(&[], 1000), Arrived { received: 1000, ..none });
    assert_eq!(passed(&[("lose", "1,3,400,1000")], 1000), Arrived { received: 996, ..none });
    assert_eq!(passed(&[("lose", "every:2")], 1000), Arrived { received: 500, ..none });
    assert_eq!(passed(&[("duplicate", "5,1000")], 1000), Arrived { received: 1000, duplicated: 2, ..none });
    assert_eq!(passed(&[("reorder", "7,20")], 1000), Arrived { received: 1000, reordered: 2, ..none });
    let damage = [("damage", "9"), ("damage_body", "10,11")];
    assert_eq!(passed(&damage, 1000), Arrived { received: 997, damaged: 3, ..none });
    assert_eq!(passed(&[("lose", "every:1")], 10), none);
}

#[test]
fn a_rate_is_kept_to_the_message() {
    let mut even = Even::new(1000.0);
    let sent = send(&mut slow(&[], 50, 0), &mut even, 1, u64::MAX, 1_000_000);
    assert!(matches!(sent.end, Ok(LoopEnd::Deadline)));
    assert_eq!((sent.count, even.behind()), (1000, 0));
}

#[test]
fn messages_are_due_at_multiples_of_the_period_whatever_was_late() {
    let mut even = Even::new(1004.5);
    let due = [100, 1110, 50_000, 50_010].map(|begun| even.next(begun));
    assert_eq!(due, [100 + 1004, 100 + 2009, 100 + 3013, 100 + 4018]);
    assert_eq!(even.behind(), 2);
    // Each reading of the clock advances 10 ns, so all messages but the first are sent a little late.
    let sent = send(&mut slow(&[], 50, 0), &mut Even::new(1004.0), 1, u64::MAX, 1_000_000);
    assert!((996..=997).contains(&sent.count), "{}", sent.count);
}

#[test]
fn a_rate_that_is_too_high_is_not_kept_and_said_so() {
    let mut even = Even::new(1000.0);
    let sent = send(&mut slow(&[], 5000, 0), &mut even, 1, u64::MAX, 1_000_000);
    assert!((195..=200).contains(&sent.count), "{}", sent.count);
    assert!(even.behind() >= sent.count - 2, "{}", even.behind());
}

#[test]
fn bursts_make_up_for_nothing_that_was_late() {
    let sent = send(&mut slow(&[], 100, 0), &mut Paused::new(10, 10, 50_000), 10, u64::MAX, 1_000_000);
    assert!((190..=200).contains(&sent.count) && sent.count.is_multiple_of(10), "{}", sent.count);
    let late = send(&mut slow(&[], 10_000, 0), &mut Paused::new(10, 10, 50_000), 10, u64::MAX, 1_000_000);
    assert_eq!(late.count, 100, "bursts of 100 us every 50 us");
}

#[test]
fn a_long_burst_ends_at_a_deadline_and_goes_on_after_it() {
    let (mut link, mut paused) = (slow(&[], 100, 0), Paused::new(1000, 32, 1_000_000));
    let (clock, shared) = (Ticking(link.clock.clone()), Shared::default());
    let mut stream = StreamSender::new(Tap::off(&mut link), clock.clone(), &shared, LENGTH, 0);
    let mut until = |deadline| {
        let extent = Extent { burst: 32, last: u64::MAX, deadline };
        let end = stream.run(&mut paused, extent);
        assert!(matches!(end, Ok(LoopEnd::Deadline)), "{end:?}");
        stream.sequence
    };
    let begun = clock.0.now_ns();
    // 32 messages take 3.2 µs and two readings of the clock.
    assert_eq!(until(begun + 10_000), 4 * 32);
    assert_eq!(until(begun + 900_000), 1000, "the rest of the burst, and no other");
    assert_eq!(until(begun + 1_001_000), 1032, "the next is due a period after the first began");
}

#[test]
fn a_transport_that_stays_full_is_tried_until_the_time_is_over() {
    let mut link = slow(&[], 400, 1);
    let (clock, shared) = (Ticking(link.clock.clone()), Shared::default());
    shared.capped.store(2000, Relaxed);
    let mut stream = StreamSender::new(Tap::off(&mut link), clock, &shared, LENGTH, 0);
    let end = stream.run(&mut Unspaced, Extent { burst: 32, last: 10, deadline: 2000 });
    assert!(matches!(end, Ok(LoopEnd::Deadline)), "{end:?}");
    assert_eq!((stream.sequence, stream.refused), (0, 5), "fewer than the {MOST_SILENT} that are a failure");
}

#[test]
fn back_pressure_is_counted_and_loses_nothing() {
    let mut link = slow(&[], 0, 3);
    let sent = send(&mut link, &mut Unspaced, 32, 1000, u64::MAX);
    assert!(matches!(sent.end, Ok(LoopEnd::Full)));
    assert_eq!((sent.count, sent.refused), (1000, 499));
    assert_eq!(take(&mut link, 1000).received, 1000);
    match send(&mut slow(&[], 0, 1), &mut Unspaced, 32, 10, u64::MAX).end {
        Err(Failure::Full { count, .. }) => assert_eq!(count, MOST_SILENT),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_end_of_a_stream_is_waited_for_no_longer_than_the_loss_time_out() {
    let mut link = slow(&[("lose", "100")], 0, 0);
    let sent = send(&mut link, &mut Unspaced, 32, 100, u64::MAX);
    assert_eq!(take(&mut link, 100).received, 99);
    let waited = link.clock.now_ns() - sent.ended;
    assert!((1_000_000_000..1_200_000_000).contains(&waited), "{waited}");
    // A lost message that others have overtaken is awaited only briefly.
    let mut link = slow(&[("lose", "50")], 0, 0);
    let sent = send(&mut link, &mut Unspaced, 32, 100, u64::MAX);
    assert_eq!(take(&mut link, 100).received, 99);
    let waited = link.clock.now_ns() - sent.ended;
    assert!((50_000_000..200_000_000).contains(&waited), "{waited}");
}

/// All messages are sent before the first is received, so each waits for those before it.
#[test]
fn what_both_sides_note_is_joined_by_number_whatever_was_lost() {
    const COUNT: u64 = 200;
    const STALL_NS: u64 = 50_000_000;
    let (all, arrived) = timed(&mut slow(&[], 500, 0), COUNT);
    assert_eq!((all.len() as u64, arrived.received), (COUNT, COUNT));
    let sending = all.windows(2).map(|pair| pair[0] - pair[1]).max();
    // Sending takes 500 ns and readings of three clocks per message, receiving only readings.
    assert!(all.windows(2).all(|pair| pair[1] < pair[0]) && sending <= Some(600), "{sending:?}");
    // Lost, damaged and duplicated messages do not shift latencies of others.
    let faults = [("lose", "3,17,100"), ("damage_body", "50"), ("duplicate", "120")];
    let (some, arrived) = timed(&mut slow(&faults, 500, 0), COUNT);
    let gone = [3, 17, 50, 100];
    assert_eq!((arrived.received, arrived.damaged, arrived.duplicated), (COUNT - 4, 1, 1));
    let expected = (1..).zip(&all).filter(|(number, _)| !gone.contains(number)).map(|(_, ns)| *ns);
    let off = some.iter().zip(expected).map(|(found, expected)| found.abs_diff(expected)).max();
    // A lost message saves the follower its readings; a duplicate costs them again.
    assert!(some.len() as u64 == COUNT - 4 && off <= Some(4 * 10 * READING_NS), "{off:?}");
    // A stall shows in its message and all behind it, and in no other.
    let (stalled, _) = timed(&mut slow(&[("stall", "150:50ms")], 500, 0), COUNT);
    let (before, from) = stalled.split_at(149);
    assert!(before.iter().all(|ns| *ns < STALL_NS) && from.iter().all(|ns| *ns >= STALL_NS - COUNT * 600));
    assert!(from[0] >= STALL_NS, "{}", from[0]);
}

#[test]
fn a_message_that_is_refused_waits_from_its_first_try_on() {
    const REFUSED_NS: u64 = 1_000_000;
    let (free, _) = timed(&mut slow(&[], REFUSED_NS, 0), 9);
    let (full, arrived) = timed(&mut slow(&[], REFUSED_NS, 3), 9);
    assert_eq!((free.len(), full.len(), arrived.received), (9, 9, 9));
    // Every third attempt is refused: the last message has at most one refusal, the first has all of them.
    assert!(full[0] >= free[0] + 4 * REFUSED_NS && full[8] < free[8] + 2 * REFUSED_NS, "{free:?} {full:?}");
}

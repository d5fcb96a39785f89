//! Measurement truth of one-way patterns, on a clock that moves a little with every reading.

use std::sync::atomic::Ordering::Relaxed;
use tripmeter_abi::{Link, Loan, Message, Result, Wait};
use tripmeter_engine::clock::Clock;
use tripmeter_engine::measure::sink::Sink;
use tripmeter_engine::measure::stream::{Even, Extent, Paused, Spacing, Stream, Unspaced};
use tripmeter_engine::measure::{End, Failure, MOST_SILENT, Shared, Tap};
use tripmeter_engine::message::TouchFull;
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

/// A link whose messages come back to the one who sent them, which takes its time and may be full.
struct Slow {
    link: ScriptedLink,
    clock: FakeClock,
    publish_ns: u64,
    /// Every so many tries to send are refused; 0: none.
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

struct Sent {
    count: u64,
    ended: u64,
    refused: u64,
    end: std::result::Result<End, Failure>,
}

fn send<S: Spacing>(link: &mut Slow, spacing: &mut S, burst: u64, last: u64, deadline: u64) -> Sent {
    let (clock, shared) = (Ticking(link.clock.clone()), Shared::default());
    let mut links = [Tap::off(link)];
    let mut stream = Stream::new(&mut links, clock, &shared, LENGTH, 0);
    let end = stream.run::<TouchFull, S>(spacing, Extent { burst, last, deadline });
    Sent { count: stream.sequence, ended: stream.ended, refused: stream.refused, end }
}

fn take(link: &mut Slow, last: u64) -> Arrived {
    let (clock, shared) = (Ticking(link.clock.clone()), Shared::default());
    shared.last.store(last, Relaxed);
    shared.stop.store(true, Relaxed);
    let mut watch = Tap::off(link);
    let mut sink = Sink::new(&mut watch, clock, &shared, 1);
    sink.run::<TouchFull>().expect("the link does not fail")
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
    assert!(matches!(sent.end, Ok(End::Deadline)));
    assert_eq!((sent.count, even.behind()), (1000, 0));
}

#[test]
fn messages_are_due_at_multiples_of_the_period_whatever_was_late() {
    let mut even = Even::new(1004.5);
    let due = [100, 1110, 50_000, 50_010].map(|begun| even.next(begun));
    assert_eq!(due, [100 + 1004, 100 + 2009, 100 + 3013, 100 + 4018]);
    assert_eq!(even.behind(), 2);
    // Its clock shows every tenth nanosecond, so that each message but the first is sent a little late.
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
    let sent = send(&mut slow(&[], 100, 0), &mut Paused { period: 50_000 }, 10, u64::MAX, 1_000_000);
    assert!((190..=200).contains(&sent.count) && sent.count.is_multiple_of(10), "{}", sent.count);
    let late = send(&mut slow(&[], 10_000, 0), &mut Paused { period: 50_000 }, 10, u64::MAX, 1_000_000);
    assert_eq!(late.count, 100, "bursts of 100 us every 50 us");
}

#[test]
fn back_pressure_is_counted_and_loses_nothing() {
    let mut link = slow(&[], 0, 3);
    let sent = send(&mut link, &mut Unspaced, 32, 1000, u64::MAX);
    assert!(matches!(sent.end, Ok(End::Full)));
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
    // One that the last one has overtaken is waited for a moment only.
    let mut link = slow(&[("lose", "50")], 0, 0);
    let sent = send(&mut link, &mut Unspaced, 32, 100, u64::MAX);
    assert_eq!(take(&mut link, 100).received, 99);
    let waited = link.clock.now_ns() - sent.ended;
    assert!((50_000_000..200_000_000).contains(&waited), "{waited}");
}

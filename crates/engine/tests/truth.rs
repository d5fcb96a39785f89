//! Measurement truth: faults that are injected on a fake clock show in exactly the right figure.

use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;
use tripmeter_abi::{Loan, Message, Wait};
use tripmeter_engine::clock::{Clock, Timebase};
use tripmeter_engine::measure::answers::Answers;
use tripmeter_engine::measure::inbox::Inbox;
use tripmeter_engine::measure::setting::LoopSetting;
use tripmeter_engine::measure::trips::{TripState, Trips};
use tripmeter_engine::measure::{Failure, LoopEnd, MOST_SILENT, Shared, Tap, Tracker};
use tripmeter_engine::message::{self, Header, Kind, TouchLimit};
use tripmeter_model::manifest::Counts;
use tripmeter_transport_inmem::{FakeClock, Script, ScriptedLink, scripted};

const SERVICE_NS: u64 = 1000;
const LOSS_TIMEOUT_NS: u64 = 5_000_000;
const LENGTH: usize = 256;

struct Fake(FakeClock);

impl Clock for Fake {
    fn now(&self) -> u64 {
        self.0.now_ns()
    }
}

/// Answers like the follower's own loop.
fn answer(bytes: &mut [u8]) {
    let length = bytes.len();
    let received = Message { data: bytes.as_ptr(), length, token: null_mut() };
    let header = message::header(&received).expect("messages have room for a header");
    if header == Header::new(header.sequence, Kind::Ping, length) {
        let intact = message::body_intact(&received, header.sequence, TouchLimit::FULL);
        let kind = if intact { Kind::Pong } else { Kind::PongToDamaged };
        let reply = Loan { data: bytes.as_mut_ptr(), length, token: null_mut() };
        message::write(&reply, Header::new(header.sequence, kind, length), TouchLimit::FULL);
    }
}

fn link(wait: Wait, settings: &[(&str, &str)]) -> (ScriptedLink, FakeClock) {
    let clock = FakeClock::default();
    let script = Script::new(wait, SERVICE_NS, settings).expect("the settings are valid");
    (scripted(script, clock.clone()).answering(answer), clock)
}

fn trips<'a>(
    link: &'a mut ScriptedLink,
    clock: FakeClock,
    wait: Wait,
    inbox: &'a Inbox,
    shared: &'a Shared,
) -> Trips<'a, ScriptedLink, Fake, Tracker, false> {
    let (timebase, touch, loss_timeout_ns) = (Timebase::NANOSECONDS, TouchLimit::FULL, LOSS_TIMEOUT_NS);
    let setting = LoopSetting { timebase, touch, wait, loss_timeout_ns, inbox, shared };
    let state = TripState::begin(Tracker::default(), 0, LENGTH);
    let mut trips = Trips::new(Tap::off(link), Fake(clock), setting, state);
    trips.idle_mask &= 0x3f;
    trips
}

fn run(wait: Wait, settings: &[(&str, &str)], planned: usize) -> Result<(Vec<u64>, Counts), Failure> {
    let (mut link, clock) = link(wait, settings);
    let (inbox, shared) = (Inbox::default(), Shared::default());
    let mut trips = trips(&mut link, clock, wait, &inbox, &shared);
    let mut samples = vec![0; planned];
    let (stored, end) = trips.run(&mut samples, u64::MAX);
    assert_eq!((stored, end?), (planned, LoopEnd::Full));
    trips.drain()?;
    let counts = Counts { sent: trips.state.sequence, received: stored as u64, ..trips.state.answers.counts() };
    Ok((samples, counts))
}

const WAITS: [Wait; 2] = [Wait::Poll, Wait::Block];

#[test]
fn without_faults_every_sample_is_the_service_time() {
    for wait in WAITS {
        let (samples, counts) = run(wait, &[], 1000).unwrap();
        assert!(samples.iter().all(|sample| *sample == SERVICE_NS), "{wait}");
        assert_eq!(counts, Counts { sent: 1000, received: 1000, ..Counts::default() });
    }
}

#[test]
fn a_stall_shows_in_exactly_one_sample_and_in_full() {
    for wait in WAITS {
        let timeout_is_not_reached = &[("stall", "500:4ms")];
        let (samples, counts) = run(wait, timeout_is_not_reached, 1000).unwrap();
        for (index, sample) in samples.iter().enumerate() {
            let expected = if index == 499 { SERVICE_NS + 4_000_000 } else { SERVICE_NS };
            assert_eq!(*sample, expected, "{wait}, sample {index}");
        }
        assert_eq!(counts, Counts { sent: 1000, received: 1000, ..Counts::default() });
    }
}

#[test]
fn a_stall_beyond_the_time_out_makes_late_messages_and_no_lost_ones() {
    for wait in WAITS {
        let (samples, counts) = run(wait, &[("stall", "500:40ms")], 1000).unwrap();
        // Only the trip in progress at the end of the stall may be longer.
        assert!(samples.iter().filter(|sample| **sample > SERVICE_NS).count() <= 1, "{wait}");
        assert_eq!((counts.lost, counts.received), (0, 1000));
        assert_eq!(counts.late, counts.sent - counts.received);
        // All of them wait behind the stalled one, and arrive in order.
        assert!((7..=8).contains(&counts.late) && counts.reordered == 0, "{counts:?}");
    }
}

#[test]
fn lost_messages_are_counted_and_leave_no_sample() {
    for wait in WAITS {
        for side in ["leader", "follower"] {
            let (samples, counts) = run(wait, &[("lose", "3,17,400"), ("side", side)], 1000).unwrap();
            assert!(samples.iter().all(|sample| *sample == SERVICE_NS), "{wait} {side}");
            assert_eq!(counts, Counts { sent: 1003, received: 1000, lost: 3, ..Counts::default() });
        }
    }
}

#[test]
fn duplicates_are_counted_and_leave_no_sample() {
    for wait in WAITS {
        for side in ["leader", "follower"] {
            let (samples, counts) = run(wait, &[("duplicate", "5,6,1000"), ("side", side)], 1000).unwrap();
            assert!(samples.iter().all(|sample| *sample == SERVICE_NS), "{wait} {side}");
            assert_eq!((counts.sent, counts.received, counts.lost), (1000, 1000, 0));
            assert_eq!(counts.duplicated, 3, "{wait} {side}");
        }
    }
}

#[test]
fn an_overtaken_message_is_late_and_reordered_and_not_lost() {
    for wait in WAITS {
        let (samples, counts) = run(wait, &[("reorder", "7")], 1000).unwrap();
        assert_eq!(samples.len(), 1000);
        assert_eq!(counts, Counts { sent: 1001, received: 1000, late: 1, reordered: 1, ..Counts::default() }, "{wait}");
    }
}

#[test]
fn a_trip_under_way_when_the_time_is_over_counts_for_nothing_then_and_later() {
    for wait in WAITS {
        let (mut link, clock) = link(wait, &[("stall", "50:400us")]);
        let (inbox, shared) = (Inbox::default(), Shared::default());
        let mut trips = trips(&mut link, clock.clone(), wait, &inbox, &shared);
        trips.setting.loss_timeout_ns = 200_000;
        let capped = clock.now_ns() + 49 * SERVICE_NS + 100_000;
        shared.capped.store(capped, Relaxed);
        let mut samples = vec![0; 100];
        let (stored, end) = trips.run(&mut samples, u64::MAX);
        assert_eq!((stored, end.unwrap()), (49, LoopEnd::Deadline), "{wait}");
        assert!(clock.now_ns() < capped + 300_000, "{wait}: its answer was not waited for");
        assert_eq!((trips.state.answers.abandoned(), trips.state.answers.counts()), (1, Counts::default()), "{wait}");
        // Its answer arrives in the next cell.
        shared.capped.store(0, Relaxed);
        let abandoned = trips.state.sequence;
        trips.state.answers.begin(abandoned);
        trips.state.answers.abandon(abandoned);
        let (stored, end) = trips.run(&mut samples[..10], u64::MAX);
        assert_eq!((stored, end.unwrap()), (10, LoopEnd::Full), "{wait}");
        assert_eq!((trips.state.answers.abandoned(), trips.state.answers.counts()), (0, Counts::default()), "{wait}");
    }
}

#[test]
fn damage_is_counted_wherever_it_strikes() {
    for wait in WAITS {
        for side in ["leader", "follower"] {
            for fault in ["damage", "damage_body"] {
                let (samples, counts) = run(wait, &[(fault, "9,100"), ("side", side)], 1000).unwrap();
                assert!(samples.iter().all(|sample| *sample == SERVICE_NS), "{wait} {side} {fault}");
                assert_eq!(counts, Counts { sent: 1002, received: 1000, damaged: 2, ..Counts::default() });
            }
        }
    }
}

#[test]
fn an_injected_delay_moves_every_sample_by_itself() {
    let (samples, _) = run(Wait::Poll, &[("delay", "10us")], 100).unwrap();
    assert!(samples.iter().all(|sample| *sample == SERVICE_NS + 10_000), "{samples:?}");
}

#[test]
fn a_dead_follower_ends_the_loop_with_a_count() {
    match run(Wait::Block, &[("lose", "every:1")], 10) {
        Err(Failure::Silent { count, timeout_ms, .. }) => assert_eq!((count, timeout_ms), (MOST_SILENT, 5)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_deadline_and_the_user_end_the_loop_with_what_there_is() {
    let (mut link, clock) = link(Wait::Poll, &[]);
    let (inbox, shared) = (Inbox::default(), Shared::default());
    let mut trips = trips(&mut link, clock, Wait::Poll, &inbox, &shared);
    let mut samples = vec![0; 1000];
    let (stored, end) = trips.run(&mut samples, 10 * SERVICE_NS);
    assert_eq!((stored, end.unwrap()), (10, LoopEnd::Deadline));
}

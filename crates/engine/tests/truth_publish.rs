//! Measurement truth of pattern `publish`, on a fake clock: delays by a stalled sender show in response times, and not
//! in service times.

use std::ptr;
use tripmeter_abi::{Link, Loan, Message, Result, Wait};
use tripmeter_engine::clock::{Clock, Timebase};
use tripmeter_engine::delivery::{Tally, Topic};
use tripmeter_engine::measure::inbox::Inbox;
use tripmeter_engine::measure::publish::{PublicationPlan, Publisher, Rest, Schedule, Sending};
use tripmeter_engine::measure::setting::LoopSetting;
use tripmeter_engine::measure::{Failure, LoopEnd, MOST_SILENT, Shared};
use tripmeter_engine::message::TouchLimit;
use tripmeter_engine::wire::Arrived;
use tripmeter_model::manifest::Counts;
use tripmeter_model::plan::Raw;
use tripmeter_transport_inmem::FakeClock;

const LENGTH: usize = 64;
const PERIOD_NS: u64 = 1_000_000;
const FIRST_NS: u64 = 5_000_000;
const SERVICE_NS: u64 = 7_000;
const COUNT: usize = 100;
/// Message whose send call returns late.
const STALLED: usize = 40;
const STALL_NS: u64 = 50 * PERIOD_NS;

#[derive(Clone)]
struct Still(FakeClock);

impl Clock for Still {
    fn now(&self) -> u64 {
        self.0.now_ns()
    }
}

struct Exact(FakeClock);

impl Rest for Exact {
    fn rest(&self, ticks: u64) {
        self.0.advance(ticks);
    }
}

/// Link that delivers each message after the service time. One send call returns late, and some are refused at first.
struct Slow {
    clock: FakeClock,
    arrived: Vec<u64>,
    stalled: usize,
    refuses: u32,
    buffer: [u64; LENGTH / 8],
}

impl Link for Slow {
    fn connect(&mut self, _: &[Vec<u8>], _: u64) -> Result<()> {
        Ok(())
    }

    fn loan(&mut self, length: usize, _: Option<&Message>) -> Result<Loan> {
        Ok(Loan { data: self.buffer.as_mut_ptr().cast(), length, token: ptr::null_mut() })
    }

    fn publish(&mut self, _: Loan, timeout_ns: u64) -> Result<bool> {
        if self.refuses > 0 {
            self.refuses -= 1;
            self.clock.advance(timeout_ns);
            return Ok(false);
        }
        self.arrived.push(self.clock.now_ns() + SERVICE_NS);
        if self.arrived.len() == self.stalled {
            self.clock.advance(STALL_NS);
        }
        Ok(true)
    }

    fn discard(&mut self, _: Loan) {}

    fn take(&mut self, _: u64) -> Result<Option<Message>> {
        Ok(None)
    }

    fn release(&mut self, _: Message) {}
}

struct Outcome {
    topic: Topic,
    refused: u64,
    ended: std::result::Result<(usize, LoopEnd), Failure>,
}

fn publish(stalled: usize, refuses: u32, deadline: u64, shared: &Shared) -> Outcome {
    let clock = FakeClock::default();
    let mut link = Slow { clock: clock.clone(), arrived: Vec::new(), stalled, refuses, buffer: [0; LENGTH / 8] };
    let (sending, inbox, mut sent) = (Sending::default(), Inbox::default(), vec![0; COUNT]);
    let schedule = Schedule { first: FIRST_NS, period: PERIOD_NS as f64 };
    let setting = LoopSetting {
        timebase: Timebase::NANOSECONDS,
        touch: TouchLimit::NONE,
        wait: Wait::Block,
        loss_timeout_ns: 3 * PERIOD_NS,
        inbox: &inbox,
        shared,
    };
    let plan = PublicationPlan {
        times: schedule,
        rest: Exact(clock.clone()),
        length: LENGTH,
        sequence: 0,
        publisher: 0,
        deadline,
        sending: &sending,
    };
    let mut publisher = Publisher { link: &mut link, clock: Still(clock), setting, plan, refused: 0 };
    let ended = publisher.run(&mut sent);
    let refused = publisher.refused;
    sent.truncate(ended.as_ref().map_or(0, |ended| ended.0));
    let (arrived, marks) = (link.arrived, vec![0; COUNT]);
    let topic = Topic { schedule: Some(schedule), sent: sent.into(), arrived, marks, requests: Vec::new() };
    Outcome { topic, refused, ended }
}

fn times(topic: &Topic) -> Vec<(u64, u64)> {
    let ns = |arrived: Option<u64>, since: u64| arrived.map_or(0, |arrived| arrived - since);
    let deliveries = topic.deliveries(u64::MAX);
    deliveries
        .map(|delivery| (ns(delivery.arrived, delivery.intended), ns(delivery.arrived, delivery.actual)))
        .collect()
}

#[test]
fn a_stalled_sender_shows_in_the_response_of_every_message_that_waited_and_in_no_service_time() {
    let outcome = publish(STALLED, 0, u64::MAX, &Shared::default());
    assert!(matches!(outcome.ended, Ok((COUNT, LoopEnd::Full))));
    let times = times(&outcome.topic);
    assert!(times.iter().all(|(_, service)| *service == SERVICE_NS));
    let waited: Vec<(usize, u64)> =
        times.iter().enumerate().filter(|(_, time)| time.0 > SERVICE_NS).map(|(index, time)| (index, time.0)).collect();
    // The message after the stalled one was due a period after it, and so on; the last one is on time.
    let expected: Vec<(usize, u64)> =
        (1..50).map(|behind| (STALLED - 1 + behind, STALL_NS - behind as u64 * PERIOD_NS + SERVICE_NS)).collect();
    assert_eq!(waited, expected);

    let mut tally = Tally::new(Timebase::NANOSECONDS, Raw::SAMPLES, 1_000_000_000, 1, PERIOD_NS as f64, 1);
    tally.add(&[outcome.topic], &[Arrived { received: COUNT as u64, ..Arrived::default() }], |_, _, _| ());
    let (response, service) = (tally.response.figures().unwrap(), tally.service.figures().unwrap());
    assert_eq!((service.min, service.max), (SERVICE_NS as f64, SERVICE_NS as f64));
    assert_eq!(response.max, (STALL_NS - PERIOD_NS + SERVICE_NS) as f64);
    let counts = Counts { sent: COUNT as u64, received: COUNT as u64, ..Counts::default() };
    // All but the last of those that waited were late by more than a period.
    assert_eq!((tally.counts(), tally.behind, tally.paces.kept().rate_missed), (counts, 48, false));
}

#[test]
fn without_a_stall_both_times_are_the_same_and_the_rate_is_kept() {
    let outcome = publish(0, 0, u64::MAX, &Shared::default());
    assert!(times(&outcome.topic).iter().all(|time| *time == (SERVICE_NS, SERVICE_NS)));
    let due: Vec<u64> = (0..COUNT as u64).map(|index| FIRST_NS + index * PERIOD_NS).collect();
    assert_eq!(*outcome.topic.sent, *due);
}

#[test]
fn a_message_that_was_refused_is_sent_later_and_counts_from_its_first_try() {
    let outcome = publish(0, 2, u64::MAX, &Shared::default());
    let times = times(&outcome.topic);
    assert_eq!(outcome.refused, 2);
    assert_eq!(times[0], (6 * PERIOD_NS + SERVICE_NS, 6 * PERIOD_NS + SERVICE_NS));
    assert_eq!((times[5], times[6]), ((PERIOD_NS + SERVICE_NS, SERVICE_NS), (SERVICE_NS, SERVICE_NS)));
    let full = publish(0, MOST_SILENT, u64::MAX, &Shared::default()).ended;
    assert!(matches!(full, Err(Failure::Full { count: MOST_SILENT, .. })), "{full:?}");
}

#[test]
fn a_message_that_is_refused_is_tried_until_the_time_is_over() {
    let shared = Shared::default();
    shared.capped.store(FIRST_NS + 6 * PERIOD_NS, std::sync::atomic::Ordering::Relaxed);
    let outcome = publish(0, MOST_SILENT, u64::MAX, &shared);
    assert!(matches!(outcome.ended, Ok((0, LoopEnd::Stopped))), "{:?}", outcome.ended);
    assert_eq!(outcome.refused, 2, "each takes three periods");
}

#[test]
fn it_ends_at_the_deadline_and_when_asked_to() {
    let ended = publish(0, 0, FIRST_NS + 10 * PERIOD_NS, &Shared::default()).ended;
    assert!(matches!(ended, Ok((10, LoopEnd::Deadline))), "{ended:?}");
    let shared = Shared::default();
    shared.stop.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(matches!(publish(0, 0, u64::MAX, &shared).ended, Ok((0, LoopEnd::Stopped))));
    let shared = Shared::default();
    shared.peer_gone.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(matches!(publish(0, 0, u64::MAX, &shared).ended, Err(Failure::PeerGone)));
}

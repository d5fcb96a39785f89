//! Measurement truth of pattern `call`, over `inmem` on a fake clock. Delays by a stalled call show in response times,
//! and not in service times. Calls without an answer time out, and failed calls are counted separately.

use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;
use tripmeter_abi::{Error, Link, Loan, Message, Result, Status, Wait};
use tripmeter_engine::clock::{Clock, Timebase};
use tripmeter_engine::delivery::{Tally, Topic};
use tripmeter_engine::lanes::{Calls, Lane};
use tripmeter_engine::measure::answers::Answers;
use tripmeter_engine::measure::calls::{CallPlan, Client, Made};
use tripmeter_engine::measure::inbox::Inbox;
use tripmeter_engine::measure::notes::{DAMAGED, NEVER};
use tripmeter_engine::measure::publish::{Bursts, Rest, Schedule, Sending, Sleep, Timetable};
use tripmeter_engine::measure::setting::LoopSetting;
use tripmeter_engine::measure::trips::{TripState, Trips};
use tripmeter_engine::measure::{Failure, LoopEnd, MOST_SILENT, Shared, Tap, Tracker};
use tripmeter_engine::message::{self, Header, Kind, TouchLimit};
use tripmeter_engine::replay::{Replay, Times};
use tripmeter_engine::wire::Arrived;
use tripmeter_model::manifest::Counts;
use tripmeter_model::plan::Raw;
use tripmeter_model::recording::{RecordedTopic, Recording, ScheduleEntry};
use tripmeter_transport_inmem::{FakeClock, Script, ScriptedLink, scripted};

const LENGTH: usize = 64;
const PERIOD_NS: u64 = 1_000_000;
const FIRST_NS: u64 = 5_000_000;
const SERVICE_NS: u64 = 7_000;
const TIMEOUT_NS: u64 = 300_000_000;
const COUNT: usize = 100;
/// Call that is answered late.
const STALLED: usize = 40;
const STALL_NS: u64 = 50 * PERIOD_NS;

#[derive(Clone)]
struct Fake(FakeClock);

impl Clock for Fake {
    fn now(&self) -> u64 {
        self.0.now_ns()
    }
}

impl Rest for Fake {
    fn rest(&self, ticks: u64) {
        self.0.advance(ticks);
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

/// Link of `inmem` with some calls that fail, and which is full from one call on.
struct Failing {
    link: ScriptedLink,
    clock: FakeClock,
    sent: usize,
    fails: fn(usize) -> Option<Status>,
    full_from: usize,
}

impl Link for Failing {
    fn connect(&mut self, peers: &[Vec<u8>], timeout_ns: u64) -> Result<()> {
        self.link.connect(peers, timeout_ns)
    }

    fn loan(&mut self, length: usize, in_reply_to: Option<&Message>) -> Result<Loan> {
        self.link.loan(length, in_reply_to)
    }

    fn publish(&mut self, loan: Loan, timeout_ns: u64) -> Result<bool> {
        self.sent += 1;
        if self.sent >= self.full_from {
            self.link.discard(loan);
            self.clock.advance(timeout_ns);
            return Ok(false);
        }
        if let Some(status) = (self.fails)(self.sent) {
            self.link.discard(loan);
            return Err(Error::new(status, "no route"));
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

struct Outcome {
    topic: Topic<Times<'static>>,
    until: u64,
    late: u64,
    duplicated: u64,
    ended: std::result::Result<(usize, LoopEnd), Failure>,
}

impl Outcome {
    /// Response and service time of each successful call, by its index.
    fn times(&self) -> Vec<(usize, u64, u64)> {
        let deliveries = self.topic.deliveries(u64::MAX).enumerate();
        deliveries
            .filter_map(|(index, delivery)| {
                let arrived = delivery.arrived?;
                Some((index, arrived - delivery.intended, arrived - delivery.actual))
            })
            .collect()
    }

    fn tally(self) -> (Tally, Counts) {
        let period = self.topic.schedule.map_or(PERIOD_NS as f64, |times| times.period());
        let mut tally = Tally::new(Timebase::NANOSECONDS, Raw::SAMPLES, TIMEOUT_NS, 1, period, 1);
        tally.paces.gap = self.topic.schedule.map_or(period, |times| times.gap());
        let received = self.topic.arrived.iter().filter(|arrived| **arrived != NEVER).count() as u64;
        let damaged = self.topic.marks.iter().filter(|marks| **marks == DAMAGED).count() as u64;
        let arrived = Arrived { received, damaged, duplicated: self.duplicated, ..Arrived::default() };
        tally.add(&[self.topic], &[arrived], |_, _, _| ());
        let counts = tally.calls(self.late);
        (tally, counts)
    }
}

struct Run {
    settings: Vec<(&'static str, &'static str)>,
    times: Times<'static>,
    wait: Wait,
    deadline: u64,
    fails: fn(usize) -> Option<Status>,
    full_from: usize,
    shared: Shared,
}

fn setting<'a>(wait: Wait, inbox: &'a Inbox, shared: &'a Shared) -> LoopSetting<'a> {
    let (timebase, touch, loss_timeout_ns) = (Timebase::NANOSECONDS, TouchLimit::FULL, TIMEOUT_NS);
    LoopSetting { timebase, touch, wait, loss_timeout_ns, inbox, shared }
}

impl Run {
    fn new(settings: &[(&'static str, &'static str)], period_ns: u64) -> Self {
        let schedule = Schedule { first: FIRST_NS, period: period_ns as f64 };
        Self::at(settings, if period_ns > 0 { Times::Even(schedule) } else { Times::Closed(schedule) })
    }

    fn at(settings: &[(&'static str, &'static str)], times: Times<'static>) -> Self {
        let (settings, shared) = (settings.to_vec(), Shared::default());
        Self { settings, times, wait: Wait::Block, deadline: u64::MAX, fails: |_| None, full_from: usize::MAX, shared }
    }

    fn calls(self) -> Outcome {
        let clock = FakeClock::default();
        let script = Script::new(self.wait, SERVICE_NS, &self.settings).expect("the settings are valid");
        let link = scripted(script, clock.clone()).answering(answer);
        let mut link = Failing { link, clock: clock.clone(), sent: 0, fails: self.fails, full_from: self.full_from };
        let (sending, mut made) = (Sending::default(), Made::new(COUNT as u64).expect("there is memory"));
        let (fake, inbox, shared) = (Fake(clock), Inbox::default(), &self.shared);
        let (rest, deadline, draining) = (fake.clone(), self.deadline, &|| ());
        let calls =
            CallPlan { times: self.times, rest, length: LENGTH, sequence: 0, deadline, sending: &sending, draining };
        let mut client = Client { clock: fake.clone(), shared, calls };
        let state = TripState::begin(Tracker::default(), 0, LENGTH);
        let mut trips = Trips::new(Tap::off(&mut link), fake, setting(self.wait, &inbox, shared), state);
        trips.idle_mask &= 0x3f;
        let ended = client.run(&mut made, |begun, _| trips.call(begun));
        let drained = trips.drain();
        assert!(drained.is_ok());
        made.truncate(ended.as_ref().map_or(0, |ended| ended.0));
        let schedule = Some(self.times).filter(|times| !matches!(times, Times::Closed(_)));
        let counts = trips.state.answers.counts();
        let (late, duplicated, until) = (counts.late, counts.duplicated, made.until);
        let (sent, requests) = (made.sent.into(), Vec::new());
        let topic = Topic { schedule, sent, arrived: made.answered, marks: made.marks, requests };
        Outcome { topic, until, late, duplicated, ended }
    }
}

#[test]
fn a_stalled_call_shows_in_the_response_of_every_call_that_waited_and_in_its_own_service_time_only() {
    let outcome = Run::new(&[("stall", "40:50ms")], PERIOD_NS).calls();
    assert!(matches!(outcome.ended, Ok((COUNT, LoopEnd::Full))));
    let times = outcome.times();
    let slow: Vec<(usize, u64)> =
        times.iter().filter(|time| time.2 > SERVICE_NS).map(|time| (time.0, time.2)).collect();
    assert_eq!(slow, [(STALLED - 1, STALL_NS + SERVICE_NS)]);
    let waited: Vec<(usize, u64)> = times.iter().filter(|time| time.1 > time.2).map(|time| (time.0, time.1)).collect();
    // Each call begins when the previous one has ended, and takes a service time.
    let end = |behind: u64| STALL_NS + (behind + 1) * SERVICE_NS - behind * PERIOD_NS;
    let expected: Vec<(usize, u64)> = (1..=50).map(|behind| (STALLED - 1 + behind, end(behind as u64))).collect();
    assert_eq!(waited, expected);

    let (mut tally, counts) = outcome.tally();
    let (response, service) = (tally.response.figures().unwrap(), tally.service.figures().unwrap());
    assert_eq!((service.median, service.max), (SERVICE_NS as f64, (STALL_NS + SERVICE_NS) as f64));
    assert!(response.p90 > 30.0 * PERIOD_NS as f64 && service.p90 == SERVICE_NS as f64, "{response:?} {service:?}");
    let all = COUNT as u64;
    assert_eq!(counts, Counts { sent: all, received: all, ..Counts::default() });
    assert_eq!((tally.behind, tally.paces.kept().rate_missed), (49, false));
}

#[test]
fn the_calls_of_a_burst_wait_for_those_before_them() {
    const SIZE: u64 = 4;
    const GAP_NS: u64 = 50 * SERVICE_NS;
    let bursts = Times::Bursts(Bursts { first: FIRST_NS, size: SIZE, gap: GAP_NS as f64 });
    let outcome = Run::at(&[], bursts).calls();
    assert!(matches!(outcome.ended, Ok((COUNT, LoopEnd::Full))));
    let last = *outcome.topic.sent.last().unwrap();
    let expected = |index: usize| (index, (index as u64 % SIZE + 1) * SERVICE_NS, SERVICE_NS);
    assert_eq!(outcome.times(), (0..COUNT).map(expected).collect::<Vec<_>>());
    let (mut tally, counts) = outcome.tally();
    let all = COUNT as u64;
    assert_eq!(counts, Counts { sent: all, received: all, ..Counts::default() });
    let lateness = tally.lateness.figures().unwrap();
    assert_eq!((lateness.min, lateness.max), (0.0, (3 * SERVICE_NS) as f64));
    assert_eq!(last - FIRST_NS, (all / SIZE - 1) * GAP_NS + 3 * SERVICE_NS, "the last burst begins when it is due");
    let offered_hz = SIZE as f64 * 1e9 / GAP_NS as f64;
    let kept = tally.paces.kept();
    assert!((kept.achieved_hz / offered_hz - 1.0).abs() < 1e-9 && !kept.rate_missed, "{kept:?}");
    assert_eq!(tally.behind, 0);
}

#[test]
fn bursts_that_take_longer_than_their_gap_fall_behind() {
    const SIZE: u64 = 4;
    let bursts = Times::Bursts(Bursts { first: FIRST_NS, size: SIZE, gap: (2 * SERVICE_NS) as f64 });
    let outcome = Run::at(&[], bursts).calls();
    // Calls follow each other: call i is answered i + 1 service times after the first was due.
    let due = |index: u64| index / SIZE * 2 * SERVICE_NS;
    let expected = |index: usize| (index, (index as u64 + 1) * SERVICE_NS - due(index as u64), SERVICE_NS);
    assert_eq!(outcome.times(), (0..COUNT).map(expected).collect::<Vec<_>>());
    let behind = (0..COUNT as u64).filter(|index| index * SERVICE_NS - due(*index) > 2 * SERVICE_NS).count();
    let (tally, _) = outcome.tally();
    let kept = tally.paces.kept();
    assert!(kept.rate_missed && tally.behind == behind as u64, "{kept:?} {behind}");
    assert!((kept.achieved_hz * SERVICE_NS as f64 / 1e9 - 1.0).abs() < 0.02, "one call after the other: {kept:?}");
}

/// Link that answers each request at once, and records its length.
struct Answering {
    bytes: Vec<u8>,
    pending: bool,
    lengths: Vec<usize>,
}

impl Link for Answering {
    fn connect(&mut self, _: &[Vec<u8>], _: u64) -> Result<()> {
        Ok(())
    }

    fn loan(&mut self, length: usize, _: Option<&Message>) -> Result<Loan> {
        self.bytes = vec![0; length];
        Ok(Loan { data: self.bytes.as_mut_ptr(), length, token: null_mut() })
    }

    fn publish(&mut self, loan: Loan, _: u64) -> Result<bool> {
        self.lengths.push(loan.length);
        answer(&mut self.bytes);
        self.pending = true;
        Ok(true)
    }

    fn discard(&mut self, _: Loan) {}

    fn take(&mut self, _: u64) -> Result<Option<Message>> {
        let message = Message { data: self.bytes.as_ptr(), length: self.bytes.len(), token: null_mut() };
        Ok(std::mem::take(&mut self.pending).then_some(message))
    }

    fn release(&mut self, _: Message) {}
}

/// Lengths of the requests that the leader sends over a link, by the real clock.
fn lengths(times: Times<'_>, calls: usize) -> Vec<usize> {
    let mut link = Answering { bytes: Vec::new(), pending: false, lengths: Vec::new() };
    let (shared, sending, inbox) = (Shared::default(), Sending::default(), Inbox::default());
    let rest = Sleep { ticks_per_ns: 1.0, longest_ns: TIMEOUT_NS };
    let (sending, draining) = (&sending, &|| ());
    let calls_of = Calls { times, rest, length: LENGTH, sequence: 0, deadline: u64::MAX, sending, draining };
    let mut made = Made::new(calls as u64).expect("there is memory");
    let (called, ended) = link.call(setting(Wait::Block, &inbox, &shared), calls_of, &mut made);
    assert!(ended.is_ok() && called.calls == calls && made.answered.iter().all(|answered| *answered != NEVER));
    link.lengths
}

#[test]
fn requests_have_the_sizes_of_a_recording_and_all_others_the_usual_one() {
    let schedule = Schedule { first: 0, period: 0.0 };
    assert_eq!(lengths(Times::Closed(schedule), 3), [LENGTH; 3]);
    assert_eq!(lengths(Times::Bursts(Bursts { first: 0, size: 2, gap: 1000.0 }), 3), [LENGTH; 3]);
    let sizes = [100, 20, 4000];
    let topic = RecordedTopic { messages: 3, last_ns: 2, ..RecordedTopic::default() };
    let recording = Recording { speed: 1.0, duration_ns: 2, messages: 3, topics: vec![topic], ..Recording::default() };
    let entries = sizes.iter().zip(0..).map(|(bytes, time_ns)| Ok(ScheduleEntry { time_ns, topic: 0, bytes: *bytes }));
    let replay = Replay::from_entries(recording, entries, &Timebase::NANOSECONDS).unwrap();
    assert_eq!(lengths(Times::Recorded(replay.times(0, 0)), 3), sizes.map(|bytes| bytes as usize));
}

#[test]
fn lost_requests_and_answers_come_out_as_exactly_so_many_time_outs_and_make_the_rate_be_missed() {
    for side in ["leader", "follower"] {
        for wait in [Wait::Poll, Wait::Block] {
            let run = Run::new(&[("side", side), ("lose", "3,17,100")], PERIOD_NS);
            let (tally, counts) = Run { wait, ..run }.calls().tally();
            let all = COUNT as u64;
            let expected = Counts { sent: all, received: all - 3, lost: 3, ..Counts::default() };
            assert_eq!((counts, tally.paces.kept().rate_missed), (expected, true), "{side}, {wait}");
        }
    }
}

#[test]
fn an_answer_after_the_time_out_is_late_and_is_no_success() {
    let outcome = Run::new(&[("stall", "40:310ms")], 0).calls();
    let (_, counts) = outcome.tally();
    let all = COUNT as u64;
    let expected = Counts { sent: all, received: all - 1, lost: 1, late: 1, ..Counts::default() };
    assert_eq!(counts, expected);
}

#[test]
fn failures_are_counted_apart_from_time_outs() {
    let run = Run::new(&[("side", "follower"), ("damage", "7"), ("damage_body", "9"), ("lose", "11")], 0);
    let fails = |sent| matches!(sent, 20 | 30 | 31).then_some(Status::Failed);
    let outcome = Run { fails, ..run }.calls();
    let (_, counts) = outcome.tally();
    let all = COUNT as u64;
    let expected = Counts { sent: all, received: all - 6, lost: 1, damaged: 5, ..Counts::default() };
    assert_eq!(counts, expected);
}

#[test]
fn successes_alone_make_the_calls_per_second() {
    let outcome = Run::new(&[("lose", "3,17"), ("duplicate", "5"), ("damage", "9")], 0).calls();
    let duration_ns = outcome.until - FIRST_NS;
    assert_eq!(duration_ns, 98 * SERVICE_NS + 2 * TIMEOUT_NS);
    let (tally, counts) = outcome.tally();
    let expected = Counts { sent: 100, received: 97, lost: 2, damaged: 1, duplicated: 1, ..Counts::default() };
    assert_eq!(counts, expected);
    assert_eq!(tally.service.histogram().unwrap().len(), 97);
}

#[test]
fn a_request_that_is_not_taken_times_out_and_so_many_in_a_row_end_it() {
    let run = Run::new(&[], 0);
    let ended = Run { full_from: 5, ..run }.calls().ended;
    assert!(matches!(ended, Err(Failure::Silent { count: MOST_SILENT, .. })), "{ended:?}");
    let ended = Run { fails: |sent| (sent > 3).then_some(Status::Failed), ..Run::new(&[], 0) }.calls().ended;
    assert!(matches!(ended, Err(Failure::Transport(_))), "{ended:?}");
    let ended = Run { fails: |sent| (sent > 3).then_some(Status::Closed), ..Run::new(&[], 0) }.calls().ended;
    assert!(matches!(ended, Err(Failure::Transport(_))), "{ended:?}");
}

#[test]
fn it_ends_at_the_deadline_and_when_asked_to() {
    let deadline = FIRST_NS + 10 * PERIOD_NS;
    let ended = Run { deadline, ..Run::new(&[], PERIOD_NS) }.calls().ended;
    assert!(matches!(ended, Ok((10, LoopEnd::Deadline))), "{ended:?}");
    let ended = Run { deadline: FIRST_NS + 10 * SERVICE_NS, ..Run::new(&[], 0) }.calls().ended;
    assert!(matches!(ended, Ok((10, LoopEnd::Deadline))), "{ended:?}");
    let run = Run::new(&[], PERIOD_NS);
    run.shared.stop.store(true, Relaxed);
    assert!(matches!(run.calls().ended, Ok((0, LoopEnd::Stopped))));
    let run = Run::new(&[], PERIOD_NS);
    run.shared.peer_gone.store(true, Relaxed);
    assert!(matches!(run.calls().ended, Err(Failure::PeerGone)));
}

#![expect(unsafe_code, reason = "memory and calls as a host has them")]

use super::*;
use std::ffi::c_void;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tripmeter_abi::{Callback, Link, Message, Role};

/// Time-out of calls that must succeed: it ends a hang, and a busy machine does not reach it.
const TIMEOUT_NS: u64 = 60_000_000_000;
/// Time-out of calls that must not succeed.
const SHORT_NS: u64 = 20_000_000;

fn options(wait: Wait, settings: &[(&str, &str)]) -> NodeOptions {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let defaults = Inmem.description().settings.into_iter().map(|setting| (setting.name, setting.default));
    let given = settings.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    NodeOptions {
        role: Role::Leader,
        pattern: Pattern::Ping,
        wait,
        variant: "queue".into(),
        settings: defaults.chain(given).collect(),
        run_id: format!("inmem-test-{}", RUNS.fetch_add(1, Ordering::Relaxed)),
        scratch_dir: PathBuf::from("/nonexistent"),
        max_payload_bytes: 64,
        link_count: 1,
        follower_count: 1,
        follower_index: 0,
        unauthorized_peer: None,
        publisher_count: 1,
        local_address: None,
    }
}

fn follower(options: &NodeOptions) -> NodeOptions {
    NodeOptions { role: Role::Follower, ..options.clone() }
}

fn link(options: &NodeOptions, callback: Option<Callback>) -> Result<InmemLink> {
    Inmem.open(options)?.link(&LinkOptions { index: 0, callback })
}

fn pair(options: &NodeOptions) -> (InmemLink, InmemLink) {
    let mut leader = link(options, None).unwrap();
    let mut other = link(&follower(options), None).unwrap();
    other.connect(&[leader.address().unwrap()], TIMEOUT_NS).unwrap();
    leader.connect(&[other.address().unwrap()], TIMEOUT_NS).unwrap();
    (leader, other)
}

fn send(link: &mut impl Link, bytes: &[u8], timeout_ns: u64) -> Result<bool> {
    let loan = link.loan(bytes.len(), None)?;
    // SAFETY: a loan is writable for its whole length.
    unsafe { std::slice::from_raw_parts_mut(loan.data, loan.length) }.copy_from_slice(bytes);
    link.publish(loan, timeout_ns)
}

fn bytes(message: &Message) -> &[u8] {
    // SAFETY: a message is readable until it is released, and the tests release it later.
    unsafe { std::slice::from_raw_parts(message.data, message.length) }
}

fn receive(link: &mut impl Link) -> Message {
    let start = Instant::now();
    while start.elapsed() < Duration::from_nanos(TIMEOUT_NS) {
        if let Some(message) = link.take(TIMEOUT_NS).unwrap() {
            return message;
        }
        thread::yield_now();
    }
    panic!("no message came");
}

/// Takes and releases all messages: first bytes.
fn drain(link: &mut impl Link) -> Vec<u8> {
    let mut found = Vec::new();
    while let Ok(Some(message)) = link.take(0) {
        found.push(bytes(&message)[0]);
        link.release(message);
    }
    found
}

#[test]
fn messages_come_back_whole_under_both_waits() {
    for wait in [Wait::Poll, Wait::Block] {
        let (mut leader, mut other) = pair(&options(wait, &[]));
        let answering = thread::spawn(move || {
            for _ in 0..500 {
                let message = receive(&mut other);
                assert!(send(&mut other, bytes(&message), TIMEOUT_NS).unwrap());
                other.release(message);
            }
        });
        for trip in 0..500_usize {
            let sent: Vec<u8> = (0..trip % 65).map(|at| (at * 3 + trip) as u8).collect();
            assert!(send(&mut leader, &sent, TIMEOUT_NS).unwrap());
            let message = receive(&mut leader);
            assert_eq!(bytes(&message), sent);
            leader.release(message);
        }
        answering.join().unwrap();
    }
}

#[test]
fn a_stream_passes_a_full_queue_in_order() {
    for wait in [Wait::Poll, Wait::Block] {
        let (mut leader, mut other) = pair(&options(wait, &[("depth", "4")]));
        let sending = thread::spawn(move || {
            for number in 0..2000_u32 {
                assert!(send(&mut leader, &number.to_le_bytes(), TIMEOUT_NS).unwrap());
            }
            leader
        });
        for number in 0..2000_u32 {
            let message = receive(&mut other);
            assert_eq!(bytes(&message), number.to_le_bytes());
            other.release(message);
        }
        drop(sending.join().unwrap());
    }
}

struct Echo {
    link: Mutex<Option<InmemLink>>,
}

unsafe extern "C" fn echo(context: *mut c_void, message: *const Message) {
    // SAFETY: the test keeps its `Echo` alive until the link is closed, and the message is valid during the call.
    let (echo, message) = unsafe { (&*context.cast::<Echo>(), &*message) };
    let mut link = echo.link.lock().unwrap();
    assert!(send(link.as_mut().unwrap(), bytes(message), TIMEOUT_NS).unwrap());
}

#[test]
fn a_callback_answers_in_a_thread_of_its_own() {
    let options = options(Wait::Block, &[]);
    let mut leader = link(&options, None).unwrap();
    let host = Echo { link: Mutex::new(None) };
    let callback = Callback { function: echo, context: (&raw const host).cast_mut().cast() };
    let other = NodeOptions { wait: Wait::Callback, ..follower(&options) };
    let mut answering = link(&other, Some(callback)).unwrap();
    answering.connect(&[leader.address().unwrap()], TIMEOUT_NS).unwrap();
    *host.link.lock().unwrap() = Some(answering);
    leader.connect(&[Vec::new()], TIMEOUT_NS).unwrap();
    for trip in 0..200_u8 {
        assert!(send(&mut leader, &[trip; 3], TIMEOUT_NS).unwrap());
        let message = receive(&mut leader);
        assert_eq!(bytes(&message), [trip; 3]);
        leader.release(message);
    }
    let answering = host.link.lock().unwrap().take();
    drop(answering);
}

#[test]
fn a_callback_needs_a_function() {
    let error = link(&options(Wait::Callback, &[]), None).err().unwrap();
    assert_eq!(error.status, Status::Invalid);
}

#[test]
fn a_full_queue_refuses_after_the_time_out() {
    for wait in [Wait::Poll, Wait::Block] {
        let (mut leader, mut other) = pair(&options(wait, &[("depth", "4")]));
        for number in 0..4 {
            assert!(send(&mut leader, &[number], 0).unwrap());
        }
        assert!(!send(&mut leader, &[4], 0).unwrap());
        assert!(!send(&mut leader, &[4], SHORT_NS).unwrap());
        let first = receive(&mut other);
        assert!(!send(&mut leader, &[4], 0).unwrap(), "a message that is held keeps its buffer");
        assert_eq!(bytes(&first), [0]);
        other.release(first);
        assert!(send(&mut leader, &[4], 0).unwrap());
        assert_eq!(drain(&mut other), [1, 2, 3, 4]);
    }
}

#[test]
fn an_empty_queue_gives_nothing_and_a_closed_one_says_so() {
    for wait in [Wait::Poll, Wait::Block] {
        let (mut leader, mut other) = pair(&options(wait, &[]));
        assert!(other.take(0).unwrap().is_none());
        assert!(other.take(SHORT_NS).unwrap().is_none());
        assert!(send(&mut leader, &[1], 0).unwrap());
        drop(leader);
        assert_eq!(drain(&mut other), [1]);
        assert_eq!(other.take(TIMEOUT_NS).unwrap_err().status, Status::Closed);
        assert_eq!(send(&mut other, &[1], TIMEOUT_NS).unwrap_err().status, Status::Closed);
    }
}

#[test]
fn loans_are_aligned_one_at_a_time_and_limited() {
    let (mut leader, mut other) = pair(&options(Wait::Poll, &[]));
    let loan = leader.loan(64, None).unwrap();
    assert!(loan.data.addr().is_multiple_of(8));
    assert!(leader.loan(64, None).is_err());
    leader.discard(loan);
    assert!(other.take(0).unwrap().is_none());
    assert_eq!(leader.loan(65, None).unwrap_err().status, Status::Limit);
}

#[test]
fn peers_find_each_other_in_this_process_only_and_once() {
    let options = options(Wait::Poll, &[]);
    let (mut leader, _other) = pair(&options);
    let address = leader.address().unwrap();
    let mut second = link(&follower(&options), None).unwrap();
    let error = second.connect(std::slice::from_ref(&address), SHORT_NS).unwrap_err();
    assert!(error.message.contains("1 follower"), "{error}");
    assert!(leader.connect(&[Vec::new(), Vec::new()], SHORT_NS).unwrap_err().message.contains("not 2"));
    drop(leader);
    let error = second.connect(&[address], SHORT_NS).unwrap_err();
    assert!(error.message.contains("one process"), "{error}");
    assert!(link(&options, None).unwrap().connect(&[Vec::new()], SHORT_NS).is_err());
}

#[test]
fn faults_hit_the_side_that_was_named() {
    let settings = [("lose", "2"), ("duplicate", "3"), ("reorder", "4")];
    for (side, hit) in [("leader", [true, false]), ("follower", [false, true]), ("both", [true, true])] {
        let all: Vec<_> = settings.iter().copied().chain([("side", side)]).collect();
        let (mut leader, mut other) = pair(&options(Wait::Poll, &all));
        for number in 1..=5 {
            assert!(send(&mut leader, &[number], 0).unwrap() && send(&mut other, &[number], 0).unwrap());
        }
        let expected = |is_hit| if is_hit { vec![1, 3, 3, 5, 4] } else { vec![1, 2, 3, 4, 5] };
        assert_eq!([drain(&mut other), drain(&mut leader)], hit.map(expected), "side={side}");
    }
}

#[test]
fn faults_go_on_for_ever_without_using_up_buffers() {
    let settings = [("depth", "4"), ("lose", "every:3"), ("duplicate", "every:4"), ("reorder", "every:5")];
    let (mut leader, mut other) = pair(&options(Wait::Poll, &settings));
    let (mut arrived, sent) = (0, 60 * 50);
    for number in 0..sent {
        assert!(send(&mut leader, &[number as u8], 0).unwrap(), "message {number}");
        arrived += drain(&mut other).len();
    }
    drop(leader);
    arrived += drain(&mut other).len();
    let (lost, doubled) = (sent / 3, sent / 4 - sent / 12);
    assert_eq!(arrived, sent - lost + doubled);
}

#[test]
fn a_held_message_is_delivered_at_close() {
    let (mut leader, mut other) = pair(&options(Wait::Poll, &[("reorder", "2")]));
    assert!(send(&mut leader, &[1], 0).unwrap() && send(&mut leader, &[2], 0).unwrap());
    assert_eq!(drain(&mut other), [1]);
    drop(leader);
    assert_eq!(drain(&mut other), [2]);
}

#[test]
fn a_stalled_message_comes_late_and_all_behind_it_too() {
    for wait in [Wait::Poll, Wait::Block] {
        let (mut leader, mut other) = pair(&options(wait, &[("stall", "2:30ms")]));
        let start = Instant::now();
        for number in 1..=3 {
            assert!(send(&mut leader, &[number], 0).unwrap());
        }
        for expected in 1..=3 {
            let message = receive(&mut other);
            assert!(expected == 1 || start.elapsed() >= Duration::from_millis(30));
            assert_eq!(bytes(&message), [expected]);
            other.release(message);
        }
    }
}

#[test]
fn a_delay_slows_every_message() {
    let (mut leader, mut other) = pair(&options(Wait::Poll, &[("delay", "1ms")]));
    let start = Instant::now();
    for number in 0..10 {
        assert!(send(&mut leader, &[number], 0).unwrap());
        assert_eq!(drain(&mut other), [number]);
    }
    assert!(start.elapsed() >= Duration::from_millis(10));
}

#[test]
fn bad_settings_are_refused_by_probe_and_open() {
    for (name, value) in [("lose", "x"), ("stall", "3"), ("side", "up"), ("delay", "1 h"), ("depth", "many")] {
        let options = options(Wait::Poll, &[(name, value)]);
        let errors = [Inmem.probe(&options).err(), Inmem.open(&options).err()];
        for error in errors.map(|error| error.unwrap()) {
            assert_eq!(error.status, Status::Invalid);
            assert!(error.message.contains(name), "{error}");
        }
    }
    assert_eq!(Inmem.probe(&options(Wait::Poll, &[("depth", "3")])).unwrap_err().status, Status::Limit);
    let huge = NodeOptions { max_payload_bytes: u64::MAX, ..options(Wait::Poll, &[]) };
    assert_eq!(Inmem.probe(&huge).unwrap_err().status, Status::Limit);
    assert_eq!(link(&huge, None).err().unwrap().status, Status::Limit);
}

fn several(options: &NodeOptions, count: u32) -> (InmemLink, Vec<InmemLink>) {
    let options = NodeOptions { follower_count: count, ..options.clone() };
    let mut leader = link(&options, None).unwrap();
    let address = leader.address().unwrap();
    let mut others = Vec::new();
    for index in 0..count {
        let mut one = link(&NodeOptions { follower_index: index, ..follower(&options) }, None).unwrap();
        one.connect(std::slice::from_ref(&address), TIMEOUT_NS).unwrap();
        others.push(one);
    }
    leader.connect(&vec![Vec::new(); count as usize], TIMEOUT_NS).unwrap();
    (leader, others)
}

#[test]
fn one_message_reaches_all_followers_and_all_answers_come_back() {
    for wait in [Wait::Poll, Wait::Block] {
        let (mut leader, mut others) = several(&options(wait, &[("depth", "4")]), 3);
        for trip in 0..20 {
            assert!(send(&mut leader, &[trip], 0).unwrap());
            for (index, other) in others.iter_mut().enumerate() {
                assert_eq!(drain(other), [trip]);
                assert!(send(other, &[index as u8], 0).unwrap());
            }
            let mut answers = drain(&mut leader);
            answers.sort_unstable();
            assert_eq!(answers, [0, 1, 2]);
        }
    }
}

#[test]
fn the_slowest_follower_keeps_the_queue_full() {
    let (mut leader, mut others) = several(&options(Wait::Block, &[("depth", "4")]), 2);
    for number in 0..4 {
        assert!(send(&mut leader, &[number], 0).unwrap());
    }
    assert_eq!(drain(&mut others[0]), [0, 1, 2, 3]);
    assert!(!send(&mut leader, &[4], SHORT_NS).unwrap());
    assert_eq!(drain(&mut others[1]), [0, 1, 2, 3]);
    assert!(send(&mut leader, &[4], 0).unwrap());
}

#[test]
fn faults_hit_the_follower_that_was_named() {
    for (side, lost) in [("leader", [vec![1, 2, 3], vec![1, 3]]), ("follower", [vec![1, 2, 3], vec![1, 3]])] {
        let settings = [("lose", "2"), ("side", side), ("at", "1")];
        let (mut leader, mut others) = several(&options(Wait::Poll, &settings), 2);
        for (index, expected) in lost.iter().enumerate() {
            let found = if side == "leader" {
                if index == 0 {
                    (1..=3).for_each(|number| assert!(send(&mut leader, &[number], 0).unwrap()));
                }
                drain(&mut others[index])
            } else {
                (1..=3).for_each(|number| assert!(send(&mut others[index], &[number], 0).unwrap()));
                drain(&mut leader)
            };
            assert_eq!(&found, expected, "side={side}, follower {index}");
        }
    }
    assert!(Inmem.probe(&options(Wait::Poll, &[("at", "first")])).unwrap_err().message.contains("'at=first'"));
}

#[test]
fn faults_at_a_follower_that_there_is_not_are_refused() {
    let counted = |at: &str, follower_count, publisher_count| {
        let options =
            NodeOptions { follower_count, publisher_count, ..options(Wait::Poll, &[("lose", "2"), ("at", at)]) };
        Inmem.probe(&options).map_err(|error| error.message.clone())
    };
    for (at, followers, publishers) in [("2", 3, 1), ("7", 1, 8), ("0", 1, 1)] {
        assert!(counted(at, followers, publishers).is_ok(), "{at}");
    }
    for (at, followers, publishers) in [("3", 3, 1), ("8", 1, 8), ("1", 1, 1)] {
        let why = counted(at, followers, publishers).unwrap_err();
        let last = followers.max(publishers) - 1;
        assert!(why.contains(&format!("'at={at}'")) && why.contains(&format!("has index {last}")), "{why}");
    }
}

#[test]
fn damage_for_one_of_several_followers_is_refused_with_what_is_possible() {
    let told = |pattern| {
        let options = options(Wait::Poll, &[("damage", "2")]);
        Inmem.probe(&NodeOptions { follower_count: 2, pattern, ..options }).unwrap_err()
    };
    let is_advised = |pattern| told(pattern).message.ends_with("take one follower, or side=follower");
    assert!(is_advised(Pattern::Ping) && !is_advised(Pattern::Publish) && !is_advised(Pattern::Throughput));
    let error = told(Pattern::Publish);
    assert!(error.status == Status::Invalid && error.message.ends_with("take one follower"), "{error}");
}

mod scripted_link {
    use super::*;

    fn start(wait: Wait, settings: &[(&str, &str)]) -> (ScriptedLink, FakeClock) {
        let clock = FakeClock::default();
        clock.advance(5_000);
        (scripted(Script::new(wait, 1_000, settings).unwrap(), clock.clone()), clock)
    }

    /// One trip: messages within the time-out, and its duration by the clock.
    fn trip(link: &mut ScriptedLink, clock: &FakeClock, number: u8, timeout_ns: u64) -> (Vec<u8>, u64) {
        let start_ns = clock.now_ns();
        assert!(send(link, &[number; 20], 0).unwrap());
        let Some(first) = link.take(timeout_ns).unwrap() else { return (Vec::new(), clock.now_ns() - start_ns) };
        let mut found = vec![bytes(&first)[0]];
        let took_ns = clock.now_ns() - start_ns;
        link.release(first);
        while let Some(message) = link.take(0).unwrap() {
            found.push(bytes(&message)[0]);
            link.release(message);
        }
        (found, took_ns)
    }

    fn trips(settings: &[(&str, &str)], count: u8) -> Vec<(Vec<u8>, u64)> {
        let (mut link, clock) = start(Wait::Block, settings);
        (1..=count).map(|number| trip(&mut link, &clock, number, 1_000_000_000)).collect()
    }

    #[test]
    fn every_trip_takes_the_service_time() {
        assert!(trips(&[], 100).into_iter().zip(1..).all(|(found, number)| found == (vec![number], 1_000)));
    }

    #[test]
    fn a_stall_shows_in_one_trip() {
        for side in ["leader", "follower"] {
            let took: Vec<u64> = trips(&[("stall", "11:50ms"), ("side", side)], 20).iter().map(|it| it.1).collect();
            let stalled: Vec<_> = took.iter().filter(|took_ns| **took_ns != 1_000).collect();
            assert_eq!((stalled, took[10]), (vec![&50_001_000], 50_001_000), "side={side}");
        }
    }

    #[test]
    fn a_stalled_sender_comes_back_late_and_its_message_does_not() {
        let (mut link, clock) = start(Wait::Block, &[("stall_sender", "2:50ms")]);
        let mut at = |number: u8| {
            assert!(send(&mut link, &[number; 20], 0).unwrap());
            clock.now_ns()
        };
        assert_eq!([at(1), at(2), at(3)], [5_000, 50_005_000, 50_005_000]);
    }

    #[test]
    fn loss_costs_the_time_out_and_nothing_else() {
        let found = trips(&[("lose", "3,every:5")], 10);
        let lost: Vec<_> = (1..).zip(&found).filter(|(_, trip)| trip.0.is_empty()).collect();
        assert_eq!(lost.iter().map(|(number, _)| *number).collect::<Vec<u8>>(), [3, 5, 10]);
        assert!(lost.iter().all(|(_, trip)| trip.1 == 1_000_000_000));
    }

    #[test]
    fn duplicates_and_late_messages_come_back_as_such() {
        let found: Vec<_> = trips(&[("duplicate", "2"), ("reorder", "4")], 6).into_iter().map(|trip| trip.0).collect();
        assert_eq!(found, [vec![1], vec![2, 2], vec![3], vec![], vec![5, 4], vec![6]]);
        let found: Vec<_> = trips(&[("duplicate", "2"), ("reorder", "4"), ("side", "follower")], 6)
            .into_iter()
            .map(|it| it.0)
            .collect();
        assert_eq!(found, [vec![1], vec![2, 2], vec![3], vec![], vec![5, 4], vec![6]]);
    }

    #[test]
    fn damage_and_delay_are_applied() {
        let (mut link, clock) =
            start(Wait::Block, &[("damage", "2"), ("damage_body", "3"), ("delay", "10us"), ("side", "both")]);
        for number in 1..=3_u8 {
            let start_ns = clock.now_ns();
            assert!(send(&mut link, &[0; 20], 0).unwrap());
            let message = link.take(1_000_000).unwrap().unwrap();
            // Both directions flip the same bit, so one repairs the damage of the other.
            assert_eq!(bytes(&message), [0; 20], "message {number}");
            link.release(message);
            assert_eq!(clock.now_ns() - start_ns, 21_000);
        }
    }

    #[test]
    fn polling_moves_the_clock_in_steps() {
        let clock = FakeClock::default();
        let mut link = scripted(Script::new(Wait::Poll, 2_500, &[("lose", "2")]).unwrap(), clock.clone());
        assert!(send(&mut link, &[1], 0).unwrap());
        let times: Vec<_> = (0..3).map(|_| (link.take(0).unwrap().is_some(), clock.now_ns())).collect();
        assert_eq!(times, [(false, 1_000), (false, 2_000), (true, 2_500)]);
        assert!(send(&mut link, &[2], 0).unwrap());
        assert!((0..1000).all(|_| link.take(0).unwrap().is_none()));
        assert_eq!(clock.now_ns(), 1_002_500);
    }

    #[test]
    fn an_answer_is_reckoned_from_the_send_and_not_from_the_take() {
        let (mut link, clock) = start(Wait::Block, &[]);
        assert!(send(&mut link, &[1], 0).unwrap());
        clock.advance(700);
        assert!(link.take(1_000).unwrap().is_some());
        assert_eq!(clock.now_ns(), 6_000);
        assert!(send(&mut link, &[2], 0).unwrap());
        clock.advance(5_000);
        assert!(link.take(1_000).unwrap().is_some());
        assert_eq!(clock.now_ns(), 11_000);
    }

    #[test]
    fn the_same_script_gives_the_same_numbers() {
        let settings =
            [("lose", "every:7"), ("duplicate", "every:5"), ("reorder", "every:11"), ("stall", "every:13:1ms")];
        assert_eq!(trips(&settings, 200), trips(&settings, 200));
    }

    #[test]
    fn buffers_are_reused_and_loans_can_be_discarded() {
        let (mut link, clock) = start(Wait::Block, &[("lose", "every:3"), ("duplicate", "every:2")]);
        let first = link.loan(20, None).unwrap();
        let address = first.data.addr();
        link.discard(first);
        let again = link.loan(20, None).unwrap();
        assert_eq!(again.data.addr(), address);
        link.discard(again);
        for number in 0..200 {
            trip(&mut link, &clock, number, 1_000_000);
        }
    }

    #[test]
    fn what_a_script_cannot_do_is_refused() {
        for (wait, settings) in
            [(Wait::Callback, ("lose", "3")), (Wait::Poll, ("loose", "3")), (Wait::Poll, ("lose", "x"))]
        {
            assert_eq!(Script::new(wait, 1, &[settings]).unwrap_err().status, Status::Invalid);
        }
    }
}

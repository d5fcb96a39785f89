#![expect(unsafe_code, reason = "memory and calls as a host has them")]

use super::*;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tripmeter_abi::{Link, Message, Role};

/// Time-out of calls that must succeed: it ends a hang, and a busy machine does not reach it.
const TIMEOUT_NS: u64 = 60_000_000_000;
/// Time-out of calls that must not succeed.
const SHORT_NS: u64 = 20_000_000;

static RUNS: AtomicU32 = AtomicU32::new(0);

/// Unique name, even if a killed process with the same ID has left segments behind.
fn run_id() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
    format!("shm-test-{}-{now:x}-{}", std::process::id(), RUNS.fetch_add(1, Ordering::Relaxed))
}

fn wait_for<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(start.elapsed() < Duration::from_nanos(TIMEOUT_NS), "{what} did not come about");
        thread::sleep(Duration::from_millis(1));
    }
}

fn options(pattern: Pattern, wait: Wait, payload: u64, depth: u64) -> NodeOptions {
    NodeOptions {
        role: Role::Leader,
        pattern,
        wait,
        variant: "ring".into(),
        settings: [("depth".to_owned(), depth.to_string())].into(),
        run_id: run_id(),
        scratch_dir: PathBuf::from("/nonexistent"),
        max_payload_bytes: payload,
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

fn link(options: &NodeOptions) -> Result<ShmLink> {
    Shm.open(options)?.link(&LinkOptions { index: 0, callback: None })
}

fn pair(options: &NodeOptions) -> (ShmLink, ShmLink) {
    let mut leader = link(options).unwrap();
    let mut follower = link(&follower(options)).unwrap();
    follower.connect(&[leader.address().unwrap()], TIMEOUT_NS).unwrap();
    leader.connect(&[follower.address().unwrap()], TIMEOUT_NS).unwrap();
    (leader, follower)
}

fn send(link: &mut ShmLink, bytes: &[u8], timeout_ns: u64) -> bool {
    let loan = link.loan(bytes.len(), None).unwrap();
    // SAFETY: a loan is writable for its whole length.
    unsafe { std::slice::from_raw_parts_mut(loan.data, loan.length) }.copy_from_slice(bytes);
    link.publish(loan, timeout_ns).unwrap()
}

fn bytes(message: &Message) -> &[u8] {
    // SAFETY: a message is readable until it is released, and the tests release it later.
    unsafe { std::slice::from_raw_parts(message.data, message.length) }
}

fn receive(link: &mut ShmLink) -> Message {
    let start = Instant::now();
    while start.elapsed() < Duration::from_nanos(TIMEOUT_NS) {
        if let Some(message) = link.take(TIMEOUT_NS).unwrap() {
            return message;
        }
        thread::yield_now();
    }
    panic!("no message came");
}

fn content(number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 + number * 7) as u8).collect()
}

fn segment_names(run_id: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/dev/shm").unwrap();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| name.strip_prefix(run_id).is_some_and(|rest| rest.starts_with('-'))).collect()
}

/// Checks content and length of every message, many times around the ring.
fn echo(wait: Wait, depth: u64) {
    let (mut leader, mut follower) = pair(&options(Pattern::Ping, wait, 5000, depth));
    let lengths = [0, 1, 16, 4096, 5000];
    let trips = 50 * lengths.len();
    let answering = thread::spawn(move || {
        for _ in 0..trips {
            let message = receive(&mut follower);
            assert!(send(&mut follower, bytes(&message), TIMEOUT_NS));
            follower.release(message);
        }
    });
    for trip in 0..trips {
        let sent = content(trip, lengths[trip % lengths.len()]);
        assert!(send(&mut leader, &sent, TIMEOUT_NS));
        let message = receive(&mut leader);
        assert_eq!(bytes(&message), sent);
        leader.release(message);
    }
    answering.join().unwrap();
}

fn several(options: &NodeOptions, count: u32) -> (ShmLink, Vec<ShmLink>) {
    let options = NodeOptions { follower_count: count, ..options.clone() };
    let mut leader = link(&options).unwrap();
    let address = leader.address().unwrap();
    let mut followers = Vec::new();
    for index in 0..count {
        let mut one = link(&NodeOptions { follower_index: index, ..follower(&options) }).unwrap();
        one.connect(std::slice::from_ref(&address), TIMEOUT_NS).unwrap();
        followers.push(one);
    }
    leader.connect(&vec![Vec::new(); count as usize], TIMEOUT_NS).unwrap();
    (leader, followers)
}

#[test]
fn one_message_reaches_all_followers_and_all_answers_come_back() {
    for (wait, count) in [(Wait::Block, 2), (Wait::Block, 40), (Wait::Block, 200), (Wait::Poll, 3)] {
        let (mut leader, followers) = several(&options(Pattern::Ping, wait, 5000, 2), count);
        let answering: Vec<_> = (0..)
            .zip(followers)
            .map(|(index, mut follower): (u8, _)| {
                thread::spawn(move || {
                    for trip in 0..20 {
                        let message = receive(&mut follower);
                        assert_eq!(bytes(&message), content(trip, 4000));
                        assert!(send(&mut follower, &[index, trip as u8], TIMEOUT_NS));
                        follower.release(message);
                    }
                    follower
                })
            })
            .collect();
        for trip in 0..20 {
            assert!(send(&mut leader, &content(trip, 4000), TIMEOUT_NS));
            let mut heard = vec![false; count as usize];
            for _ in 0..count {
                let message = receive(&mut leader);
                assert_eq!(bytes(&message)[1], trip as u8);
                let first = !std::mem::replace(&mut heard[bytes(&message)[0] as usize], true);
                assert!(first, "each answers once");
                leader.release(message);
            }
            assert!(leader.take(0).unwrap().is_none());
        }
        answering.into_iter().for_each(|one| drop(one.join().unwrap()));
    }
}

#[test]
fn the_slowest_follower_keeps_the_ring_full() {
    let (mut leader, mut followers) = several(&options(Pattern::Throughput, Wait::Block, 64, 2), 2);
    assert!(send(&mut leader, &[1], 0) && send(&mut leader, &[2], 0));
    assert!(!send(&mut leader, &[3], 0));
    for _ in 0..2 {
        let message = receive(&mut followers[0]);
        followers[0].release(message);
    }
    assert!(!send(&mut leader, &[3], SHORT_NS));
    let message = receive(&mut followers[1]);
    assert_eq!(bytes(&message), [1]);
    followers[1].release(message);
    assert!(send(&mut leader, &[3], 0));
    let third = receive(&mut followers[0]);
    assert_eq!(bytes(&third), [3]);
}

/// Numbers of followers around the bits of a word, and the largest.
const MANY: [u32; 3] = [65, 200, 512];

#[test]
fn many_followers_get_every_message_in_order() {
    for count in MANY {
        let (mut leader, mut followers) = several(&options(Pattern::Publish, Wait::Poll, 64, 3), count);
        for first in (0..12).step_by(3) {
            for number in first..first + 3 {
                assert!(send(&mut leader, &content(number, 64), 0));
            }
            for follower in &mut followers {
                for number in first..first + 3 {
                    let message = receive(follower);
                    assert_eq!(bytes(&message), content(number, 64));
                    follower.release(message);
                }
                assert!(follower.take(0).unwrap().is_none());
            }
        }
    }
}

#[test]
fn the_slowest_of_many_followers_keeps_its_chunk_and_wakes_the_sender() {
    for count in MANY {
        let (mut leader, mut followers) = several(&options(Pattern::Throughput, Wait::Block, 64, 2), count);
        assert!(send(&mut leader, &[0], 0) && send(&mut leader, &[1], 0));
        for (number, slow) in (0..).zip([0, 63, 64, count as usize - 1]) {
            let mut held = None;
            for (index, follower) in followers.iter_mut().enumerate() {
                let message = receive(follower);
                assert_eq!(bytes(&message), [number]);
                if index == slow {
                    held = Some(message);
                } else {
                    follower.release(message);
                }
            }
            let held = held.unwrap();
            assert!(!send(&mut leader, &[number + 2], 0), "follower {slow} of {count} holds its chunk");
            assert_eq!(bytes(&held), [number]);
            let (to_us, from_sender) = channel();
            let sending = thread::spawn(move || {
                to_us.send(thread_id()).unwrap();
                let start = Instant::now();
                assert!(send(&mut leader, &[number + 2], TIMEOUT_NS));
                assert!(start.elapsed() < Duration::from_nanos(TIMEOUT_NS), "the time-out ended it");
                leader
            });
            let sender = from_sender.recv().unwrap();
            wait_for("sleep of the sender", || is_asleep(sender).then_some(()));
            followers[slow].release(held);
            leader = sending.join().unwrap();
        }
    }
}

#[test]
fn a_message_wakes_all_of_many_followers() {
    const MESSAGES: usize = 3;
    for count in MANY {
        let (mut leader, followers) = several(&options(Pattern::Publish, Wait::Block, 64, 2), count);
        let (to_us, from_followers) = channel();
        let receiving: Vec<_> = followers
            .into_iter()
            .map(|mut follower| {
                let to_us = to_us.clone();
                thread::spawn(move || {
                    for number in 0..MESSAGES {
                        to_us.send(thread_id()).unwrap();
                        let start = Instant::now();
                        let message = receive(&mut follower);
                        assert!(start.elapsed() < Duration::from_nanos(TIMEOUT_NS), "the time-out ended it");
                        assert_eq!(bytes(&message), content(number, 64));
                        follower.release(message);
                    }
                })
            })
            .collect();
        drop(to_us);
        for number in 0..MESSAGES {
            for _ in 0..count {
                let receiver = from_followers.recv().unwrap();
                wait_for("sleep of a follower", || is_asleep(receiver).then_some(()));
            }
            assert!(send(&mut leader, &content(number, 64), TIMEOUT_NS));
        }
        receiving.into_iter().for_each(|one| one.join().unwrap());
    }
}

#[test]
fn more_followers_than_a_link_has_places_for_are_refused() {
    let most = NodeOptions { follower_count: 512, ..options(Pattern::Publish, Wait::Poll, 16, 2) };
    let last = NodeOptions { follower_index: 511, ..follower(&most) };
    let mut leader = link(&most).unwrap();
    let address = leader.address().unwrap();
    let mut one = link(&last).unwrap();
    one.connect(std::slice::from_ref(&address), TIMEOUT_NS).unwrap();
    let error = link(&last).unwrap().connect(&[address], SHORT_NS).unwrap_err();
    assert!(error.message.contains("has a follower 511 already"), "{error}");
    let text = Shm.open(&NodeOptions { follower_index: 512, ..last }).err().unwrap().to_string();
    assert!(text.contains("follower 512 is none of 512"), "{text}");
    for pattern in [Pattern::Ping, Pattern::Publish, Pattern::Throughput] {
        let refused = NodeOptions { pattern, follower_count: 513, ..most.clone() };
        for error in [Shm.probe(&refused).unwrap_err(), Shm.open(&refused).err().unwrap()] {
            assert_eq!(error.status, Status::Limit);
            assert!(error.message.contains("513 followers are more than 512"), "{error}");
        }
    }
}

#[test]
fn polled_messages_come_back_whole() {
    echo(Wait::Poll, 3);
}

#[test]
fn blocking_messages_come_back_whole() {
    echo(Wait::Block, 2);
}

#[test]
fn a_stream_wraps_around_in_order() {
    for wait in [Wait::Poll, Wait::Block] {
        let (mut leader, mut follower) = pair(&options(Pattern::Throughput, wait, 64, 4));
        let sending = thread::spawn(move || {
            for number in 0..2000 {
                assert!(send(&mut leader, &content(number, 64), TIMEOUT_NS));
            }
            leader
        });
        for number in 0..2000 {
            let message = receive(&mut follower);
            assert_eq!(bytes(&message), content(number, 64), "message {number}");
            follower.release(message);
        }
        drop(sending.join().unwrap());
    }
}

#[test]
fn chunks_are_distinct_aligned_and_filled() {
    let (mut leader, mut follower) = pair(&options(Pattern::Publish, Wait::Poll, 4096, 3));
    let mut seen = Vec::new();
    for _ in 0..4 {
        let loan = leader.loan(4096, None).unwrap();
        assert!(loan.data.addr().is_multiple_of(8));
        // SAFETY: a loan is as readable as it is writable.
        let old = unsafe { std::slice::from_raw_parts(loan.data, loan.length) };
        assert!(old.windows(2).any(|two| two[0] != two[1]));
        seen.push(loan.data.addr());
        assert!(leader.publish(loan, 0).unwrap());
        let message = receive(&mut follower);
        follower.release(message);
    }
    let first_loan = leader.loan(1, None).unwrap();
    assert_eq!(first_loan.data.addr(), seen[0]);
    seen.sort_unstable();
    assert!(seen.windows(2).all(|two| two[1] - two[0] > 4096));
    let sets = seen.iter().map(|address| address % 4096 / 64).collect::<std::collections::BTreeSet<_>>();
    assert_eq!(sets.len(), 4, "each head has its own cache set");
}

fn thread_id() -> libc::pid_t {
    // SAFETY: takes nothing.
    unsafe { libc::gettid() }
}

/// True if that thread of this process sleeps in the kernel.
fn is_asleep(thread: libc::pid_t) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
}

#[test]
fn a_full_ring_refuses_after_the_time_out_and_goes_on_when_there_is_room() {
    for wait in [Wait::Poll, Wait::Block] {
        let (mut leader, mut follower) = pair(&options(Pattern::Publish, wait, 16, 2));
        assert!(send(&mut leader, &[1], 0) && send(&mut leader, &[2], 0));
        assert!(!send(&mut leader, &[3], 0));
        assert!(!send(&mut leader, &[3], SHORT_NS));
        let first = receive(&mut follower);
        assert!(!send(&mut leader, &[3], 0), "a message that is held keeps its chunk");
        assert_eq!(bytes(&first), [1]);
        let (to_us, from_sender) = channel();
        let sending = thread::spawn(move || {
            to_us.send(thread_id()).unwrap();
            send(&mut leader, &[3], TIMEOUT_NS).then_some(leader)
        });
        let sender = from_sender.recv().unwrap();
        if wait == Wait::Block {
            wait_for("sleep of the sender", || is_asleep(sender).then_some(()));
        }
        follower.release(first);
        let leader = sending.join().unwrap();
        assert!(leader.is_some());
        for expected in [2, 3] {
            let message = receive(&mut follower);
            assert_eq!(bytes(&message), [expected]);
            follower.release(message);
        }
    }
}

#[test]
fn a_discarded_loan_leaves_no_trace() {
    let (mut leader, mut follower) = pair(&options(Pattern::Publish, Wait::Poll, 16, 2));
    let loan = leader.loan(16, None).unwrap();
    leader.discard(loan);
    assert!(follower.take(0).unwrap().is_none());
    assert!(send(&mut leader, &[7], 0));
    assert_eq!(bytes(&receive(&mut follower)), [7]);
}

#[test]
fn an_empty_ring_gives_nothing_and_a_blocking_take_ends() {
    for wait in [Wait::Poll, Wait::Block] {
        let (_leader, mut follower) = pair(&options(Pattern::Publish, wait, 16, 2));
        assert!(follower.take(0).unwrap().is_none());
        assert!(follower.take(SHORT_NS).unwrap().is_none());
    }
}

#[test]
fn a_signal_ends_a_blocking_take() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: an all-zero action without SA_RESTART and with a handler that does nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        assert_eq!(libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut()), 0);
    }
    let (_leader, mut follower) = pair(&options(Pattern::Publish, Wait::Block, 16, 2));
    // SAFETY: names the calling thread, which is joined with below.
    let sleeper = unsafe { libc::pthread_self() } as usize;
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // SAFETY: the thread is in this scope and thus alive.
                unsafe { libc::pthread_kill(sleeper as libc::pthread_t, libc::SIGUSR2) };
                thread::sleep(Duration::from_millis(10));
            }
        });
        let start = Instant::now();
        let taken = follower.take(TIMEOUT_NS);
        done.store(true, Ordering::Relaxed);
        assert!(taken.unwrap().is_none());
        assert!(start.elapsed() < Duration::from_nanos(TIMEOUT_NS), "the time-out ended it");
    });
}

#[test]
fn the_segment_is_named_after_the_run_and_goes_with_the_leader() {
    let options = options(Pattern::Ping, Wait::Poll, 16, 2);
    let (leader, follower) = pair(&options);
    assert_eq!(segment_names(&options.run_id), [format!("{}-0", options.run_id)]);
    drop(follower);
    assert_eq!(segment_names(&options.run_id).len(), 1);
    drop(leader);
    assert!(segment_names(&options.run_id).is_empty());
}

#[test]
fn a_second_segment_of_the_same_name_is_refused_and_the_first_stays() {
    let options = options(Pattern::Ping, Wait::Poll, 16, 2);
    let first = link(&options).unwrap();
    assert!(link(&options).is_err());
    assert_eq!(segment_names(&options.run_id).len(), 1);
    drop(first);
}

#[test]
fn more_than_one_follower_is_refused() {
    let options = options(Pattern::Ping, Wait::Poll, 16, 2);
    let (mut leader, _follower) = pair(&options);
    let mut second = link(&follower(&options)).unwrap();
    let error = second.connect(&[leader.address().unwrap()], SHORT_NS).unwrap_err();
    assert_eq!(error.status, Status::Invalid);
    assert!(error.message.contains("1 follower"), "{error}");
    let error = leader.connect(&[Vec::new(), Vec::new()], SHORT_NS).unwrap_err();
    assert!(error.message.contains("not 2"), "{error}");
}

#[test]
fn connecting_without_a_peer_ends_in_an_error() {
    let options = options(Pattern::Ping, Wait::Poll, 16, 2);
    assert!(link(&options).unwrap().connect(&[Vec::new()], SHORT_NS).is_err());
    let name = format!("{}-0", options.run_id).into_bytes();
    assert!(link(&follower(&options)).unwrap().connect(&[name], SHORT_NS).is_err());
    assert!(segment_names(&options.run_id).is_empty());
}

/// Total size of /dev/shm.
fn shared_memory_bytes() -> u64 {
    // SAFETY: all zeroes are a valid `statvfs`, which is writable; the path ends with a NUL.
    unsafe {
        let mut found: libc::statvfs = std::mem::zeroed();
        assert_eq!(libc::statvfs(c"/dev/shm".as_ptr(), &raw mut found), 0);
        found.f_blocks * found.f_frsize
    }
}

#[test]
fn what_is_too_large_is_refused_with_numbers_and_a_remedy() {
    let good = options(Pattern::Ping, Wait::Poll, 1024, 16);
    // Other processes may take part of /dev/shm in between.
    wait_for("room for half of what probe allows", || {
        let limits = Shm.probe(&good).ok()?;
        Shm.probe(&NodeOptions { max_payload_bytes: limits.max_payload_bytes / 2, ..good.clone() }).ok()
    });
    for payload in [shared_memory_bytes(), 1 << 50] {
        let error = Shm.probe(&NodeOptions { max_payload_bytes: payload, ..good.clone() }).unwrap_err();
        assert_eq!(error.status, Status::Limit);
        assert!(error.message.contains("remount") && error.message.contains("free"), "{error}");
    }
    let error = Shm.probe(&NodeOptions { max_payload_bytes: u64::MAX, ..good.clone() }).unwrap_err();
    assert_eq!(error.status, Status::Limit);
    let (mut leader, _follower) = pair(&good);
    assert_eq!(leader.loan(1 << 20, None).unwrap_err().status, Status::Limit);
}

#[test]
fn a_segment_that_does_not_fit_is_refused_and_leaves_nothing() {
    let options = options(Pattern::Ping, Wait::Poll, shared_memory_bytes(), 1024);
    let error = link(&options).err().unwrap();
    assert_eq!(error.status, Status::Limit, "{error}");
    assert!(error.message.contains("remount"), "{error}");
    assert!(segment_names(&options.run_id).is_empty());
}

#[test]
fn depth_is_checked() {
    for (depth, status) in [("1", Status::Limit), ("1025", Status::Limit), ("many", Status::Invalid)] {
        let mut options = options(Pattern::Ping, Wait::Poll, 16, 2);
        options.settings.insert("depth".into(), depth.into());
        assert_eq!(Shm.probe(&options).unwrap_err().status, status, "{depth}");
    }
}

#[test]
fn the_limit_fits_into_what_is_free() {
    for (free, depth, directions) in [(1 << 30, 16, 2), (1_000_000, 2, 1), (50_000_000, 1024, 2), (10, 2, 1)] {
        let largest = Geometry::largest_payload(free, depth, directions, 1);
        if largest > 0 {
            assert!(Geometry::new(largest, depth, directions, 1).unwrap().bytes() <= free);
        }
        assert!(Geometry::new(largest + 1, depth, directions, 1).unwrap().bytes() > free);
    }
}

/// Kills a follower: the leader must get time-outs, and not sleep forever.
#[test]
fn a_killed_follower_hangs_nobody() {
    for wait in [Wait::Poll, Wait::Block] {
        let options = options(Pattern::Ping, wait, 16, 2);
        let mut leader = link(&options).unwrap();
        let (address, other) = (leader.address().unwrap(), follower(&options));
        // SAFETY: the child only uses a link of its own, and waits to be killed.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            let mut link = link(&other).unwrap();
            link.connect(&[address], TIMEOUT_NS).unwrap();
            let message = receive(&mut link);
            let _ = send(&mut link, bytes(&message), TIMEOUT_NS);
            let _ = link.take(TIMEOUT_NS);
            thread::sleep(Duration::from_nanos(TIMEOUT_NS));
            // SAFETY: skips the destructors of the parent's values.
            unsafe { libc::_exit(0) };
        }
        leader.connect(&[Vec::new()], TIMEOUT_NS).unwrap();
        assert!(send(&mut leader, &[5], TIMEOUT_NS));
        let message = receive(&mut leader);
        assert_eq!(bytes(&message), [5]);
        // SAFETY: our own child, not reaped yet.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
        leader.release(message);
        assert!(leader.take(SHORT_NS).unwrap().is_none());
        assert!(send(&mut leader, &[6], SHORT_NS));
        assert!(!send(&mut leader, &[7], SHORT_NS), "the message that it held keeps its chunk");
        drop(leader);
        assert_eq!(segment_names(&options.run_id), [""; 0]);
    }
}

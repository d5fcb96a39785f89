//! Driver for tests of transports that copy: leader and follower are two threads of one process.
//!
//! Every function panics on failure, also if nothing happens for [`TIME_LIMIT`]: a watchdog interrupts blocking calls,
//! as the host does. Time-outs only detect hangs: they are long enough for a busy machine.
#![expect(unsafe_code, reason = "the C boundary")]

use crate::export::LinkOf;
use crate::os::errno;
use crate::{Limits, Link, LinkOptions, Node, NodeOptions, Pattern, Result, Role, Status, System, Wait};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Longest wait for a message, even on a busy machine.
pub const TIME_LIMIT: Duration = Duration::from_secs(180);
/// Time-out of a call that must succeed.
pub const PATIENCE_NS: u64 = 60_000_000_000;

/// Transport and messages of a test.
#[derive(Clone, Copy)]
pub struct Case<'a> {
    /// Name of the variant.
    pub variant: &'a str,
    /// Settings that differ from their default.
    pub settings: &'a [(&'a str, &'a str)],
    /// Wait strategy of both sides.
    pub wait: Wait,
    /// Pattern of the messages.
    pub pattern: Pattern,
    /// Bytes per message, and number of messages.
    pub payloads: &'a [(usize, u32)],
}

/// Folder that is removed when dropped.
pub struct Scratch {
    path: PathBuf,
    /// Unique name, which the folder also has.
    pub run_id: String,
}

impl Scratch {
    /// Creates an empty folder.
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // A killed process may have had this process id: the time keeps its names apart from ours.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let run_id = format!("tripmeter-test-{}-{now:x}-{number}", std::process::id());
        let path = std::env::temp_dir().join(&run_id);
        std::fs::create_dir(&path).expect("the test's folder can be created");
        Self { path, run_id }
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Names of its entries.
    pub fn entries(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.path).expect("the test's folder can be read");
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Options of one side.
pub fn options<S: System>(system: &S, role: Role, case: &Case<'_>, scratch: &Scratch) -> NodeOptions {
    let description = system.description();
    let mut settings: std::collections::BTreeMap<_, _> =
        description.settings.into_iter().map(|setting| (setting.name, setting.default)).collect();
    for (name, value) in case.settings {
        let known = settings.insert((*name).to_owned(), (*value).to_owned());
        assert!(known.is_some(), "setting '{name}' is not described");
    }
    NodeOptions {
        role,
        pattern: case.pattern,
        wait: case.wait,
        variant: case.variant.to_owned(),
        settings,
        run_id: scratch.run_id.clone(),
        scratch_dir: scratch.path().to_owned(),
        max_payload_bytes: case.payloads.iter().map(|(bytes, _)| *bytes as u64).max().unwrap_or(0),
        link_count: 1,
        follower_count: 1,
        follower_index: 0,
        unauthorized_peer: None,
        publisher_count: 1,
        local_address: None,
    }
}

/// Limits that `probe` reports for a case. Fails as [`System::probe`].
pub fn probe<S: System>(system: &S, case: &Case<'_>) -> Result<Limits> {
    let scratch = Scratch::new();
    let found = system.probe(&options(system, Role::Leader, case, &scratch));
    assert_eq!(scratch.entries().iter().filter(|name| *name != "queues").count(), 0, "probe left files");
    found
}

/// Link of one side, with checks for tests.
pub struct End<L: Link> {
    link: L,
}

impl<L: Link> End<L> {
    /// Sends a message filled from `seed`.
    pub fn send(&mut self, length: usize, seed: u32) {
        let loan = self.link.loan(length, None).expect("a loan");
        assert_eq!((loan.length, loan.data as usize % 64), (length, 0), "length and alignment of a loan");
        // SAFETY: an open loan of that length.
        fill(unsafe { std::slice::from_raw_parts_mut(loan.data, length) }, seed);
        assert!(self.link.publish(loan, PATIENCE_NS).expect("publish"), "nothing was sent within the time-out");
    }

    /// Receives a message and checks each byte; checks that no second message comes before its release.
    pub fn expect(&mut self, length: usize, seed: u32) {
        let message = self.receive().unwrap_or_else(|error| panic!("message of {length} bytes: {error}"));
        assert_eq!(message.length, length, "length of message {seed}");
        assert_eq!(message.data as usize % 8, 0, "alignment of a message");
        // SAFETY: a message of that length that is held.
        let wrong = check(unsafe { std::slice::from_raw_parts(message.data, length) }, seed);
        assert_eq!(wrong, None, "first wrong byte of message {seed} of {length} bytes");
        assert_eq!(self.link.take(0).expect_err("a second message while one is held").status, Status::Failed);
        self.link.release(message);
    }

    /// Next message, or the error of the transport. Fails as [`Link::take`].
    pub fn receive(&mut self) -> Result<crate::Message> {
        let start = Instant::now();
        loop {
            match self.link.take(PATIENCE_NS) {
                Ok(Some(message)) => return Ok(message),
                Ok(None) => assert!(start.elapsed() < TIME_LIMIT, "no message within the test's time"),
                Err(error) => return Err(error),
            }
            // Two busy polling threads would starve a machine with one CPU.
            thread::yield_now();
        }
    }
}

fn byte(at: usize, seed: u32) -> u8 {
    ((at as u32 ^ seed << 20).wrapping_mul(0x9e37_79b1) >> 23) as u8
}

fn fill(bytes: &mut [u8], seed: u32) {
    for (at, to) in bytes.iter_mut().enumerate() {
        *to = byte(at, seed);
    }
}

fn check(bytes: &[u8], seed: u32) -> Option<usize> {
    bytes.iter().enumerate().position(|(at, found)| *found != byte(at, seed))
}

/// Sends every message there and back, and checks it on both sides.
pub fn ping<S: System>(system: &S, case: &Case<'_>) {
    run(
        system,
        case,
        |end| each(case, |length, seed| (end.send(length, seed), end.expect(length, !seed)).1),
        |end| each(case, |length, seed| (end.expect(length, seed), end.send(length, !seed)).1),
    );
}

/// Sends all messages one way without waiting; checks that none is lost or reordered.
pub fn one_way<S: System>(system: &S, case: &Case<'_>) {
    run(
        system,
        case,
        |end| {
            each(case, |length, seed| end.send(length, seed));
            end.expect(1, 0);
        },
        |end| {
            each(case, |length, seed| end.expect(length, seed));
            end.send(1, 0);
        },
    );
}

/// Sends to a peer that does not receive, until a send times out; then the peer must get all messages sent before.
pub fn back_pressure<S: System>(system: &S, case: &Case<'_>) {
    const LENGTH: usize = 1000;
    let (to_follower, told) = channel();
    let (to_leader, done) = channel();
    let case = Case { payloads: &[(LENGTH, 1)], ..*case };
    run(
        system,
        &case,
        move |end| {
            let stopped = (1..1_000_000).find(|seed| {
                let loan = end.link.loan(LENGTH, None).expect("a loan");
                // SAFETY: an open loan of that length.
                fill(unsafe { std::slice::from_raw_parts_mut(loan.data, LENGTH) }, *seed);
                match end.link.publish(loan, 1_000_000) {
                    Ok(whole) => !whole,
                    // A stream may accept a part of the last message.
                    Err(error) => error.status == Status::Failed || panic!("publish: {error}"),
                }
            });
            to_follower.send(stopped.expect("the queue fills up") - 1).expect("the follower is there");
            done.recv_timeout(TIME_LIMIT).expect("the follower's end");
        },
        move |end| {
            let count = told.recv_timeout(TIME_LIMIT).expect("how many were sent");
            // A queue made small may not hold a single message.
            assert!(count > 0 || !case.settings.is_empty(), "nothing was sent at all");
            for seed in 1..=count {
                end.expect(LENGTH, seed);
            }
            to_leader.send(()).expect("the leader is there");
        },
    );
}

/// Drops `leaver` after one round trip; the other side must get [`Status::Closed`].
pub fn departure<S: System>(system: &S, case: &Case<'_>, leaver: Role) {
    let told = |end: &mut End<_>, role| {
        if role != leaver {
            assert_eq!(end.receive().expect_err("the peer has gone").status, Status::Closed);
            assert_eq!(end.receive().expect_err("the peer is still gone").status, Status::Closed);
        }
    };
    run(
        system,
        case,
        |end| {
            end.send(100, 1);
            end.expect(100, 2);
            told(end, Role::Leader);
        },
        |end| {
            end.expect(100, 1);
            end.send(100, 2);
            told(end, Role::Follower);
        },
    );
}

/// Payload sizes around limits, and up to 1 MiB, each with a number of round trips.
pub const PAYLOADS: &[(usize, u32)] =
    &[(16, 100), (0, 3), (1 << 10, 50), (4080, 3), (4081, 3), (1 << 16, 10), ((1 << 16) + 1, 3), (1 << 20, 3), (1, 3)];

/// Payloads for [`one_way`], in which long and short messages closely follow each other.
pub const MIXED_PAYLOADS: &[(usize, u32)] =
    &[(16, 300), (100_000, 2), (64, 200), (0, 5), (5000, 20), (1, 100), (300_000, 2), (24, 100)];

/// Tests all requirements of a variant, for both wait strategies and each of the settings.
pub fn conformance<S: System>(system: &S, variant: &str, settings: &[&[(&str, &str)]]) {
    let lossy = system.description().variant(variant).expect("a known variant").lossy;
    for wait in [Wait::Poll, Wait::Block] {
        for settings in settings {
            let case = Case { variant, settings, wait, pattern: Pattern::Ping, payloads: PAYLOADS };
            eprintln!("{variant} {settings:?} {wait}");
            ping(system, &case);
            if !lossy {
                one_way(system, &Case { pattern: Pattern::Throughput, payloads: MIXED_PAYLOADS, ..case });
                back_pressure(system, &case);
            }
            let small = Case { payloads: &[(100, 1)], ..case };
            departure(system, &small, Role::Leader);
            departure(system, &small, Role::Follower);
        }
    }
    refusals(system, variant);
}

/// Tests the options that every transport with one follower per link must refuse.
pub fn refusals<S: System>(system: &S, variant: &str) {
    let scratch = Scratch::new();
    let case = Case { variant, settings: &[], wait: Wait::Poll, pattern: Pattern::Ping, payloads: &[(16, 1)] };
    let good = options(system, Role::Leader, &case, &scratch);
    let expect = |options: NodeOptions, status| {
        assert_eq!(system.probe(&options).expect_err("probe").status, status);
        assert_eq!(system.open(&options).err().expect("open").status, status);
    };
    let with = |name: &str, value: &str| {
        let mut options = good.clone();
        options.settings.insert(name.to_owned(), value.to_owned());
        options
    };
    expect(NodeOptions { follower_count: 2, ..good.clone() }, Status::Limit);
    expect(NodeOptions { variant: "no-such".into(), ..good.clone() }, Status::Invalid);
    expect(NodeOptions { wait: Wait::Callback, ..good.clone() }, Status::Invalid);
    expect(NodeOptions { pattern: Pattern::Log, ..good.clone() }, Status::Invalid);
    expect(with("packet", "much"), Status::Invalid);
    expect(with("packet", "1"), Status::Limit);
    expect(with("packet", "99999999999"), Status::Limit);
    let much = NodeOptions { max_payload_bytes: u64::MAX, ..good.clone() };
    assert_eq!(system.open(&much).err().expect("open").status, Status::Limit);
}

fn each(case: &Case<'_>, mut act: impl FnMut(usize, u32)) {
    let mut seed = 0;
    for (length, count) in case.payloads {
        for _ in 0..*count {
            seed += 1;
            act(*length, seed);
        }
    }
}

/// Connects both sides, runs them to their end, and checks that nothing is left behind.
pub fn run<S: System>(
    system: &S,
    case: &Case<'_>,
    leader: impl FnOnce(&mut End<LinkOf<S>>) + Send,
    follower: impl FnOnce(&mut End<LinkOf<S>>) + Send,
) {
    let scratch = Scratch::new();
    let limits = system.probe(&options(system, Role::Leader, case, &scratch)).expect("probe");
    let wanted = options(system, Role::Leader, case, &scratch).max_payload_bytes;
    assert!(limits.max_payload_bytes >= wanted, "{} bytes at most, {wanted} wanted", limits.max_payload_bytes);
    let (to_follower, from_leader) = channel();
    let (to_leader, from_follower) = channel();
    let watchdog = Watchdog::new();
    thread::scope(|scope| {
        scope.spawn(|| watchdog.run());
        let ends = [
            scope.spawn(|| {
                watchdog.watch(0);
                side(system, &options(system, Role::Leader, case, &scratch), to_follower, from_follower, leader);
            }),
            scope.spawn(|| {
                watchdog.watch(1);
                side(system, &options(system, Role::Follower, case, &scratch), to_leader, from_leader, follower);
            }),
        ];
        let results = ends.map(thread::ScopedJoinHandle::join);
        watchdog.stop.store(true, Ordering::Relaxed);
        assert!(results.iter().all(std::result::Result::is_ok), "a side failed, see above");
    });
    let left: Vec<_> = scratch.entries().into_iter().filter(|name| name != "queues").collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

fn side<S: System>(
    system: &S,
    options: &NodeOptions,
    to_peer: Sender<Vec<u8>>,
    from_peer: Receiver<Vec<u8>>,
    act: impl FnOnce(&mut End<LinkOf<S>>),
) {
    let mut node = system.open(options).expect("open");
    let mut link = node.link(&LinkOptions { index: 0, callback: None }).expect("link");
    to_peer.send(link.address().expect("address")).expect("the peer is there");
    let peer = from_peer.recv_timeout(TIME_LIMIT).expect("the peer's address");
    link.connect(&[peer], PATIENCE_NS).expect("connect");
    act(&mut End { link });
}

/// Repeatedly interrupts the two threads, as the host does with overdue calls.
struct Watchdog {
    threads: [AtomicI32; 2],
    stop: AtomicBool,
}

extern "C" fn ignore(_signal: i32) {}

impl Watchdog {
    fn new() -> Self {
        // SAFETY: an all-zero action is valid; the handler does nothing, which is async-signal-safe. SA_RESTART is not set,
        // so that calls end with EINTR.
        let done = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = ignore as extern "C" fn(i32) as usize;
            libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut())
        };
        assert_eq!(done, 0, "sigaction: {}", errno());
        Self { threads: [AtomicI32::new(0), AtomicI32::new(0)], stop: AtomicBool::new(false) }
    }

    fn watch(&self, place: usize) {
        // SAFETY: takes nothing, and returns the thread's id.
        self.threads[place].store(unsafe { libc::gettid() }, Ordering::Relaxed);
    }

    fn run(&self) {
        while !self.stop.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(5));
            for id in self.threads.iter().map(|thread| thread.load(Ordering::Relaxed)).filter(|id| *id != 0) {
                // SAFETY: integers only; a thread of this process, or none, which is an error of the call.
                unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), id, libc::SIGUSR2) };
            }
        }
    }
}

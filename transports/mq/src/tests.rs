#![expect(unsafe_code, reason = "memory and calls as a host has them")]

use super::*;
use crate::limits::Kernel;
use std::ffi::CString;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tripmeter_abi::testing::{self, Case, Scratch};
use tripmeter_abi::{Error, Link, Role, Status, Wait};

const CASE: Case<'_> =
    Case { variant: "queue", settings: &[], wait: Wait::Poll, pattern: Pattern::Ping, payloads: &[(16, 1)] };

const KERNEL: Kernel = Kernel { msg_max: 10, msgsize_max: 8192, rlimit_bytes: 819_200 };

/// Runs the tests of this process one by one: all queues of a user share one limit.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// True if a queue was refused only because of queues that other processes have now.
fn is_crowded(error: &Error) -> bool {
    ["beside those that this user has", "of this host are in use"].iter().any(|text| error.message.contains(text))
}

/// Retries while other processes use the room.
fn patiently<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    loop {
        match attempt() {
            Err(error) if is_crowded(&error) && start.elapsed() < testing::TIME_LIMIT => {
                thread::sleep(Duration::from_millis(5));
            }
            result => return result,
        }
    }
}

struct Patient;

struct PatientNode(MqNode);

impl System for Patient {
    type Node = PatientNode;

    fn description(&self) -> Description {
        Mq.description()
    }

    fn probe(&self, options: &NodeOptions) -> Result<Limits> {
        patiently(|| Mq.probe(options))
    }

    fn open(&self, options: &NodeOptions) -> Result<PatientNode> {
        Mq.open(options).map(PatientNode)
    }
}

impl Node for PatientNode {
    type Link = <MqNode as Node>::Link;

    fn link(&mut self, options: &LinkOptions) -> Result<Self::Link> {
        patiently(|| self.0.link(options))
    }
}

#[test]
fn queue() {
    let _turn = turn();
    testing::conformance(&Patient, "queue", &[&[], &[("packet", "4096")], &[("packet", "512"), ("depth", "2")]]);
}

#[test]
fn the_depth_is_what_the_limits_allow() {
    let depth = |packet, links| KERNEL.shape(packet, None, links).unwrap().depth;
    assert_eq!(depth(8192, 1), 10);
    assert_eq!(depth(8192, 8), 6);
    assert_eq!(depth(64, 1), 10);
}

#[test]
fn limits_too_low_name_the_limit_the_value_and_the_remedy() {
    let text = |packet, depth, links| {
        let error = KERNEL.shape(packet, depth, links).unwrap_err();
        assert_eq!(error.status, Status::Limit);
        error.to_string()
    };
    assert!(text(8193, None, 1).ends_with("raise sysctl fs.mqueue.msgsize_max to 8193"));
    assert!(text(4096, Some(11), 1).ends_with("raise sysctl fs.mqueue.msg_max to 11"));
    let needed = 2 * 20 * 10 * (8192 + 128);
    let memory = text(8192, Some(10), 20);
    assert!(memory.contains("819200") && memory.contains(&format!("ulimit -q {needed}")), "{memory}");
    assert!(text(8192, None, 1000).contains("2000 queues of 1 x 8192"));
}

/// Halves the limit of this process until dropped, so that other processes of this user have room.
struct HalfTheLimit(libc::rlimit);

impl HalfTheLimit {
    fn new() -> Self {
        let mut found = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: writable.
        assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_MSGQUEUE, &mut found) }, 0);
        let half = libc::rlimit { rlim_cur: found.rlim_cur / 2, ..found };
        // SAFETY: readable.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_MSGQUEUE, &half) }, 0);
        Self(found)
    }
}

impl Drop for HalfTheLimit {
    fn drop(&mut self) {
        // SAFETY: readable. A process may always raise the soft limit up to the hard limit.
        unsafe { libc::setrlimit(libc::RLIMIT_MSGQUEUE, &self.0) };
    }
}

#[test]
fn the_kernel_s_charge_is_not_underestimated() {
    let _turn = turn();
    let _half = HalfTheLimit::new();
    // All queues within the limits can be created, unless other processes of this user have some.
    let scratch = Scratch::new();
    for (packet, links) in [("8192", 4), ("64", 2), ("4096", 6)] {
        let case = Case { settings: &[("packet", packet)], ..CASE };
        let options = NodeOptions { link_count: links, ..testing::options(&Mq, Role::Leader, &case, &scratch) };
        let limits = patiently(|| Mq.probe(&options)).unwrap();
        assert_eq!(limits.packet_bytes.to_string(), packet);
    }
}

fn exists(name: &str) -> bool {
    let name = CString::new(name).unwrap();
    // SAFETY: a NUL-terminated name.
    let queue = unsafe { libc::mq_open(name.as_ptr(), libc::O_RDONLY) };
    if queue >= 0 {
        // SAFETY: opened above.
        unsafe { libc::mq_close(queue) };
    }
    queue >= 0
}

#[test]
fn every_queue_is_noted_and_none_is_left() {
    let _turn = turn();
    let scratch = Scratch::new();
    let noted = || {
        let text = std::fs::read_to_string(scratch.path().join("queues")).unwrap_or_default();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let options = testing::options(&Mq, Role::Leader, &CASE, &scratch);
    Patient.probe(&options).unwrap();
    assert!(noted().iter().all(|name| !exists(name)));
    let mut link = Patient.open(&options).unwrap().link(&LinkOptions { index: 3, callback: None }).unwrap();
    let names = noted();
    assert!(names.iter().all(|name| name.starts_with(&format!("/{}-", scratch.run_id))));
    assert_eq!(names.iter().filter(|name| exists(name)).count(), 2, "{names:?}");
    assert_eq!(link.connect(&[Vec::new()], 2_000_000).unwrap_err().status, Status::Failed);
    drop(link);
    assert!(noted().iter().all(|name| !exists(name)));
}

#[test]
fn names_are_gone_once_both_ends_are_connected() {
    let _turn = turn();
    let scratch = Scratch::new();
    let open = |role| {
        let mut node = Patient.open(&testing::options(&Mq, role, &CASE, &scratch)).unwrap();
        node.link(&LinkOptions { index: 0, callback: None }).unwrap()
    };
    let (mut leader, mut follower) = (open(Role::Leader), open(Role::Follower));
    let name = format!("/{}-0-a", scratch.run_id);
    assert!(exists(&name));
    follower.connect(&[Vec::new()], testing::PATIENCE_NS).unwrap();
    leader.connect(&[Vec::new()], testing::PATIENCE_NS).unwrap();
    assert!(!exists(&name));
    let loan = leader.loan(5, None).unwrap();
    assert!(leader.publish(loan, testing::PATIENCE_NS).unwrap());
    assert_eq!(follower.take(0).unwrap().expect("the leader's message").length, 5);
}

#[test]
fn a_follower_without_a_leader_fails_within_the_time_out() {
    let scratch = Scratch::new();
    let options = testing::options(&Mq, Role::Follower, &CASE, &scratch);
    let mut link = Mq.open(&options).unwrap().link(&LinkOptions { index: 0, callback: None }).unwrap();
    assert_eq!(link.connect(&[Vec::new()], 2_000_000).unwrap_err().status, Status::Failed);
}

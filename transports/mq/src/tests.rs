use super::*;
use crate::limits::Kernel;
use std::ffi::CString;
use tripmeter_abi::testing::{self, Case, Scratch};
use tripmeter_abi::{Link, Role, Status, Wait};

const CASE: Case<'_> =
    Case { variant: "queue", settings: &[], wait: Wait::Poll, pattern: Pattern::PingPong, payloads: &[(16, 1)] };

const KERNEL: Kernel = Kernel { msg_max: 10, msgsize_max: 8192, rlimit_bytes: 819_200 };

#[test]
fn queue() {
    testing::conformance(&Mq, "queue", &[&[], &[("packet", "4096")], &[("packet", "512"), ("depth", "2")]]);
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

#[test]
fn the_kernel_s_charge_is_not_underestimated() {
    // As many queues as the limits seem to allow can be made, unless this user has others.
    let scratch = Scratch::new();
    for (packet, links) in [("8192", 4), ("64", 2), ("4096", 6)] {
        let case = Case { settings: &[("packet", packet)], ..CASE };
        let options = NodeOptions { link_count: links, ..testing::options(&Mq, Role::Leader, &case, &scratch) };
        match Mq.probe(&options) {
            Ok(limits) => assert_eq!(limits.packet_bytes.to_string(), packet),
            Err(error) => assert!(error.message.contains("beside those that this user has"), "{error}"),
        }
    }
}

/// Whether a queue of that name exists.
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
    let scratch = Scratch::new();
    let noted = || {
        let text = std::fs::read_to_string(scratch.path().join("queues")).unwrap_or_default();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let options = testing::options(&Mq, Role::Leader, &CASE, &scratch);
    Mq.probe(&options).unwrap();
    assert!(noted().iter().all(|name| !exists(name)));
    let mut link = Mq.open(&options).unwrap().link(&LinkOptions { index: 3, callback: None }).unwrap();
    let names = noted();
    assert!(names.iter().all(|name| name.starts_with(&format!("/{}-", scratch.run_id))));
    assert_eq!(names.iter().filter(|name| exists(name)).count(), 2, "{names:?}");
    assert_eq!(link.connect(&[Vec::new()], 2_000_000).unwrap_err().status, Status::Failed);
    drop(link);
    assert!(noted().iter().all(|name| !exists(name)));
}

#[test]
fn names_are_gone_once_both_ends_are_connected() {
    let scratch = Scratch::new();
    let open = |role| {
        let mut node = Mq.open(&testing::options(&Mq, role, &CASE, &scratch)).unwrap();
        node.link(&LinkOptions { index: 0, callback: None }).unwrap()
    };
    let (mut leader, mut follower) = (open(Role::Leader), open(Role::Follower));
    let name = format!("/{}-0-a", scratch.run_id);
    assert!(exists(&name));
    follower.connect(&[Vec::new()], 1_000_000_000).unwrap();
    leader.connect(&[Vec::new()], 1_000_000_000).unwrap();
    assert!(!exists(&name));
    let loan = leader.loan(5, None).unwrap();
    assert!(leader.publish(loan, 1_000_000_000).unwrap());
    assert_eq!(follower.take(0).unwrap().expect("the leader's message").length, 5);
}

#[test]
fn a_follower_without_a_leader_fails_within_the_time_out() {
    let scratch = Scratch::new();
    let options = testing::options(&Mq, Role::Follower, &CASE, &scratch);
    let mut link = Mq.open(&options).unwrap().link(&LinkOptions { index: 0, callback: None }).unwrap();
    assert_eq!(link.connect(&[Vec::new()], 2_000_000).unwrap_err().status, Status::Failed);
}

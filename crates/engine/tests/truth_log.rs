//! Measurement truth of pattern `log`, on a fake clock: a stalled call shows in one sample, and lost or damaged lines
//! in exactly the right count.
#![allow(clippy::unwrap_used)]

use std::ptr;
use std::sync::atomic::Ordering::Relaxed;
use tripmeter_abi::{Link, LinkOptions, Loan, Message, Node, NodeOptions, Pattern, Result, Role, System, Wait};
use tripmeter_engine::clock::Clock;
use tripmeter_engine::log_check::{LineCheck, LogText};
use tripmeter_engine::measure::logging::LogCaller;
use tripmeter_engine::measure::{Failure, LoopEnd, MOST_SILENT, Shared};
use tripmeter_model::manifest::Counts;
use tripmeter_transport_inmem::{FakeClock, Inmem};

type Ended = std::result::Result<(usize, LoopEnd), Failure>;

const LENGTH: usize = 64;
const COUNT: usize = 100;
const CALL_NS: u64 = 700;
const STALL_NS: u64 = 50_000_000;

#[derive(Clone)]
struct Still(FakeClock);

impl Clock for Still {
    fn now(&self) -> u64 {
        self.0.now_ns()
    }
}

/// Logger with equal call times except one. It keeps its lines, and refuses some at first.
struct Slow {
    clock: FakeClock,
    lines: Vec<u8>,
    calls: usize,
    stalled: usize,
    refuses: u32,
    buffer: [u8; LENGTH + 1],
}

impl Link for Slow {
    fn connect(&mut self, _: &[Vec<u8>], _: u64) -> Result<()> {
        Ok(())
    }

    fn loan(&mut self, length: usize, _: Option<&Message>) -> Result<Loan> {
        // Time before a call is not part of it.
        self.clock.advance(10_000);
        self.buffer[length] = b'\n';
        Ok(Loan { data: self.buffer.as_mut_ptr(), length, token: ptr::null_mut() })
    }

    fn publish(&mut self, _: Loan, _: u64) -> Result<bool> {
        self.clock.advance(CALL_NS);
        if self.refuses > 0 {
            self.refuses -= 1;
            return Ok(false);
        }
        self.calls += 1;
        self.lines.extend_from_slice(&self.buffer);
        if self.calls == self.stalled {
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

/// Samples, lines and the end of the calls.
fn call(stalled: usize, refuses: u32, deadline: u64, shared: &Shared) -> (Vec<u64>, Vec<u8>, Ended) {
    let clock = FakeClock::default();
    let mut link =
        Slow { clock: clock.clone(), lines: Vec::new(), calls: 0, stalled, refuses, buffer: [0; LENGTH + 1] };
    let (text, mut samples) = (LogText::new(LENGTH), vec![0; COUNT]);
    let mut calls = LogCaller {
        link: &mut link,
        clock: Still(clock),
        text: &text,
        length: LENGTH,
        sequence: 0,
        shared,
        timeout_ns: 1_000_000,
        refused: 0,
    };
    let ended = calls.run(&mut samples, deadline);
    let most = if shared.capped.load(Relaxed) > 0 { 3 } else { MOST_SILENT };
    assert_eq!(calls.refused, u64::from(refuses.min(most)));
    (samples, link.lines, ended)
}

fn check(lines: &[u8]) -> Counts {
    let mut check = LineCheck::new(LENGTH, COUNT as u64);
    check.feed(lines);
    check.finish(COUNT as u64).0
}

#[test]
fn a_stall_is_in_exactly_one_sample_and_in_full() {
    let (samples, lines, ended) = call(40, 0, u64::MAX, &Shared::default());
    assert!(matches!(ended, Ok((COUNT, LoopEnd::Full))), "{ended:?}");
    for (index, sample) in samples.iter().enumerate() {
        assert_eq!(*sample, if index == 39 { CALL_NS + STALL_NS } else { CALL_NS }, "{index}");
    }
    assert_eq!(check(&lines), Counts { sent: 100, received: 100, ..Counts::default() });
}

#[test]
fn a_line_that_was_refused_is_logged_later_and_its_call_lasts_until_then() {
    let (samples, lines, _) = call(0, 2, u64::MAX, &Shared::default());
    assert_eq!(samples[0], 3 * CALL_NS + 2 * 10_000);
    assert!(samples[1..].iter().all(|sample| *sample == CALL_NS));
    assert_eq!(check(&lines), Counts { sent: 100, received: 100, ..Counts::default() });
    let (_, lines, ended) = call(0, u32::MAX, u64::MAX, &Shared::default());
    assert!(matches!(ended, Err(Failure::Full { count: MOST_SILENT, .. })) && lines.is_empty(), "{ended:?}");
}

#[test]
fn a_logger_that_stays_full_is_tried_until_the_time_is_over() {
    let shared = Shared::default();
    // The call and three retries are refused.
    shared.capped.store(3 * (CALL_NS + 10_000), Relaxed);
    let (_, lines, ended) = call(0, u32::MAX, u64::MAX, &shared);
    assert!(matches!(ended, Ok((0, LoopEnd::Deadline))) && lines.is_empty(), "{ended:?}");
}

#[test]
fn it_ends_at_the_deadline_and_when_asked_to() {
    let (_, lines, ended) = call(0, 0, 10 * (CALL_NS + 10_000), &Shared::default());
    assert!(matches!(ended, Ok((10, LoopEnd::Deadline))), "{ended:?}");
    assert_eq!(check(&lines), Counts { sent: 100, received: 10, lost: 90, ..Counts::default() });
    let shared = Shared::default();
    shared.stop.store(true, Relaxed);
    assert!(matches!(call(0, 0, u64::MAX, &shared).2, Ok((0, LoopEnd::Stopped))));
    let shared = Shared::default();
    shared.peer_gone.store(true, Relaxed);
    assert!(matches!(call(0, 0, u64::MAX, &shared).2, Err(Failure::PeerGone)));
}

/// Counts of `inmem/log` with a fault.
fn with_fault(name: &str, value: &str) -> Counts {
    let folder = tempfile::tempdir().unwrap();
    let defaults = Inmem.description().settings.into_iter().map(|setting| (setting.name, setting.default));
    let options = NodeOptions {
        role: Role::Leader,
        pattern: Pattern::Log,
        wait: Wait::Block,
        variant: "log".into(),
        settings: defaults.chain([(name.to_owned(), value.to_owned())]).collect(),
        run_id: "truth".into(),
        scratch_dir: folder.path().to_owned(),
        max_payload_bytes: LENGTH as u64,
        link_count: 1,
        follower_count: 1,
        follower_index: 0,
        unauthorized_peer: None,
        publisher_count: 1,
        local_address: None,
    };
    let mut node = Inmem.open(&options).unwrap();
    let mut link = node.link(&LinkOptions { index: 0, callback: None }).unwrap();
    let (text, clock, shared) = (LogText::new(LENGTH), Still(FakeClock::default()), Shared::default());
    let (length, sequence, timeout_ns, refused) = (LENGTH, 0, 0, 0);
    let mut calls =
        LogCaller { link: &mut link, clock, text: &text, length, sequence, shared: &shared, timeout_ns, refused };
    calls.run(&mut [0; COUNT], u64::MAX).unwrap();
    drop(link);
    check(&std::fs::read(options.log_file()).unwrap())
}

#[test]
fn what_happens_to_one_line_is_counted_as_exactly_one() {
    let all = Counts { sent: 100, received: 100, ..Counts::default() };
    assert_eq!(with_fault("lose", ""), all);
    assert_eq!(with_fault("lose", "50"), Counts { received: 99, lost: 1, ..all });
    assert_eq!(with_fault("lose", "100"), Counts { received: 99, lost: 1, ..all });
    assert_eq!(with_fault("lose", "every:10"), Counts { received: 90, lost: 10, ..all });
    assert_eq!(with_fault("damage_body", "1"), Counts { received: 99, damaged: 1, ..all });
    assert_eq!(with_fault("damage", "1"), Counts { received: 99, damaged: 1, lost: 1, ..all });
    assert_eq!(with_fault("duplicate", "7"), Counts { duplicated: 1, ..all });
    assert_eq!(with_fault("reorder", "7"), Counts { reordered: 1, ..all });
    assert_eq!(with_fault("reorder", "100"), all);
}

use super::{HIT, LOSS_TIMEOUT_S, PAYLOAD, PROOF, SAMPLES, WARMUP, check_end};
use crate::common::figures::{counts, followers, times, times_at, value};
use crate::common::{Tripmeter, alone, at_once, folder, manifest};
use tripmeter_model::exit;
use tripmeter_model::figure::Figure;
use tripmeter_model::manifest::{Counts, RunStatus};
use tripmeter_model::metric::Stream;
use tripmeter_model::trial::Trial;

const FOLLOWERS: u64 = 3;
/// Number of a message in the middle of the cell: each follower has its own path proof, whose messages go to all.
const HIT_OF_LEADER: u64 = FOLLOWERS * PROOF + WARMUP + 40;

/// The only trial of a run with several followers, and its part of the table.
fn at_several(settings: &str, loss_timeout_s: u64) -> (Trial, String) {
    let (trial, table) = at_several_of("ping", settings, loss_timeout_s);
    assert_eq!(times(&trial, Figure::RttHalf).unwrap().samples, SAMPLES, "{settings}");
    (trial, table)
}

/// Trial and table as by [`at_several`], for a pattern.
fn at_several_of(pattern: &str, settings: &str, loss_timeout_s: u64) -> (Trial, String) {
    let folder = folder();
    let (transport, output) = (format!("inmem?{settings}"), folder.path().display().to_string());
    let [samples, payload, followers_asked, timeout] =
        [SAMPLES, PAYLOAD, FOLLOWERS, loss_timeout_s].map(|number| number.to_string());
    let words = [
        "ping",
        "-q",
        "--wide",
        &transport,
        "--wait",
        "block",
        "--loss-timeout",
        &timeout,
        "--attempts",
        "1",
        "-n",
        &samples,
    ];
    let rest =
        ["--followers", &followers_asked, "--payloads", &payload, "--touch", "full", "--no-floor", "-o", &output];
    let warmup = WARMUP.to_string();
    let of_pattern = ["--pattern", pattern, "--warmup", &warmup];
    let finished = Tripmeter::new(words.iter().chain(&rest).chain(&of_pattern)).run();
    let finished = check_end(finished, &transport);
    let trial = manifest(folder.path()).sub_experiments[0].cells[0].trials[0].clone();
    assert_eq!(followers(&trial), [0, 1, 2].map(Stream::follower), "{settings}");
    (trial, finished.stdout)
}

#[test]
fn stalls_at_one_follower_show_there_and_at_the_last() {
    const STALL_NS: f64 = 50e6;
    let _alone = alone();
    // More than half of the messages, so that the median includes them.
    let stalls: Vec<String> = (HIT_OF_LEADER - 20..HIT_OF_LEADER + 40).map(|number| format!("{number}:50ms")).collect();
    let (trial, table) = at_several(&format!("at=1&stall={}", stalls.join(",")), 20);
    let one_way = |stream: Stream| times_at(&trial, &stream, Figure::OneWay).unwrap();
    let [first, stalled, third] = [0, 1, 2].map(|at| one_way(Stream::follower(at)));
    let (last, half) = (one_way(Stream::last()), times(&trial, Figure::RttHalf).unwrap());
    for median in [stalled.median, last.median, 2.0 * half.median] {
        assert!(median >= STALL_NS, "{trial:?}");
    }
    for other in [first, third] {
        assert!(other.median < stalled.median, "{trial:?}");
    }
    assert!(last.max >= stalled.max && times(&trial, Figure::OneWay).is_none());
    for of in ["one_way to 0", "one_way to 1", "one_way to 2", "one_way to last", "rtt of last"] {
        assert!(table.contains(of), "{table}");
    }
    // No message arrives before it was sent, or later than its answer.
    for at in [first, stalled, third] {
        assert!(at.max <= last.max && at.max <= 2.0 * half.max, "{trial:?}");
    }
}

#[test]
fn what_happens_at_one_follower_is_counted_exactly_there() {
    let _alone = alone();
    let all = SAMPLES + WARMUP;
    let none = Counts::default();
    // A follower answers only in its own path proof.
    let cases = [
        (format!("at=1&lose={HIT_OF_LEADER}"), 1, 1, Counts { lost: 1, ..none }),
        (format!("at=2&side=follower&lose={HIT}"), 2, 1, Counts { lost: 1, ..none }),
        (format!("at=0&side=follower&duplicate={HIT}"), 0, 0, Counts { duplicated: 1, ..none }),
        (format!("at=1&side=follower&reorder={HIT}"), 1, 1, Counts { late: 1, reordered: 1, ..none }),
        (format!("at=1&side=follower&damage={HIT}"), 1, 1, Counts { damaged: 1, ..none }),
        (format!("at=2&side=follower&damage_body={HIT}"), 2, 1, Counts { damaged: 1, ..none }),
    ];
    at_once(&cases, |(settings, at, unanswered, expected)| {
        let (at, unanswered, expected) = (*at, *unanswered, *expected);
        let (trial, _) = at_several(settings, LOSS_TIMEOUT_S);
        let sent = all + unanswered;
        for follower in 0..3 {
            let expected = if follower == at {
                Counts { sent, received: sent - unanswered, ..expected }
            } else {
                Counts { sent, received: sent, ..none }
            };
            assert_eq!(trial.counts(&Stream::follower(follower)), expected, "{settings}, follower {follower}");
        }
        assert_eq!(counts(&trial), Counts { sent, received: all, ..expected }, "{settings}");
        let has_latency = |stream: &Stream| times_at(&trial, stream, Figure::OneWay).is_some();
        // A single fault leaves all latencies available.
        assert!(followers(&trial).iter().all(has_latency) && has_latency(&Stream::last()), "{settings}");
    });
}

/// One-way messages of the path proof go to all followers.
#[test]
fn what_one_of_several_subscribers_lacks_is_missing_there_and_at_the_last() {
    let _alone = alone();
    let none = Counts::default();
    let cases = [
        (format!("at=1&lose={HIT}"), Counts { lost: 1, ..none }),
        (format!("at=1&duplicate={HIT}"), Counts { duplicated: 1, ..none }),
        (format!("at=1&reorder={HIT}"), Counts { reordered: 1, ..none }),
    ];
    at_once(&cases, |(settings, expected)| {
        let (trial, table) = at_several_of("publish", settings, LOSS_TIMEOUT_S);
        let with = |faults: Counts| Counts { sent: SAMPLES, received: SAMPLES - faults.lost, ..faults };
        assert_eq!(counts(&trial), with(*expected), "{settings}");
        for follower in 0..3 {
            let (at, expected) = (Stream::follower(follower), with(if follower == 1 { *expected } else { none }));
            assert_eq!(trial.counts(&at), expected, "{settings}, {at}");
            assert_eq!(times_at(&trial, &at, Figure::Service).unwrap().samples, expected.received, "{settings}");
        }
        for of in ["response", "service", "service to 0", "service to 1", "service to 2"] {
            assert!(table.contains(of) && !table.contains("rtt of last"), "{table}");
        }
    });
}

/// The counts of all are the worst of any follower.
#[test]
fn what_one_of_several_followers_of_a_stream_lacks_is_missing_there_and_in_all() {
    let _alone = alone();
    let none = Counts::default();
    let cases = [
        (format!("at=1&lose={HIT}"), Counts { lost: 1, ..none }),
        (format!("at=1&duplicate={HIT}"), Counts { duplicated: 1, ..none }),
        (format!("at=1&reorder={HIT}"), Counts { reordered: 1, ..none }),
    ];
    at_once(&cases, |(settings, expected)| {
        let (trial, table) = at_several_of("throughput", settings, LOSS_TIMEOUT_S);
        let with = |faults: Counts| Counts { sent: SAMPLES, received: SAMPLES - faults.lost, ..faults };
        assert_eq!(counts(&trial), with(*expected), "{settings}");
        for follower in 0..3 {
            let (at, expected) = (Stream::follower(follower), with(if follower == 1 { *expected } else { none }));
            assert_eq!(trial.counts(&at), expected, "{settings}, {at}");
            assert!(trial.value(&at, Figure::ReceivedRate) >= value(&trial, Figure::ReceivedRate), "{trial:?}");
        }
        assert_eq!(table.lines().filter(|line| line.starts_with("inmem/")).count(), 3, "{table}");
    });
}

#[test]
fn stalls_at_one_subscriber_show_there_and_at_the_last() {
    const STALL_NS: f64 = 3e9;
    let _alone = alone();
    let (trial, _) = at_several_of("publish", &format!("at=1&stall={HIT}:3s"), 20);
    let at = |follower| times_at(&trial, &Stream::follower(follower), Figure::Service).unwrap();
    let ([first, stalled, third], last) = ([0, 1, 2].map(at), times(&trial, Figure::Service).unwrap());
    assert!(stalled.max >= STALL_NS && last.max >= stalled.max && last.p90 >= stalled.p90, "{trial:?}");
    // The queue behind it holds more than a tenth of all messages. For the others only one is late: once the queue is
    // full, the publisher waits.
    assert!(first.p90 < stalled.p90 && third.p90 < stalled.p90, "{trial:?}");
    let counts = counts(&trial);
    assert_eq!((counts.received, counts.late), (SAMPLES, 0));
}

/// Each follower is a process, on a link over shared memory.
#[test]
fn a_hundred_followers_get_every_message() {
    const SUBSCRIBERS: u32 = 100;
    const MESSAGES: u64 = 5;
    let _alone = alone();
    let folder = folder();
    let (output, subscribers, messages) =
        (folder.path().display().to_string(), SUBSCRIBERS.to_string(), MESSAGES.to_string());
    let words = ["publish", "-q", "shm", "--followers", &subscribers, "--rate", "20"];
    // No message is late on a busy machine.
    let rest = ["-n", &messages, "--payloads", "64", "--no-floor", "--attempts", "1", "--loss-timeout", "15"];
    let finished = Tripmeter::new(words.iter().chain(&rest).chain(&["-o", &output])).run();
    finished.with(exit::GOOD).clean();
    let result = &manifest(folder.path()).sub_experiments[0];
    assert_eq!(result.status, RunStatus::Complete);
    let trial = &result.cells[0].trials[0];
    assert_eq!(followers(trial), (0..SUBSCRIBERS).map(Stream::follower).collect::<Vec<_>>());
    let expected = Counts { sent: MESSAGES, received: MESSAGES, ..Counts::default() };
    for stream in followers(trial).iter().chain([&Stream::all()]) {
        assert_eq!(trial.counts(stream), expected, "{stream}");
    }
}

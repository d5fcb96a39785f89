//! `explain` on transports whose time is known.

use crate::common::{Tripmeter, alone, folder, has_several_cpus, is_required, say};
use serde_json::Value;

fn explained(words: &[&str], code: u8) -> (Value, tempfile::TempDir) {
    let place = folder();
    let usual = ["explain", "-q", "--json", "--no-report", "-o", "r"];
    let done = Tripmeter::new([&usual[..], words].concat()).at(place.path()).run().with(code);
    let found = serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"));
    (found, place)
}

fn find<'a>(found: &'a Value, transport: &str) -> &'a Value {
    let all = found["transports"].as_array().unwrap();
    all.iter().find(|one| one["transport"] == transport).unwrap_or_else(|| panic!("{transport}: {found:#}"))
}

/// Waits examined in addition to the requested one: `poll` only if no CPU is shared.
fn looked_at() -> &'static [&'static str] {
    if has_several_cpus() { &["poll", "block"] } else { &["block"] }
}

fn share(found: &Value, wait: &str, part: &str) -> f64 {
    let waits = found["waits"].as_array().unwrap();
    let parts = &waits.iter().find(|one| one["wait"] == wait).unwrap_or_else(|| panic!("{wait}: {found:#}"))["parts"];
    parts[part].as_f64().unwrap() / parts["total_ns"].as_f64().unwrap()
}

fn calls(found: &Value) -> f64 {
    let calls = found["system_calls"].as_array().unwrap_or_else(|| panic!("{found:#}"));
    calls.iter().map(|call| call["calls"].as_f64().unwrap()).sum()
}

#[test]
fn system_calls_are_those_that_a_transport_makes() {
    let _alone = alone();
    let (found, place) = explained(&["uds", "shm", "-n", "500", "--loss-timeout", "15"], 0);
    let [uds, shm] = ["uds/datagram", "shm/ring"].map(|name| find(&found, name));
    for one in [uds, shm] {
        assert!(one["cost"]["cpu_ns"].as_f64().unwrap() > 0.0 && one["touch_ns"].is_number(), "{one:#}");
        for wait in one["waits"].as_array().unwrap() {
            let parts = wait["parts"].as_object().unwrap();
            let sum: f64 =
                parts.iter().filter(|(name, _)| *name != "total_ns").map(|(_, ns)| ns.as_f64().unwrap()).sum();
            assert!((sum / parts["total_ns"].as_f64().unwrap() - 1.0).abs() < 1e-6, "{one:#}");
        }
    }
    assert_eq!(uds["waits"].as_array().unwrap().len(), looked_at().len(), "{uds:#}");
    match found["no_system_calls"].as_str() {
        None => {
            // One send and one receive.
            assert!((calls(uds) - 2.0).abs() < 0.2, "{uds:#}");
            let bytes: f64 =
                uds["system_calls"].as_array().unwrap().iter().map(|call| call["bytes"].as_f64().unwrap()).sum();
            assert!((bytes / 2048.0 - 1.0).abs() < 0.05, "{uds:#}");
            // A wait without polling takes a call.
            assert!(calls(shm) < if has_several_cpus() { 0.2 } else { 4.0 }, "{shm:#}");
        }
        Some(why) => {
            assert!(!is_required(), "{why}");
            say(&format!("SKIPPED: system calls: {why}"));
        }
    }
    let again = Tripmeter::new(["explain", "--from", "r"]).at(place.path()).run().with(0);
    let wait = looked_at()[0];
    for part in [&*format!("uds/datagram {wait}"), "shm/ring block", "wake-up", "touching"] {
        assert!(again.stdout.contains(part), "{part}: {again:?}");
    }
    assert!(again.stdout.lines().all(|line| line.chars().count() <= 80), "{again:?}");
    let sorted = |column| Tripmeter::new(["explain", "--from", "r", "--sort", column]).at(place.path()).run();
    let first_of_costs = |column| {
        let text = sorted(column).with(0).stdout;
        let mut costs = text.lines().skip_while(|line| !line.contains("per message")).skip(2);
        costs.find(|line| line.contains('/')).unwrap().split(' ').next().unwrap().to_owned()
    };
    let both = [first_of_costs("name"), first_of_costs("name:desc")];
    assert_eq!(both, ["shm/ring", "uds/datagram"]);
    sorted("nope").with(64).one_line(&["no table has a column 'nope'", "kernel", "--sort"]);
    let shown = Tripmeter::new(["show", "r"]).at(place.path()).run().with(0);
    assert!(shown.unwrapped().contains("`tripmeter explain` slowed down by tracing: "), "{shown:?}");
    let exported = Tripmeter::new(["export", "r", "--format", "bencher"]).at(place.path()).run().with(0);
    assert!(exported.stdout.contains(&format!("uds_datagram_{wait} at 1k")), "{exported:?}");
    assert!(!exported.stdout.contains("_stamped") && !exported.stdout.contains("_calls"), "{exported:?}");
    // The folder's own page is kept.
    let refused = Tripmeter::new(["report", "r"]).at(place.path()).run().with(64);
    assert!(refused.stderr.contains("is the page of `tripmeter explain`; name another file"), "{refused:?}");
    Tripmeter::new(["report", "r", "-o", "p.html"]).at(place.path()).run().with(0);
}

#[test]
fn an_injected_delay_shows_in_the_call_that_has_it() {
    let _alone = alone();
    // Longer than a thread waits for a CPU on a busy machine; with large messages the path proof has few.
    let names = ["inmem/queue?stall_sender=every:1:20ms", "inmem/queue?delay=20ms"];
    let (found, _place) = explained(&[names[0], names[1], "-n", "12", "--payload", "64k", "--no-floor"], 0);
    let [sending, receiving] = names.map(|name| find(&found, name));
    for wait in looked_at() {
        assert!(share(sending, wait, "send_ns") > 0.5, "{sending:#}");
        assert!(share(receiving, wait, "receive_ns") > 0.5, "{receiving:#}");
    }
}

#[test]
fn a_transport_that_fails_ends_its_own_part_only() {
    let _alone = alone();
    let words = ["inmem?lose=every:1", "inmem", "-n", "50", "--no-floor", "--loss-timeout", "0.01"];
    let (found, _place) = explained(&words, 75);
    assert!(!find(&found, "inmem/queue?lose=every:1")["missing"].as_array().unwrap().is_empty(), "{found:#}");
    assert!(share(find(&found, "inmem/queue"), "block", "own_ns") > 0.0);
}

#[test]
fn under_callback_no_receive_call_is_stamped() {
    let _alone = alone();
    let (found, _place) = explained(&["inmem", "--wait", "callback", "-n", "50", "--no-floor"], 0);
    let found = find(&found, "inmem/queue");
    let waits: Vec<_> = found["waits"].as_array().unwrap().iter().map(|one| one["wait"].as_str().unwrap()).collect();
    assert_eq!(waits, [&["callback"], looked_at()].concat());
    assert!(share(found, "callback", "send_ns") > 0.0 && share(found, "callback", "receive_ns") == 0.0, "{found:#}");
    assert!(found["waits"][0]["receive_call_ns"].is_null() && found["waits"][1]["receive_call_ns"].is_number());
}

#[test]
fn without_strace_all_else_is_shown() {
    let _alone = alone();
    let words = ["explain", "shm", "-n", "50", "--no-floor", "--no-report", "-o", "r"];
    let place = folder();
    let done = Tripmeter::under(&["env", "PATH=/nowhere"], words).at(place.path()).run().with(0);
    let text = done.unwrapped();
    assert!(text.contains("strace is not installed; install it with `sudo apt-get install strace`"), "{done:?}");
    assert!(text.contains("shm/ring block") && !text.contains("system calls per message"), "{done:?}");
}

#[test]
fn what_has_no_meaning_is_refused() {
    let refused = |words: &[&str], part: &str| {
        Tripmeter::new([&["explain"][..], words].concat()).run().with(64).one_line(&[part]);
    };
    refused(&[], "TRANSPORT");
    refused(&["uds", "--payloads", "1k"], "--payload");
    refused(&["uds", "--touch", "full"], "--touch");
    refused(&["uds", "--json", "--sort", "name"], "--sort");
    Tripmeter::new(["explain", "--from", "/nowhere"]).run().with(66).one_line(&["explain.json"]);
}

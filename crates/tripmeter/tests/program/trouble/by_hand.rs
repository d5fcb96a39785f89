use crate::common::traces::workers;
use crate::common::{LONGEST, Running, Tripmeter, alone, folder, manifest};
use crate::trouble::{cells_on_disk, long_and_after};
use std::path::Path;
use tripmeter_model::exit;
use tripmeter_model::manifest::{RunStatus, Verdict};

fn leader(folder: &Path, results: &Path, transports: &str) -> Tripmeter {
    let words =
        ["ping", "--no-floor", "--rendezvous", transports, "--wait", "block", "-n", "100", "--payloads", "16,64k"];
    let output = results.display().to_string();
    Tripmeter::new(words.iter().chain(&["--rendezvous-timeout", "500", "-o", &output])).temporary(folder)
}

fn follower(folder: &Path) -> Tripmeter {
    Tripmeter::new(["follow", "--timeout", "500"]).temporary(folder)
}

fn waits(run: &mut Running, word: &str) {
    run.until("it to wait", |run| run.said().contains(word));
}

fn check(leader: Running, follower: Running, results: &Path, temporary: &Path) {
    let (leader, follower) = (leader.wait(LONGEST).with(exit::GOOD), follower.wait(LONGEST).with(exit::GOOD));
    let manifest = manifest(results);
    assert_eq!(manifest.status, RunStatus::Complete);
    for result in &manifest.sub_experiments {
        assert_eq!(result.cells.len(), 2, "{result:?}");
        let proof = result.path_proof.as_ref().unwrap();
        assert_eq!(proof.verdict, Verdict::Proven, "{}: {}", result.name, proof.evidence);
    }
    leader.clean();
    follower.clean();
    assert_eq!(std::fs::read_dir(temporary).unwrap().count(), 0);
}

const TRANSPORTS: &str = "uds/stream,shm,mq,pipe,tcp,udp,inmem";

#[test]
fn the_leader_may_come_first() {
    let _alone = alone();
    let (temporary, results) = (folder(), folder());
    let mut first = leader(temporary.path(), results.path(), TRANSPORTS).start();
    waits(&mut first, "waiting for a follower");
    let second = follower(temporary.path()).start();
    check(first, second, results.path(), temporary.path());
}

#[test]
fn the_follower_may_come_first() {
    let _alone = alone();
    let (temporary, results) = (folder(), folder());
    let mut first = follower(temporary.path()).start();
    waits(&mut first, "waiting for a leader");
    let second = leader(temporary.path(), results.path(), TRANSPORTS).start();
    check(second, first, results.path(), temporary.path());
}

#[test]
fn variables_that_only_other_systems_ignore_are_not_reported() {
    let _alone = alone();
    let (temporary, results) = (folder(), folder());
    let words = ["follow", "--timeout", "500"];
    let second = Tripmeter::under(&["env", "ROS_DOMAIN_ID=1", "RMW_IMPLEMENTATION=x"], words);
    let second = second.temporary(temporary.path()).start();
    leader(temporary.path(), results.path(), "uds/stream").run().with(exit::GOOD);
    let second = second.wait(LONGEST).with(exit::GOOD);
    assert!(!second.stderr.contains("ignores"), "{}", second.stderr);
}

#[test]
fn whoever_waits_in_vain_says_so() {
    let temporary = folder();
    let results = temporary.path().join("results");
    let output = results.display().to_string();
    let words = ["ping", "-q", "uds", "--rendezvous", "--rendezvous-timeout", "1", "-o", &output];
    let alone = Tripmeter::new(words).temporary(temporary.path()).run().with(exit::UNAVAILABLE);
    alone.one_line(&["no follower came", "within 1 s", "`tripmeter follow`", "--rendezvous"]).clean();
    assert!(!results.exists());
    let alone = Tripmeter::new(["follow", "--timeout", "1"]).temporary(temporary.path()).run();
    alone.with(exit::UNAVAILABLE).says(&["no leader came", "within 1 s", "`tripmeter ping`"]).clean();
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0);
}

#[test]
fn a_second_leader_does_not_disturb_the_first() {
    let _alone = alone();
    let (temporary, results, other) = (folder(), folder(), folder());
    let mut first = leader(temporary.path(), results.path(), "uds/stream").start();
    waits(&mut first, "waiting for a follower");
    let second = leader(temporary.path(), other.path(), "uds/stream").run().with(exit::UNAVAILABLE);
    second.says(&["another leader waits", "--rendezvous"]).clean();
    let third = follower(temporary.path()).start();
    check(first, third, results.path(), temporary.path());
}

#[test]
fn ctrl_c_ends_the_waiting() {
    let temporary = folder();
    let results = temporary.path().join("results");
    let mut waiting = leader(temporary.path(), &results, "uds").start();
    waits(&mut waiting, "waiting for a follower");
    waiting.signal("INT");
    waiting.wait(LONGEST).with(exit::INTERRUPTED).clean();
    let mut waiting = follower(temporary.path()).start();
    waits(&mut waiting, "waiting for a leader");
    waiting.signal("INT");
    waiting.wait(LONGEST).with(exit::INTERRUPTED).clean();
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0);
}

fn in_the_middle(temporary: &Path, results: &Path) -> (Running, Running) {
    let file = long_and_after(results.parent().unwrap(), "uds/stream", "block").display().to_string();
    let output = results.display().to_string();
    let mut lead = Tripmeter::new(["run", &file, "--rendezvous", "-o", &output]).temporary(temporary).start();
    waits(&mut lead, "waiting for a follower");
    let mut follow = follower(temporary).start();
    lead.until("a first cell", |_| cells_on_disk(results) > 0);
    follow.until("its worker", |run| workers(run.pid()).follower.is_some());
    (lead, follow)
}

#[test]
fn a_follower_that_goes_ends_the_sub_experiments_and_the_leader_tells() {
    let _alone = alone();
    for signal in ["INT", "KILL"] {
        let (temporary, folder) = (folder(), folder());
        let results = folder.path().join("results");
        let (lead, follow) = in_the_middle(temporary.path(), &results);
        follow.signal(signal);
        let followed = follow.wait(LONGEST);
        assert!(matches!(followed.code, None | Some(130)), "{followed:?}");
        let led = lead.wait(LONGEST).with(exit::PARTIAL).says(&["1/2 long", "follower"]).says(&["2/2 after"]);
        assert!(!manifest(&results).sub_experiments[0].cells.is_empty());
        led.clean();
        followed.clean();
        assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0);
    }
}

#[test]
fn a_leader_that_goes_ends_its_follower() {
    let _alone = alone();
    let (temporary, folder) = (folder(), folder());
    let results = folder.path().join("results");
    let (lead, follow) = in_the_middle(temporary.path(), &results);
    lead.signal("INT");
    let led = lead.wait(LONGEST).with(exit::INTERRUPTED);
    follow.wait(LONGEST).with(exit::GOOD).clean();
    led.clean();
    let results = folder.path().join("again");
    let (lead, follow) = in_the_middle(temporary.path(), &results);
    lead.signal("KILL");
    let led = lead.wait(LONGEST);
    follow.wait(LONGEST).with(exit::UNAVAILABLE).says(&["the leader ended"]).clean();
    let next = ["ping", "-q", "uds", "-n", "10", "--payloads", "16", "-o"];
    let output = folder.path().join("next").display().to_string();
    Tripmeter::new(next.iter().chain(&[output.as_str()])).temporary(temporary.path()).run().with(exit::GOOD).clean();
    led.clean();
}

//! Path proof on a plugin that lies about most of its variants.

use crate::common::{LONGEST, Tripmeter, alone, folder, manifest, plugin};
use std::path::Path;
use tripmeter_model::exit;
use tripmeter_model::manifest::{Manifest, PathProof, RunStatus, SubExperimentResult, UnauthorizedPeer, Verdict};
use tripmeter_model::plan::SubExperiment;

fn run(transports: &str, wait: &str, results: &Path) -> crate::common::Finished {
    let (plugin, output) = (plugin("liar").display().to_string(), results.display().to_string());
    let words =
        ["ping", "-q", "--wide", "--plugin", &plugin, transports, "--wait", wait, "-n", "50", "--payloads", "64k"];
    let steady = ["--attempts", "1", "--loss-timeout", "15"];
    Tripmeter::new(words.iter().chain(&steady).chain(&["--no-floor", "-o", &output])).run()
}

fn verdicts(manifest: &Manifest) -> Vec<(String, Verdict, String)> {
    let results = manifest.sub_experiments.iter().zip(&manifest.plan.sub_experiments);
    let one = |(result, plan): (&SubExperimentResult, &SubExperiment)| {
        assert_eq!(result.status, RunStatus::Complete, "{}: {:?}", result.name, result.error);
        let proof = result.path_proof.clone().expect("every path is put to the proof");
        (plan.transport.variant.clone(), proof.verdict, proof.evidence)
    };
    results.map(one).collect()
}

fn every_lie_is_found_out(wait: &str) {
    let _alone = alone();
    let folder = folder();
    let finished = run("liar/*", wait, folder.path()).with(exit::PARTIAL);
    let verdicts = verdicts(&manifest(folder.path()));
    let honest = verdicts.iter().filter(|(variant, ..)| variant.starts_with("honest-")).count();
    assert!(honest >= 6 && verdicts.len() - honest >= 16, "{verdicts:#?}");
    let mut faults = Vec::new();
    for (variant, verdict, evidence) in verdicts {
        let expected = match variant.split('-').next() {
            Some("honest") => Verdict::Proven,
            Some("doubtful") => Verdict::NotVisible,
            _ => Verdict::Failed,
        };
        let is_told = finished.unwrapped().contains(&format!("PATH PROOF FAILED: liar_{variant}_{wait} "));
        if verdict != expected || is_told != (expected == Verdict::Failed) || evidence.is_empty() {
            faults.push(format!("{variant}, {wait}: {verdict:?}, told: {is_told}: {evidence}"));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}\n{}", finished.stdout);
    finished.clean();
}

#[test]
fn every_lie_is_found_out_and_no_honest_word_is_doubted_by_poll() {
    every_lie_is_found_out("poll");
}

#[test]
fn every_lie_is_found_out_and_no_honest_word_is_doubted_by_block() {
    every_lie_is_found_out("block");
}

#[test]
fn one_lie_alone_is_exit_code_75_and_marked_in_the_table() {
    let _alone = alone();
    let folder = folder();
    let finished = run("liar/shm-over-unix", "block", folder.path()).with(exit::PARTIAL);
    let row = finished.stdout.lines().find(|line| line.starts_with("liar/shm-over-unix")).unwrap();
    assert!(row.ends_with("FAILED"), "{}", finished.stdout);
    let manifest = manifest(folder.path());
    assert_eq!(manifest.sub_experiments[0].cells[0].samples, 50, "the figures are kept, and marked");
    finished.clean();
}

/// Path proof of a variant with its unauthorized peers, and the run.
fn unauthorized_peers(variant: &str, wait: &str, code: u8) -> (PathProof, crate::common::Finished) {
    let folder = folder();
    let finished = run(&format!("liar/{variant}"), wait, folder.path()).with(code);
    let result = &manifest(folder.path()).sub_experiments[0];
    assert_eq!((result.status, &result.error), (RunStatus::Complete, &None), "the true pair is not disturbed");
    let counts = result.cells[0].counts();
    assert_eq!((counts.sent, counts.received), (55, 55), "{counts:?}");
    let proof = result.path_proof.clone().unwrap();
    (proof, finished.clean())
}

#[test]
fn who_must_not_be_let_in_is_refused_and_that_is_recorded() {
    let _alone = alone();
    let (proof, finished) = unauthorized_peers("honest-secured", "poll", exit::GOOD);
    let kinds: Vec<_> = proof.unauthorized_peers.iter().map(|trial| (trial.kind, trial.refused)).collect();
    assert_eq!(kinds, [(UnauthorizedPeer::Plain, Some(true)), (UnauthorizedPeer::Foreign, Some(true))]);
    assert!(proof.unauthorized_peers.iter().all(|trial| trial.why.contains("connect failed")), "{proof:?}");
    assert!(finished.unwrapped().contains("ok, secured"), "{}", finished.stdout);

    let (proof, _) = unauthorized_peers("honest-secured-leads", "block", exit::GOOD);
    let [trial] = &proof.unauthorized_peers[..] else { panic!("{proof:?}") };
    assert_eq!((trial.kind, trial.refused), (UnauthorizedPeer::Foreign, Some(true)));
    assert!(trial.waited_ns >= 2_000_000_000 && trial.why.contains("no follower within"), "{trial:?}");
}

#[test]
fn an_unauthorized_peer_that_is_let_in_fails_the_proof() {
    let _alone = alone();
    let (proof, finished) = unauthorized_peers("secured-lets-in", "poll", exit::PARTIAL);
    assert!(proof.unauthorized_peers.iter().all(|trial| trial.refused == Some(false)), "{proof:?}");
    assert!(finished.unwrapped().contains("a peer without security was let in"), "{}", finished.stdout);
}

#[test]
fn an_unauthorized_peer_that_crashes_proves_nothing() {
    let _alone = alone();
    let (proof, finished) = unauthorized_peers("doubtful-secured", "poll", exit::GOOD);
    assert_eq!(proof.verdict, Verdict::NotVisible);
    assert!(
        proof.unauthorized_peers.iter().all(|trial| trial.refused.is_none() && trial.why.contains("abort")),
        "{proof:?}"
    );
    assert!(
        finished.unwrapped().contains("not proven: the unauthorized peer process was ended by signal 6"),
        "{}",
        finished.stdout
    );
}

fn system_v_queues() -> Vec<String> {
    let text = std::fs::read_to_string("/proc/sysvipc/msg").unwrap();
    text.lines().skip(1).filter_map(|line| Some(line.split_whitespace().nth(1)?.to_owned())).collect()
}

#[test]
fn queues_of_system_v_are_message_queues_and_a_socket_is_none() {
    let _alone = alone();
    for wait in ["poll", "block"] {
        let folder = folder();
        let finished = run("liar/honest-mq,liar/mq-over-unix", wait, folder.path()).with(exit::PARTIAL);
        let verdicts = verdicts(&manifest(folder.path()));
        let [(_, honest, proof), (_, lie, contradiction)] = &verdicts[..] else { panic!("{verdicts:?}") };
        assert!(
            *honest == Verdict::Proven && proof.contains("of the first message waited in message-queue"),
            "{verdicts:#?}"
        );
        assert!(*lie == Verdict::Failed && contradiction.contains("no new message-queue in common"), "{verdicts:#?}");
        finished.clean();
    }
}

#[test]
fn queues_of_system_v_that_a_killed_run_left_are_removed_by_the_next() {
    let _alone = alone();
    let (folder, before) = (folder(), system_v_queues());
    let temporary = folder.path().join("t");
    std::fs::create_dir(&temporary).unwrap();
    let (plugin, output) = (plugin("liar").display().to_string(), folder.path().join("long").display().to_string());
    let words = [
        "ping",
        "-q",
        "--wide",
        "--plugin",
        &plugin,
        "liar/honest-mq",
        "-n",
        "100000000",
        "--no-floor",
        "--wait",
        "block",
    ];
    let long = Tripmeter::new(words.iter().chain(&["--payloads", "1k", "-o", &output])).temporary(&temporary);
    let mut long = long.start();
    long.measuring();
    long.signal("KILL");
    let killed = long.wait(LONGEST);
    let _ = killed.left();
    let left: Vec<_> = system_v_queues().into_iter().filter(|queue| !before.contains(queue)).collect();
    assert_eq!(left.len(), 2, "a kill left nothing: the test is none");
    let output = folder.path().join("next").display().to_string();
    let next = ["ping", "uds", "-n", "10", "--payloads", "16", "-o", &output];
    Tripmeter::new(next).temporary(&temporary).run().with(exit::GOOD).says(&["removed"]).clean();
    killed.clean();
    let there = system_v_queues();
    assert!(!left.iter().any(|queue| there.contains(queue)), "{left:?} of {there:?}");
}

#[test]
fn honest_words_alone_are_exit_code_0() {
    let _alone = alone();
    let folder = folder();
    let honest = "liar/honest-unix,liar/honest-tcp,liar/honest-shm,liar/honest-loan";
    let finished = run(honest, "block", folder.path()).with(exit::GOOD);
    assert!(!finished.unwrapped().contains("FAILED"), "{}", finished.stdout);
    finished.clean();
}

//! Processes killed in the middle of a run.

use crate::common::figures::{count, followers, times, times_at};
use crate::common::samples::{all_samples, sample_payloads};
use crate::common::traces::{Workers, names, signal, sleeps, workers};
use crate::common::{Finished, LONGEST, Running, Tripmeter, alone, folder, manifest, result, say, transports};
use crate::trouble::{MANY_PAYLOADS, SAMPLES, cells_on_disk, daemon_of, long_and_after, run_file, variants};
use std::path::Path;
use std::time::Instant;
use tripmeter_model::exit;
use tripmeter_model::figure::Figure;
use tripmeter_model::manifest::{Manifest, PayloadResult, RunStatus};
use tripmeter_model::metric::Stream;

pub(super) fn in_the_middle(run: &mut Running, results: &Path) -> (u32, u32) {
    run.until("a first cell", |_| cells_on_disk(results) > 0);
    let mut found = Workers { leader: None, follower: None };
    run.until("both workers", |run| {
        found = workers(run.pid());
        found.leader.is_some() && found.follower.is_some()
    });
    (found.leader.unwrap(), found.follower.unwrap())
}

/// Checks that the long sub-experiment failed and keeps its results, and that the next one is complete.
fn check_kept(results: &Path) -> Manifest {
    check_kept_of(results, SAMPLES)
}

/// Same check with `samples` per payload of the long one, except for the payload cut short by the failure.
pub(super) fn check_kept_of(results: &Path, samples: usize) -> Manifest {
    let manifest = manifest(results);
    let long = result(&manifest, "long");
    assert_eq!((manifest.status, long.status), (RunStatus::Failed, RunStatus::Failed), "{:?}", long.error);
    let cells = long.cells.len() as u64;
    assert!(0 < cells && cells < MANY_PAYLOADS, "{cells} cells");
    check_rows(results, &long.cells, samples);
    let after = result(&manifest, "after");
    assert_eq!((after.status, after.cells.len()), (RunStatus::Complete, 1), "{:?}", after.error);
    manifest
}

/// Checks that the CSV begins with all samples of these cells.
fn check_rows(results: &Path, cells: &[PayloadResult], samples: usize) {
    let rows = sample_payloads(results, "long");
    let whole = cells.iter().filter(|cell| cell.cut_short.is_none() && cell.samples == samples as u64);
    assert!(whole.count() + 1 >= cells.len(), "{cells:?}");
    let expected: Vec<u64> = cells.iter().flat_map(|cell| vec![cell.payload_bytes; cell.samples as usize]).collect();
    assert!(rows.starts_with(&expected), "{} rows, {} at least", rows.len(), expected.len());
}

pub(super) fn one_complaint(finished: Finished, parts: &[&str]) {
    let finished = finished.with(exit::PARTIAL);
    let complaints: Vec<&str> = finished.stderr.lines().collect();
    assert!(complaints.len() == 1 && parts.iter().all(|part| complaints[0].contains(part)), "{parts:?} {complaints:?}");
    assert!(finished.stdout.contains("FAILED: long"), "{}", finished.stdout);
    finished.clean();
}

#[test]
fn a_killed_follower_ends_its_sub_experiment_only() {
    let _alone = alone();
    for (transport, wait) in variants(&transports()) {
        let folder = folder();
        let results = folder.path().join("results");
        let mut run = run_file(&long_and_after(folder.path(), &transport, wait), &results).start();
        let (_, follower) = in_the_middle(&mut run, &results);
        signal(follower, "KILL");
        let killed = Instant::now();
        let finished = run.wait(LONGEST);
        say(&format!("killed follower: {transport} {wait}: {:.1} s", killed.elapsed().as_secs_f64()));
        one_complaint(finished, &["1/2 long", "follower", "signal 9 (kill)"]);
        check_kept(&results);
    }
}

#[test]
fn one_of_several_followers_that_is_killed_ends_its_sub_experiment_only_and_is_named() {
    let _alone = alone();
    let folder = folder();
    let results = folder.path().join("results");
    let file = long_and_after(folder.path(), "shm/ring", "block");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("name = \"long\"\n", "name = \"long\"\nfollowers = 3\n")).unwrap();
    let mut run = run_file(&file, &results).start();
    let (_, follower) = in_the_middle(&mut run, &results);
    signal(follower, "KILL");
    let finished = run.wait(LONGEST);
    // The leader sees its closed channel, the supervisor its exit.
    let named = |index: u32| {
        finished.stderr.contains(&format!("follower {index} (of 0 to 2) has gone"))
            && finished.stderr.contains(&format!("the process of follower {index} was ended by signal 9 (kill)"))
    };
    assert_eq!((0..3).filter(|index| named(*index)).count(), 1, "{}", finished.stderr);
    one_complaint(finished, &["1/2 long"]);
    check_kept(&results);
}

#[test]
fn a_killed_leader_ends_its_sub_experiment_only() {
    let _alone = alone();
    for (transport, wait) in variants(&transports()) {
        let folder = folder();
        let results = folder.path().join("results");
        let mut run = run_file(&long_and_after(folder.path(), &transport, wait), &results).start();
        let (leader, _) = in_the_middle(&mut run, &results);
        signal(leader, "KILL");
        let killed = Instant::now();
        let finished = run.wait(LONGEST);
        say(&format!("killed leader: {transport} {wait}: {:.1} s", killed.elapsed().as_secs_f64()));
        one_complaint(finished, &["1/2 long", "leader process was ended by signal 9 (kill) in step '"]);
        check_kept(&results);
    }
}

#[test]
fn workers_that_are_killed_while_they_start_leave_nothing() {
    let _alone = alone();
    for ((transport, wait), role) in variants(&transports()).into_iter().zip(["leader", "follower"].into_iter().cycle())
    {
        let folder = folder();
        let results = folder.path().join("results");
        let mut run = run_file(&long_and_after(folder.path(), &transport, wait), &results).start();
        let mut victim = None;
        run.until("a worker", |run| {
            let found = workers(run.pid());
            victim = if role == "leader" { found.leader } else { found.leader.and(found.follower) };
            victim.is_some()
        });
        signal(victim.unwrap(), "KILL");
        let finished = run.wait(LONGEST).with(exit::PARTIAL).says(&["1/2 long", role]);
        assert_eq!(finished.stderr.lines().count(), 1, "{transport}: {}", finished.stderr);
        finished.clean();
        assert_eq!(result(&manifest(&results), "after").status, RunStatus::Complete, "{transport}");
    }
}

#[test]
fn a_killed_supervisor_takes_its_workers_along_and_the_next_run_cleans_up() {
    let _alone = alone();
    // Runs with one temporary folder share daemons, and this run has another; daemons have their own test.
    let known: Vec<_> = transports().into_iter().filter(|row| daemon_of(row).is_none()).collect();
    for (transport, wait) in variants(&known) {
        let folder = folder();
        let temporary = folder.path().join("t");
        std::fs::create_dir(&temporary).unwrap();
        let results = folder.path().join("results");
        let file = long_and_after(folder.path(), &transport, wait);
        let mut run = run_file(&file, &results).temporary(&temporary).start();
        in_the_middle(&mut run, &results);
        run.signal("KILL");
        let killed = run.wait(LONGEST);
        assert_eq!(killed.code, None);
        let manifest = manifest(&results);
        assert_eq!(manifest.status, RunStatus::Running);
        check_rows(&results, &result(&manifest, "long").cells, SAMPLES);
        assert!(!names(killed.pid, &temporary).is_empty(), "{transport}: a kill left nothing: the test is none");
        let again = folder.path().join("again");
        let next = ["ping", "uds", "-n", "10", "--payloads", "16", "-o", &again.display().to_string()];
        let next = crate::trouble::Tripmeter::new(next).temporary(&temporary).run().with(exit::GOOD).says(&["removed"]);
        next.clean();
        killed.clean();
        assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "{transport}");
    }
}

#[test]
fn a_stopped_worker_is_found_out() {
    // It mostly waits, so other tests may run in parallel.
    let folder = folder();
    let results = folder.path().join("results");
    let mut run = run_file(&long_and_after(folder.path(), "uds/stream", "block"), &results).start();
    let (leader, _) = in_the_middle(&mut run, &results);
    signal(leader, "STOP");
    let finished = run.wait(LONGEST);
    one_complaint(finished, &["1/2 long", "no sign of life", "in step '"]);
    check_kept(&results);
}

#[test]
fn a_publisher_or_subscriber_that_is_killed_ends_its_sub_experiment_only() {
    let _alone = alone();
    for (transport, wait, victim) in
        [("uds/stream", "block", "follower"), ("shm/ring", "block", "leader"), ("uds/datagram", "poll", "follower")]
    {
        let folder = folder();
        let results = folder.path().join("results");
        let file = long_and_after(folder.path(), transport, wait);
        let text = std::fs::read_to_string(&file).unwrap();
        let long = "name = \"long\"\npattern = \"publish\"\ntopics = 3\nrate = \"2000\"\n";
        std::fs::write(&file, text.replace("name = \"long\"\n", long)).unwrap();
        // A follower killed at the start of a payload may have received nothing of it.
        let words = ["run".as_ref(), file.as_os_str(), "-q".as_ref(), "--attempts".as_ref(), "1".as_ref()];
        let more = ["--allow-loss".as_ref(), "-o".as_ref(), results.as_os_str()];
        let mut run = Tripmeter::new([words.as_slice(), more.as_slice()].concat()).start();
        let (leader, follower) = in_the_middle(&mut run, &results);
        signal(if victim == "leader" { leader } else { follower }, "KILL");
        let killed = Instant::now();
        let finished = run.wait(LONGEST);
        say(&format!("killed {victim}: {transport} {wait} channel: {:.1} s", killed.elapsed().as_secs_f64()));
        one_complaint(finished, &["1/2 long", victim, "signal 9 (kill)"]);
        let manifest = manifest(&results);
        let long = result(&manifest, "long");
        assert_eq!((manifest.status, long.status), (RunStatus::Failed, RunStatus::Failed), "{:?}", long.error);
        assert!((1..MANY_PAYLOADS as usize).contains(&long.cells.len()), "{} cells", long.cells.len());
        let rows = all_samples(&results, "long").len();
        assert!(rows >= long.cells.len() * SAMPLES * 3, "{rows} rows");
        let after = result(&manifest, "after");
        assert_eq!((after.status, after.cells.len()), (RunStatus::Complete, 1), "{:?}", after.error);
    }
}

/// Receive times are in memory that the leader shares.
#[test]
fn what_came_to_a_follower_until_it_was_killed_keeps_its_latencies_one_way() {
    let _alone = alone();
    for (pattern, more) in [
        ("ping", ["--one-way", "--followers", "1"]),
        ("call", ["--one-way", "--attempts", "1"]),
        ("publish", ["--rate", "2000", "--attempts"]),
    ] {
        let folder = folder();
        let output = folder.path().display().to_string();
        let words = ["ping", "-q", "uds", "--wait", "block", "--no-floor", "--pattern", pattern, "-o", &output];
        let more = more.into_iter().chain((pattern == "publish").then_some("1"));
        let all = words.into_iter().chain(["--payloads", "1k", "--warmup", "10", "-n", "1000000"]).chain(more);
        let mut run = Tripmeter::new(all).start();
        let mut follower = None;
        run.until("both workers", |run| {
            let found = workers(run.pid());
            follower = found.leader.and(found.follower);
            follower.is_some()
        });
        let follower = follower.unwrap();
        // More than path proof and warm-up have.
        run.until("messages", |_| sleeps(follower) > 2000);
        signal(follower, "KILL");
        run.wait(LONGEST).with(exit::PARTIAL).clean();
        let manifest = manifest(folder.path());
        let [cell] = &manifest.sub_experiments[0].cells[..] else { panic!("{:?}", manifest.sub_experiments[0]) };
        assert!(
            cell.cut_short.as_ref().is_some_and(|why| why.to_string().contains("the follower")),
            "{:?}",
            cell.cut_short
        );
        assert!(cell.samples > 500, "{cell:?}");
        let (trial, counts) = (&cell.trials[0], cell.counts());
        if pattern == "publish" {
            let service = times(trial, Figure::Service).unwrap();
            assert_eq!((service.samples, cell.samples), (counts.received, counts.received));
            assert_eq!(counts.sent, counts.received + counts.lost + counts.late);
        } else {
            let one_way = times(trial, Figure::OneWay).unwrap();
            assert!(one_way.mean > 0.0 && count(trial, Figure::OneWayMissing) == 0, "{trial:?}");
            assert_eq!(one_way.samples, cell.samples, "{trial:?}");
        }
    }
}

#[test]
fn one_of_several_subscribers_that_is_killed_is_named_and_what_came_to_all_until_then_is_kept() {
    let _alone = alone();
    let folder = folder();
    let output = folder.path().display().to_string();
    let words = ["ping", "-q", "shm/ring", "--wait", "block", "--no-floor", "--attempts", "1", "-o", &output];
    let more = ["--pattern", "publish", "--rate", "2000", "--followers", "3", "--payloads", "1k"];
    let mut run = Tripmeter::new(words.iter().chain(&more).chain(&["--warmup", "10", "-n", "1000000"])).start();
    let mut follower = None;
    run.until("the workers", |run| {
        let found = workers(run.pid());
        follower = found.leader.and(found.follower);
        follower.is_some()
    });
    let follower = follower.unwrap();
    // More than path proof and warm-up have.
    run.until("messages", |_| sleeps(follower) > 2000);
    signal(follower, "KILL");
    let finished = run.wait(LONGEST).with(exit::PARTIAL).clean();
    let named =
        |index: &u32| finished.stderr.contains(&format!("the process of follower {index} was ended by signal 9"));
    let killed: Vec<u32> = (0..3).filter(named).collect();
    assert_eq!(killed.len(), 1, "{}", finished.stderr);
    let manifest = manifest(folder.path());
    let result = &manifest.sub_experiments[0];
    let [cell] = &result.cells[..] else { panic!("{result:?}") };
    assert_eq!(result.status, RunStatus::Failed);
    let why = cell.cut_short.as_ref().unwrap().to_string();
    assert!(why.contains(&format!("follower {} (of 0 to 2)", killed[0])), "{why}");
    let [trial] = &cell.trials[..] else { panic!("{cell:?}") };
    let (followers, last) = (followers(trial), cell.counts());
    assert_eq!(followers, [0, 1, 2].map(Stream::follower));
    for at in &followers {
        let counts = trial.counts(at);
        assert!(counts.received >= last.received && counts.received > 500, "{trial:?}");
        assert_eq!((counts.sent, counts.sent), (last.sent, counts.received + counts.lost + counts.late), "{at}");
        assert_eq!(times_at(trial, at, Figure::Service).unwrap().samples, counts.received, "{at}");
    }
    assert_eq!((cell.samples, times(trial, Figure::Service).unwrap().samples), (last.received, last.received));
}

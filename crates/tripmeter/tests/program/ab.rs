//! `ab`: two sides measured in pairs; and two experiments compared run by run.

use crate::common::{
    Finished, LONGEST, Running, Tripmeter, alone, folder, manifest, manifest_so_far, repository, say, traces,
};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::manifest::{Manifest, RunStatus, SCHEMA_VERSION};

/// Flags for which a run takes little longer than its start.
const SMALL: [&str; 11] =
    ["-q", "-n", "3", "--payloads", "64k", "--wait", "block", "--attempts", "1", "--loss-timeout", "15"];
/// Delays each of the three messages after the path proof. On a busy machine, one of the three may take as long without
/// a stall, but not two, so the median stays far below.
const SLOW: &str = "inmem?stall=33:200ms,34:200ms,35:200ms";

pub fn ab(place: &TempDir, words: &[&str]) -> Tripmeter {
    Tripmeter::new([&["ab"], words].concat()).at(place.path())
}

pub fn made(folder: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(folder.join("ab.json")).unwrap()).unwrap()
}

pub fn list<'a>(value: &'a Value, name: &str) -> &'a Vec<Value> {
    value[name].as_array().unwrap()
}

/// True if it completed, whatever the verdict.
pub fn is_judged(finished: &Finished) -> bool {
    matches!(finished.code, Some(0 | 1))
}

fn verdict_on_median(made: &Value) -> &str {
    let median = list(made, "comparisons").iter().find(|one| one["statistic"] == "p50");
    median.unwrap()["verdict"].as_str().unwrap()
}

#[test]
fn one_transport_against_itself_has_pairs_in_random_order_and_intervals() {
    let _alone = alone();
    let place = folder();
    let words = ["inmem", "-n", "10", "--payloads", "1k,64k", "--rounds", "8", "--seed", "7", "-o", "r", "--json"];
    let more = ["--wait", "block", "--attempts", "1", "--loss-timeout", "15", "--keep-samples", "2"];
    let words = [&words[..], &more].concat();
    let done = ab(&place, &words).run();
    // The verdict depends on the machine.
    assert!(matches!(done.code, Some(0 | 1)), "{done:?}");
    let done = done.says(&["round 8, 2/2"]).clean();
    let results = place.path().join("r");
    let made = made(&results);
    assert_eq!(serde_json::from_str::<Value>(&done.stdout).unwrap(), made);
    assert_eq!((&made["seed"], &made["rounds"], &made["status"]), (&7.into(), &8.into(), &"complete".into()));
    assert_eq!((&made["a"]["transport"], &made["a"]), (&"inmem/queue".into(), &made["b"]));
    let comparisons = list(&made, "comparisons");
    assert_eq!(comparisons.len(), 4);
    assert_eq!((&made["verdict_version"], &made["command"]), (&"1.1".into(), &"ab".into()));
    assert_eq!((&made["exit_code"], made["figures"].as_array().unwrap().len()), (&done.code.into(), 4));
    assert_eq!((&made["figures"][0]["sub_experiment"], &made["false_discovery_rate"]), (&"b".into(), &0.05.into()));
    for one in comparisons {
        let [low, high] = [0, 1].map(|end| one["interval"][end].as_f64().unwrap());
        let ratio = one["ratio"].as_f64().unwrap();
        assert!(low <= ratio && ratio <= high && one["runs"] == serde_json::json!([8, 8]), "{one}");
        assert!(one["seen_from"].as_f64().unwrap() > 1.0 && one["confidence"].as_f64().unwrap() >= 0.95, "{one}");
        let verdict = one["verdict"].as_str().unwrap();
        assert!(["regressed", "improved", "equivalent", "inconclusive"].contains(&verdict), "{one}");
    }
    let manifest = manifest(&results);
    assert_eq!((manifest.plan.rounds, manifest.plan.seed, manifest.sub_experiments.len()), (8, 7, 16));
    let pairs = list(&made, "pairs");
    assert_eq!(pairs.len(), 16);
    for pair in pairs {
        let round = pair["round"].as_u64().unwrap() as usize;
        assert_eq!(pair["first"], manifest.sub_experiments[2 * (round - 1)].name.as_str(), "{pair}");
        let median = &list(pair, "figures")[0];
        let of = |side: &str| median[side].as_f64().unwrap();
        assert_eq!((&median["figure"], &median["statistic"]), (&"rtt_half_ns".into(), &"p50".into()), "{pair}");
        assert!((median["log_ratio"].as_f64().unwrap() - (of("b") / of("a")).ln()).abs() < 1e-12, "{pair}");
    }
    for first in ["a", "b"] {
        assert!(pairs.iter().any(|pair| pair["first"] == first), "{first} is never first");
    }
    for round in 1..=8 {
        let folder = results.join(format!("round-{round:02}"));
        let has_samples = |side: &&&str| folder.join(format!("samples/{side}.csv")).is_file();
        assert_eq!(["a", "b"].iter().filter(has_samples).count(), if round > 6 { 2 } else { 0 }, "round {round}");
    }
    ab(&place, &["inmem", "--rounds", "9", "-o", "r"]).run().with(73).one_line(&["not empty"]);
}

#[test]
fn what_is_slower_regressed_and_the_other_way_round_it_improved() {
    let _alone = alone();
    let place = folder();
    let compared = |sides: [&str; 2], output: &str, code: u8| {
        let words = [&sides, &SMALL[..], &["--rounds", "8", "-o", output]].concat();
        let done = ab(&place, &words).run().with(code).clean();
        let made = made(&place.path().join(output));
        (done.stdout, verdict_on_median(&made).to_owned())
    };
    let ((text, slower), (_, faster)) = std::thread::scope(|scope| {
        let slower = scope.spawn(|| compared(["inmem", SLOW], "slower", 1));
        let faster = compared([SLOW, "inmem"], "faster", 0);
        (slower.join().unwrap(), faster)
    });
    assert!(text.contains("REGRESSED") && text.contains("stall=33:200ms"), "{text}");
    assert_eq!((slower.as_str(), faster.as_str()), ("regressed", "improved"));
}

#[test]
fn rounds_are_made_until_the_effect_would_be_seen_or_the_budget_is_spent() {
    let _alone = alone();
    let place = folder();
    let words = ["inmem", SLOW, "--budget", "0.01", "--effect", "2.1%", "-o", "spent"];
    let spent = ab(&place, &[&words, &SMALL[..]].concat()).run();
    assert!(is_judged(&spent), "{spent:?}");
    let made = self::made(&place.path().join("spent"));
    assert_eq!((&made["rounds"], &made["stopped"]), (&10.into(), &"the budget is spent".into()));
    assert!(made["rounds_needed"].as_u64().is_none_or(|needed| needed > 10), "{}", made["rounds_needed"]);
    assert!(spent.unwrapped().contains("Too noisy to detect a 2.1 % slowdown"), "{}", spent.stdout);
    assert_eq!(manifest(&place.path().join("spent")).plan.rounds, 10);

    // The sufficient number depends on the machine, so ten rounds are written as a kill could have left them.
    let words = [&[SLOW, SLOW, "--budget", "600", "--effect", "99%", "-o", "enough"][..], &SMALL].concat();
    let mut killed = ab(&place, &words).start();
    let results = place.path().join("enough");
    killed.until("a whole round", |_| results.join("round-02").exists());
    killed.signal("KILL");
    assert_eq!(killed.wait(LONGEST).code, None);
    let file = results.join("manifest.json");
    let mut manifest = crate::common::manifest(&results).whole();
    fs::remove_file(results.join("trials.jsonl")).unwrap();
    let first: Vec<Value> = list(&manifest, "sub_experiments")[..2].to_vec();
    let rounds =
        (1..=10).flat_map(|round| first.iter().enumerate().map(move |(index, run)| (round, index, run.clone())));
    let rounds = rounds.map(|(round, index, mut run)| {
        run["round"] = round.into();
        let statistics = &mut run["cells"][0]["trials"][0]["streams"]["all"]["rtt_half_ns"];
        for (_, value) in
            statistics.as_object_mut().unwrap().iter_mut().filter(|(name, _)| !["n", "within"].contains(&name.as_str()))
        {
            *value = (1000.0 + f64::from(round * (index as u32 + 3) % 5)).into();
        }
        run
    });
    manifest["sub_experiments"] = rounds.collect();
    fs::write(&file, manifest.to_string()).unwrap();
    ab(&place, &words).run().with(0);
    let made = self::made(&results);
    assert_eq!((&made["rounds"], &made["stopped"]), (&10.into(), &"enough to detect the effect".into()));
    assert!(made["rounds_needed"].as_u64().is_some_and(|needed| needed <= 10), "{made}");
}

fn so_far(results: &Path) -> Option<Manifest> {
    manifest_so_far(results)
}

/// Kills the leader of a run from the second round on, and of later runs if it had already ended; returns the failed
/// round.
fn kill_a_leader(running: &mut Running, results: &Path) -> u32 {
    let (mut killed, mut failed) = (0, 0);
    running.until("a failed run", |running| {
        // If one process leads before and after, it belongs to the run that the manifest names last.
        let leader = traces::workers(running.pid()).leader;
        let Some(manifest) = so_far(results) else { return false };
        let runs = &manifest.sub_experiments;
        if let Some(run) = runs.iter().find(|run| run.status == RunStatus::Failed) {
            failed = run.round;
            return true;
        }
        let is_next = runs.len() > killed && runs.last().is_some_and(|run| run.round > 1 && run.cells.is_empty());
        if let Some(leader) = leader.filter(|_| is_next)
            && traces::workers(running.pid()).leader == Some(leader)
        {
            killed = runs.len();
            // The leader may have ended just now.
            let _ = Command::new("kill").arg("-KILL").arg(leader.to_string()).output().expect("kill is installed");
        }
        false
    });
    failed
}

#[test]
fn a_failing_side_is_reported_and_its_rounds_are_in_no_verdict() {
    let _alone = alone();
    let place = folder();
    let mut running = ab(&place, &[&[SLOW, SLOW, "--rounds", "7", "-o", "r"], &SMALL[..]].concat()).start();
    kill_a_leader(&mut running, &place.path().join("r"));
    let done = running.wait(LONGEST).with(75).clean();
    let made = made(&place.path().join("r"));
    let failures = list(&made, "failures");
    assert!(failures.len() == 1 && failures[0]["why"].as_str().unwrap().contains("signal 9"), "{failures:?}");
    let letter = failures[0]["side"].as_str().unwrap().to_uppercase();
    assert!(done.unwrapped().contains(&format!("FAILED: {letter}, round ")), "{}", done.stdout);
    assert!(list(&made, "comparisons").iter().all(|one| one["runs"] == serde_json::json!([6, 6])), "{made}");

    let lost = ["inmem", "inmem?lose=every:1", "--rounds", "6", "--loss-timeout", "0.001", "-o", "lost"];
    let done = ab(&place, &[&lost, &SMALL[..9]].concat()).run().with(75).clean();
    assert!(
        done.unwrapped().contains("No pair was measured.") && done.stdout.contains("FAILED: B, round 6"),
        "{}",
        done.stdout
    );

    let damaged = ["inmem", "inmem?damage=every:100", "--rounds", "6", "--loss-timeout", "1", "-o", "damaged"];
    let rest = ["-q", "-n", "300", "--payloads", "64k", "--wait", "block", "--attempts", "1"];
    let done = ab(&place, &[&damaged[..], &rest].concat()).run().with(75).clean();
    assert!(done.unwrapped().contains("messages came damaged") && done.stdout.contains("FAILED: B"), "{}", done.stdout);

    // Damage during the path proof only.
    let damaged = ["inmem", "inmem?damage_body=10,20", "--rounds", "6", "--touch", "full", "-o", "proof"];
    let done = ab(&place, &[&damaged[..], &["--loss-timeout", "1"], &rest].concat()).run().with(75).clean();
    assert!(
        done.unwrapped().contains("2 messages came damaged") && done.stdout.contains("FAILED: B"),
        "{}",
        done.stdout
    );
}

#[test]
fn what_was_measured_before_a_kill_is_judged() {
    let _alone = alone();
    let place = folder();
    let mut killed = ab(&place, &[&["inmem", SLOW, "--rounds", "500", "-o", "r"], &SMALL[..]].concat()).start();
    let results = place.path().join("r");
    killed.until("seven rounds", |_| results.join("round-08").exists());
    killed.signal("KILL");
    assert_eq!(killed.wait(LONGEST).code, None);
    let partial = made(&results);
    assert!(partial["status"] == "running" && partial["rounds"].as_u64().unwrap() >= 7, "{partial}");
    assert_eq!(verdict_on_median(&partial), "regressed");

    let mut stopped = ab(&place, &[&["inmem", SLOW, "--rounds", "500", "-o", "s"], &SMALL[..]].concat()).start();
    stopped.until("two rounds", |_| place.path().join("s/round-03").exists());
    stopped.signal("INT");
    let done = stopped.wait(LONGEST).with(130).clean();
    assert!(done.unwrapped().contains("INTERRUPTED") && made(&place.path().join("s"))["status"] == "interrupted");
}

/// Sides in measurement order, with the medians measured.
fn measured(results: &Path) -> Vec<(u32, String, Vec<f64>)> {
    let manifest = manifest(results);
    let medians = |cells: &[tripmeter_model::manifest::PayloadResult]| {
        cells.iter().filter_map(|cell| cell.trials[0].of_all(Figure::RttHalf, Statistic::P50)).collect()
    };
    let of =
        |result: tripmeter_model::manifest::SubExperimentResult| (result.round, result.name, medians(&result.cells));
    manifest.sub_experiments.into_iter().map(of).collect()
}

#[test]
fn what_is_killed_anywhere_goes_on_in_the_order_of_its_seed() {
    let _alone = alone();
    let place = folder();
    let words =
        |output: &'static str| [&["inmem", SLOW, "--rounds", "6", "--seed", "7", "-o", output], &SMALL[..]].concat();
    let whole = ab(&place, &words("whole")).run();
    assert!(is_judged(&whole), "{whole:?}");
    let order = |measured: &[(u32, String, Vec<f64>)]| -> Vec<(u32, String)> {
        measured.iter().map(|(round, name, _)| (*round, name.clone())).collect()
    };
    let expected = order(&measured(&place.path().join("whole")));
    assert_eq!(expected.len(), 12);
    let results = place.path().join("r");
    let (seed, mut kills) = (fastrand::u64(..), 0);
    let mut random = fastrand::Rng::with_seed(seed);
    say(&format!("kills by seed {seed}"));
    loop {
        let killed = ab(&place, &words("r")).start();
        let patience = whole.took.mul_f64(random.f64() * 0.6);
        let begin = std::time::Instant::now();
        while kills < 3 && begin.elapsed() < patience {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        if kills == 3 {
            let done = killed.wait(LONGEST).clean();
            assert!(is_judged(&done), "{done:?}");
            break;
        }
        killed.signal("KILL");
        let ended = killed.wait(LONGEST);
        if !is_judged(&ended) {
            kills += 1;
            assert_eq!(ended.code, None, "it was killed");
            let before = if results.join("manifest.json").exists() { measured(&results) } else { Vec::new() };
            assert_eq!(order(&before), expected[..before.len()], "the order after {kills} kills");
            // Killed between its verdict and its end.
            if results.join("ab.json").exists() && made(&results)["status"] == "complete" {
                break;
            }
            continue;
        }
        break;
    }
    let after = measured(&results);
    assert_eq!(order(&after), expected);
    crate::metrics::check(&results);
    let made = made(&results);
    assert_eq!(
        (&made["status"], &made["rounds"], &made["failures"]),
        (&"complete".into(), &6.into(), &serde_json::json!([]))
    );
    assert!(list(&made, "comparisons").iter().all(|one| one["runs"] == serde_json::json!([6, 6])), "{made}");
    assert!(list(&made, "resumptions").len() <= kills as usize, "{made}");
    ab(&place, &words("r")).run().with(73).one_line(&["not empty"]);
}

#[test]
fn what_was_killed_before_its_verdict_was_written_is_judged_by_the_same_command() {
    let _alone = alone();
    let place = folder();
    let words = [&["inmem", SLOW, "--rounds", "6", "--seed", "7", "-o", "r"], &SMALL[..]].concat();
    assert!(is_judged(&ab(&place, &words).run()));
    let (results, judged) = (place.path().join("r"), made(&place.path().join("r")));
    // State after the last round, when the manifest says that everything is measured.
    let unjudged = fs::read_to_string(results.join("ab.json")).unwrap();
    let unjudged = unjudged.replacen("\"status\": \"complete\"", "\"status\": \"running\"", 1);
    let of_tomorrow =
        unjudged.replacen(&format!("\"schema_version\": \"{SCHEMA_VERSION}\""), "\"schema_version\": \"4.0\"", 1);
    fs::write(results.join("ab.json"), of_tomorrow).unwrap();
    ab(&place, &words).run().with(65).one_line(&["ab.json' has schema version 4.0"]);
    // As large as with many pairs.
    fs::write(results.join("ab.json"), unjudged + &" ".repeat(5 << 20)).unwrap();
    assert_eq!(made(&results)["status"], "running");
    assert!(is_judged(&ab(&place, &words).run().clean()));
    let again = made(&results);
    assert_eq!((&again["status"], &again["comparisons"]), (&judged["status"], &judged["comparisons"]));
    assert_eq!(list(&again, "resumptions").len(), 1);
}

#[test]
fn rounds_that_were_measured_and_sides_that_failed_stay_over_a_kill() {
    let _alone = alone();
    let place = folder();
    let given = [SLOW, SLOW, "--rounds", "8", "-o", "r"];
    let words = |more: &[&'static str]| [&given, &SMALL[..], more].concat();
    let results = place.path().join("r");
    let mut running = ab(&place, &words(&[])).start();
    let failed = kill_a_leader(&mut running, &results);
    ab(&place, &words(&[])).run().with(73).one_line(&["another ab is using", "-o"]);
    running.until("a whole round", |_| {
        so_far(&results).is_some_and(|so_far| so_far.sub_experiments.last().is_some_and(|run| run.round > failed + 1))
    });
    running.signal("KILL");
    assert_eq!(running.wait(LONGEST).code, None);
    let before = measured(&results);
    let refused = |more: &[&'static str], parts: &[&str]| {
        ab(&place, &words(more)).run().with(65).one_line(parts);
    };
    refused(&["--warmup", "7"], &["'r' was started", "sub_experiments[0].warmup", "7 now", "-o"][1..]);
    refused(&["--seed", "12345"], &["seed", "12345 now"]);
    refused(&["--margin", "3%"], &["question.margin 0.02 before, 0.03 now"]);
    refused(&["--env-b", "X=Y"], &["sub_experiments[1].environment"]);
    assert_eq!(measured(&results), before, "a refusal changes nothing");

    let done = ab(&place, &words(&[])).run().with(75).clean();
    let [resumption] = &manifest(&results).resumptions[..] else { panic!("it was resumed once") };
    let whole = resumption.after_round as usize;
    assert!(whole as u32 > failed && before.len() <= 2 * whole + 2, "{resumption:?}, {before:?}");
    assert!(
        done.unwrapped().contains(&format!("RESUMED 1 time, the last time after round {whole}")),
        "{}",
        done.stdout
    );
    let is_told = done.unwrapped().contains(&format!("round {failed}: ")) && done.stdout.contains("FAILED: ");
    assert!(is_told, "{}", done.stdout);
    let (after, made) = (measured(&results), made(&results));
    assert_eq!(after[..2 * whole], before[..2 * whole], "what was measured counts");
    assert_eq!((after.len(), list(&made, "failures").len()), (16, 1), "{made}");
    assert!(list(&made, "comparisons").iter().all(|one| one["runs"] == serde_json::json!([7, 7])), "{made}");
}

#[test]
fn each_side_has_its_own_plugins_and_environment() {
    let _alone = alone();
    let place = folder();
    let (sources, header) = (repository().join("examples/c-transport"), repository().join("crates/abi/include"));
    let mut make = Command::new("make");
    make.arg("-s").arg("-C").arg(place.path()).arg("-f").arg(sources.join("Makefile"));
    make.arg(format!("VPATH={}", sources.display())).arg(format!("HEADER_DIR={}", header.display()));
    assert!(make.status().expect("make is installed").success());
    let built = place.path().join("build/tripmeter_example.so");
    for side in ["old", "new"] {
        fs::create_dir(place.path().join(side)).unwrap();
        fs::copy(&built, place.path().join(side).join("tripmeter_example.so")).unwrap();
    }
    // With these variables the dynamic linker leaves a file for each process.
    let traces = place.path().join("linked").display().to_string();
    let variables = [("LD_DEBUG", "files"), ("LD_DEBUG_OUTPUT", &traces)];
    let [first, second] = variables.map(|(name, value)| format!("{name}={value}"));
    let sides = ["example", "--transports-a", "old", "--transports-b", "new", "--env-b", &first, "--env-b", &second];
    let done = ab(&place, &[&sides[..], &["--rounds", "6", "-o", "r"], &SMALL[..]].concat()).run();
    assert!(matches!(done.code, Some(0 | 1)), "{done:?}");
    let made = made(&place.path().join("r"));
    for (side, folder) in [("a", "old"), ("b", "new")] {
        let plugin = made[side]["plugin"].as_str().unwrap();
        assert!(plugin.ends_with(&format!("{folder}/tripmeter_example.so")), "{plugin}");
        assert!(done.unwrapped().contains(plugin), "{}", done.stdout);
    }
    let expected: serde_json::Map<_, _> =
        variables.map(|(name, value)| (name.to_owned(), value.into())).into_iter().collect();
    assert_eq!((&made["a"]["environment"], &made["b"]["environment"]), (&serde_json::json!({}), &expected.into()));
    let files = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    // A leader and a follower per round, and the process that reads the description; of B alone.
    let count = files.filter(|name| name.starts_with("linked.")).count();
    assert!((12..24).contains(&count), "{count}");

    fs::create_dir(place.path().join("empty")).unwrap();
    let refused = |words: &[&str], code, parts: &[&str]| ab(&place, words).run().with(code).one_line(parts);
    refused(&["uds", "--transports-b", "empty"], 66, &["'empty'", "tripmeter_uds.so", "--transports-b"]);
    refused(&["uds", "--transports-a", "nowhere"], 66, &["'nowhere'"]);
}

#[test]
fn libraries_that_only_one_side_loaded_are_reported_and_a_search_path_without_effect_too() {
    let _alone = alone();
    let place = folder();
    let other = place.path().join("other");
    fs::create_dir(&other).unwrap();
    // A library that every program made by rustc loads.
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let mut files = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    let copy = other.join("libgcc_s.so.1");
    fs::copy(files.find(|file| file.contains("/libgcc_s.so")).unwrap(), &copy).unwrap();
    let run = |folder: &Path, output: &str| {
        let variable = format!("LD_LIBRARY_PATH={}", folder.display());
        let sides = ["uds", "--env-b", &variable, "--rounds", "6", "-o", output];
        let done = ab(&place, &[&sides[..], &SMALL].concat()).run();
        assert!(matches!(done.code, Some(0 | 1)), "{done:?}");
        done.stdout
    };
    let (told, same) = std::thread::scope(|scope| {
        let same = scope.spawn(|| run(&place.path().join("nowhere"), "same-libraries"));
        (run(&other, "other-libraries"), same.join().unwrap())
    });
    assert!(
        told.contains(&format!("only B loaded '{}'", copy.display())) && told.contains("only A loaded '"),
        "{told}"
    );
    assert!(same.contains("SAME LIBRARIES: both sides loaded the same"), "{same}");
}

#[test]
fn what_cannot_be_judged_is_refused_before_anything_runs() {
    let place = folder();
    let refused = |words: &[&str], parts: &[&str]| {
        ab(&place, words).run().with(64).one_line(parts);
    };
    refused(&["uds", "--rounds", "5"], &["--rounds 5", "6 to 1000"]);
    refused(&["uds", "--rounds", "8", "--budget", "60"], &["--rounds", "--budget"]);
    refused(&["uds", "--margin", "10%"], &["effect of 10 %", "margin of 10 %", "--effect"]);
    refused(&["uds", "--margin", "2"], &["--margin", "2% or 0.02"]);
    refused(&["uds", "--power", "40%"], &["40 %", "--power"]);
    refused(&["uds", "--budget", "0"], &["--budget 0 s", "above 0"]);
    refused(&["uds/*"], &["'uds/*'", "several transports"]);
    refused(&["uds", "tcp,udp"], &["'tcp,udp'", "several transports"]);
    refused(&["uds", "usd"], &["did you mean"]);
    refused(&["uds", "--env-a", "PATH"], &["--env-a", "KEY=VALUE"]);
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "something was made");
}

#[test]
fn experiments_with_several_rounds_are_compared_run_by_run() {
    let _alone = alone();
    let place = folder();
    let run = |transport: &str, payloads: &str, rounds: &str, output: &str| {
        let file = place.path().join("experiment.toml");
        fs::write(&file, format!("[[sub_experiment]]\nname = \"it\"\ntransport = \"{transport}\"\n")).unwrap();
        let words = ["run", "experiment.toml", "-q", "--no-floor", "-n", "3", "--payloads", payloads];
        let rest = ["--wait", "block", "--attempts", "1", "--loss-timeout", "15", "--rounds", rounds, "-o", output];
        Tripmeter::new(words.iter().chain(&rest)).at(place.path()).run().with(0);
    };
    let compare = |reference: &str, results: &str, more: &[&str]| {
        let words = ["compare", reference, results];
        Tripmeter::new([&words, more].concat()).at(place.path()).run()
    };
    run("inmem", "64k", "5", "fast");
    run(SLOW, "64k", "5", "slow");
    let done = compare("fast", "slow", &[]).with(1);
    assert!(done.unwrapped().contains("5+5") && done.stdout.contains("REGRESSED"), "{}", done.stdout);
    let done = compare("slow", "fast", &["--json", "--margin", "5%"]).with(0);
    let made: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(
        (&made["method"], &made["passed"], &made["question"]["margin"]),
        (&"ranks".into(), &true.into(), &0.05.into())
    );
    assert_eq!((verdict_on_median(&made), &made["comparisons"][0]["sub_experiment"]), ("improved", &"it".into()));
    compare("fast", "slow", &["--threshold", "10%"]).with(64).one_line(&["--threshold", "--method threshold"]);
    compare("fast", "slow", &["--method", "threshold"]).with(1);
    compare("fast/round-01", "slow/round-01", &[]).with(1);
    compare("fast/round-01", "fast/round-02", &["--margin", "5%"]).with(64).one_line(&["--margin", "--threshold"]);

    run("inmem", "1k", "5", "other");
    compare("fast", "other", &[]).with(65).one_line(&["nothing to compare"]);
    run("inmem", "64k", "3", "few");
    compare("fast", "few", &["--method", "ranks"]).with(65).one_line(&["'few'", "3", "4 on each side", "--rounds"]);
    let done = compare("fast", "few", &["--figures", "loss_share"]).with(0);
    assert!(done.stderr.contains("5 and 3 rounds are too few") && done.stdout.contains("passed"), "{done:?}");
    let manifest = place.path().join("slow/manifest.json");
    let trials = manifest.with_file_name("trials.jsonl");
    let measured = fs::read_to_string(&trials).unwrap();
    fs::write(&trials, measured.replacen("\"damaged\":0", "\"damaged\":2", 1)).unwrap();
    let done = compare("fast", "slow", &[]).with(75);
    assert!(done.unwrapped().contains("it, round 1 of the results: 2 messages came damaged"), "{}", done.stdout);
    compare("fast", "slow", &["--allow-damage"]).with(1);
    // Two records of the first round have the proof: one made with the proof, one at the end.
    fs::write(&trials, measured.replacen("\"verdict\":\"proven\"", "\"verdict\":\"failed\"", 2)).unwrap();
    let done = compare("fast", "slow", &[]).with(75);
    assert!(done.unwrapped().contains("FAILED: it, round 1 of the results: its path proof failed"), "{}", done.stdout);
}

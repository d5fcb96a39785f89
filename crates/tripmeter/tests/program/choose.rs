use crate::common::{Tripmeter, alone, folder, manifest};
use serde_json::Value;
use tempfile::TempDir;
use tripmeter_model::Pattern;

const WORKLOAD: [&str; 7] = ["choose", "--payload", "1k", "--rate", "500", "--loss-timeout", "15"];

fn choose(place: &TempDir, words: &[&str]) -> Tripmeter {
    Tripmeter::new([&WORKLOAD, words].concat()).at(place.path())
}

#[test]
fn transports_are_ranked_under_the_workload_and_so_are_the_results() {
    let _alone = alone();
    let place = folder();
    let words = ["inmem", "shm", "-n", "20", "--rounds", "6", "--attempts", "1", "-q", "--max-loss", "50%", "-o", "r"];
    let done = choose(&place, &words).run();
    let measured = manifest(&place.path().join("r"));
    // A machine that stalls briefly misses the rate, and that transport has failed.
    let has_missed = |system: &str| {
        let of = measured.sub_experiments.iter().filter(|sub| sub.name.starts_with(system));
        of.flat_map(|sub| &sub.cells).flat_map(|cell| &cell.trials).any(|trial| trial.rate_missed)
    };
    let missed = ["inmem", "shm"].map(has_missed);
    let code = u8::from(missed == [true, true]);
    let done = done.with(code);
    let verdicts = missed.map(|missed| if missed { "FAILED" } else { "met" });
    for part in [
        "Which transport for 1k at 500 /s to 1 subscriber? (6 rounds",
        "inmem/queue",
        "shm/ring",
        verdicts[0],
        verdicts[1],
    ] {
        assert!(done.stdout.contains(part), "{part}: {done:?}");
    }
    assert_eq!((measured.plan.rounds, measured.sub_experiments.len()), (6, 12));
    assert!(measured.plan.sub_experiments.iter().all(|sub| sub.pattern == Pattern::Publish && sub.samples == 20));
    let page = std::fs::read_to_string(place.path().join("r/report.html")).unwrap();
    assert!(page.contains("Which transport for 1k at 500 /s to 1 subscriber?"), "the page answers what was asked");
    let from = ["choose", "--from", "r", "--max-loss", "50%"];
    let sorted = |column| Tripmeter::new([&from[..], &["--sort", column]].concat()).at(place.path()).run();
    let by_name = sorted("name:desc").with(code).stdout;
    assert!(by_name.find("shm/ring ").unwrap() < by_name.find("inmem/queue").unwrap(), "{by_name}");
    sorted("nope").with(64).one_line(&["no table has a column 'nope'", "p99", "publisher_cpu ('CPU pub')", "--sort"]);
    let again = Tripmeter::new(from).at(place.path()).run().with(code);
    assert_eq!(again.stdout, done.stdout);
    let json = Tripmeter::new([&from[..], &["--json", "--max-latency", "1ns"]].concat()).at(place.path()).run().with(1);
    let blocks: Value = serde_json::from_str(&json.stdout).unwrap();
    let rows = blocks["blocks"][1]["table"]["rows"].as_array().unwrap();
    assert!(rows.len() == 2 && rows.iter().all(|row| row["limits"] == "FAILED"), "{blocks}");
    Tripmeter::new(["choose", "--from", "r", "--payload", "2k"])
        .at(place.path())
        .run()
        .with(65)
        .one_line(&["--payload"]);
}

#[test]
fn results_that_are_no_publishing_are_named_with_the_command_that_measures() {
    let _alone = alone();
    let place = folder();
    let at = |words: &[&str]| Tripmeter::new(words).at(place.path());
    let usual = ["inmem", "--payloads", "1k", "--no-floor", "--attempts", "1", "--allow-loss", "-q"];
    at(&[&["ping"], &usual[..], &["-n", "10", "-o", "trips"]].concat()).run().with(0);
    at(&[&["throughput"], &usual[..], &["--duration", "0.1", "-o", "stream"]].concat()).run().with(0);
    let question = ["--payload", "2k", "--rate", "30"];
    for (folder, what) in [("trips", "round trips (`ping`)"), ("stream", "throughput")] {
        let asked = [&["choose", "--from", folder], &question[..]].concat();
        let command = "`tripmeter choose --payload 2k --rate 30 inmem/queue`";
        at(&asked).run().with(65).one_line(&[what, command]);
    }
    at(&["choose", "--from", "trips", "--wait", "block"]).run().with(64).one_line(&["--from", "--wait"]);
}

#[test]
fn the_budget_bounds_the_messages_and_the_experiment_can_be_printed() {
    let place = folder();
    let printed = choose(&place, &["shm", "inmem", "--budget", "40", "--print"]).run().with(0);
    let samples = printed.stdout.lines().find_map(|line| line.strip_prefix("samples = ")?.parse::<u64>().ok()).unwrap();
    // 12 runs of 2 s, and their messages.
    assert!((20..=400).contains(&samples), "{printed:?}");
    for part in ["pattern = \"publish\"", "rounds = 6", "1024"] {
        assert!(printed.stdout.contains(part), "{part}: {printed:?}");
    }
    choose(&place, &["shm", "inmem", "--budget", "3"]).run().with(64).one_line(&["--budget", "--rounds"]);
    choose(&place, &["--payloads", "1k"]).run().with(64).one_line(&["--payload"]);
    Tripmeter::new(["choose"]).at(place.path()).run().with(64).one_line(&["--payload", "--rate"]);
}

//! Long and large runs: memory with histograms only, rounds whose samples are removed in turn, and the cost of commands
//! on many sub-experiments.

use crate::common::{LONGEST, Tripmeter, alone, folder, manifest};
use std::collections::BTreeMap;
use std::path::Path;
use tripmeter_model::exit;
use tripmeter_model::figure::Figure;
use tripmeter_model::manifest::RunStatus;
use tripmeter_model::metric::{Process, Stream};

/// Samples go only into a histogram for longer than the supervisor waits for a heartbeat.
#[test]
#[ignore = "takes 25 s of two CPUs"]
fn a_payload_that_takes_long_shows_signs_of_life() {
    let _alone = alone();
    let folder = folder();
    let results = folder.path().join("results");
    let words = ["ping", "shm", "--wait", "poll", "--payloads", "64", "--raw", "none", "-n", "1000000000000"];
    let words =
        words.iter().copied().chain(["--time-cap", "25", "--attempts", "1", "-q", "-o", results.to_str().unwrap()]);
    Tripmeter::new(words).run().with(0).clean();
    let cell = manifest(&results).sub_experiments.remove(0).cells.remove(0);
    assert!(cell.samples > 1 << 20, "{} samples", cell.samples);
}

#[test]
fn calls_without_raw_samples_need_the_same_memory_however_many_they_are() {
    let _alone = alone();
    let peak_bytes = |calls: &str| {
        let folder = folder();
        let results = folder.path().join("results");
        let words = ["call", "shm", "--payloads", "64", "--raw", "none", "--attempts", "1", "--loss-timeout", "15"];
        let words = words.iter().copied().chain(["-q", "-n", calls, "-o", results.to_str().unwrap()]);
        Tripmeter::new(words).run().with(0).clean();
        let cell = manifest(&results).sub_experiments.remove(0).cells.remove(0);
        assert_eq!(cell.samples.to_string(), calls);
        [Process::Leader, Process::Follower]
            .map(|process| cell.trials[0].value(&Stream::process(process), Figure::PeakMemory).unwrap())
    };
    let (few, many) = (peak_bytes("50000"), peak_bytes("250000"));
    for (few, many) in few.into_iter().zip(many) {
        assert!(many <= 1.05 * few, "{few} bytes of 50,000 calls, {many} of 250,000");
    }
}

fn files_below(folder: &Path) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (path, about) = (entry.path(), entry.metadata().unwrap());
        if about.is_dir() {
            found.extend(files_below(&path));
        } else {
            found.insert(path.display().to_string(), about.len());
        }
    }
    found
}

fn sample_files(results: &Path) -> Vec<String> {
    let all =
        files_below(results).into_keys().filter(|name| name.contains("/samples/") || name.contains("/measurements_"));
    all.map(|name| name[results.to_str().unwrap().len() + 1..].to_owned()).collect()
}

/// Eight rounds, killed after the third and resumed: each round has its own files, and samples of the newest two stay.
#[test]
fn samples_of_the_newest_rounds_stay_and_figures_of_all() {
    let _alone = alone();
    const NAMES: [&str; 2] = ["uds_datagram_block", "tcp_loopback_block"];
    let folder = folder();
    let results = folder.path().join("results");
    let output = results.display().to_string();
    let words =
        ["ping", "uds", "tcp", "--wait", "block", "--payloads", "64", "-n", "300", "--no-floor", "-q", "-o", &output];
    let more = ["--rounds", "8", "--keep-samples", "2", "--raw", "samples,eprosima", "--attempts", "1"];
    let mut run = Tripmeter::new(words.iter().chain(&more)).start();
    run.until("the fifth round", |_| results.join("round-05").exists());
    run.signal("KILL");
    run.wait(LONGEST);
    let before = manifest(&results);
    assert!(!results.join("round-01/samples").exists(), "{:?}", sample_files(&results));
    Tripmeter::new(["run", "-q", "--resume", &output]).run().with(0).clean();
    let whole = manifest(&results);
    assert_eq!((whole.plan.keep_samples, whole.sub_experiments.len()), (Some(2), 16));
    let mut kept: Vec<String> = ["round-07", "round-08"]
        .iter()
        .flat_map(|round| {
            NAMES.map(|name| [format!("{round}/samples/{name}.csv"), format!("{round}/measurements_{name}.csv")])
        })
        .flatten()
        .collect();
    kept.sort();
    assert_eq!(sample_files(&results), kept);
    for result in &whole.sub_experiments {
        assert_eq!(result.cells[0].samples, 300, "{} of round {}", result.name, result.round);
        let round = format!("round-{:02}", result.round);
        assert!(results.join(&round).join("histograms").join(format!("{}.hlog", result.name)).exists());
        let known = before.sub_experiments.iter().find(|old| (old.round, &old.name) == (result.round, &result.name));
        // Completed results are unchanged.
        if let Some(old) = known.filter(|old| old.status == RunStatus::Complete) {
            assert_eq!(format!("{:?}", old.cells), format!("{:?}", result.cells));
        }
    }
    // Figures cover all rounds, and do not need the samples.
    let shown = Tripmeter::new(["show", &output]).run().with(0).stdout;
    assert!(shown.contains("median of 8 rounds"), "{shown}");
    for name in kept {
        std::fs::remove_file(results.join(name)).unwrap();
    }
    assert_eq!(Tripmeter::new(["show", &output]).run().with(0).stdout, shown);
}

/// Leaves the state of a killed run: only the lines of trials that `is_kept` accepts.
pub fn as_if_killed(results: &Path, is_kept: impl Fn(&str) -> bool, change: impl FnOnce(&mut serde_json::Value)) {
    let [trials, made] = ["trials.jsonl", "manifest.json"].map(|name| results.join(name));
    let lines = std::fs::read_to_string(&trials).unwrap();
    let kept: String = lines.split_inclusive('\n').filter(|line| is_kept(line)).collect();
    assert!(kept.len() < lines.len());
    std::fs::write(&trials, kept).unwrap();
    let mut manifest: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&made).unwrap()).unwrap();
    (manifest["results"], manifest["status"]) = (0.into(), "running".into());
    change(&mut manifest);
    std::fs::write(&made, manifest.to_string()).unwrap();
}

/// The plan gets the number of rounds that fit, and the samples of the last stay. The second case ends in its first
/// round, and on a busy machine so does the first.
#[test]
fn rounds_are_repeated_for_a_time() {
    let _alone = alone();
    for (time, for_ns) in [("3s", 3_000_000_000), ("0.001s", 1_000_000)] {
        let folder = folder();
        let results = folder.path().join("results");
        let output = results.display().to_string();
        let words = ["ping", "uds", "--wait", "block", "--payloads", "64", "-n", "100", "--no-floor", "-q"];
        let begin = std::time::Instant::now();
        let more = ["--for", time, "--keep-samples", "1", "-o", &output];
        Tripmeter::new(words.iter().chain(&more)).run().with(0).clean();
        assert!(begin.elapsed().as_nanos() >= u128::from(for_ns));
        let whole = manifest(&results);
        assert_eq!(whole.plan.rounds as usize, whole.sub_experiments.len());
        assert_eq!((whole.status, whole.plan.for_ns), (RunStatus::Complete, Some(for_ns)));
        let newest = format!("round-{:02}/", whole.plan.rounds);
        assert!(sample_files(&results).iter().all(|name| name.starts_with(&newest)));
        Tripmeter::new(["run", "-q", "--resume", &output]).run().with(0).clean();
        assert_eq!(manifest(&results).sub_experiments.len(), whole.sub_experiments.len());
        // Only the missing round is measured, although its time is over and many more would fit into an hour.
        as_if_killed(
            &results,
            |line| !line.contains("\"round\":1,"),
            |made| {
                made["plan"]["for_ns"] = 3_600_000_000_000_u64.into();
                made["status"] = "failed".into();
            },
        );
        let said = Tripmeter::new(["run", "--resume", &output]).run().with(0).clean().stderr;
        assert!(
            said.contains("the time of the run (--for 60 minutes) is over, so no further round is measured"),
            "{said}"
        );
        let again = manifest(&results);
        assert_eq!((again.plan.rounds, again.sub_experiments.len()), (whole.plan.rounds, whole.sub_experiments.len()));
        let missing = match whole.plan.rounds {
            1 => "all from round 1 on".to_owned(),
            _ => format!("{}, round 1", whole.sub_experiments[0].name),
        };
        assert_eq!(again.resumptions.last().unwrap().rest, [missing]);
    }
    for (flags, part) in
        [(["--for", "3d"], "10m or 24h"), (["--for", "0"], "above 0"), (["--keep-samples", "1"], "there is one round")]
    {
        Tripmeter::new(["ping", "uds"].iter().chain(&flags)).run().with(64).says(&[part]).clean();
    }
}

/// A run killed before its first complete round is repeated for the full time, and says so at the start.
#[test]
fn a_resumed_run_says_for_how_long_it_goes_on() {
    let _alone = alone();
    let folder = folder();
    let results = folder.path().join("results");
    let output = results.display().to_string();
    let words = ["ping", "uds", "--wait", "block", "--payloads", "64", "-n", "100", "--no-floor", "-q"];
    let more = ["--for", "0.001s", "--attempts", "1", "-o", &output];
    Tripmeter::new(words.iter().chain(&more)).run().with(0).clean();
    as_if_killed(
        &results,
        |line| !line.contains("\"round\":1,"),
        |made| made["plan"]["for_ns"] = 3_600_000_000_000_u64.into(),
    );
    let mut run = Tripmeter::new(["run", "--resume", &output]).start();
    run.until("a round that is whole", |_| results.join("round-02").exists());
    run.signal("INT");
    let said = run.wait(LONGEST).with(exit::INTERRUPTED).clean().stderr;
    assert!(said.contains("no round is complete; rounds are repeated for 60 minutes (--for)"), "{said}");
    // The completed rounds count towards the hour.
    let mut again = Tripmeter::new(["run", "--resume", &output]).start();
    again.until("its first words", |run| run.said().contains("continuing"));
    again.signal("INT");
    let said = again.wait(LONGEST).stderr;
    assert!(
        said.contains(" complete; rounds are repeated for another ") && said.contains(" (--for 60 minutes)"),
        "{said}"
    );
}

/// If the time ends in the first round, that round has its own folder.
#[test]
fn one_round_of_a_time_has_its_folder_and_everything_finds_it() {
    let _alone = alone();
    let folder = folder();
    let results = folder.path().join("results");
    let output = results.display().to_string();
    let words = ["ping", "uds", "--wait", "block", "--payloads", "64,128", "-n", "100", "--no-floor", "-q"];
    let more = ["--for", "0.001s", "--attempts", "1", "-o", &output];
    Tripmeter::new(words.iter().chain(&more)).run().with(0).clean();
    let whole = manifest(&results);
    assert_eq!((whole.plan.rounds, whole.plan.round_folders), (1, true));
    let names: Vec<&str> = whole.plan.sub_experiments.iter().map(|sub| sub.name.as_str()).collect();
    let expected: Vec<String> = names.iter().map(|name| format!("round-01/samples/{name}.csv")).collect();
    assert_eq!(sample_files(&results), expected);
    let plots = folder.path().join("plots");
    Tripmeter::new(["export", &output, "--format", "svg", "-o", plots.to_str().unwrap()]).run().with(0);
    assert!(plots.join("round-01").join(names[0]).is_dir(), "{:?}", files_below(&plots));
    let (first, last) = (format!("\"{}\"", names[0]), "\"payload_bytes\":128");
    let is_end = |line: &str| line.contains(last) || line.contains("\"status\":\"complete\"");
    as_if_killed(&results, |line| !(line.contains(&first) && is_end(line)), |made| made["status"] = "failed".into());
    Tripmeter::new(["run", "-q", "--resume", &output]).run().with(0).clean();
    let resumed = manifest(&results);
    assert_eq!((resumed.plan.rounds, resumed.plan.round_folders), (1, true));
    assert_eq!(resumed.sub_experiments.iter().map(|one| one.cells.len()).collect::<Vec<_>>(), vec![2; names.len()]);
    assert_eq!(resumed.resumptions[0].rest, [format!("{}, round 1", names[0])]);
    assert_eq!(sample_files(&results), expected);
}

/// Too many rounds to be read back are refused before measuring, even if the command sets their number.
#[test]
fn more_rounds_than_can_be_read_are_refused() {
    let folder = folder();
    let at = |words: &[&str]| Tripmeter::new(words).at(folder.path()).run().with(64);
    at(&["run", "interference", "--rounds", "10080"]).says(&["results hold at most 100000", "--rounds"]);
    let choose = ["choose", "inmem", "--payload", "1k", "--rate", "100", "--keep-samples", "1", "--rounds", "1"];
    at(&choose).one_line(&["there is one round"]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Starts a command, and prints its CPU seconds and peak kB as counted by the kernel.
const USED: &str = "import os, sys
null = [(os.POSIX_SPAWN_OPEN, 1, '/dev/null', os.O_WRONLY, 0)]
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=null)
_, status, usage = os.wait4(pid, 0)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))";

fn used(place: &Path, words: &[&str]) -> [f64; 2] {
    let done = Tripmeter::under(&["python3", "-c", USED], words).at(place).run().with(0);
    let numbers: Vec<f64> = done.stdout.split_whitespace().map(|number| number.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

/// Makes results of `count` sub-experiments, copies of the only one of `of`, and a matching experiment file. Also makes
/// a folder with `count` runs, and results that lack the last sub-experiment.
fn repeated(of: &Path, place: &Path, count: usize) {
    let read = |name: &str| std::fs::read_to_string(of.join(name)).unwrap();
    let name = |number: usize| format!("sub-{number:04}");
    let was = format!("\"{}\"", manifest(of).sub_experiments[0].name);
    let copy = |text: &str, number: usize| text.replace(&was, &format!("\"{}\"", name(number)));
    let mut made: serde_json::Value = serde_json::from_str(&read("manifest.json")).unwrap();
    let sub = made["plan"]["sub_experiments"][0].to_string();
    let subs = (0..count).map(|number| serde_json::from_str(&copy(&sub, number)).unwrap()).collect();
    (made["plan"]["sub_experiments"], made["results"]) = (serde_json::Value::Array(subs), count.into());
    let (trials, log) = (read("trials.jsonl"), read(&format!("histograms/{}.hlog", was.trim_matches('"'))));
    for (folder, kept, status) in [("whole", count, "complete"), ("rest", count - 1, "interrupted")] {
        let folder = place.join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        (made["results"], made["status"]) = (kept.into(), status.into());
        std::fs::write(folder.join("manifest.json"), made.to_string()).unwrap();
        let all: String = (0..kept).map(|number| copy(&trials, number)).collect();
        std::fs::write(folder.join("trials.jsonl"), all).unwrap();
        std::fs::create_dir(folder.join("histograms")).unwrap();
        for number in 0..kept {
            std::fs::write(folder.join(format!("histograms/{}.hlog", name(number))), &log).unwrap();
        }
    }
    let mut plan = "floor = false\nsamples = 100\n".to_owned();
    for number in 0..count {
        plan += &format!(
            "[[sub_experiment]]\ntransport = 'uds'\nname = '{}'\npayloads = '{}'\n",
            name(number),
            64 + number
        );
        let run = place.join("runs").join(name(number));
        std::fs::create_dir_all(&run).unwrap();
        for file in ["manifest.json", "trials.jsonl"] {
            std::fs::copy(of.join(file), run.join(file)).unwrap();
        }
    }
    std::fs::write(place.join("plan.toml"), plan).unwrap();
}

/// CPU time and memory per sub-experiment must not double with four times as many; quadratic time would quadruple them.
#[test]
fn what_a_command_needs_for_a_sub_experiment_does_not_grow_with_their_number() {
    let _alone = alone();
    let folder = folder();
    let one = folder.path().join("one");
    let words =
        ["ping", "uds", "--wait", "block", "--payloads", "64", "-n", "100", "--no-floor", "-q", "--raw", "none"];
    Tripmeter::new(words.iter().chain(&["-o", one.to_str().unwrap()])).run().with(0).clean();
    let commands: [&[&str]; 5] = [
        &["show", "whole"],
        &["report", "whole", "-o", "page.html"],
        &["history", "runs"],
        &["run", "plan.toml", "--print"],
        &["run", "--resume", "rest", "-q"],
    ];
    const COUNTS: [usize; 3] = [10, 200, 800];
    let mut found = Vec::new();
    for count in COUNTS {
        let place = folder.path().join(count.to_string());
        repeated(&one, &place, count);
        found.push(commands.map(|words| used(&place, words)));
    }
    for (index, words) in commands.iter().enumerate() {
        for (at, what) in ["CPU seconds", "kB"].iter().enumerate() {
            let [none, few, many] = [0, 1, 2].map(|count: usize| found[count][index][at]);
            crate::common::say(&format!("{}: {what} {none} {few} {many}", words.join(" ")));
            // The expected factor is four; half of the need of few is noise.
            let times = (COUNTS[2] - COUNTS[0]) as f64 / (COUNTS[1] - COUNTS[0]) as f64;
            let most = none + 2.0 * times * (few - none).max(0.0) + none / 2.0;
            assert!(many < most, "{words:?}: {what} of {COUNTS:?}: {none} {few} {many}, at most {most}");
        }
    }
}

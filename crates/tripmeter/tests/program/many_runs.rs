//! `limits --runs`, and the manifests' influence on commands that judge.

use crate::common::{Finished, LONGEST, Tripmeter, alone, folder, manifest};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A small experiment: two payloads of one transport, with a wait that works on one CPU.
// Damage of a discarded attempt counts, too, so there is one.
const SMALL: [&str; 9] = ["--no-floor", "--payloads", "16,64", "-n", "200", "--wait", "block", "--attempts", "1"];
const NAME: &str = "uds_datagram_block";
const LIMITS: &str = "sub_experiment,payload_bytes,offered_load,stream,figure,statistic,limit\n";

fn tripmeter(place: &TempDir, words: &[&str]) -> Tripmeter {
    Tripmeter::new(words).at(place.path())
}

fn limits(place: &TempDir, median_us: f64) {
    let row = |bytes| format!("{NAME},{bytes},closed,all,rtt_half_ns,p50,{}\n", 1e3 * median_us);
    fs::write(place.path().join("limits.csv"), format!("{LIMITS}{}", [16, 64].map(row).concat())).unwrap();
}

/// Replaces a text that must be in the file.
fn replace(file: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains(from), "no {from} in {text}");
    fs::write(file, text.replace(from, to)).unwrap();
}

#[test]
fn runs_are_continued_after_a_kill_and_an_interruption() {
    let _alone = alone();
    let place = folder();
    // Each run takes seconds longer, and there are many, so that the command does not end before it is stopped.
    let slow = "floor = false\n[[sub_experiment]]\ntransport = \"inmem?stall=4200:2s\"\n";
    fs::write(place.path().join("slow.toml"), slow).unwrap();
    let fixed = ["limits", "--runs", "8", "--of", "slow.toml", "--loss-timeout", "15"];
    let words = [&fixed[..], &SMALL[1..]].concat();
    let runs = place.path().join("limits_runs");
    let under_way =
        || (1..=8_u32).find(|run| runs.join(format!("run-{run:04}.unfinished/manifest.json")).exists()).unwrap_or(0);
    let mut killed = tripmeter(&place, &words).start();
    let mut at_kill = 0;
    killed.until("some run from the third on", |_| {
        at_kill = under_way();
        at_kill >= 3
    });
    killed.signal("STOP");
    tripmeter(&place, &words).run().with(73).one_line(&["another command is using"]);
    killed.signal("KILL");
    assert_eq!(killed.wait(LONGEST).code, None);
    assert!(!place.path().join("limits.csv").exists());
    let first = fs::read(runs.join("run-0001/manifest.json")).unwrap();

    let mut interrupted = tripmeter(&place, &words).start();
    interrupted.until("a later run", |_| under_way() > at_kill);
    interrupted.signal("INT");
    interrupted.wait(LONGEST).with(130).says(&["stopped at run ", " of 8", "to continue"]).clean();

    tripmeter(&place, &words).run().with(0).says(&["run 8 of 8"]).clean();
    let entries = fs::read_dir(&runs).unwrap().map(|entry| entry.unwrap());
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    let expected: Vec<_> =
        std::iter::once(".lock".to_owned()).chain((1..=8).map(|run| format!("run-{run:04}"))).collect();
    assert_eq!(names, expected);
    assert_eq!(fs::read(runs.join("run-0001/manifest.json")).unwrap(), first, "a finished run was made again");
    for run in 1..=8 {
        let made = manifest(&runs.join(format!("run-{run:04}")));
        assert!(made.sub_experiments[0].cells.iter().all(|cell| cell.samples == 200), "run {run}");
    }
    let limits = fs::read_to_string(place.path().join("limits.csv")).unwrap();
    // A header, and p50, p99 and loss of two payloads.
    assert_eq!(limits.lines().count(), 7, "{limits}");

    tripmeter(&place, &["limits", "limits_runs", "-o", "again.csv"]).run().with(0);
    assert_eq!(fs::read_to_string(place.path().join("again.csv")).unwrap(), limits);
    let other = [&words[..], &["-n", "100"]].concat();
    let other: Vec<_> = other.into_iter().filter(|word| *word != "200").collect();
    let position = other.iter().position(|word| *word == "-n").unwrap();
    let other = [&other[..position], &other[position + 1..]].concat();
    tripmeter(&place, &other).run().with(65).says(&["run-0001", "other settings", "--runs-dir"]);
    tripmeter(&place, &["limits", "limits_runs", "--of", "quick"]).run().with(64).one_line(&["--of"]);
    tripmeter(&place, &["limits"]).run().with(64);
    tripmeter(&place, &["limits", "limits_runs", "--percentile", "101"]).run().with(64).one_line(&["101"]);
}

#[test]
fn limits_from_too_few_runs_say_which_of_them_fail() {
    let _alone = alone();
    let place = folder();
    let measure = [&["ping", "uds", "-q", "-o", "runs/run-1", "--raw", "none"][..], &SMALL].concat();
    tripmeter(&place, &measure).run().with(0);
    let trials = |number: u32| place.path().join(format!("runs/run-{number}/trials.jsonl"));
    for number in [2, 3] {
        fs::create_dir(trials(number).parent().unwrap()).unwrap();
        for name in ["manifest.json", "trials.jsonl"] {
            fs::copy(trials(1).with_file_name(name), trials(number).with_file_name(name)).unwrap();
        }
    }
    for number in 1..=3 {
        let text = fs::read_to_string(trials(number)).unwrap();
        let changed = text.lines().map(|line| {
            let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
            let text = line.to_string();
            let Some(begin) = text.find("\"rtt_half_ns\":{") else { return format!("{line}\n") };
            let p50 = begin + text[begin..].find("\"p50\":").unwrap() + 6;
            let end = p50 + text[p50..].find([',', '}']).unwrap();
            line = serde_json::from_str(&format!("{}{}{}", &text[..p50], number * 1000, &text[end..])).unwrap();
            format!("{line}\n")
        });
        let changed: String = changed.collect();
        fs::write(trials(number), changed).unwrap();
    }
    let limits = |percentile: &str| {
        let words = ["limits", "runs", "--percentile", percentile, "--figures", "rtt_half_ns.p50"];
        tripmeter(&place, &words).run().with(0)
    };
    let check = |number: u32| {
        let folder = format!("runs/run-{number}");
        tripmeter(&place, &["check", &folder, "--limits", "limits.csv"]).run().code
    };
    let figure = format!("{NAME} at 16: rtt_half_ns.p50 is 3000, limit 2980");
    limits("99").says(&["1 of the 3 runs fail", "'run-3'", &figure, "100", "--percentile 100"]);
    assert_eq!([1, 2, 3].map(check), [Some(0), Some(0), Some(1)]);
    for percentile in ["50", "100"] {
        let told = limits(percentile).stderr;
        assert!(!told.contains("fail"), "percentile {percentile}: {told}");
    }
    assert_eq!([1, 2, 3].map(check), [Some(0); 3]);
}

/// Two runs of one experiment, `a` and `b`, and limits that both meet.
struct TwoRuns(TempDir);

impl TwoRuns {
    fn measured() -> Self {
        let runs = Self(folder());
        limits(&runs.0, 1e9);
        runs.run("a", &[]);
        runs.check("a").with(0);
        runs.run("b", &["--raw", "none"]);
        runs.check("b").with(0);
        runs.compare("a", "b").with(0);
        runs
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    fn run(&self, output: &str, more: &[&str]) {
        self.tripmeter(&[&["ping", "uds", "-o", output], &SMALL[..], more].concat()).with(0);
    }

    fn tripmeter(&self, words: &[&str]) -> Finished {
        tripmeter(&self.0, words).run()
    }

    fn allowing(&self, words: &[&str]) -> Finished {
        self.tripmeter(&[words, &["--allow-damage"]].concat())
    }

    fn check(&self, results: &str) -> Finished {
        self.tripmeter(&["check", results, "--limits", "limits.csv"])
    }

    fn compare(&self, reference: &str, results: &str) -> Finished {
        self.tripmeter(&["compare", reference, results, "--threshold", "1e9"])
    }

    fn replace(&self, run: &str, old: &str, new: &str) {
        replace(&self.path(run).join("trials.jsonl"), old, new);
    }
}

/// Checks for text that may be broken into lines.
fn says(done: &Finished, part: &str) {
    assert!(done.unwrapped().contains(part), "{}", done.stdout);
}

const PROVEN: &str = "\"verdict\":\"proven\"";

fn status(status: &str, error: &str) -> String {
    format!("\"status\":\"{status}\",\"error\":{error}")
}

#[test]
fn another_wait_and_damaged_messages_count() {
    let _alone = alone();
    let runs = TwoRuns::measured();
    replace(&runs.path("b/manifest.json"), "\"wait\": \"block\"", "\"wait\": \"poll\"");
    runs.compare("a", "b").with(0).says(&["note: ", "wait block in the reference, poll in the results"]);

    runs.replace("b", "\"damaged\":0", "\"damaged\":3");
    says(&runs.check("b").with(1), &format!("FAILED: {NAME}: 6 messages came damaged (--allow-damage)"));
    runs.allowing(&["check", "b", "--limits", "limits.csv"]).with(0);
    says(&runs.compare("a", "b").with(1), "6 messages came damaged");
    runs.compare("b", "a").with(1);
    runs.allowing(&["compare", "a", "b", "--threshold", "1e9", "--figures", "rtt_half_ns"]).with(0);
    // Both runs are in one folder, with other files.
    for words in [&["history", "."][..], &["limits", ".", "-o", "damaged.csv"]] {
        runs.tripmeter(words).with(0).says(&["left out of 'b'", "6 messages came damaged"]);
        assert!(!runs.allowing(words).with(0).stderr.contains("left out"));
    }
}

#[test]
fn damage_in_the_path_proof_counts_by_either_method_of_comparison() {
    let _alone = alone();
    let runs = TwoRuns::measured();
    let damaged = format!("\"damaged\":4,{PROVEN}");
    runs.replace("b", PROVEN, &damaged);
    for words in [
        &["check", "b", "--limits", "limits.csv"][..],
        &["compare", "a", "b", "--threshold", "1e9", "--figures", "rtt_half_ns"],
    ] {
        says(&runs.tripmeter(words).with(1), "4 messages came damaged");
        runs.allowing(words).with(0);
    }
    runs.run("c", &["--rounds", "5", "--raw", "none"]);
    runs.replace("c", PROVEN, &damaged);
    let by_runs = ["compare", "c", "c", "--method", "ranks"];
    runs.tripmeter(&by_runs).with(65).one_line(&["nothing to compare"]);
    runs.replace("c", &damaged, PROVEN);
    let trials = runs.path("c/trials.jsonl");
    let text = fs::read_to_string(&trials).unwrap();
    // Two records of the first round have the proof: one made with the proof, one at the end.
    fs::write(&trials, text.replacen(PROVEN, &damaged, 2)).unwrap();
    says(&runs.tripmeter(&by_runs).with(75), "4 messages came damaged");
    assert!(!runs.allowing(&by_runs).with(0).stdout.contains("damaged"));
}

/// A failed sub-experiment may have all its figures.
#[test]
fn a_sub_experiment_that_failed_after_its_last_payload_counts() {
    let _alone = alone();
    let runs = TwoRuns::measured();
    let [complete, failed] = [status("complete", "null"), status("failed", "\"its daemon ended\"")];
    runs.replace("b", &complete, &failed);
    for done in [runs.check("b"), runs.compare("a", "b"), runs.compare("b", "a")] {
        says(&done.with(1), "it failed: its daemon ended");
    }
    runs.allowing(&["check", "b", "--limits", "limits.csv"]).with(1);
    let loosened = ["check", "a", "--limits", "limits.csv", "--family-wise", "."];
    runs.tripmeter(&loosened).with(65).says(&["left out: run 'b', round 1", "it failed: its daemon ended"]);
    // A round uses the manifest above it, however its folder is spelled.
    runs.run("c", &["--rounds", "2"]);
    runs.replace("c", &complete, &failed);
    runs.check("c/round-01").with(1);
    let words = ["check", ".", "--limits", "../../limits.csv"];
    Tripmeter::new(words).at(&runs.path("c/round-01")).run().with(1);
}

#[test]
fn a_failed_path_proof_counts() {
    let _alone = alone();
    let runs = TwoRuns::measured();
    runs.replace("b", PROVEN, "\"verdict\":\"failed\"");
    says(&runs.check("b").with(1), &format!("FAILED: {NAME}: its path proof failed: claimed"));
    runs.compare("a", "b").with(1);
    let many = runs.path("runs");
    fs::create_dir(&many).unwrap();
    ["a", "b"].iter().for_each(|name| fs::rename(runs.path(name), many.join(name)).unwrap());
    let done = runs.tripmeter(&["limits", "runs", "-o", "r.csv"]).with(0);
    done.says(&["left out of 'b'", "path proof"]).says(&["missing in 1 of 2 runs: b"]);
}

#[test]
fn what_is_being_measured_is_no_run_of_many() {
    let _alone = alone();
    let place = folder();
    limits(&place, 1e9);
    tripmeter(&place, &[&["ping", "uds", "-o", "runs/a"], &SMALL[..]].concat()).run().with(0);
    let file = place.path().join("runs/a/manifest.json");
    replace(&file, "\"status\": \"complete\"", "\"status\": \"running\"");
    let check = || tripmeter(&place, &["check", "runs/a", "--limits", "limits.csv"]).run();
    check().with(0).says(&["note: the run in 'runs/a' is in progress or was killed"]);
    for words in [&["history", "runs"][..], &["limits", "runs", "-o", "r.csv"]] {
        let done = tripmeter(&place, words).run().with(65);
        done.says(&["left out: 'a' is in progress or was killed"]).says(&["no figures"]);
    }
}

//! Commands that measure and then judge: `job` and `requirements --runs`; and what manifests say to those that judge.

use crate::common::{CHANNEL, LONGEST, PINGPONG, Tripmeter, alone, folder, manifest};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// A small experiment: two payloads of one transport.
const SMALL: [&str; 7] = ["-t", "uds", "--no-floor", "--payloads", "16,64", "-n", "200"];
const NAME: &str = "uds_datagram_poll";

fn tripmeter(place: &TempDir, words: &[&str]) -> Tripmeter {
    Tripmeter::new(words).at(place.path())
}

fn limits(place: &TempDir, median_us: f64) {
    let rows = [16, 64].map(|bytes| format!("{NAME},{bytes},{median_us},1e9,1e9\n")).concat();
    fs::write(place.path().join("limits.csv"), format!("Experiment type,Bytes,Median,99%,Max\n{rows}")).unwrap();
}

/// Replaces a text in a file, which must be there.
fn replace(file: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains(from), "no {from} in {text}");
    fs::write(file, text.replace(from, to)).unwrap();
}

#[test]
fn runs_are_continued_after_a_kill_and_an_interruption() {
    let _alone = alone();
    let place = folder();
    // Seconds more for each run, and many runs, so that it does not end before it is stopped.
    let slow = ["-t", "inmem?stall=4200:2s", "--wait", "block", "--loss-timeout", "15", "--attempts", "1"];
    let words = [&["requirements", "--runs", "8", "-o", "requirements.csv"][..], &slow, &SMALL[2..]].concat();
    let runs = place.path().join("requirements_runs");
    // The number of the run that is being measured.
    let under_way =
        || (1..=8_u32).find(|run| runs.join(format!("run-{run:04}.unfinished/manifest.json")).exists()).unwrap_or(0);
    let mut killed = tripmeter(&place, &words).start();
    let mut at_kill = 0;
    killed.until("some run from the third on", |_| {
        at_kill = under_way();
        at_kill >= 3
    });
    killed.signal("STOP");
    tripmeter(&place, &words).run().with(73).one_line(&["another command uses"]);
    killed.signal("KILL");
    assert_eq!(killed.wait(LONGEST).code, None);
    assert!(!place.path().join("requirements.csv").exists());
    let first = fs::read(runs.join("run-0001/manifest.json")).unwrap();

    let mut interrupted = tripmeter(&place, &words).start();
    interrupted.until("a later run", |_| under_way() > at_kill);
    interrupted.signal("INT");
    interrupted.wait(LONGEST).with(130).says(&["stopped at run ", " of 8", "continues"]).clean();

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
    let requirements = fs::read_to_string(place.path().join("requirements.csv")).unwrap();
    assert_eq!(requirements.lines().count(), 3, "{requirements}");

    let from_files = ["requirements", "-e", "requirements_runs", "-o", "again.csv"];
    tripmeter(&place, &from_files).run().with(0);
    assert_eq!(fs::read_to_string(place.path().join("again.csv")).unwrap(), requirements);
    let other = [&words[..], &["-n", "100"]].concat();
    let other: Vec<_> = other.into_iter().filter(|word| *word != "200").collect();
    let position = other.iter().position(|word| *word == "-n").unwrap();
    let other = [&other[..position], &other[position + 1..]].concat();
    tripmeter(&place, &other).run().with(65).says(&["run-0001", "other settings", "-r"]);
    let useless = ["requirements", "-e", "requirements_runs", "--preset", "quick"];
    tripmeter(&place, &useless).run().with(64).one_line(&["add --runs"]);
}

#[test]
fn limits_from_too_few_runs_say_which_of_them_fail() {
    let place = folder();
    let run = |number: u32| {
        let folder = place.path().join(format!("runs/run-{number}"));
        fs::create_dir_all(&folder).unwrap();
        let text = format!(
            "Bytes,Samples,Max,Min,Mean,Median,Stdev,Mean jitter,Max jitter,90%,99%,99.99%\n\
             16,9,9.500,1.000,2.000,{number}.250,1.000,1.000,1.000,3.000,3.000,9.000\n"
        );
        fs::write(folder.join(format!("measurements_{NAME}_summary.csv")), text).unwrap();
    };
    (1..=3).for_each(run);
    let requirements = |percentile: &str| {
        let words = ["requirements", "-e", "runs", "-o", "limits.csv", "--percentile", percentile];
        tripmeter(&place, &words).run().with(0)
    };
    let check = |number: u32| {
        let folder = format!("runs/run-{number}");
        tripmeter(&place, &["check", "-r", "limits.csv", "-e", &folder]).run().code
    };
    let figure = format!("Median of '{NAME}' at 16 bytes is 3.250, the limit 3.230");
    requirements("99").says(&["1 of the 3 runs fail", "'run-3'", &figure, "100", "--percentile 100"]);
    assert_eq!([1, 2, 3].map(check), [Some(0), Some(0), Some(1)]);
    for percentile in ["50", "100"] {
        let told = requirements(percentile).stderr;
        assert!(!told.contains("fail"), "percentile {percentile}: {told}");
    }
    assert_eq!([1, 2, 3].map(check), [Some(0); 3]);
}

#[test]
fn a_job_fills_a_database() {
    let _alone = alone();
    let place = folder();
    let job = |words: &[&str]| {
        tripmeter(&place, &[&["job", "-d", "db", "-r", "limits.csv", "--svg"], words, &SMALL].concat()).run()
    };
    job(&[]).with(66).one_line(&["limits.csv"]);
    assert!(!place.path().join("db").exists(), "something was run without requirements");
    limits(&place, 1e9);
    let done = job(&[]).with(0).clean();
    assert!(done.unwrapped().contains("Experiment check passed"), "{}", done.stdout);
    let results = place.path().join("db/experiments_results");
    let experiments =
        || -> Vec<_> { fs::read_dir(&results).unwrap().map(|entry| entry.unwrap().file_name()).collect() };
    let first = experiments();
    assert_eq!(first.len(), 1);
    let made = results.join(&first[0]);
    let files = [format!("measurements_{NAME}_summary.csv"), format!("checks_{NAME}.csv"), "manifest.json".to_owned()];
    files.iter().for_each(|file| assert!(made.join(file).is_file(), "{file}"));
    assert!(made.join("plots/comparison_median.svg").is_file());
    assert!(made.join(format!("plots/measurements_{NAME}/histogram_64.svg")).is_file());
    assert!(made.join(format!("plots/measurements_{NAME}/comparison_max.svg")).is_file());
    assert!(place.path().join(format!("db/history_plots/{NAME}/64_bytes_99.svg")).is_file());

    // A run that does not count leaves no history to draw, which is no reason to hide its check.
    let file = format!(
        "[[sub_experiment]]\nname = \"{NAME}\"\ntransport = \"inmem?damage_body=10,30,50\"\ntouch = \"full\"\n"
    );
    fs::write(place.path().join("damaged.toml"), file).unwrap();
    let words = ["job", "damaged.toml", "-d", "other", "-r", "limits.csv", "--attempts", "1", "--loss-timeout", "2"];
    let done = tripmeter(&place, &[&words, &SMALL[2..]].concat()).run().with(75).says(&["note: no history"]);
    assert!(done.unwrapped().contains("Experiment check passed"), "{}", done.stdout);

    limits(&place, 0.0);
    job(&["--depth", "1"]).with(1).says(&["removed: ", &first[0].to_string_lossy()]).clean();
    assert!(experiments().len() == 1 && experiments() != first);
    job(&["--label", "v1"]).with(1);
    job(&["--label", "v1"]).with(73).one_line(&["v1", "not empty"]);
    job(&["--label", "../v1"]).with(64).one_line(&["label"]);
    job(&["--rounds", "2"]).with(64).one_line(&["--rounds"]);
}

#[test]
fn a_job_refuses_requirements_that_it_cannot_check_before_it_measures() {
    let place = folder();
    let file = place.path().join("limits.csv");
    let refused = |rows: &str, more: &[&str], parts: &[&str]| {
        fs::write(&file, format!("Experiment type,Bytes,Median,99%,Max\n{rows}\n")).unwrap();
        let words = [&["job", "-d", "db", "-r", "limits.csv"], more, &SMALL].concat();
        tripmeter(&place, &words).run().with(65).one_line(parts);
        assert!(!place.path().join("db").exists(), "something was measured");
    };
    let own = format!("{NAME},16,1e9,1e9,1e9");
    refused("other,16,1e9,1e9,1e9", &[], &["nothing to check", "limits.csv", NAME]);
    refused(&format!("{own}\n{NAME},1024,1e9,1e9,1e9"), &[], &[NAME, "1024 bytes", "16, 64", "--payloads"]);
    refused(
        &format!("{NAME}@service_1000hz,16,1e9,1e9,1e9"),
        &[],
        &["one_way, service time", "rtt_half", "different kinds"],
    );
    let channel = ["--pattern", "channel", "--rate", "1000"];
    let name = "uds_datagram_block_channel";
    refused(&format!("{name},16,1e9,1e9,1e9"), &channel, &[name, "different kinds"]);
    refused(&format!("{own}\nother,16,1e9,1e9,1e9"), &["--strict"], &["other", "--strict"]);
}

#[test]
fn what_a_manifest_says_counts() {
    let _alone = alone();
    let place = folder();
    limits(&place, 1e9);
    let run = |output: &str, more: &[&str]| {
        let raw: &[&str] = if more.contains(&"--raw") { &[] } else { &["--raw", "eprosima"] };
        tripmeter(&place, &[&["run", "-o", output], &SMALL[..], more, raw].concat()).run().with(0);
    };
    let check = |results: &str| tripmeter(&place, &["check", "-r", "limits.csv", "-e", results]).run();
    let compare = |reference: &str, results: &str| {
        tripmeter(&place, &["compare", "-R", reference, "-r", results, "-t", "1e9"]).run()
    };
    run("a", &[]);
    check("a").with(0).says(&["1 missing summary was made"]);
    // Without raw samples, the figures of the manifest count.
    run("b", &["--raw", "none"]);
    check("b").with(0);
    compare("a", "b").with(0);

    let manifest = place.path().join("b/manifest.json");
    replace(&manifest, PINGPONG, CHANNEL);
    compare("a", "b").with(65).one_line(&["rtt_half (pattern pingpong)", "one_way (pattern channel)"]);
    replace(&manifest, CHANNEL, PINGPONG);
    replace(&manifest, "\"wait\": \"poll\"", "\"wait\": \"block\"");
    compare("a", "b").with(0).says(&["note: ", "wait poll in the reference, block in the results"]);

    let allowing = |words: &[&str]| tripmeter(&place, &[words, &["--allow-damage"]].concat()).run();
    let trials = place.path().join("b/trials.jsonl");
    replace(&trials, "\"damaged\":0", "\"damaged\":3");
    let done = check("b").with(1);
    assert!(
        done.unwrapped().contains(&format!("FAILED: {NAME}: 6 messages came damaged (--allow-damage)")),
        "{}",
        done.stdout
    );
    allowing(&["check", "-r", "limits.csv", "-e", "b"]).with(0);
    let done = compare("a", "b").with(1);
    assert!(done.unwrapped().contains("6 messages came damaged"), "{}", done.stdout);
    compare("b", "a").with(1);
    allowing(&["compare", "-R", "a", "-r", "b", "-t", "1e9"]).with(0);
    // Both lie in one folder, with other files in it.
    let history = ["history", "-e", ".", "-p", "plots"];
    tripmeter(&place, &history).run().with(0).says(&["left out of the history", "of 'b'", "6 messages came damaged"]);
    assert!(!allowing(&history).with(0).stderr.contains("left out of the history: 'uds_datagram_poll' of 'b'"));
    let requirements = ["requirements", "-e", ".", "-o", "damaged.csv"];
    tripmeter(&place, &requirements).run().with(0).says(&["left out", "run 'b'", "6 messages came damaged"]);
    assert!(!allowing(&requirements).with(0).stderr.contains("left out"));
    replace(&trials, "\"damaged\":3", "\"damaged\":0");

    // Damage in the path proof counts in the same way, by either method of comparison.
    let proven = "\"verdict\":\"proven\"";
    replace(&trials, proven, &format!("\"damaged\":4,{proven}"));
    for words in [&["check", "-r", "limits.csv", "-e", "b"][..], &["compare", "-R", "a", "-r", "b", "-t", "1e9"]] {
        let done = tripmeter(&place, words).run().with(1);
        assert!(done.unwrapped().contains("4 messages came damaged"), "{}", done.stdout);
        allowing(words).with(0);
    }
    run("c", &["--rounds", "4", "--raw", "none"]);
    replace(&place.path().join("c/trials.jsonl"), proven, &format!("\"damaged\":4,{proven}"));
    let by_runs = ["compare", "-R", "c", "-r", "c", "--method", "runs"];
    let done = tripmeter(&place, &by_runs).run().with(75);
    assert!(done.unwrapped().contains("4 messages came damaged"), "{}", done.stdout);
    assert!(!allowing(&by_runs).with(0).stdout.contains("damaged"));
    fs::remove_dir_all(place.path().join("c")).unwrap();
    replace(&trials, &format!("\"damaged\":4,{proven}"), proven);

    // A sub-experiment that failed after its last payload has all its figures.
    let status = |status: &str, error: &str| format!("\"status\":\"{status}\",\"error\":{error}");
    let [complete, failed] = [status("complete", "null"), status("failed", "\"its daemon ended\"")];
    replace(&trials, &complete, &failed);
    for done in [check("b"), compare("a", "b"), compare("b", "a")] {
        let done = done.with(1);
        assert!(done.unwrapped().contains("it failed: its daemon ended"), "{}", done.stdout);
    }
    allowing(&["check", "-r", "limits.csv", "-e", "b"]).with(1);
    let loosened = ["check", "-r", "limits.csv", "-e", "a", "--family-wise", "."];
    tripmeter(&place, &loosened).run().with(65).says(&["left out: run 'b'", "it failed: its daemon ended"]);
    replace(&trials, &failed, &complete);
    // A round finds the manifest above it, however its folder is spelled.
    run("c", &["--rounds", "2"]);
    replace(&place.path().join("c/trials.jsonl"), &complete, &failed);
    check("c/round-01").with(1);
    let words = ["check", "-r", "../../limits.csv", "-e", "."];
    Tripmeter::new(words).at(&place.path().join("c/round-01")).run().with(1);
    fs::remove_dir_all(place.path().join("c")).unwrap();

    replace(&trials, "\"verdict\":\"proven\"", "\"verdict\":\"failed\"");
    let done = check("b").with(1);
    assert!(done.unwrapped().contains(&format!("FAILED: {NAME}: its path proof failed: claimed")), "{}", done.stdout);
    compare("a", "b").with(1);
    let runs = place.path().join("runs");
    fs::create_dir(&runs).unwrap();
    ["a", "b"].iter().for_each(|name| fs::rename(place.path().join(name), runs.join(name)).unwrap());
    let done = tripmeter(&place, &["requirements", "-e", "runs", "-o", "r.csv"]).run().with(0);
    done.says(&["left out", "run 'b'", "path proof"]).says(&["missing in 1 of 2 runs: b"]);
}

#[test]
fn a_folder_that_is_measured_gets_no_summary() {
    let _alone = alone();
    let place = folder();
    limits(&place, 1e9);
    tripmeter(&place, &[&["run", "-o", "runs/a", "--raw", "eprosima"], &SMALL[..]].concat()).run().with(0);
    let results = place.path().join("runs/a");
    let summary = results.join(format!("measurements_{NAME}_summary.csv"));
    replace(&results.join("manifest.json"), "\"status\": \"complete\"", "\"status\": \"running\"");
    let check = || tripmeter(&place, &["check", "-r", "limits.csv", "-e", "runs/a"]).run();
    check().with(0).says(&["note: 'runs/a' is being measured, or was killed"]);
    let history = tripmeter(&place, &["history", "-e", "runs", "-p", "plots"]).run().with(65);
    history.says(&["left out", "'a' is being measured, or was killed"]).says(&["nothing to plot"]);
    let requirements = tripmeter(&place, &["requirements", "-e", "runs", "-o", "r.csv"]).run().with(65);
    requirements.says(&["left out", "'a' is being measured, or was killed"]);
    assert!(!summary.exists());
    replace(&results.join("manifest.json"), "\"status\": \"running\"", "\"status\": \"complete\"");
    check().with(0).says(&["1 missing summary was made"]);
    assert!(summary.exists());
}

//! A results folder that loses its name while a command writes in it: renamed, removed, or replaced by finished results
//! or a link to them. The command ends with an error, and the finished results stay unchanged.

use crate::common::{LONGEST, Running, Tripmeter, alone, has_cell, is_nightly, manifest_so_far, plugin, repository};
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tripmeter_model::exit;
use tripmeter_model::manifest::RunStatus;

const WAYS: [&str; 4] = ["replaced", "linked", "renamed", "removed"];

struct Place {
    folder: TempDir,
    results: PathBuf,
    finished: PathBuf,
}

impl Place {
    fn new() -> Self {
        Self::named("results")
    }

    fn named(name: &str) -> Self {
        let folder = crate::common::folder();
        let [results, finished] = [name, "finished"].map(|name| folder.path().join(name));
        copy(&repository().join("crates/tripmeter/tests/golden/results-2.0"), &finished);
        Self { folder, results, finished }
    }

    /// Renames the folder; returns the current place of the finished results, and their contents.
    fn change(&self, way: &str) -> (PathBuf, BTreeMap<PathBuf, Vec<u8>>) {
        let away = self.folder.path().join("away");
        fs::rename(&self.results, &away).unwrap();
        let mut finished = self.finished.clone();
        match way {
            "replaced" => {
                fs::rename(&finished, &self.results).unwrap();
                finished.clone_from(&self.results);
            }
            "linked" => std::os::unix::fs::symlink(&finished, &self.results).unwrap(),
            // Workers may still write there.
            "removed" => (0..100).any(|_| fs::remove_dir_all(&away).is_ok()).then_some(()).unwrap(),
            _ => {}
        }
        let before = files(&finished);
        (finished, before)
    }

    /// Changes the folder while a command runs; it must end with the error, and leave everything else unchanged.
    #[track_caller]
    fn check(&self, way: &str, run: Running) {
        let (finished, before) = self.change(way);
        let ended = run.wait(LONGEST).with(exit::CANNOT_CREATE);
        let path = self.results.to_str().unwrap();
        let ended = ended.says(&[&format!("folder '{path}"), "so the command stopped", "run --resume"]);
        assert!(!ended.stderr.contains("/proc/"), "{way}: {ended:?}");
        assert!(files(&finished) == before, "{way}: the finished results have changed: {ended:?}");
        if ["renamed", "removed"].contains(&way) {
            assert!(!self.results.exists(), "{way}: it was made anew");
        }
        ended.clean();
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &target),
            false => assert!(fs::copy(entry.path(), target).is_ok()),
        }
    }
}

/// Contents of a file; `None` if whoever writes there has just renamed it.
fn contents(path: &Path) -> Option<Vec<u8>> {
    match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        read => Some(read.unwrap()),
    }
}

fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            found.insert(path.clone(), Vec::new());
            found.extend(files(&path));
        } else if let Some(contents) = contents(&path) {
            found.insert(path, contents);
        }
    }
    found
}

fn ways(index: usize) -> &'static [&'static str] {
    if is_nightly() { &WAYS } else { &WAYS[index % WAYS.len()..=index % WAYS.len()] }
}

fn round(results: &Path, number: u32) -> bool {
    manifest_so_far(results).is_some_and(|so_far| so_far.sub_experiments.iter().any(|one| one.round >= number))
}

const SMALL: [&str; 8] = ["--payloads", "64", "--warmup", "10", "--loss-timeout", "15", "--no-floor", "-q"];

/// None of these commands ends by itself.
#[test]
fn a_folder_that_is_renamed_or_replaced_ends_what_writes_in_it() {
    let _alone = alone();
    let endless = ["ping", "inmem", "uds/stream", "--wait", "block", "--for", "1h", "-n", "100"];
    let long = ["ping", "uds/stream", "--wait", "block", "--rate", "100", "-n", "1000000"];
    let eprosima = ["ping", "uds/stream", "--wait", "block", "--for", "1h", "-n", "100", "--raw", "eprosima"];
    let ab = ["ab", "inmem", "--rounds", "1000", "-n", "100"];
    let publish = ["publish", "uds/stream", "--wait", "block", "--rate", "100", "-n", "1000000"];
    let call = ["call", "uds/stream", "--wait", "block", "--rate", "100", "-n", "1000000"];
    let throughput = ["throughput", "uds/stream", "--wait", "block", "--duration", "0.1", "--for", "1h"];
    let logger = ["log", "write", "-n", "100", "--for", "1h"];
    let recording = crate::common::folder();
    let recording = crate::recording::write(recording.path(), None, &crate::recording::drive());
    let replay = ["replay", recording.to_str().unwrap(), "inmem", "--wait", "block", "--for", "1h"];
    let choose =
        ["choose", "inmem", "uds/stream", "--payload", "64", "--rate", "100", "-n", "100000", "--budget", "1e7"];
    let explain = ["explain", "uds/stream", "-n", "1000000", "--payload", "64"];
    let begun: fn(&Path) -> bool = |results| results.join("trials.jsonl").exists();
    /// Words, true if the command has flags for sizes, and the time to change the folder.
    type Case<'a> = (&'a [&'a str], bool, fn(&Path) -> bool);
    let cases: [Case<'_>; 12] = [
        (&endless, true, |results| round(results, 2)),
        (&endless, true, has_cell),
        (&long, true, begun),
        (&eprosima, true, |results| round(results, 2)),
        (&ab, true, |results| round(results, 2)),
        (&choose, false, begun),
        (&explain, false, begun),
        (&publish, true, begun),
        (&call, true, begun),
        (&throughput, true, |results| round(results, 2)),
        (&logger, false, |results| round(results, 2)),
        (&replay, false, |results| round(results, 2)),
    ];
    let of_every_night = if is_nightly() { cases.len() } else { 7 };
    for (index, (words, has_sizes, is_time)) in cases.into_iter().take(of_every_night).enumerate() {
        for way in ways(index) {
            let place = Place::new();
            let sizes = if has_sizes { &SMALL[..] } else { &["--loss-timeout", "15", "-q"] };
            let sizes = sizes.iter().filter(|word| words[0] != "ab" || **word != "--no-floor");
            let output = ["-o", place.results.to_str().unwrap()];
            let mut run = Tripmeter::new(words.iter().chain(sizes).chain(&output)).start();
            run.until("its time", |_| is_time(&place.results));
            place.check(way, run);
        }
    }
}

#[test]
fn a_folder_of_a_job_that_is_renamed_or_replaced_ends_it() {
    let _alone = alone();
    let experiment = "payloads = \"64\"\nsamples = 5000000\nfloor = false\nloss_timeout_s = 15\n\
                      [[sub_experiment]]\ntransport = \"uds/stream\"\nwait = \"block\"\n";
    for way in ways(3) {
        let place = Place::named("database/experiments_results/mine");
        fs::write(place.folder.path().join("x.toml"), experiment).unwrap();
        let limits = "Experiment type,Bytes,Median,99%,Max\nuds_stream_block,64,1e9,1e9,1e9\n";
        fs::write(place.folder.path().join("limits.csv"), limits).unwrap();
        let words = ["eprosima", "job", "x.toml", "-r", "limits.csv", "-d", "database", "-l", "mine", "-q"];
        let mut run = Tripmeter::new(words).at(place.folder.path()).start();
        run.until("its time", |_| place.results.join("trials.jsonl").exists());
        place.check(way, run);
    }
}

#[test]
fn a_folder_of_a_resumed_run_that_is_renamed_or_replaced_ends_it() {
    let _alone = alone();
    for way in ways(0) {
        let place = Place::new();
        let path = place.results.to_str().unwrap();
        let words = ["ping", "uds/stream", "--wait", "block", "--for", "1h", "-n", "100", "-o", path];
        let mut run = Tripmeter::new(words.iter().chain(&SMALL)).start();
        run.until("two rounds", |_| round(&place.results, 2));
        run.signal("INT");
        run.wait(LONGEST).with(exit::INTERRUPTED);
        let before = manifest_so_far(&place.results).unwrap().sub_experiments.len() as u32;
        let mut run = Tripmeter::new(["run", "-q", "--resume", path]).start();
        run.until("another round", |_| round(&place.results, before + 2));
        place.check(way, run);
    }
}

#[test]
fn a_folder_of_many_runs_that_is_renamed_or_replaced_ends_them() {
    let _alone = alone();
    let experiment = "floor = false\n[[sub_experiment]]\ntransport = \"inmem\"\nwait = \"block\"\n";
    for way in ways(1) {
        let place = Place::named("limits_runs");
        fs::write(place.folder.path().join("x.toml"), experiment).unwrap();
        let words = ["limits", "--runs", "10000", "--of", "x.toml", "--payloads", "64", "-n", "100", "-q"];
        let mut run = Tripmeter::new(words).at(place.folder.path()).start();
        run.until("a second run", |_| place.results.join("run-0002.unfinished/trials.jsonl").exists());
        place.check(way, run);
    }
    for way in ways(2).iter().filter(|_| is_nightly()) {
        let place = Place::new();
        let words = ["selftest", "--full", "--seed", "5", "-o", place.results.to_str().unwrap()];
        let mut run = Tripmeter::new(words).start();
        let is_measured = |entry: fs::DirEntry| entry.path().join("trials.jsonl").exists();
        let entries = || fs::read_dir(&place.results).into_iter().flatten().flatten();
        run.until("a first measurement", |_| entries().any(is_measured));
        place.check(way, run);
    }
}

/// Pipe that holds less than the text, and is read once a file exists.
const HELD: &str = r#"
set -o pipefail
python3 -c 'import fcntl, os, sys; fcntl.fcntl(1, 1031, 4096); os.execv(sys.argv[1], sys.argv[1:])' "$@" |
    (until [ -e "$GO" ]; do sleep 0.05; done; cat)
"#;

/// Each command prints before it writes its page.
#[test]
fn a_page_is_written_to_no_other_folder() {
    let _alone = alone();
    let many =
        ["--wait", "block", "--payloads", "16..16k", "-n", "100", "--warmup", "10", "--loss-timeout", "15", "--json"];
    for (index, words) in [&["ping", "inmem", "--no-floor"][..], &["ab", "inmem", "--rounds", "8"]].iter().enumerate() {
        for way in ways(index) {
            let place = Place::new();
            let (go, output) = (place.folder.path().join("go"), ["-o", place.results.to_str().unwrap()]);
            let run = Tripmeter::under(&["bash", "-c", HELD, "bash"], words.iter().chain(&many).chain(&output));
            let mut run = run.environment("GO", go.to_str().unwrap()).start();
            run.until("its end", |_| {
                manifest_so_far(&place.results).is_some_and(|so_far| so_far.status == RunStatus::Complete)
            });
            let (finished, before) = place.change(way);
            fs::write(go, "").unwrap();
            let ended = run.wait(LONGEST).with(exit::CANNOT_CREATE).says(&["so the command stopped"]);
            assert!(files(&finished) == before, "{words:?}, {way}: {ended:?}");
        }
    }
}

fn is_open(folder: &Path) -> bool {
    let links = |process: fs::DirEntry| fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
    let mut open = fs::read_dir("/proc").unwrap().flatten().flat_map(links);
    open.any(|link| fs::read_link(link.path()).is_ok_and(|to| to == folder))
}

/// Supplies limits when the folder is open, before its page is made.
const LIMITS_LATER: &str = r#"(until [ -e "$GO" ]; do sleep 0.05; done; cat "$LIMITS") | "$@""#;

#[test]
fn a_page_of_results_that_are_renamed_meanwhile_is_not_written() {
    let _alone = alone();
    for way in ways(0) {
        let place = Place::new();
        copy(&place.finished, &place.results);
        let [go, limits, page] =
            ["go", "limits.csv", "finished/report.html"].map(|name| place.folder.path().join(name));
        let written = ["limits", place.results.to_str().unwrap(), "-o", limits.to_str().unwrap()];
        Tripmeter::new(written).run().with(exit::GOOD);
        fs::write(&page, "theirs").unwrap();
        let words = ["report", place.results.to_str().unwrap(), "--limits", "/dev/stdin"];
        let run = Tripmeter::under(&["bash", "-c", LIMITS_LATER, "bash"], words);
        let run = run.environment("GO", go.to_str().unwrap()).environment("LIMITS", limits.to_str().unwrap());
        let mut run = run.start();
        run.until("its folder", |_| is_open(&place.results));
        let (finished, before) = place.change(way);
        fs::write(go, "").unwrap();
        is_refused(run, &finished, &before);
    }
}

/// Checks for a refusal: a missing results folder can be neither read nor written, whichever is tried first.
#[track_caller]
fn is_refused(run: Running, finished: &Path, before: &BTreeMap<PathBuf, Vec<u8>>) {
    let ended = run.wait(LONGEST);
    let is_refused = [exit::NO_INPUT, exit::CANNOT_CREATE].map(|code| Some(code.into())).contains(&ended.code);
    assert!(is_refused && &files(finished) == before, "{ended:?}");
}

/// `process` prints a line for each of many empty files, and a pipe without a reader blocks after a few lines.
#[test]
fn summaries_are_written_to_no_other_folder() {
    let _alone = alone();
    const FILES: usize = 200;
    for way in ways(1) {
        let place = Place::new();
        fs::create_dir(&place.results).unwrap();
        for folder in [&place.results, &place.finished] {
            for index in 0..FILES {
                fs::write(folder.join(format!("measurements_{index}.csv")), "Payload [Bytes],Latency [us]\n").unwrap();
            }
        }
        let go = place.folder.path().join("go");
        let held = HELD
            .replace("fcntl(1,", "fcntl(2,")
            .replace("\"$@\"", "\"$@\" 2>&1 >/dev/null")
            .replace("cat)", "cat >&2)");
        let words = ["eprosima", "process", place.results.to_str().unwrap()];
        let run = Tripmeter::under(&["bash", "-c", &held, "bash"], words);
        let mut run = run.environment("GO", go.to_str().unwrap()).start();
        run.until("some summaries", |_| files(&place.results).len() > FILES + 2);
        let (finished, before) = place.change(way);
        fs::write(go, "").unwrap();
        is_refused(run, &finished, &before);
    }
}

/// A library's output is unlimited; its log is not.
#[test]
fn the_log_of_a_library_that_prints_much_is_bounded() {
    let _alone = alone();
    let place = Place::new();
    let path = place.results.to_str().unwrap();
    let trouble = plugin("trouble");
    let words =
        ["ping", "trouble?mode=link-flood&side=leader", "--plugin", trouble.to_str().unwrap(), "-n", "100", "-o", path];
    Tripmeter::new(words.iter().chain(&SMALL)).run().with(exit::GOOD).clean();
    let logs = files(&place.results.join("logs"));
    let (file, log) = logs.first_key_value().expect("there is one log");
    let log = String::from_utf8_lossy(log);
    assert!(log.len() <= 2 << 20 && logs.len() == 1, "{} has {} bytes", file.display(), log.len());
    assert!(log.starts_with("first line\n") && log.ends_with("last line\n"), "{}", file.display());
    assert_eq!(log.matches(" bytes left out here").count(), 1);
}

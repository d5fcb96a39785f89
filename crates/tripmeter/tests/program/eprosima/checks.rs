//! `tripmeter eprosima` on results: `check`, `determine-requirements`, `compare`, `history`, `prune`.
//!
//! The files in `golden/checks` come from a second source; see `make.py` there.

use crate::common::{Finished, Tripmeter, folder};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const SUMMARY: &str = "Bytes,Samples,Max,Min,Mean,Median,Stdev,Mean jitter,Max jitter,90%,99%,99.99%\n";
const LIMITS: &str = "Experiment type,Bytes,Median,99%,Max\n";
const RUNS: [&str; 5] =
    ["2026-01-01_12-00-00", "2026-01-02_12-00-00", "2026-01-03_12-00-00", "2026-01-04_12-00-00", "2026-01-05_12-00-00"];

fn golden(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/checks").join(path)
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn tripmeter<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> Finished {
    Tripmeter::new(arguments).run()
}

fn command(words: &[&str], paths: &[(&str, &Path)]) -> Finished {
    let paths = paths.iter().flat_map(|(flag, path)| [(*flag).to_owned(), path.display().to_string()]);
    let words = ["eprosima"].iter().chain(words).map(|word| (*word).to_owned());
    tripmeter(&words.chain(paths).collect::<Vec<_>>())
}

fn row(bytes: u64, [min, median, p99, max]: [f64; 4]) -> String {
    format!("{bytes},100,{max:.3},{min:.3},{median:.3},{median:.3},0.100,0.100,0.100,{p99:.3},{p99:.3},{max:.3}\n")
}

fn experiment(names: &[&str], rows: &str) -> TempDir {
    let folder = folder();
    for name in names {
        fs::write(folder.path().join(format!("measurements_{name}_summary.csv")), format!("{SUMMARY}{rows}")).unwrap();
    }
    folder
}

fn limits(folder: &TempDir, rows: &str) -> PathBuf {
    let file = folder.path().join("limits/limits.csv");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, format!("{LIMITS}{rows}")).unwrap();
    file
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn check(limits: &Path, experiment: &Path) -> Finished {
    command(&["check"], &[("-r", limits), ("-e", experiment)])
}

#[test]
fn reports_and_plots_of_a_check_are_those_of_the_original() {
    let place = folder();
    let (copied, plots) = (place.path().join("experiment"), place.path().join("plots"));
    copy(&golden("experiment"), &copied);
    let paths = [("-r", &*golden("limits.csv")), ("--experiment_directory", &*copied), ("--plots_directory", &*plots)];
    let done = command(&["check", "--print_summaries"], &paths).with(2);
    assert!(done.stdout.contains("83.333% checks passed: (15/18)\n"), "{}", done.stdout);
    assert!(done.stdout.contains("Experiment check failed: 2 of 2 sub-experiments\n"), "{}", done.stdout);
    for name in ["interprocess_reliable_tcp", "uds_stream_poll"] {
        let report = format!("checks_{name}.csv");
        assert_eq!(text(&copied.join(&report)), text(&golden("expected").join(&report)));
        let pictures = plots.join(format!("measurements_{name}"));
        assert_eq!(names(&pictures), ["comparison_99.png", "comparison_max.png", "comparison_median.png"]);
    }
}

#[test]
fn requirements_are_those_of_the_original() {
    let place = folder();
    let file = place.path().join("requirements.csv");
    let done = command(&["determine-requirements"], &[("-e", &golden("runs")), ("-o", &file)]).with(0);
    assert_eq!(text(&file), text(&golden("expected/requirements.csv")));
    assert!(done.stdout.contains("percentile 99 over the runs"), "{}", done.stdout);
    done.says(&["made from only 5 runs"]);
}

#[test]
fn comparison_files_are_those_of_the_original() {
    let place = folder();
    let (copied, plots) = (place.path().join("experiment"), place.path().join("plots"));
    copy(&golden("experiment"), &copied);
    let reference = golden("runs").join(RUNS[0]);
    let paths = [("--reference", &*reference), ("--results", &*copied), ("--plots_directory", &*plots)];
    command(&["compare", "--fail_threshold", "0", "--svg"], &paths).with(1);
    let mut expected = Vec::new();
    for name in ["interprocess_reliable_tcp", "uds_stream_poll"] {
        let file = format!("{name}_comparison.csv");
        assert_eq!(text(&plots.join(&file)), text(&golden("expected").join(&file)));
        expected.extend([file, format!("{name}_max_99%.svg"), format!("{name}_min_median.svg")]);
    }
    assert_eq!(names(&plots), expected);
}

#[test]
fn a_payload_that_was_not_measured_fails() {
    let place = experiment(&["uds"], &row(16, [1.0, 1.0, 2.0, 3.0]));
    let file = limits(&place, "uds,16,1.000,2.000,3.000\nuds,32,1.000,2.000,3.000\n");
    let done = check(&file, place.path()).with(1);
    assert!(done.stdout.contains("not measured"), "{}", done.stdout);
    let report = text(&place.path().join("checks_uds.csv"));
    assert!(report.contains("Median,16,1.000,1.000,0.000,-0.000,passed\nMedian,32,1.000,,,,failed\n"), "{report}");
    fs::write(place.path().join("measurements_uds_summary.csv"), SUMMARY).unwrap();
    check(&file, place.path()).with(1);
}

#[test]
fn what_is_on_one_side_only_is_named() {
    let place = experiment(&["new", "uds"], &row(16, [1.0; 4]));
    let file = limits(&place, "uds,16,1,1,1\ngone,16,1,1,1\n");
    let paths = [("-r", &*file), ("-e", place.path())];
    let done = command(&["check"], &paths).with(0);
    assert!(done.stdout.contains("not checked: 1 sub-experiment without requirements: new\n"), "{}", done.stdout);
    assert!(done.stdout.contains("not checked: 1 sub-experiment with requirements, but not measured: gone\n"));
}

#[test]
fn the_exit_code_is_the_number_of_failing_sub_experiments_and_63_at_most() {
    let all: Vec<String> = (0..70).map(|number| format!("s{number}")).collect();
    for count in [1, 5, 63, 64, 70] {
        let some: Vec<&str> = all[..count].iter().map(String::as_str).collect();
        let place = experiment(&some, &row(16, [2.0; 4]));
        let file = limits(&place, &some.iter().map(|name| format!("{name},16,1,9,9\n")).collect::<String>());
        check(&file, place.path()).with(count.min(63) as u8);
    }
}

#[test]
fn nothing_to_check_is_an_error() {
    let place = experiment(&["uds"], &row(16, [1.0; 4]));
    let other = limits(&place, "tcp,16,1,1,1\n");
    check(&other, place.path()).with(65).one_line(&["nothing to check", "limits.csv", "uds"]);
    let none = limits(&place, "");
    check(&none, place.path()).with(65).one_line(&["no requirements"]);
    let some = limits(&place, "uds,16,1,1,1\n");
    let empty = folder();
    check(&some, empty.path()).with(65).one_line(&["has no results", "measurements_<name>_summary.csv"]);
    check(&some, &empty.path().join("none")).with(66).one_line(&["cannot be read"]);
    check(&some, &some).with(66).one_line(&["cannot be read"]);
    check(&empty.path().join("none.csv"), place.path()).with(66).one_line(&["none.csv"]);
    let rounds = empty.path().join("round-01");
    copy(place.path(), &rounds);
    check(&some, empty.path()).with(64).one_line(&["holds rounds", "round-01"]);
    check(&some, &rounds).with(0);
}

#[test]
fn wrong_files_are_errors_that_name_line_and_value() {
    let place = experiment(&["uds"], &row(16, [1.0; 4]));
    let file = limits(&place, "uds,16,1,fast,1\n");
    check(&file, place.path()).with(65).one_line(&["limits.csv", "line 2", "'fast'"]);
    let file = limits(&place, "uds,16,1,1,1\n");
    fs::write(place.path().join("measurements_uds_summary.csv"), format!("{SUMMARY}16,many\n")).unwrap();
    check(&file, place.path()).with(65).one_line(&["measurements_uds_summary.csv", "line 2"]);
    assert!(!place.path().join("checks_uds.csv").exists());
    fs::remove_file(place.path().join("measurements_uds_summary.csv")).unwrap();
    fs::create_dir(place.path().join("measurements_uds_summary.csv")).unwrap();
    check(&file, place.path()).with(66).one_line(&["measurements_uds_summary.csv", "it is a folder"]);
    fs::remove_dir(place.path().join("measurements_uds_summary.csv")).unwrap();
    let unwritable = place.path().join("plots");
    fs::write(&unwritable, "").unwrap();
    fs::write(place.path().join("measurements_uds_summary.csv"), format!("{SUMMARY}{}", row(16, [1.0; 4]))).unwrap();
    command(&["check"], &[("-r", &file), ("-e", place.path()), ("-p", &unwritable)]).with(73).says(&["plots"]);
    assert!(!place.path().join("checks_uds.csv").exists());
}

#[test]
fn stray_files_are_ignored_with_one_note() {
    let place = experiment(&["uds"], &row(16, [1.0; 4]));
    let file = limits(&place, "uds,16,1,1,1\n");
    for name in ["notes.txt", "my_summary.csv", "measurements_summary_old.txt"] {
        fs::write(place.path().join(name), "x").unwrap();
    }
    fs::create_dir(place.path().join("old_summary.csv")).unwrap();
    let done = check(&file, place.path()).with(0);
    assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
    done.says(&["note: ignored", "'notes.txt'", "'my_summary.csv'"]);
}

#[test]
fn missing_summaries_are_made_of_the_samples() {
    let place = folder();
    let samples = "Sample,Payload [Bytes],Latency [us]\n1,16,1.000\n2,16,2.000\n3,16,3.000\n";
    fs::write(place.path().join("measurements_uds.csv"), samples).unwrap();
    let file = limits(&place, "uds,16,2.000,2.980,3.000\n");
    check(&file, place.path()).with(0).says(&["1 missing summary was made"]);
    let summary = text(&place.path().join("measurements_uds_summary.csv"));
    assert_eq!(summary.lines().nth(1), Some("16,3,3.000,1.000,2.000,2.000,0.816,1.000,1.000,2.800,2.980,3.000"));
    fs::write(place.path().join("measurements_tcp.csv"), samples.replace("2.000", "NaN")).unwrap();
    check(&file, place.path()).with(65).says(&["measurements_tcp.csv", "line 3", "NaN"]);
}

#[test]
fn a_summary_older_than_its_samples_is_made_anew() {
    let place = experiment(&["alone", "uds"], &row(16, [9.0; 4]));
    let summaries = ["alone", "uds"].map(|name| place.path().join(format!("measurements_{name}_summary.csv")));
    let samples = place.path().join("measurements_uds.csv");
    fs::write(&samples, "Sample,Payload [Bytes],Latency [us]\n1,16,1.000\n2,16,2.000\n").unwrap();
    let change = |file: &Path, second: u64| {
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(second);
        fs::File::options().append(true).open(file).unwrap().set_modified(time).unwrap();
    };
    summaries.iter().for_each(|file| change(file, 1000));
    let file = limits(&place, "uds,16,9.000,9.000,9.000\n");
    for (changed, note, median) in
        [(900, "", "9.000"), (1000, "", "9.000"), (1100, "note: 1 outdated summary", "1.500")]
    {
        change(&samples, changed);
        let done = check(&file, place.path()).with(0);
        assert!(done.stderr.starts_with(note) && done.stderr.is_empty() == note.is_empty(), "{}", done.stderr);
        assert_eq!(text(&summaries[1]).lines().nth(1).unwrap().split(',').nth(5), Some(median));
    }
    assert!(text(&summaries[0]).contains("9.000"), "a summary without samples was changed");
    let done = check(&file, place.path()).with(0);
    assert!(!done.stderr.contains("outdated"), "{}", done.stderr);
}

#[test]
fn requirements_from_samples_are_those_from_their_summaries() {
    let place = folder();
    let (raw, runs) = (place.path().join("raw"), place.path().join("runs"));
    for run in 0..3 {
        let rows: String = (0..50)
            .map(|index| format!("{},16,{}.{:03}7\n", index + 1, index * 7 % 11 + run, index * 13 % 1000))
            .collect();
        for (base, name) in [(&raw, "r1"), (&runs, "r1")] {
            let folder = base.join(format!("{name}{run}"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("measurements_uds.csv"), format!("Sample,Payload [Bytes],Latency [us]\n{rows}"))
                .unwrap();
        }
    }
    let files = ["a.csv", "b.csv"].map(|name| place.path().join(name));
    let processed = place.path().join("process.csv");
    for run in 0..3 {
        let folder = runs.join(format!("r1{run}"));
        fs::write(&processed, format!("{LIMITS}uds,16,99,99,99\n")).unwrap();
        check(&processed, &folder).with(0);
    }
    command(&["determine-requirements"], &[("-e", &raw), ("-o", &files[0])]).with(0);
    command(&["determine-requirements"], &[("-e", &runs), ("-o", &files[1])]).with(0);
    assert_eq!(text(&files[0]), text(&files[1]));
    assert_eq!(names(&raw.join("r10")), ["measurements_uds.csv"]);
}

#[test]
fn what_some_runs_lack_is_said_and_rounds_count_as_runs() {
    let place = folder();
    let runs = place.path().join("runs");
    copy(&golden("runs"), &runs);
    fs::remove_file(runs.join(RUNS[3]).join("measurements_uds_stream_poll_summary.csv")).unwrap();
    fs::write(runs.join(RUNS[4]).join("measurements_uds_stream_poll_summary.csv"), SUMMARY).unwrap();
    fs::write(runs.join("readme.txt"), "").unwrap();
    fs::create_dir(runs.join("empty")).unwrap();
    for round in ["round-01", "round-02"] {
        copy(&golden("experiment"), &runs.join("v2").join(round));
    }
    let file = place.path().join("requirements.csv");
    let done = command(&["determine-requirements"], &[("-e", &runs), ("-o", &file)]).with(0);
    let done = done.says(&["'uds_stream_poll' is missing in 2 of 7 runs: 2026-01-04_12-00-00, 2026-01-05"]);
    done.says(&["note: ignored", "'readme.txt'", "'empty'"]);
    command(&["determine-requirements"], &[("-e", &runs.join("empty")), ("-o", &file)])
        .with(65)
        .one_line(&["no folder"]);
    command(&["determine-requirements"], &[("-e", &runs), ("-o", &place.path().join("no/r.csv"))])
        .with(73)
        .says(&["no/r.csv"]);
    command(&["determine-requirements"], &[("-o", &file)]).with(64);
}

#[test]
fn only_an_increase_above_the_threshold_fails() {
    let reference = experiment(&["uds"], &row(16, [1.0, 2.0, 3.0, 4.0]));
    let compare = |rows: &str, threshold: &str| {
        let results = experiment(&["uds"], rows);
        command(&["compare", "-t", threshold], &[("-R", reference.path()), ("-r", results.path())])
    };
    compare(&row(16, [1.1, 2.2, 3.3, 4.4]), "0.1").with(0);
    compare(&row(16, [0.1, 0.2, 0.3, 0.4]), "0").with(0);
    for increased in [[1.101, 2.0, 3.0, 4.0], [1.0, 2.201, 3.0, 4.0], [1.0, 2.0, 3.301, 4.0], [1.0, 2.0, 3.0, 4.401]] {
        compare(&row(16, increased), "0.1").with(1);
    }
    compare(&row(16, [9.0; 4]), "10").with(0);
    compare(&row(16, [1.0; 4]), "-0.1").with(64).one_line(&["threshold -0.1"]);
    compare(&row(16, [1.0; 4]), "nan").with(64).one_line(&["threshold"]);
}

#[test]
fn what_one_side_lacks_is_named() {
    let both = row(16, [1.0; 4]) + &row(32, [1.0; 4]);
    let reference = experiment(&["uds", "tcp"], &both);
    let compare = |results: &TempDir, flag: &[&str]| {
        command(&[&["compare"], flag].concat(), &[("-R", reference.path()), ("-r", results.path())])
    };
    let lacks = experiment(&["uds"], &both);
    let done = compare(&lacks, &[]).with(1);
    assert!(done.stdout.contains("FAILED: 1 sub-experiment missing in the results: tcp\n"), "{}", done.stdout);
    assert!(done.stdout.contains("1/2 comparisons passed"), "{}", done.stdout);
    let more = experiment(&["uds", "tcp", "mq"], &(both.clone() + &row(64, [1.0; 4])));
    let done = compare(&more, &[]).with(0);
    assert!(done.stdout.contains("not compared: 1 sub-experiment only in the results: mq\n"), "{}", done.stdout);
    assert!(done.stdout.contains("not compared: uds: 1 payload only in the results: 64 bytes\n"), "{}", done.stdout);
    let less = experiment(&["uds", "tcp"], &row(16, [1.0; 4]));
    let done = compare(&less, &[]).with(1);
    assert!(done.stdout.contains("FAILED: uds: 1 payload missing in the results: 32 bytes\n"), "{}", done.stdout);
    compare(&folder(), &[]).with(65).one_line(&["has no results"]);
    compare(&experiment(&["other"], &both), &[]).with(65).one_line(&["nothing to compare"]);
    // A reference without rows: 0 of 0 is not a success.
    let nothing = experiment(&["uds"], "");
    for results in [&lacks, &nothing] {
        let done = command(&["compare"], &[("-R", nothing.path()), ("-r", results.path())]).with(65);
        done.one_line(&["nothing to compare", "measurements_uds_summary.csv"]);
    }
    let done = compare(&lacks, &["--debug"]).with(1);
    assert!(done.stdout.contains("reference") && done.stdout.contains("Mean jitter"), "{}", done.stdout);
}

#[test]
fn history_plots_have_the_names_of_the_original() {
    let place = folder();
    let (database, plots) = (place.path().join("db"), place.path().join("plots"));
    copy(&golden("runs"), &database);
    fs::write(database.join("readme.txt"), "").unwrap();
    fs::create_dir(database.join("plots")).unwrap();
    for run in &RUNS[2..] {
        fs::remove_dir_all(database.join(run)).unwrap();
    }
    // A sub-experiment without requirements, in a single experiment.
    let own = format!("{SUMMARY}{}", row(16, [1.0; 4]));
    fs::write(database.join(RUNS[1]).join("measurements_own_summary.csv"), own).unwrap();
    let paths = [("-r", &*golden("limits.csv")), ("-e", &*database), ("-p", &*plots)];
    let done = command(&["history", "--svg"], &paths).with(0);
    assert!(done.stdout.contains("own: 11 plots of 1 experiment, without requirements\n"), "{}", done.stdout);
    done.says(&["note: ignored", "'readme.txt'", "'plots'"]);
    let mut expected: Vec<String> = ["Min", "Median", "Max", "99"].map(|figure| format!("history_{figure}.svg")).into();
    expected.extend(["Min", "Median", "Max", "99"].map(|figure| format!("history_{figure}_by_date.svg")));
    for bytes in [16, 64, 1024] {
        expected.extend(["Median", "Max", "99"].map(|figure| format!("{bytes}_bytes_{figure}.svg")));
    }
    expected.sort();
    assert_eq!(names(&plots.join("uds_stream_poll")), expected);
    assert_eq!(names(&plots), ["interprocess_reliable_tcp", "own", "uds_stream_poll"]);
    let limit = |name: &str| text(&plots.join(name)).contains("requirement");
    assert!(limit("uds_stream_poll/16_bytes_Max.svg") && !limit("own/16_bytes_Max.svg"));
    let empty = folder();
    command(&["history"], &[("-e", empty.path()), ("-p", &plots)]).with(65).one_line(&["no folder with the results"]);
}

#[test]
fn prune_keeps_the_newest_and_the_named_ones() {
    let place = folder();
    let database = place.path().join("db");
    copy(&golden("runs"), &database);
    let prune = |flags: &[&str]| command(&[&["prune"], flags].concat(), &[("-r", &database)]);
    let done = prune(&["-n", "2", "--dry-run"]).with(0);
    assert!(done.stdout.contains("3 would be removed, 2 kept of 5 experiments\n"), "{}", done.stdout);
    assert_eq!(names(&database), RUNS);
    prune(&["-n", "2", "-s", "2026-01-09_12-00-00"]).with(66).one_line(&["2026-01-09_12-00-00", "nothing was removed"]);
    prune(&["-n", "0"]).with(64).one_line(&["the minimum is 1"]);
    // Two of the named experiments are old, one is among the newest.
    let three = format!("{}/:{}:{}", database.join(RUNS[0]).display(), RUNS[1], RUNS[4]);
    let done = prune(&["-n", "2", "-s", &three]).with(0);
    assert!(done.stdout.contains("1 removed, 4 kept of 5 experiments\n"), "{}", done.stdout);
    assert_eq!(names(&database), [RUNS[0], RUNS[1], RUNS[3], RUNS[4]]);
    prune(&["-n", "2", "-s", RUNS[0]]).with(0);
    assert_eq!(names(&database), [RUNS[0], RUNS[3], RUNS[4]]);
    prune(&[]).with(0);
    assert_eq!(names(&database).len(), 3);
}

#[test]
fn prune_leaves_everything_alone_that_is_no_old_experiment() {
    let place = folder();
    let database = place.path().join("db");
    copy(&golden("runs").join(RUNS[4]), &database.join(RUNS[4]));
    copy(&golden("runs").join(RUNS[3]), &database.join("v1.9.3"));
    fs::create_dir(database.join(RUNS[0])).unwrap();
    fs::create_dir(database.join(RUNS[1])).unwrap();
    fs::write(database.join(RUNS[1]).join("thesis.tex"), "").unwrap();
    let elsewhere = place.path().join("elsewhere");
    copy(&golden("runs").join(RUNS[2]), &elsewhere);
    std::os::unix::fs::symlink(&elsewhere, database.join(RUNS[2])).unwrap();
    fs::write(database.join("2020-01-01_00-00-00"), "a file").unwrap();
    let before = names(&database);
    let done = command(&["prune", "-n", "1"], &[("-r", &database)]).with(0);
    assert_eq!(names(&database), before);
    for name in ["v1.9.3", RUNS[0], RUNS[1], RUNS[2], "2020-01-01_00-00-00"] {
        assert!(done.stdout.contains(&format!("left alone: '{name}'")), "{}", done.stdout);
    }
    assert_eq!(names(&elsewhere).len(), 2);
    command(&["prune"], &[("-r", &database.join("none"))]).with(66).one_line(&["none"]);
}

#[test]
fn folders_without_results_are_no_experiments_to_keep() {
    let place = folder();
    let database = place.path().join("db");
    copy(&golden("runs"), &database);
    for run in &RUNS[3..] {
        fs::remove_dir_all(database.join(run)).unwrap();
        fs::create_dir(database.join(run)).unwrap();
    }
    let prune = |number: &str| command(&["prune", "-n", number], &[("-r", &database)]).with(0);
    let done = prune("2");
    assert!(done.stdout.contains("1 removed, 2 kept of 3 experiments\n"), "{}", done.stdout);
    for run in &RUNS[3..] {
        assert!(done.stdout.contains(&format!("left alone: '{run}': it has no results\n")), "{}", done.stdout);
    }
    assert_eq!(names(&database), RUNS[1..]);
    prune("3");
    assert_eq!(names(&database), RUNS[1..]);
}

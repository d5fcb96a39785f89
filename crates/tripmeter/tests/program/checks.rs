//! Results against requirements and against other results: `check`, `history`.

use crate::common::{Finished, Tripmeter, folder};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const SUMMARY: &str = "Bytes,Samples,Max,Min,Mean,Median,Stdev,Mean jitter,Max jitter,90%,99%,99.99%\n";
const LIMITS: &str = "Experiment type,Bytes,Median,99%,Max\n";

fn tripmeter<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> Finished {
    Tripmeter::new(arguments).run()
}

/// A command and its flags with paths.
fn command(words: &[&str], paths: &[(&str, &Path)]) -> Finished {
    let paths = paths.iter().flat_map(|(flag, path)| [(*flag).to_owned(), path.display().to_string()]);
    tripmeter(&words.iter().map(|word| (*word).to_owned()).chain(paths).collect::<Vec<_>>())
}

/// A row of a summary, with these for min, median, 99% and max.
fn row(bytes: u64, [min, median, p99, max]: [f64; 4]) -> String {
    format!("{bytes},100,{max:.3},{min:.3},{median:.3},{median:.3},0.100,0.100,0.100,{p99:.3},{p99:.3},{max:.3}\n")
}

/// A folder with one summary of these rows for each name.
fn experiment(names: &[&str], rows: &str) -> TempDir {
    let folder = folder();
    for name in names {
        fs::write(folder.path().join(format!("measurements_{name}_summary.csv")), format!("{SUMMARY}{rows}")).unwrap();
    }
    folder
}

/// A file with these requirements in a folder of its own below this one.
fn limits(folder: &TempDir, rows: &str) -> PathBuf {
    let file = folder.path().join("limits/limits.csv");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, format!("{LIMITS}{rows}")).unwrap();
    file
}

#[test]
fn limits_are_loosened_for_all_of_them_together() {
    let place = folder();
    let runs = place.path().join("runs");
    for run in 1..=59_u32 {
        let folder = runs.join(format!("run-{run:04}"));
        fs::create_dir_all(&folder).unwrap();
        let median = 1.0 + 0.01 * f64::from(run);
        let rows = row(16, [1.0, median, 2.0, 3.0]);
        fs::write(folder.join("measurements_uds_summary.csv"), format!("{SUMMARY}{rows}")).unwrap();
    }
    let limits = limits(&place, "uds,16,1.5,2,3\n");
    let measured = |median: f64| experiment(&["uds"], &row(16, [1.0, median, 2.0, 3.0]));
    let check = |experiment: &TempDir| {
        command(&["check"], &[("-r", &limits), ("-e", experiment.path()), ("--family-wise", &runs)])
    };
    command(&["check"], &[("-r", &limits), ("-e", measured(1.58).path())]).with(1);
    check(&measured(1.58)).with(0).says(&["limits times 1.060 (Median), 1.000 (99%), 1.000 (Max)", "59"]);
    check(&measured(1.6)).with(1);
    fs::remove_dir_all(runs.join("run-0001")).unwrap();
    check(&measured(1.0)).with(65).one_line(&["58 whole runs", "needs 59"]);
}

#[test]
fn a_step_in_the_history_fails_until_it_is_known() {
    let place = folder();
    let database = place.path().join("db");
    for day in 1..=16_u32 {
        let median = if day > 8 { 2.4 } else { 2.0 } + 0.01 * f64::from(day % 3);
        let run = database.join(format!("2026-01-{day:02}_12-00-00"));
        fs::create_dir_all(&run).unwrap();
        let rows = row(16, [median, median, 3.0, 9.0]);
        fs::write(run.join("measurements_uds_summary.csv"), format!("{SUMMARY}{rows}")).unwrap();
    }
    let history = |flags: &[&str]| command(&[&["history"], flags].concat(), &[("-e", &database)]);
    let done = history(&["--fail-on-change"]).with(1);
    let line = done.stdout.lines().find(|line| line.starts_with("uds ")).unwrap();
    assert!(["Median", "16", "2026-01-09_12-00-00", "<0.001"].iter().all(|part| line.contains(part)), "{line}");
    assert!(done.stdout.contains("1 step and 0 slow drifts in 2 figures"), "{}", done.stdout);
    let done = history(&["--fail-on-change", "--known", "2026-01-09_12-00-00"]).with(0);
    assert!(
        done.stdout.contains(" known\n") && done.stdout.contains("0 steps and 0 slow drifts in 2 figures"),
        "{}",
        done.stdout
    );
    history(&["--fail-on-change", "--min-change", "50%"]).with(0);
    assert!(["step", "uds"].iter().all(|part| line.contains(part)), "{line}");
    history(&["--fail-on-change", "--known", "2025"]).with(64).one_line(&["'2025'", "--known"]);
    history(&[]).with(64).one_line(&["--plots-directory"]);
}

#[test]
fn a_slow_drift_in_the_history_is_no_flight_of_steps_and_fails_until_it_is_known() {
    let place = folder();
    let database = place.path().join("db");
    let name = |at: i32| format!("2026-{:02}-{:02}_12-00-00", 1 + at / 28, 1 + at % 28);
    for at in 0..50 {
        // Up to the 40th, and from there on as it is.
        let median = 2.0 * 1.01_f64.powi(at.min(40)) * (1.0 + 0.003 * f64::from(at % 3));
        let run = database.join(name(at));
        fs::create_dir_all(&run).unwrap();
        let rows = row(16, [median, median, 3.0, 9.0]);
        fs::write(run.join("measurements_uds_summary.csv"), format!("{SUMMARY}{rows}")).unwrap();
    }
    let history = |flags: &[&str]| command(&[&["history", "--fail-on-change"], flags].concat(), &[("-e", &database)]);
    let done = history(&[]).with(1);
    let drift = done.stdout.lines().find(|line| line.contains(" drift ")).unwrap();
    assert!(drift.contains("Median [µs]") && drift.contains(&name(0)), "{}", done.stdout);
    assert!(done.stdout.contains("0 steps and 1 slow drift in 2 figures"), "{}", done.stdout);
    let known = history(&["--known-drift", &name(49)]).with(0);
    assert!(known.stdout.lines().any(|line| line.contains(" drift ") && line.ends_with(" known")), "{}", known.stdout);
    history(&["--known-drift", &format!("{}:uds", name(49))]).with(0);
    history(&["--known-drift", &format!("{}:tcp", name(49))]).with(64).one_line(&["of 'tcp'", "--known-drift"]);
    // It goes on after what is known; and a known step is no excuse for a drift before it.
    history(&["--known-drift", &name(20)]).with(1);
    history(&["--known", &name(40)]).with(1);
}

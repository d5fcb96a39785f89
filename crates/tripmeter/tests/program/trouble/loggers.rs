//! Loggers whose logging or reading process is killed.

use crate::common::traces::signal;
use crate::common::{Known, LONGEST, alone, folder, is_nightly, say, transports};
use crate::trouble::killed::{check_kept_of, in_the_middle, one_complaint};
use crate::trouble::{SAMPLES, long_and_after, run_file};
use std::path::{Path, PathBuf};
use std::time::Instant;
use tripmeter_abi::Pattern;

/// Lines per payload: enough that most of the time is spent logging and reading.
const LINES: usize = 20_000;

/// The first logging variant of each system, nightly all; the test double has its own tests.
fn loggers(known: &[Known]) -> Vec<String> {
    let mut found = Vec::new();
    for row in known.iter().filter(|row| row.system != "inmem") {
        let Some(description) = &row.description else { continue };
        let can_log = |variant: &str| description.variant(variant).unwrap().patterns.contains(&Pattern::Log);
        let logging = row.variants.iter().filter(|here| here.available && can_log(&here.variant));
        let most = if is_nightly() { usize::MAX } else { 1 };
        found.extend(logging.take(most).map(|here| format!("{}/{}", row.system, here.variant)));
    }
    found
}

/// Experiment of [`long_and_after`], whose long sub-experiment logs.
fn long_log_and_after(folder: &Path, transport: &str) -> PathBuf {
    let file = long_and_after(folder, transport, "block");
    let text = std::fs::read_to_string(&file).unwrap();
    let text = text.replace("name = \"long\"\n", "name = \"long\"\npattern = \"log\"\n");
    let text = text.replace(&format!("samples = {SAMPLES}\n"), &format!("samples = {LINES}\n"));
    std::fs::write(&file, text).unwrap();
    file
}

/// Kills one of the two processes; one line with `parts` names it.
fn killed(victim: &str, parts: &[&str]) {
    let _alone = alone();
    for transport in loggers(&transports()) {
        let folder = folder();
        let results = folder.path().join("results");
        let mut run = run_file(&long_log_and_after(folder.path(), &transport), &results).start();
        let (leader, reader) = in_the_middle(&mut run, &results);
        signal(if victim == "logger" { leader } else { reader }, "KILL");
        let killed = Instant::now();
        let finished = run.wait(LONGEST);
        say(&format!("killed {victim}: {transport}: {:.1} s", killed.elapsed().as_secs_f64()));
        one_complaint(finished, parts);
        check_kept_of(&results, LINES);
    }
}

#[test]
fn a_killed_process_that_logs_ends_its_sub_experiment_only() {
    killed("logger", &["1/2 long", "leader process was ended by signal 9 (kill) in step '"]);
}

#[test]
fn a_killed_reader_of_lines_ends_its_sub_experiment_only() {
    killed("reader", &["1/2 long", "follower", "signal 9 (kill)"]);
}

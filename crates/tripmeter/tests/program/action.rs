//! Scripts of `action.yml`, in an environment like GitHub's.

use crate::common::{alone, folder, repository};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const EXPERIMENT: &str = "payloads = \"1k\"\nsamples = 50\nfloor = false\nattempts = 1\n\n[[sub_experiment]]\n\
                          transport = \"inmem\"\nname = \"it\"\nwait = \"block\"\n";

#[derive(Debug)]
struct EndedStep {
    code: Option<i32>,
    stdout: String,
    #[expect(dead_code, reason = "shown where a test fails")]
    stderr: String,
}

struct Job {
    place: tempfile::TempDir,
}

impl Job {
    fn new() -> Self {
        let place = folder();
        fs::write(place.path().join("it.toml"), EXPERIMENT).unwrap();
        Self { place }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn step(&self, script: &str, variables: &[(&str, &str)]) -> (EndedStep, BTreeMap<String, String>) {
        let temporary = self.path("temp");
        fs::create_dir_all(&temporary).unwrap();
        let done = Command::new(repository().join("scripts/action").join(script))
            .env("GITHUB_WORKSPACE", self.place.path())
            .env("GITHUB_OUTPUT", self.path("output"))
            .env("GITHUB_STEP_SUMMARY", self.path("summary"))
            .env("RUNNER_TEMP", &temporary)
            .env("TRIPMETER", env!("CARGO_BIN_EXE_tripmeter"))
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let done = EndedStep { code: done.status.code(), stdout: text(done.stdout), stderr: text(done.stderr) };
        let outputs = fs::read_to_string(self.path("output")).unwrap_or_default();
        let outputs = outputs.lines().filter_map(|line| line.split_once('='));
        (done, outputs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    fn measure(&self, name: &str) -> String {
        let variables = [("INPUT_RUN", "it.toml"), ("INPUT_ROUNDS", "6"), ("INPUT_ARGUMENTS", "-q --raw none")];
        let (done, outputs) = self.step("measure.sh", &variables);
        assert_eq!((done.code, outputs["measure-code"].as_str()), (Some(0), "0"), "{done:?}");
        let to = self.path(name);
        fs::rename(&outputs["results"], &to).unwrap();
        to.display().to_string()
    }

    fn summary(&self) -> String {
        let text = fs::read_to_string(self.path("summary")).unwrap_or_default();
        let _ = fs::remove_file(self.path("summary"));
        text
    }
}

fn slowed(results: &str, times: f64) {
    let trials = Path::new(results).join("trials.jsonl");
    let lines = fs::read_to_string(&trials).unwrap();
    let slow = |line: &str| {
        let mut value: serde_json::Value = serde_json::from_str(line).unwrap();
        if let Some(statistics) = value["streams"]["all"]["rtt_half_ns"].as_object_mut() {
            for (_, value) in statistics.iter_mut().filter(|(name, value)| *name != "n" && value.is_number()) {
                *value = (value.as_f64().unwrap() * times).into();
            }
        }
        value.to_string() + "\n"
    };
    fs::write(&trials, lines.lines().map(slow).collect::<String>()).unwrap();
}

#[test]
fn a_job_measures_compares_and_fails_where_it_became_slower() {
    let _alone = alone();
    let job = Job::new();
    let (done, outputs) = job.step("install.sh", &[("INPUT_BINARY", env!("CARGO_BIN_EXE_tripmeter"))]);
    assert!(done.code == Some(0) && outputs["binary"].ends_with("tripmeter"), "{done:?}");
    assert_eq!(job.step("install.sh", &[("INPUT_BINARY", "none")]).0.code, Some(66));

    let [old, new] = ["old", "new"].map(|name| job.measure(name));
    let nowhere = job.path("nowhere").display().to_string();
    let (done, outputs) = job.step("judge.sh", &[("RESULTS", &new), ("REFERENCE", &nowhere), ("MEASURE_CODE", "0")]);
    assert!(
        done.code == Some(0) && done.stdout.contains("::notice title=tripmeter::there is no reference"),
        "{done:?}"
    );
    assert_eq!((outputs["result"].as_str(), outputs["exit-code"].as_str()), ("no-reference", "0"));
    let summary = job.summary();
    assert!(summary.contains("| it | 1k |") && summary.contains("passed"), "{summary}");

    // Longer than any stall of a busy machine, so that the rounds of both do not overlap.
    slowed(&new, 10_000.0);
    let (done, outputs) = job.step("judge.sh", &[("RESULTS", &new), ("REFERENCE", &old)]);
    assert!(
        done.code == Some(0) && done.stdout.contains("::error title=it regressed%3A 1k rtt_half_ns.p50"),
        "{done:?}"
    );
    assert_eq!((outputs["result"].as_str(), outputs["exit-code"].as_str()), ("regressed", "1"));
    let summary = job.summary();
    assert!(summary.starts_with("## Tripmeter: regressed\n") && summary.contains("1k rtt_half_ns.p50"), "{summary}");
    for file in ["verdict", "junit", "openmetrics", "summary"] {
        assert!(fs::metadata(&outputs[file]).unwrap().len() > 0, "{file}");
    }
    let junit = fs::read_to_string(&outputs["junit"]).unwrap();
    assert!(junit.contains("<failure type=\"regressed\""), "{junit}");
    assert_eq!(job.step("finish.sh", &[("EXIT_CODE", "1")]).0.code, Some(1));
    assert_eq!(job.step("finish.sh", &[("EXIT_CODE", "1"), ("INPUT_FAIL", "false")]).0.code, Some(0));

    // The opposite direction is not a finding.
    let (_, outputs) = job.step("judge.sh", &[("RESULTS", &old), ("REFERENCE", &new)]);
    assert_eq!(outputs["exit-code"], "0");
    let limits = job.path("limits.csv");
    let row = "sub_experiment,payload_bytes,offered_load,stream,figure,statistic,limit\n\
               it,1024,closed,all,rtt_half_ns,p50,0.5\n";
    fs::write(&limits, row).unwrap();
    let (_, outputs) = job.step("judge.sh", &[("RESULTS", &old), ("REFERENCE", ""), ("INPUT_LIMITS", "limits.csv")]);
    assert_eq!((outputs["result"].as_str(), outputs["exit-code"].as_str()), ("failed", "1"));
    // A failed measurement has no figures, but still fails the job.
    let failed = [("RESULTS", old.as_str()), ("REFERENCE", &new), ("MEASURE_CODE", "75")];
    let (done, outputs) = job.step("judge.sh", &failed);
    assert_eq!((outputs["result"].as_str(), outputs["exit-code"].as_str()), ("incomplete", "75"), "{done:?}");
    let (done, _) = job.step("judge.sh", &[("RESULTS", &old), ("INPUT_LIMITS", "none.csv")]);
    assert!(done.code == Some(66) && done.stdout.contains("::error title=tripmeter::"), "{done:?}");
}

#[test]
fn a_comment_takes_the_place_of_an_earlier_one() {
    let job = Job::new();
    let tools = job.path("tools");
    fs::create_dir_all(&tools).unwrap();
    let summary = job.path("body.md").display().to_string();
    fs::write(&summary, "## Tripmeter: passed\n").unwrap();
    let log = job.path("log");
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    let comment = |gh: &str| {
        let script = format!("#!/bin/sh\necho \"$@\" >>'{}'\n{gh}\n", log.display());
        fs::write(tools.join("gh"), script).unwrap();
        fs::set_permissions(tools.join("gh"), fs::Permissions::from_mode(0o755)).unwrap();
        let variables = [
            ("PATH", path.as_str()),
            ("SUMMARY", &summary),
            ("GITHUB_REPOSITORY", "o/r"),
            ("PULL_REQUEST", "7"),
            ("INPUT_NAME", "shm"),
        ];
        let (done, _) = job.step("comment.sh", &variables);
        let called = fs::read_to_string(&log).unwrap();
        fs::remove_file(&log).unwrap();
        (done, called)
    };
    let (done, called) = comment("");
    assert!(done.code == Some(0) && called.contains("--method POST repos/o/r/issues/7/comments"), "{done:?} {called}");
    let (_, called) = comment("case \"$*\" in *--paginate*) printf '11\\n12\\n' ;; esac");
    assert!(called.contains("--method PATCH repos/o/r/issues/comments/12") && !called.contains("POST"), "{called}");
    let body = fs::read_to_string(job.path("temp/tripmeter-comment.md")).unwrap();
    assert_eq!(body, "<!-- tripmeter: shm -->\n## Tripmeter: passed\n");
    let (done, _) = comment("exit 1");
    assert!(done.code == Some(0) && done.stdout.contains("::warning title=tripmeter::"), "{done:?}");
}

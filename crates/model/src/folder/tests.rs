//! Results folders that are whole, cut off, wrong or too long.

use super::*;
use crate::figure::Figure;
use crate::metric::Stream;
use crate::pace::OfferedLoad;

fn folder(version: &str, trials: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let manifest = serde_json::json!({
        "schema_version": version, "tripmeter_version": "", "started": "", "ended": null, "status": "running",
        "from_the_future": 1,
        "plan": {
            "source": "", "sub_experiments": [], "rounds": 1, "seed": 1, "raw": ["samples"], "daemons": "start",
            "loss_timeout_ns": 1, "leader_cpu": null, "follower_cpu": null, "left_out": [],
        },
        "environment": {
            "kernel": "", "cpu_model": "", "cpus": [], "virtual_machine": false, "memory_bytes": 1,
            "clock": { "source": "tsc", "reason": null, "frequency_hz": 1.0, "read_cost_ns": 1.0,
                "granularity_ns": 1.0, "drift_ppm": null },
            "before": { "load_1min": 0.0, "steal_ns": 0 }, "after": null,
        },
    });
    std::fs::write(folder.path().join(MANIFEST), manifest.to_string()).unwrap();
    let begun = serde_json::to_string(&TrialsLine::SubExperiment(state("running", 0))).unwrap();
    std::fs::write(folder.path().join(TRIALS), begun + "\n" + trials).unwrap();
    folder
}

fn line(round: u32, payload_bytes: u64, samples: u64) -> String {
    lines_of(round, PayloadResult { payload_bytes, samples, ..PayloadResult::default() })
}

fn lines_of(round: u32, cell: PayloadResult) -> String {
    let mut trial = Trial::new(OfferedLoad::Closed);
    trial.put(&Stream::all(), Figure::Sent, cell.samples as f64);
    let mut cell = PayloadResult { trials: vec![trial.clone()], ..cell };
    cell.earlier_attempts.iter_mut().for_each(|earlier| earlier.trials = vec![trial.clone()]);
    let of = SubExperimentResult { round, ..state("running", 0) };
    let lines = payload_lines(&of, &cell);
    lines.iter().map(|line| serde_json::to_string(line).unwrap() + "\n").collect()
}

fn state(status: &str, payloads: u32) -> SubExperimentResult {
    let state = serde_json::json!({
        "name": "a", "round": 1, "status": status, "error": null, "transport_version": "", "system_version": "",
        "same_process": false, "path_proof": null, "memory_lock": null, "payloads": payloads,
    });
    serde_json::from_value(state).unwrap()
}

#[test]
fn the_last_line_of_a_payload_counts_and_one_that_is_cut_off_does_not() {
    let text = [line(1, 64, 1), line(1, 128, 2), line(2, 64, 9), line(1, 64, 3)].concat() + "{\"kind\": \"trial\", ";
    let there = folder("3.7", &text);
    let read = read(there.path(), |text| text.into()).unwrap();
    let cells: Vec<_> = read.sub_experiments[0].cells.iter().map(|cell| (cell.payload_bytes, cell.samples)).collect();
    assert_eq!(cells, [(64, 3), (128, 2)]);
    let audit = read.environment.audit_before;
    assert!(audit.is_none(), "there is no file of it");
}

#[test]
fn payloads_that_an_ended_sub_experiment_lacks_are_missed() {
    let there = folder("2.0", &line(1, 64, 1));
    assert!(read(there.path(), |text| text.into()).is_ok(), "it was killed");
    let ended = serde_json::to_string(&TrialsLine::SubExperiment(state("complete", 2))).unwrap() + "\n";
    let trials = std::fs::read_to_string(there.path().join(TRIALS)).unwrap() + &ended;
    std::fs::write(there.path().join(TRIALS), trials).unwrap();
    let refused = || read(there.path(), |text| text.into()).unwrap_err().to_string();
    assert!(refused().contains("trials.jsonl' has only 1 of the 2 payloads measured of 'a', round 1"), "{}", refused());
    let manifest = std::fs::read_to_string(there.path().join(MANIFEST)).unwrap();
    let of_an_end = manifest.replace("\"from_the_future\":1", "\"results\":2");
    std::fs::write(there.path().join(MANIFEST), of_an_end).unwrap();
    assert!(refused().contains("has only 1 of the 2 sub-experiments"), "{}", refused());
    std::fs::remove_file(there.path().join(TRIALS)).unwrap();
    assert!(refused().contains("has only 0 of the 2 sub-experiments"), "{}", refused());
}

#[test]
fn the_highest_attempt_counts_and_trials_without_a_payload_do_not() {
    let cell = |samples| PayloadResult { payload_bytes: 64, samples, ..PayloadResult::default() };
    let thrice = PayloadResult { earlier_attempts: vec![cell(1), cell(2)], ..cell(3) };
    let whole = lines_of(1, thrice.clone());
    let unknown = "{\"kind\":\"new\"}\n";
    // A trial of the next payload, whose line was not written before the kill.
    let pending = line(1, 128, 9).lines().next().unwrap().to_owned() + "\n";
    for text in [&whole, &(line(1, 64, 1) + &whole), &[&whole, unknown, &whole, &pending].concat()] {
        let read = read(folder("2.0", text).path(), |text| text.into()).unwrap();
        let cells = &read.sub_experiments[0].cells;
        let earlier: Vec<u64> = cells[0].earlier_attempts.iter().map(|earlier| earlier.samples).collect();
        assert_eq!((cells.len(), cells[0].samples, earlier), (1, 3, vec![1, 2]));
        let attempts = cells[0].earlier_attempts.iter().chain(cells);
        assert!(attempts.into_iter().all(|one| one.trials.len() == 1), "{cells:?}");
    }
}

#[test]
fn other_major_versions_and_wrong_lines_are_refused() {
    let refused = |version: &str, trials: &str| {
        let there = folder(version, trials);
        read(there.path(), |text| text.into()).unwrap_err().to_string()
    };
    assert!(refused("4.0", "").contains("manifest.json' has schema version 4.0, this tripmeter reads 3.0"));
    let text = line(1, 64, 1) + "{}\n";
    assert!(
        refused("2.0", &text).contains("trials.jsonl' cannot be read: line 4, column 2: the key 'kind' is missing")
    );
    for (right, wrong, says) in [
        ("\"sent\":1", "\"sent\":\"x\"", "'streams.all.sent': found \"x\", expected a whole number"),
        ("\"samples\":1", "\"samples\":-1", "'samples': found -1, expected a whole number of 0 or more"),
        ("\"kind\":\"closed\"", "\"kind\":\"rate\",\"rate_hz\":-5", "found -5.0, expected a number of 0 or more"),
        ("{\"kind\":\"closed\"}", "[]", "'load': "),
    ] {
        let text = line(1, 64, 1);
        assert!(text.contains(right), "{text}");
        let told = refused("2.0", &text.replace(right, wrong));
        assert!(told.contains("trials.jsonl' cannot be read: line ") && told.contains(says), "{told}");
    }
    let nowhere = read(Path::new("/nowhere"), |text| text.into()).unwrap_err();
    assert!(matches!(nowhere, FolderError::NotThere { .. }), "{nowhere}");
}

/// Replaces the folder each time that the reader has the text of a file.
#[test]
fn files_of_two_folders_are_never_read_as_one() {
    let [here, there] = [64, 128].map(|bytes| folder("2.0", &line(1, bytes, 1)));
    let elsewhere = here.path().with_extension("elsewhere");
    for (from, to) in [(there.path(), Some(here.path())), (here.path(), None)] {
        let replaced = read(here.path(), |text| {
            if !elsewhere.exists() {
                std::fs::rename(here.path(), &elsewhere).unwrap();
                to.into_iter().for_each(|to| std::fs::rename(from, to).unwrap());
            }
            text.into()
        });
        let error = replaced.unwrap_err();
        assert!(matches!(error, FolderError::Replaced(_)), "{error}");
        if to.is_some() {
            std::fs::rename(here.path(), there.path()).unwrap();
        }
        std::fs::rename(&elsewhere, here.path()).unwrap();
    }
    assert!(read(here.path(), |text| text.into()).is_ok());
}

#[test]
fn a_finished_payload_without_its_figures_is_damaged() {
    let text = line(1, 64, 1);
    for (right, wrong, says) in [
        ("{\"all\":{\"sent\":1}}", "{}", "'a' at 64 bytes, round 1, attempt 1, has no figures in trial 1 of 1"),
        ("\"attempt\":1", "\"attempt\":2", "has only 0 of 1 trials before its line"),
        ("\"payload_bytes\":64,\"attempt\"", "\"payload_bytes\":65,\"attempt\"", "has only 0 of 1 trials"),
        ("\"sub_experiment\":\"a\"", "\"sub_experiment\":\"b\"", "has only 0 of 1 trials"),
        ("\"round\":1", "\"round\":2", "has only 0 of 1 trials"),
    ] {
        let wrong = text.replacen(right, wrong, 1);
        assert_ne!(wrong, text, "{right}");
        let told = read(folder("2.0", &wrong).path(), |text| text.into()).unwrap_err().to_string();
        assert!(told.contains(says) && told.contains("the file is damaged"), "{told}");
    }
}

#[test]
fn a_list_is_no_object() {
    let there = folder("2.0", &line(1, 64, 1));
    let told = |name: &str, text: &str| {
        let before = std::fs::read_to_string(there.path().join(name)).unwrap_or_default();
        std::fs::write(there.path().join(name), text).unwrap();
        let told = read(there.path(), |text| text.into()).unwrap_err().to_string();
        std::fs::write(there.path().join(name), before).unwrap();
        told
    };
    let manifest = std::fs::read_to_string(there.path().join(MANIFEST)).unwrap();
    let status = |with: &str| told(MANIFEST, &manifest.replace("\"running\"", with));
    assert!(told(MANIFEST, &format!("[{manifest}]")).ends_with("has no schema version, so it is not from tripmeter"));
    assert!(status("4").contains("'status': found 4, expected a word"), "{}", status("4"));
    assert!(told(AUDIT, "[]\n").contains("line 1, column 1: found [], expected an object; remove"));
}

#[test]
fn links_are_not_followed_wherever_they_are() {
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::write(elsewhere.path().join("a.csv"), "theirs").unwrap();
    let link = |place: &str| {
        let folder = folder(SCHEMA_VERSION, &line(1, 16, 1));
        std::fs::create_dir_all(folder.path().join("round-01/histograms")).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), folder.path().join(place)).unwrap();
        read(folder.path(), |text| text.into()).map(drop)
    };
    let places = ["samples", "round-02", "round-01/samples", "round-01/histograms/a.hlog", "audit.json"];
    for place in places.into_iter().chain(["attempts", "logs", "measurements_a.csv", "round-01/attempts"]) {
        let error = link(place).unwrap_err().to_string();
        assert!(error.contains(place) && error.contains("is a link"), "{error}");
    }
    // Other entries, and files that are only replaced whole, may be links.
    assert!(["notes", "metrics.csv", "measurements_a_summary.csv"].into_iter().all(|place| link(place).is_ok()));
}

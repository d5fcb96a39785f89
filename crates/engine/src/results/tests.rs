use super::*;

#[test]
fn logs_that_a_link_leads_to_are_left_alone() {
    let parent = tempfile::tempdir().unwrap();
    let (folder, theirs) = (parent.path().join("results"), parent.path().join("theirs"));
    fs::create_dir_all(theirs.join("logs")).unwrap();
    fs::write(theirs.join("logs/empty"), "").unwrap();
    let mut results = Results::create(Some(&folder), true).unwrap();
    std::os::unix::fs::symlink(&theirs, folder.join("round-01")).unwrap();
    fs::create_dir(folder.join("round-02")).unwrap();
    std::os::unix::fs::symlink(theirs.join("logs"), folder.join("round-02/logs")).unwrap();
    results.remove_empty_logs(2);
    assert!(theirs.join("logs/empty").exists());
    assert!(results.begin_round(1).is_err() && results.begin_round(2).is_err());
}

#[test]
fn a_folder_with_something_in_it_is_refused() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("a/b");
    let mut results = Results::create(Some(&folder), false).unwrap();
    results.begin_round(1).unwrap();
    results.remove_empty_logs(1);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    assert!(Results::create(Some(&folder), false).is_ok());
    fs::write(folder.join(LOCK), "").unwrap();
    fs::write(folder.join(BEING_WRITTEN.to_owned() + "a1b2c3"), "{").unwrap();
    assert!(Results::create(Some(&folder), false).is_ok(), "killed while the first manifest was written");
    fs::write(folder.join("x"), "").unwrap();
    assert!(matches!(Results::create(Some(&folder), false), Err(ResultsError::NotEmpty(_))));
    let file = folder.join("x/y");
    assert!(matches!(Results::create(Some(&file), false), Err(ResultsError::NotWritable(..))));
}

#[test]
fn a_folder_is_created_in_the_one_that_is_open_and_in_no_other() {
    let place = tempfile::tempdir().unwrap();
    let (parent, moved) = (place.path().join("runs"), place.path().join("moved"));
    fs::create_dir(&parent).unwrap();
    let opened = FolderHandle::open(&parent).unwrap();
    let created = Results::create_within(&opened, "run-0001", false).unwrap();
    assert_eq!(created.folder().path(), parent.join("run-0001"));
    fs::write(parent.join("run-0001/x"), "").unwrap();
    assert!(matches!(Results::create_within(&opened, "run-0001", false), Err(ResultsError::NotEmpty(_))));
    fs::rename(&parent, &moved).unwrap();
    assert!(Results::create_within(&opened, "run-0002", false).is_err() && !parent.exists());
    fs::create_dir(&parent).unwrap();
    assert!(Results::create_within(&opened, "run-0002", false).is_err());
    assert_eq!(fs::read_dir(&parent).unwrap().count(), 0);
}

#[test]
fn beginnings_of_files_are_removed_and_nothing_else() {
    let place = tempfile::tempdir().unwrap();
    let (beginning, elsewhere) = (BEING_WRITTEN.to_owned() + "a1B2c3", place.path().join("elsewhere"));
    let folder = place.path().join("results");
    let of = |name: &str| folder.join(BEING_WRITTEN.to_owned() + name);
    fs::create_dir_all(of("folder")).unwrap();
    for file in [&folder.join(&beginning), &of("longer7"), &of("a.2c3d"), &folder.join("x"), &elsewhere] {
        fs::write(file, "{").unwrap();
    }
    std::os::unix::fs::symlink(&elsewhere, of("linked")).unwrap();
    Results::resume(&LockedFolder::take(&folder).unwrap(), false);
    assert!(!folder.join(beginning).exists());
    let others = [of("folder"), of("longer7"), of("a.2c3d"), of("linked"), folder.join("x"), elsewhere];
    assert!(others.iter().all(|file| file.exists()), "{others:?}");
}

#[test]
fn a_manifest_is_replaced_whole_under_whoever_reads_it() {
    let parent = tempfile::tempdir().unwrap();
    let results = Results::create(Some(parent.path()), false).unwrap();
    let environment = crate::environment::environment(&crate::clock::Calibration::new());
    let mut manifest: Manifest = serde_json::from_value(serde_json::json!({
        "schema_version": "2.0", "tripmeter_version": "", "started": "first", "ended": null, "status": "running",
        "environment": environment, "plan": {
            "source": "", "sub_experiments": [], "rounds": 1, "seed": 1, "raw": ["samples"], "daemons": "start",
            "loss_timeout_ns": 1, "leader_cpu": null, "follower_cpu": null, "left_out": [],
        },
    }))
    .unwrap();
    results.write(&manifest).unwrap();
    let mut reader = fs::File::open(parent.path().join(MANIFEST)).unwrap();
    manifest.started = "second".to_owned();
    results.write(&manifest).unwrap();
    let first: Manifest = serde_json::from_reader(&mut reader).unwrap();
    let second: Manifest = serde_json::from_slice(&fs::read(parent.path().join(MANIFEST)).unwrap()).unwrap();
    assert_eq!((first.started.as_str(), second.started.as_str()), ("first", "second"));
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1, "a temporary file was left");
}

#[test]
fn what_is_written_grows_with_what_is_measured() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tripmeter/tests/golden/results-2.0");
    let read = tripmeter_model::folder::read(&golden, |text| text.into()).unwrap();
    let written = |sub_experiments: usize| {
        let parent = tempfile::tempdir().unwrap();
        let results = Results::create(Some(parent.path()), false).unwrap();
        let mut manifest = Manifest { sub_experiments: Vec::new(), ..read.clone() };
        results.write(&manifest).unwrap();
        results.begin_trials(&manifest).unwrap();
        for number in 0..sub_experiments {
            let cells = std::mem::take(&mut read.sub_experiments[0].clone().cells);
            let name = format!("sub-experiment-{number:04}");
            let result = SubExperimentResult { name, cells: Vec::new(), ..read.sub_experiments[0].clone() };
            manifest.sub_experiments.push(result.clone());
            (0..3).for_each(|_| results.append_state(&result).unwrap());
            (0..13).for_each(|_| results.append_payload(&result, &cells[0], true).unwrap());
        }
        results.write(&manifest).unwrap();
        let length = |name: &str| fs::metadata(parent.path().join(name)).unwrap().len();
        // The manifest was written twice.
        let bytes = 2 * length(MANIFEST) + length(TRIALS) + length(METRICS);
        println!("{sub_experiments} sub-experiments with 13 payloads: {bytes} bytes");
        bytes
    };
    let (few, many) = (written(4), written(40));
    assert!(many < 10 * few, "{few} {many}");
}

#[test]
fn a_payload_that_cannot_be_appended_leaves_no_figures() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tripmeter/tests/golden/results-2.0");
    let read = tripmeter_model::folder::read(&golden, |text| text.into()).unwrap();
    let parent = tempfile::tempdir().unwrap();
    let results = Results::create(Some(parent.path()), false).unwrap();
    results.begin_trials(&Manifest { sub_experiments: Vec::new(), ..read.clone() }).unwrap();
    let of = &read.sub_experiments[0];
    let written = || fs::read(parent.path().join(METRICS)).unwrap();
    results.append_payload(of, &of.cells[0], true).unwrap();
    let before = written();
    let trials = parent.path().join(TRIALS);
    fs::remove_file(&trials).unwrap();
    std::os::unix::fs::symlink("/dev/full", &trials).unwrap();
    assert!(results.append_payload(of, &of.cells[1], true).is_err());
    assert_eq!(written(), before);
}

#[test]
fn a_folder_that_becomes_read_only_is_to_be_made_writable_and_resumed() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tripmeter/tests/golden/results-2.0");
    let read = tripmeter_model::folder::read(&golden, |text| text.into()).unwrap();
    let parent = tempfile::tempdir().unwrap();
    let results = Results::create(Some(parent.path()), false).unwrap();
    let says = |kind: ErrorKind| {
        let error = results.not_writable(parent.path().join(TRIALS), kind.into()).to_string();
        (error.contains("--resume DIR"), error.contains(" -o"), error.contains("free some space"))
    };
    let kinds = [ErrorKind::ReadOnlyFilesystem, ErrorKind::PermissionDenied, ErrorKind::QuotaExceeded];
    assert_eq!(kinds.map(says), [(false, true, false); 3], "nothing is there to be resumed");
    results.write(&read).unwrap();
    assert_eq!(kinds.map(says), [(true, false, false), (true, false, false), (true, false, true)]);
}

#[test]
fn a_clock_that_is_far_off_gives_a_date_that_results_may_have() {
    for seconds in [0, LAST_SECOND as u64 + 1, 253_402_300_799, u64::MAX] {
        for hours in [-14, 0, 14] {
            let zone = jiff::tz::TimeZone::fixed(jiff::tz::offset(hours));
            let date = within_years(seconds).to_zoned(zone).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
            assert_eq!(tripmeter_model::check_date(&date), Ok(()), "{date}");
        }
    }
}

#[test]
fn rounds_have_folders_of_their_own() {
    let parent = tempfile::tempdir().unwrap();
    let mut results = Results::create(Some(parent.path()), true).unwrap();
    results.begin_round(2).unwrap();
    assert!(results.round(2).unwrap().path().ends_with("round-02") && results.round_path(2).is_dir());
    let locked = LockedFolder::take(parent.path()).unwrap();
    assert!(matches!(LockedFolder::take(parent.path()), Err(ResultsError::InUse(_))));
    assert!(Results::reopen(&locked, 2).unwrap().round(2).is_ok());
    assert!(Results::reopen(&locked, 1).unwrap().round(2).is_err());
}

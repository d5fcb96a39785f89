//! Sample and histogram files truncated at the end of a line, so that nothing looks cut off.

use crate::common::{Tripmeter, alone, folder};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tripmeter_model::{VERSION, exit};

const NAME: &str = "uds_stream_block";

/// Round trips of two payloads, with all files.
fn measured(more: &[&str]) -> (TempDir, PathBuf) {
    let place = folder();
    let words = ["ping", "uds/stream", "-q", "--wait", "block", "-n", "40", "--payloads", "16,32", "--no-floor"];
    let fixed = ["--attempts", "1", "-o", "results"];
    Tripmeter::new(words.iter().chain(&fixed).chain(more)).at(place.path()).run().with(exit::GOOD);
    let results = place.path().join("results");
    (place, results)
}

/// Makes the results look killed after all payloads were finished.
fn make_killed(results: &Path) {
    let file = results.join("manifest.json");
    let mut manifest: serde_json::Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    (manifest["status"], manifest["ended"], manifest["results"]) = ("running".into(), ().into(), 0.into());
    fs::write(file, manifest.to_string()).unwrap();
    let trials = results.join("trials.jsonl");
    let text = fs::read_to_string(&trials).unwrap();
    let kept = text.lines().filter(|line| !line.contains("\"status\":\"complete\""));
    fs::write(trials, kept.map(|line| format!("{line}\n")).collect::<String>()).unwrap();
}

/// Removes all lines for which `is_kept` is false.
fn keep_lines(file: &Path, is_kept: impl Fn(usize, &str) -> bool) {
    let text = fs::read_to_string(file).unwrap();
    let kept: String =
        text.split_inclusive('\n').enumerate().filter(|(at, line)| is_kept(*at, line)).map(|(_, line)| line).collect();
    assert!(kept.len() < text.len());
    fs::write(file, kept).unwrap();
}

#[test]
fn a_run_is_not_resumed_if_files_of_finished_payloads_lack_lines() {
    let _alone = alone();
    let (place, results) = measured(&["--raw", "samples,eprosima"]);
    let samples = format!("samples/{NAME}.csv");
    let (measurements, histograms) = (format!("measurements_{NAME}.csv"), format!("histograms/{NAME}.hlog"));
    let resume = || Tripmeter::new(["run", "-q", "--resume", "results"]).at(place.path()).run();
    for is_killed in [false, true] {
        if is_killed {
            make_killed(&results);
        }
        for (file, what) in [
            (&samples, "lacks samples of finished payloads: 10 of trial 2; it was cut off"),
            (&measurements, "lacks round trips of finished payloads: 10 of 32 bytes; it was cut off"),
            (&histograms, "lacks histograms of finished payloads: payload_16; it was cut off"),
        ] {
            let path = results.join(file);
            let before = fs::read(&path).unwrap();
            let is_kept =
                |at: usize, line: &str| if file == &histograms { !line.contains("payload_16,") } else { at <= 70 };
            keep_lines(&path, is_kept);
            let cut = fs::read(&path).unwrap();
            resume().with(exit::DATA).one_line(&[file, what]);
            assert!(fs::read(&path).unwrap() == cut, "it is not changed");
            fs::remove_file(&path).unwrap();
            resume().with(exit::DATA).one_line(&[file, "of finished payloads", "it is not there"]);
            fs::write(&path, before).unwrap();
        }
    }
    resume().with(exit::GOOD);
}

/// Replacement for `tripmeter_parquet` that copies the file.
fn copying(place: &Path) -> String {
    let plugins = place.join("plugins");
    fs::create_dir_all(&plugins).unwrap();
    let script = format!(
        "#!/bin/sh\n[ $# = 1 ] && exec echo tripmeter_parquet {VERSION}\n[ $# = 3 ] && shift\ncp \"$1\" \"$2\"\n"
    );
    let helper = plugins.join("tripmeter_parquet");
    fs::write(&helper, script).unwrap();
    fs::set_permissions(&helper, fs::Permissions::from_mode(0o755)).unwrap();
    plugins.display().to_string()
}

#[test]
fn samples_are_exported_and_drawn_whole_or_not_at_all() {
    let _alone = alone();
    let (place, results) = measured(&["--rounds", "2", "--keep-samples", "1"]);
    let plugins = copying(place.path());
    let run = |words: &str| {
        let made = Tripmeter::new(words.split(' ')).at(place.path());
        made.environment("TRIPMETER_TRANSPORTS", &plugins).run()
    };
    const COMMANDS: [&str; 3] = [
        "export results --format parquet -o parquet",
        "export results --format svg -o svg",
        "report results -o page.html",
    ];
    let file = format!("round-02/samples/{NAME}.csv");
    let path = results.join(&file);
    let whole = fs::read_to_string(&path).unwrap();
    COMMANDS.iter().for_each(|command| drop(run(command).with(exit::GOOD)));
    let made = format!("parquet/round-02/samples/{NAME}.parquet");
    assert_eq!(fs::read_to_string(place.path().join(&made)).unwrap(), whole);
    assert!(!place.path().join("parquet/round-01").exists(), "it has no samples any more");

    // Rows that a kill left at the end do not count, and are not exported.
    for more in ["2,9,16,all,1,ok,,1,,2\n", "2,9,16,all,1", "1,1,16,all,1,ok,,1,,2\n"] {
        fs::write(&path, format!("{whole}{more}")).unwrap();
        COMMANDS.iter().for_each(|command| drop(run(command).with(exit::GOOD)));
        let text = fs::read_to_string(place.path().join(&made)).unwrap();
        assert_eq!(
            text.lines().filter(|line| line.matches(',').count() == 9).collect::<Vec<_>>(),
            whole.lines().collect::<Vec<_>>()
        );
    }
    // The report reads the first payload.
    keep_lines(&path, |at, _| at <= 30);
    for command in COMMANDS {
        run(command).with(exit::DATA).one_line(&[&file, "lacks samples of finished payloads: 10 of trial 1"]);
    }
    // Missing next to other sample files, it is an error. A folder without samples counts as copied without them.
    fs::remove_file(&path).unwrap();
    for command in COMMANDS {
        run(command).with(exit::DATA).one_line(&[&file, "40 of trial 1, 40 of trial 2; it is not there"]);
    }
    fs::remove_dir(results.join("round-02/samples")).unwrap();
    run(COMMANDS[0]).with(exit::DATA).one_line(&[&file, "it is not there"]);
    for command in &COMMANDS[1..] {
        run(command).with(exit::GOOD).says(&["note: 'results' has no samples"]);
    }
}

#[test]
fn samples_that_a_run_has_made_parquet_are_exported() {
    let _alone = alone();
    let (place, results) = measured(&[]);
    let [csv, parquet] = ["csv", "parquet"].map(|ending| results.join(format!("samples/{NAME}.{ending}")));
    fs::remove_file(&csv).unwrap();
    let plugins = copying(place.path());
    let export = || {
        let made = Tripmeter::new("export results --format parquet -o made".split(' ')).at(place.path());
        made.environment("TRIPMETER_TRANSPORTS", &plugins).run()
    };
    export().with(exit::DATA).one_line(&["samples of finished payloads", "it is not there"]);
    fs::write(&parquet, "PAR1 rows PAR1").unwrap();
    export().with(exit::GOOD);
    let made = place.path().join(format!("made/samples/{NAME}.parquet"));
    assert_eq!(fs::read_to_string(&made).unwrap(), "PAR1 rows PAR1");
    fs::write(&parquet, "PAR1 rows").unwrap();
    export().with(exit::DATA).one_line(&[".parquet", "cut off"]);
    fs::rename(&parquet, place.path().join("elsewhere")).unwrap();
    symlink(place.path().join("elsewhere"), &parquet).unwrap();
    export().with(exit::DATA).one_line(&[".parquet", "is a link"]);
}

#[test]
fn no_summary_is_made_of_round_trips_that_lack_some() {
    let _alone = alone();
    let (place, results) = measured(&["tcp", "--raw", "eprosima"]);
    let file = format!("measurements_{NAME}.csv");
    let path = results.join(&file);
    let run = |words: &str| Tripmeter::new(words.split(' ')).at(place.path()).run();
    run("eprosima process results").with(exit::GOOD);
    let summary = results.join(format!("measurements_{NAME}_summary.csv"));
    fs::remove_file(&summary).unwrap();
    keep_lines(&path, |at, _| at <= 79);
    let finished = run("eprosima process results").with(exit::DATA);
    finished.says(&[&file, "lacks round trips of finished payloads: 1 of 32 bytes; it was cut off"]);
    assert!(!summary.exists());
    fs::remove_file(&path).unwrap();
    run("eprosima process results")
        .with(exit::DATA)
        .one_line(&[&file, "40 of 16 bytes, 40 of 32 bytes; it is not there"]);
}

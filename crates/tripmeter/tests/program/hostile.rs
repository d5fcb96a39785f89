//! Malicious files: paths in place of names, links, FIFOs, excessive sizes, and text that a terminal acts on.

use crate::common::{Finished, Tripmeter, folder, plugin, repository, transports};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use tripmeter_abi::{Names, Setting};
use tripmeter_model::exit;
use tripmeter_model::sidecar::Sidecar;

/// Sub-experiment of [`measured`].
const NAME: &str = "uds_stream_block";
const LIMITS: &str = "Experiment type,Bytes,Median,99%,Max\n";

/// Folder with the results of a small experiment of payloads 16 and 32 in `results`.
fn measured() -> TempDir {
    let place = folder();
    let words = "ping uds/stream -q --raw eprosima --wait block -n 20 --payloads 16,32 --no-floor -o results";
    Tripmeter::new(words.split(' ')).at(place.path()).run().with(exit::GOOD);
    place
}

fn change(results: &Path, change: impl FnOnce(&mut Value)) {
    let file = results.join("manifest.json");
    let mut manifest: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    change(&mut manifest);
    fs::write(file, manifest.to_string()).unwrap();
}

/// Changes the records of the sub-experiment in a results folder.
fn change_states(results: &Path, change: impl Fn(&mut Value)) {
    let file = results.join("trials.jsonl");
    let changed = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        if line["kind"] == "sub-experiment" {
            change(&mut line);
        }
        format!("{line}\n")
    };
    let lines: String = fs::read_to_string(&file).unwrap().lines().map(changed).collect();
    fs::write(file, lines).unwrap();
}

/// Leaves the state of a kill while the second payload is written to `trials.jsonl`.
fn killed_after_one_payload(results: &Path) {
    change(results, |manifest| {
        (manifest["status"], manifest["ended"], manifest["results"]) = (json!("running"), json!(null), json!(0));
    });
    let trials = results.join("trials.jsonl");
    let text = fs::read_to_string(&trials).unwrap();
    let payload = text.find("{\"kind\":\"payload\"").unwrap();
    let first = payload + text[payload..].find('\n').unwrap();
    fs::write(trials, &text[..first + 100]).unwrap();
}

fn tripmeter(place: &TempDir, line: &str) -> Finished {
    Tripmeter::new(line.split(' ')).at(place.path()).run()
}

/// Runs a command with little memory.
fn in_little_memory(place: &TempDir, line: &str) -> Finished {
    Tripmeter::under(&["prlimit", "--as=800000000"], line.split(' ')).at(place.path()).run()
}

#[test]
fn a_figure_of_the_wrong_type_is_an_error_and_an_unknown_key_is_not() {
    let place = measured();
    let trials = place.path().join("results/trials.jsonl");
    let right = fs::read_to_string(&trials).unwrap();
    let number = right.lines().position(|line| line.contains("\"kind\":\"trial\"")).unwrap() + 1;
    let line = format!("line {number}, column ");
    let with = |found: &str, instead: &str| {
        let wrong = right.replacen(found, instead, 1);
        assert_ne!(wrong, right, "{found}");
        fs::write(&trials, wrong).unwrap();
    };
    for (found, instead, key, what) in [
        ("\"p50\":", "\"p50\":\"x\",\"new\":", "'streams.all.rtt_half_ns.p50'", "found \"x\", expected a number"),
        ("\"n\":", "\"n\":-1,\"new\":", "'streams.all.rtt_half_ns.n'", "expected a whole number that is not negative"),
        ("\"sent\":", "\"sent\":\"9\",\"new\":", "'streams.all.sent'", "found \"9\", expected a whole number"),
    ] {
        with(found, instead);
        for command in ["show results", "export results --format csv", "compare results results"] {
            tripmeter(&place, command).with(exit::DATA).one_line(&["results/trials.jsonl", &line, key, what]);
        }
    }
    with("\"p50\":", "\"p98\":\"x\",\"p50\":");
    tripmeter(&place, "show results").with(exit::GOOD);
}

/// No reader may overflow when adding counts: each count is checked on its own.
#[test]
fn a_count_that_no_measurement_has_is_refused() {
    const MOST: u64 = 1 << 53;
    let place = measured();
    let trials = place.path().join("results/trials.jsonl");
    let right = fs::read_to_string(&trials).unwrap();
    let with = |kind: &str, key: &str, value: u64| {
        let changed = |line: &str| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            if line["kind"] == kind && (kind != "sub-experiment" || line["path_proof"].is_object()) {
                *key.split('.').fold(&mut line, |line, key| &mut line[key]) = json!(value);
            }
            format!("{line}\n")
        };
        let text: String = right.lines().map(changed).collect();
        assert_ne!(text, right, "{key}");
        fs::write(&trials, text).unwrap();
    };
    let refused = |key: &str, value: u64, command: &str| {
        let parts = ["results/trials.jsonl", "line ", &format!("'{key}'"), &value.to_string(), &MOST.to_string()];
        tripmeter(&place, command).with(exit::DATA).one_line(&parts);
    };
    let counts = tripmeter_model::figure::Figure::ALL.iter().filter(|figure| {
        let id = figure.id();
        figure.unit() == tripmeter_model::figure::Unit::Count && !["cycles", "instructions"].contains(&id)
    });
    let of_trials =
        counts.map(|figure| format!("streams.all.{figure}")).chain(["streams.all.rtt_half_ns.n".to_owned()]);
    let of_payload = ["payload_bytes", "samples", "samples_planned", "warmup", "warmup_damaged", "packet_bytes"];
    let of_payload = of_payload.into_iter().chain(["core_to_core_ns.before.samples", "core_to_core_ns.after.samples"]);
    let fields: Vec<(&str, String)> = of_trials
        .map(|key| ("trial", key))
        .chain(of_payload.map(|key| ("payload", key.to_owned())))
        .chain([("sub-experiment", "path_proof.damaged".to_owned())])
        .collect();
    for (kind, key) in &fields {
        with(kind, key, MOST + 1);
        refused(key, MOST + 1, "show results");
    }
    let commands =
        ["show results", "compare results results", "export results --format csv", "export results --format svg"];
    for (kind, key) in [("trial", "streams.all.sent"), ("payload", "samples")] {
        with(kind, key, u64::MAX);
        commands.iter().for_each(|command| refused(key, u64::MAX, command));
    }
    with("trial", "streams.all.sent", MOST);
    commands[..3].iter().for_each(|command| drop(tripmeter(&place, command).with(exit::GOOD)));
}

#[test]
fn a_quiet_run_ends_with_its_folder_unless_that_was_named() {
    let place = folder();
    let measure = |more: &str| {
        let words = format!("ping uds/stream -q --wait block -n 20 --payloads 16 --no-floor{more}");
        tripmeter(&place, &words).with(exit::GOOD)
    };
    let quiet = measure("");
    let last = quiet.stdout.lines().last().unwrap();
    assert!(last.contains("results/") && Path::new(last).join("manifest.json").exists(), "{}", quiet.stdout);
    assert_eq!(quiet.stderr, "");
    let named = measure(" -o named");
    assert!(!named.stdout.lines().last().unwrap().contains("named"), "{}", named.stdout);
    let json = measure(" --json");
    assert!(serde_json::from_str::<Value>(&json.stdout).is_ok(), "{}", json.stdout);
}

fn fifo(file: &Path) {
    assert!(Command::new("mkfifo").arg(file).status().unwrap().success());
}

/// Packs this many zero bytes into a small file.
fn packed(file: &Path, bytes: u64) {
    let line = format!("head -c {bytes} /dev/zero | gzip -1 > '{}'", file.display());
    assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success());
}

#[test]
fn a_manifest_with_a_path_for_a_name_is_refused_and_nothing_leaves_its_folder() {
    let place = measured();
    let results = place.path().join("results");
    let outside = place.path().join("outside");
    for name in ["../../outside", &outside.display().to_string(), "..", "-p"] {
        for file in ["trials.jsonl", "manifest.json"] {
            fs::create_dir_all(place.path().join("a/b/runs")).unwrap();
            let copy = place.path().join("a/b/runs/one");
            Command::new("cp").arg("-r").args([&results, &copy]).status().unwrap();
            match file {
                "manifest.json" => {
                    change(&copy, |manifest| manifest["plan"]["sub_experiments"][0]["name"] = json!(name))
                }
                _ => change_states(&copy, |state| state["name"] = json!(name)),
            }
            for line in [
                "show a/b/runs/one",
                "compare results a/b/runs/one --plots a/b/p",
                "history a/b/runs --plots a/b/p",
                "eprosima compare -p a/b/p -R results -r a/b/runs/one",
                "eprosima history -p a/b/p -e a/b/runs",
            ] {
                let refused = tripmeter(&place, line).with(exit::DATA);
                refused.says(&[file, "is not a valid name"]);
            }
            fs::remove_dir_all(place.path().join("a")).unwrap();
        }
    }
    let mut left: Vec<_> = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["results"]);
}

#[test]
fn files_are_not_written_through_links() {
    let place = measured();
    let results = place.path().join("results");
    let private = place.path().join("private");
    fs::write(&private, "private").unwrap();
    fs::write(place.path().join("limits.csv"), format!("{LIMITS}{NAME},16,1e9,1e9,1e9\n")).unwrap();
    let outputs =
        [format!("measurements_{NAME}_summary.csv"), format!("checks_{NAME}.csv")].map(|name| results.join(name));
    outputs.iter().for_each(|output| symlink(&private, output).unwrap());
    tripmeter(&place, "eprosima process results").with(exit::GOOD);
    tripmeter(&place, "eprosima check -r limits.csv -e results").with(exit::GOOD);
    for output in &outputs {
        assert!(fs::symlink_metadata(output).unwrap().is_file(), "{}", output.display());
    }
    assert_eq!(fs::read_to_string(&private).unwrap(), "private");

    let elsewhere = folder();
    fs::create_dir(results.join("plots")).unwrap();
    symlink(elsewhere.path(), results.join(format!("plots/measurements_{NAME}"))).unwrap();
    tripmeter(&place, "eprosima process results -p results/plots")
        .with(exit::CANNOT_CREATE)
        .one_line(&["is a link", "plots"]);
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    // Outputs that the user names may be a device.
    let line = format!("eprosima process -c results/measurements_{NAME}.csv -o /dev/stdout");
    assert!(tripmeter(&place, &line).with(exit::GOOD).stdout.starts_with("Bytes,Samples,"));
}

/// A pipe that the user names is allowed.
#[test]
fn an_experiment_is_read_from_standard_input() {
    let place = folder();
    fs::write(place.path().join("x.toml"), "[[sub_experiment]]\ntransport = \"uds/stream\"\n").unwrap();
    for name in ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"] {
        let words = ["run", "-q", name, "--no-floor", "-n", "10", "--payloads", "16", "-o", "results"];
        let wrapper = ["sh", "-c", "cat x.toml | \"$@\"", "sh"];
        Tripmeter::under(&wrapper, words).at(place.path()).run().with(exit::GOOD);
        fs::remove_dir_all(place.path().join("results")).unwrap();
    }
}

#[test]
fn a_fifo_in_the_place_of_a_file_is_an_error() {
    let place = measured();
    let results = place.path().join("results");
    let samples = results.join(format!("measurements_{NAME}.csv"));
    fs::remove_file(&samples).unwrap();
    fifo(&samples);
    for line in ["eprosima process results", "eprosima check -r limits.csv -e results"] {
        fs::write(place.path().join("limits.csv"), format!("{LIMITS}{NAME},16,1,1,1\n")).unwrap();
        tripmeter(&place, line).with(exit::NO_INPUT).one_line(&[NAME, "name a regular file"]);
    }
    fs::remove_file(results.join("manifest.json")).unwrap();
    fifo(&results.join("manifest.json"));
    for line in [
        "show results",
        "compare results results",
        "eprosima process results",
        "eprosima compare -R results -r results",
        "export results --format svg",
    ] {
        tripmeter(&place, line).with(exit::NO_INPUT).one_line(&["manifest.json", "name a regular file"]);
    }
}

#[test]
fn what_the_manifest_does_not_list_as_finished_counts_nowhere() {
    let place = measured();
    let results = place.path().join("results");
    // State after a kill between the rows of a payload and the manifest.
    killed_after_one_payload(&results);
    let rows = crate::common::csv_payloads(&results.join(format!("measurements_{NAME}.csv")));
    assert!(rows.contains(&16) && rows.contains(&32));
    fs::write(place.path().join("limits.csv"), format!("{LIMITS}{NAME},16,1e9,1e9,1e9\n{NAME},32,1e9,1e9,1e9\n"))
        .unwrap();
    let left_out = [NAME, "32 bytes left out", "the manifest does not list it as finished"];
    let checked = || {
        let checked = tripmeter(&place, "eprosima check -r limits.csv -e results").with(1).says(&left_out);
        assert!(checked.stdout.contains("checks passed: (3/6)"), "{}", checked.stdout);
    };
    checked();
    let made = tripmeter(&place, "eprosima process results").with(exit::GOOD);
    made.says(&left_out);
    let summary = results.join(format!("measurements_{NAME}_summary.csv"));
    let text = fs::read_to_string(&summary).unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");
    // A summary of everything in the file, made without the manifest.
    let line = format!("eprosima process -c results/measurements_{NAME}.csv -o {}", summary.display());
    tripmeter(&place, &line).with(exit::GOOD);
    assert_eq!(fs::read_to_string(&summary).unwrap().lines().count(), 3);
    checked();
}

#[test]
fn a_line_that_was_cut_is_left_out_with_its_payload_if_that_does_not_count() {
    let place = measured();
    let results = place.path().join("results");
    let samples = results.join(format!("measurements_{NAME}.csv"));
    let rows = fs::read_to_string(&samples).unwrap();
    let cut = |line: &str| fs::write(&samples, format!("{rows}{line}")).unwrap();
    // All payloads are finished, so an invalid row is an error.
    for line in ["41,32", "41,32,1.0"] {
        cut(line);
        tripmeter(&place, "eprosima process results").with(exit::DATA).one_line(&["line 42", line]);
    }
    killed_after_one_payload(&results);
    let left_out = [NAME, "32 bytes left out", "the manifest does not list it as finished"];
    for line in ["41,32", "41", "41,3", "41,32,1.0"] {
        cut(line);
        let ended = "in the reference, it did not finish: 1 of 2 payloads finished; missing: 32";
        let compared = tripmeter(&place, "eprosima compare -R results -r results").with(1).says(&left_out);
        assert!(compared.unwrapped().contains(ended), "{}", compared.stdout);
        tripmeter(&place, "eprosima process results").with(exit::GOOD).says(&left_out);
        fs::remove_file(results.join(format!("measurements_{NAME}_summary.csv"))).unwrap();
    }
    // A line with a line break was not cut off.
    cut("41,32\n");
    tripmeter(&place, "eprosima process results").with(exit::DATA).one_line(&["line 42"]);
}

#[test]
fn nothing_is_written_into_a_folder_that_is_a_link() {
    let (place, elsewhere) = (measured(), folder());
    let results = place.path().join("results");
    symlink(elsewhere.path(), place.path().join("plots")).unwrap();
    fs::write(place.path().join("limits.csv"), format!("{LIMITS}{NAME},16,1e9,1e9,1e9\n")).unwrap();
    for line in [
        "eprosima process results -p plots",
        "eprosima process results -p plots/",
        "eprosima check -r limits.csv -e results -p plots",
        "eprosima compare -R results -r results -p plots",
        "eprosima history -e . -p plots",
    ] {
        tripmeter(&place, line).with(exit::CANNOT_CREATE).says(&["'plots", "is a link"]);
    }
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    fs::copy(results.join(format!("measurements_{NAME}.csv")), elsewhere.path().join("measurements_x.csv")).unwrap();
    symlink(elsewhere.path(), results.join("round-01")).unwrap();
    tripmeter(&place, "eprosima process results").with(exit::CANNOT_CREATE).one_line(&["round-01' is a link"]);
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 1);
}

#[test]
fn a_resumed_run_changes_nothing_behind_a_link() {
    let place = measured();
    let (results, victim) = (place.path().join("results"), place.path().join("victim"));
    killed_after_one_payload(&results);
    fs::create_dir(&victim).unwrap();
    let name = |file: &str| file.replace('_', &format!("_{NAME}_"));
    let precious = [format!("measurements_{NAME}.csv"), format!("{NAME}.hlog"), name("measurements_attempt-1.csv")];
    precious.iter().for_each(|file| fs::write(victim.join(file), "precious").unwrap());
    for link in ["attempts", "samples", "histograms", "logs", "round-01", &precious[0]] {
        let (linked, aside) = (results.join(link), place.path().join("aside"));
        let was_there = fs::rename(&linked, &aside).is_ok();
        let target = if link == precious[0] { victim.join(link) } else { victim.clone() };
        symlink(target, &linked).unwrap();
        tripmeter(&place, "run -q --resume results").with(exit::DATA).one_line(&[link, "is a link"]);
        let kept = precious.iter().all(|file| fs::read_to_string(victim.join(file)).unwrap() == "precious");
        assert!(kept && fs::read_dir(&victim).unwrap().count() == precious.len(), "{link}");
        fs::remove_file(&linked).unwrap();
        let back = if was_there { fs::rename(&aside, &linked) } else { Ok(()) };
        back.unwrap();
    }
    tripmeter(&place, "run -q --resume results").with(exit::GOOD);
}

/// The plan's author may have named any host.
#[test]
fn a_resumed_run_logs_in_to_no_host_that_the_user_does_not_name() {
    let place = measured();
    let results = place.path().join("results");
    killed_after_one_payload(&results);
    let host = "victim@evil.example";
    change(&results, |manifest| {
        let plan = &mut manifest["plan"];
        (plan["hosts"], plan["push"], plan["max_clock_error_ns"]) =
            (json!([{ "to": host }]), json!(true), json!(100_000));
        let transport = &mut plan["sub_experiments"][0]["transport"];
        (transport["system"], transport["variant"]) = (json!("tcp"), json!("loopback"));
    });
    let (ssh, called) = (place.path().join("ssh"), place.path().join("called"));
    fs::write(&ssh, format!("#!/bin/sh\necho \"$@\" >>'{}'\nexit 255\n", called.display())).unwrap();
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).unwrap();
    let resumed = |more: &[&str]| {
        let words = [&["run", "-q", "--resume", "results"], more].concat();
        Tripmeter::new(words).at(place.path()).environment("TRIPMETER_SSH", ssh.to_str().unwrap()).run()
    };
    let again = format!("--to {host} --push");
    resumed(&[]).with(exit::USAGE).one_line(&["other hosts", "log in to", &again]);
    for other in [&["--to", host][..], &["--to", "lab2", "--push"], &["--to", host, "--to", host, "--push"]] {
        resumed(other).with(exit::DATA).one_line(&[&again]);
    }
    assert!(!called.exists(), "{}", fs::read_to_string(&called).unwrap());
    let named = resumed(&["--to", host, "--push"]);
    assert!(fs::read_to_string(&called).is_ok_and(|text| text.contains(host)), "{named:?}");
}

fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { files(&path) } else { [(path.clone(), fs::read(path).unwrap())].into() })
        .collect()
}

/// Results of a test plugin in `results`, with one payload missing and these settings in the plan.
fn with_settings(name: &str, settings: &[(&str, &str)]) -> (TempDir, String) {
    let (place, plugin) = (folder(), plugin(name).display().to_string());
    let words = "ping trouble -q --wait block -n 20 --payloads 16,32 --no-floor -o results --plugin";
    Tripmeter::new(words.split(' ').chain([plugin.as_str()])).at(place.path()).run().with(exit::GOOD);
    let results = place.path().join("results");
    killed_after_one_payload(&results);
    // The displayed transport is unchanged.
    change(&results, |manifest| {
        for (name, value) in settings {
            manifest["plan"]["sub_experiments"][0]["transport"]["settings"][name] = json!(value);
        }
    });
    // The file that a run locks.
    drop(fs::remove_file(results.join(".measuring")));
    (place, plugin)
}

/// Checks that resuming `results` fails and changes nothing.
fn refuses(place: &TempDir, plugin: &str, settings: &[&str], code: u8, parts: &[&str]) {
    let before = files(place.path());
    let flags = settings.iter().flat_map(|setting| ["--setting", setting]);
    let words = ["run", "-q", "--resume", "results", "--plugin", plugin];
    let refused = Tripmeter::new(words.into_iter().chain(flags)).at(place.path()).run();
    refused.with(code).one_line(parts).clean();
    assert!(files(place.path()) == before, "nothing is written, cut or made");
}

/// The plan's author may have set anything.
#[test]
fn a_resumed_run_takes_no_file_and_no_host_from_its_folder() {
    let (elsewhere, host) = (folder(), "trouble?host=192.0.2.1");
    let made = elsewhere.path().join("made by it");
    let (place, plugin) = with_settings("trouble", &[("makes", made.to_str().unwrap()), ("host", "192.0.2.1")]);
    let file = &*format!("trouble?makes={}", made.display());
    let again = format!("repeat them: --setting '{host}' --setting '{file}'");
    refuses(&place, &plugin, &[], exit::USAGE, &["open files or connect to hosts", &again]);
    let wrong =
        ["trouble?makes=made by us", "trouble?makes=", "trouble?makes", "makes=made by it", "tcp?makes=made by it"];
    for wrong in wrong.iter().map(|wrong| vec![host, wrong]).chain([vec![host], vec![file]]) {
        refuses(&place, &plugin, &wrong, exit::DATA, &[&again]);
    }
    refuses(&place, &plugin, &[host, file, "trouble?side=both"], exit::DATA, &[&again]);
    let words = ["run", "-q", "--resume", "results", "--plugin", &plugin, "--setting", host, "--setting", file];
    Tripmeter::new(words).at(place.path()).run().with(exit::GOOD).clean();
    assert!(made.exists());
    Tripmeter::new(&words[..6]).at(place.path()).run().with(exit::GOOD).clean();
}

#[test]
fn a_resumed_run_takes_what_names_nothing_from_its_folder() {
    let (place, plugin) = with_settings("trouble", &[("side", "leader")]);
    let none = "no unfinished sub-experiment has a setting that names a file or a host";
    refuses(&place, &plugin, &["trouble?side=leader"], exit::USAGE, &["--setting", none]);
    let words = ["run", "-q", "--resume", "results", "--plugin", &plugin];
    Tripmeter::new(words).at(place.path()).run().with(exit::GOOD).clean();
    let (place, plugin) = with_settings("trouble", &[("sides", "leader")]);
    refuses(&place, &plugin, &[], exit::DATA, &["the setting 'sides', which transport 'trouble' lacks"]);
}

/// A setting that an older plugin does not declare may name anything.
#[test]
fn a_resumed_run_takes_no_setting_of_an_older_plugin_but_its_defaults() {
    let (place, plugin) = with_settings("undeclared", &[("side", "leader")]);
    let again = "repeat them: --setting 'trouble?side=leader'";
    refuses(&place, &plugin, &[], exit::USAGE, &[again]);
    let words = ["run", "-q", "--resume", "results", "--plugin", &plugin, "--setting", "trouble?side=leader"];
    Tripmeter::new(words).at(place.path()).run().with(exit::GOOD).clean();
}

#[test]
fn a_line_without_end_costs_a_resumed_run_no_memory() {
    let place = measured();
    let results = place.path().join("results");
    killed_after_one_payload(&results);
    let files = [format!("measurements_{NAME}.csv"), format!("histograms/{NAME}.hlog")].map(|file| results.join(file));
    for file in &files {
        let opened = fs::File::options().write(true).open(file).unwrap();
        opened.set_len(20 << 30).unwrap();
    }
    in_little_memory(&place, "run -q --resume results").with(exit::GOOD);
    assert!(files.iter().all(|file| fs::metadata(file).unwrap().len() < 1 << 20));
    assert_eq!(crate::common::csv_payloads(&files[0]).len(), 40);
}

#[test]
fn attempts_that_do_not_count_are_no_experiment() {
    let place = measured();
    let (results, attempts) = (place.path().join("results"), place.path().join("attempts"));
    fs::create_dir(&attempts).unwrap();
    let samples = results.join(format!("measurements_{NAME}.csv"));
    fs::copy(&samples, attempts.join(format!("measurements_{NAME}_attempt-1.csv"))).unwrap();
    let told = tripmeter(&place, "eprosima history -e . -p plots").with(exit::GOOD);
    assert!(!format!("{}{}", told.stdout, told.stderr).contains("attempt"), "{told:?}");
}

#[test]
fn texts_that_no_manifest_may_hold_are_refused_before_the_run() {
    let place = folder();
    let title = "x".repeat(65_537);
    let text =
        format!("[[sub_experiment]]\ntransport = \"uds\"\npayloads = \"16\"\nsamples = 10\ntitle = \"{title}\"\n");
    fs::write(place.path().join("x.toml"), text).unwrap();
    let refused = tripmeter(&place, "run -q x.toml -o results").with(exit::DATA);
    refused.one_line(&["sub_experiments[0].title", "65537 bytes", "65536"]);
    assert!(!place.path().join("results").exists());
}

#[test]
fn numbers_and_texts_of_a_manifest_have_limits() {
    let place = measured();
    let results = place.path().join("results");
    let before = fs::read(results.join("manifest.json")).unwrap();
    let told = |parts: &[&str]| {
        in_little_memory(&place, "show results").with(exit::DATA).one_line(parts);
        fs::write(results.join("manifest.json"), &before).unwrap();
    };
    change(&results, |manifest| manifest["plan"]["rounds"] = json!(u32::MAX));
    told(&["4294967295 rounds", "10080"]);
    let trials = results.join("trials.jsonl");
    let measured = fs::read_to_string(&trials).unwrap();
    fs::write(&trials, measured.replacen("\"round\":1", "\"round\":4294967295", 1)).unwrap();
    told(&["trials.jsonl", "round 4294967295", "10080"]);
    fs::write(&trials, measured).unwrap();
    change(&results, |manifest| manifest["plan"]["sub_experiments"][0]["title"] = json!("x".repeat(20 << 20)));
    told(&["a text of 20971520 bytes", "65536"]);
    change(&results, |manifest| manifest["plan"]["left_out"] = json!(vec![""; 1_000_000]));
    told(&["manifest.json", "elements in all (limit 250000)"]);
    // A naive check would compare each pair.
    change(&results, |manifest| {
        let one = manifest["plan"]["sub_experiments"][0].clone();
        manifest["plan"]["sub_experiments"] = json!(vec![one; 5000]);
    });
    told(&["manifest.json", "has two sub-experiments 'uds_stream_block'"]);
    fs::File::create(results.join("manifest.json")).unwrap().set_len(20 << 30).unwrap();
    told(&["manifest.json", "21474836480 bytes", "67108864"]);
}

#[test]
fn json_that_is_nested_without_end_is_refused() {
    let place = measured();
    let results = place.path().join("results");
    for file in ["manifest.json", "trials.jsonl", "audit.json"] {
        let whole = fs::read(results.join(file)).unwrap();
        for nested in ["[".repeat(1_000_000), "{\"a\":".repeat(1_000_000), "{\"a\":[".repeat(500_000)] {
            fs::write(results.join(file), nested).unwrap();
            in_little_memory(&place, "show results").with(exit::DATA).one_line(&[file]);
        }
        fs::write(results.join(file), whole).unwrap();
    }
    tripmeter(&place, "show results").with(exit::GOOD);
}

#[test]
fn tables_of_figures_have_limits_however_they_are_packed() {
    let place = measured();
    let summary = place.path().join(format!("results/measurements_{NAME}_summary.csv.gz"));
    packed(&summary, 1_000_000_000);
    fs::copy(&summary, place.path().join("limits.csv")).unwrap();
    for line in [
        "eprosima compare -R results -r results",
        "eprosima history -p p -e .",
        "eprosima check -r limits.csv -e results",
    ] {
        in_little_memory(&place, line)
            .with(exit::DATA)
            .says(&["more than 4194304 bytes when decompressed", " compressed)"]);
    }
}

#[test]
fn too_little_memory_for_samples_is_an_error_of_the_sub_experiment() {
    let place = folder();
    let line = "ping uds/stream -q --wait block --no-floor --payloads 16 -o results -n";
    let failed = in_little_memory(&place, &format!("{line} 100000000")).with(exit::PARTIAL);
    failed.says(&[NAME, "cannot allocate 800000000 bytes for 100000000 samples", "-n"]).clean();
    fs::remove_dir_all(place.path().join("results")).unwrap();
    in_little_memory(&place, &format!("{line} 1000")).with(exit::GOOD);
}

#[test]
fn text_from_outside_cannot_act_on_a_terminal() {
    let place = measured();
    let hostile = "a\u{1b}[31mb\u{9b}\u{202e}\nFORGED\r\u{7}";
    let results = place.path().join(hostile);
    fs::rename(place.path().join("results"), &results).unwrap();
    change(&results, |manifest| {
        manifest["plan"]["sub_experiments"][0]["title"] = json!(hostile);
        manifest["plan"]["left_out"] = json!([hostile]);
        manifest["environment"]["cpu_model"] = json!(hostile);
    });
    change_states(&results, |state| {
        if state["status"] == "complete" {
            state["path_proof"]["verdict"] = json!("failed");
            state["path_proof"]["evidence"] = json!(hostile);
            (state["error"], state["status"]) = (json!(hostile), json!("failed"));
        }
    });
    fs::write(results.join(format!("measurements_{hostile}.csv")), "").unwrap();
    let header = "sub_experiment,payload_bytes,offered_load,stream,figure,statistic,limit";
    let row = |name: &str| format!("\"{name}\",16,closed,all,rtt_half_ns,p50,1\n");
    fs::write(place.path().join("limits.csv"), format!("{header}\n{}{}", row(NAME), row(hostile))).unwrap();
    let path = results.to_str().unwrap();
    let [limits, requirements] = ["limits.csv", "requirements.csv"].map(|name| place.path().join(name));
    fs::write(&requirements, format!("{LIMITS}{NAME},16,1,1,1\n\"{hostile}\",16,1,1,1\n")).unwrap();
    fs::create_dir_all(place.path().join("database").join(hostile)).unwrap();
    let lines: [&[&str]; 11] = [
        &["show", path, path],
        &["show", "--tables", "iceperf,ecal", path, path],
        &["check", path, "--limits", limits.to_str().unwrap()],
        &["compare", path, path],
        &["history", "--plots", "plots", "."],
        &["eprosima", "check", "-r", requirements.to_str().unwrap(), "-e", path],
        &["eprosima", "compare", "-R", path, "-r", path],
        &["eprosima", "history", "-p", "plots", "-e", "."],
        &["eprosima", "process", &format!("{hostile}/none")],
        &["eprosima", "prune", "-r", "database", "-n", "1"],
        &["show", hostile, &format!("{hostile}/none")],
    ];
    for words in lines {
        let Finished { stdout, stderr, .. } = Tripmeter::new(words).at(place.path()).run();
        for text in [&stdout, &stderr] {
            let is_bad = |c: char| c != '\n' && c.is_control() || c == '\u{202e}';
            assert!(!text.contains(is_bad), "{words:?}: {text:?}");
            assert!(!text.lines().any(|line| line.starts_with("FORGED")), "{words:?}: {text}");
        }
        assert!([stdout, stderr].concat().contains("FORGED"), "{words:?}");
    }
    // Output for programs is escaped in its own way.
    let line = ["check", "--json", path, "--limits", limits.to_str().unwrap()];
    let json = Tripmeter::new(line).at(place.path()).run().stdout;
    assert!(serde_json::from_str::<Value>(&json).is_ok(), "{json}");
}

/// Compares each setting of each available system in the plugin's table and in `transport.toml`.
#[test]
fn settings_that_name_something_are_declared_twice_and_alike() {
    for system in transports() {
        let Some(description) = &system.description else { continue };
        let file = repository().join("transports").join(&system.system).join("transport.toml");
        let sidecar = Sidecar::parse(&fs::read_to_string(&file).unwrap()).unwrap();
        let named =
            |setting: &Setting| Some((setting.name.clone(), setting.names.filter(|one| *one != Names::Nothing)?));
        let declared: BTreeMap<String, Names> = description.settings.iter().filter_map(named).collect();
        assert_eq!(declared, sidecar.names_outside, "{}", file.display());
    }
}

//! A working directory in which anybody may have put files, such as /tmp. Nothing in it takes effect by itself, but
//! paths that the user gives are resolved there.

use crate::common::traces::{command_of, marked, signal};
use crate::common::{LONGEST, Running, Tripmeter, alone, built, folder, plugin, say};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use tripmeter_model::exit;

/// Folder with the permissions of /tmp.
fn open_folder() -> TempDir {
    let folder = folder();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    folder
}

fn is_closed(folder: &Path) -> bool {
    fs::metadata(folder).is_ok_and(|found| found.mode() & 0o022 == 0)
}

/// Working directories of processes with this word in their command line.
fn folders_of(run: &Running, word: &str) -> Vec<(u32, PathBuf)> {
    let all = marked(run.mark()).into_iter();
    let meant = all.filter(|pid| command_of(*pid).split(' ').any(|one| one == word));
    meant.filter_map(|pid| Some((pid, fs::read_link(format!("/proc/{pid}/cwd")).ok()?))).collect()
}

/// Configuration that makes Fast DDS log to a file, which stays empty until there is something to log.
fn profile(log: &Path) -> String {
    let property = format!("<property><name>filename</name><value>{}</value></property>", log.display());
    let roles = ["pub", "sub"].map(|role| {
        format!(
            "<participant profile_name=\"{role}_participant_profile\"><rtps><name>{role}</name></rtps></participant>"
        )
    });
    format!(
        "<dds xmlns=\"http://www.eprosima.com/XMLSchemas/fastRTPS_Profiles\"><log><use_default>FALSE</use_default>\
         <consumer><class>FileConsumer</class>{property}</consumer></log><profiles>{}</profiles></dds>",
        roles.concat()
    )
}

#[test]
fn workers_run_where_nobody_else_can_write() {
    let _alone = alone();
    let (open, results) = (open_folder(), folder());
    let output = results.path().display().to_string();
    let words = ["ping", "-q", "uds", "--wait", "block", "--no-floor", "-n", "100000000", "--payloads", "16"];
    let more = ["--raw", "none", "-o", &output];
    let mut run = Tripmeter::new(words.iter().chain(&more)).at(open.path()).start();
    run.measuring();
    let found = folders_of(&run, "worker");
    assert!(found.len() == 2 && found.iter().all(|(_, folder)| is_closed(folder)), "{found:?}");
    run.signal("INT");
    run.wait(LONGEST).with(exit::INTERRUPTED).clean();
}

#[test]
fn a_plugin_is_asked_where_nobody_else_can_write() {
    let open = open_folder();
    let (hangs, plugin) = (folder(), plugin("trouble").display().to_string());
    let hangs = hangs.path().join("hangs");
    let words = ["ping", "-q", "--plugin", &plugin, "trouble?mode=probe-hang", "-n", "10"];
    let run = Tripmeter::new(words).at(open.path()).environment("TRIPMETER_TEST_HANGS", &hangs.display().to_string());
    let mut run = run.start();
    run.until("its hanging", |_| hangs.exists());
    let found = folders_of(&run, "describe-plugin");
    assert!(!found.is_empty() && found.iter().all(|(_, folder)| is_closed(folder)), "{found:?}");
    found.iter().for_each(|(pid, _)| signal(*pid, "KILL"));
    run.wait(LONGEST).with(exit::UNAVAILABLE);
}

/// Workers run in another directory than the user.
#[test]
fn relative_paths_are_those_of_the_user() {
    let _alone = alone();
    let open = open_folder();
    for name in ["plugins", "temporary"] {
        fs::create_dir(open.path().join(name)).unwrap();
    }
    fs::copy(plugin("trouble"), open.path().join("plugins/tripmeter_trouble.so")).unwrap();
    let words = ["ping", "-q", "trouble", "--wait", "block", "--no-floor", "-n", "10", "--payloads", "16", "-o"];
    let run = |plugin: &[&str], folder: &str, results: &str| {
        let run = Tripmeter::new(words.iter().chain(&[results]).chain(plugin)).at(open.path());
        run.temporary(Path::new("temporary")).environment("TRIPMETER_TRANSPORTS", folder).run().with(exit::GOOD);
        assert!(open.path().join(results).join("manifest.json").exists());
    };
    run(&["--plugin", "plugins/tripmeter_trouble.so"], "", "named");
    run(&[], "plugins", "found");
}

/// Fast DDS reads this file of the working directory by default; here it would only write a log.
#[test]
fn fast_dds_obeys_no_profile_in_the_working_directory() {
    let _alone = alone();
    for system in ["fastdds", "ros2"] {
        if built(system).is_none() {
            continue;
        }
        let (open, log) = (open_folder(), folder());
        let log = log.path().join("log");
        for name in ["DEFAULT_FASTRTPS_PROFILES.xml", "DEFAULT_FASTDDS_PROFILES.xml"] {
            fs::write(open.path().join(name), profile(&log)).unwrap();
        }
        let run = |transport: &str, results: &str| {
            let words = ["ping", "-q", transport, "--wait", "block", "--no-floor", "-n", "10", "--payloads", "16"];
            Tripmeter::new(words.iter().chain(&["-o", results])).at(open.path()).run()
        };
        let finished = run(&format!("{system}/udp"), "by default");
        // It is read when the transport opens; anything after that does not matter.
        assert!([exit::GOOD, exit::PARTIAL].map(i32::from).map(Some).contains(&finished.code), "{finished:?}");
        assert!(!finished.stderr.contains("failed to open"), "{finished:?}");
        assert!(!log.exists(), "{system}: the profile in the working directory was obeyed");
        if system == "fastdds" {
            // The same file takes effect if requested by a path of the user.
            run("fastdds/udp?profile=DEFAULT_FASTRTPS_PROFILES.xml", "asked for");
            assert!(log.exists(), "the profile that was asked for was not obeyed");
        }
    }
}

/// `python3 -m` looks for modules in the working directory first.
#[test]
fn install_runs_no_python_of_the_working_directory() {
    let (open, data) = (open_folder(), folder());
    let sign = open.path().join("sign");
    for name in ["venv", "pip", "ensurepip"] {
        let file = open.path().join(format!("{name}.py"));
        fs::write(file, format!("open({:?}, 'w').close()\n", sign.display().to_string())).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_tripmeter"));
    command.args(["install", "ecal", "--python"]).current_dir(open.path()).env("XDG_DATA_HOME", data.path());
    // Without an index, the install gets as far as pip.
    let output = command.env("PIP_NO_INDEX", "1").env("PIP_FIND_LINKS", "").output().unwrap();
    say(&String::from_utf8_lossy(&output.stderr));
    assert!(!sign.exists(), "a module of the working directory was run");
    assert_eq!(output.status.code(), Some(i32::from(exit::UNAVAILABLE)));
}

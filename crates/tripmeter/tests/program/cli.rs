//! The command line without measuring.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;
use tripmeter_model::audit::{Audit, Level};

#[derive(serde::Deserialize)]
struct CheckInfoRead {
    name: String,
}

/// Program in a separate folder, without plugins next to it.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let (folder, new) = (place.join("alone"), tempfile::tempdir_in(place).unwrap());
        std::fs::create_dir_all(&folder).unwrap();
        let (program, link) = (folder.join("tripmeter"), new.path().join("tripmeter"));
        std::fs::hard_link(env!("CARGO_BIN_EXE_tripmeter"), &link).unwrap();
        // Atomically, because other tests run it at the same time.
        std::fs::rename(&link, &program).unwrap();
        program
    })
}

fn tripmeter(args: &[&str]) -> Output {
    // Without plugins of this machine: neither next to the program nor in the user's folder.
    Command::new(program())
        .args(args)
        .env("XDG_DATA_HOME", "/nowhere")
        .env_remove("TRIPMETER_TRANSPORTS")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[track_caller]
fn prints(args: &[&str]) -> String {
    let output = tripmeter(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
    stdout(&output)
}

/// Checks that the command fails with `code`, prints no data, and writes one line with all `parts`.
#[track_caller]
fn fails(args: &[&str], code: i32, parts: &[&str]) {
    let output = tripmeter(args);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    assert!(output.stdout.is_empty(), "{args:?}: {}", stdout(&output));
    assert_eq!(said.lines().count(), 1, "{args:?}: {said}");
    assert!(said.starts_with("tripmeter: "), "{said}");
    for part in parts {
        assert!(said.contains(part), "{args:?}: '{part}' is not in: {said}");
    }
}

fn file(folder: &TempDir, name: &str, text: &str) -> String {
    let file = folder.path().join(name);
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

fn library(folder: &TempDir, name: &str, text: &str) -> String {
    let source = file(folder, &format!("{name}.c"), text);
    let library = folder.path().join(format!("tripmeter_{name}.so"));
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("../abi/include");
    compile(Command::new("cc").args(["-shared", "-fPIC", "-I"]).arg(header).arg("-o").arg(&library).arg(source));
    library.display().to_string()
}

fn compile(compiler: &mut Command) {
    assert!(compiler.status().unwrap().success());
}

#[test]
fn help_is_data_and_shows_examples() {
    assert!(prints(&["--version"]).starts_with("tripmeter "));
    for command in [
        "run",
        "ping",
        "publish",
        "call",
        "throughput",
        "replay",
        "log",
        "ab",
        "follow",
        "show",
        "export",
        "list",
        "install",
        "plugin-check",
        "doctor",
        "selftest",
        "completions",
        "man",
        "eprosima",
        "check",
        "compare",
        "history",
    ] {
        assert!(prints(&["--help"]).contains(&format!("  {command} ")), "{command}");
        assert!(prints(&[command, "--help"]).contains("Examples:"), "{command}");
    }
    let scripts =
        ["process", "check", "compare", "compare-subexperiments", "determine-requirements", "history", "job", "prune"];
    for command in scripts {
        assert!(prints(&["eprosima", "--help"]).contains(&format!("  {command} ")), "{command}");
        assert!(prints(&["eprosima", command, "--help"]).contains("Examples:"), "{command}");
    }
    let output = tripmeter(&[]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(64), 0));
    assert!(stderr(&output).contains("Usage:"));
}

#[test]
fn hidden_commands_are_not_shown() {
    let help = prints(&["--help"]);
    assert!(!help.contains("worker") && !help.contains("describe-plugin"), "{help}");
}

#[test]
fn wrong_words_are_usage_errors() {
    fails(&["fly"], 64, &["unrecognized subcommand 'fly'"]);
    fails(&["ping", "--fast"], 64, &["unexpected argument '--fast'"]);
    fails(&["ping", "--wait", "sometimes"], 64, &["'sometimes'", "poll, block, callback"]);
    fails(&["ping", "--touch", "all"], 64, &["none, header, full"]);
    fails(&["ping", "-n", "many"], 64, &["'many'"]);
    fails(&["ping", "-n", "-5"], 64, &["-5"]);
    fails(&["ping", "--leader-cpu", "first"], 64, &["a CPU number, or none"]);
    fails(&["ping", "iceperf"], 64, &["is an experiment", "`tripmeter run iceperf`"]);
    fails(&["ping", "mine.toml"], 64, &["is an experiment", "`tripmeter run mine.toml`"]);
    fails(&["run", "icerpef"], 64, &["unknown preset 'icerpef'", "did you mean 'iceperf'?"]);
    fails(&["list", "presets", "fast"], 64, &["unknown transport 'presets'"]);
    fails(&["ping", "usd"], 64, &["unknown transport 'usd'", "did you mean 'uds'?"]);
    fails(&["list", "usd"], 64, &["unknown transport 'usd'"]);
    fails(&["ping", "uds/straem"], 64, &["no variant 'straem'", "stream"]);
    fails(&["ping", "uds?pakcet=1"], 64, &["no setting 'pakcet'", "did you mean 'packet'?"]);
    fails(&["ping", "mq?packet=some"], 64, &["transport 'mq?packet=some'", "some"]);
    fails(&["ping", "--rendezvous=a/b"], 64, &["rendezvous 'a/b'"]);
    fails(&["follow", "--rendezvous", ""], 64, &["rendezvous ''"]);
}

#[test]
fn values_out_of_bounds_are_refused_before_anything_starts() {
    for (args, part) in [
        (["--payloads", "0"], "payload of 0 bytes is smaller than the header of 16 bytes"),
        (["--payloads", "15"], "use 16 or more"),
        (["--payloads", "2G"], "larger than 1073741824 bytes"),
        (["--payloads", "1k,1k"], "listed twice"),
        (["--payloads", "4k..1k"], "runs backwards"),
        (["-n", "0"], "0 samples are too few"),
        (["-n", "200000000"], "--raw none"),
        (["--rounds", "0"], "1 to 10080"),
        (["--time-cap", "-1"], "time cap of -1 s"),
        (["--time-cap", "0"], "time cap of 0 s"),
        (["--loss-timeout", "0"], "0.001 to 600 s"),
        (["--leader-cpu", "4711"], "CPU 4711 for the leader does not exist or is not allowed"),
        (["--follower-cpu", "4711"], "choose one of "),
        (["--wait", "callback"], "cannot wait by 'callback', only by poll, block"),
    ] {
        fails(&["ping", "uds", args[0], args[1]], 64, &[part]);
    }
    fails(&["ping", "uds,uds"], 64, &["same as number 1"]);
    fails(&["log", "uds"], 64, &["cannot carry pattern 'log', only ping"]);
}

#[test]
fn a_payload_larger_than_shared_memory_is_refused() {
    // Shared memory has many chunks per direction, so this exceeds a tmpfs of half the memory.
    let depth = "shm?depth=1024";
    fails(&["ping", depth, "--payloads", "1G"], 64, &["transport 'shm?depth=1024'", "1073741824"]);
}

#[test]
fn a_malformed_file_is_reported_with_line_and_column() {
    let folder = tempfile::tempdir().unwrap();
    let wrong = file(&folder, "wrong.toml", "samples = 10\nwait = \"sometimes\"\n");
    fails(&["run", &wrong], 65, &["wrong.toml", "line 2, column 8", "sometimes"]);
    let wrong = file(&folder, "cut.toml", "samples = \n");
    fails(&["run", &wrong], 65, &["cut.toml", "line 1, column 1"]);
    let wrong = file(&folder, "field.toml", "[[sub_experiment]]\ntransport = \"uds\"\nspeed = 1\n");
    fails(&["run", &wrong], 65, &["line 3, column 1", "no key 'speed'"]);
    let empty = file(&folder, "empty.toml", "");
    fails(&["run", &empty], 65, &["has nothing to measure"]);
    let binary = folder.path().join("binary.toml");
    std::fs::write(&binary, [0xff, 0xfe, 0]).unwrap();
    fails(&["run", &binary.display().to_string()], 65, &["not UTF-8"]);
    fails(&["run", "/nowhere/x.toml"], 66, &["'/nowhere/x.toml' cannot be read"]);
}

#[test]
fn presets_are_listed_and_printed_as_files_that_can_be_run() {
    let list = prints(&["list", "presets"]);
    for name in ["quick", "iceperf", "laurel-hardy"] {
        assert!(list.lines().any(|line| line.starts_with(name)), "{list}");
    }
    let text = prints(&["run", "iceperf", "--print"]);
    let folder = tempfile::tempdir().unwrap();
    let copy = file(&folder, "mine.toml", &text);
    // A file also skips iceoryx, which is not found here.
    assert!(prints(&["run", &copy, "--print"]).contains("iceoryx"));
    let alone = file(&folder, "alone.toml", "[[sub_experiment]]\ntransport = \"iceoryx\"\n");
    fails(&["run", &alone], 69, &["'iceoryx' is not available: not built", "`tripmeter install iceoryx`"]);
}

#[test]
fn seeds_are_exact_in_every_reader_of_json_and_older_larger_ones_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results").display().to_string();
    prints(&["ping", "inmem", "-n", "10", "--payloads", "1k", "--no-floor", "--no-report", "-q", "-o", &results]);
    let path = folder.path().join("results/manifest.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let seed = serde_json::from_str::<serde_json::Value>(&text).unwrap()["plan"]["seed"].as_u64().unwrap();
    assert!(seed <= 1 << 53, "{seed}");
    std::fs::write(&path, text.replace(&format!("\"seed\": {seed}"), &format!("\"seed\": {}", u64::MAX))).unwrap();
    assert!(prints(&["show", &results]).contains("inmem"));
    fails(&["ping", "inmem", "--seed", "9007199254740993"], 64, &["9007199254740993", "9007199254740992", "--seed"]);
}

#[test]
fn flags_print_a_file_that_means_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let print = |args: &[&str]| prints(&[args, &["--print"]].concat());
    for words in [
        &["ping", "uds", "--rate", "10,100", "--one-way", "--payloads", "1k"][..],
        &["call", "uds", "tcp", "--clients", "1,4", "--rate", "100"],
        &["run", "iceperf", "--only", "uds,mq", "-n", "100"],
        &["throughput", "uds?packet=4096", "--loss-bound", "0.5%", "--rounds", "3"],
    ] {
        let printed = print(words);
        let copy = file(&folder, "copy.toml", &printed);
        assert_eq!(print(&["run", &copy]), printed, "{words:?}");
    }
    fails(&["run", "/nowhere/x.toml", "--print"], 66, &["cannot be read"]);
    fails(&["run", "ecal", "--only", "uds", "--print"], 64, &["cannot wait by 'callback'"]);
    fails(&["ping", "uds", "--leader-cpu", "none", "--print"], 64, &["cannot leave a CPU to the kernel"]);
}

#[test]
fn figures_are_listed_with_unit_and_direction() {
    let rows: Vec<serde_json::Value> = serde_json::from_str(&prints(&["list", "figures", "--json"])).unwrap();
    let rtt = rows.iter().find(|row| row["figure"] == "rtt_half_ns").unwrap();
    assert_eq!((&rtt["unit"], &rtt["better"]), (&"ns".into(), &"lower".into()));
    assert!(prints(&["list", "figures"]).contains("rtt_half_ns "));
}

#[test]
fn man_pages_are_made_of_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let pages = prints(&["man", &folder.path().join("man1").display().to_string()]);
    for page in ["tripmeter.1", "tripmeter-ping.1", "tripmeter-iceperf-leader.1"] {
        assert!(pages.contains(page), "{pages}");
    }
    let ping = std::fs::read_to_string(folder.path().join("man1/tripmeter-ping.1")).unwrap();
    assert!(ping.contains(".TH") && ping.contains("follow"), "{ping}");
}

/// Program as installed by a package, away from the sources.
struct Installed {
    program: PathBuf,
    transports: PathBuf,
    _prefix: TempDir,
}

fn installed() -> Installed {
    let prefix = tempfile::tempdir().unwrap();
    let (bin, transports) = (prefix.path().join("bin"), prefix.path().join("lib/tripmeter/transports"));
    std::fs::create_dir_all(&bin).unwrap();
    std::fs::create_dir_all(&transports).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_tripmeter"), bin.join("tripmeter")).unwrap();
    Installed { program: bin.join("tripmeter"), transports, _prefix: prefix }
}

#[test]
fn install_prints_what_it_would_do() {
    fails(&["install", "usd"], 64, &["unknown transport 'usd'", "did you mean 'uds'?"]);
    fails(&["install", "iceoryx", "--python"], 64, &["needs no Python packages"]);
    fails(&["install", "iceoryx", "--source", "/nowhere"], 66, &["'/nowhere' has no scripts/build-transports.sh"]);
    let words = ["install", "iceoryx", "grpc", "http", "ros2"];
    let installed = installed();
    let run = |words: &[&str]| {
        let mut command = Command::new(&installed.program);
        command.args(words).env("XDG_DATA_HOME", "/nowhere").env_remove("TRIPMETER_TRANSPORTS").output().unwrap()
    };
    let output = run(&words);
    let (said, text) = (stderr(&output), "building plugins (iceoryx, grpc, http, ros2) needs the project's sources");
    assert_eq!(output.status.code(), Some(69), "{said}");
    assert!(said.contains(text) && said.contains("have them (tripmeter-iceoryx, tripmeter-web), name"), "{said}");
    std::fs::write(installed.transports.join("tripmeter_http.so"), "").unwrap();
    let output = run(&["install", "http", "--dry-run"]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), "everything is there\n"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").display().to_string();
    let output = tripmeter(&["install", "iceoryx", "ecal", "--dry-run", "--source", &source]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("Python packages of ecal") && said.contains("build-transports.sh': iceoryx ecal"), "{said}");
    // With --all, systems without a package are left out.
    let sidecars = format!("{source}/transports");
    for folder in std::fs::read_dir(sidecars).unwrap() {
        let folder = folder.unwrap();
        let sidecar = std::fs::read_to_string(folder.path().join("transport.toml")).unwrap_or_default();
        if sidecar.lines().any(|line| line.starts_with("deb = ")) {
            let name = format!("tripmeter_{}.so", folder.file_name().to_str().unwrap());
            std::fs::write(installed.transports.join(name), "").unwrap();
        }
    }
    std::fs::write(installed.transports.join("tripmeter_parquet"), "").unwrap();
    let output = run(&["install", "--all", "--dry-run"]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("left out, because no package has the plugin: ros2; name the sources"), "{said}");
}

#[test]
fn plugins_are_built_to_where_the_program_finds_them() {
    let installed = installed();
    let (sources, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let script = sources.path().join("scripts/build-transports.sh");
    std::fs::create_dir(sources.path().join("scripts")).unwrap();
    std::fs::write(&script, "#!/bin/sh -eu\nmkdir -p \"$OUT\"\n: >\"$OUT/tripmeter_$1.so\"\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let run = |program: &Path, more: &[&str]| {
        let mut command = Command::new(program);
        command.args(["install", "zenoh"]).args(more).env("XDG_DATA_HOME", data.path());
        let output = command.env_remove("TRIPMETER_TRANSPORTS").output().unwrap();
        (output.status.code(), stderr(&output))
    };
    let (code, said) = run(&installed.program, &["--source", sources.path().to_str().unwrap()]);
    let plugin = data.path().join("tripmeter/transports/tripmeter_zenoh.so");
    assert!(code == Some(0) && said.contains(plugin.parent().unwrap().to_str().unwrap()), "{said}");
    assert!(plugin.exists(), "{said}");
    assert_eq!(run(&installed.program, &[]), (Some(0), "everything is there\n".to_owned()));
    // In the build folder, the program finds the plugins built there.
    std::fs::remove_file(&plugin).unwrap();
    let build = sources.path().join("target/debug");
    std::fs::create_dir_all(&build).unwrap();
    std::fs::copy(&installed.program, build.join("tripmeter")).unwrap();
    let (code, said) = run(&build.join("tripmeter"), &[]);
    assert!(code == Some(0) && build.with_file_name("transports/tripmeter_zenoh.so").exists(), "{said}");
    assert!(!plugin.exists(), "{said}");
}

#[test]
fn iceperf_has_its_own_flags() {
    fails(&["iceperf", "leader", "-b", "throughput"], 64, &["has no throughput benchmark"]);
    fails(&["iceperf", "leader", "-t", "dds"], 64, &["posix-message-queue"]);
    fails(&["iceperf", "leader", "-n", "0"], 64, &["0 samples"]);
}

#[test]
fn transports_are_listed_with_what_is_missing() {
    let text = prints(&["list", "shm", "iceoryx-cpp-api"]);
    assert!(text.starts_with("shm: ") && text.contains("shm/ring") && text.contains("zero-copy"), "{text}");
    assert!(
        text.contains("MISSING: not built; install it with `tripmeter install iceoryx` (packages needed: "),
        "{text}"
    );
    let json: serde_json::Value = serde_json::from_str(&prints(&["list", "--json"])).unwrap();
    let rows = json.as_array().unwrap();
    let row = |system: &str| rows.iter().find(|row| row["system"] == system).unwrap();
    assert_eq!((&row("uds")["source"], &row("uds")["available"]), (&"built-in".into(), &true.into()));
    assert_eq!(row("uds")["description"]["variants"][0]["waits"], serde_json::json!(["poll", "block"]));
    assert_eq!((&row("iceoryx")["source"], &row("iceoryx")["available"]), (&"missing".into(), &false.into()));
    assert!(!row("iceoryx")["packages"].as_array().unwrap().is_empty());
}

#[test]
fn doctor_audits_this_machine_and_strict_agrees_with_its_json() {
    let checks: Vec<CheckInfoRead> = serde_json::from_str(&prints(&["doctor", "--list", "--json"])).unwrap();
    let names: Vec<&str> = checks.iter().map(|check| check.name.as_str()).collect();
    for asked_for in ["frequency-governor", "smt-siblings", "affinity", "limit-memlock", "steal", "hiccups"] {
        assert!(names.contains(&asked_for), "{asked_for}");
    }
    let output = tripmeter(&["doctor", "--json", "--strict", "--quiet", "--seconds", "0.05"]);
    assert_eq!(stderr(&output), "");
    let audit: Audit = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(audit.findings.iter().map(|finding| finding.check.as_str()).collect::<Vec<_>>(), names);
    assert_eq!(output.status.code(), Some(i32::from(!audit.refused().is_empty())));
    for finding in &audit.findings {
        assert_eq!(finding.visible, !finding.value.starts_with("not visible here: "), "{finding:?}");
        assert!(finding.visible || finding.level == Level::Info, "{finding:?}");
        assert!(finding.level == Level::Info || finding.fix.is_some(), "{finding:?}");
    }
    assert_eq!(audit.hiccups.iter().map(|hiccups| hiccups.cpu).collect::<Vec<_>>(), audit.cpus);
}

#[test]
fn doctor_prints_a_table_of_the_cpus_asked_for() {
    let cpu = tripmeter_engine::os::allowed_cpus()[0].to_string();
    let output = tripmeter(&["doctor", "--cpus", &cpu, "--seconds", "0.01"]);
    assert_eq!(output.status.code(), Some(0), "without --strict it only reports");
    assert!(stderr(&output).contains(&format!("checking CPUs {cpu} for hiccups")));
    let text = stdout(&output);
    assert!(text.starts_with("level") && text.contains("\ninfo ") && text.contains("not visible here ("), "{text}");
    fails(&["doctor", "--cpus", "4711"], 64, &["CPU 4711", "choose from "]);
    fails(&["doctor", "--cpus", "first"], 64, &["2,3 or 0-3"]);
    fails(&["doctor", "--seconds", "-1"], 64, &["0.01 to 60"]);
    fails(&["doctor", "--list", "--strict"], 64, &["cannot be used with"]);
}

#[test]
fn completions_know_the_flags() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(prints(&["completions", shell]).contains("loss-timeout"), "{shell}");
    }
    fails(&["completions", "cmd"], 64, &["bash"]);
}

#[test]
fn tables_need_a_results_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display().to_string();
    fails(&["show", &path], 66, &["is not a results folder"]);
    for (text, part) in [("{", "cut off"), ("[]", "no schema version"), (r#"{"schema_version":99}"#, "version 99")] {
        file(&folder, "manifest.json", text);
        fails(&["show", &path], 65, &[part]);
    }
}

#[test]
fn tables_are_sorted_by_a_column_and_say_what_is_fastest() {
    let quick = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/results/quick");
    let first = |text: &str| text.lines().skip_while(|line| !line.starts_with("---")).nth(1).unwrap().to_owned();
    assert!(first(&prints(&["show", quick])).starts_with("shm/ring "));
    let text = prints(&["show", quick, "--sort", "1M p50:desc"]);
    let fastest = "Floor aside, at 1k: iceoryx2/publish-subscribe was fastest";
    assert!(first(&text).starts_with("mq/queue ") && text.contains(fastest), "{text}");
    let csv = prints(&["export", quick, "--format", "csv", "--tables", "all", "--sort", "lost:desc"]);
    assert!(csv.starts_with("transport,"), "{csv}");
    fails(&["show", quick, "--sort", "nope"], 64, &["'nope'", "1M_p50 ('1M p50')", "--sort"]);
    for column in ["p99", "1M", "median", "name", "1k p99"] {
        assert!(first(&prints(&["show", quick, "--sort", column])).contains('/'), "{column}");
    }
    let published = prints(&["show", quick, "--tables", "iceperf"]);
    assert!(!published.contains("fastest"), "{published}");
}

#[test]
fn plugins_that_are_none_are_refused_with_their_class() {
    let folder = tempfile::tempdir().unwrap();
    let listed = |file: &str| ["list", "--plugin", file].map(str::to_owned);
    let refused = |file: &str, code, parts: &[&str]| {
        let args = listed(file);
        fails(&args.each_ref().map(String::as_str), code, parts);
    };
    refused("/nowhere/tripmeter_x.so", 66, &["/nowhere/tripmeter_x.so"]);
    refused(&file(&folder, "text.so", "no library\n"), 65, &["cannot be loaded"]);
    refused(&library(&folder, "noentry", "int x;"), 65, &["does not export the function 'tripmeter_transport'"]);
    let other_abi = "#include <tripmeter_transport.h>\nstatic tm_transport t = {.abi_version = 99};\n\
                     const tm_transport *tripmeter_transport(void) { return &t; }\n";
    refused(&library(&folder, "other", other_abi), 65, &["interface version 99", "rebuild"]);
    let broken = "#include <tripmeter_transport.h>\nconst tm_transport *tripmeter_transport(void) { return 0; }\n";
    refused(&library(&folder, "null", broken), 65, &["returned NULL"]);
}

#[test]
fn a_plugin_that_crashes_or_ends_takes_nothing_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let at_load = |what: &str| {
        format!(
            "#include <stdio.h>\n#include <stdlib.h>\n\
             __attribute__((constructor)) static void load(void) {{ fputs(\"my last words\\n\", stderr); {what}; }}\n"
        )
    };
    let crashing = library(&folder, "crashing", &at_load("*(volatile int *)0 = 1"));
    fails(&["list", "--plugin", &crashing], 69, &["crashed (signal: 11", "describe itself", "\"my last words\""]);
    let ending = library(&folder, "ending", &at_load("exit(0)"));
    fails(&["list", "--plugin", &ending], 69, &["ended without an answer (exit status: 0)"]);
    // Plugins found in a folder are listed with the reason, next to all others.
    let output = Command::new(program()).args(["list"]).env("TRIPMETER_TRANSPORTS", folder.path()).output().unwrap();
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(text.contains("uds/stream") && text.contains("NOT HERE: transport 'crashing' crashed"), "{text}");
}

#[test]
fn a_plugin_that_hangs_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    let text = "#include <unistd.h>\n\
                __attribute__((constructor)) static void load(void) { for (int i = 0; i < 100; i++) sleep(1); }\n";
    let hanging = library(&folder, "hanging", text);
    fails(&["list", "--plugin", &hanging], 69, &["hung for 30 s while it was asked to describe itself"]);
}

#[test]
fn a_plugin_whose_library_is_missing_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let needed: PathBuf = folder.path().join("libneeded.so");
    let empty = file(&folder, "needed.c", "int needed(void) { return 1; }\n");
    let user = file(&folder, "user.c", "int needed(void); int user(void) { return needed(); }\n");
    let plugin = folder.path().join("tripmeter_user.so");
    let shared = ["-shared", "-fPIC", "-Wl,-soname,libneeded.so.7", "-o"];
    compile(Command::new("cc").args(shared).arg(&needed).arg(&empty));
    compile(Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&plugin).arg(&user).arg(&needed));
    fails(&["list", "--plugin", &plugin.display().to_string()], 69, &["needs the library 'libneeded.so.7'"]);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = Command::new(program())
        .args(["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
}

#[test]
fn round_trips_at_a_rate_that_make_no_sense_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results").display().to_string();
    let of_file = |keys: &str| {
        let text = format!("{keys}\n[[sub_experiment]]\ntransport = \"inmem\"\npayloads = \"64\"\n");
        file(&folder, "paced.toml", &text)
    };
    for (words, keys, parts) in [
        (&["--rate", "max"][..], "rate = \"max\"", &["'max'", "0.001 to 1e6", "--rate"][..]),
        (&["--rate", "10,10"], "rate = \"10,10\"", &["trial 2", "--rate"]),
        (&["--rate", "10", "--followers", "2"], "rate = \"10\"\nfollowers = 2", &["one follower", "--rate"]),
    ] {
        let flags = ["ping", "inmem", "--payloads", "64", "-o", &results];
        fails(&[&flags, words].concat(), 64, parts);
        fails(&["run", &of_file(keys), "-o", &results], 65, parts);
    }
    let file = of_file("rate = \"10\"\nmode = \"fixed-freq\"");
    fails(&["run", &file, "-o", &results], 65, &["mode", "'ping'"]);
}

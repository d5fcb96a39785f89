//! `export` for other programs, and the verdicts that it takes. `tests/check_exports.py` lets the target program read
//! each format.

use crate::common::{Tripmeter, alone, folder, manifest, repository, say};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use tripmeter_model::VERSION;
use tripmeter_model::verdict::{FigureVerdict, JudgingCommand, OverallResult, VerdictDocument};

fn measure(place: &Path) {
    let words = ["ping", "inmem", "-q", "-n", "300", "--payloads", "1k,16k", "--rounds", "4", "--no-floor", "-o", "r"];
    let fixed = ["--wait", "block", "--raw", "none", "--attempts", "1", "--loss-timeout", "15"];
    Tripmeter::new(words.iter().chain(&fixed)).at(place).run().with(0);
}

#[test]
fn what_was_measured_is_printed_in_the_order_asked_for_and_a_wrong_name_loses_nothing() {
    let _alone = alone();
    let place = folder();
    let run = |words: &[&str]| {
        let fixed =
            ["--wait", "block", "-n", "10", "--payloads", "64", "--raw", "none", "--attempts", "1", "--allow-loss"];
        Tripmeter::new(words.iter().chain(&fixed)).at(place.path()).run()
    };
    let words = ["ping", "uds", "inmem", "--no-floor", "-q"];
    let by_name = run(&[&words[..], &["-o", "a", "--sort", "name"]].concat()).with(0).stdout;
    let other = run(&[&words[..], &["-o", "b", "--sort", "name:desc"]].concat()).with(0).stdout;
    let place_of = |text: &str, name: &str| text.lines().position(|line| line.starts_with(name)).unwrap();
    let is_first = |text: &str| place_of(text, "inmem/queue") < place_of(text, "uds/datagram");
    assert!(is_first(&by_name) && !is_first(&other), "{by_name}\n{other}");
    let wrong = run(&[&words[..], &["-o", "c", "--sort", "nope"]].concat()).with(0);
    assert!(wrong.stderr.contains("note: not sorted: no table has a column 'nope'"), "{wrong:?}");
    assert!(wrong.stdout.contains("uds/datagram ") && place.path().join("c/manifest.json").is_file());
    run(&[&words[..], &["-o", "d", "--sort", "p50", "--json"]].concat()).with(64).one_line(&["--sort", "--json"]);
}

fn verdict(text: &str) -> VerdictDocument {
    VerdictDocument::read(text).unwrap_or_else(|why| panic!("{why}: {text}"))
}

#[test]
fn commands_that_judge_print_one_kind_of_document_and_exports_take_it() {
    let _alone = alone();
    let place = folder();
    measure(place.path());
    let run = |words: &[&str]| Tripmeter::new(words).at(place.path()).run();

    let ranks = verdict(&run(&["compare", "r", "r", "--json"]).with(0).stdout);
    assert_eq!((ranks.command, ranks.exit_code, ranks.false_discovery_rate), (JudgingCommand::Compare, 0, Some(0.05)));
    assert_eq!((ranks.figures.len(), ranks.figures_judged), (6, 6));
    let threshold = verdict(&run(&["compare", "r", "r", "--json", "--method", "threshold"]).with(0).stdout);
    assert_eq!((threshold.result, threshold.false_discovery_rate), (OverallResult::Passed, None));
    assert!(threshold.figures.iter().all(|row| row.old == row.new), "{threshold:?}");

    // Another order of the figures, or an error that lists the columns.
    let wrong = run(&["compare", "r", "r", "--sort", "nope"]).with(64);
    wrong.one_line(&["no table has a column 'nope'; choose from payload_bytes ('payload')", "ratio", "--sort"]);
    for words in [&["compare", "r", "r"][..], &["history", "."]] {
        run(&[words, &["--sort", "p99", "--json"]].concat()).with(64).one_line(&["--sort", "--json"]);
    }
    // Without a change there is no table.
    run(&["history", ".", "--sort", "change"]).with(0);
    let text = run(&["compare", "r", "r", "--sort", "figure:desc"]).with(0).stdout;
    assert!(text.find("rtt_half_ns.p99").unwrap() < text.find("rtt_half_ns.p50").unwrap(), "{text}");

    run(&["limits", "r", "-o", "limits.csv"]).with(0);
    let printed = run(&["limits", "r", "-o", "-"]).with(0).stdout;
    assert_eq!(printed, std::fs::read_to_string(place.path().join("limits.csv")).unwrap());
    let [named, usual] = [&["-o", "-"][..], &[]].map(|to| run(&[&["export", "r", "--format", "bencher"], to].concat()));
    assert!(named.stdout == usual.with(0).stdout && !place.path().join("-").exists(), "{named:?}");
    let limits = fs::read_to_string(place.path().join("limits.csv")).unwrap();
    let is_p50 = |line: &str| line.contains(",1024,") && line.contains(",p50,");
    let low = |line: &str| match is_p50(line) {
        true => format!("{},0.5\n", line.rsplit_once(',').unwrap().0),
        false => format!("{line}\n"),
    };
    fs::write(place.path().join("limits.csv"), limits.lines().map(low).collect::<String>()).unwrap();
    let text = run(&["check", "r", "--limits", "limits.csv", "--json"]).with(1).stdout;
    let check = verdict(&text);
    assert_eq!((check.command, check.result), (JudgingCommand::Check, OverallResult::Failed));
    let row = check.figures.iter().find(|row| row.payload_bytes == 1024 && row.statistic == "p50").unwrap();
    assert_eq!((row.verdict, row.limit), (FigureVerdict::Failed, Some(0.5)));

    let history = verdict(&run(&["history", ".", "--json"]).with(0).stdout);
    assert_eq!((history.command, history.result), (JudgingCommand::History, OverallResult::Passed));

    fs::write(place.path().join("v.json"), &text).unwrap();
    let junit = run(&["export", "r", "--format", "junit", "--verdict", "v.json"]).with(0).stdout;
    assert!(junit.contains("<testcase name=\"1k rtt_half_ns.p50\"") && junit.contains("<failure type=\"failed\""));
    let github = run(&["export", "r", "--format", "github", "--verdict", "v.json", "-o", "summary.md"]).with(0).stdout;
    assert!(github.starts_with("::error title=inmem_queue_block failed%3A 1k rtt_half_ns.p50::failed: "), "{github}");
    let summary = fs::read_to_string(place.path().join("summary.md")).unwrap();
    assert!(summary.starts_with("## Tripmeter: failed\n"), "{summary}");
    fs::create_dir(place.path().join("other")).unwrap();
    let manifest = fs::read_to_string(place.path().join("r/manifest.json")).unwrap();
    let other = manifest.replacen("\"started\": \"20", "\"started\": \"21", 1);
    assert_ne!(manifest, other);
    fs::write(place.path().join("other/manifest.json"), &other).unwrap();
    fs::copy(place.path().join("r/trials.jsonl"), place.path().join("other/trials.jsonl")).unwrap();
    for format in ["junit", "github"] {
        let words = ["export", "other", "--format", format, "--verdict", "v.json"];
        run(&words).with(65).one_line(&[
            "'v.json' is the verdict on 'r' (begun 20",
            "not on 'other' (begun 21",
            "tripmeter check",
        ]);
    }
    let mut old: Value = serde_json::from_str(&text).unwrap();
    old.as_object_mut().unwrap().remove("judged");
    fs::write(place.path().join("old.json"), old.to_string()).unwrap();
    run(&["export", "other", "--format", "junit", "--verdict", "old.json"]).with(0);
    fs::write(place.path().join("v.json"), text.replacen("\"1.1\"", "\"2.0\"", 1)).unwrap();
    run(&["export", "r", "--format", "junit", "--verdict", "v.json"]).with(65).one_line(&["'v.json'", "2.0"]);
}

#[test]
fn a_program_for_parquet_of_another_version_is_named_with_both() {
    // A matching version may be in the folder next to the program.
    let usual = ["target/transports", "target/debug/transports"].map(|folder| repository().join(folder));
    if usual.iter().any(|folder| folder.join("tripmeter_parquet").exists()) {
        return say("SKIPPED: another tripmeter_parquet is installed");
    }
    let _alone = alone();
    let place = folder();
    measure(place.path());
    let plugins = place.path().join("plugins");
    fs::create_dir(&plugins).unwrap();
    let helper = plugins.join("tripmeter_parquet");
    let run = |script: &str, words: &[&str]| {
        fs::write(&helper, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&helper, fs::Permissions::from_mode(0o755)).unwrap();
        let folder = plugins.display().to_string();
        let home = place.path().display().to_string();
        let made = Tripmeter::new(words).at(place.path()).environment("TRIPMETER_TRANSPORTS", &folder);
        made.environment("HOME", &home).environment("XDG_DATA_HOME", &home).run()
    };
    let export = ["export", "r", "--format", "parquet", "-o", "p"];
    let other = run("echo tripmeter_parquet 0.0.9", &export).with(69);
    other.one_line(&[VERSION, "plugins/tripmeter_parquet' has version 0.0.9", "`tripmeter install parquet`"]);
    let older = run("echo usage >&2; exit 64", &["ping", "inmem", "--raw", "parquet", "-n", "10", "-o", "x"]).with(69);
    older.one_line(&[
        "`--raw parquet`",
        &format!("of version {VERSION}"),
        "an older one",
        "`tripmeter install parquet`",
    ]);
    assert!(!place.path().join("x").exists() && !place.path().join("p").exists());
    let script = "[ $# = 1 ] && exec echo tripmeter_parquet VERSION; cp \"$2\" \"$3\"".replace("VERSION", VERSION);
    run(&script, &export).with(0);
    for code in [65, 73] {
        let script = script.replace("cp \"$2\" \"$3\"", &format!("echo wrong row >&2; exit {code}"));
        run(&script, &export).with(code).one_line(&["no Parquet", &code.to_string(), "wrong row"]);
    }
    let fifo = place.path().join("r/round-01/samples/inmem_queue_block.csv");
    fs::create_dir_all(fifo.parent().unwrap()).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    run(&script, &export).with(66).one_line(&["r/round-01/samples/inmem_queue_block.csv", "is not a sample file"]);
}

#[test]
fn names_of_folders_are_no_markup_of_markdown() {
    let _alone = alone();
    let place = folder();
    measure(place.path());
    let hostile = "a|b`<script>*c*\n# d\u{202e}";
    fs::create_dir(place.path().join(hostile)).unwrap();
    for file in ["manifest.json", "trials.jsonl"] {
        fs::copy(place.path().join("r").join(file), place.path().join(hostile).join(file)).unwrap();
    }
    let expected = "# a\\|b\\`&lt;script&gt;\\*c\\*\\\\n\\#\u{200b} d\\\\u202e";
    for tables in ["figures", "all"] {
        let words = ["export", "r", hostile, "--format", "markdown", "--tables", tables];
        let made = Tripmeter::new(words).at(place.path()).run().with(0).stdout;
        assert!(made.lines().any(|line| line == expected), "{made}");
    }
}

#[test]
fn figures_keep_their_values_and_what_failed_is_a_failure() {
    let _alone = alone();
    let place = folder();
    measure(place.path());
    let run = |words: &[&str]| Tripmeter::new(words).at(place.path()).run();
    let bencher: Value = serde_json::from_str(&run(&["export", "r", "--format", "bencher"]).with(0).stdout).unwrap();
    let json: Value = serde_json::from_str(&run(&["export", "r", "--format", "json"]).with(0).stdout).unwrap();
    assert!(json["blocks"].is_array());
    let latency = bencher["inmem_queue_block at 1k"]["latency"]["value"].as_f64().unwrap();
    let metrics = run(&["export", "r", "--format", "openmetrics"]).with(0).stdout;
    let line = metrics.lines().find(|line| {
        line.starts_with("tripmeter_rtt_half_seconds{") && line.contains("\"1024\"") && line.contains("\"p50\"")
    });
    let seconds: f64 = line.unwrap().rsplit_once(' ').unwrap().1.parse().unwrap();
    assert!((seconds * 1e9 - latency).abs() <= 1e-6 * latency && metrics.ends_with("\n# EOF\n"), "{seconds} {latency}");

    let junit = run(&["export", "r", "--format", "junit"]).with(0).stdout;
    assert!(junit.contains("tests=\"3\" failures=\"0\"") && !junit.contains("<failure"), "{junit}");
    let trials = place.path().join("r/trials.jsonl");
    let text = fs::read_to_string(&trials).unwrap();
    let hostile = "]]>\\u001b[31m\\n<script>\\\"&\\u202e\\ufffe";
    let failed = text
        .replace("\"status\":\"complete\",\"error\":null", &format!("\"status\":\"failed\",\"error\":\"{hostile}\""));
    assert_ne!(failed, text);
    fs::write(&trials, failed).unwrap();
    assert!(manifest(&place.path().join("r")).sub_experiments.iter().all(|one| one.error.is_some()));
    let junit = run(&["export", "r", "--format", "junit"]).with(0).stdout;
    assert!(
        junit.contains("tests=\"3\" failures=\"3\"") && junit.contains("]]&gt;\\u001b[31m\\n&lt;script&gt;"),
        "{junit}"
    );
    assert!(!junit.contains(['\u{1b}', '\u{202e}', '\u{fffe}']));
    let github = run(&["export", "r", "--format", "github"]).with(0).stdout;
    assert!(github.starts_with("::error title=inmem_queue_block::") && github.lines().count() == 1, "{github}");
}

#[test]
fn flags_of_other_formats_are_refused() {
    let place = folder();
    let run = |words: &[&str]| Tripmeter::new([&["export", "r"], words].concat()).at(place.path()).run();
    run(&["--format", "csv", "--verdict", "v.json"]).with(64).one_line(&["--verdict", "junit or github"]);
    run(&["--format", "bencher", "--verdict", "v.json"]).with(64).one_line(&["--verdict", "junit or github"]);
    run(&["--format", "junit", "--log"]).with(64).one_line(&["--log", "png and svg"]);
    run(&["--format", "junit"]).with(66);
}

#[test]
fn the_reader_of_openmetrics_says_why_a_machine_cannot_build_it() {
    let place = folder();
    let build = || {
        let script = repository().join("tests/openmetrics/build.sh");
        let mut command = Command::new("/bin/bash");
        let done = command.arg(script).arg(place.path().join("reader")).env("PATH", place.path()).output().unwrap();
        (done.status.code(), String::from_utf8(done.stderr).unwrap())
    };
    let (code, text) = build();
    assert!(code == Some(69) && text.starts_with("go is missing; version 1."), "{code:?} {text}");
    let compiler = place.path().join("go");
    for version in ["go1.19.8", "go1.9", "devel go1.20-1a2b3c"] {
        fs::write(&compiler, format!("#!/bin/sh\necho '{version}'\n")).unwrap();
        fs::set_permissions(&compiler, fs::Permissions::from_mode(0o755)).unwrap();
        let (code, text) = build();
        assert!(code == Some(69) && text.starts_with(&format!("{version} is too old; version 1.")), "{code:?} {text}");
    }
    // Go is new enough, and the failure is not a lack of modules.
    let refuses = "#!/bin/sh\ncase $1 in env) echo go99.0 ;; build) exit 2 ;; esac\n";
    fs::write(&compiler, refuses).unwrap();
    assert_eq!(build().0, Some(2));
}

//! The program on real results, in a folder and in a store.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod at_once;
#[cfg(feature = "ballista")]
mod cluster;
mod common;

use common::*;
use std::fs;
use std::path::Path;

/// Times in files of samples are whole nanoseconds since the trial began; figures come from the readings themselves.
const ROUNDED_NS: f64 = 1.0;

fn dest(folder: &tempfile::TempDir) -> String {
    folder.path().join("archive").display().to_string()
}

fn number(text: &str) -> f64 {
    text.parse().unwrap_or_else(|_| panic!("'{text}' is no number"))
}

/// The p99 of a latency in every group, interpolated between the two samples in order that it lies between. DataFusion's own
/// `percentile_cont` interpolates in steps of a millionth.
fn exact_p99(latency: &str, groups: &str) -> String {
    format!(
        "SELECT {groups}, min(value) + (max(value) - min(value)) * (0.99 * (n - 1) - CAST(0.99 * (n - 1) AS BIGINT)) AS p99 \
         FROM (SELECT {groups}, CAST({latency} AS DOUBLE) AS value, count(*) OVER (PARTITION BY {groups}) AS n, \
         row_number() OVER (PARTITION BY {groups} ORDER BY {latency}) - 1 AS place FROM samples WHERE status = 'ok') \
         WHERE place = CAST(0.99 * (n - 1) AS BIGINT) OR place = CAST(0.99 * (n - 1) AS BIGINT) + 1 GROUP BY {groups}, n"
    )
}

/// Every p99 of round trips and of messages, from the samples, is that of the figures.
fn samples_equal_figures(dest: &str, endpoint: Option<&str>) {
    for (figure, latency, factor, count) in [("rtt_half_ns", "rtt_ns", 2.0, 8), ("service_ns", "one_way_ns", 1.0, 1)] {
        let sql = format!(
            "SELECT value, p99 / {factor:?} FROM metrics JOIN ({}) AS samples USING (run, sub_experiment, round, trial) \
             WHERE figure = '{figure}' AND statistic = 'p99' AND stream = 'all'",
            exact_p99(latency, "run, sub_experiment, round, trial")
        );
        let found = rows(dest, &sql, endpoint);
        assert_eq!(found.len(), count, "{figure}");
        for row in found {
            let (figure, of_samples) = (number(&row[0]), number(&row[1]));
            assert!((figure - of_samples).abs() <= ROUNDED_NS, "{row:?}");
        }
    }
}

#[test]
fn samples_and_figures_are_those_of_the_results() {
    let folder = tempfile::tempdir().unwrap();
    let dest = dest(&folder);
    let source = measured().display().to_string();
    let told = good(&["push", &source, &dest, "--machine", "lab"], None);
    assert!(told.contains("24000 samples") && told.contains("2000 samples"), "{told}");
    samples_equal_figures(&dest, None);
    // Every row of metrics.csv, and nothing else.
    let file = fs::read_to_string(measured().join("pings/metrics.csv")).unwrap();
    let sql = "SELECT sub_experiment, round, payload_bytes, offered_load, stream, figure, statistic, value FROM metrics \
               JOIN runs USING (run) WHERE folder = 'pings'";
    let line = |cells: &[String]| (cells[..7].join(","), number(&cells[7]).to_bits());
    let mut expected: Vec<_> =
        file.lines().skip(1).map(|row| line(&row.split(',').map(str::to_owned).collect::<Vec<_>>())).collect();
    let mut found: Vec<_> = rows(&dest, sql, None).iter().map(|row| line(row)).collect();
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
}

#[test]
fn the_documented_p99_is_that_of_all_samples() {
    let folder = tempfile::tempdir().unwrap();
    let dest = dest(&folder);
    let pings = measured().join("pings").display().to_string();
    good(&["push", &pings, &dest, "--machine", "lab"], None);
    let found = rows(&dest, P99, None);
    let [row] = &found[..] else { panic!("{found:?}") };
    assert_eq!((row[0].as_str(), row[2].as_str()), ("lab", "24000"));
    assert!(
        (number(&row[3]) - number(&rows(&dest, &exact_p99("rtt_ns", "machine"), None)[0][1])).abs() < 1e-3,
        "{row:?}"
    );
}

#[test]
fn a_second_push_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let dest = dest(&folder);
    let source = measured().display().to_string();
    good(&["push", &source, &dest], None);
    let before = files(Path::new(&dest));
    let told = good(&["push", &source, &dest, "--machine", "another"], None);
    assert_eq!(told.matches("is already archived").count(), 2, "{told}");
    assert_eq!(files(Path::new(&dest)), before);
}

#[test]
fn a_store_holds_the_same_as_a_folder() {
    let (_server, endpoint) = store();
    let source = measured().display().to_string();
    let s3 = "s3://lab/results/tripmeter";
    good(&["push", &source, s3, "--machine", "lab"], Some(&endpoint));
    samples_equal_figures(s3, Some(&endpoint));
    let told = good(&["push", &source, s3], Some(&endpoint));
    assert_eq!(told.matches("is already archived").count(), 2, "{told}");
    let folder = tempfile::tempdir().unwrap();
    good(&["push", &source, &dest(&folder), "--machine", "lab"], None);
    assert_eq!(rows(s3, P99, Some(&endpoint)), rows(&dest(&folder), P99, None));
}

#[test]
fn a_store_that_refuses_or_breaks_off_is_one_line_and_nothing_is_half_there() {
    let (_server, endpoint) = store();
    let source = measured().display().to_string();
    let (code, told) = refused(&["push", &source, "s3://absent/x"], Some(&endpoint));
    assert!(code == 69 && told.contains("'s3://absent/x' cannot be read"), "{code} {told}");
    let (code, told) = refused(&["query", "s3://absent/x", "SELECT 1"], Some(&endpoint));
    assert!(code == 69 && told.contains("NoSuchBucket"), "{code} {told}");
    let s3 = "s3://lab/x";
    // What a whole push sends is more than this, and the marker less.
    let broken = breaking_off(&endpoint, 60_000);
    let (code, told) = refused(&["push", &source, s3], Some(&broken));
    assert!(code == 69 && told.contains("nothing of this run is visible"), "{code} {told}");
    let count = |table: &str| cell(s3, &format!("SELECT count(*) FROM {table}"), Some(&endpoint));
    let runs: usize = count("runs").parse().unwrap();
    assert!(runs < 2);
    assert_eq!(count("samples"), cell(s3, "SELECT coalesce(sum(samples), 0) FROM runs", Some(&endpoint)));
    good(&["push", &source, s3], Some(&endpoint));
    assert_eq!((count("runs").as_str(), count("samples").as_str()), ("2", "26000"));
    let nobody = format!("http://127.0.0.1:{}", free_port());
    let (code, told) = refused(&["query", s3, "SELECT 1"], Some(&nobody));
    assert!(code == 69 && told.contains("cannot be read"), "{code} {told}");
}

#[test]
fn a_store_that_knows_no_key_is_one_line() {
    let (_server, endpoint) = store_that_refuses();
    for arguments in
        [vec!["push", &measured().display().to_string(), "s3://lab/x"], vec!["query", "s3://lab/x", "SELECT 1"]]
    {
        let (code, told) = refused(&arguments, Some(&endpoint));
        assert!(code == 69 && told.contains("AWS_*") && told.contains("InvalidAccessKeyId"), "{code} {told}");
    }
}

#[test]
fn a_file_that_cannot_be_written_is_one_line_and_nothing_is_half_there() {
    let folder = tempfile::tempdir().unwrap();
    let dest = dest(&folder);
    let source = measured().display().to_string();
    // The limit is in blocks of 512 bytes; without the signal a write fails, as on a full disk.
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", "ulimit -f 50; trap '' XFSZ; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_tripmeter-archive")]);
    let output = run({
        limited.args(["push", &source, &dest]);
        limited
    });
    let told = text(&output.stderr);
    assert!(output.status.code() == Some(73) && told.lines().count() == 1 && told.contains("push it again"), "{told}");
    let rows_of = "SELECT count(*), (SELECT coalesce(sum(samples), 0) FROM runs) FROM samples";
    let before = rows(&dest, rows_of, None).remove(0);
    assert!(before[0] == before[1] && before[0] != "26000", "{before:?}");
    good(&["push", &source, &dest], None);
    assert_eq!(rows(&dest, rows_of, None), [["26000", "26000"]]);
}

#[test]
fn a_push_that_is_killed_leaves_a_readable_archive() {
    let folder = tempfile::tempdir().unwrap();
    let dest = dest(&folder);
    let pings = measured().join("pings");
    good(&["push", &pings.display().to_string(), &dest, "--machine", "lab"], None);
    // Another run with much more to write.
    let large = folder.path().join("large");
    copy(&pings, &large, &|name, text| match name {
        "manifest.json" => text.replacen("\"started\": \"20", "\"started\": \"19", 1),
        _ if name.ends_with(".csv") && name != "metrics.csv" => {
            let (header, rows) = text.split_once('\n').unwrap();
            format!("{header}\n{}", rows.repeat(40))
        }
        _ => text,
    });
    let samples = Path::new(&dest).join("samples");
    let has = |count: usize| move || Some(files_below(&samples)).filter(|found| *found > count);
    let first = files_below(&Path::new(&dest).join("samples"));
    let mut command = archive(&["push", &large.display().to_string(), &dest, "--machine", "lab"], None);
    let mut child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    wait("file of the second run", has(first));
    child.kill().unwrap();
    child.wait().unwrap();
    let count = |table: &str| cell(&dest, &format!("SELECT count(*) FROM {table}"), None);
    assert_eq!((count("runs").as_str(), count("samples").as_str()), ("1", "24000"), "the push was not killed in time");
    assert_eq!(cell(&dest, "SELECT count(DISTINCT run) FROM metrics", None), "1");
    // For another machine: what was left counts no more.
    good(&["push", &large.display().to_string(), &dest, "--machine", "lab2"], None);
    assert_eq!((count("runs"), count("samples")), ("2".to_owned(), (24_000 + 40 * 24_000).to_string()));
}

fn files_below(folder: &Path) -> usize {
    if folder.is_dir() { files(folder).len() } else { 0 }
}

#[test]
fn verdicts_are_those_of_the_folders() {
    let folder = tempfile::tempdir().unwrap();
    let dest = dest(&folder);
    let days = folder.path().join("days");
    history_of(&measured().join("pings"), &days);
    good(&["push", &days.display().to_string(), &dest, "--machine", "lab"], None);
    let of_folders = run(tripmeter(["history".to_owned()], &days));
    let found = good(&["history", &dest], None);
    assert_eq!(found, text(&of_folders.stdout));
    assert!(found.contains("day-07"), "{found}");
    let limits = |name: &str| folder.path().join(name).display().to_string();
    let arguments = ["limits".to_owned(), "-o".to_owned(), limits("a.csv")];
    assert!(run(tripmeter(arguments, &days)).status.success());
    good(&["limits", &dest, "-o", &limits("b.csv")], None);
    assert_eq!(fs::read_to_string(limits("a.csv")).unwrap(), fs::read_to_string(limits("b.csv")).unwrap());
    let (code, told) = refused(&["history", &dest, "--figures", "latency"], None);
    assert!(code == 64 && told.contains("there is no figure 'latency'"), "{told}");
    let code = run(archive(&["history", &dest, "--fail-on-change"], None)).status.code();
    assert_eq!(code, Some(1));
    // One meaning in both programs: a share.
    let large = ["history", "--fail-on-change", "--min-change", "60%"];
    let of_folders = run(tripmeter(large.map(str::to_owned), &days));
    assert_eq!(good(&[&large[..], &[&dest]].concat(), None), text(&of_folders.stdout));
    let (code, told) = refused(&["history", &dest, "--min-change", "5"], None);
    assert!(code == 64 && told.contains("write a share"), "{told}");
    let (code, told) = refused(&["history", &dest, "--known", "day-13"], None);
    assert!(code == 64 && told.contains("'day-13'") && told.contains("(--known)"), "{told}");
    good(&["push", &measured().join("pings").display().to_string(), &dest, "--machine", "lab2"], None);
    let (code, told) = refused(&["history", &dest], None);
    assert!(code == 64 && told.contains("several machines") && told.contains("lab, lab2"), "{told}");
}

#[test]
fn what_is_wrong_is_told_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let dest = dest(&folder);
    let pings = measured().join("pings").display().to_string();
    good(&["push", &pings, &dest], None);
    let other = measured().display().to_string();
    for (arguments, code, says) in [
        (vec!["query", &dest, "SELECT latency FROM samples"], 64, "latency"),
        (vec!["query", &dest, "SELEC 1"], 64, "the query is wrong"),
        (vec!["query", &dest, "SELECT 1 FROM nothing"], 64, "nothing"),
        (vec!["query", &dest, "SELECT CAST('x' AS BIGINT)"], 64, "the query is wrong"),
        (vec!["query", &dest, "SELECT 1; SELECT 2"], 64, "the query is wrong"),
        (vec!["query", &dest, "SELECT 1", "--spill", "/proc/x"], 73, "name another with --spill"),
        (vec!["query", &dest, "DROP VIEW samples"], 64, "DDL"),
        (vec!["query", &dest, "COPY samples TO '/tmp/x.csv'"], 64, "DML"),
        (vec!["query", &dest, "SELECT 1", "--memory", "1M"], 64, "the minimum is 64M"),
        (vec!["query", &dest, "SELECT 1", "--engine", "spark"], 64, "--engine 'spark'"),
        (vec!["query", "/nowhere", "SELECT 1"], 66, "'/nowhere' cannot be read"),
        (vec!["query", &pings, "SELECT 1"], 66, "holds no archive"),
        (vec!["query", "gs://bucket/x", "SELECT 1"], 64, "s3://BUCKET/PREFIX"),
        (vec!["push", &pings, &other], 73, "is not an archive, and not empty"),
        (vec!["push", &pings, "/proc/x"], 73, "'/proc/x' cannot be made"),
        (vec!["push", "/nowhere", &dest], 66, "'/nowhere'"),
        (vec!["push", &pings, &dest, "--machine", "../x"], 64, "is not a machine name"),
        (vec!["limits", &dest, "--percentile", "101"], 64, "101"),
        (vec!["history", &dest, "--machine", "other"], 64, "there is no machine 'other'"),
    ] {
        let (found, told) = refused(&arguments, None);
        assert!(found == code && told.contains(says), "{arguments:?}: {found} {told}");
    }
}

#[test]
fn rows_are_printed_as_a_table_as_csv_and_as_json() {
    let folder = tempfile::tempdir().unwrap();
    let dest = dest(&folder);
    good(&["push", &measured().join("pings").display().to_string(), &dest, "--machine", "lab"], None);
    let sql = "SELECT DISTINCT sub_experiment AS name, machine FROM samples ORDER BY name";
    assert_eq!(good(&["query", &dest, sql, "--csv"], None), "name,machine\nshm_ring_block,lab\nuds_stream_block,lab\n");
    let json: serde_json::Value = serde_json::from_str(&good(&["query", &dest, sql, "--json"], None)).unwrap();
    assert_eq!(json[1], serde_json::json!({"name": "uds_stream_block", "machine": "lab"}));
    let table = good(&["query", &dest, sql], None);
    assert!(table.contains("| shm_ring_block   | lab     |"), "{table}");
    let hostile = folder.path().join("hostile");
    let red =
        |name: &str, text: String| if name.starts_with("uds") { text.replace(",all,", ",\u{1b}[31m,") } else { text };
    copy(&measured().join("pings"), &hostile, &|name, text| match name {
        "manifest.json" => text.replacen("\"started\": \"20", "\"started\": \"19", 1),
        _ => red(name, text),
    });
    good(&["push", &hostile.display().to_string(), &dest], None);
    let table = good(&["query", &dest, "SELECT DISTINCT stream FROM samples ORDER BY stream"], None);
    assert!(table.contains("| \\u001b[31m |") && !table.contains('\u{1b}'), "{table}");
    let none = "SELECT run FROM samples WHERE round = 7";
    assert_eq!(good(&["query", &dest, none, "--csv"], None), "run\n");
    assert_eq!(good(&["query", &dest, none, "--json"], None).trim(), "[]");
}

//! `metrics.csv` has every figure of the manifest, once.

use crate::common::figures::count;
use crate::common::samples::sample_payloads;
use crate::common::{Tripmeter, folder, manifest};
use std::collections::BTreeMap;
use std::path::Path;
use tripmeter_model::figure::Figure;
use tripmeter_model::trial::TrialFigure;

/// Checks that the file of a finished run has exactly the figures of the finished payloads in the manifest. Returns
/// them by sub-experiment, round, payload, load, stream, figure and statistic.
#[track_caller]
pub fn check(results: &Path) -> BTreeMap<Vec<String>, f64> {
    let mut reader = csv::Reader::from_path(results.join("metrics.csv")).expect("there is a file of figures");
    let mut values = BTreeMap::new();
    for row in reader.records() {
        let row = row.expect("rows are whole");
        let address: Vec<String> = row.iter().take(7).map(str::to_owned).collect();
        let value: f64 = row[7].parse().expect("a number");
        assert!(values.insert(address.clone(), value).is_none(), "{address:?} is there twice");
    }
    let mut expected = BTreeMap::new();
    for result in manifest(results).sub_experiments {
        for cell in &result.cells {
            for trial in cell.flat_trials() {
                assert_eq!(trial.rate_missed, count(&trial, Figure::RateMissed) == 1, "{trial:?}");
                let place =
                    [&result.name, &result.round.to_string(), &cell.payload_bytes.to_string()].map(String::from);
                expected.extend(trial.figures().map(|TrialFigure { stream, figure, statistic, value, .. }| {
                    let rest = [trial.load.to_string(), stream.to_string(), figure.to_string(), statistic.to_string()];
                    ([&place[..], &rest].concat(), value)
                }));
            }
        }
    }
    assert!(values.keys().eq(expected.keys()), "{values:?}, {expected:?}");
    for ((address, value), expected) in values.iter().zip(expected.values()) {
        // Writing and reading may change the last digit.
        assert!((value - expected).abs() <= expected.abs() * 1e-12, "{address:?}: {value}, {expected}");
    }
    values
}

#[test]
fn every_pattern_has_its_figures_in_the_flat_table() {
    let place = folder();
    let experiment = r#"
        rounds = 2
        payloads = "64,1k"
        floor = false
        [[sub_experiment]]
        name = "trips"
        transport = "inmem"
        samples = 200
        [[sub_experiment]]
        name = "flow"
        transport = "inmem"
        pattern = "publish"
        rate = "2000"
        samples = 50
        [[sub_experiment]]
        name = "calls"
        transport = "inmem"
        pattern = "call"
        samples = 50
        [[sub_experiment]]
        name = "load"
        transport = "inmem"
        pattern = "throughput"
        samples = 1000
    "#;
    std::fs::write(place.path().join("all.toml"), experiment).unwrap();
    Tripmeter::new(["run", "all.toml", "-o", "r"]).at(place.path()).run().with(0).clean();
    let values = check(&place.path().join("r"));
    for (name, load, figure, statistic) in [
        ("trips", "closed", "rtt_half_ns", "p50"),
        ("trips", "closed", "rtt_half_ns", "p99"),
        ("trips", "closed", "lost", "value"),
        ("flow", "2000hz", "sent", "value"),
        ("flow", "2000hz", "service_ns", "p999"),
        ("calls", "closed", "completed_rate_hz", "value"),
        ("load", "max", "received", "value"),
    ] {
        for (round, payload) in [("1", "64"), ("1", "1024"), ("2", "64"), ("2", "1024")] {
            let address = [name, round, payload, load, "all", figure, statistic].map(str::to_owned);
            assert!(values.contains_key(&address[..]), "{address:?}");
        }
    }
}

/// Includes folders of later minor versions, with unknown fields.
#[test]
fn results_of_this_major_version_and_the_one_before_are_read() {
    let before = [
        "uds_stream_poll,64,closed,all,rtt_half_ns,p50,1,2644,",
        "uds_stream_poll,1024,closed,all,rtt_half_ns,p50,1,2408.5,",
        "uds_stream_poll,1024,closed,all,sent,value,1,55,",
    ];
    let this = [
        "uds_stream_poll,64,closed,all,rtt_half_ns,p50,1,2077.25,",
        "uds_stream_block_publish,1024,1000hz,all,response_ns,p50,1,839732,",
        "uds_stream_block_call_background-cpu-1,64,closed,all,service_rtt_ns,p50,1,47037.5,",
    ];
    for (version, rows) in [("2.0", before), ("3.0", this)] {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/results-{version}"));
        let place = folder();
        for file in ["manifest.json", "trials.jsonl"] {
            let text = std::fs::read_to_string(golden.join(file)).unwrap();
            let written = |version: &str| format!("\"schema_version\": \"{version}\"");
            let later = format!("\"of_tomorrow\": [1], {}", written(&version.replace(".0", ".9")));
            let text = text.replace(&written(version), &later);
            std::fs::write(place.path().join(file), text.replace("{\"kind\"", "{\"new\":{},\"kind\"")).unwrap();
        }
        for results in [golden.as_path(), place.path()] {
            let results = results.display().to_string();
            let words = ["export", &results, "--format", "csv"];
            let printed = Tripmeter::new(words).run().with(0).stdout;
            for row in rows {
                assert!(printed.lines().any(|line| line.starts_with(row)), "{row}\n{printed}");
            }
        }
        check(&golden);
        assert_eq!(sample_payloads(&golden, "uds_stream_poll"), [[64; 50], [1024; 50]].concat());
        let environment = manifest(&golden).environment;
        assert!(environment.audit_before.is_some() && environment.audit_after.is_some());
    }
}

/// Patterns and the background load had other words, and default names have them.
#[test]
fn what_was_measured_under_schema_2_is_compared_by_the_names_of_today() {
    let place = folder();
    for (name, names) in [
        ("call", &["uds_datagram_block_call_clients-3", "inmem_queue_block_call"][..]),
        ("publish", &["uds_datagram_block_publish"]),
        ("two-hosts", &["tcp_block_publish", "udp_block_publish"]),
    ] {
        let old = crate::common::repository().join("tests/redesign/corpus").join(name).display().to_string();
        let file = |ending: &str| place.path().join(format!("{name}.{ending}")).display().to_string();
        let [limits, older] = [file("csv"), file("old.csv")];
        Tripmeter::new(["limits", &old, "-q", "-o", &limits]).run();
        let text = std::fs::read_to_string(&limits).unwrap();
        assert!(names.iter().all(|name| text.contains(&format!("\n{name},"))), "{text}");
        assert!(!["_rpc", "_channel", "_loopback"].iter().any(|word| text.contains(word)), "{text}");
        // As the same command wrote it before.
        let before = text.replace("_call", "_rpc").replace("_publish", "_channel");
        let before = if name == "two-hosts" { before.replace("p_block", "p_loopback_block") } else { before };
        std::fs::write(&older, before).unwrap();
        for limits in [limits, older] {
            let done = Tripmeter::new(["check", &old, "--limits", &limits, "--strict"]).run();
            assert!(!done.stdout.contains("not measured") && !done.stdout.contains("without limits"), "{done:?}");
        }
    }
}

/// Copies the results of this version into a folder as schema 2 had them: words of patterns, default names, and files.
fn as_schema_2(into: &Path) {
    let older = |text: &str| {
        let text = text.replace("_publish", "_channel").replace("_call_background-cpu-1", "_rpc_load-cpu-1");
        let text = text.replace("\"pattern\": \"publish\"", "\"pattern\": \"channel\"");
        let text = text.replace("\"pattern\": \"call\"", "\"pattern\": \"rpc\"");
        let text = text.replace("\"pattern\": \"ping\"", "\"pattern\": \"pingpong\"");
        text.replace("\"background\":", "\"load\":")
            .replace("\"schema_version\": \"3.0\"", "\"schema_version\": \"2.1\"")
    };
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/results-3.0");
    for within in ["", "samples", "histograms"] {
        std::fs::create_dir_all(into.join(within)).unwrap();
        for entry in std::fs::read_dir(golden.join(within)).unwrap().map(Result::unwrap) {
            if entry.path().is_file() {
                let text = std::fs::read_to_string(entry.path()).unwrap();
                let name = older(entry.file_name().to_str().unwrap());
                std::fs::write(into.join(within).join(name), older(&text)).unwrap();
            }
        }
    }
}

#[test]
fn results_of_schema_2_stand_beside_those_of_today_and_their_files_are_found() {
    let place = folder();
    let old = place.path().join("old");
    as_schema_2(&old);
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/results-3.0");
    let old = old.display().to_string();
    let compared = Tripmeter::new(["compare", &old, golden, "--all"]).run().with(0).stdout;
    assert!(!compared.contains("missing in") && !compared.contains("only in"), "{compared}");
    assert!(compared.contains("uds_stream_block_call_background-cpu-1") && !compared.contains("_rpc"), "{compared}");
    let [alone, page] = ["alone.html", "page.html"].map(|name| place.path().join(name));
    // Its chart over time needs the samples of each.
    Tripmeter::new(["report", &old, "-o", alone.to_str().unwrap()]).run().with(0);
    let done = Tripmeter::new(["report", &old, golden, "-o", page.to_str().unwrap()]).run().with(0);
    assert!(!done.stderr.contains("no samples"), "{done:?}");
    assert!(!std::fs::read_to_string(page).unwrap().contains("uds_stream_block_rpc"));
}

#[test]
fn several_tables_are_one_json_array_and_no_csv_but_the_figures() {
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/results-2.0");
    let print = |words: &[&str]| Tripmeter::new([&["export", golden][..], words].concat()).run();
    let array = print(&[golden, "--tables", "all,figures", "--format", "json"]).with(0).stdout;
    let array: Vec<serde_json::Value> = serde_json::from_str(&array).expect("one value");
    let tables: Vec<_> = array.iter().map(|one| (one["folder"].as_str(), one["table"].as_str())).collect();
    let both = [(Some(golden), Some("all")), (Some(golden), Some("figures"))];
    assert_eq!(tables, [both, both].concat());
    assert!(array.iter().all(|one| one["blocks"][0]["table"]["rows"].is_array()), "{array:?}");
    let only = print(&["--tables", "all", "--format", "json"]).with(0).stdout;
    assert!(serde_json::from_str::<serde_json::Value>(&only).is_ok_and(|only| only["blocks"].is_array()), "{only}");
    for words in [&[golden, "--tables", "all"][..], &["--tables", "all,figures"], &[golden, "--tables", "all,figures"]]
    {
        let refused = print(&[words, &["--format", "csv"]].concat()).with(64);
        assert!(refused.stdout.is_empty(), "{words:?}");
        refused.says(&["name one table and one folder, or use --format json"]);
    }
    let figures = print(&[golden, "--tables", "figures", "--format", "csv"]).with(0).stdout;
    let mut reader = csv::Reader::from_reader(figures.as_bytes());
    let rows: Vec<csv::StringRecord> = reader.records().collect::<Result<_, _>>().expect("one table");
    assert_eq!(reader.headers().unwrap().get(0), Some("folder"));
    assert!(rows.len() > 2 && rows.len().is_multiple_of(2) && rows.iter().all(|row| &row[0] == golden), "{figures}");
    let markdown = print(&[golden, "--tables", "all", "--format", "markdown"]).with(0).stdout;
    assert_eq!(markdown.lines().filter(|line| *line == format!("# {golden}")).count(), 2, "{markdown}");
}

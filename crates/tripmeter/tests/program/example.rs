//! Example for authors of transports: built out of tree against the headers alone, measured by the unchanged program.

use crate::common::{Tripmeter, alone, folder, manifest, repository};
use std::path::Path;
use std::process::Command;
use tripmeter_model::exit;
use tripmeter_model::manifest::{RunStatus, Verdict};

/// Builds the example, with its text changed, next to the headers alone; returns the plugin.
fn built_by_itself(folder: &Path, change: impl Fn(&str) -> String) -> String {
    let (sources, header) = (folder.join("sources"), folder.join("include"));
    for (from, to) in [("examples/c-transport", &sources), ("crates/abi/include", &header)] {
        std::fs::create_dir(to).unwrap();
        for name in ["Makefile", "example.c", "tripmeter_transport.h", "tripmeter_plugin.h"] {
            let file = repository().join(from).join(name);
            if file.exists() {
                std::fs::write(to.join(name), change(&std::fs::read_to_string(file).unwrap())).unwrap();
            }
        }
    }
    let made = Command::new("make").arg("-C").arg(&sources).arg(format!("HEADER_DIR={}", header.display())).output();
    let made = made.expect("make is installed");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    sources.join("build/tripmeter_example.so").display().to_string()
}

#[test]
fn a_transport_built_by_itself_is_measured_and_its_path_proven() {
    let _alone = alone();
    let folder = folder();
    let plugin = built_by_itself(folder.path(), str::to_owned);
    let results = folder.path().join("results");
    let words = ["ping", "-q", "--plugin", &plugin, "example/*", "-n", "200", "--payloads", "16,1k,65537"];
    let output = results.display().to_string();
    let finished = Tripmeter::new(words.iter().chain(&["--touch", "full", "--loss-timeout", "15", "-o", &output]))
        .run()
        .with(exit::GOOD);
    let manifest = manifest(&results);
    let results: Vec<_> =
        manifest.sub_experiments.iter().filter(|result| result.name.starts_with("example_")).collect();
    assert!(!results.is_empty());
    for result in results {
        assert_eq!((result.status, result.cells.len()), (RunStatus::Complete, 3), "{:?}", result.error);
        assert!(
            result.cells.iter().all(|cell| cell.samples == 200 && cell.counts().damaged == 0),
            "{:?}",
            result.cells
        );
        let proof = result.path_proof.as_ref().unwrap();
        assert_eq!(proof.verdict, Verdict::Proven, "{}", proof.evidence);
    }
    finished.clean();
}

#[test]
fn a_plugin_is_checked_without_our_build() {
    let _alone = alone();
    let folder = folder();
    let plugin = built_by_itself(folder.path(), str::to_owned);
    let finished = Tripmeter::new(["plugin-check", "--json", &plugin]).run().with(exit::GOOD);
    let found: serde_json::Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!([&found["plugin_check_version"], &found["system"], &found["version"]], ["1.0", "example", "1.0.0"]);
    let parts = found["parts"].as_array().unwrap();
    let is_good = |part: &serde_json::Value| part["is_good"] == true && part["faults"].as_array().unwrap().is_empty();
    assert!(parts.len() == 4 && parts.iter().all(is_good), "{found}");
    finished.says(&["conformance: example: 1", " sub-experiments, "]).clean();
}

#[test]
fn a_plugin_that_lies_is_found_out_when_it_is_checked() {
    let _alone = alone();
    let folder = folder();
    let lie = |text: &str| text.replace("read there\", TM_PATH_SHARED_MEMORY", "read there\", TM_PATH_UNIX_STREAM");
    let plugin = built_by_itself(folder.path(), lie);
    let finished = Tripmeter::new(["plugin-check", "-q", &plugin]).run().with(exit::FINDING);
    let first = "example 1.0.0\neverything that it declares: FAILED\n";
    assert!(finished.stdout.starts_with(first), "{}", finished.stdout);
    let parts = ["path proof", "Failed", "was claimed"];
    assert!(finished.stdout.lines().any(|line| parts.iter().all(|part| line.contains(part))), "{}", finished.stdout);
    assert!(finished.stderr.is_empty(), "{}", finished.stderr);
    finished.clean();
    let text = crate::common::plugin("text").display().to_string();
    let parts = [text.as_str(), "is not a shared library for this machine"];
    Tripmeter::new(["plugin-check", &text]).run().with(exit::DATA).one_line(&parts).clean();
    let place = crate::common::folder();
    let [empty, other, gone, needs] =
        ["empty.so", "other.so", "libgone.so", "needs.so"].map(|name| place.path().join(name).display().to_string());
    // Of the other ELF class: 32 bit here.
    let mut header = std::fs::read(&plugin).unwrap();
    header[4] = 3 - header[4];
    std::fs::write(&empty, "").unwrap();
    std::fs::write(&other, header).unwrap();
    for file in [&empty, &other] {
        let parts = [file.as_str(), "is not a shared library for this machine"];
        Tripmeter::new(["plugin-check", file]).run().with(exit::DATA).one_line(&parts).clean();
    }
    let linked = |output: &str, inputs: &[&str]| {
        let cc = Command::new("cc").args(["-shared", "-o", output, "-Wl,--no-as-needed"]).args(inputs).status();
        assert!(cc.unwrap().success());
    };
    linked(&gone, &["-Wl,-soname,libgone.so"]);
    linked(&needs, &[&gone]);
    std::fs::remove_file(&gone).unwrap();
    let parts = [needs.as_str(), "library 'libgone.so'", "; install it, or"];
    let finished = Tripmeter::new(["plugin-check", &needs]).run().with(exit::UNAVAILABLE).one_line(&parts);
    assert!(!finished.stderr.contains("tripmeter install"), "{}", finished.stderr);
    finished.clean();
    let fifo = place.path().join("fifo").display().to_string();
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let parts = [fifo.as_str(), "is not a regular file"];
    Tripmeter::new(["plugin-check", &fifo]).run().with(exit::DATA).one_line(&parts).clean();
    Tripmeter::new(["plugin-check", "nowhere.so"]).run().with(exit::NO_INPUT).one_line(&["nowhere.so"]).clean();
}

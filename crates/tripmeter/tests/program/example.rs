//! The example for writers of transports: built out of tree against the headers alone, measured by the unchanged program.

use crate::common::{Tripmeter, alone, folder, manifest, repository};
use std::process::Command;
use tripmeter_model::exit;
use tripmeter_model::manifest::{RunStatus, Verdict};

#[test]
fn a_transport_built_by_itself_is_measured_and_its_path_proven() {
    let _alone = alone();
    let folder = folder();
    let (sources, header) = (folder.path().join("sources"), folder.path().join("include"));
    for (from, to) in [("examples/c-transport", &sources), ("crates/abi/include", &header)] {
        std::fs::create_dir(to).unwrap();
        for name in ["Makefile", "example.c", "tripmeter_transport.h", "tripmeter_plugin.h"] {
            let file = repository().join(from).join(name);
            if file.exists() {
                std::fs::copy(file, to.join(name)).unwrap();
            }
        }
    }
    let made = Command::new("make").arg("-C").arg(&sources).arg(format!("HEADER_DIR={}", header.display())).output();
    let made = made.expect("make is installed");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let plugin = sources.join("build/tripmeter_example.so").display().to_string();
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

//! Runs every kept input of every target once: the corpus, and inputs that once revealed a fault.
#![allow(clippy::unwrap_used)]

#[path = "../../../fuzz/src/memory.rs"]
mod memory;

use flate2::read::GzDecoder;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use tripmeter_fuzz_targets::{FuzzTarget, TARGETS};

fn kept(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz").join(folder)
}

/// Names the input if its target panics.
struct Running<'a>(&'a str, &'a str);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("target '{}', input '{}'", self.0, self.1);
        }
    }
}

fn run(target: FuzzTarget, name: &str, bytes: &[u8]) {
    let _running = Running(target.name, name);
    (target.run)(bytes);
}

#[test]
fn every_input_of_the_corpus_is_read_without_a_fault() {
    for target in TARGETS {
        let file = kept("corpus").join(format!("{}.tar.gz", target.name));
        let mut count = 0;
        let mut archive = tar::Archive::new(GzDecoder::new(File::open(&file).unwrap()));
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let (name, mut bytes) = (entry.path().unwrap().display().to_string(), Vec::new());
            entry.read_to_end(&mut bytes).unwrap();
            run(target, &name, &bytes);
            count += 1;
        }
        assert!(count > 0, "'{}' has no corpus", target.name);
    }
}

#[test]
fn what_once_was_a_fault_is_none_any_more() {
    let mut count = 0;
    for folder in fs::read_dir(kept("regressions")).unwrap() {
        let folder = folder.unwrap();
        let name = folder.file_name().into_string().unwrap();
        let target = tripmeter_fuzz_targets::target(&name).unwrap();
        for file in fs::read_dir(folder.path()).unwrap() {
            let file = file.unwrap().path();
            run(target, &file.display().to_string(), &fs::read(&file).unwrap());
            count += 1;
        }
    }
    assert!(count > 0);
}

#[test]
fn targets_have_names_and_sources_of_their_own() {
    for (index, target) in TARGETS.iter().enumerate() {
        assert!(TARGETS[..index].iter().all(|other| other.name < target.name), "'{}' is out of order", target.name);
        assert!(kept("..").join(target.source).is_file(), "{}", target.source);
    }
}

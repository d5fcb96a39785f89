//! Bad input and trouble, tried on the running program: each has one clear line and the exit code of its class, leaves
//! nothing behind, and loses nothing that was measured.

mod by_hand;
mod daemon;
mod input;
mod interrupted;
mod killed;
mod loggers;
mod planned;
mod plugins;
mod resources;
mod resumed;
mod standing;

use crate::common::{Known, Tripmeter, is_nightly, manifest_so_far};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use tripmeter_abi::{Path as Claim, Pattern};

/// So many small payloads that a run can be disturbed in the middle of them by a test that stands still for seconds: each
/// takes tens of milliseconds, most of them for the manifest.
const MANY_PAYLOADS: u64 = 300;
/// Samples of each.
const SAMPLES: usize = 400;

/// An experiment of one long sub-experiment `long`, and a short one, `after`, that must not suffer from it.
fn long_and_after(folder: &Path, transport: &str, wait: &str) -> PathBuf {
    many_and_after(folder, transport, wait, MANY_PAYLOADS)
}

/// The same with so many payloads.
fn many_and_after(folder: &Path, transport: &str, wait: &str, payloads: u64) -> PathBuf {
    let payloads = (1000..1000 + payloads).map(|bytes| bytes.to_string()).collect::<Vec<_>>().join(",");
    let mut text = "floor = false\nwarmup = 10\n".to_owned();
    for (name, transport, wait, samples, payloads) in
        [("long", transport, wait, SAMPLES, payloads.as_str()), ("after", "uds/stream", "block", 100, "4096")]
    {
        writeln!(text, "[[sub_experiment]]\nname = \"{name}\"\ntransport = \"{transport}\"\nwait = \"{wait}\"")
            .unwrap();
        writeln!(text, "samples = {samples}\npayloads = \"{payloads}\"").unwrap();
    }
    let file = folder.join("long_and_after.toml");
    std::fs::write(&file, text).unwrap();
    file
}

/// `tripmeter run FILE -q --attempts 1 -o RESULTS`: of a payload that was to be measured again, rows of the earlier
/// attempt are in another file.
fn run_file(file: &Path, results: &Path) -> Tripmeter {
    let flags = ["-q", "--attempts", "1", "-o"].map(AsRef::as_ref);
    Tripmeter::new([["run".as_ref(), file.as_os_str()].as_slice(), &flags, &[results.as_os_str()]].concat())
}

/// Cells of the running sub-experiment that are in the manifest on disk.
fn cells_on_disk(results: &Path) -> usize {
    manifest_so_far(results)
        .and_then(|manifest| manifest.sub_experiments.last().map(|result| result.cells.len()))
        .unwrap_or(0)
}

/// The daemon that a system needs, if any.
fn daemon_of(known: &Known) -> Option<String> {
    known.description.as_ref()?.daemon.clone()
}

/// Variants that carry messages between two processes here, with a wait that each can do: one after the other of its
/// waits. One variant of each mechanism, and of each system with shared memory; every variant nightly.
fn variants(known: &[Known]) -> Vec<(String, &'static str)> {
    let (mut found, mut mechanisms) = (Vec::new(), BTreeSet::new());
    for row in known {
        let Some(description) = &row.description else { continue };
        for here in row.variants.iter().filter(|here| here.available) {
            let declared = description.variant(&here.variant).unwrap();
            if declared.same_process || !declared.patterns.contains(&Pattern::PingPong) {
                continue;
            }
            let has_daemon = description.daemon.is_some();
            // Each system has shared memory of its own kind, and its own way to find out about the dead.
            let system = (declared.path == Claim::SharedMemory).then_some(&row.system);
            let mechanism = (declared.path.as_str(), system, has_daemon, declared.broker, declared.own_threads);
            if mechanisms.insert(mechanism) || is_nightly() {
                let wait = declared.waits[found.len() % declared.waits.len()];
                found.push((format!("{}/{}", row.system, here.variant), wait.as_str()));
            }
        }
    }
    found
}

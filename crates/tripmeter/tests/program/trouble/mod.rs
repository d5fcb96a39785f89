//! Invalid input and failures of the running program. Each gives one clear line and the exit code of its class, leaves
//! nothing behind, and loses no results.

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

/// Number of small payloads that gives a test time to disturb the run in the middle, even if it stalls for seconds.
/// Each payload takes tens of milliseconds, mostly for the manifest.
const MANY_PAYLOADS: u64 = 300;
const SAMPLES: usize = 400;

/// Writes an experiment with a sub-experiment `long`, and a short one, `after`, that must not be affected.
fn long_and_after(folder: &Path, transport: &str, wait: &str) -> PathBuf {
    many_and_after(folder, transport, wait, MANY_PAYLOADS)
}

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

/// Command that runs a file with one attempt, because rows of earlier attempts would be in another file.
fn run_file(file: &Path, results: &Path) -> Tripmeter {
    let flags = ["-q", "--attempts", "1", "-o"].map(AsRef::as_ref);
    Tripmeter::new([["run".as_ref(), file.as_os_str()].as_slice(), &flags, &[results.as_os_str()]].concat())
}

fn cells_on_disk(results: &Path) -> usize {
    manifest_so_far(results)
        .and_then(|manifest| manifest.sub_experiments.last().map(|result| result.cells.len()))
        .unwrap_or(0)
}

fn daemon_of(known: &Known) -> Option<String> {
    known.description.as_ref()?.daemon.clone()
}

/// Variants between two processes here, with one of their waits in turn. One variant per mechanism, and per system with
/// shared memory; nightly all.
fn variants(known: &[Known]) -> Vec<(String, &'static str)> {
    let (mut found, mut mechanisms) = (Vec::new(), BTreeSet::new());
    for row in known {
        let Some(description) = &row.description else { continue };
        for here in row.variants.iter().filter(|here| here.available) {
            let declared = description.variant(&here.variant).unwrap();
            if declared.same_process || !declared.patterns.contains(&Pattern::Ping) {
                continue;
            }
            let has_daemon = description.daemon.is_some();
            // Each system has its own kind of shared memory, and its own detection of dead peers.
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

//! Path proof on wrapped plugins of real middleware that do something else than they declare.
//!
//! Systems that are not installed are skipped with a message; with `TRIPMETER_REQUIRE_ALL=1` that is a failure.

use crate::common::{Tripmeter, alone, folder, is_nightly, is_required, manifest, repository, say};
use std::path::{Path, PathBuf};
use tripmeter_model::exit;
use tripmeter_model::manifest::{RunStatus, Verdict};

/// Plugin that tells a lie about a system; `None` if not available. Its folder is `TRIPMETER_LIES`, by default
/// `target/lies`, with `tripmeter_SYSTEM.so` for lie 1 and `tripmeter_SYSTEM-N.so` for lie N.
fn lying(system: &str, lie: u32) -> Option<PathBuf> {
    let folder = std::env::var_os("TRIPMETER_LIES").map_or_else(|| repository().join("target/lies"), PathBuf::from);
    let number = if lie == 1 { String::new() } else { format!("-{lie}") };
    let plugin = folder.join(format!("tripmeter_{system}{number}.so"));
    if plugin.exists() {
        return Some(plugin);
    }
    skipped(system, &format!("'{}' is not built", plugin.display()));
    None
}

fn skipped(system: &str, reason: &str) {
    say(&format!("SKIPPED: lies of {system}: {reason}"));
    assert!(!is_required(), "{system} is missing");
}

/// Checks that every transport of a lying system is found out, with these words.
#[track_caller]
fn is_found_out(system: &str, lie: u32, transports: &[&str], words: &str) {
    is_found_out_by(system, lie, transports, "block", words);
}

/// Same check with another wait. A library that the plugin looks for at run time may be missing.
#[track_caller]
fn is_found_out_by(system: &str, lie: u32, transports: &[&str], wait: &str, words: &str) {
    let Some(plugin) = lying(system, lie) else { return };
    run_finds_out(system, &plugin, transports, wait, words);
}

#[track_caller]
fn run_finds_out(system: &str, plugin: &Path, transports: &[&str], wait: &str, words: &str) {
    let _alone = alone();
    let (folder, plugin, list) = (folder(), plugin.display().to_string(), transports.join(","));
    let results = folder.path().display().to_string();
    let flags = ["ping", "-q", "--wide", "--plugin", &plugin, &list, "--wait", wait, "-n", "50", "--payloads", "48k"];
    let finished =
        Tripmeter::new(flags.iter().chain(&["--no-floor", "--attempts", "1", "--loss-timeout", "15", "-o", &results]))
            .run();
    if finished.code == Some(exit::UNAVAILABLE.into()) {
        return skipped(system, finished.stderr.trim());
    }
    let finished = finished.with(exit::PARTIAL);
    let manifest = manifest(folder.path());
    assert_eq!(manifest.sub_experiments.len(), transports.len());
    for result in &manifest.sub_experiments {
        assert_eq!(result.status, RunStatus::Complete, "{}: {:?}", result.name, result.error);
        let proof = result.path_proof.clone().unwrap();
        assert_eq!(proof.verdict, Verdict::Failed, "{}: {}", result.name, proof.evidence);
        assert!(proof.evidence.contains(words), "{}: {}", result.name, proof.evidence);
    }
    finished.clean();
}

#[test]
fn zeromq_over_the_other_kind_of_socket() {
    is_found_out("zeromq", 1, &["zeromq/ipc", "zeromq/tcp", "zeromq/ipc-reqrep", "zeromq/tcp-reqrep"], "was claimed");
}

#[test]
fn cyclonedds_without_its_shared_memory_and_over_the_other_kind_of_socket() {
    is_found_out("cyclonedds", 1, &["cyclonedds/udp", "cyclonedds/tcp", "cyclonedds/iceoryx"], "was claimed");
}

#[test]
fn cyclonedds_that_is_secured_in_name_only() {
    let transports = ["cyclonedds/udp?security=on", "cyclonedds/tcp?security=on"];
    is_found_out("cyclonedds", 2, &transports, "a peer without security");
}

#[test]
fn ecal_over_another_layer_and_with_zero_copy_silently_off() {
    is_found_out_by("ecal", 1, &["ecal/shm", "ecal/udp", "ecal/tcp"], "callback", "was claimed");
    is_found_out_by("ecal", 1, &["ecal/shm-zero-copy"], "callback", "0 of 64 messages are at the same place");
}

#[test]
fn ros2_over_the_other_transport_of_fast_dds() {
    is_found_out("ros2", 1, &["ros2/shm", "ros2/udp", "ros2/service", "ros2/service-udp"], "was claimed");
}

#[test]
fn zenoh_over_another_link_and_through_shared_memory_unasked() {
    let Some(plugin) = lying("zenoh", 1) else { return };
    let transports = ["zenoh/tcp", "zenoh/udp", "zenoh/unix", "zenoh/shm"];
    run_finds_out("zenoh", &plugin, &transports, "block", "was claimed");
}

#[test]
fn http_and_grpc_whose_tls_is_one_in_name_only() {
    for (system, transports) in
        [("http", ["http/http1?tls=on", "http/http2?tls=on"]), ("grpc", ["grpc/unary?tls=on", "grpc/stream?tls=on"])]
    {
        let Some(plugin) = lying(system, 1) else { continue };
        let waits = if is_nightly() { &["block", "callback"][..] } else { &["callback"] };
        for wait in waits {
            run_finds_out(system, &plugin, &transports, wait, "a peer without security");
        }
    }
}

#[test]
fn mqtt_that_is_secured_in_name_only() {
    let Some(plugin) = lying("mqtt", 1) else { return };
    run_finds_out("mqtt", &plugin, &["mqtt/mosquitto?tls=on"], "block", "a peer without security");
}

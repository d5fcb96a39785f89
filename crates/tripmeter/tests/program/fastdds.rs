//! Fast DDS: peers refused by its security, its profiles, and remains after a kill. Skipped with a message if its
//! plugin is missing.

use crate::common::traces::signal;
use crate::common::{Tripmeter, alone, built, folder, is_nightly, manifest, transports};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tripmeter_abi::{
    Link, LinkOptions, Node, NodeOptions, Pattern, Plugin, Role, Status, System, UnauthorizedPeer, Wait,
};
use tripmeter_model::exit;
use tripmeter_model::manifest::{Counts, Verdict};

/// Time by which an authorized peer is connected, even on a busy machine.
const LONG: Duration = Duration::from_secs(60);

fn plugin() -> Option<PathBuf> {
    built("fastdds")
}

fn options(plugin: &Plugin, scratch: &Path, role: Role, settings: &[(&str, &str)]) -> NodeOptions {
    let defaults = plugin.description().settings.into_iter();
    let mut all: BTreeMap<String, String> = defaults.map(|setting| (setting.name, setting.default)).collect();
    all.extend(settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    NodeOptions {
        role,
        pattern: Pattern::Ping,
        wait: Wait::Block,
        variant: "udp".to_owned(),
        settings: all,
        run_id: format!("tripmeter-test-{}", std::process::id()),
        scratch_dir: scratch.to_path_buf(),
        max_payload_bytes: 1024,
        link_count: 1,
        follower_count: 1,
        follower_index: 0,
        unauthorized_peer: None,
        publisher_count: 1,
        local_address: None,
    }
}

fn join(plugin: &Plugin, options: &NodeOptions, time: Duration, done: impl FnOnce()) -> tripmeter_abi::Result<()> {
    let mut node = plugin.open(options)?;
    let mut link = node.link(&LinkOptions { index: 0, callback: None })?;
    link.connect(&[Vec::new()], time.as_nanos() as u64)?;
    done();
    Ok(())
}

/// Result of an unauthorized peer that joins a true pair with this security.
fn attempt_access(
    plugin: &Plugin,
    security: &str,
    kind: UnauthorizedPeer,
    time: Duration,
) -> tripmeter_abi::Result<()> {
    let scratch = folder();
    let of = |role| options(plugin, scratch.path(), role, &[("security", security)]);
    let connected = std::sync::Barrier::new(3);
    let tried = std::sync::Barrier::new(3);
    let stay = || {
        connected.wait();
        tried.wait();
    };
    std::thread::scope(|scope| {
        for role in [Role::Leader, Role::Follower] {
            let options = of(role);
            scope.spawn(move || join(plugin, &options, LONG, stay).expect("the true pair connects"));
        }
        connected.wait();
        // A true pair forgets its keys once it is connected.
        let names = std::fs::read_dir(scratch.path().join(tripmeter_abi::AGREED_FOLDER)).unwrap().flatten();
        let keys: Vec<_> =
            names.map(|entry| entry.file_name()).filter(|name| name.to_string_lossy().contains("key")).collect();
        let unauthorized_peer = NodeOptions { unauthorized_peer: Some(kind), ..of(Role::Follower) };
        let result = join(plugin, &unauthorized_peer, time, || {});
        tried.wait();
        assert!(keys.is_empty(), "{keys:?}");
        result
    })
}

#[test]
fn an_unauthorized_peer_is_refused_because_of_security_and_let_in_without() {
    let _alone = alone();
    let Some(file) = plugin() else { return };
    let plugin = Plugin::load(&file).unwrap();
    attempt_access(&plugin, "off", UnauthorizedPeer::Plain, LONG).expect("without security, everybody is let in");
    for kind in [UnauthorizedPeer::Plain, UnauthorizedPeer::Foreign] {
        let refused = attempt_access(&plugin, "on", kind, Duration::from_secs(4)).expect_err("it is refused");
        assert_eq!(refused.status, Status::Failed, "{kind:?}: {refused}");
    }
}

#[test]
fn a_secured_run_proves_that_unauthorized_peers_are_refused() {
    let _alone = alone();
    if plugin().is_none() {
        return;
    }
    let ways = if is_nightly() { &["udp", "tcp", "shm"][..] } else { &["shm"] };
    for way in ways {
        let folder = folder();
        let (transport, output) = (format!("fastdds/{way}?security=on"), folder.path().display().to_string());
        let words = ["ping", "-q", "--no-floor", &transport, "--wait", "block", "-n", "100", "-o", &output];
        let rest = ["--payloads", "16,16k", "--attempts", "1", "--loss-timeout", "15"];
        Tripmeter::new(words.iter().chain(&rest)).run().with(exit::GOOD).clean();
        let proof = manifest(folder.path()).sub_experiments[0].path_proof.clone().unwrap();
        // Not visible if others use the loopback at the same time.
        assert_ne!(proof.verdict, Verdict::Failed, "{proof:?}");
        let refused: Vec<_> = proof.unauthorized_peers.iter().map(|trial| trial.refused).collect();
        assert_eq!(refused, [Some(true); 2], "{proof:?}");
    }
}

/// Profile in Fast DDS's own format, with `participant` inside the participants and `qos` inside the QoS of both ends.
fn profile(participant: &str, qos: &str) -> String {
    let mut profiles = String::new();
    for role in ["pub", "sub"] {
        profiles += &format!(
            "<participant profile_name=\"{role}_participant_profile\"><rtps>{participant}</rtps></participant>"
        );
        for end in ["publisher", "subscriber"] {
            profiles += &format!("<{end} profile_name=\"{role}_{end}_profile\"><qos>{qos}</qos></{end}>");
        }
    }
    format!("<dds xmlns=\"http://www.eprosima.com/XMLSchemas/fastRTPS_Profiles\"><profiles>{profiles}</profiles></dds>")
}

#[test]
fn a_profile_is_used_and_one_that_says_something_else_than_the_variant_is_found_out() {
    let _alone = alone();
    if plugin().is_none() {
        return;
    }
    let best_effort = "<reliability><kind>BEST_EFFORT</kind></reliability>";
    let shared = "<data_sharing><kind>ON</kind></data_sharing>";
    for (variant, qos, code) in
        [("udp", best_effort, exit::GOOD), ("intra", best_effort, exit::GOOD), ("udp", shared, exit::PARTIAL)]
    {
        let folder = folder();
        let (file, results) = (folder.path().join("profile.xml"), folder.path().join("results"));
        std::fs::write(&file, profile("<name>from the profile</name>", qos)).unwrap();
        let (file, output) = (file.display().to_string(), results.display().to_string());
        let transport = format!("fastdds/{variant}");
        let words = ["ping", "-q", "--no-floor", &transport, "--wait", "block", "-n", "100", "-o", &output];
        let rest = ["--payloads", "64k", "--profile", &file, "--attempts", "1", "--loss-timeout", "5"];
        let finished = Tripmeter::new(words.iter().chain(&rest)).run();
        finished.with(code).clean();
        let manifest = manifest(&results);
        let proof = manifest.sub_experiments[0].path_proof.clone().unwrap();
        assert_eq!(proof.verdict == Verdict::Failed, code == exit::PARTIAL, "{proof:?}");
        assert_eq!(manifest.plan.sub_experiments[0].transport.settings["profile"], file);
    }
}

#[test]
fn a_profile_that_is_none_is_refused_in_one_line() {
    let folder = folder();
    let write = |name: &str, text: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        file.display().to_string()
    };
    let refused = |transport: &str, file: &str, code: u8, parts: &[&str]| {
        let words = ["ping", transport, "-n", "10", "--payloads", "16", "--profile", file];
        Tripmeter::new(words).run().with(code).one_line(parts).clean();
    };
    let missing = folder.path().join("missing.xml").display().to_string();
    refused("uds", &missing, exit::NO_INPUT, &["missing.xml", "cannot be read"]);
    refused("uds", &folder.path().display().to_string(), exit::NO_INPUT, &["not a file"]);
    let torn = write("torn.xml", "<dds>\n<profiles><participant");
    refused("uds", &torn, exit::USAGE, &["setting 'profile'"]);
    if plugin().is_some() {
        refused("fastdds/udp", &torn, exit::USAGE, &["torn.xml", "line 2"]);
        let other = write("other.xml", "<experiment/>");
        refused("fastdds/udp", &other, exit::USAGE, &["other.xml", "was refused by Fast DDS"]);
        let later = write("later.xml", &profile("<builtin><domainId>3</domainId></builtin>", ""));
        refused(
            "fastdds/udp",
            &later,
            exit::USAGE,
            &["later.xml", "refused by Fast DDS: ", "<domainId> under <builtin>"],
        );
        let strange = write("strange.xml", &profile("", "").replace("_profile\"", "_x\""));
        refused("fastdds/udp", &strange, exit::USAGE, &["strange.xml", "has none of pub_participant_profile"]);
    }
}

fn shared_memory() -> BTreeSet<String> {
    let names = std::fs::read_dir("/dev/shm").unwrap().flatten().map(|entry| entry.file_name());
    names.map(|name| name.to_string_lossy().into_owned()).filter(|name| name.contains("fastrtps")).collect()
}

#[test]
fn nothing_is_left_of_killed_processes() {
    let _alone = alone();
    if plugin().is_none() {
        return;
    }
    for supervisor_too in [false, true] {
        let before = shared_memory();
        let folder = folder();
        let output = folder.path().join("results").display().to_string();
        let words = ["ping", "-q", "--no-floor", "fastdds/shm", "--wait", "block", "-n", "100000000", "-o", &output];
        let mut run = Tripmeter::new(words.iter().chain(&["--payloads", "16", "--raw", "none"])).start();
        run.until("their shared memory", |_| shared_memory().difference(&before).count() > 4);
        let [leader, follower] = run.measuring();
        if supervisor_too {
            run.signal("KILL");
        } else {
            signal(leader, "KILL");
            signal(follower, "KILL");
        }
        let finished = run.wait(crate::common::LONGEST);
        if supervisor_too {
            // The workers die with it; the next run removes what they left.
            let other = folder.path().join("other").display().to_string();
            let words = ["ping", "-q", "--no-floor", "uds", "-n", "10", "--payloads", "16", "-o", &other];
            while !crate::common::traces::marked(finished.mark()).is_empty() {
                std::thread::sleep(Duration::from_millis(10));
            }
            Tripmeter::new(words).run().with(exit::GOOD);
        } else {
            finished.with(exit::PARTIAL).clean();
        }
        let left: Vec<_> = shared_memory().difference(&before).cloned().collect();
        assert!(left.is_empty(), "supervisor killed too: {supervisor_too}: {left:?}");
    }
}

/// Fast DDS works without a socket whose port is taken, and then finds no peer.
#[test]
fn ports_of_a_domain_that_are_taken_are_named() {
    let _alone = alone();
    if plugin().is_none() {
        return;
    }
    // Ports of domain 100 that are free; others are held by somebody else.
    let hold = |ports: std::ops::Range<u16>| -> Vec<UdpSocket> {
        ports.filter_map(|port| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).ok()).collect()
    };
    for (ports, named) in [(32_400..32_401, "UDP port 32400"), (32_401..32_650, "no two UDP ports")] {
        let (held, folder) = (hold(ports), folder());
        let output = folder.path().display().to_string();
        let words =
            ["ping", "-q", "--no-floor", "fastdds/udp?domain=100", "-n", "10", "--payloads", "16", "-o", &output];
        let finished = Tripmeter::new(words).run().with(exit::PARTIAL).says(&[named, "of 127.0.0.1", "setting domain"]);
        assert!(!finished.stderr.contains("no peer is found"), "{}", finished.stderr);
        finished.clean();
        drop(held);
    }
}

/// A reader of shared data acknowledges a sample before reading it in place, so a writer that does not wait overwrites
/// it.
#[test]
fn a_reliable_stream_of_data_sharing_waits_for_its_readers_and_overwrites_nothing() {
    let _alone = alone();
    if plugin().is_none() {
        return;
    }
    let folder = folder();
    let output = folder.path().display().to_string();
    let words =
        ["throughput", "-q", "--no-floor", "fastdds/data-sharing", "--wait", "block", "-n", "5000", "-o", &output];
    let rest = ["--touch", "full", "--payloads", "64k", "--followers", "3", "--loss-timeout", "15"];
    Tripmeter::new(words.iter().chain(&rest)).run().with(exit::GOOD).clean();
    let counts = manifest(folder.path()).sub_experiments[0].cells[0].counts();
    let received = Counts { sent: counts.sent, received: counts.sent, ..Counts::default() };
    assert_eq!(counts, received);
}

#[test]
fn what_cannot_go_together_is_refused_by_the_plan() {
    if plugin().is_none() {
        return;
    }
    assert!(transports().iter().any(|known| known.system == "fastdds" && known.available));
    for (transport, parts) in [
        ("fastdds/intra?security=on", ["security=on", "udp, tcp or shm"]),
        ("fastdds/data-sharing?security=on", ["security=on", "udp, tcp or shm"]),
        ("fastdds/data-sharing?loans=off", ["loans", "copies"]),
        ("fastdds/udp?reliability=often", ["reliability=often", "best_effort or reliable"]),
        ("fastdds/udp?domain=233", ["domain=233", "0 to 232"]),
        ("fastdds/shm?segment_size=1", ["segment_size=1", "1048576"]),
    ] {
        let words = ["ping", transport, "-n", "10", "--payloads", "16"];
        Tripmeter::new(words).run().one_line(&parts).clean();
    }
    let words = ["ping", "fastdds/shm?segment_size=1048576", "-n", "10", "--payloads", "1M"];
    Tripmeter::new(words).run().with(exit::USAGE).one_line(&["1048576 bytes", "520192 bytes"]).clean();
}

//! MQTT: trouble with the broker, quality of service, and peers refused by TLS. Skipped with a message if its plugin or
//! a broker is missing.

use crate::common::figures::counts;
use crate::common::samples::sample_payloads;
use crate::common::traces::{marked, signal};
use crate::common::{
    LONGEST, Running, Tripmeter, alone, at_once, folder, has_cell, is_nightly, is_required, manifest, result, say,
    transports,
};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tripmeter_model::exit;
use tripmeter_model::manifest::{Counts, RefusalTrial, RunStatus, Verdict};

fn variants() -> Vec<String> {
    let known = transports();
    let system = known.iter().find(|row| row.system == "mqtt").expect("its sidecar is in the program");
    let here = |name: &str| system.variants.iter().any(|variant| variant.variant == name && variant.available);
    let (found, missing): (Vec<_>, Vec<_>) = ["embedded", "mosquitto"].into_iter().partition(|name| here(name));
    if !missing.is_empty() {
        assert!(!is_required(), "TRIPMETER_REQUIRE_ALL=1, and missing of mqtt are {missing:?}");
        say(&format!("SKIPPED: mqtt: missing are {missing:?}"));
    }
    found.into_iter().map(|name| format!("mqtt/{name}")).collect()
}

fn run(transport: &str, wait: &str, more: &[&str], output: &Path) -> Tripmeter {
    let output = output.display().to_string();
    let words = ["ping", "-q", "--no-floor", transport, "--wait", wait, "-o", &output];
    Tripmeter::new(words.iter().chain(more))
}

fn broker_of(run: &Running) -> Option<u32> {
    // The kernel cuts a process's name to 15 characters.
    marked(run.mark()).into_iter().find(|pid| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        ["mosquitto", "tripmeter_mqtt_"].contains(&name.trim())
    })
}

#[test]
fn a_broker_that_is_killed_ends_its_sub_experiment_and_is_named() {
    let _alone = alone();
    let payloads = (1000..1060).map(|bytes: u32| bytes.to_string()).collect::<Vec<_>>().join(",");
    for transport in variants() {
        let name = if transport.ends_with("mosquitto") { "'mosquitto'" } else { "'rumqttd'" };
        let ping = ["--payloads", &payloads, "-n", "2000"];
        let throughput = ["--payloads", &payloads, "-n", "2000", "--pattern", "throughput", "--rate", "2000"];
        let all = [("block", &ping[..]), ("callback", &ping), ("block", &throughput), ("poll", &ping)];
        for (wait, more) in &all[..if is_nightly() { 4 } else { 2 }] {
            let folder = folder();
            let results = folder.path().join("results");
            let mut run = run(&transport, wait, more, &results).start();
            run.until("a first cell", |_| has_cell(&results));
            signal(broker_of(&run).unwrap(), "KILL");
            run.wait(LONGEST).with(exit::PARTIAL).says(&["the broker has gone", name, "has ended"]).clean();
        }
    }
}

#[test]
fn what_was_measured_of_a_payload_until_its_broker_was_killed_is_kept() {
    let _alone = alone();
    let patterns = [("ping", "100000000"), ("publish", "1000000"), ("call", "100000000")];
    let check = |transport: &str, pattern: &str, samples: &str| {
        let folder = folder();
        let results = folder.path().join("results");
        let more = ["--payloads", "2k", "--warmup", "100", "--attempts", "1", "--loss-timeout", "15", "-n", samples];
        let mut run = run(transport, "block", &[&more[..], &["--pattern", pattern]].concat(), &results).start();
        run.measuring();
        signal(broker_of(&run).unwrap(), "KILL");
        run.wait(LONGEST).with(exit::PARTIAL).says(&["the broker has gone"]).clean();
        let manifest = manifest(&results);
        let [result] = &manifest.sub_experiments[..] else { panic!("one was asked for") };
        assert_eq!((result.status, result.cells.len()), (RunStatus::Failed, 1), "{transport} {pattern}");
        let (cell, error) = (&result.cells[0], result.error.clone().unwrap());
        let why = cell.cut_short.clone().unwrap().to_string();
        assert!(why.contains("the broker has gone") && error.contains(&why), "{transport} {pattern}: {why}: {error}");
        let counts = cell.counts();
        let Counts { sent, received, lost, .. } = counts;
        // A call in transit failed: nobody waited for its time-out.
        assert!(pattern != "call" || lost == 0, "{transport}: {counts:?}");
        // One message may be in transit; at a fixed rate, as many as the broker keeps for a slow follower.
        let is_whole = pattern == "publish" || received + 1 >= sent;
        assert!(cell.samples >= 100 && is_whole, "{transport} {pattern}: {counts:?}");
        let rows = sample_payloads(&results, &result.name).len() as u64;
        assert!(rows >= cell.samples, "{transport} {pattern}: {rows} rows of {}", cell.samples);
    };
    for transport in variants() {
        at_once(&patterns, |(pattern, samples)| check(&transport, pattern, samples));
    }
}

#[test]
fn every_quality_of_service_carries_large_messages_whole() {
    let _alone = alone();
    for transport in variants() {
        for qos in 0..3 {
            let folder = folder();
            let transport = format!("{transport}?qos={qos}");
            let more = [
                "--payloads",
                "16,1M,16M",
                "-n",
                "4",
                "--warmup",
                "1",
                "--touch",
                "full",
                "--loss-timeout",
                "30",
                "--attempts",
                "1",
            ];
            run(&transport, "block", &more, folder.path()).run().with(exit::GOOD).clean();
            let manifest = manifest(folder.path());
            let [result] = &manifest.sub_experiments[..] else { panic!("one was asked for") };
            for cell in &result.cells {
                let all = 4 + cell.warmup;
                let whole = Counts { sent: all, received: all, ..Counts::default() };
                assert_eq!(cell.counts(), whole, "{transport}: {} bytes", cell.payload_bytes);
            }
            assert_eq!(result.cells.len(), 3);
            assert_eq!(result.path_proof.clone().unwrap().verdict, Verdict::Proven);
        }
    }
}

#[test]
fn one_way_messages_arrive_under_every_quality_of_service() {
    let _alone = alone();
    for transport in variants() {
        for qos in 0..3 {
            let folder = folder();
            let transport = format!("{transport}?qos={qos}");
            let more =
                ["--pattern", "throughput", "--payloads", "1k", "-n", "300", "--rate", "500", "--loss-timeout", "15"];
            run(&transport, "block", &more, folder.path()).run().with(exit::GOOD).clean();
            let manifest = manifest(folder.path());
            let trial = &manifest.sub_experiments[0].cells[0].trials[0];
            // A broker may drop messages of any quality of service.
            let Counts { sent, received, lost, .. } = counts(trial);
            assert!(sent == 300 && received > 0 && received + lost == 300, "{transport}: {trial:?}");
        }
    }
}

#[test]
fn a_secured_broker_lets_nobody_else_in() {
    let _alone = alone();
    for transport in variants() {
        for (wait, qos) in [("block", 0), ("callback", 1)] {
            let folder = folder();
            let transport = format!("{transport}?tls=on&qos={qos}");
            let more = ["--payloads", "16,64k", "-n", "100", "--loss-timeout", "15", "--attempts", "1"];
            run(&transport, wait, &more, folder.path()).run().with(exit::GOOD).clean();
            let proof = manifest(folder.path()).sub_experiments[0].path_proof.clone().unwrap();
            assert_eq!(proof.verdict, Verdict::Proven, "{proof:?}");
            let refused: Vec<_> = proof.unauthorized_peers.iter().map(|trial| trial.refused).collect();
            assert_eq!(refused, [Some(true); 2], "{proof:?}");
            // Another test checks that the broker itself refuses, and at once; a busy machine may delay the answer.
            let is_named = |trial: &RefusalTrial| trial.why.contains("broker '") || trial.why.contains("time-out");
            assert!(proof.unauthorized_peers.iter().all(is_named), "{proof:?}");
        }
    }
}

/// Answer of the broker to an MQTT 3.1.1 client with these credentials: return code, 0 for accepted; `None` if it
/// closes the connection.
fn answer(port: u16, credentials: Option<(&str, &str)>) -> Option<u8> {
    let text = |text: &str| [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat();
    let flags = if credentials.is_some() { 0xC2 } else { 0x02 };
    let mut body = [&text("MQTT")[..], &[4, flags, 0, 60], &text("stranger")].concat();
    credentials.iter().for_each(|(user, password)| body.extend([text(user), text(password)].concat()));
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(LONGEST)).unwrap();
    stream.write_all(&[&[0x10, u8::try_from(body.len()).unwrap()], &body[..]].concat()).unwrap();
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).ok().map(|()| answer[3])
}

#[test]
fn a_broker_without_tls_lets_nobody_else_in_either() {
    let _alone = alone();
    for transport in variants() {
        let folder = folder();
        let results = folder.path().join("results");
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let with_port = format!("{transport}?port={port}");
        let mut run = run(&with_port, "block", &["--payloads", "2k", "-n", "100000000"], &results).start();
        run.measuring();
        for credentials in [None, Some(("tripmeter", "")), Some(("tripmeter", "0123456789abcdef0123456789abcdef"))] {
            let answer = answer(port, credentials);
            assert_ne!(answer, Some(0), "{transport} lets {credentials:?} in");
        }
        run.signal("INT");
        run.wait(LONGEST).with(exit::INTERRUPTED).clean();
    }
}

struct Foreign(Child);

impl Drop for Foreign {
    fn drop(&mut self) {
        // A broker that has ended needs no killing.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_broker_that_runs_already_is_used_and_left_running() {
    let _alone = alone();
    if !variants().contains(&"mqtt/mosquitto".to_owned()) {
        return;
    }
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let file = folder();
    let config = file.path().join("mosquitto.conf");
    // As root it would become another user, who may not exist in a user namespace.
    std::fs::write(&config, format!("user root\nlistener {port} 127.0.0.1\nallow_anonymous true\n")).unwrap();
    let path = format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("mosquitto");
    command.arg("-c").arg(&config).env("PATH", path).stdout(Stdio::null()).stderr(Stdio::null());
    let mut broker = Foreign(command.spawn().unwrap());
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(broker.0.try_wait().unwrap().is_none(), "it did not start");
        std::thread::sleep(Duration::from_millis(10));
    }
    let transport = format!("mqtt/mosquitto?broker=running&port={port}");
    let results = folder();
    let more = ["--payloads", "1k", "-n", "100"];
    run(&transport, "block", &more, results.path()).run().with(exit::GOOD).clean();
    let manifest = manifest(results.path());
    assert_eq!(result(&manifest, &manifest.sub_experiments[0].name).status, RunStatus::Complete);
    assert!(broker.0.try_wait().unwrap().is_none(), "it is not ours to stop");
}

#[test]
fn what_is_wrong_with_broker_and_port_is_said_by_the_plan() {
    let Some(transport) = variants().into_iter().next() else { return };
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (taken_port, free_port) =
        (format!("port {port} of 127.0.0.1 is in use"), format!("no broker at 127.0.0.1:{free}"));
    for (settings, code, parts) in [
        (format!("port={port}"), exit::UNAVAILABLE, [taken_port.as_str(), "port=free"]),
        (format!("broker=running&port={free}"), exit::UNAVAILABLE, [free_port.as_str(), "broker=start"]),
        ("broker=running".to_owned(), exit::USAGE, ["broker=running", "port=NUMBER"]),
        (format!("broker=running&port={port}&tls=on"), exit::USAGE, ["tls=on", "broker=start"]),
        ("qos=3".to_owned(), exit::USAGE, ["qos=3", "0 to 2"]),
        ("tls=maybe".to_owned(), exit::USAGE, ["tls=maybe", "neither on nor off"]),
        ("in_flight=0".to_owned(), exit::USAGE, ["in_flight=0", "1 to 100"]),
        ("nodelay=off&qos=1".to_owned(), exit::USAGE, ["nodelay=off", "qos=0"]),
    ] {
        let transport = format!("{transport}?{settings}");
        let words = ["ping", &transport, "-n", "10", "--payloads", "16"];
        Tripmeter::new(words).at(folder().path()).run().with(code).one_line(&parts).clean();
    }
}

//! Followers on other hosts, which are namespaces of this machine, each with an sshd (`scripts/hosts.sh`).

use crate::common::samples::sample_rows;
use crate::common::{LONGEST, Tripmeter, alone, is_required, manifest, plugin, repository, result, say};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::manifest::{Manifest, RunStatus, Verdict};
use tripmeter_model::metric::Stream;

/// Several hosts, and a results folder that they do not see.
pub struct Lab {
    folder: TempDir,
    hosts: u32,
    shifted: &'static str,
}

impl Lab {
    pub fn new(hosts: u32) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the build's folder can be written");
        Self { folder, hosts, shifted: "" }
    }

    pub fn with_shifted(self, shifted: &'static str) -> Self {
        Self { shifted, ..self }
    }

    pub fn results(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs this program as documented in docs/hosts.md: nothing else tells which program the hosts have.
    fn run_program(&self, words: &[&str]) -> Option<Output> {
        let mut command = Command::new("timeout");
        command.arg(LONGEST.as_secs().to_string()).arg(repository().join("scripts/hosts.sh"));
        command.arg(self.hosts.to_string()).arg(env!("CARGO_BIN_EXE_tripmeter")).args(words);
        command.env_remove("TRIPMETER").env("XDG_RUNTIME_DIR", "").current_dir(self.folder.path());
        Self::unless_skipped(&command.output().expect("bash is installed"))
    }

    /// Runs a script among the hosts. `$T` is the program, `$R` the results folder, and `carried HOST` prints the bytes
    /// sent to a host. `None`, with a message, if hosts cannot be made here.
    pub fn run(&self, script: &str) -> Option<Output> {
        let script = format!("{CARRIED}{script}");
        let mut command = Command::new("timeout");
        command.arg(LONGEST.as_secs().to_string()).arg(repository().join("scripts/hosts.sh"));
        command.arg(self.hosts.to_string()).args(["sh", "-uc", &script]);
        command.env("TRIPMETER", env!("CARGO_BIN_EXE_tripmeter")).env("T", env!("CARGO_BIN_EXE_tripmeter"));
        command.env("R", self.folder.path()).env("HOSTS_SHIFTED", self.shifted).env("XDG_RUNTIME_DIR", "");
        Self::unless_skipped(&command.output().expect("bash is installed"))
    }

    fn unless_skipped(output: &Output) -> Option<Output> {
        if output.status.code() == Some(69) && text(&output.stderr).starts_with("hosts.sh: ") {
            assert!(!is_required(), "{}", text(&output.stderr));
            say(&format!("SKIPPED: hosts: {}", text(&output.stderr).trim()));
            return None;
        }
        Some(output.clone())
    }
}

#[test]
fn the_hosts_have_the_program_that_is_the_command() {
    let _alone = alone();
    let lab = Lab::new(1);
    let words = ["ping", "tcp", "--to", "h1", "-n", "20", "--payloads", "64", "--no-report", "-q", "-o", "r"];
    let Some(output) = lab.run_program(&words) else { return };
    good(&output);
    whole(&lab.results("r"));
    let shown = Tripmeter::new(["show", "r"]).at(lab.folder.path()).run().with(0);
    assert!(shown.stdout.contains("\ntcp  ") && !shown.stdout.contains("tcp/loopback"), "{shown:?}");
    let wide = Tripmeter::new(["show", "r", "--wide"]).at(lab.folder.path()).run().with(0);
    assert!(!wide.stdout.contains("tcp/loopback"), "{wide:?}");
}

/// Counts the bytes sent through this end of a host's cable.
const CARRIED: &str = r#"
        carried() { awk -v host="$1:" '$1 == host { print $10 }' /proc/net/dev; }
"#;

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub fn unwrapped(bytes: &[u8]) -> String {
    text(bytes).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[track_caller]
pub fn good(output: &Output) {
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
}

/// Checks that every sub-experiment is complete, with its path proven by the interfaces' counters.
#[track_caller]
pub fn whole(folder: &Path) -> Manifest {
    let manifest = manifest(folder);
    for one in &manifest.sub_experiments {
        let proof = one.path_proof.as_ref().unwrap_or_else(|| panic!("{}: {:?}", one.name, one.error));
        assert_eq!((one.status, proof.verdict), (RunStatus::Complete, Verdict::Proven), "{one:?}");
        assert!(proof.evidence.contains("lab here and eth0 there"), "{}", proof.evidence);
    }
    manifest
}

#[test]
fn round_trips_calls_streams_and_publications_reach_another_host() {
    let _alone = alone();
    let lab = Lab::new(1);
    let Some(output) = lab.run(
        r#"set -e
        for one in "ping --one-way" publish "call --one-way" "throughput --one-way --duration 0.2"; do
            "$T" $one tcp udp --to h1 --payloads 1k -n 500 --max-clock-error 1000000 --no-spin --allow-loss --no-report \
                -q -o "$R/${one%% *}"
        done
        echo "left: $(ssh -F "$TRIPMETER_HOSTS/config" h1 ls /tmp /dev/shm)"
        for _ in $(seq 600); do pgrep -f "tripmeter (remote|worker)" >/dev/null || break; sleep 0.1; done
        pgrep -fa "tripmeter (remote|worker)" && exit 1 || true"#,
    ) else {
        return;
    };
    good(&output);
    assert!(!text(&output.stdout).contains("tripmeter-1"), "{}", text(&output.stdout));
    for (name, figure) in [
        ("ping", Figure::OneWay),
        ("publish", Figure::Service),
        ("call", Figure::OneWay),
        ("throughput", Figure::OneWay),
    ] {
        let manifest = whole(&lab.results(name));
        let host = &manifest.environment.hosts[0];
        assert_eq!((host.to.as_str(), host.name.as_str(), host.there.address.as_str()), ("h1", "h1", "10.77.0.1"));
        for (network, interface) in [(&host.here, "lab"), (&host.there, "eth0")] {
            let mtu = network.facts.get("mtu").map(String::as_str);
            assert_eq!((network.interface.as_str(), mtu), (interface, Some("1500")), "{network:?}");
            assert!(network.before.len() == network.after.len() && !network.before.is_empty(), "{network:?}");
        }
        let audits = (&host.environment.audit_before, &host.environment.audit_after);
        assert!(matches!(audits, (Some(before), Some(_)) if !before.findings.is_empty()), "{name}");
        for one in &manifest.sub_experiments {
            let trial = &one.cells[0].trials[0];
            let error_ns = trial.value(&Stream::all(), Figure::ClockError).unwrap();
            let median = trial.get(&Stream::all(), figure, Statistic::P50).unwrap();
            assert!(error_ns > 0.0 && error_ns <= 1e9, "{name}: {error_ns}");
            if let Some(within) = median.within {
                assert!(within.low <= median.value - error_ns && within.high >= median.value + error_ns, "{median:?}");
            }
        }
    }
}

#[test]
fn a_clock_that_is_hours_apart_is_followed() {
    let _alone = alone();
    let lab = Lab::new(2).with_shifted("h2");
    let Some(output) = lab.run(
        r#"set -e
        ssh -F "$TRIPMETER_HOSTS/config" h2 "cat /proc/self/timens_offsets"
        for host in h1 h2; do
            "$T" ping tcp udp --one-way --to $host --payloads 1k -n 2000 --max-clock-error 1000000 --no-spin --no-report \
                -q -o "$R/$host"
        done"#,
    ) else {
        return;
    };
    good(&output);
    assert!(text(&output.stdout).contains("5000"), "its clock is not shifted: {}", text(&output.stdout));
    for host in ["h1", "h2"] {
        let manifest = whole(&lab.results(host));
        let clock = &manifest.environment.hosts[0].environment.clock;
        assert_eq!(clock.source == "monotonic", host == "h2", "{clock:?}");
        for one in &manifest.sub_experiments {
            let trial = &one.cells[0].trials[0];
            let p50 = |figure| trial.get(&Stream::all(), figure, Statistic::P50).unwrap().value;
            let error_ns = trial.value(&Stream::all(), Figure::ClockError).unwrap();
            // A message takes between zero and a round trip, within the clock error.
            let (one_way, trip) = (p50(Figure::OneWay), 2.0 * p50(Figure::RttHalf));
            assert!(-error_ns <= one_way && one_way <= trip + error_ns, "{host}: {one_way} of {trip}, {error_ns}");
        }
    }
}

#[test]
fn clocks_that_may_be_too_far_apart_leave_latencies_one_way_out() {
    let _alone = alone();
    let lab = Lab::new(1);
    let Some(output) = lab.run(
        r#"set -e
        for most in 0.001 1000000; do
            for one in "ping --one-way" publish "call --one-way" "throughput --one-way --duration 0.2"; do
                "$T" $one tcp --to h1 --payloads 1k -n 200 --no-spin --no-report --max-clock-error $most \
                    -o "$R/$most/${one%% *}"
            done
        done
        "$T" ping tcp --payloads 1k -n 200 --no-spin --no-report -q -o "$R/here"
        "$T" compare "$R/here" "$R/0.001/ping" 2>&1 || true"#,
    ) else {
        return;
    };
    good(&output);
    let said = unwrapped(&output.stdout);
    assert!(said.contains("note: hosts of followers this host in the reference, h1 in the results"), "{said}");
    assert_eq!(said.matches("There is no latency to show; --wide shows counts and rates.").count(), 1, "{said}");
    assert_eq!(said.matches("NO ONE-WAY LATENCY: the clock error between the hosts is").count(), 4, "{said}");
    for (most, is_refused) in [("0.001", true), ("1000000", false)] {
        for (name, figure) in [
            ("ping", Figure::OneWay),
            ("publish", Figure::Service),
            ("call", Figure::OneWay),
            ("throughput", Figure::OneWay),
        ] {
            let folder = lab.results(most).join(name);
            let manifest = whole(&folder);
            let sub = &manifest.sub_experiments[0];
            let trial = &sub.cells[0].trials[0];
            let place = format!("{name} {most}");
            if (name, is_refused) == ("publish", true) {
                assert!(sub.cells[0].why_silent().starts_with("one-way latencies omitted"), "{place}");
                assert_eq!(trial.series().count(), 0, "{place}: {trial:?}");
            }
            assert_eq!(trial.get(&Stream::all(), figure, Statistic::P50).is_none(), is_refused, "{place}");
            assert!(trial.value(&Stream::all(), Figure::ClockError).is_some(), "{place}");
            // Times on one clock are kept: the arrival of messages, and their send and answer times.
            let received = if name == "ping" { 200 } else { trial.count(&Stream::all(), Figure::Received) };
            let rows = sample_rows(&folder, &sub.name);
            let came: Vec<_> = rows.iter().filter(|row| row.status == "ok").collect();
            assert!(received > 0 && came.len() as u64 == received, "{place}: {} of {received}", came.len());
            let has_answers = ["ping", "call"].contains(&name);
            for row in came {
                let has = (row.sent_ns.is_some(), row.received_ns.is_none(), row.answered_ns.is_some());
                assert_eq!(has, (true, is_refused, has_answers), "{place}: {row:?}");
            }
            let log = folder.join("histograms").join(format!("{}.hlog", sub.name));
            let log = std::fs::read_to_string(log).unwrap_or_default();
            let tags = ["Tag=one_way_", "Tag=response_", "Tag=service_"].map(|tag| log.contains(tag));
            let expected = match name {
                "ping" => [!is_refused, false, false],
                "publish" => [false, !is_refused, !is_refused],
                "call" => [!is_refused, tags[1], true],
                _ => [false; 3],
            };
            assert_eq!(tags, expected, "{place}: {log}");
        }
    }
}

#[test]
fn small_and_large_packets_and_the_other_family_of_addresses() {
    let _alone = alone();
    let lab = Lab::new(1);
    let Some(output) = lab.run(
        r#"set -e
        "$T" ping tcp udp --to h1-v6 --payloads 16k -n 200 --no-spin --no-report -q -o "$R/v6"
        for mtu in 1280 9000; do
            ip link set lab mtu $mtu; ip link set h1 mtu $mtu; ip -n h1 link set eth0 mtu $mtu
            "$T" ping tcp udp --to h1 --payloads 64,16k -n 200 --no-spin --no-report -q -o "$R/$mtu"
        done"#,
    ) else {
        return;
    };
    good(&output);
    for (name, address) in [("v6", "fd77::1"), ("1280", "10.77.0.1"), ("9000", "10.77.0.1")] {
        assert_eq!(whole(&lab.results(name)).environment.hosts[0].there.address, address);
    }
}

#[test]
fn what_is_wrong_with_a_host_is_said_in_one_line() {
    let _alone = alone();
    let lab = Lab::new(1);
    let Some(output) = lab.run(
        r#"
        try() { "$T" ping --payloads 1k -n 10 --no-spin --no-report "$@" -o "$R/none" 2>&1; echo "code $?"; }
        try shm --to h1
        try tcp --to nobody.invalid
        try tcp --to h1 --interface eth9
        try tcp --to h1 --to-interface eth9
        try tcp --to h1 --interface fd77::fe
        try tcp --to=-oProxyCommand=x
        try tcp --to h1 --rendezvous
        try tcp --to h1 --followers 2
        try tcp --interface lab
        "$T" logger write --to h1 2>&1; echo "code $?"
        keep=$TRIPMETER_SSH
        ssh-keygen -q -t ed25519 -N '' -f "$TRIPMETER_HOSTS/other"
        TRIPMETER_SSH="ssh -F /dev/null -o IdentitiesOnly=yes -i $TRIPMETER_HOSTS/other -o UserKnownHostsFile=$TRIPMETER_HOSTS/known_hosts"
        export TRIPMETER_SSH
        try tcp --to root@10.77.0.1
        TRIPMETER_SSH=$keep
        echo "10.77.0.1 $(cut -d' ' -f1,2 "$TRIPMETER_HOSTS/other.pub")" >"$TRIPMETER_HOSTS/known_hosts"
        try tcp --to h1
        echo "10.77.0.1 $(cut -d' ' -f1,2 "$TRIPMETER_HOSTS/host_key.pub")" >"$TRIPMETER_HOSTS/known_hosts"
        mv "$TRIPMETER_HOSTS/bin/tripmeter" "$TRIPMETER_HOSTS/bin/kept"
        try tcp --to h1
        printf '#!/bin/sh\necho Welcome\necho %s\n' \
            "'{\"versions\":{\"protocol\":7,\"tripmeter\":\"0.0.9\"},\"name\":\"h1\",\"connection\":null,\"interfaces\":[]}'" \
            >"$TRIPMETER_HOSTS/bin/tripmeter"
        chmod +x "$TRIPMETER_HOSTS/bin/tripmeter"
        try tcp --to h1
        test ! -e "$R/none" || echo "a results folder was made""#,
    ) else {
        return;
    };
    good(&output);
    let said = text(&output.stdout);
    let lines: Vec<&str> = said.lines().collect();
    let expected = [
        ("its messages travel through shared-memory, which does not reach another host", 64),
        ("host 'nobody.invalid': ", 69),
        ("here, it has no interface 'eth9'; it has lab 10.77.0.254", 64),
        ("host 'h1': it has no interface 'eth9'; it has eth0 10.77.0.1", 64),
        ("fd77::fe here and 10.77.0.1 there mix IPv4 and IPv6", 64),
        ("'-oProxyCommand=x' is not a host name for ssh", 64),
        ("cannot be used with", 64),
        ("2 followers were requested, but there is 1 host; each host has one follower", 64),
        ("required", 64),
        ("pattern 'log' runs on one host", 64),
        ("Permission denied", 69),
        ("the key of 10.77.0.1 has changed; if it should have, remove the old one by `ssh-keygen -R '10.77.0.1'`", 69),
        ("no tripmeter there", 69),
        ("the program on 'h1' has protocol 7 (tripmeter 0.0.9)", 69),
    ];
    assert_eq!(lines.len(), 2 * expected.len(), "{said}");
    for (found, (part, code)) in lines.chunks(2).zip(expected) {
        assert!(found[0].starts_with("tripmeter: ") && found[0].contains(part), "{part}: {found:?}");
        assert_eq!(found[1], format!("code {code}"), "{found:?}");
    }
}

#[test]
fn doctor_shows_other_hosts_beside_this_one_and_names_those_that_are_not_reached() {
    let _alone = alone();
    let lab = Lab::new(2).with_shifted("h2");
    let Some(output) = lab.run(
        r#"
        ip link set h1 mtu 9000; ip -n h1 link set eth0 mtu 9000
        "$T" doctor --to h1 --to nobody.invalid --to h2 --seconds 0.1 -q; echo "code $?"
        "$T" doctor --to h2 --to-interface eth0 --seconds 0.1 -q --json >"$R/json"; echo "code $?"
        "$T" doctor --to h2 --to-interface a --to-interface b -q; echo "code $?""#,
    ) else {
        return;
    };
    good(&output);
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    let codes: Vec<&str> = said.lines().filter(|line| line.starts_with("code ")).collect();
    assert_eq!(codes, ["code 69", "code 0", "code 64"], "{said}\n{errors}");
    assert!(
        errors.contains("tripmeter: host 'nobody.invalid': ") && errors.contains("2 interfaces are given"),
        "{errors}"
    );
    for host in ["h1", "h2"] {
        assert!(said.contains(&format!("This host and '{host}'")), "{said}");
        assert!(said.contains(&format!("The time of day of '{host}' is ")), "{said}");
    }
    let mtu = said.lines().find(|line| line.starts_with("≠ mtu")).unwrap_or_default();
    assert!(mtu.contains("1500") && mtu.contains("9000"), "{said}");
    let clock = said.lines().find(|line| line.starts_with("≠ clock")).unwrap_or_default();
    assert!(clock.contains("tsc") && clock.contains("monotonic"), "{said}");
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(lab.results("json")).unwrap()).unwrap();
    let host = &json["hosts"][0];
    assert_eq!((host["to"].as_str(), host["there"]["address"].as_str()), (Some("h2"), Some("10.77.0.2")));
    assert_eq!(host["systems"]["tcp"]["version"], env!("CARGO_PKG_VERSION"));
    // Both hosts are one machine with one time of day.
    let [offset, error] = ["offset_ns", "error_ns"].map(|key| host["clock"][key].as_i64().unwrap());
    assert!(error > 0 && offset.abs() <= error, "{offset} {error}");
}

#[test]
fn a_program_that_is_missing_there_is_pushed_once_and_not_to_another_kind_of_cpu() {
    let _alone = alone();
    let lab = Lab::new(1);
    let plugins = plugin("trouble").parent().expect("it is in a folder").join("far-1").display().to_string();
    let Some(output) = lab.run(&format!("far={plugins}{}",
        r#"
        rm "$TRIPMETER_HOSTS/bin/tripmeter"
        try() { "$T" ping tcp --to h1 --payloads 1k -n 100 --no-spin --no-report "$@" >/dev/null; echo "code $?"; }
        try --push -o "$R/first" 2>&1
        try --push -o "$R/second" 2>&1
        TRIPMETER_TRANSPORTS=$far "$T" ping trouble --to h1 --payloads 1k -n 10 --no-spin --no-report --push -o "$R/other" \
            2>/dev/null >&2
        ssh -F "$TRIPMETER_HOSTS/config" h1 'cd /tmp/cache/tripmeter && ls files | sed "s/.*/content/"; ls -d */tripmeter'
        "$T" ping tcp --to h1 --payloads 1k,2k,4k -n 20000 --no-spin --no-report -q --push -o "$R/begun" &
        run=$!
        until grep -q '"payload_bytes":1024' "$R/begun/trials.jsonl" 2>/dev/null; do kill -0 $run || exit 1; sleep 0.05; done
        kill -INT $run
        wait $run; echo "code $?"
        ssh -F "$TRIPMETER_HOSTS/config" h1 'rm -rf /tmp/cache/tripmeter'
        "$T" run --resume "$R/begun" --no-spin --no-report 2>&1 >/dev/null; echo "code $?"
        "$T" run --resume "$R/begun" --to h1 --push --no-spin --no-report 2>&1 >/dev/null; echo "code $?"
        printf '#!/bin/sh\necho aarch64\n' >"$TRIPMETER_HOSTS/bin/uname"
        chmod +x "$TRIPMETER_HOSTS/bin/uname"
        try --push -o "$R/third" 2>&1"#,
    )) else {
        return;
    };
    good(&output);
    let said = text(&output.stdout);
    let copied = said
        .lines()
        .filter(|line| line.contains("copied the missing files of this program and its plugins to 'h1'"))
        .count();
    let codes: Vec<&str> = said.lines().filter(|line| line.starts_with("code ")).collect();
    // A resumed run is pushed as at its start, once its host is named again.
    let expected = ["code 0", "code 0", "code 130", "code 64", "code 0", "code 69"];
    assert_eq!((copied, &codes[..]), (2, &expected[..]), "{said}");
    assert!(said.contains("repeat: --to h1 --push"), "{said}");
    assert!(said.contains("its CPUs are 'aarch64', but this program is for"), "{said}");
    let counts = ["content", "/tripmeter"].map(|part| said.lines().filter(|line| line.ends_with(part)).count());
    assert_eq!(counts, [2, 2], "two sets have one program: {said}");
    for name in ["first", "second", "begun"] {
        whole(&lab.results(name));
    }
}

#[test]
fn a_follower_that_is_killed_and_a_link_that_is_cut_end_their_sub_experiment_only() {
    let _alone = alone();
    let lab = Lab::new(1);
    let Some(output) = lab.run(
        r#"
        start() {
            "$T" ping tcp udp --to h1 --wait block --payloads 1k,2k -n 2000000 --time-cap 8 --no-spin --no-report -q -o "$R/$1" &
            run=$!
            until grep -q '"payload_bytes":1024' "$R/$1/trials.jsonl" 2>/dev/null; do kill -0 $run || exit 1; sleep 0.1; done
            sleep 1
        }
        start killed
        kill -9 "$(pgrep -P "$(pgrep -f '^tripmeter remote')")"
        wait $run; echo "code $?"
        start cut
        ip link set h1 down; sleep 20; ip link set h1 up
        wait $run; echo "code $?""#,
    ) else {
        return;
    };
    good(&output);
    let said = text(&output.stdout);
    let codes: Vec<&str> = said.lines().filter(|line| line.starts_with("code ")).collect();
    assert_eq!(codes, ["code 75", "code 75"], "{said}\n{}", text(&output.stderr));
    let killed = manifest(&lab.results("killed"));
    let first = result(&killed, "tcp_block");
    let why = first.error.clone().unwrap_or_default();
    assert!(first.status == RunStatus::Failed && why.contains("signal 9"), "{why}");
    assert!(!first.cells.is_empty(), "the payload before is kept");
    assert_eq!(result(&killed, "udp_block").status, RunStatus::Complete, "the other goes on");
    let cut = manifest(&lab.results("cut"));
    let first = result(&cut, "tcp_block");
    let why = first.error.clone().unwrap_or_default();
    assert!(first.status == RunStatus::Failed && why.contains("host 'h1'"), "{why}");
    assert!(!first.cells.is_empty(), "the payload before is kept");
}

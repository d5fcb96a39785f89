//! Every transport that reaches other hosts, between namespaces of this machine (`scripts/hosts.sh`).

use crate::common::samples::sample_rows;
use crate::common::{alone, built, is_required, manifest, say, transports};
use crate::hosts::{Lab, good, text, unwrapped, whole};
use crate::recording::{drive, write};
use tripmeter_abi::{Pattern, Variant};
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::metric::Stream;

/// Variants that reach other hosts and are wanted, as words of a command.
fn reaching(is_wanted: impl Fn(&Variant) -> bool) -> Vec<String> {
    let (mut here, mut missing) = (Vec::new(), Vec::new());
    for known in transports() {
        let Some(description) = &known.description else {
            missing.push(known.system);
            continue;
        };
        for one in description.variants.iter().filter(|one| one.remote && is_wanted(one)) {
            let name = format!("{}/{}", known.system, one.name);
            let is_here = known.variants.iter().any(|row| row.variant == one.name && row.available);
            if is_here { here.push(name) } else { missing.push(name) }
        }
    }
    if !missing.is_empty() {
        assert!(!is_required(), "TRIPMETER_REQUIRE_ALL=1, and missing are {missing:?}");
        say(&format!("SKIPPED: between hosts: missing are {missing:?}"));
    }
    here
}

#[test]
fn every_transport_carries_each_of_its_patterns_to_another_host() {
    let _alone = alone();
    let of = |pattern: Pattern| reaching(|one| one.patterns.contains(&pattern));
    let patterns = [
        ("ping", of(Pattern::Ping)),
        ("publish", of(Pattern::Publish)),
        ("call", of(Pattern::Call)),
        ("throughput", of(Pattern::Throughput)),
    ];
    let lab = Lab::new(1);
    let lines = patterns.iter().map(|(command, transports)| format!("{command} {}\n", transports.join(" ")));
    let Some(output) = lab.run(&format!(
        r#"set -e
        while read -r command transports; do
            [ "$command" != throughput ] || transports="$transports --duration 0.1"
            "$T" $command $transports --to h1 --payloads 1k,32k -n 50 --no-spin --allow-loss --no-report -q \
                -o "$R/$command" </dev/null
        done <<END
{}END"#,
        lines.collect::<String>()
    )) else {
        return;
    };
    good(&output);
    for (command, transports) in &patterns {
        assert!(transports.len() > 1, "{command}");
        assert_eq!(whole(&lab.results(command)).sub_experiments.len(), transports.len(), "{command}");
    }
}

#[test]
fn variants_of_ipv4_alone_are_refused_before_anything_starts_where_hosts_have_ipv6_only() {
    let _alone = alone();
    let asked: Vec<String> = reaching(|one| ["tcp", "udp"].contains(&one.name.as_str()));
    let asked = asked.iter().filter(|name| ["fastdds/tcp", "ecal/udp"].contains(&name.as_str()));
    let lab = Lab::new(1);
    let tries: String = asked.clone().map(|name| format!("try {name}\n")).collect();
    let Some(output) = lab.run(&format!(
        r#"
        ip -4 address flush dev lab; ip -n h1 -4 address flush dev eth0
        try() {{ "$T" ping "$1" --to h1-v6 --payloads 1k -n 10 --no-spin --no-report -q -o "$R/none" 2>&1; echo "code $?"; }}
        {tries}
        test ! -e "$R/none" || echo "a results folder was made""#
    )) else {
        return;
    };
    good(&output);
    let said = text(&output.stdout);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2 * asked.count(), "{said}");
    for found in lines.chunks(2) {
        assert!(
            found[0].starts_with("tripmeter: host 'h1-v6': transport '") && found[0].contains("name IPv4 addresses")
        );
        assert_eq!(found[1], "code 69", "{said}");
    }
}

#[test]
fn messages_reach_followers_on_two_hosts() {
    let _alone = alone();
    let transports = reaching(|one| one.fan_out);
    if transports.is_empty() {
        return;
    }
    let lab = Lab::new(2);
    let Some(output) = lab.run(&format!(
        r#""$T" publish {} --to h1 --to h2 --payloads 1k,32k -n 50 --max-clock-error 1000000 --no-spin --allow-loss --no-report \
            -q -o "$R/r""#,
        transports.join(" ")
    )) else {
        return;
    };
    good(&output);
    let manifest = whole(&lab.results("r"));
    assert_eq!(manifest.sub_experiments.len(), transports.len());
    for one in &manifest.sub_experiments {
        for follower in 0..2 {
            let latency = one.cells[0].trials[0].get(&Stream::follower(follower), Figure::Service, Statistic::P50);
            assert!(latency.is_some(), "{}: follower {follower}", one.name);
        }
    }
}

#[test]
fn of_a_follower_that_was_killed_there_are_no_latencies_and_of_others_they_hold() {
    let _alone = alone();
    let Some(transport) = reaching(|one| one.fan_out && one.name == "embedded").pop() else { return };
    let lab = Lab::new(2).with_shifted("h2");
    let Some(output) = lab.run(&format!(
        r#"
        "$T" publish {transport} --to h1 --to h2 --payloads 1k --rate 1000 -n 1000000 --max-clock-error 1000000 --no-spin \
            --no-report -o "$R/r" &
        run=$!
        # Path proof and warm-up are less than half of it.
        for host in h1 h2; do
            until [ "$(carried $host)" -gt 4000000 ]; do kill -0 $run || exit 1; sleep 0.1; done
        done
        for pid in $(pgrep -f '^tripmeter remote'); do
            [ "$(ip netns identify $pid)" = h1 ] && kill -9 $(pgrep -P $pid)
        done
        wait $run; echo "code $?""#
    )) else {
        return;
    };
    let said = unwrapped(&output.stdout);
    assert!(said.contains("code 75"), "{said}\n{}", text(&output.stderr));
    assert!(said.contains("NO ONE-WAY LATENCY: a follower ended"), "{said}");
    let manifest = manifest(&lab.results("r"));
    let trial = &manifest.sub_experiments[0].cells[0].trials[0];
    let p50 = |stream: &Stream| trial.get(stream, Figure::Service, Statistic::P50).map(|one| one.value);
    let error = |stream: &Stream| trial.value(stream, Figure::ClockError);
    let [all, killed, other] = [Stream::all(), Stream::follower(0), Stream::follower(1)];
    assert_eq!([&all, &killed].map(|stream| (p50(stream), error(stream))), [(None, None); 2], "{trial:?}");
    // Its clock runs at another tick rate: read as the host's own, it would be off by a large part of the trial.
    let (median, error, duration) = (p50(&other).unwrap(), error(&other).unwrap(), trial.value(&all, Figure::Duration));
    assert!(-error <= median && median < 0.1 * duration.unwrap(), "{median} {error} {duration:?}");
    let rows = sample_rows(&lab.results("r"), &manifest.sub_experiments[0].name);
    assert!(!rows.is_empty() && rows.iter().all(|row| row.received_ns.is_none()), "what came to the last is not known");
}

#[test]
fn strangers_are_refused_between_hosts() {
    let _alone = alone();
    let is_tls = |known: &str| ["grpc", "http", "mqtt"].contains(&known);
    let secured = reaching(|one| one.secure).into_iter().map(|transport| {
        let setting = if is_tls(transport.split('/').next().unwrap_or_default()) { "tls" } else { "security" };
        format!("{transport}?{setting}=on")
    });
    let transports: Vec<String> = secured.collect();
    if transports.is_empty() {
        return;
    }
    let lab = Lab::new(1);
    let Some(output) = lab.run(&format!(
        r#""$T" ping {} --to h1 --payloads 1k -n 100 --no-spin --no-report -q -o "$R/ping"
        ssh -F "$TRIPMETER_HOSTS/config" h1 "find /tmp -name '*.pem' -o -name '*.der'""#,
        transports.join(" ")
    )) else {
        return;
    };
    good(&output);
    assert!(!text(&output.stdout).contains("/tmp/tripmeter"), "credentials are left: {}", text(&output.stdout));
    for one in &whole(&lab.results("ping")).sub_experiments {
        let trials = &one.path_proof.as_ref().expect("it is proven").unauthorized_peers;
        assert!(trials.len() == 2 && trials.iter().all(|trial| trial.refused == Some(true)), "{one:?}");
    }
}

/// Transports that listen while measuring.
const LISTENING: [&str; 6] =
    ["cyclonedds/tcp", "cyclonedds/udp", "fastdds/tcp", "fastdds/udp", "mqtt/embedded", "ros2/udp"];

#[test]
fn what_listens_takes_nothing_that_comes_to_another_address() {
    let _alone = alone();
    let transports = reaching(|_| true).join(" ");
    let lab = Lab::new(1);
    // Everything is connected while the second and all later payloads are measured: minutes, of which seconds are used.
    let Some(output) = lab.run(&format!(
        r#"
        dropped() {{ awk -v port=":$(printf %04X "$1")\$" '$2 ~ port {{ print $NF }}' /proc/net/udp; }}
        number=0
        for one in {transports}; do
            number=$((number + 1))
            "$T" ping $one --to h1 --payloads $(seq -s, 1024 1323) -n 2000000 --time-cap 1 --no-spin --no-report -q -o "$R/$number" >/dev/null &
            run=$!
            until grep -q '"payload_bytes":1024' "$R/$number/trials.jsonl" 2>/dev/null; do kill -0 $run || exit 1; sleep 0.1; done
            ss -Hlnutp | grep 'tripmeter' >"$R/sockets"
            ip netns exec h1 ss -Hlnutp | grep 'tripmeter' >>"$R/sockets"
            echo "sockets $one $(grep -cE '10\.77\.0\.|%(lab|eth0):' "$R/sockets") $(grep -c . "$R/sockets")"
            for port in $(ss -Hlnup | grep tripmeter | grep -o '0\.0\.0\.0:[0-9][0-9]*' | cut -d: -f2); do
                before=$(dropped $port)
                bash -c "echo stranger >/dev/udp/127.0.0.1/$port"
                for _ in $(seq 100); do [ "$(dropped $port)" -gt "$before" ] && break; sleep 0.1; done
                [ "$(dropped $port)" -gt "$before" ] && echo "dropped: $one" || echo "taken: $one, UDP port $port"
            done
            for port in $(ss -Hlntp | grep tripmeter | grep -o '0\.0\.0\.0:[0-9][0-9]*' | cut -d: -f2); do
                timeout 2 bash -c "exec 3<>/dev/tcp/127.0.0.1/$port" && echo "taken: $one, TCP port $port"
            done
            kill -INT $run; wait $run
        done
        true"#
    )) else {
        return;
    };
    good(&output);
    let said = text(&output.stdout);
    assert!(!said.contains("taken: "), "{said}");
    for line in said.lines().filter_map(|line| line.strip_prefix("sockets ")) {
        let words: Vec<&str> = line.split(' ').collect();
        // Cyclone DDS binds its receiving sockets to all addresses; the kernel drops packets to others.
        let is_filtered = words[0].starts_with("cyclonedds/");
        assert!(is_filtered || words[1] == words[2], "{line}");
        // Some transports, such as tcp, stop listening once connected.
        assert!(words[2] != "0" || !LISTENING.contains(&words[0]), "{line}");
        assert!(words[0] != "cyclonedds/udp" || said.contains("dropped: cyclonedds/udp"), "{said}");
    }
    assert_eq!(said.matches("sockets ").count(), transports.split_whitespace().count(), "{said}");
}

#[test]
fn both_presets_print_aimrts_tables_between_two_hosts() {
    let _alone = alone();
    if ["grpc", "http", "mqtt", "zenoh"].iter().any(|system| built(system).is_none()) {
        return;
    }
    let lab = Lab::new(1);
    let Some(output) = lab.run(
        r#"set -e
        for one in channel rpc; do
            "$T" run aimrt-$one-2host --to h1 -n 300 --allow-loss --no-spin --no-report -q -o "$R/$one"
            ls "$R/$one" "$R/$one/plots"
        done"#,
    ) else {
        return;
    };
    good(&output);
    let said = text(&output.stdout);
    let rows = |system: &str| said.lines().filter(|line| line.starts_with("| ") && line.contains(system)).count();
    // mqtt has 6 rows of channels and 6 of calls.
    let each = ["mqtt/", "zenoh/", "grpc/", "http/"].map(rows);
    assert_eq!(each, [12, 6, 6, 6], "{said}");
    for column in ["Topic num", "QPS", "Avg Latency (us)", "Max Latency (us)", "Loss Rate (%)"] {
        assert!(said.contains(column), "{column}: {said}");
    }
    assert!(said.contains("between this host (10.77.0.254) and 'h1' (h1, 10.77.0.1)"), "{said}");
    assert!(unwrapped(&output.stdout).contains("use two clocks with an error of up to"), "{said}");
    assert_eq!(said.matches(".png").count(), 5, "{said}");
    assert_eq!(said.lines().filter(|line| *line == "metrics.csv").count(), 2, "{said}");
    for name in ["channel", "rpc"] {
        whole(&lab.results(name));
    }
}

#[test]
fn a_recording_is_replayed_to_another_host() {
    let _alone = alone();
    let lab = Lab::new(1);
    let messages = drive();
    write(&lab.results(""), None, &messages);
    let Some(output) = lab.run(
        r#"set -e
        "$T" replay "$R/drive.mcap" tcp udp --to h1 --allow-loss --no-spin --no-report -q -o "$R/one-way"
        "$T" replay "$R/drive.mcap" tcp --as-calls --to h1 --no-spin --no-report -q -o "$R/calls""#,
    ) else {
        return;
    };
    good(&output);
    for name in ["one-way", "calls"] {
        for one in &whole(&lab.results(name)).sub_experiments {
            let rows = sample_rows(&lab.results(name), &one.name);
            assert_eq!(rows.len(), messages.len(), "{name}: {}", one.name);
        }
    }
}

/// Bytes that the slow direction of [`a_slow_way_there_is_in_the_latency_of_that_way_only`] passes at once.
const BURST: u64 = 2000;
/// Bits per second of the slow direction: a message takes so long that the clocks of two hosts that share a busy CPU are
/// known well enough beside it.
const BITS: u64 = 1_000_000;
/// Time of a message of 16 KiB on the slow way. The bucket refills while it returns, so its first bytes pass freely.
const LEAST_NS: f64 = (16_384 - BURST) as f64 * 8.0 / BITS as f64 * 1e9;
/// Largest error of the clocks that tells a slow way from another.
const MOST_ERROR_NS: f64 = LEAST_NS / 3.0;

#[test]
fn a_slow_way_there_is_in_the_latency_of_that_way_only() {
    let _alone = alone();
    let lab = Lab::new(1);
    let most_us = MOST_ERROR_NS / 1e3;
    let Some(output) = lab.run(&format!(
        r#"
        measure() {{ "$T" ping udp --one-way --to h1 --payloads 16k -n 12 --warmup 2 --max-clock-error {most_us} --no-spin --no-report -q \
            -o "$R/$1" || exit; }}
        measure free
        # Packets to h1 leave here.
        tc qdisc add dev h1 root tbf rate {BITS}bit burst {BURST} limit 100000
        measure there
        tc qdisc delete dev h1 root
        ip netns exec h1 tc qdisc add dev eth0 root tbf rate {BITS}bit burst {BURST} limit 100000
        measure back
        ip netns exec h1 tc qdisc delete dev eth0 root"#
    )) else {
        return;
    };
    good(&output);
    let measured = ["free", "there", "back"].map(|name| {
        let manifest = whole(&lab.results(name));
        let trial = &manifest.sub_experiments[0].cells[0].trials[0];
        let p50 = |figure| trial.get(&Stream::all(), figure, Statistic::P50).unwrap().value;
        let error_ns = trial.value(&Stream::all(), Figure::ClockError).unwrap();
        assert!(error_ns <= MOST_ERROR_NS, "{name}: {error_ns} of {LEAST_NS}");
        (2.0 * p50(Figure::RttHalf), p50(Figure::OneWay))
    });
    let [free, there, back] = measured;
    assert!(there.1 > 0.6 * LEAST_NS && there.0 > LEAST_NS && back.0 > LEAST_NS, "{measured:?} {LEAST_NS}");
    assert!(there.0 - there.1 < 0.5 * LEAST_NS && back.1 < 0.5 * LEAST_NS, "{measured:?} {LEAST_NS}");
    assert!(free.0 < LEAST_NS, "{measured:?} {LEAST_NS}");
}

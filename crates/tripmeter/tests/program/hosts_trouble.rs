//! Hosts that lack something, or disappear (`scripts/hosts.sh`).

use crate::common::{alone, manifest, plugin};
use crate::hosts::{Lab, good, text, whole};
use tripmeter_model::figure::Figure;
use tripmeter_model::manifest::RunStatus;
use tripmeter_model::metric::Stream;

#[test]
fn a_plugin_that_is_missing_or_another_there_is_named_before_anything_is_measured() {
    let _alone = alone();
    let lab = Lab::new(1);
    let folder = plugin("trouble").parent().expect("it is in a folder").display().to_string();
    let Some(output) = lab.run(&format!(
        r#"
        there() {{
            rm "$TRIPMETER_HOSTS/bin/tripmeter"
            printf '#!/bin/sh\nTRIPMETER_TRANSPORTS=%s exec %s "$@"\n' "$1" "$T" >"$TRIPMETER_HOSTS/bin/tripmeter"
            chmod +x "$TRIPMETER_HOSTS/bin/tripmeter"
            TRIPMETER_TRANSPORTS={folder}/far-1 "$T" ping tcp trouble --to h1 --payloads 1k -n 10 --no-spin --no-report \
                -o "$R/none" 2>&1
            echo "code $?"
        }}
        there /nowhere
        there {folder}/far-2
        test ! -e "$R/none" || echo "a results folder was made""#,
    )) else {
        return;
    };
    good(&output);
    let said = text(&output.stdout);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!((lines.len(), lines[1], lines[3]), (4, "code 69", "code 69"), "{said}");
    let begins = "tripmeter: host 'h1': transport 'trouble/stream' cannot be measured there: ";
    let lacking = "it has no such transport; install it there, or copy its plugin with --push";
    let other = "it has version 2.0.0 there, but 1.0.0 here; install the same there, or copy ours with --push";
    assert_eq!([lines[0], lines[2]], [lacking, other].map(|why| format!("{begins}{why}")), "{said}");
}

#[test]
fn a_host_that_goes_away_ends_its_sub_experiment_and_what_was_measured_before_stays() {
    let _alone = alone();
    let lab = Lab::new(2);
    let Some(output) = lab.run(
        r#"
        # The first process of a host: the kernel ends all others with it.
        run() {
            "$T" "$1" tcp udp --to $2 --payloads 1k,2k --rate 500 -n 4000 --no-spin --no-report -q -o "$R/$1" &
            run=$!
            until grep -q '"payload_bytes":1024' "$R/$1/trials.jsonl" 2>/dev/null; do kill -0 $run || exit 1; sleep 0.1; done
            before=$(carried $2)
            # A thousand messages of the second payload, with its warm-up: its rows are not written before its end.
            until [ $(($(carried $2) - before)) -gt 2048000 ]; do kill -0 $run || exit 1; sleep 0.1; done
            kill -9 "$(pgrep -f "sshd.* $TRIPMETER_HOSTS/$2.conf" | head -1)"
            ip link delete $2
            wait $run; echo "code $?"
            "$T" show "$R/$1" >/dev/null; echo "code $?"
        }
        run publish h1 & run call h2 & wait"#,
    ) else {
        return;
    };
    good(&output);
    let said = text(&output.stdout);
    let mut codes: Vec<&str> = said.lines().filter(|line| line.starts_with("code ")).collect();
    codes.sort_unstable();
    assert_eq!(codes, ["code 0", "code 0", "code 75", "code 75"], "{said}\n{}", text(&output.stderr));
    for (name, host, figure) in [("publish", "host 'h1'", Figure::Lost), ("call", "host 'h2'", Figure::Received)] {
        let gone = manifest(&lab.results(name));
        let [first, second] = &gone.sub_experiments[..] else { panic!("{:?}", gone.sub_experiments) };
        for one in [first, second] {
            let why = one.error.clone().unwrap_or_default();
            assert!(one.status == RunStatus::Failed && why.contains(host), "{}: {why}", one.name);
        }
        assert_eq!(first.cells[0].payload_bytes, 1024, "the payload before is kept");
        let under_way = first.cells.get(1).map(|cell| cell.trials[0].count(&Stream::all(), figure));
        // Arrivals at the lost host are unknown; answers are known.
        match figure {
            Figure::Lost => assert_eq!(under_way, None, "{name}"),
            _ => assert!(under_way.is_some_and(|count| count > 0), "{name}: {under_way:?}"),
        }
    }
}

#[test]
fn hosts_may_have_ipv6_only() {
    let _alone = alone();
    let lab = Lab::new(1);
    let Some(output) = lab.run(
        r#"set -e
        ip -4 address flush dev lab; ip -n h1 -4 address flush dev eth0
        for one in "ping --one-way" publish call "throughput --duration 0.2"; do
            "$T" $one tcp udp --to h1-v6 --payloads 1k -n 200 --no-spin --allow-loss --no-report -q -o "$R/${one%% *}"
        done"#,
    ) else {
        return;
    };
    good(&output);
    for name in ["ping", "publish", "call", "throughput"] {
        let host = &whole(&lab.results(name)).environment.hosts[0];
        assert_eq!((host.here.address.as_str(), host.there.address.as_str()), ("fd77::fe", "fd77::1"), "{name}");
    }
}

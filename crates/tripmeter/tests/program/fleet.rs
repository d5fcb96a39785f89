//! `fleet`: one command on several hosts, which are namespaces of this machine, each with an sshd (`scripts/hosts.sh`).

use crate::common::{alone, manifest, repository, say};
use crate::hosts::{Lab, good, text};
use std::path::Path;
use tripmeter_model::fleet::{Fleet, FleetState};
use tripmeter_model::manifest::RunStatus;

/// Writes `$R/HOSTS.toml` with hosts `h1` to `h$1`, and defines `fleet` with short measurements.
const START: &str = r#"
hosts() { for number in $(seq 1 "$1"); do printf '[[hosts]]\nname = "h%s"\n' "$number"; done >"$R/HOSTS.toml"; }
fleet() { "$T" fleet "$R/HOSTS.toml" "$@"; echo "code $?"; }
few="--payloads 1k -n 100 --no-spin --no-report"
left() {
    for host in h1 h2 h3; do
        ssh -F "$TRIPMETER_HOSTS/config" "$host" 'ls -d /tmp/tripmeter-fleet.* 2>/dev/null; pgrep -fa "^tripmeter (ping|remote)"'
    done
}
"#;

fn script(rest: &str) -> String {
    format!("{START}{rest}")
}

fn fleet(folder: &Path) -> Fleet {
    let text = std::fs::read_to_string(folder.join("fleet.json")).expect("there is a fleet.json");
    serde_json::from_str(&text).expect("it is one of ours")
}

#[track_caller]
fn codes(said: &str, expected: &[u8]) {
    let codes: Vec<u8> = said.lines().filter_map(|line| line.strip_prefix("code ")?.parse().ok()).collect();
    assert_eq!(codes, expected, "{said}");
}

fn names(fleet: &Fleet, state: FleetState) -> Vec<String> {
    fleet.jobs.iter().filter(|job| job.state == state).map(tripmeter_model::fleet::FleetJob::name).collect()
}

#[test]
fn all_pairs_are_measured_but_those_of_a_host_that_is_down_until_it_is_there() {
    let _alone = alone();
    let lab = Lab::new(3);
    let Some(output) = lab.run(&script(
        r#"
        hosts 3
        ip link set h3 down
        fleet -o "$R/lab" -- ping tcp udp $few
        cp "$R/lab/fleet.json" "$R/first.json"
        cksum <"$R/lab/h1--h2/manifest.json" >"$R/before"
        ip link set h3 up
        fleet -o "$R/lab" -- ping tcp udp $few 2>&1
        cksum <"$R/lab/h1--h2/manifest.json" | cmp - "$R/before" && echo "not measured again"
        fleet -o "$R/lab" --json -- ping tcp udp $few >"$R/json"
        left || true"#,
    )) else {
        return;
    };
    good(&output);
    let said = text(&output.stdout);
    codes(&said, &[75, 0]);
    assert!(said.contains("FAILED: h1--h3, h2--h3: host 'h3': ") && said.contains("not measured again"), "{said}");
    assert!(said.contains("2 of 2: ") && !said.contains("3 of 3: "), "{said}");
    assert!(!said.contains("tripmeter-fleet.") && !said.contains("tripmeter remote"), "{said}");
    let first = std::fs::read_to_string(lab.results("first.json")).unwrap();
    let first: Fleet = serde_json::from_str(&first).unwrap();
    assert_eq!(names(&first, FleetState::Measured), ["h1--h2"]);
    assert_eq!(names(&first, FleetState::Failed), ["h1--h3", "h2--h3"]);
    let folder = lab.results("lab");
    assert_eq!(names(&fleet(&folder), FleetState::Measured), ["h1--h2", "h1--h3", "h2--h3"]);
    for (name, from, to) in [("h1--h2", "10.77.0.1", "10.77.0.2"), ("h2--h3", "10.77.0.2", "10.77.0.3")] {
        let manifest = manifest(&folder.join(name));
        assert_eq!((manifest.status, manifest.sub_experiments.len()), (RunStatus::Complete, 2));
        let host = &manifest.environment.hosts[0];
        assert_eq!((host.here.address.as_str(), host.there.address.as_str()), (from, to));
    }
    let json = std::fs::read_to_string(lab.results("json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(json.trim_end().trim_end_matches("code 0")).unwrap();
    let medians = json["figures"].as_array().unwrap().iter().filter(|one| one["statistic"] == "p50");
    let pairs: Vec<String> = medians.map(|one| format!("{}--{}", one["from"], one["to"])).collect();
    assert_eq!(pairs.len(), 6, "{json:#}");
    let page = std::fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(page.contains("class=\"Scale\"") && !page.contains("h1--h3/report.html"), "--no-report is asked for");
}

#[test]
fn a_folder_that_is_replaced_ends_a_fleet_and_the_other_stays_as_it_is() {
    let _alone = alone();
    let lab = Lab::new(3);
    let Some(output) = lab.run(&script(
        r#"
        hosts 3
        mkdir "$R/other"
        echo finished | tee "$R/other/fleet.json" >"$R/other/report.html"
        "$T" fleet "$R/HOSTS.toml" -o "$R/lab" -- ping tcp --payloads 1k -n 2000 --rate 1000 --no-spin 2>&1 &
        run=$!
        until grep -q measured "$R/lab/fleet.json" 2>/dev/null; do kill -0 $run || exit 1; sleep 0.1; done
        until pgrep -f "^tripmeter ping" >/dev/null; do kill -0 $run || exit 1; sleep 0.1; done
        mv "$R/lab" "$R/away"
        mv "$R/other" "$R/lab"
        wait $run; echo "code $?"
        ls -A "$R/lab" | xargs echo names:
        cat "$R/lab/fleet.json" "$R/lab/report.html" | xargs echo texts:
        ls -A "$R/away" | grep fetched || true
        until [ -z "$(left)" ]; do sleep 0.1; done"#,
    )) else {
        return;
    };
    good(&output);
    let said = text(&output.stdout);
    codes(&said, &[73]);
    for part in ["so the command stopped", "names: fleet.json report.html", "texts: finished finished"] {
        assert!(said.contains(part), "{said}");
    }
    assert!(!said.contains(".fetched-"), "{said}");
}

#[test]
fn a_fleet_that_is_interrupted_leaves_nothing_on_the_hosts_and_goes_on() {
    let _alone = alone();
    let lab = Lab::new(3);
    let Some(output) = lab.run(&script(
        r#"
        hosts 3
        "$T" fleet "$R/HOSTS.toml" -o "$R/lab" -- ping tcp --payloads 1k -n 2000 --rate 1000 --no-spin &
        run=$!
        until grep -q measured "$R/lab/fleet.json" 2>/dev/null; do kill -0 $run || exit 1; sleep 0.1; done
        until pgrep -f "^tripmeter ping" >/dev/null; do kill -0 $run || exit 1; sleep 0.1; done
        kill -INT $run
        wait $run; echo "code $?"
        cp "$R/lab/fleet.json" "$R/first.json"
        until [ -z "$(left)" ]; do sleep 0.1; done
        mkdir "$R/lab/.fetched-killed"
        fleet -o "$R/lab" -- ping tcp --payloads 1k -n 2000 --rate 1000 --no-spin
        ls -A "$R/lab""#,
    )) else {
        return;
    };
    good(&output);
    let said = text(&output.stdout);
    codes(&said, &[130, 0]);
    let first = std::fs::read_to_string(lab.results("first.json")).unwrap();
    let first: Fleet = serde_json::from_str(&first).unwrap();
    let measured = names(&first, FleetState::Measured).len();
    assert!((1..3).contains(&measured) && names(&first, FleetState::Failed).is_empty(), "{first:?}");
    assert_eq!(names(&fleet(&lab.results("lab")), FleetState::Measured).len(), 3);
    let waiting = format!("interrupted: {} of 3 are not measured yet; repeat the command with `-o ", 3 - measured);
    assert!(text(&output.stderr).contains(&waiting), "{}", text(&output.stderr));
    assert!(!said.contains(".fetched-"), "{said}");
}

#[test]
fn hosts_by_themselves_a_star_and_an_experiment_file() {
    let _alone = alone();
    let lab = Lab::new(3);
    let Some(output) = lab.run(&script(
        r#"
        hosts 3
        printf 'payloads = "1k"\nsamples = 100\n[[sub_experiment]]\ntransport = "uds"\n' >"$R/mine.toml"
        fleet --mode hosts --jobs 2 -q -o "$R/hosts" -- run "$R/mine.toml" --no-spin
        rm "$TRIPMETER_HOSTS/bin/tripmeter"
        fleet --mode star --center h2 --both-ways --push -o "$R/star" -- publish tcp $few 2>&1"#,
    )) else {
        return;
    };
    good(&output);
    let said = text(&output.stdout);
    codes(&said, &[0, 0]);
    assert_eq!(names(&fleet(&lab.results("hosts")), FleetState::Measured), ["h1", "h2", "h3"]);
    let one = manifest(&lab.results("hosts").join("h2"));
    assert_eq!(one.plan.source, "./mine.toml");
    let star = fleet(&lab.results("star"));
    assert_eq!(names(&star, FleetState::Measured), ["h2--h1", "h1--h2", "h2--h3", "h3--h2"]);
    let copied = said.lines().filter(|line| line.starts_with("copied this program")).count();
    assert_eq!(copied, 3, "once to each host: {said}");
}

#[test]
fn pairs_are_measured_as_jobs_of_slurm() {
    let _alone = alone();
    if !repository().join("target/tools/slurm/usr/sbin/slurmctld-wlm").exists() {
        say("SKIPPED: slurm: scripts/install-middleware.sh --slurm gets it");
        return;
    }
    let lab = Lab::new(2);
    let run = r##"
        hosts 2
        printf '[[hosts]]\nname = "nobody"\n' >>"$R/HOSTS.toml"
        export few
        "$SLURM" sh -uc '
            "$T" fleet "$R/HOSTS.toml" --scheduler slurm -o "$R/lab" -- ping tcp $few; echo "code $?"
            squeue -h -o "job %A %T"; scontrol show job | grep -E "NodeList|JobName"
            rm "$TRIPMETER_HOSTS/bin/tripmeter"
            "$T" fleet "$R/HOSTS.toml" --scheduler slurm -o "$R/none" -- ping tcp $few 2>&1
            printf "#!/bin/sh\necho tripmeter 0.0.9\n" >"$TRIPMETER_HOSTS/bin/tripmeter"
            chmod +x "$TRIPMETER_HOSTS/bin/tripmeter"
            "$T" fleet "$R/HOSTS.toml" --scheduler slurm -o "$R/other" -- ping tcp $few 2>&1
            true'"##;
    let slurm = format!("SLURM='{}'\n", repository().join("scripts/slurm.sh").display());
    let Some(output) = lab.run(&(slurm + &script(run))) else {
        return;
    };
    good(&output);
    let said = text(&output.stdout);
    codes(&said, &[75]);
    let fleet = fleet(&lab.results("lab"));
    assert_eq!(names(&fleet, FleetState::Measured), ["h1--h2"], "{said}\n{}", text(&output.stderr));
    assert_eq!(names(&fleet, FleetState::Failed), ["h1--nobody", "h2--nobody"]);
    assert!(said.contains("NodeList=h[1-2]") && said.contains("JobName=tripmeter"), "{said}");
    assert!(!said.contains("RUNNING") && said.contains("Invalid node name"), "{said}");
    assert!(said.contains("host 'h1': no tripmeter there; install it into the path of its jobs"), "{said}");
    assert!(said.contains("host 'h1': it has 'tripmeter 0.0.9', this host 'tripmeter "), "{said}");
}

#[test]
fn what_is_wrong_is_said_in_one_line_before_any_host_is_reached() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let hosts = folder.path().join("HOSTS.toml");
    let two = "[[hosts]]\nname = \"a\"\n[[hosts]]\nname = \"b\"\n";
    let run = |text: &str, words: &[&str]| {
        std::fs::write(&hosts, text).unwrap();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tripmeter"));
        command.env("TRIPMETER_SSH", "false").current_dir(folder.path()).args(["fleet", "HOSTS.toml"]).args(words);
        let output = command.output().unwrap();
        (output.status.code().unwrap(), crate::hosts::text(&output.stderr))
    };
    std::fs::write(folder.path().join("to.toml"), "to = [\"b\"]\n[[sub_experiment]]\ntransport = \"tcp\"\n").unwrap();
    for (text, words, code, part) in [
        ("[[hosts]]\nname = 1\n", &["--", "ping"][..], 65, "line 2, column 8: 'hosts[0].name': found 1, expected"),
        ("[[hosts]]\nname = \"a\"\n", &["--", "ping"], 65, "a pair needs two hosts, but there is only 1"),
        (&format!("{two}ssh = \"a\"\n"), &["--", "ping"], 65, "host 'b': 'a' is also the ssh destination"),
        (two, &["--", "show", "x"], 64, "'show' is not a measuring command"),
        (two, &["--", "ping", "--payload"], 64, "after '--': unexpected argument '--payload'"),
        (two, &["--", "ping", "-h"], 64, "after '--': fleet does not show"),
        (two, &["--", "ping", "--to", "b"], 64, "after '--': --to does not apply"),
        (two, &["--", "ping", "-o", "x"], 64, "after '--': --output does not apply"),
        (two, &["--", "run", "x.toml"], 66, "'x.toml' cannot be read"),
        (two, &["--mode", "hosts", "--", "run", "to.toml"], 65, "has `to`, but fleet chooses"),
        (two, &["--center", "b", "--", "ping"], 64, "--center requires --mode star"),
        (two, &["--mode", "star", "--center", "c", "--", "ping"], 64, "there is no host 'c'; choose from a, b"),
        (two, &["--figures", "x", "--", "ping"], 64, "no figure 'x'"),
        (two, &["--push", "--", "ab", "tcp"], 64, "--push cannot find the plugins that 'ab' needs"),
    ] {
        let (found, said) = run(text, words);
        assert!(found == code && said.contains(part) && said.lines().count() == 1, "{words:?}: {found}: {said}");
    }
    assert!(!folder.path().join("results").exists(), "nothing is made");
    let (code, said) = run(two, &["-q", "-o", "lab", "--", "ping", "tcp"]);
    assert!(code == 69 && said.contains("host 'a' is left out"), "{code}: {said}");
    let (code, said) = run(two, &["-q", "-o", "lab", "--", "ping", "udp"]);
    assert!(code == 65 && said.contains("'lab' belongs to another command"), "{code}: {said}");
    std::fs::create_dir(folder.path().join("other")).unwrap();
    std::fs::write(folder.path().join("other/file"), "").unwrap();
    let (code, said) = run(two, &["-o", "other", "--", "ping", "tcp"]);
    assert!(code == 73 && said.contains("has files that are not results of a fleet"), "{code}: {said}");
}

//! Hosts that lie, flood and disconnect. Each is a folder of this machine, which a script in place of ssh enters.

use crate::common::{alone, folder};
use crate::hosts::{Lab, good, text};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use tripmeter_model::fleet::{Fleet, FleetState};

/// Replacement for ssh: the command `$*` runs in `$host`.
const SSH: &str = r#"#!/bin/sh
while [ "$1" != -- ]; do shift; done
host=$LAB/$2
shift 2
mkdir -p "$host/tmp"
export TMPDIR=$host/tmp XDG_CACHE_HOME=$host/cache PATH=$host/bin:/usr/bin:/bin
unset SSH_CONNECTION
[ ! -e "$host/hook" ] || . "$host/hook"
exec sh -c "$*"
"#;
const LITTLE: [&str; 10] = ["--", "ping", "uds", "-n", "50", "--payloads", "1k", "--wait", "block", "--no-spin"];

pub struct ScriptedHosts(pub TempDir);

impl ScriptedHosts {
    /// Hosts with this program in their path.
    pub fn new(names: &[&str]) -> Self {
        let hosts = Self(folder());
        hosts.program("ssh", SSH);
        let entries: String = names.iter().map(|name| format!("[[hosts]]\nname = \"{name}\"\n")).collect();
        std::fs::write(hosts.path("HOSTS.toml"), entries).unwrap();
        for name in names {
            std::fs::create_dir_all(hosts.path(name).join("bin")).unwrap();
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_tripmeter"), hosts.path(name).join("bin/tripmeter"))
                .unwrap();
        }
        hosts
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn program(&self, name: &str, script: &str) {
        let file = self.path(name);
        // The file may be a link to the true program.
        let _ = std::fs::remove_file(&file);
        std::fs::write(&file, script).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub fn run(&self, words: &[&str]) -> (i32, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tripmeter"));
        command.args(words).current_dir(self.0.path()).env("LAB", self.0.path());
        command.env("REAL", env!("CARGO_BIN_EXE_tripmeter")).env("TRIPMETER_SSH", self.path("ssh"));
        let output = command.output().unwrap();
        (output.status.code().unwrap(), text(&output.stderr))
    }

    fn fleet(&self, flags: &[&str], command: &[&str]) -> (i32, String) {
        self.run(&[&["fleet", "HOSTS.toml", "--mode", "hosts", "-q", "-o", "lab"], flags, command].concat())
    }

    fn noted(&self) -> Vec<(FleetState, Option<u8>)> {
        let fleet = std::fs::read(self.path("lab/fleet.json")).unwrap();
        let fleet: Fleet = serde_json::from_slice(&fleet).unwrap();
        fleet.jobs.iter().map(|job| (job.state, job.exit_code)).collect()
    }

    fn files(&self, name: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(name)).into_iter().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap()
}

#[test]
fn a_copy_that_breaks_off_is_not_taken_for_whole() {
    let hosts = ScriptedHosts::new(&["a"]);
    std::fs::remove_file(hosts.path("a/bin/tripmeter")).unwrap();
    let hook = r#"case $* in *"cat >"*) [ ! -e "$LAB/break" ] || { head -c 1000 | sh -c "$*"; exit; } ;; esac"#;
    std::fs::write(hosts.path("a/hook"), hook).unwrap();
    std::fs::write(hosts.path("break"), "").unwrap();
    let (code, said) = hosts.fleet(&["--push"], &LITTLE);
    assert!(code == 69 && said.contains("host 'a' is left out: the copy broke off; run it again"), "{code}: {said}");
    assert_eq!(hosts.files("a/cache/tripmeter"), ["files"]);
    assert_eq!(hosts.files("a/cache/tripmeter/files"), [""; 0], "nothing of the copy is left");
    std::fs::write(hosts.path("a/hook"), r#"case $* in *"cat >"*) ulimit -f 1000 ;; esac"#).unwrap();
    let (code, said) = hosts.fleet(&["--push"], &LITTLE);
    assert!(code == 69 && said.contains("host 'a' is left out: "), "{code}: {said}");
    assert_eq!(hosts.files("a/cache/tripmeter/files"), [""; 0], "nothing is left where there is no room");
    // The file that exists is complete, and is copied once.
    std::fs::write(hosts.path("a/hook"), r#"case $* in *"cat >"*) echo >>"$LAB/copied" ;; esac"#).unwrap();
    let (code, said) = hosts.fleet(&["--push"], &LITTLE);
    assert_eq!((code, hosts.noted()), (0, vec![(FleetState::Measured, Some(0))]), "{said}");
    let size = |file: &Path| file.metadata().unwrap().len();
    let [content] = &hosts.files("a/cache/tripmeter/files")[..] else { panic!("one file is copied") };
    let content = hosts.path(&format!("a/cache/tripmeter/files/{content}"));
    assert_eq!(size(&content), size(Path::new(env!("CARGO_BIN_EXE_tripmeter"))));
    std::fs::remove_dir_all(hosts.path("lab")).unwrap();
    let (code, said) = hosts.fleet(&["--push"], &LITTLE);
    assert_eq!((code, read(&hosts.path("copied")).len()), (0, 1), "{said}");
}

#[test]
fn a_fleet_that_was_killed_around_a_rename_goes_on_and_keeps_what_is_there() {
    let hosts = ScriptedHosts::new(&["a", "b", "c"]);
    let (code, said) = hosts.fleet(&[], &LITTLE);
    assert_eq!((code, hosts.noted()), (0, vec![(FleetState::Measured, Some(0)); 3]), "{said}");
    let kept = ["b", "c"].map(|name| read(&hosts.path(&format!("lab/{name}/manifest.json"))));
    // State after a kill between recording `a` and renaming its results; `b` was left out of HOSTS.toml for a while.
    std::fs::create_dir(hosts.path("lab/.fetched-killed")).unwrap();
    std::fs::rename(hosts.path("lab/a"), hosts.path("lab/.fetched-killed/results")).unwrap();
    let mut fleet: Fleet = serde_json::from_str(&read(&hosts.path("lab/fleet.json"))).unwrap();
    fleet.jobs[1].state = FleetState::Waiting;
    std::fs::write(hosts.path("lab/fleet.json"), serde_json::to_string(&fleet).unwrap()).unwrap();
    let (code, said) = hosts.fleet(&[], &LITTLE);
    assert_eq!(code, 0, "{said}");
    assert!(hosts.noted().iter().all(|(state, _)| *state == FleetState::Measured));
    assert_eq!(["b", "c"].map(|name| read(&hosts.path(&format!("lab/{name}/manifest.json")))), kept);
    assert_eq!(hosts.files("lab"), [".lock", "a", "b", "c", "fleet.json", "report.html"]);
}

#[test]
fn a_page_that_a_host_has_sent_is_replaced_by_one_of_its_data() {
    let hosts = ScriptedHosts::new(&["a"]);
    let script = r#"#!/bin/sh
"$REAL" "$@"
code=$?
[ ! -d results ] || {
    rm -f results/report.html; mkdir results/report.html results/plots
    for page in report.html/index.html index.html plots/a.svg samples/index.html; do echo evil >results/$page; done
}
exit $code
"#;
    hosts.program("a/bin/tripmeter", script);
    let (code, said) = hosts.fleet(&[], &LITTLE);
    assert_eq!(code, 0, "{said}");
    let page = read(&hosts.path("lab/a/report.html"));
    assert!(page.contains("uds/"), "it is of its data");
    let own = ["audit.json", "histograms", "manifest.json", "metrics.csv", "report.html", "samples", "trials.jsonl"];
    assert_eq!(hosts.files("lab/a"), own);
    assert_eq!(hosts.files("lab/a/samples"), ["floor_shm_ring_block.csv", "uds_datagram_block.csv"]);
    assert!(!page.contains("evil") && read(&hosts.path("lab/report.html")).contains("href=\"a/report.html\""));
    std::fs::remove_dir_all(hosts.path("lab")).unwrap();
    let (code, said) = hosts.fleet(&[], &[&LITTLE[..], &["--no-report"]].concat());
    assert_eq!(code, 0, "{said}");
    assert!(!hosts.path("lab/a/report.html").exists());
    assert!(!read(&hosts.path("lab/report.html")).contains("a/report.html"));
}

#[test]
fn a_host_that_names_the_address_of_another_one_gets_no_messages() {
    let hosts = ScriptedHosts::new(&["a"]);
    std::fs::write(hosts.path("a/hook"), "export SSH_CONNECTION='127.0.0.1 40000 127.0.0.2 22'\n").unwrap();
    let (code, said) = hosts.run(&["ping", "tcp", "--to", "a", "-n", "10", "--no-report", "-o", "none"]);
    let why = "host 'a': it reports that ssh reaches it at 127.0.0.2:22 from 127.0.0.1:40000, but there is no such \
               connection here; name its address or interface by --to-interface";
    assert!(code == 64 && said.contains(why), "{code}: {said}");
    assert!(!hosts.path("none").exists());
}

#[test]
fn a_flood_of_errors_and_a_line_without_end_fill_neither_terminal_nor_memory() {
    let hosts = ScriptedHosts::new(&["a"]);
    let flood = "yes noise | head -n 100000 >&2; head -c 50000000 /dev/zero | tr '\\0' x >&2; echo >&2; exit 3\n";
    std::fs::write(hosts.path("a/hook"), flood).unwrap();
    let (code, said) = hosts.run(&["ping", "tcp", "--to", "a", "-n", "10", "--no-report", "-o", "none"]);
    let is_why = said.starts_with("tripmeter: host 'a': x") && said.trim_end().ends_with("x … and 49995905 bytes more");
    assert!(code == 69 && is_why && said.lines().count() == 1, "{code}: {}", said.len());
    let (code, said) = hosts.fleet(&[], &LITTLE);
    assert!(code == 69 && said.lines().count() <= 6 && said.len() < 100_000, "{code}: {}", said.len());
}

#[test]
fn a_follower_that_names_the_link_of_a_third_host_gets_no_payload() {
    let _alone = alone();
    let lab = Lab::new(2);
    // The address of a link, which `h1` sends as bytes of text, is changed to one of `h2`.
    let Some(output) = lab.run(
        r#"
        real=$(readlink -f "$TRIPMETER_HOSTS/bin/tripmeter")
        rm "$TRIPMETER_HOSTS/bin/tripmeter"
        printf '#!/bin/sh\nif [ "$1" = remote ]; then %s "$@" | sed -u "/Opened/s/46,49,58/46,50,58/"; else exec %s "$@"; fi\n' \
            "$real" "$real" >"$TRIPMETER_HOSTS/bin/tripmeter"
        chmod +x "$TRIPMETER_HOSTS/bin/tripmeter"
        counted() { ip netns exec h2 awk '/^Udp:/ { getline; print $2 + $3; exit }' /proc/net/snmp; }
        before=$(counted)
        "$T" ping udp --to h1 --payloads 1k -n 100 --no-spin --no-report -o "$R/r" 2>&1; echo "code $?"
        echo "came $(($(counted) - before))""#,
    ) else {
        return;
    };
    good(&output);
    let said = text(&output.stdout);
    assert!(
        said.contains("messages would go to 10.77.0.2:") && said.contains("which is not an address of h1"),
        "{said}"
    );
    let came: u64 = said.lines().find_map(|line| line.strip_prefix("came ")?.parse().ok()).unwrap();
    assert!(said.contains("code 75") && came < 10, "more than what it connects by: {said}");
}

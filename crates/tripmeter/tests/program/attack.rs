//! A hostile user during runs (`tests/security`), and secrets in results.

use crate::common::{Tripmeter, built, folder, repository, say};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tripmeter_model::exit;

/// Measures variants in separate namespaces, with the hostile user active before and during each run. `None`, with a
/// message, if there can be no namespaces.
fn attacked(variants: &[&str]) -> Option<Output> {
    let isolated = repository().join("scripts/isolated.sh");
    if !Command::new(&isolated).arg("--check").status().unwrap().success() {
        say("SKIPPED: a hostile user: there are no namespaces of our own");
        return None;
    }
    let mut attack = Command::new(isolated);
    attack.arg("python3").arg(repository().join("tests/security/exposure.py")).arg(env!("CARGO_BIN_EXE_tripmeter"));
    attack.arg("--attack").args(variants);
    if std::env::var_os("TRIPMETER_TRANSPORTS").is_none() {
        attack.env("TRIPMETER_TRANSPORTS", repository().join("target/transports"));
    }
    Some(attack.output().unwrap())
}

fn are_unharmed(variants: &[&str]) {
    let Some(output) = attacked(variants) else { return };
    let [said, errors] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    errors.lines().filter(|line| line.starts_with("REDUCED: ")).for_each(say);
    assert!(output.status.success(), "{said}{errors}");
    for variant in variants {
        assert!(said.lines().any(|line| line.starts_with(&format!("{variant}: ")) && line.ends_with(": ok")), "{said}");
    }
}

#[test]
fn a_hostile_user_neither_reads_nor_changes_nor_stops_what_is_built_in() {
    are_unharmed(&["shm/ring", "uds/datagram", "uds/stream", "mq/queue", "pipe/fifo", "tcp/loopback", "udp/loopback"]);
    // Its socket is not connected.
    are_unharmed(&["udp/loopback --publishers 2"]);
}

/// One transport per mechanism: a library's sockets, TLS, a broker, open shared memory, discovery, and a library that
/// waits for silent peers.
#[test]
fn nor_what_libraries_carry() {
    let variants = [
        "zeromq/ipc",
        "http/http1",
        "mqtt/embedded",
        "iceoryx2/publish-subscribe",
        "fastdds/shm",
        "ecal/shm",
        "zenoh/tcp",
    ];
    let here: Vec<&str> =
        variants.into_iter().filter(|name| built(name.split('/').next().unwrap()).is_some()).collect();
    if !here.is_empty() {
        are_unharmed(&here);
    }
}

/// `scripts/isolated.sh` mounts the clone below `/tmp`, where other tests change it during an attacked run.
#[test]
fn files_of_a_mounted_clone_are_not_of_the_run() {
    let isolated = repository().join("scripts/isolated.sh");
    if !Command::new(&isolated).arg("--check").status().unwrap().success() {
        say("SKIPPED: a mounted clone: there are no namespaces of our own");
        return;
    }
    let exposure = format!("python3 '{}'", repository().join("tests/security/exposure.py").display());
    let script = format!(
        "mkdir /tmp/clone && mount -n -t tmpfs none /tmp/clone && chmod 755 /tmp/clone
         (until [ -e /tmp/ended ]; do date > /tmp/clone/$(date +%N); sleep 0.1; done) &
         {exposure} '{}' --attack uds/datagram; code=$?; : > /tmp/ended; wait; exit $code",
        env!("CARGO_BIN_EXE_tripmeter")
    );
    let output = Command::new(isolated).args(["sh", "-c", &script]).output().unwrap();
    let [said, errors] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success() && said.contains("uds/datagram: "), "{said}{errors}");
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn results_keep_nothing_of_the_environment() {
    let (place, secret) = (folder(), "hunter2-of-the-environment");
    let words = "ping uds/stream shm -q --wait block -n 20 --payloads 16 --rounds 2 --raw samples,eprosima -o results";
    let run = Tripmeter::new(words.split(' ')).at(place.path()).environment("SERVICE_PASSWORD", secret);
    run.environment("HTTPS_PROXY", &format!("http://user:{secret}@proxy")).run().with(exit::GOOD);
    let files = files(&place.path().join("results"));
    assert!(files.len() > 5, "{files:?}");
    for file in files {
        let bytes = fs::read(&file).unwrap();
        let holds = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
        assert!(!holds, "{}", file.display());
    }
}

/// Covers every way into results: variables, settings on the command line and in a file, and hosts.
#[test]
fn what_results_would_keep_must_not_be_a_secret() {
    let refused = |words: &[&str], parts: &[&str]| {
        let code = if words[0] == "run" { exit::DATA } else { exit::USAGE };
        let ended = Tripmeter::new(words).run().with(code).says(parts);
        assert!(
            !ended.stderr.lines().any(|line| line.contains("hunter2") && !line.contains("invalid value")),
            "{words:?}"
        );
    };
    for key in ["DB_PASSWORD", "github_token", "AWS_SECRET_ACCESS_KEY", "TLS_PRIVATE_KEY"] {
        let variable = format!("{key}=hunter2");
        refused(&["ab", "uds", "uds", "--env-b", &variable], &[&format!("{key} looks like a secret")]);
    }
    refused(&["ab", "uds", "uds", "--env-a", "PROXY=http://me:hunter2@proxy"], &["a user with a password"]);
    // Also for unknown settings and systems, because results also list what cannot run.
    for transport in ["uds?password=hunter2", "nothing?api_key=hunter2", "mqtt?host=me:hunter2@broker"] {
        refused(&["ping", "shm", transport], &["results would record it", "a file or the environment"]);
    }
    refused(&["ping", "tcp", "--to", "me:hunter2@host"], &["has a password", "log in with a key"]);
    let place = folder();
    let file = place.path().join("mine.toml");
    for (head, sub) in [("settings = { token = \"hunter2\" }", "uds"), ("", "uds?token=hunter2")] {
        let text = format!("{head}\n[[sub_experiment]]\ntransport = \"{sub}\"\npattern = \"ping\"\n");
        fs::write(&file, text).unwrap();
        refused(&["run", &file.display().to_string()], &["token looks like a secret"]);
    }
}

/// Lets another user take names in separate namespaces, and measures there; if refused, runs `after`. `None`, with a
/// message, if that is not possible.
fn with_taken(take: &str, measured: &str, after: &str) -> Option<(Option<i32>, String)> {
    let isolated = repository().join("scripts/isolated.sh");
    let system = measured.split(['/', '?']).next().unwrap();
    if built(system).is_none() || user() != 0 || !Command::new(&isolated).arg("--check").status().unwrap().success() {
        say(&format!(
            "SKIPPED: taken names of {system}: it is not here, or no other user, or no namespaces of our own"
        ));
        return None;
    }
    let stranger = format!("setpriv --reuid=65534 --regid=65534 --clear-groups sh -c 'umask 0; {take}'");
    let words = "-q --no-floor --no-spin --payloads 64 -n 10 -o /tmp/results";
    let run = format!("'{}' ping '{measured}' {words}", env!("CARGO_BIN_EXE_tripmeter"));
    let script = format!("{stranger} && {run}; code=$?; rm -rf /tmp/results; {after}; exit $code");
    let output = Command::new(&isolated).args(["sh", "-c", &script]).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).split_whitespace().collect::<Vec<_>>().join(" ");
    Some((output.status.code(), text(&output.stdout) + &text(&output.stderr)))
}

/// The error of the run names the taken file and its owner; a link is not followed, and nothing is left behind.
#[test]
fn names_of_roudi_that_a_stranger_took_are_named() {
    // The last name belongs to the main group.
    let names =
        ["/tmp/roudi", "/tmp/roudi.lock", "/tmp/iox-unique-roudi.lock", "/dev/shm/iceoryx_mgmt", "/dev/shm/root"];
    let cases = names.map(|name| (format!(": > {name}"), name.to_owned()));
    let link = ("ln -s /tmp/made /tmp/iox-unique-roudi.lock".to_owned(), "/tmp/iox-unique-roudi.lock".to_owned());
    for (take, name) in cases.into_iter().chain([link]) {
        let left = "echo left: $(ls -A /tmp /dev/shm)";
        let Some((code, said)) = with_taken(&take, "iceoryx", left) else { return };
        assert_eq!(code, Some(i32::from(exit::UNAVAILABLE)), "{take}: {said}");
        assert!(said.contains(&name) && said.contains("is of user 65534"), "{take}: {said}");
        let (folder, file) = name.rsplit_once('/').unwrap();
        let both = if folder == "/tmp" { format!("/dev/shm: /tmp: {file}") } else { format!("/dev/shm: {file} /tmp:") };
        assert!(said.contains(&format!("left: {both}")), "{take}: {said}");
    }
}

/// A run chooses a domain without taken names. A domain requested explicitly is refused.
#[test]
fn names_of_fast_dds_that_a_stranger_took_are_avoided_or_named() {
    // Names of domain 0, where the search begins, and of domain 4.
    let take = ": > /dev/shm/fastdds_port7000; : > /dev/shm/fastdds_port7001; : > /dev/shm/sem.fastdds_port8411_mutex; \
                : > /dev/shm/fastrtps_port8411";
    for (measured, refused) in [
        ("ros2/shm", None),
        ("ros2/shm?domain=6", None),
        ("ros2/shm?domain=4", Some("_port8411")),
        ("ros2/shm?domain=0", Some("/dev/shm/fastdds_port700")),
        ("fastdds/shm?domain=6", None),
        ("fastdds/shm?domain=4", Some("_port8411")),
    ] {
        let Some((code, said)) = with_taken(take, measured, "true") else { continue };
        let wanted = if refused.is_some() { exit::PARTIAL } else { exit::GOOD };
        let named = refused.is_none_or(|name| said.contains(name) && said.contains("is of user 65534"));
        assert!(code == Some(i32::from(wanted)) && named, "{measured}: {code:?} {said}");
    }
}

fn user() -> u32 {
    fs::metadata("/proc/self").unwrap().uid()
}

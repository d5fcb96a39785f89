//! ROS 2: independence of the environment, reachability of its sockets, and remains after a kill. Skipped with a
//! message if its plugin is missing.

use crate::common::traces::signal;
use crate::common::{Running, Tripmeter, alone, built, folder, manifest, plugin};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;
use tripmeter_model::exit;
use tripmeter_model::manifest::Verdict;

/// A run that continues until stopped, and its two workers, once they measure through Fast DDS's shared memory.
fn endless(results: &Path) -> (Running, [u32; 2]) {
    let before = shared_memory();
    let output = results.display().to_string();
    let words = ["ping", "-q", "--no-floor", "ros2/shm", "--wait", "block", "-n", "100000000", "-o", &output];
    let mut run = Tripmeter::new(words.iter().chain(&["--payloads", "16", "--raw", "none"])).start();
    run.until("their shared memory", |_| shared_memory().difference(&before).count() > 4);
    let workers = run.measuring();
    (run, workers)
}

fn shared_memory() -> BTreeSet<String> {
    let names = fs::read_dir("/dev/shm").unwrap().flatten().map(|entry| entry.file_name());
    names.map(|name| name.to_string_lossy().into_owned()).filter(|name| name.contains("fastdds")).collect()
}

#[test]
fn the_environment_has_no_say() {
    let _alone = alone();
    if built("ros2").is_none() {
        return;
    }
    let folder = folder();
    let (profile, results) = (folder.path().join("profile.xml"), folder.path().join("results"));
    let log = folder.path().join("log");
    fs::write(&profile, "<no profile>").unwrap();
    let environment = [
        "FASTDDS_BUILTIN_TRANSPORTS=UDPv4".to_owned(),
        format!("FASTDDS_DEFAULT_PROFILES_FILE={}", profile.display()),
        "RMW_FASTRTPS_USE_QOS_FROM_XML=1".to_owned(),
        "RCUTILS_LOGGING_USE_STDOUT=1".to_owned(),
        "ROS_AUTOMATIC_DISCOVERY_RANGE=OFF".to_owned(),
        "ROS_DISCOVERY_SERVER=127.0.0.1:11811".to_owned(),
        "ROS_DOMAIN_ID=500".to_owned(),
        "ROS_LOCALHOST_ONLY=1".to_owned(),
        format!("ROS_LOG_DIR={}", log.display()),
        "ROS_SECURITY_ENABLE=true".to_owned(),
        "ROS_SECURITY_STRATEGY=Enforce".to_owned(),
    ];
    let wrapper: Vec<&str> = ["env"].into_iter().chain(environment.iter().map(String::as_str)).collect();
    let output = results.display().to_string();
    let words = ["ping", "-q", "--no-floor", "ros2/shm,ros2/service", "--wait", "block", "-n", "100", "-o", &output];
    let rest = ["--payloads", "64k", "--attempts", "1", "--loss-timeout", "15"];
    let finished = Tripmeter::under(&wrapper, words.iter().chain(&rest)).run();
    finished.with(exit::GOOD).clean();
    for result in &manifest(&results).sub_experiments {
        let proof = result.path_proof.clone().unwrap();
        assert_eq!(proof.verdict, Verdict::Proven, "{}: {proof:?}", result.name);
        let said = fs::read_to_string(results.join(format!("logs/{}.log", result.name))).unwrap_or_default();
        assert!(said.trim().is_empty(), "{}: {said}", result.name);
    }
    assert!(!log.exists(), "log files in '{}'", log.display());
}

#[test]
fn variables_that_have_no_effect_are_noted() {
    let _alone = alone();
    if built("ros2").is_none() {
        return;
    }
    let folder = folder();
    let run = |wrapper: &[&str], results: &str| {
        let output = folder.path().join(results).display().to_string();
        let words = ["ping", "--no-floor", "ros2/shm,ros2/udp", "--wait", "block", "-n", "10", "-o", &output];
        let rest = ["--payloads", "64", "--attempts", "1", "--loss-timeout", "15"];
        Tripmeter::under(wrapper, words.iter().chain(&rest)).run().with(exit::GOOD).clean()
    };
    let told = run(&["env", "RMW_IMPLEMENTATION=rmw_cyclonedds_cpp", "ROS_DOMAIN_ID=42"], "told");
    let told = told.says(&["'ros2' ignores RMW_IMPLEMENTATION, ROS_DOMAIN_ID in the environment"]);
    assert_eq!(told.stderr.matches("in the environment").count(), 1, "{}", told.stderr);
    let silent = run(&["env", "-u", "RMW_IMPLEMENTATION", "-u", "ROS_DOMAIN_ID"], "silent");
    assert!(!silent.stderr.contains("RMW_IMPLEMENTATION"), "{}", silent.stderr);
}

/// Local addresses of a process's sockets that a peer could send to, as in `/proc/net`, without ports.
fn addresses(pid: u32) -> BTreeSet<String> {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let sockets: BTreeSet<String> = files
        .filter_map(|file| fs::read_link(file.path()).ok())
        .filter_map(|target| Some(target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let mut found = BTreeSet::new();
    for table in ["udp", "udp6", "tcp", "tcp6"] {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            if sockets.contains(fields[9]) {
                found.insert(fields[1].split(':').next().unwrap().to_owned());
            }
        }
    }
    found
}

#[test]
fn no_socket_is_open_to_other_hosts() {
    let _alone = alone();
    if built("ros2").is_none() {
        return;
    }
    let folder = folder();
    let (run, workers) = endless(&folder.path().join("results"));
    let found: Vec<_> = workers.into_iter().map(addresses).collect();
    run.signal("INT");
    run.wait(crate::common::LONGEST).with(exit::INTERRUPTED).clean();
    // 127.0.0.1, and 239.255.0.1, the multicast group of DDS, joined on the loopback.
    let expected: BTreeSet<String> = ["0100007F", "0100FFEF"].map(str::to_owned).into();
    assert_eq!(found, [expected.clone(), expected]);
}

#[test]
fn nothing_is_left_of_killed_processes() {
    let _alone = alone();
    if built("ros2").is_none() {
        return;
    }
    for supervisor_too in [false, true] {
        let before = shared_memory();
        let folder = folder();
        let (run, workers) = endless(&folder.path().join("results"));
        if supervisor_too {
            run.signal("KILL");
        } else {
            workers.into_iter().for_each(|worker| signal(worker, "KILL"));
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

/// If the lock of a port is held too long, Fast DDS waits forever for one of its threads, or crashes; see
/// `lock_holder.c`.
#[test]
fn a_closing_that_does_not_end_is_left_to_the_end_of_the_process() {
    let _alone = alone();
    if built("ros2").is_none() {
        return;
    }
    let preload = format!("LD_PRELOAD={}", plugin("trouble").with_file_name("lock_holder.so").display());
    let killed = ["the follower has gone; the follower process was ended by signal 9 (kill)"];
    let cases =
        [("stalled", exit::GOOD, "leader has not closed within"), ("killed", exit::PARTIAL, "leader is not closed")];
    for (holder, code, left) in cases {
        let folder = folder();
        let (results, holder) = (folder.path().join("results"), format!("LOCK_HOLDER={holder}"));
        let output = results.display().to_string();
        let words = ["ping", "-q", "--no-floor", "ros2/service", "--wait", "block", "-n", "1000", "-o", &output];
        let rest = ["--payloads", "1k", "--attempts", "1", "--loss-timeout", "15"];
        let wrapper = ["env", "--default-signal=INT", &preload, &holder];
        let finished = Tripmeter::under(&wrapper, words.iter().chain(&rest)).run().with(code);
        if code == exit::GOOD {
            finished.clean()
        } else {
            finished.says(&killed).clean()
        };
        let log = fs::read_to_string(results.join("logs/ros2_service_block.log")).unwrap();
        assert_eq!(log.matches(&format!("Fast DDS of the {left}")).count(), 1, "{log}");
        let manifest = manifest(&results);
        let [cell] = &manifest.sub_experiments[0].cells[..] else { panic!("{manifest:?}") };
        assert_eq!(cell.samples == 1000, code == exit::GOOD, "what was measured before is kept: {cell:?}");
        assert!(cell.samples > 0, "{cell:?}");
    }
}

#[test]
fn what_cannot_go_together_is_refused_by_the_plan() {
    if built("ros2").is_none() {
        return;
    }
    for (transport, parts) in [
        ("ros2/service?reliability=best_effort", ["services are reliable", "topics"]),
        ("ros2/udp?reliability=often", ["reliability=often", "best_effort or reliable"]),
        ("ros2/udp?domain=233", ["domain=233", "0 to 232"]),
        ("ros2/shm?segment_size=1", ["segment_size=1", "131072"]),
        ("ros2/shm?fragment_size=1000000", ["fragment_size=1000000", "raise segment_size"]),
    ] {
        let words = ["ping", transport, "-n", "10", "--payloads", "16"];
        Tripmeter::new(words).run().with(exit::USAGE).one_line(&parts).clean();
    }
    let words = ["ping", "ros2/shm?reliability=best_effort", "-n", "10", "--payloads", "1M"];
    Tripmeter::new(words).run().with(exit::USAGE).one_line(&["1048576 bytes", "262144 bytes"]).clean();
}

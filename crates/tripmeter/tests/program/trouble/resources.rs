//! Limits of the machine: message queues, shared memory, disk.

use crate::common::samples::sample_payloads;
use crate::common::{Tripmeter, alone, built, folder, manifest, result, say};
use std::path::{Path, PathBuf};
use std::process::Command;
use tripmeter_model::exit;
use tripmeter_model::kernel_queue::{KernelQueues, QueueKind, QueueSide};
use tripmeter_model::manifest::RunStatus;

#[test]
fn limits_of_message_queues_are_reported_with_need_and_remedy() {
    let folder = folder();
    let run = |limit: &str, transport: &str| {
        let words = ["ping", transport, "--no-floor", "-n", "10", "--payloads", "16", "-o"];
        let results = folder.path().join("results").display().to_string();
        Tripmeter::under(&["prlimit", limit], words.iter().chain(&[results.as_str()])).run()
    };
    let finished = run("--msgqueue=4096", "mq").with(exit::USAGE);
    finished.one_line(&["'mq'", "RLIMIT_MSGQUEUE", "4096", "ulimit -q"]).clean();
    let finished = run("--msgqueue=30000", "mq?depth=10").with(exit::USAGE);
    finished.one_line(&["'mq?depth=10'", "RLIMIT_MSGQUEUE", "30000", "ulimit -q", "'depth'"]).clean();
    assert!(!folder.path().join("results").exists());
    let sysctl = std::fs::read_to_string("/proc/sys/fs/mqueue/msg_max").unwrap();
    let too_deep = sysctl.trim().parse::<u64>().unwrap() + 1;
    let finished = run("--msgqueue=30000", &format!("mq?depth={too_deep}")).with(exit::USAGE);
    finished.one_line(&["fs.mqueue.msg_max", &format!("depth={too_deep}")]).clean();
}

#[test]
fn a_transport_that_cannot_run_here_is_left_out_and_the_others_are_measured() {
    let folder = folder();
    let file = folder.path().join("mine.toml");
    let entries = ["mq", "uds"].map(|system| format!("[[sub_experiment]]\ntransport = \"{system}\"\n"));
    std::fs::write(&file, format!("samples = 10\npayloads = \"1k\"\nfloor = false\n{}", entries.concat())).unwrap();
    let file = file.display().to_string();
    let commands: [&[&str]; 4] = [
        &["ping", "mq", "uds", "--no-floor", "-n", "10", "--payloads", "1k"],
        &["publish", "uds", "mq", "--rate", "100", "--no-floor", "-n", "10", "--payloads", "1k"],
        &["explain", "mq", "uds", "--payload", "1k", "-n", "10"],
        &["run", &file],
    ];
    for (index, command) in commands.iter().enumerate() {
        let results = folder.path().join(index.to_string());
        let place = results.display().to_string();
        let words = [command, &["--no-report", "-o", &place][..]].concat();
        let finished = Tripmeter::under(&["prlimit", "--msgqueue=4096"], words).run().with(exit::PARTIAL);
        finished.says(&["left out: transport 'mq'", "RLIMIT_MSGQUEUE"]).clean();
        let manifest = manifest(&results);
        assert_eq!(manifest.plan.missing.len(), 1, "{command:?}");
        let measured = |one: &tripmeter_model::manifest::SubExperimentResult| one.status == RunStatus::Complete;
        assert!(manifest.sub_experiments.iter().all(measured), "{command:?}");
        assert!(manifest.sub_experiments.iter().any(|one| one.name.starts_with("uds")), "{command:?}");
    }
    let nothing = ["ping", "mq", "mq?packet=4096", "--no-floor", "-n", "10"];
    let finished = Tripmeter::under(&["prlimit", "--msgqueue=4096"], nothing).at(folder.path()).run();
    finished.with(exit::USAGE).one_line(&["none of the requested transports can run here", "'mq'", "packet"]).clean();
}

#[test]
fn a_transport_that_cannot_do_what_the_flags_ask_is_left_out_and_the_others_are_measured() {
    let folder = folder();
    for (index, words) in [
        ["ping", "shm,tcp", "--followers", "2"],
        ["publish", "uds,shm", "--followers", "2"],
        ["ping", "tcp,inmem", "--wait", "callback"],
    ]
    .iter()
    .enumerate()
    {
        let results = folder.path().join(index.to_string());
        let place = results.display().to_string();
        let small = ["--no-floor", "--no-report", "-n", "10", "--payloads", "1k", "-o", &place];
        let finished = Tripmeter::new(words.iter().chain(&small)).run().with(exit::PARTIAL);
        finished.says(&["left out: transport '"]).clean();
        let manifest = manifest(&results);
        assert_eq!((manifest.plan.missing.len(), manifest.sub_experiments.len()), (1, 1), "{words:?}");
        assert_eq!(manifest.sub_experiments[0].status, RunStatus::Complete, "{words:?}");
    }
}

#[test]
fn an_own_name_that_does_not_resolve_is_said_before_anything_starts() {
    if built("ecal").is_none() {
        return;
    }
    let folder = folder();
    let hosts = folder.path().join("hosts");
    std::fs::write(&hosts, "127.0.0.1 localhost\n").unwrap();
    let own_name = "tripmeter-test-host.invalid";
    let hosts = hosts.display();
    let script =
        format!("mount --bind '{hosts}' /etc/hosts && hostname {own_name} && ip link set lo up && exec \"$@\"");
    let wrapper = ["unshare", "-m", "-u", "-n", "sh", "-c", &script, "sh"];
    let tried = Command::new("unshare").args(&wrapper[1..]).arg("true").output();
    if !tried.is_ok_and(|output| output.status.success()) {
        return say("SKIPPED: a name of the host of its own cannot be given here (needs root)");
    }
    let run = |transports: &[&str], place: &str| {
        let place = folder.path().join(place).display().to_string();
        let words = ["--no-floor", "-n", "10", "--payloads", "1k", "-o", &place];
        Tripmeter::under(&wrapper, ["ping"].iter().chain(transports).chain(&words)).run()
    };
    run(&["ecal/tcp"], "alone").with(exit::UNAVAILABLE).one_line(&[own_name, "does not resolve", "/etc/hosts"]).clean();
    run(&["ecal/tcp", "uds"], "both").with(exit::PARTIAL).says(&["left out: transport 'ecal/tcp'", own_name]).clean();
}

#[test]
fn a_small_stack_is_enlarged_or_refused() {
    let folder = folder();
    let run = |limit: &str| Tripmeter::under(&["prlimit", limit], ["list"]).at(folder.path()).run();
    run("--stack=131072:").with(exit::GOOD).clean();
    run("--stack=131072:131072").with(exit::UNAVAILABLE).one_line(&["131072 bytes", "ulimit -s 8192"]).clean();
}

/// Wrapper under which the limits on a user's pipes apply, which they do not for root.
fn with_limits_of_pipes() -> Vec<&'static str> {
    let lacks = "-sys_resource,-sys_admin";
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    if is_root { vec!["setpriv", "--bounding-set", lacks, "--inh-caps", lacks] } else { vec!["env"] }
}

#[test]
fn buffers_that_not_all_pipes_can_have_are_refused_with_the_right_sysctl() {
    let sysctl = |name: &str| std::fs::read_to_string(format!("/proc/sys/fs/{name}")).unwrap().trim().parse::<u64>();
    let (soft, most) = (sysctl("pipe-user-pages-soft").unwrap(), sysctl("pipe-max-size").unwrap());
    let each = most / rustix::param::page_size() as u64;
    if soft == 0 || soft / each > 300 {
        return say("SKIPPED: this user may have any number of large pipes");
    }
    let (folder, topics) = (folder(), soft / each + 1);
    let run = |buffer: u64| {
        let (transport, topics) = (format!("pipe?buffer={buffer}"), topics.to_string());
        let words = ["publish", &transport, "--topics", &topics, "--rate", "10", "-n", "10", "--payloads", "1k"];
        Tripmeter::under(&with_limits_of_pipes(), words).at(folder.path()).run().with(exit::USAGE)
    };
    let fit = format!("of {} pipes fit", 2 * topics);
    run(most).one_line(&["fs.pipe-user-pages-soft", &fit, "smaller buffer"]).clean();
    run(2 * most).one_line(&["fs.pipe-max-size", &most.to_string()]).clean();
}

#[test]
fn results_have_the_room_that_the_kernel_granted() {
    let folder = folder();
    let queues = |name: &str, words: &[&str]| {
        let results = folder.path().join(name);
        let place = results.display().to_string();
        let common = ["--no-floor", "-n", "10", "--payloads", "1k", "-o", &place];
        let finished = Tripmeter::new(words.iter().chain(&common)).run().with(exit::GOOD);
        (manifest(&results).sub_experiments.remove(0).queues, finished.unwrapped())
    };
    let (pipes, said) = queues("pipe", &["ping", "pipe?buffer=8192"]);
    let expected = |side| KernelQueues { side, kind: QueueKind::PipeBytes, capacity: 8192, count: 2 };
    assert_eq!(pipes, [QueueSide::Leader, QueueSide::Follower].map(expected));
    assert!(!said.contains("pipe-user-pages"), "{said}");
    let (messages, _) = queues("mq", &["ping", "mq?depth=3"]);
    assert_eq!((messages[0].kind, messages[0].capacity, messages[0].count), (QueueKind::QueueMessages, 3, 2));
    let qlen = std::fs::read_to_string("/proc/sys/net/unix/max_dgram_qlen").unwrap();
    let places = qlen.trim().parse::<u64>().unwrap() + 1;
    let (shared, said) = queues("uds", &["publish", "uds/datagram", "--publishers", "3", "--rate", "100"]);
    let follower = shared.iter().find(|one| one.kind == QueueKind::SharedDatagrams).unwrap();
    assert_eq!((follower.side, follower.capacity, follower.count), (QueueSide::Follower, places, 1));
    assert!(said.contains(&format!("3 publishers share {places} places")), "{said}");
    let (alone, _) = queues("one", &["publish", "uds/datagram", "--rate", "100"]);
    assert!(alone.iter().all(|one| one.kind != QueueKind::SharedDatagrams) && !alone.is_empty(), "{alone:?}");
}

/// Wrapper under which a folder is a small file system; `None`, with a message, if not permitted.
fn small(folder: &str, bytes: u64) -> Option<[String; 6]> {
    let script = format!("mount -t tmpfs -o size={bytes} none '{folder}' && exec \"$@\"");
    let wrapper = ["unshare", "-m", "sh", "-c", &script, "sh"].map(str::to_owned);
    let tried = Command::new("unshare").args(&wrapper[1..]).arg("true").output();
    if tried.is_ok_and(|output| output.status.success()) {
        return Some(wrapper);
    }
    say(&format!("SKIPPED: a small file system at {folder} cannot be mounted here (needs root)"));
    None
}

#[test]
fn a_payload_larger_than_shared_memory_is_refused() {
    let Some(wrapper) = small("/dev/shm", 4 << 20) else { return };
    let wrapper = wrapper.each_ref().map(String::as_str);
    let folder = folder();
    let results = folder.path().join("results");
    let run = |payloads: &str| {
        let words = ["ping", "shm", "-n", "10", "--payloads", payloads, "-o"];
        Tripmeter::under(&wrapper, words.iter().chain(&[results.display().to_string().as_str()])).run()
    };
    let refused = run("4M").with(exit::USAGE).one_line(&["shm", "4194304", "bytes", "/dev/shm"]);
    refused.clean();
    assert!(!results.exists());
    run("1k").with(exit::GOOD).clean();
}

#[test]
fn fast_dds_without_room_in_shared_memory_is_an_error_and_leaves_nothing() {
    let _alone = alone();
    if built("fastdds").is_none() {
        return;
    }
    const ROOM: u64 = 40 << 20;
    let folder = folder();
    let (list, results) = (folder.path().join("list"), folder.path().join("results"));
    let run = |room: u64, before: &str, transports: &str, more: &[&str]| {
        let mut wrapper = small("/dev/shm", room)?;
        let script = format!("{before} \"$@\"; code=$?; wait; ls -A /dev/shm >'{}'; exit $code", list.display());
        wrapper[4] = wrapper[4].replace("exec \"$@\"", &format!("{{ {script}; }}"));
        let output = results.display().to_string();
        let words = ["ping", transports, "--no-floor", "-n", "10", "--payloads", "1k", "--wait", "block", "-o"];
        let words = words.iter().chain(&[output.as_str()]).chain(more).copied().collect::<Vec<_>>();
        Some(Tripmeter::under(&wrapper.each_ref().map(String::as_str), words).run())
    };
    let left = || std::fs::read_to_string(&list).unwrap();

    let Some(refused) = run(4 << 20, "", "fastdds/shm", &[]) else { return };
    refused.with(exit::USAGE).one_line(&["'fastdds/shm'", "/dev/shm", "4194304", "segment_size"]).clean();
    assert!(!results.exists() && left().is_empty(), "{}", left());
    if built("ros2").is_some() {
        let refused = run(1 << 20, "", "ros2/shm", &[]).unwrap();
        refused.with(exit::USAGE).one_line(&["'ros2/shm'", "/dev/shm", "bytes left", "segment_size"]).clean();
        // The tracing library's two names are for all programs of the user, and stay.
        assert!(!results.exists() && left().lines().all(|name| name.starts_with("lttng-ust-wait")), "{}", left());
    }

    // The memory fills while the first sub-experiment stalls, before the second is opened.
    let manifest_file = results.join("manifest.json").display().to_string();
    let fill = format!(
        "(until [ -e '{manifest_file}' ]; do sleep 0.01; done; head -c {ROOM} /dev/zero >/dev/shm/full) 2>/dev/null &"
    );
    let finished = run(ROOM, &fill, "inmem?stall=5:5s,fastdds/shm", &["--loss-timeout", "20", "--attempts", "1"]);
    finished.unwrap().with(exit::PARTIAL).clean();
    let told = result(&manifest(&results), "fastdds_shm_block").error.clone().unwrap();
    assert!(told.contains("/dev/shm") && told.contains("segment_size") && !told.contains("signal"), "{told}");
    assert_eq!(left(), "full\n");

    std::fs::remove_dir_all(&results).unwrap();
    run(ROOM, "", "fastdds/shm", &[]).unwrap().with(exit::GOOD).clean();
    assert_eq!(left(), "");
}

#[test]
fn shared_memory_of_zenoh_that_another_process_removes_is_an_error() {
    let _alone = alone();
    let Some(mut wrapper) = small("/dev/shm", 64 << 20).filter(|_| built("zenoh").is_some()) else { return };
    let script = "{ timeout 60 sh -c 'while :; do rm -f /dev/shm/*.zenoh; done' & rm=$!; \"$@\"; code=$?; kill $rm; exit $code; }";
    wrapper[4] = wrapper[4].replace("exec \"$@\"", script);
    let folder = folder();
    let results = folder.path().join("results");
    let output = results.display().to_string();
    let words = ["ping", "zenoh/shm", "--no-floor", "-n", "10", "--payloads", "1k", "--wait", "block", "-o", &output];
    Tripmeter::under(&wrapper.each_ref().map(String::as_str), words).run().with(exit::PARTIAL).clean();
    let told = result(&manifest(&results), "zenoh_shm_block").error.clone().unwrap();
    assert!(told.contains("removed /dev/shm/") && told.contains("zenoh"), "{told}");
}

/// Wrapper under which the kernel has no free port of any protocol; `None`, with a message, if not permitted.
fn without_ports() -> Option<[String; 6]> {
    let script = "ip link set lo up && echo 40000 40001 >/proc/sys/net/ipv4/ip_local_port_range && exec python3 -c '
import os, socket, sys
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
    for port in (40000, 40001):
        held = socket.socket(socket.AF_INET, kind)
        held.bind((\"0.0.0.0\", port))
        os.set_inheritable(held.detach(), True)
os.execvp(sys.argv[1], sys.argv[1:])
' \"$@\"";
    let wrapper = ["unshare", "-n", "sh", "-c", script, "sh"].map(str::to_owned);
    let tried = Command::new("unshare").args(&wrapper[1..]).arg("true").output();
    if tried.is_ok_and(|output| output.status.success()) {
        return Some(wrapper);
    }
    say("SKIPPED: a network without free ports cannot be had here (needs root)");
    None
}

/// Middleware works without a socket or retries forever, and then blames its peer.
#[test]
fn a_network_without_a_free_port_is_named() {
    let _alone = alone();
    let Some(wrapper) = without_ports() else { return };
    let wrapper = wrapper.each_ref().map(String::as_str);
    let plugins = [("fastdds", "fastdds/udp"), ("ecal", "ecal/tcp")];
    let built = plugins.into_iter().filter(|(system, _)| built(system).is_some());
    for transport in ["tcp"].into_iter().chain(built.map(|(_, transport)| transport)) {
        let folder = folder();
        let output = folder.path().display().to_string();
        let words = ["ping", "-q", transport, "--no-floor", "-n", "10", "--payloads", "16", "-o", &output];
        let finished = Tripmeter::under(&wrapper, words).run().with(exit::PARTIAL);
        finished.says(&["port of 127.0.0.1 from 40000 to 40001 is free", "end the programs that use them"]);
    }
}

/// Each of nine processes creates a table of 1 MiB; zenoh panics if there is no space for it.
#[test]
fn zenoh_that_runs_out_of_shared_memory_leaves_nothing() {
    let _alone = alone();
    let Some(mut wrapper) = small("/dev/shm", 8 << 20).filter(|_| built("zenoh").is_some()) else { return };
    let folder = folder();
    let (list, results) = (folder.path().join("list"), folder.path().join("results"));
    let script = format!("{{ \"$@\"; code=$?; ls -A /dev/shm >'{}'; exit $code; }}", list.display());
    wrapper[4] = wrapper[4].replace("exec \"$@\"", &script);
    let output = results.display().to_string();
    let words = ["ping", "zenoh/shm", "--followers", "8", "--no-floor", "-n", "10", "--payloads", "64", "-o", &output];
    Tripmeter::under(&wrapper.each_ref().map(String::as_str), words).run().with(exit::PARTIAL).clean();
    let told = manifest(&results).sub_experiments[0].error.clone().unwrap();
    assert!(told.contains("bytes are free in /dev/shm"), "{told}");
    assert_eq!(std::fs::read_to_string(&list).unwrap(), "");
}

/// Measures into a file system of `bytes`, which is too small; returns a copy of the results. `None` if not permitted.
fn on_a_small_disk(folder: &Path, bytes: u64, words: &[&str]) -> Option<PathBuf> {
    let results = folder.join("results");
    std::fs::create_dir(&results).unwrap();
    let wrapper = small(&results.display().to_string(), bytes)?;
    // Copied before the file system vanishes with the process.
    let kept = folder.join("kept");
    let script = "out=$1; shift; \"$@\"; code=$?; cp -r \"$OLDPWD/.\" \"$out\" 2>/dev/null; exit $code";
    let line = format!("cd '{}' && cd / && exec sh -c '{script}' sh '{}' \"$@\"", results.display(), kept.display());
    let mount = wrapper[4].replace("exec \"$@\"", &line);
    let wrapper = ["unshare", "-m", "sh", "-c", &mount, "sh"];
    let (output, usual) =
        (results.display().to_string(), ["ping", "-q", "uds/stream", "--wait", "block", "--no-floor"]);
    let finished = Tripmeter::under(&wrapper, usual.iter().chain(words).chain(&["-o", &output])).run();
    let finished = finished.says(&["No space left on device", "free some space there", "run --resume DIR"]);
    assert!(matches!(finished.code, Some(73 | 75)), "{finished:?}");
    Some(kept)
}

/// Checks that figures and tables have exactly the finished payloads.
#[track_caller]
fn check_readable(results: &Path) {
    crate::metrics::check(results);
    let shown = Tripmeter::new(["show", &results.display().to_string(), "--wide"]).run().with(exit::GOOD).stdout;
    let cells = result(&manifest(results), "uds_stream_block").cells.len();
    let rows = shown.lines().filter(|line| line.starts_with("uds/stream")).count();
    assert!(cells > 0 && rows == cells, "{cells}: {shown}");
}

/// Depending on the size, the line of a trial, a row of figures, or the final state has no room.
#[test]
fn figures_stay_readable_on_a_full_disk() {
    let _alone = alone();
    for kilobytes in [44, 48, 52, 56] {
        let folder = folder();
        let words = ["-n", "100", "--raw", "none", "--payloads", "64..64k"];
        let Some(kept) = on_a_small_disk(folder.path(), kilobytes << 10, &words) else { return };
        check_readable(&kept);
    }
}

#[test]
fn a_full_disk_ends_a_sub_experiment_and_keeps_what_is_there() {
    let _alone = alone();
    let folder = folder();
    let words = ["-n", "2500", "--payloads", "16,32,64,128,256"];
    let Some(kept) = on_a_small_disk(folder.path(), 300 << 10, &words) else { return };
    check_readable(&kept);
    let manifest = manifest(&kept);
    let long = result(&manifest, "uds_stream_block");
    // The last manifest that had room; a truncated one would not be read.
    assert!(matches!(long.status, RunStatus::Failed | RunStatus::Running), "{long:?}");
    let finished_cells: Vec<u64> = long.cells.iter().flat_map(|cell| vec![cell.payload_bytes; 2500]).collect();
    assert!(!finished_cells.is_empty());
    let rows = sample_payloads(&kept, "uds_stream_block");
    assert!(rows.starts_with(&finished_cells), "{} rows of {}", rows.len(), finished_cells.len());
}

/// The advice must differ, because `-o` cannot be given with `--resume`.
#[test]
fn resuming_on_a_full_disk_says_to_make_room() {
    let _alone = alone();
    let folder = folder();
    let Some(kept) = on_a_small_disk(folder.path(), 44 << 10, &["-n", "100", "--raw", "none", "--payloads", "64..64k"])
    else {
        return;
    };
    let full = folder.path().join("results").display().to_string();
    let Some(wrapper) = small(&full, 64 << 10) else { return };
    let filled =
        format!("cp -r '{}/.' '{full}' && {{ cat /dev/zero 2>/dev/null >'{full}/x'; exec \"$@\"; }}", kept.display());
    let mount = wrapper[4].replace("exec \"$@\"", &filled);
    let told = Tripmeter::under(&["unshare", "-m", "sh", "-c", &mount, "sh"], ["run", "-q", "--resume", &full]).run();
    let told =
        told.with(exit::CANNOT_CREATE).one_line(&["No space left on device", "free some space there", "--resume"]);
    assert!(!told.stderr.contains(" -o"), "{told:?}");
}

/// A thread that starts with hardly more memory than its stack cannot run: its process must end, not wait forever.
/// forever.
#[test]
fn a_run_with_the_last_of_the_memory_ends_and_says_so() {
    const STACK: u64 = 2 << 20;
    let page = rustix::param::page_size() as u64;
    let run = |bytes: u64, words: &[&str]| Tripmeter::under(&["prlimit", &format!("--as={bytes}")], words).run();
    let (mut least, mut lacking) = (4 << 30, 0);
    while least - lacking > page {
        let middle = least.midpoint(lacking);
        let starts = run(middle, &["--version"]).code == Some(exit::GOOD.into());
        (least, lacking) = if starts { (middle, lacking) } else { (least, middle) };
    }
    let measure = |bytes: u64| {
        let folder = folder();
        let results = folder.path().join("results").display().to_string();
        let words = ["ping", "uds/stream", "-n", "10", "--payloads", "16", "--wait", "block", "--no-floor", "-o"];
        let finished = run(bytes, &words.iter().chain(&[results.as_str()]).copied().collect::<Vec<_>>());
        finished.with(exit::PARTIAL).says(&["RLIMIT_AS"]).clean();
    };
    std::thread::scope(|scope| {
        for pages in 0..16 {
            scope.spawn(move || measure(least + STACK + pages * page));
        }
    });
}

//! Interfering load, and real-time scheduling.

use crate::common::figures::value;
use crate::common::traces::{marked, signal};
use crate::common::{
    LONGEST, Running, Tripmeter, allowed_cpus, alone, built, folder, has_cell, has_several_cpus, is_required, manifest,
    result, say,
};
use std::fs;
use std::process::Command;
use tripmeter_model::Wait;
use tripmeter_model::exit;
use tripmeter_model::figure::Figure;
use tripmeter_model::manifest::{PayloadResult, RunStatus};

struct Thread {
    process: u32,
    name: String,
    policy: u32,
    priority: u32,
}

fn threads(run: &Running) -> Vec<Thread> {
    let mut found = Vec::new();
    for process in marked(run.mark()).into_iter().filter(|pid| *pid != run.pid()) {
        let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        for task in tasks {
            // A thread that has ended has no such file.
            let Ok(stat) = fs::read_to_string(task.path().join("stat")) else { continue };
            let (Some(begin), Some(end)) = (stat.find('('), stat.rfind(')')) else { continue };
            let fields: Vec<&str> = stat[end + 1..].split_whitespace().collect();
            let [priority, policy] = [37, 38].map(|at| fields[at].parse().unwrap());
            found.push(Thread { process, name: stat[begin + 1..end].to_owned(), policy, priority });
        }
    }
    found
}

fn load_of(run: &Running, name: &str) -> Option<(u32, usize)> {
    let of: Vec<u32> = threads(run).iter().filter(|one| one.name == name).map(|one| one.process).collect();
    Some((*of.first()?, of.len()))
}

fn load_figure(cell: &PayloadResult, figure: Figure) -> Option<f64> {
    value(&cell.trials[0], figure)
}

const LONG: [&str; 9] = ["ping", "uds", "--wait", "block", "--no-floor", "--payloads", "64,1k", "-n", "50000000"];

#[test]
fn each_load_is_measured_beside_rest_and_its_figures_are_what_its_threads_can_do() {
    let _alone = alone();
    let folder = folder();
    let results = folder.path().join("results");
    let loads =
        ["--background", "none", "--background", "cpu:1", "--background", "cpu:3", "--background", "memory,network"];
    let words = ["ping", "uds", "--wait", "block", "--no-floor", "--payloads", "1k", "-n", "3000", "-o"];
    let run =
        Tripmeter::new(words.iter().copied().chain([results.to_str().unwrap()]).chain(loads)).run().with(0).clean();
    let (manifest, name) = (manifest(&results), "uds_datagram_block");
    let cell = |suffix: &str| &result(&manifest, &format!("{name}{suffix}")).cells[0];
    assert_eq!(load_figure(cell(""), Figure::LoadCpu), None, "at rest there is no load");
    for (suffix, threads) in
        [("_background-cpu-1", 1.0), ("_background-cpu-3", 3.0), ("_background-memory-network", 3.0)]
    {
        let share = load_figure(cell(suffix), Figure::LoadCpu).unwrap();
        // CPU time is counted when a thread stops; the thread that answers takes next to none.
        assert!(share > 0.001 && share < 1.05 * threads, "{suffix}: {share}");
        let processes = &result(&manifest, &format!("{name}{suffix}")).processes;
        let load = processes.iter().find(|one| one.who.starts_with("load ")).unwrap();
        let within_ns = share * value(&cell(suffix).trials[0], Figure::Duration).unwrap();
        assert!(within_ns <= 1.05 * load.cpu_time_ns as f64, "{suffix}: {within_ns} of {}", load.cpu_time_ns);
    }
    let bytes =
        [Figure::LoadMemory, Figure::LoadNetwork].map(|figure| load_figure(cell("_background-memory-network"), figure));
    assert!(bytes.iter().all(|bytes| bytes.unwrap() > 0.0), "{bytes:?}");
    assert_eq!(load_figure(cell("_background-cpu-1"), Figure::LoadMemory), None);
    let shown = run.unwrapped();
    assert!(shown.contains("background load and rest") && shown.contains("cpu:3"), "{shown}");
}

#[test]
fn a_load_ends_with_its_run_however_that_ends() {
    let _alone = alone();
    for (how, code) in [("INT", Some(exit::INTERRUPTED)), ("KILL", None)] {
        let folder = folder();
        let results = folder.path().join("results");
        let words =
            LONG.iter().copied().chain(["--background", "cpu:2,network", "-q", "-o", results.to_str().unwrap()]);
        let mut run = Tripmeter::new(words).temporary(folder.path()).start();
        run.until("the load", |run| load_of(run, "load-cpu").is_some_and(|(_, threads)| threads == 2));
        run.signal(how);
        let finished = run.wait(LONGEST);
        assert_eq!(finished.code, code.map(i32::from), "{}", finished.stderr);
        match code {
            Some(_) => drop(finished.clean()),
            None => {
                let processes: Vec<String> =
                    finished.left().into_iter().filter(|left| left.starts_with("process ")).collect();
                assert!(processes.is_empty(), "{processes:?}");
            }
        }
    }
}

#[test]
fn a_sub_experiment_whose_load_has_ended_fails_and_keeps_what_it_had() {
    let _alone = alone();
    let folder = folder();
    let results = folder.path().join("results");
    let words = ["ping", "uds", "--wait", "block", "--no-floor", "--payloads", "64..64k", "-n", "3000", "-q"];
    let words = words.iter().copied().chain(["--background", "cpu:1", "-o", results.to_str().unwrap()]);
    let mut run = Tripmeter::new(words).start();
    run.until("a first payload", |_| has_cell(&results));
    let (load, _) = load_of(&run, "load-cpu").expect("it runs from payload to payload");
    signal(load, "KILL");
    run.wait(LONGEST).with(exit::PARTIAL).says(&["the load 'cpu:1' ended", "signal 9"]).clean();
    let manifest = manifest(&results);
    let result = &manifest.sub_experiments[0];
    assert!(result.status == RunStatus::Failed && !result.cells.is_empty() && result.cells.len() < 11);
}

/// True if this user may schedule in real time; otherwise the test is skipped.
fn may_schedule_in_real_time() -> bool {
    let may = Command::new("chrt").args(["-f", "17", "true"]).status().is_ok_and(|status| status.success());
    if !may {
        assert!(!is_required(), "TRIPMETER_REQUIRE_ALL=1, and this user may not schedule in real time");
        say("SKIPPED: --sched fifo: this user may not schedule in real time");
    }
    may
}

/// A polling loop never yields its CPU: threads that watch it use other CPUs, or the time that the kernel reserves.
#[test]
fn loops_that_poll_in_real_time_are_looked_after() {
    let _alone = alone();
    if !may_schedule_in_real_time() {
        return;
    }
    let folder = folder();
    let all = [
        "publish shm --topics 2 --rate 1000 -n 50",
        "call shm -n 50",
        "ping shm --rate 1000 -n 50",
        // Leader and follower are threads of one process.
        "publish inmem --topics 2 --rate 1000 -n 50",
        "call inmem -n 50",
    ];
    for (number, asked) in all.into_iter().enumerate() {
        let more = [
            "--payloads",
            "1k",
            "--wait",
            "poll",
            "--sched",
            "fifo:17",
            "--no-floor",
            "--loss-timeout",
            "15",
            "-q",
            "-o",
        ];
        let results = folder.path().join(number.to_string());
        let words = asked.split(' ').chain(more).chain([results.to_str().unwrap()]);
        let run = Tripmeter::new(words).start().wait(LONGEST);
        if has_several_cpus() {
            run.with(0).clean();
            let processes = &manifest(&results).sub_experiments[0].processes;
            let policies: Vec<&str> = processes.iter().filter_map(|process| process.policy.as_deref()).collect();
            let count = if asked.contains("inmem") { 1 } else { 2 };
            assert!(
                policies.len() == count && policies.iter().all(|policy| *policy == "fifo, priority 17"),
                "{asked}: {policies:?}"
            );
        } else {
            run.with(exit::UNAVAILABLE).says(&["need a CPU each"]);
        }
    }
}

#[test]
fn every_thread_that_measures_is_scheduled_in_real_time() {
    let _alone = alone();
    if !may_schedule_in_real_time() {
        return;
    }
    let folder = folder();
    let results = folder.path().join("results");
    let words = LONG.iter().copied().chain(["--sched", "fifo:17", "-q", "-o", results.to_str().unwrap()]);
    let mut run = Tripmeter::new(words).start();
    let [leader, follower] = run.measuring();
    for thread in threads(&run) {
        assert!([leader, follower].contains(&thread.process));
        // The program's threads that never measure.
        let is_helper = ["control", "interrupter"].contains(&thread.name.as_str());
        let expected = if is_helper { (0, 0) } else { (1, 17) };
        assert_eq!((thread.policy, thread.priority), expected, "{}", thread.name);
    }
    run.signal("INT");
    run.wait(LONGEST).with(exit::INTERRUPTED).clean();
    let words =
        ["ping", "uds", "--wait", "block", "--no-floor", "-n", "10", "--payloads", "64", "--sched", "fifo:17", "-o"];
    let results = folder.path().join("short");
    let words = words.iter().copied().chain([results.to_str().unwrap()]);
    Tripmeter::new(words).run().with(0).clean();
    let manifest = manifest(&results);
    let processes = &manifest.sub_experiments[0].processes;
    let policies: Vec<&str> = processes.iter().filter_map(|process| process.policy.as_deref()).collect();
    assert_eq!(policies, ["fifo, priority 17"; 2]);
    let audit = manifest.environment.audit_after.unwrap();
    let of = |name: &str| audit.findings.iter().find(|finding| finding.check == name).unwrap();
    assert!(of("scheduling-policy").value.contains("fifo, priority 17"));
    assert!(of("realtime-throttling").value.contains("in real time"), "{:?}", of("realtime-throttling"));
}

/// Two polling loops on two CPUs wait for data from the library's threads.
#[test]
fn threads_of_a_library_come_before_loops_that_poll() {
    let _alone = alone();
    let Some(plugin) = built("zeromq") else { return };
    if !may_schedule_in_real_time() {
        return;
    }
    let (folder, plugin) = (folder(), plugin.display().to_string());
    let results = folder.path().join("results");
    let words = ["taskset", "-c", "0,1"];
    let more = ["ping", "zeromq", "--plugin", &plugin, "--wait", "poll", "--sched", "fifo:17", "--no-floor", "-q"];
    let rest = ["-n", "100", "--payloads", "1k", "--loss-timeout", "15", "-o", results.to_str().unwrap()];
    let run = Tripmeter::under(&words, more.iter().chain(&rest)).run();
    if has_several_cpus() {
        run.with(0).clean();
    } else {
        run.with(exit::UNAVAILABLE).says(&["need a CPU each"]);
    }
}

/// Wrapper that runs a command without the right to real-time scheduling.
fn without_the_right() -> Vec<&'static str> {
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    let drop = ["setpriv", "--bounding-set", "-sys_nice", "--inh-caps", "-sys_nice"];
    ["prlimit", "--rtprio=0:0"].into_iter().chain(drop.into_iter().filter(|_| is_root)).collect()
}

#[test]
fn real_time_without_the_right_to_it_is_refused_before_anything_starts() {
    let folder = folder();
    let results = folder.path().join("results");
    let words = ["ping", "uds", "--sched", "fifo:80", "-o", results.to_str().unwrap()];
    let parts = ["transport 'uds'", "fifo:80", "ulimit -r", "CAP_SYS_NICE", "--sched"];
    Tripmeter::under(&without_the_right(), words).run().with(exit::UNAVAILABLE).one_line(&parts).clean();
    assert!(!results.exists());
}

#[test]
fn a_run_resumed_without_the_right_to_real_time_says_why_and_loses_nothing() {
    let _alone = alone();
    if !may_schedule_in_real_time() {
        return;
    }
    let folder = folder();
    let results = folder.path().join("results");
    let words = ["ping", "uds", "--wait", "block", "--no-floor", "--payloads", "64..64k", "-n", "3000", "-q"];
    let words = words.iter().copied().chain(["--sched", "fifo:17", "-o", results.to_str().unwrap()]);
    let mut run = Tripmeter::new(words).start();
    run.until("a first payload", |_| has_cell(&results));
    run.signal("INT");
    run.wait(LONGEST).with(exit::INTERRUPTED);
    let finished = |is_all: bool| {
        let manifest = manifest(&results);
        let cells = manifest.sub_experiments[0].cells.iter().filter(|cell| !cell.unfinished);
        let payloads: Vec<u64> = cells.map(|cell| cell.payload_bytes).collect();
        assert_eq!(payloads.len() == 11, is_all, "{payloads:?}");
        payloads
    };
    let before = finished(false);
    let again = ["run", "-q", "--resume", results.to_str().unwrap()];
    let parts = ["fifo:17", "CAP_SYS_NICE"];
    Tripmeter::under(&without_the_right(), again).run().with(exit::PARTIAL).says(&parts).clean();
    assert_eq!(finished(false), before);
    Tripmeter::new(again).run().with(exit::GOOD).clean();
    finished(true);
}

#[test]
fn what_no_load_or_scheduling_is_called_is_refused() {
    for (flag, word, says) in [
        ("--background", "disk", "cpu:N, memory and network"),
        ("--background", "cpu:0", "cpu:N"),
        ("--sched", "rr:5", "fifo:1 to fifo:98"),
        ("--sched", "fifo:99", "fifo:98"),
    ] {
        Tripmeter::new(["ping", "uds", flag, word]).run().with(exit::USAGE).says(&[says]);
    }
    let twice = ["ping", "uds", "--background", "cpu:1", "--background", "cpu:1"];
    Tripmeter::new(twice).run().with(exit::USAGE).one_line(&["--background", "trial 2"]);
    for line in ["ab --rounds 6", "choose --payload 1k --rate 30"] {
        let words = line.split(' ').chain(["uds", "tcp", "--background", "none", "--background", "cpu:1"]);
        Tripmeter::new(words).run().with(exit::USAGE).one_line(&["--background once"]);
    }
    let file = Tripmeter::new(["ping", "uds", "--background", "none", "--background", "memory,cpu:2", "--print"])
        .run()
        .with(0);
    assert!(file.stdout.contains("background = [\"none\", \"cpu:2,memory\"]"), "{}", file.stdout);
}

/// On one CPU the default wait is `block`; a requested `poll` is marked, and never called fastest.
#[test]
fn on_one_cpu_sides_do_not_poll_unless_asked_to() {
    let _alone = alone();
    let folder = folder();
    let place = folder.path();
    let on_one = |words: &str| {
        let cpu = [
            "sh",
            "-c",
            "exec taskset -c $(taskset -cp $$ | sed 's/.*: //; s/[,-].*//') env --default-signal=INT \"$@\"",
            "sh",
        ];
        Tripmeter::under(&cpu, words.split(' ')).at(place).run().clean()
    };
    let small = "--payloads 64 -n 50 --warmup 5 --attempts 1";
    for words in ["ping uds tcp", "publish uds --rate 200", "call uds tcp", "throughput uds --duration 0.05"] {
        let command = words.split(' ').next().unwrap();
        let samples = if command == "throughput" { "--payloads 64" } else { small };
        on_one(&format!("{words} {samples} -o {command}")).with(exit::GOOD);
        let plan = manifest(&place.join(command)).plan;
        assert!(plan.sub_experiments.iter().all(|sub| sub.wait == Wait::Block), "{command}");
    }
    // Each message waits for a time slice, and a path proof of small messages has many.
    let few = "--payloads 16k -n 20 --warmup 2 --attempts 1";
    let polled = on_one(&format!("ping uds tcp shm --wait poll {few} -o polled")).with(exit::GOOD).unwrapped();
    assert!(polled.contains("polled on a shared CPU") && !polled.contains("fastest"), "{polled}");
    assert!(polled.contains("leader and follower share CPU"), "{polled}");
    // With one CPU, any CPU is that one.
    let free = on_one(&format!("ping uds shm --wait poll --leader-cpu none --follower-cpu none {few} -o free"));
    let free = free.with(exit::GOOD).unwrapped();
    assert!(free.contains("polled on a shared CPU") && !free.contains("fastest"), "{free}");
    let chosen = "choose uds shm --wait poll --payload 16k --rate 100 -n 20 --rounds 2 -q -o chosen";
    let chosen = on_one(chosen).with(exit::FINDING).unwrapped();
    assert!(chosen.contains("Nothing can be ranked") && !chosen.contains("lowest latency"), "{chosen}");
    let explained = on_one("explain uds --wait poll --payload 16k -n 20 -q -o explained").unwrapped();
    assert!(explained.contains("uds/datagram under poll: leader and follower share CPU"), "{explained}");
    let github = Tripmeter::new(["export", "--format", "junit", "polled"]).at(place).run().with(exit::GOOD);
    assert!(github.stdout.contains("share CPU") && github.stdout.contains("time slices"), "{github:?}");
}

/// Each client has a thread that polls, and those of a side are bound to one CPU; publishers sleep.
#[test]
fn threads_of_a_side_that_poll_on_one_cpu_are_marked() {
    let _alone = alone();
    for (words, is_shared) in [
        ("publish inmem uds --rate 100 --topics 3", false),
        ("publish inmem uds --rate 100 --publishers 2", false),
        ("ping uds --clients 2", true),
        ("call inmem uds --rate 100 --clients 2 --leader-cpu CPU", true),
    ] {
        // On one CPU each message waits for the scheduler; with large ones the path proof has few.
        let small = ["--payloads", "16k", "-n", "20", "--attempts", "1", "--loss-timeout", "15", "--no-floor"];
        let allowed = allowed_cpus();
        let words = words.replace("CPU", allowed.split([',', '-']).next().unwrap());
        let words = words.split(' ').chain(["--wait", "poll"]).chain(small);
        let place = folder();
        let said = Tripmeter::new(words).at(place.path()).run().with(exit::GOOD).unwrapped();
        // With one CPU, both sides share it, whatever they have.
        let note = if has_several_cpus() { "2 loops that poll share one CPU" } else { "leader and follower share CPU" };
        assert_eq!(said.contains(note), is_shared || !has_several_cpus(), "{said}");
        assert!(!is_shared || !said.contains("fastest"), "{said}");
    }
}

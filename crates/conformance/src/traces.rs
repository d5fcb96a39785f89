//! Names and processes that runs leave in the system.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use tripmeter_model::name::process_place;

/// Environment variable of every process of a run, with a value unique to the run.
pub const MARK: &str = "TRIPMETER_TEST_RUN";
/// Longest wait for processes that are about to end.
const ENDING: Duration = Duration::from_secs(120);

/// Names left by the run that `pid` supervised, in shared memory, queues, sockets and the temporary folder, and marked
/// processes. It waits for processes that are about to end.
pub fn left(pid: u32, mark: &str, temporary: &Path) -> Vec<String> {
    let begin = Instant::now();
    while !marked(mark).is_empty() && begin.elapsed() < ENDING {
        std::thread::sleep(Duration::from_millis(10));
    }
    let processes = marked(mark).into_iter().map(|pid| format!("process {pid}: {}", command_of(pid)));
    processes.chain(names(pid, temporary)).collect()
}

pub fn names(pid: u32, temporary: &Path) -> Vec<String> {
    let prefix = format!("tripmeter-{:x}-{pid}-", process_place());
    let mut found = Vec::new();
    for folder in [Path::new("/dev/shm"), Path::new("/dev/mqueue"), temporary] {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        found.extend(names.filter(|name| name.contains(&prefix)).map(|name| format!("{}/{name}", folder.display())));
    }
    let sockets = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    found.extend(sockets.lines().filter(|line| line.contains(&prefix)).map(str::to_owned));
    found
}

/// Processes of the run whose [`MARK`] has this value.
pub fn marked(mark: &str) -> Vec<u32> {
    let wanted = format!("{MARK}={mark}");
    let has_mark = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes())
    };
    pids().into_iter().filter(has_mark).collect()
}

pub fn pids() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Command line of a process, separated by spaces.
pub fn command_of(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).trim_end_matches('\0').replace('\0', " ")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workers {
    /// Worker with result files open.
    pub leader: Option<u32>,
    /// Any other worker.
    pub follower: Option<u32>,
}

/// Workers of a supervisor; the leader is the one that has result files open.
pub fn workers(supervisor: u32) -> Workers {
    let mut workers = Workers { leader: None, follower: None };
    for pid in pids().into_iter().filter(|pid| parent_of(*pid) == Some(supervisor)) {
        if !command_of(pid).ends_with(" worker") {
            continue;
        }
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut targets = files.filter_map(|file| fs::read_link(file.path()).ok());
        let is_of_results =
            |name: &str| ["/samples/", "/histograms/", "/measurements_"].iter().any(|part| name.contains(part));
        if targets.any(|target| is_of_results(&target.to_string_lossy())) {
            workers.leader = Some(pid);
        } else {
            workers.follower = Some(pid);
        }
    }
    workers
}

fn parent_of(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok())
}

//! Names and processes that runs leave in the system.

use std::fs;
use std::process::Command;
use std::time::Duration;

pub use tripmeter_conformance::traces::{MARK, Workers, command_of, left, marked, names, pids, workers};

/// A running process of the program with that file name.
pub fn running(program: &str) -> Option<u32> {
    let is_it = |pid: &u32| {
        let command = command_of(*pid);
        command.split(' ').next().and_then(|path| path.rsplit('/').next()) == Some(program)
    };
    pids().into_iter().find(is_it)
}

pub fn signal(pid: u32, signal: &str) {
    let status = Command::new("kill").arg(format!("-{signal}")).arg(pid.to_string()).status();
    assert!(status.expect("kill is installed").success(), "no process {pid}");
}

/// Number of times that the threads of a process went to sleep; it grows with every message waited for.
pub fn sleeps(pid: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of = |text: String| {
        text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse::<u64>().ok())
    };
    threads.filter_map(|thread| of(fs::read_to_string(thread.path().join("status")).ok()?)).sum()
}

pub fn cpu_time(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name in front may contain spaces; user and system time are the 12th and 13th field after it, in ticks of 10
    // ms.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    Duration::from_millis(fields.filter_map(|field| field.parse::<u64>().ok()).sum::<u64>() * 10)
}

//! System calls of worker processes, as written by `strace`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;
use tripmeter_model::explain::CallCount;
use tripmeter_model::folder_handle::FolderHandle;
use tripmeter_model::plan::{Instrument, Plan};

pub const PROGRAM: &str = "strace";

pub type CallCounts = BTreeMap<String, CallCount>;

pub fn trace_file(logs: &Path, sub_experiment: &str, worker: &str) -> PathBuf {
    logs.join(format!("{sub_experiment}.{worker}.strace"))
}

pub fn remove_traces(plan: &Plan, logs: &FolderHandle) {
    let traced = plan.sub_experiments.iter().filter(|sub| sub.instrument == Some(Instrument::SystemCalls));
    for sub in traced {
        for worker in ["leader", "follower"] {
            // A process with both sides has only one trace.
            let _ = logs.at("").map(|logs| fs::remove_file(trace_file(&logs, &sub.name, worker)));
        }
    }
}

/// Command that runs `program`, with all of its threads traced into `file`.
pub(crate) fn traced(program: &Path, file: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    // strace takes a name that begins with `|` or `!` for a command.
    let file = std::path::absolute(file).unwrap_or_else(|_| Path::new(".").join(file));
    // With -D, the traced process is our child, not strace's. Raw arguments need no access to its memory.
    command.args(["-D", "-f", "-qq", "-e", "raw=all", "-e", "signal=none", "-o"]).arg(file).arg("--").arg(program);
    command
}

/// Checks that system calls can be traced here; the error has reason and fix.
pub fn check() -> Result<(), String> {
    let output = Command::new(PROGRAM).args(["-qq", "-o", "/dev/null", "true"]).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.lines().next().unwrap_or("it printed nothing").to_owned();
            Err(format!(
                "strace cannot trace here ({said}); allow ptrace (kernel.yama.ptrace_scope, container profile)"
            ))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err("strace is not installed; install it with `sudo apt-get install strace`".to_owned())
        }
        Err(error) => Err(format!("strace cannot be started: {error}")),
    }
}

pub fn read(file: &Path) -> io::Result<CallCounts> {
    let mut counts = CallCounts::new();
    for line in BufReader::new(File::open(file)?).split(b'\n') {
        if let Some((name, call)) = parse(&String::from_utf8_lossy(&line?)) {
            counts.entry(name.to_owned()).or_default().add(call);
        }
    }
    Ok(counts)
}

/// Parses a finished call: `12 sendto(0x3, ...) = 0x400`, `12 <... recvfrom resumed>) = -1 EAGAIN (...)`.
pub(crate) fn parse(line: &str) -> Option<(&str, CallCount)> {
    let (_, call) = line.split_once(' ')?;
    let call = call.trim_start();
    let (call, result) = call.rsplit_once(" = ")?;
    let (name, arguments) = match call.strip_prefix("<... ") {
        Some(resumed) => (resumed.split_once(' ')?.0, None),
        None => {
            let (name, arguments) = call.split_once('(')?;
            (name, Some(arguments))
        }
    };
    let found_nothing = LOOKS.contains(&name) && number(result) == Some(0);
    let in_vain = result.starts_with('-') || result.starts_with('?') || found_nothing;
    let count = CallCount { calls: u64::from(!in_vain), in_vain: u64::from(in_vain), bytes: 0 };
    if in_vain {
        return Some((name, count));
    }
    let bytes = match bytes_of(name) {
        CopiedBytes::Returned => number(result),
        CopiedBytes::Third => arguments.and_then(|arguments| number(arguments.split(", ").nth(2)?)),
        CopiedBytes::No => None,
    };
    Some((name, CallCount { bytes: bytes.unwrap_or(0), ..count }))
}

/// Calls that wait for an event, and return 0 after a timeout.
const LOOKS: [&str; 7] = ["poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2"];

/// Place of the number of copied bytes in a call.
enum CopiedBytes {
    Returned,
    Third,
    No,
}

fn bytes_of(name: &str) -> CopiedBytes {
    match name {
        "read" | "readv" | "pread64" | "preadv" | "write" | "writev" | "pwrite64" | "pwritev" | "sendto"
        | "sendmsg" | "recvfrom" | "recvmsg" | "mq_timedreceive" | "msgrcv" | "process_vm_readv"
        | "process_vm_writev" => CopiedBytes::Returned,
        "mq_timedsend" | "msgsnd" => CopiedBytes::Third,
        _ => CopiedBytes::No,
    }
}

fn number(text: &str) -> Option<u64> {
    let word = text.trim_end_matches(')').split_whitespace().next()?.trim_end_matches([',', ')']);
    match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_with_their_outcome_and_bytes() {
        let call = |calls, in_vain, bytes| CallCount { calls, in_vain, bytes };
        for (line, expected) in [
            ("12 sendto(0x3, 0x7f, 0x400, 0, 0, 0) = 0x400", Some(("sendto", call(1, 0, 1024)))),
            ("12    recvfrom(0x3, 0x7f, 0x400, 0, 0, 0) = -1 EAGAIN (Resource)", Some(("recvfrom", call(0, 1, 0)))),
            ("12 recvfrom(0x3, 0x7f, 0x400, 0, 0, 0 <unfinished ...>", None),
            ("12 <... recvfrom resumed>) = 16", Some(("recvfrom", call(1, 0, 16)))),
            ("12 mq_timedsend(0x5, 0x7f, 0x40, 0, 0) = 0", Some(("mq_timedsend", call(1, 0, 64)))),
            ("12 msgsnd(0, 0x7f, 0x10, 0) = 0", Some(("msgsnd", call(1, 0, 16)))),
            ("12 futex(0x7f, 0x80, 0, 0, 0, 0) = 0x1", Some(("futex", call(1, 0, 0)))),
            ("12 poll(0x7f, 0x1, 0x32) = ? ERESTART_RESTARTBLOCK (Interrupted)", Some(("poll", call(0, 1, 0)))),
            ("12 epoll_wait(0x7, 0x7f, 0x400, 0) = 0", Some(("epoll_wait", call(0, 1, 0)))),
            ("12 <... poll resumed>) = 0 (Timeout)", Some(("poll", call(0, 1, 0)))),
            ("12 poll(0x7f, 0x1, 0x32) = 0x1", Some(("poll", call(1, 0, 0)))),
            ("12 exit_group(0) = ?", Some(("exit_group", call(0, 1, 0)))),
            ("12 +++ exited with 0 +++", None),
            ("", None),
        ] {
            assert_eq!(parse(line), expected, "{line}");
        }
    }

    #[test]
    fn a_trace_is_read_whole() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"1 write(0x1, 0x2, 0x3) = 0x3\n2 write(0x1, 0x2, 0x5) = 0x5\n\xff junk\n1 wri")
            .unwrap();
        let counts = read(file.path()).unwrap();
        assert_eq!(counts["write"], CallCount { calls: 2, in_vain: 0, bytes: 8 });
        assert_eq!(counts.len(), 1);
    }
}

//! Output of other programs and hosts, read within bounds of size and time.

use crate::spawn::kill;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tripmeter_model::printable::line;

const MOST_LINE_BYTES: usize = 4096;
const MOST_OUTPUT_BYTES: u64 = 1 << 20;
/// Longest time that standard output may stay open after its program has ended: another process may hold it.
const CLOSING_TIME: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
const OUR_ERROR: &str = "tripmeter: ";
/// Parts of ssh's line about a changed key, before and after the host.
const CHANGED_KEY: (&str, &str) = ("Host key for ", " has changed and you have requested strict checking.");
/// Prefixes of lines that follow an error, but are less specific than it.
const SAYS_LESS: [&str; 4] =
    ["srun: ", "stdio forwarding failed", "Connection closed by UNKNOWN", "Host key verification failed"];
const TELLING_TIME: Duration = Duration::from_secs(10);

/// Next line, printable in one line of a terminal; `None` at the end. A longer line is cut to 4 KiB, and the number of
/// bytes left out is appended.
pub(crate) fn next_line(stream: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut said = Vec::new();
    stream.by_ref().take(MOST_LINE_BYTES as u64).read_until(b'\n', &mut said)?;
    if said.is_empty() {
        return Ok(None);
    }
    let is_whole = said.len() < MOST_LINE_BYTES || said.ends_with(b"\n");
    let left_out = if is_whole { 0 } else { stream.skip_until(b'\n')? };
    let text = line(String::from_utf8_lossy(&said).trim()).into_owned();
    Ok(Some(if left_out > 1 { format!("{text} … and {left_out} bytes more") } else { text }))
}

/// Last lines of the standard error of a program, read by a thread.
pub(super) struct ErrorLines {
    kept: Arc<Mutex<LastLines>>,
    /// Disconnected at the end of the stream.
    end: Receiver<()>,
}

#[derive(Default)]
struct LastLines {
    /// Last error of tripmeter.
    ours: Option<String>,
    last: Option<String>,
}

impl ErrorLines {
    pub fn read(errors: impl Read + Send + 'static) -> Self {
        let (kept, (sender, end)) = (Arc::<Mutex<LastLines>>::default(), channel());
        let lines = kept.clone();
        std::thread::spawn(move || {
            let (mut errors, _sender) = (BufReader::new(errors), sender);
            while let Ok(Some(said)) = next_line(&mut errors) {
                unpoisoned(&lines).note(said);
            }
        });
        Self { kept, end }
    }

    /// Last error from tripmeter, or else the last line. Waits at most `time` for the end of the stream.
    pub fn last(&self, time: Duration) -> Option<String> {
        // Nothing is ever sent; the channel only closes.
        let _: Result<(), RecvTimeoutError> = self.end.recv_timeout(time);
        let kept = unpoisoned(&self.kept);
        kept.ours.clone().or_else(|| kept.last.clone())
    }
}

fn unpoisoned(lines: &Mutex<LastLines>) -> MutexGuard<'_, LastLines> {
    lines.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LastLines {
    fn note(&mut self, said: String) {
        if let Some(error) = said.strip_prefix(OUR_ERROR) {
            self.ours = Some(error.to_owned());
        }
        let says_less = SAYS_LESS.iter().any(|begin| said.starts_with(begin));
        if !(said.is_empty() || says_less && self.last.is_some()) {
            self.last = Some(changed_key(&said).unwrap_or(said));
        }
    }
}

/// Advice for a changed host key. Of the 16 lines that ssh prints about it, this is the one with the host.
fn changed_key(said: &str) -> Option<String> {
    let host = said.strip_prefix(CHANGED_KEY.0)?.strip_suffix(CHANGED_KEY.1)?;
    Some(format!("the key of {host} has changed; if it should have, remove the old one by `ssh-keygen -R '{host}'`"))
}

pub(super) struct ProgramOutput {
    pub status: ExitStatus,
    pub text: String,
    /// Last error from tripmeter, or else the last line of standard error.
    pub error: Option<String>,
}

/// Runs a program with `input`, or nothing, as standard input. The program is killed if it reads nothing from that file
/// for `time`. More than 1 MiB of output is an error.
pub(super) fn run(command: &mut Command, input: Option<File>, time: Duration) -> io::Result<ProgramOutput> {
    let mut read = input.as_ref().map(File::try_clone).transpose()?;
    let input = input.map_or_else(Stdio::null, Stdio::from);
    let mut child = command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (Some(output), Some(errors)) = (child.stdout.take(), child.stderr.take()) else {
        unreachable!("both are pipes");
    };
    let (errors, (sender, said)) = (ErrorLines::read(errors), channel());
    std::thread::spawn(move || {
        let (mut output, mut text) = (output, Vec::new());
        let taken = output.by_ref().take(MOST_OUTPUT_BYTES).read_to_end(&mut text);
        let taken = taken.and_then(|_| io::copy(&mut output, &mut io::sink()));
        // An error means that nobody waits for the output any more.
        let _ = sender.send(taken.map(|left_out| (text, left_out)));
    });
    let status = ended(&mut child, time, || read.as_mut().map_or(0, |file| file.stream_position().unwrap_or(0)))?;
    let said = said.recv_timeout(CLOSING_TIME);
    let (text, left_out) =
        said.map_err(|_| io::Error::new(ErrorKind::TimedOut, "its output stays open after its end"))??;
    if left_out > 0 {
        let bytes = MOST_OUTPUT_BYTES + left_out;
        return Err(io::Error::other(format!("its output has {bytes} bytes (limit {MOST_OUTPUT_BYTES})")));
    }
    Ok(ProgramOutput { status, text: String::from_utf8_lossy(&text).into_owned(), error: errors.last(CLOSING_TIME) })
}

/// Waits for a child to end. Kills it once `place` has not changed for `time`.
fn ended(child: &mut Child, time: Duration, mut place: impl FnMut() -> u64) -> io::Result<ExitStatus> {
    let (mut moved, mut last, mut pause) = (Instant::now(), place(), Duration::from_millis(1));
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        let now = place();
        if now != last {
            (moved, last) = (Instant::now(), now);
        }
        if moved.elapsed() > time {
            kill(child);
            let text = format!("no data moved for {} s, so it was ended", time.as_secs_f64());
            return Err(io::Error::new(ErrorKind::TimedOut, text));
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}

/// Standard output of a system program. The error is one line.
pub(super) fn told(program: &str, arguments: &[&str]) -> Result<String, String> {
    // Debian's folders of system programs, which are not in every user's path.
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let mut command = Command::new(program);
    command.args(arguments).env("PATH", path).env("LC_ALL", "C");
    let output = run(&mut command, None, TELLING_TIME).map_err(|error| match error.kind() {
        ErrorKind::NotFound => format!("`{program}` is not installed"),
        _ => format!("`{program}`: {error}"),
    })?;
    match output.error {
        _ if output.status.success() => Ok(output.text),
        error => Err(format!("`{program}`: {}", error.as_deref().unwrap_or("it printed nothing"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const SHORT: Duration = Duration::from_millis(200);
    const LONG: Duration = Duration::from_secs(60);

    fn sh(script: &str) -> Command {
        let mut sh = Command::new("sh");
        sh.args(["-c", script]);
        sh
    }

    #[test]
    fn a_line_without_end_is_cut_and_says_so_and_the_next_one_is_whole() {
        let long = "x".repeat(MOST_LINE_BYTES);
        let text = format!("a\u{1b}\n{long}{long}\nb\n{long}\nc");
        let mut stream = BufReader::new(text.as_bytes());
        let lines: Vec<String> = std::iter::from_fn(|| next_line(&mut stream).unwrap()).collect();
        assert_eq!(lines, ["a\\u001b", &format!("{long} … and 4097 bytes more"), "b", &long, "c"]);
    }

    #[test]
    fn a_flood_of_lines_leaves_the_last_error_of_ours_and_else_the_last_line() {
        let flood = |end: &str| {
            let (reader, mut writer) = std::io::pipe().unwrap();
            let lines = ErrorLines::read(reader);
            for _ in 0..100_000 {
                writer.write_all(b"noise\n").unwrap();
            }
            writer.write_all(end.as_bytes()).unwrap();
            drop(writer);
            lines.last(LONG)
        };
        assert_eq!(flood("tripmeter: why\nmore\n").as_deref(), Some("why"));
        assert_eq!(flood("last\n\nsrun: error: it failed\n").as_deref(), Some("last"));
        let jump = "channel 0: open failed: connect failed: No route to host\n";
        let flooded = flood(&format!("{jump}stdio forwarding failed\nConnection closed by UNKNOWN port 65535\n"));
        assert_eq!(flooded.as_deref(), Some(jump.trim()));
        let (reader, _open) = std::io::pipe().unwrap();
        assert_eq!(ErrorLines::read(reader).last(SHORT), None, "it does not end");
    }

    #[test]
    fn a_program_is_ended_where_nothing_moves_and_not_where_it_reads_on() {
        let ran = run(&mut sh("echo out; echo err >&2; exit 3"), None, LONG).unwrap();
        assert_eq!((ran.status.code(), ran.text.as_str(), ran.error.as_deref()), (Some(3), "out\n", Some("err")));
        let error = run(&mut sh("exec sleep 600"), None, SHORT).err().unwrap();
        assert!(error.kind() == ErrorKind::TimedOut && error.to_string().contains("for 0.2 s"), "{error}");
        let error = run(&mut sh("cat /dev/zero | head -c 2000000"), None, LONG).err().unwrap().to_string();
        assert_eq!(error, "its output has 2000000 bytes (limit 1048576)");
        // Copying everything takes longer than `time`.
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[b'x'; 12]).unwrap();
        file.rewind().unwrap();
        let slow = "for part in 1 2 3 4 5 6; do dd bs=2 count=1 2>/dev/null; sleep 0.5; done";
        let ran = run(&mut sh(slow), Some(file), Duration::from_secs(2)).unwrap();
        assert_eq!(ran.text, "x".repeat(12));
    }
}

//! A command on another host, whose results folder is brought here: one connection for all of it, by ssh or by Slurm.
//!
//! The script goes to `sh` there by standard input, so no login shell reads it. Standard output is a line with the exit code
//! and then the folder as an archive of `tar`; where standard input ends, the command is ended, too.

use super::ssh::{command, program};
use rustix::process::{Pid, Signal, kill_process};
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Component, Path};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tar::{Archive, EntryType};
use tripmeter_model::exit;
use tripmeter_model::printable::line;

/// Stands before the exit code; what a shell says before is something else.
const MARK: &str = "tripmeter-ended";
/// How long a command that was stopped may take to end.
const ENDING_TIME: Duration = Duration::from_secs(20);
/// Most bytes after the end of an archive.
const MOST_PADDING: u64 = 1 << 20;
/// Between two looks at whether it was stopped.
const LOOKING: Duration = Duration::from_millis(100);
/// What our errors begin with.
const OUR_ERROR: &str = "tripmeter: ";

/// What is run there.
#[derive(Clone, Copy, Debug)]
pub struct CommandThere<'a> {
    /// How its host is reached.
    pub way: WayThere<'a>,
    /// Name of the folder that the program was pushed to.
    pub pushed: &'a str,
    /// A measuring command and its flags, without a results folder.
    pub words: &'a [String],
    /// Name and text of a file in the folder that it is run in.
    pub file: Option<(&'a str, &'a str)>,
}

/// How the host of a command is reached.
#[derive(Clone, Copy, Debug)]
pub enum WayThere<'a> {
    /// By ssh, as it takes the host.
    Ssh(&'a str),
    /// By Slurm, which allocates these nodes exclusively; the command runs on the first.
    Slurm(&'a [&'a str]),
}

impl WayThere<'_> {
    /// Runs `sh` there, which reads standard input.
    fn shell(&self) -> Command {
        match self {
            WayThere::Ssh(host) => {
                let mut ssh = command(host);
                ssh.arg("exec sh -s");
                ssh
            }
            WayThere::Slurm(nodes) => {
                let first = nodes.first().copied().unwrap_or_default();
                let mut salloc = Command::new("salloc");
                salloc.args(["--quiet", "--exclusive", "--job-name=tripmeter", &format!("--nodes={}", nodes.len())]);
                salloc.args([&format!("--nodelist={}", nodes.join(",")), "srun", "--quiet", "--nodes=1", "--ntasks=1"]);
                salloc.args([&format!("--nodelist={first}"), "--chdir=/", "sh", "-s"]);
                salloc
            }
        }
    }

    /// What cannot be started, and what to do.
    fn not_started(&self, error: &io::Error) -> String {
        let [program, package] = match self {
            WayThere::Ssh(_) => ["ssh", "openssh-client"],
            WayThere::Slurm(_) => ["salloc", "slurm-client"],
        };
        match error.kind() {
            io::ErrorKind::NotFound => format!("no `{program}` here: install {package}"),
            _ => format!("{program} cannot be started: {error}"),
        }
    }
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedThere {
    /// Its exit code.
    pub code: u8,
    /// The error that it named last.
    pub error: Option<String>,
}

/// Runs a command on another host in a folder of its own, which is removed afterwards, and unpacks its results folder as
/// `into`, if it made one. Once `stop` is set, the command is ended as by Ctrl-C, and its code is 130.
///
/// # Errors
/// Why there are no results, in one line: the host cannot be reached, or the archive is damaged or would leave `into`.
pub fn run_there(asked: &CommandThere<'_>, into: &Path, stop: &AtomicBool) -> Result<EndedThere, String> {
    let mut shell = asked.way.shell();
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = shell.spawn().map_err(|error| asked.way.not_started(&error))?;
    let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(mut input), Some(output), Some(errors)) = (input, output, errors) else {
        unreachable!("all three are pipes");
    };
    let script = script(asked);
    // An ssh that has ended says why.
    let _ = input.write_all(script.as_bytes());
    let (child, is_over) = (Mutex::new(child), AtomicBool::new(false));
    let (found, said) = std::thread::scope(|scope| {
        let said = scope.spawn(|| last_words(errors));
        scope.spawn(|| end_when_stopped(&child, input, stop, &is_over));
        let found = receive(BufReader::new(output), into);
        is_over.store(true, Relaxed);
        (found, said.join().unwrap_or_default())
    });
    let mut child = child.into_inner().unwrap_or_else(PoisonError::into_inner);
    let status = child.wait().map_err(|error| error.to_string())?;
    let interrupted = EndedThere { code: exit::INTERRUPTED, error: None };
    match found {
        _ if stop.load(Relaxed) => Ok(interrupted),
        Ok(Some(_)) if !status.success() => {
            Err(format!("its results are not whole: the connection ended with {status}"))
        }
        Ok(Some(code)) => Ok(EndedThere { code, error: said }),
        Ok(None) => Err(said.unwrap_or_else(|| format!("the connection ended with {status}"))),
        Err(error) => Err(format!("its results cannot be unpacked: {error}")),
    }
}

/// Keeps the standard input of the command open until it is over or stopped; what does not end then is killed.
fn end_when_stopped(child: &Mutex<Child>, input: ChildStdin, stop: &AtomicBool, is_over: &AtomicBool) {
    while !is_over.load(Relaxed) && !stop.load(Relaxed) {
        std::thread::sleep(LOOKING);
    }
    drop(input);
    for signal in [Signal::TERM, Signal::KILL] {
        let begin = Instant::now();
        while !is_over.load(Relaxed) && begin.elapsed() < ENDING_TIME {
            std::thread::sleep(LOOKING);
        }
        if !is_over.load(Relaxed) {
            let child = child.lock().unwrap_or_else(PoisonError::into_inner);
            // It may have ended by itself.
            let _ = kill_process(Pid::from_child(&child), signal);
        }
    }
}

/// The last error of ours, else the last line.
fn last_words(errors: impl Read) -> Option<String> {
    let (mut ours, mut last) = (None, None);
    for said in BufReader::new(errors).split(b'\n').map_while(Result::ok) {
        let said = line(String::from_utf8_lossy(&said).trim()).into_owned();
        if let Some(error) = said.strip_prefix(OUR_ERROR) {
            ours = Some(error.to_owned());
        }
        // Slurm says after each error that there was one.
        let adds_nothing = said.is_empty() || said.starts_with("srun: ") && last.is_some();
        last = if adds_nothing { last } else { Some(said) };
    }
    ours.or(last)
}

/// Waits for the exit code and unpacks the results that follow; `None` if there is no code.
fn receive(mut output: impl BufRead, into: &Path) -> io::Result<Option<u8>> {
    let mut said = Vec::new();
    let code = loop {
        said.clear();
        if output.read_until(b'\n', &mut said)? == 0 {
            return Ok(None);
        }
        let said = String::from_utf8_lossy(&said);
        let code = said.trim().strip_prefix(MARK).and_then(|code| code.trim().parse().ok());
        if code.is_some() {
            break code;
        }
    };
    if !output.fill_buf()?.is_empty() {
        unpack(&mut output, into)?;
        // `tar` fills its last block, and fails where nobody takes that.
        io::copy(&mut output.take(MOST_PADDING), &mut io::sink())?;
    }
    Ok(code)
}

/// Unpacks files and folders, and nothing else, below a folder that is made for them.
fn unpack(archive: impl Read, into: &Path) -> io::Result<()> {
    std::fs::create_dir_all(into)?;
    let mut archive = Archive::new(archive);
    archive.set_preserve_permissions(false);
    archive.set_unpack_xattrs(false);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let refused = |why: &str| Err(io::Error::other(format!("'{}' {why}", line(&path.to_string_lossy()))));
        if !path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
            return refused("leads out of the folder");
        }
        if ![EntryType::Regular, EntryType::Directory].contains(&entry.header().entry_type()) {
            return refused("is neither a file nor a folder");
        }
        if !entry.unpack_in(into)? {
            return refused("leads out of the folder");
        }
    }
    Ok(())
}

/// What `sh` there reads. It is one compound command, so that all is read before anything else is.
fn script(asked: &CommandThere<'_>) -> String {
    let mut text = format!(
        "{{ {}\nf=$(mktemp -d \"${{TMPDIR:-/tmp}}/tripmeter-fleet.XXXXXX\") || exit {}\n\
         trap 'cd /; rm -rf \"$f\"' EXIT\ncd \"$f\" || exit {}\n",
        program(asked.pushed),
        exit::CANNOT_CREATE,
        exit::CANNOT_CREATE
    );
    if let Some((name, contents)) = asked.file {
        let _ = writeln!(text, "printf %s {} >{}", quoted(contents), quoted(name));
    }
    let (name, flags) = asked.words.split_first().map_or(("", &[][..]), |(name, flags)| (name.as_str(), flags));
    let flags: String = flags.iter().map(|word| format!(" {}", quoted(word))).collect();
    let _ = write!(
        text,
        "exec 3<&0\n\"$p\" {} -o results{flags} 3<&- >/dev/null &\nrun=$!\n\
         {{ read -r _ <&3; kill -TERM $run; }} >/dev/null 2>&1 &\nlook=$!\n\
         wait $run; code=$?\nkill $look 2>/dev/null\ntrap '' PIPE\necho \"{MARK} $code\"\n\
         if [ -e results ]; then tar -C results -cf - . || exit {}; fi\nexit 0\n}}\n",
        quoted(name),
        exit::SOFTWARE
    );
    text
}

/// One word of `sh`.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An archive of one entry; `tar` itself refuses to write some names.
    fn archive(path: &str, kind: EntryType) -> Vec<u8> {
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(kind);
        header.set_size(if kind == EntryType::Regular { 2 } else { 0 });
        header.set_mode(0o644);
        header.set_cksum();
        let mut builder = tar::Builder::new(Vec::new());
        builder.append(&header, &b"hi"[..if kind == EntryType::Regular { 2 } else { 0 }]).unwrap();
        builder.into_inner().unwrap()
    }

    #[test]
    fn files_are_unpacked_and_what_climbs_or_links_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let into = folder.path().join("into");
        unpack(&archive("./a/b", EntryType::Regular)[..], &into).unwrap();
        assert_eq!(std::fs::read(into.join("a/b")).unwrap(), b"hi");
        for (path, kind, why) in [
            ("../out", EntryType::Regular, "leads out"),
            ("a/../../out", EntryType::Regular, "leads out"),
            ("/out", EntryType::Regular, "leads out"),
            ("link", EntryType::Symlink, "neither a file nor a folder"),
            ("link", EntryType::Link, "neither a file nor a folder"),
            ("pipe", EntryType::Fifo, "neither a file nor a folder"),
        ] {
            let error = unpack(&archive(path, kind)[..], &into).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains(path), "{path}: {error}");
        }
        assert!(!folder.path().join("out").exists());
    }

    #[test]
    fn the_code_comes_after_what_a_shell_says_and_before_the_archive() {
        let folder = tempfile::tempdir().unwrap();
        let into = folder.path().join("into");
        let text = [b"Welcome\ntripmeter-ended 75\n".to_vec(), archive("a", EntryType::Regular)].concat();
        assert_eq!(receive(&text[..], &into).unwrap(), Some(75));
        assert!(into.join("a").exists());
        assert_eq!(receive(&b"Welcome\n"[..], &into).unwrap(), None);
        assert!(receive(&text[..text.len() - 1300], &into).is_err(), "it is cut off");
    }

    #[test]
    fn words_reach_the_program_as_they_are_and_its_folder_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("tripmeter");
        let text = "#!/bin/sh\n[ -e given.toml ] || exit 9\nshift\nmkdir \"$2\"\nfor word; do echo \"$word\"; done >\"$2/words\"\nexit 75\n";
        std::fs::write(&program, text).unwrap();
        Command::new("chmod").arg("+x").arg(&program).status().unwrap();
        let words = ["ping", "it's", "$(x)", "a b"].map(str::to_owned);
        let asked = CommandThere {
            way: WayThere::Ssh(""),
            pushed: "none",
            words: &words,
            file: Some(("given.toml", "a = 'b'\n")),
        };
        let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
        let mut sh = Command::new("sh");
        let sh = sh.arg("-s").env("PATH", path).env("TMPDIR", folder.path()).stdin(Stdio::piped());
        let mut child = sh.stdout(Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(script(&asked).as_bytes()).unwrap();
        let into = folder.path().join("into");
        let code = receive(BufReader::new(child.stdout.take().unwrap()), &into).unwrap();
        assert!(child.wait().unwrap().success());
        assert_eq!(code, Some(75));
        assert_eq!(std::fs::read_to_string(into.join("words")).unwrap(), "-o\nresults\nit's\n$(x)\na b\n");
        let left = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 2, "its folder is removed");
    }
}

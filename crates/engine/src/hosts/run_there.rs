//! Runs a command on another host and brings its results folder here, by one connection of ssh or Slurm.
//!
//! The script goes to `sh` by standard input, so no login shell reads it. Each further line of input is answered with a
//! line, as a heartbeat. The end of input ends the command. The output has these answers, a line with the exit code,
//! and then the folder as a `tar` archive.

mod connection;
mod unpack;

use super::bounded::{ErrorLines, next_line};
use super::ssh::{PUSH_IT, command, program};
use connection::{HostConnection, HostPatience, WatchedOutput};
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tripmeter_model::exit;
pub(crate) use unpack::{ArchiveLimits, unpack};

/// Prefix of the line with the exit code; the shell may print other lines before it.
const MARK: &str = "tripmeter-ended";
/// Answer that serves as heartbeat.
const ALIVE: &str = "tripmeter-alive";
const MOST_PADDING: u64 = 1 << 20;
const LAST_WORDS_TIME: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
pub struct CommandThere<'a> {
    pub way: WayThere<'a>,
    /// Folder on the host that tripmeter was copied to.
    pub pushed: &'a str,
    /// Measuring command and its flags, without a results folder.
    pub words: &'a [String],
    /// Name and text of a file in its working folder.
    pub file: Option<(&'a str, &'a str)>,
}

#[derive(Clone, Copy, Debug)]
pub enum WayThere<'a> {
    /// By ssh, to this host.
    Ssh(&'a str),
    /// By Slurm, which allocates these nodes exclusively. The command runs on the first node.
    Slurm(&'a [&'a str]),
}

impl WayThere<'_> {
    /// Command that runs `sh` on the host, with our standard input.
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedThere {
    pub code: u8,
    pub error: Option<String>,
}

/// Runs a command on another host in a temporary folder, and unpacks its results folder as `into`, if there is one.
/// Once `stop` is set, the command is ended as by Ctrl-C, and the code is 130.
///
/// # Errors
/// The reason for missing results, in one line: the host is unreachable, is silent or has another version, or the
/// archive is damaged, too large or would leave `into`.
pub fn run_there(asked: &CommandThere<'_>, into: &Path, stop: &AtomicBool) -> Result<EndedThere, String> {
    run(asked.way.shell(), asked, into, stop, HostPatience::USUAL)
}

fn run(
    mut shell: Command,
    asked: &CommandThere<'_>,
    into: &Path,
    stop: &AtomicBool,
    patience: HostPatience,
) -> Result<EndedThere, String> {
    // Ctrl-C in the terminal must not reach this process: the command on the host ends first.
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = shell.spawn().map_err(|error| asked.way.not_started(&error))?;
    let (Some(input), Some(output), Some(errors)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        unreachable!("all three are pipes");
    };
    let errors = ErrorLines::read(errors);
    let connection = HostConnection::new(patience, matches!(asked.way, WayThere::Slurm(_)));
    let (found, status) = std::thread::scope(|scope| {
        scope.spawn(|| connection.feed(input, &script(asked)));
        let status = scope.spawn(|| connection.watch(&mut child, stop));
        let found = receive(BufReader::new(WatchedOutput::new(output, &connection)), into);
        connection.finish();
        (found, status.join().ok().flatten())
    });
    let said = errors.last(LAST_WORDS_TIME);
    let how = status.map_or_else(|| "does not end".to_owned(), |status| format!("ended with {status}"));
    let is_good = status.is_some_and(|status| status.success());
    match found {
        _ if stop.load(Relaxed) => Ok(EndedThere { code: exit::INTERRUPTED, error: None }),
        Err(_) if connection.was_silent() => {
            Err(format!("it has sent nothing for {} s; is the link cut, or does it hang?", patience.silence.as_secs()))
        }
        Err(error) => Err(format!("its results cannot be unpacked: {error}")),
        Ok(Some(_)) if !is_good => Err(format!("its results are incomplete: the connection {how}")),
        Ok(Some(code)) => Ok(EndedThere { code, error: said }),
        Ok(None) => Err(said.unwrap_or_else(|| format!("the connection {how}"))),
    }
}

/// Waits for the exit code and unpacks the results that follow; `None` without a code.
fn receive(mut output: impl BufRead, into: &Path) -> io::Result<Option<u8>> {
    let code = loop {
        let Some(said) = next_line(&mut output)? else { return Ok(None) };
        let code = said.strip_prefix(MARK).and_then(|code| code.trim().parse().ok());
        if code.is_some() {
            break code;
        }
    };
    if !output.fill_buf()?.is_empty() {
        unpack(&mut output, into, ArchiveLimits::USUAL)?;
        // `tar` pads its last block, and fails if nobody reads it.
        io::copy(&mut output.take(MOST_PADDING), &mut io::sink())?;
    }
    Ok(code)
}

/// Script for `sh` on the host: one compound command, so that `sh` reads all of it before it runs anything.
fn script(asked: &CommandThere<'_>) -> String {
    let advice = match asked.way {
        WayThere::Ssh(_) => PUSH_IT,
        WayThere::Slurm(_) => "install it into the path of its jobs",
    };
    let own = concat!("tripmeter ", env!("CARGO_PKG_VERSION"));
    let mut text = format!(
        "{{ {}\necho {ALIVE}\nv=$(\"$p\" --version 2>/dev/null)\n\
         [ \"$v\" = \"{own}\" ] || {{ echo \"tripmeter: it has '$v', this host '{own}'; use the same\" >&2; exit {}; }}\n\
         f=$(mktemp -d \"${{TMPDIR:-/tmp}}/tripmeter-fleet.XXXXXX\") || exit {}\n\
         trap 'cd /; rm -rf \"$f\"' EXIT\ncd \"$f\" || exit {}\n",
        program(asked.pushed, advice),
        exit::UNAVAILABLE,
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
         {{ trap '' PIPE; while read -r _; do echo {ALIVE}; done; kill -TERM $run; }} <&3 2>/dev/null &\nlook=$!\n\
         wait $run; code=$?\n{{ kill $look; wait $look; }} 2>/dev/null\ntrap '' PIPE\necho \"{MARK} $code\"\n\
         if [ -e results ]; then tar -C results -cf - . || exit {}; fi\nexit 0\n}}\n",
        quoted(name),
        exit::SOFTWARE
    );
    text
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::unpack::tests::archive;
    use super::*;
    use std::time::Instant;
    use tar::EntryType;
    use tempfile::TempDir;

    const PATIENCE: HostPatience = HostPatience {
        asking: Duration::from_millis(100),
        silence: Duration::from_secs(2),
        ending: Duration::from_millis(200),
    };

    #[test]
    fn the_code_comes_after_what_a_shell_says_and_before_the_archive() {
        let folder = tempfile::tempdir().unwrap();
        let into = folder.path().join("into");
        let text = [b"Welcome\ntripmeter-ended 75\n".to_vec(), archive("audit.json", EntryType::Regular)].concat();
        assert_eq!(receive(&text[..], &into).unwrap(), Some(75));
        assert!(into.join("audit.json").exists());
        assert_eq!(receive(&b"Welcome\n"[..], &into).unwrap(), None);
        assert!(receive(&text[..text.len() - 1300], &into).is_err(), "it is cut off");
    }

    /// Host whose `tripmeter` is a script, in a folder that is its path.
    struct ScriptedHost(TempDir);

    impl ScriptedHost {
        fn new(program: &str) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("tripmeter");
            std::fs::write(&file, format!("#!/bin/sh\n{program}")).unwrap();
            Command::new("chmod").arg("+x").arg(&file).status().unwrap();
            Self(folder)
        }

        fn run(&self, shell: &str, way: WayThere<'_>, words: &[&str], stop: &AtomicBool) -> Result<EndedThere, String> {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let asked = CommandThere { way, pushed: "none", words: &words, file: Some(("given.toml", "a = 'b'\n")) };
            let path = format!("{}:{}", self.0.path().display(), std::env::var("PATH").unwrap());
            let mut sh = Command::new("sh");
            sh.args(["-c", shell]).env("PATH", path).env("TMPDIR", self.0.path());
            run(sh, &asked, &self.0.path().join("into"), stop, PATIENCE)
        }

        fn left(&self) -> Vec<String> {
            let entries = std::fs::read_dir(self.0.path()).unwrap();
            let mut names: Vec<_> =
                entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
            names.sort();
            names
        }
    }

    const VERSION: &str =
        concat!("[ \"$1\" = --version ] && { echo tripmeter ", env!("CARGO_PKG_VERSION"), "; exit; }\n");
    const HERE: WayThere<'static> = WayThere::Ssh("");

    #[test]
    fn words_reach_the_program_as_they_are_and_its_folder_comes_back() {
        let program = "[ -e given.toml ] || exit 9\nshift\nmkdir -p \"$2/logs\"\nfor word; do echo \"$word\"; done >\"$2/logs/words.log\"\nexit 75\n";
        let host = ScriptedHost::new(&(VERSION.to_owned() + program));
        let ended = host.run("exec sh -s", HERE, &["ping", "it's", "$(x)", "a b"], &AtomicBool::new(false));
        assert_eq!(ended, Ok(EndedThere { code: 75, error: None }));
        let words = std::fs::read_to_string(host.0.path().join("into/logs/words.log")).unwrap();
        assert_eq!(words, "-o\nresults\nit's\n$(x)\na b\n");
        assert_eq!(host.left(), ["into", "tripmeter"], "its folder is removed");
    }

    #[test]
    fn another_version_and_a_host_without_a_program_are_named_with_what_helps() {
        let never = AtomicBool::new(false);
        let host = ScriptedHost::new("echo tripmeter 0.0.9\n");
        for way in [HERE, WayThere::Slurm(&[])] {
            let error = host.run("exec sh -s", way, &["ping"], &never).unwrap_err();
            let own = env!("CARGO_PKG_VERSION");
            assert_eq!(error, format!("it has 'tripmeter 0.0.9', this host 'tripmeter {own}'; use the same"));
        }
        std::fs::remove_file(host.0.path().join("tripmeter")).unwrap();
        // This machine may have a `tripmeter`, but the host must not.
        let shell = "PATH=/usr/bin:/bin exec sh -s";
        let error = host.run(shell, HERE, &["ping"], &never).unwrap_err();
        assert_eq!(error, "no tripmeter there; --push copies it");
        let error = host.run(shell, WayThere::Slurm(&[]), &["ping"], &never).unwrap_err();
        assert_eq!(error, "no tripmeter there; install it into the path of its jobs");
    }

    #[test]
    fn a_long_command_of_a_host_that_answers_is_waited_for_and_one_that_falls_silent_is_not() {
        let never = AtomicBool::new(false);
        let host = ScriptedHost::new(&(VERSION.to_owned() + "sleep 4\nexit 7\n"));
        let ended = host.run("exec sh -s", HERE, &["ping"], &never);
        assert_eq!(ended, Ok(EndedThere { code: 7, error: None }), "it takes twice the longest silence");
        let error = host.run("exec sleep 600", HERE, &["ping"], &never).unwrap_err();
        assert_eq!(error, "it has sent nothing for 2 s; is the link cut, or does it hang?");
        // Another process keeps standard output open.
        let error = host.run("echo it begins; sleep 600 & exec sleep 600", WayThere::Slurm(&[]), &["ping"], &never);
        assert!(error.unwrap_err().starts_with("it has sent nothing for 2 s"));
    }

    #[test]
    fn a_job_that_waits_in_the_queue_is_not_silent_and_ends_when_it_is_stopped() {
        let (host, stop, begin) = (ScriptedHost::new(""), AtomicBool::new(false), Instant::now());
        let ended = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(2 * PATIENCE.silence);
                stop.store(true, Relaxed);
            });
            host.run("exec sleep 600", WayThere::Slurm(&[]), &["ping"], &stop)
        });
        assert_eq!(ended, Ok(EndedThere { code: exit::INTERRUPTED, error: None }));
        assert!(begin.elapsed() >= 2 * PATIENCE.silence);
    }
}

//! Queries to plugins in a child process, so that a crash or hang there does no harm.
//!
//! The child is this program, started with `describe-plugin FILE`. Its standard input is a socket for one request and
//! one reply, both JSON. Output of the plugin goes elsewhere, and its last line is quoted after a crash.

use super::error::RegistryError;
use crate::last_line::last_words;
use crate::os;
use crate::spawn::{ROOT, ended_within, kill};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};
use tripmeter_abi::{DaemonCommand, Description, Limits, LoadError, NodeOptions, Plugin, Status, System};
use tripmeter_model::exit;

/// Longest wait for an answer: at a load of 20, a Fast DDS plugin took more than 10 s to load.
const PATIENCE: Duration = Duration::from_secs(30);
const GRACE: Duration = Duration::from_secs(1);
const LONGEST_REPLY: u64 = 1 << 20;

/// Program that answers for a plugin when started with `describe-plugin FILE`; see [`answer`].
#[derive(Clone, Debug)]
pub struct Prober {
    pub program: PathBuf,
    pub environment: BTreeMap<String, String>,
}

impl From<&Path> for Prober {
    fn from(program: &Path) -> Self {
        Self { program: program.to_path_buf(), environment: BTreeMap::new() }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) enum Request {
    Describe,
    Probe(NodeOptions),
    DaemonCommand(NodeOptions),
}

impl Request {
    /// Phrase that completes "while it was asked to".
    pub(super) fn phase(&self) -> &'static str {
        match self {
            Request::Describe => "describe itself",
            Request::Probe(_) => "report what it can carry here",
            Request::DaemonCommand(_) => "report how its daemon is started",
        }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) enum ChildAnswer {
    Description(Description),
    Limits(Limits),
    DaemonCommand(Option<DaemonCommand>),
    Refused {
        status: Status,
        message: String,
    },
    /// The file is not a usable plugin, perhaps because the dynamic linker did not find `library`.
    NotLoaded {
        library: Option<String>,
        message: String,
    },
}

/// Library that the dynamic linker did not find, from its error `libx.so.1: cannot open …`.
pub(super) fn library_missed_by(error: &LoadError) -> Option<String> {
    let LoadError::Open(file, why) = error else { return None };
    let (library, reason) = why.split_once(": ")?;
    let missing = reason.contains("cannot open shared object file") && Path::new(library) != file;
    missing.then(|| library.to_owned())
}

/// Runs the child's half: loads the plugin, answers one request on standard input, and returns the exit code.
pub fn answer(file: &Path) -> u8 {
    // If the parent was killed, it cannot end a plugin that hangs. A living parent must act first, and the kernel may
    // end its wait for the socket up to an eighth late.
    std::thread::spawn(|| {
        std::thread::sleep(PATIENCE + PATIENCE);
        std::process::abort();
    });
    match answer_on_stdin(file) {
        Ok(()) => exit::GOOD,
        Err(error) => {
            eprintln!("describe-plugin is internal: it talks to tripmeter over its standard input: {error}");
            exit::USAGE
        }
    }
}

fn answer_on_stdin(file: &Path) -> std::io::Result<()> {
    let mut stream = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let mut text = Vec::new();
    stream.read_to_end(&mut text)?;
    let reply = reply_to(file, &serde_json::from_slice(&text)?);
    stream.write_all(&serde_json::to_vec(&reply)?)
}

fn reply_to(file: &Path, request: &Request) -> ChildAnswer {
    let plugin = match Plugin::load(file) {
        Ok(plugin) => plugin,
        Err(error) => return ChildAnswer::NotLoaded { library: library_missed_by(&error), message: error.to_string() },
    };
    let answer = match request {
        Request::Describe => Ok(ChildAnswer::Description(plugin.description())),
        Request::Probe(options) => plugin.probe(options).map(ChildAnswer::Limits),
        Request::DaemonCommand(options) => plugin.daemon_command(options).map(ChildAnswer::DaemonCommand),
    };
    answer.unwrap_or_else(|error| ChildAnswer::Refused { status: error.status, message: error.to_string() })
}

/// Runs the parent's half: starts `prober` for the plugin `file`, and sends it one request.
pub(super) fn ask(
    prober: &Prober,
    file: &Path,
    transport: &str,
    request: &Request,
) -> Result<ChildAnswer, RegistryError> {
    let no_prober = |error: std::io::Error| RegistryError::NoProber {
        transport: transport.to_owned(),
        program: prober.program.clone(),
        reason: error.to_string(),
    };
    let died = |how: String, words: String| RegistryError::Died {
        transport: transport.to_owned(),
        how,
        phase: request.phase(),
        words,
    };
    let mut noise = tempfile::tempfile().map_err(no_prober)?;
    let (mut child, stream) = start(prober, file, &noise).map_err(no_prober)?;
    let deadline = Instant::now() + PATIENCE;
    let text = converse(stream, request, deadline);
    let reply = text.as_deref().and_then(|text| serde_json::from_slice(text).ok());
    let patience = if reply.is_some() { Instant::now() + GRACE } else { deadline };
    let status = end(&mut child, patience);
    match (reply, status) {
        (Some(reply), _) => Ok(reply),
        (None, Some(status)) => {
            let what = if status.signal().is_some() { "crashed" } else { "ended without an answer" };
            Err(died(format!("{what} ({status})"), os::with_lack(last_words(&mut noise, 0, &[]))))
        }
        (None, None) => Err(died(format!("hung for {} s", PATIENCE.as_secs()), last_words(&mut noise, 0, &[]))),
    }
}

fn start(prober: &Prober, file: &Path, noise: &File) -> std::io::Result<(Child, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    // With a separate process group, Ctrl-C reaches only us, and we end the child.
    let child = Command::new(&prober.program)
        .arg("describe-plugin")
        .arg(file)
        .envs(&prober.environment)
        .current_dir(ROOT)
        .stdin(OwnedFd::from(theirs))
        .stdout(noise.try_clone()?)
        .stderr(noise.try_clone()?)
        .process_group(0)
        .spawn()?;
    Ok((child, ours))
}

/// Sends the request and reads to the end; `None` at the deadline. A dead child yields no bytes.
fn converse(mut stream: UnixStream, request: &Request, deadline: Instant) -> Option<Vec<u8>> {
    let request = serde_json::to_vec(request).expect("requests are plain data");
    let sent = stream.write_all(&request).and_then(|()| stream.shutdown(std::net::Shutdown::Write));
    if sent.is_err() {
        return Some(Vec::new());
    }
    let mut reply = Vec::new();
    let mut chunk = [0; 4096];
    while (reply.len() as u64) < LONGEST_REPLY {
        let left = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
        stream.set_read_timeout(Some(left)).ok()?;
        match stream.read(&mut chunk) {
            Ok(0) => return Some(reply),
            Ok(count) => reply.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return None,
            Err(_) => return Some(reply),
        }
    }
    Some(reply)
}

/// Waits for the child to end until `deadline`, then kills it. Returns its status if it ended by itself.
fn end(child: &mut Child, deadline: Instant) -> Option<ExitStatus> {
    let time = deadline.saturating_duration_since(Instant::now());
    let status = ended_within(child, time, Duration::from_millis(1));
    if status.is_none() {
        kill(child);
    }
    status
}

//! Runs of the program under test, and its list of systems.

use crate::traces::{self, MARK};
use serde::Deserialize;
use std::ffi::{OsStr, OsString};
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::{NamedTempFile, TempDir};
use thiserror::Error;
use tripmeter_abi::Description;

/// Reason why the suite itself failed; faults of a transport are not errors.
#[derive(Debug, Error)]
pub enum SuiteError {
    #[error("no file can be created in the temporary folder '{}': {reason}; set TMPDIR to another", folder.display())]
    Folder { folder: PathBuf, reason: io::Error },
    #[error("'{}' cannot be started: {reason}", program.display())]
    Start { program: PathBuf, reason: io::Error },
    #[error("{0}")]
    List(String),
}

/// A system as printed by `tripmeter list --json`.
#[derive(Deserialize)]
pub struct Known {
    pub system: String,
    /// True if at least one variant can run here.
    pub available: bool,
    /// Reason why no variant can.
    pub reason: Option<String>,
    pub description: Option<Description>,
    pub variants: Vec<KnownVariant>,
}

impl Known {
    /// Variants that cannot run here, with the reason, one line each.
    pub fn missing(&self) -> Vec<String> {
        let why = |reason: &Option<String>| reason.clone().unwrap_or_else(|| "no reason is given".to_owned());
        if self.description.is_none() || !self.available {
            return vec![format!("{}: {}", self.system, why(&self.reason))];
        }
        let missing = self.variants.iter().filter(|variant| !variant.available);
        missing.map(|variant| format!("{}/{}: {}", self.system, variant.variant, why(&variant.reason))).collect()
    }
}

/// State of a variant on this machine.
#[derive(Deserialize)]
pub struct KnownVariant {
    pub variant: String,
    pub available: bool,
    /// True if its daemon must be started first.
    pub daemon_missing: bool,
    /// Reason why it cannot run.
    pub reason: Option<String>,
    /// Largest payload; `None` if unlimited.
    pub max_payload_bytes: Option<u64>,
}

pub struct Suite {
    pub program: PathBuf,
    /// Plugin file, if the program does not find it by itself.
    pub plugin: Option<PathBuf>,
    /// Environment variables added to those of this process.
    pub environment: Vec<(String, OsString)>,
    /// Beginning of the names of temporary folders.
    pub prefix: String,
    /// True if combinations that add little coverage are measured as well.
    pub is_thorough: bool,
    /// Called with a line about each experiment.
    pub say: fn(&str),
}

impl Suite {
    /// Entry of a system in the program's list. Fails if the program does not list it.
    pub fn known(&self, system: &str) -> Result<Known, SuiteError> {
        let ended = self.start(&["list", "--json", system])?.wait(self.longest());
        if ended.code() != Some(0) {
            return Err(SuiteError::List(ended.stderr.trim().to_owned()));
        }
        let rows: Result<Vec<Known>, _> = serde_json::from_str(&ended.stdout);
        let unread = |error| SuiteError::List(format!("`list --json {system}` cannot be read: {error}"));
        let row = rows.map_err(unread)?.into_iter().next();
        row.ok_or_else(|| SuiteError::List(format!("`list --json {system}` is empty")))
    }

    /// Maximum duration of an experiment that covers a whole system, on a busy machine.
    pub(crate) fn longest(&self) -> Duration {
        Duration::from_secs(if self.is_thorough { 3000 } else { 850 })
    }

    /// Empty folder, accessible only by this user whatever the umask, and removed when dropped.
    pub(crate) fn folder(&self) -> Result<TempDir, SuiteError> {
        let ours = Permissions::from_mode(0o700);
        tempfile::Builder::new().prefix(&self.prefix).permissions(ours).tempdir().map_err(no_folder)
    }

    /// Starts the program with the arguments, and with the plugin.
    pub(crate) fn start<S: AsRef<OsStr>>(&self, words: &[S]) -> Result<Started, SuiteError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        // Output goes to files, because nobody would read a pipe while the program runs.
        let file = || tempfile::Builder::new().prefix(&self.prefix).append(true).tempfile().map_err(no_folder);
        let [stdout, stderr] = [file()?, file()?];
        let output = |file: &NamedTempFile| file.as_file().try_clone().map(Stdio::from).map_err(no_folder);
        let mut command = Command::new(&self.program);
        command.args(words);
        if let Some(plugin) = &self.plugin {
            command.arg("--plugin").arg(plugin);
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value))).env(MARK, &mark);
        command.stdin(Stdio::null()).stdout(output(&stdout)?).stderr(output(&stderr)?);
        let child = command.spawn().map_err(|reason| SuiteError::Start { program: self.program.clone(), reason })?;
        Ok(Started { child, mark, stdout, stderr })
    }
}

fn no_folder(reason: io::Error) -> SuiteError {
    SuiteError::Folder { folder: std::env::temp_dir(), reason }
}

/// Standard error without complaints about other plugins' folders, which are unrelated.
fn without_folders(stderr: &str) -> String {
    let is_complaint =
        |line: &&str| line.starts_with("tripmeter: transports in '") && line.contains("' are left out: ");
    stderr.split_inclusive('\n').filter(|line| !is_complaint(line)).collect()
}

/// Running program, which is killed when dropped.
pub(crate) struct Started {
    child: Child,
    mark: String,
    stdout: NamedTempFile,
    stderr: NamedTempFile,
}

impl Started {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until the program ends, and kills it after `longest`.
    pub(crate) fn wait(mut self, longest: Duration) -> RunEnd {
        let begin = Instant::now();
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break Some(status),
                Ok(None) if begin.elapsed() < longest => std::thread::sleep(Duration::from_millis(5)),
                _ => break None,
            }
        };
        let text = |file: &NamedTempFile| {
            String::from_utf8_lossy(&std::fs::read(file.path()).unwrap_or_default()).into_owned()
        };
        let (stdout, mut stderr) = (text(&self.stdout), without_folders(&text(&self.stderr)));
        if status.is_none() {
            stderr += &format!("it was still running after {longest:?}, and was killed\n");
        }
        let (pid, mark) = (self.child.id(), self.mark.clone());
        RunEnd { status, stdout, stderr, took: begin.elapsed(), pid, mark }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // A program that has ended needs no killing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) struct RunEnd {
    status: Option<ExitStatus>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
    pid: u32,
    mark: String,
}

impl RunEnd {
    /// Exit code; `None` if a signal ended it.
    pub(crate) fn code(&self) -> Option<i32> {
        self.status?.code()
    }

    /// Names and processes left by this run.
    pub(crate) fn left(&self) -> Vec<String> {
        traces::left(self.pid, &self.mark, &std::env::temp_dir())
    }
}

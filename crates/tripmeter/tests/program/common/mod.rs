//! Common parts of the tests of the running program: starting it, watching it, and finding what it left behind.

pub mod samples;
pub mod traces;

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tempfile::{NamedTempFile, TempDir};
use traces::MARK;
use tripmeter_model::folder;
use tripmeter_model::manifest::{Manifest, SubExperimentResult};

pub use tripmeter_conformance::Known;
pub use tripmeter_conformance::figures;

/// Time after which a run hangs: on a quiet machine none needs a tenth of it.
pub const LONGEST: Duration = Duration::from_secs(600);
const MEASURE: [&str; 9] = ["run", "ping", "publish", "call", "throughput", "replay", "log", "ab", "choose"];

/// Sleeps of a worker after which connecting, path proof and warm-up are over.
pub const MEASURING: u64 = 10_000;

/// Lock of tests that measure. It separates threads of one process, under `cargo test`. Under nextest, each test is a
/// process in separate namespaces, and shares only the CPUs.
pub fn alone() -> MutexGuard<'static, ()> {
    static MEASURING: Mutex<()> = Mutex::new(());
    MEASURING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Prints a line that the test harness does not capture.
pub fn say(line: &str) {
    writeln!(std::io::stderr(), "{line}").expect("standard error is open");
}

/// Folders in which the program looks for plugins.
pub fn plugin_folders() -> OsString {
    std::env::var_os("TRIPMETER_TRANSPORTS").unwrap_or_else(|| repository().join("target/transports").into())
}

/// True if a missing transport is a failure.
pub fn is_required() -> bool {
    std::env::var("TRIPMETER_REQUIRE_ALL").is_ok_and(|value| value == "1")
}

/// True if every variant is tested, not only one per mechanism.
pub fn is_nightly() -> bool {
    std::env::var("TRIPMETER_NIGHTLY").is_ok_and(|value| value == "1")
}

/// Runs `work` for all cases, several in parallel, because most of the time is spent waiting.
pub fn at_once<T: Sync>(cases: &[T], work: impl Fn(&T) + Sync) {
    for some in cases.chunks(if has_several_cpus() { cases.len().max(1) } else { 2 }) {
        std::thread::scope(|scope| {
            for case in some {
                scope.spawn(|| work(case));
            }
        });
    }
}

/// CPUs that this process may use, in the kernel's form: `0,2-3`.
pub fn allowed_cpus() -> String {
    let status = std::fs::read_to_string("/proc/self/status").expect("there is /proc");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.expect("Linux has a line of it").trim().to_owned()
}

/// True if both sides can have their own CPU, so that they poll by default.
pub fn has_several_cpus() -> bool {
    std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1)
}

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("this crate is two folders down")
}

/// Runs `make` in a folder of the sources, with output in a folder outside them; returns the output folder.
pub fn make(folder: &str, name: &str, arguments: &[&str]) -> PathBuf {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut command = Command::new("make");
    command.arg("-s").arg("-C").arg(repository().join(folder)).arg(format!("OUT={}", out.display())).args(arguments);
    let output = command.output().expect("make is installed");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    out
}

/// Builds the test plugins; returns the file of one.
pub fn plugin(name: &str) -> PathBuf {
    // Tests may be threads of one process, or several processes.
    let lock = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plugins.lock");
    let lock = std::fs::File::create(lock).expect("the build's folder can be written");
    lock.lock().expect("files can be locked");
    make("tests/plugins", "plugins", &[]).join(format!("tripmeter_{name}.so"))
}

/// Plugin of a middleware; `None`, with a message, if it is not built.
pub fn built(system: &str) -> Option<PathBuf> {
    let given = std::env::var_os("TRIPMETER_TRANSPORTS").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&given).collect();
    folders.push(repository().join("target/transports"));
    let found = folders.iter().map(|folder| folder.join(format!("tripmeter_{system}.so"))).find(|file| file.exists());
    if found.is_none() {
        assert!(!is_required(), "TRIPMETER_REQUIRE_ALL=1, and the plugin {system} is missing");
        say(&format!("SKIPPED: {system}: its plugin is not built"));
    }
    found
}

pub struct Tripmeter {
    command: Command,
    mark: String,
    temporary: PathBuf,
    stdout: NamedTempFile,
    stderr: NamedTempFile,
}

impl Tripmeter {
    /// Command with these arguments. Measuring commands skip the search for hiccups, which takes most of a short run.
    pub fn new<S: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = S>) -> Self {
        // A background process that starts the tests may make them, and thus the program, ignore Ctrl-C.
        Self::under(&["env", "--default-signal=INT"], arguments)
    }

    /// Command with exactly these arguments.
    pub fn with_spin<S: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = S>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tripmeter"));
        command.args(arguments);
        Self::by(command)
    }

    /// Command started by a wrapper that replaces itself with it, e.g. `prlimit --msgqueue=1`.
    pub fn under<S: AsRef<std::ffi::OsStr>>(wrapper: &[&str], arguments: impl IntoIterator<Item = S>) -> Self {
        let mut command = Command::new(wrapper[0]);
        command.args(&wrapper[1..]).arg(env!("CARGO_BIN_EXE_tripmeter"));
        let mut words: Vec<OsString> = arguments.into_iter().map(|word| word.as_ref().to_owned()).collect();
        // In tests of several patterns, `--pattern NAME` stands for a command; `ab` really has this flag.
        let has_flag = words[0] == "ab";
        while let Some(at) = words.iter().position(|word| word == "--pattern").filter(|_| !has_flag) {
            words[0] = words.remove(at + 1);
            words.remove(at);
        }
        if words.first().is_some_and(|name| MEASURE.iter().any(|measures| name == measures)) {
            words.insert(1, "--no-spin".into());
        }
        command.args(words);
        Self::by(command)
    }

    fn by(mut command: Command) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        command.env(MARK, &mark).stdin(Stdio::null());
        // The runs of a test meet below its temporary folder.
        command.env("XDG_RUNTIME_DIR", "");
        command.env("TRIPMETER_TRANSPORTS", plugin_folders());
        // Read while it is written: with append, the writer has no position of its own.
        let file = || tempfile::Builder::new().append(true).tempfile().expect("the temporary folder can be written");
        Self { command, mark, temporary: std::env::temp_dir(), stdout: file(), stderr: file() }
    }

    pub fn at(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    pub fn temporary(mut self, folder: &Path) -> Self {
        self.command.env("TMPDIR", folder);
        self.temporary = folder.to_path_buf();
        self
    }

    pub fn start(mut self) -> Running {
        let output =
            |file: &NamedTempFile| Stdio::from(file.as_file().try_clone().expect("a file can be opened twice"));
        self.command.stdout(output(&self.stdout)).stderr(output(&self.stderr));
        let child = self.command.spawn().expect("tripmeter starts");
        Running { child, tripmeter: self }
    }

    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    pub fn start_on(mut self, terminal: &std::fs::File) -> Running {
        let file = || Stdio::from(terminal.try_clone().expect("a terminal can be opened twice"));
        self.command.stdin(file()).stdout(file()).stderr(file());
        let child = self.command.spawn().expect("tripmeter starts");
        Running { child, tripmeter: self }
    }

    pub fn run(self) -> Finished {
        self.start().wait(LONGEST)
    }
}

/// A running `tripmeter`, which is killed when dropped.
pub struct Running {
    child: Child,
    tripmeter: Tripmeter,
}

impl Running {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn mark(&self) -> &str {
        &self.tripmeter.mark
    }

    pub fn wait(mut self, most: Duration) -> Finished {
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                break status;
            }
            if begin.elapsed() > most {
                let (stdout, stderr) = self.texts();
                panic!("still running after {most:?}: {:?}\n{stdout}\n{stderr}", self.tripmeter.command);
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let took = begin.elapsed();
        let (stdout, stderr) = self.texts();
        let (pid, mark) = (self.pid(), self.tripmeter.mark.clone());
        let temporary = self.tripmeter.temporary.clone();
        let line = format!("{:?}", self.tripmeter.command.get_args().collect::<Vec<_>>());
        Finished { code: status.code(), stdout, stderr, pid, mark, temporary, took, line }
    }

    fn texts(&self) -> (String, String) {
        let text = |file: &NamedTempFile| {
            let bytes = std::fs::read(file.path()).expect("it can be read back");
            String::from_utf8_lossy(&bytes).into_owned()
        };
        (text(&self.tripmeter.stdout), text(&self.tripmeter.stderr))
    }

    pub fn said(&self) -> String {
        self.texts().1
    }

    pub fn signal(&self, signal: &str) {
        traces::signal(self.pid(), signal);
    }

    /// Leader and follower, once each has slept [`MEASURING`] times since they were first seen.
    pub fn measuring(&mut self) -> [u32; 2] {
        let mut first = None;
        self.until("round trips", |run| {
            let found = first.or_else(|| {
                let workers = traces::workers(run.pid());
                Some([workers.leader?, workers.follower?].map(|pid| (pid, traces::sleeps(pid))))
            });
            first = found;
            found.is_some_and(|both| both.iter().all(|(pid, before)| traces::sleeps(*pid) > before + MEASURING))
        });
        first.expect("they were seen").map(|(pid, _)| pid)
    }

    /// Waits until `seen` is true, but at most [`LONGEST`].
    pub fn until(&mut self, what: &str, mut seen: impl FnMut(&mut Self) -> bool) {
        let begin = Instant::now();
        while !seen(self) {
            let ended = self.child.try_wait().expect("it is our child");
            assert!(ended.is_none() && begin.elapsed() < LONGEST, "waiting for {what}: {ended:?}\n{}", self.said());
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A program that has ended needs no killing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Debug)]
pub struct Finished {
    /// `None` if a signal ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    pub pid: u32,
    pub took: Duration,
    mark: String,
    temporary: PathBuf,
    line: String,
}

impl Finished {
    #[track_caller]
    pub fn with(self, code: u8) -> Self {
        assert_eq!(self.code, Some(i32::from(code)), "{}\n{}\n{}", self.line, self.stdout, self.stderr);
        self
    }

    /// Checks for exactly one line on standard error, with all `parts`, and nothing on standard output.
    #[track_caller]
    pub fn one_line(self, parts: &[&str]) -> Self {
        let Finished { line, stdout, stderr, .. } = &self;
        assert!(stderr.lines().count() == 1 && stderr.ends_with('\n'), "{line}: not one line: {stderr:?}");
        assert!(stderr.starts_with("tripmeter: ") && stdout.is_empty(), "{line}: {stdout}{stderr}");
        self.says(parts)
    }

    /// Checks that one line on standard error has all `parts`.
    #[track_caller]
    pub fn says(self, parts: &[&str]) -> Self {
        let found = self.stderr.lines().any(|line| parts.iter().all(|part| line.contains(part)));
        assert!(found, "{}: no line with {parts:?} in:\n{}", self.line, self.stderr);
        self
    }

    /// Standard output with each note and paragraph on one line.
    pub fn unwrapped(&self) -> String {
        self.stdout.replace("\n  ", " ")
    }

    #[track_caller]
    pub fn clean(self) -> Self {
        let left = self.left();
        assert!(left.is_empty(), "{} left {left:?}\n{}", self.line, self.stderr);
        self
    }

    /// Names and processes left by this run, after waiting for processes that are about to end.
    pub fn left(&self) -> Vec<String> {
        traces::left(self.pid, &self.mark, &self.temporary)
    }

    pub fn mark(&self) -> &str {
        &self.mark
    }
}

pub fn manifest(folder: &Path) -> Manifest {
    folder::read(folder, |text| text.into()).expect("these are results")
}

/// Manifest in a results folder that may still be written; `None` if there is none yet.
pub fn manifest_so_far(folder: &Path) -> Option<Manifest> {
    folder::read(folder, |text| text.into()).ok()
}

pub fn has_cell(results: &Path) -> bool {
    manifest_so_far(results)
        .is_some_and(|manifest| manifest.sub_experiments.iter().any(|result| !result.cells.is_empty()))
}

pub fn result<'a>(manifest: &'a Manifest, name: &str) -> &'a SubExperimentResult {
    manifest.sub_experiments.iter().find(|result| result.name == name).unwrap_or_else(|| panic!("no '{name}'"))
}

/// Payload sizes of the rows of a CSV file, which must be whole and numbered from 1.
pub fn csv_payloads(file: &Path) -> Vec<u64> {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("Sample,Payload [Bytes],Latency [us]"));
    assert!(text.ends_with('\n'), "{}: the last row is cut off", file.display());
    let mut payloads = Vec::new();
    for (index, line) in lines.enumerate() {
        let [sample, payload, latency] = line.split(',').collect::<Vec<_>>()[..] else { panic!("row '{line}'") };
        assert_eq!(sample.parse(), Ok(index + 1), "{}: row '{line}'", file.display());
        assert!(latency.split_once('.').is_some_and(|(_, decimals)| decimals.len() == 3), "row '{line}'");
        assert!(latency.parse::<f64>().is_ok_and(|latency| latency > 0.0), "row '{line}'");
        payloads.push(payload.parse().expect("a number of bytes"));
    }
    payloads
}

pub fn transports() -> Vec<Known> {
    let listed = Tripmeter::new(["list", "--json"]).run().with(0).clean();
    serde_json::from_str(&listed.stdout).expect("a list of systems")
}

pub fn folder() -> TempDir {
    tempfile::tempdir().expect("the temporary folder can be written")
}

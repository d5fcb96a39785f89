//! Python packages with a system's libraries, in a separate environment.

use crate::error::CliError;
use crate::output;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fs::{self, File};
use std::io::{ErrorKind, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tripmeter_engine::os::lock_file;
use tripmeter_model::exit;
use tripmeter_model::file::{to_lock, write_whole};
use tripmeter_model::sidecar::Sidecar;

/// List of installed packages; written last, so that an environment without it is incomplete.
const RECEIPT: &str = "tripmeter-installed";

/// Longest wait for another install of the same system.
const PATIENCE: Duration = Duration::from_secs(600);

pub struct PythonEnvironment<'a> {
    pub sidecar: &'a Sidecar,
    pub folder: &'a Path,
}

impl PythonEnvironment<'_> {
    /// Creates the environment, unless it is complete. An error names what is missing, and the remedy.
    pub fn make(&self, quiet: bool) -> Result<(), CliError> {
        let say = |text: &str| {
            if !quiet {
                output::say(&format!("install {}: {text}", self.sidecar.system));
            }
        };
        let parent = self.folder.parent().expect("the folder is below the data folder");
        fs::create_dir_all(parent).map_err(|error| self.cannot_create(parent, &error))?;
        let _alone = self.lock()?;
        if self.is_finished() {
            say("everything is there");
            return Ok(());
        }
        say(&format!("a Python environment in '{}'", self.folder.display()));
        turning(quiet, || self.create())?;
        say(&format!("installing {}", short(&self.sidecar.python_packages)));
        turning(quiet, || self.install())?;
        let receipt = self.receipt();
        write_whole(&receipt, self.wanted().as_bytes())?;
        say("done");
        Ok(())
    }

    /// Lock against a second install of the same system. The kernel releases the lock of a killed process.
    fn lock(&self) -> Result<File, CliError> {
        let path = self.folder.with_extension("lock");
        let file = to_lock(&path).map_err(|error| self.cannot_create(&path, &error))?;
        let begin = Instant::now();
        while !lock_file(&file, true).map_err(|error| self.cannot_create(&path, &error))? {
            if begin.elapsed() > PATIENCE {
                let minutes = PATIENCE.as_secs() / 60;
                return Err(
                    self.unavailable(&format!("another install has been running for {minutes} minutes; check it"))
                );
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(file)
    }

    fn receipt(&self) -> PathBuf {
        self.folder.join(RECEIPT)
    }

    fn wanted(&self) -> String {
        self.sidecar.python_packages.join("\n") + "\n"
    }

    fn python(&self) -> PathBuf {
        self.folder.join("bin/python")
    }

    pub fn is_finished(&self) -> bool {
        self.python().exists() && fs::read_to_string(self.receipt()).is_ok_and(|text| text == self.wanted())
    }

    /// Creates the environment anew, because an earlier attempt may have left a part. `-I` keeps Python from importing
    /// modules from the working directory.
    fn create(&self) -> Result<(), CliError> {
        if let Err(error) = fs::remove_dir_all(self.folder)
            && error.kind() != ErrorKind::NotFound
        {
            return Err(self.cannot_create(self.folder, &error));
        }
        let output = Command::new("python3").args(["-I", "-m", "venv"]).arg(self.folder).stdin(Stdio::null()).output();
        let output = output.map_err(|error| {
            self.unavailable(&format!(
                "python3 cannot be started: {error}; install it (Debian: apt install python3-venv)"
            ))
        })?;
        if output.status.success() {
            return Ok(());
        }
        let told = words(&output);
        let remedy = if told.contains("ensurepip") || told.contains("No module named venv") {
            "; Python's module venv is missing: install it (Debian: apt install python3-venv)"
        } else {
            ""
        };
        Err(self.unavailable(&format!("`python3 -m venv` failed{remedy}; it said: {}", last_line(&told))))
    }

    fn install(&self) -> Result<(), CliError> {
        let arguments =
            ["-I", "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--only-binary", ":all:"];
        let mut command = Command::new(self.python());
        command.args(arguments);
        for name in &self.sidecar.python_sources {
            command.args(["--no-binary", name]);
        }
        command.args(&self.sidecar.python_packages).stdin(Stdio::null());
        let output = command.output().map_err(|error| self.unavailable(&format!("pip cannot be started: {error}")))?;
        if output.status.success() {
            return Ok(());
        }
        let told = words(&output);
        let network = ["Max retries", "NewConnectionError", "Temporary failure in name resolution", "timed out"];
        let remedy = if network.iter().any(|sign| told.contains(sign)) {
            "the package index cannot be reached; check the network or a proxy (HTTPS_PROXY, PIP_INDEX_URL) and run this again"
        } else if told.contains("No matching distribution") {
            "there is no such package for this Python and this CPU; another version of Python may work"
        } else {
            "pip failed; run this again"
        };
        Err(self.unavailable(&format!("{remedy}; pip said: {}", last_line(&told))))
    }

    fn unavailable(&self, what: &str) -> CliError {
        CliError::new(exit::UNAVAILABLE, format!("install of '{}': {what}", self.sidecar.system))
    }

    fn cannot_create(&self, path: &Path, error: &std::io::Error) -> CliError {
        let text = format!("install of '{}': '{}' cannot be written: {error}", self.sidecar.system, path.display());
        CliError::new(exit::CANNOT_CREATE, text)
    }
}

/// Runs `work` while a terminal shows the elapsed time.
fn turning<R>(quiet: bool, work: impl FnOnce() -> R) -> R {
    let shown = !quiet && std::io::stderr().is_terminal();
    let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style = ProgressStyle::with_template("{spinner} {elapsed}").expect("the template is a constant");
    let spinner = ProgressBar::with_draw_target(None, target).with_style(style);
    spinner.enable_steady_tick(Duration::from_millis(200));
    let result = work();
    spinner.finish_and_clear();
    result
}

fn short(packages: &[String]) -> String {
    const SHOWN: usize = 3;
    let more = packages.len().saturating_sub(SHOWN);
    let shown = packages[..packages.len() - more].join(", ");
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}

fn words(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned()).concat()
}

fn last_line(text: &str) -> &str {
    text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("nothing")
}

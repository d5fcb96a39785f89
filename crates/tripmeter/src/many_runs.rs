//! Many runs of one experiment, continued after an interruption or a kill.
//!
//! Run 7 is made in the folder `run-0007.unfinished`, which is renamed to `run-0007` when it is finished. A killed run
//! is made anew.

use crate::commands::show;
use crate::error::CliError;
use crate::lock::CommandFolder;
use crate::measurement::{Prepared, exit_code};
use crate::output;
use crate::progress::ProgressView;
use crate::results::{NamedFolder, UNFINISHED, is_results};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tripmeter_engine::results::holds_nothing;
use tripmeter_engine::{Followers, OutputFolder};
use tripmeter_model::exit;
use tripmeter_model::folder_handle::FolderHandle;
use tripmeter_model::manifest::{Manifest, RunStatus};
use tripmeter_model::plan::Plan;

pub enum RunsOutcome {
    All {
        folders: Vec<NamedFolder>,
        /// Good, or partial if sub-experiments failed in some runs.
        code: u8,
    },
    Interrupted,
}

pub struct ManyRuns<'a> {
    /// Experiment of one round.
    pub prepared: Prepared,
    pub number: u32,
    /// Folder for the runs; next to the output if `None`.
    pub folder: Option<&'a Path>,
    /// File made from the runs.
    pub output: &'a Path,
    pub flag: &'static str,
    /// True to print no progress on standard error.
    pub quiet: bool,
}

impl ManyRuns<'_> {
    /// Makes the missing runs. Fails if the folder has runs of another experiment, another command has locked it, or a
    /// run measured nothing.
    pub fn make(mut self) -> Result<RunsOutcome, CliError> {
        let plan = &mut self.prepared.plan;
        if plan.rounds > 1 {
            output::say(&format!("note: each run has one round; the {} of the experiment are ignored", plan.rounds));
            (plan.rounds, plan.keep_samples) = (1, None);
        }
        if plan.for_ns.take().is_some() {
            output::say("note: each run has one round; the experiment's time (--for) is ignored");
        }
        let folder = self.folder.map_or_else(|| beside(self.output), Path::to_owned);
        let taken = CommandFolder::take(&folder, "command", self.flag)?;
        let mut runs = RunSeries { of: &self, folder: &taken.folder, code: exit::GOOD, took: vec![] };
        for index in 1..=self.number {
            if !runs.one(index)? {
                output::say(&format!("stopped at run {index} of {}; repeat the command to continue", self.number));
                return Ok(RunsOutcome::Interrupted);
            }
        }
        let code = runs.code;
        let run = |index| NamedFolder { name: name(index), path: folder.join(name(index)), is_named: true };
        Ok(RunsOutcome::All { folders: (1..=self.number).map(run).collect(), code })
    }
}

/// Folder of a finished run.
fn name(index: u32) -> String {
    format!("run-{index:04}")
}

/// Default folder of the runs: `limits_runs` for `limits.csv`.
fn beside(file: &Path) -> PathBuf {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    file.with_file_name(stem + "_runs")
}

struct RunSeries<'a> {
    of: &'a ManyRuns<'a>,
    folder: &'a FolderHandle,
    code: u8,
    /// Durations of the runs that this process made.
    took: Vec<Duration>,
}

impl RunSeries<'_> {
    /// Makes one run, unless it exists; false if the user stopped it.
    fn one(&mut self, index: u32) -> Result<bool, CliError> {
        self.folder.check()?;
        let finished = self.folder.path().join(name(index));
        if finished.exists() {
            let manifest = show::read_exact(&finished)?;
            self.same_experiment(&finished, &manifest.plan)?;
            self.note_code(&manifest);
            return Ok(true);
        }
        remove_unfinished(self.folder, &(name(index) + UNFINISHED))?;
        let unfinished = self.folder.path().join(name(index) + UNFINISHED);
        if !self.of.quiet {
            output::say(&format!("run {index} of {}{}", self.of.number, self.left(index)));
        }
        let begin = Instant::now();
        let shown = ProgressView::from_flags(self.of.quiet, false);
        let output = OutputFolder::Within(self.folder.clone(), name(index) + UNFINISHED);
        let (manifest, measured) = self.of.prepared.run_into(output, Followers::Local, shown)?;
        if manifest.status == RunStatus::Interrupted {
            return Ok(false);
        }
        if let Some(why) = measured_nothing(&manifest) {
            let text = format!("run {index} measured nothing: {why}; see '{}'", unfinished.display());
            return Err(CliError::new(exit::PARTIAL, text));
        }
        measured.check()?;
        let renamed = fs::rename(self.folder.at(&(name(index) + UNFINISHED))?, self.folder.at(&name(index))?);
        renamed.map_err(|error| {
            CliError::new(exit::CANNOT_CREATE, format!("'{}' cannot be renamed: {error}", unfinished.display()))
        })?;
        self.note_code(&manifest);
        self.took.push(begin.elapsed());
        Ok(true)
    }

    /// Refuses to mix runs with different settings.
    fn same_experiment(&self, folder: &Path, plan: &Plan) -> Result<(), CliError> {
        let parts = |plan: &Plan| serde_json::to_value(&plan.sub_experiments).expect("a plan is plain data");
        match parts(plan) == parts(&self.of.prepared.plan) {
            true => Ok(()),
            false => {
                let text = format!(
                    "'{}' is a run of another experiment, or has other settings; name another folder ({})",
                    folder.display(),
                    self.of.flag
                );
                Err(CliError::new(exit::DATA, text))
            }
        }
    }

    fn note_code(&mut self, manifest: &Manifest) {
        self.code = self.code.max(exit_code(manifest, self.of.prepared.allowed));
    }

    /// Estimate of the time left; empty before the first run.
    fn left(&self, index: u32) -> String {
        let count = self.took.len() as u32;
        if count == 0 {
            return String::new();
        }
        let each = self.took.iter().sum::<Duration>() / count;
        format!(", about {:#} left", indicatif::HumanDuration(each * (self.of.number - index + 1)))
    }
}

/// Removes the folder of a killed run from `parent`; refuses to remove anything else.
pub fn remove_unfinished(parent: &FolderHandle, name: &str) -> Result<(), CliError> {
    let (folder, shown) = (parent.at(name)?, parent.path().join(name));
    let Ok(metadata) = folder.symlink_metadata() else { return Ok(()) };
    let failed =
        |why: String| CliError::new(exit::CANNOT_CREATE, format!("'{}' cannot be removed: {why}", shown.display()));
    let has_just_begun = || holds_nothing(&folder).unwrap_or(false);
    if !metadata.is_dir() || !(is_results(&folder) || has_just_begun()) {
        return Err(failed("it is not a killed run; remove it by hand".to_owned()));
    }
    fs::remove_dir_all(&folder).map_err(|error| failed(error.to_string()))
}

/// Reason why a run has no figures at all; `None` if it has any.
fn measured_nothing(manifest: &Manifest) -> Option<&str> {
    let results = &manifest.sub_experiments;
    if results.iter().flat_map(|result| &result.cells).any(|cell| !cell.trials.is_empty()) {
        return None;
    }
    Some(results.iter().find_map(|result| result.error.as_deref()).unwrap_or("no sub-experiment was run"))
}

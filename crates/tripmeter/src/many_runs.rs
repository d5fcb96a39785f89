//! Many runs of one experiment, continued after an interruption or a kill.
//!
//! Run 7 is made in the folder `run-0007.unfinished` and becomes `run-0007` when it is finished, so that what has this name
//! is whole. A run that was killed is made anew.

use crate::args::RequirementsArgs;
use crate::commands::run::{Prepared, exit_code};
use crate::commands::show;
use crate::error::CliError;
use crate::lock::lock;
use crate::output;
use crate::summaries::{ExperimentFolder, RunFolder, UNFINISHED, has_manifest};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tripmeter_engine::Followers;
use tripmeter_engine::results::holds_nothing;
use tripmeter_model::exit;
use tripmeter_model::manifest::{Manifest, RunStatus};
use tripmeter_model::plan::Plan;

/// What came of the runs.
pub enum RunsOutcome {
    /// All are there.
    All {
        /// Every one, in order.
        runs: Vec<RunFolder>,
        /// Good, or that some sub-experiments failed in some runs.
        code: u8,
    },
    /// The user stopped it.
    Interrupted,
}

/// Makes the runs that are not there yet.
///
/// # Errors
/// If the experiment is wrong, the folder holds runs of another one or is used by another command, or a run measured
/// nothing at all.
pub fn make(args: &RequirementsArgs, number: u32) -> Result<RunsOutcome, CliError> {
    let prepared = Prepared::new(&args.experiment(), &args.plugins, args.quiet)?;
    if prepared.plan.rounds > 1 {
        return Err(CliError::new(exit::USAGE, "each run has one round; leave out --rounds, --runs says how many"));
    }
    let folder = args.runs_directory.clone().unwrap_or_else(|| beside(&args.output_file));
    let _lock = lock(&folder, "command", "-r")?;
    let mut runs =
        RunSeries { folder: &folder, prepared: &prepared, number, quiet: args.quiet, code: exit::GOOD, took: vec![] };
    for index in 1..=number {
        if !runs.one(index)? {
            output::say(&format!("stopped at run {index} of {number}; the same command continues"));
            return Ok(RunsOutcome::Interrupted);
        }
    }
    let code = runs.code;
    let run = |index| RunFolder { name: name(index), path: folder.join(name(index)) };
    Ok(RunsOutcome::All { runs: (1..=number).map(run).collect(), code })
}

/// Name of a finished run's folder.
fn name(index: u32) -> String {
    format!("run-{index:04}")
}

/// `requirements_runs` for `requirements.csv`.
fn beside(file: &Path) -> PathBuf {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    file.with_file_name(stem + "_runs")
}

/// Runs in a folder.
struct RunSeries<'a> {
    folder: &'a Path,
    prepared: &'a Prepared,
    number: u32,
    quiet: bool,
    code: u8,
    /// How long those of this process took.
    took: Vec<Duration>,
}

impl RunSeries<'_> {
    /// Makes one run, unless it is there. False if the user stopped it.
    fn one(&mut self, index: u32) -> Result<bool, CliError> {
        let finished = self.folder.join(name(index));
        if finished.exists() {
            let manifest = show::read_exact(&finished)?;
            self.same_experiment(&finished, &manifest.plan)?;
            self.note_code(&manifest);
            return Ok(true);
        }
        let unfinished = self.folder.join(name(index) + UNFINISHED);
        remove_unfinished(&unfinished)?;
        if !self.quiet {
            output::say(&format!("run {index} of {}{}", self.number, self.left(index)));
        }
        let begin = Instant::now();
        let manifest = self.prepared.run(Some(&unfinished), Followers::Local, self.quiet)?;
        if manifest.status == RunStatus::Interrupted {
            return Ok(false);
        }
        if let Some(why) = measured_nothing(&manifest) {
            let text = format!("run {index} measured nothing: {why}; it is in '{}'", unfinished.display());
            return Err(CliError::new(exit::PARTIAL, text));
        }
        ExperimentFolder::open(&unfinished)?.summarise(true)?;
        fs::rename(&unfinished, &finished).map_err(|error| {
            CliError::new(exit::CANNOT_CREATE, format!("'{}' cannot be renamed: {error}", unfinished.display()))
        })?;
        self.note_code(&manifest);
        self.took.push(begin.elapsed());
        Ok(true)
    }

    /// Runs with other settings must not be mixed.
    fn same_experiment(&self, folder: &Path, plan: &Plan) -> Result<(), CliError> {
        let parts = |plan: &Plan| serde_json::to_value(&plan.sub_experiments).expect("a plan is plain data");
        match parts(plan) == parts(&self.prepared.plan) {
            true => Ok(()),
            false => {
                let text = format!(
                    "'{}' is a run of another experiment or with other settings; name another folder with -r",
                    folder.display()
                );
                Err(CliError::new(exit::DATA, text))
            }
        }
    }

    fn note_code(&mut self, manifest: &Manifest) {
        self.code = self.code.max(exit_code(manifest, self.prepared.allowed));
    }

    /// An estimate, once there is something to make it from.
    fn left(&self, index: u32) -> String {
        let count = self.took.len() as u32;
        if count == 0 {
            return String::new();
        }
        let each = self.took.iter().sum::<Duration>() / count;
        format!(", about {:#} left", indicatif::HumanDuration(each * (self.number - index + 1)))
    }
}

/// Removes what a killed run left; only what is one.
pub fn remove_unfinished(folder: &Path) -> Result<(), CliError> {
    let Ok(metadata) = folder.symlink_metadata() else { return Ok(()) };
    let failed =
        |why: String| CliError::new(exit::CANNOT_CREATE, format!("'{}' cannot be removed: {why}", folder.display()));
    let has_just_begun = || holds_nothing(folder).unwrap_or(false);
    if !metadata.is_dir() || !(has_manifest(folder) || has_just_begun()) {
        return Err(failed("it is not a run that was killed; remove it by hand".to_owned()));
    }
    fs::remove_dir_all(folder).map_err(|error| failed(error.to_string()))
}

/// Why there is not a single figure.
fn measured_nothing(manifest: &Manifest) -> Option<&str> {
    let results = &manifest.sub_experiments;
    if results.iter().any(|result| !result.cells.is_empty()) {
        return None;
    }
    Some(results.iter().find_map(|result| result.error.as_deref()).unwrap_or("no sub-experiment was run"))
}

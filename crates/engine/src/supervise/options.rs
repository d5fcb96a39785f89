//! Options of a run.

use super::resume::Begun;
use crate::results::{Results, ResultsError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tripmeter_model::folder_handle::FolderHandle;

/// Way in which the follower processes are started.
#[derive(Clone, Debug)]
pub enum Followers {
    Local,
    /// `tripmeter follow` in another terminal.
    ByHand {
        /// Name of the meeting place; see [`crate::by_hand::rendezvous`].
        rendezvous: String,
        /// Longest wait for the follower.
        wait: Duration,
    },
}

#[derive(Clone, Debug, Default)]
pub enum OutputFolder {
    /// Dated folder below `results`.
    #[default]
    Dated,
    Named(PathBuf),
    /// Folder of this name inside a folder that is already open.
    Within(FolderHandle, String),
}

impl OutputFolder {
    pub(super) fn create(&self, has_rounds: bool) -> Result<Results, ResultsError> {
        match self {
            Self::Dated => Results::create(None, has_rounds),
            Self::Named(path) => Results::create(Some(path), has_rounds),
            Self::Within(parent, name) => Results::create_within(parent, name, has_rounds),
        }
    }
}

impl From<Option<&Path>> for OutputFolder {
    fn from(named: Option<&Path>) -> Self {
        named.map_or(Self::Dated, |path| Self::Named(path.to_owned()))
    }
}

#[derive(Clone, Debug)]
pub struct RunOptions {
    pub output: OutputFolder,
    /// Part of the plan that is already measured. New results go to its folder.
    pub begun: Option<Begun>,
    pub followers: Followers,
    /// Set by the user to stop early and keep the results.
    pub stop: Arc<AtomicBool>,
    /// This program, started again as worker.
    pub tripmeter: PathBuf,
    /// Longest time that a worker may show no sign of life.
    pub watchdog: Duration,
    /// True if the run is refused when its first audit warns or fails.
    pub strict: bool,
    /// True if the audits spin on the CPUs to detect hiccups.
    pub spin: bool,
    /// Program that converts samples to Parquet; `None` to keep CSV.
    pub parquet: Option<PathBuf>,
}

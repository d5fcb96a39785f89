//! Progress of a run.

use tripmeter_model::folder_handle::FolderHandle;
use tripmeter_model::manifest::{Manifest, PayloadResult, RunStatus};

/// Progress of a run, for progress bars.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// Something people should know.
    Note(String),
    /// Something people should know even if they want no progress.
    Warning(String),
    /// The folder that results go to.
    Results(FolderHandle),
    /// A sub-experiment begins.
    SubExperimentStarted {
        /// 1-based.
        round: u32,
        /// Its name.
        name: String,
        /// 1-based position in its round.
        index: usize,
        /// Sub-experiments in a round.
        of: usize,
        /// Payloads that were finished before the run was resumed.
        finished: Vec<u64>,
    },
    /// A payload begins.
    PayloadStarted {
        /// Its size.
        payload_bytes: u64,
    },
    /// Samples of this payload so far.
    Progress {
        /// Their number.
        done: u64,
        /// Samples asked for.
        planned: u64,
    },
    /// A payload is finished.
    PayloadFinished(Box<PayloadResult>),
    /// A payload was measured while the hand-over probe changed, and is measured again.
    PayloadAgain(Box<PayloadResult>),
    /// All results so far. No process measures until the watcher returns.
    SoFar(&'a Manifest),
    /// There will be so many rounds in all, more or fewer than the plan has.
    RoundsWanted(u32),
    /// A sub-experiment is over.
    SubExperimentFinished {
        /// How.
        status: RunStatus,
        /// Why, if it failed.
        error: Option<String>,
    },
}

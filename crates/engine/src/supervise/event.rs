use tripmeter_model::folder_handle::FolderHandle;
use tripmeter_model::manifest::{Manifest, PayloadResult, RunStatus};

/// Event of a run, for progress displays.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    Note(String),
    /// Information to show even with progress turned off.
    Warning(String),
    Results(FolderHandle),
    SubExperimentStarted {
        /// Number of the round, from 1.
        round: u32,
        name: String,
        /// Position in its round, from 1.
        index: usize,
        /// Sub-experiments in the round.
        of: usize,
        /// Payloads finished before the run was resumed.
        finished: Vec<u64>,
    },
    PayloadStarted {
        payload_bytes: u64,
    },
    Progress {
        done: u64,
        /// Planned number of samples.
        planned: u64,
    },
    PayloadFinished(Box<PayloadResult>),
    /// Attempt during which the core-to-core probe changed: the payload is measured again.
    PayloadAgain(Box<PayloadResult>),
    /// All results so far. No process measures until the watcher returns.
    SoFar(&'a Manifest),
    /// Total number of rounds, now different from the plan's.
    RoundsWanted(u32),
    SubExperimentFinished {
        status: RunStatus,
        /// Cause of a failure.
        error: Option<String>,
    },
}

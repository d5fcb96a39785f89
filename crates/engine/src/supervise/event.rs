use tripmeter_model::folder_handle::FolderHandle;
use tripmeter_model::manifest::{Manifest, PayloadResult, RunStatus};

/// Event of a run, for progress displays.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    Note(String),
    /// Information to show even if no progress is wanted.
    Warning(String),
    Results(FolderHandle),
    SubExperimentStarted {
        /// 1-based.
        round: u32,
        name: String,
        /// 1-based position in its round.
        index: usize,
        /// Sub-experiments in the round.
        of: usize,
        /// Payloads finished before the run was resumed.
        finished: Vec<u64>,
    },
    PayloadStarted {
        /// Payload size.
        payload_bytes: u64,
    },
    Progress {
        done: u64,
        /// Samples asked for.
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

//! What a leader writes beside the manifest.

use crate::files::{Files, StampFiles, StampKind, TrialFile};
use crate::wire::Job;
use tripmeter_abi::Pattern;
use tripmeter_model::plan::Raw;

/// What is written of a sub-experiment besides the manifest.
pub(super) enum Output {
    /// Round trips.
    Samples(Files),
    /// Trials of one-way messages.
    Trials(TrialFile),
    /// Messages at a fixed rate, and calls.
    Stamps(StampFiles),
}

impl Output {
    pub(super) fn create(job: &Job) -> std::io::Result<Self> {
        let name = &job.sub_experiment.name;
        if let Some(kind) = StampKind::of(&job.sub_experiment) {
            let has_bursts = job.sub_experiment.workload.has_bursts();
            let files = StampFiles::create(&job.results_dir, name, kind, job.raw == Raw::Csv, has_bursts);
            return files.map(Output::Stamps);
        }
        if is_one_way(job.sub_experiment.pattern) {
            return TrialFile::create(&job.results_dir, name).map(Output::Trials);
        }
        if job.sub_experiment.pattern == Pattern::Log {
            return Files::of_calls(&job.results_dir, name, job.raw == Raw::Csv).map(Output::Samples);
        }
        Files::create(&job.results_dir, name, job.raw == Raw::Csv).map(Output::Samples)
    }
}

/// The follower does not answer, but counts.
pub(super) fn is_one_way(pattern: Pattern) -> bool {
    matches!(pattern, Pattern::Throughput | Pattern::Channel)
}

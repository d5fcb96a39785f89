//! What a leader writes beside the manifest.

use crate::files::{Files, StampFiles, StampKind, TrialFile};
use crate::wire::Job;
use tripmeter_model::plan::Raw;
use tripmeter_model::workload::Reply;

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
        let reply = job.sub_experiment.workload.reply;
        if reply == Reply::Nothing {
            return TrialFile::create(&job.results_dir, name).map(Output::Trials);
        }
        if reply == Reply::Lines {
            return Files::of_calls(&job.results_dir, name, job.raw == Raw::Csv).map(Output::Samples);
        }
        Files::create(&job.results_dir, name, job.raw == Raw::Csv).map(Output::Samples)
    }
}

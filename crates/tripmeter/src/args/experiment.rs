//! Experiment requested by the flags of a measuring command.

use super::measure::{AllowedArgs, MeasuringArgs, PatternArgs, PatternCommand, ReplayArgs, RunArgs, RunningArgs};
use super::workload::WorkloadArgs;
use crate::recording::files::is_recording;
use std::path::PathBuf;
use tripmeter_model::Pattern;
use tripmeter_model::experiment::{Common, WrittenRecording};

/// Source of an experiment, before flags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Written {
    #[default]
    Flags,
    Preset(String),
    File(PathBuf),
}

/// Request of a measuring command, independent of its flags.
#[derive(Clone, Default)]
pub struct ExperimentArgs {
    pub written: Written,
    /// Transports to measure; of a preset or file, only their sub-experiments are kept.
    pub transports: Vec<String>,
    pub workload: WorkloadArgs,
    pub recording: Option<WrittenRecording>,
    pub cpus: Option<String>,
    pub profile: Option<PathBuf>,
    pub rounds: Option<u32>,
    /// Seconds for which the rounds are repeated.
    pub repeat_for: Option<f64>,
    pub no_floor: bool,
    pub allowed: AllowedArgs,
    pub measuring: MeasuringArgs,
}

impl ExperimentArgs {
    /// Request for a preset or file; a name that is both means the preset.
    pub fn written(experiment: &str, measuring: &MeasuringArgs) -> Self {
        let is_preset = crate::embedded::presets().iter().any(|(name, _)| *name == experiment);
        let is_file = !is_preset && (experiment.contains(['/', '.']) || PathBuf::from(experiment).exists());
        let written = if is_file { Written::File(experiment.into()) } else { Written::Preset(experiment.to_owned()) };
        Self { written, measuring: measuring.clone(), ..Self::default() }
    }

    fn with(self, running: &RunningArgs) -> Self {
        Self {
            profile: running.profile.clone(),
            rounds: running.rounds,
            repeat_for: running.repeat_for,
            no_floor: running.no_floor,
            allowed: running.allowed,
            ..self
        }
    }
}

impl RunArgs {
    pub fn experiment(&self) -> ExperimentArgs {
        let named = self.experiment.as_deref().unwrap_or("quick");
        let written = ExperimentArgs::written(named, &self.measuring);
        ExperimentArgs { transports: self.only.clone(), ..written }.with(&self.running)
    }
}

impl PatternArgs {
    /// Request to measure a pattern over the named transports, or over all available ones if none is named.
    fn experiment(&self, pattern: Pattern) -> ExperimentArgs {
        let common = Common { pattern: Some(pattern), ..self.workload.common.clone() };
        let experiment = ExperimentArgs {
            transports: self.transports.names.clone(),
            workload: WorkloadArgs { common, ..self.workload.clone() },
            cpus: self.cpus.clone(),
            measuring: self.measuring.clone(),
            ..ExperimentArgs::default()
        };
        experiment.with(&self.running)
    }
}

impl PatternCommand {
    pub fn experiment(&self) -> ExperimentArgs {
        let (pattern, args) = self.parts();
        args.experiment(pattern)
    }
}

impl ReplayArgs {
    pub fn experiment(&self) -> ExperimentArgs {
        let all = self.common.experiment(if self.as_calls { Pattern::Call } else { Pattern::Publish });
        let (more, transports): (Vec<_>, _) = all.transports.into_iter().partition(|word| is_recording(word));
        let files = [self.recording.clone()].into_iter().chain(more.into_iter().map(PathBuf::from)).collect();
        let Self { speed, from: from_s, until: until_s, .. } = *self;
        let recording = Some(WrittenRecording { files, speed, topics: self.topics.clone(), from_s, until_s });
        ExperimentArgs { transports, recording, ..all }
    }
}

//! Experiment requested by the flags of a measuring command.

use super::measure::{
    AllowedArgs, BurstArgs, CallArgs, CpusArgs, LogArgs, MeasuringArgs, PingArgs, PublishArgs, ReplayArgs, RunArgs,
    RunningArgs, ThroughputArgs, TransportArgs,
};
use crate::recording::files::is_recording;
use std::path::PathBuf;
use tripmeter_model::Pattern;
use tripmeter_model::experiment::{Common, Mode, WrittenRecording, WrittenTopic};

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
    /// Settings of the pattern.
    pub common: Common,
    pub recording: Option<WrittenRecording>,
    pub topics: Vec<WrittenTopic>,
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

    /// Request to measure a pattern over the named transports, or over all available ones if none is named.
    fn for_transports(
        transports: &TransportArgs,
        common: Common,
        cpus: &CpusArgs,
        measuring: &MeasuringArgs,
        running: &RunningArgs,
    ) -> Self {
        let (transports, cpus, measuring) = (transports.names.clone(), cpus.cpus.clone(), measuring.clone());
        Self { transports, common, cpus, measuring, ..Self::default() }.with(running)
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

/// Settings for rate and bursts of a pattern.
fn paced(pattern: Pattern, rate: &Option<String>, bursts: &BurstArgs) -> Common {
    Common {
        pattern: Some(pattern),
        rate: rate.clone(),
        demand: bursts.demand.clone(),
        recovery_ms: bursts.recovery.clone(),
        ..Common::default()
    }
}

impl PingArgs {
    pub fn experiment(&self) -> ExperimentArgs {
        let common = Common {
            clients: self.clients.clone(),
            followers: self.followers,
            one_way: self.one_way.then_some(true),
            ..paced(Pattern::Ping, &self.rate, &self.bursts)
        };
        ExperimentArgs::for_transports(&self.transports, common, &self.cpus, &self.measuring, &self.running)
    }
}

impl PublishArgs {
    pub fn experiment(&self) -> ExperimentArgs {
        let common = Common {
            topics: self.topics,
            publishers: self.publishers,
            followers: self.followers,
            duration_s: self.duration,
            ..paced(Pattern::Publish, &self.rate, &self.bursts)
        };
        let all = ExperimentArgs::for_transports(&self.transports, common, &self.cpus, &self.measuring, &self.running);
        ExperimentArgs { topics: self.topic.clone(), ..all }
    }
}

impl CallArgs {
    pub fn experiment(&self) -> ExperimentArgs {
        let is_paced = self.rate.is_some() || self.bursts.demand.is_some();
        let common = Common {
            clients: self.clients.clone(),
            one_way: self.one_way.then_some(true),
            mode: is_paced.then_some(Mode::FixedFreq),
            ..paced(Pattern::Call, &self.rate, &self.bursts)
        };
        ExperimentArgs::for_transports(&self.transports, common, &self.cpus, &self.measuring, &self.running)
    }
}

impl ThroughputArgs {
    pub fn experiment(&self) -> ExperimentArgs {
        let common = Common {
            loss_bound: self.loss_bound.clone(),
            duration_s: self.duration,
            topics: self.topics,
            publishers: self.publishers,
            followers: self.followers,
            one_way: self.one_way.then_some(true),
            ..paced(Pattern::Throughput, &self.rate, &self.bursts)
        };
        ExperimentArgs::for_transports(&self.transports, common, &self.cpus, &self.measuring, &self.running)
    }
}

impl ReplayArgs {
    pub fn experiment(&self) -> ExperimentArgs {
        let common = Common {
            pattern: Some(if self.as_calls { Pattern::Call } else { Pattern::Publish }),
            one_way: self.one_way.then_some(true),
            followers: self.followers,
            ..Common::default()
        };
        let (more, names): (Vec<String>, _) =
            self.transports.names.iter().cloned().partition(|word| is_recording(word));
        let files = [self.recording.clone()].into_iter().chain(more.into_iter().map(PathBuf::from)).collect();
        let Self { speed, from: from_s, until: until_s, .. } = *self;
        ExperimentArgs {
            recording: Some(WrittenRecording { files, speed, topics: self.topics.clone(), from_s, until_s }),
            ..ExperimentArgs::for_transports(
                &TransportArgs { names },
                common,
                &self.cpus,
                &self.measuring,
                &self.running,
            )
        }
    }
}

impl LogArgs {
    pub fn experiment(&self) -> ExperimentArgs {
        let common = Common { pattern: Some(Pattern::Log), ..Common::default() };
        ExperimentArgs::for_transports(&self.transports, common, &self.cpus, &self.measuring, &self.running)
    }
}

//! Sidecars of the known transports, and presets, compiled into the program.

use crate::error::CliError;
use tripmeter_engine::suggest::did_you_mean;
use tripmeter_model::exit;
use tripmeter_model::experiment::Experiment;
use tripmeter_model::sidecar::Sidecar;

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

pub fn sidecars() -> Vec<Sidecar> {
    SIDECARS.iter().map(|(_, text)| Sidecar::parse(text).expect("a test reads every sidecar")).collect()
}

/// Names and texts of the presets, sorted by name.
pub fn presets() -> &'static [(&'static str, &'static str)] {
    PRESETS
}

pub fn preset(name: &str) -> Result<&'static str, CliError> {
    let found = PRESETS.iter().find(|(other, _)| *other == name).map(|(_, text)| *text);
    found.ok_or_else(|| {
        let hint = did_you_mean(name, PRESETS.iter().map(|(name, _)| *name));
        let text = format!("unknown preset '{name}'{hint}; `tripmeter list presets` lists them");
        CliError::new(exit::USAGE, text)
    })
}

pub fn preset_experiment(name: &str) -> Result<Experiment, CliError> {
    preset(name).map(|text| Experiment::parse(text).expect("a test reads every preset"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sidecar_and_every_preset_can_be_read() {
        assert!(sidecars().iter().any(|sidecar| sidecar.system == "shm"));
        for (name, _) in presets() {
            assert!(preset_experiment(name).unwrap().summary.is_some(), "{name}");
        }
    }
}

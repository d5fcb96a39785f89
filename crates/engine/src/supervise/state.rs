use super::error::RunError;
use super::event::Event;
use super::options::RunOptions;
use crate::audit::Snapshot;
use crate::by_hand::Meeting;
use crate::clock::Calibration;
use crate::daemon::DaemonLeases;
use crate::hosts::Met;
use crate::registry::Registry;
use crate::results::Results;
use crate::scratch::ScratchFolder;
use std::sync::atomic::Ordering::Relaxed;
use tripmeter_model::audit::ProcessActivity;
use tripmeter_model::manifest::{Manifest, SubExperimentResult};
use tripmeter_model::plan::Plan;

/// State shared by all sub-experiments of a run.
pub(super) struct Run<'a> {
    pub plan: &'a Plan,
    pub registry_of: &'a dyn Fn(&str) -> &'a Registry,
    pub options: &'a RunOptions,
    pub watch: &'a mut dyn FnMut(&Event<'_>),
    pub results: Results,
    pub manifest: Manifest,
    // Dropped in this order: daemons are stopped before the scratch folder with their configuration goes.
    pub meeting: Option<Meeting>,
    /// Host of each follower; empty if all are on this one.
    pub met: Vec<Met>,
    pub daemons: DaemonLeases,
    pub scratch: ScratchFolder,
    pub calibration: Calibration,
    pub cpus: Vec<usize>,
    /// State of the machine before the first sub-experiment.
    pub begin: Snapshot,
}

impl Run<'_> {
    pub fn save(&self) -> Result<(), RunError> {
        Ok(self.results.write(&self.manifest)?)
    }

    pub fn save_state(&self) -> Result<(), RunError> {
        let result = self.manifest.sub_experiments.last();
        Ok(result.map_or(Ok(()), |result| self.results.append_state(result))?)
    }

    pub fn stopped(&self) -> bool {
        self.options.stop.load(Relaxed)
    }

    /// Adds the activity of a process of the running sub-experiment.
    pub fn add_process(&mut self, mut activity: ProcessActivity) {
        // Loaded libraries matter only where the environment may make sides differ.
        if self.manifest.plan.sub_experiments.iter().all(|plan| plan.environment.is_empty()) {
            activity.libraries.clear();
        }
        let processes = &mut self.current().processes;
        processes.push(activity);
        // A follower that ends early reports before the leader.
        processes.sort_by_key(|process| (process.who != "leader", process.who.len(), process.who.clone()));
    }

    pub fn current(&mut self) -> &mut SubExperimentResult {
        self.manifest.sub_experiments.last_mut().expect("a sub-experiment is running")
    }
}

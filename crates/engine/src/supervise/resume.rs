//! Going on with a run of several rounds that was killed or interrupted.

use super::{RunError, now};
use crate::results::Results;
use std::path::PathBuf;
use tripmeter_model::manifest::{Environment, Manifest, Resumption, RunStatus, SubExperimentResult};

/// What of a run is there already.
#[derive(Clone, Debug)]
pub struct Begun {
    folder: PathBuf,
    manifest: Manifest,
    rounds: u32,
}

fn is_ended(result: &SubExperimentResult) -> bool {
    matches!(result.status, RunStatus::Complete | RunStatus::Failed)
}

impl Begun {
    /// What counts of the manifest in a results folder: all rounds that were measured to their end. The one that was under
    /// way is measured anew, as its parts are to be measured one after the other; but if a part of it failed, it stays as
    /// it is, so that the failure is still reported.
    pub fn new(folder: PathBuf, mut manifest: Manifest) -> Self {
        let last = manifest.sub_experiments.iter().map(|result| result.round).max().unwrap_or(0);
        let (is_last, parts) =
            (|result: &SubExperimentResult| result.round == last, manifest.plan.sub_experiments.len());
        let of_last: Vec<&SubExperimentResult> = manifest.sub_experiments.iter().filter(|one| is_last(one)).collect();
        let is_whole = of_last.len() == parts && of_last.iter().all(|result| is_ended(result));
        let has_failed = of_last.iter().any(|result| is_ended(result) && result.trouble().is_some());
        let rounds = if is_whole || has_failed { last } else { last.saturating_sub(1) };
        manifest.sub_experiments.retain(|result| result.round <= rounds);
        for result in manifest.sub_experiments.iter_mut().filter(|result| !is_ended(result)) {
            result.status = RunStatus::Interrupted;
        }
        Self { folder, manifest, rounds }
    }

    /// Rounds that are not measured again.
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// The manifest and the results folder to go on with; what the round under way has written is removed.
    pub(super) fn go_on(&self, environment: &Environment) -> Result<(Manifest, Results), RunError> {
        let before = &self.manifest.environment;
        let parts = [
            ("kernel", &before.kernel, &environment.kernel),
            ("CPU", &before.cpu_model, &environment.cpu_model),
            ("clock", &before.clock.source, &environment.clock.source),
        ];
        if let Some((what, before, now)) = parts.into_iter().find(|(_, before, now)| before != now) {
            return Err(RunError::OtherMachine { what, before: before.clone(), now: now.clone() });
        }
        let mut manifest = self.manifest.clone();
        (manifest.status, manifest.ended, manifest.results) = (RunStatus::Running, None, 0);
        (manifest.environment.after, manifest.environment.audit_after) = (None, None);
        manifest.resumptions.push(Resumption { at: now(), after_round: self.rounds });
        Ok((manifest, Results::reopen(&self.folder, self.rounds)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tripmeter_model::plan::Plan;

    /// Of two sides `a` and `b`, with these results.
    fn begun(results: &[(u32, &str, &str)]) -> Begun {
        let side = |name: &str| {
            serde_json::json!({
                "name": name, "title": name, "transport": { "system": "inmem", "variant": "queue", "given": {}, "settings": {} }, "pattern": "pingpong",
                "wait": "poll", "touch": "none", "payloads": [1024], "samples": 20, "warmup": 0, "time_cap_ns": null,
                "added_as_floor": false,
            })
        };
        let result = |&(round, name, status): &(u32, &str, &str)| {
            serde_json::json!({
                "name": name, "round": round, "status": status, "error": null, "transport_version": "", "system_version": "",
                "same_process": false, "path_proof": null, "memory_lock": null, "cells": [],
            })
        };
        let plan = serde_json::json!({
            "source": "ab", "sub_experiments": [side("a"), side("b")], "rounds": 9, "seed": 1, "raw": ["samples"],
            "daemons": "start", "loss_timeout_ns": 1, "leader_cpu": null, "follower_cpu": null, "left_out": [],
        });
        let plan: Plan = serde_json::from_value(plan).unwrap();
        let environment = crate::environment::environment(&crate::clock::Calibration::new());
        let manifest = serde_json::json!({
            "schema_version": "2.0", "tripmeter_version": "", "started": "", "ended": null, "status": "running", "plan": plan,
            "environment": environment, "sub_experiments": results.iter().map(result).collect::<Vec<_>>(),
        });
        Begun::new(PathBuf::new(), serde_json::from_value(manifest).unwrap())
    }

    fn kept(results: &[(u32, &str, &str)]) -> (u32, usize) {
        let begun = begun(results);
        (begun.rounds(), begun.manifest.sub_experiments.len())
    }

    #[test]
    fn whole_rounds_count_and_the_one_under_way_does_not() {
        let first = [(1, "b", "complete"), (1, "a", "complete")];
        let and = |more: &[(u32, &'static str, &'static str)]| kept(&[&first[..], more].concat());
        assert_eq!(kept(&[]), (0, 0));
        assert_eq!(kept(&first[..1]), (0, 0));
        assert_eq!(and(&[]), (1, 2));
        assert_eq!(and(&[(2, "a", "running")]), (1, 2));
        assert_eq!(and(&[(2, "a", "complete"), (2, "b", "interrupted")]), (1, 2));
        assert_eq!(and(&[(2, "a", "failed"), (2, "b", "complete")]), (2, 4));
    }

    #[test]
    fn a_failure_of_the_round_under_way_stays() {
        let begun = begun(&[(1, "a", "failed"), (1, "b", "running")]);
        let statuses: Vec<RunStatus> = begun.manifest.sub_experiments.iter().map(|result| result.status).collect();
        assert_eq!((begun.rounds(), statuses), (1, vec![RunStatus::Failed, RunStatus::Interrupted]));
    }
}

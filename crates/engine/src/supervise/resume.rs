//! Resumes a run that was killed or interrupted, or that failed in part.

use super::date::now;
use super::error::RunError;
use crate::files::whole;
use crate::results::{LockedFolder, Results, ResultsError};
use std::collections::{BTreeMap, HashMap, HashSet};
use tripmeter_model::manifest::{
    Environment, Manifest, PayloadResult, Resumption, RunStatus, SCHEMA_VERSION, SubExperimentResult, Verdict,
};

/// Part of a run that is measured already.
#[derive(Clone, Debug)]
pub struct Begun {
    folder: LockedFolder,
    manifest: Manifest,
    rounds: u32,
    /// Last round that had begun.
    last: u32,
    whole: HashSet<(String, u32)>,
    left_ns: Option<u64>,
    /// True if only missing payloads are measured; else whole rounds are.
    is_rest: bool,
}

/// Drops results that do not count: the payload under way when the sub-experiment ended. All payloads are dropped if
/// the daemon had ended, or if the sub-experiment is not complete and its path proof failed.
fn keep_finished(result: &mut SubExperimentResult) {
    result.cells.retain(|cell| !cell.unfinished);
    let is_refuted = result.path_proof.as_ref().is_some_and(|proof| proof.verdict == Verdict::Failed);
    if result.unreliable || (is_refuted && !is_whole(result)) {
        result.cells.clear();
    }
}

fn is_ended(result: &SubExperimentResult) -> bool {
    matches!(result.status, RunStatus::Complete | RunStatus::Failed)
}

fn is_whole(result: &SubExperimentResult) -> bool {
    result.status == RunStatus::Complete
}

/// Names and rounds of complete sub-experiments.
fn whole(manifest: &Manifest) -> HashSet<(String, u32)> {
    let results = manifest.sub_experiments.iter().filter(|result| is_whole(result));
    results.map(|result| (result.name.clone(), result.round)).collect()
}

/// Names of the sub-experiments that a resumed run measures, before the folder is locked.
pub fn unfinished(manifest: &Manifest) -> HashSet<String> {
    let (plan, whole) = (&manifest.plan, whole(manifest));
    let has_more_rounds = is_cut(manifest) && plan.for_ns.is_some();
    let is_missing = |name: &String| (1..=plan.rounds).any(|round| !whole.contains(&(name.clone(), round)));
    let names = plan.sub_experiments.iter().map(|one| one.name.clone());
    names.filter(|name| has_more_rounds || is_missing(name)).collect()
}

/// True if a kill or the user ended the run early.
fn is_cut(manifest: &Manifest) -> bool {
    matches!(manifest.status, RunStatus::Running | RunStatus::Interrupted)
}

fn last_round(manifest: &Manifest) -> u32 {
    manifest.sub_experiments.iter().map(|result| result.round).max().unwrap_or(0)
}

impl Begun {
    /// Keeps the complete rounds of a manifest that was read after its folder was locked. The round under way is
    /// measured again, unless a part of it failed: it is kept, so that the failure is still reported.
    pub fn new(folder: LockedFolder, mut manifest: Manifest) -> Self {
        let last = last_round(&manifest);
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
        Self { folder, whole: whole(&manifest), manifest, rounds, last, left_ns: None, is_rest: false }
    }

    /// Keeps every finished payload of a manifest that was read after its folder was locked. Missing payloads are
    /// measured in the same rounds, in fresh processes.
    pub fn finished_payloads(folder: LockedFolder, mut manifest: Manifest) -> Self {
        let last = last_round(&manifest);
        let is_cut = is_cut(&manifest);
        if is_cut && manifest.plan.for_ns.is_some() {
            // Its time is not over, so there is at least one more round. After that, the number is estimated again.
            let next = (last + 1).min(manifest.plan.most_rounds());
            manifest.plan.rounds = manifest.plan.rounds.max(next);
        }
        let plan = &manifest.plan;
        for result in &mut manifest.sub_experiments {
            keep_finished(result);
            result.status = if is_whole(result) { result.status } else { RunStatus::Interrupted };
        }
        manifest.sub_experiments.retain(|result| is_whole(result) || !result.cells.is_empty());
        let mut of_round = BTreeMap::new();
        for result in manifest.sub_experiments.iter().filter(|result| is_whole(result)) {
            *of_round.entry(result.round).or_insert(0_usize) += 1;
        }
        let whole_rounds = (1..=plan.rounds)
            .take_while(|round| of_round.get(round).is_some_and(|count| *count >= plan.sub_experiments.len()));
        let rounds = whole_rounds.count() as u32;
        // Share of the time that the complete rounds have not used, by the last estimate.
        let share_left = 1.0 - f64::from(rounds) / f64::from(plan.rounds.max(1));
        let left_ns = plan.for_ns.filter(|_| is_cut).map(|ns| (ns as f64 * share_left).round() as u64);
        Self { folder, whole: whole(&manifest), manifest, rounds, last, left_ns, is_rest: true }
    }

    /// Nanoseconds left for further rounds, if time ends the run. `None` also if its time was over: missing parts are then
    /// measured in the existing rounds.
    pub fn left_ns(&self) -> Option<u64> {
        self.left_ns
    }

    /// Names and rounds that are still to be measured, round by round in the order of the plan.
    pub fn rest(&self) -> Vec<(String, u32)> {
        let plan = &self.manifest.plan;
        let all =
            (1..=plan.rounds).flat_map(|round| plan.sub_experiments.iter().map(move |one| (one.name.clone(), round)));
        all.filter(|(name, round)| !self.is_done(name, *round)).collect()
    }

    /// List of the missing parts as text, such as `a, rounds 1 to 3`. Rounds that had not begun are one entry, as their
    /// number may be an estimate.
    fn named_rest(&self) -> Vec<String> {
        let plan = &self.manifest.plan;
        if !plan.has_round_folders() {
            return self.rest().into_iter().map(|(name, _)| name).collect();
        }
        let mut named = Vec::new();
        for name in plan.sub_experiments.iter().map(|one| &one.name) {
            let missing: Vec<u32> = (1..=self.last).filter(|round| !self.is_done(name, *round)).collect();
            named.extend(missing.chunk_by(|a, b| a + 1 == *b).map(|rounds| match rounds {
                [first, .., last] => format!("{name}, rounds {first} to {last}"),
                one => format!("{name}, round {}", one[0]),
            }));
        }
        named.extend((self.last < plan.rounds).then(|| format!("all from round {} on", self.last + 1)));
        named
    }

    /// True if nothing of a sub-experiment is left to measure.
    pub(super) fn is_done(&self, name: &str, round: u32) -> bool {
        self.whole.contains(&(name.to_owned(), round))
    }

    /// Number of rounds that the resumed run skips.
    pub(super) fn rounds_passed(&self) -> u32 {
        if self.is_rest { 0 } else { self.rounds }
    }

    pub fn plan(&self) -> &tripmeter_model::plan::Plan {
        &self.manifest.plan
    }

    /// Number of rounds that are not measured again.
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Checks that the files have the payloads that are kept. Fails if a file is missing, or lacks a part.
    pub fn check_files(&self) -> Result<(), RunError> {
        let Manifest { plan, sub_experiments, .. } = &self.manifest;
        let raw = plan.raw;
        let oldest = plan.keep_samples.map_or(0, |rounds| self.last.saturating_add(1).saturating_sub(rounds));
        for result in sub_experiments {
            let SubExperimentResult { name, round, cells, .. } = result;
            let folder = match plan.has_round_folders() {
                true => self.folder.folder().path().join(format!("round-{round:02}")),
                false => self.folder.folder().path().to_path_buf(),
            };
            whole::check_histograms(&folder, name, cells)?;
            if *round < oldest {
                continue;
            }
            if raw.eprosima {
                whole::check_measurements(&folder, name, cells)?;
            }
            // The CSV is removed once it is converted to Parquet.
            let is_parquet = raw.parquet && !raw.samples && is_whole(result) && whole::has_parquet(&folder, name)?;
            if raw.has_rows() && !is_parquet {
                whole::check_samples(&folder, name, *round, cells)?;
            }
        }
        // The folder that was read is still the locked one.
        Ok(self.folder.folder().check().map_err(ResultsError::from)?)
    }

    /// Manifest and results folder of the resumed run. Removes the files of all parts that are measured again.
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
        let rest = if self.is_rest { self.named_rest() } else { Vec::new() };
        // The manifest gets the current format, unless its version marks kernel times that may be sampled.
        if !manifest.may_sample_kernel_time() {
            manifest.schema_version = SCHEMA_VERSION.to_owned();
        }
        manifest.resumptions.push(Resumption { at: now(), after_round: self.rounds, rest });
        if !self.is_rest {
            return Ok((manifest, Results::reopen(&self.folder, self.rounds)?));
        }
        let results = Results::resume(&self.folder, manifest.plan.has_round_folders());
        let there = manifest.sub_experiments.iter().map(|result| ((result.name.as_str(), result.round), &result.cells));
        let there: HashMap<_, _> = there.collect();
        let rest: Vec<(String, u32, &[PayloadResult])> = self
            .rest()
            .into_iter()
            .map(|(name, round)| {
                let kept = there.get(&(name.as_str(), round)).map_or(&[][..], |cells| cells.as_slice());
                (name, round, kept)
            })
            .collect();
        // Checked before anything is cut.
        self.check_files()?;
        for (name, round, kept) in rest {
            results.keep_rest(&name, round, kept)?;
        }
        Ok((manifest, results))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tripmeter_model::cut_short::CutShort;
    use tripmeter_model::plan::Plan;

    fn locked() -> LockedFolder {
        LockedFolder::take(tempfile::tempdir().unwrap().path()).unwrap()
    }

    /// Run of two sides `a` and `b`, with these results.
    fn begun(results: &[(u32, &str, &str)]) -> Begun {
        let side = |name: &str| {
            serde_json::json!({
                "name": name, "title": name, "transport": { "system": "inmem", "variant": "queue", "given": {}, "settings": {} }, "pattern": "ping",
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
        Begun::new(locked(), serde_json::from_value(manifest).unwrap())
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
    fn of_what_is_not_whole_the_finished_payloads_count() {
        let rest = |status: &str, payloads: &[(u64, bool)]| {
            let mut manifest = begun(&[(1, "a", "complete"), (1, "b", "complete")]).manifest;
            manifest.plan.rounds = 1;
            manifest.plan.sub_experiments[1].payloads = vec![16, 64];
            let cell = |&(payload_bytes, unfinished): &(u64, bool)| PayloadResult {
                payload_bytes,
                unfinished,
                cut_short: Some(CutShort::at_cap(None)),
                ..PayloadResult::default()
            };
            let result = SubExperimentResult {
                name: "b".to_owned(),
                status: serde_json::from_value(status.into()).unwrap(),
                cells: payloads.iter().map(cell).collect(),
                ..manifest.sub_experiments[0].clone()
            };
            manifest.sub_experiments.truncate(1);
            manifest.sub_experiments.push(result);
            let begun = Begun::finished_payloads(locked(), manifest);
            let kept = begun.manifest.sub_experiments.iter().filter(|one| one.name == "b").flat_map(|one| &one.cells);
            (begun.rest(), kept.map(|cell| cell.payload_bytes).collect::<Vec<u64>>())
        };
        let of_b = vec![("b".to_owned(), 1)];
        assert_eq!(rest("complete", &[(16, false), (64, false)]), (vec![], vec![16, 64]));
        assert_eq!(rest("running", &[(16, false)]), (of_b.clone(), vec![16]));
        assert_eq!(rest("failed", &[(16, false), (64, true)]), (of_b.clone(), vec![16]));
        // All payloads are there, but its workers are started once more, and must end well.
        assert_eq!(rest("interrupted", &[(16, false), (64, false)]), (of_b.clone(), vec![16, 64]));
        assert_eq!(rest("failed", &[]), (of_b, vec![]));
    }

    #[test]
    fn a_run_of_a_time_that_was_cut_has_one_more_round_than_it_had_begun() {
        let rounds = |status, for_ns| {
            let mut manifest = begun(&[(1, "a", "complete"), (1, "b", "complete")]).manifest;
            (manifest.plan.rounds, manifest.plan.for_ns, manifest.status) = (1, for_ns, status);
            Begun::finished_payloads(locked(), manifest).manifest.plan.rounds
        };
        assert_eq!(rounds(RunStatus::Running, Some(1)), 2);
        assert_eq!(rounds(RunStatus::Interrupted, Some(1)), 2);
        assert_eq!(rounds(RunStatus::Complete, Some(1)), 1);
        assert_eq!(rounds(RunStatus::Running, None), 1);
    }

    #[test]
    fn rounds_of_a_run_that_was_cut_took_their_share_of_its_time() {
        let left = |status, rounds, whole: usize| {
            let of = [(1, "a", "complete"), (1, "b", "complete"), (2, "b", "complete"), (2, "a", "complete")];
            let mut manifest = begun(&of[..2 * whole]).manifest;
            (manifest.plan.rounds, manifest.plan.for_ns, manifest.status) = (rounds, Some(3_600), status);
            Begun::finished_payloads(locked(), manifest).left_ns()
        };
        assert_eq!(left(RunStatus::Running, 8, 2), Some(2_700));
        assert_eq!(left(RunStatus::Interrupted, 8, 1), Some(3_150));
        assert_eq!(left(RunStatus::Running, 2, 0), Some(3_600), "no round is complete");
        for status in [RunStatus::Complete, RunStatus::Failed] {
            assert_eq!(left(status, 1, 1), None, "its time was over");
            assert_eq!(left(status, 1, 0), None, "its time was over, whatever is missing");
        }
    }

    #[test]
    fn what_is_missing_is_named_of_rounds_that_had_begun() {
        let of =
            [(1, "a", "complete"), (1, "b", "failed"), (2, "b", "failed"), (2, "a", "complete"), (3, "a", "running")];
        let mut manifest = begun(&of).manifest;
        manifest.sub_experiments.push(SubExperimentResult { round: 3, ..manifest.sub_experiments[0].clone() });
        manifest.sub_experiments[4].status = RunStatus::Running;
        manifest.plan.rounds = 5000;
        let named = |manifest: &Manifest| Begun::finished_payloads(locked(), manifest.clone()).named_rest();
        assert_eq!(named(&manifest), ["a, round 3", "b, rounds 1 to 3", "all from round 4 on"]);
        manifest.plan.rounds = 3;
        assert_eq!(named(&manifest), ["a, round 3", "b, rounds 1 to 3"]);
        manifest.sub_experiments.clear();
        assert_eq!(named(&manifest), ["all from round 1 on"]);
    }

    #[test]
    fn a_failure_of_the_round_under_way_stays() {
        let begun = begun(&[(1, "a", "failed"), (1, "b", "running")]);
        let statuses: Vec<RunStatus> = begun.manifest.sub_experiments.iter().map(|result| result.status).collect();
        assert_eq!((begun.rounds(), statuses), (1, vec![RunStatus::Failed, RunStatus::Interrupted]));
    }
}

//! Plan under construction: sub-experiments, and transports that are left out.

use super::error::{AtTransport, PlanError, Problem};
use super::machine::Machine;
use crate::registry::{Entry, Registry};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use tripmeter_abi::{Description, Variant};
use tripmeter_model::exit;
use tripmeter_model::plan::{Plan, SubExperiment};

/// Requested transport, before its checks.
pub(super) struct Candidate<'a> {
    pub entry: &'a Entry,
    pub description: &'a Description,
    pub variant: &'a Variant,
}

pub(super) struct ResolvedSubExperiment {
    pub sub_experiment: SubExperiment,
    pub by_name: bool,
}

pub(super) struct Planner<'a> {
    pub machine: &'a Machine,
    pub registry: &'a Registry,
    pub scratch: &'a Path,
    pub run_id: String,
    pub settings: &'a BTreeMap<String, String>,
    pub follower_cpu: Option<usize>,
    pub timeout_ns: Option<u64>,
    /// Names of `settings` that at least one of the transports has.
    pub used: BTreeSet<String>,
    pub plan: &'a mut Plan,
    pub made: Vec<ResolvedSubExperiment>,
    /// Indices in `made`, by transport and payloads. The map keeps planning fast with thousands of sub-experiments.
    pub places: HashMap<(String, Vec<u64>), Vec<usize>>,
    /// Errors of transports that were requested by name, and are left out.
    pub refused: Vec<PlanError>,
    /// True if the settings of a requested system are unknown, as it is not installed.
    pub is_any_unknown: bool,
}

impl Planner<'_> {
    /// Error if everything was left out. For a single transport requested by name, it is that transport's own error.
    pub fn nothing_left(&mut self) -> PlanError {
        let not_installed = self.plan.not_installed();
        let lines: Vec<String> = self.plan.left_out.drain(..).chain(not_installed).collect();
        if lines.len() == 1
            && let Some(only) = self.refused.pop()
        {
            return only;
        }
        let codes: BTreeSet<u8> = self.refused.iter().map(PlanError::exit_code).collect();
        let common = codes.first().filter(|_| codes.len() == 1 && self.refused.len() >= lines.len());
        let code = common.copied().unwrap_or(exit::UNAVAILABLE);
        PlanError::anywhere(Problem::NothingLeft { lines, code })
    }

    /// Leaves out a transport that cannot run here or does not support the request. If it was requested by name,
    /// [`Plan::missing`] lists it. Refuses the experiment if no transport could support it.
    pub fn leave_out(&mut self, transport: &str, problem: Problem, by_name: bool) -> Result<(), PlanError> {
        if by_name && !problem.is_of_the_transport() {
            return Err(problem).at(transport);
        }
        let problem = match problem {
            // The alternatives are listed only once.
            Problem::OneHost { path, can: Some(can) } if self.plan.left_out.iter().any(|line| line.contains(&can)) => {
                Problem::OneHost { path, can: None }
            }
            problem => problem,
        };
        let error = PlanError::at(transport, problem);
        let line = error.to_string();
        if !self.plan.left_out.contains(&line) {
            self.plan.left_out.push(line.clone());
        }
        if by_name {
            if !self.plan.missing.contains(&line) {
                self.plan.missing.push(line);
            }
            self.refused.push(error);
        }
        Ok(())
    }

    /// Adds a sub-experiment, unless `*` has already added it.
    pub fn push(&mut self, new: ResolvedSubExperiment) -> Result<(), Problem> {
        let same = |made: &ResolvedSubExperiment| is_same(&made.sub_experiment, &new.sub_experiment);
        let of = (new.sub_experiment.transport.to_string(), new.sub_experiment.payloads.clone());
        let places = self.places.entry(of).or_default();
        match places.iter().copied().find(|place| same(&self.made[*place])) {
            None => {
                places.push(self.made.len());
                self.made.push(new);
            }
            Some(at) if new.by_name && self.made[at].by_name => return Err(Problem::Repeated(at + 1)),
            Some(at) if new.by_name => self.made[at] = new,
            Some(_) => {}
        }
        Ok(())
    }
}

/// True if they differ in nothing but name and title. The floor is added later.
fn is_same(a: &SubExperiment, b: &SubExperiment) -> bool {
    *a == SubExperiment { name: a.name.clone(), title: a.title.clone(), ..b.clone() }
}

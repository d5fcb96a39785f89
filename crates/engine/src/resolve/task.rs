//! Settings of sub-experiments, before a transport is chosen.

use super::error::Problem;
use super::{call, check, publish, workload};
use tripmeter_abi::Pattern;
use tripmeter_model::experiment::{Common, WrittenSamplesAbove};
use tripmeter_model::interference::{BackgroundLoad, Sched};
use tripmeter_model::pattern::{DEFAULT_PATTERN, facts};
use tripmeter_model::plan::{Plan, Raw, SamplesAbove};
use tripmeter_model::workload::Workload;
use tripmeter_model::{Touch, Wait, payload};

/// Settings of a sub-experiment without its transport.
#[derive(Clone, PartialEq)]
pub(super) struct PlannedTask {
    pub pattern: Pattern,
    pub workload: Workload,
    pub payloads: Vec<u64>,
    pub samples: u64,
    pub samples_above: Vec<SamplesAbove>,
    pub warmup: u64,
    pub one_way: bool,
    /// True if a number of clients was given, even if it was 1.
    pub has_clients: bool,
    pub time_cap_ns: Option<u64>,
    pub wait: Option<Wait>,
    pub touch: Touch,
    pub sched: Sched,
    pub background: BackgroundLoad,
}

impl PlannedTask {
    /// Tasks for each background load, and for each number of clients under `call`. `timeout_ns` is the requested loss
    /// timeout. The messages of a recording in the plan replace those of the settings.
    pub fn each(common: &Common, plan: &Plan, timeout_ns: Option<u64>) -> Result<Vec<Self>, Problem> {
        let loads = common.background.clone().unwrap_or_default();
        if let Some(twice) = (1..loads.len()).find(|index| loads[..*index].contains(&loads[*index])) {
            return Err(Problem::OfferTwice { flags: "--background", trial: twice + 1 });
        }
        let tasks = Self::at_rest(common, plan, timeout_ns)?;
        let loads = if loads.is_empty() { vec![BackgroundLoad::default()] } else { loads };
        let under = |background| tasks.iter().map(move |task| Self { background, ..task.clone() });
        Ok(loads.into_iter().flat_map(under).collect())
    }

    fn at_rest(common: &Common, plan: &Plan, timeout_ns: Option<u64>) -> Result<Vec<Self>, Problem> {
        if let Some(recording) = &plan.recording {
            let task = Self::from_common(&publish::with_recording(common, recording)?, plan.raw, timeout_ns)?;
            let task = Self { workload: publish::playing(task.workload, recording), ..task };
            task.check_hosts(plan)?;
            return Ok(vec![task]);
        }
        let each: Vec<Self> = call::each(common)?
            .iter()
            .map(|common| Self::from_common(common, plan.raw, timeout_ns))
            .collect::<Result<_, _>>()?;
        each.iter().try_for_each(|task| task.check_hosts(plan))?;
        Ok(each)
    }

    fn check_hosts(&self, plan: &Plan) -> Result<(), Problem> {
        check::hosts(&plan.hosts, plan.raw, facts(self.pattern), &self.workload, self.one_way)
    }

    fn from_common(common: &Common, raw: Raw, timeout_ns: Option<u64>) -> Result<Self, Problem> {
        let pattern = common.pattern.unwrap_or(DEFAULT_PATTERN);
        let facts = facts(pattern);
        let defaults = &facts.defaults;
        let payloads = payload::parse_list(common.payloads.as_deref().unwrap_or(defaults.payloads))?;
        let mut workload = workload::for_pattern(common, pattern, timeout_ns)?;
        let samples = common.samples.unwrap_or(defaults.samples);
        let usual = || workload::default_warmup(&workload, pattern, samples);
        let warmup = common.warmup.unwrap_or_else(usual);
        let samples_above = samples_above(common.samples_above.as_deref().unwrap_or_default())?;
        workload.topology.followers = common.followers.unwrap_or(1);
        check::followers(facts, &workload, raw)?;
        let one_way = common.one_way.unwrap_or(false);
        check::samples_above(!samples_above.is_empty(), &workload)?;
        let counts = samples_above.iter().map(|above| above.samples).chain([samples]);
        check::samples(counts, warmup, &workload, raw)?;
        check::one_way(one_way, &workload, raw)?;
        common.time_cap_s.map_or(Ok(()), check::time_cap)?;
        Ok(Self {
            pattern,
            payloads,
            samples: if workload.is_saturating() { 0 } else { samples },
            samples_above,
            warmup,
            one_way: one_way || (workload.is_fan_out() && workload.is_round_trips()),
            has_clients: common.clients.is_some(),
            workload,
            time_cap_ns: common.time_cap_s.map(|cap| (cap * 1e9).ceil() as u64),
            wait: common.wait,
            touch: common.touch.unwrap_or_default(),
            sched: common.sched.unwrap_or_default(),
            background: BackgroundLoad::default(),
        })
    }
}

fn samples_above(written: &[WrittenSamplesAbove]) -> Result<Vec<SamplesAbove>, Problem> {
    let mut ranges = Vec::new();
    for range in written {
        let payload_bytes = payload::parse_list(&range.payload)?.into_iter().max().unwrap_or(0);
        ranges.push(SamplesAbove { payload_bytes, samples: range.samples });
    }
    ranges.sort_by_key(|range| range.payload_bytes);
    Ok(ranges)
}

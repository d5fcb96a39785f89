//! Parts of the suite's experiment, and the inputs of their checks.

use crate::suite::{Known, KnownVariant};
use std::path::Path;
use tripmeter_abi::{Pattern, Wait};
use tripmeter_model::figure::Figure;
use tripmeter_model::manifest::{PayloadResult, SubExperimentResult};
use tripmeter_model::metric::{Process, Stream};
use tripmeter_model::plan::SubExperiment;
use tripmeter_model::trial::Trial;

pub(crate) const SAMPLES: u64 = 200;
pub(crate) const WARMUP: u64 = 20;

/// The only variant that may lose messages at any rate, round trips included, while its threads get no CPU.
pub(crate) const LOSES_WHEN_STARVED: &str = "zenoh/shm";

pub(crate) fn loses_when_starved(transport: &str) -> bool {
    transport.starts_with(LOSES_WHEN_STARVED)
}

pub(crate) struct VariantHere<'a> {
    pub(crate) system: &'a str,
    pub(crate) here: &'a KnownVariant,
    pub(crate) declared: &'a tripmeter_abi::Variant,
    pub(crate) has_packet: bool,
    pub(crate) is_thorough: bool,
}

impl VariantHere<'_> {
    pub(crate) fn name(&self) -> String {
        format!("{}/{}", self.system, self.here.variant)
    }

    pub(crate) fn can(&self, pattern: Pattern) -> bool {
        self.declared.patterns.contains(&pattern)
    }

    pub(crate) fn carries(&self, payload: u64) -> bool {
        self.here.max_payload_bytes.is_none_or(|most| payload <= most)
    }

    /// Sizes in `of` that the variant carries, as `payloads` of an experiment file.
    pub(crate) fn payloads(&self, of: &[u64]) -> String {
        let carried = of.iter().filter(|payload| self.carries(**payload));
        carried.map(u64::to_string).collect::<Vec<_>>().join(",")
    }

    /// All waits if `all` is set or the suite is thorough, else only the last in the order of [`Wait`].
    pub(crate) fn waits(&self, all: bool) -> &[Wait] {
        let waits = &self.declared.waits;
        match waits.iter().position(|wait| Some(wait) == waits.iter().max()) {
            Some(last) if !all && !self.is_thorough => &waits[last..=last],
            _ => waits,
        }
    }

    /// Waits for several followers, which share CPUs: without `poll`, unless it is the only one.
    pub(crate) fn waits_of_several(&self) -> Vec<Wait> {
        let sleeps = self.declared.waits.iter().any(|wait| *wait != Wait::Poll);
        self.waits(false).iter().copied().filter(|wait| *wait != Wait::Poll || !sleeps).collect()
    }

    /// One part per wait; `keys` are lines of TOML.
    pub(crate) fn parts(
        &self,
        kind: &'static str,
        waits: &[Wait],
        keys: &str,
        check: Check,
    ) -> impl Iterator<Item = PlannedPart> {
        waits.iter().map(move |wait| {
            let (name, transport) = (format!("{kind}_{}_{wait}", self.here.variant), self.name());
            let text = format!(
                "[[sub_experiment]]\nname = \"{name}\"\ntransport = \"{transport}\"\nwait = \"{wait}\"\n{}\n",
                keys.trim()
            );
            PlannedPart { kind, name, text, may_lose: self.declared.lossy, check }
        })
    }
}

pub(crate) fn variants_here(known: &Known, is_thorough: bool) -> Vec<VariantHere<'_>> {
    let Some(description) = known.description.as_ref().filter(|_| known.available) else { return Vec::new() };
    let has_packet = description.settings.iter().any(|setting| setting.name == "packet");
    let here = known.variants.iter().filter(|variant| variant.available);
    here.filter_map(|here| {
        let declared = description.variant(&here.variant)?;
        Some(VariantHere { system: &known.system, here, declared, has_packet, is_thorough })
    })
    .collect()
}

/// Faults found, one line each.
#[derive(Default)]
pub(crate) struct Faults(pub(crate) Vec<String>);

impl Faults {
    pub(crate) fn check(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.0.push(what());
        }
    }

    /// Returns the value; an error is recorded, and the default returned.
    pub(crate) fn value<T: Default>(&mut self, read: Result<T, String>) -> T {
        read.unwrap_or_else(|error| {
            self.0.push(error);
            T::default()
        })
    }
}

pub(crate) struct PartOutcome<'a> {
    pub(crate) result: &'a SubExperimentResult,
    pub(crate) plan: &'a SubExperiment,
    pub(crate) results: &'a Path,
    pub(crate) may_lose: bool,
}

impl PartOutcome<'_> {
    pub(crate) fn loses_when_starved(&self) -> bool {
        loses_when_starved(&self.plan.transport.to_string())
    }

    /// True if a trial has the cost of the leader, and of the follower if and only if that is a separate process.
    pub(crate) fn has_cost(&self, trial: &Trial) -> bool {
        let [leader, follower] = [Process::Leader, Process::Follower].map(Stream::process);
        let is_used = |side: &Stream| {
            [Figure::Window, Figure::CpuTime, Figure::PeakMemory].iter().all(|of| trial.count(side, *of) > 0)
        };
        let is_other = trial.value(&follower, Figure::CpuTime).is_some();
        is_used(&leader) && is_other != self.result.same_process && (!is_other || is_used(&follower))
    }

    pub(crate) fn place(&self, cell: &PayloadResult) -> String {
        format!("{} ({} bytes)", self.result.name, cell.payload_bytes)
    }
}

pub(crate) type Check = fn(&mut Faults, &PartOutcome<'_>);

/// A sub-experiment of the suite's experiment.
pub(crate) struct PlannedPart {
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) may_lose: bool,
    pub(crate) check: Check,
}

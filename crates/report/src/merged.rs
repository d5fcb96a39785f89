//! Sub-experiments with all their rounds.

use crate::number::counted;
use std::collections::HashMap;
use strum::IntoStaticStr;
use tripmeter_model::manifest::{
    Counts, Manifest, ModeChange, PathProof, PayloadResult, RunStatus, SubExperimentResult, Verdict, has_several_sizes,
};
use tripmeter_model::payload::{at_text, size_text};
use tripmeter_model::plan::SubExperiment;

/// One sub-experiment of the plan with its results, round by round.
pub struct Merged<'a> {
    pub planned: &'a SubExperiment,
    pub results: Vec<&'a SubExperimentResult>,
    /// Rounds of the plan, whether or not they were run.
    pub rounds: u32,
    /// True if its sides polled on a CPU that they share.
    pub polls_on_shared_cpu: bool,
}

/// Reason why figures are not ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
pub enum Disqualified {
    #[strum(serialize = "failed the path proof")]
    PathProofFailed,
    #[strum(serialize = "polled on a shared CPU")]
    PolledOnSharedCpu,
}

impl<'a> Merged<'a> {
    /// Every sub-experiment, in the order of the plan.
    pub fn from_manifest(manifest: &'a Manifest) -> Vec<Self> {
        let plan = &manifest.plan;
        let mut results: HashMap<&str, Vec<&SubExperimentResult>> = HashMap::new();
        for result in &manifest.sub_experiments {
            results.entry(&result.name).or_default().push(result);
        }
        let results_of = |name: &str| results.get(name).cloned().unwrap_or_default();
        plan.sub_experiments
            .iter()
            .map(|planned| Self {
                planned,
                results: results_of(&planned.name),
                rounds: plan.rounds,
                polls_on_shared_cpu: plan.polls_on_shared_cpu(planned),
            })
            .collect()
    }

    /// Reason why its figures do not describe the transport and are not ranked; `None` if they are.
    pub fn disqualified(&self) -> Option<Disqualified> {
        match self.proof() {
            Some((_, proof)) if proof.verdict == Verdict::Failed => Some(Disqualified::PathProofFailed),
            _ => self.polls_on_shared_cpu.then_some(Disqualified::PolledOnSharedCpu),
        }
    }

    /// Wait mode of both sides, marked `!` if they polled on a shared CPU.
    pub fn wait_text(&self) -> String {
        format!("{}{}", self.planned.wait, if self.polls_on_shared_cpu { MISSED } else { "" })
    }

    /// True if leader and follower were threads of one process.
    pub fn same_process(&self) -> bool {
        self.results.iter().any(|result| result.same_process)
    }

    /// Worst proof of all rounds, with its round; `None` if there is none.
    pub fn proof(&self) -> Option<(u32, &'a PathProof)> {
        let badness = |verdict| match verdict {
            Verdict::Failed => 0,
            Verdict::NotVisible => 1,
            Verdict::Proven => 2,
        };
        let proofs = self.results.iter().filter_map(|result| Some((result.round, result.path_proof.as_ref()?)));
        proofs.min_by_key(|(_, proof)| badness(proof.verdict))
    }

    /// Measured payloads, in the order of the plan.
    pub fn payloads(&self) -> Vec<MergedCell<'a>> {
        let planned = self.planned.payloads.iter();
        planned.map(|&bytes| self.payload(bytes)).filter(|merged| !merged.cells.is_empty()).collect()
    }

    pub fn payload(&self, bytes: u64) -> MergedCell<'a> {
        let cells = self.results.iter().flat_map(|result| &result.cells);
        let cells: Vec<&PayloadResult> = cells.filter(|cell| cell.payload_bytes == bytes).collect();
        let has_several_sizes = has_several_sizes(self.planned, cells.iter().copied());
        MergedCell { payload_bytes: bytes, has_several_sizes, cells }
    }

    /// Rounds that did not complete, with state and error; a round without a result was never begun.
    pub fn unfinished(&self) -> Vec<(u32, RunStatus, Option<&'a str>)> {
        let mut of_round = HashMap::new();
        for result in &self.results {
            of_round.entry(result.round).or_insert(result);
        }
        (1..=self.rounds)
            .map(|round| match of_round.get(&round) {
                Some(result) => (round, result.status, result.error.as_deref()),
                None => (round, RunStatus::Planned, None),
            })
            .filter(|(_, status, _)| *status != RunStatus::Complete)
            .collect()
    }
}

/// One payload of one sub-experiment over all rounds.
pub struct MergedCell<'a> {
    pub payload_bytes: u64,
    /// True if messages have several sizes; the payload is then the largest.
    pub has_several_sizes: bool,
    /// Cells of the rounds that have the payload.
    pub cells: Vec<&'a PayloadResult>,
}

impl MergedCell<'_> {
    /// Payload as text: `64k`, `all topics`.
    pub fn size(&self) -> String {
        size_text(self.payload_bytes, self.has_several_sizes)
    }

    /// Payload within a sentence: `at 64k`, `on all topics`.
    pub fn at(&self) -> String {
        at_text(self.payload_bytes, self.has_several_sizes)
    }

    pub fn samples(&self) -> u64 {
        self.cells.iter().map(|cell| cell.samples).fold(0, u64::saturating_add)
    }

    pub fn samples_planned(&self) -> u64 {
        self.cells.iter().map(|cell| cell.samples_planned).fold(0, u64::saturating_add)
    }

    /// Reasons why rounds have fewer samples than planned.
    pub fn shortfalls(&self) -> Vec<String> {
        let short = self.cells.iter().filter(|cell| cell.samples < cell.samples_planned);
        let usual = |cell: &PayloadResult| match cell.is_of_calls() {
            true => "some timed out or failed",
            false => "messages lost, late or damaged",
        };
        let reason = |cell: &PayloadResult| match &cell.cut_short {
            Some(why) => why.to_string(),
            None => usual(cell).to_owned(),
        };
        let mut reasons: Vec<_> = short.map(|cell| reason(cell)).collect();
        reasons.dedup();
        reasons
    }

    /// Mark before the number of samples if there are fewer than planned, or not all are good.
    pub fn star(&self) -> &'static str {
        let is_bad =
            |cell: &&PayloadResult| cell.samples < cell.samples_planned || cell.is_damaged() || cell.is_all_lost();
        if self.cells.iter().any(is_bad) { "*" } else { "" }
    }

    /// Damaged messages, or failed calls, of warm-ups; other counts do not include them.
    pub fn warmup_damaged(&self) -> u64 {
        self.cells.iter().map(|cell| cell.warmup_damaged).fold(0, u64::saturating_add)
    }

    pub fn is_wholly_lost(&self) -> bool {
        self.counts().is_all_lost()
    }

    pub fn counts(&self) -> Counts {
        self.cells.iter().map(|cell| cell.counts()).fold(Counts::default(), |sum, counts| sum + counts)
    }
}

/// Number of rounds with figures, and of planned ones if some are missing: `3 rounds`, `1 round (3 planned)`, `1 to 2
/// rounds (3 planned)`. `finished` has the number for each payload.
pub fn rounds_text(planned: u32, finished: impl Iterator<Item = usize>) -> String {
    let planned = planned as usize;
    let (fewest, most) = finished.fold((planned, 0), |(fewest, most), count| (fewest.min(count), most.max(count)));
    match (fewest, most) {
        (_, 0) => format!("no round ({planned} planned)"),
        _ if fewest == planned => counted(planned, "round"),
        _ if fewest == most => format!("{} ({planned} planned)", counted(most, "round")),
        _ => format!("{fewest} to {} ({planned} planned)", counted(most, "round")),
    }
}

/// `INCOMPLETE`, with the number of rounds if several were planned; `None` if all rounds are there.
pub fn incomplete<'a>(subs: impl Iterator<Item = &'a Merged<'a>> + Clone) -> Option<String> {
    let planned = subs.clone().find(|sub| !sub.unfinished().is_empty())?.rounds;
    let rounds = subs.flat_map(Merged::payloads).map(|payload| payload.cells.len());
    Some(if planned > 1 { format!("INCOMPLETE, {}", rounds_text(planned, rounds)) } else { "INCOMPLETE".to_owned() })
}

/// Mark of unusable figures: the rate was missed, the path proof failed, or both sides polled on one CPU.
pub const MISSED: &str = "!";

/// Legend of [`MISSED`] after a wait mode.
pub const POLLS_HELP: &str = "! it polled on a shared CPU: times and rates are of scheduler time slices";

/// Mark of payloads whose core-to-core probe changed.
pub const CHANGED: &str = "~";

impl MergedCell<'_> {
    /// Cells whose core-to-core probe changed, with the change.
    pub fn changed(&self) -> Vec<(&PayloadResult, ModeChange)> {
        self.cells.iter().filter_map(|cell| Some((*cell, cell.mode_change()?))).collect()
    }

    pub fn mark(&self) -> &'static str {
        if self.changed().is_empty() { "" } else { CHANGED }
    }

    /// Discarded attempts of all rounds.
    pub fn set_aside(&self) -> impl Iterator<Item = &PayloadResult> {
        self.cells.iter().flat_map(|cell| &cell.earlier_attempts)
    }
}

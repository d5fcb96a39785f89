//! Reasons that results do not count.

use crate::figure::Figure;
use crate::manifest::{RunStatus, SubExperimentResult, Verdict, has_several_sizes};
use crate::metric::Stream;
use crate::payload::size_text;
use crate::plan::SubExperiment;
use crate::trial::Trial;
use std::fmt;

/// Payload at which no message was sent, or none for one of its offered loads or topics.
pub struct UnmeasuredPayload {
    /// Size of the payload.
    pub payload_bytes: u64,
    /// True if other offered loads have messages.
    pub is_partial: bool,
    /// True if a topic has no messages, but others have.
    pub is_topic: bool,
    /// Size or topic, with the reason: `1k: time cap of 2 s`.
    pub why: String,
}

impl fmt::Display for UnmeasuredPayload {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, of) = match (self.is_topic, self.is_partial) {
            (true, _) => ("nothing", "of"),
            (false, true) => ("not every offered load", "at"),
            (false, false) => ("nothing", "at"),
        };
        write!(formatter, "{what} was measured {of} {}", self.why)
    }
}

impl SubExperimentResult {
    /// Reason that the results of its round do not count: it did not finish, or its path proof failed.
    pub fn trouble(&self) -> Option<String> {
        match self.status {
            RunStatus::Complete => self.failed_proof(),
            RunStatus::Failed => Some(self.error.clone().unwrap_or_else(|| "it failed".to_owned())),
            RunStatus::Planned | RunStatus::Running | RunStatus::Interrupted => Some("it did not finish".to_owned()),
        }
    }

    /// Reason not to trust its figures: a failed path proof (they measure another path), a failure (its cause may have
    /// affected them), or damaged messages, unless `allows_damage`.
    pub fn distrust(&self, allows_damage: bool) -> Option<String> {
        if let Some(why) = self.failed_proof() {
            return Some(format!("{why}; its figures do not measure this transport"));
        }
        if self.status == RunStatus::Failed {
            return Some(format!("it failed: {}", self.error.as_deref().unwrap_or("no reason was recorded")));
        }
        let damaged = self.damaged();
        let noun = if damaged == 1 { "message" } else { "messages" };
        (damaged > 0 && !allows_damage).then(|| format!("{damaged} {noun} came damaged (--allow-damage)"))
    }

    /// Planned payloads without messages for some offered load or topic, if the sub-experiment finished.
    pub fn unmeasured<'a>(&'a self, plan: &'a SubExperiment) -> impl Iterator<Item = UnmeasuredPayload> + 'a {
        let is_ended = self.status == RunStatus::Complete;
        let why = move |payload_bytes: u64| {
            let cell = self.cells.iter().find(|cell| cell.payload_bytes == payload_bytes)?;
            let has_messages = |trial: &Trial| trial.value(&Stream::all(), Figure::Sent) != Some(0.0);
            let measured = cell.trials.iter().filter(|trial| has_messages(trial)).count();
            // Each topic with its own size and rate was requested separately.
            let silent = cell.trials.iter().flat_map(Trial::silent_topics).next();
            let is_whole = measured == cell.trials.len() && measured >= plan.workload.loads.len() && silent.is_none();
            // The warm-up of round trips is part of the trial and of its sent messages.
            let lost = |trial: &Trial| {
                trial.count(&Stream::all(), Figure::Lost) + trial.count(&Stream::all(), Figure::Damaged)
            };
            let is_warm_up_only =
                plan.workload.is_round_trips() && cell.samples == 0 && cell.trials.iter().all(|trial| lost(trial) == 0);
            let size = size_text(payload_bytes, has_several_sizes(plan, &self.cells));
            let why = cell.cut_short.as_ref().map_or_else(|| "nothing was sent".to_owned(), ToString::to_string);
            (!is_whole || is_warm_up_only).then(|| UnmeasuredPayload {
                payload_bytes,
                is_partial: measured > 0 && !is_warm_up_only,
                is_topic: silent.is_some() && measured > 0,
                why: match silent.filter(|_| measured > 0) {
                    Some(topic) => format!("topic '{topic}': {why}"),
                    None => format!("{size}: {why}"),
                },
            })
        };
        plan.payloads.iter().copied().filter(move |_| is_ended).filter_map(why)
    }

    fn failed_proof(&self) -> Option<String> {
        let proof = self.path_proof.as_ref().filter(|proof| proof.verdict == Verdict::Failed)?;
        Some(format!("its path proof failed: claimed {}, seen: {}", proof.claim, proof.evidence))
    }
}

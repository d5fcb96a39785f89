//! Reasons that results do not count.

use crate::figure::Figure;
use crate::manifest::{RunStatus, SubExperimentResult, Verdict, has_several_sizes};
use crate::metric::Stream;
use crate::payload::size_text;
use crate::plan::SubExperiment;
use crate::trial::Trial;
use std::fmt;

/// Payload at which an offered load has no message.
pub struct UnmeasuredPayload {
    /// Size of the payload.
    pub payload_bytes: u64,
    /// True if another offered load has messages.
    pub is_partial: bool,
    /// True if a topic has none, though others have.
    pub is_topic: bool,
    /// Size or topic, and reason, as `1k: time cap of 2 s`.
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

    /// Reason not to trust its figures. A failed path proof: they are of something else. A failure: its cause may
    /// have begun before. Damaged messages, unless `allows_damage`.
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

    /// Planned payloads at which an offered load has no message, if it finished.
    pub fn unmeasured<'a>(&'a self, plan: &'a SubExperiment) -> impl Iterator<Item = UnmeasuredPayload> + 'a {
        let is_ended = self.status == RunStatus::Complete;
        let why = move |payload_bytes: u64| {
            let cell = self.cells.iter().find(|cell| cell.payload_bytes == payload_bytes)?;
            let has_messages = |trial: &Trial| trial.value(&Stream::all(), Figure::Sent) != Some(0.0);
            let measured = cell.trials.iter().filter(|trial| has_messages(trial)).count();
            // Each topic of its own size and rate is asked for by itself.
            let silent = cell.trials.iter().flat_map(Trial::silent_topics).next();
            let is_whole = measured == cell.trials.len() && measured >= plan.workload.loads.len() && silent.is_none();
            // Their warm-up is part of the trial, and of the messages sent.
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

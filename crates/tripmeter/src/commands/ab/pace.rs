//! Number of rounds of a comparison.

use super::found::{Found, RoundsSoFar};
use crate::args::AbArgs;
use std::time::{Duration, Instant};
use tripmeter_model::plan::Plan;
use tripmeter_stats::runs::Question;

/// Maximum number of rounds, however small the effect.
pub const MOST_PAIRS: u64 = 1000;

pub struct Pace {
    fixed: bool,
    effect: f64,
    /// Number of rounds that are measured even beyond the budget.
    first: u32,
    most: u64,
    budget: Duration,
    begin: Instant,
    /// Time that earlier processes spent before they were killed or interrupted.
    before: Duration,
    /// Estimated number of pairs that detects the effect in every figure.
    pub needed: Option<u64>,
    /// Reason why there are no more rounds; empty if as many were requested.
    pub stopped: &'static str,
}

impl Pace {
    pub fn new(args: &AbArgs, plan: &Plan, before: Duration) -> Self {
        Self {
            fixed: args.rounds.is_some(),
            effect: args.effect.0,
            first: plan.rounds,
            most: MOST_PAIRS.min(plan.most_rounds().into()),
            budget: Duration::from_secs_f64(args.budget),
            begin: Instant::now(),
            before,
            needed: None,
            stopped: "",
        }
    }

    /// Time spent on all rounds so far, without rounds cut off by a kill.
    pub fn spent(&self) -> Duration {
        self.before + self.begin.elapsed()
    }

    pub fn so_far(&self) -> RoundsSoFar {
        RoundsSoFar { needed: self.needed, stopped: self.stopped, spent: self.spent() }
    }

    /// Total number of rounds wanted; called before the first round and after each.
    ///
    /// It depends on the spread between runs, never on the ratio, and is computed seldom, so that stopping does not
    /// favour a verdict; see docs/method.md.
    pub fn rounds_wanted(&mut self, found: &Found<'_>, question: &Question) -> u32 {
        let (round, planned) = (found.rounds(), found.manifest.plan.rounds);
        if self.fixed || round < self.first {
            return planned;
        }
        if self.spent() + self.spent() / round > self.budget {
            self.stopped = "the budget is spent";
            return round;
        }
        if round < planned {
            return planned;
        }
        if found.comparisons.is_empty() {
            self.stopped = "no pair was measured";
            return round;
        }
        self.needed = found.needed(question, self.effect);
        let missing = self.needed.map_or(self.most, |needed| needed.saturating_sub(found.fewest_pairs()));
        let more = missing.min(round.into()).min(self.most.saturating_sub(round.into()));
        if more == 0 {
            self.stopped = if missing == 0 { "enough to detect the effect" } else { "the limit of rounds is reached" };
        }
        round + more as u32
    }
}

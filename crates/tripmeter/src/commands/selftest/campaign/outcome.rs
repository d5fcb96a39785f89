//! Counts and error rates of the comparisons of one kind.

use super::phase::Phase;
use serde_json::{Value, json};
use tripmeter_stats::binomial::{cdf, clopper_pearson, most_compatible};
use tripmeter_stats::median;

pub const FIGURES: [&str; 2] = ["median", "p99"];
/// Allowed rate of wrong verdicts, and the significance level of the test that there are more.
const FALSE_RATE: f64 = 0.05;
const ALPHA: f64 = 0.05;

pub struct PhaseOutcome {
    phase: Phase,
    made: u32,
    /// Comparisons with a side that failed in some rounds.
    pub failed: u32,
    /// Comparisons judged changed (with itself) or judged regressed by the median (with a delay), for each of
    /// [`FIGURES`].
    called: [u32; 2],
    /// Maximum allowed, or minimum required.
    limit: u32,
    pub good: bool,
    /// Medians over the comparisons.
    seen_from: Option<f64>,
    rounds: Option<f64>,
    seconds: Option<f64>,
    injected: Option<f64>,
    estimated: Option<f64>,
}

impl PhaseOutcome {
    /// Outcome of a phase from its lines. The full campaign must meet the required counts; fewer comparisons must not
    /// contradict them.
    pub fn from_lines(phase: &Phase, lines: &[&Value], full: bool) -> Self {
        let verdict = |line: &Value, figure: &str| line["verdicts"][figure]["verdict"].as_str().map(str::to_owned);
        let called = FIGURES.map(|figure| {
            let is_called = |line: &&&Value| {
                let verdict = verdict(line, figure);
                matches!((verdict.as_deref(), phase.injected), (Some("regressed"), _) | (Some("improved"), None))
            };
            lines.iter().filter(is_called).count() as u32
        });
        let made = lines.len() as u32;
        let (limit, good) = match phase.injected {
            None => {
                let limit = most_compatible(made.into(), FALSE_RATE, ALPHA) as u32;
                (limit, called.iter().all(|called| *called <= limit))
            }
            Some(_) if full => {
                let limit = (phase.required * f64::from(made)).ceil() as u32;
                (limit, called[0] >= limit)
            }
            Some(_) => {
                let is_too_few = |called: u32| cdf(called.into(), made.into(), phase.required) <= ALPHA;
                let limit = (0..=made).find(|called| !is_too_few(*called)).unwrap_or(made);
                (limit, called[0] >= limit)
            }
        };
        let numbers = |of: &dyn Fn(&Value) -> Option<f64>| {
            let numbers: Vec<f64> = lines.iter().filter_map(|line| of(line)).collect();
            median(&numbers)
        };
        Self {
            phase: phase.clone(),
            made,
            failed: lines.iter().filter(|line| line["failures"] != json!(0)).count() as u32,
            called,
            limit,
            good: good && made > 0,
            seen_from: numbers(&|line| line["verdicts"]["median"]["seen_from"].as_f64()),
            rounds: numbers(&|line| line["rounds"].as_f64()),
            seconds: numbers(&|line| line["seconds"].as_f64()),
            injected: numbers(&|line| line["injected"].as_f64()),
            estimated: numbers(&|line| line["verdicts"]["median"]["ratio"].as_f64()).map(|ratio| ratio - 1.0),
        }
    }

    pub fn json(&self) -> Value {
        let rate = |called: u32| {
            (self.made > 0).then(|| {
                let interval = clopper_pearson(called.into(), self.made.into(), ALPHA);
                [interval.low, interval.high]
            })
        };
        let is_same = self.phase.injected.is_none();
        json!({
            "phase": self.phase.id,
            "what": self.phase.what(),
            "comparisons": self.made,
            "planned": self.phase.number,
            "failed": self.failed,
            "called": { "median": self.called[0], "p99": self.called[1] },
            "clopper_pearson": { "median": rate(self.called[0]), "p99": rate(self.called[1]) },
            "at_most": is_same.then_some(self.limit),
            "at_least": (!is_same).then_some(self.limit),
            "margin": self.phase.margin,
            "injected": self.injected,
            "estimated": self.estimated,
            "rounds": self.rounds,
            "seconds": self.seconds,
            "seen_from": self.seen_from,
            "good": self.good,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(phase: &Phase, index: u32, median: &str, p99: &str) -> Value {
        json!({
            "phase": phase.id, "index": index, "rounds": 10, "seconds": 2.0, "failures": 0,
            "verdicts": { "median": { "verdict": median, "seen_from": 1.1 }, "p99": { "verdict": p99 } },
        })
    }

    fn outcome(phase: &Phase, lines: Vec<Value>, full: bool) -> PhaseOutcome {
        PhaseOutcome::from_lines(phase, &lines.iter().collect::<Vec<_>>(), full)
    }

    #[test]
    fn nine_false_alarms_of_a_hundred_are_allowed_and_ten_are_not() {
        let phase = &Phase::all(true, None)[0];
        for (wrong, good) in [(9, true), (10, false)] {
            let verdict = |index| if index <= wrong { "improved" } else { "inconclusive" };
            let lines = (1..=100).map(|index| line(phase, index, "equivalent", verdict(index))).collect();
            let found = outcome(phase, lines, true);
            assert_eq!((found.made, found.limit, found.called, found.good), (100, 9, [0, wrong], good));
        }
        assert!(!outcome(phase, Vec::new(), true).good, "nothing made is not good");
    }

    #[test]
    fn ninety_five_of_a_hundred_and_forty_of_fifty_are_required() {
        for (phase, required) in [(2, 95), (3, 40)] {
            let phase = &Phase::all(true, None)[phase];
            for (called, good) in [(required, true), (required - 1, false)] {
                let verdict = |index| if index <= called { "regressed" } else { "inconclusive" };
                let lines = (1..=phase.number).map(|index| line(phase, index, verdict(index), "improved")).collect();
                let found = outcome(phase, lines, true);
                assert_eq!((found.limit, found.called[0], found.good), (required, called, good));
            }
        }
        // Two detections out of three do not contradict the required share.
        let phase = &Phase::all(false, Some(3))[2];
        let lines =
            (1..=3).map(|index| line(phase, index, if index < 3 { "regressed" } else { "equivalent" }, "")).collect();
        assert!(outcome(phase, lines, false).good);
    }
}

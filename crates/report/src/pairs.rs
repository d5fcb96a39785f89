//! Both sides of an `ab`, judged as in its `ab.json`: same figures, rounds and question, all together.

use crate::document::Digits;
use crate::number::counted;
use crate::values::{capitalised, unit};
use crate::verdicts::percent;
use tripmeter_analysis::Selection;
use tripmeter_analysis::comparison::JudgedFigure;
use tripmeter_analysis::pairs::{Pairs, judged};
use tripmeter_model::figure::{Figure, Statistic, Unit};
use tripmeter_model::manifest::Manifest;
use tripmeter_model::pace::OfferedLoad;
use tripmeter_model::payload::at_text;
use tripmeter_stats::change::{ChangeVerdict, Control};
use tripmeter_stats::power::Layout;
use tripmeter_stats::runs::Question;

/// Names of the sub-experiments of an `ab`.
pub const SIDES: [&str; 2] = ["a", "b"];

/// Share up to which a change counts as none.
pub const MARGIN: f64 = 0.02;
/// Rate of false verdicts that is accepted.
pub const RATE: f64 = 0.05;

/// Question of `tripmeter ab`.
#[derive(Clone, Debug, PartialEq)]
pub struct AskedPairs {
    /// Figures that are judged; those of the headline if none is named.
    pub selection: Selection,
    /// Margin, error rate and power.
    pub question: Question,
    /// Change that should be detected, as a share.
    pub effect: f64,
}

impl Default for AskedPairs {
    /// Question of `tripmeter ab` without flags.
    fn default() -> Self {
        let control = Control::Fdr(RATE);
        let question = Question { layout: Layout::Paired, margin: MARGIN, control, power: 0.95 };
        Self { selection: Selection::default(), question, effect: 0.1 }
    }
}

/// Verdicts on the pairs of a manifest.
pub struct JudgedPairs {
    pub asked: AskedPairs,
    /// One for each figure that has ratios; their sub-experiment is the first side's.
    pub figures: Vec<JudgedFigure>,
    /// Number of figures without ratios.
    pub not_compared: usize,
}

impl JudgedPairs {
    /// Judges all requested figures together.
    pub fn from_manifest(manifest: &Manifest, asked: &AskedPairs) -> Self {
        let pairs = Pairs::from_manifest(manifest, SIDES);
        let paired = pairs.figures(&asked.selection);
        let figures = judged(&paired, &asked.question).unwrap_or_default();
        let not_compared = paired.iter().filter(|one| !one.has_ratios()).count();
        Self { asked: asked.clone(), figures, not_compared }
    }

    /// Verdict on a statistic of a panel's figure, if it was judged.
    pub fn verdict(
        &self,
        figure: Figure,
        statistic: Statistic,
        payload: u64,
        load: OfferedLoad,
    ) -> Option<ChangeVerdict> {
        let is_it = |one: &&JudgedFigure| {
            let address = &one.address;
            (address.figure, address.statistic, address.payload_bytes) == (figure, statistic, payload)
                && address.load == load
        };
        self.figures.iter().find(is_it).map(|one| one.comparison.judged.verdict)
    }

    /// Number of pairs, from the figure with the fewest to the one with the most.
    pub fn counts(&self) -> String {
        let counts = || self.figures.iter().map(|one| one.comparison.runs[0]);
        match (counts().min(), counts().max()) {
            (Some(least), Some(most)) if least < most => format!("{least} to {most} pairs of rounds"),
            (_, most) => format!("{} of rounds", counted(most.unwrap_or(0), "pair")),
        }
    }

    /// `slower` and `faster`, or `worse` and `better` if not all figures are latencies.
    fn words(&self) -> [&'static str; 2] {
        let is_latency = |one: &JudgedFigure| one.address.unit() == Unit::Ns;
        if self.figures.iter().all(is_latency) { ["slower", "faster"] } else { ["worse", "better"] }
    }

    /// Sentence on how many figures have each verdict.
    pub fn answer(&self, [a, b]: [&str; 2]) -> String {
        let all = self.figures.len();
        if all == 0 && self.not_compared > 0 {
            return "No figure was judged: each is 0 in at least one run, so it has no ratio.".to_owned();
        }
        if all == 0 {
            return "No pair of rounds was measured, so there is no verdict.".to_owned();
        }
        let [worse, better] = self.words();
        let margin = percent(self.asked.question.margin);
        let kinds = [
            (ChangeVerdict::Regressed, worse.to_owned()),
            (ChangeVerdict::Improved, better.to_owned()),
            (ChangeVerdict::Equivalent, format!("no change beyond {margin}")),
            (ChangeVerdict::Inconclusive, format!("it is undecided which is {better}")),
        ];
        let count = |kind| self.figures.iter().filter(|one| one.comparison.judged.verdict == kind).count();
        let told = |(kind, text): (ChangeVerdict, String)| match count(kind) {
            0 => None,
            _ if all == 1 => Some(format!("{text} in the only figure judged")),
            count => Some(format!("{text} in {count} of {all} figures")),
        };
        let parts: Vec<String> = kinds.into_iter().filter_map(told).collect();
        format!("{b} compared with {a}, over {}: {}.", self.counts(), parts.join(", "))
    }

    /// Verdicts on a panel's figure at a payload; `None` if none was judged there.
    pub fn sentence(&self, figure: Figure, payload: u64) -> Option<String> {
        self.some(figure, payload, usize::MAX)
    }

    /// Verdict on the first statistic of a figure, which is its median by default.
    pub fn first(&self, figure: Figure, payload: u64) -> Option<String> {
        self.some(figure, payload, 1)
    }

    fn some(&self, figure: Figure, payload: u64, most: usize) -> Option<String> {
        let is_here = |one: &&JudgedFigure| (one.address.figure, one.address.payload_bytes) == (figure, payload);
        let here: Vec<&JudgedFigure> = self.figures.iter().filter(is_here).take(most).collect();
        let at = capitalised(&at_text(payload, here.first()?.address.has_several_sizes));
        let parts: Vec<String> = here.into_iter().map(|one| self.part(one)).collect();
        Some(format!("{at}, {}.", parts.join("; ")))
    }

    /// Verdict on one figure: `p50 of rtt_half is 2.73 µs with a and 5.74 µs with b, ×1.84 (1.73 to 2.36): slower`.
    fn part(&self, one: &JudgedFigure) -> String {
        let address = &one.address;
        let name = crate::values::name(address.figure);
        let name = if address.statistic == Statistic::Value {
            name.to_owned()
        } else {
            format!("{} of {name}", address.statistic)
        };
        let load = if address.load == OfferedLoad::Closed { String::new() } else { format!(" at {}", address.load) };
        let (factor, unit) = unit(address.figure);
        let digits = |value: f64| Digits::Significant(3).write(value);
        let [a, b] = one.comparison.sides.map(|value| format!("{} {unit}", digits(factor * value)));
        let judged = &one.comparison.judged;
        let interval = match judged.interval.filter(|one| one.low.is_finite() && one.high.is_finite()) {
            Some(interval) => format!("{} to {}", digits(interval.low), digits(interval.high)),
            None => {
                let (pairs, all) = (counted(one.comparison.runs[0], "pair"), self.figures.len());
                format!("no interval: {pairs}, too few for {} judged together", counted(all, "figure"))
            }
        };
        let [worse, better] = self.words();
        let verdict = match judged.verdict {
            ChangeVerdict::Regressed => worse.to_owned(),
            ChangeVerdict::Improved => better.to_owned(),
            ChangeVerdict::Equivalent => format!("no change beyond {}", percent(self.asked.question.margin)),
            ChangeVerdict::Inconclusive => "undecided".to_owned(),
        };
        format!("{name}{load} is {a} with a and {b} with b, ×{} ({interval}): {verdict}", digits(judged.ratio))
    }
}

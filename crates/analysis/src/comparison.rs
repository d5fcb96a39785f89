//! Comparison of an experiment with a reference, by a threshold or by the ranks of several runs.

use crate::results::{JudgedResults, SubStanding};
use crate::selection::{Selected, Selection, missing, too_few, too_few_anywhere};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use tripmeter_model::address::FigureAddress;
use tripmeter_model::figure::{Better, Figure};
use tripmeter_model::verdict::FigureVerdict;
use tripmeter_stats::change::ChangeVerdict;
use tripmeter_stats::runs::{Comparison, Question, Sides, compare, runs_needed};
use tripmeter_stats::{Error, median};

/// Figure of both sides, over all rounds of each side.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedFigure {
    /// Address of the figure.
    pub address: FigureAddress,
    /// Value of the reference, if it has one.
    pub reference: Option<f64>,
    /// Value of the results, if they have one.
    pub result: Option<f64>,
    /// `Passed` if not beyond the threshold, `Failed` if beyond it or not a number, `Inconclusive` if clock errors or too
    /// few samples leave it open, `Missing` without a result, `New` without a reference.
    pub outcome: FigureVerdict,
}

impl ComparedFigure {
    /// Increase of the result, as a share of the reference.
    pub fn increase(&self) -> Option<f64> {
        let (reference, result) = (self.reference?, self.result?);
        Some((result - reference) / reference)
    }

    /// Change for the worse of the result, as a share of the reference.
    pub fn share_worse(&self) -> Option<f64> {
        self.increase().map(|increase| if is_better_if_more(&self.address) { -increase } else { increase })
    }
}

fn is_better_if_more(address: &FigureAddress) -> bool {
    address.figure.better() == Better::Higher
}

/// Sub-experiment that both sides have.
#[derive(Clone, Debug)]
pub struct ComparedSub {
    /// Name.
    pub name: String,
    /// Figures that at least one side has.
    pub compared: Vec<ComparedFigure>,
    /// Reason to fail even if all comparisons pass.
    pub distrust: Option<String>,
    /// Other notes, a line each.
    pub notes: Vec<String>,
}

impl ComparedSub {
    /// Number of comparisons with this outcome.
    pub fn count(&self, outcome: FigureVerdict) -> usize {
        self.compared.iter().filter(|one| one.outcome == outcome).count()
    }

    /// True if no figure is worse than in the reference or missing; if `strict`, also none inconclusive or new.
    pub fn passed(&self, strict: bool) -> bool {
        let bad = self.count(FigureVerdict::Failed) + self.count(FigureVerdict::Missing);
        let unclear = self.count(FigureVerdict::New) + self.count(FigureVerdict::Inconclusive);
        self.distrust.is_none() && bad == 0 && !(strict && unclear > 0)
    }

    /// Figure with the largest change for the worse, among those that fail, else among inconclusive ones, else all.
    pub fn worst(&self) -> Option<&ComparedFigure> {
        let share = |one: &ComparedFigure| one.share_worse().filter(|share| !share.is_nan());
        let badness = |one: &ComparedFigure| (Reverse(one.outcome), share(one).unwrap_or(f64::NEG_INFINITY));
        let on_both = self.compared.iter().filter(|one| one.increase().is_some());
        on_both.max_by(|a, b| {
            let (a, b) = (badness(a), badness(b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        })
    }
}

/// Comparison of two experiments by a threshold.
#[derive(Clone, Debug, Default)]
pub struct ByThreshold {
    /// Sub-experiments that both sides have.
    pub both: Vec<ComparedSub>,
    /// Lines about transports of either side that were requested by name and could not run.
    pub could_not_run: Vec<String>,
    /// Sub-experiments, payloads and loads, or figures that only the reference has.
    pub missing: Vec<String>,
    /// Sub-experiments, payloads with loads, and figures that only the results have.
    pub new: Vec<String>,
}

impl ByThreshold {
    /// Compares all selected figures. A figure fails if result > reference * (1 + threshold), or, where higher is
    /// better, if result < reference / (1 + threshold). It is inconclusive, and does not fail, if clock errors leave
    /// this open, or if a passing percentile has too few samples.
    pub fn new([reference, results]: [&JudgedResults; 2], selection: &Selection, threshold: f64) -> Self {
        let tables = [reference, results].map(JudgedResults::table);
        let [of_reference, of_results] = tables.each_ref().map(|table| selection.select(table));
        let [known, found] = [&of_reference, &of_results]
            .map(|all| all.iter().map(|one| (&one.address, one)).collect::<HashMap<&FigureAddress, &Selected>>());
        let is_new = |one: &&Selected| !known.contains_key(&one.address);
        let all: Vec<&FigureAddress> =
            of_reference.iter().chain(of_results.iter().filter(is_new)).map(|one| &one.address).collect();
        let mut made = Self::default();
        for name in reference.names().into_iter().filter(|name| results.plan(name).is_some()) {
            let of_sub: Vec<&FigureAddress> =
                all.iter().copied().filter(|address| address.sub_experiment == name).collect();
            let needs = |address: &FigureAddress| {
                [known.get(address), found.get(address)].into_iter().flatten().filter_map(|one| one.needs).max()
            };
            let compared = of_sub.iter().map(|address| {
                let sides = [known.get(address), found.get(address)];
                let [reference, result] = sides.map(|one| one.map(|one| one.value));
                let errors = sides.map(|one| one.map_or(0.0, |one| one.error));
                let outcome = match outcome([reference, result], errors, is_better_if_more(address), threshold) {
                    FigureVerdict::Passed if needs(address).is_some() => FigureVerdict::Inconclusive,
                    outcome => outcome,
                };
                ComparedFigure { address: (*address).clone(), reference, result, outcome }
            });
            let compared = compared.collect();
            let judged = selection.asked_for(of_sub.clone());
            let SubStanding { distrust, mut notes } = results.standing(name, &tables[1], &judged);
            let of_reference = reference.standing(name, &tables[0], &judged);
            let in_reference = |why: String| format!("in the reference, {why}");
            let distrust = distrust.or(of_reference.distrust.map(in_reference));
            notes.extend(of_reference.notes.into_iter().map(in_reference));
            notes.extend(too_few(of_sub.iter().filter_map(|address| Some((*address, needs(address)?)))));
            made.both.push(ComparedSub { name: name.to_owned(), compared, distrust, notes });
        }
        made.could_not_run = could_not_run([reference, results]);
        made.missing = one_sided([reference, results], [&of_reference, &of_results]);
        made.new = one_sided([results, reference], [&of_results, &of_reference]);
        made
    }

    /// True if no figure is worse than in the reference or missing; if `strict`, only if nothing is new either, and all
    /// transports could run.
    pub fn passed(&self, strict: bool) -> bool {
        let is_whole = !strict || self.new.is_empty() && self.could_not_run.is_empty();
        is_whole && self.missing.is_empty() && self.both.iter().all(|one| one.passed(strict))
    }

    /// True if no figure was compared.
    pub fn is_empty(&self) -> bool {
        let mut all = self.both.iter().flat_map(|one| &one.compared);
        !all.any(|one| one.outcome != FigureVerdict::New)
    }
}

/// Lines about transports that could not run, on either side.
fn could_not_run([reference, results]: [&JudgedResults; 2]) -> Vec<String> {
    let in_reference = reference.not_measured().into_iter().map(|line| format!("in the reference, {line}"));
    results.not_measured().into_iter().chain(in_reference).collect()
}

/// Items that one side has and the other lacks: planned sub-experiments first, then figures of those that both planned.
fn one_sided([one, other]: [&JudgedResults; 2], figures: [&[Selected]; 2]) -> Vec<String> {
    let planned = one.names().into_iter().filter(|name| other.plan(name).is_none()).map(str::to_owned);
    let mut told: Vec<String> = planned.collect();
    for what in missing(figures[0], figures[1]) {
        if !told.contains(&what) {
            told.push(what);
        }
    }
    told
}

fn outcome(sides: [Option<f64>; 2], errors: [f64; 2], is_better_if_more: bool, threshold: f64) -> FigureVerdict {
    match sides {
        [None, _] => FigureVerdict::New,
        [_, None] => FigureVerdict::Missing,
        [Some(reference), Some(result)] => {
            let [less, more] = if is_better_if_more { [result, reference] } else { [reference, result] };
            let [less_off, more_off] = if is_better_if_more { [errors[1], errors[0]] } else { errors };
            match [-1.0, 1.0].map(|sign| is_within(less - sign * less_off, more + sign * more_off, threshold)) {
                [true, true] => FigureVerdict::Passed,
                [true, false] => FigureVerdict::Inconclusive,
                [false, _] => FigureVerdict::Failed,
            }
        }
    }
}

/// True if the result is larger by at most the threshold. A result exactly at the threshold is within, with slack for
/// rounding errors of fractions such as 1.1.
fn is_within(reference: f64, result: f64, threshold: f64) -> bool {
    result <= reference * (1.0 + threshold) * (1.0 + 4.0 * f64::EPSILON)
}

/// Verdict on a figure of both sides, over several runs each.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgedFigure {
    /// Address of the figure.
    pub address: FigureAddress,
    /// Values of both sides, their ratio and the verdict.
    pub comparison: Comparison,
    /// False for a percentile with too few samples for an upper bound; more runs do not help then.
    pub is_bounded: bool,
}

impl JudgedFigure {
    /// Judges all figures together, each with the values of both sides and their largest errors. Fails and panics as
    /// [`compare`].
    pub fn all(cells: Vec<(FigureAddress, [Vec<f64>; 2], [f64; 2])>, question: &Question) -> Result<Vec<Self>, Error> {
        let (addresses, sides): (Vec<FigureAddress>, Vec<Sides>) = cells
            .into_iter()
            .map(|(address, values, errors)| {
                let is_better_if_more = is_better_if_more(&address);
                (address, Sides { values, errors, is_better_if_more })
            })
            .unzip();
        let compared = compare(&sides, question)?;
        Ok(addresses
            .into_iter()
            .zip(compared)
            .map(|(address, comparison)| Self { address, comparison, is_bounded: true })
            .collect())
    }

    /// Figure that varies most from run to run, with the number of runs from [`runs_needed`] that detects a change by
    /// the share `effect` in it.
    pub fn hardest<'a>(all: &'a [Self], question: &Question, effect: f64) -> Option<(&'a Self, Option<u64>)> {
        let bounded: Vec<&Self> = all.iter().filter(|one| one.is_bounded).collect();
        let comparisons: Vec<Comparison> = bounded.iter().map(|one| one.comparison.clone()).collect();
        let (place, needed) = runs_needed(&comparisons, question, effect)?;
        Some((bounded[place], needed))
    }

    /// Makes verdicts other than a regression inconclusive, for a percentile with too few samples.
    #[must_use]
    pub(crate) fn if_bounded(mut self, is_bounded: bool) -> Self {
        self.is_bounded = is_bounded;
        if !is_bounded && !self.is_regressed() {
            self.comparison.judged.verdict = ChangeVerdict::Inconclusive;
        }
        self
    }

    /// Verdict on the change.
    pub fn verdict(&self) -> FigureVerdict {
        self.comparison.judged.verdict.into()
    }

    /// True for a regression.
    pub fn is_regressed(&self) -> bool {
        self.verdict() == FigureVerdict::Regressed
    }
}

/// Loss whose median over the rounds is 0 although messages were lost.
#[derive(Clone, Debug, PartialEq)]
pub struct RareLoss {
    /// Address of the loss.
    pub address: FigureAddress,
    /// True for a loss in the results, false for one in the reference.
    pub is_result: bool,
    /// Lost share of all messages.
    pub share: f64,
    /// Number of rounds with losses, and number of all rounds.
    pub rounds: [usize; 2],
}

impl RareLoss {
    fn all(sides: [&[Selected]; 2]) -> Vec<Self> {
        let of_side = |(side, is_result): (&[Selected], bool)| {
            let losses = side.iter().filter(|one| one.address.figure == Figure::LossShare);
            let rare = losses.filter(|one| one.value > 0.0 && median(&one.values()) == Some(0.0));
            let of_one = |one: &Selected| Self {
                address: one.address.clone(),
                is_result,
                share: one.value,
                rounds: [one.rounds.iter().filter(|(_, share)| *share > 0.0).count(), one.rounds.len()],
            };
            rare.map(of_one).collect::<Vec<_>>()
        };
        [(sides[0], false), (sides[1], true)].into_iter().flat_map(of_side).collect()
    }
}

/// Comparison of two experiments with several rounds each, by the ranks of their rounds.
#[derive(Clone, Debug)]
pub struct ByRuns {
    /// Parameters of the comparison.
    pub question: Question,
    /// Judged figures, by sub-experiment.
    pub judgements: Vec<JudgedFigure>,
    /// Lines about rounds that do not count.
    pub failures: Vec<String>,
    /// Reasons to fail even without a regression, a line each.
    pub missed: Vec<String>,
    /// Line about percentiles with too few samples for an upper bound, which are inconclusive unless they regressed.
    pub too_few: Option<String>,
    /// Lines about transports of either side that were requested by name and could not run.
    pub could_not_run: Vec<String>,
    /// Other notes, a line each.
    pub notes: Vec<String>,
    /// Figures that are 0 in every run of both sides: unchanged, and not compared.
    pub always_zero: Vec<FigureAddress>,
    /// Losses that do not show in the medians.
    pub rare_losses: Vec<RareLoss>,
    /// Sub-experiments, payloads and loads, or figures that only the reference has.
    pub missing: Vec<String>,
    /// Sub-experiments, payloads and loads, or figures that only the results have.
    pub new: Vec<String>,
}

impl ByRuns {
    /// Compares both sides in all selected figures, using only rounds without trouble. Fails as [`compare`].
    pub fn new(
        [reference, results]: [&JudgedResults; 2],
        selection: &Selection,
        question: Question,
    ) -> Result<Self, Error> {
        let tables = [reference, results].map(JudgedResults::whole);
        let sides = tables.each_ref().map(|table| selection.select(table));
        let found: HashMap<&FigureAddress, &Selected> = sides[1].iter().map(|one| (&one.address, one)).collect();
        let (mut cells, mut always_zero) = (Vec::new(), Vec::new());
        for one in &sides[0] {
            let Some(other) = found.get(&one.address) else { continue };
            let values = [one, *other].map(Selected::values);
            match values.iter().flatten().all(|value| *value == 0.0) {
                true => always_zero.push(one.address.clone()),
                false => cells.push((one.address.clone(), values, [one.error, other.error])),
            }
        }
        let asked_for = selection.asked_for(sides[0].iter().map(|one| &one.address).collect());
        let (mut missed, mut notes) = (Vec::new(), Vec::new());
        for ((side, table), word) in [reference, results].iter().zip(&tables).zip(["reference", "results"]) {
            for name in side.names() {
                let told = |why: String| format!("{name}, in the {word}: {why}");
                let SubStanding { notes: own, .. } = side.standing(name, table, &asked_for);
                notes.extend(own.into_iter().map(told));
                let [own, _] = table.missed_rates(name, &asked_for);
                missed.extend(own.into_iter().map(|(_, why)| why).chain(side.unmeasured(name)).map(told));
            }
        }
        let needs = |one: &Selected| {
            let other = found.get(&one.address)?;
            one.needs.max(other.needs)
        };
        let unbounded: HashSet<&FigureAddress> =
            sides[0].iter().filter(|one| needs(one).is_some()).map(|one| &one.address).collect();
        let judged = |one: JudgedFigure| {
            let is_bounded = !unbounded.contains(&one.address);
            one.if_bounded(is_bounded)
        };
        Ok(Self {
            question,
            judgements: JudgedFigure::all(cells, &question)?.into_iter().map(judged).collect(),
            failures: [reference.failures("reference"), results.failures("results")].concat(),
            missed,
            could_not_run: could_not_run([reference, results]),
            too_few: too_few_anywhere(sides[0].iter().filter_map(|one| Some((&one.address, needs(one)?)))),
            notes,
            always_zero,
            rare_losses: RareLoss::all([&sides[0], &sides[1]]),
            missing: one_sided([reference, results], [&sides[0], &sides[1]]),
            new: one_sided([results, reference], [&sides[1], &sides[0]]),
        })
    }

    /// True if no figure regressed or is missing; if `strict`, only if nothing is new either, all transports could run,
    /// and no percentile has too few samples.
    pub fn passed(&self, strict: bool) -> bool {
        let regressed = self.judgements.iter().any(JudgedFigure::is_regressed);
        let is_whole = self.new.is_empty() && self.could_not_run.is_empty();
        let is_unclear = strict && (!is_whole || self.too_few.is_some());
        !regressed && self.missed.is_empty() && self.missing.is_empty() && !is_unclear
    }

    /// True if both sides have no figure in common.
    pub fn is_empty(&self) -> bool {
        self.judgements.is_empty() && self.always_zero.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equality_with_the_limit_passes_and_a_thousandth_more_fails() {
        let of = |reference, result, threshold| outcome([Some(reference), Some(result)], [0.0; 2], false, threshold);
        for thousandths in (1..3_000_000_u64).step_by(101) {
            let decimal =
                |thousandths: u64| format!("{}.{:03}", thousandths / 1000, thousandths % 1000).parse::<f64>().unwrap();
            let (reference, limit) = (decimal(thousandths * 10), decimal(thousandths * 11));
            assert_eq!(of(reference, limit, 0.1), FigureVerdict::Passed, "{reference}");
            assert_eq!(of(reference, decimal(thousandths * 11 + 1), 0.1), FigureVerdict::Failed, "{reference}");
        }
        assert_eq!((of(2.0, 2.0, 0.0), of(2.0, 2.001, 0.0)), (FigureVerdict::Passed, FigureVerdict::Failed));
        assert_eq!((of(0.0, 0.0, 0.1), of(0.0, 0.001, 0.1)), (FigureVerdict::Passed, FigureVerdict::Failed));
        assert_eq!((of(1.0, f64::NAN, 0.1), of(f64::NAN, 1.0, 0.1)), (FigureVerdict::Failed, FigureVerdict::Failed));
    }

    #[test]
    fn less_is_worse_of_rates_and_a_loss_fails_where_there_was_none() {
        use FigureVerdict::{Failed, Passed};
        let rate = |reference, result| outcome([Some(reference), Some(result)], [0.0; 2], true, 0.1);
        assert_eq!((rate(1100.0, 1000.0), rate(1100.0, 999.0), rate(1100.0, 9999.0)), (Passed, Failed, Passed));
        assert_eq!((rate(1100.0, 0.0), rate(0.0, 1100.0), rate(0.0, 0.0)), (Failed, Passed, Passed));
        let loss = |reference, result| outcome([Some(reference), Some(result)], [0.0; 2], false, 0.1);
        assert_eq!((loss(0.0, 0.0), loss(0.0, 1e-9), loss(0.5, 0.0)), (Passed, Failed, Passed));
    }

    #[test]
    fn losses_of_a_few_rounds_are_told_with_the_share_of_all_messages() {
        use crate::selection::tests::trial;
        use crate::table::Builder;
        let side = |lost: [u64; 3]| {
            let mut builder = Builder::new(vec!["a".to_owned()]);
            (1..).zip(lost).for_each(|(round, lost)| builder.add("a", round, 1024, trial(1.0, 2.0, lost)));
            Selection::default().select(&builder.build())
        };
        let found = RareLoss::all([&side([0, 0, 0]), &side([0, 30, 0])]);
        assert_eq!(found.len(), 1);
        let RareLoss { address, is_result, share, rounds } = &found[0];
        assert_eq!(
            (address.to_string().as_str(), *is_result, *share, *rounds),
            ("a at 1k: loss_share", true, 0.1, [1, 3])
        );
        assert_eq!(RareLoss::all([&side([5, 30, 0]), &side([7, 7, 7])]), [], "their medians show them");
    }

    #[test]
    fn what_one_side_lacks_is_missing_or_new() {
        assert_eq!(outcome([None, Some(1.0)], [0.0; 2], true, 0.1), FigureVerdict::New);
        assert_eq!(outcome([Some(1.0), None], [0.0; 2], true, 0.1), FigureVerdict::Missing);
    }

    #[test]
    fn what_two_clocks_do_not_tell_apart_is_inconclusive() {
        use FigureVerdict::{Failed, Inconclusive, Passed};
        let of = |result, errors| outcome([Some(100.0), Some(result)], errors, false, 0.1);
        assert_eq!([90.0, 111.0].map(|result| of(result, [0.0; 2])), [Passed, Failed]);
        assert_eq!(
            [90.0, 109.0, 111.0, 130.0].map(|result| of(result, [5.0, 3.0])),
            [Passed, Inconclusive, Inconclusive, Failed]
        );
        let rate = |result| outcome([Some(110.0), Some(result)], [1.0, 1.0], true, 0.1);
        assert_eq!([103.0, 99.0, 97.0].map(rate), [Passed, Inconclusive, Failed]);
    }
}
